"""The folder with this person's own settings on this machine, outside every study: trusted models and consents."""

from __future__ import annotations

import os
from pathlib import Path


def user_folder() -> Path:
    """Return the folder: `blindspot` in $XDG_CONFIG_HOME, else in ~/.config.

    A relative $XDG_CONFIG_HOME is ignored, as its specification says: it could lead into a stranger's study.
    """
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".config") / "blindspot"

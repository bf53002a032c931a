"""`blindspot settings`: the settings of the study."""

from __future__ import annotations

from typing import Any

from blindspot.app.commands.common import StudyOption, open_study
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.settings import Settings, change_settings

OFFERED = ("name", "seed", "k", "unit")


@takes_settings(Settings, names=OFFERED)
def settings(settings: dict[str, Any], study: StudyOption = None) -> None:
    """Show the settings of the study itself, or change those that are named."""
    opened = open_study(study)
    if settings:
        change_settings(opened.settings_path, settings)
    now = opened.settings
    for name in OFFERED:
        print(f"{declared_settings(Settings)[name].title}: {getattr(now, name)}")

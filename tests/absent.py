"""Hide installed packages from imports, as if they were not installed."""

from __future__ import annotations

import sys

from blindspot.backend.core.extras import _MissingImports


class _Without:
    """A finder that does not find some packages."""

    def __init__(self, finder, packages):
        self._finder, self._packages = finder, packages

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self._packages else self._finder.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self._finder, name)


def hide(monkeypatch, *packages: str) -> None:
    """Hide these packages for the rest of a test. Blindspot's own finder still says which extra brings them."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        monkeypatch.delitem(sys.modules, name)
    finders = [
        finder if isinstance(finder, _MissingImports) else _Without(finder, packages) for finder in sys.meta_path
    ]
    monkeypatch.setattr(sys, "meta_path", finders)

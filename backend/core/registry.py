"""Registries of named entries, one for each kind: retrievers, formats, losses and so on. Each entry is registered in
the file that defines it.

A registry imports its own modules when somebody first asks for an entry. Installed packages add entries through an
entry point group. Each entry point names an entry, its class, or a module that registers its entries when it is
imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from blindspot.backend.core.extras import MissingExtra
from blindspot.db.errors import Refused

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind, by name.

    Args:
        noun: one entry, as error lines call it: "retriever".
        package: the package whose modules register the built-in entries. The registry imports all of them.
        modules: further modules that register built-in entries, outside the package of the registry.
        group: the entry point group through which installed packages add entries.
        name: gives the name of an entry; default its attribute `name`.
        order: sort key of the entries; default the order of registration, which is alphabetical by module.
        check: raises for what an entry point names and is not a usable entry; its message says why.
    """

    def __init__(
        self,
        noun: str,
        *,
        package: str | None = None,
        modules: Sequence[str] = (),
        group: str | None = None,
        name: Callable[[T], str] = lambda entry: entry.name,  # type: ignore[attr-defined]
        order: Callable[[T], Any] | None = None,
        check: Callable[[object], None] | None = None,
    ):
        self.what, self.group = noun, group
        self._package, self._modules = package, tuple(modules)
        self._name, self._order, self._check = name, order, check
        self._entries: dict[str, T] = {}
        self._loaded = self._is_loading = False
        self._lock = threading.RLock()
        self.failures: list[str] = []
        """One line for each entry point that did not load."""
        self.unavailable: list[str] = []
        """One line for each built-in module that needs an extra."""

    def register(self, entry: T) -> T:
        """Add an entry. Raises Refused for a name that another entry has."""
        name = self._name(entry)
        if self._entries.setdefault(name, entry) is not entry:
            raise Refused(f"there are two {self.what}s named {name!r}; uninstall or rename one of them")
        return entry

    def all(self) -> tuple[T, ...]:
        """Return every entry, built-in ones first unless the registry sorts them."""
        self._load()
        entries = tuple(self._entries.values())
        return entries if self._order is None else tuple(sorted(entries, key=self._order))

    def names(self) -> list[str]:
        """Return the name of every entry, in the order of `all`."""
        return [self._name(entry) for entry in self.all()]

    def find(self, name: str) -> T | None:
        """Return the entry of that name, or None."""
        self._load()
        return self._entries.get(name)

    def get(self, name: str) -> T:
        """Return the entry of that name. For an unknown name, raises Refused and lists the known names."""
        entry = self.find(name)
        if entry is None:
            known = [f"unknown {self.what} {name!r}; known: {', '.join(self.names())}", *self.unavailable]
            raise Refused("; ".join(known))
        return entry

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def __iter__(self) -> Iterator[T]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self.all())

    def _load(self) -> None:
        if self._loaded:
            return
        with self._lock:
            if self._loaded or self._is_loading:
                return  # an entry may ask for the others while its module is imported
            self._is_loading = True
            try:
                for module in (*self._modules, *self._modules_of_package()):
                    self._import(module)
                if self.group is not None:
                    self._load_entry_points(self.group)
                self._loaded = True
            finally:
                self._is_loading = False

    def _import(self, module: str) -> None:
        try:
            importlib.import_module(module)
        except MissingExtra as error:  # its entries are not there, and `get` says which extra to install
            self.unavailable.append(str(error))

    def _modules_of_package(self) -> list[str]:
        if self._package is None:
            return []
        package = importlib.import_module(self._package)
        return [f"{self._package}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]

    def _load_entry_points(self, group: str) -> None:
        from importlib.metadata import entry_points

        for point in sorted(entry_points(group=group), key=lambda point: point.name):
            try:
                self._register_loaded(point.load())
            except Exception as error:  # continue with the others, whatever a foreign package raises
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                package = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
                line = f"cannot load the {self.what} {point.name!r}{package} ({point.value}): {reason}"
                self.failures.append(line)
                print(f"blindspot: {line}; update or uninstall the package. Everything else works", file=sys.stderr)

    def _register_loaded(self, plugin: object) -> None:
        from types import ModuleType

        if isinstance(plugin, ModuleType):
            return  # it has registered its entries
        if isinstance(plugin, (list, tuple)):
            for each in plugin:
                self._register_loaded(each)
            return
        if isinstance(plugin, type):
            plugin = plugin()
        if self._check is not None:
            self._check(plugin)
        self.register(plugin)  # type: ignore[arg-type]


def instance_check(kind: type) -> Callable[[object], None]:
    """Return a check that raises TypeError unless an entry is an instance of a class."""

    def check(entry: object) -> None:
        if not isinstance(entry, kind):
            raise TypeError(f"{type(entry).__name__} is not a {kind.__name__}")

    return check

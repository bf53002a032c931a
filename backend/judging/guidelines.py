"""The judging guidelines: Markdown in the study, or the default. Each label records the version of the guidelines in
force.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from blindspot.backend.core.manifest import write_text

FILE = "guidelines.md"
VERSIONS = "guidelines"
_DEFAULT = Path(__file__).with_name(FILE)


@dataclass(frozen=True, slots=True)
class Guidelines:
    """The guidelines in force.

    Attributes:
        version: The first 12 hex digits of the text's sha256.
        text: Markdown.
    """

    version: str
    text: str

    def blocks(self) -> list[dict[str, Any]]:
        """Return headings ("h2", "h3"), paragraphs ("p") and lists ("list", with items); emphasis stays Markdown."""
        return [block for part in self.text.split("\n\n") if (block := _block(part.strip()))]


def guidelines(folder: Path) -> Guidelines:
    """Return the guidelines of a study: its `guidelines.md`, or the default.

    Store the version in `guidelines/` of the study, so that the text that a label names can be read later.
    """
    own = folder / FILE
    path = own if own.is_file() else _DEFAULT
    current = _read(str(path), path.stat().st_mtime_ns)
    stored = folder / VERSIONS / f"{current.version}.md"
    try:
        if _version_in(stored) != current.version:  # missing, or truncated by a full disk or a crash
            stored.parent.mkdir(exist_ok=True)
            write_text(stored, current.text)
    except OSError:
        # On a full or read-only disk the label store refuses labels with a message. The next call tries again.
        pass
    return current


def version_of(text: str) -> str:
    """Return the version of a guidelines text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _version_in(path: Path) -> str | None:
    """Return the version of a stored text; None if there is no such file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _version_of_file(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _version_of_file(path: str, changed: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Guidelines:
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return Guidelines(version_of(text), text)


def _block(part: str) -> dict[str, Any] | None:
    if not part:
        return None
    if part.startswith("#"):
        level = len(part) - len(part.lstrip("#"))
        return {"kind": "h2" if level == 1 else "h3", "text": part.lstrip("# ").replace("\n", " ")}
    if part.startswith("- "):
        return {"kind": "list", "items": [item.replace("\n", " ").strip() for item in part[2:].split("\n- ")]}
    return {"kind": "p", "text": part.replace("\n", " ")}

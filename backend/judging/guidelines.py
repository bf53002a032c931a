"""The guidelines by which people judge: Markdown in the study, else the default. Every label names the version it was given by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

FILE = "guidelines.md"
VERSIONS = "guidelines"
_DEFAULT = Path(__file__).with_name(FILE)


@dataclass(frozen=True, slots=True)
class Guidelines:
    """version: the beginning of the text's sha256. text: Markdown."""

    version: str
    text: str

    def blocks(self) -> list[dict[str, Any]]:
        """Headings ("h2", "h3"), paragraphs ("p") and lists ("list", with items); emphasis stays as it is written."""
        return [block for part in self.text.split("\n\n") if (block := _block(part.strip()))]


def guidelines(folder: Path) -> Guidelines:
    """The guidelines in force in a study: its `guidelines.md`, else ours.

    A version is kept in `guidelines/` of the study as soon as it is asked for, so that what a label names can be read later.
    """
    own = folder / FILE
    path = own if own.is_file() else _DEFAULT
    found = _read(str(path), path.stat().st_mtime_ns)
    kept = folder / VERSIONS / f"{found.version}.md"
    if not kept.is_file():
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(found.text, encoding="utf-8")
    return found


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Guidelines:
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return Guidelines(hashlib.sha256(text.encode()).hexdigest()[:12], text)


def _block(part: str) -> dict[str, Any] | None:
    if not part:
        return None
    if part.startswith("#"):
        level = len(part) - len(part.lstrip("#"))
        return {"kind": "h2" if level == 1 else "h3", "text": part.lstrip("# ").replace("\n", " ")}
    if part.startswith("- "):
        return {"kind": "list", "items": [item.replace("\n", " ").strip() for item in part[2:].split("\n- ")]}
    return {"kind": "p", "text": part.replace("\n", " ")}

"""The judging guidelines: a Markdown file in the study, or the default text. Each label records the version of the
guidelines at that time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import write_text
from blindspot.backend.core.require_right import require
from blindspot.db.descriptions import Descriptions
from blindspot.db.errors import BadInput
from blindspot.db.names import text_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.tree import SyntaxTreeNode

    from blindspot.backend.core.study import Study

FILE = "guidelines.md"
VERSIONS = "guidelines"
ACTION = "edit guidelines"
MAX_TEXT = 50_000
_DEFAULT = Path(__file__).with_name(FILE)


@dataclass(frozen=True, slots=True)
class Guidelines:
    """The current guidelines of a study.

    Attributes:
        version: The first 12 hex digits of the text's sha256.
        text: Markdown.
    """

    version: str
    text: str

    def as_elements(self) -> list[Any]:
        """Return the text as elements for a browser: [tag, attributes, *children], or a string. HTML in the text is
        shown as plain text.
        """
        return _tree(self.text)


def guidelines(folder: Path) -> Guidelines:
    """Return the guidelines of a study: its `guidelines.md`, or the default.

    The text is also stored under its version in the study's folder `guidelines/`, so that the guidelines recorded in a
    label can be read later.
    """
    own = folder / FILE
    path = own if own.is_file() else _DEFAULT
    current = _read_guidelines(str(path), path.stat().st_mtime_ns)
    stored = folder / VERSIONS / f"{current.version}.md"
    try:
        if _version_in(stored) != current.version:  # missing, or truncated by a full disk or a crash
            stored.parent.mkdir(exist_ok=True)
            write_text(stored, current.text)
    except OSError:
        # On a full or read-only disk the label store refuses labels with a message. The next call tries again.
        pass
    return current


def edit_guidelines(study: Study, text: str, actor: str | None = None) -> Guidelines:
    """Put a text into force as the study's guidelines, and record who did it. Labels from now on name its version.

    Raises:
        BadInput: The text is empty or too long.
        Forbidden: The person may not edit guidelines.
    """
    require(study, actor, ACTION)
    text = text.strip().replace("\r\n", "\n") + "\n"
    if problem := text_problem(text.strip(), MAX_TEXT):
        raise BadInput(f"the text of the guidelines {problem}")
    before = guidelines(study.folder)  # keeps the text that was in force
    if version_of(text) == before.version:
        return before
    write_text(study.folder / FILE, text)
    Descriptions(study.labels_path).record_change(VERSIONS, version_of(text), ACTION, actor)
    return guidelines(study.folder)


@dataclass(frozen=True, slots=True)
class GuidelineVersion:
    """A version of the guidelines that the study keeps.

    Attributes:
        by: Who put it into force; None if whoever keeps the study's files did.
        at: When, in seconds since 1970.
    """

    version: str
    text: str
    by: str | None
    at: float

    @property
    def time_text(self) -> str:
        """The time in UTC, as in "2026-03-01 14:05"."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M")


def guideline_versions(study: Study) -> list[GuidelineVersion]:
    """Return the kept versions, those first that came into force last. The version in force is first."""
    in_force = guidelines(study.folder).version  # also keeps that version, if nobody has judged yet
    changes = {change.name: change for change in Descriptions(study.labels_path).changes(VERSIONS)}
    found = []
    for path in (study.folder / VERSIONS).glob("*.md"):
        change = changes.get(path.stem)
        text = path.read_text(encoding="utf-8", errors="replace")
        found.append(
            GuidelineVersion(
                path.stem, text, change.by if change else None, change.time if change else path.stat().st_mtime
            )
        )
    return sorted(found, key=lambda each: (each.version == in_force, each.at), reverse=True)


def version_of(text: str) -> str:
    """Return the version (a hash) of a guidelines text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _version_in(path: Path) -> str | None:
    """Return the version of a stored text; None if there is no such file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return _version_of_file(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _version_of_file(path: str, modified_ns: int, size: int) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]


@lru_cache(maxsize=8)
def _read_guidelines(path: str, modified_ns: int) -> Guidelines:
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return Guidelines(version_of(text), text)


@lru_cache(maxsize=8)
def _tree(text: str) -> list[Any]:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return _elements(SyntaxTreeNode(parser.parse(text)).children)


def _elements(nodes: Sequence[SyntaxTreeNode]) -> list[Any]:
    """Return the elements for Markdown nodes. Headings begin at h2, because the page has its own title."""
    elements: list[Any] = []
    for node in nodes:
        if node.type in ("text", "code_inline", "code_block", "fence"):
            tag = {"code_inline": "code", "code_block": "pre", "fence": "pre"}.get(node.type)
            elements.append(node.content if tag is None else [tag, {}, node.content])
        elif node.type == "softbreak":
            elements.append(" ")
        elif node.type == "image":
            elements.append(node.content)
        elif node.type == "inline" or (node.type == "paragraph" and node.hidden):  # hidden: in a list without gaps
            elements += _elements(node.children)
        else:
            elements.append([_tag(node), _attributes(node), *_elements(node.children)])
    return elements


def _tag(node: SyntaxTreeNode) -> str:
    return f"h{min(int(node.tag[1]) + 1, 6)}" if node.type == "heading" else node.tag


def _attributes(node: SyntaxTreeNode) -> dict[str, Any]:
    address = str(node.attrs.get("href", ""))
    if address.startswith(("https://", "http://")):
        return {"href": address, "target": "_blank", "rel": "noreferrer"}
    return {"start": node.attrs["start"]} if "start" in node.attrs else {}

"""The judging guidelines: a Markdown file in the study, or the default text. Each label records the version of the
guidelines at that time.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.tree import SyntaxTreeNode


FILE = "guidelines.md"
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
    """Return the guidelines of a study: its `guidelines.md`, or the default."""
    own = folder / FILE
    path = own if own.is_file() else _DEFAULT
    return _read_guidelines(str(path), path.stat().st_mtime_ns)


@lru_cache(maxsize=8)
def _read_guidelines(path: str, modified_ns: int) -> Guidelines:
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    return Guidelines(hashlib.sha256(text.encode()).hexdigest()[:12], text)


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

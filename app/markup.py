"""HTML with automatic escaping: every plain string is treated as text.

Passages, questions, answers and file names are untrusted data. They get into the page only as children or attributes of
`tag`, which escapes them. The app never passes data to Streamlit's Markdown.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~:$&^=@/\"'")
VOID = frozenset({"br", "hr", "input", "wbr"})


class Html(str):
    """Markup, made by `tag` or `join`. A plain `str` is text and is escaped when it is added to markup."""

    __slots__ = ()


def text(value: object) -> Html:
    """Return a value as escaped text. Html is returned unchanged; None gives ""."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else escape(str(value), quote=True))


def join(*parts: object) -> Html:
    return Html("".join(text(part) for part in parts))


def tag(name: str, *children: object, **attributes: Any) -> Html:
    """Return an element: `tag("a", "words", href=..., cls="x", data_go=True)`.

    `cls` is the class attribute, and `_` in a name becomes `-`. An attribute that is None or False is omitted; True
    gives an attribute without a value.
    """
    opening = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        opening.append(attribute if value is True else f'{attribute}="{escape(str(value), quote=True)}"')
    if name in VOID:
        return Html(f"<{' '.join(opening)}>")
    return Html(f"<{' '.join(opening)}>{join(*children)}</{name}>")


def escape_markdown(text: str) -> str:
    """Escape Markdown, for button labels, which Streamlit reads as Markdown."""
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)


def div(*children: object, **attributes: Any) -> Html:
    return tag("div", *children, **attributes)


def span(*children: object, **attributes: Any) -> Html:
    return tag("span", *children, **attributes)


def link(label: object, href: str, **attributes: Any) -> Html:
    """A link inside the app, which `behaviour.js` follows without reloading the page."""
    return tag("a", label, href=href, data_go=True, **attributes)


def table_head(first_heading: object, *rest: object) -> Html:
    """The head row of a table of figures; the first heading is left-aligned. A `th` is used unchanged."""
    is_cell = isinstance(first_heading, Html) and first_heading.startswith("<th")
    first = first_heading if is_cell else tag("th", first_heading, scope="col", cls="left")
    return tag("thead", tag("tr", first, *(_table_cell("th", each) for each in rest)))


def row(*cells: object, head: object, **attributes: Any) -> Html:
    """A row of a table of figures: its name and its cells. A `td`, and a `th` as the name, is used unchanged."""
    named = head if isinstance(head, Html) and head.startswith("<th") else tag("th", head, scope="row")
    return tag("tr", named, *(_table_cell("td", each) for each in cells), **attributes)


def wide_head(content: object) -> Html:
    """The head of a column that narrow windows show on demand (`compare_tables.scrolling`)."""
    return tag("th", content, scope="col", cls="wide")


def wide_cell(content: object) -> Html:
    """A cell of a column that narrow windows show on demand."""
    return tag("td", content, cls="wide")


def _table_cell(name: str, content: object) -> Html:
    if isinstance(content, Html) and content.startswith(f"<{name}"):
        return content
    return tag(name, content, scope="col" if name == "th" else None)


def table(head: Html, lines: Iterable[Html], cls: str = "figures") -> Html:
    return tag("table", head, tag("tbody", *lines), cls=cls)


def term(label: object, explanation: str) -> Html:
    """A technical term with an explanation that appears on hover or focus."""
    return tag("abbr", label, title=explanation, tabindex="0")


def show(*parts: object) -> None:
    """Put markup on the page unless it is empty. Streamlit also sanitises it with DOMPurify."""
    import streamlit as st

    if result := join(*parts):
        st.html(result)

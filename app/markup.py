"""HTML that cannot forget to escape: whatever is not made here counts as text.

Passages, questions, answers and file names are data. They reach the page only as children or attributes of `tag`, which
escapes them; nothing in the app hands a string of its own to Streamlit's Markdown.
"""

from __future__ import annotations

from html import escape
from typing import Any

_MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~:$&^=@/\"'")
VOID = frozenset({"br", "hr", "input", "wbr"})


class Html(str):
    """Markup made by `tag` or `join`. A plain `str` is text and is escaped when it becomes part of one."""

    __slots__ = ()


def text(value: object) -> Html:
    """A value as escaped text; Html stays as it is, None is nothing."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else escape(str(value), quote=True))


def join(*parts: object) -> Html:
    return Html("".join(text(part) for part in parts))


def tag(name: str, *children: object, **attributes: Any) -> Html:
    """`tag("a", "words", href=..., cls="x", data_go=True)`. `cls` is class; `_` in a name is `-`.

    An attribute of None or False is left out; True stands without a value.
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


def plain(words: str) -> str:
    """Words as Markdown that shows them as they are: for labels of buttons, which Streamlit reads as Markdown."""
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in words)


def div(*children: object, **attributes: Any) -> Html:
    return tag("div", *children, **attributes)


def span(*children: object, **attributes: Any) -> Html:
    return tag("span", *children, **attributes)


def link(words: object, href: str, **attributes: Any) -> Html:
    """A link inside the app: a real address, followed without loading the page anew (see `behaviour.js`)."""
    return tag("a", words, href=href, data_go=True, **attributes)


def term(words: object, explanation: str) -> Html:
    """A word of the trade, explained when it is pointed at or focused."""
    return tag("abbr", words, title=explanation, tabindex="0")


def show(*parts: object) -> None:
    """Put markup on the page, if there is any. Streamlit runs it through DOMPurify as well."""
    import streamlit as st

    if made := join(*parts):
        st.html(made)

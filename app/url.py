"""The address is the state: every choice is a query parameter, read at the start of a run and written by whoever changes it.

Streamlit's own `bind="query-params"` is not used: with it a parameter at its default drops out of links, and each Back is
answered by a new entry in the history, so that Back leads nowhere. Here the address always wins, and widgets follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import streamlit as st

HOME, COMPARE, RELATIONS, SLICES, MAP = "./", "compare", "relations", "slices", "map"
QUESTION, JUDGE, QUALITY, TRAINING, EXPERIMENTS = "question", "judge", "quality", "training", "experiments"


def value(key: str, default: str = "") -> str:
    return st.query_params.get(key, default)


def number(key: str, default: int, low: int = 1, high: int | None = None) -> int:
    """A whole number from the address, kept within its bounds; the default where it is none."""
    try:
        found = int(value(key, ""))
    except ValueError:
        return default
    return max(low, found if high is None else min(found, high))


def one_of(key: str, options: Sequence[str], default: str) -> str:
    found = value(key)
    return found if found in options else default


def href(page: str, parameters: Mapping[str, Any]) -> str:
    """The address of a page; parameters that are None or "" are left out."""
    query = urlencode({key: str(value) for key, value in parameters.items() if value not in (None, "")})
    return f"{page}?{query}" if query else page


def write(key: str, new: str | None, default: str = "", forget: Sequence[str] = ()) -> None:
    """Change the address. `forget` names parameters that mean nothing once this one has changed (the page number)."""
    for name in forget:
        st.query_params.pop(name, None)
    if new in (None, "", default):
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = new


def _follow(key: str, current: str, default: str, forget: Sequence[str]) -> dict[str, Any]:
    """What makes a widget show `current` and write what a person changes."""
    name = f"url-{key}"
    if st.session_state.get(name) != current:
        st.session_state[name] = current
    return {"key": name, "on_change": lambda: write(key, st.session_state[name], default, forget)}


def select(
    label: str,
    key: str,
    options: Sequence[str],
    default: str,
    forget: Sequence[str] = (),
    format_func: Callable[[str], str] = str,
    **more: Any,
) -> str:
    """A select box for a query parameter; gives the option that is chosen."""
    current = one_of(key, options, default)
    st.selectbox(label, options, format_func=format_func, **_follow(key, current, default, forget), **more)
    return current


def text_box(label: str, key: str, forget: Sequence[str] = (), **more: Any) -> str:
    """A text field for a query parameter; gives its text."""
    current = value(key)
    st.text_input(label, **_follow(key, current, "", forget), **more)
    return current

"""The state of a page in its address: every choice is a query parameter, and widgets show what the address says.

Streamlit's `bind="query-params"` is not used. It drops parameters at their defaults from links, and it adds a history
entry on every Back, so Back does not leave the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import streamlit as st

HOME, COMPARE, RELATIONS, SLICES, MAP = "./", "compare", "relations", "slices", "map"
CHECK = "check"
QUESTION, JUDGE, QUALITY, TEAM, TRAINING = (
    "question",
    "judge",
    "quality",
    "team",
    "training",
)


Option = TypeVar("Option", bound=str)


def value(key: str, default: str = "") -> str:
    return st.query_params.get(key, default)


def number(key: str, default: int, low: int = 1, high: int | None = None) -> int:
    """Return a whole number from the address, clipped to its bounds; the default if the parameter is not a number."""
    try:
        parsed = int(value(key, ""))
    except ValueError:
        return default
    return max(low, parsed if high is None else min(parsed, high))


def one_of(key: str, options: Sequence[Option], default: Option) -> Option:
    """Return a parameter that is one of the options, else the default."""
    given_value = value(key)
    return next((option for option in options if option == given_value), default)


def href(page: str, parameters: Mapping[str, Any]) -> str:
    """Return the address of a page, leaving out parameters that are None or ""."""
    query = urlencode({key: str(value) for key, value in parameters.items() if value not in (None, "")})
    return f"{page}?{query}" if query else page


def write(key: str, new_value: str | None, default: str = "", forget: Sequence[str] = ()) -> None:
    """Change a parameter of the address, and remove the parameters that depend on it (`forget`), such as the page
    number.
    """
    for name in forget:
        st.query_params.pop(name, None)
    if new_value in (None, "", default):
        st.query_params.pop(key, None)
    else:
        st.query_params[key] = new_value


def _bind_parameter(key: str, current: str, default: str, forget: Sequence[str]) -> dict[str, Any]:
    """Return the widget arguments that show `current` and write changes to the address."""
    name = f"url-{key}"
    if st.session_state.get(name) != current:
        st.session_state[name] = current
    return {"key": name, "on_change": lambda: write(key, st.session_state[name], default, forget)}


def select(
    label: str,
    key: str,
    options: Sequence[Option],
    default: Option,
    forget: Sequence[str] = (),
    format_func: Callable[[Any], str] = str,
    **more: Any,
) -> Option:
    """Show a select box for a query parameter, and return the chosen option."""
    current = one_of(key, options, default)
    st.selectbox(label, options, format_func=format_func, **_bind_parameter(key, current, default, forget), **more)
    return current


def multiselect(
    label: str, key: str, options: Sequence[Option], default: Sequence[Option] = (), **more: Any
) -> list[Option]:
    """Show a field for several values of a query parameter, separated by commas, and return the chosen ones."""
    named = value(key).split(",")
    current = [option for option in options if option in named] or list(default)
    name = f"url-{key}"
    if st.session_state.get(name) != current:
        st.session_state[name] = current
    st.multiselect(label, options, key=name, on_change=lambda: write(key, ",".join(st.session_state[name])), **more)
    return current


def text_box(label: str, key: str, forget: Sequence[str] = (), **more: Any) -> str:
    """Show a text field for a query parameter, and return its text."""
    current = value(key)
    st.text_input(label, **_bind_parameter(key, current, "", forget), **more)
    return current

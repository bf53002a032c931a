"""Form fields for declared settings, with label, bounds and help from the declaration."""

from __future__ import annotations

from typing import Any

from streamlit.delta_generator import DeltaGenerator

from blindspot.backend.core.declared import declared_settings

LARGEST = 10**9  # a bound for number fields whose setting has none


def setting_field(place: DeltaGenerator, kind: type, name: str, value: Any = None, **more: Any) -> Any:
    """Show the field of one setting and return its value.

    Args:
        place: the column or container that holds the field.
        kind: the settings class that declares the setting.
        value: initial value (default: the declared default). An optional number without a value is an empty field,
        which returns
            None.
        more: passed to Streamlit, such as `step`, `format` or `disabled`. A `minimum` or `maximum` narrows the declared
        bounds.
    """
    setting = declared_settings(kind)[name]
    value = setting.default if value is None else value
    more.setdefault("help", f"{setting.help}.")
    if setting.choices:
        words = [*setting.choices] if setting.default is not None else [None, *setting.choices]
        return place.selectbox(
            setting.title, words, words.index(value), format_func=lambda word: word or "default", **more
        )
    if setting.kind is bool:
        return place.checkbox(setting.title, bool(value), **more)
    if setting.kind is str:
        return place.text_input(setting.title, value or "", **more) or None
    number = setting.kind
    lowest = more.pop("minimum", setting.minimum if setting.minimum is not None else setting.above)
    highest = more.pop("maximum", setting.maximum if setting.maximum is not None else setting.below)
    return place.number_input(
        setting.title,
        None if lowest is None else number(lowest),
        number(LARGEST if highest is None else min(highest, LARGEST)),
        None if value is None else number(value),
        **more,
    )

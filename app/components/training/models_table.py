"""The table of models: what each answers, on one axis, and its difference from its start."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from blindspot.analysis.accuracy import Estimate
from blindspot.app import url
from blindspot.app.components.marks import percentage, success_head
from blindspot.app.components.strips import difference_strip, widest_difference
from blindspot.app.components.training import tabs
from blindspot.app.components.training.model_changes import CleaningEffect, ModelChange, compared_runs, gain_words
from blindspot.app.markup import Html, div, link, row, span, table, table_head, tag, wide_head
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.judges.feature_judge import KIND
from blindspot.backend.judges.judge import kind_title
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.before_after import initial_encoder_name

FROM_START = "from its start"


def models_table(
    open_study: Study,
    models: dict[str, dict],
    changed: Mapping[str, ModelChange | None],
    chosen_model: str,
    training_set: str,
    cleaned: CleaningEffect | None = None,
) -> Html:
    """The models, newest first, and the models they began as: what each answers on the questions that measure, on one
    axis, and its difference from its start.

    Args:
        cleaned: two models whose difference has a row of its own, with an axis in points of the same scale.
    """
    known = [change for change in changed.values() if change]
    k = max((change.figures.k for change in known), default=HEADLINE_K)
    starts = {change.start: change.figures.a for change in known}
    more = None if cleaned is None else _of_cleaning(cleaned)
    axis = _axis(
        [*(change.figures.b for change in known), *starts.values()], 2 * widest_difference([more]) if more else 0
    )
    scale = _ends(f"{axis[0]:.0f}", f"{axis[1]:.0f}") if known else ""
    rows = []
    for name, about in reversed(models.items()):
        change = changed[name]
        address = tabs.address("models", set=training_set, model=name)
        is_chosen = name == chosen_model
        name_link = link(name, address, aria_current="true" if is_chosen else None)
        cells = (
            *_measured_cells(change, about, axis),
            _named_cell("trained on", about.get("training_set") or about.get("run") or "–", "left wide"),
            _named_cell("initial model", initial_encoder_name(open_study, about) or "–", "left wide"),
            _named_cell("kind", kind_title(about.get("kind", "dual encoder")) + _teacher_text(about), "left wide"),
            _named_cell("steps", _step_text(about.get("last_step"))),
            _named_cell("time", duration(about.get("seconds", 0))),
        )
        rows.append(
            row(
                *cells,
                head=name_link,
                cls="chosen" if is_chosen else None,
            )
        )
    blank = [tag("td", "", cls="wide blank")] * 5
    for name, share in starts.items():
        strip = tag("td", _strip(share, axis), cls="drawn")
        rows.append(row(percentage(share, inline=True), strip, _named_cell(FROM_START, "start"), *blank, head=name))
    if cleaned is not None and more is not None:
        rows.append(_difference_row(cleaned, more, (axis[1] - axis[0]) / 2, blank))
    left = [tag("th", words, scope="col", cls="left wide") for words in ("trained on", "initial model", "kind")]
    heads = (success_head(k), tag("th", scale, scope="col", cls="drawn"), wide_head(FROM_START), *left)
    return table(table_head("model", *heads, wide_head("steps"), wide_head("time")), rows, "figures groups models")


def _of_cleaning(effect: CleaningEffect) -> Estimate | None:
    """Return what the model of the cleaned set has more than that of its source; None without an interval."""
    less = effect.change.figures.difference.estimate  # the source's share less the cleaned one's
    if less.value is None or less.low is None or less.high is None:
        return None
    return replace(less, value=-less.value, low=-less.high, high=-less.low)


def _difference_row(effect: CleaningEffect, more: Estimate, limit: float, blank: Sequence[Html]) -> Html:
    """Return the row of a difference, around 0, on a line from -limit to limit."""
    limit, (value, ends) = max(limit, widest_difference([more])), gain_words(effect.change.figures)
    name = f"{effect.cleaned_set} − {effect.source_set}"
    ends_of_axis = _ends(signed_number(-limit, 0), "0", signed_number(limit, 0))
    gain = link(value, url.href(url.COMPARE, compared_runs(effect.change)), title="Points that cleaning adds")
    return row(
        tag("td", span(gain, span(ends, cls="interval"), cls="figure")),
        tag("td", difference_strip(more, limit, what=name), ends_of_axis, cls="drawn"),
        blank[0],
        *blank,
        head=name,
        cls="of-two",
    )


def _ends(*values: str) -> Html:
    """Return the values at the ends of an axis, and between them."""
    return div(*(span(each) for each in values), cls="ends")


def _named_cell(name: str, content: object, cls: str = "wide") -> Html:
    """A cell that narrow windows show on demand, after its column's name."""
    return tag("td", content, cls=cls, data_name=name)


def _axis(shares: Sequence[Estimate], width: float = 0.0) -> tuple[float, float]:
    """Return the ends of the axis of the intervals, in percent, as tens, at least `width` apart where 0 and 100 allow."""
    ends = [100 * end for share in shares for end in (share.low, share.high) if end is not None]
    if not ends:
        return 0.0, 100.0
    low, high = 10.0 * math.floor(min(ends) / 10), 10.0 * math.ceil(max(ends) / 10)
    low = max(0.0, min(low, high - width))
    return low, min(100.0, max(high, low + width))


def _strip(share: Estimate, axis: tuple[float, float]) -> Html:
    """Draw a share and its interval on the axis."""
    if share.value is None or share.low is None or share.high is None:
        return Html("")
    value, low, high = (
        100 * (100 * each - axis[0]) / ((axis[1] - axis[0]) or 1.0) for each in (share.value, share.low, share.high)
    )
    return div(
        span(cls="range", style=f"left:{low:.1f}%;width:{high - low:.1f}%"),
        span(cls="dot", style=f"left:{value:.1f}%"),
        cls="strip",
        aria_hidden="true",
    )


def _measured_cells(change: ModelChange | None, about: dict, axis: tuple[float, float]) -> tuple[Html, Html, Html]:
    """Return a model's share, its interval on the axis, and the difference from its start."""
    if change is None:
        is_retriever = about.get("kind") not in ("reader", "cross-encoder", KIND)
        words = span("not yet searched", cls="soft") if is_retriever else "–"
        return tag("td", words), tag("td", "", cls="drawn"), _named_cell(FROM_START, "–")
    value, ends = gain_words(change.figures)
    flips = change.figures.flips
    turned = f"{quantity(flips.only_b, 'question')} better, {flips.only_a:,} worse than {change.start}"
    gain = link(value, url.href(url.COMPARE, compared_runs(change)), title=turned)
    share = change.figures.b
    return (
        tag("td", percentage(share, inline=True)),
        tag("td", _strip(share, axis), cls="drawn"),
        _named_cell(FROM_START, span(gain, span(ends, cls="interval"), cls="figure")),
    )


def _teacher_text(manifest: dict) -> str:
    settings = manifest.get("settings") or {}
    return f", distilled from {settings['distil']}" if settings.get("distil") else ""


def _step_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"

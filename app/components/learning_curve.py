"""The learning curve in small form for Judge, Training and Home: how much labels improve retrieval on dev, and what the
last labels changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from blindspot.analysis.forecast_intervals import Forecast
from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import empty, methods_note, notice
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, row, show, span, table, table_head, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.curve_bench import curve_inputs
from blindspot.backend.training.forecast_steps import LABELS
from blindspot.backend.training.label_forecast import (
    LabelForecast,
    UseForecast,
    forecast_labels,
    signed_points,
    stored_forecast,
)
from blindspot.backend.training.learning_curve import add_point, is_unfinished
from blindspot.backend.training.own_labels import own_effect
from blindspot.backend.training.stored_curve_points import (
    SCOPES,
    CurveOutcome,
    CurvePoint,
    Scope,
    Share,
    changed_pairs,
    curve_points,
)
from blindspot.db.errors import BlindspotError
from blindspot.db.labels import Labels

SECONDS_BETWEEN_LOOKS = 4.0
SHOWN = 100
FORECAST_CLASSES = (*["wide"] * (len(LABELS) - 1), None)
"""The classes of the forecast's columns: narrow windows show the last."""
USE_TITLES = {
    "reranker": "Judge as reranker, learned from more questions: Success@1",
    "evaluation": "Evaluation: half-width of Success@1's interval",
    "gold": "Gold: wrong passages found",
    "cleaning_reranker": "Judge as reranker, learned from the cleaned set: Success@1",
}
WORDS: dict[Scope, str] = {"judged": "from judged questions", "all": "from all training questions"}
_MARGIN = 0.02  # room above and below the intervals
_HALF_LINE = 1.1  # half the width of a line, in percent of the plot's height

JUDGED_PAIRS = (
    "Passages of training questions that people judged. Two people's labels of a passage make one pair, so there are "
    "fewer pairs than labels; disputed pairs count here and teach nothing until they are settled"
)


def curve_panel(open_study: Study, place: str) -> None:
    """Show the curve. The panel regularly checks for a new point: on Judge always, elsewhere while a point is computed.

    Args:
        place: the page, one of "home", "judge", "training"; part of the widgets' keys.
    """
    watching = place == "judge" or is_unfinished(open_study)
    panel = st.fragment(_panel, run_every=SECONDS_BETWEEN_LOOKS if watching else None)
    panel(open_study, place, bool(curve_points(open_study)))


def _panel(open_study: Study, place: str, had_points: bool) -> None:
    if who.sign_in_has_ended(open_study.labels_path):
        st.rerun()
    points = curve_points(open_study)
    if points and not had_points and place == "training":
        st.rerun()  # the title tells of the first point
    lacking = _missing_reason(open_study)
    if not points and lacking:
        if place == "training":
            show(
                empty(
                    "No learning curve yet",
                    f"The curve shows how much labels improve retrieval on dev. {lacking}",
                    heading="h2",
                )
            )
        return
    has_labels = judging_stores(open_study).labels.last_event > 0
    is_shown = bool(points) or place != "training"  # the tab's title says that there is no point yet
    with st.container(key=f"curve-{place}" if is_shown else "curve-buttons"):
        usual: Scope = "judged" if points and points[-1].judged else "all"
        scope = url.one_of("learned", list(SCOPES), usual)
        if is_shown:
            show(style_sheet("learning_curve.css"), div(*_curve(open_study, points, scope, place)))
        person = None if lacking else who.signed_in_person(open_study.labels_path)
        if place != "training":  # there, the first sentence and a table say it
            _forecast_sentence(open_study)
        with st.container(horizontal=True, vertical_alignment="center"):
            if has_labels or points:
                is_next = place == "training" and has_labels and stored_forecast(open_study) is None
                _forecast_button(open_study, place, primary=is_next)
                if place != "training" or not _is_first_measurement(open_study, points):
                    _button(open_study, lacking, place)  # else it stands below the title
            has_own = person is not None and judging_stores(open_study).labels.has_labelled(person.name)[0]
            asked = has_own and st.button("What did my labels change?", key=f"own-labels-{place}")
        if person is not None:
            _own_part(open_study, person.name, f"own-labels-{place}-lines", asked)


def _is_first_measurement(open_study: Study, points: Sequence[CurvePoint]) -> bool:
    """Return whether the tab's main step is to measure the first point: there is a forecast, and labels to measure."""
    has_labels = judging_stores(open_study).labels.last_event > 0
    return not points and has_labels and stored_forecast(open_study) is not None and not is_unfinished(open_study)


def forecast_line(open_study: Study, place: str) -> None:
    """Show which use of further labels is forecast to gain most in this study, or the button that computes the
    forecast.

    Args:
        place: part of the widgets' keys.
    """
    _forecast_sentence(open_study)
    _forecast_button(open_study, place)


def _forecast_sentence(open_study: Study) -> None:
    """Show the stored forecast, if there is one."""
    if (found := stored_forecast(open_study)) is not None:
        show(tag("p", found.sentence, title="\n".join(found.lines())))


def _forecast_button(open_study: Study, place: str, primary: bool = False) -> None:
    found = stored_forecast(open_study)
    if found is None or found.last_event != Labels(open_study.labels_path, read_only=True).last_event:
        words = "Forecast what labels change" if found is None else "Forecast again"
        jobs.start_button(
            open_study,
            request(forecast_labels),
            key=f"forecast-{place}",
            label=words,
            missing_part=_missing_reason(open_study),
            primary=primary,
        )


def _own_part(open_study: Study, name: str, key: str, is_requested: bool) -> None:
    """What the person's own labels changed, computed when asked for. key: of the lines in the session."""
    if is_requested:
        with st.spinner("Learning with and without your labels …"):
            st.session_state[key] = own_effect(open_study, name).lines()
    if lines := st.session_state.get(key):
        show(div(tag("h3", "Your labels"), *(tag("p", line) for line in lines)))


def _missing_reason(open_study: Study) -> str:
    """Return why no point can be computed; "" if one can."""
    try:
        curve_inputs(open_study)
    except BlindspotError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    return ""


def _button(open_study: Study, missing_reason: str, place: str, primary: bool = False) -> None:
    if is_unfinished(open_study):
        show(tag("p", "Measuring …", cls="soft", role="status"))
        return
    jobs.start_button(
        open_study,
        request(add_point, "asked"),
        key=f"add-point-{place}",
        label=f"Measure now{_last_duration(open_study) or ' what the labels so far changed'}",
        missing_part=missing_reason,
        primary=primary,
    )


def _last_duration(open_study: Study) -> str:
    """Return how long the last measurement took, in brackets; "" before the first."""
    points = curve_points(open_study)
    return f" (about {duration(points[-1].seconds)})" if points else ""


def _curve(open_study: Study, points: Sequence[CurvePoint], scope: Scope, place: str) -> list[Html]:
    head = [
        tag(
            "h2",
            term("Learning curve" if place != "training" else "Effect of the labels so far", _scope_sentence(scope)),
        )
    ]
    if not points:
        if stored_forecast(open_study) is not None:
            return head  # the forecast's sentence below says whether labels pay
        words = "No point yet. A point is the Success@1 on dev of a judge that learned from all labels so far, beside BM25's."
        return [*head, tag("p", words)]
    last = points[-1]
    shown = _series(points, last)
    here = {key: st.query_params[key] for key in st.query_params}
    address = {"home": url.HOME, "judge": url.JUDGE, "training": url.TRAINING}[place]
    choices = [
        link(
            words,
            url.href(address, here | {"learned": name}),
            cls="chosen" if name == scope else "quiet",
            aria_current="true" if name == scope else None,
            title=f"Learned from {SCOPES[name]}",
        )
        for name, words in WORDS.items()
    ]
    shares = [point.scopes[scope].reranker for point in shown]
    chart = _chart("Reranker, Success@1", shown, shares, last.base_reranker, "BM25")
    if place != "training":
        head.append(link("all points", tabs.address("curve"), cls="quiet"))
    return [
        div(*head, *choices, cls="curve-head"),
        div(chart, cls="curve-charts"),
        *_effect_lines(open_study, last, scope),
        tag(
            "p",
            f"{count_with_units(last.base_reranker.n, last.base_reranker.units)} of dev, 95% intervals. Dev questions are used only for measuring, never for training.",
            cls="convention",
        ),
    ]


def _scope_sentence(scope: Scope) -> str:
    return (
        f"Learned from {SCOPES[scope]}, measured on questions of the split dev, which never train. Reranker: a feature "
        "judge that reorders the first ranks of BM25."
    )


def _series(points: Sequence[CurvePoint], last_point: CurvePoint) -> list[CurvePoint]:
    """Return the points that can be compared with the last one, by number of labels; of several points with the same
    number, the last.
    """
    by_labels = {point.labels: point for point in points if point.inputs == last_point.inputs}
    return [by_labels[labels] for labels in sorted(by_labels)]


def _chart(title: str, points: Sequence[CurvePoint], shares: Sequence[Share], base: Share, base_name: str) -> Html:
    low = max(0.0, min(base.value, *(share.low for share in shares)) - _MARGIN)
    high = min(1.0, max(base.value, *(share.high for share in shares)) + _MARGIN)
    most = max(point.labels for point in points) or 1

    def horizontal_position(point: CurvePoint) -> float:
        return 100 * (0.03 + 0.94 * point.labels / most)

    def vertical_position(value: float) -> float:
        return 100 * (high - value) / (high - low)

    places = [(horizontal_position(point), share) for point, share in zip(points, shares, strict=True)]
    marks = [
        span(cls="base", style=f"top:{vertical_position(base.value):.1f}%", title=f"{base_name}: {_share_text(base)}")
    ]
    corners = [tuple(vertical_position(value) for value in (share.high, share.value, share.low)) for _, share in places]
    marks += _line_with_band([(x, *ys) for (x, _), ys in zip(places, corners, strict=True)])
    for (x, share), point in zip(places, points, strict=True):
        top, bottom = vertical_position(share.high), vertical_position(share.low)
        marks.append(span(cls="bar", style=f"left:{x:.1f}%;top:{top:.1f}%;height:{bottom - top:.1f}%"))
        message = f"{quantity(point.labels, 'judged pair')}, {quantity(point.judged, 'judged question')}: {_share_text(share)}"
        marks.append(
            span(
                cls="dot",
                style=f"left:{x:.1f}%;top:{vertical_position(share.value):.1f}%",
                title=message,
                tabindex="0",
                role="img",
                aria_label=message,
            )
        )
    ticks = [
        span(f"{100 * value:.0f}", cls="tick", style=f"top:{vertical_position(value):.1f}%") for value in (low, high)
    ]
    return div(
        div(
            tag("b", title),
            " ",
            f"{_share_text(shares[-1])}",
            span(f" {base_name} {100 * base.value:.1f}", cls="soft"),
            cls="curve-title",
        ),
        div(*marks, *ticks, cls="curve-plot"),
        div(
            span("0"),
            term(quantity(most, "judged pair"), JUDGED_PAIRS) if points[-1].labels else "",
            cls="curve-below",
        ),
        cls="curve-chart",
    )


def _forecast_chart(expected: Sequence[Forecast], has_points: bool) -> Html:
    """Draw what further labels are expected to change in the reranker, from 0 further labels on, with its band.
    has_points: whether a chart below shows measured points.
    """
    low = min(0.0, *(found.low for found in expected)) - _MARGIN / 2
    high = max(0.0, *(found.high for found in expected)) + _MARGIN / 2

    def vertical_position(value: float) -> float:
        return 100 * (high - value) / (high - low)

    places = [(3.0, *[vertical_position(0.0)] * 3)]
    for number, found in zip(LABELS, expected, strict=True):
        ends = (vertical_position(value) for value in (found.high, found.value, found.low))
        places.append((3 + 94 * number / LABELS[-1], *ends))
    ticks = [
        span(signed_points(value), cls="tick", style=f"top:{vertical_position(value):.1f}%")
        for value in (low + _MARGIN / 2, 0.0, high - _MARGIN / 2)
    ]
    zero = span(cls="base", style=f"top:{vertical_position(0.0):.1f}%")
    return div(
        div(
            tag("b", "Learned from more questions"),
            span(", change of Success@1 in points", cls="soft"),
            cls="curve-title",
        ),
        div(zero, *_line_with_band(places), *ticks, cls="curve-plot", aria_hidden="true"),
        div(span("0 more labels"), span(f"{LABELS[-1]}"), cls="curve-below"),
        div("measured points: below", cls="curve-below") if has_points else "",
        cls="curve-chart",
    )


def _line_with_band(places: Sequence[tuple[float, ...]]) -> list[Html]:
    """Draw a line and the band around it through places (x, top, middle, bottom), in percent of the plot."""
    if len(places) < 2:
        return []
    band = [(x, top) for x, top, _, _ in places] + [(x, bottom) for x, _, _, bottom in reversed(places)]
    edge = [(x, y) for x, _, y, _ in places]
    line = [(x, y - _HALF_LINE) for x, y in edge] + [(x, y + _HALF_LINE) for x, y in reversed(edge)]
    return [span(cls="band", style=_polygon(band)), span(cls="curve-line", style=_polygon(line))]


def _polygon(corners: Sequence[tuple[float, float]]) -> str:
    return f"clip-path:polygon({','.join(f'{x:.1f}% {y:.1f}%' for x, y in corners)})"


def _share_text(share: Share) -> str:
    return f"{100 * share.value:.1f} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def _effect_lines(open_study: Study, point: CurvePoint, scope: Scope) -> list[Html]:
    """What the labels since the previous point changed. A click on a number opens its list of pairs."""
    lines = []
    if point.before is not None and point.new_labels:
        learned = point.scopes[scope]
        person = who.signed_in_person(open_study.labels_path)
        own = person is not None and set(point.authors) == {person.name}
        verb = "is answered now that was" if learned.answered == 1 else "are answered now that were"
        lines.append(
            tag(
                "p",
                f"{'Your' if own else 'The'} last {quantity(point.new_labels, 'label')} changed ",
                _pairs_link(open_study, point),
                "; ",
                _questions_link(open_study, learned, "only_b", quantity(learned.answered, "dev question")),
                f" {verb} not, ",
                _questions_link(open_study, learned, "only_a", f"{learned.lost:,}"),
                f" no longer: {learned.chance_words}.",
                cls="curve-worked",
            )
        )
    if point.held_out_labels:
        words = (
            f"{quantity(point.held_out_labels, 'label')} of dev and test questions: these labels correct the "
            "evaluation and never train."
        )
        lines.append(tag("p", words, cls="soft"))
    return lines


def _pairs_link(open_study: Study, point: CurvePoint) -> Html | str:
    words = quantity(point.changed, "training pair")
    if not who.may(open_study.labels_path, "see others' labels"):
        return words
    return link(words, tabs.address("curve", point=point.number), title="Show these pairs")


def _questions_link(open_study: Study, outcome: CurveOutcome, cell: str, label: str) -> Html | str:
    runs = study.runs(open_study)
    if outcome.run_before not in runs or outcome.run not in runs:
        return label
    address = url.href(url.COMPARE, {"a": outcome.run_before, "b": outcome.run, "k": 1, "cell": cell})
    return link(label, address, title="Show these questions: A before the labels, B with them")


def curve_tab(open_study: Study) -> None:
    """The learning curve on the Training page: the curve, all points, and the pairs that a point's labels changed."""
    points = curve_points(open_study)
    found = stored_forecast(open_study)
    tabs.title(*_answer_sentences(open_study, points, found))
    if not judging_stores(open_study).labels.last_event:
        show(div(link("Judge passages", url.JUDGE, cls="button main"), cls="action"))
    if _is_first_measurement(open_study, points) and not _missing_reason(open_study):
        _button(open_study, "", "training", primary=True)
    if found is not None:
        show(_forecast_table(open_study, found))
    curve_panel(open_study, "training")
    if not points:
        return
    number = url.value("point")
    chosen = next((point for point in points if str(point.number) == number), None)
    show(div(tag("h2", "Points"), scrolling(_table(points, chosen)), cls="panel"))
    if number and chosen is None:
        show(notice(f"The curve has no point {number}."))
    if chosen is not None:
        _pairs(open_study, chosen)


def _answer_sentences(
    open_study: Study, points: Sequence[CurvePoint], found: LabelForecast | None
) -> tuple[object, object]:
    """Say what the next labels are expected to add and on what that rests; without a forecast, what the labels so far
    did.
    """
    if not judging_stores(open_study).labels.last_event:
        about = "The curve says how much better retrieval gets with labels of training questions, measured on dev."
        return "No labels yet, so nothing to forecast.", about
    so_far = ""
    if points:
        last = points[-1]
        reranked = last.scopes["judged" if last.judged else "all"].reranker
        so_far = (
            f"With {quantity(last.labels, 'judged pair')} a reranker has a Success@1 of {_share_text(reranked)}; BM25 alone has "
            f"{_share_text(last.base_reranker)}."
        )
    if found is not None and found.is_known:
        return found.sentence, f"{found.basis} {so_far or 'No point of the curve is measured yet.'}"
    return (so_far, "") if so_far else ("The labels are not measured on dev yet.", "")


def _forecast_table(open_study: Study, forecast: LabelForecast) -> Html:
    """What the next labels are expected to change: the curve of the reranker, each use of labels, and the uses that
    cannot be forecast yet.
    """
    rows = [
        row(
            *(
                tag("td", span(value, span(ends, cls="interval"), cls="figure"), cls=cls)
                for (value, ends), cls in zip(each.forecast_cells, FORECAST_CLASSES, strict=True)
            ),
            head=_use_title(each),
        )
        for each in forecast.uses
        if each.expected
    ]
    heads = (
        tag("th", f"{number} more", scope="col", cls=cls) for number, cls in zip(LABELS, FORECAST_CLASSES, strict=True)
    )
    reranker = next((each.expected for each in forecast.uses if each.use == "reranker" and each.expected), None)
    lacking = [_lacking_item(open_study, each) for each in forecast.uses if not each.expected]
    uses = scrolling(table(table_head("use of labels", *heads), rows)) if rows else ""
    return div(
        style_sheet("learning_curve.css"),
        tag("h2", "What the next labels are expected to change"),
        div(uses, _forecast_chart(reranker, bool(curve_points(open_study))), cls="forecast") if reranker else uses,
        join(tag("h3", "Not forecast yet"), tag("ul", *lacking, cls="lacking")) if lacking else "",
        methods_note(
            "Points of the named measure, extrapolated from what earlier labels changed on this study's own lists. Each interval "
            "is to hold, in 90% of cases, what a later measurement finds, so it is not the 95% interval of a measured figure. "
            "A judge learns from more questions with all their labels beside half of them, and from a cleaned set with people's "
            "labels beside gold and answer matches alone; dev questions only measure."
        ),
        cls="panel",
    )


def _use_title(forecast: UseForecast) -> str:
    """Return the name of a use, with the half-width now if it is the evaluation."""
    now = "" if forecast.now is None else f" (now {100 * forecast.now:.1f})"
    return f"{USE_TITLES[forecast.use]}{now}"


def _lacking_item(open_study: Study, forecast: UseForecast) -> Html:
    """Say what a forecast lacks, with the link that leads to it."""
    way: Html | str = ""
    if forecast.use == "gold" and study.parts(open_study, "training_sets"):
        way = link("Check gold passages", tabs.address("sets"))
    elif forecast.lacking.startswith("judge"):
        way = link("Judge passages", url.JUDGE)
    return tag("li", tag("span", tag("b", _use_title(forecast)), " – ", forecast.lacking, ". "), way)


def _table(points: Sequence[CurvePoint], chosen_point: CurvePoint | None) -> Html:
    names = (
        "point",
        term("judged pairs", JUDGED_PAIRS),
        "judged questions",
        "changed pairs",
        *(f"@1, {scope}" for scope in SCOPES),
        "seconds",
        "computed (UTC)",
    )
    classes = [None, None, "wide", "wide", None, *["wide"] * (len(names) - 5)]
    rows = []
    for point in reversed(points):
        cells: list[Any] = [f"{point.labels:,}", f"{point.judged:,}", f"{point.changed:,}"]
        cells += [_share_text(point.scopes[scope].reranker) for scope in SCOPES]
        cells += [f"{point.seconds:.0f}", point.made[:16].replace("T", " ")]
        address = tabs.address("curve", point=point.number)
        name = tag("th", link(f"{point.number}", address), scope="row", title=_reason(point))
        rows.append(
            tag(
                "tr",
                name,
                *(tag("td", cell, cls=cls) for cell, cls in zip(cells, classes[1:], strict=True)),
                cls="chosen" if point is chosen_point else None,
            )
        )
    head = tag("tr", *(tag("th", name, scope="col", cls=cls) for name, cls in zip(names, classes, strict=True)))
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures")


def _reason(point: CurvePoint) -> str:
    return {
        "asked": "recorded on request",
        "batch": "a batch was finished",
        "labels": "enough new labels",
        "start": "the state before the first label",
        "history": "computed later",
    }.get(point.reason, "")


def _pairs(open_study: Study, point: CurvePoint) -> None:
    if not who.may(open_study.labels_path, "see others' labels"):
        show(notice("Only people who settle disputes can see which pairs changed, because the list shows labels."))
        return
    pairs = changed_pairs(open_study, point.number)
    words = f"Point {point.number}: {quantity(len(pairs), 'changed training pair')}"
    if not pairs:
        show(notice(f"{words}."))
        return
    rows = pair_rows(
        open_study, [(pair.question, pair.passage, f"{pair.before} → {pair.now}") for pair in pairs[:SHOWN]]
    )
    more = tag("p", f"The first {SHOWN} of {len(pairs):,}.", cls="convention") if len(pairs) > SHOWN else ""
    show(div(tag("h2", words), tag("table", tag("tbody", *rows), cls="figures"), more, cls="panel", id="changed-pairs"))

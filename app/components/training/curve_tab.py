"""The Curve tab of the Training page: what the next labels are expected to add, the curve, its points and their pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blindspot.app import study, url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.curve_charts import JUDGED_PAIRS, forecast_chart, share_text
from blindspot.app.components.learning_curve import curve_panel, is_first_measurement, measure_button, missing_reason
from blindspot.app.components.marks import methods_note, notice
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, row, show, span, table, table_head, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.forecast_steps import LABELS
from blindspot.backend.training.label_forecast import LabelForecast, UseForecast, stored_forecast
from blindspot.backend.training.stored_curve_points import SCOPES, CurvePoint, changed_pairs, curve_points

SHOWN = 100
FORECAST_CLASSES = (*["wide"] * (len(LABELS) - 1), None)
"""The classes of the forecast's columns: narrow windows show the last."""
USE_TITLES = {
    "reranker": "Judge as reranker, learned from more questions: Success@1",
    "evaluation": "Evaluation: half-width of Success@1's interval",
    "gold": "Gold: wrong passages found",
    "cleaning_reranker": "Judge as reranker, learned from the cleaned set: Success@1",
}


def curve_tab(open_study: Study) -> None:
    """The learning curve on the Training page: the curve, all points, and the pairs that a point's labels changed."""
    points = curve_points(open_study)
    found = stored_forecast(open_study)
    tabs.title(*_answer_sentences(open_study, points, found))
    if not judging_stores(open_study).labels.last_event:
        show(div(link("Judge passages", url.JUDGE, cls="button main"), cls="action"))
    if is_first_measurement(open_study, points) and not missing_reason(open_study):
        measure_button(open_study, "", "training", primary=True)
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
            f"With {quantity(last.labels, 'judged pair')} a reranker has a Success@1 of {share_text(reranked)}; BM25 alone has "
            f"{share_text(last.base_reranker)}."
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
        div(uses, forecast_chart(reranker, bool(curve_points(open_study))), cls="forecast") if reranker else uses,
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
        cells += [share_text(point.scopes[scope].reranker) for scope in SCOPES]
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

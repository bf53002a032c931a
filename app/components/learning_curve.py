"""The learning curve in small form for Judge, Training and Home: how much labels improve retrieval on dev, and what the
last labels changed.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.curve_charts import measured_chart
from blindspot.app.components.marks import empty
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, link, show, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.curve_bench import curve_inputs
from blindspot.backend.training.label_forecast import forecast_labels, stored_forecast
from blindspot.backend.training.learning_curve import add_point, is_unfinished
from blindspot.backend.training.own_labels import own_effect
from blindspot.backend.training.stored_curve_points import SCOPES, CurveOutcome, CurvePoint, Scope, curve_points
from blindspot.db.errors import BlindspotError
from blindspot.db.labels import Labels
from blindspot.db.people import Person

SECONDS_BETWEEN_LOOKS = 4.0
WORDS: dict[Scope, str] = {"judged": "from judged questions", "all": "from all training questions"}


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
    lacking = missing_reason(open_study)
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
    person = None if lacking else who.signed_in_person(open_study.labels_path)
    if place == "judge" and not who.may(open_study.labels_path, "see others' labels"):
        if person is not None:  # annotators see no retrieval results
            _own_labels(open_study, person, place, st.container())
        return
    is_shown = bool(points) or place != "training"  # the tab's title says that there is no point yet
    with st.container(key=f"curve-{place}" if is_shown else "curve-buttons"):
        usual: Scope = "judged" if points and points[-1].judged else "all"
        scope = url.one_of("learned", list(SCOPES), usual)
        if is_shown:
            show(style_sheet("learning_curve.css"), div(*_curve(open_study, points, scope, place)))
        if place != "training":  # there, the first sentence and a table say it
            _forecast_sentence(open_study)
        with st.container(horizontal=True, vertical_alignment="center"):
            if has_labels or points:
                is_next = place == "training" and has_labels and stored_forecast(open_study) is None
                _forecast_button(open_study, place, primary=is_next)
                if place != "training" or not is_first_measurement(open_study, points):
                    measure_button(open_study, lacking, place)  # else it stands below the title
            own = st.container(width="content")
        if person is not None:
            _own_labels(open_study, person, place, own)


def is_first_measurement(open_study: Study, points: Sequence[CurvePoint]) -> bool:
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
            missing_part=missing_reason(open_study),
            primary=primary,
        )


def _own_labels(open_study: Study, person: Person, place: str, button_place: DeltaGenerator) -> None:
    """Show what the person's own labels changed, computed when asked for."""
    key = f"own-labels-{place}-lines"
    if judging_stores(open_study).labels.has_labelled(person.name)[0]:
        with button_place:
            is_requested = st.button("What did my labels change?", key=f"own-labels-{place}")
        if is_requested:
            with st.spinner("Learning with and without your labels …"):
                st.session_state[key] = own_effect(open_study, person.name).lines()
    if lines := st.session_state.get(key):
        show(div(tag("h3", "Your labels"), *(tag("p", line) for line in lines)))


def missing_reason(open_study: Study) -> str:
    """Return why no point can be computed; "" if one can."""
    try:
        curve_inputs(open_study)
    except BlindspotError as error:
        return f"{str(error)[:1].upper()}{str(error)[1:]}."
    return ""


def measure_button(open_study: Study, lacking: str, place: str, primary: bool = False) -> None:
    if is_unfinished(open_study):
        show(tag("p", "Measuring …", cls="soft", role="status"))
        return
    jobs.start_button(
        open_study,
        request(add_point, "asked"),
        key=f"add-point-{place}",
        label=f"Measure now{_last_duration(open_study) or ' what the labels so far changed'}",
        missing_part=lacking,
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
    chart = measured_chart(shown, shares, last.base_reranker)
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

"""The answer on top of the page Check: the share of false negatives in one sentence, and the one next step."""

from __future__ import annotations

import streamlit as st

from blindspot.app import checks, url, who
from blindspot.app.checks import Labelled
from blindspot.app.components import jobs
from blindspot.app.components.check.file_panel import download_main, is_written, write_button
from blindspot.app.components.check.rules_panel import FILE_STEP, RULE_STEP
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.backend.checking.facts import FileFacts
from blindspot.backend.checking.jobs import CleanedFile, draw_pairs
from blindspot.backend.checking.sample import FEWEST_JUDGED, MOST_DRAWS, RateEstimate
from blindspot.backend.checking.words import WEIGHTED, later_words
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import noun_form, quantity

MORE = 200


def answer(facts: FileFacts, figures: Labelled, sees_labels: bool, outlook: str = "") -> Html:
    """Return the sentence at the top of the page, and what more labels would change."""
    if not facts.negatives:
        return tag("h1", "The file has no negatives, so none can be false.")
    if figures.rate is None or not figures.judged:
        title = tag("h1", f"How many of {quantity(facts.negatives, 'negative')} are false? No pair is judged yet.")
        return join(title, tag("p", outlook, cls="under") if outlook else "")
    if not sees_labels:
        return tag(
            "h1",
            f"{quantity(figures.judged, 'pair')} of {quantity(facts.negatives, 'negative')} are judged.",
        )
    enough = f"This page suggests to judge on until it is at most {200 * checks.SHORT:.0f} points wide."
    under = [] if figures.is_enough or not outlook else [f"{outlook} {enough}"]
    if figures.rate.later:
        under.append(later_words(figures.rate))
    return join(tag("h1", rate_sentence(figures.rate)), *(tag("p", line, cls="under") for line in under))


def rate_sentence(rate: RateEstimate) -> str:
    assert rate.estimate is not None and rate.low is not None and rate.high is not None
    if rate.is_vague:
        begin = f"Too early to say how many of {quantity(rate.pairs, 'negative')} are false"
        judged = quantity(rate.judged, "judged pair")
        if rate.judged < FEWEST_JUDGED:
            is_false = noun_form(rate.false, "is", "are")
            between = f"{100 * rate.low:.0f} to {100 * rate.high:.0f}%"
            return f"{begin}: {rate.false:,} of {judged} {is_false}; for all, the 95% interval is {between}."
        return f"{begin}: about {rate.estimate:.0%} {stated_interval(100 * rate.low, 100 * rate.high)}, from {judged}."
    return (
        f"About {rate.estimate * rate.pairs:,.0f} of {quantity(rate.pairs, 'negative')} are false: {rate.estimate:.1%} "
        f"{stated_interval(100 * rate.low, 100 * rate.high)}, from {quantity(rate.judged, 'judged pair')}."
    )


def primary(open_study: Study, facts: FileFacts, figures: Labelled, written_file: CleanedFile | None) -> None:
    """Show the one next step: draw pairs, judge them, choose a rule, or write the file."""
    if not facts.negatives:
        return
    if figures.rate is None:
        jobs.start_button(open_study, request(draw_pairs), key="draw", label="Draw pairs to judge", primary=True)
        return
    if not checks.sees_rate(open_study, figures):
        if who.signed_in_person(open_study.labels_path) is None:
            show(_answer_line(_button("Sign in", url.JUDGE, "j"), "to see the rate, or to judge"))
        else:
            about = "People who still judge blind do not see the rate."
            show(_answer_line(_button("Judge the next pair", url.JUDGE, "j"), about))
        return
    judge_on = "" if figures.all_judged else join("or ", link("judge on", url.JUDGE, data_key="j"))
    if written_file is not None and is_written(checks.rules(open_study), figures, written_file):
        with st.container(key="download-now", horizontal=True, vertical_alignment="center"):
            if not download_main(open_study, written_file):
                show(link("See the cleaned file", "#file", cls="button main"))
            if judge_on:
                show(div(judge_on, cls="soft"))
    elif url.value("step") and not figures.rate.is_vague:
        with st.container(key="write-now", horizontal=True, vertical_alignment="center"):
            write_button(open_study, checks.rules(open_study), written_file, primary=True)
            if judge_on:
                show(div(judge_on, cls="soft"))
    else:
        show(_answer_line(*_next(figures)))
    if figures.all_judged and url.value("step") and figures.rate.drawn < min(MOST_DRAWS, figures.rate.pairs):
        more = min(figures.rate.drawn + MORE, MOST_DRAWS)
        jobs.start_button(open_study, request(draw_pairs, more), key="more", label=f"Draw {MORE} more pairs")


def _next(figures: Labelled) -> tuple[object, ...]:
    """Return the button, and in words a second way to do the same."""
    if figures.is_enough:
        judge = link("judge on", url.JUDGE, data_key="j")
        return (
            _button("See the rule", url.href(url.CHECK, RULE_STEP) + "#rules"),
            "" if figures.all_judged else join("or ", judge, " for a shorter interval"),
        )
    if not figures.judged:
        return _button(
            "Judge the first pair", url.JUDGE, "j"
        ), "Judging uses keys and takes a few seconds per pair; stop whenever you like."
    file = link("stop here and write the file", url.href(url.CHECK, FILE_STEP) + "#file")
    return _button("Judge the next pair", url.JUDGE, "j"), join("or ", file)


def _button(label: str, address: str, key: str | None = None) -> Html:
    return link(label, address, cls="button main", data_key=key, title=None if key is None else f"Key: {key}")


def _answer_line(button: object, second_button: object) -> Html:
    return div(button, tag("span", second_button, cls="soft") if second_button else "", cls="action")


def trace_panel(figures: Labelled) -> None:
    """Show the rate after each pair, in the order in which they were drawn, with its interval, from where this fits the
    plot.
    """
    from plotly.graph_objects import Figure, Scatter

    from blindspot.app.components.plots import plot

    count = list(range(1, len(figures.estimates) + 1))
    blue = "#0072b2"
    figure = Figure()
    high, low = (100 * figures.high).tolist(), (100 * figures.low).tolist()
    edge = {"width": 0}
    about = "%{x} labels: %{y:.1f}%"
    figure.add_trace(Scatter(x=count, y=high, line=edge, mode="lines", name="upper end", hovertemplate=about))
    figure.add_trace(
        Scatter(
            x=count,
            y=low,
            line=edge,
            mode="lines",
            fill="tonexty",
            fillcolor="rgba(0,114,178,0.18)",
            name="lower end",
            hovertemplate=about,
        )
    )
    line = {"color": blue, "width": 2}
    top = min(100, max(high[-1] * 2, 10))
    first = next((number for number, end in zip(count, high, strict=True) if end <= top), 1) if top < 100 else 0
    mode = "lines+markers" if len(count) < 10 else "lines"
    figure.add_trace(
        Scatter(x=count, y=(100 * figures.estimates).tolist(), line=line, mode=mode, name="rate", hovertemplate=about)
    )
    figure.update_layout(
        height=260,
        showlegend=False,
        margin={"l": 45, "r": 10, "t": 10, "b": 40},
        xaxis={"title": {"text": "judged pairs"}, "range": [first, max(len(count), 10)], "fixedrange": True},
        yaxis={
            "title": {"text": "false negatives, %"},
            "range": [0, top],
            "fixedrange": True,
        },
    )
    with st.container(key="trace"):
        show(tag("h2", "The rate after each drawn pair"))
        plot(figure, "rate-after-each-label")
        show(tag("p", _about_the_rate(figures, first), cls="convention"))


def _about_the_rate(figures: Labelled, begins_at: int) -> str:
    """Say why the rate is not the share of the judged pairs that are false."""
    rate = figures.rate
    assert rate is not None
    begin = f" Before {begins_at} pairs the interval is wider than the plot is high." if begins_at > 1 else ""
    return (
        f"{rate.false:,} of {quantity(rate.judged, 'judged pair')} {noun_form(rate.false, 'is', 'are')} false. {WEIGHTED} The "
        f"interval holds whenever you stop.{begin}"
    )

"""A comparison of judges on the Quality page: how good each is on pairs that people settled, and in which groups it may
be trusted.
"""

from __future__ import annotations

from collections.abc import Callable

from blindspot.analysis.agreement import Agreement
from blindspot.analysis.judge_quality import (
    CUT,
    MISSED_POSITIVES,
    RIGHT_POSITIVES,
    CalibrationBin,
    GroupTrust,
    JudgeFigures,
    Trust,
)
from blindspot.analysis.relations import relation_order
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import grouping, relation_label
from blindspot.app.components.quality.marks import INTERVAL_NOTE, coefficient, gauge, gauge_head, rate_figure
from blindspot.app.components.training import tabs
from blindspot.app.markup import Html, div, join, link, row, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.judges.measuring import BYS, SAMPLES, JudgeTable, MeasuredJudge
from blindspot.backend.text.number_words import quantity

PRECISION = f"Share of positives among the pairs that the judge scores {CUT:g} or more"
RECALL = f"Share of the positives that the judge scores {CUT:g} or more"
MISSED = (
    f"Share of positives among the pairs that the judge scores below {CUT:g}: false negatives if they train as "
    "negatives"
)
POSITIVES = (
    f"Whether at least {RIGHT_POSITIVES:.0%} of what it scores {CUT:g} or more is positive, by the whole interval"
)
NEGATIVES = f"Whether at most {MISSED_POSITIVES:.0%} of what it scores less is positive, by the whole interval"
AUC = "Probability that a positive scores above another pair: 0.5 is chance, 1 is perfect"
MARKS: dict[Trust, str] = {"yes": "✓ yes", "no": "✕ no", "inconclusive": "inconclusive"}
Here = Callable[..., str]
AGREEMENT_LINK = tag(
    "p",
    link("Judge agreement: annotators, cross-encoder and answer matching by rank", tabs.address("judges")),
    cls="convention",
)


def judges_panel(judge_table: JudgeTable | str, chosen_judge: str, grouping: str, page_address: Here) -> Html:
    """The panel about judges.

    Args:
        judge_table: the measured judges, or why there are none.
        chosen_judge: the judge whose details show; "" for none.
        grouping: the grouping of the trust table, one of BYS.
        page_address: returns the page's address with changed parameters.
    """
    title = tag("h2", "How good are the judges?")
    if isinstance(judge_table, str):
        return div(title, tag("p", judge_table, cls="convention"), AGREEMENT_LINK, cls="panel", id="judges")
    if not judge_table.judges:
        compared = link("Automatic judges", tabs.address("judges"))
        words = " compares answer match and other judges with annotators, and learns judges from labels."
        return tag("p", compared, words, cls="convention", id="judges")
    head = table_head(
        "judge",
        wide_head("pairs"),
        term("AUC", AUC),
        wide_head(term("kappa", f"Cohen's kappa with people: positive or not, at a score of {CUT:g}")),
        wide_head(term("precision, %", PRECISION)),
        wide_head(term("recall, %", RECALL)),
        wide_head(term("missed, %", MISSED)),
        term("trust its positives", POSITIVES),
        wide_head(term("its negatives", NEGATIVES)),
        wide_head(
            term(
                "cost of a label",
                "By the prices given for the endpoint and the stored answers; 0 for judges of this machine",
            )
        ),
    )
    lines = [_judge_row(judge, judge.name == chosen_judge, page_address) for judge in judge_table.judges]
    detail = next(
        (judge for judge in judge_table.judges if judge.name == chosen_judge and judge.figures is not None), None
    )
    return div(
        title,
        tag(
            "p",
            f"{quantity(judge_table.pairs, 'pair')} of {quantity(judge_table.questions, 'question')}: {judge_table.sample_words}.",
            cls="convention",
        ),
        _samples(judge_table.sample, page_address),
        scrolling(tag("table", head, tag("tbody", *lines), cls="figures rates")),
        _detail(detail.name, detail.figures, grouping, page_address) if detail and detail.figures else "",
        AGREEMENT_LINK,
        cls="panel",
        id="judges",
    )


def _samples(sample: str, page_address: Here) -> Html:
    links = [
        link(
            name,
            page_address(sample=name),
            cls="here" if name == sample else None,
            title=words,
            data_focus=f"sample-{name}",
        )
        for name, words in SAMPLES.items()
    ]
    return div(span("Measured on", cls="label"), span(*links, cls="choices"), cls="choice-line")


def _judge_row(judge: MeasuredJudge, is_chosen: bool, page_address: Here) -> Html:
    figures = judge.figures
    name = join(
        link(
            judge.name,
            page_address(judge=None if is_chosen else judge.name),
            title="Show or hide details",
            data_focus=f"judge-{judge.name}",
        ),
        " ",
        span(judge.kind, cls="soft"),
    )
    if figures is None:
        cost = wide_cell(_cost(judge.cost))
        return row(wide_cell("0"), "–", *[wide_cell("–")] * 4, "–", wide_cell("–"), cost, head=name)
    cut, overall = figures.at_decision_threshold, figures.trust["all"][0]
    unscored = f"{quantity(judge.unscored, 'pair')} of the sample without a score" if judge.unscored else None
    return row(
        wide_cell(span(f"{figures.pairs:,}", title=unscored)),
        coefficient(
            Agreement(figures.auc, figures.auc_low, figures.auc_high, figures.pairs, figures.questions, None, "AUC")
        ),
        wide_cell(coefficient(figures.kappa)),
        wide_cell(rate_figure(cut.precision)),
        wide_cell(rate_figure(cut.recall)),
        wide_cell(rate_figure(cut.missed)),
        _trust(overall.positives),
        wide_cell(_trust(overall.negatives)),
        wide_cell(_cost(judge.cost)),
        head=name,
        cls="chosen" if is_chosen else None,
    )


def _cost(cost: float | None) -> str:
    return "unknown" if cost is None else "0" if cost == 0 else f"{cost:.5f}"


def _trust(trust: Trust) -> Html:
    return span(MARKS[trust], cls=f"state{' finished' if trust == 'yes' else ''}")


def _detail(name: str, judge_figures: JudgeFigures, grouping: str, page_address: Here) -> Html:
    confusion = tag(
        "table",
        table_head("people say", *(term(grade, "Score of the judge") for grade in judge_figures.grades)),
        tag(
            "tbody",
            *(row(*(f"{n:,}" for n in counts), head=label) for label, counts in judge_figures.confusion.items()),
        ),
        cls="figures",
    )
    thresholds = tag(
        "table",
        table_head(
            "score from",
            term("precision, %", "Positives among these"),
            "recall, %",
            term("missed, %", "Positives among the others"),
        ),
        tag(
            "tbody",
            *(
                row(
                    rate_figure(each.precision),
                    rate_figure(each.recall),
                    rate_figure(each.missed),
                    head=f"{each.threshold:g}",
                )
                for each in judge_figures.thresholds
            ),
        ),
        cls="figures rates",
    )
    return div(
        tag("h3", f"{name} in detail"),
        div(
            div(tag("h4", "Confusion by score"), scrolling(confusion), cls="part"),
            div(tag("h4", "Thresholds"), scrolling(thresholds), cls="part"),
            div(tag("h4", "Calibration"), scrolling(_calibration(judge_figures.calibration)), cls="part"),
            div(tag("h4", "Where to trust it"), _group_trust(judge_figures, grouping, page_address), cls="part"),
            cls="judge-parts",
        ),
        tag("p", f"{INTERVAL_NOTE}.", cls="convention"),
        cls="judge-detail",
    )


def _calibration(bins: list[CalibrationBin]) -> Html:
    """For each range of scores, the share of positives: the dot with its interval. The vertical mark is the mean score."""
    scale = gauge_head("Dot and line: share of positives with its 95% interval. Upright mark: the mean score")
    lines = [
        row(
            wide_cell(f"{each.positive.passages:,}"),
            f"{100 * each.mean:.0f}",
            rate_figure(each.positive),
            tag(
                "td",
                div(gauge(each.positive), div(cls="expected", style=f"left:{100 * each.mean:.1f}%"), cls="expects"),
                cls="gauge-cell wide",
            ),
            head=f"{each.low:.1f}–{each.high:.1f}",
        )
        for each in bins
    ]
    return tag(
        "table",
        table_head("score", wide_head("pairs"), "mean score, %", "positive, %", scale),
        tag("tbody", *lines),
        cls="figures rates",
    )


def _group_trust(judge_figures: JudgeFigures, group_kind: str, page_address: Here) -> Html:
    choices = span(
        *(
            link(
                f"by {grouping(name)}",
                page_address(trust=name if name != BYS[0] else None),
                cls="here" if name == group_kind else None,
                data_focus=f"trust-{name}",
            )
            for name in BYS
        ),
        cls="choices",
    )
    groups: list[GroupTrust] = judge_figures.trust.get(group_kind, [])
    if group_kind == "relation":
        groups = sorted(groups, key=lambda each: relation_order(each.group))
    if not groups:
        return div(choices, span(f"No pair has a {grouping(group_kind)}.", cls="soft"), cls="choice-line")
    lines = [
        row(
            wide_cell(rate_figure(each.precision)),
            _trust(each.positives),
            wide_cell(rate_figure(each.missed)),
            _trust(each.negatives),
            head=relation_label(each.group) if group_kind == "relation" else each.group,
        )
        for each in groups
    ]
    head = table_head(
        grouping(group_kind),
        wide_head(term("precision, %", PRECISION)),
        term("positives", POSITIVES),
        wide_head(term("missed, %", MISSED)),
        term("negatives", NEGATIVES),
    )
    return join(
        div(choices, cls="choice-line"), scrolling(tag("table", head, tag("tbody", *lines), cls="figures rates"))
    )

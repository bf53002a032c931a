"""The rules that drop negatives, compared by the labels, and the code that applies the chosen rule."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import streamlit as st

from blindspot.app import url
from blindspot.app.markup import Html, div, link, show, span, tag, term
from blindspot.backend.checking.jobs import CleanedFile
from blindspot.backend.checking.rules import RuleCurve, RuleRow
from blindspot.backend.checking.words import bounds_words
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity

RULE_STEP, FILE_STEP = {"step": "rule"}, {"step": "file"}
"""The query parameters of the page where a rule is chosen, and where the file is written: that part comes first."""
WITHOUT_RULE = "none"
RELABEL = {"relabel": "become positives", "drop": "go"}
"""What judged false negatives become: the address's value and the words."""
APART = "The ranges hold for a row alone, whenever you stop. A row's two shares are estimated apart, so the false negatives that they come to need not be the number in the title."
ON_SCALE = " (on the scale of this file's scores)"
HEADS = (
    ("kept", "Distinct negative pairs that the rule keeps"),
    ("false of kept", "Share of false negatives among the kept ones, with an interval that holds whenever you stop"),
    ("false of dropped", "Share of false negatives among the dropped ones, with such an interval"),
    (
        "emptied",
        "Questions whose last negative goes. Their rows stay, without a negative; in a file of triplets they go, with their positive",
    ),
    (
        "sum",
        "Share of the false negatives that it drops, plus share of the true ones that it keeps, minus share of the questions that it empties; 1 where it drops nothing. The largest has the star",
    ),
)


def chosen_row(curve: RuleCurve, written: CleanedFile | None) -> RuleRow | None:
    """Return the row that the address names, or else the usual one; None if no row is chosen."""
    asked = url.one_of("rule", rule_names(curve), usual_name(curve, written))
    return next((row for row in curve.rows if row.rule.as_text() == asked), None)


def rule_names(curve: RuleCurve) -> list[str]:
    """Return the options to choose from: no rule, and each row."""
    return [WITHOUT_RULE, *(row.rule.as_text() for row in curve.rows)]


def usual_name(curve: RuleCurve, written: CleanedFile | None) -> str:
    """Return the rule of the written file, or else the row that separates best, as in max_score=0.7; WITHOUT_RULE for
    none.
    """
    if written is not None and (written.rule or WITHOUT_RULE) in rule_names(curve):
        return written.rule or WITHOUT_RULE
    return WITHOUT_RULE if curve.best is None else curve.best.rule.as_text()


def fate(written: CleanedFile | None) -> str:
    """Return what judged false negatives become, a key of RELABEL: as the address says, or else the usual."""
    return url.one_of("false", list(RELABEL), usual_fate(written))


def usual_fate(written: CleanedFile | None) -> str:
    return "relabel" if written is None or written.relabel else "drop"


def rule_answer(curve: RuleCurve, written: CleanedFile | None) -> Html:
    """Say what the chosen rule drops and keeps, for the top of the page; nothing where no rule is chosen."""
    row = chosen_row(curve, written)
    if row is None or math.isnan(row.dropped_false) or math.isnan(row.false_share):
        return Html("")
    bounds = curve.bounds(row)
    which = "The best rule by these labels" if row is curve.best else "The chosen rule"
    verdict = "" if curve.is_established(row) else " The bounds do not show yet that it tells false from true."
    return tag(
        "p",
        f"{which} keeps a negative if {row.rule.condition}: of the {row.dropped:,} that it drops, about {row.dropped_false:.0%} are "
        f"false (at least {bounds.drops_at_least:.1%}); of the {row.kept:,} that it keeps, about {row.false_share:.1%} (at most "
        f"{bounds.most:.1%}).{verdict}",
        cls="under",
    )


def rules_panel(
    open_study: Study, curve: RuleCurve, source: Path, label_count: int, written: CleanedFile | None
) -> None:
    """Show the best row of each rule, all other rows on demand, why a row is chosen, and the argument to set. Where no
    row can be chosen, all rows are on demand.
    """
    if not curve.rows:
        show(div(tag("h2", "Rules"), tag("p", f"{curve.why[:1].upper()}{curve.why[1:]}."), cls="panel", id="rules"))
        return
    best = curve.best
    row = chosen_row(curve, written)
    with st.container(key="rules"):
        why = tag("p", f"{curve.why[:1].upper()}{curve.why[1:]}.")
        verdict = ""
        if best is not None:
            title = f"The best rule by {quantity(label_count, 'label')} keeps a negative if {best.rule.condition}."
            verdict = tag("p", tag("b", title), f" {bounds_words(curve)}")
        every = tag(
            "details", tag("summary", f"All {len(curve.rows)} rows"), _table(curve.rows, best, row), cls="all-rules"
        )
        show(
            div(
                tag("h2", "Which rule drops them", id="rules"),
                verdict,
                why,
                _table(best_row_of_each_rule(curve), best, row) if best else "",
                every,
                tag("p", APART, cls="convention"),
            )
        )
        _pastes(open_study, curve, row, source, written)


def _pastes(
    open_study: Study, curve: RuleCurve, row: RuleRow | None, source: Path, written: CleanedFile | None
) -> None:
    """Show the command that writes the file with the page's choices, and how to mine with the chosen row; for the judge's
    rule, with the best one that mining accepts.
    """
    out = shlex.quote(f"clean-{source.name}")
    places = f"{shlex.quote(str(source))} --study {shlex.quote(str(open_study.folder))} --out {out}"
    options = (" --drop" if fate(written) == "drop" else "") + (f" --rule {row.rule.as_text()}" if row else "")
    show(tag("p", "To write the file in a terminal:"))
    st.code(f"blindspot check {places}{options}", language=None, wrap_lines=True)
    if row is None:
        return
    words = f"To mine again with it{ON_SCALE if row.rule.is_on_scale else ''}, call:"
    if row.rule.argument is None and curve.to_paste is not None:
        row = curve.rows[curve.to_paste]
        scale = ON_SCALE if row.rule.is_on_scale else ""
        words = (
            f"Mining knows no such model. Its best rule by the same labels keeps a negative if {row.rule.condition}{scale}; of what "
            f"it keeps, at most {curve.bounds(row).most:.1%} are false, allowing for the choice of the rule:"
        )
    if row.rule.argument is not None:
        show(tag("p", words))
        st.code(row.rule.argument, language="python", wrap_lines=True)


def best_row_of_each_rule(curve: RuleCurve) -> list[RuleRow]:
    """Return for each rule the row that separates best; for the rule of the chosen row, the chosen row."""
    best_rows: dict[str, RuleRow] = {}
    for row in curve.rows:
        old = best_rows.get(row.rule.name)
        if old is None or row.gain > old.gain:
            best_rows[row.rule.name] = row
    if curve.best is not None:
        best_rows[curve.best.rule.name] = curve.best
    return list(best_rows.values())


def _table(rows: list[RuleRow], best: RuleRow | None, chosen_rule: RuleRow | None) -> Html:
    head = tag(
        "tr",
        tag("th", "keeps a negative if", scope="col", cls="left"),
        *(tag("th", term(name, about), scope="col") for name, about in HEADS),
    )
    lines = [_row(row, row is best, row is chosen_rule) for row in rows]
    return div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures rules"), cls="scrolling")


def _row(row: RuleRow, is_best: bool, is_chosen: bool) -> Html:
    name = row.rule.as_text()
    argument = tag(
        "code", f"{row.rule.name}=", tag("wbr"), f"{row.rule.displayed_value:g}"
    )  # breaks there in a narrow window
    address = url.href(url.CHECK, {**RULE_STEP, "rule": name}) + "#rules"
    mark = tag("span", "★ ", title="separates best") if is_best else ""
    return tag(
        "tr",
        tag("th", mark, link(row.rule.condition, address), " ", argument, scope="row"),
        tag("td", f"{row.kept:,}"),
        _share_cell(row.false_share, row.low, row.high),
        _share_cell(row.dropped_false, row.dropped_low, row.dropped_high),
        tag("td", f"{row.questions_emptied:,}", span(f" of {row.questions:,}", cls="soft")),
        tag("td", f"{row.gain:.2f}"),
        cls="chosen" if is_chosen else None,
        aria_current="true" if is_chosen else None,
    )


def _share_cell(share: float, low: float, high: float) -> Html:
    words = "–" if math.isnan(share) else f"{share:.1%}"
    between = tag("span", f"{100 * low:.1f}–{100 * high:.1f}", cls="interval")
    return tag("td", tag("span", words, between, cls="figure"))

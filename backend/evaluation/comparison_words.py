"""Describe a comparison of two runs in words: p values, the conclusion, its limits and the method."""

from __future__ import annotations

from blindspot.analysis.significance import RESAMPLES
from blindspot.backend.core.result_table import signed_ends, signed_number, stated_interval, with_minus_sign
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.units import generalisation
from blindspot.backend.evaluation.comparison import SEED, SURE, PairedFigures
from blindspot.backend.evaluation.measures import SUCCESS, RankingMeasure
from blindspot.backend.text.answers import SEARCHES_TITLE


def p_words(p: float) -> str:
    """Format a p value, as in "p = 0.031" or "p < 0.001"."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def where_words(k: int, measure: RankingMeasure = SUCCESS) -> str:
    """Return by what runs are compared, within a sentence: "in the top 5", or "in nDCG@20"."""
    return f"in the top {k}" if measure is SUCCESS else f"in {measure.title_at(k)}"


def lead_words(paired_figures: PairedFigures, run_a: str, run_b: str, on: str = "") -> str:
    """Return which run is ahead, by how many points, with the interval, as a sentence without its full stop.

    Args:
        on: the questions, such as " on 12 questions of relation P19"; "" for all.
    """
    value, low, high = paired_figures.difference.estimate.percent
    ahead, behind = (run_a, run_b) if value > 0 else (run_b, run_a)
    low, high = (low, high) if value > 0 else (-high, -low)
    where = where_words(paired_figures.k, paired_figures.measure)
    return f"{ahead} is {abs(value):.1f} points ahead of {behind} {where}{on} {stated_interval(low, high)}"


def verdict_words(paired_figures: PairedFigures, run_a: str, run_b: str, p: float, on: str = "") -> str:
    """Return which run is ahead and by how much, as a sentence; or that no difference is established, and how much the run
    that is ahead has more.

    Args:
        p: the p value by which the difference is established or not. on: see `lead_words`.
    """
    if p <= SURE:
        return f"{lead_words(paired_figures, run_a, run_b, on)}."
    value, low, high = paired_figures.difference.estimate.percent
    ahead = f"{run_a if value > 0 else run_b} " if value else ""
    low, high = (low, high) if value > 0 else (-high, -low)
    where = where_words(paired_figures.k, paired_figures.measure)
    return (
        f"No difference between {run_a} and {run_b} {where} is established{on}: {ahead}{signed_number(abs(value))} points "
        f"{stated_interval(low, high, '+')}."
    )


def conclusion(paired_figures: PairedFigures, run_a: str, run_b: str, tests: int = 1) -> str:
    """Return one sentence with the conclusion about these two runs on this collection.

    Args:
        tests: the number of tests that the p value of `paired_figures` is adjusted for.
    """
    estimate, k, p = paired_figures.difference.estimate, paired_figures.k, paired_figures.difference.p_shown
    if estimate.value is None:
        return "There are no questions, so there is no conclusion."
    questions = paired_figures.questions
    words = (
        p_words(p)
        if paired_figures.difference.p_adjusted is None
        else f"{p_words(p)} after Holm's method for {tests} tests"
    )
    _, low, high = estimate.percent
    if p > SURE:
        where = where_words(k, paired_figures.measure)
        none = f"Inconclusive over these {questions}: no significant difference between {run_a} and {run_b} {where} ({words}); "
        if low <= 0 <= high:
            return none + f"the 95% interval is {signed_ends(low, high)} points."
        return none + (
            f"the 95% interval of this figure alone, {signed_ends(low, high)} points, excludes 0, but it is not "
            f"adjusted for the {tests} tests of the table."
        )
    ahead, behind = (run_a, run_b) if estimate.value > 0 else (run_b, run_a)
    low, high = (low, high) if estimate.value > 0 else (-high, -low)
    better = f"finds a relevant passage in the top {k} more often than {behind}"
    if paired_figures.measure is not SUCCESS:
        better = f"has a higher {paired_figures.title} than {behind}"
    return (
        f"Over these {questions} {ahead} {better}, by {100 * abs(estimate.value):.1f} points (95% interval {with_minus_sign(low)} "
        f"to {high:.1f}, {words}). On this collection the difference is significant."
    )


def significance_sentence(paired_figures: PairedFigures, tests: int) -> str:
    """Return the sentence below a comparison's headline: how many questions it rests on, and how significant it is."""
    p, (_, low, high) = paired_figures.difference.p_shown, paired_figures.difference.estimate.percent
    after = f"{p_words(p)}, adjusted for {tests} tests"
    if p <= SURE:
        return f"Over {paired_figures.questions}; significant on this collection ({after})."
    adjusted = (
        "" if low <= 0 <= high else f", though this interval, which is not adjusted for the {tests} tests, excludes 0"
    )
    return f"Inconclusive over {paired_figures.questions}: the difference is not significant ({after}){adjusted}."


def limits_sentence(kind: str, rule: str) -> str:
    """Return one sentence on the limits of a comparison's conclusion."""
    if kind in ("gold", "labels"):
        known = "gold passages" if kind == "gold" else "gold passages and passages that people labelled positive"
        how = f"and only {known} count: a correct passage that nobody labelled counts as a miss"
    else:
        where = "title or text" if rule in SEARCHES_TITLE else "text"
        how = (
            f"and a passage counts if its {where} contains an answer's words, which nobody judged: chance matches "
            "count, other wordings do not"
        )
    return f"This says nothing about other collections or other questions, {how}."


def method(unit: Unit, measure: RankingMeasure = SUCCESS) -> str:
    """Return the note on the tests, the intervals and what they generalise to, which is shown with the figures."""
    return (
        f"Difference: {measure.title_at('k')} of A - B over the same questions, with Tango's paired interval (95%, with the effective n of "
        f"the units; not adjusted). p: paired sign-flip test, {RESAMPLES:,} resamples, two-sided; the differences of a "
        f"{unit} keep or change their signs together. {generalisation(unit)} p (Holm): adjusted by Holm's method for all rows of the same "
        "table, so that the probability of any false finding in a table is at most 5%. The unadjusted p is at least "
        f"{1 / (RESAMPLES + 1):.4f}. Seed {SEED}. Oracle: success if either of the two lists has a relevant passage."
    )

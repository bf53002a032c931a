"""The tables of Compare: accuracy at k, and the two-by-two table of which run finds a relevant passage."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from blindspot.analysis import flips
from blindspot.analysis.accuracy import Estimate, mean
from blindspot.analysis.significance import Difference
from blindspot.app.components.marks import (
    INTERVAL,
    letter,
    pale_note,
    percent,
    percentage,
    success_head,
)
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.app.runs import retriever_label
from blindspot.app.selection import Selection
from blindspot.app.study import Comparison
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.units import count_with_units
from blindspot.backend.evaluation.comparison import KS, SURE, MeasuredRun, Overall, overall
from blindspot.backend.evaluation.comparison_words import p_words, significance_sentence, verdict_words
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS, RankingMeasure
from blindspot.backend.evaluation.slices import CHOSEN_BY_RESULTS, by_results
from blindspot.backend.text.number_words import quantity
from blindspot.db.question_table import rows_among, take


def cut_offs(depth: int, chosen_k: int) -> list[int]:
    """Return the values of k to show: the usual ones up to the runs' depth, and the chosen one."""
    return sorted({k for k in KS if k <= depth} | {chosen_k})


def accuracy_table(
    comparison: Comparison, selection: Selection, subset: np.ndarray, other_runs: Sequence[MeasuredRun] = ()
) -> Html:
    """The chosen measure of both runs at the usual cut-offs. A click on a k selects it for the whole page.

    Args:
        other_runs: Further runs, measured over the same questions; a click on one compares A with it.
    """
    measure = MEASURES.get(selection.measure)
    ks = cut_offs(comparison.depth, selection.k) if measure.has_cut_off else [selection.k]
    figures = _overall_figures(comparison, selection, subset)
    heads = [
        tag(
            "th",
            link(
                f"@{k}" if measure.has_cut_off else "all ranks",
                selection.on_compare(k=k),
                data_focus=f"k{k}",
                title=f"Use k = {k} on this page",
                aria_current="true" if k == selection.k else None,
            ),
            cls=_cut_off_class(k, selection.k),
            scope="col",
        )
        for k in ks
    ]
    lines = [
        tag(
            "tr",
            _run_head(side, measured),
            *(_accuracy_cell(getattr(figures.figures_at[k], side), measure, k, selection.k) for k in ks),
        )
        for side, measured in (("a", comparison.run_a), ("b", comparison.run_b))
    ]
    asked = take(comparison.questions, np.flatnonzero(subset))
    lines += [_other_line(each, asked, measure, ks, selection) for each in other_runs]
    oracle = [_accuracy_cell(figures.figures_at[k].oracle, measure, k, selection.k) for k in ks]
    lines.append(tag("tr", tag("th", term("either run", ORACLE), scope="row"), *oracle))
    ahead = [tag("td", gain(figures.figures_at[k].difference), cls=_cut_off_class(k, selection.k)) for k in ks]
    lines.append(tag("tr", tag("th", term("ahead", GAIN), scope="row"), *ahead, cls="sum"))
    if figures.macro and (figures.macro[ks[0]].a.n_groups or 0) > 1:
        cells = [tag("td", gain(figures.macro[k].difference), cls=_cut_off_class(k, selection.k)) for k in ks]
        lines.append(tag("tr", tag("th", term("mean of relations", MACRO), scope="row"), *cells))
    head = tag(
        "tr",
        tag(
            "th",
            _measure_term(measure),
            scope="col",
            cls="left",
        ),
        *heads,
    )
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="figures accuracy")


def _run_head(side: str, measured_run: MeasuredRun) -> Html:
    """The name of a run, with its retriever in words below it."""
    retriever = span(retriever_label(measured_run.run.manifest), cls="retriever")
    return tag("th", letter(side), " ", measured_run.name, retriever, scope="row")


def _other_line(
    measured_run: MeasuredRun, question_ids: Sequence, measure: RankingMeasure, ks: Sequence[int], selection: Selection
) -> Html:
    rows = rows_among(question_ids, measured_run.questions)
    rows = rows[rows >= 0]
    codes = measured_run.units.units_of_rows(rows).codes
    cells = [
        _accuracy_cell(mean(measured_run.values(measure, k)[rows], codes), measure, k, selection.k)
        if k <= measured_run.k
        else tag("td", "–", cls=_cut_off_class(k, selection.k))
        for k in ks
    ]
    less = span(f" {len(rows):,} of {len(question_ids):,}", cls="soft") if len(rows) < len(question_ids) else ""
    name = link(
        measured_run.name, selection.on_compare(b=measured_run.name), title=f"Compare A with {measured_run.name}"
    )
    return tag("tr", tag("th", name, less, scope="row"), *cells)


def headline(comparison: Comparison, selection: Selection, subset: np.ndarray, on: str = "") -> str:
    """Say in one short sentence which run is better at the chosen k, and by how much; for questions that were selected
    by their results, which ones they are.

    Args:
        on: the questions, such as " on 12 questions of relation P19"; "" for those of the comparison.
    """
    if by_results(selection.slice):
        return on.removeprefix(" on ") or "All questions"
    figures = _overall_figures(comparison, selection, subset).figures_at[selection.k]
    if figures.difference.estimate.value is None:
        return "There are no questions, so there is no conclusion."
    return verdict_words(figures, comparison.run_a.name, comparison.run_b.name, figures.difference.p_shown, on)


def _measure_term(measure: RankingMeasure) -> Html:
    if measure is SUCCESS:
        message = f"Share of questions with a relevant passage among the first k. Small print: {INTERVAL}."
    else:
        message = f"{measure.help[0].upper()}{measure.help[1:]}. Small print: 95% interval."
    return term(f"{measure.title_at('k')}, %", message)


def _cut_off_class(k: int, chosen_k: int) -> str | None:
    """The class of a column of the table of accuracy: narrow windows show the chosen k and the first."""
    return "chosen" if k == chosen_k else None if k == KS[0] else "wide"


def _accuracy_cell(estimate: Estimate, measure: RankingMeasure, k: int, chosen: int) -> Html:
    return tag("td", percentage(estimate, True, measure is SUCCESS), cls=_cut_off_class(k, chosen))


def _overall_figures(comparison: Comparison, selection: Selection, subset: np.ndarray) -> Overall:
    measure = MEASURES.get(selection.measure)
    ks = cut_offs(comparison.depth, selection.k) if measure.has_cut_off else [selection.k]
    return overall(comparison, ks, None if subset.all() else subset, measure=measure)


def significance_line(comparison: Comparison, selection: Selection, subset: np.ndarray) -> str:
    """Return the sentence below `headline`: over what questions, and how sure."""
    if by_results(selection.slice):
        return CHOSEN_BY_RESULTS
    figures = _overall_figures(comparison, selection, subset)
    at_k = figures.figures_at[selection.k]
    return "" if at_k.difference.estimate.value is None else significance_sentence(at_k, figures.tests)


def flip_table(comparison: Comparison, selection: Selection, subset: np.ndarray) -> Html:
    """The two-by-two table of the runs: which of them find a relevant passage within k. Each cell links to its
    questions.
    """
    counts = flips.flip_table(comparison.first_ranks_a[subset], comparison.first_ranks_b[subset], selection.k)
    k = selection.k

    def count_cell(name: str, label: str) -> Html:
        number = getattr(counts, name)
        share = number / counts.n if counts.n else 0.0
        chosen = selection.cell == name
        inside = join(
            span(f"{number:,}", cls="number"),
            span(f"{percent(share)}%", cls="share"),
            span(label, cls="words"),
            span(cls="bar", style=f"width:{100 * share:.1f}%"),
        )
        return tag(
            "td",
            link(
                inside,
                selection.on_compare(cell="all" if chosen else name, sort=""),
                data_focus=f"cell-{name}",
                aria_current="true" if chosen else None,
                title="Show all questions" if chosen else f"Show these {quantity(number, 'question')}",
            ),
            cls=f"cell {name}" + (" chosen" if chosen else ""),
        )

    head = tag(
        "tr",
        tag("td", cls="corner"),
        tag("th", letter("b"), f" finds in top {k}", scope="col"),
        tag("th", letter("b"), " misses", scope="col"),
    )
    lines = (
        tag(
            "tr",
            tag("th", letter("a"), f" finds in top {k}", scope="row"),
            count_cell("both", "both find"),
            count_cell("only_a", "only A finds"),
        ),
        tag(
            "tr",
            tag("th", letter("a"), " misses", scope="row"),
            count_cell("only_b", "only B finds"),
            count_cell("neither", "neither finds"),
        ),
    )
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="flips")


_HAS_PALE = re.compile(r'class="(?:[^"]* )?(?:unsure|few)[ "]')
_HAS_WIDE = re.compile(r'<t[hdr] (?:[^>]* )?class="(?:[^"]* )?wide[ "]')


ORACLE = "Oracle: success if either of the two lists has a relevant passage: the best that choosing between A and B per question can reach."
GAIN = (
    "The better run, and its lead in percentage points. Small print: paired 95% interval of the "
    "lead, not adjusted. Faint: not significant (p > 0.05, paired sign-flip test). "
    "p values are Holm-adjusted for all differences of the table unless marked as not adjusted."
)
MACRO = (
    "Macro: difference of the averages (each relation has the same weight); the interval is over the questions "
    "within each relation."
)


def lead(estimate: Estimate) -> tuple[str, str]:
    """Return the side of the run that is ahead, "a", "b" or "" for none, and its lead in points, such as "+1.6"."""
    points = 100 * (estimate.value or 0.0)
    return ("", "0.0") if abs(points) < 0.05 else ("a" if points > 0 else "b", f"+{abs(points):.1f}")


def gain(difference: Difference) -> Html:
    """A difference, with the letter of the better run, the interval and the p value."""
    estimate = difference.estimate
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return Html("–")
    p = difference.p_shown
    adjusted = "not adjusted" if difference.p_adjusted is None else "Holm-adjusted"
    interval = signed_ends(100 * estimate.low, 100 * estimate.high)
    message = (
        f"A − B: {signed_number(100 * estimate.value)} points, {interval}, {p_words(p)} ({adjusted}), "
        f"{count_with_units(estimate.n, estimate.units)}. {GAIN}"
    )
    side, words = lead(estimate)
    shown = interval  # from the point of view of the leading run
    if side == "b":
        shown = signed_ends(-100 * estimate.high, -100 * estimate.low)
    return span(
        letter(side) if side else "",
        words,
        span(shown, cls="interval"),
        title=message,
        cls="figure difference" + (" unsure" if p > SURE else ""),
    )


def run_figures(measured_run: MeasuredRun, measure: RankingMeasure) -> list[Html]:
    """The cells of a run in the table of runs: one measure at the usual cut-offs."""

    def estimate_cell(k: int) -> Html:
        if k > measured_run.k:
            return tag("td", "–", title=f"the run has {measured_run.k} hits per question", cls=_deepest_cutoff(k))
        shown = percentage(mean(measured_run.values(measure, k), measured_run.units.codes), True, measure is SUCCESS)
        return tag("td", shown, cls=_deepest_cutoff(k))

    return [estimate_cell(k) for k in KS] if measure.has_cut_off else [estimate_cell(measured_run.k)]


def measure_heads(measure: RankingMeasure, sorted_k: int | None = None) -> list[Html]:
    """The heads of `run_figures`. sorted_k: the cut-off by which the rows are sorted, the highest first."""
    order = {k: "descending" for k in KS if k == sorted_k or not measure.has_cut_off and sorted_k}
    if measure is SUCCESS:
        return [tag("th", success_head(k), scope="col", cls=_deepest_cutoff(k), aria_sort=order.get(k)) for k in KS]
    about = f"{measure.help[0].upper()}{measure.help[1:]}. Small print: 95% interval."
    titles = [f"@{k}" for k in KS] if measure.has_cut_off else [measure.title]
    return [
        tag(
            "th",
            term(title, f"{measure.title_at('k')}: {about}"),
            scope="col",
            cls=_deepest_cutoff(k) if len(titles) > 1 else None,
            aria_sort=order.get(k),
        )
        for title, k in zip(titles, KS, strict=False)
    ]


def _deepest_cutoff(k: int) -> str | None:
    """The class of the column that narrow pages hide."""
    return "wide" if k == KS[-1] else None


def scrolling(table: Html, *pale: str) -> Html:
    """Let a wide table scroll within its own box. A narrow window hides its cells and rows of the class `wide` until the
    line below the table is opened; every window does so with those of the class `deep`.

    Args:
        pale: what makes a figure of this table pale. The line that says so appears if a figure is pale.
    """
    deep = " deep" if 'class="wide deep"' in table else ""
    fold = tag("details", tag("summary", "All columns"), cls="all-columns" + deep) if _HAS_WIDE.search(table) else ""
    return join(div(table, fold, cls="scrolling"), pale_note(*pale) if pale and _HAS_PALE.search(table) else "")

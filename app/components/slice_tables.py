"""The tables of the Slices page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from blindspot.analysis.accuracy import proportion, success_from_ranks
from blindspot.analysis.buckets import FEW
from blindspot.app.components.compare_tables import GAIN, gain, lead
from blindspot.app.components.marks import letter, n_figure, percentage
from blindspot.app.components.strips import strip_cell, strip_head, widest_difference
from blindspot.app.markup import Html, div, join, link, row, span, table, table_head, tag, term
from blindspot.app.selection import Selection
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.core.units import Units, n_cell
from blindspot.backend.evaluation.causes import CAUSES
from blindspot.backend.evaluation.comparison import SURE, PairedFigures, by_group
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS
from blindspot.backend.evaluation.saved_slices import SavedSlice
from blindspot.backend.evaluation.slice_finder import FoundSlice, FoundSlices
from blindspot.backend.evaluation.slice_words import PARTS, in_words, part_of
from blindspot.backend.evaluation.slices import FLAGS, MISSES, NUMBERS, OF_RUNS, TAGS, TEXTS, Facts
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError

MOVES = (
    "Contribution of the slice to the difference over all questions: its share of the questions × (difference inside − "
    "outside), which is the difference over all questions − that elsewhere"
)

CLASSES = "figures groups slices"
SLICE_TEST = "Studentised score test that compares the slice with the other questions; it allows for different rates of disagreement between the runs."


def condition_help(runs: Sequence[str]) -> Html:
    """The syntax of slices, in an expander."""
    written = (
        *TEXTS.values(),
        *NUMBERS.values(),
        *FLAGS.values(),
        *OF_RUNS.values(),
        *MISSES.values(),
    )
    lines = [tag("li", tag("code", words.partition(" (")[0]), f" {_explained_term(words)}") for words in written]
    lines += [tag("li", tag("code", f"tag:{name}"), f" {explanation}") for name, explanation in TAGS.items()]
    lines += [tag("li", tag("code", f"cause:{name}"), f" {rule.rule}") for name, rule in CAUSES.items()]
    return tag(
        "details",
        tag("summary", "Syntax"),
        tag(
            "p",
            "Join conditions with ",
            *_codes("and", "or", "not"),
            "and parentheses. Put words with spaces in double quotes. Compare numbers with ",
            *_codes("<=", "<", ">=", ">", "=", "!="),
            "A comparison with an unknown value is never true. An unlabelled passage is neither gold nor judged. ",
            f"Runs: {', '.join(runs)}.",
        ),
        tag("ul", *lines, cls="conditions"),
        cls="more",
    )


def _codes(*label: str) -> list[Html]:
    return [join(tag("code", word), " ") for word in label]


def _explained_term(label: str) -> str:
    return label.partition(" (")[2].rstrip(")")


def further_runs(rows: Iterable[tuple[str, np.ndarray, int, Units]]) -> Html:
    """Success@k of further runs on the slice's questions, with the number of those questions that the run searched."""
    lines = []
    for name, first, k, units in rows:
        estimate = proportion(success_from_ranks(first, k), units.codes)
        lines.append(
            row(n_figure(estimate.n, estimate.units, units.name), percentage(estimate, inline=True), head=name)
        )
    shown = table(table_head("further runs on this slice", "n", "%"), lines, "figures groups small")
    return div(shown, cls="scrolling every-run") if lines else Html("")


def saved_table(
    slices: Mapping[str, SavedSlice], facts: Facts, selection: Selection, questions_address: Callable[[str], str]
) -> Html:
    """The saved slices with both runs' figures, and p values adjusted for all saved slices together."""
    members, broken = {}, {}
    for name, slice_ in slices.items():
        try:
            members[name] = np.flatnonzero(facts.mask(slice_.expression))
        except BlindspotError as error:
            broken[name] = str(error)
    measure = MEASURES.get(selection.measure)
    found = by_group(facts.comparison, selection.k, members, measure=measure)
    lines = []
    for name, each in slices.items():
        head = join(
            link(name, questions_address(each.expression), title="Open this slice"),
            tag("code", each.expression, cls="expression"),
        )
        if name not in found:
            why = broken.get(name, "no questions of these runs")
            lines.append(row(tag("td", why, colspan=5, cls="soft left"), head=head))
            continue
        both = found[name]
        is_share = measure is SUCCESS
        a, b = percentage(both.a, is_share=is_share), percentage(both.b, is_share=is_share)
        n, p = n_figure(both.n, both.units, both.unit), _p(both.difference.p_adjusted)
        cells = (_wide(n), _wide(a), _wide(b), gain(both.difference), _wide(p))
        lines.append(row(*cells, head=head, cls="few" if both.units < FEW else None))
    p_head = term("p (Holm)", "p value, Holm-adjusted for the number of saved slices")
    figures = (_wide("n", "th"), _wide(letter("a"), "th"), _wide(letter("b"), "th"), "ahead", _wide(p_head, "th"))
    return table(table_head("slice", *figures), lines, CLASSES)


def spoken_table(
    with_nested: Sequence[tuple[FoundSlice, list[FoundSlice]]],
    elsewhere: Mapping[str, PairedFigures],
    whole: PairedFigures,
    questions_address: Callable[[str], str],
) -> Html:
    """The found slices in words, with the lead within and elsewhere as figures and on a line, below the lead over all
    questions. The slices nested in a slice are folded beside its words. A line names each part of the list, if there
    are several. The expressions are in the tooltips of the words and in `found_table`.

    Args:
        elsewhere: by the slice's expression, the figures of the other questions. whole: those of all questions.
    """

    def spoken(found_slice: FoundSlice) -> Html:
        words = in_words(found_slice.expression)
        return link(
            f"{words[:1].upper()}{words[1:]}", questions_address(found_slice.expression), title=found_slice.expression
        )

    def nested_item(each: FoundSlice) -> Html:
        side, words = lead(each.figures.difference.estimate)
        n = f" n {n_cell(each.figures.n, each.figures.units, each.figures.unit)}"
        return tag("li", spoken(each), span(n, f", {side.upper()} {words}" if side else ", level", cls="soft"))

    shown = [whole, *(each.figures for each, _ in with_nested)]
    limit = widest_difference(each.difference.estimate for each in shown)

    def line(each: FoundSlice, nested: Sequence[FoundSlice]) -> Html:
        summary = tag("summary", quantity(len(nested), "nested slice"))
        inside = tag("details", summary, tag("ul", *map(nested_item, nested))) if nested else ""
        figures, rest = each.figures, elsewhere.get(each.expression)
        name = div(spoken(each), cls="name", data_n=f"n {n_cell(figures.n, figures.units, figures.unit)}")
        ahead = join(gain(figures.difference), _beside(rest, each.explained))
        return row(
            _wide(n_figure(figures.n, figures.units, figures.unit)),
            tag("td", ahead, data_value=figures.difference.estimate.value),
            tag("td", gain(rest.difference) if rest else "–", cls="wide", data_value=each.outside),
            _wide(signed_number(100 * each.explained)),
            strip_cell(figures.difference.estimate, limit, 100 * each.outside, figures.difference.p_shown > SURE),
            head=join(name, inside),
            cls="few" if figures.units < FEW else None,
        )

    sums = row(
        _wide(n_figure(whole.n, whole.units, whole.unit)),
        tag("td", gain(whole.difference)),
        _wide(""),
        _wide(""),
        strip_cell(whole.difference.estimate, limit, is_pale=whole.difference.p_shown > SURE),
        head=div("All questions", cls="name", data_n=f"n {n_cell(whole.n, whole.units, whole.unit)}"),
    )
    parts = [list(each) for _, each in groupby(with_nested, lambda group: part_of(group[0], whole.n))]
    bodies = [tag("tbody", sums, cls="sums")]
    for part in parts:
        words = PARTS[part_of(part[0][0], whole.n)]
        rule = tag("tr", tag("th", words, colspan=6, scope="rowgroup", cls="left soft"), cls="part")
        bodies.append(tag("tbody", rule if len(parts) > 1 else "", *(line(*group) for group in part)))
    return tag("table", _spoken_head(limit), *bodies, cls="figures groups spoken")


def _spoken_head(limit: float) -> Html:
    return table_head(
        "questions",
        _wide("n", "th"),
        tag("th", term("ahead", GAIN), scope="col", cls="lead"),
        tag("th", term("ahead elsewhere", f"In the other questions. {GAIN}"), scope="col", cls="wide lead"),
        _wide(term("contribution", MOVES), "th"),
        strip_head(limit),
    )


def _beside(rest: PairedFigures | None, explained: float) -> Html:
    """What stands below the lead in a narrow window, which hides the columns: the lead elsewhere, and the contribution."""
    words = ""
    if rest is not None and rest.difference.estimate.value is not None:
        words = f"elsewhere {' '.join(filter(None, lead(rest.difference.estimate))).capitalize()};"
    return div(span(words), " ", span(f"moves it by {signed_number(100 * explained)}"), cls="beside")


def found_table(slices: FoundSlices, questions_address: Callable[[str], str]) -> Html:
    """The slices that the slice finder reports, each linked to its questions."""
    lines = (
        row(
            n_figure(slice_.figures.n, slice_.figures.units, slice_.figures.unit),
            percentage(slice_.figures.a),
            percentage(slice_.figures.b),
            gain(slice_.figures.difference),
            signed_number(100 * slice_.outside),
            signed_number(100 * slice_.explained),
            _p(slice_.p_adjusted),
            head=link(tag("code", slice_.expression), questions_address(slice_.expression)),
        )
        for slice_ in slices.slices
    )
    head = table_head(
        "slice",
        "n",
        letter("a"),
        letter("b"),
        term("ahead", GAIN),
        "A − B elsewhere",
        term("contribution", MOVES),
        term("p adjusted", f"{SLICE_TEST} Adjusted for {quantity(slices.tried, 'slice')}."),
    )
    return table(head, lines, CLASSES)


def _wide(content: object, name: str = "td") -> Html:
    """A cell that a narrow window hides (docs/design.md)."""
    return tag(name, content, scope="col" if name == "th" else None, cls="wide")


def _p(p: float | None) -> Html:
    return join("" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}")

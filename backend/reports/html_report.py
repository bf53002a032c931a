"""Write a study's report as one self-contained HTML file: first the conclusions, then the figures that pages and
commands show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from blindspot.analysis import published
from blindspot.analysis.relations import relation_name, relation_order
from blindspot.backend.core.manifest import write_text
from blindspot.backend.core.result_table import ResultTable
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation import report_plots
from blindspot.backend.evaluation.comparison import Comparison, measure_all
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.findings import findings
from blindspot.backend.evaluation.miss_report import cause_tables, sentences_without_misses
from blindspot.backend.evaluation.miss_table import miss_table
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.evaluation.panel import Panel, frequency_curves, relation_table
from blindspot.backend.evaluation.panel_report import frequency_rows, published_rows, relation_rows
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.report import report
from blindspot.backend.evaluation.report_text import cost_tables, measure_tables, overall_tables
from blindspot.backend.evaluation.saved_slices import saved_slices
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.evaluation.slice_report import find_in_runs
from blindspot.backend.reports.examples import example_parts
from blindspot.backend.reports.labels import ANCHOR as LABELS
from blindspot.backend.reports.labels import label_findings, label_parts, label_sentences
from blindspot.backend.reports.markup import as_plot, heading, navigation, page, remark
from blindspot.backend.reports.training import ANCHOR as TRAINING
from blindspot.backend.reports.training import trained_models, training_parts, training_sentences
from blindspot.backend.text.answers import DEFAULT_RULE

CLOSING = (
    "Limits: figures may differ on another collection, with other questions or with another encoder. Without a person's "
    "label, a passage counted as relevant may not answer the question, and a passage counted as not relevant may "
    "answer it. A slice shows where a difference is, not its cause."
)


def write_html_report(
    study: Study,
    path: Path,
    runs: Sequence[str] | None = None,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    measures: Sequence[str] = (),
) -> int:
    """Write the report and return its size in bytes. Raises Missing for an unknown run, BadInput for an invalid
    argument, and OSError if the file cannot be written.
    """
    text = html_report(study, runs, relevance, rule, measures)
    write_text(path, text)
    return len(text.encode("utf-8"))


def html_report(
    study: Study,
    runs: Sequence[str] | None = None,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    measures: Sequence[str] = (),
) -> str:
    """Return the report's HTML, which begins with the conclusions. Runs over the same questions share tables, and the
    first of these runs is compared with the others.

    Args:
        measures: registered measures to show beside Success@k: over all questions, and by relation.
    """
    result = report(study, runs, "relation", relevance, rule, measures=measures)
    names = [run.name for run in result.runs]
    sets = _runs_by_question_set(study, names)
    pairs = [_main_pair(study, members) for members in sets]
    compared = [None if pair is None else _comparison(study, *pair, relevance, rule) for pair in pairs]
    k = min([HEADLINE_K, *(each.depth for each in compared if each is not None)])
    labels = label_findings(study, names, relevance, rule)
    models = trained_models(study, k, relevance, rule)
    pairs_compared = [each for each in compared if each is not None]
    conclusions = [
        *((words, f"pair{n}") for n, each in enumerate(pairs_compared) for words in _finding_sentences(study, each, k)),
        *((words, LABELS) for words in (label_sentences(labels, k) if labels else ())),
        *((words, TRAINING) for words in training_sentences(models, k)),
    ]
    parts = [f"<h1>{escape(study.settings.name)}</h1>", _study_section(study), *_conclusions(conclusions)]
    sections: list[str] = []
    for number, each in enumerate(pairs_compared):
        sections += _frequency_and_slices(study, each, k, f"pair{number}")
        sections += _causes_section(each, f"causes{number}")
    if pairs_compared:
        sections += example_parts(study, max(pairs_compared, key=len), k)
    sections += label_parts(labels) if labels else ()
    sections += training_parts(study, models, k)
    sections.append(heading("Accuracy of all runs", "accuracy"))
    sections += [each.as_html() for each in (*overall_tables(result), *measure_tables(result), *cost_tables(result))]
    sections += [remark(words) for words in [*result.notes, result.convention]]
    for number, members in enumerate(sets):
        sections.append(heading(f"All figures: {', '.join(members)}", f"set{number}"))
        sections += _accuracy_section(study, members, relevance, rule)
        for other in members[1:]:
            sections += _comparison_section(study, members[0], other, relevance, rule)
    sections.append(f'<p class="notice">{escape(CLOSING)}</p>')
    return page(f"{study.settings.name}: Blindspot report", [*parts, navigation("".join(sections)), *sections])


def _main_pair(study: Study, members: Sequence[str]) -> tuple[str, str] | None:
    """Return the two runs that the conclusions compare, which are the same as on the Home page; None for a
    single run.
    """
    if len(members) < 2:
        return None
    return default_pair({name: study.run(name).manifest for name in members})


def _comparison(study: Study, run_a: str, run_b: str, relevance: Kind, rule: str) -> Comparison | None:
    measured = measure_all(study, [run_a, run_b], relevance, rule)
    compared = Comparison.of_runs(measured[run_a], measured[run_b])
    return compared if len(compared) else None


def _finding_sentences(study: Study, comparison: Comparison, k: int) -> list[str]:
    names = comparison.run_a.name, comparison.run_b.name
    return [each.sentence[0].upper() + each.sentence[1:] for each in findings(comparison, k, names)]


def _conclusions(conclusions: Sequence[tuple[str, str]]) -> Iterator[str]:
    if conclusions:
        yield heading("Conclusions", "conclusions")
        items = "".join(f'<li><a href="#{anchor}">{escape(words)}</a></li>' for words, anchor in conclusions)
        yield f'<ul class="conclusions">{items}</ul>'


def _runs_by_question_set(study: Study, names: Sequence[str]) -> list[list[str]]:
    sets: dict[str, list[str]] = {}
    for name in names:
        sets.setdefault(str(study.run(name).manifest.get("question_set", name)), []).append(name)
    return list(sets.values())


def _study_section(study: Study) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    source = study.questions.frequency_source or "none"
    message = (
        f"{len(study.corpus):,} passages, {len(study.questions):,} questions; frequencies: {source}. Made "
        f"{stamp} by Blindspot."
    )
    return remark(message)


def _frequency_and_slices(study: Study, comparison: Comparison, k: int, anchor: str) -> Iterator[str]:
    """Yield the section on two runs: their accuracy by frequency, and the slices in which their difference is not the
    same as elsewhere.
    """
    a, b = comparison.run_a, comparison.run_b
    yield heading(f"{a.name} and {b.name}, by frequency", anchor)
    curves = frequency_curves(Panel.of_runs({a.name: a, b.name: b}), k)
    if any(points for each in curves.series.values() for points in each.values()):
        yield as_plot(report_plots.curve_plot(curves, [a.name, b.name]), f"frequency-{a.name}-{b.name}-at-{k}")
        yield frequency_rows(curves, [a.name, b.name]).as_html()
    else:
        yield remark("The frequency of these questions' subjects is unknown: run: blindspot import frequencies COUNTS.")
    found = find_in_runs(study, (a.name, b.name), None, a.kind, a.rule)
    if found.found_slices.slices:
        (table,) = found.tables()
        title = f"Slices that explain the difference at {found.k}, A: {a.name}, B: {b.name}, %"
        yield ResultTable(title, table.columns, table.rows).as_html()
    else:
        yield remark("No slice of the questions differs reliably from the rest.")


def _causes_section(comparison: Comparison, anchor: str) -> Iterator[str]:
    """Yield the section on the causes of two runs' misses; nothing if they miss no question."""
    k = min(HEADLINE_K, comparison.depth)
    table = miss_table(comparison, k, np.arange(len(comparison)))
    if not any(run.misses for run in table.runs):
        return
    a, b = comparison.run_a.name, comparison.run_b.name
    yield heading(f"Causes of the misses of {a} and {b} at {k}", anchor)
    yield as_plot(report_plots.cause_plot(table), f"causes-{a}-{b}")
    yield from (each.as_html() for each in cause_tables(table))
    yield from map(remark, [*table.sentences, *sentences_without_misses(table), table.method])


def _accuracy_section(study: Study, members: Sequence[str], relevance: Kind, rule: str) -> Iterator[str]:
    """Yield the plots and tables of runs over the same questions: first by frequency, then by relation."""
    panel = Panel.of_runs(measure_all(study, members, relevance, rule))
    k = min(published.K, panel.depth)
    official = {question.relation for question in panel.questions if question.bucket is not None and question.relation}
    for relation in ["", *sorted(official, key=relation_order)]:
        curves = frequency_curves(panel, k, relation)
        if any(points for each in curves.series.values() for points in each.values()):
            yield f"<h3>By frequency, {escape(relation_name(relation) if relation else 'all relations')}</h3>"
            yield as_plot(report_plots.curve_plot(curves, members), f"frequency-{members[0]}-{relation or 'all'}")
            yield frequency_rows(curves, members).as_html()
    if (panel.relations != "").any():
        table = relation_table(panel, k)
        order = sorted((row.group for row in table.rows), key=relation_order)
        yield f"<h3>By relation, Success@{k}</h3>"
        yield as_plot(report_plots.dumbbell(table, members, order), f"relations-{members[0]}")
        yield relation_rows(table, members).as_html()
        if k == published.K and any(name in published.TOP_20 for name in order):
            yield f'<p class="notice">{escape(published.comparability_caveat(len(study.corpus), len(panel)))}</p>'
            yield published_rows(table, members, order).as_html()


def _comparison_section(study: Study, run_a: str, run_b: str, relevance: Kind, rule: str) -> Iterator[str]:
    yield f"<h3>{escape(run_a)} and {escape(run_b)}</h3>"
    by_relation = compare_with(study, run_a, run_b, ComparisonOptions(by="relation", relevance=relevance, rule=rule))
    yield f"<p><strong>{escape(by_relation.conclusion)}</strong> {escape(by_relation.reservation)}</p>"
    yield from (each.as_html() for each in by_relation.tables())
    by_bucket = compare_with(study, run_a, run_b, ComparisonOptions(by="bucket", relevance=relevance, rule=rule))
    yield by_bucket.tables()[1].as_html()
    if saved_slices(study):
        yield (
            compare_with(study, run_a, run_b, ComparisonOptions(by="slice", relevance=relevance, rule=rule))
            .tables()[1]
            .as_html()
        )
    yield remark(" ".join([*by_bucket.notes, by_relation.method]))

"""A study's report as one self-contained HTML file, with the same figures as the pages and commands, and interactive
plots.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import published
from analysis.relations import relation_name, relation_order
from backend.core.manifest import write_text
from backend.evaluation import report_plots
from backend.evaluation.comparison_report import compare_runs
from backend.evaluation.latex import Table
from backend.evaluation.panel import Panel, frequency_curves, relation_table
from backend.evaluation.panel_report import frequency_rows, published_rows, relation_rows
from backend.evaluation.relevance import Kind
from backend.evaluation.report import report
from backend.evaluation.report_text import report_tables
from backend.evaluation.saved_slices import saved
from backend.evaluation.slice_report import find_in_runs
from backend.text.answers import DEFAULT_RULE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from backend.core.study import Study

STYLE = """
:root { color-scheme: light; --line: #d7dce2; --soft: #5c6672; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2026; max-width: 1200px; margin: 0 auto; padding: 1.5rem 2rem 4rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); } h3 { margin-top: 1.6rem; font-size: 1.05rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0.8rem 0 0.3rem; }
th, td { text-align: right; padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); font-weight: 400; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; } thead th { color: var(--soft); }
.soft { color: var(--soft); font-size: 0.88rem; } .notice { border-left: 3px solid #b8860b; background: #fff6df; padding: 0.4rem 0.8rem; }
button { font: inherit; font-size: 0.85rem; margin-right: 0.4rem; } nav a { margin-right: 1rem; }
@media print { button, nav { display: none; } }
"""
SAVE = """
function save(button, format) {
  const plot = button.parentElement.parentElement.querySelector(".js-plotly-plot");
  Plotly.downloadImage(plot, {format: format, filename: button.parentElement.dataset.name, scale: 2});
}
"""
CLOSING = (
    "Limits: a figure may differ on another collection, other questions or another encoder. Without a person's "
    "label, a passage counted as relevant may not answer the question, and a passage counted as not relevant may "
    "answer it. A slice shows where a difference is, not its cause."
)


def write_html_report(
    study: Study, path: Path, runs: Sequence[str] | None = None, relevance: Kind = "answers", rule: str = DEFAULT_RULE
) -> int:
    """Write the report and return its size in bytes. Raises Missing for an unknown run, BadInput, OSError."""
    text = html_report(study, runs, relevance, rule)
    write_text(path, text)
    return len(text.encode("utf-8"))


def html_report(
    study: Study, runs: Sequence[str] | None = None, relevance: Kind = "answers", rule: str = DEFAULT_RULE
) -> str:
    """Return the whole file. Runs over the same questions share tables, and the first of them is compared with the
    others.
    """
    from plotly.offline import get_plotlyjs

    result = report(study, runs, "relation", relevance, rule)
    names = [run.name for run in result.runs]
    sets = _by_question_set(study, names)
    parts = [f"<h1>{escape(study.settings.name)}</h1>", _about(study), _navigation(sets)]
    parts += [_table(table) for table in report_tables(result)[:3]]
    parts += [f'<p class="soft">{escape(remark)}</p>' for remark in [*result.notes, result.convention]]
    for number, members in enumerate(sets):
        parts.append(f'<h2 id="set{number}">{escape(", ".join(members))}</h2>')
        parts += _panel(study, members, relevance, rule)
        for other in members[1:]:
            parts += _compared(study, members[0], other, relevance, rule)
    parts.append(f'<p class="notice">{escape(CLOSING)}</p>')
    head = f'<meta charset="utf-8"><title>{escape(study.settings.name)}: Blindspot report</title><style>{STYLE}</style>'
    scripts = f"<script>{get_plotlyjs()}</script><script>{SAVE}</script>"
    return f'<!doctype html><html lang="en"><head>{head}{scripts}</head><body>{"".join(parts)}</body></html>\n'


def _by_question_set(study: Study, names: Sequence[str]) -> list[list[str]]:
    sets: dict[str, list[str]] = {}
    for name in names:
        sets.setdefault(str(study.run(name).manifest.get("question_set", name)), []).append(name)
    return list(sets.values())


def _about(study: Study) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    source = study.questions.frequency_source or "none"
    message = (
        f"{len(study.corpus):,} passages, {len(study.questions):,} questions; frequencies: {source}. Made "
        f"{stamp} by Blindspot."
    )
    return f'<p class="soft">{escape(message)}</p>'


def _navigation(sets: Sequence[Sequence[str]]) -> str:
    return (
        "<nav>"
        + "".join(f'<a href="#set{i}">{escape(", ".join(members))}</a>' for i, members in enumerate(sets))
        + "</nav>"
    )


def _panel(study: Study, members: Sequence[str], relevance: Kind, rule: str) -> Iterator[str]:
    """Return the tables and plots of runs over one set of questions."""
    from backend.evaluation.comparison import measure_all

    panel = Panel.of(measure_all(study, members, relevance, rule))
    k = min(published.K, panel.depth)
    if (panel.relations != "").any():
        table = relation_table(panel, k)
        order = sorted((row.group for row in table.rows), key=relation_order)
        yield f"<h3>By relation, Success@{k}</h3>"
        yield _plot(report_plots.dumbbell(table, members, order), f"relations-{members[0]}")
        yield _table(relation_rows(table, members))
        if k == published.K and any(name in published.TOP_20 for name in order):
            yield f'<p class="notice">{escape(published.not_comparable(len(study.corpus), len(panel)))}</p>'
            yield _table(published_rows(table, members, order))
    official = {question.relation for question in panel.questions if question.bucket is not None and question.relation}
    for relation in ["", *sorted(official, key=relation_order)]:
        curves = frequency_curves(panel, k, relation)
        if any(points for each in curves.series.values() for points in each.values()):
            yield f"<h3>By frequency, {escape(relation_name(relation) if relation else 'all relations')}</h3>"
            yield _plot(report_plots.curve_plot(curves, members), f"frequency-{members[0]}-{relation or 'all'}")
            yield _table(frequency_rows(curves, members))


def _compared(study: Study, a: str, b: str, relevance: Kind, rule: str) -> Iterator[str]:
    yield f"<h3>{escape(a)} and {escape(b)}</h3>"
    by_relation = compare_runs(study, a, b, None, "relation", relevance, rule)
    yield f"<p><strong>{escape(by_relation.conclusion)}</strong> {escape(by_relation.reservation)}</p>"
    yield from map(_table, by_relation.tables())
    by_bucket = compare_runs(study, a, b, None, "bucket", relevance, rule)
    yield _table(by_bucket.tables()[1])
    if saved(study):
        yield _table(compare_runs(study, a, b, None, "slice", relevance, rule).tables()[1])
    found = find_in_runs(study, a, b, None, relevance, rule)
    if found.found.slices:
        yield _table((f"Slices that explain the difference at {found.k}, A: {a}, B: {b}, %", *found.tables()[0][1:]))
    yield f'<p class="soft">{escape(" ".join([*by_bucket.notes, by_relation.method]))}</p>'


def _table(table: Table) -> str:
    caption, heads, rows = table
    head = "".join(f'<th scope="col">{escape(words)}</th>' for words in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _plot(figure: Figure, name: str) -> str:
    from plotly.io import to_html

    result = to_html(figure, full_html=False, include_plotlyjs=False, config=report_plots.config(name))
    buttons = "".join(
        f'<button type="button" onclick="save(this, \'{form}\')">{form.upper()}</button>' for form in ("svg", "png")
    )
    return f'<div>{result}<p data-name="{escape(name)}">{buttons}</p></div>'

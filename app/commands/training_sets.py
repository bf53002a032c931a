"""`blindspot training-set`: build, inspect, compare and export training sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, StudyOption, do, group, open_study, print_json, progress
from blindspot.app.commands.options import takes_settings
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.denoising import Thresholds
from blindspot.backend.training_sets.export_options import ExportOptions
from blindspot.backend.training_sets.spec import TrainingSetSpec

if TYPE_CHECKING:
    from blindspot.backend.training_sets.training_set import TrainingSet

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the training set.")]

training_set_app = group("Build training sets from runs, labels and scores; compare and export them.")


@training_set_app.command("build")
@takes_settings(
    TrainingSetSpec,
    names=("policy", "questions", "positives", "model", "random", "other_gold", "rule", "until", "seed"),
)
@takes_settings(Thresholds, parameter="thresholds")
def build(
    name: Name,
    run: Annotated[
        list[str], typer.Option("--run", help="Run over training questions to mine negatives from (repeatable).")
    ],
    ranks: Annotated[str, typer.Option(metavar="FIRST-LAST", help="Ranks to mine negatives from.")] = "1-100",
    study: StudyOption = None,
    *,
    settings: dict[str, Any],
    thresholds: dict[str, Any],
) -> None:
    """Build a training set. A built set never changes. Dev and test questions, and pairs that leak from them, are left
    out.
    """
    first, dash, last = ranks.partition("-")
    if not (first.isdecimal() and (last.isdecimal() or not dash) and len(ranks) < 20):
        raise typer.BadParameter("--ranks needs two whole numbers, as in 1-100")
    from blindspot.backend.training_sets.builder import build

    settings |= {"first": int(first), "last": int(last or first), "thresholds": thresholds}
    result = do(build, open_study(study), name=name, runs=run, **settings)
    _print_set(result)


@training_set_app.command("list")
def list_sets(json: AsJson = False, study: StudyOption = None) -> None:
    """List the training sets, oldest first."""
    from blindspot.backend.training_sets.training_set import training_sets

    result = training_sets(open_study(study))
    if json:
        print_json(list(result.values()))
        return
    if not result:
        print("No training sets yet. Build one: blindspot training-set build NAME --run RUN")
    for name, manifest in result.items():
        counts = manifest["counts"]
        roles = {role: sum(row.values()) for role, row in counts["sources"].items()}
        print(
            f"{name}: {manifest['policy']}, {quantity(counts['questions'], 'question')}, "
            f"{quantity(roles['positive'], 'positive')}, {quantity(roles['negative'], 'negative')}, label event "
            f"{manifest['inputs']['labels']['last_event']}, made {manifest['made']}"
        )


@training_set_app.command("show")
def show(
    name: Name,
    question: Annotated[str | None, typer.Option(metavar="ID", help="Print the pairs of this question.")] = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Show the contents of a training set: pairs by source and reason, and removed pairs by rank, relation and
    bucket.
    """
    from blindspot.backend.training_sets.training_set import TrainingSet

    opened = open_study(study)
    result = TrainingSet.open(opened, name)
    if question is not None:
        pairs = [pair for _, group in result.groups([question]) for pair in group]
        if json:
            print_json([pair._asdict() for pair in pairs])
        else:
            _print_pairs(result, question, pairs)
        return
    if json:
        print_json(result.manifest)
        return
    _print_set(result)
    _print_counts(result.manifest["counts"])


@training_set_app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="First training set.")],
    after: Annotated[str, typer.Argument(metavar="B", help="Training set to compare it with.")],
    limit: Annotated[int, typer.Option(min=0, help="Number of pairs to print; 0 prints all.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print every change as a JSON line, for scripts.")] = False,
    study: StudyOption = None,
) -> None:
    """Show what changed between two training sets, pair by pair, and why."""
    from dataclasses import asdict
    from itertools import islice
    from json import dumps

    from blindspot.backend.training_sets.differences import change_summary
    from blindspot.backend.training_sets.differences import diff as changes
    from blindspot.backend.training_sets.training_set import TrainingSet

    opened = open_study(study)
    old, new = TrainingSet.open(opened, before), TrainingSet.open(opened, after)
    if json:
        for change in changes(old, new):
            print(dumps(asdict(change), ensure_ascii=False))
        return
    summary = change_summary(old, new)
    print(f"{quantity(summary.changed, 'pair')} changed, {summary.same:,} have the same role in both sets.")
    for kind, reasons in summary.by_kind().items():
        roles = " -> ".join(role or "absent" for role in kind)
        for why, count in reasons.items():
            print(f"{count:>8,}  {roles}: {why}")
    for change in islice(changes(old, new), limit or None):
        before_words, after_words = (" by ".join(end) if end else "absent" for end in (change.before, change.after))
        print(f"{change.question} {change.passage}: {before_words} -> {after_words} ({change.why})")
    if limit and summary.changed > limit:
        print(f"... and {summary.changed - limit:,} more; --limit 0 prints all.")


@training_set_app.command("export")
@takes_settings(ExportOptions, parameter="options")
def export(
    name: Name,
    format: Annotated[
        str,
        typer.Option(
            "--format", metavar="FORMAT", help="Format to write; 'blindspot training-set formats' lists them."
        ),
    ],
    *,
    options: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="New folder to write (default: named after the set and the format, in the current folder).",
        ),
    ] = None,
    study: StudyOption = None,
) -> None:
    """Export a training set for a trainer: a folder with the data files, a manifest and a dataset card."""
    from blindspot.backend.training_sets.exports import export as write

    with progress() as watch:
        written = write(open_study(study), name, format, out, ExportOptions(**options), watch)
    print(
        f"Wrote {written.path}: "
        + ", ".join(f"{file} ({quantity(rows, 'row')})" for file, rows in written.rows.items())
    )
    for note in written.notes:
        print(note)


@training_set_app.command("policies")
def policies(json: AsJson = False) -> None:
    """List the denoising policies."""
    from blindspot.backend.training_sets.denoising import DENOISING

    _list([(policy.name, policy.help) for policy in DENOISING], json)


@training_set_app.command("formats")
def formats(json: AsJson = False) -> None:
    """List the formats in which a training set can be exported."""
    from blindspot.backend.training_sets.exports.base import EXPORTS

    _list([(form.name, f"{form.title[0].upper()}{form.title[1:]}. {form.help}") for form in EXPORTS], json)


def _list(rows: list[tuple[str, str]], as_json: bool) -> None:
    if as_json:
        print_json([{"name": name, "help": text} for name, text in rows])
        return
    for name, text in rows:
        print(f"{name}: {text}")


def _print_set(training_set: TrainingSet) -> None:
    counts, labels = training_set.manifest["counts"], training_set.manifest["inputs"]["labels"]
    print(
        f"Training set {training_set.name}: policy {training_set.manifest['policy']}, {quantity(counts['questions'], 'question')}, "
        f"{quantity(counts['pairs'], 'pair')}, {training_set.manifest['seconds']:.0f} s; labels "
        f"{'up to' if labels['used'] else 'not used, last'} event {labels['last_event']}."
    )
    for role, sources in counts["sources"].items():
        print(f"  {role}: " + (", ".join(f"{count:,} {source}" for source, count in sources.items()) or "none"))
    for reason, count in training_set.manifest["left_out"].items():
        print(f"  {quantity(count, 'question')} left out: {reason}")


def _print_counts(counts: dict[str, Any]) -> None:
    from blindspot.app.console import Terminal
    from blindspot.backend.core.result_table import ResultTable, rich_tables

    fates = ("removed", "relabelled", "removed_by_people")
    tables = [ResultTable("", ["why", "pairs"], list(counts["reasons"].items()))]
    for kind in ("rank", "relation", "bucket"):
        rows = []
        groups = counts[f"by_{kind}"]
        for name, row in _first_ranks(groups) if kind == "rank" else groups.items():
            removed = sum(row[fate] for fate in fates)
            mined = removed + row["kept"]
            share = f"{100 * removed / mined:.1f}%" if mined else ""
            rows.append([name, mined, *(row[fate] for fate in fates), share])
        heads = [kind, "mined", "removed", "relabelled", "removed by people", "together"]
        tables += [ResultTable("", heads, rows)] if rows else []
    Terminal().print(rich_tables(tables, []))


def _first_ranks(rows: dict[str, dict[str, int]]) -> list[tuple[str, dict[str, int]]]:
    """Group the ranks: the first ten one by one, then by tens."""
    groups: dict[str, dict[str, int]] = {}
    for rank, row in rows.items():
        low = (int(rank) - 1) // 10 * 10 + 1
        name = rank if int(rank) <= 10 else f"{low}-{low + 9}"
        end = groups.setdefault(name, dict.fromkeys(row, 0))
        for key, count in row.items():
            end[key] += count
    return list(groups.items())


def _print_pairs(training_set: TrainingSet, question: str, pairs: list[Any]) -> None:
    if not pairs:
        reason = training_set.left_out().get(question)
        print(f"Question {question} is not in training set {training_set.name}" + (f": {reason}." if reason else "."))
    for pair in pairs:
        where = f", {pair.run} rank {pair.rank}" if pair.rank is not None else ""
        print(f"{pair.passage}: {pair.role} by {pair.source}{where} ({pair.reason})")

"""Tables of the command line, drawn by rich."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from blindspot.app.console import Terminal
from blindspot.backend.core.result_table import ResultTable
from blindspot.backend.core.units import count_with_units
from blindspot.backend.text.number_words import noun_form, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blindspot.backend.core.summary import Step
    from blindspot.backend.data.importing.from_results import ResultsImport
    from blindspot.backend.evaluation.oracle import Oracle
    from blindspot.db.jobs import Job

console = Terminal(highlight=False)


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str] = ()) -> None:
    """Print a table without a title, and one line for each note."""
    console.print(ResultTable("", headings, rows, notes).as_rich())


def print_status(summary: dict[str, Any], next_step: Step | None) -> None:
    """Print the contents of a study; the last line names the one next command."""
    passages = summary["passages"]
    console.print(f"[bold]{escape(summary['name'])}[/bold]  {escape(summary['folder'])}")
    console.print(
        f"Passages: {passages['count']:,} from {escape(passages['source'])}" if passages else "Passages: none"
    )
    if summary["questions"]:
        keys = ("dataset", "split", "questions", "with_gold", "with_answers")
        heads = ["question set", *(key.replace("_", " ") for key in keys[1:])]
        print_rows(heads, [[count[key] for key in keys] for count in summary["questions"]])
        console.print(f"Frequencies: {escape(summary['frequency_source'] or 'none')}")
    else:
        console.print("Questions: none")
    for name, manifest in summary["indexes"].items():
        console.print(f"Index {name}: {quantity(manifest['passages'], 'passage')}, made {manifest['made']}")
    for name, manifest in summary["runs"].items():
        console.print(
            f"Run {name}: {quantity(manifest['questions'], 'question')}, k={manifest['k']}, made {manifest['made']}"
        )
    for name, manifest in summary["maps"].items():
        counts = f"{quantity(manifest['question_points'], 'question')}, {quantity(manifest['passages'], 'passage')}"
        console.print(
            f"Map {name}: {escape(' and '.join(each['name'] for each in manifest['encoders']))}, {counts}, made {manifest['made']}"
        )
    if summary["gold_found"]:
        ways = ", ".join(f"{count:,} {escape(way)}" for way, count in summary["gold_found"].items())
        console.print(f"Gold passages by how they were found: {ways}")
    if made := summary["from_results"]:
        console.print(
            f"Made from results: {escape(', '.join(file['file'] for file in made['files']))}. What it cannot do:"
        )
        for line in made["cannot"]:
            console.print(f"  {escape(line)}")
    for job in summary["jobs"]:
        if job["state"] in ("running", "failed"):
            console.print(f"Job {job['id']} ({job['kind']}): {job['state']} {escape(job['error'] or '')}")
    if next_step is not None:
        console.print(f"\n{escape(next_step.why)} Next: {escape(next_step.command)}")


def print_results_import(result: ResultsImport, folder: str) -> None:
    print(f"Created the study {result.study.folder} in {result.seconds:.1f} s: {quantity(result.passages, 'passage')}.")
    for file in result.files:
        print(
            f"Run {file.run}: {quantity(file.questions, 'question')}, k={file.depth}, from {file.file}. "
            f"{file.flags.summary(file.file, 'dpr')}"
        )
        if file.changed:
            print(
                f"{quantity(file.changed, 'question')} {noun_form(file.changed, 'has')} other answers in {file.file} than "
                "in an earlier file, whose answers count."
            )
        if file.left_out:
            print(f"Left out {quantity(file.left_out, 'bad row')}: see {file.left_out_file}")
    if result.joined is not None:
        total = len(result.study.questions)
        print(
            f"{result.joined:,} of {quantity(total, 'question')} {noun_form(total, 'is', 'are')} in the questions file."
        )
        if result.study.questions.subjects(without_frequency=True):
            print(
                f"Their subjects have no frequency yet: blindspot import frequencies FILE --study {folder} imports "
                "mention counts."
            )
    print(
        f"Next: blindspot report --study {folder}, blindspot open --study {folder}; 'blindspot status' says what "
        "such a study cannot do."
    )


def print_oracle(oracle: Oracle) -> None:
    """One line per run: its measure, the number of questions on which no other run is better, and on which every other
    run is worse.
    """
    rows: list[list[object]] = [[each.run, each.estimate, each.best, each.only_choice] for each in oracle.choices]
    rows.append(["oracle", oracle.estimate, oracle.n - oracle.none, ""])
    gain, low, high = (100 * (value or 0.0) for value in (oracle.gain.value, oracle.gain.low, oracle.gain.high))
    note = (
        f"Choosing the best run for each question would gain {gain:.1f} points over {oracle.best_run} "
        f"({low:.1f} to {high:.1f}). In {quantity(oracle.none, 'question')} every run has 0."
    )
    title = f"{oracle.measure} by {oracle.relevance} over {count_with_units(oracle.n, oracle.estimate.units)}, %"
    console.print(ResultTable(title, ["run", oracle.measure, "best", "best alone"], rows, [note]).as_rich())


def print_jobs(jobs: Sequence[Job]) -> None:
    """Print a row for each job, and below the table the progress of each job, or why it failed. A job's id begins with
    the time (UTC) of the request.
    """
    from blindspot.backend.core.jobs import title

    notes = []
    for job in jobs:
        count = f"{job.done:,} of {job.total:,}" if job.total else f"{job.done:,}" if job.done else ""
        about = job.error or (": ".join(filter(None, (job.doing, count))) if job.unfinished else "")
        notes += [f"{job.id}: {about}"] if about else []
    print_rows(["state", "id", "job"], [[job.state, job.id, title(job.kind, job.arguments)] for job in jobs], notes)

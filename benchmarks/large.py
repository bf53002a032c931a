"""A study of very many passages and questions: time, memory and disk of each step, with an estimate for 21 million.

    python -m benchmarks.large [--passages 250000 500000] [--questions 50000 100000] [--folder SCRATCH]

Passages are generated: 100 words each, five sentences drawn from 20,000. So are the questions, with answer, relation,
subject, frequency and one gold passage, and two runs of 20 hits over them. Each step is a separate process, with its
own peak memory. Two sizes show whether a step grows linearly with the rows; the column "21,015,324, computed" is the
larger size scaled up. A question of the list is viewed as in the app, with Streamlit's AppTest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.machine import machine, peak_memory, spent
from blindspot.db.migrations import migrate

DPR = 21_015_324
K, RELATIONS, SEED = 20, 24, 0
RUNS = {"bm25-dev": "bm25", "dense-dev": "encoder"}
BLOCK = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, nargs="+", default=[250_000, 500_000])
    parser.add_argument("--questions", type=int, nargs="+", default=[50_000, 100_000])
    parser.add_argument("--folder", type=Path, help="folder of the studies (default: the folder for temporary files)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(*arguments.child)
        return
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        measured = []
        for rows in arguments.passages:
            shutil.rmtree(Path(folder) / "study", ignore_errors=True)
            measured.append((rows, dict(steps(Path(folder), "passages", rows))))
        show("passages", measured, DPR)
        measured = [(rows, dict(steps(Path(folder), "questions", rows))) for rows in arguments.questions]
        show("questions", measured, max(1_000_000, arguments.questions[-1]))


def steps(folder: Path, kind: str, rows: int) -> Iterator[tuple[str, dict]]:
    """Run each step and yield its name and its cost. The steps of "questions" add a labels.db and runs to the existing
    passages.
    """
    if kind == "questions":
        for name in ("labels.db", "labels.db-wal", "labels.db-shm"):
            (folder / "study" / name).unlink(missing_ok=True)
        shutil.rmtree(folder / "study" / "runs", ignore_errors=True)
        migrate(folder / "study" / "labels.db", is_new=True)
    for step in STEPS[kind]:
        command = [sys.executable, "-m", "benchmarks.large", "--child", step, str(folder), str(rows)]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        yield from json.loads(said.splitlines()[-1]).items()


def child(step: str, folder: str, rows: str) -> None:
    """Run one step, and report the seconds, the peak memory so far and the bytes on disk for each of its lines in the
    table.
    """
    made = {}
    for name, (seconds, processor), size, grows in {**STEPS["passages"], **STEPS["questions"]}[step](
        Path(folder), int(rows)
    ):
        made[name] = {"seconds": seconds, "processor": processor, "bytes": size, "peak": peak_memory(), "grows": grows}
    print(json.dumps(made))


def show(kind: str, measured: list[tuple[int, dict]], target: int) -> None:
    sizes = [rows for rows, _ in measured]
    heads = "".join(f"{rows:>31,}" for rows in sizes)
    print(f"\n{f'{kind}: time, processor time, peak MiB':<48}{heads}{f'{target:,}, computed':>26}")
    for name in measured[-1][1]:
        cells = [found[name] for _, found in measured]
        last, times = cells[-1], target / sizes[-1]
        computed = (
            f"{last['seconds'] * times:,.0f} s, {last['processor'] * times:,.0f} s" if last["grows"] else "the same"
        )
        line = "".join(
            f"{_words(cell['seconds']):>11}{_words(cell['processor']):>11}{cell['peak']:>7,.0f} M" for cell in cells
        )
        print(f"  {name:<46}{line}{computed:>26}")
        if last["bytes"]:
            disk = "".join(f"{cell['bytes'] / 1e9:>28,.2f} GB" for cell in cells)
            print(f"  {'  on disk':<46}{disk}{last['bytes'] / 1e9 * times:>23,.1f} GB")


def _words(seconds: float) -> str:
    return (
        f"{seconds:,.1f} s"
        if seconds >= 10
        else f"{1000 * seconds:,.0f} ms"
        if seconds >= 0.01
        else f"{1e6 * seconds:,.0f} µs"
    )


Spent = tuple[float, float]
"""Wall-clock and processor seconds."""
Line = tuple[str, Spent, int, bool]
"""The name of a step, its cost, the bytes on disk afterwards or 0, and whether it grows with the rows."""


def typical(work: Callable[[Any], object], asked: Iterable[Any]) -> Spent:
    """Return the median of each."""
    took = [spent(lambda: work(each)) for each in asked]  # noqa: B023
    return median(seconds for seconds, _ in took), median(processor for _, processor in took)


# Passages


def make_passages(folder: Path, rows: int) -> Iterator[Line]:
    rng = np.random.default_rng(SEED)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, size)) for size in rng.integers(3, 10, 5_000)])
    sentences = [" ".join(words[np.minimum(rng.zipf(1.3, 20) - 1, len(words) - 1)]) + "." for _ in range(20_000)]
    with open(folder / "passages.tsv", "w") as file:
        file.write("id\ttext\ttitle\n")
        for start in range(0, rows, BLOCK):
            drawn = rng.integers(0, len(sentences), (min(BLOCK, rows - start), 5)).tolist()
            file.write(
                "".join(
                    f"{start + i}\tName{start + i} is here. {' '.join(sentences[s] for s in row)}\tArticle "
                    f"{(start + i) // 5}\n"
                    for i, row in enumerate(drawn)
                )
            )
    return iter(())


def import_them(folder: Path, rows: int) -> Iterator[Line]:
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages

    study = Study.create(folder / "study", "large")
    took = spent(lambda: import_passages(study, folder / "passages.tsv"))
    (folder / "passages.tsv").unlink()
    yield "import, and corpus.db", took, (folder / "study" / "corpus.db").stat().st_size, True


def look_up(folder: Path, rows: int) -> Iterator[Line]:
    from blindspot.backend.core.study import Study

    rng, path = np.random.default_rng(SEED), folder / "study" / "corpus.db"
    len(Study.open(folder / "study").corpus)  # load the modules
    yield "open the study", spent(lambda: len(Study.open(folder / "study").corpus)), 0, False
    corpus = Study.open(folder / "study").corpus

    def by_id(i: int) -> None:
        corpus.passage(corpus.ordinals([str(i)])[str(i)])

    yield "a passage by its id, median of 2,000", typical(by_id, rng.integers(0, rows, 2_000).tolist()), 0, False
    with open(path, "rb") as file:

        def cold() -> Iterator[int]:
            for i in rng.integers(0, rows, 200).tolist():
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                yield i

        yield "  nothing of the file in memory, median of 200", typical(by_id, cold()), 0, False
    yield (
        "100 passages by row, median of 200",
        typical(corpus.passages, rng.integers(0, rows, (200, 100)).tolist()),
        0,
        False,
    )
    thousands = rng.integers(0, rows, (50, 1_000)).tolist()
    yield "rows of 1,000 ids, median of 50", typical(lambda each: corpus.ordinals(map(str, each)), thousands), 0, False


def scan(folder: Path, rows: int) -> Iterator[Line]:
    from blindspot.backend.core.study import Study

    corpus = Study.open(folder / "study").corpus
    yield "read every passage once", spent(lambda: sum(len(block) for block in corpus.blocks())), 0, True


# Questions


def make_questions(folder: Path, rows: int) -> Iterator[Line]:
    from blindspot.backend.core.study import Study

    rng = np.random.default_rng(SEED)
    passages = len(Study.open(folder / "study").corpus)
    with open(folder / "questions.jsonl", "w") as file:
        for i, (gold, seen) in enumerate(
            zip(rng.integers(0, passages, rows).tolist(), rng.integers(0, 500, rows).tolist(), strict=True)
        ):
            file.write(
                json.dumps(
                    {
                        "id": f"q{i}",
                        "question": f"Where was the person number {i} born?",
                        "answers": [f"Name{gold}"],
                        "relation": f"P{i % RELATIONS}",
                        "subject": f"person number {i}",
                        "frequency": seen,
                        "gold": [str(gold)],
                        "dataset": "large",
                        "split": "dev",
                    }
                )
                + "\n"
            )
    return iter(())


def import_questions_(folder: Path, rows: int) -> Iterator[Line]:
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_questions

    study = Study.open(folder / "study")
    took = spent(lambda: import_questions(study, folder / "questions.jsonl"))
    yield "import, and labels.db", took, study.labels_path.stat().st_size, True


def make_runs(folder: Path, rows: int) -> Iterator[Line]:
    """Write arrays like those of a search, without answer matching, which `benchmarks.answers` measures."""
    from blindspot.backend.core.manifest import atomic_folder, write_json, write_manifest
    from blindspot.backend.core.runs import question_set_hash
    from blindspot.backend.core.study import Study

    study, rng = Study.open(folder / "study"), np.random.default_rng(SEED)
    ids = [f"q{i}" for i in range(rows)]
    for name, retriever in RUNS.items():
        ranks = rng.geometric(0.15, rows) - 1
        with atomic_folder(study.path("runs", name)) as building:
            write_json(building / "questions.json", ids)
            np.save(building / "ordinals.npy", rng.integers(0, len(study.corpus), (rows, K), dtype=np.int32))
            np.save(building / "scores.npy", np.tile(np.linspace(9, 1, K, dtype=np.float32), (rows, 1)))
            np.save(building / "answers.dpr.npy", np.arange(K) == ranks[:, None])
            write_manifest(
                building,
                {
                    "kind": "run",
                    "name": name,
                    "retriever": retriever,
                    "k": K,
                    "questions": rows,
                    "rule": "dpr",
                    "question_set": question_set_hash(ids),
                    "corpus": study.corpus.digest,
                },
            )
    return iter(())


def look_at_list(folder: Path, rows: int) -> Iterator[Line]:
    """View the app's list of questions: first view, filters, sorting, pages."""
    from blindspot.app.server import SIGN_IN
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE

    os.environ |= {ENVIRONMENT_VARIABLE: str(folder / "study"), SIGN_IN: "none"}
    from streamlit.testing.v1 import AppTest

    from blindspot.app.components import findings

    app = AppTest.from_file(str(Path(__file__).parents[1] / "app" / "main.py"), default_timeout=600)

    def run(**parameters: object) -> Spent:
        app.query_params.clear()
        app.query_params.update(
            {"a": "bm25-dev", "b": "dense-dev", **{key: str(value) for key, value in parameters.items()}}
        )
        took = spent(app.run)
        assert not app.exception, app.exception
        return took

    seen: list[Spent] = []
    findings_panel = findings.findings_panel

    def timed_panel(*arguments: Any) -> object:
        panel = findings_panel(*arguments)
        seen.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        return panel

    with patch.object(findings, "findings_panel", timed_panel):
        began = time.perf_counter(), time.process_time()
        whole = run()
    yield "Home, the first figure", seen[0], 0, True
    yield "Home, the first page of all", whole, 0, True
    app.switch_page("pages/compare.py")
    yield "Compare, first view", run(), 0, True
    assert 'class="flips"' in "".join(element.proto.body for element in app.get("html"))
    yield "Compare again", run(), 0, True
    yield "  filtered by a relation", run(relation="P7"), 0, True
    yield "  filtered by words, the first time", run(text="number 4711"), 0, True
    yield "  filtered by words", run(text="number 4712"), 0, True
    yield "  sorted by frequency", run(sort="frequency"), 0, True
    yield "  the last page", run(page=rows // 25), 0, True
    app.switch_page("pages/question.py")
    yield "Question, first view", run(question="q0"), 0, True
    yield "Question, another", run(question=f"q{rows // 2}"), 0, True


STEPS: dict[str, dict[str, Callable[[Path, int], Iterator[Line]]]] = {
    "passages": {"make-passages": make_passages, "import-passages": import_them, "look-up": look_up, "scan": scan},
    "questions": {"make-questions": make_questions, "import-questions": import_questions_, "make-runs": make_runs, "list": look_at_list},
}  # fmt: skip


if __name__ == "__main__":
    main()

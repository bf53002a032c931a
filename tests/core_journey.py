"""The journey of docs/i-have.md that needs the core alone, with figures known by hand: import, report, compare, judge, export."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

TOWNS = ("Arbel", "Brist", "Corve", "Dunmo", "Elsin", "Farro")
PLACES = {"early": 1, "late": 3}  # where each retriever ranks the passage that answers; the first answers best


COMMANDS = """
import contextlib, io, json, sys
from blindspot.app import cli
for line in sys.stdin:
    sys.argv, code = ["blindspot", *json.loads(line)], 0
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    print(json.dumps([code, out.getvalue(), errors.getvalue()]), flush=True)
"""


class Installed:
    """The command of an environment, as a person outside the checkout runs it. One process does all commands."""

    def __init__(self, python: Path, home: Path):
        self.python, self.home = python, home
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "BLINDSPOT"))}
        self.environment = kept | {"HOME": str(home)}
        self._commands: subprocess.Popen | None = None

    def run(self, *arguments: object) -> subprocess.CompletedProcess:
        words = [str(part) for part in arguments]
        if self._commands is None:
            self._commands = subprocess.Popen(
                [self.python, "-c", COMMANDS],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self._commands.stdin.write(json.dumps(words) + "\n")
        self._commands.stdin.flush()
        return subprocess.CompletedProcess(words, *json.loads(self._commands.stdout.readline()))

    def close(self) -> None:
        if self._commands is not None:
            self._commands.communicate()

    def python_code(self, code: str, *arguments: object) -> subprocess.CompletedProcess:
        command = [str(part) for part in (self.python, "-c", code, *arguments)]
        return subprocess.run(
            command, cwd=self.home, env=self.environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )

    def says(self, *arguments: object) -> str:
        """Return what the command prints. It must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"blindspot {' '.join(map(str, arguments))}: {done.stderr or done.stdout}"
        return done.stdout


def journey(blindspot: Installed) -> Path:
    """Walk through the core; return the folder of the study from results files."""
    _from_results(blindspot)
    _from_a_beir_folder(blindspot)
    return blindspot.home / "mine"


def _passages(number: int) -> list[dict]:
    """The passage that answers question `number`, and two that do not."""
    towns = [TOWNS[(number + step) % len(TOWNS)] for step in range(3)]
    return [{"id": town, "title": town, "text": f"Mayor {town}son governs {town}."} for town in towns]


def _ranked(number: int, place: int) -> list[dict]:
    answering, *others = _passages(number)
    return [*others[: place - 1], answering, *others[place - 1 :]]


def _from_results(blindspot: Installed) -> None:
    for name, place in PLACES.items():
        entries = [
            {
                "question": f"Who governs {town}?",
                "answers": [f"{town}son"],
                "ctxs": [passage | {"score": str(9 - rank)} for rank, passage in enumerate(_ranked(number, place))],
            }
            for number, town in enumerate(TOWNS)
        ]
        (blindspot.home / f"{name}.json").write_text(json.dumps(entries))
    blindspot.says("new", "mine", "--from-run", "early.json", "--from-run", "late.json")
    reported = blindspot.says("report", "--study", "mine", "--k", "1,3", "--json")
    assert _success(reported) == {"early": {"1": 1, "3": 1}, "late": {"1": 0, "3": 1}}
    compared = blindspot.says("compare", "early", "late", "--k", 1, "--study", "mine")
    assert "100.0" in compared, compared
    assert blindspot.says("misses", "late", "--k", 1, "--study", "mine")
    assert "BM25 needs" not in blindspot.says("status", "--study", "mine")


def _from_a_beir_folder(blindspot: Installed) -> None:
    folder = blindspot.home / "towns"
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": town, "title": town, "text": f"Mayor {town}son governs {town}."} for town in TOWNS]
    queries = [{"_id": f"q{number}", "text": f"Who governs {town}?"} for number, town in enumerate(TOWNS)]
    for name, records in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    gold = "".join(f"q{number}\t{town}\t1\n" for number, town in enumerate(TOWNS))
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{gold}")
    ranked = [
        f"q{number} Q0 {passage['id']} {rank} {9 - rank} theirs\n"
        for number in range(len(TOWNS))
        for rank, passage in enumerate(_ranked(number, 2), start=1)
    ]
    (blindspot.home / "theirs.trec").write_text("".join(ranked))
    (blindspot.home / "judged.qrels").write_text("q0 0 Brist 1\nq1 0 Dunmo 0\n")  # one false negative of question 0

    blindspot.says("new", "beir")
    for what in ("passages", "questions"):
        blindspot.says("import", what, "towns", "--study", "beir")
    blindspot.says("import", "run", "theirs.trec", "--name", "theirs", "--split", "test", "--study", "beir")
    options = ("report", "--study", "beir", "--k", "1,2", "--json", "--relevance")
    assert _success(blindspot.says(*options, "gold")) == {"theirs": {"1": 0, "2": 1}}
    blindspot.says("batch", "new", "round", "--run", "theirs", "--size", 4, "--study", "beir")
    blindspot.says("labels", "import", "judged.qrels", "--annotator", "ann", "--by-person", "--study", "beir")
    blindspot.says("judge", "import", "tool", "judged.qrels", "--study", "beir")
    assert _success(blindspot.says(*options, "labels")) == {"theirs": {"1": pytest.approx(1 / 6), "2": 1}}
    blindspot.says("labels", "export", "--format", "jsonl", "--out", "labels.jsonl", "--study", "beir")
    events = [json.loads(line) for line in (blindspot.home / "labels.jsonl").read_text().splitlines()]
    labels = {(event["question"], event["passage"], event["label"]) for event in events if event.get("label")}
    assert labels == {("q0", "Brist", "positive"), ("q1", "Dunmo", "negative")}
    blindspot.says("export", "run", "theirs", "--format", "trec", "--out", "out.trec", "--study", "beir")
    exported = [line.split()[:4] for line in (blindspot.home / "out.trec").read_text().splitlines()]
    assert exported == [line.split()[:4] for line in ranked]
    blindspot.says("export", "qrels", "--format", "trec", "--out", "out.qrels", "--study", "beir")
    grades = {
        (of, town): grade
        for of, _, town, grade in map(str.split, (blindspot.home / "out.qrels").read_text().splitlines())
    }
    assert grades == {(f"q{number}", town): "1" for number, town in enumerate(TOWNS)} | {("q0", "Brist"): "1"}


def _success(printed: str) -> dict[str, dict[str, float]]:
    """Return the success of each run at each cut-off from what `report --json` printed."""
    runs = json.loads(printed)["runs"]
    return {name: {k: figure["success"] for k, figure in run["k"].items()} for name, run in runs.items()}

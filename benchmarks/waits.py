"""What a person waits for, on a study of one's own: a Markdown table of seconds and processor seconds.

    python -m benchmarks.waits STUDY [--encoder minilm] [--rounds 9] [--against CHECKOUT] [--only WORDS]

STUDY needs the indexes of BM25 and the encoder, `bm25-dev` and training questions (`python -m benchmarks.study STUDY`);
it is copied, and the copy is worked on. Most rows are a process of their own through the command line: medians of
`--rounds` for what takes about a second, once for the rest. Python's compiled files are there, as after the first start
on any machine. A row that a study or a checkout cannot give shows the reason.

--against measures another checkout's code too, such as a git worktree of an older commit: each row is run with its code
and then with this one, on a copy of the study each. The study should then be one that the older code opens.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import machine
from benchmarks.whole import Cost, blindspot, index_line, passages_of, run

HERE = Path(__file__).parents[1]
HELP = ("--help",)  # of no study
PAGES = {
    "Home of a new server, in Chromium": "a fresh server, Home in Chromium, from request to figures",
    "Compare by gold, first view": "Compare, by gold, cold",
    "the finder, first view": "Slices, the finder, a second later",
}
"""Rows of `benchmarks.app`, which generates its study of 22,075 questions."""
MAP = ("map", "new", "waits", "--run", "bm25-dev", "--most", "3000", "--random", "500", "--method", "tsne")


@dataclass(frozen=True)
class Place:
    """A checkout and the study and folder that it works on."""

    checkout: Path
    study: Path
    folder: Path
    rounds: int


@dataclass(frozen=True)
class Row:
    """What is waited for, how, and the function that measures it: seconds, and processor seconds where they are known."""

    name: str
    how: str
    measure: Callable[[Place], tuple[float, float | None]]


def rows(encoder: str, split: str) -> Iterator[Row]:
    name, trained = "waits-dense", "waits-bm25-train"
    for what, command in (
        ("help", HELP),
        ("status", ("status",)),
        ("report", ("report",)),
        ("batches", ("batch", "list")),
    ):
        yield _command(f"start: {what}", command, repeated=True)
    yield Row("the demo, to the first run", "demo FOLDER --no-app", lambda place: _demo(place)[0])
    yield Row("the whole demo", "demo FOLDER --no-app", lambda place: _demo(place)[1])
    for wait, title in PAGES.items():
        yield Row(wait, "python -m benchmarks.app", lambda place, title=title: _page(place, title))
    dense = ("retrieve", "--with", "dense", "--encoder", encoder, "--split", split, "--name", name, "--replace")
    yield _command("retrieve with an encoder, k = 100", (*dense, "--k", "100"))
    yield _command("the same again with k = 50", (*dense, "--k", "50"))
    yield _command("causes of misses, cold", ("misses", name, "--relevance", "answers"))
    bm25 = ("retrieve", "--with", "bm25", "--split", "train", "--name", trained, "--k", "100")
    yield _command("retrieve for training, BM25", bm25)
    yield _command("training-set build", ("training-set", "build", "waits", "--run", trained))
    yield _command("certificate's draw", ("training-set", "certify", "waits", "--at-most", "5%", "--labels", "200"))
    yield _command("train adapter", ("train", "adapter", "waits-adapter", "--on", "waits", "--encoder", encoder))
    judge = ("judge", "learn", "waits-judge", "--run", trained, "--encoder", encoder, "--replace")
    yield _command("judge learn, features computed first", judge)
    yield _command("judge learn, features kept", judge)
    yield _command("make a map, 3,000 passages, t-SNE", (*MAP, "--encoder", encoder))
    yield Row("Map's page, in Chromium", "python -m benchmarks.waits --map-page STUDY", _map_page)
    yield Row("index for BM25", "index bm25", lambda place: _indexed(place, False))
    yield Row("index for BM25, Pyserini's", "python -m benchmarks.whole", lambda place: _indexed(place, True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, nargs="?")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout, measured in the same run")
    parser.add_argument("--only", default="", metavar="WORDS", help="only rows whose name contains these words")
    parser.add_argument("--map-page", type=Path, metavar="STUDY", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.map_page:
        print(map_page_seconds(given.map_page))
        return
    if given.study is None:
        parser.error("name a study")
    checkouts = ([given.against.resolve()] if given.against else []) + [HERE]
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes\n")
    heads = (
        ("before: seconds", "processor", "after: seconds", "processor") if given.against else ("seconds", "processor")
    )
    print(f"| wait | {' | '.join(heads)} | command |\n|{'---|' * (len(heads) + 2)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        places = [_place(Path(folder) / str(number), each, given) for number, each in enumerate(checkouts)]
        for row in rows(given.encoder, given.split):
            if given.only in row.name:
                print(
                    f"| {row.name} | {' | '.join(_cells(row, place) for place in places)} | `{row.how}` |", flush=True
                )


def _place(folder: Path, checkout: Path, given: argparse.Namespace) -> Place:
    folder.mkdir()
    study = Path(shutil.copytree(given.study, folder / "study"))
    for path in study.glob("indexes/*/question_vectors.db*"):
        path.unlink()
    return Place(checkout, study, folder, given.rounds)


def _cells(row: Row, place: Place) -> str:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ |= {"PYTHONPATH": str(place.checkout / "src"), "PYTHONPYCACHEPREFIX": str(place.folder / "compiled")}
    try:
        seconds, processor = row.measure(place)
    except SystemExit as failed:
        return f"not measured: {str(failed).strip().splitlines()[-1]} | "
    return f"{seconds:.2f} | {'' if processor is None else f'{processor:.2f}'}"


# How a row is measured


def _command(name: str, command: Sequence[str], repeated: bool = False) -> Row:
    def measure(place: Place) -> tuple[float, float]:
        costs = [_run(place, command) for _ in range(place.rounds + 1 if repeated else 1)]
        kept = costs[1:] or costs  # the first one compiles
        return median(cost.wall for cost in kept), median(cost.processor for cost in kept)

    return Row(name, " ".join(command), measure)


def _run(place: Place, command: Sequence[str]) -> Cost:
    if command == HELP:
        return run([sys.executable, "-m", "blindspot.app.cli", *command])
    return blindspot(place.study, *command)


def _once(measure: Callable[[Place], Any]) -> Callable[[Place], Any]:
    """Measure once for each place what gives several rows."""
    known: dict[Place, Any] = {}

    def measured(place: Place) -> Any:
        if place not in known:
            known[place] = measure(place)
        return known[place]

    return measured


@_once
def _demo(place: Place) -> tuple[tuple[float, None], tuple[float, float | None]]:
    """Make a demo -> seconds until its first run is there, and until it is finished."""
    target, first = place.folder / "demo", None
    began = time.monotonic()
    command = [sys.executable, "-m", "blindspot.app.cli", "demo", str(target), "--no-app"]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            if first is None and any(target.glob("runs/*/manifest.json")):
                first = time.monotonic() - began
            time.sleep(0.02)
        if process.returncode:
            output.seek(0)
            sys.exit(output.read()[-1000:] or "the demo failed")
    whole = time.monotonic() - began
    return (whole if first is None else first, None), (whole, None)


@_once
def _pages(place: Place) -> dict[str, list[float]]:
    path = place.folder / "pages.json"
    run([sys.executable, "-m", "benchmarks.app", "--json", str(path)])
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _page(place: Place, title: str) -> tuple[float, float | None]:
    found = _pages(place)
    if title not in found:
        sys.exit("there is no Chromium")
    seconds, processor = found[title]
    return seconds, processor or None


def _map_page(place: Place) -> tuple[float, None]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.waits", "--map-page", str(place.study)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(done.stderr or "there is no Chromium")
    return float(done.stdout.split()[-1]), None


def map_page_seconds(study: Path) -> float:
    """Return the seconds from a click on a link to Map until Chromium shows the points, on a server that has shown Home."""
    from benchmarks.app import chromium, server_of, until
    from blindspot.app.server import SIGN_IN

    os.environ[SIGN_IN] = "none"
    with chromium() as tab, server_of(study) as address:
        tab.goto(address)
        tab.wait_for_selector(".runs .figure")
        return until(tab, lambda: tab.goto(f"{address}map"), ".js-plotly-plot .main-svg")


@_once
def _both_indexed(place: Place) -> tuple[Cost, Cost | None]:
    given = argparse.Namespace(no_peer=False, threads=os.cpu_count() or 1, rounds=1)
    line = index_line(given, place.folder, place.study, passages_of(place.study))
    return line.ours, line.peer


def _indexed(place: Place, peer: bool) -> tuple[float, float]:
    ours, theirs = _both_indexed(place)
    cost = theirs if peer else ours
    assert cost is not None
    return cost.wall, cost.processor


if __name__ == "__main__":
    main()

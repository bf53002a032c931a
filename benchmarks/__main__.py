"""Run the benchmarks that need no GPU one after another, each in a separate process: `python -m benchmarks`.

A study of the real data is made once for the parts that need one ("STUDY" in their arguments). Without real data
($BLINDSPOT_REAL_DATA) these parts are skipped with a message.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

MINUTES = 20  # time limit of all parts together
STUDY = "STUDY"
LARGE = ["--passages", "125000", "250000", "--questions", "25000", "50000"]
CPU: tuple[tuple[str, str, list[str]], ...] = (
    ("encyclopedia", "generating the encyclopedia, passages per second", ["3000", "100000"]),
    ("importing", "importing passages, compared with csv + sqlite3 and pandas", ["--rows", "400000"]),
    ("large", "a study of many passages and questions, scaled to 21 million", LARGE),
    ("answers", "answer matching, compared with a plain loop", ["--study", STUDY]),
    (
        "bm25",
        "BM25 on generated passages, compared with Pyserini and bm25s",
        ["--passages", "100000", "--questions", "1000", "--k", "100", "--rounds", "2"],
    ),
    ("encoding", "encoding passages, compared with SentenceTransformer.encode", ["--passages", "128"]),
    (
        "questions",
        "encoding questions, compared with SentenceTransformer.encode_query",
        ["--study", STUDY, "--rounds", "1"],
    ),
    ("search", "exact search, compared with FAISS", ["--study", STUDY, "--rounds", "3"]),
    ("analysis", "figures, slices and the finder on 22,075 questions", ["--growth", "1000,50000"]),
    ("labels", "16 annotators writing into one store", []),
    ("denoising", "planted false negatives that remain after denoising", []),
    ("certificates", "certificates and intervals with judges that are wrong on purpose", ["--seeds", "1903"]),
    ("training", "memory and speed of a training step", ["--rounds", "2"]),
    ("app", "each page, cold and warm, on 22,075 questions", []),
    ("twenty", "20 people using one app at the same time", ["--study", STUDY]),
    ("service", "live questions through the service", ["--study", STUDY]),
    ("whole", "a small study through the commands", ["--generate", "3000", "--sample", "100", "--no-peer"]),
)
"""Module, description, arguments."""
Took = tuple[str, float, float, str]
"""A part, its wall-clock and processor seconds, and a remark."""


def main() -> int:
    took: list[Took] = []
    with tempfile.TemporaryDirectory() as folder:
        began, used = time.monotonic(), _used()
        study = _study(Path(folder) / "study")
        took.append(("the study", time.monotonic() - began, _used() - used, ""))
        for name, what, arguments in CPU:
            print(f"\n{'=' * 100}\n{name}: {what}\n{'=' * 100}", flush=True)
            if STUDY in arguments and study is None:
                print("skipped: no real data; set BLINDSPOT_REAL_DATA to their folder")
                took.append((name, 0.0, 0.0, "skipped"))
                continue
            began, used = time.monotonic(), _used()
            code = _run(name, [str(study) if argument == STUDY else argument for argument in arguments])
            took.append((name, time.monotonic() - began, _used() - used, f"failed, exit {code}" if code else ""))
    return _sum(took)


def _study(folder: Path) -> Path | None:
    """Make the study of the real data; None without real data."""
    from tests.conftest import REAL_DATA

    if not REAL_DATA.is_dir():
        return None
    print("Making the study of the real data ...", flush=True)
    subprocess.run([sys.executable, "-m", "benchmarks.study", str(folder)], check=True)
    return folder


def _run(name: str, arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments]).returncode


def _used() -> float:
    """Return the processor seconds of all parts so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _sum(took: Sequence[Took]) -> int:
    """Print the time of each part and the failures, and return the exit status."""
    print(f"\n{'=' * 100}\n{'':<16}{'seconds':>9}{'processor':>11}")
    for name, seconds, processor, said in took:
        print(f"{name:<16}{seconds:>9,.0f}{processor:>11,.0f}  {said}")
    total = sum(seconds for _, seconds, _, _ in took)
    print(
        f"{'all':<16}{total:>9,.0f}{sum(each[2] for each in took):>11,.0f}  "
        f"{total / 60:.1f} minutes, {'within' if total <= 60 * MINUTES else 'more than'} {MINUTES}"
    )
    return int(any(said.startswith("failed") for *_, said in took))


if __name__ == "__main__":
    sys.exit(main())

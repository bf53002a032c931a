"""Encoding a split's questions: ours and SentenceTransformer.encode_query at its best batch size, then the search.

    python -m benchmarks.questions --study DIR [--encoder minilm] [--rounds 3]

DIR is a study with a dense index and dev questions, as `python -m benchmarks.study DIR` makes it. Each side runs in a
process of its own, in turn, because reading the model is measured too: what is imported for it counts, PyTorch alone is
imported before, because both searches need it. Our side begins with an empty cache folder, so its first process
converts the model; the rounds after it read what the first one stored. Figures are medians of wall-clock and processor
seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import fastest_size, machine

BATCHES = (8, 16, 32, 64, 128)
TUNED_ON = 128  # questions
STEPS = {"read": "reading the model", "encode": "encoding", "search": "searching, k = 100"}
SIDES = ("peer", "ours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        one_side(options.study, options.encoder, options.side, options.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(options, Path(folder))


def compare(options: argparse.Namespace, folder: Path) -> None:
    """Run both sides in turn and print the table."""
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f}")
    first = in_process(options, folder, "ours")
    rounds: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side in SIDES:
            rounds[side].append(in_process(options, folder, side))
    exact, found = (dict(np.load(folder / f"{side}.npz")) for side in SIDES)
    count = len(exact["vectors"])
    print(
        f"{count:,} questions; the peer takes batches of {rounds['peer'][0]['batch']}; {options.rounds} rounds in turn"
    )
    print(f"\n{'seconds: wall-clock, processor':<36}{'ours':>16}{'peer':>16}{'ratio (range), processor':>32}")
    for step, title in STEPS.items():
        ours, peer = ([each[step] for each in rounds[side]] for side in ("ours", "peer"))
        ratios = [theirs[1] / max(mine[1], 1e-3) for mine, theirs in zip(ours, peer, strict=True)]
        spread = f"{median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})"
        print(f"{title:<36}{seconds(ours):>16}{seconds(peer):>16}{spread:>32}")
    print(f"{'the first time: reading; encoding':<36}{seconds([first['read']]):>16}{seconds([first['encode']]):>16}")
    for side in ("ours", "peer"):
        wall, processor = (count / median(each["encode"][i] for each in rounds[side]) for i in (0, 1))
        print(f"{side}: {wall:,.0f} questions a second; {processor:,.0f} a second of processor time")
    norms = np.linalg.norm(exact["vectors"], axis=1) * np.linalg.norm(found["vectors"], axis=1)
    cosines = (exact["vectors"].astype(np.float64) * found["vectors"]).sum(1) / norms
    same = [(exact["rows"][:, :k] == found["rows"][:, :k]).all(1).mean() for k in (1, 20, 100)]
    print(
        f"minimum cosine {cosines.min():.7f}; lists equal at 1, 20, 100: {', '.join(f'{share:.2%}' for share in same)}"
    )


def seconds(measured: list[list[float]]) -> str:
    return ", ".join(f"{median(each[i] for each in measured):.2f}" for i in (0, 1))


def in_process(options: argparse.Namespace, folder: Path, side: str) -> dict[str, Any]:
    """Run one side in a new process and return what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.questions", "--study", str(options.study), "--encoder", options.encoder]
        + ["--side", side, "--out", str(folder / f"{side}.npz")],
        env={**os.environ, "BLINDSPOT_CACHE": str(folder / "cache")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def one_side(folder: Path, name: str, side: str, out: Path) -> None:
    """Measure one side, print {step: [wall-clock, processor seconds]} and save vectors and hits."""
    import torch  # noqa: F401  # before the clock starts: both sides search with it

    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.dense import Dense

    study = Study.open(folder)
    dense, texts = Dense(study, name, "cpu"), [question.text for question in study.questions.all(split="dev")]
    measured: dict[str, Any] = {}
    clock = Clock()
    if side == "ours":
        dense.encode(texts[:1])
        measured["read"] = clock.lap()
        vectors = dense.encode(texts)
    else:
        model = dense.encoder.model
        measured["read"] = clock.lap()
        tried = texts[:: max(1, len(texts) // TUNED_ON)]
        measured["batch"] = batch = fastest_size(
            BATCHES, lambda size: model.encode_query(tried, batch_size=size, show_progress_bar=False)
        )
        clock = Clock()
        vectors = model.encode_query(texts, batch_size=batch, show_progress_bar=False)
    measured["encode"] = clock.lap()
    hits = dense.search_vectors(vectors, 100)
    measured["search"] = clock.lap()
    np.savez(out, vectors=vectors, rows=hits.ordinals)
    print(json.dumps(measured))


class Clock:
    """Wall-clock and processor seconds since the last lap."""

    def __init__(self) -> None:
        self._last = (time.perf_counter(), time.process_time())

    def lap(self) -> list[float]:
        now = (time.perf_counter(), time.process_time())
        passed = [after - before for after, before in zip(now, self._last, strict=True)]
        self._last = now
        return passed


if __name__ == "__main__":
    main()

"""Check on a GPU what the documentation promises: exact search, encoding, training.

    python -m benchmarks.gpu [--minutes 9] [--only search,encoding] [--again] [--results DIR]
    python -m benchmarks.gpu list        # the checks with their estimated minutes
    python -m benchmarks.gpu --small     # every check on a CPU, in small: shows that it runs, and measures nothing

Everything that is searched, encoded and trained on is generated. Each result is written as soon as it is there, to
results.jsonl in --results; finished checks are skipped, so the same command resumes after the process was killed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu import models, search
from benchmarks.gpu.results import Row, about, guarded, release, store, stored, table


@dataclass(frozen=True)
class Check:
    """minutes: estimated on an H200. measure: takes the folder of its files, the device, whether sizes are small, and a
    function that prints.
    """

    name: str
    minutes: float
    measure: Callable[[Path, str, bool, Callable[[str], None]], list[Row]]
    folder: str


CHECKS = (
    Check("first-search", 3, search.first, "vectors"),
    Check("search-correctness", 2, search.correctness, "checked"),
    Check("search", 5, search.speed, "vectors"),
    Check("sixteen-bits", 1, models.sixteen_bits, "texts"),
    Check("encoding", 3, models.encoding_speed, "texts"),
    Check("training", 2, models.training_speed, "trained"),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="run", choices=("run", "list"))
    parser.add_argument("--work", type=Path, default=Path("gpu-work"), help="folder for generated vectors")
    parser.add_argument("--results", type=Path, default=Path("gpu-results"), help="folder of results.jsonl")
    parser.add_argument("--only", help="checks, with commas between them")
    parser.add_argument("--again", action="store_true", help="run finished checks again")
    parser.add_argument("--minutes", type=float, help="start no check that would take longer")
    parser.add_argument("--small", action="store_true", help="small sizes, to try every check on a CPU")
    parser.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")
    options = parser.parse_args()
    if options.command == "list":
        print("\n".join(f"{check.minutes:5.1f} min  {check.name}" for check in CHECKS))
        return 0
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu" and not options.small:
        parser.error("there is no GPU here; --small goes through the checks on a CPU")
    wanted = options.only.split(",") if options.only else [check.name for check in CHECKS]
    if unknown := set(wanted) - {check.name for check in CHECKS}:
        parser.error(f"there is no check {min(unknown)!r}; `list` shows them")
    return run([check for check in CHECKS if check.name in wanted], options, device)


def run(checks: list[Check], options: argparse.Namespace, device: str) -> int:
    """Run the checks that are not finished, print the table of all, and return 1 if one failed."""
    options.results.mkdir(parents=True, exist_ok=True)
    file, began = options.results / ("small.jsonl" if options.small else "results.jsonl"), time.monotonic()
    for check in checks:
        left = 60 * options.minutes - (time.monotonic() - began) if options.minutes else None
        if check.name in stored(file) and not options.again:
            continue
        if left is not None and not options.small and 60 * check.minutes > left:
            print(f"{check.name}: needs about {check.minutes:g} minutes, more than are left", flush=True)
            continue
        print(f"{check.name} ...", flush=True)
        folder, started = options.work / check.folder, time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        rows = guarded(
            check.name, lambda c=check, f=folder: c.measure(f, device, options.small, lambda said: print(f"    {said}"))
        )
        store(file, check.name, rows, time.monotonic() - started, about(device))
        release()
    shutil.rmtree(options.work, ignore_errors=True)
    found = stored(file)
    print(table(found))
    return int(any(row["ours"].startswith("failed") for result in found.values() for row in result["rows"]))


if __name__ == "__main__":
    sys.exit(main())

"""Measure on a GPU what the documentation promises.

    python -m benchmarks.gpu pack DIR [--parts 2] [--small]     # here: the inputs, at most 60 MB
    python -m benchmarks.gpu --inputs DIR --minutes 9           # there: the next items, as many as fit
    python -m benchmarks.gpu --only search,encoding --again     # there: these items once more
    python -m benchmarks.gpu wheels                             # there: the packages that are missing, and how to fetch them
    python -m benchmarks.gpu list                               # the items with their estimated minutes
    python -m benchmarks.gpu table                              # the table of all results so far

Each result is written as soon as it is there, to results.jsonl in --results. Finished items are skipped, so the same
command resumes, also after the process was killed; bring the folder of --results along to another machine. An item that
raises, out of memory or otherwise, is reported in the table, and comes last in the next run. The table goes into
benchmarks/RESULTS.md by itself if the items ran on a GPU. `--small` goes through every item on a CPU in minutes; it
shows that they run, and measures nothing.

The machine needs PyTorch, transformers, sentence-transformers, accelerate, scikit-learn, pandas and pyarrow, and some
small packages that `wheels` names.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.util import find_spec
from pathlib import Path

WHEELS = {
    "datasets": "datasets", "dill": "dill", "multiprocess": "multiprocess", "pydantic": "pydantic",
    "pydantic_core": "pydantic-core", "annotated_types": "annotated-types", "typing_inspection": "typing-inspection",
    "sqlite_utils": "sqlite-utils", "sqlite_fts4": "sqlite-fts4", "click_default_group": "click-default-group",
    "tomlkit": "tomlkit", "krippendorff": "krippendorff",
}  # fmt: skip
"""What such a machine may lack, as modules and packages; together 4 MB."""
RESULTS_MD = Path(__file__).parents[1] / "RESULTS.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", nargs="?", default="run", choices=("run", "pack", "wheels", "list", "table"))
    parser.add_argument("folder", nargs="?", type=Path, help="of `pack`: a new folder for the inputs")
    parser.add_argument("--parts", type=int, choices=(1, 2), default=1, help="of `pack`: two folders, DIR/1 and DIR/2")
    parser.add_argument("--source", type=Path, help="of `pack`: the folder of the real passages and questions")
    parser.add_argument("--inputs", type=Path, nargs="+", default=[Path("gpu-inputs")], help="packed folders")
    parser.add_argument("--work", type=Path, default=Path("gpu-work"), help="folder for the study and the vectors")
    parser.add_argument("--results", type=Path, default=Path("gpu-results"), help="folder of results.jsonl")
    parser.add_argument("--only", help="items, or groups of items, with commas between them")
    parser.add_argument("--again", action="store_true", help="run finished items again")
    parser.add_argument("--minutes", type=float, help="start no item that would take longer, and stop then")
    parser.add_argument("--small", action="store_true", help="small sizes, to try every item on a CPU")
    parser.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")
    options = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    if options.command == "pack":
        return _pack(parser, options)
    if options.command == "wheels":
        print(missing_packages() or "nothing is missing")
        return 0
    if options.command == "list":
        return _list(options.small)
    return _table(options) if options.command == "table" else _run(parser, options)


def _pack(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from benchmarks.gpu.inputs import MEGABYTES, pack, sizes

    if options.folder is None:
        parser.error("pack needs a folder: python -m benchmarks.gpu pack DIR")
    source = options.source
    if source is None:
        from tests.conftest import REAL_DATA

        source = REAL_DATA
    packed = pack(options.folder, source, options.small, options.parts)
    print("\n".join(sizes(packed)))
    return int(sum(packed.values()) > MEGABYTES * 1e6)


def missing_packages() -> str:
    """Return a line that names the missing packages and fetches them for this Python, or an empty line."""
    lacking = " ".join(package for module, package in WHEELS.items() if find_spec(module) is None)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    fetch = f"pip download --no-deps --only-binary=:all: --python-version {version} -d wheels {lacking}"
    return f"this machine lacks {lacking}; with a network: {fetch}" if lacking else ""


def _list(small: bool) -> int:
    from benchmarks.gpu.items import items

    total = 0.0
    for item in items(small):
        total += item.minutes
        print(f"{item.minutes:5.1f} min  {item.name:<24} {item.planned[0].what if item.planned else ''}")
    print(f"{total:5.1f} min  in all, estimated for one H200")
    return 0


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    if missing := missing_packages():
        parser.error(missing)
    import torch

    from benchmarks.gpu import inputs
    from benchmarks.gpu.items import items
    from benchmarks.gpu.results import Attempts, Results
    from benchmarks.gpu.running import Plan, run_items

    began = time.monotonic()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device == "cpu" and not options.small:
        parser.error("there is no GPU here; --small goes through the items on a CPU")
    chosen, known = list(items(options.small)), {}
    if options.only:
        wanted = options.only.split(",")
        known = {name: [item for item in chosen if name in (item.name, item.name.split("/")[0])] for name in wanted}
        if missing := [name for name, found in known.items() if not found]:
            parser.error(f"there is no item {missing[0]!r}; `list` shows them")
        chosen = [item for found in known.values() for item in found]
    results, arrived = Results(options.results), inputs.unpack(options.inputs, options.work)
    if "model" in arrived:
        inputs.use_model(options.work)
    deadline = began + 60 * options.minutes if options.minutes else None
    plan = Plan(options.work, device, options.small, arrived, deadline, options.again)
    failed = run_items(chosen, plan, results, Attempts(options.results))
    _table(options)
    return int(failed > 0)


def _table(options: argparse.Namespace) -> int:
    """Print the table, and put it into RESULTS.md if it is measured on a GPU."""
    from benchmarks.gpu.items import planned_rows
    from benchmarks.gpu.results import Attempts, Results, put_into, table

    finished = Results(options.results).finished(options.small)
    text = table(planned_rows(options.small), finished, Attempts(options.results).failures(options.small))
    print(text, flush=True)
    if not options.small and any(result.about["device"] != "cpu" for result in finished.values()):
        put_into(RESULTS_MD, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

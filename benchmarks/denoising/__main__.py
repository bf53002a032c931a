"""`python -m benchmarks.denoising`: see the package."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import denoising
from benchmarks.denoising import plan
from benchmarks.machine import machine
from blindspot.backend.core.study import Study


def main() -> None:
    parser = argparse.ArgumentParser(
        description=denoising.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(part=shares, passages=plan.PASSAGES, seed=0, study=None, model=None)
    parts = parser.add_subparsers()
    for name, part in (("shares", shares), ("retrievers", on_encyclopedia), ("real", on_real)):
        options = parts.add_parser(name)
        options.set_defaults(part=part)
        if part is shares:
            options.add_argument(
                "--passages", type=int, default=plan.PASSAGES, help="number of passages of the generated encyclopedia"
            )
            options.add_argument("--seed", type=int, default=0, help="seed of the encyclopedia")
            options.add_argument("--study", type=Path, help="use a copy of this study of an encyclopedia")
            options.add_argument("--model", help="cross-encoder that has scored the study's training questions")
            continue
        options.add_argument("--folder", type=Path, required=True, help="working folder; an interrupted run resumes")
        options.add_argument(
            "--seeds",
            default=",".join(map(str, plan.SEEDS if part is on_encyclopedia else plan.REAL_SEEDS)),
            help="training seeds, separated by commas; claims need at least three",
        )
        options.add_argument("--device", help="cpu or cuda (default: a GPU if there is one)")
        options.add_argument(
            "--prepare", action="store_true", help="make the study and the training sets, but train no retriever"
        )
        if part is on_encyclopedia:
            options.add_argument(
                "--policies", default=",".join(plan.RETRIEVERS), help="only these sets, separated by commas"
            )
        else:
            options.add_argument(
                "--data", type=Path, required=True, help="folder with passages_100k.tsv.xz and the other data files"
            )
    chosen = parser.parse_args()
    print(machine())
    chosen.part(chosen)


def shares(options: argparse.Namespace) -> None:
    from benchmarks.denoising.planted import prepared
    from benchmarks.denoising.shares import first_part

    with tempfile.TemporaryDirectory() as folder:
        if options.study is not None:
            shutil.copytree(options.study, Path(folder) / "study")
            study = Study.open(Path(folder) / "study")
        else:
            study = prepared(Path(folder), options.passages, options.seed)
        first_part(study, options.model)


def on_encyclopedia(options: argparse.Namespace) -> None:
    from benchmarks.denoising.planted import truth_of
    from benchmarks.denoising.retrievers import outcome, same_plan, set_name
    from benchmarks.denoising.shares import table
    from benchmarks.denoising.worlds import encyclopedia_bench
    from blindspot.backend.core.manifest import read_json
    from blindspot.backend.recipes.settings import JUDGED_POLICY, SMALL_CROSS
    from blindspot.backend.training_sets.training_set import TrainingSet

    same_plan(
        options.folder,
        {
            "dual": plan.DUAL,
            "cross": {**SMALL_CROSS, **plan.CROSS},
            "judge": JUDGED_POLICY,
            "passages": plan.PASSAGES,
            "seed": plan.ENCYCLOPEDIA_SEED,
            "mined": plan.MINED,
            "judged": plan.JUDGED,
            "right": plan.RIGHT,
        },
    )
    policies = [policy for policy in plan.RETRIEVERS if policy in options.policies.split(",")]
    bench = encyclopedia_bench(options.folder, policies, options.device, _say)
    _train(bench, policies, options)
    if options.prepare:
        return
    if (path := bench.study.path("models", plan.JUDGE) / "training.json").is_file():
        judge = read_json(path)
        print(
            f"The judge: {judge['steps']} steps, {judge['seconds']:.0f} s, average precision held out "
            + ", ".join(f"{line['average_precision']:.3f} at {line['step']}" for line in judge["curve"])
        )
    sets = [TrainingSet.open(bench.study, set_name(policy)) for policy in policies]
    print("\n".join(table(sets, truth_of(bench.study), ((1, plan.JUDGED), (1, plan.MINED)))))
    order, pairs = ([pair for pair in some if set(pair) <= set(policies)] for some in (plan.ORDER, plan.PAIRS))
    print("\n".join(outcome(bench, policies, order, _seeds(options), pairs=pairs)))


def on_real(options: argparse.Namespace) -> None:
    from benchmarks.denoising.retrievers import outcome, same_plan
    from benchmarks.denoising.worlds import buckets, real_bench

    same_plan(options.folder, {"dual": plan.REAL_DUAL, "policies": plan.REAL_POLICIES, "mined": plan.MINED})
    bench = real_bench(options.folder, options.data, options.device, _say)
    _train(bench, plan.REAL_POLICIES, options)
    if not options.prepare:
        print("\n".join(outcome(bench, plan.REAL_POLICIES, plan.REAL_ORDER, _seeds(options), buckets(bench.questions))))


def _train(bench, policies, options: argparse.Namespace) -> None:
    from benchmarks.denoising.retrievers import keep_before, keep_cell

    if options.prepare:
        return keep_before(bench, options.device)
    keep_before(bench, options.device)
    for seed in _seeds(options):
        for policy in policies:
            keep_cell(bench, policy, seed, options.device, _say)
    return None


def _seeds(options: argparse.Namespace) -> list[int]:
    return [int(seed) for seed in options.seeds.split(",")]


_LAST = [0.0]


def _say(line: str) -> None:
    """Print progress on standard error, at most every ten seconds."""
    if time.monotonic() - _LAST[0] > 10:
        _LAST[0] = time.monotonic()
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

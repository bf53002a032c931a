"""Run the items of the kit one after another.

What an item raises is written down and does not stop the others. An item that a killed process left unfinished is run
again; one that was left twice, or that raised, comes after all others.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.items import Context, Item
from benchmarks.gpu.results import Attempts, OutOfTime, Result, Results, about, one_line

KILLED = 2  # starts without an end after which an item comes last


@dataclass(frozen=True)
class Plan:
    """How to run the items. arrived: inputs that are there. deadline: in seconds of `time.monotonic`; None for no limit.
    again: run finished items too.
    """

    work: Path
    device: str
    small: bool
    arrived: set[str]
    deadline: float | None = None
    again: bool = False


def run_items(items: Sequence[Item], plan: Plan, results: Results, attempts: Attempts) -> int:
    """Run the items that are not finished and that fit before the deadline. Returns how many raised."""
    failed = 0
    for item in in_order(items, attempts, plan.small):
        if not _is_due(item, plan, results):
            continue
        print(f"{item.name} ...", flush=True)
        attempts.begin(item.name, plan.small)
        try:
            _measure(item, plan, results)
        except OutOfTime as error:
            attempts.end(item.name, plan.small)
            print(f"{item.name}: {error}", flush=True)
            break
        except Exception as error:  # the other items still run
            attempts.end(item.name, plan.small, one_line(error))
            traceback.print_exc()
            failed += 1
        else:
            attempts.end(item.name, plan.small)
        if not is_usable(plan.device):
            print("the GPU answers no more in this process; the same command goes on in a new one", flush=True)
            break
    return failed


def in_order(items: Sequence[Item], attempts: Attempts, small: bool) -> list[Item]:
    """Return the items, those that raised or were killed twice last."""
    failures, killed = attempts.failures(small), attempts.killed(small)
    return sorted(items, key=lambda item: item.name in failures or killed.get(item.name, 0) >= KILLED)


def is_usable(device: str) -> bool:
    """Return the item's memory to the GPU. False after an error that ends all work on it in this process, such as an
    illegal address.
    """
    import torch

    gc.collect()
    if device == "cpu":
        return True
    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        return False
    return True


def _is_due(item: Item, plan: Plan, results: Results) -> bool:
    if item.name in results.finished(plan.small) and not plan.again:
        return False
    if lacking := [name for name in item.needs if name not in plan.arrived]:
        print(f"{item.name}: left out, the inputs lack {', '.join(lacking)}", flush=True)
        return False
    if plan.deadline is not None and not plan.small and time.monotonic() + 60 * item.minutes > plan.deadline:
        print(f"{item.name}: needs about {item.minutes:g} minutes, more than are left", flush=True)
        return False
    return True


def _measure(item: Item, plan: Plan, results: Results) -> None:
    started, finished = time.monotonic(), results.finished(plan.small)
    rows, data = item.run(Context(plan.work, plan.device, plan.small, finished, plan.deadline))
    seconds = time.monotonic() - started
    results.add(Result(item.name, tuple(rows), seconds, plan.small, about(plan.device), data))
    for row in rows:
        print("  " + " | ".join(filter(None, (row.what, row.ours, row.peer, row.ratio))), flush=True)
    print(f"{item.name}: {seconds:,.0f} s", flush=True)

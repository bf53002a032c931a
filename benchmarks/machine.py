"""A description of the machine that a benchmark ran on, and timing helpers."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

T = TypeVar("T")


def machine() -> str:
    """Return a line with processor, cores, GPU and Python."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    try:
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    except ImportError:
        gpu = "torch not installed"
    return f"{name}, {os.cpu_count()} cores, {gpu}, Python {platform.python_version()}"


def timed(function: Callable[[], T]) -> tuple[T, float]:
    """Return a result and the seconds of its computation."""
    started = time.perf_counter()
    result = function()
    return result, time.perf_counter() - started


def in_turn(ours: Callable[[], object], peer: Callable[[], object], rounds: int = 5) -> tuple[float, float, float]:
    """Return the median seconds of ours and of the peer, run A B A B after one warm-up each, and the median of the
    paired ratios peer / ours.
    """
    ours(), peer()
    pairs = [(timed(ours)[1], timed(peer)[1]) for _ in range(rounds)]
    return median(a for a, _ in pairs), median(b for _, b in pairs), median(b / a for a, b in pairs)


def peak_memory() -> float:
    """Return the peak resident memory of this process so far, in MiB."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)

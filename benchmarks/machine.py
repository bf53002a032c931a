"""A description of the machine that a benchmark ran on, and timing helpers."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
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


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall-clock and processor seconds of some work; other work on the machine hardly changes the second."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def fastest_size(sizes: Sequence[int], work: Callable[[int], object]) -> int:
    """Return the size at which the work is fastest: the minimum time of two, each size in turn."""
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for _ in range(2):
        for size in sizes:
            times[size].append(timed(partial(work, size))[1])
    return min(sizes, key=lambda size: min(times[size]))


def peak_memory() -> float:
    """Return the peak memory of this process so far in MiB, mapped files included. The figure of getrusage starts at
    the parent's peak, and is taken only where Linux's is missing.
    """
    if Path("/proc/self/status").is_file():
        return own_memory("VmHWM")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def own_memory(entry: str) -> float:
    """Return an entry of Linux's status of this process in MiB."""
    return int(Path("/proc/self/status").read_text().partition(f"{entry}:")[2].split()[0]) / 1024

"""The capabilities of this machine's CPU."""

from __future__ import annotations

import os
from pathlib import Path

BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # as /proc/cpuinfo names products of bfloat16, on x86 and on ARM
CPU_INFO = Path("/proc/cpuinfo")


def cpu_multiplies_bfloat16() -> bool:
    """Return whether the CPU has instructions that multiply bfloat16; False if the system does not report it."""
    return CPU_INFO.is_file() and bool(BFLOAT16_FLAGS & set(CPU_INFO.read_text().split()))


def processors() -> int:
    """Return the number of processors that this process may use. Under torchrun, the processors are divided among the
    local processes.
    """
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, available // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))

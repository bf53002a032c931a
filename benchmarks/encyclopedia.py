"""Time and memory of generating an encyclopedia.

python -m benchmarks.encyclopedia 3000 100000 1000000
"""

from __future__ import annotations

import sys
import tempfile
from multiprocessing import get_context

from benchmarks.machine import peak_memory, spent
from blindspot.backend.data.encyclopedia import write_encyclopedia


def made(passages: int) -> tuple[float, float, float]:
    """Generate an encyclopedia -> (seconds, processor seconds, peak resident MiB of the process)."""
    with tempfile.TemporaryDirectory() as folder:
        return *spent(lambda: write_encyclopedia(folder, passages)), peak_memory()


def main(sizes: list[int]) -> None:
    print(f"{'passages':>10} {'seconds':>9} {'passages/s':>11} {'per core second':>16} {'peak MiB':>9}")
    for passages in sizes:
        with get_context("spawn").Pool(1) as pool:  # a separate process, so that the peak memory is not shared
            seconds, worked, peak = pool.apply(made, (passages,))
        print(f"{passages:>10,} {seconds:>9.1f} {passages / seconds:>11,.0f} {passages / worked:>16,.0f} {peak:>9.0f}")


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [3_000, 100_000])

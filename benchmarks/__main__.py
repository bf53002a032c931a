"""Run the benchmarks that need no GPU, one after another, each in a process of its own: `python -m benchmarks`."""

from __future__ import annotations

import subprocess
import sys

CPU = (
    ("encyclopedia", ["3000", "100000"]),
    ("importing", []),
    ("answers", []),
    ("retrieval", []),
    ("analysis", []),
    ("labels", []),
    ("denoising", []),
    ("training", []),
    ("app", []),
    ("service", []),
)


def main() -> int:
    failed = 0
    for name, arguments in CPU:
        print(f"\n== benchmarks.{name} {' '.join(arguments)}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments]).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())

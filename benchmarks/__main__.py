"""Run the benchmarks that need no GPU one after another, each in a separate process: `python -m benchmarks`.

A study of the real data is made once for the parts that need one ("STUDY" in their arguments). Without real data
($BLINDSPOT_REAL_DATA) these parts are skipped with a message.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

STUDY = "STUDY"
CPU: tuple[tuple[str, list[str]], ...] = (
    ("importing", ["--rows", "400000"]),
    ("bm25", ["--passages", "100000", "--questions", "1000", "--k", "100", "--rounds", "2"]),
    ("encoding", ["--passages", "128"]),
    ("search", ["--study", STUDY, "--rounds", "3"]),
    ("labels", []),
    ("training", ["--rounds", "2"]),
    ("causes", ["--no-dense"]),
    ("app", []),
    ("twenty", ["--study", STUDY]),
    ("whole", ["--generate", "3000", "--sample", "100", "--no-peer"]),
)
"""Module, arguments."""


def main() -> int:
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        study = _study(Path(folder) / "study")
        for name, arguments in CPU:
            print(f"\n{'=' * 100}\n{name}\n{'=' * 100}", flush=True)
            if STUDY in arguments and study is None:
                print("skipped: no real data; set BLINDSPOT_REAL_DATA to their folder")
                continue
            words = [str(study) if argument == STUDY else argument for argument in arguments]
            if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *words]).returncode:
                failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all ran")
    return int(bool(failed))


def _study(folder: Path) -> Path | None:
    """Make the study of the real data; None without real data."""
    from tests.conftest import REAL_DATA

    if not REAL_DATA.is_dir():
        return None
    print("Making the study of the real data ...", flush=True)
    subprocess.run([sys.executable, "-m", "benchmarks.study", str(folder)], check=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())

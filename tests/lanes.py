"""Run all tests in two lanes at the same time: `python -m tests.lanes WORKERS`.

Browser tests wait as much as they compute: one process runs them beside the workers that run the others.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time

PYTEST = [sys.executable, "-m", "pytest", "--durations", "20"]
BROWSER = "tests/browser"
SHARED = "BLINDSPOT_SHARED_TESTS"
"""Environment variable: the folder that all processes of one run of tests share, see `tests.indexes`."""


def main(workers: str) -> int:
    """Show what the workers say at once, and what the browser's lane says at the end. Return the exit code: 0 if no lane
    failed.
    """
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as shared:
        os.environ[SHARED] = shared
        lanes = [
            subprocess.Popen(
                [*PYTEST, "-n", workers, "--dist", "loadfile", "--no-loadscope-reorder", "--ignore", BROWSER]
            ),
            subprocess.Popen([*PYTEST, BROWSER], stdout=said, stderr=subprocess.STDOUT),
        ]

        def end(*_: object) -> None:
            for lane in lanes:
                with contextlib.suppress(ProcessLookupError):
                    lane.send_signal(signal.SIGINT)

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the lanes end by themselves
        codes = [lane.wait() for lane in lanes]
        said.seek(0)
        print("\nBrowser tests:", said.read().rstrip(), sep="\n")
    minutes, seconds = divmod(round(time.monotonic() - began), 60)
    print(f"\nAll tests took {minutes} min {seconds:02} s.")
    return next(filter(None, codes), 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

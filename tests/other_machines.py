"""Run the tests of numbers as other machines would: with older instruction sets, and beside processes that keep every core busy.

    python -m tests.other_machines [PYTEST ARGUMENTS]

Libraries choose their inner loops by the processor, so sums of floats differ in their last bits from machine to machine. The
variables below make this machine choose as an older one does. `make soak` runs this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

INSTRUCTION_SETS = {
    "SSE4.2": {
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "FAISS_OPT_LEVEL": "generic",
        "ATEN_CPU_CAPABILITY": "default",
        "DNNL_MAX_CPU_ISA": "SSE41",
    },
    "AVX2": {
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "FAISS_OPT_LEVEL": "avx2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
    },
}
"""The variables of MKL, OpenBLAS, FAISS, PyTorch and oneDNN that name the newest instructions they may use."""
HERE = Path(__file__).parent
NUMBERS = (
    "adapter", "approximate", "blindness", "bm25", "clusters", "dense", "encoder", "every_retriever", "feature_judge",
    "hybrid", "live", "maps", "milvus", "opened", "passage_encoder",
    "products", "projection", "question_encoder", "rerank", "rerank_any", "search", "service", "shards",
)  # fmt: skip
"""Test files that compare floats, or what depends on time."""


def main(arguments: Sequence[str]) -> int:
    failed = []
    for name, variables in INSTRUCTION_SETS.items():
        failed += [name] * _fails(name, NUMBERS, variables, arguments)
    with busy_cores():
        failed += ["busy cores"] * _fails("busy cores", NUMBERS, {}, arguments)
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return bool(failed)


def _fails(name: str, tests: Sequence[str], variables: dict[str, str], arguments: Sequence[str]) -> bool:
    print(f"== {name}: {' '.join(f'{key}={value}' for key, value in variables.items())}", flush=True)
    files = [str(HERE / f"test_{test}.py") for test in tests]
    command = [sys.executable, "-m", "pytest", "-q", *files, *arguments]
    return subprocess.run(command, cwd=HERE.parent, env=os.environ | variables).returncode != 0


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep every core busy for the length of the block."""
    command = [sys.executable, "-c", "while True: pass"]
    working = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in working:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

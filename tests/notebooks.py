"""Executes notebooks as Jupyter does, with a kernel of this test's interpreter."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
SECONDS_PER_CELL = 600  # a limit for a stuck kernel, not an aim


def write_kernel(kernels: Path, python: str, packages: Path | None) -> None:
    """Write a kernel spec "python3" that starts an interpreter, with `packages` first on its path if given."""
    spec = kernels / "python3"
    spec.mkdir(parents=True)
    variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    if packages is not None:
        variables["PYTHONPATH"] = str(packages)
    kernel = {
        "argv": [python, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": "Python 3",
        "language": "python",
        "env": variables,
    }
    (spec / "kernel.json").write_text(json.dumps(kernel))


def execute(
    name: str,
    folder: Path,
    replace: Mapping[str, str] | None = None,
    python: str = sys.executable,
    packages: Path | None = ROOT,
):
    """Execute a notebook in an empty folder, and return it with its outputs.

    Args:
        folder: an empty folder; the kernel works in `folder/work`.
        python, packages: the interpreter, and the folder that holds blindspot; None if it is installed there.
        replace: source text to replace, such as a size. Each must occur.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    for old, new in (replace or {}).items():
        cells = [cell for cell in notebook.cells if old in cell.source]
        assert cells, f"{name} does not contain {old!r}"
        for cell in cells:
            cell.source = cell.source.replace(old, new)
    work = folder / "work"
    work.mkdir()
    write_kernel(folder / "kernels", python, packages)
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")])
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
    client = NotebookClient(notebook, km=manager, timeout=SECONDS_PER_CELL, resources={"metadata": {"path": str(work)}})
    return client.execute()


def printed(notebook) -> str:
    """What the cells printed and showed, as plain text."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(str(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in outputs)

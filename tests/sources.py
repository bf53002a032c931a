"""The sources of the repository as tests read them: files, imports, pins."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACES = {"blindspot": "src/blindspot"}  # the other rooms are folders of their own name
MAY_IMPORT = {
    "blindspot": {"blindspot", "backend", "analysis", "db"},
    "app": {"app", "backend", "analysis", "db"},
    "backend": {"backend", "analysis", "db"},
    "analysis": {"analysis"},
    "db": {"db"},
}
HEAVY = (
    "torch",
    "transformers",
    "sentence_transformers",
    "faiss",
    "jnius",
    "umap",
    "openTSNE",
    "pandas",
    "plotly",
    "streamlit",
    "scipy",
    "sklearn",
    "numba",
)


def modules(room):
    """The Python files of a room. (`rglob` does not follow the links of src/blindspot to the other rooms.)"""
    return sorted((ROOT / PLACES.get(room, room)).rglob("*.py"))


def imported(path):
    """(room or top-level name, line) of every import of a file, inside functions as well.

    `blindspot.backend.core` belongs to the room backend; what is left of `blindspot` is the room of that name.
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            inner = rest.split(".")[0]
            yield (inner if top == "blindspot" and inner in MAY_IMPORT else top), node.lineno


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    return dict(
        re.fullmatch(r"([\w.-]+)(?:\[\w+\])?==([\w.]+)", line).groups()
        for line in lines
        if line and line[0] not in "#-"
    )

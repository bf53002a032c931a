"""The house itself: imports run one way, nothing heavy loads early, names and pins agree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT = {
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
)


def modules(room):
    return sorted((ROOT / room).rglob("*.py"))


def imported(path):
    """(top-level name, line) of every import of a file, inside functions as well."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module.split(".")[0], node.lineno


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_run_one_way(room):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(room)
        for name, line in imported(path)
        if name in MAY_IMPORT and name not in MAY_IMPORT[room]
    ]
    assert modules(room) and not wrong, wrong


def test_only_the_app_knows_streamlit():
    wrong = [
        str(path.relative_to(ROOT))
        for room in ("backend", "analysis", "db")
        for path in modules(room)
        if any(name == "streamlit" for name, _ in imported(path))
    ]
    assert not wrong


@pytest.mark.parametrize(
    "module",
    [
        "app.cli",
        "backend.core.study",
        "backend.core.jobs",
        "backend.evaluation.report",
        "backend.retrieval.live",
        "backend.data.importing.importer",
        "analysis.accuracy",
        "db.labels" if (ROOT / "db/labels.py").exists() else "db.corpus",
    ],
)
def test_nothing_heavy_at_import(module):
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def pins(name):
    lines = (ROOT / name).read_text().splitlines()
    return dict(re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines if line and line[0] not in "#-")


def test_the_gpu_requirements_differ_in_faiss_alone():
    cpu, gpu = pins("requirements.txt"), pins("requirements-gpu.txt")
    assert cpu.pop("faiss-cpu") == gpu.pop("faiss-gpu")
    assert cpu == gpu


def test_every_third_party_import_is_required():
    """What the rooms import is pinned, so that no package is there by the grace of another."""
    names = {
        "sentence_transformers": "sentence-transformers", "faiss": "faiss-cpu", "huggingface_hub": "huggingface-hub", "jnius": "pyjnius",
        "jnius_config": "pyjnius", "sqlite_utils": "sqlite-utils", "sklearn": "scikit-learn", "umap": "umap-learn",
    }  # fmt: skip
    own = set(MAY_IMPORT) | {"tests", "benchmarks"}
    used = (
        {name for room in MAY_IMPORT for path in modules(room) for name, _ in imported(path)}
        - set(sys.stdlib_module_names)
        - own
    )
    missing = {name for name in used if names.get(name, name) not in pins("requirements.txt")}
    assert not missing


def test_progress_is_defined_once():
    """Whatever reports progress takes the same type, backend.progress.Progress, and no class shares its name."""
    defined = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for room in MAY_IMPORT
        for path in modules(room)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ClassDef) and node.name == "Progress")
        or (isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "Progress" for target in node.targets))
        or ast.unparse(node).replace("'", "").startswith("Callable[[int, int | None, str]")
    ]
    assert [place.split(":")[0] for place in defined] == ["backend/progress.py"], defined

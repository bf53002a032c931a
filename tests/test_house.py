"""The structure of the code: imports run one way, nothing heavy loads early, pins agree."""

import ast
import subprocess
import sys

import pytest

from tests.sources import HEAVY, MAY_IMPORT, ROOT, imported, modules, pins

# The packages of backend/ and the module progress, lowest first: each may import those before it. CONTRIBUTING.md
# explains what each is for.
LAYERS = (
    "progress", "text", "core", "data", "retrieval", "evaluation", "judging", "judges", "training_sets", "training",
    "checking",
    "reports", "reader", "maps", "recipes", "experiments", "demo", "upkeep", "service",
)  # fmt: skip
BESIDE = {"reader": {"maps"}, "maps": {"reader"}}  # same height: neither imports the other


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_imports_run_one_way(room):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(room)
        for name, line in imported(path)
        if name in MAY_IMPORT and name not in MAY_IMPORT[room]
    ]
    assert modules(room) and not wrong, wrong


def test_the_rooms_are_imported_from_blindspot():
    """A folder `db` or `backend` of the person who runs Blindspot must never be taken for ours."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in (*MAY_IMPORT, "tests", "benchmarks", "docs")
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
        if name.split(".")[0] in set(MAY_IMPORT) - {"blindspot"}
    ]
    assert not wrong, wrong


def backend_sources():
    """Module name to source text, for everything in backend/."""
    found = {}
    for path in modules("backend"):
        name = ".".join(("blindspot", *path.relative_to(ROOT).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def backend_imports(source):
    """(imported module, line) of every import of backend code, inside functions and under TYPE_CHECKING as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # `from blindspot.backend import maps` names the package only in its second half.
            only_half = node.module == "blindspot.backend"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if only_half else [node.module]
            yield from ((name, node.lineno) for name in names)


def layer_faults(sources):
    """Return the imports that go up, sideways, or to a package without a layer, one line each."""
    faults = []
    for module, source in sources.items():
        if module == "blindspot.backend":
            continue
        here = module.split(".")[2]
        for imported_module, line in backend_imports(source):
            if not imported_module.startswith("blindspot.backend."):
                continue
            there = imported_module.split(".")[2]
            edge = f"{module}:{line} imports {imported_module}"
            if here not in LAYERS or there not in LAYERS:
                faults.append(f"{edge}: name the layer of {here if here not in LAYERS else there!r} in LAYERS")
            elif LAYERS.index(there) > LAYERS.index(here) or there in BESIDE.get(here, ()):
                faults.append(f"{edge}: {here} lies below {there}")
    return faults


def test_the_layers_inside_backend():
    sources = backend_sources()
    assert len(sources) > 100
    assert layer_faults(sources) == []


def test_a_planted_fault_fails_the_layer_test():
    lower, upper = "blindspot.backend.retrieval.planted", "blindspot.backend.training.planted"
    at_top = {lower: f"from {upper} import x", upper: f"import {lower}"}
    assert [fault.split(" ")[0] for fault in layer_faults(at_top)] == [f"{lower}:1"]
    in_function = {lower: f"def f():\n    from {upper} import x\n    return x"}
    assert [fault.split(" ")[0] for fault in layer_faults(in_function)] == [f"{lower}:2"]
    by_package = {lower: "from blindspot.backend import training"}
    assert layer_faults(by_package) == [f"{lower}:1 imports blindspot.backend.training: retrieval lies below training"]
    assert "name the layer" in layer_faults({"blindspot.backend.attic.x": "import blindspot.backend.core.study"})[0]


def test_only_the_app_knows_streamlit():
    wrong = [
        str(path.relative_to(ROOT))
        for room in ("blindspot", "backend", "analysis", "db")
        for path in modules(room)
        if any(name == "streamlit" for name, _ in imported(path))
    ]
    assert not wrong


LIGHT = (
    "blindspot.app.cli",
    "blindspot",
    "blindspot.backend.core.study",
    "blindspot.backend.core.jobs",
    "blindspot.backend.evaluation.report",
    "blindspot.backend.retrieval.live",
    "blindspot.backend.data.importing.importer",
    "blindspot.analysis.accuracy",
    "blindspot.db.labels" if (ROOT / "db/labels.py").exists() else "blindspot.db.corpus",
)


def test_nothing_heavy_at_import():
    code = f"""
import importlib, sys
for module in {LIGHT!r}:
    importlib.import_module(module)
    if loaded := [name for name in {HEAVY!r} if name in sys.modules]:
        sys.exit(f"{{module}} loads {{loaded}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_gpu_requirements_differ_in_faiss_alone():
    cpu, gpu = pins("requirements.txt"), pins("requirements-gpu.txt")
    assert cpu.pop("faiss-cpu") == gpu.pop("faiss-gpu")
    assert cpu == gpu


def test_every_third_party_import_is_required():
    """Every imported package is pinned, so that none is installed only as another's dependency."""
    names = {
        "sentence_transformers": "sentence-transformers", "faiss": "faiss-cpu", "huggingface_hub": "huggingface-hub", "jnius": "pyjnius",
        "jnius_config": "pyjnius", "sqlite_utils": "sqlite-utils", "sklearn": "scikit-learn", "umap": "umap-learn",
        "prometheus_client": "prometheus-client", "markdown_it": "markdown-it-py", "ir_datasets": "ir-datasets",
    }  # fmt: skip
    own = set(MAY_IMPORT) | {"tests", "benchmarks"}
    used = (
        {name for room in MAY_IMPORT for path in modules(room) for name, _ in imported(path)}
        - set(sys.stdlib_module_names)
        - own
    )
    missing = {name for name in used if names.get(name, name) not in pins("requirements.txt")}
    assert not missing

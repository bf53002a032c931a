"""The notebooks of docs/: committed without outputs and without paths of a machine, and they run."""

from __future__ import annotations

import re
import sys
import venv
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests.notebooks import NOTEBOOKS, execute, printed

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.name for path in NOTEBOOKS.glob("*.ipynb"))
SAYS = {
    "compare-two-runs.ipynb": r"system-a.* by [\d.]+ points .*the difference is significant",
    "find-slices.ipynb": r"'relations.pdf', 'slices.pdf'",
    "clean-and-train.ipynb": r"negative +dropped +contains an answer +\d+",
}


def test_the_notebooks_are_those_that_the_docs_name():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert set(re.findall(r"notebooks/([\w-]+\.ipynb)", page)) == set(NAMES) == set(SAYS)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_committed_without_outputs(name):
    text = (NOTEBOOKS / name).read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    assert notebook.metadata.kernelspec.name == "python3" and set(notebook.metadata) == {"kernelspec", "language_info"}
    assert not re.search(r"/(home|work|tmp|Users|root|mnt)/", text)
    for cell in code:
        compile(cell.source, name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, tmp_path):
    done = execute(name, tmp_path)
    assert re.search(SAYS[name], printed(done)), printed(done)


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory, wheel):
    """The interpreter of an environment that holds the wheel, and the dependencies of this one."""
    folder = tmp_path_factory.mktemp("clean") / "env"
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    dependencies = [place for place in sys.path if place.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return str(folder / "bin" / "python")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs_from_a_clean_wheel(name, tmp_path, clean_python):
    shown = {"import blindspot\n": "import blindspot\nprint(blindspot.__file__)\n"}
    done = execute(name, tmp_path, shown, clean_python, packages=None)
    text = printed(done)
    assert str(Path(clean_python).parents[1] / "lib") in text and re.search(SAYS[name], text)

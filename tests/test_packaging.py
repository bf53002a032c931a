"""The package as others install it: its version, dependencies, extras, and a complete wheel."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from blindspot.backend.core.extras import EXTRAS
from tests.core_environment import built, make_environment
from tests.core_journey import Installed
from tests.sources import imported, modules, pins

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared():
    """Every requirement of pyproject.toml, extras included, by name; extras that only name extras apart."""
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    found = [Requirement(line) for line in lines]
    return {requirement.name.lower(): requirement for requirement in found if requirement.name != PROJECT["name"]}


def test_the_version_is_the_newest_of_the_changelog():
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert newest == PROJECT["version"]


def test_the_pinned_versions_lie_in_the_declared_ranges():
    ranges = declared()
    pinned = {**pins("requirements.txt"), **pins("requirements-gpu.txt")}
    for name, version in pinned.items():
        assert name.lower() in ranges, f"{name} is pinned in requirements.txt and not declared in pyproject.toml"
        assert version in ranges[name.lower()].specifier, f"{name}=={version} is outside {ranges[name.lower()]}"
    assert set(ranges) <= {name.lower() for name in pinned}


def test_the_extra_all_names_every_extra_but_gpu():
    everything = Requirement(PROJECT["optional-dependencies"]["all"][0])
    assert everything.name == PROJECT["name"]
    assert everything.extras == set(PROJECT["optional-dependencies"]) - {"all", "gpu"}


def requirements_by_extra():
    return {name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()}


def test_the_table_of_extras_is_that_of_the_package():
    """Every extra with the extras that it includes, and each of its modules in a distribution that it names."""
    declared_extras = requirements_by_extra()
    assert set(EXTRAS) == set(declared_extras) - {"all", "gpu"}
    bringing = packages_distributions()
    for name, extra in EXTRAS.items():
        inside = {inner for each in declared_extras[name] if each.name == "blindspot" for inner in each.extras}
        assert set(extra.includes) == inside, name
        named = {canonicalize_name(each.name) for each in declared_extras[name]}
        absent = [module for module in extra.modules if not {canonicalize_name(d) for d in bringing[module]} & named]
        assert not absent, f"{name} does not name the distribution of {absent}"


def test_every_import_is_of_the_core_or_of_an_extra():
    """What backend/core/extras.py does not know would end in a traceback where its package is not installed."""
    core = {canonicalize_name(Requirement(line).name) for line in PROJECT["dependencies"]}
    modules_of_extras = {module for extra in EXTRAS.values() for module in extra.modules}
    bringing = packages_distributions()
    unknown = {
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for room in ("app", "backend", "analysis", "db", "src/blindspot")
        for path in modules(room)
        for name, line in imported(path)
        if name in bringing and name not in modules_of_extras and name != "blindspot"
        if not {canonicalize_name(each) for each in bringing[name]} & core
    }
    assert not unknown


def test_the_wheel_holds_every_file_of_every_room(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    rooms = ("app", "backend", "analysis", "db", "src/blindspot")
    tracked = subprocess.run(["git", "ls-files", *rooms], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    files = {name for name in tracked if (ROOT / name).is_file()}
    assert {name.removeprefix("src/") if name.startswith("src/") else f"blindspot/{name}" for name in files} <= names
    assert {name.split("/")[0] for name in names} == {"blindspot", f"blindspot-{PROJECT['version']}.dist-info"}
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "docs/"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_command_runs_from_the_unpacked_wheel_outside_the_checkout(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import blindspot.app.cli; assert 'site' in blindspot.app.cli.__file__; blindspot.app.cli.main()"
    for arguments in (["--help"], ["new", "s"], ["status", "--study", "s"]):
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "site"), *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "s" / "study.toml").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_mypy_outside_the_checkout_knows_the_types(sources, tmp_path, kind):
    python = make_environment(tmp_path / "environment", built(sources, kind), with_core=False)
    right = 'import blindspot\n\nstudy = blindspot.Study.open("demo")\nstudy.compare("one", "two", k=5)\n'
    wrong = right.replace("k=5", 'k="five"') + "study.no_such_method()\n"
    for name, text in (("right", right), ("wrong", wrong)):
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--python-executable", python, "--cache-dir", tmp_path / "cache"]
    quietly = ["--ignore-missing-imports", "--follow-imports", "silent", "--no-error-summary", "right.py", "wrong.py"]
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run([*command, *quietly], cwd=tmp_path, capture_output=True, text=True, env=environment)
    found = re.findall(r"^(\w+\.py:\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert found == [("wrong.py:4", "arg-type"), ("wrong.py:5", "attr-defined")], done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_folder_with_rooms_of_its_own_does_not_stand_in_the_way(sources, tmp_path, kind):
    """`import blindspot`, the command, and a job in a process of its own, where somebody works on an app with a backend."""
    (tmp_path / "theirs").mkdir()
    theirs = Installed(make_environment(tmp_path / "environment", built(sources, kind)), tmp_path / "theirs")
    for room in ("app", "db", "backend", "analysis"):
        (theirs.home / room).mkdir()
        (theirs.home / room / "__init__.py").write_text(f"raise SystemExit('the folder {room} was taken for ours')\n")
    (theirs.home / "passages.tsv").write_text("id\ttext\ttitle\n1\tMayor Arbelson governs Arbel.\tArbel\n")
    theirs.says("new", "s")
    code = """
import time, blindspot
from blindspot.backend.core import jobs
from blindspot.backend.data.importing.importer import import_passages
study = blindspot.Study.open("s").study
id = jobs.submit(import_passages, study, "passages.tsv")
while jobs.status(study, id).unfinished:
    time.sleep(0.1)
print(jobs.status(study, id).state, jobs.status(study, id).error, jobs.log(study, id))
"""
    done = theirs.python_code(code)
    assert done.stdout.split()[:2] == ["done", "None"], done.stdout + done.stderr
    assert "Passages: 1 from passages.tsv" in theirs.says("status", "--study", "s")

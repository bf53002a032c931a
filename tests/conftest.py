"""Fixtures that several test files share."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.lanes import SHARED

os.environ["HF_HUB_OFFLINE"] = "1"  # tests never reach for a network
os.environ.setdefault(
    "OMP_NUM_THREADS", "1"
)  # with such small models, threads mostly wait for each other, most of all on a busy machine
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="blindspot-config-")  # consents; never the user's own
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)
for name in ("BLINDSPOT_STUDY", "BLINDSPOT_BACKEND", "BLINDSPOT_BACKEND_TOKEN"):
    os.environ.pop(name, None)

settings.register_profile("test", max_examples=50)
settings.register_profile("soak", max_examples=400)
settings.load_profile("test")

ROOT = Path(__file__).parent
REAL_DATA = Path(
    os.environ.get("BLINDSPOT_REAL_DATA") or Path(__file__).parents[2] / "shared" / "data" / "entityquestions-wiki"
)


# Test files that need no browser, model or JVM: `make quick` runs them.
QUICK = {
    "test_accuracy", "test_agreement", "test_audit", "test_buckets", "test_clusters", "test_corpus",
    "test_declared", "test_denoising", "test_download", "test_flips",
    "test_formats_out", "test_formats_passages", "test_formats_questions", "test_formats_runs", "test_gold_matching",
    "test_importing", "test_judged", "test_label_file", "test_labels", "test_labels_io", "test_number_words", "test_overlap",
    "test_people", "test_quality", "test_question_sets", "test_questions", "test_queue", "test_registry", "test_report",
    "test_significance",
}  # fmt: skip
NOT_QUICK = ("torch", "jnius", "streamlit")


def pytest_configure(config):
    """Name the fork server of this process, see `tests.forked`, and the folder that all processes of this run share, see
    `tests.indexes`.
    """
    if SHARED not in os.environ:
        os.environ[SHARED] = config.shared_tests = tempfile.mkdtemp(prefix="blindspot-shared-")
    os.environ["BLINDSPOT_FORK_SERVER"] = f"{os.getpid()} {tempfile.mkdtemp(prefix='blindspot-forks-')}"


def pytest_unconfigure(config):
    if hasattr(config, "shared_tests"):
        shutil.rmtree(os.environ.pop(SHARED), ignore_errors=True)
    shutil.rmtree(os.environ["BLINDSPOT_FORK_SERVER"].split(" ", 1)[1], ignore_errors=True)


def is_quick_run(config) -> bool:
    return config.option.markexpr == "quick"


def pytest_ignore_collect(collection_path, config):
    """Let `make quick` import its own test files only: importing the others loads PyTorch and Streamlit."""
    is_other = collection_path.stem not in QUICK if collection_path.is_file() else collection_path.name == "browser"
    return True if is_quick_run(config) and is_other else None


SECONDS = "blindspot/seconds"
"""Where pytest's cache keeps the seconds that each test file took when it last ran whole."""
BYTES_A_SECOND = 1000  # of a test file that never ran here, about
_seconds: Counter[str] = Counter()


def pytest_runtest_logreport(report):
    _seconds[report.location[0]] += report.duration


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    is_part = (
        exitstatus > 1  # broken off
        or config.option.keyword
        or config.option.markexpr != "not slow"
        or any("::" in each for each in config.args)
    )
    if hasattr(config, "cache") and not is_part and not hasattr(config, "workerinput"):
        config.cache.set(SECONDS, config.cache.get(SECONDS, {}) | {file: round(_seconds[file], 1) for file in _seconds})


def expected_seconds(config, path: Path) -> float:
    last = config.cache.get(SECONDS, {}) if hasattr(config, "cache") else {}
    return last.get(path.relative_to(ROOT.parent).as_posix(), path.stat().st_size / BYTES_A_SECOND)


def pytest_collection_modifyitems(config, items):
    # The longest files first: each worker takes one file at a time, and so all end at about the same time.
    expected = {path: expected_seconds(config, path) for path in {item.path for item in items}}
    items.sort(key=lambda item: -expected[item.path])
    for item in items:
        is_long = (
            item.get_closest_marker("slow")
            or item.get_closest_marker("long")
            or "real_data" in getattr(item, "fixturenames", ())
        )
        if item.path.stem in QUICK and not is_long:
            item.add_marker(pytest.mark.quick)


def loaded_slow_modules() -> list[str]:
    return [name for name in NOT_QUICK if name in sys.modules]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    """Fail `make quick` before its first test if importing its test files loaded something slow."""
    if is_quick_run(session.config) and (loaded := loaded_slow_modules()):
        message = f"importing the quick test files loaded {', '.join(loaded)}; see QUICK in tests/conftest.py"
        if not hasattr(session.config, "workerinput"):
            raise pytest.UsageError(message)
        session.slow_import = message  # with `-n`, an error here would end in a traceback of pytest-xdist


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    """Fail the first test of `make quick` that loads something slow: its file does not belong in QUICK."""
    if is_quick_run(item.config) and (loaded := loaded_slow_modules()) and not hasattr(item.session, "slow_module"):
        item.session.slow_module = loaded[0]
        message = f"this test loaded {', '.join(loaded)}; take its file out of QUICK in tests/conftest.py"
        pytest.fail(getattr(item.session, "slow_import", message))


@pytest.fixture
def blindspot(capsys, monkeypatch):
    """Runs a command in this process: (exit code, standard output, standard error)."""
    from blindspot.app import cli

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["blindspot", *map(str, arguments)])
        try:
            cli.main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture(scope="module", autouse=True)
def short_collections():
    """Set aside what a test file finds, so that garbage collections visit only what its tests make. A whole collection
    takes half a second in a process that has imported all test files, and Streamlit collects after every run of a page.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_command_tree():
    """Let Typer build its tree of commands once. It builds the tree for every command line, which takes 0.2 s here."""
    import functools

    import typer.main
    import typer.testing

    build = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(typer.main, "get_command", build)
        patched.setattr(typer.testing, "_get_command", build)
        yield


@pytest.fixture(scope="session")
def mined_study(tmp_path_factory):
    """A study with a run to mine training sets from. Copy it, and do not change it."""
    from tests.training_studies import training_study

    return training_study(tmp_path_factory.mktemp("mined") / "study")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real passages and questions."""
    if not (REAL_DATA / "questions.jsonl.xz").is_file():
        pytest.skip(f"no real data at {REAL_DATA}; name its folder in BLINDSPOT_REAL_DATA")
    return REAL_DATA


@pytest.fixture
def one_thread():
    """Use one thread and one order of sums, so that weights are bit-identical."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """The folder of a BERT with random weights, for one test file."""
    from tests.studies import tiny_bert

    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_bert(folder)
    return str(folder)


@pytest.fixture(scope="session")
def indexed_study():
    """60 passages, 40 questions, a BM25 index and a dense index of a tiny encoder named `tiny`. Tests must not write to
    it.
    """
    from blindspot.backend.core.study import Study
    from tests import indexes

    return Study.open(indexes.once("people", indexes.indexed_study))


@pytest.fixture
def own_indexed_study(tmp_path, indexed_study):
    """A copy of `indexed_study` that the test may write to."""
    from blindspot.backend.core.study import Study

    return Study.open(shutil.copytree(indexed_study.folder, tmp_path / "s"))


@pytest.fixture
def loads_one_at_a_time(monkeypatch):
    """Fail the test if this process loads a network outside the lock of `readable_model`."""
    from transformers import PreTrainedModel

    from blindspot.backend.core import model_files

    load, outside = PreTrainedModel.from_pretrained.__func__, []

    def checked(cls, name, *arguments, **named):
        if not model_files._loading._is_owned():
            outside.append(str(name))
        return load(cls, name, *arguments, **named)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(checked))
    yield
    assert outside == [], "loaded outside readable_model"


@pytest.fixture(scope="session")
def small_demo():
    """The demo with 600 passages and a tiny encoder of random weights. Copy it before writing to it."""
    from blindspot.backend.core.study import Study
    from tests.indexes import once
    from tests.studies import make_small_demo

    return Study.open(once("demo", make_small_demo))


@pytest.fixture(scope="session")
def sources(tmp_path_factory) -> Path:
    """A copy of the tracked files: what is built of it holds no untracked file of this checkout."""
    import subprocess

    pytest.importorskip("setuptools", minversion="77", reason="no wheel can be built: setuptools is too old")
    copy = tmp_path_factory.mktemp("source")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT.parent, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no wheel is built here: the tests do not run in a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT.parent / name).exists():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT.parent / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="session")
def wheel(sources) -> Path:
    """The wheel, as the build tool of pyproject.toml makes it."""
    from tests.core_environment import built

    return built(sources, "wheel")

"""What the commands load before they answer: nothing heavy that they do not need."""

import subprocess
import sys

import pytest

COMMAND = "import sys; from blindspot.app import cli\ntry: cli.main()\nfinally: print('loaded', *sorted(sys.modules), file=sys.stderr)"


@pytest.mark.parametrize("words", [("--help",), ("status",), ("batch", "list"), ("report",)])
def test_a_command_starts_without_what_it_does_not_need(indexed_study, words):
    folder = [] if words == ("--help",) else ["--study", str(indexed_study.folder)]
    ran = subprocess.run([sys.executable, "-c", COMMAND, *words, *folder], capture_output=True, text=True)
    assert "Traceback" not in ran.stderr
    loaded = set(ran.stderr.rpartition("loaded")[2].split())
    heavy = {
        "pandas",
        "numba",
        "torch",
        "transformers",
        "streamlit",
        "sklearn",
        "faiss",
        "plotly",
        "pyarrow",
        "jnius",
        "datasets",
    }
    assert not loaded & (heavy | ({"numpy"} if words == ("--help",) else set()))


GPU = """
import importlib.abc, sys
class Watch(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "torch":
            print("scipy.stats is", "whole" if hasattr(sys.modules.get("scipy.stats"), "Normal") else "not whole")
sys.meta_path.insert(0, Watch())
from blindspot.app.components.training.form import has_gpu
has_gpu()
"""


def test_the_app_looks_for_a_gpu_only_when_scipy_is_whole():
    """A page that imports scipy.stats while another thread imports torch fails: scipy asks for torch.Tensor."""
    ran = subprocess.run([sys.executable, "-c", GPU], capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["scipy.stats is whole"], ran.stderr[-2000:]


@pytest.mark.parametrize(("draws", "order"), [(True, ["libraries", "page"]), (False, ["page"])])
def test_a_page_that_draws_waits_for_whole_libraries(monkeypatch, draws, order):
    from blindspot.app import entry

    done = []
    monkeypatch.setattr(entry.st, "session_state", {entry.THROUGH_MAIN: True})
    monkeypatch.setattr(entry, "import_whole", lambda: done.append("libraries"))
    entry.enter(lambda: done.append("page"), draws=draws)
    assert done == order

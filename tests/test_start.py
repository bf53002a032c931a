"""What the commands load before they answer: nothing heavy that they do not need."""

import os
import subprocess
import sys

import pytest

from blindspot.backend.core.study import ENVIRONMENT_VARIABLE

COMMANDS = """
import contextlib, os, sys
from blindspot.app import cli
HEAVY = {"pandas", "numba", "torch", "transformers", "streamlit", "sklearn", "faiss", "plotly", "pyarrow", "jnius", "datasets"}
for words in ("--help",), ("status",), ("batch", "list"), ("report",):
    sys.argv = ["blindspot", *words]
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            cli.main()
        except SystemExit:
            pass
    loaded = (HEAVY | ({"numpy"} if words == ("--help",) else set())) & set(sys.modules)
    assert not loaded, (words, loaded)
"""


def test_commands_start_without_what_they_do_not_need(indexed_study):
    environment = os.environ | {ENVIRONMENT_VARIABLE: str(indexed_study.folder)}
    ran = subprocess.run([sys.executable, "-c", COMMANDS], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0 and "Traceback" not in ran.stderr, ran.stderr


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

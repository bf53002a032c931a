"""The name of a part is reserved before the work, and a study in use is copied whole."""

import threading
from pathlib import Path

import pytest

from blindspot.backend.core.manifest import atomic_folder
from blindspot.backend.core.study import Study
from blindspot.db.errors import Refused
from tests.labelled_studies import labelled_study

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

"""The whole path in a browser, from Home and never back to it: look at a question, flag false negatives by key, rebuild
the set, see them in the diff, train, and compare before and after.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from playwright.sync_api import TimeoutError, expect

from blindspot.app import server
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.differences import diff
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.queue import Queue
from blindspot.db.records import Passage
from tests.browser.judging import SAVED, labels, press, shown, sit_down
from tests.browser.pages import COUNT_CLICKS, parameters
from tests.browser.servers import showing
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert

PATIENCE = 240_000  # ms; a job first loads its packages, maybe on a busy machine
TRAIN = 40  # people with training questions; the others have dev questions
TOLD_TWICE = (3, 9, 15)  # people whose birth place is also in a second passage, which is not gold


@pytest.fixture
def small(tmp_path) -> tuple[Study, dict[str, set[str]]]:
    """A study with three known false negatives among BM25's hits."""
    passages = people()
    twice = [Passage(f"book{i}", f"Parish book {i}", f"{passages[i].title} was born in {passages[i].text.split(' born in ')[1].split()[0]}, "
                     "says the parish book.") for i in TOLD_TWICE]  # fmt: skip
    study = make_study(
        tmp_path / "loop", [*passages, *twice], [*births(passages[:TRAIN], "train"), *births(passages[TRAIN:], "dev")]
    )
    tiny_bert(study.folder / "models" / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 64},
    )
    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")
    retrieve(study, "bm25", split="dev", k=20)
    retrieve(study, "dense", encoder="tiny", split="dev", k=20, device="cpu")
    retrieve(study, "bm25", split="train", k=10, name="mined")
    told = {
        f"P19.train.{number}": {f"book{i}"}
        for number, i in enumerate(i for i in range(TRAIN) if i % 3 != 2)
        if i in TOLD_TWICE
    }
    return study, told


def flag(tab, study: Study, wrong: Mapping[str, set[str]]) -> set[tuple[str, str]]:
    """Flag one false negative of each question of the batch by key, leave the rest, and return the flagged pairs."""
    queue = Queue(study.labels_path)
    batch = queue.batches()[0].name
    items = {study.questions.get(item.question).text: item for item in queue.items(batch)}
    flagged = set()
    for _ in range(len(items)):
        item = items[shown(tab)]
        places = [place for place, each in enumerate(item.candidates) if each.passage in wrong[item.question]]
        press(tab, *["j"] * places[0], "1", gap=60)
        flagged.add((item.question, item.candidates[places[0]].passage))
        press(tab, "Enter", "Enter", gap=60)  # the rest stays open
        tab.wait_for_function(
            "asked => document.querySelector('.judge h1')?.textContent !== asked",
            arg=study.questions.get(item.question).text,
        )
    tab.wait_for_selector(SAVED)
    assert labels(study) == dict.fromkeys(flagged, "positive")
    return flagged


def choose(tab, label: str, option: str) -> None:
    """Choose an option, again if an unfinished rerun closed the list."""
    for _ in range(20):
        tab.get_by_role("combobox", name=label).click()
        try:
            tab.get_by_role("option", name=option, exact=True).click(timeout=3000)
            return
        except TimeoutError:
            tab.keyboard.press("Escape")
    raise AssertionError(f"{label} does not offer {option}")


def loop(tab, study: Study, wrong: Mapping[str, set[str]], start: str, layers: int) -> None:
    """With a set `raw`: from Home to Compare, as a person would go."""
    make_batch(study, "first", ["mined"], size=3, slice=list(wrong), candidates=6, mix=ArmShares(audit=0, second=0, repeat=0),
               trained=TrainingSet.open(study, "raw").hard_negatives())  # fmt: skip
    tab.context.add_init_script(COUNT_CLICKS)
    with showing(study) as port:
        began = time.monotonic()
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        tab.get_by_role("link", name="Compare the runs", exact=True).click()
        tab.get_by_role("link", name="Next: look at questions").click()
        tab.get_by_role("link", name="Next: judge passages").click()
        sit_down(tab)
        flagged = flag(tab, study, wrong)
        tab.get_by_role("link", name="Next: clean a training set").click()
        expect(tab.get_by_role("heading", name="New labels would change 3 pairs")).to_be_visible()
        tab.get_by_role("button", name="Build raw-2 with these labels").click()
        expect(tab.get_by_role("heading", name="raw-2 removes 3 of the")).to_be_visible(timeout=PATIENCE)
        expect(tab.locator("#changes h3")).to_contain_text("relabelled: negative → positive: 3 pairs")
        rows = tab.locator("#changes .changed-pairs li")
        expect(rows).to_have_count(3)
        seen = {
            (question, passage)
            for question, passage in flagged
            # fmt: skip
            if rows.filter(has_text=study.questions.get(question).text).filter(has_text=passage).count() == 1
        }
        assert seen == flagged
        expect(tab.locator("#changes h3 + p")).to_contain_text("negative by run → positive by label")
        changes = list(diff(TrainingSet.open(study, "raw"), TrainingSet.open(study, "raw-2")))
        assert {(change.question, change.passage) for change in changes} == flagged

        tab.get_by_role("link", name="Next: train on it").click()
        choose(tab, "Initial model", start)
        tab.get_by_text("More settings").first.click()
        tab.get_by_label("Steps", exact=True).first.fill("4")
        if layers:
            tab.get_by_label("Layers", exact=True).fill(str(layers))
        tab.get_by_role("button", name="Train on raw-2", exact=True).click()
        compare = tab.get_by_role("link", name=f"Next: see what changed from {start}-dev to model-1-dev")
        compare.click(timeout=PATIENCE)
        tab.wait_for_selector(".flips")
        clicks, seconds = tab.evaluate("localStorage.getItem('clicks')"), time.monotonic() - began
        print(f"a newcomer's journey from Home to a retriever: {clicks} clicks, {seconds:.0f} s")
        assert int(clicks) <= 20
        assert parameters(tab) == {"a": f"{start}-dev", "b": "model-1-dev"}
        about = models_of(Study.open(study.folder))["model-1"]
        assert (about["training_set"], about["last_step"], about["settings"]["layers"]) == ("raw-2", 4, layers or None)


def test_from_home_to_ones_own_retriever(tab, small):
    study, wrong = small
    build(study, "raw", ["mined"])
    loop(tab, study, wrong, "tiny", 0)


@pytest.mark.slow
def test_the_same_on_the_demos_passages(tab, tmp_path):
    """The demo's passages and MiniLM's first two layers."""
    from blindspot.backend.data.encyclopedia import answering_passages, collection
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval import dense

    study, source = Study.create(tmp_path / "demo"), collection(2000)
    import_passages(study, str(source / "passages.tsv.gz"))
    import_questions(study, str(source / "questions.jsonl.gz"))
    bm25_of(study)
    dense.build_index(study, "minilm")
    retrieve(study, "bm25", split="dev")
    retrieve(study, "dense", split="dev", name="minilm-dev")
    retrieve(study, "bm25", split="train", k=20, name="mined")
    build(study, "raw", ["mined"], last=10)
    trained = TrainingSet.open(study, "raw").hard_negatives()
    truth = {}
    for question, passages in answering_passages(source).items():
        found = passages & trained.get(question, set())
        if len(found) >= 6 and len(truth) < 3:
            truth[question] = found
    assert len(truth) == 3
    loop(tab, study, truth, "minilm", 2)

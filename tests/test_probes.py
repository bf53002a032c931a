"""Probes of an encoder's biases: each pair differs in one respect, and the measure counts which form wins."""

import dataclasses

import numpy as np

from blindspot.backend.experiments.parts import QuestionSelection
from blindspot.backend.experiments.probe_pairs import PROBES, ProbeItem, ProbeMeasure, probe_items
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.records import Passage, Question
from tests.studies import CITIES, make_study

QUESTION = Question("q", "Where was Ada Holm born?", ("Oslo",), relation="P19", subject="Ada Holm", gold=("1",))
PARTS = ("She kept bees in 1912.", "Ada Holm was born in Oslo.", "Little else is known.")
ITEM = ProbeItem(QUESTION, Passage("1", "Ada Holm", " ".join(PARTS)), PARTS, 1, "Eva Lind")


def pair(name, item=ITEM):
    return PROBES[name].pair(item)


def test_each_pair_differs_in_one_respect():
    first, second, third = PARTS
    assert pair("early position").favoured.text == f"{second} {first} {third}"
    assert pair("early position").other_passage.text == f"{first} {third} {second}"
    assert pair("brevity").favoured.text == second
    assert pair("literal match").favoured.text == f"{first} {QUESTION.text} {third}"
    assert pair("repetition").favoured.text == f"Ada Holm. Ada Holm. Ada Holm. {first} {third}"
    assert pair("namesakes").favoured == Passage("1", "Ada Lind", f"{first} Ada Lind was born in Oslo. {third}")
    assert pair("negation").favoured.text == f"{first} It is not true that Ada Holm was born in Oslo. {third}"
    numbers = pair("numbers")
    assert "1949" in numbers.favoured.text and numbers.question == "What does Ada Holm have to do with 1912?"
    for name in ("brevity", "literal match", "repetition", "namesakes", "negation", "numbers"):
        assert pair(name).other_passage == ITEM.passage, name
    wrong = {name for name, probe in PROBES.items() if probe.is_wrong}
    assert {name for name in wrong if "Oslo" in pair(name).favoured.text} == {"namesakes", "negation", "numbers"}


def test_what_does_not_apply_is_left_out():
    alone = dataclasses.replace(ITEM, question=dataclasses.replace(QUESTION, subject="Ada"), other=None)
    assert pair("namesakes", alone) is None
    assert pair("namesakes", dataclasses.replace(ITEM, other="Eva Holm")) is None
    assert pair("numbers", dataclasses.replace(ITEM, passage=Passage("1", "Ada Holm", "No number."))) is None
    assert pair("repetition", dataclasses.replace(ITEM, question=dataclasses.replace(QUESTION, subject=None))) is None


class LengthEncoder:
    """Scores a passage by its share of a letter: (the number of "b", constant)."""

    similarity = "dot"

    def encode_questions(self, texts):
        return np.ones((len(texts), 1), np.float32)

    def encode_passages(self, passages):
        return np.array([[-len(passage.text)] for passage in passages], np.float32)


def test_the_measure_counts_the_pairs_in_which_the_favoured_form_wins(tmp_path, monkeypatch):
    passages = [
        Passage(str(row), f"Person {city}", f"One more. Person {city} was born in {city}. The end is near.")
        for row, city in enumerate(CITIES)
    ]
    passages.append(Passage("short", "Person", "Born in Oslo."))
    questions = [
        Question(
            f"{row}", f"Where was {p.title} born?", (city,), relation="P19", subject=p.title, split="dev", gold=(p.id,)
        )
        for row, (p, city) in enumerate(zip(passages, CITIES))
    ]
    questions.append(Question("s", "Where?", ("Oslo",), split="dev", gold=("short",)))
    study = make_study(tmp_path / "s", passages, questions)
    from blindspot.backend.core.settings import add_encoder

    add_encoder(study.settings_path, "fake", {"model": "nowhere"})
    monkeypatch.setattr("blindspot.backend.experiments.probe_pairs.load_encoder", lambda *_: LengthEncoder())
    bench = Workbench(study)
    assert len(probe_items(bench, questions)) == len(CITIES)  # the short passage leaves nothing to move

    def values(name):
        return ProbeMeasure(name, "fake", "", QuestionSelection("dev")).values(bench)

    assert values("brevity").tolist() == [1.0] * len(CITIES)  # the shorter text scores higher
    assert not values("negation").any() and not values("early position").any() and not len(values("numbers"))

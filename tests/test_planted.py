"""Planted misses: each has its cause in its text, and nothing else differs from the version without the cause."""

import re

import pytest

from benchmarks.planted_misses import CAUSES, CROWD, LATE, NAMESAKES, PlantedStudy
from benchmarks.planted_prose import PlantedProse
from benchmarks.planted_sentences import PLANTED
from blindspot.backend.data.encyclopedia.language import TEMPLATES
from blindspot.backend.evaluation.question_facts import content_words
from blindspot.db.errors import Refused


@pytest.fixture(scope="module")
def planted():
    return PlantedStudy(dict.fromkeys(CAUSES, 6), seed=3)


def of(planted, cause):
    return [miss for miss in planted.misses if miss.cause == cause]


def sentences(text):
    return re.split(r"(?<=[.!?]) (?=[A-Z])", text)


def words_of(miss):
    """The content words of the plain question, without those of the subject."""
    return content_words(miss.clean_question) - content_words(miss.question.subject)


def test_the_same_seed_gives_the_same_passages_and_ids_are_unique(planted):
    again = PlantedStudy(dict.fromkeys(CAUSES, 6), seed=3)
    assert again.passages == planted.passages and again.misses == planted.misses
    assert PlantedStudy(dict.fromkeys(CAUSES, 6), seed=4).passages != planted.passages
    assert len({passage.id for passage in planted.passages}) == len(planted.passages)
    assert [len(of(planted, cause)) for cause in CAUSES] == [6] * len(CAUSES)
    assert all(miss.gold in planted.passages and miss.question.gold == (miss.gold.id,) for miss in planted.misses)


def test_only_the_gold_passage_states_the_answer(planted):
    for miss in planted.misses:
        (answer,) = miss.question.answers
        stating = [passage.id for passage in planted.passages if answer in passage.text]
        assert sorted(stating) == sorted([miss.gold.id, *(miss.rivals if miss.cause == "false_negative_above" else ())])
        assert answer in miss.clean.text
        if miss.cause not in ("rare_subject", "unnamed_subject"):
            assert miss.clean.title == miss.question.subject


def test_each_cause_is_in_the_text(planted):
    for miss in of(planted, "other_words"):
        assert words_of(miss).isdisjoint(content_words(miss.gold.text)) and words_of(miss) <= content_words(
            miss.clean.text
        )
        assert miss.question.text == miss.clean_question and miss.gold.title == miss.clean.title
    for miss in of(planted, "question_wording"):
        assert miss.gold.text == miss.clean.text and words_of(miss).isdisjoint(content_words(miss.question.text))
    for miss in of(planted, "late_fact"):
        (answer,) = miss.question.answers
        assert sorted(miss.gold.text.split()) == sorted(miss.clean.text.split())
        assert answer in miss.gold.text.rsplit(". ", 1)[1] and answer in miss.clean.text.split(". ")[0]
        assert miss.gold.text.count(". ") == LATE
    for miss in of(planted, "other_entity_passage"):
        assert miss.gold.title != miss.question.subject and miss.question.subject in miss.gold.text
        assert miss.gold.text.split(". ")[0] == miss.clean.text.split(". ")[0]
    by_id = {passage.id: passage for passage in planted.passages}
    for miss in of(planted, "near_namesake"):
        given = miss.question.subject.split()[0]
        titles = [by_id[id].title for id in miss.rivals]
        assert len(titles) == NAMESAKES and all(title.split()[0] == given for title in titles)
        assert miss.question.subject not in titles and (miss.gold.title, miss.gold.text) == (
            miss.clean.title,
            miss.clean.text,
        )
    for miss in of(planted, "rare_subject"):
        renamed = miss.clean_question.replace(miss.clean.title, miss.question.subject)
        assert renamed == miss.question.text and miss.clean.title != miss.gold.title


def test_causes_of_the_gold_and_of_the_cut_are_in_the_text(planted):
    by_id = {passage.id: passage for passage in planted.passages}
    rows = {passage.id: row for row, passage in enumerate(planted.passages)}
    for miss in of(planted, "unnamed_subject"):
        naming, stating, _ = miss.gold.text.split(". ")
        assert miss.question.subject in naming and miss.question.subject not in stating
        assert miss.gold.title == miss.clean.title != miss.question.subject
    for miss in of(planted, "crowded_passage"):
        assert miss.clean.text in miss.gold.text and miss.gold.text.count(". ") == CROWD
    for miss in of(planted, "doubtful_gold") + of(planted, "false_negative_above"):
        stating = next(part for part in miss.gold.text.split(". ") if miss.question.answers[0] in part)
        assert miss.question.subject in stating and words_of(miss).isdisjoint(content_words(stating))
    for miss in of(planted, "false_negative_above"):
        (other,) = miss.rivals
        assert other not in miss.question.gold and by_id[other].text == miss.clean.text
    for miss in of(planted, "cut_fact"):
        before, after = (planted.passages[rows[miss.gold.id] + step] for step in (-1, 1))
        first, last = (before.text, miss.gold.text) if before.text[-1] != "." else (miss.gold.text, after.text)
        whole = f"{first.rsplit('. ', 1)[-1]} {last.split('. ')[0].rstrip('.')}."
        assert whole in miss.clean.text and whole not in miss.gold.text


def test_the_sentences_are_what_their_lists_say():
    for relation, each in PLANTED.items():
        words = content_words(TEMPLATES[relation].replace("[X]", ""))
        assert words, relation
        assert all(words <= content_words(form) for form in each.plain), relation
        assert all(words.isdisjoint(content_words(form)) for form in (*each.other_words, *each.roundabout)), relation
        assert all(words & content_words(form) and "{A}" not in form for form in each.decoys), relation


@pytest.mark.parametrize(("counts", "seed"), [({"nothing": 1}, 0), ({"late_fact": -1}, 0), ({"late_fact": 1}, -1)])
def test_wrong_counts_get_one_line(counts, seed):
    with pytest.raises(Refused, match="counts by cause"):
        PlantedStudy(counts, seed)


def test_a_miss_of_prose_carries_its_cause_alone():
    planted = PlantedProse({"other_words": 20, "doubtful_gold": 20, "unnamed_subject": 20}, seed=3)
    for miss in planted.misses:
        (answer,), subject = miss.question.answers, miss.question.subject
        parts, clean = sentences(miss.gold.text), sentences(miss.clean.text)
        changed = [pair for pair in zip(parts, clean, strict=True) if pair[0] != pair[1]]
        assert len(changed) == 1 and answer in changed[0][0] and answer in changed[0][1], "one sentence differs"
        assert (subject in changed[0][0]) is (miss.cause != "unnamed_subject") and subject in changed[0][1]
        assert " by he" not in miss.gold.text and all(part[0].isupper() for part in parts)
        left = changed[0][0].replace(answer, "")
        assert not {"College", "Company"} & set(left.split()), "an answer is the whole name"
        if miss.cause == "other_words":
            asked = content_words(miss.question.text) - content_words(subject)
            assert asked.isdisjoint(content_words(left))

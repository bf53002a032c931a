"""Questions as columns: the same as their records, and read as records only where somebody looks at one."""

from __future__ import annotations

import re
from dataclasses import fields

import numpy as np
import pytest

from blindspot.analysis.buckets import bucket_group, bucket_groups
from blindspot.app.study import questions_key
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import Comparison, by_group, figures_at, macro_at, measure
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.panel import Panel, relation_table
from blindspot.backend.evaluation.question_facts import QuestionFacts
from blindspot.backend.evaluation.slices import Facts
from blindspot.db import question_table, questions
from blindspot.db.errors import BlindspotError, Missing
from blindspot.db.imports import ImportRecord
from blindspot.db.question_columns import NO_BUCKET, QuestionColumns
from blindspot.db.question_table import QuestionTable, fields_of, gold_of, ids_of, row_index, rows_among, rows_of, take
from blindspot.db.questions import Questions
from blindspot.db.records import Question
from blindspot.db.schema import prepare
from tests.app_pages import Page, hand_made_study

AWKWARD = ('said "so"', "back\\slash", "two\nlines", "a, b", '", "', "Ünïcode ẞ", "tab\t", "İstanbul", "[]", "")


def awkward_questions(count: int = 60) -> list[Question]:
    """Questions in which every field has absent values and values that JSON escapes."""
    return [
        Question(
            f"q{i}'{AWKWARD[i % 9]}",
            f"Where is {AWKWARD[i % 10]} {i}?",
            tuple(AWKWARD[(i + j) % 9] for j in range(i % 4)),
            (None, "P19", "P50")[i % 3],
            None if i % 5 == 0 else f"Subject {AWKWARD[i % 10]}",
            frequency=None if i % 4 == 0 else 7 * i,
            bucket=(None, None, 3, 0)[i % 4],
            dataset=("", "a/b", "set")[i % 3],
            split=("train", "dev", "test")[i % 3],
            gold=tuple(f'g"{i}-{j}' for j in range(i % 3)),
        )
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Questions:
    path = tmp_path_factory.mktemp("table") / "labels.db"
    prepare(path)
    store = Questions(path)
    store.add(awkward_questions())
    return store


@pytest.fixture(params=["all", "shuffled", "few"])
def pair(store, request, monkeypatch) -> tuple[QuestionTable, list[Question]]:
    """A table and the records of the same questions: all in order, all shuffled, or so few that ids are looked up."""
    for name, value in (("BLOCK", 7), ("NEIGHBOURS", 4), ("RECORDS_HELD", 9)):
        monkeypatch.setattr(question_table, name, value)
    rows = {"all": range(60), "shuffled": np.random.default_rng(0).permutation(60), "few": (31, 4, 59, 5)}[
        request.param
    ]
    ids = [awkward_questions()[row].id for row in rows]
    return store.table(ids), store.with_ids(ids)


def test_a_table_is_the_list_of_its_records(pair):
    table, records = pair
    assert len(table) == len(records) and list(table) == records
    assert [table[row] for row in range(len(table))] == records and table[-1] == records[-1]
    assert list(table[1:3]) == records[1:3] and list(reversed(table)) == records[::-1]
    with pytest.raises(IndexError):
        table[len(records)]
    rows = np.array([2, 0, 3])
    assert list(take(table, rows)) == take(records, rows) == [records[2], records[0], records[3]]


def test_what_is_read_of_a_table_is_what_its_records_hold(pair):
    table, records = pair
    assert ids_of(table) == ids_of(records) and [tuple(gold) for gold in gold_of(table)] == gold_of(records)
    assert table.search_texts == [" ".join((q.text, *q.answers, q.subject or "", q.id)).casefold() for q in records]
    names = ("text", "answers", "answer_rule", "gold")
    expected = [[q.text, list(q.answers), q.answer_rule, list(q.gold)] for q in records]
    assert list(fields_of(table, *names)) == expected
    assert [[text, list(gold)] for text, gold in fields_of(records, "text", "gold")] == [
        [q.text, list(q.gold)] for q in records
    ]
    found, expected = table.columns, QuestionColumns.of_questions(records)
    for each in fields(QuestionColumns):
        of_table, of_records = getattr(found, each.name), getattr(expected, each.name)
        if hasattr(of_table, "codes"):
            of_table, of_records = ([each.names[code] for code in each.codes] for each in (of_table, of_records))
        assert list(of_table) == list(of_records), each.name
    assert found.relation.labels(str).tolist() == [question.relation or "" for question in records]
    codes, names = bucket_groups(found.bucket, found.frequency, NO_BUCKET)
    assert [names[code] for code in codes] == [bucket_group(q.bucket, q.frequency) for q in records]
    for name, rows in found.relation.rows_by_value().items():
        assert rows.tolist() == [row for row, question in enumerate(records) if (question.relation or "") == name]


def test_rows_are_found_by_id_in_tables_as_in_lists(pair, store):
    table, records = pair
    assert dict(row_index(table)) == row_index(records) and "nobody" not in row_index(table)
    ids = [records[3].id, "nobody", records[0].id]
    assert rows_of(table, ids).tolist() == rows_of(records, ids).tolist() == [3, -1, 0]
    others = store.table([question.id for question in awkward_questions()[::-2]])
    for left, right in ((table, others), (others, table)):
        assert rows_among(left, right).tolist() == rows_among(list(left), list(right)).tolist()


def test_an_unknown_question_and_an_empty_table(store):
    with pytest.raises(Missing, match="there is no question 'nobody' in this study"):
        store.table(["nobody", awkward_questions()[0].id])
    empty = store.table([])
    assert not len(empty) and list(empty) == [] and ids_of(empty) == [] and rows_of(empty, ["x"]).tolist() == [-1]
    assert empty.columns.relation.labels(str).tolist() == [] and empty.columns.relation.rows_by_value() == {}


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Study:
    return hand_made_study(tmp_path_factory.mktemp("toy") / "toy")


def compared(study: Study, by_table: bool, a: str = "alpha", b: str = "beta", relevance="answers") -> Comparison:
    return Comparison.of_runs(*(measured(study, by_table, name, relevance) for name in (a, b)))


def measured(study: Study, by_table: bool, name: str, relevance="answers"):
    read = study.questions.table if by_table else study.questions.with_ids
    return measure(study, name, relevance, "dpr", read(study.run(name).question_ids))


@pytest.mark.parametrize(("a", "b"), [("alpha", "beta"), ("alpha", "short"), ("short", "beta")])
@pytest.mark.parametrize("relevance", ["answers", "gold", "labels"])
def test_figures_by_tables_and_by_records_agree(toy, a, b, relevance):
    tables, records = (compared(toy, by_table, a, b, relevance) for by_table in (True, False))
    assert isinstance(tables.questions, QuestionTable) and list(tables.questions) == records.questions
    for name in (
        "first_ranks_a",
        "first_ranks_b",
        "rows_a",
        "rows_b",
        "relations",
        "buckets",
        "sets",
        "frequency",
        "contrast",
    ):
        assert getattr(tables, name).tolist() == getattr(records, name).tolist(), name
    assert tables.searchable_text == records.searchable_text and tables.run_a.left_out == records.run_a.left_out
    assert figures_at(tables, 5) == figures_at(records, 5) and macro_at(tables, 5) == macro_at(records, 5)
    for by in ("relation", "bucket"):
        assert by_group(tables, 5, tables.groups(by)) == by_group(records, 5, records.groups(by))
    for measure_ in MEASURES:
        if relevance != "answers" or not measure_.needs_all:
            for found, expected in zip(tables.values(measure_, 3), records.values(measure_, 3), strict=True):
                np.testing.assert_array_equal(found, expected)
    for expression in (
        "set:toy", "set:dev", "split:test", "frequency>20", "relation:P19", 'group:"10-29 mentions"', "bucket>0",
        "first(short)>1", "gold(alpha)>5", "tag:gold_below_unlabelled", "tag:answer_in_unlabelled", "tag:both",
    ):  # fmt: skip
        assert _mask(tables, expression) == _mask(records, expression), expression


def _mask(comparison: Comparison, expression: str) -> list[bool] | str:
    try:
        return Facts(comparison, 3).mask(expression).tolist()
    except BlindspotError as error:
        return str(error)


def test_panels_by_tables_and_by_records_agree(toy):
    tables, records = ({name: measured(toy, by, name) for name in ("alpha", "beta", "short")} for by in (True, False))
    assert relation_table(Panel.of_runs(tables), 3) == relation_table(Panel.of_runs(records), 3)


def test_home_reads_no_record_of_a_question(tmp_path, monkeypatch):
    """A million records take seconds and a gigabyte. Compare reads those of the questions that it lists."""
    folder = hand_made_study(tmp_path / "toy").folder
    records, read = [], questions._question
    monkeypatch.setattr(questions, "_question", lambda row: records.append(row[0]) or read(row))
    assert "Compare the runs" in Page(folder).text
    assert records == []
    facts = QuestionFacts(Study.open(folder), Study.open(folder).questions.table([f"q{i}" for i in range(7)]))
    assert len(facts.question_words) == len(facts.length) == len(facts.answer_length) == len(facts.overlap) == 7
    assert records == []
    Page(folder, "compare", a="alpha", b="beta")
    assert sorted(set(records)) == [f"q{i}" for i in range(7)]


def test_new_frequencies_are_seen_by_the_next_view(tmp_path):
    study = hand_made_study(tmp_path / "toy")
    rare, often = ({"bucket": f"{group} mentions"} for group in ("10-29", "100+"))
    assert len(listed(study, **rare)) == 2 and len(listed(study, **often)) == 0
    key = questions_key(study)
    frequencies = {f"thing {i}": 500 for i in range(7)}
    study.questions.set_frequencies(frequencies, ImportRecord("frequencies", "counts.tsv", "0", 7, 7))
    assert questions_key(study) != key
    assert len(listed(study, **rare)) == 0 and len(listed(study, **often)) == 7


def listed(study: Study, **parameters: str) -> set[str]:
    """Return the questions that Compare lists."""
    page = Page(study.folder, "compare", a="alpha", b="beta", **parameters)
    return set(re.findall(r"question=(q\d)", " ".join(page.links())))

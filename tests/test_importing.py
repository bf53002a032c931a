"""Imports are complete or absent, report faults in one line, and change nothing when repeated."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blindspot.backend.core.study import Study
from blindspot.backend.data.importing import mentions
from blindspot.backend.data.importing.importer import (
    count_frequencies,
    import_frequencies,
    import_passages,
    import_questions,
)
from blindspot.backend.data.importing.mentions import count_mentions
from blindspot.backend.text.answers import nfd, spaced_tokens
from blindspot.backend.text.token_arrays import token_arrays
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.imports import Imports
from blindspot.db.records import Passage

ROWS = [
    ("p1", "Ada", "Ada Lovelace was born in London."),
    ("p2", "Bo", 'Bo said "hi" to Ada Lovelace.'),
    ("p3", "Rome", "A city."),
]


def tsv(rows):
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(["id", "text", "title"])
    writer.writerows((id, text, title) for id, title, text in rows)
    return out.getvalue()


def write(folder, data, name="psgs.tsv"):
    path = Path(folder, name)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def jsonl(*records):
    return "\n".join(json.dumps(record) for record in records)


def contents(study: Study) -> dict:
    """Return the contents of a study, file by file; labels.db by its rows."""
    labels = [
        study.questions.connection.execute(f"SELECT * FROM {t} ORDER BY 1").fetchall()
        for t in ("question", "import_record")
    ]
    files = {
        p.relative_to(study.folder): p.read_bytes()
        for p in study.folder.rglob("*")
        if p.is_file() and "labels.db" not in p.name and p.suffix != ".lock"  # an empty lock file remains
    }
    return {"labels": labels, **files}


@pytest.fixture
def study(tmp_path):
    return Study.create(tmp_path / "study")


@pytest.fixture
def filled(study, tmp_path):
    import_passages(study, write(tmp_path, tsv(ROWS)))
    return study


def test_passages_arrive_in_file_order_with_a_record(study, tmp_path):
    calls = []
    result = import_passages(
        study, write(tmp_path, gzip.compress(tsv(ROWS).encode())), progress=lambda *call: calls.append(call)
    )
    assert (result.rows, result.left_out, result.unchanged) == (3, 0, False)
    assert list(study.corpus.scan()) == [Passage(*row) for row in ROWS]
    assert calls[-1][:2] == (3, 3)
    (record,) = Imports(study.labels_path).all_records()
    assert (record.kind, record.file, record.rows, record.sha256) == (
        "passages",
        "psgs.tsv",
        3,
        study.corpus.source.sha256,
    )


def test_the_same_file_again_changes_nothing_and_another_is_refused(filled, tmp_path):
    before = contents(filled)
    assert import_passages(filled, tmp_path / "psgs.tsv").unchanged
    with pytest.raises(Refused, match="already has a passage collection"):
        import_passages(filled, write(tmp_path, tsv(ROWS[:2]), "other.tsv"))
    assert contents(filled) == before


BAD_PASSAGES = {
    "missing column": ("id\ttext\np\tx\n", 1, "title"),
    "duplicate": (tsv([*ROWS, ROWS[1]]), 5, "twice, first in line 3"),
    "not UTF-8": (tsv(ROWS).encode() + b"p4\t\xff\tT\n", 5, "UTF-8"),
    "truncated": (lzma.compress(tsv(ROWS * 1).encode())[:-9], None, "truncated"),
    "empty": ("", None, "empty"),
    "header only": ("id\ttext\ttitle\n", None, "no passages"),
    "questions": ('{"question": "Who?", "split": "dev"}\n', None, "looks like questions"),
}


@pytest.mark.parametrize("case", BAD_PASSAGES)
def test_bad_passages_are_one_line_and_leave_the_study_as_it_was(study, tmp_path, case):
    data, line, message = BAD_PASSAGES[case]
    before = contents(study)
    path = write(tmp_path, data)
    with pytest.raises(BadInput, match=message) as error:
        import_passages(study, path)
    assert error.value.line == line and str(path) in str(error.value) and "\n" not in str(error.value)
    assert contents(study) == before and not study.has_corpus


def test_duplicate_lines_are_those_of_the_file_past_records_of_several_lines(study, tmp_path):
    rows = [("a", "", "one\ntwo\nthree"), ("b", "", "x"), ("c", "", "y"), ("b", "", "z")]
    with pytest.raises(BadInput, match="'b' occurs twice, first in line 5") as error:
        import_passages(study, write(tmp_path, tsv(rows)))
    assert error.value.line == 7


def test_skip_bad_imports_the_rest_and_lists_what_it_left_out(study, tmp_path):
    data = tsv([*ROWS, ROWS[0], ("p 4", "", "x"), ("p5", "", "last"), ROWS[1], ROWS[0]]).encode() + b"p6\t\xff\tT\n"
    path = write(tmp_path, data)
    result = import_passages(study, path, skip_bad=True)
    assert [p.id for p in study.corpus.scan()] == ["p1", "p2", "p3", "p5"]
    assert (result.rows, result.left_out) == (4, 5)
    left_out = result.left_out_file.read_text().splitlines()
    assert sorted(line.partition("\t")[0] for line in left_out) == [f"{path}:{line}" for line in (10, 5, 6, 8, 9)]
    assert any("first in line 3" in line for line in left_out)
    assert result.left_out_file.is_relative_to(study.folder)


def test_what_cannot_be_skipped_is_raised_all_the_same(study, tmp_path):
    before = contents(study)
    for data in ("id\ttext\np\tx\n", gzip.compress(tsv(ROWS).encode())[:-4], "id\ttext\ttitle\n\tx\ty\n"):
        with pytest.raises(BadInput):
            import_passages(study, write(tmp_path, data), skip_bad=True)
        assert contents(study) == before


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("at", ["importing passages", "indexing ids"])
def test_a_stop_at_any_point_leaves_the_study_as_it_was(study, tmp_path, stop, at):
    before = contents(study)

    def progress(done, total, doing):
        if doing == at:
            raise stop

    path = write(tmp_path, tsv([*ROWS, ("p 4", "", "x")]))
    with pytest.raises(stop):
        import_passages(study, path, skip_bad=True, progress=progress)
    assert contents(study) == before
    assert import_passages(study, path, skip_bad=True).rows == 3


def test_a_stop_while_saving_questions(filled, tmp_path):
    before = contents(filled)

    def progress(done, total, doing):
        if doing == "saving questions":
            raise KeyboardInterrupt

    path = write(tmp_path, jsonl({"question": "Who?", "split": "dev"}), "q.jsonl")
    with pytest.raises(KeyboardInterrupt):
        import_questions(filled, path, progress=progress)
    assert contents(filled) == before


QUESTION = {
    "id": "q1",
    "question": "Where was Ada born?",
    "answers": ["London"],
    "subject": "Ada Lovelace",
    "split": "dev",
    "gold": ["p1"],
}


def test_questions_then_again_then_with_other_options(filled, tmp_path):
    path = write(
        tmp_path, jsonl(QUESTION, {"id": "q2", "question": "Who?", "split": "test", "dataset": "mine"}), "q.jsonl"
    )
    assert import_questions(filled, path, split="dev").rows == 1
    before = contents(filled)
    assert import_questions(filled, path, split="dev").unchanged
    assert contents(filled) == before
    assert import_questions(filled, path, split="test").rows == 1
    assert [(q.id, q.split, q.gold) for q in filled.questions.all()] == [("q1", "dev", ("p1",)), ("q2", "test", ())]
    with pytest.raises(BadInput, match="'q1' is in the study already") as error:
        import_questions(filled, path)
    assert error.value.line == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "q1"}, "'q1' occurs twice, first in line 1"), ({"gold": ["p1", "p9"]}, "gold passage 'p9' is not"),
        ({"answers": ["\u200b"]}, "nothing to match"), ({"split": "later"}, "later"),
    ],
)  # fmt: skip
def test_a_bad_question_stops_or_is_left_out(filled, tmp_path, change, message):
    path = write(tmp_path, jsonl(QUESTION, {**QUESTION, "id": "q2", **change}, {**QUESTION, "id": "q3"}), "q.jsonl")
    before = contents(filled)
    with pytest.raises(BadInput, match=message) as error:
        import_questions(filled, path)
    assert error.value.line == 2 and contents(filled) == before
    result = import_questions(filled, path, skip_bad=True)
    assert (result.rows, result.left_out) == (2, 1)
    assert message.split("'")[0] in result.left_out_file.read_text()


def test_gold_before_passages_says_what_to_do(study, tmp_path):
    with pytest.raises(BadInput, match="import the passages first"):
        import_questions(study, write(tmp_path, jsonl(QUESTION), "q.jsonl"), skip_bad=True)
    assert len(study.questions) == 0


def test_unknown_options_are_refused(study, tmp_path):
    path = write(tmp_path, jsonl(QUESTION), "q.jsonl")
    with pytest.raises(Refused, match="train, dev, test, unlabelled"):
        import_questions(study, path, split="later")
    with pytest.raises(Refused, match="all, one"):
        import_questions(study, path, gold="some")
    with pytest.raises(BadInput, match="no questions of split 'test'"):
        import_questions(study, path, split="test")


def test_frequencies_from_a_file(filled, tmp_path):
    path = write(tmp_path, "entity\tn\nAda Lovelace\t12\nelsewhere\t3\n", "f.tsv")
    with pytest.raises(Refused, match="import questions"):
        import_frequencies(filled, path)
    import_questions(filled, write(tmp_path, jsonl(QUESTION, {**QUESTION, "id": "q2", "subject": "Bo"}), "q.jsonl"))
    result = import_frequencies(filled, path)
    assert result.rows == 1 and result.notes == ("1 of 2 subjects is not in f.tsv",)
    assert [q.frequency for q in filled.questions.all()] == [12, None]
    assert filled.questions.frequency_source == "f.tsv"
    assert import_frequencies(filled, path).unchanged
    with pytest.raises(BadInput, match="twice, first in line 2"):
        import_frequencies(filled, write(tmp_path, "entity\tn\na\t1\na\t2\n", "g.tsv"))
    assert count_frequencies(filled).rows == 1
    assert [q.frequency for q in filled.questions.all()] == [12, 1]
    assert count_frequencies(filled).unchanged


def test_frequencies_are_counted_in_the_passages(study, filled, tmp_path):
    subjects = ["Ada Lovelace", "ada", "Rome a", "Nobody"]  # "Rome" ends a title, "A" begins its text: no mention
    import_questions(
        filled, write(tmp_path, jsonl(*({"question": "?", "split": "dev", "subject": s} for s in subjects)), "q.jsonl")
    )
    assert count_frequencies(filled).rows == 4
    assert [q.frequency for q in filled.questions.all()] == [2, 2, 0, 0]
    with pytest.raises(Missing, match="passages"):
        other = Study.create(tmp_path / "other")
        import_questions(other, tmp_path / "q.jsonl")
        count_frequencies(other)


WORDS = st.lists(
    st.sampled_from(
        [
            "a",
            "A",
            "the",
            "Über",
            "U\u0308ber",
            "b",
            "c-d",
            "3",
            "\u200b",
            "東京",
            "ΟΔΟΣ'Α",
            "οδος",
            "οδοσ",
            "İ",
            "i\u0307",
        ]
    ),
    max_size=6,
).map(" ".join)


@given(st.lists(WORDS, max_size=6, unique=True), st.lists(st.tuples(WORDS, WORDS), max_size=6))
@settings(deadline=None)
def test_counting_is_the_same_as_looking_at_every_place(entities, passages):
    """Compare with a plain version of DPR's rule: NFD, its tokens, lower case, consecutive in title or text."""

    def tokens(text):
        found = regex.findall(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", unicodedata.normalize("NFD", text))
        return [token.lower() for token in found]

    def holds(text, entity):
        t, e = tokens(text), tokens(entity)
        return bool(e) and any(t[i : i + len(e)] == e for i in range(len(t)))

    rows = [("id", title, text) for title, text in passages]
    expected = {e: sum(holds(title, e) or holds(text, e) for _, title, text in rows) for e in entities}
    assert count_mentions(entities, [rows[:3], rows[3:]]) == expected


@pytest.mark.parametrize("stop", [0x3100, pytest.param(0x110000, marks=pytest.mark.slow)])
def test_a_token_of_every_character_is_that_of_the_answer_rules(stop):
    """Alone, after a letter and before a letter: the arrays hold the tokens of `spaced_tokens(nfd(text))`."""
    characters = [chr(code) for code in range(1, stop) if not 0xD800 <= code < 0xE000]
    texts = [
        " ".join(f"{character} a{character} {character}a" for character in characters[start : start + 5000])
        for start in range(0, len(characters), 5000)
    ]
    found = token_arrays(texts)
    words = [found.text[start:end] for start, end in zip(found.starts, found.ends, strict=True)]
    whole = "\0".join(spaced_tokens(nfd(text)) for text in texts)
    assert words == whole.replace("\0", " ").split()
    assert found.numbers.tolist() == [i for i, text in enumerate(whole.split("\0")) for _ in text.split()]
    same = {}
    assert all(same.setdefault(word, hash) == hash for word, hash in zip(words, found.hashes.tolist(), strict=True))
    assert len({*same.values()}) == len(same)


def test_long_passages_are_counted_in_portions(monkeypatch):
    rows = [(str(i), f"Ada {i}", "Ada Lovelace. " * (i % 5) + "É" * (i % 2)) for i in range(40)]
    whole = count_mentions(["Ada", "Ada Lovelace", "Ada 7"], [rows])
    monkeypatch.setattr(mentions, "CHARACTERS", 100)
    assert count_mentions(["Ada", "Ada Lovelace", "Ada 7"], [rows]) == whole
    assert whole == {"Ada": 40, "Ada Lovelace": 32, "Ada 7": 1}


@given(st.integers(0, len(tsv(ROWS))), st.binary(max_size=4), st.booleans(), st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_files_give_a_whole_study_or_the_old_one(tmp_path_factory, at, junk, packed, skip_bad):
    folder = tmp_path_factory.mktemp("damaged")
    study = Study.create(folder / "study")
    before = contents(study)
    data = gzip.compress(tsv(ROWS).encode()) if packed else tsv(ROWS).encode()
    path = write(folder, data[:at] + junk + data[at + len(junk) :])
    try:
        result = import_passages(study, path, skip_bad=skip_bad)
    except BadInput as error:
        assert "\n" not in str(error) and contents(study) == before
        return
    corpus = Corpus(study.folder / "corpus.db")
    assert len(corpus) == result.rows == len(list(corpus.scan())) == len({p.id for p in corpus.scan()})


def test_the_real_files(tmp_path, real_data):
    study = Study.create(tmp_path / "real")
    with lzma.open(real_data / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader((next(file) for _ in range(5001)), delimiter="\t"))
    header, rows = rows[0], rows[1:]
    path = write(tmp_path, lzma.compress(tsv([(r[0], r[2], r[1]) for r in rows]).encode(), preset=0))
    assert header == ["id", "text", "title"]
    assert import_passages(study, path).rows == 5000
    assert [(p.id, p.text, p.title) for p in study.corpus.scan()] == [tuple(row) for row in rows]
    result = import_questions(study, real_data / "questions.jsonl.xz", gold="one", skip_bad=True)
    assert result.rows + result.left_out == 14_782 and result.rows > 500
    assert all(len(question.gold) == 1 for question in study.questions.all())


def test_the_real_entityquestions(tmp_path, real_data):
    """The paper's counts: 220,703 questions of 24 relations; every subject is recovered from its question."""
    from blindspot.backend.data.formats import entityquestions

    items = list(entityquestions.read(real_data / "entityquestions_dataset.tar.xz"))
    main = [item.question for item in items if item.question.dataset == "entityquestions"]
    assert len(main) == 220_703 and len({question.relation for question in main}) == 24
    by_id = {question.id: question for question in main}
    with lzma.open(real_data / "questions.jsonl.xz", "rt", encoding="utf-8") as file:
        ours = [record for record in map(json.loads, file) if record["set"] in ("train", "dev")]
    assert len(ours) == 12_068
    for record in ours:
        question = by_id[record["id"]]
        assert (question.text, question.subject, question.relation) == (
            record["question"],
            record["subject"],
            record["relation"],
        )


def test_a_full_disk_is_one_line_and_leaves_nothing(study, tmp_path, monkeypatch):
    import sqlite3

    def full(self, rows, contents=None):
        raise sqlite3.OperationalError("database or disk is full")

    before = contents(study)
    monkeypatch.setattr("blindspot.db.corpus.CorpusWriter.add_rows", full)
    with pytest.raises(Refused, match="disk is full"):
        import_passages(study, write(tmp_path, tsv(ROWS)))
    assert contents(study) == before

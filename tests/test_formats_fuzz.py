"""Broken files: every reader returns a message or a valid result, never another error, and an import is complete or
absent.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blindspot.backend.data.formats import find_format, formats
from blindspot.backend.data.formats.base import (
    ImportedQuestion,
    Options,
    PassageBatch,
    Qrel,
    RunEntry,
    check_batch,
    question_fault,
)
from blindspot.backend.data.importing.from_results import study_from_results
from blindspot.db.errors import BadInput, BlindspotError
from tests.format_files import SAMPLES, Sample, contents, names, study_for

COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}
PIECES = [
    b"\t",
    b"\n",
    b"\r\n",
    b'"',
    b"'",
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\\ud800",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"NaN",
    b"9" * 40,
    b"9" * 5000,
    b'""',
    b"[]",
    b"{}",
    b"[[[[",
    b" ",
    "\u2028".encode(),
    "\u200b".encode(),
    b"\\",
    b"a" * 300,
    b"\x1f\x8b",
    b"\xfd7zXZ\x00",
    b"BZh",
]


@st.composite
def broken(draw, good: bytes) -> bytes:
    """A valid file after random damage: bytes changed, removed, duplicated, moved, inserted, or truncated."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
        end = min(end, at + draw(st.sampled_from([1, 8, 1000])))
        kind = draw(st.sampled_from(["flip", "cut", "double", "insert", "value", "short", "lines"]))
        if kind == "flip" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif kind == "cut":
            del data[at:end]
        elif kind == "double":
            data[at:at] = data[at:end]
        elif kind == "insert":
            data[at:at] = draw(st.sampled_from(PIECES))
        elif kind == "value":
            # A JSON value or a field replaced by another: well-formed input gets furthest.
            found = list(re.finditer(rb'"[^"\n]*"|-?\d+(\.\d+)?|true|\[\]', bytes(data)))
            if found:
                match = draw(st.sampled_from(found))
                data[match.start() : match.end()] = draw(
                    st.sampled_from(
                        [b"null", b"[]", b"{}", b'""', b"7", b"-7.5", b"true", b'"x"', b'["x"]', b'[""]', b'[{"a": 1}]']
                    )
                )
        elif kind == "short":
            del data[at:]
        else:
            lines = bytes(data).split(b"\n")
            data = bytearray(b"\n".join(draw(st.permutations(lines)))) if len(lines) < 50 else data
    return bytes(data)


def anything() -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
        st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join),
    )


def check_reader(sample: Sample, path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        for found in find_format(path, sample.kind, sample.format).read(path, Options(**sample.arguments)):
            assert isinstance(
                found,
                {"questions": ImportedQuestion, "runs": RunEntry, "qrels": Qrel, "passages": PassageBatch}[sample.kind]
                | BadInput,
            )
            if isinstance(found, ImportedQuestion):
                assert question_fault(found.question) is None
            elif isinstance(found, PassageBatch):
                check_batch(found, path)
            elif isinstance(found, BadInput):
                assert "\n" not in str(found) and str(path) in str(found)
    except BadInput as error:
        assert "\n" not in str(error) and str(path) in str(error)


def check_telling(path) -> None:
    """Recognising the format by content."""
    for kind in ("passages", "questions", "frequencies", "runs", "qrels"):
        try:
            find_format(path, kind)
        except BadInput as error:
            assert "\n" not in str(error)


def check_import(sample: Sample, folder, templates, data: bytes, skip_bad: bool) -> None:
    study = study_for(sample, folder / "study", templates)
    before, path = contents(study), sample.write(folder, data)
    try:
        result = sample.bring(study, path, format=sample.format, skip_bad=skip_bad)
    except BlindspotError as error:
        assert "\n" not in str(error)
        assert contents(study) == before
    else:
        assert result.rows > 0 and contents(study) != before
        if skip_bad and result.left_out:
            assert len(result.left_out_file.read_text().splitlines()) >= result.left_out
    finally:
        study.questions.close()


def fuzzed(examples: int, check):
    def test(sample, tmp_path, templates):
        @settings(max_examples=examples, **COMMON)
        @given(st.one_of(broken(sample.data), broken(sample.data), anything()), st.booleans())
        def run(data, skip_bad):
            check(sample, tmp_path, templates, data, skip_bad)

        run()

    return pytest.mark.parametrize("sample", SAMPLES, ids=names(SAMPLES))(test)


@pytest.fixture(scope="module")
def templates():
    return {}


def _read(sample, folder, templates, data, skip_bad):
    check_reader(sample, folder / sample.name, data)
    check_telling(folder / sample.name)


test_readers = fuzzed(25, _read)
test_imports = fuzzed(8, check_import)
test_readers_thousands = pytest.mark.slow(fuzzed(3000, _read))
test_imports_thousands = pytest.mark.slow(fuzzed(600, check_import))


def check_new(folder, one: bytes, two: bytes, skip_bad: bool) -> None:
    """A study from two results files: complete, or an empty folder as before."""
    files = [folder / "one.json", folder / "two.json"]
    for file, data in zip(files, (one, two), strict=True):
        file.write_bytes(data)
    target = folder / "made"
    try:
        made = study_from_results(target, files, skip_bad=skip_bad)
    except BlindspotError as error:
        assert "\n" not in str(error) and not target.exists()
    else:
        assert made.study.runs() == ["one", "two"] and len(made.study.corpus) == made.passages > 0
        assert {p.name for p in target.iterdir()} <= {
            "study.toml",
            "labels.db",
            "labels.db-wal",
            "labels.db-shm",
            "corpus.db",
            "runs",
            "left-out",
            "jobs",
        }
        made.study.questions.close()
        import shutil

        shutil.rmtree(target)


RESULTS = [sample.data for sample in SAMPLES if sample.kind == "runs" and sample.format in ("dpr", "pyserini")]


def fuzzed_new(examples: int):
    def test(tmp_path):
        @settings(max_examples=examples, **COMMON)
        @given(
            st.sampled_from(RESULTS).flatmap(lambda good: st.one_of(broken(good), anything())),
            st.sampled_from(RESULTS),
            st.booleans(),
            st.booleans(),
        )
        def run(bad, good, first, skip_bad):
            check_new(tmp_path, *((bad, good) if first else (good, bad)), skip_bad)

        run()

    return test


test_new_from_results = fuzzed_new(12)
test_new_from_results_hundreds = pytest.mark.slow(fuzzed_new(800))


def test_every_reader_is_fuzzed_here_or_in_its_own_tests():
    elsewhere = {"entityquestions", "plain", "mentions-tsv"}
    assert {each.name for each in formats()} == {sample.format for sample in SAMPLES} | elsewhere

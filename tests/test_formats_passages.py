"""Passage files: the same result as the csv module, but faster, and one message for every fault."""

from __future__ import annotations

import csv
import gzip
import io
import json
import lzma

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import find_format, psgs, streams
from blindspot.backend.data.formats.base import Options, check_batch
from blindspot.backend.data.importing.importer import import_passages
from blindspot.db.errors import BadInput, Refused

FIELDS = st.text(st.sampled_from('ab"\t\nü\U0001f3db \u2028\x85,'), max_size=12)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("passages")


def rows_of(path, read=psgs.read):
    rows, problems = [], []
    for batch in read(path):
        batch, _ = check_batch(batch, path)
        rows += zip(batch.lines, batch.rows, strict=True)
        problems += batch.problems
    return rows, problems


def write(folder, text, name="psgs.tsv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


@given(
    st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=8),
    st.permutations(["id", "text", "title", "more"]),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
def test_what_csv_writes_is_read_as_csv_reads_it(folder, rows, columns, quoting, ending, block):
    """Blocks of a few bytes, so that records, quotes and characters are cut at every place."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", quoting=quoting, lineterminator=ending)
    writer.writerow(columns)
    writer.writerows(
        [dict(zip(("id", "title", "text", "more"), (*row, ""), strict=True))[c] for c in columns] for row in rows
    )
    path = write(folder, out.getvalue())
    before, streams.BLOCK = streams.BLOCK, block
    try:
        found = [row for batch in psgs.read(path) for row in batch.rows]
        assert not [p for batch in psgs.read(path) for p in batch.problems]
    finally:
        streams.BLOCK = before
    assert found == rows


GOOD = (
    'id\ttext\ttitle\n1\t"He said ""yes"" and left."\tOne\n2\tPlain text.\t"Tw""o"\n3\t"Two\nlines"\tThree\n'
    "4\tÜber alles ü.\tFour\n"
).encode()


@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(lambda tail: b"id\ttext\ttitle\n" + tail, st.binary(max_size=60)),
        st.builds(
            lambda at, junk: GOOD[:at] + junk + GOOD[at + len(junk) :], st.integers(0, len(GOOD)), st.binary(max_size=3)
        ),
        st.builds(
            lambda at, pack: pack(GOOD)[:at], st.integers(0, 150), st.sampled_from([gzip.compress, lzma.compress])
        ),
        st.builds(
            lambda at, bad: (lambda z: z[:at] + bytes([bad]) + z[at + 1 :])(gzip.compress(GOOD)),
            st.integers(0, 120),
            st.integers(0, 255),
        ),
    )
)
@example(b"\xff\xfei\0d\0")
@example(b'id\ttext\ttitle\n1\t"')
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_give_sound_rows_or_a_bad_input(folder, data):
    path = write(folder, data, "any")
    try:
        rows, problems = rows_of(path, find_format(path, "passages").read)
    except BadInput as error:
        assert "\n" not in str(error) and str(path) in str(error)
        return
    for _, (id, _, text) in rows:
        assert id.split() == [id] and text.strip() and "\0" not in text
        text.encode()
    assert all(isinstance(problem, BadInput) for problem in problems)


def test_lines_are_those_of_the_file(folder):
    assert [(line, row[0]) for line, row in rows_of(write(folder, GOOD))[0]] == [(2, "1"), (3, "2"), (4, "3"), (6, "4")]


FAULTS = (
    ("id\ttext\n1\tx\n", 1, "title"),
    ("id\tid\ttext\ttitle\n1\t2\tx\ty\n", 1, "twice"),
    ("id\ttext\ttitle\n1\tx\tT\n2\tx\n", 3, "2 fields"),
    ("id\ttext\ttitle\n1\tx\tT\n\tx\tT\n", 3, "id is empty"),
    ("id\ttext\ttitle\n1\t   \tT\n", 2, "text is empty"),
    ("id\ttext\ttitle\na b\tx\tT\n", 2, "space"),
    ("id\ttext\ttitle\na\u00a0b\tx\tT\n", 2, "space"),
    ("id\ttext\ttitle\n1\tx\0y\tT\n", 2, "NUL"),
    (b"id\ttext\ttitle\n1\tx\tT\n2\tx\xffy\tT\n", 3, "UTF-8"),
    (b"id\ttext\ttitle\n1\tx\tT\xc3\n", 2, "UTF-8"),
    ("id\ttext\ttitle\n1\t" + "x" * 1_000_001 + "\tT\n", 2, "1,000,001"),
    ("id\ttext\ttitle\n" + "i" * 300 + "\tx\tT\n", 2, "300"),
    ('id\ttext\ttitle\n1\tx\tT\n2\t"open\tT\n3\tx\tT\n', 3, "quote opens"),
    ('id\ttext\ttitle\n1\t"open\tT\n' + "2\tx\tT\n" * 1500, 2, "quote opens"),
    ('id\ttext\ttitle\n1\t"open\tT\n2\t"He ""said"""\tT\n', 2, "quote closes"),
    ('id\ttext\ttitle\n1\t"Heroes" is a song\tT\n', 2, "quote closes"),
)  # fmt: skip


def test_each_fault_is_named_with_its_line(folder):
    for text, line, message in FAULTS:
        path = write(folder, text)
        try:
            _, problems = rows_of(path)
            problem = problems[0]
        except BadInput as error:
            problem = error
        assert (problem.line, problem.path) == (line, path)
        assert message in problem.message


def test_a_file_that_quotes_nothing_is_read_as_the_refusal_says(folder, tmp_path):
    """WikiExtractor's articles, joined with tabs: a text may begin with a quotation."""
    texts = ['"To be" is a line.', 'He said "yes"', '"open', 'a""b', '""', "plain"]
    path = folder / "raw.tsv"
    path.write_text(
        "id\ttitle\ttext\n" + "".join(f"{n}\tT\t{text}\n" for n, text in enumerate(texts)), encoding="utf-8"
    )
    study = Study.create(tmp_path / "s", "s")
    with pytest.raises(BadInput, match=r"raw.tsv:2: .*; if the file quotes nothing, read it with --set quotes=none"):
        import_passages(study, path)
    import_passages(study, path, settings=["quotes=none"])
    assert [passage.text for passage in study.corpus.passages(range(len(texts)))] == texts
    with pytest.raises(Refused, match="quotes must be one of csv, none"):
        next(psgs.read(path, Options(settings={"quotes": "off"})))


def test_an_open_quote_loses_its_own_line_only(folder):
    path = write(
        folder, 'id\ttext\ttitle\n1\tx\tT\n2\t"open\tT\n' + "".join(f'{i}\t"say ""{i}"""\tT\n' for i in range(3, 3000))
    )
    rows, problems = rows_of(path)
    assert [p.line for p in problems] == [3]
    assert [row[0] for _, row in rows] == ["1", *map(str, range(3, 3000))]


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress, lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:])]
)
def test_compression_is_told_by_content_not_by_name(folder, pack):
    path = write(folder, pack(GOOD), "wrongly_named.txt")
    assert [row[0] for _, row in rows_of(path)[0]] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_truncated_and_broken_compression(folder, pack):
    data = pack("".join(["id\ttext\ttitle\n", *(f"{i}\ttext {i * 7919}\tT\n" for i in range(5000))]).encode())
    with pytest.raises(BadInput, match="truncated"):
        rows_of(write(folder, data[: len(data) * 2 // 3]))
    with pytest.raises(BadInput, match="truncated"):
        rows_of(write(folder, data[:-1]))
    with pytest.raises(BadInput, match="broken"):
        rows_of(write(folder, data[:2000] + bytes(64) + data[2064:]))


def test_jsonl_passages(folder):
    path = write(folder, '{"id": "a", "title": "T", "text": "x"}\n\n{"_id": 7, "text": "y\\u2028z"}\r\n')
    chosen = find_format(path, "passages")
    assert rows_of(path, chosen.read) == ([(1, ("a", "T", "x")), (3, ("7", "", "y\u2028z"))], [])


JSONL_FAULTS = (
    ("[1]", "a list, not a JSON object"),
    ("{", "not JSON"),
    ("[" * 100_000, "nested"),
    ('{"text": "x"}', "no 'id'"),
    ('{"id": "1"}', "no 'text'"),
    ('{"id": true, "text": "x"}', "true or false"),
    ('{"id": "1", "text": 5}', "a number"),
    ('{"id": "1", "text": "x", "title": []}', "a list"),
    ('{"id": "1", "text": "\\ud800"}', "surrogate"),
    ('{"id": "1", "text": "a\\u0000"}', "NUL"),
    (b'{"id": "1", "text": "\xff"}', "UTF-8"),
    ('{"id": ' + "9" * 5000 + ', "text": "x"}', "cannot be read"),
)  # fmt: skip


def test_jsonl_faults(folder):
    for line, message in JSONL_FAULTS:
        line = line if isinstance(line, bytes) else line.encode()
        path = write(folder, b'{"id": "0", "text": "x"}\n' + line + b"\n", "p.jsonl")
        rows, problems = rows_of(path, find_format(path, "passages").read)
        assert [row[0] for _, row in rows] == ["0"]
        assert problems[0].line == 2 and message in problems[0].message


@given(st.lists(st.tuples(FIELDS.filter(str.strip), FIELDS), min_size=1, max_size=5), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_jsonl_round_trip(folder, rows, ascii):
    lines = [json.dumps({"id": f"p{i}", "title": t, "text": x}, ensure_ascii=ascii) for i, (x, t) in enumerate(rows)]
    path = write(folder, "\n".join(lines))
    found, problems = rows_of(path, find_format(path, "passages").read)
    assert (found, problems) == ([(i + 1, (f"p{i}", t, x)) for i, (x, t) in enumerate(rows)], [])


OTHER_KINDS = (
    (b"", "empty"),
    (b"PK\x03\x04 and so on", "zip"),
    (b"\xff\xfea\0", "UTF-16|does not look"),
    (b'{"question": "Who?", "answers": ["a"]}\n', "looks like questions"),
    (b"entity\tcount\nAda\t3\n", "looks like frequencies"),
    (b"1\tno header\there\n", "id, title and text"),
    (b"Who wrote this?\n", "does not look like"),
)  # fmt: skip


def test_the_wrong_kind_of_file_is_named(folder):
    for data, message in OTHER_KINDS:
        with pytest.raises(BadInput, match=message):
            find_format(write(folder, data, "wrong"), "passages")
        with pytest.raises(BadInput, match="no such file"):
            find_format(folder / "absent.tsv", "passages")

"""Question files, frequency files and archives."""

from __future__ import annotations

import io
import json
import lzma
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import ImportedQuestion, Options
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
WHERE = [
    {"question": "Where was Ada born?", "answers": ["London"]},
    {"question": "Where was Bo Li born?", "answers": ["Wuhan", "武汉"]},
]
LAYOUT = {
    "dataset/dev/P19.dev.json": WHERE,
    "dataset/test/P131.test.json": [{"question": "Where is York located?", "answers": ["England"]}],
    "dataset/train/P276.train.json": [{"question": "Where is York located?", "answers": ["England"]}],
    "dataset/one-off/common-random-buckets/P19/bucket3.test.json": WHERE[:1],
    "dataset/one-off/similar/P19/P19_similar.train.json": [
        {"question": "What is the birthplace of X Æ?", "answers": ["Rome"]}
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("questions")


def read(path, **options):
    found = list(find_format(path, "questions").read(path, Options(**options)))
    return [item.question for item in found if isinstance(item, ImportedQuestion)], [
        item for item in found if isinstance(item, BadInput)
    ]


def write(folder, data, name="questions.jsonl"):
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder / name


def tar(members, end=True):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in members.items():
            data = content if isinstance(content, bytes) else json.dumps(content, indent=4).encode()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def test_entityquestions_subjects_relations_and_sets(folder):
    questions, problems = read(write(folder, lzma.compress(tar(LAYOUT)), "eq.tar.xz"))
    assert not problems
    found = {q.id: (q.dataset, q.split, q.relation, q.subject, q.bucket, q.template) for q in questions}
    born, located = "Where was [X] born?", "Where is [X] located?"
    assert found == {
        "P276.train.0": ("entityquestions", "train", "P276", "York", None, located),
        "P19.dev.0": ("entityquestions", "dev", "P19", "Ada", None, born),
        "P19.dev.1": ("entityquestions", "dev", "P19", "Bo Li", None, born),
        "P131.test.0": ("entityquestions", "test", "P131", "York", None, located),
        "common-random-buckets.P19.3.0": ("common-random-buckets", "test", "P19", "Ada", 3, born),
        "similar.P19.train.0": ("similar", "train", "P19", "X Æ", None, "What is the birthplace of [X]?"),
    }
    assert questions[2].answers == ("Wuhan", "武汉")


def test_a_folder_reads_as_its_tar_does(folder):
    root = folder / "unpacked"
    for name, content in LAYOUT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(content))
    assert read(root) == read(write(folder, tar(LAYOUT), "eq.tar"))
    assert [q.id for q in read(root, split="dev")[0]] == ["P19.dev.0", "P19.dev.1"]
    assert [q.id for q in read(root, dataset="similar")[0]] == ["similar.P19.train.0"]


def test_templates_in_the_archive_win(folder):
    templates = {
        "relation_query_templates.json": {"P19": "Birthplace: [X]"},
        "dataset/dev/P19.dev.json": [{"question": "Birthplace: Ada", "answers": ["x"]}],
    }
    assert read(write(folder, tar(templates), "own.tar"))[0][0].subject == "Ada"


ARCHIVE_FAULTS = (
    (b'[\n {"question": "Where was Ada born?", "answers": ["x"]},\n {"question": "Who is Ada?", "answers": []}\n]', 3, "worded"),
    (b'[\n {"question": "Where was  born?", "answers": ["x"]}\n]', 2, "worded|empty"),
    (b'[{"question": "Where was Ada born?", "answers": ["\xe2\x80\x8b"]}]', 1, "nothing to match"),
    (b'[\n{"question": "Where was Ada born?", "answers": "London"}]', 2, "list of texts"),
    (b'[{"answers": ["x"]}]', 1, "no 'question'"),
    (b"[1]", 1, "a number"),
    (b'{"a": 1}', 1, "not a JSON array"),
    (b'[\n{"question": "Where was Ada born?", "answers": []},\n', 3, "cut short"),
    (b'[{"question": "Where was Ada born?", "answers": []}', 1, "cut short"),
    (b'[\n"\xff"]', 2, "UTF-8"),
    (b"[" * 100_000, 1, "nested|not JSON"),
    (b"[] trailing", 1, "more after"),
)  # fmt: skip


def test_faults_inside_an_archive_name_member_and_line(folder):
    for content, line, message in ARCHIVE_FAULTS:
        path = write(folder, tar({"dataset/dev/P19.dev.json": content}), "bad.tar")
        with pytest.raises(BadInput, match=message) as error:
            _, problems = read(path)
            raise problems[0]
        assert (error.value.path, error.value.line) == (f"{path}:dataset/dev/P19.dev.json", line)


OUTSIDE = (
    "/etc/passwd",
    "../P19.dev.json",
    "a/../../b.json",
    "..\\b.json",
    "C:\\b.json",
)  # fmt: skip


def test_a_member_that_points_outside(folder):
    for name in OUTSIDE:
        path = write(folder, tar({**LAYOUT, name: b"x"}), "outside.tar")
        with pytest.raises(BadInput, match="points outside") as error:
            read(path)
        assert error.value.path == f"{path}:{name}"


NO_FILES = (
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
)  # fmt: skip


def test_links_and_devices_refuse_the_archive(folder):
    for kind in NO_FILES:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            member = tarfile.TarInfo("dataset/dev/P19.dev.json")
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        with pytest.raises(BadInput, match="refused"):
            read(write(folder, out.getvalue(), "link.tar"))


def test_a_link_out_of_a_folder(folder):
    root = folder / "linked"
    (root / "dataset/dev").mkdir(parents=True)
    (root / "dataset/dev/P19.dev.json").symlink_to("/etc/passwd")
    with pytest.raises(BadInput, match="outside"):
        read(root)


def test_an_archive_cut_anywhere_is_refused(folder):
    whole = tar(LAYOUT)
    used = len(whole.rstrip(b"\0"))
    for cut in [*range(512, used, 512), used - 100, used // 2]:
        with pytest.raises(BadInput, match="truncated|broken|no EntityQuestions"):
            read(write(folder, whole[:cut], "cut.tar"))
    packed = lzma.compress(whole)
    for cut in range(40, len(packed), 97):
        with pytest.raises(BadInput):
            read(write(folder, packed[:cut], "cut.tar.xz"))


def test_an_archive_of_something_else(folder):
    with pytest.raises(BadInput, match="no EntityQuestions"):
        read(write(folder, tar({"README.md": b"hello"}), "other.tar"))


SMALL = tar({"dataset/dev/P19.dev.json": WHERE})


@given(st.integers(0, 1600), st.binary(min_size=1, max_size=8))
@QUIET
def test_damaged_archives_give_questions_or_a_bad_input(folder, at, junk):
    path = write(folder, SMALL[:at] + junk + SMALL[at + len(junk) :], "damaged.tar")
    try:
        read(path)
    except BadInput as error:
        assert "\n" not in str(error)


def test_jsonl_with_our_fields(folder):
    record = {"id": "a", "text": "Where?", "answers": ["x"], "relation": "P19", "subject": "S", "template": "t"}
    record |= {"frequency": 4, "bucket": 2, "dataset": "mine", "split": "dev", "gold": ["p2", 1, "p2"]}
    record["answer_rule"] = "regex"
    questions, _ = read(write(folder, json.dumps(record)))
    assert questions == [Question("a", "Where?", ("x",), "P19", "S", "t", 4, 2, "mine", "dev", ("p2", "1"), "regex")]


def test_jsonl_sets_and_gold_as_in_the_real_data(folder):
    def line(**values):
        return json.dumps({"question": "Who?", "answers": ["a"], "gold": ["1", "2", "3"], **values})

    own = {"gold_own_article": ["3"], "gold_comention": ["1", "3"]}
    lines = [
        line(id="a", set="train", **own),
        line(id="b", set="nq-seen-buckets", bucket=7, subject_mentions=0),
        line(id="c", split="test", gold_own_article=[], gold_comention=["2"]),
        line(split="dev"),
    ]
    path = write(folder, "\n".join(lines))
    questions, problems = read(path, gold="one")
    assert not problems
    assert [(q.id, q.dataset, q.split, q.gold, q.frequency) for q in questions] == [
        ("a", "entityquestions", "train", ("3",), None),
        ("b", "nq-seen-buckets", "test", ("1",), 0),
        ("c", "", "test", ("2",), None),
        ("questions.4", "", "dev", ("1",), None),
    ]
    assert read(path)[0][0].gold == ("1", "2", "3")
    assert [q.id for q in read(path, split="test")[0]] == ["b", "c"]
    assert [q.dataset for q in read(path, dataset="mine", split="dev")[0]] == ["mine"]


FAULTS = (
    ({"id": "a"}, "no 'question'"),
    ({"question": ""}, "empty"),
    ({"question": 3}, "a number"),
    ({"question": "q", "answers": [" \u200b"]}, "nothing to match|empty"),
    ({"question": "q", "answers": [1]}, "a number"),
    ({"question": "q", "answers": ["("], "answer_rule": "regex"}, "not a pattern"),
    ({"question": "q", "split": "later"}, "later"),
    ({"question": "q", "split": None}, "--split"),
    ({"question": "q", "answer_rule": "fuzzy"}, "fuzzy"),
    ({"question": "q", "frequency": -1}, "out of range"),
    ({"question": "q", "frequency": 2**63}, "out of range"),
    ({"question": "q", "bucket": "3"}, "text"),
    ({"question": "q", "id": "a b"}, "space"),
    ({"question": "q", "gold": "p"}, "list"),
    ({"question": "q", "gold": ["a b"]}, "gold"),
    ({"question": "q", "subject": "\ud800"}, "surrogate"),
    ({"question": "q\0"}, "NUL"),
)  # fmt: skip


def test_jsonl_faults(folder):
    for record, message in FAULTS:
        good = {"question": "Who?", "split": "dev"}
        path = write(folder, "\n".join(map(json.dumps, [good, {"split": "dev", **record}])))
        questions, problems = read(path)
        assert len(questions) == 1
        assert problems[0].line == 2
        with pytest.raises(BadInput, match=message):
            raise problems[0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(
    "id question text answers gold split set dataset frequency bucket relation subject template answer_rule".split()
)


@given(st.dictionaries(NAMES, VALUES))
@QUIET
def test_any_json_gives_questions_or_bad_input(folder, record):
    path = write(folder, '{"question": "Who?", "split": "dev"}\n' + json.dumps(record))
    questions, problems = read(path)
    assert len(questions) + len(problems) == 2


@given(st.binary(max_size=80))
@QUIET
def test_any_bytes(folder, data):
    for kind in ("questions", "frequencies"):
        path = write(folder, data, "any")
        try:
            list(find_format(path, kind).read(path, Options(split="unlabelled")))
        except BadInput as error:
            assert "\n" not in str(error)


def test_plain_questions(folder):
    path = write(folder, "Who wrote it?\n\n  Why?  \n", "my questions.txt")
    with pytest.raises(BadInput, match="--split unlabelled"):
        read(path)
    questions, _ = read(path, split="unlabelled")
    assert [(q.id, q.text, q.split, q.dataset) for q in questions] == [
        ("my-questions.1", "Who wrote it?", "unlabelled", "my-questions"),
        ("my-questions.3", "Why?", "unlabelled", "my-questions"),
    ]


def test_passages_given_as_questions(folder):
    with pytest.raises(BadInput, match="looks like passages"):
        find_format(write(folder, "id\ttext\ttitle\n1\tx\ty\n", "psgs.tsv"), "questions")
    with pytest.raises(BadInput, match="there are: .*question-jsonl"):
        find_format(folder / "psgs.tsv", "questions", "nonsense")


def test_frequencies_keep_quotes_and_name_faults(folder):
    path = write(folder, 'entity\tn\nBarbara "Bobbi" Morse\t3\n"Heroes"\t0\nx\t-1\ny\n\t4\n', "f.tsv")
    found = list(find_format(path, "frequencies").read(path))
    assert found[:2] == [('Barbara "Bobbi" Morse', 3, 2), ('"Heroes"', 0, 3)]
    assert [(p.line, p.message.split()[0]) for p in found[2:]] == [(4, "the"), (5, "1"), (6, "the")]

"""Hostile files: each is refused with one line that names it, within seconds and bounded memory."""

import io
import json
import lzma
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import archive, find_format
from blindspot.backend.data.importing.importer import import_questions
from blindspot.backend.text.answers import has_answer, pattern_fault
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import BadInput, BlindspotError
from blindspot.db.records import Hits, Question

ROOT = Path(__file__).parents[1]
SECONDS = 5
"""Of this process's own time on a processor: other processes do not count."""


@pytest.fixture
def study(tmp_path):
    made = Study.create(tmp_path / "study", "s")
    with CorpusWriter(made.folder / "corpus.db") as writer:
        writer.add_rows([("1", "t", "Oslo lies there"), ("2", "t", "nothing")])
        writer.finish("f", "0")
    relations = ["x" * 2001, "P19", "P20"]
    made.questions.add(
        [
            Question(f"q{i}", f"Where {i}?", ("Oslo",), relation=relation, dataset="d", split="dev")
            for i, relation in enumerate(relations)
        ]
    )
    for name, order in (("a", [0, 1]), ("b", [1, 0])):
        hits = Hits(np.array([order] * 3, np.int32), np.array([[2, 1]] * 3, np.float32))
        write_run(made, name, [f"q{i}" for i in range(3)], hits, {"retriever": "imported"})
    return made


def one_line(error, path):
    assert "\n" not in str(error.value) and str(error.value).startswith(str(path)) and len(str(error.value)) < 600


# Arrays


def npy(header: str) -> bytes:
    data = header.encode()
    data += b" " * (63 - (10 + len(data)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(data).to_bytes(2, "little") + data


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, a=np.zeros((2, 2)))
    return file.getvalue()


ARRAYS = {
    "npz": npz(),
    "pickle": pickle.dumps([1, 2]),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }") + pickle.dumps([1]),
    "negative": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 32), }") + b"\0" * 256,
    "negative twice": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -2), }") + b"\0" * 16,
    "huge": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999, 99999999999), }") + b"\0" * 64,
    "endless": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }"),
    "nested": npy("{'descr': " + "(" * 3000 + ")" * 3000 + ", 'fortran_order': False, 'shape': (1,), }"),
    "no shape": npy("{'descr': '<f4', 'fortran_order': False}"),
    "code": npy("__import__('os').system('true')"),
    "cut": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (20, 32), }") + b"\0" * 8,
    "empty": b"",
    "text": b"1 2 3\n",
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_another_kind_are_one_line(tmp_path, kind):
    path = tmp_path / "vectors.npy"
    path.write_bytes(ARRAYS[kind])
    with pytest.raises(BadInput) as error:
        open_array(path, "save it with numpy.save")
    one_line(error, path)


def test_vectors_of_an_encoder_are_opened_so(study, tmp_path):
    from blindspot.backend.core.settings import EncoderSettings
    from blindspot.backend.retrieval.dense import _check_vectors
    from blindspot.backend.retrieval.encoder import load_encoder
    from tests.studies import tiny_bert

    tiny_bert(tmp_path / "tiny")
    encoder = load_encoder(EncoderSettings(model=str(tmp_path / "tiny"), pooling="cls"), "cpu")
    path = tmp_path / "vectors.npy"
    for kind in ("npz", "negative", "pickle"):
        path.write_bytes(ARRAYS[kind])
        with pytest.raises(BadInput) as error:
            _check_vectors(study, encoder, path)
        one_line(error, path)


def test_runs_whose_arrays_or_questions_have_another_shape_are_one_line(study):
    folder = study.run("a").folder
    np.save(folder / "ordinals.npy", np.zeros(7))
    with pytest.raises(BadInput, match="has the shape"):
        study.run("a").hits  # noqa: B018
    (folder / "questions.json").write_text('{"a": 1}')
    with pytest.raises(BadInput, match="must be a list of question ids"):
        study.run("a").question_ids  # noqa: B018


# Manifests, slices, folders


@pytest.mark.parametrize(
    "content",
    ["[]", "3", '"x"', "null", "{}", '{"corpus": 3}', '{"corpus": ["a"]}', '{"k": "many", "corpus": "x"}', "{" * 9999, "[" * 99_999,
     '{"seconds": {}}', '{"k": ' + "9" * 5000 + "}", "{"],
)  # fmt: skip
def test_manifests_of_another_shape_are_one_line(study, content):
    path = study.run("a").folder / "manifest.json"
    path.write_text(content)
    with pytest.raises(BadInput) as error:
        study.run("a")
    one_line(error, path)


def test_a_manifest_that_was_read_is_an_ordinary_dict(study):
    manifest = read_manifest(study.run("a").folder)
    assert json.loads(json.dumps(manifest)) == manifest == pickle.loads(pickle.dumps(manifest))
    assert {**manifest, "x": 1}["corpus"] == study.corpus.digest and manifest.get("nothing") is None


@pytest.mark.parametrize(
    "content", ["[]", "3", '{"slices": 3}', '{"slices": [3]}', '{"slices": [{"name": 1}]}', '{"slices": {"a": 1}}', "[" * 99_999,
                '{"slices": [{"name": ["x"], "expression": "a", "made": "b"}]}', "null"]
)  # fmt: skip
def test_saved_slices_of_another_shape_are_one_line(study, content):
    from blindspot.backend.evaluation.saved_slices import saved_slices

    path = study.folder / "slices.json"
    path.write_text(content)
    with pytest.raises(BadInput) as error:
        saved_slices(study)
    one_line(error, path)


def linked_to_itself(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [os.mkfifo, linked_to_itself], ids=["pipe", "self-link"])
def test_pipes_and_links_to_themselves_hang_nothing(study, tmp_path, make):
    from blindspot.backend.data.importing.runs import import_run
    from blindspot.backend.judging.labels_io import import_labels

    odd = tmp_path / "odd.jsonl"
    make(odd)
    folder = tmp_path / "dataset" / "test"
    folder.mkdir(parents=True)
    make(folder / "P19.test.json")
    began = time.process_time()
    for read in (
        lambda: import_questions(study, odd),
        lambda: import_questions(study, tmp_path / "dataset"),
        lambda: import_run(study, odd, "r"),
        lambda: import_labels(study, odd),
        lambda: open_array(odd),
        lambda: find_format(odd, "passages"),
    ):
        with pytest.raises(BlindspotError) as error:
            read()
        assert "\n" not in str(error.value)
    assert time.process_time() - began < SECONDS


def test_a_report_of_a_relation_with_a_long_name(study, tmp_path):
    from blindspot.backend.reports.html_report import write_html_report

    assert write_html_report(study, tmp_path / "report.html") > 1000


# Long lines, deep JSON, bombs, patterns


@pytest.mark.parametrize(
    "name",
    [
        "passages.tsv",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("labels.jsonl", "labels.csv", "labels.qrels", "questions.jsonl")
        ),
    ],
)
def test_a_line_of_two_gigabytes_is_refused_in_bounded_memory(study, tmp_path, name):
    """The file is sparse, so it uses no disk space. A separate process reads it, so that its memory can be measured."""
    path = tmp_path / name
    with open(path, "wb") as file:
        file.write({"passages.tsv": b"id\ttext\ttitle\n", "questions.jsonl": b'{"id": "'}.get(name, b""))
        file.truncate(2 << 30)
    script = f"""
        import resource
        from blindspot.backend.core.study import Study
        from blindspot.backend.judging.labels_io import import_labels
        from blindspot.backend.data.importing.importer import import_questions
        from blindspot.backend.data.formats import psgs
        from blindspot.db.errors import BlindspotError
        study = Study.open({str(study.folder)!r})
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            if {name!r}.startswith("labels"):
                import_labels(study, {str(path)!r}, annotator="ann", skip_bad=True)
            elif {name!r}.startswith("questions"):
                import_questions(study, {str(path)!r}, format="question-jsonl", skip_bad=True)
            else:
                list(psgs.read(__import__("pathlib").Path({str(path)!r})))
        except BlindspotError as error:
            print(error)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    message, grown = done.stdout.splitlines()
    assert message.startswith(f"{path}:") and "a line of more than" in message
    assert int(grown) < 400 and time.monotonic() - started < 60


def test_a_tar_that_unpacks_to_far_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED", 25 << 20)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as made:
        member = tarfile.TarInfo("dataset/padding")
        member.size = 100 << 20
        made.addfile(member, io.BytesIO(bytes(member.size)))
    path = tmp_path / "bomb.tar.xz"
    path.write_bytes(lzma.compress(raw.getvalue(), preset=0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match="unpacks to more than"):
        archive.read_members(path, lambda name: name.endswith(".json"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024


COSTLY = [
    "(a{999}){9999}",
    "((a{999}){999}){999}",
    "a" * 30_000,
    r"(?R)x",
    "a{" + "9" * 6000 + "}",
    "(" * 19_000 + ")" * 900,
]


@pytest.mark.parametrize("pattern", COSTLY, ids=range(len(COSTLY)))
def test_costly_patterns_are_refused_at_once(study, tmp_path, pattern):
    began = time.process_time()
    assert pattern_fault(pattern)
    path = tmp_path / "q.jsonl"
    path.write_text(json.dumps({"id": "x", "question": "q", "answers": [pattern], "answer_rule": "regex"}) + "\n")
    with pytest.raises(BadInput) as error:
        import_questions(study, path, format="question-jsonl", split="dev", dataset="d")
    one_line(error, path)
    assert not has_answer("aaaa", [pattern], "regex")
    assert time.process_time() - began < SECONDS


def test_a_pattern_that_runs_away_is_given_up(tmp_path):
    began = time.process_time()
    assert not has_answer("a" * 60 + "!", [r"(a|aa)+$", r"(a+)+$", r"(.*a){25}b"], "regex")
    assert time.process_time() - began < SECONDS

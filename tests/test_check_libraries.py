"""`blindspot check` beside the libraries that write and read trainers' files: they read the cleaned file as the file before.

| form | the file is written by | and read by |
|---|---|---|
| BEIR | beir (`write_to_json`, `write_to_tsv`, `save_runfile`) | beir (`GenericDataLoader`, `load_runfile`) |
| MS MARCO's id triples | ir_datasets (`ir_datasets export`) | ir_datasets (`TsvDocPairs`) |
| DPR | Haystack 1 (`squad_to_dpr`): DPR is on no package index | json, as DPR's own `JsonQADataset` |
| Tevatron | hand, after Tevatron's docs/datasets.md: its package has no writer | tevatron (`HFTrainDataset`) |
| FlagEmbedding | hand, as its script hn_mine.py writes, which the package leaves out | FlagEmbedding (`AbsEmbedderTrainDataset`) |
| RocketQA | hand, by the columns of its readers: the package has no writer | rocketqa (`DETrainReader`, `CETrainReader`) |

sentence-transformers' own files are in tests/test_check_formats.py.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from blindspot.backend.checking.check import check
from tests import training_files as made
from tests.training_files import contents, judge, unlabelled_copy

Pairs = set[tuple[str, str, bool]]
"""Question, passage, and whether the passage is a positive."""
ABSENT = "{} is not installed (pip install --no-deps -r requirements-formats.txt): {}'s files are not tested with their library"
NEGATIVES = (1, 7)  # the negatives of a question are the passages so many places after its own


def library(module: str, form: str):
    return pytest.importorskip(module, reason=ABSENT.format(module, form))


def texts_with_negatives() -> list[tuple[str, str, list[str]]]:
    """Questions with their positive and their negatives."""
    rows = made.pairs()
    return [(q, text, [rows[(i + shift) % len(rows)][1] for shift in NEGATIVES]) for i, (q, text) in enumerate(rows)]


# BEIR


def write_beir(folder: Path) -> Path:
    util = library("beir.util", "BEIR")
    (folder / "beir" / "qrels").mkdir(parents=True)
    rows = made.pairs()
    util.write_to_json(
        str(folder / "beir" / "corpus.jsonl"), {f"d{i}": {"title": "", "text": t} for i, (_, t) in enumerate(rows)}
    )
    util.write_to_json(str(folder / "beir" / "queries.jsonl"), {f"t{i}": q for i, (q, _) in enumerate(rows)})
    util.write_to_tsv(str(folder / "beir" / "qrels" / "train.tsv"), {f"t{i}": {f"d{i}": 1} for i in range(len(rows))})
    places = (NEGATIVES[0], 0, NEGATIVES[1])
    run = {f"t{i}": {f"d{(i + s) % len(rows)}": 9.5 - r for r, s in enumerate(places)} for i in range(len(rows))}
    util.save_runfile(str(folder / "beir" / "run.trec"), run)
    return folder / "beir"


def read_beir(path: Path) -> Pairs:
    from beir.datasets.data_loader import GenericDataLoader
    from beir.util import load_runfile

    corpus, queries, qrels = GenericDataLoader(str(path)).load("train")
    judged = {(q, d, grade > 0) for q, grades in qrels.items() for d, grade in grades.items()}
    ranked = {
        (q, d, False) for q, hits in load_runfile(str(path / "run.trec")).items() for d in hits if d not in qrels[q]
    }
    return {(queries[q], corpus[d]["text"], positive) for q, d, positive in judged | ranked}


# MS MARCO


def write_msmarco(folder: Path) -> Path:
    """Let `ir_datasets export` write the texts and the triples of a data set, and return the triples."""
    import ir_datasets
    from ir_datasets.commands import export
    from ir_datasets.formats import BaseDocPairs, BaseDocs, BaseQueries, GenericDoc, GenericDocPair, GenericQuery

    rows = made.pairs()

    class Docs(BaseDocs):
        docs_cls = staticmethod(lambda: GenericDoc)
        docs_iter = staticmethod(lambda: (GenericDoc(str(100 + i), text) for i, (_, text) in enumerate(rows)))

    class Queries(BaseQueries):
        queries_cls = staticmethod(lambda: GenericQuery)
        queries_iter = staticmethod(lambda: (GenericQuery(str(i), q) for i, (q, _) in enumerate(rows)))

    class Triples(BaseDocPairs):
        docpairs_cls = staticmethod(lambda: GenericDocPair)
        docpairs_iter = staticmethod(
            lambda: (
                GenericDocPair(str(i), str(100 + i), str(100 + (i + s) % len(rows)))
                for i in range(len(rows))
                for s in NEGATIVES
            )
        )

    name = "blindspot-tests"
    files = {"docs": "collection.tsv", "queries": "queries.train.tsv", "docpairs": "qidpidtriples.tsv"}
    ir_datasets.registry.register(name, ir_datasets.Dataset(Docs(), Queries(), Triples()))
    try:
        for kind, file in files.items():
            with open(folder / file, "w", encoding="utf-8") as out, pytest.MonkeyPatch.context() as patch:
                patch.setattr(sys, "stdout", out)
                export.main([name, kind, "--format", "tsv"])
    finally:
        del ir_datasets.registry._registered[name]
    return folder / files["docpairs"]


def read_msmarco(path: Path) -> Pairs:
    from ir_datasets.formats import TsvDocPairs, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    folder = path.parent
    documents = TsvDocs(LocalDownload(folder / "collection.tsv"))._iter()  # docs_iter would write an index
    questions = TsvQueries(LocalDownload(folder / "queries.train.tsv")).queries_iter()
    texts = {each.doc_id: each.text for each in documents}
    queries = {each.query_id: each.text for each in questions}
    triples = list(TsvDocPairs(LocalDownload(path)).docpairs_iter())
    positives = {(queries[each.query_id], texts[each.doc_id_a], True) for each in triples}
    return positives | {(queries[each.query_id], texts[each.doc_id_b], False) for each in triples}


# DPR


def write_dpr(folder: Path) -> Path:
    """Let Haystack turn a SQuAD file and a ranking into DPR's training data. Its stores, which are not needed, stand aside."""
    try:
        haystack = distribution("farm-haystack").locate_file("haystack/utils/squad_to_dpr.py")
    except ImportError:
        pytest.skip(ABSENT.format("farm-haystack", "DPR"))
    stores = [f"haystack.document_stores.{name}" for name in ("base", "elasticsearch", "faiss")]
    nodes = [f"haystack.nodes.{name}" for name in ("retriever.sparse", "retriever.dense", "retriever.base", "preprocessor")]  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        for name in (*stores, *nodes, "haystack.lazy_imports", "elasticsearch"):
            patch.setitem(sys.modules, name, MagicMock())
        spec = importlib.util.spec_from_file_location("squad_to_dpr", haystack)
        squad_to_dpr = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(squad_to_dpr)

    found = {
        question: [SimpleNamespace(content=text, meta={"name": "Furset"}) for text in negatives]
        for question, _, negatives in texts_with_negatives()
    }
    retriever = SimpleNamespace(retrieve=lambda query, top_k, index: found[query][:top_k])
    articles = [
        {
            "title": "Furset",
            "paragraphs": [
                {
                    "context": text,
                    "qas": [{"id": str(i), "question": q, "answers": [{"text": f"in {1800 + i}", "answer_start": 0}]}],
                }
            ],
        }
        for i, (q, text, _) in enumerate(texts_with_negatives())
    ]
    path = folder / "train.json"
    squad_to_dpr.save_dataset(squad_to_dpr.create_dpr_training_dataset(articles, retriever), path, len(articles), False)
    return path


def read_dpr(path: Path) -> Pairs:
    rows = json.loads(path.read_text(encoding="utf-8"))
    fields = (("positive_ctxs", True), ("negative_ctxs", False), ("hard_negative_ctxs", False))
    return {
        (row["question"], each["text"], positive) for row in rows for field, positive in fields for each in row[field]
    }


# Tevatron, FlagEmbedding, RocketQA


class Words:
    """A tokenizer that leaves texts as they are."""

    def encode(self, text: str, **options) -> str:
        return text


def write_tevatron(folder: Path) -> Path:
    library("tevatron.datasets", "Tevatron")
    return made.tevatron(folder / "train.jsonl")


def read_tevatron(path: Path) -> Pairs:
    from tevatron.arguments import DataArguments
    from tevatron.datasets import HFTrainDataset, TrainPreProcessor

    arguments = DataArguments(dataset_name="json")
    arguments.train_path = [str(path)]  # the command line has a folder, and takes every file in it
    data = HFTrainDataset(Words(), arguments, str(path.parent / ".cache"))
    prepare = TrainPreProcessor(Words(), separator="")
    rows = [prepare(row) for row in data.process()]
    return {
        (row["query"], text, field == "positives")
        for row in rows
        for field in ("positives", "negatives")
        for text in row[field]
    }


def write_flag_embedding(folder: Path) -> Path:
    library("FlagEmbedding.abc.finetune.embedder", "FlagEmbedding")
    return made.flag_embedding(folder / "train.jsonl")


def read_flag_embedding(path: Path) -> Pairs:
    from FlagEmbedding.abc.finetune.embedder import AbsEmbedderDataArguments, AbsEmbedderTrainDataset

    arguments = AbsEmbedderDataArguments(
        train_data=[str(path)], cache_path=str(path.parent / ".cache"), train_group_size=2, knowledge_distillation=True
    )
    trained_on = AbsEmbedderTrainDataset(arguments, Words())
    found = set()
    for place, row in enumerate(trained_on.dataset):
        assert (len(row["pos_scores"]), len(row["neg_scores"])) == (len(row["pos"]), len(row["neg"]))
        query, passages, scores = trained_on[place]  # a positive and a negative, as the trainer draws them
        assert passages[0] in row["pos"] and passages[1] in row["neg"] and len(scores) == 2
        found |= {(query, text, field == "pos") for field in ("pos", "neg") for text in row[field]}
    return found


def rocketqa_reader(module: str):
    """A module of RocketQA's readers. The package itself imports PaddlePaddle, which its readers do not need."""
    if "rocketqa" not in sys.modules:
        spec = importlib.util.find_spec("rocketqa")
        if spec is None:
            pytest.skip(ABSENT.format("rocketqa", "RocketQA"))
        sys.modules["rocketqa"] = importlib.util.module_from_spec(spec)  # not executed
    return importlib.import_module(f"rocketqa.reader.{module}")


def write_rocketqa(folder: Path) -> Path:
    rocketqa_reader("reader_de_train")
    return made.rocketqa(folder / "dual.tsv")


def read_rocketqa(path: Path) -> Pairs:
    rows = rocketqa_reader("reader_de_train").DETrainReader._read_tsv(SimpleNamespace(for_cn=False), path, 1)
    return {(row.query, row.para_pos, True) for row in rows} | {(row.query, row.para_neg, False) for row in rows}


def write_rocketqa_cross(folder: Path) -> Path:
    rocketqa_reader("reader_ce_train")
    return made.rocketqa_cross(folder / "cross.tsv")


def read_rocketqa_cross(path: Path) -> Pairs:
    rows = rocketqa_reader("reader_ce_train").CETrainReader._read_tsv(SimpleNamespace(for_cn=False), path)
    assert {row.label for row in rows} == {"0", "1"}
    return {(row.query, row.para, row.label == "1") for row in rows}


@dataclass(frozen=True)
class Form:
    """How a form is written and read, and where a line that may change shows its question."""

    write: Callable[[Path], Path]
    read: Callable[[Path], Pairs]
    mark: str = "{text}"


FORMS = {
    "beir": Form(write_beir, read_beir, "t{number}\t"),
    "msmarco": Form(write_msmarco, read_msmarco, "\n{number}\t"),
    "dpr": Form(write_dpr, read_dpr),
    "tevatron": Form(write_tevatron, read_tevatron),
    "flagembedding": Form(write_flag_embedding, read_flag_embedding),
    "rocketqa": Form(write_rocketqa, read_rocketqa),
    "rocketqa cross": Form(write_rocketqa_cross, read_rocketqa_cross),
}


@pytest.fixture(params=FORMS)
def form(request, tmp_path):
    (tmp_path / "in").mkdir()
    return FORMS[request.param]


def expected() -> Pairs:
    """All pairs, as they were written."""
    rows = texts_with_negatives()
    return {(q, text, True) for q, text, _ in rows} | {
        (q, each, False) for q, _, negatives in rows for each in negatives
    }


def test_the_library_reads_what_came_in_and_it_goes_back_byte_for_byte(form, tmp_path):
    path = form.write(tmp_path / "in")
    assert form.read(path) == expected()
    found, out = unlabelled_copy(path, tmp_path)
    assert (found.facts.questions, found.facts.positives, found.facts.negatives) == (24, 24, 48)
    assert contents(out) == contents(path)


def test_the_library_reads_the_cleaned_file_with_one_pair_changed(form, tmp_path):
    path = form.write(tmp_path / "in")
    before = form.read(path)
    found = check(path, tmp_path / "study")
    [(question, passage)] = judge(found, [5])
    out = path.with_name(f"out-{path.name}")
    found.write(out)
    if form is FORMS["beir"]:  # the passage stays in the ranking, and the qrels say what it is
        assert (out / "run.trec").read_bytes() == (path / "run.trec").read_bytes()
        assert {line[-2:] for line in (out / "qrels" / "train.tsv").read_bytes().splitlines(True)} == {b"\r\n"}
    assert form.read(out) == before - {(question, passage, False)} | {(question, passage, True)}
    others = [
        form.mark.format(number=i, text=json.dumps(q, ensure_ascii=False)[1:-1])
        for i, (q, _) in enumerate(made.pairs())
        if q != question
    ]
    old, new = contents(path), contents(out)
    for name in old if isinstance(old, dict) else [None]:
        changed = between(old, new) if name is None else between(old[name], new[name])
        assert not [other for other in others if other in changed], (name, changed)


def between(old: bytes, new: bytes) -> str:
    """The lines of both files between the beginning and the end that they share."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    while before and after and before[0] == after[0]:
        del before[0], after[0]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    return "\n" + b"".join(before + after).decode()

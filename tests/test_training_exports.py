"""Exports of training sets, each read back by our readers, by `datasets`, or by sentence-transformers."""

import csv
import json
import os

import ir_measures
import numpy as np
import pytest

from blindspot.backend.core.manifest import file_sha256, read_manifest
from blindspot.backend.core.runs import write_run
from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import Options as ReadOptions
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.training_sets.exports import export
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportOptions
from blindspot.backend.training_sets.training_set import TrainingSet, positives_of
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.studies import copied, make_study, tiny_bert
from tests.training_studies import QUESTIONS, build, say, score, training_study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """With a set "made" of three questions: people's, gold, mined and drawn pairs; scores of some."""
    study = training_study(tmp_path_factory.mktemp("exports") / "study")
    say(study, "ann", "q0", {"p1": "positive", "p2": "negative", "p3": "unsure"})
    score(study, {("q0", p): v for p, v in (("p0", 0.9), ("p1", 0.95), ("p2", 0.01), ("p4", 0.02), ("p8", 0.03))})
    build(study, "answer_match+labels", "made", model="judge", random=2)
    return study


@pytest.fixture(scope="module")
def pairs(study):
    """The pairs of the set by question."""
    return dict(TrainingSet.open(study, "made").groups())


@pytest.fixture
def written(study, tmp_path):
    """Export the set and return the folder."""

    def write(form, **more):
        return export(study, "made", form, tmp_path / "out", ExportOptions(**more)).path

    return write


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def loaded(kind, path, tmp_path):
    """As the `datasets` library reads it."""
    datasets = pytest.importorskip("datasets")
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))


def hard(pairs, question):
    return [pair.passage for pair in pairs[question] if pair.hard]


def positive(pairs, question):
    return [pair.passage for pair in positives_of(pairs[question])]


@pytest.mark.parametrize("form", sorted(EXPORTS.names()))
def test_every_form_is_a_whole_folder_with_manifest_and_card(study, written, form):
    folder = written(form)
    manifest = read_manifest(folder)
    assert manifest["form"] == form and manifest["last_event"] == 3 and manifest["rows"]
    for name, sha256 in manifest["sha256"].items():
        assert file_sha256(folder / name) == sha256
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {*manifest["rows"], "manifest.json", "README.md"}
    card = (folder / "README.md").read_text()
    assert "- 1 positive: people" in card and "- 3 positive: gold of the question set" in card
    assert "## Licence" in card
    assert "ann" not in card.replace("annotator", "")


def test_dpr_is_read_by_our_reader_and_by_datasets(study, pairs, written, tmp_path):
    path = written("dpr") / "train.json"
    chosen = find_format(path, "questions")
    assert chosen.name == "dpr-training"
    items = list(chosen.read(path, ReadOptions()))
    assert [item.question.text for item in items] == [question.text for question in QUESTIONS[:3]]
    found = [[paragraph.id for paragraph in item.paragraphs] for item in items]
    assert found == [positive(pairs, q) for q in ("q0", "q1", "q2")]
    assert items[0].paragraphs[0].id == "p1"  # people's first: DPR's trainer takes that
    rows = loaded("json", path, tmp_path)
    negatives = [[context["passage_id"] for context in row["hard_negative_ctxs"]] for row in rows]
    assert negatives == [hard(pairs, q) for q in pairs]
    assert [len(row["negative_ctxs"]) for row in rows] == [2, 2, 2]
    context = rows[0]["positive_ctxs"][1]
    assert Passage(context["passage_id"], context["title"], context["text"]) == study.corpus.passage(0)


def test_rocketqas_files_hold_their_columns(study, pairs, written):
    folder = written("rocketqa", negatives=2)
    dual, cross = (
        list(csv.reader((folder / name).read_text().splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
        for name in ("dual.tsv", "cross.tsv")
    )
    assert {len(row) for row in dual} == {6} and {len(row) for row in cross} == {4}
    assert len(dual) == sum(len(positive(pairs, q)) * min(2, len(hard(pairs, q))) for q in pairs)
    first = ["Where was Ann born?", "-", "Oslo is where Ann came into the world."]
    assert dual[0] == [*first, "Title 2", "Oslo is the capital of Norway.", "0"]
    assert sum(row[3] == "1" for row in cross) == 4 and sum(row[3] == "0" for row in cross) == 6


def test_tabs_and_line_ends_break_no_line_of_rocketqas_files(tmp_path):
    passages = [Passage("a", "T\t1", "one\ntwo"), Passage("b", " ", "three\r\nfour\t")]
    study = make_study(tmp_path / "s", passages, [Question("q", "what\tis\nit?", split="train", gold=("a",))])
    write_run(study, "r", ["q"], Hits(np.array([[1]], np.int32), np.ones((1, 1), np.float32)), {})
    build(study, name="odd")
    folder = export(study, "odd", "rocketqa", tmp_path / "out").path
    assert (folder / "dual.tsv").read_text() == "what is it?\tT 1\tone two\t-\tthree  four \t0\n"


def test_tevatron_holds_its_fields(study, pairs, written, tmp_path):
    rows = loaded("json", written("tevatron") / "train.jsonl", tmp_path)
    assert set(rows.column_names) >= {"query_id", "query", "positive_passages", "negative_passages"}
    assert [row["query_id"] for row in rows] == ["q0", "q1", "q2"]
    found = [[passage["docid"] for passage in row["positive_passages"]] for row in rows]
    assert found == [positive(pairs, q) for q in pairs]
    negatives = rows[0]["negative_passages"]
    assert len(negatives) == len(hard(pairs, "q0")) + 2
    assert all(set(passage) == {"docid", "title", "text"} for passage in negatives)


def test_beir_is_read_by_our_readers_and_by_ir_measures(study, pairs, written, tmp_path):
    folder = written("beir")
    batches = find_format(folder, "passages").read(folder / "corpus.jsonl")
    passages = {row[0]: Passage(*row) for batch in batches for row in batch.rows}
    named = {pair.passage for group in pairs.values() for pair in group if pair.role != "dropped"}
    assert passages.keys() == named
    assert all(study.corpus.passages(study.corpus.ordinals([id]).values()) == [p] for id, p in passages.items())
    items = {item.question.id: item.question for item in find_format(folder, "questions").read(folder, ReadOptions())}
    assert {id: set(question.gold) for id, question in items.items()} == {q: set(positive(pairs, q)) for q in pairs}
    assert {question.split for question in items.values()} == {"train"}
    rows = (folder / "qrels" / "train.tsv").read_text().splitlines()[1:]
    qrels = [ir_measures.Qrel(q, p, int(grade)) for q, p, grade in (row.split("\t") for row in rows)]
    best = [
        ir_measures.ScoredDoc(q, p, 9.0 - i) for q in pairs for i, p in enumerate(positive(pairs, q) + hard(pairs, q))
    ]
    assert ir_measures.calc_aggregate([ir_measures.RPrec], qrels, best)[ir_measures.RPrec] == 1.0


def test_parquet_is_read_by_datasets(study, pairs, written, tmp_path):
    rows = loaded("parquet", written("parquet") / "train.parquet", tmp_path)
    columns = ("question_id", "passage_id", "role", "source", "reason", "probability")
    held = [tuple(row[name] for name in columns) for row in rows]
    kept = [pair for group in pairs.values() for pair in group if pair.role != "dropped"]
    expected = [(each.question, each.passage, each.role, each.source, each.reason, each.probability) for each in kept]
    assert sorted(held, key=str) == sorted(expected, key=str)
    assert rows[0]["answers"] == ["Oslo"] and rows[0]["text"] == study.corpus.passage(1).text


def test_sentence_transformers_files_are_read_by_datasets(study, pairs, written, tmp_path):
    folder = written("sentence-transformers", negatives=3, rows=9)
    read = {path.name: loaded("json", path, tmp_path) for path in folder.glob("*.jsonl")}
    assert read["pairs.jsonl"].column_names == ["anchor", "positive"] and len(read["pairs.jsonl"]) == 4
    assert read["triplets.jsonl"].column_names == ["anchor", "positive", "negative"]
    assert len(read["triplets.jsonl"]) == sum(len(positive(pairs, q)) * min(3, len(hard(pairs, q))) for q in pairs)
    assert read["tuples.jsonl"].column_names == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    scored = read["tuples-scores.jsonl"]
    assert scored.column_names == [*read["tuples.jsonl"].column_names, "scores"]
    negatives = [0.01, 0.02, 0.03]
    assert scored["scores"][:] == [[0.95, *negatives], [0.9, *negatives]]  # only q0 has scores for all pairs
    assert read["pairs.jsonl"][0]["positive"] == " [SEP] Oslo is where Ann came into the world."


def test_no_anchor_is_twice_in_a_file_of_one_row_an_anchor(study, pairs, written):
    folder = written("sentence-transformers", negatives=3, rows=1)
    for path in folder.glob("*.jsonl"):
        anchors = [row["anchor"] for row in lines(path)]
        assert anchors and len(anchors) == len(set(anchors)), path.name
    assert "1 pairs of pairs.jsonl left out" in (folder / "README.md").read_text()  # q0 has two positives


def test_rows_cover_the_positives_of_a_question(study, pairs, written, tmp_path):
    folder = written("sentence-transformers", negatives=3)
    for name, least in (("pairs", 0), ("triplets", 1), ("tuples", 3)):
        rows = [(row["anchor"], row["positive"]) for row in lines(folder / f"{name}.jsonl")]
        expected = sum(len(positive(pairs, q)) for q in pairs if len(hard(pairs, q)) >= least)
        assert len(rows) == len(set(rows)) == expected, name
    two = export(study, "made", "sentence-transformers", tmp_path / "two", ExportOptions(rows=2)).path
    rows = [row for row in lines(two / "triplets.jsonl") if row["anchor"] == "Where was Ann born?"]
    assert len(rows) == 2 and len({row["positive"] for row in rows}) == 2
    assert all("NO_DUPLICATES" in (each / "README.md").read_text() for each in (folder, two))


@pytest.mark.parametrize("name, loss", [
    ("pairs", "MultipleNegativesRankingLoss"), ("triplets", "TripletLoss"),
    ("tuples", "CachedMultipleNegativesRankingLoss"), ("tuples-scores", "MarginMSELoss"),
])  # fmt: skip
def test_sentence_transformers_trains_a_step_on_its_files(written, tmp_path, name, loss):
    """A few optimiser steps lower the loss on their rows."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    rows = loaded("json", written("sentence-transformers", negatives=3, rows=9) / f"{name}.jsonl", tmp_path)
    tiny_bert(tmp_path / "tiny")
    modules = [Transformer(str(tmp_path / "tiny")), Pooling(32, "cls")]
    model = SentenceTransformer(modules=modules, device="cpu").eval()  # no dropout: the loss is one number
    columns = [column for column in rows.column_names if column != "scores"]
    features = [model.preprocess(list(rows[column])) for column in columns]
    labels = torch.tensor(rows["scores"][:]) if "scores" in rows.column_names else None
    made = getattr(losses, loss)(model)
    step = torch.optim.Adam(model.parameters(), lr=1e-3)
    values = []
    for _ in range(6):
        step.zero_grad()
        value = made([dict(each) for each in features], labels)
        value.backward()
        step.step()
        values.append(float(value.detach()))
    assert values[-1] < values[0]


def test_random_negatives_are_drawn_by_the_seed(study, pairs, tmp_path):
    drawn = []
    for number, seed in enumerate((1, 1, 2, 3, 4)):
        options = ExportOptions(negatives=1, draw="random", seed=seed)
        made = export(study, "made", "sentence-transformers", tmp_path / str(number), options)
        drawn.append([row["negative"] for row in lines(made.path / "triplets.jsonl")])
    assert drawn[0] == drawn[1] and len({tuple(each) for each in drawn}) > 1


def test_nothing_is_overwritten_and_nothing_left_half(study, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(Refused, match="exists; name another folder"):
        export(study, "made", "dpr", tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    with pytest.raises(Refused, match="is not a folder"):
        export(study, "made", "dpr", tmp_path / "nowhere" / "out")

    def stop(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(study, "made", "dpr", tmp_path / "out", progress=stop)
    assert sorted(os.listdir(tmp_path)) == ["mine"]
    monkeypatch.chdir(tmp_path)
    assert export(study, "made", "beir").path.name == "made-beir"


WRONG = (
    ({"format": "xml"}, Refused, "--format must be one of beir, dpr, .*, not 'xml'"),
    ({"negatives": 0}, BadInput, "negatives must be a whole number of at least 1, not 0"),
    ({"draw": "best"}, BadInput, "draw must be one of top, random, not 'best'"),
    ({"template": "{secret}"}, Refused, "--template"),
    ({"template": "{title.__class__}{0}"}, Refused, "--template"),
    ({"name": "other"}, Missing, "no training set 'other'; training sets of this study: made"),
    ({"name": "../made"}, Refused, "training set name"),
)  # fmt: skip


def test_what_cannot_be_written_is_one_line(study, tmp_path):
    for wrong, error, message in WRONG:
        options = {key: wrong[key] for key in ("negatives", "draw", "template") if key in wrong}
        named = {key: wrong[key] for key in wrong if key not in options}
        with pytest.raises(error, match=message.replace("{", r"\{")):
            given = ExportOptions(**options)
            export(study, **{"name": "made", "format": "dpr", "path": tmp_path / "out", **named}, options=given)
        assert not (tmp_path / "out").exists()


def judged(study, truth):
    """Let an annotator who is always right work the queue until it is empty."""
    People(study.labels_path).add("cat")
    queue, labels = Queue(study.labels_path), Labels(study.labels_path)
    while held := queue.claim("cat", 1):
        question, batch = held[0].question, held[0].batch
        candidates = queue.items(batch, [question])[0].candidates
        shown = [each.passage for each in candidates]
        choices = tuple(Choice(id, "positive" if id in truth[question] else "negative") for id in shown)
        labels.add("cat", LabelEvent(f"{batch}-{question}", "label", question, choices, batch=batch))
        queue.finish("cat", batch, question)


def test_the_card_tells_agreement_and_what_is_left_from_the_audits(study, tmp_path):
    """With correct labels: no audited negative kept by answer match answers the question; without denoising some do."""
    study = copied(study, tmp_path / "study")
    truth = {question.id: set(question.gold) for question in study.questions.all()} | {"q0": {"p0", "p1"}}
    mix = ArmShares(audit=1.0, second=0.0, repeat=0.0)
    make_batch(study, "audit", ["r"], size=3, splits=["train"], slice=["q0", "q1", "q2"], mix=mix)
    judged(study, truth)
    build(study, "none", "noisy")
    build(study, "answer_match", "clean")
    noisy, clean = (
        (export(study, name, "tevatron", tmp_path / name).path / "README.md").read_text() for name in ("noisy", "clean")
    )
    assert "agreement of people on positive or not" in clean

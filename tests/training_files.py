"""Trainers' files for the tests of `blindspot check`: mined by sentence-transformers, or written as each form is described.

tests/test_check_libraries.py holds the other forms beside the libraries that write and read them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from blindspot.backend.checking.check import check
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People

CITIES = (
    "Oslo",
    "Bergen",
    "Molde",
    "Tromso",
    "Lillehammer",
    "Hamar",
    "Narvik",
    "Bodo",
    "Alta",
    "Skien",
    "Moss",
    "Voss",
)
TRADES = ("skier", "painter", "sailor", "baker", "weaver")


def pairs(count: int = 24) -> list[tuple[str, str]]:
    """Questions with a passage that answers each."""
    found = []
    for i in range(count):
        name, city, trade = f"Arve Furset{i}", CITIES[i % len(CITIES)], TRADES[i % len(TRADES)]
        text = f'{name} was a {trade}, "born" in {city} in {1800 + i}, and raised there by an aunt who loved the sea – truly.'
        found.append((f"Where was {name}, the {trade}, born?", text))
    return found


@cache
def _static_model():
    """A real model of sentence-transformers: fixed vectors for words."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.trainers import WordLevelTrainer

    tokenizer = Tokenizer(WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    texts = [text for pair in pairs(60) for text in pair]
    tokenizer.train_from_iterator(texts, WordLevelTrainer(special_tokens=["[UNK]"]))
    torch.manual_seed(0)
    embedding = StaticEmbedding(tokenizer, embedding_weights=torch.randn(tokenizer.get_vocab_size(), 32).numpy())
    return SentenceTransformer(modules=[embedding], device="cpu")


@cache
def mined(output_format: str, scores: bool = False):
    """What `mine_hard_negatives` returns."""
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives

    rows = pairs()
    dataset = Dataset.from_dict({"query": [row[0] for row in rows], "answer": [row[1] for row in rows]})
    return mine_hard_negatives(
        dataset, _static_model(), num_negatives=3, range_max=10, output_format=output_format, output_scores=scores, verbose=False
    )  # fmt: skip


def saved(dataset, kind: str, folder: Path) -> Path:
    """Save a Dataset in one of the ways of `datasets`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"mined.{kind}"
    if kind == "jsonl":
        dataset.to_json(path)
    elif kind == "parquet":
        dataset.to_parquet(path)
    elif kind == "csv":
        dataset.to_csv(path)
    elif kind == "arrow":
        import pyarrow as pa

        table = dataset.data.table
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=10)
    else:
        path = folder / "saved"
        dataset.save_to_disk(path)
    return path


def dpr(path: Path, indent: int | None = 4) -> Path:
    """As in "Retriever input data format" of DPR's README, with the further fields of its file for Natural Questions."""
    rows = pairs()
    records = [
        {
            "dataset": "births",
            "question": question,
            "answers": [CITIES[i % len(CITIES)]],
            "positive_ctxs": [
                {"title": f"Furset{i}", "text": text, "score": 1000, "title_score": 1, "passage_id": str(i)}
            ],
            "negative_ctxs": [],
            "hard_negative_ctxs": [
                {"title": f"Furset{j}", "text": rows[j][1], "score": 12.5 - j, "title_score": 0, "passage_id": str(j)}
                for j in ((i + 1) % len(rows), (i + 7) % len(rows))
            ],
        }
        for i, (question, text) in enumerate(rows)
    ]
    path.write_text(json.dumps(records, indent=indent), encoding="utf-8")
    return path


def _lines(path: Path, records) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def tevatron(path: Path) -> Path:
    """As Tevatron's docs/datasets.md has it."""
    rows = pairs()
    return _lines(
        path,
        (
            {
                "query_id": str(i),
                "query": question,
                "positive_passages": [{"docid": str(i), "title": "", "text": text}],
                "negative_passages": [{"docid": str(j), "title": "", "text": rows[j][1]} for j in ((i + 1) % 24, (i + 7) % 24)],
            }
            for i, (question, text) in enumerate(rows)
        ),
    )  # fmt: skip


def flag_embedding(path: Path) -> Path:
    """As FlagEmbedding's scripts hn_mine.py and add_reranker_score.py write it."""
    rows = pairs()
    return _lines(
        path,
        (
            {
                "query": question,
                "pos": [text],
                "neg": [rows[(i + 1) % 24][1], rows[(i + 7) % 24][1]],
                "pos_scores": [0.9],
                "neg_scores": [0.7, 0.5],
                "prompt": "Represent this sentence for searching relevant passages:",
            }
            for i, (question, text) in enumerate(rows)
        ),
    )


def rocketqa(path: Path) -> Path:
    """The columns of RocketQA's `DETrainReader`: query, title and passage of the positive and of the negative, label."""
    rows = pairs()
    path.write_text(
        "".join(
            f"{question}\t-\t{text}\tFurset\t{rows[(i + shift) % 24][1]}\t0\n"
            for i, (question, text) in enumerate(rows)
            for shift in (1, 7)
        ),
        encoding="utf-8",
    )
    return path


def rocketqa_cross(path: Path) -> Path:
    """The columns of RocketQA's `CETrainReader`: query, title, passage, label."""
    rows = pairs()
    path.write_text(
        "".join(
            f"{question}\t-\t{rows[(i + shift) % 24][1]}\t{int(shift == 0)}\n"
            for i, (question, _) in enumerate(rows)
            for shift in (0, 1, 7)
        ),
        encoding="utf-8",
    )
    return path


def msmarco(path: Path) -> Path:
    """qidpidtriples with the collection and the queries beside it."""
    rows = pairs()
    (path.parent / "collection.tsv").write_text("".join(f"{100 + i}\t{text}\n" for i, (_, text) in enumerate(rows)))
    (path.parent / "queries.train.tsv").write_text(
        "".join(f"{i}\t{question}\n" for i, (question, _) in enumerate(rows))
    )
    path.write_text("".join(f"{i}\t{100 + i}\t{100 + (i + shift) % 24}\n" for i in range(24) for shift in (1, 7)))
    return path


def beir(folder: Path) -> Path:
    rows = pairs()
    (folder / "qrels").mkdir(parents=True)
    _lines(folder / "corpus.jsonl", ({"_id": f"d{i}", "title": "", "text": text} for i, (_, text) in enumerate(rows)))
    _lines(folder / "queries.jsonl", ({"_id": f"t{i}", "text": question} for i, (question, _) in enumerate(rows)))
    (folder / "qrels" / "train.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"t{i}\td{i}\t1\n" for i in range(24))
    )
    (folder / "run.trec").write_text(
        "".join(f"t{i} Q0 d{(i + s) % 24} {r} {9.5 - r} bm25\n" for i in range(24) for r, s in enumerate((1, 0, 7), 1))
    )
    return folder


def contents(path):
    """The bytes of a file, or of every file of a folder by name."""
    if path.is_dir():
        return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}
    return path.read_bytes()


def judge(found, chosen, label="positive"):
    """Let a person judge negative pairs, by their places among them."""
    pairs = negative_pairs(found.checked_study.occurrences)
    People(found.study.labels_path).add("ann")
    labels = Labels(found.study.labels_path, passages=found.study.corpus.ordinals)
    for place in chosen:
        question, passage = f"q{pairs.question[place] + 1}", f"p{pairs.passage[place] + 1}"
        event = LabelEvent(f"e{place}", "label", question, (Choice(passage, label),))
        assert labels.add("ann", event).is_in_store
    return [(found.study.questions.get(f"q{pairs.question[p] + 1}").text, found.study.corpus.passage(int(pairs.passage[p])).text) for p in chosen]  # fmt: skip


def unlabelled_copy(path, folder):
    """Check a file, write it back without any label, and return the copy."""
    found = check(path, folder / "study")
    out = folder / f"out-{path.name}"
    found.write(out)
    return found, out

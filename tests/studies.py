"""Small studies and tiny encoders for several test files."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from blindspot.backend.core.study import Study
from blindspot.db.corpus import CorpusWriter
from blindspot.db.records import Passage, Question

CITIES = ("Oslo", "Bergen", "Molde", "Tromso", "Lillehammer", "Hamar", "Narvik", "Bodo", "Alta", "Skien")
TRADES = ("skier", "painter", "sailor", "baker", "weaver", "miner")


def people(count: int = 60) -> list[Passage]:
    """Passages with the birth place of a person; every third is followed by a passage about the town."""
    made = []
    for i in range(count):
        city, trade = CITIES[i % len(CITIES)], TRADES[i % len(TRADES)]
        name = f"Arve {chr(65 + i % 26)}urset{i}"
        if i % 3 == 2:
            made.append(
                Passage(
                    f"p{i}",
                    city,
                    f"{city} is a town with a harbour, known for every {trade} who left it in {1800 + i}.",
                )
            )
        else:
            made.append(
                Passage(
                    f"p{i}", name, f"{name} was a {trade}, born in {city} in {1800 + i} and raised there by an aunt."
                )
            )
    return made


def births(passages: Iterable[Passage], split: str = "dev") -> list[Question]:
    """A question for each person of `people`."""
    return [
        Question(
            id=f"P19.{split}.{number}",
            text=f"Where was {p.title} born?",
            answers=(p.text.split(" born in ")[1].split()[0],),
            relation="P19",
            subject=p.title,
            template="Where was [X] born?",
            frequency=1,
            dataset="births",
            split=split,
            gold=(p.id,),
        )
        for number, p in enumerate(p for p in passages if " born in " in p.text)
    ]


def make_study(folder: Path, passages: Iterable[Passage], questions: Iterable[Question] = ()) -> Study:
    study = Study.create(folder)
    with CorpusWriter(folder / "corpus.db") as writer:
        writer.add(passages)
        writer.finish("passages.tsv", "0" * 64)
    study.questions.add(questions)
    return study


def tiny_bert(folder: Path, seed: int = 0, width: int = 32):
    """A random two-layer BERT and its word-piece tokenizer, saved to `folder`; returns the model."""
    import torch
    import transformers

    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + [str(d) for d in range(10)]
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *letters,
        *("##" + letter for letter in letters),
        *".,?!'-",
        "the",
        "was",
        "born",
        "in",
        "where",
        "town",
        "of",
        "and",
        *(city.lower() for city in CITIES),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=256,
    )
    model = transformers.BertModel(config).eval()
    model.save_pretrained(folder)
    return model


def make_small_demo(folder: Path) -> None:
    """Make the demo with 600 passages and a tiny encoder of random weights."""
    from blindspot.backend.core import jobs
    from blindspot.backend.core.settings import add_encoder
    from blindspot.backend.demo import making
    from tests.forked import jobs_are_forked

    study = making.make_first_parts(folder, 600)
    tiny_bert(folder / "start")
    add_encoder(study.settings_path, "tiny", {"model": str(folder / "start"), "pooling": "cls", "max_tokens": 64})
    quick = {"steps": 2, "batch": 4, "held_out": 4, "pool": 20, "question_tokens": 24, "passage_tokens": 48}
    size = {"labelled": 20, "encoder": "tiny", "training": quick | {"evaluate_every": 2}}
    with jobs_are_forked():
        job = jobs.status(study, jobs.submit(making.finish, study, size))
    while job.unfinished:
        time.sleep(0.2)
        job = jobs.status(study, job.id)
    assert job.state == "done", (job.error, jobs.log(study, job.id))


def copied(study: Study, folder: Path) -> Study:
    """A writable copy."""
    study.questions.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(study.folder, folder)
    return Study.open(folder)

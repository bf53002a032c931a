"""Small studies and tiny encoders for several test files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from backend.core.study import Study
from db.corpus import CorpusWriter
from db.records import Passage, Question

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

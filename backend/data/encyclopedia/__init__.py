"""Two collections of invented entities, with questions: the data of the demo, of `Study.example()` and of tests.

A collection is a folder of files that `import_passages` and `import_questions` read:

    passages.tsv.gz      passages in the form of DPR's psgs_w100.tsv
    questions.jsonl.gz   questions about EntityQuestions' 24 relations, each with one gold passage
    truth.jsonl.gz       for each question the ids of all passages that answer it; those besides gold are false negatives
    unlabelled.txt.gz    further questions, without answers, mostly about rare entities
    about.json           the number of passages, entities and questions, and how many questions have false negatives

Rare entities share passages of short notices. Dev and test questions come in a second wording too (SECOND_DATASET). A question's
frequency is the number of passages that name its subject. No subject is in two splits.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Literal, get_args

from blindspot.db.errors import Refused

Size = Literal[600, 2000]
"""The number of passages of a collection."""
DATASET, SECOND_DATASET = "encyclopedia", "encyclopedia-second-wording"
SECOND_WORDINGS: dict[str, str] = json.loads(
    Path(__file__).with_name("second_wordings.json").read_text(encoding="utf-8")
)
"""The questions of EntityQuestions in other words, by relation; [X] is the subject."""


def collection(passages: int) -> Path:
    """Return the folder of the collection with so many passages. Raises Refused if there is none."""
    if passages not in get_args(Size):
        sizes = " or ".join(f"{size:,}" for size in get_args(Size))
        raise Refused(f"there are collections of {sizes} passages, not of {passages:,}")
    return Path(__file__).with_name(str(passages))


def answering_passages(folder: Path) -> dict[str, set[str]]:
    """Return the ids of all passages that answer each question of a collection, by question id."""
    with gzip.open(folder / "truth.jsonl.gz", "rt", encoding="utf-8") as file:
        return {row["question"]: set(row["passages"]) for row in map(json.loads, file)}

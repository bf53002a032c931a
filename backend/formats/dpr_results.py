"""What DPR's retriever writes: an array of `{question, answers, ctxs: [{id, title, text, score, has_answer}]}`.

Scores are text, as there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from backend.formats.files import written_whole
from db.records import Passage, Question

Retrieved = Sequence[tuple[Passage, float, bool]]
"""A question's passages in rank order, each with its score and whether it holds an answer."""


def write_results(path: str | Path, entries: Iterable[tuple[Question, Retrieved]]) -> int:
    """Write entry by entry: a run of any size needs the memory of one question. Gives the number of questions."""
    count = 0
    with written_whole(path) as file:
        file.write("[")
        for question, retrieved in entries:
            file.write(",\n" if count else "\n")
            json.dump(_entry(question, retrieved), file, ensure_ascii=False)
            count += 1
        file.write("\n]\n")
    return count


def _entry(question: Question, retrieved: Retrieved) -> dict:
    contexts = [
        {"id": p.id, "title": p.title, "text": p.text, "score": str(float(score)), "has_answer": bool(has_answer)}
        for p, score, has_answer in retrieved
    ]
    return {"question": question.text, "answers": list(question.answers), "ctxs": contexts}

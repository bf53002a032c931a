"""What must not change: results that an earlier state of the code gave, stored in tests/golden.

tests/golden/README.md says what each file holds, how it was made, and how close a result must be. Each part has its
adapters, which call the product and return plain values, and below them its tests.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.studies import make_study

GOLDEN = Path(__file__).parent / "golden"


def stored(name: str) -> Any:
    """Return what a file of tests/golden holds: JSON (may be packed), JSON lines or arrays."""
    path = GOLDEN / name
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = ".jsonl" in path.suffixes
    return [json.loads(line) for line in data.decode().split("\n") if line] if lines else json.loads(data)


# Answer matches


def matches_of_a_pair(text: str, title: str, answers: list[str], rule: str) -> bool:
    from blindspot.backend.text.answers import has_answer

    return has_answer(text, answers, rule, title)


def matches_of_a_run(folder: Path, cases: list[dict], rule: str) -> list[bool]:
    """Match the answers of question i with passage i, as for the hits of a run."""
    from blindspot.backend.text.answers import match_run
    from blindspot.db.records import Passage, Question

    passages = [Passage(f"p{i}", case["title"], case["text"]) for i, case in enumerate(cases)]
    questions = [Question(f"q{i}", "?", tuple(case["answers"])) for i, case in enumerate(cases)]
    study = make_study(folder, passages)
    return match_run(study.corpus, questions, np.arange(len(cases))[:, None], rule)[:, 0].tolist()


@pytest.mark.parametrize("rule", ["dpr", "entityquestions", "regex", "rocketqa_mining"])
def test_answer_matches(tmp_path, rule):
    cases = stored("answers.json.gz")
    expected = [case["match"][rule] for case in cases]
    one = [matches_of_a_pair(case["text"], case["title"], case["answers"], rule) for case in cases]
    assert [case for case, held, was in zip(cases, one, expected, strict=True) if held != was] == []
    many = matches_of_a_run(tmp_path / "study", cases, rule)
    assert [case for case, held, was in zip(cases, many, expected, strict=True) if held != was] == []

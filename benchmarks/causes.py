"""Causes of misses by rule, on misses with one known cause: `python -m benchmarks.causes [--k 3] [--no-dense]`.

`data/planted_misses.json.gz` holds passages, training questions and 1,094 questions, each with the one cause that makes
its gold passage hard to find: 434 in articles of an invented encyclopedia, 660 in prose with other sentence forms and
names. BM25 and MiniLM (64 tokens) search them. For each rule the table has the share of the misses planted with its cause
to which it applies, and that of the misses planted with another cause, of those for which the rule can be measured (n).
Three planted causes (unnamed subject, crowded passage, cut fact) have no rule; the rules of doubtful gold and of a false
negative above read labels and judges, and there are none.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import machine
from benchmarks.tables import row
from blindspot.analysis.accuracy import proportion
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.cause_rules import run_causes
from blindspot.backend.evaluation.causes import Cause
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.corpus import CorpusWriter
from blindspot.db.records import Passage, Question

DATA = Path(__file__).parent / "data" / "planted_misses.json.gz"
ENCODER, MAX_TOKENS = "minilm-64", 64
Planted = dict[str, Any]


def read() -> Planted:
    """Return {"passages": [id, title, text], "questions": fields of `Question` and `cause`, "training": fields}."""
    with gzip.open(DATA, "rt", encoding="utf-8") as file:
        data: Planted = json.load(file)
    return data


def planted_study(folder: Path, data: Planted) -> tuple[Study, dict[str, str]]:
    """Return a study of the passages and questions, and the planted cause of each question by its id."""
    study, causes = Study.create(folder), {each["id"]: each["cause"] for each in data["questions"]}
    with CorpusWriter(folder / "corpus.db") as writer:
        writer.add(Passage(*each) for each in data["passages"])
        writer.finish("planted", "0" * 64)
    study.questions.add(_question(each) for each in (*data["training"], *data["questions"]))
    return study, causes


def _question(fields: dict[str, Any]) -> Question:
    lists = {name: tuple(fields.get(name, ())) for name in ("answers", "gold")}
    return Question(**{name: value for name, value in fields.items() if name != "cause"} | lists)


def shares(comparison: Comparison, side: str, k: int, planted: dict[str, str]) -> list[tuple]:
    """Return, for each rule that a planted cause has and that can be measured, its cause, and the share (`Estimate`) of
    the misses to which it applies: of those planted with the cause, and of those planted with another.
    """
    found = run_causes(comparison, side, k).misses
    causes = np.array([planted[comparison.questions[place].id] for place in found.rows.tolist()])
    result = []
    for cause in Cause:
        own, measured, applies = causes == cause, found.is_measured(cause), found.has_cause(cause)
        if (own & measured).any():
            parts = (own & measured, ~own & measured)
            result.append((cause, *(proportion(applies[part]) for part in parts)))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--k", type=int, default=3, help="a miss has no gold passage in the first K (default 3)")
    parser.add_argument("--no-dense", action="store_true", help="search with BM25 alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study, planted = planted_study(Path(folder) / "study", read())
        bm25.build_index(study)
        retrieve(study, "bm25", split="dev", name="bm25")
        names = ["bm25"]
        if not arguments.no_dense:
            add_encoder(study.settings_path, ENCODER, {"model": "minilm", "max_tokens": MAX_TOKENS})
            study = Study.open(study.folder)
            dense.build_index(study, ENCODER)
            names.append(retrieve(study, "dense", split="dev", name="dense", encoder=ENCODER).name)
        runs = [measure(study, name, "gold") for name in names]
        comparison = Comparison.of_runs(runs[0], runs[-1])
        print(machine())
        print(f"{len(study.corpus):,} passages, {len(planted):,} questions: {dict(Counter(planted.values()))}")
        for name, side in zip(names, "ab"):
            print(f"\nMisses of {name} at {arguments.k}\n")
            row("rule", "applies where it is planted, %", "n", "applies where another cause is planted, %", "n")
            row(*["---"] * 5)
            for cause, own, other in shares(comparison, side, arguments.k, planted):
                row(cause, *(cell for each in (own, other) for cell in (_percent(each), each.n)))


def _percent(share: Any) -> str:
    return "–" if share.value is None else "{:.1f} ({:.1f} to {:.1f})".format(*share.percent)


if __name__ == "__main__":
    main()

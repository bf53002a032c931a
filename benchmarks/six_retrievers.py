"""Six retrievers over the dev questions of one study: quality with intervals, beside time and index size.

    python -m benchmarks.six_retrievers --study DIR

The study needs a BM25 index, the minilm index, a run over its train questions (bm25-train) and an adapter over minilm
that was trained on train questions (`blindspot train adapter`). The feature judge is learned here from that run. Each
retriever runs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.report import RunReport, report
from blindspot.backend.evaluation.report_text import index_size, one_question, per_second

SPLIT, K, JUDGE = "dev", 100, "six-judge"
SUCCESS_AT, NDCG_AT = (1, 5, 20), 10


def retrievers(adapter: str) -> dict[str, list[str]]:
    """Return the name in the table and the options of `blindspot retrieve` of each retriever."""
    return {
        "BM25": ["--with", "bm25"],
        "MiniLM": ["--with", "dense", "--encoder", "minilm"],
        "hybrid of both": ["--with", "hybrid", "--encoder", "minilm"],
        "BM25 reranked by the feature judge": ["--with", "rerank", "--judge", JUDGE],
        "MiniLM with an adapter": ["--with", "dense", "--encoder", adapter],
    }


def blindspot(study: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "blindspot.app.cli", *arguments, "--study", str(study)], check=True)


def row(title: str, answers: RunReport, gold: RunReport) -> str:
    """One line of the Markdown table."""
    success = [interval(answers.success[k]) for k in SUCCESS_AT]
    quality = [interval(gold.measures["ndcg"].at[NDCG_AT]), *success]
    return (
        f"| {' | '.join([title, *quality, *(cell(answers.cost) for cell in (per_second, one_question, index_size))])} |"
    )


def interval(estimate: Estimate) -> str:
    value, low, high = estimate.percent
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--study", type=Path, required=True)
    parser.add_argument("--learn-from", default="bm25-train", help="run over train questions, for the judge")
    parser.add_argument("--adapter", default="adapted")
    parser.add_argument("--table", action="store_true", help="print the table of runs that exist")
    asked = parser.parse_args()
    titles = {f"six-{number}": title for number, title in enumerate(retrievers(asked.adapter), 1)}
    if not asked.table:
        blindspot(asked.study, "judge", "learn", JUDGE, "--run", asked.learn_from, "--encoder", "minilm", "--replace")
        for name, options in zip(titles, retrievers(asked.adapter).values(), strict=True):
            more = ["--split", SPLIT, "--k", str(K), "--name", name, "--replace"]
            blindspot(asked.study, "retrieve", *options, *more)
    study = Study.open(asked.study)
    answers = report(study, list(titles), relevance="answers", ks=SUCCESS_AT).runs
    gold = report(study, list(titles), relevance="gold", ks=(NDCG_AT,), measures=["ndcg"]).runs
    heads = [f"nDCG@{NDCG_AT} (gold)", *(f"Success@{k}" for k in SUCCESS_AT)]
    columns = ["retriever", *heads, "questions/s", "one question, ms (n)", "index, MB"]
    print(f"n = {len(answers[0].questions):,} questions\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for by_answers, by_gold in zip(answers, gold, strict=True):
        print(row(titles[by_answers.name], by_answers, by_gold))


if __name__ == "__main__":
    main()

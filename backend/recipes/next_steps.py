"""What to do next in a study: for `blindspot status` and the Home page."""

from __future__ import annotations

from dataclasses import dataclass

from backend.core import jobs
from backend.core.jobs import JobRequest
from backend.core.study import Study
from backend.retrieval import bm25, dense
from backend.retrieval.retrieve import retrieve
from db.imports import Imports


@dataclass(frozen=True)
class Step:
    """Something to do next.

    why: what is missing.
    command: the command that does it.
    job: the same for a button; None for what only the command line can do.
    """

    why: str
    command: str
    job: JobRequest | None = None


def next_steps(study: Study) -> list[Step]:
    """What to do next, in order. Empty when BM25, dense and hybrid runs exist."""
    if not study.has_corpus:
        return [Step("The study has no passages yet.", "blindspot import passages FILE")]
    questions = study.questions.counts()
    if not questions:
        return [Step("The study has no questions yet.", "blindspot import questions FILE")]
    indexes, runs = study.parts("indexes"), study.parts("runs")
    if Imports(study.labels_path).all("results"):
        return [
            Step("Report the accuracy of the runs.", "blindspot report"),
            Step("Read the lists side by side.", "blindspot open"),
        ]
    dense_index = next((name for name, manifest in indexes.items() if manifest.get("kind") == "dense index"), None)
    encoder = dense_index or next(iter(study.settings.encoders), None)
    steps = []
    if "bm25" not in indexes:
        steps.append(Step("BM25 needs an index.", "blindspot index bm25", jobs.request(bm25.build_index)))
    if dense_index is None and encoder is not None:
        steps.append(
            Step(
                f"Dense retrieval needs the passages encoded with {encoder}.",
                f"blindspot index dense --encoder {encoder}",
                jobs.request(dense.build_index, encoder),
            )
        )
    ready = [
        kind
        for kind, needs in (
            ("bm25", "bm25" in indexes),
            ("dense", dense_index),
            ("hybrid", dense_index and "bm25" in indexes),
        )
        if needs
    ]
    return steps + _runs_to_make(questions, encoder, runs, ready)


def _runs_to_make(questions: list[dict], encoder: str | None, runs: dict[str, dict], ready: list[str]) -> list[Step]:
    """One step for each kind of run that the indexes allow and that does not exist yet."""
    splits = [count["split"] for count in questions]
    split = "dev" if "dev" in splits else splits[0]
    made = {_kind(manifest) for manifest in runs.values()}
    steps = []
    for kind in ready:
        if kind not in made:
            option = "" if kind == "bm25" else f" --encoder {encoder}"
            arguments = {"encoder": encoder} if encoder else {}
            steps.append(
                Step(
                    f"No {'BM25' if kind == 'bm25' else kind} run over {split} yet.",
                    f"blindspot retrieve --with {kind}{option} --split {split}",
                    jobs.request(retrieve, kind, split=split, **arguments),
                )
            )
    return steps


def _kind(manifest: dict) -> str:
    return manifest["retriever"] if manifest.get("retriever") in ("bm25", "hybrid") else "dense"

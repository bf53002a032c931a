"""What a study holds and what comes next: for `blindspot status` and the Home page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backend import jobs

if TYPE_CHECKING:
    from backend.study import Study


@dataclass(frozen=True)
class Step:
    """Something to do next: why, the command that does it, and the job that does the same from the app (None: typed only)."""

    why: str
    command: str
    job: tuple[str, dict[str, Any]] | None = None


def summary(study: Study) -> dict[str, Any]:
    """Everything the study holds, as JSON-able values. Cheap: reads manifests and counts, opens no index."""
    corpus = study.corpus if study.has_corpus else None
    return {
        "name": study.settings.name,
        "folder": str(study.folder),
        "passages": None if corpus is None else {"count": len(corpus), "source": corpus.source.name, "digest": corpus.digest},
        "questions": study.questions.counts(),
        "frequency_source": study.questions.frequency_source,
        "encoders": sorted(study.settings.encoders),
        "indexes": study.parts("indexes"),
        "runs": study.parts("runs"),
        "jobs": [{"id": job.id, "kind": job.kind, "state": job.state, "done": job.done, "total": job.total, "error": job.error}
                 for job in jobs.recent(study, 5)],
    }


def next_steps(study: Study) -> list[Step]:
    """What to do next, in order; empty when BM25, dense and hybrid runs exist."""
    if not study.has_corpus:
        return [Step("The study has no passages yet.", "blindspot import passages FILE")]
    questions = study.questions.counts()
    if not questions:
        return [Step("The study has no questions yet.", "blindspot import questions FILE")]
    indexes, runs = study.parts("indexes"), study.parts("runs")
    dense = next((name for name, manifest in indexes.items() if manifest.get("kind") == "dense index"), None)
    encoder = dense or next(iter(study.settings.encoders), None)
    steps = []
    if "bm25" not in indexes:
        steps.append(Step("BM25 needs an index.", "blindspot index bm25", ("index bm25", {})))
    if dense is None and encoder is not None:
        steps.append(Step(f"Dense retrieval needs the passages encoded with {encoder}.",
                          f"blindspot index dense --encoder {encoder}", ("index dense", {"name": encoder})))
    return steps + [step for step in _runs_to_make(questions, encoder, runs) if "bm25" in indexes or dense is not None]


def _runs_to_make(questions: list[dict], encoder: str | None, runs: dict[str, dict]) -> list[Step]:
    splits = [count["split"] for count in questions]
    split = "dev" if "dev" in splits else splits[0]
    made = {_kind(manifest) for manifest in runs.values()}
    wanted = ["bm25"] + (["dense", "hybrid"] if encoder else [])
    steps = []
    for kind in wanted:
        if kind not in made:
            option = "" if kind == "bm25" else f" --encoder {encoder}"
            arguments = {"kind": kind, "split": split, **({"encoder": encoder} if encoder else {})}
            steps.append(Step(f"No {'BM25' if kind == 'bm25' else kind} run over {split} yet.",
                              f"blindspot retrieve --with {kind}{option} --split {split}", ("retrieve", arguments)))
    return steps


def _kind(manifest: dict) -> str:
    return manifest["retriever"] if manifest.get("retriever") in ("bm25", "hybrid") else "dense"

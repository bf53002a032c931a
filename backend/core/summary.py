"""What a study holds and what comes next: for `blindspot status` and the Home page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backend.core import jobs
from db.gold import GoldMatches
from db.imports import Imports

if TYPE_CHECKING:
    from backend.core.study import Study


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
        "passages": None
        if corpus is None
        else {"count": len(corpus), "source": corpus.source.name, "digest": corpus.digest},
        "questions": study.questions.counts(),
        "frequency_source": study.questions.frequency_source,
        "encoders": sorted(study.settings.encoders),
        "indexes": study.parts("indexes"),
        "runs": study.parts("runs"),
        "from_results": _from_results(study),
        "gold_found": GoldMatches(study.labels_path).counts(),
        "jobs": [
            {
                "id": job.id,
                "kind": job.kind,
                "state": job.state,
                "done": job.done,
                "total": job.total,
                "error": job.error,
            }
            for job in jobs.recent(study, 5)
        ],
    }


def _from_results(study: Study) -> dict[str, Any] | None:
    """For a study that was made of retriever output: the files, and what it cannot do. None for any other."""
    records = Imports(study.labels_path).all("results")
    if not records:
        return None
    deepest = max((manifest["k"] for manifest in study.parts("runs").values()), default=0)
    return {
        "files": [{"file": record.file, "questions": record.rows, **json.loads(record.options)} for record in records],
        "cannot": [
            "It holds only the passages that these files name, so a search over them says nothing about the whole collection: "
            "ask no live questions, make no runs here.",
            f"Negatives can be mined no deeper than the files go ({deepest} hits).",
            "Gold is unknown, unless qrels are imported: relevance is by answers.",
        ],
    }


def next_steps(study: Study) -> list[Step]:
    """What to do next, in order; empty when BM25, dense and hybrid runs exist."""
    if not study.has_corpus:
        return [Step("The study has no passages yet.", "blindspot import passages FILE")]
    questions = study.questions.counts()
    if not questions:
        return [Step("The study has no questions yet.", "blindspot import questions FILE")]
    indexes, runs = study.parts("indexes"), study.parts("runs")
    if Imports(study.labels_path).all("results"):
        return [Step("How the runs did.", "blindspot report"), Step("Read the lists side by side.", "blindspot open")]
    dense = next((name for name, manifest in indexes.items() if manifest.get("kind") == "dense index"), None)
    encoder = dense or next(iter(study.settings.encoders), None)
    steps = []
    if "bm25" not in indexes:
        steps.append(Step("BM25 needs an index.", "blindspot index bm25", ("index bm25", {})))
    if dense is None and encoder is not None:
        steps.append(
            Step(
                f"Dense retrieval needs the passages encoded with {encoder}.",
                f"blindspot index dense --encoder {encoder}",
                ("index dense", {"name": encoder}),
            )
        )
    ready = [
        kind
        for kind, needs in (("bm25", "bm25" in indexes), ("dense", dense), ("hybrid", dense and "bm25" in indexes))
        if needs
    ]
    return steps + _runs_to_make(questions, encoder, runs, ready)


def _runs_to_make(questions: list[dict], encoder: str | None, runs: dict[str, dict], ready: list[str]) -> list[Step]:
    """The kinds of run that their indexes allow and that nobody has made yet."""
    splits = [count["split"] for count in questions]
    split = "dev" if "dev" in splits else splits[0]
    made = {_kind(manifest) for manifest in runs.values()}
    steps = []
    for kind in ready:
        if kind not in made:
            option = "" if kind == "bm25" else f" --encoder {encoder}"
            arguments = {"kind": kind, "split": split, **({"encoder": encoder} if encoder else {})}
            steps.append(
                Step(
                    f"No {'BM25' if kind == 'bm25' else kind} run over {split} yet.",
                    f"blindspot retrieve --with {kind}{option} --split {split}",
                    ("retrieve", arguments),
                )
            )
    return steps


def _kind(manifest: dict) -> str:
    return manifest["retriever"] if manifest.get("retriever") in ("bm25", "hybrid") else "dense"

"""Summarise the contents of a study for `blindspot status` and the Home page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindspot.backend.core import jobs
from blindspot.backend.core.jobs import JobRequest
from blindspot.db.gold import GoldMatches
from blindspot.db.imports import Imports
from blindspot.db.jobs import Job

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


JOBS_CONSIDERED, JOBS_SHOWN = 50, 5


@dataclass(frozen=True)
class Step:
    """A suggested next step for the user.

    Attributes:
        why: what is missing.
        command: the command that does it.
        job: the same for a button; None for what only the command line can do.
    """

    why: str
    command: str
    job: JobRequest | None = None


def summary(study: Study) -> dict[str, Any]:
    """Return the contents of the study as JSON values. Cheap: reads manifests and counts, and opens no index."""
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
        "maps": study.parts("maps"),
        "from_results": _results_summary(study),
        "gold_found": GoldMatches(study.labels_path).counts(),
        "jobs": [
            {key: getattr(job, key) for key in ("id", "kind", "state", "done", "total", "error")}
            for job in latest_jobs(study)
        ],
    }


def latest_jobs(study: Study, count: int = JOBS_SHOWN) -> list[Job]:
    """Return the latest jobs, newest first. A failed job is left out if a later job of the same kind with the same
    arguments succeeded. For imports any later import of the same kind suffices, because the corrected file may have
    another name.
    """
    latest: list[Job] = []
    job_kinds: set[str] = set()
    for job in jobs.recent(study, JOBS_CONSIDERED):
        made = {jobs.title(job.kind, job.arguments), *([job.kind] if job.kind.startswith("import ") else [])}
        if job.state == "done":
            job_kinds |= made
        if job.state != "failed" or not made & job_kinds:
            latest.append(job)
    return latest[:count]


def _results_summary(study: Study) -> dict[str, Any] | None:
    """Describe a study that was made from retriever output: its files, and what such a study cannot do. None for other
    studies.
    """
    records = Imports(study.labels_path).all_records("results")
    if not records:
        return None
    deepest = max((manifest["k"] for manifest in study.parts("runs").values()), default=0)
    return {
        "files": [{"file": record.file, "questions": record.rows, **json.loads(record.options)} for record in records],
        "cannot": [
            "The study has only the passages that these files name, so a search says nothing about the whole "
            "collection: ask no live questions and make no runs here.",
            f"Negatives can be mined no deeper than the files go ({deepest} hits).",
            "Gold is unknown unless qrels are imported, so relevance is by answers.",
        ],
    }

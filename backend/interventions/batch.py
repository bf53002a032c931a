"""Explain the misses of a run by intervention, as a job, and keep the result in the study.

`interventions/<run>-<hash>/` holds manifest.json and result.json. The ranks of edited passages are stored as they are
computed, so a job that was killed, cancelled or out of time resumes there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.analysis.accuracy import Estimate, proportion
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_object, text_sha256, whole_folder, write_json, write_manifest
from blindspot.backend.core.units import units_of
from blindspot.backend.interventions.edits import EDITS
from blindspot.backend.interventions.explaining import ExplainedMiss, MissExplainer
from blindspot.backend.interventions.misses import dense_run, missed, shuffled
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

FOLDER, RESULT = "interventions", "result.json"
LIMIT = 200
NONE = "none of the edits"
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class CauseCount:
    """How many misses have a cause.

    cause: a cause, or NONE. edit: the edit that names it. smallest: share of the misses whose smallest mending edit
    this is. alone: share of the misses that this edit mends, whatever other edits do. applies: share of the misses to
    which the edit applies. examples: question ids.
    """

    cause: str
    edit: str
    smallest: Estimate
    alone: Estimate
    applies: Estimate
    examples: tuple[str, ...]


@job("explain misses")
def explain_misses(
    study: Study,
    run: str,
    k: int = 20,
    where: str = "",
    found_by: str | None = None,
    limit: int = LIMIT,
    minutes: float | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Explain the misses of a dense run (a job), and return the content of result.json.

    Args:
        where: only questions of this slice, as in 'relation:P19'.
        found_by: only questions for which this run has a gold passage in its top k.
        limit: explain at most so many misses, drawn with the seed.
        minutes: stop after this time. The misses explained until then are still a random sample.

    Raises:
        Missing: no such run, or no miss. BadInput: invalid settings, or a run that is not of an encoder's index.
    """
    if limit < 1 or (minutes is not None and not minutes > 0):
        raise BadInput("--misses must be at least 1 and --minutes above 0")
    opened, began = dense_run(study, run), time.monotonic()
    found_in = None if found_by is None else study.run(found_by)
    all_missed = _in_slice(study, run, missed(study, opened, k, found_in), where, k)
    if not all_missed:
        raise Missing(f"run {run!r} misses none of these questions at k = {k}, so there is nothing to explain")
    drawn = shuffled(all_missed, seed)[:limit]
    explainer = MissExplainer(study, str(opened.manifest["retriever"]), device=device)
    explained: list[ExplainedMiss] = []
    for block in explainer.explain(drawn):
        explained += block
        if progress is not None:
            progress(len(explained), len(drawn), "editing and searching misses")
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
    asked = {"run": run, "k": k, "where": where, "found_by": found_by, "limit": limit, "seed": seed}
    name = f"{run}-{text_sha256(json.dumps([asked, study.corpus.digest]))[:8]}"
    result = {
        **asked,
        "name": name,
        "encoder": explainer.dense.name,
        "missed": len(all_missed),
        "explained": len(explained),
        "units": units_of([each.question for each in explained], study.settings.unit).codes.tolist(),
        "questions": [_record(each, k) for each in explained],
    }
    with study.building(f"{FOLDER}/{name}"), whole_folder(study.path(FOLDER, name)) as building:
        write_json(building / RESULT, result)
        write_manifest(
            building,
            {
                "kind": "interventions",
                **asked,
                "corpus": study.corpus.digest,
                "model_hash": explainer.dense.manifest["model_hash"],
                "run_made": opened.manifest.get("made"),
            },
        )
    return result


def _in_slice(study: Study, run: str, questions: Sequence[Question], where: str, k: int) -> list[Question]:
    if not where:
        return list(questions)
    from blindspot.backend.evaluation.comparison import Comparison, measure
    from blindspot.backend.evaluation.slices import Facts

    measured = measure(study, run, "gold")
    itself = Comparison.of(measured, measured)
    mask = Facts(itself, k).mask(where)
    inside = {question.id for question, is_in in zip(itself.questions, mask, strict=True) if is_in}
    return [question for question in questions if question.id in inside]


def _record(each: ExplainedMiss, k: int) -> dict[str, Any]:
    found = each.smallest(k)
    return {
        "id": each.question.id,
        "question": each.question.text,
        "gold": each.gold.id,
        "rank": each.rank,
        "winner": each.winner,
        "cause": NONE if found is None else found.cause,
        "edit": None if found is None else found.name,
        "edits": {tried.name: {"rank": tried.rank, "size": round(tried.size, 4)} for tried in each.tried},
    }


def cause_counts(result: dict[str, Any]) -> list[CauseCount]:
    """Count the causes of a stored result, most frequent first; NONE is last."""
    rows, k = result["questions"], result["k"]
    causes = np.array([row["cause"] for row in rows], dtype=str)
    units = np.array(result.get("units", range(len(rows))), dtype=np.int64)  # older results have none
    counted = []
    for edit in EDITS.values():
        applies = np.array([edit.name in row["edits"] for row in rows], bool)
        mends = np.array([edit.name in row["edits"] and row["edits"][edit.name]["rank"] <= k for row in rows], bool)
        is_cause = causes == edit.cause
        counted.append(
            CauseCount(
                edit.cause,
                edit.name,
                proportion(is_cause, units),
                proportion(mends, units),
                proportion(applies, units),
                tuple(row["id"] for row, own in zip(rows, is_cause, strict=True) if own)[:EXAMPLES],
            )
        )
    counted.sort(key=lambda each: -(each.smallest.value or 0))
    without = causes == NONE
    nobody = proportion(np.zeros(len(rows), bool), units)
    examples = tuple(row["id"] for row, own in zip(rows, without, strict=True) if own)[:EXAMPLES]
    return [*counted, CauseCount(NONE, "", proportion(without, units), nobody, nobody, examples)]


def results(study: Study) -> list[dict[str, Any]]:
    """Return the stored results, newest first."""
    names = list(study.parts(FOLDER))
    return [read_object(study.path(FOLDER, name, RESULT)) for name in reversed(names)]


def as_dict(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with its table, for `--json`."""
    return {**result, "causes": [asdict(each) for each in cause_counts(result)]}

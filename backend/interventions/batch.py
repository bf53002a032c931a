"""Explain the misses of a run by intervention, as a job, and store the result in the study.

`interventions/<run>-<hash>/` holds manifest.json and result.json. The ranks of edited passages are stored as soon as
they are computed, so a job that was killed, cancelled or out of time can be resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean, proportion
from blindspot.analysis.significance import difference
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, read_object, text_sha256, write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.interventions.edits import DOUBT, EDITS
from blindspot.backend.interventions.explaining import ExplainedMiss, MissExplainer, TriedEdit
from blindspot.backend.interventions.misses import dense_run, missed_questions, shuffle_questions
from blindspot.backend.interventions.settings import MissesToExplain
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing
from blindspot.db.records import Question

FOLDER, RESULT = "interventions", "result.json"
NONE = "none of the edits"
SHARED_WITH_PLACEBO = "no cause that a placebo would not share"
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class CauseCount:
    """How many misses have a cause, and how often its edit brings gold passages and placebos into the top k.

    Attributes:
        cause: a cause, NONE or SHARED_WITH_PLACEBO.
        edit: the edit that names it.
        named: share of the misses for which it is named, alone or beside others.
        smallest: share of the misses for which it is the smallest edit that is named.
        applies: share of the misses to which the edit applies.
        gold, placebo: of the misses to which it applies, the share whose gold passage, and the share of placebos, that
            the edit brings into the top k.
        difference: gold minus placebo, paired by question.
        examples: question ids. Doubtful gold has no shares of gold and placebos: that edit brings nothing into the top
            k.
    """

    cause: str
    edit: str
    named: Estimate
    smallest: Estimate
    applies: Estimate
    gold: Estimate
    placebo: Estimate
    difference: Estimate
    examples: tuple[str, ...]


@job("explain misses")
@named_settings(MissesToExplain)
def explain_misses(
    study: Study,
    run: str,
    settings: MissesToExplain,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Explain the misses of a dense run (a job), and return the content of result.json.

    Raises:
        Missing: no such run, or no miss. BadInput: invalid settings, or a run that is not of an encoder's index.
    """
    opened, k = dense_run(study, run), settings.k
    found_in = None if settings.found_by is None else study.run(settings.found_by)
    all_missed = _in_slice(study, run, missed_questions(study, opened, k, found_in), settings.where, k)
    if not all_missed:
        raise Missing(f"run {run!r} misses none of these questions at k = {k}, so there is nothing to explain")
    drawn = shuffle_questions(all_missed, settings.seed)[: settings.limit]
    explainer = MissExplainer(
        study,
        str(opened.manifest["retriever"]),
        device=device,
        placebos=settings.placebos,
        seed=settings.seed,
        k=k,
    )
    explained = _explain_in_order(explainer, drawn, settings.minutes, progress)
    asked = {"run": run, **{key: value for key, value in asdict(settings).items() if key != "minutes"}}
    name = f"{run}-{text_sha256(json.dumps([asked, study.corpus.digest]))[:8]}"
    result = {
        **asked,
        "name": name,
        "encoder": explainer.dense.name,
        "missed": len(all_missed),
        "explained": len(explained),
        "doubted_controls": list(explainer.doubted_controls),
        "can_doubt": explainer.can_doubt,
        "unit": study.settings.unit,
        "units": units_of([each.question for each in explained], study.settings.unit).codes.tolist(),
        "questions": [_miss_record(each, k) for each in explained],
    }
    about = {
        "kind": "interventions",
        **asked,
        "corpus": study.corpus.digest,
        "model_hash": explainer.dense.manifest["model_hash"],
        "run_made": opened.manifest.get("made"),
    }
    with study.lock_part(f"{FOLDER}/{name}"), atomic_folder(study.path(FOLDER, name)) as building:
        write_json(building / RESULT, result)
        write_manifest(building, about)
    return result


def _explain_in_order(
    explainer: MissExplainer, questions: Sequence[Question], minutes: float | None, progress: Progress | None
) -> list[ExplainedMiss]:
    """Explain the misses in their order, until the time limit is reached."""
    explained: list[ExplainedMiss] = []
    began = time.monotonic()
    for block in explainer.explain(questions):
        explained += block
        if progress is not None:
            progress(len(explained), len(questions), "editing and searching misses")
        if minutes is not None and time.monotonic() - began > 60 * minutes:
            break
    return explained


def _in_slice(study: Study, run: str, questions: Sequence[Question], expression: str, k: int) -> list[Question]:
    if not expression:
        return list(questions)
    from blindspot.backend.evaluation.comparison import Comparison, measure
    from blindspot.backend.evaluation.slices import Facts

    measured = measure(study, run, "gold")
    itself = Comparison.of_runs(measured, measured)
    mask = Facts(itself, k).mask(expression)
    inside = {question.id for question, is_in in zip(itself.questions, mask, strict=True) if is_in}
    return [question for question in questions if question.id in inside]


def _miss_record(miss: ExplainedMiss, k: int) -> dict[str, Any]:
    named = miss.named(k)
    without = SHARED_WITH_PLACEBO if miss.mending(k) else NONE
    return {
        "id": miss.question.id,
        "question": miss.question.text,
        "gold": miss.gold.id,
        "rank": miss.rank,
        "winner": miss.winner,
        "cause": named[0].cause if named else without,
        "edit": named[0].name if named else None,
        "causes": [{"cause": edit.cause, "edit": edit.name, "tokens": edit.size} for edit in named],
        "edits": {tried.name: _tried_record(tried) for tried in miss.tried},
        "pairs": {tried.name: _tried_record(tried) for tried in miss.pairs},
    }


def _tried_record(tried: TriedEdit) -> dict[str, Any]:
    return {
        "rank": tried.rank,
        "tokens": tried.size,
        "placebos": [None if other is None else other.rank for other in tried.placebos],
        "beats_placebos": tried.beats_placebos,
    }


def cause_counts(result: dict[str, Any]) -> list[CauseCount]:
    """Count the causes of a stored result, sorted by the difference between gold and placebo, largest first;
    SHARED_WITH_PLACEBO and NONE come last. Results of version 0.2 have no placebos, so their differences are None.
    """
    rows = result["questions"]
    tried = [edit for edit in EDITS.values() if edit.name != DOUBT or result.get("can_doubt", True)]
    counted = [_count_cause(result, edit.cause, edit.name) for edit in tried]
    counted.sort(key=lambda each: -_value_or(each.difference.value, -2.0))
    nothing = proportion(np.zeros(0, bool))
    for cause in (SHARED_WITH_PLACEBO, NONE):
        has = np.array([row["cause"] == cause for row in rows], bool)
        share = proportion(has, _units(result))
        counted.append(CauseCount(cause, "", share, share, nothing, nothing, nothing, nothing, _examples(rows, has)))
    return counted


def _count_cause(result: dict[str, Any], cause: str, edit: str) -> CauseCount:
    rows, k, units = result["questions"], result["k"], _units(result)
    first = np.array([row["cause"] == cause for row in rows], bool)
    named = first | np.array([any(each["edit"] == edit for each in row.get("causes", ())) for row in rows], bool)
    if edit == DOUBT:
        nothing, named_share, first_share = (proportion(each, units[: len(each)]) for each in (named[:0], named, first))
        return CauseCount(
            cause, edit, named_share, first_share, nothing, nothing, nothing, nothing, _examples(rows, named)
        )
    applies = np.array([edit in row["edits"] for row in rows], bool)
    tried = [row["edits"][edit] for row in rows if edit in row["edits"]]
    gold = np.array([each["rank"] <= k for each in tried], bool)
    with_placebos = np.array([bool(each.get("placebos")) for each in tried], bool)
    lifted = np.array(
        [
            np.mean([rank is not None and rank <= k for rank in each["placebos"]])
            for each in tried
            if each.get("placebos")
        ]
    )
    paired = units[applies][with_placebos]
    return CauseCount(
        cause,
        edit,
        proportion(named, units),
        proportion(first, units),
        proportion(applies, units),
        proportion(gold, units[applies]),
        mean(lifted, paired),
        difference(gold[with_placebos], lifted, units=paired),
        _examples(rows, named),
    )


def _units(result: dict[str, Any]) -> np.ndarray:
    """Return the unit of observation of each question, (n,) int64. In results of older versions, which store no units,
    each question is its own unit.
    """
    return np.array(result.get("units", range(len(result["questions"]))), dtype=np.int64)


def _examples(rows: Sequence[dict[str, Any]], is_example: np.ndarray) -> tuple[str, ...]:
    return tuple(row["id"] for row, is_wanted in zip(rows, is_example, strict=True) if is_wanted)[:EXAMPLES]


def _value_or(value: float | None, default: float) -> float:
    return default if value is None else value


def results(study: Study) -> list[dict[str, Any]]:
    """Return the stored results, newest first."""
    names = list(study.parts(FOLDER))
    return [read_object(study.path(FOLDER, name, RESULT)) for name in reversed(names)]


def as_dict(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with its table, for `--json`."""
    return {**result, "causes": [asdict(each) for each in cause_counts(result)]}

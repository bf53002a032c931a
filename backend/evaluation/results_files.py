"""Write the figures of runs in the formats of MTEB and BEIR, and read MTEB's result files.

Relevance is by gold, and the measures follow trec_eval, which MTEB and BEIR use. MTEB breaks ties in scores by passage
id. Here tied hits keep the run's order, so figures can differ for a run with many equal scores.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.own_passages import LEFT_OUT
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.relevance import Relevance, relevant
from blindspot.db.errors import BadInput, Refused

CUT_OFFS = (1, 3, 5, 10, 20, 100, 1000)
NAMES = {
    "ndcg": ("ndcg_at_{}", "NDCG@{}"),
    "map": ("map_at_{}", "MAP@{}"),
    "recall": ("recall_at_{}", "Recall@{}"),
    "precision": ("precision_at_{}", "P@{}"),
    "mrr": ("mrr_at_{}", "MRR@{}"),
    "success": ("hit_rate_at_{}", "Accuracy@{}"),
}
"""For each measure, its names in MTEB's and in BEIR's results."""
FORMATS = ("mteb", "beir")
MAIN = "ndcg_at_10"
SUITABLE = 10  # hits per question that the main score needs
LARGEST = 16 << 20  # bytes of a result file


@dataclass(frozen=True, slots=True)
class MtebFigures:
    """The figures of one split of an MTEB result file. figures: MTEB's names to values from 0 to 1."""

    name: str
    task: str
    split: str
    subset: str
    figures: dict[str, float]


def mean_measures(study: Study, run: Run) -> dict[str, dict[int, float]]:
    """Return the mean of each measure over the run's questions with gold passages, at the usual cut-offs up to the
    run's depth.

    Raises:
        Refused: no question of the run has gold, or the run has fewer than 10 hits per question.
    """
    if run.hits.k < SUITABLE:
        raise Refused(f"run {run.name!r} has {run.hits.k} hits per question; nDCG@10 needs 10")
    found = relevant(study, run, "gold")
    if not len(found.rows):
        raise Refused(f"no question of run {run.name!r} has gold passages; import their qrels")
    cut_offs = [k for k in CUT_OFFS if k <= run.hits.k]
    return {name: {k: float(np.mean(_values(found, name, k))) for k in cut_offs} for name in NAMES}


def export_results(
    study: Study, name: str, format: str, task: str | None = None, path: Path | None = None
) -> tuple[Path, dict[str, float]]:
    """Write a run's figures as MTEB's or BEIR's results. Return the file's path, and the figures by the names used in
    the file.

    Args:
        format: "mteb" (a task's result file) or "beir" (the dictionaries that BEIR's evaluation returns).
        task: the name of the task; default the study's name.
        path: default TASK.json for MTEB, RUN-beir.json for BEIR, in the current folder.

    Raises: Refused as `mean_measures`, and for an unknown format. Missing: an unknown run.
    """
    if format not in FORMATS:
        raise Refused(f"--format must be one of {', '.join(FORMATS)}, not {format!r}")
    run = study.run(name)
    values, task = mean_measures(study, run), task or study.settings.name
    own_left_out = run.manifest.get("own_passage") == LEFT_OUT
    mteb, beir = (
        {names[place].format(k): value for measure, names in NAMES.items() for k, value in values[measure].items()}
        for place in (0, 1)
    )
    if format == "mteb":
        scores: dict[str, Any] = {key: round(value, 6) for key, value in mteb.items()}
        scores |= {"main_score": scores[MAIN], "hf_subset": "default", "languages": ["eng-Latn"]}
        content: dict[str, Any] = {
            "dataset_revision": study.corpus.digest,
            "task_name": task,
            "mteb_version": None,
            "scores": {_split_name(run): [scores]},
            "evaluation_time": None,
            "kg_co2_emissions": None,
        }
        target = path or Path(f"{task}.json")
    else:
        groups: dict[str, dict[str, float]] = {}
        for key, value in beir.items():
            groups.setdefault(key.split("@")[0], {})[key] = round(value, 5)
        content = {"dataset": task, "run": name, "ignore_identical_ids": own_left_out, **groups}
        target = path or Path(f"{name}-beir.json")
    write_json(target, content)
    return target, mteb if format == "mteb" else beir


def read_mteb(path: Path) -> list[MtebFigures]:
    """Read an MTEB result file, one entry for each split and subset.

    The name is that of the model's folder if the path is `MODEL/REVISION/TASK.json`, as MTEB stores results; otherwise
    it is the file name.

    Raises:
        BadInput: it is no result file.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise BadInput("is too large for an MTEB result file", path)
        content = json.loads(path.read_text(encoding="utf-8"))
        task, splits = content["task_name"], content["scores"]
        name = path.parent.parent.name if (path.parent / "model_meta.json").is_file() else path.stem
        return [
            MtebFigures(
                name,
                str(task),
                str(split),
                str(scores.get("hf_subset", "default")),
                {key: float(value) for key, value in scores.items() if isinstance(value, (int, float))},
            )
            for split, entries in splits.items()
            for scores in entries
        ]
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror})", path) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadInput("is not an MTEB result file (it needs task_name and scores by split)", path) from None


def _split_name(run: Run) -> str:
    return str(run.manifest.get("split") or "test").split("/")[-1]


def _values(relevance: Relevance, measure: str, k: int) -> np.ndarray:
    if measure == "precision":
        return relevance.relevant[:, :k].sum(axis=1) / k
    return MEASURES.get(measure).values_of(relevance, k)

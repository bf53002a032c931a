"""Making a training set: a part for some hundred questions at a time, then the whole folder by one rename.

Parts are kept until the set is whole, so a build that was cancelled or killed goes on where it was, as long as nothing that it was
made of has changed. The same inputs give the same `pairs.parquet`, byte for byte.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.core.jobs import job
from backend.core.manifest import file_sha256, read_manifest, whole_folder, write_manifest
from backend.progress import Progress
from backend.training_sets.counts import Counts, tally
from backend.training_sets.inputs import Inputs
from backend.training_sets.maker import Maker
from backend.training_sets.parts import Parts
from backend.training_sets.request import SetRequest
from backend.training_sets.scores import ScoreStore
from backend.training_sets.training_set import LEFT_OUT, PAIRS, TrainingSet
from db.backup import sync
from db.errors import BadInput, Refused

if TYPE_CHECKING:
    from backend.core.study import Study

QUESTIONS_PER_PART = 500


class NothingTrains(BadInput):
    """No question has a positive."""


@job("build training set")
def build(
    study: Study, name: str, runs: Sequence[str], progress: Progress | None = None, **settings: Any
) -> TrainingSet:
    """Make a training set from plain values, as a job has them: the fields of `SetRequest`. See `make_training_set`."""
    return make_training_set(study, SetRequest.of(name, runs, **settings), progress)


def make_training_set(study: Study, request: SetRequest, progress: Progress | None = None) -> TrainingSet:
    """Make a training set.

    Raises:
        BadInput: settings that make no sense, or no question that can train.
        Missing: a run, model, index or split that is not there.
        Refused: the name is taken, a policy without meaning on these scores, or another process makes this set.
    """
    scores = None if request.model is None else ScoreStore.open(study, request.model)
    request.check(scores)
    folder = study.path("training_sets", request.name)
    if read_manifest(folder) is not None:
        raise Refused(f"there is already a training set {request.name!r}; sets do not change, so take another name")
    inputs = Inputs.read(study, request, scores, progress)
    started = time.monotonic()
    with study.building(f"training_sets/{request.name}"):
        parts = Parts(folder.with_name(f".parts-{request.name}"), inputs.fingerprint)
        _make_parts(Maker(study, request, inputs), parts, inputs.questions, progress)
        counts, left_out = parts.summary()
        left_out = dict(sorted((inputs.left_out | left_out).items()))
        if not counts.questions:
            raise NothingTrains(_nothing(request, left_out))
        with whole_folder(folder) as building:
            parts.join(building / PAIRS)
            _write_lines(building / LEFT_OUT, ({"question": id, "reason": reason} for id, reason in left_out.items()))
            write_manifest(
                building,
                {
                    "kind": "training set",
                    "name": request.name,
                    "request": request.as_dict(),
                    "policy": request.policy,
                    "inputs": inputs.about,
                    "fingerprint": inputs.fingerprint,
                    "left_out": tally(left_out.values()),
                    "counts": counts.as_json(),
                    "sha256": {file: file_sha256(building / file) for file in (PAIRS, LEFT_OUT)},
                    "seconds": round(time.monotonic() - started, 1),
                },
            )
        parts.remove()
    return TrainingSet.open(study, request.name)


def _nothing(request: SetRequest, left_out: Mapping[str, str]) -> str:
    reasons = "; ".join(f"{count:,} left out: {reason}" for reason, count in tally(left_out.values()).items())
    return (
        f"no question can train ({reasons}). Positives come from gold (with the questions, or qrels), from people (a policy with "
        f"labels), from BM25 (positives distant) or a cross-encoder; asked for were {', '.join(request.positives) or 'none'}"
    )


def _make_parts(maker: Maker, parts: Parts, questions: Sequence[str], progress: Progress | None) -> None:
    for number, start in enumerate(range(0, len(questions), QUESTIONS_PER_PART)):
        if progress:
            progress(start, len(questions), "mining and cleaning")
        if parts.has(number):
            continue
        counts, left_out, pairs = Counts(), {}, []
        for question, made, reason in maker.pairs(questions[start : start + QUESTIONS_PER_PART]):
            if reason is None:
                counts.add(question, made)
                pairs += made
            else:
                left_out[question.id] = reason
        parts.write(number, pairs, {"counts": counts.as_json(), "left_out": left_out})


def _write_lines(path: Path, rows) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    sync(path)

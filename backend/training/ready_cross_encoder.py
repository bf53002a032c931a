"""Add an existing cross-encoder, given by folder or name, as a judge without training it.

`models/<name>/` contains training.json, which names the model, and calibration.json. The model itself is not copied.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, write_json
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.judges.feature_judge import labelled_lists
from blindspot.backend.judges.feature_model import POSITIVE, UNKNOWN
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judges.settings import FeatureJudgeSettings
from blindspot.backend.training.checkpoints import write_training_json
from blindspot.backend.training.scoring import CALIBRATION, LabelledPair, calibrate, weights_hash
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress

CALIBRATION_PAIRS = 4000
SCORERS = ("ForSequenceClassification", "ForCausalLM")


@job("add cross-encoder", extras=("dense",))
def add_cross_encoder(
    study: Study,
    name: str,
    model: str,
    run: str | None = None,
    device: str | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Add an existing cross-encoder to the study. If a run is given, calibrate the model on whole lists of training
    questions.

    Args:
        model: a folder or a Hugging Face name.
        run: a run that holds training questions with gold or labels; None leaves the probabilities uncalibrated.

    Raises:
        Refused: the name is taken, the model gives no single score, or the lists hold one kind of passages only.
        Missing: no such model or run.
    """
    target = new_model_folder(study, name, replace)
    opened = open_model(model)
    with readable_model(opened.path):
        loaded = _load_single_score_model(opened.path, model, opened.sentence_transformers, device)
    report = None
    if run is not None:
        if progress is not None:
            progress(0, None, "calibrating on training questions")
        pairs = _candidate_lists(study, run)
        report = calibrate(loaded, pairs) | {"of": f"whole lists of training questions of {run}"}
    about = {
        "kind": "cross-encoder",
        "name": name,
        "start": model,
        "ready": str(Path(opened.path).resolve()),
        "run": run,
        "model_hash": weights_hash(Path(opened.path)),
        "calibration": None if report is None else report["method"],
    }
    with study.lock_part(f"models/{name}"), atomic_folder(target) as building:
        if report is not None:
            write_json(building / CALIBRATION, report)
        write_training_json(building, about)
    if replace:
        ScoreStore.remove(study, name)
    return about | {"pairs": 0 if report is None else report["pairs"], "report": report}


def _load_single_score_model(path: str, model: str, arguments: dict[str, Any], device: str | None) -> CrossEncoder:
    from sentence_transformers import CrossEncoder
    from transformers import AutoConfig

    if not (Path(path) / "modules.json").is_file():
        architecture = (AutoConfig.from_pretrained(path).architectures or [""])[0]
        if not architecture.endswith(SCORERS):
            raise Refused(
                f"{model} is no cross-encoder but a {architecture or 'model without a head'}: its scores would be "
                "random; name a cross-encoder, or train one with 'blindspot train cross-encoder'"
            )
    loaded = CrossEncoder(path, device=device, **arguments)
    if not isinstance(loaded, CrossEncoder) or loaded.num_labels != 1:
        raise Refused(f"{model} gives {loaded.num_labels} scores for a pair; a judge needs one")
    return loaded


def _candidate_lists(study: Study, run: str) -> list[LabelledPair]:
    """Return whole lists of some training questions, without passages of unknown relevance."""
    settings = FeatureJudgeSettings()
    lists, truth, _ = labelled_lists(study, study.run(run), settings)
    pairs: list[LabelledPair] = []
    order = np.random.default_rng(settings.seed).permutation(len(lists.questions))
    for place in order.tolist():
        question, known = lists.questions[place], (lists.rows[place] >= 0) & (truth[place] != UNKNOWN)
        if pairs and len(pairs) + int(known.sum()) > CALIBRATION_PAIRS:
            break
        passages = study.corpus.passages(lists.rows[place][known].tolist())
        pairs += [
            LabelledPair(question.id, question.text, passage, label == POSITIVE)
            for passage, label in zip(passages, truth[place][known].tolist(), strict=True)
        ]
    return pairs

"""Find the runs before and after a training, which show the effect of the training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.retriever import kind_of_run


def initial_encoder_name(study: Study, description: Mapping[str, Any]) -> str | None:
    """Return the name in study.toml of a model's initial encoder, or else the initial model's folder or name; None if
    unknown.
    """
    start = description.get("encoder" if description.get("kind") == "adapter" else "start")
    model = start.get("model") if isinstance(start, dict) else start
    if not model:
        return None
    named = (name for name, encoder in study.settings.encoders.items() if model in (name, encoder.model))
    return next(named, Path(model).name)


def run_before(
    study: Study, description: Mapping[str, Any], run_after: str, split: str, runs: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """Return the run with which a trained model's run is compared: the initial encoder's run over the same split, or
    else the latest other run.

    Args:
        description: the model's training.json. run_after: the model's run. runs: the study's runs, name to manifest.
    """
    before = [
        name
        for name, manifest in runs.items()
        if name != run_after
        and manifest.get("split") == split
        and not ((kind := kind_of_run(manifest)) and kind.fusion)
    ]
    start = initial_encoder_name(study, description)
    last = before[-1] if before else None
    return next((name for name in before if start and runs[name].get("retriever") == start), last)

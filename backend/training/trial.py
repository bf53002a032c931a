"""Trying a trained encoder: index the passages with it and retrieve with it, so that it can be compared with what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend.progress import Progress

if TYPE_CHECKING:
    from backend.core.study import Study


def try_model(
    study: Study,
    name: str,
    split: str = "dev",
    k: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> str:
    """The job: what is there already is not made again. Gives the run's name.

    Raises:
        Missing: no encoder of that name, or no question in the split.
    """
    from backend.retrieval import dense
    from backend.retrieval.retrieve import retrieve

    if name not in study.parts("indexes"):
        dense.build_index(study, name, device=device, progress=progress)
    run = run_name(name, split)
    if run not in study.parts("runs"):
        retrieve(study, "dense", encoder=name, split=split, k=k, name=run, device=device, progress=progress)
    return run


def run_name(model: str, split: str) -> str:
    return f"{model}-{split.replace('/', '-')}"

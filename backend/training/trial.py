"""Trying a trained encoder: index the passages with it and retrieve with it, so that it can be compared with what was before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backend.core.jobs import job
from backend.core.settings import check_name
from backend.progress import Progress

if TYPE_CHECKING:
    from backend.core.study import Study


def _check_run_name(study: Study, name: str, split: str = "dev", **_: object) -> None:
    check_name(run_name(name, split), "run")


@job("try model", check=_check_run_name)
def try_model(
    study: Study,
    name: str,
    split: str = "dev",
    k: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Index the passages with a model and retrieve with it, as far as that is not done yet. Return the name of the run.

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

"""Suggest the next steps in a study, for `blindspot status` and the Home page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.jobs import request
from blindspot.backend.core.summary import Step
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS, RetrieverKind, kind_of_run
from blindspot.db.imports import Imports

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def next_steps(study: Study, counts: Sequence[Mapping[str, Any]] | None = None) -> list[Step]:
    """Return the next steps in order. The list is empty if a run of every suggested kind of retriever exists.

    Args:
        counts: `study.questions.counts()`, if the caller has it; counting a million questions takes half a second.
    """
    if not study.has_corpus:
        return [Step("The study has no passages yet.", "blindspot import passages FILE")]
    questions = study.questions.counts() if counts is None else counts
    if not questions:
        return [Step("The study has no questions yet.", "blindspot import questions FILE")]
    if Imports(study.labels_path).all_records("results"):
        return [
            Step("Report the accuracy of the runs.", "blindspot report"),
            Step("Compare the two lists of hits side by side.", "blindspot open"),
        ]
    splits = [count["split"] for count in questions]
    split = "dev" if "dev" in splits else splits[0]
    kinds_of_runs = {kind_of_run(manifest) for manifest in study.parts("runs").values()}
    return [step for kind in RETRIEVERS for step in _steps_of(kind, study)] + [
        Step(
            f"No {kind.title} run over {split} yet.",
            command_line(kind, name, split),
            request(retrieve, kind.name, split=split, **kind.options_of(name)),
        )
        for kind in RETRIEVERS
        if kind.suggested and kind not in kinds_of_runs and not first_missing(kind.extras)
        for name in kind.available(study)[:1]
    ]


def _steps_of(kind: RetrieverKind, study: Study) -> list[Step]:
    """Return the steps that are needed before a retriever of this kind can be opened. If its packages are missing, this
    is the step that installs them.
    """
    steps, extra = kind.steps(study), first_missing(kind.extras)
    if steps and extra is not None:
        return [Step(f"{kind.title[0].upper()}{kind.title[1:]} needs the extra {extra}.", install_command(extra))]
    return steps


def command_line(kind: RetrieverKind, name: str, split: str) -> str:
    """Return the command that makes a run with the retriever `name`."""
    known = declared_settings(kind.options)
    options = "".join(f" {known[key].option} {value}" for key, value in kind.options_of(name).items())
    return f"blindspot retrieve --with {kind.name}{options} --split {split}"

"""What an experiment would make: the parts that exist already, and the missing ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.experiments.papers import WITHOUT_TRAINING
from blindspot.backend.experiments.parts import Part, StudyEncoder
from blindspot.backend.experiments.plan import Cell, PaperClaim
from blindspot.backend.experiments.running import all_parts, experiment_named, hashable_options
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError


@dataclass(frozen=True, slots=True)
class PlannedParts:
    """The parts of an experiment that exist already, and the parts that it would make. cells, claims, notes: of its
    plan.
    """

    existing: Sequence[Part]
    waiting: Sequence[Part]
    cells: Sequence[Cell] = ()
    claims: Sequence[PaperClaim] = ()
    notes: Sequence[str] = ()

    @property
    def trainings(self) -> str:
        """Return the models that it would train in words, as in "12 dual encoders and 3 cross-encoders"; "" for none."""
        models = _count_by_kind([part for part in self.waiting if part.folder == "models"])
        return _in_words(models).replace(", ", " and ") if models else ""

    def as_words(self) -> tuple[str, str]:
        """Return the missing and the finished parts in words, as in "4 runs, 1 index"."""
        return _in_words(_count_by_kind(self.waiting)), _in_words(_count_by_kind(self.existing))


def planned_parts(
    study: Study, experiment: str, options: Mapping[str, Any] | None = None, device: str | None = None
) -> PlannedParts:
    """Return the parts of an experiment. Makes and writes nothing."""
    chosen, bench = experiment_named(experiment), Workbench(study, device)
    plan = chosen.plan(chosen.setting(hashable_options(options or {})), bench)
    found = dict.fromkeys(all_parts(plan))
    parts = [part for part in found if not isinstance(part, StudyEncoder)]
    finished_parts = {part for part in parts if part.finished(bench)}
    return PlannedParts(
        [part for part in parts if part in finished_parts],
        [part for part in parts if part not in finished_parts],
        plan.cells,
        plan.claims,
        tuple(plan.notes),
    )


def next_without_training(study: Study, known: Collection[str]) -> tuple[str, PlannedParts] | None:
    """Return the first experiment that trains nothing, is not in `known` and can run on this study, with its parts."""
    for name in WITHOUT_TRAINING:
        if name not in known:
            with suppress(BlindspotError):
                return name, planned_parts(study, name)
    return None


def _count_by_kind(parts: Sequence[Part]) -> Counter[str]:
    return Counter(part.plural for part in parts)


def _in_words(kinds: Mapping[str, int]) -> str:
    return ", ".join(quantity(count, _singular_noun(plural), plural) for plural, count in kinds.items()) or "nothing"


def _singular_noun(plural: str) -> str:
    """Return the singular of a noun phrase: "index" for "indexes", "set of encoders" for "sets of encoders"."""
    head = re.split(" of | with ", plural)[0]
    return head[: -2 if head.endswith("xes") else -1] + plural[len(head) :]

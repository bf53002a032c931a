"""What an experiment would make: the parts that exist already, and the missing ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.experiments.parts import Part, StudyEncoder
from blindspot.backend.experiments.running import all_parts, experiment_named, hashable_options
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.text.number_words import quantity


@dataclass(frozen=True, slots=True)
class PlannedParts:
    """The parts of an experiment that exist already, and the parts that it would make."""

    existing: Sequence[Part]
    waiting: Sequence[Part]

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
    )


def _count_by_kind(parts: Sequence[Part]) -> Counter[str]:
    return Counter(part.plural for part in parts)


def _in_words(kinds: Mapping[str, int]) -> str:
    return ", ".join(quantity(count, _singular_noun(plural), plural) for plural, count in kinds.items()) or "nothing"


def _singular_noun(plural: str) -> str:
    """Return the singular of a noun phrase: "index" for "indexes", "set of encoders" for "sets of encoders"."""
    head = re.split(" of | with ", plural)[0]
    return head[: -2 if head.endswith("xes") else -1] + plural[len(head) :]

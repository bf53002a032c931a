"""Choose the question sets that an experiment trains on and measures on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.backend.experiments.plan import Setting
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench

MEASURED = ("dev", "test")


def sets_to_train_on(setting: Setting, bench: Workbench) -> tuple[str, ...]:
    """Return the question sets named with --set, or else all sets that have both training questions and dev or test
    questions.

    Raises BadInput if there are fewer than two sets.
    """
    splits = _splits(bench)
    able = sorted(name for name, parts in splits.items() if "train" in parts and parts & set(MEASURED))
    chosen = setting.sets or tuple(able)
    if unable := [name for name in chosen if name not in able]:
        raise BadInput(
            f"the set {unable[0]!r} has no training questions, or none in dev or test; usable sets: "
            f"{', '.join(able) or 'none'}"
        )
    if len(chosen) < 2:
        raise BadInput(
            f"this experiment needs 2 question sets with training questions; the study has {', '.join(able) or 'none'}"
        )
    return chosen


def measured_split(setting: Setting, bench: Workbench, name: str) -> str:
    """Return the split of a set to measure on: the split in --on (dev or test) if the set has it, else the
    other one.
    """
    parts = _splits(bench)[name]
    return f"{name}/{setting.on if setting.on in parts else next(split for split in MEASURED if split in parts)}"


def measured_sets(setting: Setting, bench: Workbench) -> tuple[str, ...]:
    """Return the sets named with --set, or else the dev or test questions of every set."""
    named = sorted(name for name, parts in _splits(bench).items() if name and parts & set(MEASURED))
    names = setting.sets or tuple(measured_split(setting, bench, name) for name in named)
    if not names:
        raise BadInput("no question set of the study has dev or test questions; give one with --set")
    return names


def datasets(bench: Workbench, split: str) -> list[str]:
    """Return the question sets that have questions in a split, in the order of import."""
    return [count["dataset"] for count in bench.questions.counts() if count["split"] == split]


def _splits(bench: Workbench) -> dict[str, set[str]]:
    splits: dict[str, set[str]] = {}
    for count in bench.questions.counts():
        splits.setdefault(count["dataset"], set()).add(count["split"])
    return splits

"""The relations of EntityQuestions, and the accuracy of several runs by group of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean


@dataclass(frozen=True, slots=True)
class Relation:
    """A Wikidata property: id, English label, and EntityQuestions' question template ([X]: the subject)."""

    id: str
    label: str
    template: str


RELATIONS: dict[str, Relation] = {
    id: Relation(id, label, template)
    for id, label, template in (
        ("P17", "country", "Which country is [X] located in?"),
        ("P19", "place of birth", "Where was [X] born?"),
        ("P20", "place of death", "Where did [X] die?"),
        ("P26", "spouse", "Who is [X] married to?"),
        ("P36", "capital", "What is the capital of [X]?"),
        ("P40", "child", "Who is [X]'s child?"),
        ("P50", "author", "Who is the author of [X]?"),
        ("P69", "educated at", "Where was [X] educated?"),
        ("P106", "occupation", "What kind of work does [X] do?"),
        ("P112", "founded by", "Who founded [X]?"),
        ("P127", "owned by", "Who owns [X]?"),
        ("P131", "located in the administrative territorial entity", "Where is [X] located?"),
        ("P136", "genre", "What type of music does [X] play?"),
        ("P159", "headquarters location", "Where is the headquarter of [X]?"),
        ("P170", "creator", "Who was [X] created by?"),
        ("P175", "performer", "Who performed [X]?"),
        ("P176", "manufacturer", "Which company is [X] produced by?"),
        ("P264", "record label", "What music label is [X] represented by?"),
        ("P276", "location", "Where is [X] located?"),
        ("P407", "language of work or name", "Which language was [X] written in?"),
        ("P413", "position played on team / speciality", "What position does [X] play?"),
        ("P495", "country of origin", "Which country was [X] created in?"),
        ("P740", "location of formation", "Where was [X] founded?"),
        ("P800", "notable work", "What is [X] famous for?"),
    )
}


def relation_name(id: str) -> str:
    """Return a relation's display name, as in "P19 place of birth"; for an unknown relation, its id."""
    return f"{id} {RELATIONS[id].label}" if id in RELATIONS else id


def relation_order(id: str) -> tuple[int, str]:
    """Return a sort key: Wikidata properties by number (P19 before P106), then other names."""
    number = id[1:]
    return (int(number), "") if id[:1] == "P" and number.isascii() and number.isdigit() else (1 << 62, id)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One line of a table: a group, its number of questions and of units of observation, and a measure of each run.

    `success[run][k]` is an Estimate of Success@k, or of the requested measure.
    """

    group: str
    n: int
    units: int
    success: dict[str, dict[int, Estimate]]


def value_table(
    values: Mapping[str, Mapping[int, np.ndarray]], groups: Sequence[str | None], units: np.ndarray | None = None
) -> list[GroupRow]:
    """Return a measure by group and run.

    Args:
        values: by run and k, (q,) bool or float64 from 0 to 1. Row i is the same question in every run.
        groups: (q,) labels; None leaves a question out.
        units: (q,) int, the unit of observation of each question; None if each question is its own.

    Returns: a row per group, in the order of first occurrence.
    """
    lengths = {len(each) for by_k in values.values() for each in by_k.values()} | {len(groups)}
    if len(lengths) > 1:
        raise ValueError(f"runs and groups over different questions: lengths {sorted(lengths)}")
    units = np.arange(len(groups)) if units is None else units
    members: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        if group is not None:
            members.setdefault(group, []).append(row)
    return [
        GroupRow(
            group,
            len(rows),
            len(np.unique(units[rows])),
            {run: {k: mean(each[rows], units[rows]) for k, each in by_k.items()} for run, by_k in values.items()},
        )
        for group, rows in members.items()
    ]

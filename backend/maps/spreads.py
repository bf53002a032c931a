"""Measure how spread out the positives of each relation are, under each encoder of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from blindspot.analysis.spread import SpreadGroup, group_spread, spread_change
from blindspot.backend.core.study import Study
from blindspot.backend.maps.request import Points

ALL = "all"


def spreads(
    study: Study, points: Points, encoders: Sequence[tuple[np.ndarray, np.ndarray | None]]
) -> list[dict[str, Any]]:
    """Return a row for each relation with at least two positives on the map, largest relation first, and one row for
    all relations.

    Args:
        encoders: (passages (p, d), questions (q, d) or None) for each, rows as in `points`.

    Returns: rows of `group`, then the fields of `blindspot.analysis.spread.Spread` for one encoder, of `SpreadChange` for two.
    """
    own = positives(study, points)
    rows = []
    for relation in (ALL, *sorted({question.relation for question in points.questions if question.relation})):
        asked = [i for i, question in enumerate(points.questions) if own[i] and relation in (ALL, question.relation)]
        members = np.array(sorted({place for i in asked for place in own[i]}), np.int64)
        if len(members) < 2:
            continue
        where = {place: number for number, place in enumerate(members.tolist())}
        group = SpreadGroup(members, np.array(asked, np.int64), [[where[place] for place in own[i]] for i in asked])
        changed = (
            spread_change(encoders[0], encoders[1], group) if len(encoders) == 2 else group_spread(*encoders[0], group)
        )
        rows.append({"group": relation, **asdict(changed)})
    return sorted(rows, key=lambda row: (row["group"] != ALL, -(row.get("before") or row)["positives"]))


def positives(study: Study, points: Points) -> list[list[int]]:
    """Return for each question the positions of its positives in `points.ordinals`. Positives are its gold, corrected
    by labels.
    """
    from blindspot.db.labels import Labels

    ids = [question.id for question in points.questions]
    pairs = (
        [pair for pair in Labels(study.labels_path).corrected_relevance(ids) if pair.relevance == "positive"]
        if ids
        else []
    )
    known = study.corpus.ordinals({pair.passage for pair in pairs})
    where = {ordinal: place for place, ordinal in enumerate(points.ordinals.tolist())}
    ordinals: dict[str, set[int]] = {}
    for pair in pairs:
        place = where.get(known.get(pair.passage, -1))
        if place is not None:
            ordinals.setdefault(pair.question, set()).add(place)
    return [sorted(ordinals.get(id, ())) for id in ids]

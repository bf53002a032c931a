"""Practice: settled questions that every newcomer judges before the queue opens, and then sees where and why they differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backend.core.rights import require
from backend.judging.batches import BatchMade, batch_of_pairs
from db.errors import BadInput, Refused
from db.judgements import Consensus
from db.labels import Labels

if TYPE_CHECKING:
    from backend.core.study import Study

SIZE = 20
_TELLING = ("positive", "related", "negative")


@dataclass(frozen=True, slots=True)
class PracticeMade:
    """The batch, and how many of its questions were adjudicated, and how many rest on the labels of one person."""

    batch: BatchMade
    adjudicated: int
    of_one_person: int


def make_practice(study: Study, name: str, size: int = SIZE, by: str | None = None) -> PracticeMade:
    """Put `size` settled questions into a batch for practice: most people first, of equals the adjudicated ones first.

    A question will do where every passage of it that was judged is settled, none as unsure, and nobody calls it bad. Its
    people are the fewest that judged one of its passages. Labels of practice are judgements of nothing.

    Raises:
        BadInput: a size below 1.
        Refused: fewer questions are settled; the name is taken; `by` may not make batches.
    """
    require(study, by, "make batches")
    if size < 1:
        raise BadInput("practice has one question at least")
    labels = Labels(study.labels_path)
    settled = _settled(labels)
    if len(settled) < size:
        advice = (
            f"label more, settle disputes, or say --size {len(settled)}" if settled else "label first, or import labels"
        )
        raise Refused(f"{size} questions are asked for and {len(settled)} have settled labels; {advice}")
    chosen = sorted(settled, key=lambda id: (-_people(settled[id]), not _adjudicated(settled[id]), id))[:size]
    pairs = [(pair.question, pair.passage) for id in chosen for pair in settled[id]]
    made = batch_of_pairs(study, name, pairs, practice=True, origin="settled labels", by=by)
    return PracticeMade(
        made, sum(_adjudicated(settled[id]) for id in chosen), sum(_people(settled[id]) <= 1 for id in chosen)
    )


def _settled(labels: Labels) -> dict[str, list[Consensus]]:
    pairs: dict[str, list[Consensus]] = defaultdict(list)
    for pair in labels.consensus():
        pairs[pair.question].append(pair)
    bad = labels.bad_questions()
    return {
        id: judged for id, judged in pairs.items() if id not in bad and all(pair.label in _TELLING for pair in judged)
    }


def _people(pairs: list[Consensus]) -> int:
    return min(pair.people for pair in pairs)


def _adjudicated(pairs: list[Consensus]) -> bool:
    return any(pair.state == "adjudicated" for pair in pairs)

"""Practice batches: settled questions that new annotators judge before they get other questions. Afterwards they see
where their labels differ from the settled ones, and why.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.judging.batches import BatchSummary, batch_of_pairs
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput, Refused
from blindspot.db.events import SETTLED
from blindspot.db.judgements import Consensus
from blindspot.db.labels import Labels

SIZE = 20


@dataclass(frozen=True, slots=True)
class PracticeSummary:
    """A practice batch.

    Attributes:
        adjudicated: Number of its questions with an adjudicated passage.
        single_annotator: Number of its questions that rest on one annotator's labels.
    """

    batch: BatchSummary
    adjudicated: int
    single_annotator: int


def make_practice(study: Study, name: str, size: int = SIZE, actor: str | None = None) -> PracticeSummary:
    """Make a practice batch of `size` settled questions. Questions with more annotators are preferred, and among them
    adjudicated ones.

    A question qualifies if all its judged passages have a settled label other than unsure, and nobody marked the
    question as bad. Its number of annotators is the minimum over its passages. Practice labels never count as
    judgements.

    Raises:
        BadInput: a size below 1.
        Refused: fewer questions are settled, the name is taken, or `actor` may not make batches.
    """
    require(study, actor, "make batches")
    if size < 1:
        raise BadInput("a practice batch needs at least one question")
    labels = Labels(study.labels_path)
    settled = _settled_questions(labels)
    if len(settled) < size:
        advice = (
            f"label more, settle disputes, or use --size {len(settled)}"
            if settled
            else "label passages or import labels first"
        )
        raise Refused(
            f"a practice batch of {quantity(size, 'question')} is impossible: {quantity(len(settled), 'question')} "
            f"{noun_form(len(settled), 'has')} settled labels; {advice}"
        )
    chosen = sorted(
        settled, key=lambda id: (-_annotator_count(settled[id]), not _has_adjudicated_pair(settled[id]), id)
    )[:size]
    pairs = [(pair.question, pair.passage) for id in chosen for pair in settled[id]]
    batch = batch_of_pairs(study, name, pairs, practice=True, origin="settled labels", actor=actor)
    return PracticeSummary(
        batch,
        sum(_has_adjudicated_pair(settled[id]) for id in chosen),
        sum(_annotator_count(settled[id]) <= 1 for id in chosen),
    )


def _settled_questions(labels: Labels) -> dict[str, list[Consensus]]:
    pairs: dict[str, list[Consensus]] = defaultdict(list)
    for pair in labels.consensus():
        pairs[pair.question].append(pair)
    bad = labels.bad_questions()
    return {
        id: judged for id, judged in pairs.items() if id not in bad and all(pair.label in SETTLED for pair in judged)
    }


def _annotator_count(pairs: list[Consensus]) -> int:
    return min(pair.people for pair in pairs)


def _has_adjudicated_pair(pairs: list[Consensus]) -> bool:
    return any(pair.state == "adjudicated" for pair in pairs)

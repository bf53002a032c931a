"""The stores that the judging pages use. All sessions of a study share them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from blindspot.backend.core.study import Study
from blindspot.backend.judging.cards import Cards
from blindspot.backend.text.number_words import quantity
from blindspot.db.labels import Labels
from blindspot.db.people import SIMULATED
from blindspot.db.queue import Queue
from blindspot.db.tags import Tags


@dataclass(frozen=True)
class JudgingStores:
    """The stores of one study for judging: the label store, the queue, the cards to judge, and the tags."""

    labels: Labels
    queue: Queue
    cards: Cards
    tags: Tags


def judging_stores(study: Study) -> JudgingStores:
    """Return the stores of a study. A labels.db that was replaced is opened again."""
    return _cached_stores(study, study.labels_path.stat().st_ino)


def label_count_words(study: Study) -> str:
    """Say how many labels there are, as in "600 labels by 2 simulated annotators": each person's last label of a passage
    counts once.
    """
    total, givers = labels_and_givers(study)
    return f"{quantity(total, 'label')} by {givers}"


def labels_and_givers(study: Study) -> tuple[int, str]:
    """Return the number of labels, and whose they are in words, such as "2 simulated annotators"."""
    by_person = judging_stores(study).labels.label_counts_by_person()
    simulated = sum(name.endswith(SIMULATED) for name in by_person)
    people = len(by_person) - simulated
    givers = [quantity(people, "person", "people")] if people or not simulated else []
    givers += [quantity(simulated, "simulated annotator")] if simulated else []
    return sum(by_person.values()), " and ".join(givers)


def labels_owner(study: Study) -> str:
    """Say whose the labels are, as "Simulated annotators' labels" where nobody else gave any."""
    givers = judging_stores(study).labels.label_counts_by_person()
    simulated = bool(givers) and all(name.endswith(SIMULATED) for name in givers)
    return "Simulated annotators' labels" if simulated else "Annotators' labels"


@lru_cache(maxsize=4)  # asked a dozen times a page; Streamlit's caches take 0.2 ms to make their keys
def _cached_stores(study: Study, inode: int) -> JudgingStores:
    path = study.labels_path
    labels = Labels(path, passages=study.corpus.ordinals if study.has_corpus else None)
    return JudgingStores(labels, Queue(path), Cards(study), Tags(path))

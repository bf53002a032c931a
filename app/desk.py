"""The stores that the judging pages use. All sessions of a study share them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from backend.core.study import Study
from backend.judging.cards import Cards
from db.labels import Labels
from db.queue import Queue
from db.tags import Tags


@dataclass(frozen=True)
class Desk:
    """The label store, the queue, the cards to judge, and the tags, of one study."""

    labels: Labels
    queue: Queue
    cards: Cards
    tags: Tags


def desk(study: Study) -> Desk:
    """Return the stores of a study. A replaced labels.db is opened again."""
    return _desk(str(study.labels_path), study.labels_path.stat().st_ino, study)


@st.cache_resource(max_entries=4, show_spinner=False)
def _desk(path: str, inode: int, _study: Study) -> Desk:
    labels = Labels(Path(path), passages=_study.corpus.ordinals if _study.has_corpus else None)
    return Desk(labels, Queue(Path(path)), Cards(_study), Tags(Path(path)))

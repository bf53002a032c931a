"""Live questions: the only way in which the app asks a retriever.

If BLINDSPOT_BACKEND names a service (`blindspot serve`), the service answers. Otherwise this process opens indexes and
encoders and keeps them open. The caller sees no difference.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from blindspot.backend.retrieval import indexes as held
from blindspot.backend.retrieval import remote
from blindspot.backend.retrieval.explanation import Explainer, TermWeights, TokenMatches
from blindspot.backend.retrieval.indexes import Indexes
from blindspot.backend.retrieval.retriever import kind_of
from blindspot.db.errors import Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.retriever import Retriever

MAX_QUESTION = 2000  # limit in characters; Lucene's cost grows with the number of words

_open: dict[Path, Indexes] = {}
_opening = threading.Lock()
_searching = threading.Lock()


def available(study: Study) -> list[str]:
    """Return the names of the retrievers that can answer a question now, of every registered kind.

    If the backend does not answer, these are the retrievers it last offered, or else those of the study. A question to
    one of them then gets the backend's error.
    """
    backend = remote.configured_backend()
    offered = None if backend is None else backend.retrievers()
    return held.available_retrievers(study) if offered is None else list(offered)


def can_answer(study: Study) -> bool:
    """Return whether `available` lists any retriever. It asks one kind after the other and stops at the first."""
    backend = remote.configured_backend()
    offered = None if backend is None else backend.retrievers()
    return held.any_names(study) if offered is None else bool(offered)


def index_state(study: Study) -> tuple:
    """Return a key that changes when an index is rebuilt, here or behind the backend. Pages cache answers under this
    key.
    """
    backend = remote.configured_backend()
    offered = None if backend is None else backend.retrievers()
    if offered is None:
        offered = {name: held.hashes(study, name) for name in held.available_retrievers(study)}
    values = {part: value for parts in offered.values() for part, value in parts.items()}
    return None if backend is None else backend.url, *sorted(values.items())


def search(study: Study, retriever: str, questions: Sequence[str], k: int) -> Hits:
    """Search with a retriever of `available`.

    Raises Missing without an index, Refused for an empty or overlong question, BlindspotError if the backend is down or
    busy.
    """
    for question in questions:
        if not question.strip() or len(question) > MAX_QUESTION:
            raise Refused(f"a question must have between 1 and {MAX_QUESTION} characters")
    if (backend := remote.configured_backend()) is not None:
        return backend.search(study, retriever, questions, k)
    with _opening:
        opened = _open.setdefault(study.folder, Indexes(study))
    with _searching:  # parallel searches would slow each other down
        return opened.search(retriever, questions, k)[0]


@contextmanager
def open_retriever(study: Study, retriever: str) -> Iterator[Retriever]:
    """Yield the retriever that this process keeps open, to one caller at a time. Raises Missing without its index."""
    with _opening:
        held_open = _open.setdefault(study.folder, Indexes(study))
    with _searching:
        yield held_open.open(retriever).retriever


def explains(study: Study, retriever: str) -> bool:
    """Return whether `explain` works for a retriever: it says what scores are made of, and its index is here."""
    kind = kind_of(retriever)
    return (
        kind is not None
        and kind.explains
        and remote.configured_backend() is None
        and retriever in kind.available(study)
    )


def explain(study: Study, retriever: str, question: str, row: int) -> TermWeights | TokenMatches:
    """Return what the score of a passage is made of, by a retriever that `explains`. Raises as `search` does."""
    with _opening:
        opened = _open.setdefault(study.folder, Indexes(study))
    with _searching:
        found = opened.open(retriever).retriever
        if not isinstance(found, Explainer):
            raise Refused(f"{retriever} does not say what its scores are made of")
        return found.explain(question, row)

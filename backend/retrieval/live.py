"""Live questions: the interface through which the app searches with a retriever.

If BLINDSPOT_BACKEND names a service (`blindspot serve`), the service does the search. Otherwise this process opens
indexes and encoders and keeps them open. The results are the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import indexes as held
from blindspot.backend.retrieval import remote
from blindspot.backend.retrieval.indexes import OpenRetrievers
from blindspot.db.errors import Refused
from blindspot.db.records import Hits

MAX_QUESTION = 2000  # limit in characters; Lucene's cost grows with the number of words

_open: dict[Path, OpenRetrievers] = {}
_opening = threading.Lock()
_searching = threading.Lock()


def answering_retrievers(study: Study) -> list[str]:
    """Return the names of the retrievers that can answer a question now, of every registered kind.

    If the backend does not respond, the retrievers that it last offered are returned, or else those of the study. A
    search with one of them then raises the backend's error.
    """
    offered = _offered_by_backend()
    return held.available_retrievers(study) if offered is None else list(offered)


def can_answer(study: Study) -> bool:
    """Return whether `answering_retrievers` lists any retriever. Kinds of retrievers are checked one after the other until one is
    found.
    """
    offered = _offered_by_backend()
    return held.has_retrievers(study) if offered is None else bool(offered)


def _offered_by_backend() -> dict[str, dict[str, str]] | None:
    """Return the retrievers that the backend last offered; None without a backend, or before its first answer."""
    backend = remote.configured_backend()
    return None if backend is None else backend.retrievers()


def index_state(study: Study) -> tuple:
    """Return a key that changes when an index is rebuilt, on this machine or on the backend. Pages use it to cache
    results.
    """
    backend, offered = remote.configured_backend(), _offered_by_backend()
    if offered is None:
        offered = {name: held.manifest_hashes(study, name) for name in held.available_retrievers(study)}
    values = {part: value for parts in offered.values() for part, value in parts.items()}
    return None if backend is None else backend.url, *sorted(values.items())


def search(study: Study, retriever: str, questions: Sequence[str], k: int) -> Hits:
    """Search with a retriever of `answering_retrievers`.

    Raises Missing if there is no index, Refused for an empty or too long question, and BlindspotError if the backend is
    down or busy.
    """
    for question in questions:
        if not question.strip() or len(question) > MAX_QUESTION:
            raise Refused(f"a question must have between 1 and {MAX_QUESTION} characters")
    if (backend := remote.configured_backend()) is not None:
        return backend.search(study, retriever, questions, k)
    with _open_retrievers(study) as opened:
        return opened.search(retriever, questions, k)[0]


@contextmanager
def _open_retrievers(study: Study) -> Iterator[OpenRetrievers]:
    """Yield the retrievers that this process keeps open, to one caller at a time: parallel searches would slow each
    other down.
    """
    with _opening:
        opened = _open.setdefault(study.folder, OpenRetrievers(study))
    with _searching:
        yield opened

"""One question, now: the only way in which the app asks a retriever.

Where BLINDSPOT_BACKEND names a service (`blindspot serve`), that one is asked. Else indexes and encoders are opened here and held
for the life of the process. Whoever asks cannot tell the two apart.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend.retrieval import indexes as held
from backend.retrieval import remote
from backend.retrieval.indexes import Indexes
from db.errors import Refused
from db.records import Hits

if TYPE_CHECKING:
    from backend.core.study import Study

MAX_QUESTION = 2000  # characters; longer ones are no question, and Lucene's cost grows with their words

_open: dict[Path, Indexes] = {}
_opening = threading.Lock()
_searching = threading.Lock()


def available(study: Study) -> list[str]:
    """The retrievers that can answer a question now: "bm25", each dense index, "hybrid:NAME" for each pair, "milvus:NAME".

    Of a backend that does not answer, those that it last had, or those of the study: asking one of them says what is wrong.
    """
    backend = remote.chosen()
    offered = None if backend is None else backend.retrievers()
    return held.names(study) if offered is None else list(offered)


def made(study: Study) -> tuple:
    """Changes when an index is made again, here or behind the backend: what a page that keeps answers keeps them by."""
    backend = remote.chosen()
    offered = None if backend is None else backend.retrievers()
    if offered is None:
        offered = {name: held.hashes(study, name) for name in held.names(study)}
    found = {part: value for parts in offered.values() for part, value in parts.items()}
    return None if backend is None else backend.url, *sorted(found.items())


def search(study: Study, retriever: str, questions: Sequence[str], k: int) -> Hits:
    """Search with a retriever of `available`.

    Raises Missing when its index is not there, Refused for an empty or overlong question, BlindspotError when the backend is
    down or busy.
    """
    for question in questions:
        if not question.strip() or len(question) > MAX_QUESTION:
            raise Refused(f"a question must have between 1 and {MAX_QUESTION} characters")
    if (backend := remote.chosen()) is not None:
        return backend.search(study, retriever, questions, k)
    with _opening:
        opened = _open.setdefault(study.folder, Indexes(study))
    with _searching:  # two at once would only slow each other
        return opened.search(retriever, questions, k)[0]

"""An open study in Python: opening, creating and generating studies, and look-ups that the other modules of the
interface share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.db.errors import BadInput

TITLES_PER_READ = 100_000


def as_list(names: str | Sequence[str]) -> list[str]:
    """Return names as a list; a single name may be given without a list."""
    return [names] if isinstance(names, str) else list(names)


class OpenedStudy:
    """An open study.

    Attributes:
        study: the underlying study, for everything that has no method here. Its functions are not a stable interface.
    """

    def __init__(self, study: Study):
        self.study = study

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Self:
        """Open the study in a folder (default $BLINDSPOT_STUDY, else the current folder). Raises Missing."""
        return cls(Study.open(folder))

    @classmethod
    def create(cls, folder: str | Path, name: str | None = None) -> Self:
        """Create an empty study in a new or empty folder. Raises Refused if the folder is not empty."""
        return cls(Study.create(folder, name))

    @classmethod
    def example(cls, folder: str | Path, passages: Literal[600, 2000] = 600) -> Self:
        """Create a study of invented passages and questions with gold, for trying things out.

        The questions have relations, subjects and frequencies, in the splits train, dev and test. Raises Refused if
        the folder is not empty, or for another number of passages.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.data.encyclopedia import collection
        from blindspot.backend.data.importing.importer import import_passages, import_questions

        source = collection(passages)
        study = Study.create(folder, "Invented encyclopedia")
        jobs.run(import_passages, study, str(source / "passages.tsv.gz"))
        jobs.run(import_questions, study, str(source / "questions.jsonl.gz"))
        return cls(study)

    def __repr__(self) -> str:
        return f"Study({str(self.study.folder)!r})"

    @property
    def folder(self) -> Path:
        """The study's folder."""
        return self.study.folder

    def _passage_rows(self, ids: Sequence[str]) -> dict[str, int]:
        known = self.study.corpus.ordinals(dict.fromkeys(ids))
        if absent := next((id for id in ids if id not in known), None):
            raise BadInput(f"the study has no passage {absent!r}")
        return dict(known)

    def _check_questions(self, ids: Sequence[str]) -> None:
        known = {question.id for question in self.study.questions.all()}
        if absent := next((id for id in ids if id not in known), None):
            raise BadInput(f"the study has no question {absent!r}")

    def _ids_of(self, rows: np.ndarray) -> list[str]:
        """Return the ids of passage rows; each id is read once."""
        unique, place = np.unique(rows, return_inverse=True)
        read: Callable[[list[int]], list[Any]] = self.study.corpus.passages
        ids = [
            passage.id
            for start in range(0, len(unique), TITLES_PER_READ)
            for passage in read(unique[start : start + TITLES_PER_READ].tolist())
        ]
        return np.array(ids, dtype=object)[place].tolist() if ids else []

"""Runs: the hits of a retriever for a set of questions, stored as memory-mapped arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.manifest import (
    Manifest,
    atomic_folder,
    read_json,
    read_manifest,
    text_sha256,
    write_json,
    write_manifest,
)
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import DEFAULT_RULE, RULES, match_run, matrix_file
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits

RUN = "run"  # in manifests: the kind of a run whose retriever names none
_AGAIN = "delete the run and retrieve again"


class Run:
    """A finished run. `hits` and `answers(rule)` are memory-mapped, so opening a run takes milliseconds at any size."""

    def __init__(self, folder: Path, manifest: Manifest):
        self.folder, self.name, self.manifest = folder, folder.name, manifest

    @classmethod
    def open(cls, study: Study, name: str) -> Run:
        """Open a run.

        Raises:
            Missing: The run is absent or unfinished.
            Refused: The run was made over other passages.
        """
        manifest = study.finished_manifest("runs", name, "run", "retrieve", "retrieve again")
        return cls(study.path("runs", name), manifest)

    @cached_property
    def question_ids(self) -> list[str]:
        """The question id of each row of the arrays."""
        path = self.folder / "questions.json"
        ids = read_json(path)
        if not isinstance(ids, list) or not {*map(type, ids)} <= {str}:
            raise BadInput(f"must be a list of question ids; {_AGAIN}", path)
        expected = self.manifest.get("questions", len(ids))
        if len(ids) != expected:
            raise BadInput(f"lists {len(ids):,} questions, but the run has {expected:,}; {_AGAIN}", path)
        return ids

    @property
    def n_questions(self) -> int:
        """The number of questions, read without loading the ids (70 MB for a million questions)."""
        number = self.manifest.get("questions")
        return number if isinstance(number, int) else len(self.question_ids)

    @cached_property
    def _row_of_question(self) -> dict[str, int]:
        return {question_id: row for row, question_id in enumerate(self.question_ids)}

    def row(self, question_id: str) -> int | None:
        return self._row_of_question.get(question_id)

    @cached_property
    def hits(self) -> Hits:
        return Hits(self._array("ordinals.npy"), self._array("scores.npy"))

    def answers(self, rule: str = "dpr") -> np.ndarray:
        """Return (q, k) bool: whether each hit contains an answer under this rule. Raises Missing if the run has no
        such matrix."""
        if not (self.folder / matrix_file(rule)).is_file():
            raise Missing(f"run {self.name!r} has no answer matrix for the rule {rule!r}")
        return self._array(matrix_file(rule))

    @property
    def rules(self) -> list[str]:
        """The answer-matching rules for which this run has an answer matrix."""
        return sorted(rule for rule in RULES if (self.folder / matrix_file(rule)).is_file())

    def _array(self, name: str) -> np.ndarray:
        path = self.folder / name
        array = open_array(path, _AGAIN)
        if array.ndim != 2 or len(array) != self.n_questions:
            raise BadInput(
                f"has the shape {array.shape}, but the run has {self.n_questions:,} questions; {_AGAIN}",
                path,
            )
        return array


def answer_matrix(study: Study, run: Run) -> np.ndarray:
    """Return (q, k) bool: whether each hit contains an answer under the run's own rule.

    The answers are matched again if the run has no matrix for that rule.
    """
    rule = run.manifest.get("rule", DEFAULT_RULE)
    try:
        return run.answers(rule)
    except Missing:
        return match_run(study.corpus, study.questions.with_ids(run.question_ids), run.hits.ordinals, rule)


def question_set_hash(question_ids: Sequence[str]) -> str:
    return text_sha256(*question_ids)


def write_run(
    study: Study,
    name: str,
    question_ids: Sequence[str],
    hits: Hits,
    settings: Mapping[str, Any],
    *,
    rule: str = "dpr",
    replace: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Store hits as a run, with its answer matrix.

    Args:
        question_ids: The question of each row of `hits`; all are questions of the study.
        settings: How the hits were made (retriever, index, k, split, seconds, ...), for the manifest.
        rule: The answer rule of the matrix (see `blindspot.backend.text.answers`).

    Raises:
        Refused: A run of that name exists and `replace` is false, or a hit is not a passage of the study.
    """
    _check_new_run(study, name, question_ids, hits, replace)
    questions = study.questions.with_ids(question_ids)
    answers = match_run(study.corpus, questions, hits.ordinals, rule=rule, progress=progress)
    return _store(study, name, question_ids, hits, {**settings, "rule": rule}, answers, replace)


def _check_new_run(study: Study, name: str, question_ids: Sequence[str], hits: Hits, replace: bool) -> None:
    check_name(name, "run")
    refuse_existing(study, name, replace)
    if len(question_ids) != len(hits) or hits.ordinals.max(initial=-1) >= len(study.corpus):
        raise Refused(f"run {name!r}: hits do not fit the questions or the passages of the study")


def _store(
    study: Study,
    name: str,
    question_ids: Sequence[str],
    hits: Hits,
    settings: Mapping[str, Any],
    answers: np.ndarray,
    replace: bool,
) -> Run:
    claim = study.lock_part(f"runs/{name}", lambda: refuse_existing(study, name, replace))
    with claim, atomic_folder(study.path("runs", name)) as building:
        write_json(building / "questions.json", list(question_ids))
        np.save(building / "ordinals.npy", hits.ordinals.astype(np.int32, copy=False))
        np.save(building / "scores.npy", hits.scores.astype(np.float32, copy=False))
        np.save(building / matrix_file(settings["rule"]), answers)
        write_manifest(
            building,
            {
                "kind": RUN,
                "name": name,
                "ties": "equal scores are ordered by the passage's row in the collection",
                **settings,
                "k": hits.k,
                "questions": len(question_ids),
                "question_set": question_set_hash(question_ids),
                "corpus": study.corpus.digest,
            },
        )
    return Run.open(study, name)


def claim_run(study: Study, name: str, replace: bool) -> AbstractContextManager[None]:
    """Reserve the name of a run before the search that produces its hits.

    Raises:
        Refused: The run exists and `replace` is false, or another process makes it.
    """
    check_name(name, "run")
    refuse_existing(study, name, replace)
    return study.reserve_part(f"runs/{name}", lambda: refuse_existing(study, name, replace))


def refuse_existing(study: Study, name: str, replace: bool) -> None:
    if not replace and read_manifest(study.path("runs", name)) is not None:
        raise Refused(f"there is already a run named {name!r}; give --name, or --replace to make it again")


_ENDINGS = re.compile(r"(\.(trec|run|res|txt|tsv|csv|jsonl?|gz|xz|bz2|zst))+$", re.IGNORECASE)


def run_name_of(path: Path, taken_names: Iterable[str] = ()) -> str:
    """Return a run's name derived from its file name, without endings such as .trec or .json.gz. A number is appended
    if the name is taken.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", _ENDINGS.sub("", path.name)).strip("-._")[:56] or "run"
    used = set(taken_names)
    return next(each for each in (name, *(f"{name}-{n}" for n in range(2, len(used) + 3))) if each not in used)

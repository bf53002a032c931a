"""Import another tool's run into a study that already has the run's passages and questions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.own_passages import LEFT_OUT, own_rows, without_own
from blindspot.backend.core.runs import Run, claim_run, write_run
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.core.study import Study
from blindspot.backend.core.ties import TIES, tied_order
from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import Options, RunEntry
from blindspot.backend.data.formats.streams import file_sha256
from blindspot.backend.data.importing.gold import find_ordinals, text_key
from blindspot.backend.data.importing.importer import ImportResult
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.run_rows import RunRows, compare_flags
from blindspot.backend.data.importing.settings import RunImport
from blindspot.backend.data.importing.tools import ThrottledProgress, readable_write_errors
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput
from blindspot.db.records import Hits, Question

HITS_LOOKED_UP = 20_000


@job("import run")
@named_settings(RunImport)
def import_run(
    study: Study,
    path: str | Path,
    name: str,
    format: str | None = None,
    *,
    settings: RunImport,
    progress: Progress | None = None,
) -> ImportResult:
    """Import a run. Hits are ordered by score. `rows` of the result is the number of questions.

    Raises:
        BadInput: the first error, with file and line; also a question or passage that is not in the study.
        Refused: a run of this name exists and was made from another file.
        Missing: the study has no passages, or no questions of that split.
    """
    began, path, split, rule = time.monotonic(), Path(path), settings.split, settings.rule
    check_name(name, "run")
    chosen, report = find_format(path, "runs", format), ThrottledProgress(progress)
    origin = {
        "retriever": "imported",
        "imported_from": path.name,
        "sha256": file_sha256(path),
        "format": chosen.name,
        "split": split,
        "ties": TIES[settings.ties],
        "tie_order": settings.ties,
        **({"own_passage": LEFT_OUT} if settings.without_own_passage else {}),
    }
    manifest = read_manifest(study.path("runs", name))
    if manifest and not settings.replace and _same_file({"tie_order": "file", **manifest}, origin):
        return ImportResult(0, unchanged=True, notes=(f"{path.name} was imported before; nothing was changed",))
    corpus, questions = study.corpus, questions_in_split(study, split)
    with (
        claim_run(study, name, settings.replace),
        readable_write_errors(study.folder),
        RejectedRows(study.folder, path, settings.skip_bad) as rejected,
    ):
        with chosen.opened(path, Options(split=split)) as entries:
            matcher = _QuestionMatcher(study, questions, split)
            rows = _read_run_rows(corpus, matcher, entries, rejected, report)
        if not len(rows):
            asked = f" of questions of split {split!r}, only of others" if matcher.left_out else ""
            raise rejected.first or BadInput(f"holds no hits{asked}", path)
        silent = [q.id for q in questions if q.id not in rows] if split is not None else []
        ids, hits, flags = rows.finish(silent)
        hits, flags = _arrange_rows(corpus, ids, hits, flags, settings.ties, settings.without_own_passage)
        run = write_run(study, name, ids, hits, origin, rule=rule, replace=settings.replace, progress=progress)
    notes = [*_flag_notes(run, flags, path.name, rule), *_split_notes(path.name, split, len(silent), matcher)]
    return ImportResult(len(ids), rejected.count, rejected.file, time.monotonic() - began, notes=tuple(notes))


def _same_file(manifest: Mapping[str, Any], origin: Mapping[str, Any]) -> bool:
    """Return whether an existing run was imported from the same file with the same settings."""
    return all(manifest.get(key) == origin.get(key) for key in ("sha256", "split", "tie_order", "own_passage"))


def _flag_notes(run: Run, flags: np.ndarray, file: str, rule: str) -> list[str]:
    compared = compare_flags(run, flags, rule)
    return [compared.summary(file, rule)] if compared.compared else []


def _split_notes(file: str, split: str | None, without_hits: int, matcher: _QuestionMatcher) -> list[str]:
    """Return notes on how many questions of the split the file lacks, and how many questions of other splits it
    contains.
    """
    notes = []
    if without_hits:
        notes.append(
            f"{quantity(without_hits, 'question')} of {split!r} {noun_form(without_hits, 'is')} not in {file}, and "
            f"{noun_form(without_hits, 'counts')} as not found"
        )
    if others := len(matcher.left_out):
        notes.append(f"{quantity(others, 'question')} of other splits {noun_form(others, 'was', 'were')} left out")
    return notes


def _arrange_rows(
    corpus: Corpus, ids: Sequence[str], hits: Hits, flags: np.ndarray, ties: str, without_own_passage: bool
) -> tuple[Hits, np.ndarray]:
    """Return the hits and the file's answer flags with ties broken as `ties` says. On request, each question's own
    passage is removed.
    """
    if ties != "file":
        hits, flags = _reorder_hits(corpus, hits, flags, ties)
    if without_own_passage:
        ordinals, scores, flags = without_own(hits.ordinals, own_rows(corpus, ids), hits.k, hits.scores, flags)
        hits = Hits(ordinals, scores)
    return hits, flags


def _reorder_hits(corpus: Corpus, hits: Hits, flags: np.ndarray, ties: str) -> tuple[Hits, np.ndarray]:
    """Return the hits and the file's answer flags with ties broken as `ties` says."""
    ordinals, scores, flags = hits.ordinals.copy(), hits.scores.copy(), flags.copy()
    for row in range(len(ordinals)):
        n_hits = int((ordinals[row] >= 0).sum())
        ids = [passage.id for passage in corpus.passages(ordinals[row, :n_hits].tolist())] if ties == "id" else []
        order = tied_order(scores[row, :n_hits], ordinals[row, :n_hits], ids, ties)
        for matrix in (ordinals, scores, flags):
            matrix[row, :n_hits] = matrix[row, :n_hits][order]
    return Hits(ordinals, scores), flags


def _read_run_rows(
    corpus: Corpus,
    matcher: _QuestionMatcher,
    entries: Iterable[RunEntry | BadInput],
    rejected: RejectedRows,
    report: ThrottledProgress,
) -> RunRows:
    rows = RunRows()
    for entry, ordinals in _with_passage_rows(corpus, entries):
        if isinstance(entry, BadInput):
            rejected.add(entry)
            continue
        for problem in entry.problems:
            rejected.add(problem)
        try:
            question = matcher.find(entry)
            if question is None:
                continue
            if entry.question is not None and question.id in rows:
                raise BadInput(f"the question {question.id!r} occurs twice", entry.path, entry.line)
        except BadInput as problem:
            rejected.add(problem)
            continue
        rows.add(question.id, _hits(ordinals, entry, rows.rows_of(question.id), rejected))
        report(len(rows), None, "reading the run")
    return rows


def _with_passage_rows(
    corpus: Corpus, entries: Iterable[RunEntry | BadInput]
) -> Iterator[tuple[RunEntry | BadInput, Mapping[str, int]]]:
    """Yield each entry with the rows of its passages. Passages of many entries are looked up together, because an entry
    may have only one hit.
    """
    waiting: list[RunEntry | BadInput] = []
    ids: set[str] = set()
    count = 0
    for entry in entries:
        waiting.append(entry)
        if isinstance(entry, RunEntry):
            ids.update(context.id for context in entry.contexts)
            count += len(entry.contexts)
        if isinstance(entry, BadInput) or count >= HITS_LOOKED_UP:
            ordinals = find_ordinals(corpus, ids)
            yield from ((pending, ordinals) for pending in waiting)
            waiting, ids, count = [], set(), 0
    ordinals = find_ordinals(corpus, ids)
    yield from ((pending, ordinals) for pending in waiting)


def _hits(
    ordinals: Mapping[str, int], entry: RunEntry, known_rows: set[int], rejected: RejectedRows
) -> list[tuple[int, float, bool | None]]:
    hits = []
    for context in entry.contexts:
        if context.id not in ordinals:
            rejected.add(BadInput(f"the passage {context.id!r} is not in the collection", entry.path, context.line))
        elif (ordinal := ordinals[context.id]) in known_rows:
            rejected.add(
                BadInput(f"the passage {context.id!r} occurs twice for one question", entry.path, context.line)
            )
        else:
            known_rows.add(ordinal)
            hits.append((ordinal, context.score, context.has_answer))
    return hits


class _QuestionMatcher:
    """Finds the study's question for an entry by its id, or else by its text, because DPR's format has no ids."""

    def __init__(self, study: Study, questions: Sequence[Question], split: str | None):
        self._study, self._split = study, split
        self.left_out: set[str] = set()
        self._by_id = {question.id: question for question in questions}
        self._by_text: dict[str, list[Question]] = {}
        for question in questions:
            self._by_text.setdefault(text_key(question.text), []).append(question)
        self._taken: set[str] = set()

    @cached_property
    def _questions_of_other_splits(self) -> tuple[set[str], set[str]]:
        """Return the ids and the text keys of the study's questions in other splits."""
        others = [] if self._split is None else [q for q in self._study.questions.all() if q.id not in self._by_id]
        return {question.id for question in others}, {text_key(question.text) for question in others}

    def _is_elsewhere(self, entry: RunEntry, key: str | None) -> bool:
        ids, texts = self._questions_of_other_splits
        return entry.question_id in ids if key is None else key in texts

    def find(self, entry: RunEntry) -> Question | None:
        """Return the question of an entry. If the study has it in another split, return None and count it in
        `left_out`.

        Raises BadInput if the study does not have the question, or if questions of several sets have its text.
        """
        key = None if entry.question is None else text_key(entry.question)
        named = None if entry.question_id is None else self._by_id.get(entry.question_id)
        if named is not None and key in (None, text_key(named.text)):
            return named
        if key not in self._by_text and self._is_elsewhere(entry, key):
            self.left_out.add(key or str(entry.question_id))
            return None
        if key is None or entry.question is None:
            raise BadInput(f"the question {entry.question_id!r} is not in the study", entry.path, entry.line)
        candidates = self._by_text.get(key, [])
        same = [question for question in candidates if set(question.answers) == set(entry.answers)]
        candidates = same or candidates
        if not candidates:
            raise BadInput(f"the question {entry.question[:80]!r} is not in the study", entry.path, entry.line)
        if len({(question.dataset, question.split) for question in candidates}) > 1:
            where = ", ".join(question.id for question in candidates[:3])
            raise BadInput(
                f"the question {entry.question[:80]!r} is in several sets ({where}); use --split",
                entry.path,
                entry.line,
            )
        chosen = next((question for question in candidates if question.id not in self._taken), candidates[-1])
        self._taken.add(chosen.id)
        return chosen

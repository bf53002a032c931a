"""Make a study from retriever output alone. The questions, answers, passages and scores come from results files."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from blindspot.backend.core.runs import run_name_of, write_run
from blindspot.backend.core.sampling import text_key as hash_text
from blindspot.backend.core.study import SETTINGS_FILE, Study, refuse_used_folder
from blindspot.backend.data.formats import find_format
from blindspot.backend.data.formats.base import Context, RunEntry, as_split, passage_fault, question_fault
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.streams import file_sha256
from blindspot.backend.data.importing.gold import text_key, toggle_wiki_prefix
from blindspot.backend.data.importing.joined_facts import with_facts
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.run_rows import FlagComparison, RunRows, compare_flags
from blindspot.backend.data.importing.tools import ThrottledProgress, readable_write_errors, refuse_other_values
from blindspot.backend.progress import Progress
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.corpus import CorpusWriter, Row
from blindspot.db.errors import BadInput, Refused
from blindspot.db.imports import ImportRecord, Imports
from blindspot.db.records import SPLITS, Question

KIND = "results"  # of the import record
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class FileResult:
    """The run made from a file. `changed` is the number of questions whose answers differ from an earlier file."""

    run: str
    file: str
    questions: int
    depth: int
    flags: FlagComparison
    changed: int
    left_out: int
    left_out_file: Path | None


@dataclass(frozen=True, slots=True)
class ResultsImport:
    """The study made from results files. joined: the number of questions that got facts from a questions file; None if
    no such file was given.
    """

    study: Study
    passages: int
    files: list[FileResult]
    seconds: float
    joined: int | None


def study_from_results(
    folder: str | Path,
    files: Sequence[str | Path],
    title: str | None = None,
    split: str = "test",
    skip_bad: bool = False,
    progress: Progress | None = None,
    questions: str | Path | None = None,
) -> ResultsImport:
    """Make a study from results files. Every file becomes a run, named after the file. If an error occurs, no study is
    left.

    Questions with the same text in several files are one question. A passage that occurs in several files is stored
    once.

    Args:
        split: The split of all questions. Results are usually on a test set, and questions of the split test never
        train.
        questions: A questions file, such as EntityQuestions' own. The same questions get its relations, subjects,
        frequencies and buckets.

    Raises:
        BadInput: the first thing that is wrong, with file and line; also one id with two different texts, with both
        places.
        Refused: the folder is in use, or a split that does not exist.
    """
    began, folder = time.monotonic(), Path(folder)
    refuse_other_values("split", split, SPLITS)
    if not files:
        raise Refused("there is no results file to start from")
    refuse_used_folder(folder)
    made_folder = not folder.exists()
    building = folder / ".building"
    with readable_write_errors(folder):
        building.mkdir(parents=True)
        try:
            study = Study.create(building, title if title is not None else folder.absolute().name)
            facts = None if questions is None else Path(questions)
            gathered = _ResultsCollector(split)
            passages, results, joined = _fill_study(
                study, gathered, [Path(file) for file in files], skip_bad, facts, progress
            )
            for store in (study.questions, study.corpus):
                store.close()
            # The settings come last, because a folder is a study only with its settings.
            for part in sorted(building.iterdir(), key=lambda part: part.name == SETTINGS_FILE):
                part.rename(folder / part.name)
            building.rmdir()
        except BaseException:
            shutil.rmtree(building, ignore_errors=True)
            if made_folder:
                folder.rmdir()
            raise
    results = [_with_moved_paths(result, folder.absolute()) for result in results]
    return ResultsImport(Study.open(folder), passages, results, time.monotonic() - began, joined)


def _with_moved_paths(result: FileResult, folder: Path) -> FileResult:
    place = result.left_out_file
    return replace(result, left_out_file=None if place is None else folder / place.parent.name / place.name)


def _fill_study(
    study: Study,
    collector: _ResultsCollector,
    files: list[Path],
    skip_bad: bool,
    facts: Path | None,
    progress: Progress | None,
) -> tuple[int, list[FileResult], int | None]:
    readings, report = [], ThrottledProgress(progress)
    with CorpusWriter(study.folder / "corpus.db") as writer:
        for number, path in enumerate(files):
            with RejectedRows(study.folder, path, skip_bad) as rejected:
                readings.append((collector.read_results(path, number, writer, rejected, report), rejected))
        collector.write(writer)
        count = writer.count
        if not count:
            raise BadInput("holds no passages", files[0])
        hashes = [file_sha256(path) for path in files]
        joint = hashes[0] if len(files) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
        writer.finish(", ".join(path.name for path in files), joint)
    questions, joined = (
        (collector.questions, None)
        if facts is None
        else with_facts(collector.questions, facts, collector.split, report)
    )
    study.questions.add(questions)
    results: list[FileResult] = []
    for path, sha256, (reading, rejected) in zip(files, hashes, readings, strict=True):
        taken = [result.run for result in results]
        results.append(_store_run(study, path, sha256, reading, rejected, taken, collector, progress))
    return count, results, joined


def _store_run(
    study: Study,
    path: Path,
    sha256: str,
    run_file: _RunFile,
    rejected: RejectedRows,
    taken_names: Iterable[str],
    collector: _ResultsCollector,
    progress: Progress | None,
) -> FileResult:
    ids, hits, flags = run_file.rows.finish()
    run = write_run(
        study,
        run_name_of(path, taken_names),
        ids,
        hits,
        {
            "retriever": "imported",
            "imported_from": path.name,
            "sha256": sha256,
            "format": run_file.format,
            "split": collector.split,
        },
        rule=DEFAULT_RULE,
        progress=progress,
    )
    compared = compare_flags(run, flags, DEFAULT_RULE)
    figures = {
        "run": run.name,
        "flags": compared.compared,
        "only_file": compared.only_file,
        "only_here": compared.only_here,
    }
    record = ImportRecord(KIND, path.name, sha256, path.stat().st_size, len(ids), rejected.count, json.dumps(figures))
    Imports(study.labels_path).add(record)
    return FileResult(run.name, path.name, len(ids), hits.k, compared, run_file.changed, rejected.count, rejected.file)


@dataclass(slots=True)
class _RunFile:
    """The content of a results file."""

    format: str
    rows: RunRows = field(default_factory=RunRows)
    changed: int = 0


class _ResultsCollector:
    """Collects the distinct questions and passages of all files."""

    def __init__(self, split: str):
        self.questions: list[Question] = []
        self.split = split
        self._ids: set[str] = set()
        self._by_text: dict[str, list[Question]] = {}
        self._passages: dict[str, tuple[int, bytes, int, int]] = {}  # ordinal, digest, file, line
        self._files: list[Path] = []
        self._waiting: list[Row] = []

    def read_results(
        self, path: Path, number: int, writer: CorpusWriter, rejected: RejectedRows, report: ThrottledProgress
    ) -> _RunFile:
        self._files.append(path)
        form = find_format(path, "runs", None)
        reading, index = _RunFile(form.name), 0
        with form.opened(path) as entries:
            for entry in entries:
                if isinstance(entry, BadInput):
                    rejected.add(entry)
                    continue
                if entry.question is None:
                    raise BadInput(
                        f"holds ids without texts ({form.name}); import its passages and questions, and then "
                        "'blindspot import run'",
                        path,
                    )
                self._add_entry(entry, index, number, reading, rejected)
                index += 1
                if len(self._waiting) >= _BATCH:
                    self.write(writer)
                report(index, None, f"reading {path.name}")
        if not len(reading.rows):
            raise rejected.first or BadInput("holds no questions", path)
        return reading

    def write(self, writer: CorpusWriter) -> None:
        writer.add_rows(self._waiting)
        self._waiting = []

    def _add_entry(
        self, entry: RunEntry, index: int, file_number: int, run_file: _RunFile, rejected: RejectedRows
    ) -> None:
        try:
            question = self._find_or_add_question(entry, index, run_file)
        except BadInput as problem:
            rejected.add(problem)
            return
        for wrong in entry.problems:
            rejected.add(wrong)
        hits, seen = [], set()
        for context in entry.contexts:
            try:
                ordinal = self._find_or_add_passage(context, entry, file_number)
                if ordinal in seen:
                    raise BadInput(
                        f"the passage {context.id!r} occurs twice for one question", entry.path, context.line
                    )
            except BadInput as problem:
                rejected.add(problem)
                continue
            seen.add(ordinal)
            hits.append((ordinal, context.score, context.has_answer))
        run_file.rows.add(question.id, hits)

    def _find_or_add_question(self, entry: RunEntry, index: int, run_file: _RunFile) -> Question:
        text = entry.question or ""
        same = self._by_text.setdefault(text_key(text), [])
        # If a text occurs twice in a file, it counts as two questions; the next file's first occurrence matches the
        # first of these.
        known = next((question for question in same if question.id not in run_file.rows), None)
        if known is not None:
            run_file.changed += set(known.answers) != set(entry.answers)
            return known
        dataset = file_stem(self._files[0])
        id = f"{file_stem(Path(entry.path))}.{index}"
        if entry.question_id is not None and entry.question_id not in self._ids:
            id = entry.question_id
        while id in self._ids:
            id += "-2"
        question = Question(id, text, tuple(dict.fromkeys(entry.answers)), dataset=dataset, split=as_split(self.split))
        if message := question_fault(question):
            raise BadInput(message, entry.path, entry.line)
        same.append(question)
        self._ids.add(id)
        self.questions.append(question)
        return question

    def _find_or_add_passage(self, context: Context, entry: RunEntry, file_number: int) -> int:
        """Return the row of a passage, adding it if it is new. Raises BadInput if its id is already used for another
        text.
        """
        if context.text is None:
            raise BadInput(
                f"the passage {context.id!r} has no text; import the passages, and then 'blindspot import run'",
                entry.path,
                context.line,
            )
        row = (context.id, context.title or "", context.text)
        digest = hash_text(" ".join(f"{row[1]}\0{row[2]}".split()))
        known = self._passages.get(context.id) or self._passages.get(toggle_wiki_prefix(context.id))
        if known is not None:
            if known[1] != digest:
                raise BadInput(
                    f"the passage {context.id!r} has another text than in {self._files[known[2]]}:{known[3]}; do the "
                    "files come from one collection?",
                    entry.path,
                    context.line,
                )
            return known[0]
        if message := passage_fault(row):
            raise BadInput(f"the passage {context.id[:80]!r}: {message}", entry.path, context.line)
        self._passages[context.id] = (len(self._passages), digest, file_number, context.line or 0)
        self._waiting.append(row)
        return len(self._passages) - 1

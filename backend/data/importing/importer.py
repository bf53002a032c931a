"""Import files into a study. An import that fails, is cancelled or is interrupted leaves the study unchanged."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import find_format, settings_of
from blindspot.backend.data.formats.base import Format, ImportedQuestion, Options, PassageBatch, Qrel, check_batch
from blindspot.backend.data.formats.streams import file_sha256
from blindspot.backend.data.importing.gold import gold_notes, graded_notes, resolve_paragraphs, text_key
from blindspot.backend.data.importing.mentions import count_mentions
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.settings import QuestionImport
from blindspot.backend.data.importing.tools import (
    ThrottledProgress,
    readable_write_errors,
    refuse_other_values,
    source_file,
    source_sha256,
)
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.corpus import CorpusWriter, DuplicateId, pack_text
from blindspot.db.errors import BadInput, Refused
from blindspot.db.gold import GoldMatch
from blindspot.db.imports import ImportRecord, Imports
from blindspot.db.records import SPLITS

COUNTED = "counted in the passages"


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import.

    Attributes:
        rows: Number of imported rows.
        left_out: Number of rows left out; `left_out_file` lists them.
        unchanged: The study already had all of the file.
        notes: Remarks for the user, one line each.
    """

    rows: int
    left_out: int = 0
    left_out_file: Path | None = None
    seconds: float = 0.0
    unchanged: bool = False
    notes: tuple[str, ...] = ()


@job("import passages")
def import_passages(
    study: Study,
    path: str | Path,
    format: str | None = None,
    skip_bad: bool = False,
    settings: Sequence[str] = (),
    progress: Progress | None = None,
) -> ImportResult:
    """Import the study's passage collection. The file is streamed, so memory does not grow with its size.

    Args:
        format: A name from `blindspot.backend.data.formats`; by default the contents decide.
        skip_bad: Leave out wrong rows and list them in a file of the study, instead of raising.
        settings: Settings of the format, as "name=value".

    Raises:
        BadInput: the first error, with file and line.
        Refused: the study already has a different collection, or the format has no such setting.
    """
    began, path = time.monotonic(), Path(path)
    if study.has_corpus:
        return _refuse_second_collection(study, path, format)
    chosen, report = find_format(path, "passages", format), ThrottledProgress(progress)
    path, options = source_file(chosen, path), Options(settings=settings_of(chosen, settings))
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        try:
            written = _build_corpus(study, chosen, path, options, rejected, {}, report)
        except _DuplicateRows as error:
            if not skip_bad:
                raise _duplicate_error_with_lines(error, chosen, path, options) from None
            # Rows are numbered without gaps, so the file is read again without the duplicates.
            rejected.restart()
            written = _build_corpus(study, chosen, path, options, rejected, error.all, report)
    settings_json = json.dumps(dict(options.settings)) if options.settings else ""
    size = path.stat().st_size if path.is_file() else 0
    Imports(study.labels_path).add(
        ImportRecord("passages", path.name, written.sha256, size, written.rows, rejected.count, settings_json)
    )
    notes = []
    if count := written.multiline_count:
        notes.append(f"{quantity(count, 'passage')} {noun_form(count, 'goes', 'go')} over several lines")
    return ImportResult(written.rows, rejected.count, rejected.file, time.monotonic() - began, notes=tuple(notes))


@job("import questions")
@named_settings(QuestionImport, "taken")
def import_questions(
    study: Study,
    path: str | Path,
    format: str | None = None,
    *,
    taken: QuestionImport,
    skip_bad: bool = False,
    settings: Sequence[str] = (),
    progress: Progress | None = None,
) -> ImportResult:
    """Import questions. Gold passages given by text are matched to the collection.

    Args:
        settings: Settings of the format, as "name=value".

    Raises:
        BadInput: the first error, with file and line; also a gold passage that is not in the collection.
        Refused: an unknown split, gold or setting.
    """
    began, path = time.monotonic(), Path(path)
    split, dataset, gold = taken.split, taken.dataset, taken.gold
    refuse_other_values("split", split, (None, *SPLITS))
    refuse_other_values("gold", gold, ("all", "one"))
    chosen, report = find_format(path, "questions", format), ThrottledProgress(progress)
    options = Options(split, dataset, gold, settings_of(chosen, settings))
    sha256 = source_sha256(chosen, path)
    settings_json = json.dumps({"split": split, "dataset": dataset, "gold": gold, **options.settings})
    if Imports(study.labels_path).find("questions", sha256, settings_json):
        return ImportResult(0, unchanged=True, notes=(f"{path.name} was imported before; nothing was changed",))
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        items = _with_existing_gold(
            study, _new_questions(study, _read_questions(chosen, path, options, rejected, report), rejected), rejected
        )
        if not items:
            raise rejected.first or BadInput(_no_questions_message(chosen, path, options), path)
        joined = _extended_sets_notes(study, items)
        repeated = _repeated_text_notes(study, items)
        questions, matches = resolve_paragraphs(study, items, progress)
        graded = [
            GoldMatch(row.question_id, row.passage_id, "qrels", row.grade)
            for row in _judgements_in_collection(study, items)
        ]
        report.report_now(len(items), len(items), "saving questions")
        size = path.stat().st_size if path.is_file() else 0
        record = ImportRecord("questions", path.name, sha256, size, len(items), rejected.count, settings_json)
        study.questions.add(questions, record, [*matches, *graded])
    notes = (*gold_notes(items, matches), *graded_notes(graded), *repeated, *joined)
    return ImportResult(len(items), rejected.count, rejected.file, time.monotonic() - began, notes=notes)


@job("import frequencies", light=True)
def import_frequencies(
    study: Study, path: str | Path, format: str | None = None, skip_bad: bool = False, progress: Progress | None = None
) -> ImportResult:
    """Import mention counts of entities for the questions in the study. `rows` is the number of questions updated.

    Raises:
        BadInput: the first error, with file and line.
        Refused: there are no questions with a subject yet.
    """
    began, path = time.monotonic(), Path(path)
    chosen, report = find_format(path, "frequencies", format), ThrottledProgress(progress)
    subjects = set(study.questions.subjects())
    if not subjects:
        raise Refused("no question of this study has a subject; import questions before their frequencies")
    sha256 = file_sha256(path)
    if _is_newest_import(study, sha256):
        return ImportResult(0, unchanged=True, notes=(f"{path.name} was imported before; nothing was changed",))
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        counts = _read_counts(chosen, path, rejected, report)
        wanted = {subject: counts[subject][0] for subject in subjects if subject in counts}
        record = ImportRecord("frequencies", path.name, sha256, path.stat().st_size, len(counts), rejected.count)
        report.report_now(len(counts), len(counts), "saving frequencies")
        rows = study.questions.set_frequencies(wanted, record)
    notes = []
    if absent := len(subjects) - len(wanted):
        notes.append(f"{absent:,} of {quantity(len(subjects), 'subject')} {noun_form(absent, 'is')} not in {path.name}")
    return ImportResult(rows, rejected.count, rejected.file, time.monotonic() - began, notes=tuple(notes))


@job("count frequencies")
def count_frequencies(study: Study, progress: Progress | None = None) -> ImportResult:
    """Set missing frequencies of questions with a subject: the number of passages that mention the subject.

    Raises:
        Missing: the study has no passages.
    """
    began = time.monotonic()
    subjects = study.questions.subjects(without_frequency=True)
    if not subjects:
        return ImportResult(0, unchanged=True, notes=("every question with a subject has a frequency",))
    corpus, before = study.corpus, study.questions.frequency_source
    counts = count_mentions(subjects, corpus.blocks(), len(corpus), progress)
    record = ImportRecord("frequencies", COUNTED, corpus.digest, 0, len(counts))
    rows = study.questions.set_frequencies(counts, record, only_missing=True)
    notes = []
    if before not in (None, COUNTED):
        notes.append(f"the other questions keep their frequencies from {before}, so the study mixes two counts")
    return ImportResult(rows, seconds=time.monotonic() - began, notes=tuple(notes))


# Passages


@dataclass(slots=True)
class _CorpusStats:
    rows: int = 0
    sha256: str = ""
    multiline_count: int = 0


class _DuplicateRows(DuplicateId):
    """Raised for rows with the same id. `all` maps every row that must be left out to the first row with its id."""

    def __init__(self, error: DuplicateId, rows: dict[int, int]):
        super().__init__(error.id, error.first, error.second)
        self.all = rows


def _build_corpus(
    study: Study,
    format: Format,
    path: Path,
    options: Options,
    rejected: RejectedRows,
    dropped_rows: dict[int, int],
    report: ThrottledProgress,
) -> _CorpusStats:
    written = _CorpusStats()
    with CorpusWriter(study.folder / "corpus.db") as writer, format.opened(path, options) as batches:
        for batch, contents in _valid_batches(batches, path, rejected, dropped_rows):
            writer.add_rows(batch.rows, contents)
            written.multiline_count += batch.spanning
            written.sha256 = batch.sha256 or written.sha256
            report(writer.count, int(writer.count / batch.share) if batch.share else None, "importing passages")
        if not writer.count:
            raise rejected.first or BadInput("holds no passages", path)
        written.rows = writer.count
        written.sha256 = written.sha256 or source_sha256(format, path)
        report.report_now(writer.count, writer.count, "indexing ids")
        try:
            writer.finish(
                path.name, written.sha256, lambda: report.report_now(writer.count, writer.count, "indexing ids")
            )
        except DuplicateId as error:
            raise _DuplicateRows(error, dict(writer.duplicates())) from None
    return written


def _valid_batches(
    batches: Iterator[PassageBatch], path: Path, rejected: RejectedRows, dropped_rows: dict[int, int]
) -> Iterator[tuple[PassageBatch, bytes]]:
    """Yield the valid rows with their bytes for the hash of the collection. Invalid rows, and the rows in `dropped_rows`, are
    rejected.
    """
    firsts, places, row = set(dropped_rows.values()), {}, 0
    for batch in batches:
        batch, contents = check_batch(batch, path)
        for problem in batch.problems:
            rejected.add(problem)
        if dropped_rows:
            rows = []
            for number, (values, line) in enumerate(zip(batch.rows, batch.lines, strict=True), row):
                place = batch.path or path, line
                if number in firsts:
                    places[number] = place
                if number in dropped_rows:
                    rejected.add(_duplicate_error(values[0], places[dropped_rows[number]], place))
                else:
                    rows.append(values)
            row += len(batch.rows)
            batch.rows = rows
            contents = pack_text(rows) if rows else b""
        yield batch, contents


def _duplicate_error_with_lines(error: DuplicateId, format: Format, path: Path, options: Options) -> BadInput:
    """Return the error for an id that occurs twice, after reading the file again to find the lines of the two rows."""
    line_by_row: dict[int, tuple[Path, int]] = {}
    row = 0
    with format.opened(path, options) as batches:
        for batch in batches:
            for wanted in (error.first, error.second):
                if row <= wanted < row + len(batch.rows):
                    line_by_row[wanted] = batch.path or path, batch.lines[wanted - row]
            row += len(batch.rows)
            if len(line_by_row) == 2:
                break
    return _duplicate_error(error.id, line_by_row.get(error.first), line_by_row.get(error.second))


def _duplicate_error(
    id: str, first_location: tuple[Path, int] | None, second_location: tuple[Path, int] | None
) -> BadInput:
    """Return the error for an id that occurs twice. The lines are unknown if the file changed in the meantime."""
    if first_location is None or second_location is None:
        return BadInput(f"the id {id!r} occurs twice")
    where = (
        f"line {first_location[1]}"
        if first_location[0] == second_location[0]
        else f"{first_location[0]}:{first_location[1]}"
    )
    return BadInput(f"the id {id!r} occurs twice, first in {where}", *second_location)


def _refuse_second_collection(study: Study, path: Path, format: str | None) -> ImportResult:
    source = study.corpus.source
    if path.is_dir():
        chosen = find_format(path, "passages", format)
        path = source_file(chosen, path)
        sha256 = source_sha256(chosen, path)
    else:
        sha256 = file_sha256(path)
    if sha256 == source.sha256:
        return ImportResult(0, unchanged=True, notes=(f"{path.name} was imported before; nothing was changed",))
    raise Refused(
        f"{study.folder}: the study already has a passage collection ({source.name}, "
        f"{quantity(len(study.corpus), 'passage')}); make a new study for another collection"
    )


# Questions and frequencies


def _read_questions(
    format: Format, path: Path, options: Options, rejected: RejectedRows, report: ThrottledProgress
) -> list[ImportedQuestion]:
    """Read the questions of a file, and reject repeated ids."""
    seen_ids: dict[str, ImportedQuestion] = {}
    with format.opened(path, options) as items:
        for item in items:
            if isinstance(item, BadInput):
                rejected.add(item)
                continue
            earlier = seen_ids.setdefault(item.question.id, item)
            if earlier is not item:
                where = f"line {earlier.line}" if earlier.path == item.path else f"{earlier.path}:{earlier.line}"
                rejected.add(item.wrong(f"the id {item.question.id!r} occurs twice, first in {where}"))
            report(len(seen_ids), None, "reading questions")
    return list(seen_ids.values())


def _new_questions(study: Study, items: list[ImportedQuestion], rejected: RejectedRows) -> list[ImportedQuestion]:
    known = study.questions.known_ids(item.question.id for item in items)
    for item in items:
        if item.question.id in known:
            rejected.add(item.wrong(f"question {item.question.id!r} is in the study already"))
    return [item for item in items if item.question.id not in known]


def _with_existing_gold(study: Study, items: list[ImportedQuestion], rejected: RejectedRows) -> list[ImportedQuestion]:
    """Return the questions whose gold passages all exist."""
    first = next((item for item in items if item.question.gold or item.paragraphs), None)
    if first is None:
        return items
    if not study.has_corpus:
        raise first.wrong("names gold passages, but the study has no passages yet; import the passages first")
    known = study.corpus.ordinals(id for item in items for id in item.question.gold)
    good = []
    for item in items:
        absent = next((id for id in item.question.gold if id not in known), None)
        if absent is None:
            good.append(item)
        else:
            place = next(((row.path, row.line) for row in item.judgements if row.passage_id == absent), None)
            rejected.add(
                BadInput(f"the gold passage {absent!r} is not in the collection", *(place or (item.path, item.line)))
            )
    return good


def _judgements_in_collection(study: Study, items: Sequence[ImportedQuestion]) -> list[Qrel]:
    """Return the judgements of passages that are in the collection. Collections often lack some passages that were
    judged not relevant.
    """
    named = {row.passage_id for item in items for row in item.judgements}
    known = study.corpus.ordinals(named) if named and study.has_corpus else {}
    return [row for item in items for row in item.judgements if row.passage_id in known]


def _no_questions_message(format: Format, path: Path, options: Options) -> str:
    """Return the message for a file without questions of the requested split and data set."""
    asked = "".join(
        f" of {name} {value!r}" for name, value in (("split", options.split), ("dataset", options.dataset)) if value
    )
    counts: Counter[tuple[str, str]] = Counter()
    if asked:
        with suppress(BadInput), format.opened(path, replace(options, split=None, dataset=None)) as items:
            counts.update(
                (each.question.split, each.question.dataset) for each in items if not isinstance(each, BadInput)
            )
    sets = [
        f"{count:,} of split {split!r}" + (f" and dataset {dataset!r}" if dataset else "")
        for (split, dataset), count in counts.most_common(5)
    ]
    return f"holds no questions{asked}" + (f"; it holds {', '.join(sets)}; ask for these" if sets else "")


def _extended_sets_notes(study: Study, items: Sequence[ImportedQuestion]) -> tuple[str, ...]:
    """Return a line about data sets that the study already has and to which the questions are added."""
    had = {(row["dataset"], row["split"]): row["questions"] for row in study.questions.counts()}
    joined = dict.fromkeys((each.question.dataset, each.question.split) for each in items)
    return tuple(
        f"They join {quantity(had[dataset, split], split + ' question')} "
        + (f"of dataset {dataset!r}" if dataset else "without a dataset")
        + "; --dataset names another"
        for dataset, split in joined
        if (dataset, split) in had
    )


def _repeated_text_notes(study: Study, items: Sequence[ImportedQuestion]) -> tuple[str, ...]:
    """Return a line about questions with the same text as another question of their split, because they count twice in
    averages.
    """
    wanted = {(item.question.split, text_key(item.question.text)) for item in items}
    first_ids: dict[tuple[str, str], str] = {}
    for split in dict.fromkeys(item.question.split for item in items):
        for id, text in study.questions.texts(split):
            if (key := (split, text_key(text))) in wanted:
                first_ids.setdefault(key, id)
    repeated = []
    for item in items:
        question = item.question
        other = first_ids.setdefault((question.split, text_key(question.text)), question.id)
        if other != question.id:
            repeated.append((question.id, other))
    if not repeated:
        return ()
    id, other = repeated[0]
    return (
        f"{quantity(len(repeated), 'question')} {noun_form(len(repeated), 'has', 'have')} the text of another question of the "
        f"same split, as {id!r} has that of {other!r}; both count in every mean",
    )


def _read_counts(
    format: Format, path: Path, rejected: RejectedRows, report: ThrottledProgress
) -> dict[str, tuple[int, int]]:
    """Read each entity's count and line."""
    counts: dict[str, tuple[int, int]] = {}
    with format.opened(path) as rows:
        for row in rows:
            if isinstance(row, BadInput):
                rejected.add(row)
                continue
            entity, count, line = row
            if entity in counts:
                rejected.add(
                    BadInput(f"the entity {entity!r} occurs twice, first in line {counts[entity][1]}", path, line)
                )
                continue
            counts[entity] = count, line
            report(len(counts), None, "reading frequencies")
    if not counts:
        raise rejected.first or BadInput("holds no frequencies", path)
    return counts


def _is_newest_import(study: Study, sha256: str) -> bool:
    """Return whether this frequency file was imported and neither questions nor other frequencies have been imported
    since.
    """
    since = [record for record in Imports(study.labels_path).all_records() if record.kind != "passages"]
    return bool(since) and since[-1].kind == "frequencies" and since[-1].sha256 == sha256

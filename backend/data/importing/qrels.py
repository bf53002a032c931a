"""Import qrels into a study. Relevant passages become gold passages of the questions."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats import find_format, settings_of
from blindspot.backend.data.formats.base import Options, Qrel
from blindspot.backend.data.importing.gold import known_ids
from blindspot.backend.data.importing.importer import ImportResult
from blindspot.backend.data.importing.rejected_rows import RejectedRows
from blindspot.backend.data.importing.tools import ThrottledProgress, readable_write_errors, source_sha256
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BadInput, Missing
from blindspot.db.gold import GoldMatch
from blindspot.db.imports import ImportRecord, Imports

_BLOCK = 5000


@job("import qrels", light=True)
def import_qrels(
    study: Study,
    path: str | Path,
    format: str | None = None,
    skip_bad: bool = False,
    settings: Sequence[str] = (),
    progress: Progress | None = None,
) -> ImportResult:
    """Import qrels. Gold passages are added and never removed. Grades of 0 or less are recorded, but do not make a
    passage gold. `rows` of the result counts lines.

    Args:
        settings: Settings of the format, as "name=value".

    Raises:
        BadInput: the first error, with file and line; also a question or passage that is not in the study.
        Missing: the study has no passages or no questions.
    """
    began, path = time.monotonic(), Path(path)
    chosen, report = find_format(path, "qrels", format), ThrottledProgress(progress)
    if not len(study.questions):
        raise Missing("the study has no questions yet; import them before their qrels")
    corpus, sha256 = study.corpus, source_sha256(chosen, path)
    options, imports = Options(settings=settings_of(chosen, settings)), Imports(study.labels_path)
    settings_json = json.dumps(dict(options.settings)) if settings else ""
    if imports.find("qrels", sha256, settings_json):
        return ImportResult(0, unchanged=True, notes=(f"{path.name} was imported before; nothing was changed",))
    with readable_write_errors(study.folder), RejectedRows(study.folder, path, skip_bad) as rejected:
        matches: list[GoldMatch] = []
        seen: set[tuple[str, str]] = set()
        block: list[Qrel] = []
        with chosen.opened(path, options) as rows:
            for row in rows:
                if isinstance(row, BadInput):
                    rejected.add(row)
                    continue
                block.append(row)
                if len(block) == _BLOCK:
                    matches += _gold_matches(study, corpus, block, seen, rejected)
                    block = []
                    report(len(matches), None, "reading qrels")
        matches += _gold_matches(study, corpus, block, seen, rejected)
        if not matches:
            raise rejected.first or BadInput("holds no qrels", path)
        size = path.stat().st_size if path.is_file() else 0
        record = ImportRecord("qrels", path.name, sha256, size, len(matches), rejected.count, settings_json)
        report.report_now(len(matches), len(matches), "saving qrels")
        grown = study.questions.add_gold(matches, record)
    ungraded = sum(match.score is not None and match.score <= 0 for match in matches)
    notes = [f"{quantity(grown, 'question')} {noun_form(grown, 'has')} more gold than before"]
    if ungraded:
        verb = noun_form(ungraded, "makes", "make")
        notes.append(f"{quantity(ungraded, 'line')} with a grade of 0 or less {verb} no gold")
    return ImportResult(len(matches), rejected.count, rejected.file, time.monotonic() - began, notes=tuple(notes))


def _gold_matches(
    study: Study, corpus: Corpus, block: list[Qrel], known_pairs: set[tuple[str, str]], rejected: RejectedRows
) -> list[GoldMatch]:
    questions = study.questions.known_ids({row.question_id for row in block})
    passages = known_ids(corpus, {row.passage_id for row in block})
    matches = []
    for row in block:
        passage = passages.get(row.passage_id)
        if row.question_id not in questions:
            rejected.add(BadInput(f"the question {row.question_id!r} is not in the study", row.path, row.line))
        elif passage is None:
            rejected.add(BadInput(f"the passage {row.passage_id!r} is not in the collection", row.path, row.line))
        elif (row.question_id, passage) in known_pairs:
            rejected.add(
                BadInput(f"question {row.question_id!r} and passage {row.passage_id!r} occur twice", row.path, row.line)
            )
        else:
            known_pairs.add((row.question_id, passage))
            matches.append(GoldMatch(row.question_id, passage, "qrels", float(row.grade)))
    return matches

"""Read and write a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv) together with a run, whose hits are the
negatives.

Judged pairs are positives; the other passages of the run are negatives. A confirmed false negative is either added to
the qrels or removed from the run.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blindspot.backend.checking.files import Replacements, RowFile, raw_lines, written_file
from blindspot.backend.checking.formats.base import (
    TRAINING_FORMATS,
    Cell,
    Entry,
    RowLayout,
    Slot,
    TrainingFormat,
    Values,
)
from blindspot.backend.data.formats.fields import FieldError
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput

RUNS = ("*.trec", "*.run", "run*.tsv", "run*.txt", "*.run.gz")
COLUMNS = ["question", "passage", "grade", "score"]


def is_beir(folder: Path) -> bool:
    return (folder / "corpus.jsonl").is_file() and (folder / "queries.jsonl").is_file()


class BeirFolder(RowFile):
    """A BEIR folder as rows: first the lines of the training qrels, then the lines of the run whose pairs the qrels do
    not judge.
    """

    kind = "BEIR folder"

    def __init__(self, path: Path):
        super().__init__(path)
        self.columns = list(COLUMNS)
        qrels = sorted((path / "qrels").glob("*.tsv")) if (path / "qrels").is_dir() else []
        if not qrels:
            raise BadInput("there are no qrels/*.tsv in this folder", path)
        self.qrels = next((each for each in qrels if each.stem == "train"), qrels[0])
        found = next((each for pattern in RUNS for each in sorted(path.glob(pattern))), None)
        if found is None:
            raise BadInput("there is no run in this folder; put the ranking beside it, as in run.trec", path)
        self.run = found

    def rows(self) -> Iterator[tuple[int, Values]]:
        judged = {}
        for line, (question, passage, grade) in self._numbered_judgements():
            judged[question, passage] = grade
            yield line, {"question": question, "passage": passage, "grade": grade, "score": None}
        for line, text in numbered_lines(ByteSource(self.run)):
            fields = text.split()
            if len(fields) != 6:
                raise BadInput(f"{len(fields)} fields; a line of a TREC run has 6", self.run, line)
            if (fields[0], fields[2]) not in judged:
                yield line, {"question": fields[0], "passage": fields[2], "grade": None, "score": fields[4]}

    def _numbered_judgements(self) -> Iterator[tuple[int, tuple[str, str, int]]]:
        for line, text in numbered_lines(ByteSource(self.qrels)):
            fields = text.split("\t")
            if line == 1 and not fields[-1].lstrip("-").isdigit():
                continue
            if len(fields) not in (3, 4) or not fields[-1].lstrip("-").isdigit():
                raise BadInput("qrels have query id, passage id and a whole number", self.qrels, line)
            yield line, (fields[0], fields[-2], int(fields[-1]))

    def write(self, target: Path, replacements: Replacements) -> int:
        """Write the qrels and the run, and copy the corpus and the queries. A false negative that became a positive is
        added to the qrels and stays in the run; a dropped one is removed.
        """
        (target / "qrels").mkdir(parents=True, exist_ok=True)
        for path in sorted(self.path.rglob("*")):
            if path.is_file() and path not in (self.qrels, self.run):
                (target / path.relative_to(self.path)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target / path.relative_to(self.path))
        changed, added = set(), []
        for number, (_, values) in enumerate(self.rows()):
            if number in replacements:
                changed.add((values["question"], values["passage"]))
                added += [row for row in replacements[number] if row["grade"]]
        kept = {(row["question"], row["passage"]) for row in added}
        count = 0
        with written_file(target / "qrels" / self.qrels.name) as out:
            last = b"\n"
            for last in raw_lines(self.qrels):
                fields = last.decode("utf-8", "replace").split("\t")
                if (fields[0], fields[-2] if len(fields) > 2 else "") not in changed:
                    out.write(last)
                    count += 1
            end = b"\r\n" if next(raw_lines(self.qrels)).endswith(b"\r\n") else b"\n"
            iteration = ["0"] if last.count(b"\t") == 3 else []  # the second of TREC's four columns
            out.write(end if added and not last.endswith(b"\n") else b"")
            for row in added:
                fields = [row["question"], *iteration, row["passage"], str(row["grade"])]
                out.write("\t".join(fields).encode() + end)
                count += 1
        with written_file(target / self.run.name) as out:
            for line in raw_lines(self.run):
                fields = line.decode("utf-8", "replace").split()
                pair = (fields[0], fields[2]) if len(fields) == 6 else ("", "")
                if pair not in changed or pair in kept:
                    out.write(line)
                    count += 1
        return count


@dataclass
class BeirLayout(RowLayout):
    name: str = "BEIR with a run"
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"collection": {}, "queries": {}})
    in_batch = False

    def ids(self, values: Values) -> dict[str, list[str]]:
        return {"queries": [values["question"]], "collection": [values["passage"]]}

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        texts = []
        for role, column in (("queries", "question"), ("collection", "passage")):
            if values[column] not in self.texts[role]:
                raise FieldError(
                    f"the id {values[column][:40]!r} is not in {role if role == 'queries' else 'corpus'}.jsonl"
                )
            texts.append(self.texts[role][values[column]])
        score = None if values["score"] is None else float(values["score"])
        return Entry(texts[0], [Slot(bool(values["grade"] and values["grade"] > 0), texts[1], "", score)])

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        return [{**values, "grade": 1}] if added_positives else []


def _recognise(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    return BeirLayout() if list(columns) == COLUMNS else None


TRAINING_FORMATS.register(
    TrainingFormat("beir", "a BEIR folder with a run", _recognise, needs=("collection", "queries"))
)

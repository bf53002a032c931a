"""Training sets that are made: an immutable folder `training_sets/<name>/` with pairs.parquet, left_out.jsonl and manifest.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from backend.core.manifest import read_manifest
from backend.core.settings import check_name
from backend.training_sets.pairs import SOURCES, Pair, Role, Source, read_groups
from db.errors import Missing, Refused

if TYPE_CHECKING:
    from backend.core.study import Study

PAIRS, LEFT_OUT = "pairs.parquet", "left_out.jsonl"


class TrainingSet:
    """A finished set. Its pairs are read from the file a row group at a time, so a set may be larger than the memory.

    manifest: `request` (how it was made), `inputs` (hashes, the last label event), `fingerprint` (equal for equal inputs), `counts`,
    `left_out` (questions by reason), `sha256` of the files.
    """

    def __init__(self, folder: Path, manifest: dict):
        self.folder, self.name, self.manifest = folder, folder.name, manifest

    @classmethod
    def open(cls, study: Study, name: str) -> TrainingSet:
        """Raises Missing for a set that is absent or unfinished, Refused for one of other passages."""
        check_name(name, "training set")
        manifest = read_manifest(study.path("training_sets", name))
        if manifest is None:
            known = (
                ", ".join(training_sets(study))
                or "none yet; make one with 'blindspot training-set build NAME --run RUN'"
            )
            raise Missing(f"there is no training set {name!r}; sets here: {known}")
        if manifest["inputs"]["corpus"] != study.corpus.digest:
            raise Refused(f"training set {name!r} was made over other passages than this study holds; build another")
        return cls(study.path("training_sets", name), manifest)

    def groups(self, questions: Sequence[str] | None = None) -> Iterator[tuple[str, list[Pair]]]:
        """(question id, its pairs), by question id: of all, or of some. Positives come first, then negatives by rank, then the dropped."""
        return read_groups(self.folder / PAIRS, questions)

    def examples(self, hard: bool = False) -> Iterator[tuple[str, list[Pair], list[Pair]]]:
        """(question id, positives, negatives), what a trainer takes; each question has a positive at least, maybe no negative.

        Positives stand in the order of trust: people's first.

        Args:
            hard: only hard negatives (mined or people's); else random ones and other questions' gold as well.
        """
        for question, pairs in self.groups():
            negatives = [pair for pair in pairs if pair.role == "negative" and (pair.hard or not hard)]
            yield question, positives_of(pairs), negatives

    def roles(self, question: str) -> dict[str, tuple[Role, Source]]:
        """(role, source) of each passage of a question; empty where the set does not hold it."""
        return {pair.passage: (pair.role, pair.source) for _, pairs in self.groups([question]) for pair in pairs}

    def hard_negatives(self, questions: Iterable[str] | None = None) -> dict[str, set[str]]:
        """The passages that training pushes away, by question: what `backend.judging.batches.make_batch` takes as `trained`."""
        wanted = None if questions is None else list(questions)
        found = {question: {pair.passage for pair in pairs if pair.hard} for question, pairs in self.groups(wanted)}
        return {question: passages for question, passages in found.items() if passages}

    def left_out(self) -> dict[str, str]:
        """Why each question that could not train was left out."""
        with open(self.folder / LEFT_OUT, encoding="utf-8") as file:
            return {row["question"]: row["reason"] for row in map(json.loads, file)}


def positives_of(pairs: Sequence[Pair]) -> list[Pair]:
    """The positives in the order of trust: people's, gold, distant supervision, the cross-encoder's."""
    return sorted(
        (pair for pair in pairs if pair.role == "positive"), key=lambda pair: (SOURCES.index(pair.source), pair.passage)
    )


def roles(study: Study, name: str, question: str) -> dict[str, tuple[Role, Source]]:
    """(role, source) of each passage of a question in a set. Raises as `TrainingSet.open` does."""
    return TrainingSet.open(study, name).roles(question)


def training_sets(study: Study) -> dict[str, dict]:
    """The finished sets: name to manifest, oldest first."""
    return study.parts("training_sets")

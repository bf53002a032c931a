"""The experiment parts that train readers and read runs, and the measure exact match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.declared import build_settings
from blindspot.backend.experiments.hits import RunPart
from blindspot.backend.experiments.parts import Part, StudyEncoder
from blindspot.backend.experiments.plan import SMALL_STEPS, Cell, Setting, Success
from blindspot.backend.experiments.trainings import Model
from blindspot.backend.progress import Progress
from blindspot.backend.reader.settings import ReaderSettings
from blindspot.db.errors import Missing

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench
    from blindspot.backend.reader.readings import MeasuredReading

SMALL_READER = {
    "layers": 2,
    "tokens": 96,
    "passages": 3,
    "depth": 20,
    "batch": 2,
    "steps": SMALL_STEPS,
    "learning_rate": 1e-4,
    "held_out": 10,
    "read": 3,
    "evaluate_every": SMALL_STEPS,
}


def reader_settings(setting: Setting, seed: int) -> ReaderSettings:
    """Return the settings of a reader: DPR's settings (or those for `small`), overridden by the user's."""
    return build_settings(
        ReaderSettings, {**(SMALL_READER if setting.small else {}), **dict(setting.reader), "seed": seed}
    )


@dataclass(frozen=True)
class ReaderModelPart(Model):
    """A reader trained on a run over training questions."""

    plural, what = "readers", "a reader"
    hits: RunPart
    settings: ReaderSettings
    start: Part = StudyEncoder("minilm")

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.reader.training import train_reader

        train_reader(
            bench,
            name,
            bench.name(self.hits),
            asdict(self.settings),
            start=bench.name(self.start),
            device=bench.device,
            progress=progress,
        )


@dataclass(frozen=True)
class ReadingPart(Part):
    """A reader's answers from the top `k` passages of each question of a run."""

    plural = "readings"
    reader: ReaderModelPart
    hits: RunPart
    k: int

    def title(self) -> str:
        return "reading passages"

    def finished(self, bench: Workbench) -> bool:
        from blindspot.backend.reader.reading import Reading

        try:
            return Reading.open(bench, bench.name(self.hits), bench.name(self.reader)).depth >= self.k
        except Missing:
            return False

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.reader.reading import read

        read(bench, bench.name(self.hits), bench.name(self.reader), ks=[self.k], device=bench.device, progress=progress)

    def answered(self, bench: Workbench, k: int) -> MeasuredReading:
        from blindspot.backend.reader.reading import Reading
        from blindspot.backend.reader.readings import measure_reading

        return measure_reading(bench, Reading.open(bench, bench.name(self.hits), bench.name(self.reader)), [k])


@dataclass(frozen=True)
class ExactMatch:
    """A measure: exact match of the answer that the reader extracts from the top k passages of each question (SQuAD's
    normalisation).
    """

    reading: ReadingPart
    k: int

    def needs(self) -> Sequence[Part]:
        return (self.reading,)

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the values of the questions, (q,) float64."""
        return self.reading.answered(bench, self.k).exact[self.k].astype(float)


@dataclass(frozen=True)
class ExactMatchOfSelected:
    """A measure: exact match for the retriever with the highest or lowest Success@k. The retriever is chosen on one
    half of the questions and measured on the other half.
    """

    reads: tuple[ReadingPart, ...]
    k: int
    most: bool

    def needs(self) -> Sequence[Part]:
        return self.reads

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the values of half of the questions, (q / 2,) float64."""
        by_seed = [Success(read.hits, self.k).values(bench)[0::2].mean() for read in self.reads]
        chosen = self.reads[int(np.argmax(by_seed) if self.most else np.argmin(by_seed))]
        return ExactMatch(chosen, self.k).values(bench)[1::2]


def exact_cells(
    row: str, reads: Sequence[ReadingPart], ks: Sequence[int], published: float | None = None
) -> Iterator[Cell]:
    """Return a row of exact-match shares, one for each seed's reader. The paper's figure belongs to the largest k."""
    for k in ks:
        yield Cell(row, f"EM@{k}", tuple(ExactMatch(read, k) for read in reads), published if k == max(ks) else None)

"""What an experiment would cost here: how many parts are to be made, and how long that takes, from a short trial of each model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from backend.experiments.hits import Hits, Index
from backend.experiments.parts import Named, Part
from backend.experiments.running import all_parts, frozen, named
from backend.experiments.trainings import DualEncoder, TrainingData
from backend.experiments.workbench import Workbench
from backend.training.examples import Example
from backend.training.leaks import admitted

if TYPE_CHECKING:
    from backend.study import Study

TRIED = 64  # passages that are encoded to time it


@dataclass(frozen=True, slots=True)
class Cost:
    """made, waiting: parts by what they are. seconds: of what waits; None where there is nothing to reckon it from."""

    made: Mapping[str, int]
    waiting: Mapping[str, int]
    seconds: float
    not_reckoned: tuple[str, ...]


def cost(study: Study, experiment: str, given: Mapping[str, Any] | None = None, device: str | None = None) -> Cost:
    """Nothing is made or written. Trainings and encodings are timed by a trial; searching, and making sets, is not counted."""
    chosen, bench = named(experiment), Workbench(study, device)
    setting = chosen.setting(frozen(given or {}))
    parts = [part for part in dict.fromkeys(all_parts(chosen.plan(setting, bench))) if not isinstance(part, Named)]
    made = [part for part in parts if part.finished(bench)]
    waiting = [part for part in parts if part not in made]
    reckoned, seconds = _Reckoner(bench), 0.0
    unknown: dict[str, None] = {}
    for part in waiting:
        found = reckoned.seconds(part)
        seconds += found or 0.0
        if found is None:
            unknown[part.plural] = None
    return Cost(Counter(part.plural for part in made), Counter(part.plural for part in waiting), seconds, tuple(unknown))


class _Reckoner:
    """Seconds of a part; the same trial serves all parts that do the same."""

    def __init__(self, bench: Workbench):
        self.bench = bench
        self._passages = list(islice(bench.corpus.scan(), 4 * TRIED))
        self._trials: dict[Any, float] = {}

    def seconds(self, part: Part) -> float | None:
        """None for what is not reckoned."""
        if isinstance(part, DualEncoder):
            return self._training(part)
        if isinstance(part, Index):
            return self._encoding(part)
        return 0.0 if isinstance(part, (Hits, TrainingData)) or part.folder == "indexes" else None

    def _training(self, part: DualEncoder) -> float:
        from backend.training.dual_encoder import estimate

        key = (_origin(part.start), replace(part.settings, seed=0, epochs=1, steps=1))
        if key not in self._trials:
            wanted = 2 * part.settings.batch + 2
            texts = self._passages * (1 + 2 * wanted // len(self._passages))
            examples = [Example(str(n), texts[n].text[:60], (texts[n],), (texts[-n - 1],)) for n in range(wanted)]
            tried = estimate(self.bench.settings.encoders[_origin(part.start)], examples, replace(part.settings, steps=2, held_out=0),
                             self.bench.device)
            self._trials[key] = tried.seconds_per_step
        questions = sum(self._questions(data) for data in part.data)
        steps = part.settings.steps or max(1, round(part.settings.epochs * (questions // min(part.settings.batch, max(questions, 1)))))
        return steps * self._trials[key]

    def _questions(self, data: TrainingData) -> int:
        return len(admitted(self.bench, data.questions, relations=data.relations, limit=data.limit).ids)

    def _encoding(self, part: Index) -> float:
        trained = part.encoder if isinstance(part.encoder, DualEncoder) else None
        key = ("encoding", _origin(part.encoder), trained and (trained.settings.layers, trained.settings.passage_tokens))
        if key not in self._trials:
            self._trials[key] = self._seconds_per_passage(part, trained)
        return self._trials[key] * len(self.bench.corpus)

    def _seconds_per_passage(self, part: Index, trained: DualEncoder | None) -> float:
        from backend.training.starting import start_model

        start = self.bench.settings.encoders[_origin(part.encoder)]
        if trained is None:
            from backend.retrieval.encoder import load_encoder

            encode = load_encoder(start, self.bench.device).encode_passages
        else:
            model = start_model(start, trained.settings.shape, self.bench.device or "cpu").eval()

            def encode(passages):
                return model.encode_document([start.passage_template.format(title=one.title, text=one.text) for one in passages])

        tried = self._passages[:TRIED]
        encode(tried[:4])
        began = time.monotonic()
        encode(tried)
        return (time.monotonic() - began) / len(tried)


def _origin(part: Part) -> str:
    """The encoder of study.toml that a chain of trainings starts from."""
    while not isinstance(part, Named):
        part = part.start
    return part.encoder

"""The definition of an experiment: the cells of a table, the measure of each cell, and the paper's claims about the
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.declared import build_settings
from blindspot.backend.experiments.hits import Bm25Hits, RunPart
from blindspot.backend.experiments.parts import Part, QuestionSelection, StudyEncoder
from blindspot.backend.experiments.settings import ExperimentSettings
from blindspot.backend.experiments.trainings import DualEncoder, TrainingData, run_of_model
from blindspot.backend.recipes.settings import CROSS, SMALL_CROSS, SMALL_DEPTH, SMALL_DUAL
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.training_settings import CrossEncoderSettings, DualEncoderSettings
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from blindspot.analysis.accuracy import Estimate
    from blindspot.backend.experiments.papers import ExperimentDescription
    from blindspot.backend.experiments.workbench import Workbench
    from blindspot.db.records import Question

Verdict = Literal["supported", "not supported", "inconclusive"]
NO_FINDING = "no finding"
MIN_SEEDS, LEAST_QUESTIONS = 3, 30
"""The minimum that a verdict needs."""
SMALL_STEPS, SMALL_QUESTIONS = 20, 100
"""The sizes used with `--small`: enough to show that the experiment runs, too small to learn anything."""


class Setting(ExperimentSettings):
    """The settings of an experiment, with methods for values derived from them. `takes` lists the settings that the
    experiment uses.

    With `small`, models are tiny and there are few questions, which is enough to test that the experiment runs.
    """

    def settings(self, seed: int, **more: Any) -> DualEncoderSettings:
        """Return the settings of a dual encoder.

        Values that the experiment varies (`more`) override the user's values, which override the defaults.
        """
        small = {**SMALL_DUAL, "steps": SMALL_STEPS, "evaluate_every": SMALL_STEPS} if self.small else {}
        return build_settings(DualEncoderSettings, {**small, **dict(self.training), **more, "seed": seed})

    def cross_settings(self, seed: int) -> CrossEncoderSettings:
        """Return the settings of a cross-encoder: RocketQA's settings (or those for `small`), overridden by
        the user's.
        """
        small = {**SMALL_CROSS, "steps": SMALL_STEPS, "evaluate_every": SMALL_STEPS} if self.small else CROSS
        return build_settings(CrossEncoderSettings, {**small, **dict(self.cross), "seed": seed})

    def question_selection(self, split: str | None = None, **more: Any) -> QuestionSelection:
        """Return the questions to measure on, or a selection of them."""
        return QuestionSelection(split or self.on, limit=SMALL_QUESTIONS if self.small else self.measured, **more)

    def data(self, **more: Any) -> TrainingData:
        """Return a training set over the training questions."""
        return TrainingData(
            **{
                "questions": self.train,
                "limit": SMALL_QUESTIONS if self.small else self.limit,
                "last": self.depth,
                **more,
            }
        )

    def data_by_answers(self, train: Sequence[str] | None = None, **more: Any) -> TrainingData:
        """Return a training set over the training questions, or over `train`, whose negatives are BM25's passages
        without an answer.
        """
        questions = tuple(train or self.train)
        return self.data(**{"questions": questions, "mined": self.mined(train), "policy": "answer_match", **more})

    def mined(self, train: Sequence[str] | None = None) -> tuple[Bm25Hits, ...]:
        """Return BM25's run over all training questions, from which negatives are mined.

        Training sets over subsets of the questions share this run.
        """
        return tuple(Bm25Hits(QuestionSelection(each), self.depth) for each in train or self.train)

    def three_batches(self) -> tuple[int, int, int]:
        """Return three batch sizes: small, middle and large. Raises BadInput unless there are three ascending sizes."""
        if self.small:
            return 2, 4, 8
        if len(self.batches) != 3 or not 2 <= self.batches[0] < self.batches[1] < self.batches[2]:
            raise BadInput("give three ascending batch sizes, the first 2 or more, as in 8,32,128")
        return self.batches

    def claim_column(self) -> str:
        """Return the column to which most claims refer: the second largest k, which is 20 for the cut-offs 5, 20 and
        100.
        """
        return f"Success@{self.ks[-2] if len(self.ks) > 1 else self.ks[0]}"

    @property
    def compared_encoders(self) -> tuple[str, ...]:
        """The encoders named with --encoder, or else the one that trainings start from."""
        return tuple(dict.fromkeys(self.encoders or (self.start,)))

    @property
    def first_encoder(self) -> StudyEncoder:
        return StudyEncoder(self.start)


class Measure(Protocol):
    """A measure, which returns one value for each item. Items are usually questions.

    A measure with a method `estimate(bench, confidence) -> Estimate` supplies its own interval, and one with
    `estimate_against(other, bench, confidence) -> Estimate` that of its difference from another. A measure with a method
    `questions(bench)`, which returns the question of each value, is counted by the study's unit of observation;
    otherwise each item is a unit. If `share` is true, the mean and the interval are between 0 and 1.
    """

    def needs(self) -> Sequence[Part]: ...

    def values(self, bench: Workbench) -> np.ndarray: ...


@dataclass(frozen=True)
class Success:
    """A measure: Success@k of a run for each question. A question succeeds if one of the first k passages contains an
    answer by DPR's rule or, for a question without answers, is gold.

    Attributes:
        macro: weights questions so that their mean is the mean over relations, as EntityQuestions reports.
        relations: only questions about these; empty for all.
    """

    share: ClassVar[bool] = True
    hits: RunPart
    k: int
    macro: bool = False
    relations: tuple[str, ...] = ()

    def needs(self) -> Sequence[Part]:
        return (self.hits,)

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the values of the questions, (q,) float64."""
        from blindspot.analysis.accuracy import success_at
        from blindspot.backend.evaluation.relevance import relevant

        judged = relevant(bench, self.hits.open(bench))
        values = success_at(judged.relevant, self.k).astype(float)
        names = np.array([question.relation or "" for question in judged.questions])
        if self.relations:
            mask = np.isin(names, self.relations)
            values, names = values[mask], names[mask]
        return macro_values(values, names) if self.macro else values

    def questions(self, bench: Workbench) -> list[Question]:
        from blindspot.backend.evaluation.relevance import relevant

        asked = relevant(bench, self.hits.open(bench)).questions
        return [question for question in asked if not self.relations or question.relation in self.relations]


def macro_values(values: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Return values (q,) whose mean is the mean over the groups, and whose variance reflects the variance of the
    groups' means.

    Each value is the mean over groups plus the influence of the question on it. With plain weights, resampling
    questions would change the weight of a group, and the interval of a mean near 100% would exceed 100%.
    """
    if not len(values):
        return values
    _, place, counts = np.unique(names, return_inverse=True, return_counts=True)
    means = np.bincount(place, values) / counts
    weights = len(names) / (len(counts) * counts[place])
    return means.mean() + weights * (values - means[place])


@dataclass(frozen=True)
class Cell:
    """A cell of the table. measures: one measure for each seed, or a single one if nothing is trained. published: the
    paper's figure.
    """

    row: str
    column: str
    measures: tuple[Measure, ...]
    published: float | None = None

    @property
    def is_trained(self) -> bool:
        return any(_is_trained(part) for measure in self.measures for part in measure.needs())


def _is_trained(part: Part) -> bool:
    return (
        isinstance(part, DualEncoder) or part.folder == "models" or any(_is_trained(needed) for needed in part.needs())
    )


def success_cells(
    row: str, hits: Sequence[RunPart], ks: Sequence[int], published: Mapping[int, float] | None = None, **more: Any
) -> list[Cell]:
    """Return a row of Success@k, with one run for each seed. published: the paper's figures in per cent, by k."""
    return [
        Cell(row, f"Success@{k}", tuple(Success(hit, k, **more) for hit in hits), (published or {}).get(k)) for k in ks
    ]


def dense_row(
    setting: Setting,
    row: str,
    data: TrainingData | tuple[TrainingData, ...],
    published: Mapping[int, float] | None = None,
    *,
    selection: QuestionSelection | None = None,
    start: Part | None = None,
    **more: Any,
) -> list[Cell]:
    """Return a row of Success@k for dual encoders trained on `data`, one encoder for each seed. more: training settings
    that this row changes.
    """
    models = [
        DualEncoder(
            data if isinstance(data, tuple) else (data,), setting.settings(seed, **more), start or setting.first_encoder
        )
        for seed in setting.seeds
    ]
    return trained_row(setting, row, models, published, selection)


def trained_row(
    setting: Setting,
    row: str,
    models: Sequence[DualEncoder],
    published: Mapping[int, float] | None = None,
    selection: QuestionSelection | None = None,
) -> list[Cell]:
    """Return a row of Success@k for trained dual encoders, one for each seed."""
    hits = [run_of_model(model, selection or setting.question_selection(), max(setting.ks)) for model in models]
    return success_cells(row, hits, setting.ks, published)


def with_column_name(cells: Sequence[Cell], column: str) -> list[Cell]:
    """Return the first cell of `cells` with another column name, as a list."""
    return [replace(cell, column=column) for cell in cells[:1]]


@dataclass(frozen=True)
class PaperClaim:
    """A claim of the paper about two cells: either one is better than the other by more than `minimum_gain`, or the two
    differ by at most `tolerance`.

    Cells are named (row, column). Without `expected_worse`, the claim is that the value of the cell is more than
    `minimum_gain`. Both numbers are in the unit of the measure; for Success@k they are shares between 0 and 1.
    about: the relation, or the groups of questions, of which the statement is made; "" for all questions.
    """

    statement: str
    expected_better: tuple[str, str]
    expected_worse: tuple[str, str] | None = None
    tolerance: float | None = None
    minimum_gain: float = 0.0
    about: str = ""

    def judge(
        self,
        expected_better: np.ndarray,
        expected_worse: np.ndarray,
        is_trained: bool,
        confidence: float,
        units: np.ndarray | None = None,
    ) -> dict[str, Any]:
        """Judge the claim from the values (seeds, items) of both cells. Returns the difference, its interval, and a
        verdict with the reason.

        The claim is supported if the whole interval lies in the range that the claim states, not supported if the whole
        interval lies outside it, and inconclusive otherwise.
        """
        if expected_better.shape[1] != expected_worse.shape[1]:
            raise ValueError(
                f"{expected_better.shape[1]} and {expected_worse.shape[1]} items cannot be compared pair by pair"
            )
        estimate = crossed_mean(expected_better - expected_worse, units, confidence, is_signed=True)
        return self.judge_estimate(
            estimate, max(len(expected_better), len(expected_worse)) if is_trained else MIN_SEEDS, confidence
        )

    def _verdict_word(self, low: float, high: float) -> Verdict:
        if self.tolerance is not None:
            if -self.tolerance <= low and high <= self.tolerance:
                return "supported"
            return "not supported" if high < -self.tolerance or low > self.tolerance else "inconclusive"
        if low > self.minimum_gain:
            return "supported"
        return "not supported" if high < self.minimum_gain else "inconclusive"

    def judge_estimate(self, estimate: Estimate, seeds: int, confidence: float) -> dict[str, Any]:
        """Judge the claim from an estimate of the difference between two cells, or of a single cell."""
        few = [
            f"{quantity(count, noun)} (at least {minimum} needed)"
            for count, noun, minimum in (
                (seeds, "seed", MIN_SEEDS),
                (estimate.n_units, "independent question", LEAST_QUESTIONS),
            )
            if count < minimum
        ]
        verdict: Verdict = "inconclusive"
        if not few and (estimate.low is None or estimate.high is None):
            few = ["equal values"]
        if not few:
            assert estimate.low is not None and estimate.high is not None
            verdict = self._verdict_word(estimate.low, estimate.high)
        return {
            "says": self.statement,
            "about": self.about,
            "ahead": list(self.expected_better),
            "behind": self.expected_worse and list(self.expected_worse),
            "within": self.tolerance,
            "by": self.minimum_gain,
            "difference": estimate.value,
            "low": estimate.low,
            "high": estimate.high,
            "n": estimate.n,
            "units": estimate.n_units,
            "level": confidence,
            "word": verdict,
            "because": f"only {' and '.join(few)}" if few else "",
        }


@dataclass(frozen=True)
class Plot:
    """A figure of the paper. Maps the name of each series to its points (x, row, column). ticks: what stands below some x
    in place of the number.
    """

    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, str, str]]]
    logarithmic: bool = False
    ticks: Mapping[float, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExperimentPlan:
    """The plan of an experiment. unit: the unit of the cells' values; "%" displays shares as per cent. notes: further
    remarks.
    """

    cells: Sequence[Cell]
    claims: Sequence[PaperClaim] = ()
    convention: str = (
        "Success@k: the text of a passage in the top k contains an answer by DPR's rule; titles are not searched."
    )
    unit: str = "%"
    plot: Plot | None = None
    notes: Iterable[str] = ()


@dataclass(frozen=True)
class Experiment:
    """One experiment of a paper.

    Attributes:
        plan: makes a plan from a setting and the study; raises BadInput or Missing.
        takes: fields of `Setting` that it uses besides the common ones.
        defaults: its own values of fields.
    """

    name: str
    about: ExperimentDescription
    plan: Callable[[Setting, Workbench], ExperimentPlan]
    takes: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def setting(self, options: Mapping[str, Any]) -> Setting:
        """Build a setting from the given values and this experiment's defaults.

        With `small`, small sizes replace the default training settings. Raises BadInput for a setting that the
        experiment does not use.
        """
        small = bool(options.get("small"))
        common = {"start", "on", "ks", "seeds", "small", "training", "cross", "limit", "measured", "train", "depth"}
        if unused := [name for name in options if name not in common | self.takes]:
            raise BadInput(f"experiment {self.name} has no setting {unused[0]}")
        training = {**({} if small else dict(self.defaults.get("training", {}))), **dict(options.get("training", ()))}
        smallest = {"seeds": (0,), "depth": SMALL_DEPTH} if small else {}
        result = Setting(**{**self.defaults, **smallest, **options, "training": tuple(sorted(training.items()))})
        if not result.seeds or not result.ks:
            raise BadInput("give at least one seed and one k")
        return replace(result, ks=tuple(sorted(set(result.ks))), seeds=tuple(dict.fromkeys(result.seeds)))


def overall_verdict(words: Sequence[Verdict]) -> Verdict:
    """Return the verdict over several claims: supported if all are supported, not supported if one is not supported,
    otherwise inconclusive.
    """
    if "not supported" in words:
        return "not supported"
    return "supported" if words and all(word == "supported" for word in words) else "inconclusive"

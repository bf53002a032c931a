"""Forecast for each use of labels how much the next labels (`forecast_steps.LABELS`) are expected to change in a study.

The forecast measures how earlier labels changed results on the study's own lists (`forecast_steps`) and extrapolates
this (`analysis.forecast_intervals`). Dev questions are only used for measuring. The last forecast is stored in
`label_forecast.json` in the folder of the learning curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from blindspot.analysis.forecast_intervals import Forecast, count_forecast, half_width_forecast, step_forecast
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.result_table import signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import labels_and_answers_of, reference_questions, settled_labels
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.curve_bench import CurveBench, curve_inputs
from blindspot.backend.training.forecast_steps import (
    CLEANING_PRIOR,
    FEWEST_QUESTIONS,
    LABELS,
    LEARNING_PRIOR,
    PAIRS_PER_QUESTION,
    StepLists,
    cleaning_steps,
    learning_steps,
)
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair

FILE = "label_forecast.json"
MEASURING = 600  # dev questions that measure a step
USES: dict[str, str] = {
    "reranker": "the reranker, Success@1",
    "evaluation": "the evaluation, half-width of Success@1 on judged questions",
    "gold": "doubtful gold, wrong passages found",
    "cleaning_reranker": "cleaning for a reranker, Success@1",
}

TOO_EARLY = "It is too early to say what more labels would change; judge about 30 passages of training questions first."
LEARNERS = {
    "reranker": "a reranker",
    "cleaning_reranker": "a reranker trained on the cleaned set",
}
"""The uses that raise Success@1, and what labels improve there."""


@dataclass(frozen=True, slots=True)
class UseForecast:
    """The expected effect of labels for one use.

    Attributes:
        now: the half-width of the evaluation now; None for other uses.
        expected: one forecast for each number of LABELS, in shares (of doubtful gold: a count); empty if nothing can be
            said yet, and `lacking` says why.
        command: the command that begins what is lacking; "" for none, and in files of older versions.
    """

    use: str
    now: float | None
    expected: tuple[Forecast, ...]
    lacking: str = ""
    command: str = ""

    @property
    def forecast_cells(self) -> list[tuple[str, str]]:
        """Return the expected effect for each number of LABELS, and its 90% interval."""
        return [_forecast_cell(self.use, found) for found in self.expected]

    @property
    def title(self) -> str:
        """Return the name of the use, with the half-width now if it is the evaluation."""
        return USES[self.use] + (f" (now {100 * self.now:.1f})" if self.now is not None else "")


@dataclass(frozen=True, slots=True)
class LabelForecast:
    """The forecast for a study. labels: number of judged pairs of training questions, disputed ones among them.
    questions: number of training questions with a known positive.
    """

    labels: int
    questions: int
    last_event: int
    uses: tuple[UseForecast, ...]

    @property
    def is_known(self) -> bool:
        """Return whether a gain of Success@1 can be forecast."""
        return any(each.expected for each in self.uses if each.use in LEARNERS)

    @property
    def sentence(self) -> str:
        """Return in one sentence which reranker the next labels help most, or that no gain is established or can be told
        yet.
        """
        gains = {each.use: each.expected[-1] for each in self.uses if each.expected and each.use in LEARNERS}
        if not gains:
            return TOO_EARLY
        use = max(gains, key=lambda name: (gains[name].low > 0, gains[name].value))
        gain = gains[use]
        change = f"{signed_points(gain.value)} points of Success@1 in {LEARNERS[use]}"
        interval = f"(90%: {signed_points(gain.low)} to {signed_points(gain.high)})"
        if gain.low > 0:
            return f"{LABELS[-1]} more labels are expected to bring {change} {interval}."
        forecast = "" if len(gains) == 1 else f"the better of {len(gains)} forecasts is "
        return f"No gain of {LABELS[-1]} more labels is established: {forecast}{change} {interval}."

    @property
    def basis(self) -> str:
        """Return on what the forecast rests, and how far it can be trusted."""
        return (
            f"Forecast from trial fits with and without a part of the labels so far ({quantity(self.labels, 'judged pair')}, "
            f"{quantity(self.questions, 'training question')} with a known positive), compared on questions of dev. In trials the "
            "90% intervals held in 87 to 98% of cases. What a retriever gains is not forecast."
        )

    def lines(self) -> list[str]:
        """Return one line for each use with the expected effect of the next labels and 90% intervals."""
        lines = []
        for each in self.uses:
            cells = [f"{n}: {value} ({ends})" for n, (value, ends) in zip(LABELS, each.forecast_cells, strict=False)]
            lacking = f"{each.lacking}{f': {each.command}' if each.command else ''}"
            lines.append(f"{each.title}: {'; '.join(cells) or lacking}")
        return lines


def signed_points(share: float) -> str:
    """Return a share in points with its sign, such as "+0.8"; "0.0" has none."""
    points = round(100 * share, 1)
    return signed_number(points) if points else "0.0"


def _forecast_cell(use: str, forecast: Forecast) -> tuple[str, str]:
    def text(value: float) -> str:
        if use == "gold":
            return f"{value:.0f}"
        return f"{100 * value:.1f}" if use == "evaluation" else signed_points(value)

    return text(forecast.value), f"{text(forecast.low)} to {text(forecast.high)}"


@job("forecast labels", light=True, extras=("judges",))
def forecast_labels(
    study: Study,
    train: str | None = None,
    dev: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Forecast the effect of the next labels in a study, and store the forecast. See `LabelForecast`.

    Raises Missing if there are no runs of the same lexical retriever over train and dev.
    """
    bench = CurveBench(study, curve_inputs(study, train, dev, encoder), seed, progress)
    last_event = bench.labels.last_event
    by_people = settled_labels(pair for pair in bench.labels.consensus() if pair.question in bench.trainable)
    data = _step_lists(bench, by_people)
    judged = np.array([i for i, q in enumerate(data.lists.questions) if q.id in by_people], np.int64)
    labels = sum(map(len, by_people.values()))
    pairs = labels / len(by_people) if len(by_people) >= FEWEST_QUESTIONS else PAIRS_PER_QUESTION
    more = [max(1, round(n / pairs)) for n in LABELS]
    units = bench.units[bench.measured_questions(MEASURING)]
    uses = (
        _reranker_forecast(data, more, units, seed, bench),
        _evaluation_forecast(bench, more),
        _gold_forecast(bench),
        _cleaning_reranker(data, judged, more, units, seed, bench),
    )
    found = LabelForecast(labels, len(data.questions_with_positive), last_event, uses)
    write_json(study.folder / FILE, asdict(found))
    return {"sentence": found.sentence, "lines": found.lines()}


def stored_forecast(study: Study) -> LabelForecast | None:
    """Return the last forecast of a study, or None."""
    path = study.folder / FILE
    if not path.is_file():
        return None
    content = read_json(path)
    assert isinstance(content, dict)
    uses = [
        UseForecast(**{**each, "expected": tuple(Forecast(**one) for one in each["expected"])})
        for each in content["uses"]
        if each["use"] in USES  # older files also have uses that are no longer forecast
    ]
    return LabelForecast(**{**content, "uses": tuple(uses)})


def _step_lists(bench: CurveBench, by_people: Mapping[str, Mapping[str, int]]) -> StepLists:
    lists, features, truth, answers = bench.training_lists("all", by_people)
    without, _ = labels_and_answers_of(bench.study, bench.train, lists, {}, bench.progress)
    others = reference_questions(bench.study, bench.train, lists.questions)
    _, reference = cached_features(bench.study, bench.train, others, bench.depth, bench.inputs.encoder, bench.progress)
    if len(reference) == 0:
        reference = features[:100]
    rows = bench.measured_questions(MEASURING)
    depth = min(bench.depth, bench.relevance.relevant.shape[1])
    return StepLists(
        lists,
        features,
        answers,
        truth,
        without,
        reference,
        bench.dev_features[bench.relevance.rows[rows], :depth],
        bench.relevance.relevant[rows, :depth].astype(bool),
    )


def _reranker_forecast(
    data: StepLists, further_labels: list[int], units: np.ndarray, seed: int, bench: CurveBench
) -> UseForecast:
    n = len(data.questions_with_positive)
    if n < FEWEST_QUESTIONS:
        return UseForecast("reranker", None, (), "judge about 30 passages of training questions first")
    steps = learning_steps(data, seed, bench.report)
    return UseForecast(
        "reranker",
        None,
        tuple(step_forecast(steps, float(np.log2((n + m) / n)), LEARNING_PRIOR, units) for m in further_labels),
    )


def _evaluation_forecast(bench: CurveBench, further_labels: list[int]) -> UseForecast:
    """Forecast the half-width of the interval of the base run's Success@1 on dev questions that people judged."""
    judged = {pair.question for pair in bench.labels.consensus()}
    rows = [i for i, question in enumerate(bench.relevance.questions) if question.id in judged]
    if len(rows) < FEWEST_QUESTIONS:
        return UseForecast("evaluation", None, (), "judge passages of about 4 dev questions first")
    hits, units = bench.relevance.relevant[rows, 0].astype(bool), bench.units[rows]
    now = half_width_forecast(hits, 0, units).value
    return UseForecast("evaluation", now, tuple(half_width_forecast(hits, m, units) for m in further_labels))


def _gold_forecast(bench: CurveBench) -> UseForecast:
    """Forecast the number of wrong gold passages among the next ones that people judge, from the share among those
    already judged.
    """
    pairs = labels_by_pair(bench.labels.consensus())
    questions = bench.study.questions.with_ids(dict.fromkeys(question for question, _ in pairs))
    said = [pairs[q.id, gold] for q in questions for gold in q.gold if (q.id, gold) in pairs]
    settled = [label for label in said if label in SETTLED]
    if len(settled) < 10:
        return UseForecast("gold", None, (), "judge about 30 gold passages first", "blindspot batch gold")
    wrong = sum(label != "positive" for label in settled)
    return UseForecast("gold", None, tuple(count_forecast(wrong, len(settled), n) for n in LABELS))


def _cleaning_reranker(
    data: StepLists, judged_mask: np.ndarray, further_labels: list[int], units: np.ndarray, seed: int, bench: CurveBench
) -> UseForecast:
    """Forecast the effect of cleaning on the reranker, by comparing training with people's labels and training with
    only gold and answer matches for the same pairs.
    """
    use = "cleaning_reranker"
    known = judged_mask[np.isin(judged_mask, data.questions_with_positive)]
    if len(known) < FEWEST_QUESTIONS:
        return UseForecast(use, None, (), "judge about 30 passages of training questions first")
    steps = cleaning_steps(data, known.tolist(), seed, bench.report)
    factors = [m / len(known) for m in further_labels]
    return UseForecast(use, None, tuple(step_forecast(steps, factor, CLEANING_PRIOR, units) for factor in factors))

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
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_cache import cached_features
from blindspot.backend.judges.feature_judge import labels_and_answers_of, reference_questions, settled_labels
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.adapter_steps import ADAPTER_QUESTIONS, adapter_steps
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
    "cleaning_retriever": "cleaning for a retriever, an adapter's Success@20",
    "cleaning_reranker": "cleaning for a reranker, Success@1",
}

MEASURE = {"reranker": "Success@1", "cleaning_retriever": "Success@20", "cleaning_reranker": "Success@1"}
TOO_EARLY = "It is too early to say what more labels would change; judge about 30 passages of training questions first."
LEARNERS = {
    "reranker": "a reranker",
    "cleaning_retriever": "a retriever trained on the cleaned set",
    "cleaning_reranker": "a reranker trained on the cleaned set",
}
"""What labels improve, in the sentence of the learning curve."""
LIKELY = 0.005  # the least gain that the sentence names although it is not certain
NO_CHANGE = 0.015
"""An interval within so much of nothing, in Success, says that cleaning is not expected to change a retriever."""


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
    def sentence(self) -> str:
        """Return a sentence on the use for which labels help most, and on the expected effect of cleaning training
        sets.
        """
        gains, use, is_sure = self._best_use()
        if not gains:
            return TOO_EARLY
        where = USES[use].split(",")[0] if use else ""
        if is_sure:
            what = f"labels pay most in {where}: the next {LABELS[-1]} are expected to {_gain_words(use, gains[use])}"
        else:
            what = f"no gain of the next {LABELS[-1]} labels is certain"
            what += f"; likeliest is that in {where} they {_gain_words(use, gains[use])}" if use else ""
        cleaning = next((each for each in self.uses if each.use == "cleaning_retriever" and each.expected), None)
        more = (
            ""
            if is_sure or "evaluation" in gains
            else " Judge some dev questions to see what labels give the evaluation."
        )
        return f"On this study, {what}{'' if cleaning is None else _cleaning_words(cleaning.expected[-1])}.{more}"

    @property
    def short_sentence(self) -> str:
        """Return in one sentence whether labels pay in this study, and for which use."""
        gains, use, is_sure = self._best_use()
        if not gains:
            return TOO_EARLY
        if not use:
            return f"Labels may not pay here: no gain of the next {LABELS[-1]} is certain or likely."
        where, gain = USES[use].split(",")[0], _gain_words(use, gains[use])
        if is_sure:
            return f"Labels pay most in {where}: the next {LABELS[-1]} are expected to {gain}."
        return f"It is not certain that labels pay here: likeliest is that in {where} the next {LABELS[-1]} {gain}."

    def _best_use(self) -> tuple[dict[str, Forecast], str, bool]:
        """Return the gain of each use, the use with the largest ("" if none is likely), and whether it is certain."""
        gains = {
            each.use: (_narrowing_sentence(each) if each.use == "evaluation" else each.expected[-1])
            for each in self.uses
            if each.expected and each.use != "gold"
        }
        sure = {use: gain for use, gain in gains.items() if gain.low > 0}
        likely = {use: gain for use, gain in gains.items() if gain.value >= LIKELY and use != "cleaning_retriever"}
        return gains, max(sure or likely, key=lambda name: gains[name].value, default=""), bool(sure)

    @property
    def answer(self) -> str:
        """Return in one sentence which use the next labels help most, or that no gain is established; "" if nothing can
        be said yet.
        """
        gains = {use: gain for use, gain in self._best_use()[0].items() if use in MEASURE}
        if not gains:
            return ""
        use = max(gains, key=lambda name: (gains[name].low > 0, gains[name].value))
        gain = gains[use]
        change = f"{signed_points(gain.value)} points of {MEASURE[use]} in {LEARNERS[use]}"
        interval = f"(90%: {signed_points(gain.low)} to {signed_points(gain.high)})"
        if gain.low > 0:
            return f"{LABELS[-1]} more labels are expected to bring {change} {interval}."
        forecast = "" if len(gains) == 1 else f"the best of {len(gains)} forecasts is "
        return f"No gain of {LABELS[-1]} more labels is established: {forecast}{change} {interval}."

    @property
    def basis(self) -> str:
        """Return in one sentence on what the forecast rests."""
        return (
            f"Forecast from trial fits with and without a part of the labels so far ({quantity(self.labels, 'judged pair')}, "
            f"{quantity(self.questions, 'training question')} with a known positive), compared on questions of dev."
        )

    def lines(self) -> list[str]:
        """Return one line for each use with the expected effect of the next labels and 90% intervals."""
        lines = []
        for each in self.uses:
            cells = [f"{n}: {value} ({ends})" for n, (value, ends) in zip(LABELS, each.forecast_cells, strict=False)]
            lacking = f"{each.lacking}{f': {each.command}' if each.command else ''}"
            lines.append(f"{each.title}: {'; '.join(cells) or lacking}")
        return lines


def _narrowing_sentence(evaluation: UseForecast) -> Forecast:
    """Return by how much the largest considered number of labels narrows the half-width of the interval."""
    last, now = evaluation.expected[-1], evaluation.now or 0.0
    return Forecast(now - last.value, now - last.high, now - last.low)


def _gain_words(use: str, gain: Forecast) -> str:
    """What labels do for a use, after "they" or "expected to"."""
    if use == "evaluation":
        return f"narrow the half-width of Success@1 by {_points(gain)}"
    return f"raise {MEASURE[use]} by {_points(gain)}"


def _cleaning_words(change: Forecast) -> str:
    """What cleaning is expected to change; an interval that is wide says that nobody can tell."""
    measured = f"the retriever's Success@20 {_stated(change)}"
    if change.low > 0 or change.high < 0:
        return f"; cleaning your training set is expected to {'raise' if change.low > 0 else 'lower'} {measured}"
    if max(-change.low, change.high) <= NO_CHANGE:
        return f"; cleaning your training set is not expected to change {measured}"
    return f"; what cleaning your training set would change in {measured} cannot be told yet"


def _points(forecast: Forecast) -> str:
    return f"{100 * forecast.value:.1f} points {_stated(forecast)}"


def _stated(forecast: Forecast) -> str:
    return stated_interval(100 * forecast.low, 100 * forecast.high, "+", level=90)


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
        _cleaning_retriever(bench, data, by_people, judged, more),
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


def _cleaning_retriever(
    bench: CurveBench,
    data: StepLists,
    by_people: Mapping[str, Mapping[str, int]],
    judged_mask: np.ndarray,
    further_labels: list[int],
) -> UseForecast:
    use = "cleaning_retriever"
    if bench.inputs.encoder is None:
        return UseForecast(use, None, (), "there is no dense index")
    if len(judged_mask) < FEWEST_QUESTIONS or len(data.lists.questions) < ADAPTER_QUESTIONS:
        return UseForecast(
            use, None, (), f"needs {ADAPTER_QUESTIONS} training questions with gold, and labels of {FEWEST_QUESTIONS}"
        )
    steps = adapter_steps(bench, Dense(bench.study, bench.inputs.encoder), data, by_people)
    factors = [m / len(judged_mask) for m in further_labels]
    return UseForecast(
        use, None, tuple(step_forecast(steps, factor, CLEANING_PRIOR, bench.units) for factor in factors)
    )


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

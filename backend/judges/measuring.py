"""Measure the quality of a study's judges on pairs with settled labels.

If there are random audits, the pairs come from these, and the figures are estimates for all pairs from which the audits
were drawn. Other labelled pairs were not drawn at random, so figures on them describe only these pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.analysis.buckets import bucket_group
from blindspot.analysis.judge_quality import JudgedPairs, JudgeFigures, judge_figures
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_of
from blindspot.backend.judges.judge import judges_of, kind_title
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import audited_pairs
from blindspot.db.errors import Missing, Refused
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels

Sample = Literal["audit", "settled"]
SAMPLES: dict[Sample, str] = {
    "audit": "pairs of the random audits, weighted by their inclusion probabilities",
    "settled": "all pairs that people settled; they are no random sample",
}
BYS = ("relation", "frequency", "source")
MACHINE = "imported labels"
SCORES: dict[str, float] = {"positive": 1.0, "related": 0.25, "negative": 0.0, "unsure": 0.5}
"""The scores that stand for a machine annotator's labels. Pairs labelled unsure are left out beforehand."""


@dataclass(frozen=True, slots=True)
class MeasuredJudge:
    """The quality of one judge.

    Attributes:
        kind: The title of its kind.
        figures: None if it scored none of the pairs.
        unscored: Pairs of the sample without a score.
        cost: Price of a label, None if unknown; 0 for a judge of this machine. tokens: Tokens of a label, None if it
        has none.
    """

    name: str
    kind: str
    figures: JudgeFigures | None
    unscored: int
    cost: float | None
    tokens: float | None


@dataclass(frozen=True, slots=True)
class JudgeTable:
    """All judges on the same sample of pairs."""

    sample: Sample
    pairs: int
    questions: int
    judges: list[MeasuredJudge]

    @property
    def sample_words(self) -> str:
        return SAMPLES[self.sample]


@dataclass(frozen=True, slots=True)
class SamplePairs:
    """The labelled pairs on which judges are measured: (question id, passage id), label, inclusion probability."""

    pairs: list[tuple[str, str]]
    labels: list[str]
    probabilities: list[float]


def measurable_judges(study: Study) -> dict[str, str]:
    """Return the judges that have scores in the study, including machine annotators: name to title of the kind."""
    kinds = {card.name: kind_title(card.kind) for card in judges_of(study)}
    scored = {name: kinds.get(name, "scores") for name in study.parts("scores")}
    return scored | {name: MACHINE for name in Labels(study.labels_path).machine_label_counts() if name not in scored}


def measure_judges(study: Study, names: Sequence[str] | None = None, sample: Sample | None = None) -> JudgeTable:
    """Measure judges on the same pairs.

    Args:
        names: Default every judge with scores.
        sample: Default the audits if a question of them is judged completely, else all settled pairs.

    Raises:
        Missing: people settled no pair, or there is no such judge. Refused: an unknown sample, or an audit without
        questions.
    """
    known = measurable_judges(study)
    if unknown := [name for name in names or () if name not in known]:
        offered = ", ".join(known) or "none yet"
        raise Missing(f"no judge {unknown[0]!r} has scores here; judges with scores: {offered}")
    chosen, drawn = drawn_sample(study, sample)
    judges = [_measure_judge(study, name, known[name], drawn) for name in (names or known)]
    return JudgeTable(chosen, len(drawn.pairs), len({question for question, _ in drawn.pairs}), judges)


def drawn_sample(study: Study, kind: Sample | None) -> tuple[Sample, SamplePairs]:
    """Return the kind of sample and the pairs on which judges are measured. Raises the same errors as
    `measure_judges`.
    """
    if kind is not None and kind not in SAMPLES:
        raise Refused(f"--sample must be {' or '.join(SAMPLES)}, not {kind!r}")
    labels = Labels(study.labels_path)
    settled = labels_by_pair(pair for pair in labels.consensus() if pair.label in SETTLED)
    if not settled:
        raise Missing("people have settled no pair yet, so no judge can be measured; label some on Judge")
    if kind != "settled":
        audited = [(pair, probability) for pair, probability in audited_pairs(study) if pair in settled]
        if audited:
            pairs = [pair for pair, _ in audited]
            return "audit", SamplePairs(pairs, [settled[pair] for pair in pairs], [p for _, p in audited])
        if kind == "audit":
            raise Refused(
                "no question of a random audit is judged completely yet; judge them, or give --sample settled"
            )
    pairs = list(settled)
    return "settled", SamplePairs(pairs, [settled[pair] for pair in pairs], [1.0] * len(pairs))


def _measure_judge(study: Study, name: str, kind: str, sample: SamplePairs) -> MeasuredJudge:
    scores = stored_scores(study, name, kind, sample.pairs)
    places = [place for place, pair in enumerate(sample.pairs) if pair in scores]
    cost, tokens = _cost(study, name)
    if not places:
        return MeasuredJudge(name, kind, None, len(sample.pairs), cost, tokens)
    records = {q.id: q for q in study.questions.with_ids({sample.pairs[place][0] for place in places})}
    asked = [records[sample.pairs[place][0]] for place in places]
    judged = JudgedPairs(
        np.array([scores[sample.pairs[place]] for place in places]),
        np.array([sample.labels[place] for place in places], dtype=str),
        np.array([question.id for question in asked], dtype=str),
        np.array([sample.probabilities[place] for place in places]),
        {
            "relation": [question.relation for question in asked],
            "frequency": [bucket_group(question.bucket, question.frequency) for question in asked],
            "source": [question.dataset or None for question in asked],
        },
        units_of(asked, study.settings.unit).codes,
    )
    return MeasuredJudge(name, kind, judge_figures(judged), len(sample.pairs) - len(places), cost, tokens)


def stored_scores(
    study: Study, name: str, kind: str, pairs: Sequence[tuple[str, str]]
) -> Mapping[tuple[str, str], float]:
    """Return the stored scores of a judge of `measurable_judges` for some pairs."""
    if kind != MACHINE:
        return ScoreStore.open(study, name)(pairs)
    given = Labels(study.labels_path).machine_labels(name)
    return {pair: SCORES[given[pair]] for pair in pairs if given.get(pair, "unsure") != "unsure"}


def _cost(study: Study, name: str) -> tuple[float | None, float | None]:
    """Return the mean price and number of tokens per label. For a language model they come from its stored answers; for
    other judges the price is 0.
    """
    from blindspot.backend.judges.llm.answers import FILE, AnswerStore
    from blindspot.backend.judges.llm.judge import LLMJudge, llm_judges

    if name not in llm_judges(study):
        return 0.0, None
    judge = LLMJudge.load(study, name)
    if not study.path("judges", FILE).is_file():
        return None, None
    mean = AnswerStore(study, read_only=True).mean_cost([judge.model], judge.recipe)
    if mean is None:
        return None, None
    return judge.cost(mean[0], mean[1]), mean[0] + mean[1]

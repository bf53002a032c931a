"""A cascade of judges: each stage decides where it is sure by its own measured error, the next one is asked about the
rest.

Cheap stages come first: answer match, a feature judge, a cross-encoder, a language model. What no stage decides is left
to people. `judges/<name>/` holds the stages with their bounds, `scores/<name>/` the decisions as scores 0 and 1, and
`decisions.db` beside them which stage decided each pair and what it cost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from blindspot.analysis.audit import Rate, rate
from blindspot.analysis.by_question import LEVEL
from blindspot.analysis.judge_quality import FEW_QUESTIONS, MISSED_POSITIVES, RIGHT_POSITIVES
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest, whole_folder, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.backend.judges.judge import JUDGES, JudgeCard, StoredJudgeKind, refuse_taken
from blindspot.backend.judges.llm.answers import AnswerStore, pair_hash
from blindspot.backend.judges.llm.asking import ask
from blindspot.backend.judges.llm.judge import LLMJudge, consent_to_send, llm_judges
from blindspot.backend.judges.llm.judging import DEPTH, pairs_to_judge, read_pairs
from blindspot.backend.judges.measuring import drawn_sample, measurable_judges, stored_scores
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.text.answers import DEFAULT_RULE, match_run
from blindspot.db.connection import PerThread, writing
from blindspot.db.errors import Missing, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.manifest import Manifest
    from blindspot.backend.core.study import Study
    from blindspot.backend.judges.feature_judge import Lists
    from blindspot.backend.progress import Progress

KIND = "cascade"
ANSWERS = "answers"
"""The stage that matches answers: score 1 for a passage that contains one, else 0."""
PEOPLE = "people"
FROM_BELOW = (0.02, 0.1, 0.3, 0.5)
FROM_ABOVE = (0.9, 0.7, 0.5)
_EMPTY = Rate(None, None, None, 0, 0, 0, None, None, 0.0, None, "")
PAIRS_PER_BLOCK = 400
PairId = tuple[str, str]
Decided = Literal["positive", "negative"]
_SCHEMA = """
    CREATE TABLE IF NOT EXISTS decision (
        question TEXT NOT NULL, passage TEXT NOT NULL, stage TEXT NOT NULL, decided TEXT, score REAL, cost REAL,
        PRIMARY KEY (question, passage)) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """One judge of a cascade, with the bounds beyond which it decides.

    Attributes:
        below: Scores under it are negatives; None if its error never is small enough.
        above: Scores from it on are positives; None likewise.
        pairs: Settled pairs that reached the stage, on which the bounds were measured.
        missed, missed_high: Share of positives among its negatives, with the upper end of the interval.
        right, right_low: Share of positives among its positives, with the lower end.
    """

    judge: str
    below: float | None
    above: float | None
    pairs: int
    missed: float | None
    missed_high: float | None
    right: float | None
    right_low: float | None

    def decide(self, score: float | None) -> Decided | None:
        """Return the role of a pair with this score; None if the stage is not sure."""
        if score is None:
            return None
        if self.below is not None and score < self.below:
            return "negative"
        return "positive" if self.above is not None and score >= self.above else None


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a pair. stage: the judge that decided, or "people" if none did. cost: what language models took
    for it.
    """

    question: str
    passage: str
    stage: str
    decided: Decided | None
    score: float | None
    cost: float | None


class DecisionStore(PerThread):
    """The decisions of one cascade."""

    def __init__(self, study: Study, name: str):
        folder = study.path("scores", name)
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "decisions.db")
        self.connection.executescript(_SCHEMA)

    def add(self, decisions: Iterable[Decision]) -> None:
        rows = [(d.question, d.passage, d.stage, d.decided, d.score, d.cost) for d in decisions]
        with writing(self.connection) as connection:
            connection.executemany("INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?, ?, ?)", rows)

    def of(self, question: str) -> dict[str, Decision]:
        """Return the decisions about a question's passages, by passage."""
        rows = self.connection.execute("SELECT * FROM decision WHERE question = ?", (question,))
        return {row[1]: Decision(*row) for row in rows}

    def counts(self) -> list[tuple[str, str | None, int, float | None]]:
        """Return (stage, decided, pairs, cost) for each stage and decision."""
        return self.connection.execute(
            "SELECT stage, decided, count(*), sum(cost) FROM decision GROUP BY stage, decided"
        ).fetchall()


def make_cascade(
    study: Study,
    name: str,
    stages: Sequence[str],
    right: float = RIGHT_POSITIVES,
    missed: float = MISSED_POSITIVES,
    replace: bool = False,
) -> list[CascadeStage]:
    """Measure each stage on the settled pairs that reach it, and store the cascade.

    The intervals are corrected for the number of bounds that a stage chooses from, so that choosing does not make its
    error look smaller.

    Args:
        stages: "answers" or names of judges with scores, cheapest first.
        right: Least share of positives among a stage's positives, by the lower end of the 95% interval.
        missed: Largest share of positives among its negatives, by the upper end.

    Raises:
        Refused: the name is taken, a stage occurs twice, or no stage is ever sure. Missing: no such judge, or no
        settled pairs.
    """
    folder = study.path("judges", check_name(name, "judge"))
    if not stages or len(set(stages)) != len(stages):
        raise Refused("name each stage once with --stage, the cheapest first")
    if not (0.5 < right < 1 and 0 < missed < 0.5):
        raise Refused("--right must be above 0.5 and below 1, --missed above 0 and below 0.5")
    refuse_taken(study, name, KIND, replace)
    known = measurable_judges(study)
    if unknown := [stage for stage in stages if stage not in known and stage != ANSWERS]:
        raise Missing(f"no judge {unknown[0]!r} has scores here; stages: {', '.join([ANSWERS, *known])}")
    _, sample = drawn_sample(study, None)
    left, measured = list(range(len(sample.pairs))), []
    for each in stages:
        pairs = [sample.pairs[place] for place in left]
        scores = _answer_scores(study, pairs) if each == ANSWERS else stored_scores(study, each, known[each], pairs)
        values = np.array([scores.get(pair, np.nan) for pair in pairs])
        positive = np.array([sample.labels[place] == "positive" for place in left], dtype=bool)
        weights = np.array([sample.probabilities[place] for place in left])
        questions = np.array([question for question, _ in pairs], dtype=str)
        stage = _measured(each, values, positive, weights, questions, right, missed)
        measured.append(stage)
        left = [
            place for place, value in zip(left, values.tolist(), strict=True) if stage.decide(_known(value)) is None
        ]
    if all(stage.below is None and stage.above is None for stage in measured):
        raise Refused(
            f"no stage is sure at the {len(sample.pairs):,} settled pairs: people must judge more pairs, or ask for "
            "less with --right and --missed"
        )
    with study.building(f"judges/{name}"), whole_folder(folder) as building:
        ScoreStore.remove(study, name)
        write_manifest(
            building,
            {
                "kind": KIND,
                "name": name,
                "stages": [asdict(stage) for stage in measured],
                "right": right,
                "missed": missed,
            },
        )
    return measured


@job("judge with cascade")
def judge_with_cascade(
    study: Study,
    name: str,
    run: str,
    depth: int = DEPTH,
    limit: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Decide the first ranks of a run stage by stage. Language models are asked about what reaches them; others must
    have scores.

    Raises as `judge_with_llm` does for a language model.
    """
    stages = cascade_stages(study, name)
    models = {stage.judge: LLMJudge.load(study, stage.judge) for stage in stages if stage.judge in llm_judges(study)}
    for model in models.values():
        consent_to_send(model)
    kinds = measurable_judges(study)
    done = DecisionStore(study, name)
    ids = pairs_to_judge(study, name, run, depth, limit)
    store = ScoreStore.create(study, name, False, {"model_hash": _recipe(stages)})
    with study.building(f"scores/{name}"):
        for begin in range(0, len(ids), PAIRS_PER_BLOCK):
            if progress is not None:
                progress(begin, len(ids), "judging stage by stage")
            decisions = _decide(study, stages, models, kinds, ids[begin : begin + PAIRS_PER_BLOCK])
            done.add(decisions)
            store.add(
                (d.question, d.passage, float(d.decided == "positive")) for d in decisions if d.decided is not None
            )
    counts = done.counts()
    decided = sum(n for stage, _, n, _ in counts if stage != PEOPLE)
    return {"judge": name, "run": run, "pairs": len(ids), "decided": decided, "stages": counts}


def _decide(
    study: Study,
    stages: Sequence[CascadeStage],
    models: Mapping[str, LLMJudge],
    kinds: Mapping[str, str],
    ids: Sequence[PairId],
) -> list[Decision]:
    left, decisions, costs = list(ids), [], dict.fromkeys(ids, 0.0)
    scores: Mapping[PairId, float] = {}
    for stage in stages:
        if stage.judge == ANSWERS:
            scores = _answer_scores(study, left)
        elif stage.judge in models:
            scores = _asked(study, models[stage.judge], left, costs)
        else:
            scores = stored_scores(study, stage.judge, kinds[stage.judge], left)
        still = []
        for pair in left:
            score = scores.get(pair)
            decided = stage.decide(score)
            if decided is None:
                still.append(pair)
            else:
                decisions.append(Decision(*pair, stage.judge, decided, score, costs[pair]))
        left = still
    return decisions + [Decision(*pair, PEOPLE, None, None, costs[pair]) for pair in left]


def _asked(study: Study, judge: LLMJudge, ids: Sequence[PairId], costs: dict[PairId, float]) -> dict[PairId, float]:
    """Ask a language model about some pairs, and add what each took to `costs`."""
    pairs = read_pairs(study, ids)
    found = ask(judge, pairs)
    hashes = {(p.question.id, p.passage.id): pair_hash(p.question.text, p.passage) for p in pairs}
    spent: dict[str, float] = {}
    for answer in AnswerStore(study).of(judge.models, judge.recipe, hashes.values()).values():
        spent[answer.pair] = spent.get(answer.pair, 0.0) + (judge.cost(answer.tokens_in, answer.tokens_out) or 0.0)
    for pair, hashed in hashes.items():
        costs[pair] += spent.get(hashed, 0.0)
    return found.scores


def cascade_stages(study: Study, name: str) -> list[CascadeStage]:
    """Return the stages of a cascade. Raises Missing."""
    about = read_manifest(study.path("judges", check_name(name, "judge")))
    if about is None or about.get("kind") != KIND:
        raise Missing(f"there is no cascade {name!r}; make one with 'blindspot judge cascade {name} --stage JUDGE'")
    return [CascadeStage(**stage) for stage in about["stages"]]


def _measured(
    judge: str,
    scores: np.ndarray,
    positive: np.ndarray,
    weights: np.ndarray,
    questions: np.ndarray,
    right: float,
    missed: float,
) -> CascadeStage:
    """Return a stage with its bounds: the widest at which the interval, corrected for the number of bounds, keeps the
    aim.
    """
    below = above = None
    kept, added = _EMPTY, _EMPTY
    by_negatives = _distinct([(bound, scores < bound) for bound in FROM_BELOW])
    for bound, among in by_negatives:
        found = _share(among, positive, weights, questions, len(by_negatives))
        if found.questions >= FEW_QUESTIONS and found.high is not None and found.high <= missed:
            below, kept = bound, found
    by_positives = _distinct([(bound, scores >= bound) for bound in FROM_ABOVE])
    for bound, among in by_positives:
        found = _share(among, positive, weights, questions, len(by_positives))
        if found.questions >= FEW_QUESTIONS and found.low is not None and found.low >= right:
            above, added = bound, found
    return CascadeStage(judge, below, above, len(scores), kept.value, kept.high, added.value, added.low)


def _distinct(bounds: Sequence[tuple[float, np.ndarray]]) -> list[tuple[float, np.ndarray]]:
    """Return the bounds that choose different pairs; of equal ones the last, without those that choose none."""
    by_count = {int(among.sum()): (bound, among) for bound, among in bounds}  # the sets are nested
    return [by_count[count] for count in sorted(by_count) if count]


def _share(among: np.ndarray, positive: np.ndarray, weights: np.ndarray, questions: np.ndarray, bounds: int) -> Rate:
    """Return the share of positives, with an interval that holds for all of some bounds together (Bonferroni)."""
    n, level = int(among.sum()), 1 - (1 - LEVEL) / bounds
    return rate(positive[among], np.ones(n, bool), weights[among], questions[among], level=level, resamples=1000)


def _answer_scores(study: Study, pairs: Sequence[PairId]) -> dict[PairId, float]:
    """Return 1 for each passage that contains an answer, else 0; questions without answers have no score."""
    by_question: dict[str, list[str]] = {}
    for asked, passage in pairs:
        by_question.setdefault(asked, []).append(passage)
    questions = [question for question in study.questions.some(by_question) if question.answers]
    rows = study.corpus.ordinals({passage for _, passage in pairs})
    width = max((len(by_question[question.id]) for question in questions), default=0)
    if not width:
        return {}
    ordinals = np.full((len(questions), width), -1, np.int32)
    for i, question in enumerate(questions):
        listed = [rows.get(passage, -1) for passage in by_question[question.id]]
        ordinals[i, : len(listed)] = listed
    matched = match_run(study.corpus, questions, ordinals, rule=DEFAULT_RULE)
    return {
        (question.id, passage): float(matched[i, j])
        for i, question in enumerate(questions)
        for j, passage in enumerate(by_question[question.id])
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _recipe(stages: Sequence[CascadeStage]) -> str:
    return json.dumps([asdict(stage) for stage in stages], sort_keys=True)


class CascadeJudge:
    """The decisions of a cascade as a `Judge`: NaN where it left a pair to people, or was not run."""

    calibrated = False

    def __init__(self, study: Study, name: str):
        cascade_stages(study, name)
        self.study, self.name = study, name

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64: 1 for positives, 0 for negatives, else NaN."""
        found = np.full(lists.rows.shape, np.nan)
        decisions = DecisionStore(self.study, self.name)
        for i, question in enumerate(lists.questions):
            known = decisions.of(question.id)
            places = np.flatnonzero(lists.rows[i] >= 0)
            passages = self.study.corpus.passages(lists.rows[i, places].tolist())
            for place, passage in zip(places.tolist(), passages, strict=True):
                if passage.id in known and known[passage.id].decided is not None:
                    found[i, place] = float(known[passage.id].decided == "positive")
        return found


class CascadeKind(StoredJudgeKind):
    name, title = KIND, "cascade"
    help = "several judges, each deciding where it is sure"
    run_job = staticmethod(judge_with_cascade)

    def card(self, name: str, about: Manifest, scored: bool) -> JudgeCard:
        return JudgeCard(name, KIND, " → ".join(stage["judge"] for stage in about["stages"]), False, None, scored)

    def open(self, study: Study, name: str, device: str | None = None) -> CascadeJudge:
        return CascadeJudge(study, name)


JUDGES.register(CascadeKind())

"""Judge pairs with a language model: an estimate of the cost beforehand, and the job."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core.consent import find_consent, how_to_allow
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import JUDGES, JudgeCard, StoredJudgeKind
from blindspot.backend.judges.llm.answers import AnswerStore, pair_hash
from blindspot.backend.judges.llm.asking import (
    CHARACTERS_PER_TOKEN,
    PairAsker,
    score_of,
)
from blindspot.backend.judges.llm.endpoint import destination
from blindspot.backend.judges.llm.judge import KIND, LLMJudge, PairTexts, consent_to_send
from blindspot.backend.judges.llm.prompts import Prompt
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing, Refused
from blindspot.db.events import SETTLED
from blindspot.db.labels import Labels

DEPTH = 20
PAIRS_PER_BLOCK = 400  # whose texts are in memory together
TOKENS_OUT, SECONDS = 12, 1.5  # of an answer, for the same


@dataclass(frozen=True, slots=True)
class LLMPlan:
    """The estimated requests, cost and time for judging, before anything is sent.

    Attributes:
        pairs: Pairs to judge, without those that have a score.
        stored: Of these, those with a grade among the stored answers.
        requests: Requests to send.
        tokens_in, tokens_out, seconds: Estimates; from earlier answers if `measured`, else from the length of the
        texts.
        cost: None without prices.
        spent: What the stored answers of this judge cost; None without prices.
        destination: Where the texts go.
        how_to_allow: The sentence that says how to allow it; "" where it is allowed already.
    """

    pairs: int
    stored: int
    requests: int
    tokens_in: int
    tokens_out: int
    seconds: float
    cost: float | None
    spent: float | None
    measured: bool
    destination: str
    how_to_allow: str


def pairs_to_judge(
    study: Study, name: str, run: str | None, depth: int = DEPTH, limit: int | None = None
) -> list[tuple[str, str]]:
    """Return the (question id, passage id) pairs without a score: those in a run's top ranks or, without a run, all
    pairs with a settled label.

    Args:
        limit: Maximum number of pairs with a score of this judge, those that have one already included.

    Raises Missing for an unknown run or, without a run, if no pair has a settled label.
    """
    known = ScoreStore.open(study, name) if name in study.parts("scores") else None
    room = None if limit is None else max(limit - (len(known) if known is not None else 0), 0)
    pairs: list[tuple[str, str]] = []
    for question, passages in _run_lists(study, run, depth):
        scored = known.scores_of([question]).get(question, {}) if known is not None else {}
        pairs += [(question, passage) for passage in passages if passage not in scored]
        if room is not None and len(pairs) >= room:
            return pairs[:room]
    return pairs


def _run_lists(study: Study, run: str | None, depth: int) -> Iterator[tuple[str, list[str]]]:
    if run is None:
        settled: dict[str, list[str]] = {}
        for pair in Labels(study.labels_path).consensus():
            if pair.label in SETTLED:
                settled.setdefault(pair.question, []).append(pair.passage)
        if not settled:
            raise Missing("people have settled no pair yet; name a run with --run, or label first")
        yield from settled.items()
        return
    opened = study.run(run)
    for row, question in enumerate(opened.question_ids):
        rows = [ordinal for ordinal in opened.hits.ordinals[row, :depth].tolist() if ordinal >= 0]
        yield question, [passage.id for passage in study.corpus.passages(rows)]


def plan(study: Study, name: str, run: str | None, depth: int = DEPTH, limit: int | None = None) -> LLMPlan:
    """Estimate the cost of judging a run or, without a run, the pairs with a settled label. Nothing is sent."""
    return plan_pairs(study, name, pairs_to_judge(study, name, run, depth, limit))


def plan_pairs(study: Study, name: str, ids: Sequence[tuple[str, str]]) -> LLMPlan:
    """Estimate the cost of judging some (question id, passage id) pairs. Nothing is sent."""
    judge = LLMJudge.load(study, name)
    store = AnswerStore(study)
    stored, absent, characters = 0, 0, 0
    for block in _blocks(ids):
        pairs = read_pairs(study, block)
        hashes = {pair: pair_hash(pair.question.text, pair.passage) for pair in pairs}
        answers = store.answers_about([judge.model], judge.recipe, hashes.values())
        have = {hashed for (hashed, _, _), answer in answers.items() if answer.grade is not None}
        for pair, hashed in hashes.items():
            if hashed in have:
                stored += 1
                continue
            absent += 1
            messages = judge.prompt.messages(pair.question.text, pair.passage)
            characters += sum(len(message["content"]) for message in messages)
    mean = store.mean_cost([judge.model], judge.recipe)
    tokens_in = round(absent * mean[0]) if mean else round(characters / CHARACTERS_PER_TOKEN)
    tokens_out = round(absent * (mean[1] if mean else TOKENS_OUT))
    seconds = absent * (mean[2] if mean else SECONDS) / judge.settings.concurrency
    to = destination(judge.about["endpoint"])
    return LLMPlan(
        len(ids),
        stored,
        absent,
        tokens_in,
        tokens_out,
        seconds,
        judge.cost(tokens_in, tokens_out),
        judge.cost(*store.tokens([judge.model], judge.recipe)),
        mean is not None,
        str(to),
        "" if find_consent(study, judge.about["endpoint"]) else how_to_allow(study, judge.about["endpoint"]),
    )


@job("judge with llm")
def judge_with_llm(
    study: Study,
    name: str,
    run: str | None = None,
    depth: int = DEPTH,
    limit: int | None = None,
    max_cost: float | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Ask a language model about the top ranks of a run or, without a run, about every pair with a settled label.

    Pairs with a score are skipped, and stored answers are reused. The model is asked again where a stored answer could
    not be parsed.

    Args:
        depth: Ranks of each question.
        limit: Maximum number of pairs with a score of this judge, those of earlier runs included.
        max_cost: Maximum cost of this judge's answers, those of earlier runs included.

    Raises:
        NeedsConsent: nobody allowed the texts to go there. Refused: the endpoint refuses (a wrong key, another model), its
            answers cannot be read, or a maximum cost without prices. EndpointAway: it is away.
    """
    judge = LLMJudge.load(study, name)
    check_max_cost(judge, max_cost)
    ids = pairs_to_judge(study, name, run, depth, limit)
    consent_to_send(judge)
    recipe = {"model_hash": judge.recipe, "llm": judge.model, "endpoint": judge.about["endpoint"]}
    store = ScoreStore.create(study, name, False, recipe)
    judged = unknown = 0
    asking = PairAsker(judge, len(ids), progress, max_cost, repeat_answered=True)
    with study.lock_part(f"scores/{name}"), asking:
        for block in _blocks(ids):
            for pair, answer in asking.answers_about(read_pairs(study, block)):
                score = score_of(judge, answer)
                if score is None:
                    unknown += 1
                else:
                    store.add([(pair.question.id, pair.passage.id, score)])
                    judged += 1
    return {
        "judge": name,
        "run": run,
        "pairs": judged,
        "scored": len(store),
        "unknown": unknown,
        "unreadable": asking.unreadable,
        "failed": asking.failed,
        "too_dear": asking.too_dear,
        "refused_options": sorted(asking.endpoint.refused),
        "requests": asking.requests,
        "tokens_in": asking.tokens_in,
        "tokens_out": asking.tokens_out,
        "cost": judge.cost(asking.tokens_in, asking.tokens_out),
        "spent": judge.cost(*asking.store.tokens([judge.model], judge.recipe)),
        "seconds": round(time.monotonic() - asking.started, 1),
    }


def check_max_cost(judge: LLMJudge, max_cost: float | None) -> None:
    """Raise Refused if a maximum cost is given for a judge without prices."""
    if max_cost is not None and judge.cost(0, 0) is None:
        raise Refused(
            f"the cost of {judge.name!r} is unknown; add it again with --price-in and --price-out (and --replace; "
            "stored answers are not paid for again)"
        )


def _blocks(ids: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    for begin in range(0, len(ids), PAIRS_PER_BLOCK):
        yield ids[begin : begin + PAIRS_PER_BLOCK]


def read_pairs(study: Study, ids: Sequence[tuple[str, str]]) -> list[PairTexts]:
    """Return the texts of some pairs, leaving out pairs that are not in the study."""
    questions = {question.id: question for question in study.questions.with_ids({question for question, _ in ids})}
    passages = study.corpus.by_id(passage for _, passage in ids)
    return [PairTexts(questions[q], passages[p]) for q, p in ids if q in questions and p in passages]


class LLMKind(StoredJudgeKind):
    name, title = KIND, "language model"
    help = "a language model behind an OpenAI-compatible endpoint"
    run_job = staticmethod(judge_with_llm)

    def card(self, name: str, manifest: Manifest, has_scores: bool) -> JudgeCard:
        return JudgeCard(name, KIND, "", False, None, has_scores)

    def thresholds(self, manifest: Manifest) -> tuple[float, float]:
        """Return the thresholds: a pair below 0.5 is negative, and from the score of the lowest positive grade on it is
        positive.
        """
        prompt = Prompt(**manifest["prompt"])
        return 0.5, prompt.probability(prompt.positive_from)

    def open(self, study: Study, name: str, device: str | None = None) -> LLMJudge:
        return LLMJudge.load(study, name)


JUDGES.register(LLMKind())

"""Put the questions of a language-model judge to its endpoint: several at a time, stored as they come, resumed where they stopped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from blindspot.backend.judges.llm.answers import LONGEST_REPLY, AnswerStore, StoredAnswer, pair_hash
from blindspot.backend.judges.llm.endpoint import Endpoint, EndpointAway, is_same_model
from blindspot.backend.judges.llm.judge import LLMJudge, PairTexts, consent_to_send
from blindspot.backend.judges.llm.prompts import majority
from blindspot.backend.text.counting import counted, duration
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.progress import Progress

AWAY_IN_A_ROW = 10  # pairs without an answer, one after another, after which the endpoint counts as away
SECONDS_BETWEEN_NEWS = 5.0
GARBLED_TWICE = 2


@dataclass(slots=True)
class Asked:
    """What asking about some pairs brought.

    Attributes:
        scores: Score by (question id, passage id) of the pairs with a grade.
        labels: Label by pair, the majority of the votes.
        unknown: Pairs whose answers were garbled.
        failed: Pairs that the endpoint did not answer; they are asked again next time.
        requests, tokens_in, tokens_out: What was sent now.
    """

    scores: dict[tuple[str, str], float] = field(default_factory=dict)
    labels: dict[tuple[str, str], str] = field(default_factory=dict)
    unknown: int = 0
    failed: int = 0
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


def ask(judge: LLMJudge, pairs: Sequence[PairTexts], progress: Progress | None = None) -> Asked:
    """Ask about some pairs and return the answers, without storing scores. Answers are stored. Raises as
    `judge_with_llm`.
    """
    found = Asked()
    with Asking(judge, len(pairs), progress) as asking:
        for pair, answers in asking.about(pairs):
            score = score_of(judge, answers)
            if score is None:
                found.unknown += 1
                continue
            key = pair.question.id, pair.passage.id
            found.scores[key], found.labels[key] = score, label_of(judge, answers)
    found.failed, found.requests = asking.failed, asking.requests
    found.tokens_in, found.tokens_out = asking.tokens_in, asking.tokens_out
    return found


class Asking:
    """Requests about many pairs, some at a time. Every answer is stored as soon as it is there."""

    def __init__(self, judge: LLMJudge, pairs: int, progress: Progress | None):
        self.judge, self.pairs, self.progress = judge, pairs, progress
        self.store, self.started = AnswerStore(judge.study), time.monotonic()
        settings = judge.settings
        self.endpoint = Endpoint(
            judge.about["endpoint"],
            consent_to_send(judge),
            settings.timeout,
            settings.retries,
            settings.concurrency,
        )
        self.done = self.asked = self.failed = self.requests = self.tokens_in = self.tokens_out = 0
        self._in_a_row, self._news, self._doing = 0, 0.0, ""

    def __enter__(self) -> Asking:
        self._workers = ThreadPoolExecutor(self.judge.settings.concurrency)
        return self

    def __exit__(self, *exception: object) -> None:
        self.endpoint.stop()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def about(self, pairs: Sequence[PairTexts]) -> Iterator[tuple[PairTexts, list[StoredAnswer]]]:
        """Yield each pair with all its votes, in the order in which they arrive; pairs that failed are left out."""
        hashes = [pair_hash(pair.question.text, pair.passage) for pair in pairs]
        have = self.store.of(self.judge.models, self.judge.recipe, hashes)
        waiting: dict[Future[list[StoredAnswer]], tuple[PairTexts, list[StoredAnswer]]] = {}
        for pair, hashed in zip(pairs, hashes, strict=True):
            lacking = lacking_votes(self.judge, hashed, have)
            known = (
                [answer for (each, _, _), answer in have.items() if each == hashed]
                if len(lacking) < self.judge.votes
                else []
            )
            if not lacking:
                yield self._finished(pair, known)
                continue
            while len(waiting) >= 2 * self.judge.settings.concurrency:
                yield from self._collect(waiting)
            waiting[self._workers.submit(self._votes, pair, hashed, lacking)] = pair, known
        while waiting:
            yield from self._collect(waiting)

    def _finished(self, pair: PairTexts, answers: list[StoredAnswer]) -> tuple[PairTexts, list[StoredAnswer]]:
        self.done += 1
        self._report()
        return pair, answers

    def _collect(
        self, waiting: dict[Future[list[StoredAnswer]], tuple[PairTexts, list[StoredAnswer]]]
    ) -> Iterator[tuple[PairTexts, list[StoredAnswer]]]:
        ready = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED).done
        self._report()
        for future in ready:
            pair, known = waiting.pop(future)
            try:
                new = future.result()
            except EndpointAway as error:
                self.failed, self._in_a_row = self.failed + 1, self._in_a_row + 1
                if self._in_a_row >= AWAY_IN_A_ROW:
                    raise EndpointAway(
                        f"{error}; {counted(self.done, 'pair')} of {self.pairs:,} are judged and kept. The same "
                        "command goes on from there"
                    ) from None
                continue
            self._in_a_row = 0
            self.store.add(new)
            self.asked += 1
            self.requests += sum(answer.requests for answer in new)
            self.tokens_in += sum(answer.tokens_in for answer in new)
            self.tokens_out += sum(answer.tokens_out for answer in new)
            yield self._finished(pair, [*known, *new])

    def _votes(self, pair: PairTexts, hashed: str, lacking: Sequence[tuple[str, int]]) -> list[StoredAnswer]:
        return [self._vote(pair, hashed, model, sample) for model, sample in lacking]

    def _vote(self, pair: PairTexts, hashed: str, model: str, sample: int) -> StoredAnswer:
        """Ask once; a garbled answer is asked again once, and is then unknown."""
        judge, began = self.judge, time.monotonic()
        messages = judge.prompt.messages(pair.question.text, pair.passage)
        options: dict[str, Any] = {
            "temperature": judge.temperature,
            "max_tokens": judge.settings.tokens,
            "response_format": judge.prompt.schema(),
        }
        if judge.temperature > 0:
            options["seed"] = sample
        tokens_in = tokens_out = requests = 0
        grade, text, served = None, "", ""
        while grade is None and requests < GARBLED_TWICE:
            reply = self.endpoint.ask(model, messages, **options)
            if not is_same_model(model, reply.model):
                raise Refused(
                    f"the endpoint answered as model {reply.model[:80]!r} although {model!r} was asked for; nothing "
                    "of this answer was kept. Add the judge again with the model that the endpoint serves"
                )
            requests, text, served = requests + 1, reply.text or "", reply.model
            tokens_in, tokens_out = tokens_in + reply.tokens_in, tokens_out + reply.tokens_out
            grade = judge.prompt.grade(reply.text)
        return StoredAnswer(
            model,
            judge.recipe,
            sample,
            hashed,
            grade,
            text[:LONGEST_REPLY],
            served,
            tokens_in,
            tokens_out,
            requests,
            time.monotonic() - began,
            time.time(),
        )

    def _report(self) -> None:
        if self.progress is None:
            return
        now = time.monotonic()
        if not self._doing or now - self._news >= SECONDS_BETWEEN_NEWS:
            self._news, self._doing = now, self._state(now)
        self.progress(self.done, self.pairs, self._doing)

    def _state(self, now: float) -> str:
        words = [f"asking {', '.join(self.judge.models)}"]
        if self.requests:
            words.append(f"{self.tokens_in + self.tokens_out:,} tokens")
            cost = self.judge.cost(self.tokens_in, self.tokens_out)
            words += [f"cost {cost:,.2f}"] if cost is not None else []
            left = (now - self.started) * (self.pairs - self.done) / max(self.asked, 1)
            words.append(f"{duration(left)} left")
        if self.failed:
            words.append(f"{counted(self.failed, 'pair')} without an answer")
        return ", ".join(words)


def lacking_votes(
    judge: LLMJudge, hashed: str, have: Mapping[tuple[str, str, int], StoredAnswer]
) -> list[tuple[str, int]]:
    wanted = ((model, sample) for model in judge.models for sample in range(judge.settings.samples))
    return [(model, sample) for model, sample in wanted if (hashed, model, sample) not in have]


def score_of(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> float | None:
    known = [judge.prompt.probability(answer.grade) for answer in answers if answer.grade is not None]
    return sum(known) / len(known) if known else None


def label_of(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> str:
    return majority([judge.prompt.label(answer.grade) for answer in answers if answer.grade is not None])

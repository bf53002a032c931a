"""Send the requests of a language-model judge to its endpoint, several at a time. Answers are stored as they arrive, so
an interrupted run can be resumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from blindspot.backend.judges.llm.answers import LONGEST_REPLY, AnswerStore, StoredAnswer, pair_hash
from blindspot.backend.judges.llm.endpoint import Endpoint, EndpointAway, is_same_model
from blindspot.backend.judges.llm.judge import LLMJudge, PairTexts, consent_to_send
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import duration, quantity
from blindspot.db.errors import Refused

AWAY_IN_A_ROW = 10  # pairs without an answer, one after another, after which the endpoint counts as away
UNREADABLE_IN_A_ROW = 10  # answers that cannot be read, one after another, after which nothing more is asked
LONGEST_SHOWN = 300  # characters of an unreadable answer in a message
CHARACTERS_PER_TOKEN = 3.5  # for estimates before the first answer
SECONDS_BETWEEN_NEWS = 5.0
GARBLED_TWICE = 2


def ask_about_pairs(
    judge: LLMJudge, pairs: Sequence[PairTexts], progress: Progress | None = None
) -> dict[tuple[str, str], float]:
    """Ask about some pairs and return the scores of those that got a grade, by (question id, passage id). The answers
    are stored, but the scores are not. Raises the same errors as `judge_with_llm`.
    """
    scores: dict[tuple[str, str], float] = {}
    with PairAsker(judge, len(pairs), progress) as asking:
        for pair, answer in asking.answers_about(pairs):
            if (score := score_of(judge, answer)) is not None:
                scores[pair.question.id, pair.passage.id] = score
    return scores


class _PendingPair(NamedTuple):
    """A pair whose request is under way, and its maximum cost."""

    pair: PairTexts
    maximum_cost: float


class PairAsker:
    """Sends requests for many pairs, several at a time. Every answer is stored as soon as it arrives."""

    def __init__(
        self,
        judge: LLMJudge,
        pairs: int,
        progress: Progress | None,
        max_cost: float | None = None,
        repeat_answered: bool = False,
    ):
        """Prepare requests for `pairs` pairs.

        Args:
            max_cost: Leave pairs out rather than let all answers of this judge, stored ones included, cost more.
            repeat_answered: Ask again where the stored answer could not be read.
        """
        self.judge, self.pairs, self.progress = judge, pairs, progress
        self.max_cost, self.again = max_cost, repeat_answered
        self.store, self.started = AnswerStore(judge.study), time.monotonic()
        settings = judge.settings
        self.endpoint = Endpoint(
            judge.about["endpoint"],
            consent_to_send(judge),
            settings.timeout,
            settings.retries,
            settings.concurrency,
        )
        self.done = self.judged = self.asked = self.failed = self.requests = self.tokens_in = self.tokens_out = 0
        self.too_dear = 0
        """Pairs that were left out because of `max_cost`."""
        self.unreadable = ""
        """The last answer of the model that could not be parsed."""
        self._spent_before = judge.cost(*self.store.tokens([judge.model], judge.recipe)) or 0.0
        self._in_a_row, self._news, self._doing = 0, 0.0, ""
        self._lock, self._unreadable_in_a_row = threading.Lock(), 0
        self._asked_before: set[str] = set()  # hashes of pairs whose answer could not be read in an earlier call

    def __enter__(self) -> PairAsker:
        self._workers = ThreadPoolExecutor(self.judge.settings.concurrency)
        return self

    def __exit__(self, *exception: object) -> None:
        self.endpoint.stop_waiting()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def answers_about(self, pairs: Sequence[PairTexts]) -> Iterator[tuple[PairTexts, StoredAnswer]]:
        """Yield each pair with its answer, in the order in which they arrive.

        Pairs that failed, or would cost too much, are left out.

        Raises:
            Refused: the last answers could not be read. EndpointAway: the last pairs got no answer.
        """
        hashes = [pair_hash(pair.question.text, pair.passage) for pair in pairs]
        stored = self.store.answers_about([self.judge.model], self.judge.recipe, hashes)
        have = {hashed: answer for (hashed, _, _), answer in stored.items()}
        if self.again:
            self._asked_before |= {hashed for hashed, answer in have.items() if answer.grade is None}
            have = {hashed: answer for hashed, answer in have.items() if answer.grade is not None}
        waiting: dict[Future[StoredAnswer | None], _PendingPair] = {}
        # Pairs whose answer could not be read come last: they must not end the work before the others were asked.
        for pair, hashed in sorted(zip(pairs, hashes, strict=True), key=lambda each: each[1] in self._asked_before):
            if hashed in have:
                yield self._count_pair(pair, have[hashed])
                continue
            under_way = _PendingPair(pair, self._maximum_cost_of_pair(pair))
            while len(waiting) >= 2 * self.judge.settings.concurrency or (
                waiting and self._exceeds_budget(waiting, under_way)
            ):
                yield from self._collect(waiting)
            if self._answers_are_unreadable:
                break
            if self._exceeds_budget(waiting, under_way):
                self.too_dear += 1
                continue
            waiting[self._workers.submit(self._ask, pair, hashed)] = under_way
        while waiting:
            yield from self._collect(waiting)
        if self._answers_are_unreadable:
            raise Refused(
                f"{UNREADABLE_IN_A_ROW} answers in a row of {self.endpoint.url} hold no grade that can be read; the last "
                f"one: {self.unreadable!r}. {quantity(self.judged, 'pair')} of {self.pairs:,} are judged and kept. Mend the "
                "server, the prompt or --tokens; the same command asks again"
            )

    def _maximum_cost_of_pair(self, pair: PairTexts) -> float:
        """Return an upper estimate of the cost of a pair's answer; 0 if no maximum cost is set."""
        if self.max_cost is None:
            return 0.0
        messages = self.judge.prompt.messages(pair.question.text, pair.passage)
        tokens_in = sum(len(message["content"]) for message in messages) / CHARACTERS_PER_TOKEN
        return GARBLED_TWICE * (self.judge.cost(tokens_in, self.judge.settings.tokens) or 0.0)

    def _exceeds_budget(self, waiting: Mapping[Any, _PendingPair], next_pair: _PendingPair) -> bool:
        """Return whether requests for another pair might exceed the maximum cost."""
        if self.max_cost is None:
            return False
        return (
            self.cost_so_far + sum(each.maximum_cost for each in waiting.values()) + next_pair.maximum_cost
            > self.max_cost
        )

    @property
    def cost_so_far(self) -> float:
        """The cost of all answers of this judge so far, including earlier runs; 0 if no prices are set."""
        return self._spent_before + (self.judge.cost(self.tokens_in, self.tokens_out) or 0.0)

    @property
    def _answers_are_unreadable(self) -> bool:
        return self._unreadable_in_a_row >= UNREADABLE_IN_A_ROW

    def _count_pair(self, pair: PairTexts, answer: StoredAnswer) -> tuple[PairTexts, StoredAnswer]:
        self.done += 1
        self.judged += answer.grade is not None
        self._report()
        return pair, answer

    def _collect(
        self, waiting: dict[Future[StoredAnswer | None], _PendingPair]
    ) -> Iterator[tuple[PairTexts, StoredAnswer]]:
        ready = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED).done
        self._report()
        for future in ready:
            under_way = waiting.pop(future)
            try:
                new = future.result()
            except EndpointAway as error:
                self.failed, self._in_a_row = self.failed + 1, self._in_a_row + 1
                if self._in_a_row >= AWAY_IN_A_ROW:
                    raise EndpointAway(
                        f"{error}; {quantity(self.judged, 'pair')} of {self.pairs:,} are judged and kept. The same "
                        "command goes on from there"
                    ) from None
                continue
            self._in_a_row = 0
            if new is None:
                continue
            self.store.add([new])
            self.asked += 1
            self.requests += new.requests
            self.tokens_in += new.tokens_in
            self.tokens_out += new.tokens_out
            yield self._count_pair(under_way.pair, new)

    def _ask(self, pair: PairTexts, pair_digest: str) -> StoredAnswer | None:
        """Ask the model, and once more if the answer cannot be parsed. If the second answer cannot be parsed either, it
        is unknown. None if recent answers could not be parsed and the work stops.
        """
        if self._answers_are_unreadable:
            return None
        judge, model, began = self.judge, self.judge.model, time.monotonic()
        messages = judge.prompt.messages(pair.question.text, pair.passage)
        options: dict[str, Any] = {
            "temperature": judge.temperature,
            "max_tokens": judge.settings.tokens,
            "response_format": judge.prompt.schema(),
        }
        if judge.temperature > 0:
            options["seed"] = 0
        tokens_in = tokens_out = requests = 0
        grade, text, served = None, "", ""
        while grade is None and requests < GARBLED_TWICE:
            reply = self.endpoint.request_reply(model, messages, **options)
            if not is_same_model(model, reply.model):
                raise Refused(
                    f"the endpoint answered as model {reply.model[:80]!r} although {model!r} was asked for; nothing "
                    "of this answer was kept. Add the judge again with the model that the endpoint serves"
                )
            requests, text, served = requests + 1, reply.text or reply.sent, reply.model
            tokens_in, tokens_out = tokens_in + reply.tokens_in, tokens_out + reply.tokens_out
            grade = judge.prompt.grade(reply.text)
        with self._lock:
            if grade is not None:
                self._unreadable_in_a_row = 0
            else:
                self._unreadable_in_a_row += pair_digest not in self._asked_before or not self.judged
                self.unreadable = text[:LONGEST_SHOWN]
        return StoredAnswer(
            model,
            judge.recipe,
            0,
            pair_digest,
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

    def _state(self, time_now: float) -> str:
        words = [f"asking {self.judge.model}"]
        if self.requests:
            words.append(f"{self.tokens_in + self.tokens_out:,} tokens")
            cost = self.judge.cost(self.tokens_in, self.tokens_out)
            words += [f"cost {cost:,.2f}"] if cost is not None else []
            left = (time_now - self.started) * (self.pairs - self.done) / max(self.asked, 1)
            words.append(f"{duration(left)} left")
        if self.failed:
            words.append(f"{quantity(self.failed, 'pair')} without an answer")
        return ", ".join(words)


def score_of(judge: LLMJudge, answer: StoredAnswer) -> float | None:
    return None if answer.grade is None else judge.prompt.probability(answer.grade)

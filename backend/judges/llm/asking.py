"""Send the requests of a language-model judge to its endpoint, several at a time. Answers are stored as they arrive, so
an interrupted run can be resumed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from blindspot.backend.judges.llm.answers import LONGEST_REPLY, AnswerStore, StoredAnswer, pair_hash
from blindspot.backend.judges.llm.endpoint import Endpoint, EndpointAway, is_same_model
from blindspot.backend.judges.llm.judge import LLMJudge, PairTexts, consent_to_send
from blindspot.backend.judges.llm.prompts import majority_label
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import duration, quantity
from blindspot.db.errors import Refused

AWAY_IN_A_ROW = 10  # pairs without an answer, one after another, after which the endpoint counts as away
UNREADABLE_IN_A_ROW = 10  # answers that cannot be read, one after another, after which nothing more is asked
LONGEST_SHOWN = 300  # characters of an unreadable answer in a message
CHARACTERS_PER_TOKEN = 3.5  # for estimates before the first answer
SECONDS_BETWEEN_NEWS = 5.0
GARBLED_TWICE = 2


@dataclass(slots=True)
class AskingResult:
    """The answers of a language model about the pairs for which it gave a grade, by (question id, passage id).

    Attributes:
        scores: Score of each pair.
        labels: Label of each pair, the majority of the votes.
    """

    scores: dict[tuple[str, str], float] = field(default_factory=dict)
    labels: dict[tuple[str, str], str] = field(default_factory=dict)


def ask_about_pairs(judge: LLMJudge, pairs: Sequence[PairTexts], progress: Progress | None = None) -> AskingResult:
    """Ask about some pairs and return the result. The answers are stored, but the scores are not. Raises the same
    errors as `judge_with_llm`.
    """
    result = AskingResult()
    with PairAsker(judge, len(pairs), progress) as asking:
        for pair, answers in asking.votes_about(pairs):
            if (score := score_of(judge, answers)) is not None:
                key = pair.question.id, pair.passage.id
                result.scores[key], result.labels[key] = score, label_of(judge, answers)
    return result


class _PendingPair(NamedTuple):
    """A pair whose requests are under way: its stored answers, the number of missing votes, and their maximum cost."""

    pair: PairTexts
    stored_answers: list[StoredAnswer]
    missing_votes: int
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
        self._spent_before = judge.cost(*self.store.tokens(judge.models, judge.recipe)) or 0.0
        self._in_a_row, self._news, self._doing = 0, 0.0, ""
        self._lock, self._unreadable_in_a_row = threading.Lock(), 0
        self._asked_before: set[str] = set()  # hashes of pairs whose answer could not be read in an earlier call

    def __enter__(self) -> PairAsker:
        self._workers = ThreadPoolExecutor(self.judge.settings.concurrency)
        return self

    def __exit__(self, *exception: object) -> None:
        self.endpoint.stop_waiting()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def votes_about(self, pairs: Sequence[PairTexts]) -> Iterator[tuple[PairTexts, list[StoredAnswer]]]:
        """Yield each pair with all its votes, in the order in which they arrive.

        Pairs that failed, or would cost too much, are left out.

        Raises:
            Refused: the last answers could not be read. EndpointAway: the last pairs got no answer.
        """
        hashes = [pair_hash(pair.question.text, pair.passage) for pair in pairs]
        have = self.store.answers_about(self.judge.models, self.judge.recipe, hashes)
        if self.again:
            self._asked_before |= {hashed for (hashed, _, _), answer in have.items() if answer.grade is None}
            have = {key: answer for key, answer in have.items() if answer.grade is not None}
        by_pair: dict[str, list[StoredAnswer]] = {}
        for (hashed, _, _), answer in have.items():
            by_pair.setdefault(hashed, []).append(answer)
        waiting: dict[Future[list[StoredAnswer]], _PendingPair] = {}
        # Pairs whose answer could not be read come last: they must not end the work before the others were asked.
        for pair, hashed in sorted(zip(pairs, hashes, strict=True), key=lambda each: each[1] in self._asked_before):
            lacking, known = missing_votes_of(self.judge, hashed, have), by_pair.get(hashed, [])
            if not lacking:
                yield self._count_pair(pair, known)
                continue
            under_way = _PendingPair(pair, known, len(lacking), self._maximum_cost_of_pair(pair, len(lacking)))
            while len(waiting) >= 2 * self.judge.settings.concurrency or (
                waiting and self._exceeds_budget(waiting, under_way)
            ):
                yield from self._collect(waiting)
            if self._answers_are_unreadable:
                break
            if self._exceeds_budget(waiting, under_way):
                self.too_dear += 1
                continue
            waiting[self._workers.submit(self._votes, pair, hashed, lacking)] = under_way
        while waiting:
            yield from self._collect(waiting)
        if self._answers_are_unreadable:
            raise Refused(
                f"{UNREADABLE_IN_A_ROW} answers in a row of {self.endpoint.url} hold no grade that can be read; the last "
                f"one: {self.unreadable!r}. {quantity(self.judged, 'pair')} of {self.pairs:,} are judged and kept. Mend the "
                "server, the prompt or --tokens; the same command asks again"
            )

    def _maximum_cost_of_pair(self, pair: PairTexts, votes: int) -> float:
        """Return an upper estimate of the cost of a pair's answers; 0 if no maximum cost is set."""
        if self.max_cost is None:
            return 0.0
        messages = self.judge.prompt.messages(pair.question.text, pair.passage)
        tokens_in = sum(len(message["content"]) for message in messages) / CHARACTERS_PER_TOKEN
        return GARBLED_TWICE * votes * (self.judge.cost(tokens_in, self.judge.settings.tokens) or 0.0)

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

    def _count_pair(self, pair: PairTexts, answers: list[StoredAnswer]) -> tuple[PairTexts, list[StoredAnswer]]:
        self.done += 1
        self.judged += any(answer.grade is not None for answer in answers)
        self._report()
        return pair, answers

    def _collect(
        self, waiting: dict[Future[list[StoredAnswer]], _PendingPair]
    ) -> Iterator[tuple[PairTexts, list[StoredAnswer]]]:
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
            self.store.add(new)
            self.asked += 1
            self.requests += sum(answer.requests for answer in new)
            self.tokens_in += sum(answer.tokens_in for answer in new)
            self.tokens_out += sum(answer.tokens_out for answer in new)
            if len(new) == under_way.missing_votes:
                yield self._count_pair(under_way.pair, [*under_way.stored_answers, *new])

    def _votes(self, pair: PairTexts, pair_digest: str, missing_votes: Sequence[tuple[str, int]]) -> list[StoredAnswer]:
        """Return the votes for a pair. There are fewer than `missing_votes` if recent answers could not be parsed and
        the work stops.
        """
        votes: list[StoredAnswer] = []
        for model, sample in missing_votes:
            if self._answers_are_unreadable:
                break
            votes.append(self._ask_once(pair, pair_digest, model, sample))
        return votes

    def _ask_once(self, pair: PairTexts, pair_digest: str, model: str, sample: int) -> StoredAnswer:
        """Ask the model, and once more if the answer cannot be parsed. If the second answer cannot be parsed either, it
        is unknown.
        """
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
            sample,
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
        words = [f"asking {', '.join(self.judge.models)}"]
        if self.requests:
            words.append(f"{self.tokens_in + self.tokens_out:,} tokens")
            cost = self.judge.cost(self.tokens_in, self.tokens_out)
            words += [f"cost {cost:,.2f}"] if cost is not None else []
            left = (time_now - self.started) * (self.pairs - self.done) / max(self.asked, 1)
            words.append(f"{duration(left)} left")
        if self.failed:
            words.append(f"{quantity(self.failed, 'pair')} without an answer")
        return ", ".join(words)


def missing_votes_of(
    judge: LLMJudge, hash_of_pair: str, stored_answers: Mapping[tuple[str, str, int], StoredAnswer]
) -> list[tuple[str, int]]:
    wanted = ((model, sample) for model in judge.models for sample in range(judge.settings.samples))
    return [(model, sample) for model, sample in wanted if (hash_of_pair, model, sample) not in stored_answers]


def score_of(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> float | None:
    known = [judge.prompt.probability(answer.grade) for answer in answers if answer.grade is not None]
    return sum(known) / len(known) if known else None


def label_of(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> str:
    return majority_label([judge.prompt.label(answer.grade) for answer in answers if answer.grade is not None])

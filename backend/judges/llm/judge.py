"""Language models as judges: added by name, asked about the pairs of a run or about the pairs that people settled.

`judges/<name>/` holds the manifest (endpoint, models, prompt, settings; never a key), `sending.json` once somebody
allowed the texts to leave this machine, and `injections.json`. Answers are in `judges/answers.db`, scores in
`scores/<name>/`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from backend.core.declared import build
from backend.core.jobs import job
from backend.core.manifest import read_manifest, whole_folder, write_json, write_manifest
from backend.core.settings import check_name
from backend.judges.judge import JUDGES, JudgeCard, StoredJudgeKind, refuse_taken, stored_judges
from backend.judges.llm.answers import LONGEST_REPLY, AnswerStore, StoredAnswer, pair_hash
from backend.judges.llm.endpoint import Endpoint, EndpointAway, check_url, destination, is_same_model
from backend.judges.llm.prompts import Prompt, majority, read_prompt
from backend.judges.scores import ScoreStore
from backend.judges.settings import LLMSettings
from backend.text.counting import counted, duration
from db.errors import BadInput, Missing, Refused
from db.labels import Labels
from db.records import Passage, Question

if TYPE_CHECKING:
    from backend.core.manifest import Manifest
    from backend.core.study import Study
    from backend.judges.feature_judge import Lists
    from backend.progress import Progress

KIND = "llm"
SENDING = "sending.json"
DEPTH = 20
PAIRS_PER_BLOCK = 400  # whose texts are in memory together
AWAY_IN_A_ROW = 10  # pairs without an answer, one after another, after which the endpoint counts as away
SECONDS_BETWEEN_NEWS = 5.0
CHARACTERS_PER_TOKEN = 3.5  # for estimates before the first answer
TOKENS_OUT, SECONDS = 12, 1.5  # of an answer, for the same
SETTLED = ("positive", "related", "negative")
GARBLED_TWICE = 2


@dataclass(frozen=True, slots=True)
class PairTexts:
    """A question and a passage to be judged."""

    question: Question
    passage: Passage


@dataclass(frozen=True, slots=True)
class LLMJudge:
    """A language model's judge as its manifest describes it."""

    study: Study
    about: Mapping[str, Any]
    prompt: Prompt
    settings: LLMSettings

    @classmethod
    def load(cls, study: Study, name: str) -> LLMJudge:
        """Read a judge. Raises Missing if there is none of that name."""
        about = read_manifest(study.path("judges", check_name(name, "judge")))
        if about is None or about.get("kind") != KIND:
            known = ", ".join(llm_judges(study)) or "none yet"
            raise Missing(f"there is no language-model judge {name!r}; judges of that kind: {known}")
        return cls(study, about, Prompt(**about["prompt"]), build(LLMSettings, about["settings"]))

    @property
    def name(self) -> str:
        return str(self.about["name"])

    @property
    def calibrated(self) -> bool:
        return False

    @property
    def models(self) -> list[str]:
        return [str(model) for model in self.about["models"]]

    @property
    def temperature(self) -> float:
        given = self.settings.temperature
        return (0.7 if self.settings.samples > 1 else 0.0) if given is None else given

    @property
    def recipe(self) -> str:
        """What stored answers depend on beside the model and the texts."""
        return f"{self.prompt.digest}-{self.temperature:g}"

    @property
    def votes(self) -> int:
        return len(self.models) * self.settings.samples

    def cost(self, tokens_in: float, tokens_out: float) -> float | None:
        """Return what tokens cost; None without prices."""
        prices = self.settings.price_in, self.settings.price_out
        if prices[0] is None or prices[1] is None:
            return None
        return (tokens_in * prices[0] + tokens_out * prices[1]) / 1e6

    def judge(self, lists: Lists, progress: Progress | None = None) -> np.ndarray:
        """Return (q, k) float64 scores of the hits of some lists; NaN where padded or unknown. Asks the endpoint."""
        found = np.full(lists.rows.shape, np.nan)
        pairs, places = [], {}
        for i, question in enumerate(lists.questions):
            rows = [(j, row) for j, row in enumerate(lists.rows[i].tolist()) if row >= 0]
            for (j, _), passage in zip(rows, self.study.corpus.passages([row for _, row in rows]), strict=True):
                places[question.id, passage.id] = i, j
                pairs.append(PairTexts(question, passage))
        for pair, score in ask(self, pairs, progress=progress).scores.items():
            found[places[pair]] = score
        return found


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


@dataclass(frozen=True, slots=True)
class LLMPlan:
    """What judging would take, before anything is sent.

    Attributes:
        pairs: Pairs to judge, without those that have a score.
        stored: Of their votes, those whose answers are stored already.
        requests: Requests to send.
        tokens_in, tokens_out, seconds: Estimates; from earlier answers if `measured`, else from the length of the
        texts.
        cost: None without prices.
        destination: Where the texts go.
        allowed: Whether sending them there is allowed already.
    """

    pairs: int
    stored: int
    requests: int
    tokens_in: int
    tokens_out: int
    seconds: float
    cost: float | None
    measured: bool
    destination: str
    allowed: bool


def llm_judges(study: Study) -> dict[str, dict[str, Any]]:
    """Return the manifests of the language-model judges of a study, by name, oldest first."""
    return stored_judges(study, KIND)


def add_llm_judge(
    study: Study,
    name: str,
    endpoint: str,
    models: Sequence[str],
    prompt: str = "umbrella",
    settings: Mapping[str, Any] | None = None,
    replace: bool = False,
) -> LLMJudge:
    """Add a judge. Nothing is sent.

    Args:
        endpoint: The base of an OpenAI-compatible endpoint, as in http://localhost:8000/v1.
        models: One model, or several that vote.
        prompt: umbrella, rocketqa, or a file with the fields {question} and {passage}.
        settings: What differs from the defaults of `LLMSettings`.

    Raises:
        Refused: the name is taken, or an argument is none. BadInput: a wrong setting, or a file that is no prompt.
    """
    folder = study.path("judges", check_name(name, "judge"))
    chosen = build(LLMSettings, dict(settings or {}))
    if (chosen.price_in is None) != (chosen.price_out is None):
        raise BadInput("give both prices, --price-in and --price-out, or none")
    url = check_url(endpoint)
    wanted = list(dict.fromkeys(model.strip() for model in models if model.strip()))
    if not wanted:
        raise Refused("name the model that the endpoint serves with --model")
    read = read_prompt(prompt, chosen.scale, chosen.positive_from)
    refuse_taken(study, name, KIND, replace)
    about = {
        "kind": KIND,
        "name": name,
        "endpoint": url,
        "models": wanted,
        "prompt": asdict(read),
        "settings": {key: value for key, value in asdict(chosen).items() if key != "scale"},
    }
    with study.building(f"judges/{name}"), whole_folder(folder) as building:
        write_manifest(building, about)
    if replace:
        ScoreStore.remove(study, name)
    return LLMJudge.load(study, name)


def allow_sending(judge: LLMJudge) -> None:
    """Record that the texts may go to the judge's endpoint."""
    to = destination(judge.about["endpoint"])
    path = judge.study.path("judges", judge.name, SENDING)
    write_json(path, {"to": to.host, "allowed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})


def may_send(judge: LLMJudge) -> bool:
    """Whether texts may go to the judge's endpoint: it is this machine, or somebody allowed it."""
    from backend.core.manifest import read_json

    to = destination(judge.about["endpoint"])
    path = judge.study.path("judges", judge.name, SENDING)
    return to.local or (path.is_file() and read_json(path).get("to") == to.host)


def require_sending(judge: LLMJudge, send: bool) -> None:
    """Raise Refused before texts leave this machine for the first time, unless `send` allows it; record that."""
    if may_send(judge):
        return
    if not send:
        raise Refused(
            f"judge {judge.name!r} would send the texts of questions and passages to "
            f"{destination(judge.about['endpoint'])}; nothing was sent. Allow it with --send"
        )
    allow_sending(judge)


def pairs_to_judge(
    study: Study, name: str, run: str | None, depth: int = DEPTH, limit: int | None = None
) -> list[tuple[str, str]]:
    """Return the (question id, passage id) pairs without a score: of a run's first ranks, or all that people settled.

    Raises Missing for an unknown run, or without a run if people settled nothing.
    """
    known = ScoreStore.open(study, name) if name in study.parts("scores") else None
    found: list[tuple[str, str]] = []
    for question, passages in _listed(study, run, depth):
        scored = known.of([question]).get(question, {}) if known is not None else {}
        found += [(question, passage) for passage in passages if passage not in scored]
        if limit is not None and len(found) >= limit:
            return found[:limit]
    return found


def _listed(study: Study, run: str | None, depth: int) -> Iterator[tuple[str, list[str]]]:
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
    """Return what judging would take. Nothing is sent."""
    judge = LLMJudge.load(study, name)
    ids = pairs_to_judge(study, name, run, depth, limit)
    store = AnswerStore(study)
    stored, absent, characters = 0, 0, 0
    for block in _blocks(ids):
        pairs = read_pairs(study, block)
        hashes = {pair: pair_hash(pair.question.text, pair.passage) for pair in pairs}
        have = store.of(judge.models, judge.recipe, hashes.values())
        for pair, hashed in hashes.items():
            lacking = len(_lacking(judge, hashed, have))
            stored, absent = stored + judge.votes - lacking, absent + lacking
            if lacking:
                messages = judge.prompt.messages(pair.question.text, pair.passage)
                characters += lacking * sum(len(message["content"]) for message in messages)
    mean = store.mean_cost(judge.models, judge.recipe)
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
        mean is not None,
        str(to),
        may_send(judge),
    )


@job("judge with llm")
def judge_with_llm(
    study: Study,
    name: str,
    run: str | None = None,
    depth: int = DEPTH,
    limit: int | None = None,
    send: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Ask a language model about the first ranks of a run, or without a run about every pair that people settled.

    Pairs with a score are skipped, and stored answers are not paid for again.

    Args:
        depth: Ranks of each question.
        limit: Maximum number of pairs.
        send: Allow the texts to leave this machine; asked once for an endpoint that is elsewhere.

    Raises:
        Refused: sending was not allowed, or the endpoint refuses: a wrong key, another model. EndpointAway: it is away.
    """
    judge = LLMJudge.load(study, name)
    ids = pairs_to_judge(study, name, run, depth, limit)
    require_sending(judge, send)
    recipe = {"model_hash": judge.recipe, "llm": judge.models, "endpoint": judge.about["endpoint"]}
    store = ScoreStore.create(study, name, False, recipe)
    total = Asked()
    asking = _Asking(judge, len(ids), progress)
    with study.building(f"scores/{name}"), asking:
        for block in _blocks(ids):
            for pair, answers in asking.about(read_pairs(study, block)):
                score = _score(judge, answers)
                if score is None:
                    total.unknown += 1
                else:
                    store.add([(pair.question.id, pair.passage.id, score)])
                    total.labels[pair.question.id, pair.passage.id] = _label(judge, answers)
    return {
        "judge": name,
        "run": run,
        "pairs": len(total.labels),
        "unknown": total.unknown,
        "failed": asking.failed,
        "requests": asking.requests,
        "tokens_in": asking.tokens_in,
        "tokens_out": asking.tokens_out,
        "cost": judge.cost(asking.tokens_in, asking.tokens_out),
        "seconds": round(time.monotonic() - asking.started, 1),
    }


def ask(judge: LLMJudge, pairs: Sequence[PairTexts], progress: Progress | None = None) -> Asked:
    """Ask about some pairs and return the answers, without storing scores. Answers are stored. Raises as
    `judge_with_llm`.
    """
    require_sending(judge, False)
    found = Asked()
    with _Asking(judge, len(pairs), progress) as asking:
        for pair, answers in asking.about(pairs):
            score = _score(judge, answers)
            if score is None:
                found.unknown += 1
                continue
            key = pair.question.id, pair.passage.id
            found.scores[key], found.labels[key] = score, _label(judge, answers)
    found.failed, found.requests = asking.failed, asking.requests
    found.tokens_in, found.tokens_out = asking.tokens_in, asking.tokens_out
    return found


class _Asking:
    """Requests about many pairs, some at a time. Every answer is stored as soon as it is there."""

    def __init__(self, judge: LLMJudge, pairs: int, progress: Progress | None):
        self.judge, self.pairs, self.progress = judge, pairs, progress
        self.store, self.started = AnswerStore(judge.study), time.monotonic()
        settings = judge.settings
        self.endpoint = Endpoint(
            judge.about["endpoint"], settings.key_variable, settings.timeout, settings.retries, settings.concurrency
        )
        self.done = self.asked = self.failed = self.requests = self.tokens_in = self.tokens_out = 0
        self._in_a_row, self._news, self._doing = 0, 0.0, ""

    def __enter__(self) -> _Asking:
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
            lacking = _lacking(self.judge, hashed, have)
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


def _lacking(judge: LLMJudge, hashed: str, have: Mapping[tuple[str, str, int], StoredAnswer]) -> list[tuple[str, int]]:
    wanted = ((model, sample) for model in judge.models for sample in range(judge.settings.samples))
    return [(model, sample) for model, sample in wanted if (hashed, model, sample) not in have]


def _score(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> float | None:
    known = [judge.prompt.probability(answer.grade) for answer in answers if answer.grade is not None]
    return sum(known) / len(known) if known else None


def _label(judge: LLMJudge, answers: Iterable[StoredAnswer]) -> str:
    return majority([judge.prompt.label(answer.grade) for answer in answers if answer.grade is not None])


def _blocks(ids: Sequence[tuple[str, str]]) -> Iterator[Sequence[tuple[str, str]]]:
    for begin in range(0, len(ids), PAIRS_PER_BLOCK):
        yield ids[begin : begin + PAIRS_PER_BLOCK]


def read_pairs(study: Study, ids: Sequence[tuple[str, str]]) -> list[PairTexts]:
    """Return the texts of some pairs, without those that the study does not hold."""
    questions = {question.id: question for question in study.questions.some({question for question, _ in ids})}
    rows = study.corpus.ordinals({passage for _, passage in ids})
    passages = {passage.id: passage for passage in study.corpus.passages(sorted(set(rows.values())))}
    return [PairTexts(questions[q], passages[p]) for q, p in ids if q in questions and p in passages]


class LLMKind(StoredJudgeKind):
    name, title = KIND, "language model"
    help = "a language model behind an OpenAI-compatible endpoint"
    run_job = staticmethod(judge_with_llm)

    def card(self, name: str, about: Manifest, scored: bool) -> JudgeCard:
        return JudgeCard(name, KIND, "", False, None, scored)

    def open(self, study: Study, name: str, device: str | None = None) -> LLMJudge:
        return LLMJudge.load(study, name)


JUDGES.register(LLMKind())

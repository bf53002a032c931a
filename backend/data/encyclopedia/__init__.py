"""Generate an encyclopedia: a collection of any size for which every fact and every passage that states it are known.

It is used for demonstrations and measurements. Its people, places, works and companies are invented. The article of an
entity states its facts, and other articles repeat them in other words. Only one of these passages is the question's
gold passage, so the others are planted false negatives; `questions_with_passages` lists all of them. `world` decides
which facts are true and which articles state them, `prose` writes the passages from the sentences in `sentences.toml`.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random

import numpy as np

from blindspot.analysis.accuracy import proportion
from blindspot.backend.core.units import units_of
from blindspot.backend.data.encyclopedia.language import SECOND_WORDINGS, TEMPLATES
from blindspot.backend.data.encyclopedia.plan import BLIND_SPOT as BLIND_SPOT
from blindspot.backend.data.encyclopedia.plan import LARGEST, PLAIN, SMALLEST, Edition, random_seed
from blindspot.backend.data.encyclopedia.prose import article, notices
from blindspot.backend.data.encyclopedia.world import World
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused
from blindspot.db.records import Passage, Question

DATASET, SECOND_DATASET = "encyclopedia", "encyclopedia-second-wording"
TRAIN_SHARE, DEV_SHARE = 0.4, 0.3  # of the entities; the rest is test
# A training question is left out with this probability to the power of its subject's frequency.
SKIPPED_PER_MENTION = 0.9
QUESTION_FIELDS = "id question answers relation subject template frequency bucket dataset split gold".split()


class Encyclopedia:
    """An encyclopedia of exactly `passages` passages. The same seed and edition produce the same bytes on every
    machine.

    Args:
        passages: 500 to 1,000,000.
        seed: 0 or more.
        edition: PLAIN, where every entity has an article, or BLIND_SPOT, where rare entities share passages of notices.

    Raises:
        Refused: a size or seed outside these limits.
    """

    def __init__(self, passages: int, seed: int = 0, edition: Edition = PLAIN):
        if not SMALLEST <= passages <= LARGEST:
            raise Refused(
                f"an encyclopedia has {SMALLEST:,} to {LARGEST:,} passages, not {passages:,}: choose another size"
            )
        if seed < 0:
            raise Refused(f"the seed of an encyclopedia is 0 or more, not {seed}: choose another seed")
        self.size, self.seed = passages, seed
        self.world = World(passages, seed, edition)

    def passages(self) -> Iterator[Passage]:
        """Yield all passages in order. The passage with ordinal i has the id str(i + 1). The title is the article's
        subject.

        Passages of short notices about entities without an article come last. Their title names no entity.
        """
        world = self.world
        for place in range(world.plan.entities):
            yield from article(world, world.plan.order.inverse_position(place))
        for page in range(world.plan.notice_pages):
            yield notices(world, page)

    def questions(self) -> Iterator[Question]:
        """Yield all questions, those about popular subjects first.

        Every question has one gold passage, from its subject's article or its subject's notice. `frequency` is the
        planned number of passages that name the subject: its article's, those that state its facts and those that only
        mention it. All questions about a subject are in the same split: train, dev or test. Dev and test contain each
        selected fact twice: in the template's words (dataset "encyclopedia") and in a second wording
        ("encyclopedia-second-wording"). Training questions use only the template. They are drawn by frequency, so most
        are about popular subjects.
        """
        for question, _ in self.questions_with_passages():
            yield question

    def unlabelled_questions(self) -> Iterator[str]:
        """Yield unlabelled questions about training entities, in both wordings. They ask about the mostly rare facts
        for which there is no training question.
        """
        for number, relation, split, _, drawn in self._facts():
            if split == "train" and not drawn:
                for template in (TEMPLATES[relation], SECOND_WORDINGS[relation]):
                    yield template.replace("[X]", self.world.entity(number).name)

    def questions_with_passages(self) -> Iterator[tuple[Question, list[int]]]:
        """Yield every question with the ordinals of all passages that answer it."""
        for number, relation, split, gold, drawn in self._facts():
            if split != "train" or drawn:
                yield from self._question_wordings(number, relation, split, gold)

    def _facts(self) -> Iterator[tuple[int, str, str, int, bool]]:
        """Yield (entity number, relation, split, ordinal of the gold passage, drawn) for every fact that its subject's
        article states.
        """
        for number in range(self.world.entities):
            random = Random(random_seed(self.seed, 8, number)).random
            draw = random()
            split = "train" if draw < TRAIN_SHARE else "dev" if draw < TRAIN_SHARE + DEV_SHARE else "test"
            frequency = int(self.world.plan.frequency[number])
            for relation in self.world.entity(number).asked_relations:
                chance, choice = random(), random()
                drawn = number < self.world.plan.assured or chance >= SKIPPED_PER_MENTION**frequency
                own = self.world.own_statement_ordinals(number, relation)
                if own:
                    yield number, relation, split, own[int(choice * len(own))], drawn

    def _question_wordings(self, number, relation, split, gold) -> Iterator[tuple[Question, list[int]]]:
        entity = self.world.entity(number)
        ordinals = self.world.statement_ordinals(number, relation)
        wordings = [(DATASET, TEMPLATES[relation], "")]
        if split != "train":
            wordings.append((SECOND_DATASET, SECOND_WORDINGS[relation], ".second"))
        for dataset, template, mark in wordings:
            yield (
                Question(
                    id=f"{relation}.{split}.{number}{mark}",
                    text=template.replace("[X]", entity.name),
                    answers=entity.facts[relation],
                    relation=relation,
                    subject=entity.name,
                    template=template,
                    frequency=int(self.world.plan.frequency[number]),
                    dataset=dataset,
                    split=split,
                    gold=(str(gold + 1),),
                ),
                ordinals,
            )


def write_encyclopedia(
    folder: str | Path, passages: int, seed: int = 0, progress: Progress | None = None, edition: Edition = PLAIN
) -> dict:
    """Write `passages.tsv` (in DPR's psgs_w100 format), `questions.jsonl`, `truth.jsonl` and `unlabelled.txt` into a
    folder.

    Each file is written under a temporary name and renamed when all are complete.

    Returns: {passages, entities, questions, train, dev, test, second_wording, planted: questions that more than one
        passage answers, unlabelled, seed, edition}.
    Raises: Refused, as `Encyclopedia`.
    """
    world = Encyclopedia(passages, seed, edition)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = ("passages.tsv", "questions.jsonl", "truth.jsonl", "unlabelled.txt")
    partial = {name: folder / f"{name}.partial" for name in names}
    try:
        _write_passages(world, partial["passages.tsv"], progress)
        summary = _write_questions(world, partial["questions.jsonl"], partial["truth.jsonl"], progress)
        unlabelled = [f"{question}\n" for question in world.unlabelled_questions()]
        partial["unlabelled.txt"].write_text("".join(unlabelled), encoding="utf-8")
        for name in names:
            os.replace(partial[name], folder / name)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)
    return {
        "passages": passages,
        "entities": world.world.entities,
        **summary,
        "unlabelled": len(unlabelled),
        "seed": seed,
        "edition": edition.name,
    }


def _write_passages(encyclopedia: Encyclopedia, path: Path, progress: Progress | None) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t", lineterminator="\n")
        rows.writerow(("id", "text", "title"))
        for done, passage in enumerate(encyclopedia.passages(), 1):
            rows.writerow((passage.id, passage.text, passage.title))
            if progress and (done % 2000 == 0 or done == encyclopedia.size):
                progress(done, encyclopedia.size, "writing the encyclopedia")


def _write_questions(encyclopedia: Encyclopedia, questions: Path, truth: Path, progress: Progress | None) -> dict:
    counts = dict.fromkeys(("questions", "train", "dev", "test", "second_wording", "planted"), 0)
    with open(questions, "w", encoding="utf-8") as question_file, open(truth, "w", encoding="utf-8") as known:
        for question, ordinals in encyclopedia.questions_with_passages():
            fields = asdict(question) | {"question": question.text}
            question_file.write(json.dumps({name: fields[name] for name in QUESTION_FIELDS}, ensure_ascii=False) + "\n")
            row = {"question": question.id, "passages": [str(o + 1) for o in ordinals], "gold": question.gold[0]}
            known.write(json.dumps(row) + "\n")
            counts["questions"] += 1
            counts[question.split] += question.dataset == DATASET
            counts["second_wording"] += question.dataset == SECOND_DATASET
            counts["planted"] += len(ordinals) > 1
            if progress and counts["questions"] % 2000 == 0:
                progress(counts["questions"], None, "writing the questions")
    return counts


def measure_encyclopedia(
    questions: Sequence[Question], truth: Mapping[str, Sequence[str]], bm25: np.ndarray, dense: np.ndarray
) -> dict[str, dict]:
    """Measure an encyclopedia: each retriever's success rate, and how many planted false negatives rank near the top.

    Args:
        questions: q questions, either or both wordings.
        truth: question id -> ids of all passages that answer it, as `truth.jsonl` has it.
        bm25, dense: (q, k) ordinals, k >= 5, -1 where a row is short; row i belongs to questions[i].

    Returns: figures by name, each {"share": 0..1, "n": number of cases, "low", "high": its 95% interval by fact}. All are
        Success@5, relevant being every passage of the truth, so a planted false negative counts as found.
        false_negatives: of the passages in the dense top 5 that are not gold, those that answer the question (n: such
        passages). only_bm25, only_dense: questions that one retriever alone answers, template wording.
        bm25_first_wording, bm25_second_wording: BM25's Success@5 on the facts asked in both wordings.
    """
    answering = [_ordinals(truth[question.id]) for question in questions]
    relevant_bm25, relevant_dense = (_top_hits_among(run, answering) for run in (bm25, dense))
    gold = _top_hits_among(dense, [_ordinals(question.gold) for question in questions])
    found_bm25, found_dense = (np.asarray(relevant.any(axis=1)) for relevant in (relevant_bm25, relevant_dense))
    first = np.array([question.dataset != SECOND_DATASET for question in questions], bool)
    units = units_of(questions, "fact").codes
    unlabelled = ((dense[:, :5] >= 0) & ~gold)[first]
    of_passages = np.broadcast_to(units[first, None], unlabelled.shape)[unlabelled]
    facts = [(question.relation, question.subject) for question in questions]
    twice = {fact for fact, one in zip(facts, first) if one} & {fact for fact, one in zip(facts, first) if not one}
    paired = np.array([fact in twice for fact in facts], bool)
    return {
        "false_negatives": _share(relevant_dense[first][unlabelled], of_passages),
        "only_bm25": _share((found_bm25 & ~found_dense)[first], units[first]),
        "only_dense": _share((found_dense & ~found_bm25)[first], units[first]),
        "bm25_first_wording": _share(found_bm25[paired & first], units[paired & first]),
        "bm25_second_wording": _share(found_bm25[paired & ~first], units[paired & ~first]),
    }


def _ordinals(ids: Sequence[str]) -> np.ndarray:
    return np.array([int(id) - 1 for id in ids], np.int64)


def _top_hits_among(run: np.ndarray, passages: Sequence[np.ndarray]) -> np.ndarray:
    """Return (q, 5) bool: which of the five first hits of each question are among its passages."""
    return np.array([np.isin(row[:5], ordinals) for row, ordinals in zip(run, passages)], bool)


def _share(hits: np.ndarray, units: np.ndarray) -> dict:
    estimate = proportion(hits, units)
    return {"share": estimate.value or 0.0, "n": estimate.n, "low": estimate.low, "high": estimate.high}

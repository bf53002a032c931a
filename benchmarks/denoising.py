"""What denoising takes out of mined negatives, where the truth is known: on a generated encyclopedia.

    python -m benchmarks.denoising [--passages 3000] [--seed 0] [--study DIR] [--model NAME]

First part: the share of false negatives among the negatives that each policy keeps, the share of true negatives that it costs, and
how many of its positives are right. Nothing is trained. Every figure is against `truth.jsonl`, which names all passages that answer a
question.

Everything that could be tuned stands here, and was committed before the first run. The encyclopedia was made to have false negatives
(docs/encyclopedia.md): its shares are no evidence about other collections; only the order of the policies may be.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from analysis.accuracy import wilson
from analysis.audit import Rate, rate
from backend import encyclopedia
from backend.study import Study
from backend.training.building import make_training_set
from backend.training.pairs import Pair
from backend.training.request import SetRequest
from backend.training.training_set import TrainingSet, training_sets
from benchmarks.machine import machine
from db.gestures import Choice, Gesture
from db.labels import Labels
from db.people import People

RUN = "bm25-train"       # negatives from BM25, as DPR's
FIRST, LAST = 1, 100     # ranks: RocketQA's for NQ
JUDGED = 10              # ranks that the simulated annotator judges, of every training question
RIGHT = 0.95             # how often they are right; a wrong label is the other one of positive and negative
ANNOTATOR_SEED = 0
POLICIES = ("none", "answer_match", "cross_encoder", "labels", "answer_match+labels", "cross_encoder+labels")
SPANS = ((1, 10), (11, 100), (1, 100))


def prepared(folder: Path, passages: int, seed: int) -> Study:
    """A study of an encyclopedia with a BM25 run over its training questions."""
    from backend.importing.importer import import_passages, import_questions
    from backend.retrieval.bm25 import build_index

    study = Study.create(folder / "study", "encyclopedia")
    source = study.path("encyclopedia")
    encyclopedia.write(source, passages, seed)
    import_passages(study, str(source / "passages.tsv"))
    import_questions(study, str(source / "questions.jsonl"))
    build_index(study)
    return study


def truth_of(study: Study) -> dict[str, set[str]]:
    with open(study.path("encyclopedia", "truth.jsonl"), encoding="utf-8") as file:
        return {row["question"]: set(row["passages"]) for row in map(json.loads, file)}


def annotate(study: Study, training_set: TrainingSet, truth: Mapping[str, set[str]]) -> int:
    """One person judges the mined passages at the first ranks of every question. Gives the number of labels."""
    People(study.labels_path).add("simulated")
    labels, random = Labels(study.labels_path, passages=study.corpus.ordinals), np.random.default_rng(ANNOTATOR_SEED)
    given = 0
    for question, pairs in training_set.groups():
        choices = []
        for pair in pairs:
            if pair.mined and pair.rank <= JUDGED:
                answers = (pair.passage in truth[question]) == (random.random() < RIGHT)
                choices.append(Choice(pair.passage, "positive" if answers else "negative", pair.run, pair.rank, pair.score))
        if choices:
            labels.add("simulated", Gesture(f"simulated-{question}", "label", question, tuple(choices)))
            given += len(choices)
    return given


def mined(training_set: TrainingSet, span: Sequence[int]) -> Iterator[Pair]:
    return (pair for _, pairs in training_set.groups() for pair in pairs if pair.mined and span[0] <= pair.rank <= span[1])


def row(training_set: TrainingSet, truth: Mapping[str, set[str]], span: Sequence[int]) -> str:
    pairs = list(mined(training_set, span))
    false = np.array([pair.passage in truth[pair.question] for pair in pairs])
    kept = np.array([pair.role == "negative" for pair in pairs])
    questions = np.array([pair.question for pair in pairs])
    left = rate(false[kept], np.ones(kept.sum(), bool), np.ones(kept.sum()), questions[kept])
    return (f"{training_set.manifest['policy']:<22}{f'{span[0]}-{span[1]}':>8}{len(pairs):>9,}{kept.sum():>9,}{_share(left):>26}"
            f"{_part((false & kept).sum(), false.sum()):>26}{_part((~false & ~kept).sum(), (~false).sum()):>26}")


def positives(training_set: TrainingSet, truth: Mapping[str, set[str]]) -> str:
    found = [pair for _, pairs in training_set.groups() for pair in pairs if pair.role == "positive"]
    right = sum(pair.passage in truth[pair.question] for pair in found)
    low, high = wilson(right, len(found))
    return f"{training_set.manifest['policy']:<22}{len(found):>10,}{100 * right / len(found):>9.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def _share(found: Rate) -> str:
    return "-" if found.value is None else f"{100 * found.value:.2f}% ({100 * found.low:.2f} to {100 * found.high:.2f})"


def _part(count: int, of: int) -> str:
    return f"{count:,} of {of:,} ({100 * count / of:.1f}%)" if of else "-"


def first_part(study: Study, model: str | None) -> None:
    from backend.retrieval.retrieve import retrieve

    truth = truth_of(study)
    if RUN not in study.runs():
        retrieve(study, "bm25", split="train", k=LAST, name=RUN)
    policies = [policy for policy in POLICIES if model is not None or "cross_encoder" not in policy]
    labels = None
    for policy in policies:
        request = SetRequest(f"benchmark-{policy.replace('+', '-')}", (RUN,), policy, first=FIRST, last=LAST, model=model)
        made = make_training_set(study, request)
        if labels is None:  # the first is "none": every mined passage is in it
            labels = annotate(study, made, truth)
    sets = [TrainingSet.open(study, name) for name in training_sets(study) if name.startswith("benchmark-")]
    sets.sort(key=lambda each: POLICIES.index(each.manifest["policy"]))
    count = sets[0].manifest["counts"]["questions"]
    print(f"{len(study.corpus):,} passages, {count:,} training questions, ranks {FIRST} to {LAST} of {RUN}; {labels:,} labels at "
          f"ranks 1 to {JUDGED}, each right with probability {RIGHT}")
    print(f"left out: {sets[0].manifest['left_out'] or 'no question'}")
    print(f"\n{'policy':<22}{'ranks':>8}{'mined':>9}{'kept':>9}{'false ones of the kept':>26}{'of all false ones':>26}"
          f"{'true ones lost':>26}")
    for span in SPANS:
        for each in sets:
            print(row(each, truth, span))
    print(f"\n{'policy':<22}{'positives':>10}  of these right (95%)")
    for each in sets:
        print(positives(each, truth))
    print("\nIntervals are at 95%; those of shares draw questions again, those of positives are Wilson's.")
    if model is None:
        print("No cross-encoder's scores were named (--model): its two policies are not shown.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=3000, help="of the encyclopedia that is made")
    parser.add_argument("--seed", type=int, default=0, help="it is made from")
    parser.add_argument("--study", type=Path, help="a study of an encyclopedia instead; a copy of it is used")
    parser.add_argument("--model", help="a cross-encoder that has scored the study's training questions")
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        if options.study is not None:
            shutil.copytree(options.study, Path(folder) / "study")
            study = Study.open(Path(folder) / "study")
        else:
            study = prepared(Path(folder), options.passages, options.seed)
        first_part(study, options.model)


if __name__ == "__main__":
    main()

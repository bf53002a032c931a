"""The five steps of the guided tour through the demo. Each step has a sentence computed from the study, and states
whether its page can be opened yet. `making` makes the demo: its size, seed and training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import success_from_ranks
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.demo.making import CLEAN, MODELS, NOISY, RUNS, SPLIT, YOURS
from blindspot.backend.evaluation.comparison import SURE, Comparison, measure, overall
from blindspot.backend.evaluation.findings import findings
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.dual_encoder import trial_run_name
from blindspot.backend.training_sets.differences import ChangeSummary, change_summary
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.queue import Batch, Queue
from blindspot.db.records import Question

KS = (1, 5, 20)  # ranks at which the two trained models are compared; Holm adjusts p for all of them
BEFORE, TRAINED_NOISY, TRAINED_CLEAN = RUNS["dense"], *(trial_run_name(MODELS[name], SPLIT) for name in (NOISY, CLEAN))

StepKey = Literal["blind-spot", "question", "judge", "training-set", "retriever"]
State = Literal["waiting", "ready", "done"]
Compare = Callable[[str, str], Comparison]


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step of the guided tour through the demo.

    Attributes:
        state: waiting until its parts exist; done, for judging, when all passages are judged.
        question: the id of the question that the step opens, if it opens one.
        note: how the sentence's figures are counted.
    """

    key: StepKey
    title: str
    state: State
    sentence: str
    question: str | None = None
    note: str = ""


def demo_steps(study: Study, compare: Compare | None = None, person: str | None = None) -> list[DemoStep]:
    """Return the five steps in order.

    Args:
        compare: Compares two runs by name; the app's keeps its comparisons.
        person: Who reads the steps; None if nobody is signed in.
    """
    compared = compare or (lambda a, b: Comparison.of_runs(measure(study, a), measure(study, b)))
    runs = set(study.runs())
    return [
        _blind_spot_step(compared, runs),
        _question_step(compared, runs),
        _judge_step(study, person),
        _training_set_step(study),
        _retriever_step(compared, runs),
    ]


def _blind_spot_step(comparison: Compare, runs: set[str]) -> DemoStep:
    title = "See the blind spot"
    if BEFORE not in runs:
        return DemoStep(
            "blind-spot", title, "waiting", "BM25 is ready. Dense retrieval starts when its index is built."
        )
    all_findings = findings(comparison(RUNS["bm25"], BEFORE), HEADLINE_K, (RUNS["bm25"], BEFORE))
    falls = [finding.sentence for finding in all_findings if finding.topic == "frequency"]
    sentence = falls[0] if falls else all_findings[0].sentence
    return DemoStep("blind-spot", title, "ready", sentence)


def _question_step(comparison: Compare, runs: set[str]) -> DemoStep:
    title = "Open one question where dense retrieval fails"
    if BEFORE not in runs:
        return DemoStep("question", title, "waiting", "The question is chosen after both retrievers have searched.")
    question = example_question(comparison(RUNS["bm25"], BEFORE))
    if question is None:
        return DemoStep(
            "question",
            title,
            "waiting",
            f"{BEFORE} finds every answer that {RUNS['bm25']} finds in its first {HEADLINE_K}.",
        )
    return DemoStep(
        "question",
        title,
        "ready",
        f"“{question.text}” {RUNS['bm25']} ranks a passage with the answer first; {BEFORE} has none in its first {HEADLINE_K}.",
        question.id,
    )


def example_question(comparison: Comparison) -> Question | None:
    """Return an example question on which A succeeds and B fails. Among the questions about the rarest subjects that
    only A finds, it is the one whose gold passage A ranks first and B ranks lowest.
    """
    only_a = success_from_ranks(comparison.first_ranks_a, 1) & ~success_from_ranks(comparison.first_ranks_b, HEADLINE_K)
    rows = [row for row in np.flatnonzero(only_a).tolist() if comparison.questions[row].gold]
    ranked = [row for row in rows if _first_is_gold(comparison, row)] or rows
    if not ranked:
        return None
    deepest = comparison.depth + 1

    def order(row: int) -> tuple[int, int, str]:
        rank = int(comparison.first_ranks_b[row]) or deepest
        return int(comparison.frequency[row]), -rank, comparison.questions[row].id

    return comparison.questions[min(ranked, key=order)]


def _first_is_gold(comparison: Comparison, row: int) -> bool:
    """Return whether A's first passage is gold. This rules out a passage at rank 1 that contains the answer only by
    chance.
    """
    first = int(np.asarray(comparison.run_a.run.hits.ordinals[comparison.rows_a[row]])[0])
    (passage,) = comparison.run_a.study.corpus.passages([first])
    return passage.id in comparison.questions[row].gold


def _judge_step(study: Study, person: str | None) -> DemoStep:
    title = "Judge five passages yourself"
    queue = Queue(study.labels_path)
    batch = next((batch for batch in queue.batches() if batch.name == YOURS), None)
    if batch is None:
        return DemoStep(
            "judge", title, "waiting", "The passages are chosen after BM25 has searched the training questions."
        )
    own = queue.finished_counts(person).get(YOURS, 0) if person is not None else 0
    return DemoStep("judge", title, "done" if batch.done == batch.questions else "ready", _judged_sentence(batch, own))


def _judged_sentence(batch: Batch, own_labels: int) -> str:
    if not batch.done:
        return "The training data uses these passages as negatives. Do they answer their question?"
    if batch.done < batch.questions:
        return f"{batch.done} of {quantity(batch.questions, 'passage')} judged."
    who = "You judged all five" if own_labels == batch.questions else "All five are judged"
    return f"{who}. Training offers a new set with {'your' if own_labels == batch.questions else 'the'} labels."


def _training_set_step(study: Study) -> DemoStep:
    title = "See what the labels change in the training set"
    made = training_sets(study)
    if not {NOISY, CLEAN} <= made.keys():
        return DemoStep(
            "training-set", title, "waiting", "Two training sets are built from the same questions: noisy and clean."
        )
    changes = _changes(study, made[NOISY]["fingerprint"], made[CLEAN]["fingerprint"]).changes
    positive = sum(count for (was, now, _), count in changes.items() if (was, now) == ("negative", "positive"))
    dropped = sum(count for (was, now, _), count in changes.items() if (was, now) == ("negative", "dropped"))
    return DemoStep(
        "training-set",
        title,
        "ready",
        "The noisy set takes unlabelled passages as negatives. "
        f"Cleaning turns {positive:,} of them into positives and drops {dropped:,}.",
    )


def _retriever_step(comparison: Compare, runs: set[str]) -> DemoStep:
    title = "See what cleaning changes in the retriever"
    if not {BEFORE, TRAINED_NOISY, TRAINED_CLEAN} <= runs:
        return DemoStep(
            "retriever", title, "waiting", "One model is trained on each set, and searches the same questions."
        )
    pair = comparison(TRAINED_NOISY, TRAINED_CLEAN)
    noisy, clean = (
        100 * float(success_from_ranks(first, HEADLINE_K).mean()) for first in (pair.first_ranks_a, pair.first_ranks_b)
    )
    figures = overall(pair, [k for k in KS if k <= pair.depth]).figures_at[HEADLINE_K].difference
    before = 100 * float(success_from_ranks(comparison(BEFORE, TRAINED_CLEAN).first_ranks_a, HEADLINE_K).mean())
    return DemoStep(
        "retriever",
        title,
        "ready",
        f"{noisy:.1f}% trained on noisy, {clean:.1f}% on clean: {signed_number(clean - noisy)}, "
        + ("established" if figures.p_shown <= SURE else "not established"),
        note=f"Success@{HEADLINE_K} before training is {before:.1f}%. " + cleaning_verdict(pair),
    )


def cleaning_verdict(pair: Comparison) -> str:
    """Return a sentence on how training on the cleaned set changes success at each of KS, compared with the noisy set.
    A is the model trained on the noisy set, B on the cleaned set.

    The demo trains each model once, so the intervals do not include the variation between training seeds. The sentence
    states this. `python -m benchmarks.blind_spot --trained` uses several seeds.
    """
    established, open_at = [], []
    for k, figures in overall(pair, [k for k in KS if k <= pair.depth]).figures_at.items():
        value, low, high = (0 - each for each in figures.difference.estimate.percent)
        if figures.difference.p_adjusted is not None and figures.difference.p_adjusted <= SURE:
            established.append(f"{signed_number(value)} points in the top {k} ({signed_ends(high, low)})")
        else:
            open_at.append(f"{k} ({signed_number(value)})")
    sentences = (
        [f"In this one training, the clean set changes Success by {_join_words(established)} against the noisy set."]
        if established
        else []
    )
    if open_at:
        sentences.append(f"No difference between the two is established in the top {_join_words(open_at)}.")
    measured = f"Measured over {pair.units.count_words()}. Training with another seed may give another result."
    return " ".join([*sentences, measured])


def _join_words(words: list[str]) -> str:
    """Return the words as a list, such as "1, 5 and 20"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


@lru_cache(maxsize=4)
def _changes(study: Study, older_set: str, newer_set: str) -> ChangeSummary:
    """Return the changes between two training sets. Sets never change after they are built, so the result is cached by
    their fingerprints.
    """
    return change_summary(TrainingSet.open(study, NOISY), TrainingSet.open(study, CLEAN))

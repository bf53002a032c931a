"""A slice is a group of a comparison's questions, defined by an expression such as `relation:P19 and not bucket:0 and
first(bm25-dev)<=5`.

`blindspot.analysis.expressions` parses the expressions, and this module evaluates their conditions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from blindspot.analysis import flips
from blindspot.analysis.accuracy import first_hit
from blindspot.analysis.expressions import OPERATORS, Condition, Expression, Not, NotAnExpression, evaluate, parse
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.runs import Run
from blindspot.backend.evaluation.cause_rules import RunCauses, Side, run_causes
from blindspot.backend.evaluation.causes import Cause
from blindspot.backend.evaluation.comparison import Comparison, set_label
from blindspot.backend.evaluation.miss_table import NONE
from blindspot.backend.retrieval.retriever import is_lexical
from blindspot.backend.text.answers import match_run
from blindspot.db.errors import BadInput, Missing
from blindspot.db.judgements import Consensus
from blindspot.db.labels import Labels
from blindspot.db.question_table import ids_of, rows_among, rows_of
from blindspot.db.tags import Tags

TEXTS = {
    "relation": "relation:P19",
    "split": "split:dev",
    "set": "set:common-random-buckets",
    "word": "word:where (the question word; other if there is none)",
    "group": 'group:"4-9 mentions" (mentions of the subject, in ranges)',
    "tag": 'tag:bm25_only or tag:"wrong gold" (people\'s tags)',
}
NUMBERS = {
    "bucket": "bucket:0 or bucket>=6 (official buckets: 0 most frequent, 7 rarest)",
    "frequency": "frequency<=9 (mentions of the subject)",
    "length": "length>=12 (words of the question)",
    "answer_length": "answer_length=1 (words of the shortest answer)",
    "overlap": "overlap<0.5 (share of the question's content words in its gold passage, 0 to 1)",
}

FLAGS = {"answer_in_title": "answer_in_title (a gold passage's title contains an answer)"}
OF_RUNS = {
    "first": "first(bm25-dev)<=5 (rank of the first relevant passage; infinite if there is none)",
    "gold": "gold(minilm-dev)>20 (rank of the best gold passage; infinite if there is none)",
}
MISSES = {
    "cause": "cause:near_namesake (a cause of a miss at k in the run that is not BM25, else B) or "
    "cause(bm25-dev):none (by run; none: no cause was measured)",
}
TAGS = {
    "only_a": "only A finds it at k",
    "only_b": "only B finds it at k",
    "both": "both find it at k",
    "both_fail": "neither finds it at k",
    "bm25_only": "BM25 finds it at k, the other run does not",
    "dense_only": "the other run finds it at k, BM25 does not",
    "gold_below_unlabelled": "in the run that is not BM25 (else B), an unlabelled passage ranks above every positive",
    "answer_in_unlabelled": "in that run, an unlabelled passage in the top k contains an answer",
}


CHOSEN_BY_RESULTS = "This slice is defined by a result of the runs (a rank, a tag or a cause). So the difference within the slice follows from its definition, and a test of it has no meaning."


def by_results(expression: str) -> bool:
    """Return whether a slice's expression uses results of the runs; False for an expression that cannot be parsed."""
    try:
        conditions = _conditions(parse(expression)) if expression.strip() else []
    except NotAnExpression:
        return False
    return any(condition.name in (*OF_RUNS, *MISSES, "tag") for condition in conditions)


def _conditions(expression: Expression) -> list[Condition]:
    if isinstance(expression, Condition):
        return [expression]
    parts = (expression.operand,) if isinstance(expression, Not) else expression.operands
    return [condition for part in parts for condition in _conditions(part)]


class Facts:
    """The facts about a comparison's questions that conditions refer to. Each array is computed when it is first used.

    Args:
        k: the cut-off of the tags.
    """

    def __init__(self, comparison: Comparison, k: int):
        self.comparison, self.k, self.study, self.questions = comparison, k, comparison.run_a.study, comparison.facts

    def mask(self, expression: str) -> np.ndarray:
        """Return which questions are in a slice, (q,) bool; all questions for an empty expression.

        Raises: BadInput for an invalid expression, Missing for an unknown run.
        """
        if not expression.strip():
            return np.ones(len(self.comparison), dtype=bool)
        try:
            return evaluate(parse(expression), self._condition)
        except NotAnExpression as error:
            raise BadInput(f"the slice cannot be read: {error}") from None

    def _condition(self, condition: Condition) -> np.ndarray:
        name = condition.name
        if name in MISSES:
            if condition.operator != ":":
                raise self._condition_error(condition, MISSES[name])
            return self._cause(condition, str(condition.value))
        if name in TEXTS:
            if condition.operator != ":" or condition.argument is not None:
                raise self._condition_error(condition, TEXTS[name])
            return self._text(name, str(condition.value), condition)
        if name in NUMBERS:
            return self._number(condition, getattr(self.questions, name), NUMBERS[name])
        if name in FLAGS:
            if condition.operator is not None or condition.argument is not None:
                raise self._condition_error(condition, FLAGS[name])
            return np.asarray(getattr(self.questions, name))
        if name in OF_RUNS:
            if condition.argument is None:
                raise self._condition_error(condition, OF_RUNS[name])
            ranks = self.first_ranks(condition.argument) if name == "first" else self.gold_rank(condition.argument)
            return self._compare_values(condition, ranks, OF_RUNS[name])
        known = ", ".join((*TEXTS, *NUMBERS, *FLAGS, *OF_RUNS, *MISSES))
        raise NotAnExpression(f"unknown condition {name!r}; known: {known}", condition.position)

    def _condition_error(self, condition: Condition, example: str) -> NotAnExpression:
        return NotAnExpression(f"{condition} is not a valid condition; write for example {example}", condition.position)

    def _number(self, condition: Condition, values: np.ndarray, example: str) -> np.ndarray:
        if condition.argument is not None:
            raise self._condition_error(condition, example)
        if condition.operator == ":":
            try:
                condition = Condition(condition.name, None, "=", float(str(condition.value)), condition.position)
            except ValueError:
                raise self._condition_error(condition, example) from None
        return self._compare_values(condition, values, example)

    def _compare_values(self, condition: Condition, values: np.ndarray, example: str) -> np.ndarray:
        """Return which questions' values satisfy a condition. An unknown value (NaN) never does."""
        if condition.operator not in OPERATORS or condition.value is None:
            raise self._condition_error(condition, example)
        return OPERATORS[condition.operator](values, float(condition.value)) & ~np.isnan(values)

    def _text(self, name: str, value: str, condition: Condition) -> np.ndarray:
        if name == "tag":
            return self.tag(value) if value in TAGS else self._questions_with_tag(value, condition)
        sets = self.comparison.columns.dataset_split
        if name == "set":
            matching = [value in (*pair, set_label(*pair)) for pair in sets.names]
            return np.array([*matching, False])[sets.codes]
        if name == "split":
            return np.array([*(split == value for _, split in sets.names), False])[sets.codes]
        texts = {
            "relation": self.comparison.relations,
            "group": self.comparison.buckets,
            "word": self.questions.question_words,
        }
        return texts[name] == value

    def _questions_with_tag(self, tag: str, condition: Condition) -> np.ndarray:
        """Return the questions that people gave a tag, (q,) bool."""
        try:
            tagged = Tags(self.study.labels_path).questions(tag)
        except Missing as error:
            message = f"{error}; tags of runs: {', '.join(TAGS)}"
            raise NotAnExpression(message, condition.position) from None
        return self._question_mask(tagged)

    def _question_mask(self, ids: Iterable[str]) -> np.ndarray:
        """Return which questions' ids are in `ids`, (q,) bool."""
        mask = np.zeros(len(self.comparison), dtype=bool)
        rows = rows_of(self.comparison.questions, list(ids))
        mask[rows[rows >= 0]] = True
        return mask

    def _cause(self, condition: Condition, value: str) -> np.ndarray:
        """Return the questions that a run misses at k and to which a cause applies, (q,) bool."""
        if value not in (*Cause, NONE):
            known = ", ".join((*Cause, NONE))
            raise NotAnExpression(f"unknown cause {value!r}; known: {known}", condition.position)
        causes = self.causes(condition.argument).misses
        mask = np.zeros(len(self.comparison), dtype=bool)
        mask[causes.rows] = causes.without_cause if value == NONE else causes.has_cause(Cause(value))
        return mask

    def causes(self, run: str | None = None) -> RunCauses:
        """Return the causes for this comparison's questions in a run. The default is the run that is not BM25, or else
        B. Raises Missing for an unknown run, and BadInput for a run with fewer than k hits per question.
        """
        compared = self.comparison
        if run is None or run in (compared.run_a.name, compared.run_b.name):
            other = self.sides()[1]
            side: Side = "a" if (other == "a" if run is None else run == compared.run_a.name) else "b"
            return run_causes(compared, side, self.k)
        third = compared.measured_run(run)
        if third.k < self.k:
            raise BadInput(f"k is {self.k}, but {run} has {third.k} hits per question")
        key = "third", run, third.run.manifest.get("made")
        alone: Comparison = compared.figures_cache.get_or_make(key, lambda: Comparison.of_runs(third, compared.run_a))
        causes = run_causes(alone, "a", self.k)
        rows = rows_among(alone.questions, compared.questions)
        return replace(causes, rows=rows[causes.rows]).of_rows(np.arange(len(compared)))

    def first_ranks(self, run: str) -> np.ndarray:
        """Return the rank of the first relevant passage in a run, (q,) float64: inf if there is none, NaN if the run
        lacks the question.
        """
        measured = self.comparison.measured_run(run)
        ranks = np.append(np.where(measured.first_ranks > 0, measured.first_ranks, np.inf), np.nan)
        return ranks[rows_among(self.comparison.questions, measured.questions)]

    def gold_rank(self, run: str) -> np.ndarray:
        """Return the rank of the best gold passage in a run, (q,) float64: inf if no hit is gold, NaN if the question
        has no gold passage or is not in the run.
        """
        gold, searched, named, _ = self._hits_matching(run)
        first = first_hit(gold)
        return np.where(searched & named, np.where(first > 0, first, np.inf), np.nan)

    def _hits_matching(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return four arrays for a run: which hits are gold, (q, K) bool; whether the run has the question, (q,) bool;
        whether the question has gold passages, (q,) bool; the run's row for each question, (q,).
        """
        if name not in self._cached_values:
            run = self.study.run(name)
            rows = np.array(
                [-1 if (row := run.row(id)) is None else row for id in ids_of(self.comparison.questions)],
                dtype=np.int64,
            )
            gold, counts = gold_matrix(
                self.study.corpus, np.asarray(run.hits.ordinals)[rows], self.comparison.questions
            )
            self._cached_values[name] = gold & (rows >= 0)[:, None], rows >= 0, counts > 0, rows
        return self._cached_values[name]

    @cached_property
    def _cached_values(self) -> dict[str, tuple]:
        return {}

    def sides(self) -> tuple[str, str]:
        """The two runs with BM25 first: ("b", "a") if only B is BM25, otherwise ("a", "b")."""
        kinds = [is_lexical(side.run.manifest) for side in (self.comparison.run_a, self.comparison.run_b)]
        return ("b", "a") if kinds == [False, True] else ("a", "b")

    def tag(self, name: str) -> np.ndarray:
        """Return the questions to which a computed tag of TAGS applies, (q,) bool. Raises BadInput for bm25_only and
        dense_only unless exactly one run is BM25.
        """
        compared = self.comparison
        codes = flips.flip_cells(compared.first_ranks_a, compared.first_ranks_b, self.k)
        sparse, other = self.sides()
        if name in ("bm25_only", "dense_only"):
            if is_lexical(compared.run_a.run.manifest) == is_lexical(compared.run_b.run.manifest):
                raise BadInput(
                    f"tag:{name} needs BM25 and another run; compare those, or write tag:only_a or tag:only_b"
                )
            name = f"only_{sparse if name == 'bm25_only' else other}"
        if name in ("only_a", "only_b", "both", "both_fail"):
            return codes == flips.CELLS.index("neither" if name == "both_fail" else name)
        run = (compared.run_a if other == "a" else compared.run_b).run
        gold, searched, named, rows = self._hits_matching(run.name)
        ordinals = np.asarray(run.hits.ordinals)[rows]
        positive, labelled = (self._labelled_hits(gold, ordinals, labels) for labels in (("positive",), None))
        if name == "gold_below_unlabelled":
            first = first_hit(positive)
            above = np.arange(ordinals.shape[1]) < np.where(first > 0, first - 1, ordinals.shape[1])[:, None]
            return searched & (named | positive.any(axis=1)) & (above & ~labelled & (ordinals >= 0)).any(axis=1)
        return searched & (self._answers(run, rows, ordinals) & ~labelled)[:, : self.k].any(axis=1)

    def _answers(self, run: Run, rows: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Return which hits contain an answer by the comparison's rule, (q, K) bool."""
        try:
            return np.asarray(run.answers(self.comparison.run_a.rule))[rows]
        except Missing:
            return match_run(self.study.corpus, self.comparison.questions, ordinals, self.comparison.run_a.rule)

    def _labelled_hits(self, gold: np.ndarray, ordinals: np.ndarray, labels: tuple[str, ...] | None) -> np.ndarray:
        """Return which hits have one of `labels` (None: any label), (q, K) bool. Gold passages count as positive,
        unless people agree on another label.
        """
        result = gold.copy()
        known = self.study.corpus.ordinals({each.passage for _, each in self._settled_labels})
        for row, each in self._settled_labels:
            ordinal = known.get(each.passage)
            if ordinal is not None:
                result[row, ordinals[row] == ordinal] = labels is None or each.label in labels
        return result

    @cached_property
    def _settled_labels(self) -> list[tuple[int, Consensus]]:
        """Return the agreed or adjudicated labels of these questions' pairs, each with the row of its question."""
        settled = [each for each in Labels(self.study.labels_path).consensus() if each.label is not None]
        rows = rows_of(self.comparison.questions, [each.question for each in settled])
        return [(row, each) for row, each in zip(rows.tolist(), settled, strict=True) if row >= 0]

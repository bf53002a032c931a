"""The features of a (question, passage) pair that the feature judge learns from.

None of them needs to know an answer, a gold passage, a relation or a subject: they are computed alike for labelled and
unlabelled questions. Four come from the list that a retriever returned, three from a dense index, the rest from the
words of question and passage.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Family = Literal["list", "dense", "words"]

WORD = re.compile(r"\w+")
IDF_SHARE = 5  # every fifth passage counts towards document frequencies
IDF_PASSAGES = 200_000  # at most, so that 21 million passages take seconds
RARE_WORDS = 2
QUESTIONS_PER_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the feature matrix.

    label: as shown beside a passage ("words of the question in the text"). reason: why it should distinguish passages
    that answer from others.
    """

    name: str
    family: Family
    label: str
    reason: str


FEATURES = (
    Feature("score", "list", "retriever's score", "the retriever's own opinion"),
    Feature("rank", "list", "rank", "scores of two questions do not compare; ranks do"),
    Feature("score_ratio", "list", "score relative to the first", "a passage level with the first is as good a guess as the first"),
    Feature("score_gap", "list", "score below the first", "a clear leader also has a high score in absolute terms"),
    Feature("dense_score", "dense", "similarity of meaning", "a paraphrase shares few words with the question"),
    Feature("dense_gap", "dense", "similarity below the list's best", "the encoder's scale differs by question"),
    Feature("dense_rank", "dense", "rank by similarity", "the encoder's order within the list, free of its scale"),
    Feature("idf_text", "words", "question's words in the text", "the sentence with the answer shares the question's rare words"),
    Feature("idf_title", "words", "question's words in the title", "an article about the subject bears its name"),
    Feature("idf_either", "words", "question's words in title or text", "the passage is not about words that it lacks in both"),
    Feature("rare_either", "words", "rarest words in title or text", "the two rarest words are most often the subject's name"),
    Feature("rare_text", "words", "rarest words in the text", "a text that repeats the name is about it, not only its title"),
    Feature("title_in_question", "words", "whole title in the question", "the question names this article"),
    Feature("title_length", "words", "title length", "long titles name lists and events, short ones name people and places"),
    Feature("title_share", "words", "title's words in the question", "the title of another entity of that name has words that the question lacks"),
    Feature("bigrams_text", "words", "pairs of question words in the text", "words in the question's order are names and phrases"),
    Feature("text_length", "words", "text length", "short passages hold fewer facts"),
)  # fmt: skip
NAMES = tuple(feature.name for feature in FEATURES)


def columns(families: Sequence[Family]) -> np.ndarray:
    """(f,) int64: the columns of the feature matrix that belong to some families."""
    return np.array([i for i, feature in enumerate(FEATURES) if feature.family in families], dtype=np.int64)


class WordWeights:
    """Inverse document frequencies of words, from a sample of the passages.

    An unseen word weighs as much as one that a single sampled passage holds.
    """

    def __init__(self, frequencies: dict[str, int], passages: int):
        self.frequencies, self.passages = frequencies, passages
        self._unseen = math.log(1 + passages)

    @classmethod
    def of(cls, study: Study) -> WordWeights:
        """Count every IDF_SHARE-th passage of the study, at most IDF_PASSAGES; the same ones every time."""
        stride = max(IDF_SHARE, -(-len(study.corpus) // IDF_PASSAGES))
        counts: Counter[str] = Counter()
        n = 0
        for begin in range(0, len(study.corpus), stride * 1000):
            rows = range(begin, min(begin + stride * 1000, len(study.corpus)), stride)
            for passage in study.corpus.passages(rows):
                counts.update(set(words(passage.title)).union(words(passage.text)))
                n += 1
        return cls(dict(counts), n)

    def __call__(self, word: str) -> float:
        seen = self.frequencies.get(word)
        return self._unseen if seen is None else math.log((1 + self.passages) / (1 + seen)) + 1e-9


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return WORD.findall(text.lower())


def feature_matrix(
    study: Study,
    questions: Sequence[str],
    rows: np.ndarray,
    scores: np.ndarray,
    weights: WordWeights,
    dense_scores: np.ndarray | None = None,
) -> np.ndarray:
    """Compute the features of every hit in some lists.

    Args:
        questions: texts of the q questions.
        rows: (q, k) int32 passage rows; -1 pads.
        scores: (q, k) float32 scores of the retriever, falling along a row.
        dense_scores: (q, k) float32 similarity of each question and passage in a dense index; None leaves its three
        features NaN.

    Returns:
        (q, k, f) float32 in the order of FEATURES; NaN where padded and where a feature is not known.
    """
    matrix = np.full((*rows.shape, len(FEATURES)), np.nan, np.float32)
    matrix[:, :, :4] = _of_list(rows, scores)
    if dense_scores is not None:
        matrix[:, :, 4:7] = _of_similarity(rows, dense_scores)
    for begin in range(0, len(questions), QUESTIONS_PER_BLOCK):
        block = slice(begin, begin + QUESTIONS_PER_BLOCK)
        matrix[block, :, 7:] = _of_words(study, questions[block], rows[block], weights)
    return matrix


def _of_list(rows: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(q, k, 4): score, rank, score relative to the first, score less the first's."""
    present = rows >= 0
    scores = np.where(present, scores, np.nan).astype(np.float32)
    first = scores[:, :1]
    ranks = np.where(present, np.arange(1, rows.shape[1] + 1, dtype=np.float32), np.nan)
    ratio = np.divide(scores, first, out=np.full_like(scores, np.nan), where=np.abs(first) > 1e-12)
    return np.stack([scores, ranks, ratio, scores - first], axis=-1)


def _of_similarity(rows: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """(q, k, 3): similarity, similarity less the list's best, rank by similarity."""
    similarity = np.where(rows >= 0, similarity, np.nan).astype(np.float32)
    with np.errstate(invalid="ignore"):
        best = np.nanmax(np.where(np.isnan(similarity), -np.inf, similarity), axis=1, keepdims=True, initial=-np.inf)
    order = np.argsort(np.where(np.isnan(similarity), np.inf, -similarity), axis=1, kind="stable")
    ranks = np.empty(rows.shape, np.float32)
    np.put_along_axis(ranks, order, np.arange(1, rows.shape[1] + 1, dtype=np.float32)[None], axis=1)
    return np.stack([similarity, similarity - best, np.where(rows >= 0, ranks, np.nan)], axis=-1)


@dataclass(slots=True)
class _PassageWords:
    """The words of a passage, in the forms in which they are looked up."""

    text: frozenset[str]
    title: frozenset[str]
    joined_text: str
    joined_title: str
    text_length: int
    title_length: int


def _of_words(study: Study, questions: Sequence[str], rows: np.ndarray, weights: WordWeights) -> np.ndarray:
    """(q, k, 10): the features of the family "words"."""
    distinct = np.unique(rows[rows >= 0])
    by_row = dict(zip(distinct.tolist(), map(_passage_words, study.corpus.passages(distinct.tolist())), strict=True))
    columns = np.full((*rows.shape, 10), np.nan, np.float32)
    for i, question in enumerate(questions):
        for column, values in _of_question(words(question), rows[i].tolist(), by_row, weights):
            columns[i, column] = values
    return columns


def _passage_words(passage) -> _PassageWords:
    text, title = words(passage.text), words(passage.title)
    return _PassageWords(frozenset(text), frozenset(title), _joined(text), _joined(title), len(text), len(title))


def _joined(tokens: Sequence[str]) -> str:
    """Words with a space on both sides of each, so that a phrase is found at word borders only."""
    return f" {' '.join(tokens)} "


def _of_question(
    question: list[str], rows: list[int], passages: dict[int, _PassageWords], weights: WordWeights
) -> Iterator[tuple[int, tuple[float, ...]]]:
    weight = {word: weights(word) for word in question}
    mass = sum(weight.values()) or 1.0
    rare = sorted(weight, key=lambda word: (-weight[word], word))[:RARE_WORDS]
    bigrams = [_joined(pair) for pair in zip(question, question[1:])]
    joined = _joined(question)
    for column, row in enumerate(rows):
        if row < 0:
            continue
        p = passages[row]
        in_text = {word for word in weight if word in p.text}
        in_title = {word for word in weight if word in p.title}
        either = in_text | in_title
        yield (
            column,
            (
                sum(weight[word] for word in in_text) / mass,
                sum(weight[word] for word in in_title) / mass,
                sum(weight[word] for word in either) / mass,
                sum(word in either for word in rare),
                sum(word in in_text for word in rare),
                float(p.title_length > 0 and p.joined_title in joined),
                p.title_length,
                len(in_title) / len(p.title) if p.title else 0.0,
                sum(pair in p.joined_text for pair in bigrams),
                p.text_length,
            ),
        )

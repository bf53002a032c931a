"""Compute the features of (question, passage) pairs, from which the feature judge predicts relevance.

No feature uses an answer, a gold passage, a relation or a subject, so features are computed in the same way for
labelled and unlabelled questions. Four features come from the retriever's list and three from a dense index. The others
come from the words of question and passage; some of these compare a passage with the other passages of its list.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.db.records import Passage

Family = Literal["list", "dense", "words"]

WORD = re.compile(r"\w+")
BRACKETS = re.compile(r"\s*\([^)]*\)")
IDF_SHARE = 5  # every fifth passage counts towards document frequencies
IDF_PASSAGES = 200_000  # at most, so that 21 million passages take seconds
RARE_WORDS = 2
NEAR = 90  # characters on either side of the rarest word: some 15 words
QUESTIONS_PER_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the feature matrix.

    Attributes:
        label: as shown beside a passage ("words of the question in the text").
        reason: why it should distinguish passages that answer from others.
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
    Feature("title_core", "words", "title without brackets in the question", "brackets only tell namesakes apart"),
    Feature("span_text", "words", "longest run of question words in the text", "a whole name is found at one place"),
    Feature("rare_count", "words", "mentions of the rarest words", "a text about the subject repeats its name"),
    Feature("begins", "words", "text begins with the title", "an article's first passage states most of its facts"),
    Feature("near", "words", "question's words beside the rarest word", "a sentence that states the fact has its words together"),
    Feature("names", "words", "names in the text", "an answer is most often a name that the question lacks"),
    Feature("numbers", "words", "numbers in the text", "lists and tables of results state few facts"),
    Feature("either_gap", "words", "question's words below the list's best", "the best passage of a list need not be good"),
    Feature("title_gap", "words", "title's words below the list's best", "another passage's title may fit better"),
    Feature("near_gap", "words", "words beside the rarest below the list's best", "another passage may have them closer together"),
    Feature("same_title", "words", "passages of this title in the list", "the article that a list returns to is about the subject"),
    Feature("of_title", "words", "place among the passages of this title", "the first passage of an article is the likeliest"),
)  # fmt: skip
NAMES = tuple(feature.name for feature in FEATURES)
WORDS = tuple(feature.name for feature in FEATURES if feature.family == "words")
FIRST_WORDS = len(FEATURES) - len(WORDS)
OWN_WORDS = WORDS.index("either_gap")  # these need the passage alone; the later ones need its list


def columns(families: Sequence[Family]) -> np.ndarray:
    """Return the columns of the feature matrix that belong to some families of features, (f,) int64."""
    return np.array([i for i, feature in enumerate(FEATURES) if feature.family in families], dtype=np.int64)


class WordWeights:
    """Inverse document frequencies of words, from a sample of the passages.

    An unseen word gets the weight of a word that occurs in a single sampled passage.
    """

    def __init__(self, frequencies: dict[str, int], passages: int):
        self.frequencies, self.passages = frequencies, passages
        self._unseen = math.log(1 + passages)

    @classmethod
    def of_study(cls, study: Study) -> WordWeights:
        """Count the words of every IDF_SHARE-th passage of the study, at most IDF_PASSAGES passages. The sample is
        always the same.
        """
        stride = max(IDF_SHARE, -(-len(study.corpus) // IDF_PASSAGES))
        counts: Counter[str] = Counter()
        n = 0
        for begin in range(0, len(study.corpus), stride * 1000):
            rows = range(begin, min(begin + stride * 1000, len(study.corpus)), stride)
            for passage in study.corpus.passages(rows):
                counts.update(set(lower_case_words(passage.title)).union(lower_case_words(passage.text)))
                n += 1
        return cls(dict(counts), n)

    def __call__(self, word: str) -> float:
        seen = self.frequencies.get(word)
        return self._unseen if seen is None else math.log((1 + self.passages) / (1 + seen)) + 1e-9


def lower_case_words(text: str) -> list[str]:
    """Return the words of a text in lower case."""
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
    matrix = list_features(rows >= 0, scores, dense_scores)
    for begin in range(0, len(questions), QUESTIONS_PER_BLOCK):
        block = slice(begin, begin + QUESTIONS_PER_BLOCK)
        distinct = np.unique(rows[block][rows[block] >= 0]).tolist()
        by_row: dict[int, Passage | None] = dict(zip(distinct, study.corpus.passages(distinct), strict=True))
        by_row[-1] = None
        passages = [[by_row[row] for row in each] for each in rows[block].tolist()]
        matrix[block, :, FIRST_WORDS:] = word_features(passages, questions[block], weights)
    return matrix


def list_features(has_vector: np.ndarray, scores: np.ndarray, dense_scores: np.ndarray | None = None) -> np.ndarray:
    """Return a feature matrix, (q, k, f) float32, with only the features of ranks, scores and similarities; the other
    features are NaN.

    Args:
        has_vector: (q, k) bool; false pads. scores, dense_scores: as for `feature_matrix`.
    """
    matrix = np.full((*has_vector.shape, len(FEATURES)), np.nan, np.float32)
    matrix[:, :, :4] = _list_features(has_vector, scores)
    if dense_scores is not None:
        matrix[:, :, 4:FIRST_WORDS] = _similarity_features(has_vector, dense_scores)
    return matrix


def _list_features(has_vector: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return four features, (q, k, 4): score, rank, score divided by the top score, score minus the top score."""
    scores = np.where(has_vector, scores, np.nan).astype(np.float32)
    first = scores[:, :1]
    ranks = np.where(has_vector, np.arange(1, has_vector.shape[1] + 1, dtype=np.float32), np.nan)
    ratio = np.divide(scores, first, out=np.full_like(scores, np.nan), where=np.abs(first) > 1e-12)
    return np.stack([scores, ranks, ratio, scores - first], axis=-1)


def _similarity_features(has_vector: np.ndarray, similarity: np.ndarray) -> np.ndarray:
    """Return three features, (q, k, 3): similarity, similarity minus the list's highest, rank by similarity."""
    similarity = np.where(has_vector, similarity, np.nan).astype(np.float32)
    with np.errstate(invalid="ignore"):
        best = np.nanmax(np.where(np.isnan(similarity), -np.inf, similarity), axis=1, keepdims=True, initial=-np.inf)
    order = np.argsort(np.where(np.isnan(similarity), np.inf, -similarity), axis=1, kind="stable")
    ranks = np.empty(has_vector.shape, np.float32)
    np.put_along_axis(ranks, order, np.arange(1, has_vector.shape[1] + 1, dtype=np.float32)[None], axis=1)
    return np.stack([similarity, similarity - best, np.where(has_vector, ranks, np.nan)], axis=-1)


@dataclass(slots=True)
class _PassageWords:
    """The words of a passage, in data structures for fast look-up."""

    text: frozenset[str]
    title: frozenset[str]
    joined_text: str
    joined_title: str
    core: str
    text_length: int
    title_length: int
    names: int
    numbers: int


def word_features(
    passages: Sequence[Sequence[Passage | None]], questions: Sequence[str], weights: WordWeights
) -> np.ndarray:
    """Compute the features of the family "words", which compare the words of question and passage.

    Args:
        passages: the k passages of each question, in the order of its list; None pads.

    Returns:
        (q, k, f) float32, the columns of that family; NaN where padded.
    """
    width = max(map(len, passages), default=0)
    own = np.full((len(questions), width, OWN_WORDS), np.nan, np.float32)
    passage_words: dict[int, _PassageWords] = {}
    titles = np.full((len(questions), width), -1, np.int64)
    numbers: dict[str, int] = {}
    for i, (question, row) in enumerate(zip(questions, passages, strict=True)):
        asked = _QuestionWords.from_question(lower_case_words(question), weights)
        for j, passage in enumerate(row):
            if passage is None:
                continue
            known = passage_words.get(id(passage))
            if known is None:
                known = passage_words[id(passage)] = _passage_words(passage)
            own[i, j] = asked.of_passage(known)
            # Passages without a title share none.
            title = known.joined_title if known.title_length else f"{i} {j}"
            titles[i, j] = numbers.setdefault(title, len(numbers))
    return np.concatenate([own, _relative_features(own, titles)], axis=-1)


def _relative_features(features: np.ndarray, titles: np.ndarray) -> np.ndarray:
    """Return five features, (q, k, 5): three features minus their maximum in the list, the number of passages with the
    same title, and the position among these.
    """
    compared = features[:, :, [WORDS.index(name) for name in ("idf_either", "idf_title", "near")]]
    best = np.max(np.where(np.isnan(compared), -np.inf, compared), axis=1, keepdims=True, initial=-np.inf)
    present = titles >= 0
    same = (titles[:, :, None] == titles[:, None, :]) & present[:, :, None]
    earlier = np.tril(np.ones(same.shape[1:], bool))
    counts = np.stack([same.sum(axis=2), (same & earlier).sum(axis=2)], axis=-1).astype(np.float32)
    counts[~present] = np.nan
    with np.errstate(invalid="ignore"):
        return np.concatenate([compared - best, counts], axis=-1).astype(np.float32)


def _passage_words(passage: Passage) -> _PassageWords:
    written = WORD.findall(passage.text)
    text, title = lower_case_words(passage.text), lower_case_words(passage.title)
    return _PassageWords(
        frozenset(text),
        frozenset(title),
        _spaced_words(text),
        _spaced_words(title),
        _spaced_words(lower_case_words(BRACKETS.sub("", passage.title))),
        len(text),
        len(title),
        sum(word[0].isupper() for word in written),
        sum(word[0].isdigit() for word in written),
    )


def _spaced_words(tokens: Sequence[str]) -> str:
    """Join words with a space on both sides of each, so that a search for a phrase matches whole words only."""
    return f" {' '.join(tokens)} "


@dataclass(slots=True)
class _QuestionWords:
    """The words of a question with their weights, and its two rarest words."""

    question_words: list[str]
    weight: dict[str, float]
    mass: float
    rare: list[str]
    bigrams: list[str]
    joined_words: str

    @classmethod
    def from_question(cls, question: list[str], weights: WordWeights) -> _QuestionWords:
        weight = {word: weights(word) for word in question}
        rare = sorted(weight, key=lambda word: (-weight[word], word))[:RARE_WORDS]
        bigrams = [_spaced_words(pair) for pair in zip(question, question[1:])]
        return cls(question, weight, sum(weight.values()) or 1.0, rare, bigrams, _spaced_words(question))

    def of_passage(self, p: _PassageWords) -> tuple[float, ...]:
        """Return the features of one passage in the order of WORDS, without the features that compare it
        with its list.
        """
        weight, mass = self.weight, self.mass
        in_text = {word for word in weight if word in p.text}
        in_title = {word for word in weight if word in p.title}
        either = in_text | in_title
        pairs = [pair in p.joined_text for pair in self.bigrams]
        return (
            sum(weight[word] for word in in_text) / mass,
            sum(weight[word] for word in in_title) / mass,
            sum(weight[word] for word in either) / mass,
            sum(word in either for word in self.rare),
            sum(word in in_text for word in self.rare),
            float(p.title_length > 0 and p.joined_title in self.joined_words),
            p.title_length,
            len(in_title) / len(p.title) if p.title else 0.0,
            sum(pairs),
            p.text_length,
            float(len(p.core) > len("  ") and p.core in self.joined_words),
            self._longest_common_span(pairs, in_text) / mass,
            math.log1p(sum(p.joined_text.count(f" {word} ") for word in self.rare if word in in_text)),
            float(p.title_length > 0 and p.joined_text.startswith((p.joined_title, p.core))),
            self._near_counts(p, in_text) / mass,
            p.names,
            p.numbers,
        )

    def _longest_common_span(self, pairs: list[bool], in_text: set[str]) -> float:
        """Return the largest total weight of consecutive question words whose neighbouring pairs all occur
        in the text.
        """
        best = run = 0.0
        for place, word in enumerate(self.question_words):
            if word not in in_text:
                run = 0.0
                continue
            follows = place > 0 and pairs[place - 1]
            run = (run if follows else 0.0) + self.weight[word]
            best = max(best, run)
        return best

    def _near_counts(self, p: _PassageWords, in_text: set[str]) -> float:
        """Return the total weight of the question's words near the first occurrence of the rarest question word in the
        text.
        """
        word = next((word for word in self.rare if word in in_text), None)
        if word is None:
            return 0.0
        place = p.joined_text.find(f" {word} ")
        window = p.joined_text[max(0, place - NEAR) : place + NEAR]
        return sum(self.weight[other] for other in in_text if f" {other} " in window)

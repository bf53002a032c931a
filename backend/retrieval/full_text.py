"""Full-text search in passages, questions and annotators' notes. Excerpts mark the words that were searched for."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from blindspot.backend.retrieval import live
from blindspot.backend.text.answers import query_spans
from blindspot.backend.text.spans import Span, excerpt, merge_spans, split_at_spans
from blindspot.db.errors import BadInput
from blindspot.db.labels import Labels
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Place = Literal["passages", "questions", "notes"]
PLACES: tuple[Place, ...] = get_args(Place)
MAX_WORDS = 200  # characters of a query
MAX_FOUND = 100
ROWS_SCANNED = 200_000  # passages that a search without an index looks through
BM25 = "bm25"
NAMED_PASSAGES = 50  # passages in which a name is looked for
_MARKS = string.punctuation + "“”‘’«»–—…¿¡"  # at the ends of a word they are not looked for
_TERM = re.compile(r'(?<!\S)[“"]([^“”"]*)[”"]|(\S+)')
_NAME = re.compile(r"(?:\b[^\W\d_a-z][\w'’-]*\s?)+")


@dataclass(frozen=True, slots=True)
class TextResult:
    """One result of a full-text search.

    Attributes:
        id: Of the passage or the question; for a note, of its question.
        title: The title of the passage; for a note, its annotator; else "".
        excerpt: Pieces of the text with their kind: "word" for a word that was searched for, "" for the rest.
        text: Of a passage, the pieces of the whole text.
        passage: For a note on a passage, the passage's id.
        runs: Of a question, the runs that searched for it.
        of: Of a question, its data set and split.
    """

    id: str
    title: str
    excerpt: list[tuple[str, str]]
    passage: str | None = None
    text: tuple[tuple[str, str], ...] = ()
    runs: tuple[str, ...] = ()
    of: str = ""


@dataclass(frozen=True, slots=True)
class RankedCounts:
    """How many of the passages that BM25 ranks have the words in title or text, as whole words and ignoring case.

    Attributes:
        ranked: Passages looked at. is_all: Whether BM25 ranks no others. as_written: Those that have the words one after
            another. all_words: Those that have all of them.
    """

    ranked: int
    is_all: bool
    as_written: int
    all_words: int


@dataclass(frozen=True, slots=True)
class TextSearch:
    """The results of one search, sorted by relevance or in the order of the collection.

    Attributes:
        has_more: Whether there are further results.
        method_note: How the search was done, in one sentence, with its limit.
        counts: None where every result has all of the words.
        total: Of questions, how many have all of the words.
    """

    place: Place
    results: list[TextResult]
    has_more: bool
    method_note: str
    counts: RankedCounts | None = None
    total: int | None = None


def find(
    study: Study,
    query: str,
    place: Place,
    limit: int = 20,
    hidden_questions: Set[str] = frozenset(),
    annotator: str | None = None,
) -> TextSearch:
    """Search passages, questions or notes for words; for those in quotation marks, only as they are written.

    Args:
        hidden_questions: Questions that the reader still has to judge. Others' notes on them are left out. While there
            are any, passages come in the order of the collection: BM25's order would show the ranks of those questions.
        annotator: For notes, the only annotator whose notes may be shown; None for those of all.

    Raises:
        BadInput: The query is empty or too long, or `limit` is out of range.
        Missing: The study has no passages.
    """
    words = terms(query)
    if not words or len(query) > MAX_WORDS:
        raise BadInput(f"a search needs between 1 and {MAX_WORDS} characters, and a letter or a digit among them")
    if not 1 <= limit <= MAX_FOUND:
        raise BadInput(f"a search returns between 1 and {MAX_FOUND} results, not {limit}")
    if place == "questions":
        return _questions(study, query, limit)
    if place == "notes":
        return _notes(study, words, limit, hidden_questions, annotator)
    if place != "passages":
        raise BadInput(f"search in one of {', '.join(PLACES)}, not in {place!r}")
    if hidden_questions:
        return _matching_passages(study, query, limit, "you still have questions to judge")
    if BM25 not in live.answering_retrievers(study):
        return _matching_passages(study, query, limit, "the study has no BM25 index (blindspot index bm25)")
    ranked = _ranked_passages(study, query, limit)
    if ranked.results:
        return ranked
    why = "BM25 ranks none (it leaves out the most frequent English words)"
    if has_phrase(query):
        why = f"none of the {MAX_FOUND} that BM25 ranks first has them"
    return _matching_passages(study, query, limit, why)


def unknown_names(study: Study, question: str, hidden_questions: Set[str] = frozenset()) -> list[str]:
    """Return the names in a question (capitalised words except the first word) that do not occur in any of the top
    passages of a search for their words; [] if the study has no passages. For the arguments see `find`.
    """
    if not study.has_corpus:
        return []
    _, _, rest = question.strip().partition(" ")
    names = dict.fromkeys(each.strip() for each in _NAME.findall(rest))
    return [name for name in names if not _is_in_collection(study, name, hidden_questions)]


def _is_in_collection(study: Study, name: str, hidden_questions: Set[str]) -> bool:
    found = find(study, name[:MAX_WORDS], "passages", NAMED_PASSAGES, hidden_questions).results
    rows = study.corpus.ordinals([each.id for each in found]).values()
    sought = " ".join(name.casefold().split())
    return any(
        sought in f"{each.title} {' '.join(each.text.split())}".casefold() for each in study.corpus.passages(list(rows))
    )


def _ranked_passages(study: Study, query: str, limit: int) -> TextSearch:
    hits = live.search(study, BM25, [query], min(MAX_FOUND + 1, len(study.corpus)))
    rows = [int(row) for row in hits.ordinals[0] if row >= 0]
    ranked = study.corpus.passages(rows[:MAX_FOUND])
    fits = {each.id: _fit(f"{each.title} · {each.text}", query) for each in ranked}  # no phrase from one into the other
    is_exact = has_phrase(query)
    fitting = [each for each in ranked if not is_exact or fits[each.id] < _SOME_WORDS]
    fitting.sort(key=lambda each: fits[each.id])
    found = [_passage_result(each, query_spans(each.text, query)) for each in fitting[:limit]]
    some = "" if is_exact else ", then those with some"
    how = f"Ranked by BM25 over all passages; those with the words as written come first, then those with all of them{some}; titles count too."
    of_fit = [sum(fit <= most for fit in fits.values()) for most in (_AS_WRITTEN, _ALL_WORDS)]
    counts = RankedCounts(len(ranked), len(rows) <= MAX_FOUND, *of_fit)
    return TextSearch("passages", found, len(fitting) > limit, how, counts)


_AS_WRITTEN, _ALL_WORDS, _SOME_WORDS = range(3)


def terms(query: str) -> list[str]:
    """Return what a text must have: the words of a query, and as one term each of its parts in quotation marks; without
    the marks at their ends, and without those that are marks alone.
    """
    parts = (" ".join((phrase or word).split()) for phrase, word in _TERM.findall(query))
    return [term for each in parts if (term := each.strip(_MARKS))]


def has_phrase(query: str) -> bool:
    """Return whether a part of the query is in quotation marks."""
    return any(phrase.strip(_MARKS) for phrase, _ in _TERM.findall(query))


def _fit(text: str, query: str) -> int:
    """Return how well a text fits a query: _AS_WRITTEN, _ALL_WORDS or _SOME_WORDS, by whole words, ignoring case."""
    text, words = " ".join(text.casefold().split()), terms(query.casefold())

    def has(phrase: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None

    if has(" ".join(words)) or has(" ".join(query.casefold().split())):
        return _AS_WRITTEN
    return _ALL_WORDS if all(map(has, words)) else _SOME_WORDS


def _matching_passages(study: Study, query: str, limit: int, reason: str) -> TextSearch:
    corpus, words = study.corpus, terms(query)
    is_exact = has_phrase(query)
    passages = corpus.passages(corpus.find(words, (MAX_FOUND if is_exact else limit) + 1, ROWS_SCANNED))
    how = "Passages with all of the words, also inside other words, in the order of the collection"
    if is_exact:
        passages = [each for each in passages if _fit(f"{each.title} · {each.text}", query) < _SOME_WORDS]
        how = "Passages with all of the words, those in quotation marks as written, in the order of the collection"
    found = [_passage_result(each, _spans(each.text, words)) for each in passages[:limit]]
    if len(corpus) > ROWS_SCANNED:
        how += f"; only the first {ROWS_SCANNED:,} of {len(corpus):,} were searched"
    said = f"{how}, because {reason}." if found else _not_found(query, len(corpus))
    return TextSearch("passages", found, len(passages) > limit, said)


def _not_found(query: str, passages: int) -> str:
    """Say where words were looked for that no passage has."""
    how = "as written" if has_phrase(query) else "also inside other words"
    where = "all passages" if passages <= ROWS_SCANNED else f"the first {ROWS_SCANNED:,} of {passages:,} passages"
    return f"They were looked for in {where}, {how}."


def _questions(study: Study, query: str, limit: int) -> TextSearch:
    words = terms(query)
    containing, _ = study.questions.page(search_words=words, limit=-1)
    questions = [each for each in containing if _fit(each.text, query) < _SOME_WORDS]
    runs = _runs_over(study, [each.id for each in questions])
    questions.sort(key=lambda each: each.id not in runs)
    found = [
        TextResult(
            each.id,
            "",
            _excerpt(each.text, _spans(each.text, words, True)),
            runs=runs.get(each.id, ()),
            of=", ".join(filter(None, (each.dataset, each.split))),
        )
        for each in questions[:limit]
    ]
    how = "Words are whole words, in any case."
    if questions:
        how = "Those that a run searched for come first, each group in the order of import."
    return TextSearch("questions", found, len(questions) > limit, how, total=len(questions))


def _runs_over(study: Study, questions: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the runs that searched for each of these questions."""
    of_set: dict[str, list[str]] = {}
    for name, manifest in study.parts("runs").items():
        of_set.setdefault(manifest.get("question_set", name), []).append(name)
    searched: dict[str, tuple[str, ...]] = {}
    for runs in of_set.values():
        for question in set(study.run(runs[0]).question_ids).intersection(questions):
            searched[question] = (*searched.get(question, ()), *runs)
    return searched


def _notes(study: Study, words: list[str], limit: int, hidden_questions: Set[str], annotator: str | None) -> TextSearch:
    rows = Labels(study.labels_path).find_notes(words, annotator, limit + 1, () if annotator else hidden_questions)
    found = [
        TextResult(row.question, row.annotator, _excerpt(row.note or "", _spans(row.note or "", words)), row.passage)
        for row in rows[:limit]
    ]
    whose = "Your own notes" if annotator else "Notes of all annotators"
    return TextSearch("notes", found, len(rows) > limit, f"{whose} that contain all of the words, newest first.")


def _spans(text: str, words: list[str], whole: bool = False) -> list[Span]:
    """Return the spans of the words in the text, ignoring case. whole: not those inside longer words."""
    either = "|".join(re.escape(word) for word in sorted(set(words), key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)" if whole else either, re.IGNORECASE)
    return merge_spans(match.span() for match in pattern.finditer(text))


def begins_within_sentence(text: str) -> bool:
    """Return whether a passage begins within a sentence, as parts of documents do: with a small letter, in a text that
    has capitals too, or with a mark that follows a word.
    """
    return text.startswith((",", ".", ";", ":", ")")) or (text[:1].islower() and text != text.lower())


def _passage_result(passage: Passage, words: list[Span]) -> TextResult:
    whole = tuple(split_at_spans(passage.text, 0, len(passage.text), (), words))
    return TextResult(passage.id, passage.title, _passage_excerpt(passage.text, words), text=whole)


def _passage_excerpt(text: str, words: list[Span]) -> list[tuple[str, str]]:
    pieces = _excerpt(text, words)
    is_cut = pieces[:1] == [("… ", "")]
    return [("… ", ""), *pieces] if not is_cut and begins_within_sentence(text) else pieces


def _excerpt(text: str, words: list[Span]) -> list[tuple[str, str]]:
    low, high = excerpt(text, (), words)
    shown = split_at_spans(text, low, high, (), words)
    return [*([("… ", "")] if low else []), *shown, *([(" …", "")] if high < len(text) else [])]

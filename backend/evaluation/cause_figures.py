"""The figures that decided a cause of a miss, in words, from the facts that the page Question has at hand."""

from __future__ import annotations

from blindspot.backend.evaluation.causes import RARE_PATTERN, Cause
from blindspot.backend.evaluation.gold_facts import GoldPassage, answer_place, largest_overlap
from blindspot.backend.evaluation.miss_facts import MissExplanation, name_share
from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Question


def cause_figures(explanation: MissExplanation, run: str) -> dict[Cause, str]:
    """Return by cause the figures that its rule compares for the question, for the causes whose figures are known."""
    question = explanation.question
    gold = [GoldPassage.from_passage(each) for each in explanation.passages.values() if each.id in question.gold]
    winner = next((each.winner for each in explanation.standings if each.run == run), None)
    figures = {
        Cause.NEAR_NAMESAKE: "" if winner is None else explanation.passages[winner].title,
        Cause.OTHER_WORDS: _shared(question, gold),
        Cause.LATE_FACT: _answer_begins(question, gold),
        Cause.OTHER_ENTITY_PASSAGE: _title_of_gold(question, gold),
        Cause.RARE_SUBJECT: _mentions(question),
        **_training(explanation),
    }
    return {cause: words for cause, words in figures.items() if words}


def _shared(question: Question, gold: list[GoldPassage]) -> str:
    share = largest_overlap(question, gold)
    if share is None:
        return ""
    words = content_words(question.text) - content_words(question.subject or "")
    which = "the passage" if len(gold) == 1 else f"the nearest of {len(gold)} gold passages"
    return f"{which} has {round(share * len(words)) or 'none'} of “{', '.join(sorted(words))}”"


def _answer_begins(question: Question, gold: list[GoldPassage]) -> str:
    place = next(filter(None, (answer_place(question, each) for each in gold)), None)
    return "" if place is None else f"the answer begins at word {place.words_before + 1:,} of {place.words:,}"


def _title_of_gold(question: Question, gold: list[GoldPassage]) -> str:
    if not gold or not question.subject:
        return ""
    subject = question.subject
    nearest = max(gold, key=lambda each: name_share(subject, each.passage.title))
    which = "its title" if len(gold) == 1 else f"the nearest title of {len(gold)} gold passages"
    return f"{which} is {nearest.passage.title or 'missing'}, the subject is {subject}"


def _mentions(question: Question) -> str:
    if question.bucket is not None:
        return f"bucket {question.bucket}"
    return "" if question.frequency is None else quantity(question.frequency, "mention")


def _training(explanation: MissExplanation) -> dict[Cause, str]:
    trained = explanation.trained
    if trained is None:
        return {}
    few = trained.relation and trained.template < RARE_PATTERN
    with_wording = f"{quantity(trained.template, 'training question')} with this wording" if few else ""
    return {
        Cause.UNSEEN_RELATION: f"{trained.relation:,} of {quantity(trained.total, 'training question')}",
        Cause.QUESTION_WORDING: with_wording,
    }

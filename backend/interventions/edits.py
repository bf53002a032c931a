"""The edits of a missed question, of its gold passage, or of the passages ranked above it. Each edit removes one
possible cause of a miss.

An edit is a pure function of a `MissedQuestion`. It returns None if it does not apply because there is nothing to
change. Some edits, such as adding the entity's name, raise the rank of almost any passage. Every edit is therefore also
applied to placebos: passages that do not answer the question (`Placebo`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import combinations

from blindspot.backend.evaluation.causes import LATE_SHARE, NAMESAKE_SHARE
from blindspot.backend.evaluation.miss_facts import name_words, near_namesake
from blindspot.backend.evaluation.question_facts import content_words
from blindspot.backend.interventions.sentences import answer_sentence, contains_words, is_complete, sentences
from blindspot.backend.text.answers import (
    DEFAULT_RULE,
    has_answer,
    mentions_subject,
    nfd,
    rule_for,
    spaced_tokens,
)
from blindspot.db.records import Passage, Question

LABEL = 1  # size of a changed label, and of a moved border between two passages, in tokens
TOGETHER = "+"  # between the names of edits that are made together
PRONOUNS = {"he": "{}", "she": "{}", "it": "{}", "they": "{}", "his": "{}'s", "her": "{}'s", "its": "{}'s"}


@dataclass(frozen=True, slots=True)
class NeighbouringPieces:
    """The parts of a fact's sentence that are in the neighbouring passages: the text just before the gold passage, and
    the text just after it.

    size: of joining them, in tokens.
    """

    before: str = ""
    after: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class MissedQuestion:
    """A question whose gold passage a dense run misses.

    Attributes:
        gold: the best gold passage.
        above: (row, passage) of the passages that rank above it, best first; only the top ones.
        plain: the question in the most frequent wording of training questions with its relation; None if unknown.
        stand_in: the subject of the same relation with the most mentions; None without one that is much more frequent
            than the question's own subject.
        cut: pieces of the fact in the passages beside the gold passage.
    """

    question: Question
    gold: Passage
    above: tuple[tuple[int, Passage], ...] = ()
    plain: str | None = None
    stand_in: str | None = None
    rule: str = DEFAULT_RULE
    cut: NeighbouringPieces = NeighbouringPieces()


@dataclass(frozen=True, slots=True)
class EditedMiss:
    """A miss after an edit.

    Attributes:
        question, passage: the edited texts.
        changed: the size of the edit in tokens: those of the question and of the gold passage that were inserted,
            deleted, replaced or moved; those of the shared name in removed namesakes; LABEL for a label.
        removed: rows that no longer compete.
        still_above: rows that count as above the gold whatever their score.
        ignored: passages whose title contains this name do not compete.
        new_gold: the row of the best passage that counts as gold now; it is above the old gold.
    """

    question: str
    passage: Passage
    changed: int
    removed: frozenset[int] = frozenset()
    still_above: frozenset[int] = frozenset()
    ignored: str = ""
    new_gold: int | None = None


@dataclass(frozen=True, slots=True)
class Placebo:
    """A placebo: a passage and a word that replace the gold passage and the answer. Neither answers the question.

    Attributes:
        passage: of the collection, without an answer and without the subject.
        row: its row.
        word: a word of it, which takes the answer's part; None if no sentence of the gold passage contains an answer.
        answers: those of another question, with the same relation if it is known.
    """

    passage: Passage
    row: int
    word: str | None
    answers: tuple[str, ...]

    def in_passage(self, miss: MissedQuestion) -> MissedQuestion:
        """Return the miss with the gold passage replaced by this passage, and the answer by its word."""
        return replace(self.with_pieces(miss), cut=NeighbouringPieces())

    def with_pieces(self, miss: MissedQuestion) -> MissedQuestion:
        """Return the same as `in_passage`, but keep the neighbouring texts that `join_pieces` adds."""
        answers = () if self.word is None else (self.word,)
        return replace(miss, gold=self.passage, question=replace(miss.question, answers=answers, answer_rule="string"))

    def of_subject(self, miss: MissedQuestion) -> MissedQuestion:
        """Return the same as `in_passage`, with the subject's name inserted in the placebo's title or in a sentence,
        depending on where the gold passage has it.
        """
        other = self.in_passage(miss)
        is_own = name_words(miss.gold.title) == name_words(miss.question.subject or "")
        naming = give_own_title(other) if is_own else name_subject(other)
        return other if naming is None else replace(other, gold=naming.passage)

    def with_answers(self, miss: MissedQuestion) -> MissedQuestion:
        """Return the miss with the answers of another question."""
        return replace(miss, question=replace(miss.question, answers=self.answers))


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit. cause: the cause of the miss, if this edit brings the gold passage into the top k and clearly does not
    do the same for its placebos. does: the edit in words. stand_in: replaces the gold passage (or the answers) of a
    miss by those of a placebo before the edit is applied. invents: whether the edit adds words that were not there;
    changing a label or a passage boundary adds none. where: returns whether a miss has the property that the edit
    removes; it is not checked for placebos.
    """

    name: str
    cause: str
    description: str
    apply: Callable[[MissedQuestion], EditedMiss | None]
    stand_in: Callable[[Placebo, MissedQuestion], MissedQuestion] = Placebo.in_passage
    invents: bool = True
    where: Callable[[MissedQuestion], bool] = lambda miss: True


def relabel(miss: MissedQuestion) -> EditedMiss | None:
    """Count higher-ranked passages as gold if they contain an answer and name the subject. The texts do not change. The
    new rank is that of the best such passage.
    """
    if not miss.question.subject:
        return None
    rule = rule_for(miss.question, miss.rule)
    best = next(
        (
            row
            for row, passage in miss.above
            if mentions_subject(passage, miss.question)
            and has_answer(passage.text, miss.question.answers, rule, passage.title)
        ),
        None,
    )
    return None if best is None else EditedMiss(miss.question.text, miss.gold, LABEL, new_gold=best)


def statement(miss: MissedQuestion) -> EditedMiss | None:
    """Return only the complete sentence with the answer, with the subject named and the answer removed. This is what
    the gold passage states about the subject.
    """
    whole = join_pieces(miss) or EditedMiss(miss.question.text, miss.gold, 0)
    parts, at = _answer(replace(miss, gold=whole.passage))
    return None if at is None else _statement_passage(miss, parts[at])


def other_statements(miss: MissedQuestion) -> list[EditedMiss]:
    """Return each of the passage's other sentences as a passage of its own, with the subject named."""
    parts, at = _answer(miss)
    return [_statement_passage(miss, part) for place, part in enumerate(parts) if place != at]


def join_pieces(miss: MissedQuestion) -> EditedMiss | None:
    """Add the parts of the fact's sentence that are in the neighbouring passages to the passage."""
    cut = miss.cut
    if not cut.size:
        return None
    text = " ".join(filter(None, (cut.before, miss.gold.text, cut.after)))
    return EditedMiss(miss.question.text, replace(miss.gold, text=text), cut.size)


def ask_plainly(miss: MissedQuestion) -> EditedMiss | None:
    """Reword the question in the usual wording of training questions."""
    if miss.plain is None or spaced_tokens(nfd(miss.plain)) == spaced_tokens(nfd(miss.question.text)):
        return None
    return EditedMiss(miss.plain, miss.gold, changed_tokens(miss.question.text.split(), miss.plain.split()))


def remove_namesakes(miss: MissedQuestion) -> EditedMiss | None:
    """Remove higher-ranked passages whose title is another entity with a similar name.

    The size of the edit is the number of occurrences of words of the subject's name in the titles and texts of the
    removed passages.
    """
    subject = miss.question.subject
    alike = [(row, each) for row, each in miss.above if near_namesake(subject, each.title) >= NAMESAKE_SHARE]
    if not subject or not alike:
        return None
    name = set(name_words(subject))
    shared = sum(
        word in name
        for _, each in alike
        for part in (each.title, each.text)
        for word in spaced_tokens(nfd(part)).split()
    )
    return EditedMiss(miss.question.text, miss.gold, shared, removed=frozenset(row for row, _ in alike))


def move_first(miss: MissedQuestion) -> EditedMiss | None:
    """Move the answer's sentence to the beginning of the passage."""
    parts, at = _answer(miss)
    if not at:
        return None
    text = " ".join([parts[at], *parts[:at], *parts[at + 1 :]])
    return EditedMiss(miss.question.text, replace(miss.gold, text=text), len(parts[at].split()))


def is_late(miss: MissedQuestion) -> bool:
    """Return whether the answer's sentence begins in the second half of the passage."""
    parts, at = _answer(miss)
    return at is not None and sum(len(part.split()) for part in parts[:at]) >= LATE_SHARE * len(miss.gold.text.split())


def name_subject(miss: MissedQuestion) -> EditedMiss | None:
    """Insert the subject's name into the answer's sentence."""
    parts, at = _answer(miss)
    if at is None or not miss.question.subject or contains_words(parts[at], miss.question.subject):
        return None
    parts[at] = _with_subject_named(parts[at], miss.question.subject)
    return _with_passage_text(miss, " ".join(parts))


def put_words_in(miss: MissedQuestion) -> EditedMiss | None:
    """Insert the question's content words that the passage lacks before the answer's sentence."""
    parts, at = _answer(miss)
    asked = miss.plain or miss.question.text
    known = content_words(miss.question.subject or "") | {w for a in miss.question.answers for w in content_words(a)}
    whole = f"{miss.gold.title} {miss.gold.text}"
    absent = [word for word in dict.fromkeys(spaced_tokens(nfd(asked)).split()) if word in content_words(asked) - known]
    absent = [word for word in absent if not contains_words(whole, word)]
    if at is None or not absent:
        return None
    parts[at] = f"{' '.join(absent)}: {parts[at]}"
    return _with_passage_text(miss, " ".join(parts))


def give_own_title(miss: MissedQuestion) -> EditedMiss | None:
    """Turn the passage into one about the subject: the subject's name replaces the title, and also the title's name
    within the text.
    """
    subject, title = miss.question.subject, miss.gold.title
    if not subject or name_words(title) == name_words(subject):
        return None
    text = replace_name(miss.gold.text, title, subject) if title.strip() else miss.gold.text
    passage = Passage(miss.gold.id, subject, text)
    changed = changed_tokens(_tokens("", miss.gold), _tokens("", passage))
    return EditedMiss(miss.question.text, passage, changed)


def rename_subject(miss: MissedQuestion) -> EditedMiss | None:
    """Replace the subject's name by a frequent name, in both the question and the passage.

    Passages about the entity with the frequent name are not ranked. Higher-ranked passages about the subject or a
    near-namesake still count as higher-ranked, because renaming would have affected them too.
    """
    subject, name = miss.question.subject, miss.stand_in
    if not subject or not name or not contains_words(miss.question.text, subject):
        return None
    question = replace_name(miss.question.text, subject, name)
    passage = Passage(
        miss.gold.id, replace_name(miss.gold.title, subject, name), replace_name(miss.gold.text, subject, name)
    )
    if passage == miss.gold or question == miss.question.text:
        return None
    changed = changed_tokens(_tokens(miss.question.text, miss.gold), _tokens(question, passage))
    alike = frozenset(
        row
        for row, each in miss.above
        if name_words(each.title) == name_words(subject) or near_namesake(subject, each.title) >= NAMESAKE_SHARE
    )
    return EditedMiss(question, passage, changed, still_above=alike, ignored=name)


def keep_sentence(miss: MissedQuestion) -> EditedMiss | None:
    """Keep only the answer's sentence, with the subject named in it."""
    parts, at = _answer(miss)
    if at is None or len(parts) < 2:
        return None
    subject = miss.question.subject
    text = _with_subject_named(parts[at], subject) if subject and not contains_words(parts[at], subject) else parts[at]
    return _with_passage_text(miss, text)


DOUBT = "doubt_gold"
EDITS: dict[str, Edit] = {
    edit.name: edit
    for edit in (
        Edit(
            "relabel",
            "false_negative_above",
            "count the answering passages above as gold",
            relabel,
            Placebo.with_answers,
            invents=False,
        ),
        Edit(
            DOUBT,
            "doubtful_gold",
            "no longer count the passage as gold: its answer's sentence states nothing that is asked",
            statement,
            invents=False,
        ),
        Edit("remove_namesakes", "near_namesake", "remove the near-namesakes above", remove_namesakes),
        Edit("ask_plainly", "question_wording", "ask in the wording of training questions", ask_plainly),
        Edit(
            "join_pieces",
            "cut_fact",
            "join the piece of the fact from the passage beside it",
            join_pieces,
            Placebo.with_pieces,
            invents=False,
        ),
        Edit(
            "give_own_title",
            "other_entity_passage",
            "replace the title's name by the subject's, in title and text",
            give_own_title,
        ),
        Edit(
            "put_words_in", "other_words", "put the question's missing words before the answer's sentence", put_words_in
        ),
        Edit("name_subject", "unnamed_subject", "name the subject in the answer's sentence", name_subject),
        Edit(
            "rename_subject",
            "rare_subject",
            "replace the subject by a frequent name",
            rename_subject,
            Placebo.of_subject,
        ),
        Edit("move_first", "late_fact", "move the answer's late sentence first", move_first, where=is_late),
        Edit("keep_sentence", "crowded_passage", "cut all but the answer's sentence", keep_sentence),
    )
}
"""Every edit by name, in the order in which two edits are applied together. It decides nothing else."""
ALONE = frozenset({"relabel", DOUBT, "rename_subject"})
"""The edits that are never combined with another edit, because they change which passages count, or which entity the
question is about.
"""


def edit_in_words(names: str) -> str:
    """Describe an edit in words, or several edits whose names are joined by TOGETHER."""
    return "; ".join(EDITS[name].description for name in names.split(TOGETHER))


def applicable_edits(miss: MissedQuestion) -> dict[str, EditedMiss]:
    """Return the edits that apply to a miss, smallest first."""
    able = (name for name, edit in EDITS.items() if edit.where(miss))
    made = {name: result for name in able if (result := apply(name, miss)) is not None}
    return dict(sorted(made.items(), key=lambda item: item[1].changed))


def apply(names: str, miss: MissedQuestion) -> EditedMiss | None:
    """Apply an edit, or several edits one after the other if their names are joined by TOGETHER. Returns None if one of
    them has nothing to change.
    """
    first, *others = names.split(TOGETHER)
    made = EDITS[first].apply(miss)
    for name in others:
        if made is None:
            return None
        now = replace(miss, gold=made.passage, question=replace(miss.question, text=made.question))
        then = EDITS[name].apply(now)
        made = then and replace(then, changed=made.changed + then.changed, removed=made.removed | then.removed)
    return made


def edit_pairs(names: Collection[str], miss: MissedQuestion) -> dict[str, EditedMiss]:
    """Apply every pair of these edits. Return the results by the joined names, smallest edit first."""
    able = [name for name in EDITS if name in names and name not in ALONE]
    joined = [TOGETHER.join(pair) for pair in combinations(able, 2)]
    made = {pair: result for pair in joined if (result := apply(pair, miss)) is not None}
    return dict(sorted(made.items(), key=lambda item: item[1].changed))


def cut_off_pieces(
    miss: MissedQuestion, previous_passage: Passage | None, next_passage: Passage | None
) -> NeighbouringPieces:
    """Return the parts of the fact that are in the previous and next passage, if these have the gold passage's title.

    If the answer's sentence is split between two passages, this is the rest of the sentence. If the answer's sentence
    is the passage's complete first sentence and does not name the subject, this is the sentence before it.
    """
    parts, at = _answer(miss)
    earlier = sentences(previous_passage.text) if previous_passage is not None and at == 0 else []
    later = sentences(next_passage.text) if next_passage is not None and at == len(parts) - 1 else []
    if earlier and not is_complete(earlier[-1]):
        return NeighbouringPieces(before=earlier[-1], size=LABEL)
    if later and not is_complete(parts[-1]):
        return NeighbouringPieces(after=later[0], size=LABEL)
    if earlier and not contains_words(parts[0], miss.question.subject or ""):
        return NeighbouringPieces(before=earlier[-1], size=len(earlier[-1].split()))
    return NeighbouringPieces()


def changed_tokens(old_tokens: Sequence[str], new_tokens: Sequence[str]) -> int:
    """Count the tokens that were inserted, deleted or replaced."""
    return sum(
        max(end - start, new_end - new_start)
        for tag, start, end, new_start, new_end in SequenceMatcher(
            None, old_tokens, new_tokens, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    )


def replace_name(text: str, subject: str, name: str) -> str:
    """Replace a name in a text. If the name has several words, then also replace single occurrences of its last word by
    the last word of the new name.
    """
    text = re.sub(rf"(?<!\w){re.escape(subject)}(?!\w)", lambda _: name, text, flags=re.IGNORECASE)
    words = subject.split()
    if len(words) > 1 and words[-1][:1].isupper():
        text = re.sub(rf"(?<!\w){re.escape(words[-1])}(?!\w)", lambda _: name.split()[-1], text)
    return text


def _answer(miss: MissedQuestion) -> tuple[list[str], int | None]:
    parts, rule = sentences(miss.gold.text), rule_for(miss.question, miss.rule)
    return parts, answer_sentence(parts, miss.plain or miss.question.text, miss.question.answers, rule)


def _with_subject_named(sentence: str, subject: str) -> str:
    first, space, rest = sentence.partition(" ")
    form = PRONOUNS.get(first.lower())
    return f"{form.format(subject)}{space}{rest}" if form else f"{subject}: {sentence}"


def _statement_passage(miss: MissedQuestion, sentence: str) -> EditedMiss:
    """Return a sentence as a passage without a title, with the subject named and the answers removed."""
    subject = miss.question.subject
    if subject and not contains_words(sentence, subject):
        sentence = _with_subject_named(sentence, subject)
    for answer in filter(None, miss.question.answers):
        sentence = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", "", sentence, flags=re.IGNORECASE)
    return EditedMiss(miss.plain or miss.question.text, Passage(miss.gold.id, "", " ".join(sentence.split())), LABEL)


def _with_passage_text(miss: MissedQuestion, text: str) -> EditedMiss:
    changed = changed_tokens(miss.gold.text.split(), text.split())
    return EditedMiss(miss.question.text, replace(miss.gold, text=text), changed)


def _tokens(question: str, passage: Passage) -> list[str]:
    return f"{question} {passage.title} {passage.text}".split()

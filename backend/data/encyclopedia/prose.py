"""The prose of the generated encyclopedia: turns the statements of an article into passages of about 100 words.

Pronouns and short names are used only where they are unambiguous: after a sentence that names another entity that the
pronoun could mean, the next sentence names its subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from blindspot.backend.data.encyclopedia.language import (
    CLAUSES,
    FILLERS,
    FOLLOWING,
    FRAMES,
    LEADS,
    MENTIONS,
    OWN,
    QUALITIES,
    SEASONS,
)
from blindspot.backend.data.encyclopedia.names import with_article
from blindspot.backend.data.encyclopedia.plan import random_seed
from blindspot.backend.data.encyclopedia.world import ANSWERED_BY, Entity, World, covers_at_length
from blindspot.db.records import Passage

ENOUGH_WORDS, ROOM_WORDS = 88, 100  # add filler below the first, name further entities below the second
WITHOUT_CLAUSE = 0.35  # how often a told fact has a sentence of its own instead of a relative clause
LONG_FACTS = 3  # facts that nobody asks for, told where a passage dwells on an entity (1 elsewhere)
FULL_NAME_SHARE = 0.6  # how often the next sentence names such an entity in full again
FOLLOW_UP_SHARE = 0.5  # how often one more sentence follows

NOUNS = {
    "country": "the country",
    "town": "the town",
    "landmark": "the building",
    "novel": "the book",
    "painting": "the picture",
    "song": "the song",
    "product": "the machine",
    "maker": "the firm",
    "label": "the label",
}
PRONOUNS = {"female": ("she", "her", "her"), "male": ("he", "his", "him"), "": ("it", "its", "it")}
FEW = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
PERSON_OBJECTS = frozenset("P26 P40 P50 P170 P175 P112 P127".split())  # relations whose object may be a person
NAME, SHORT, PRONOUN = "name", "short", "pronoun"  # how a sentence may refer to its subject


def _forms_with_name(forms: Sequence[str]) -> list[str]:
    """Return the forms that name their subject. They are needed where "the author was ..." would be ambiguous."""
    return [form for form in forms if any(subject in form for subject in ("{S}", "{s}", "{P}", "{p}", "{o}"))]


OWN_NAMING_FORMS = {item: _forms_with_name(forms) for item, forms in OWN.items()}


def article(world: World, number: int) -> list[Passage]:
    """Return the passages of one entity's article, in order. Ids are ordinals counted from 1."""
    entity = world.entity(number)
    first = world.plan.first_passage(number)
    lines = world.layout(number).items
    return [
        Passage(str(first + i + 1), entity.name, _Writer(world, entity, first + i).passage(i, lines[i]))
        for i in range(len(lines))
    ]


def notices(world: World, page: int) -> Passage:
    """Return one passage of short notices, which state two facts each about entities without an article."""
    ordinal = world.plan.passages + page
    random = Random(random_seed(world.seed, 7, ordinal)).random
    sentences = []
    for number in world.plan.entities_of_notices(page):
        entity = world.entity(number)
        speaker, reference = Speaker(entity, random), NAME
        for relation in world.notice_facts(number):
            forms = OWN_NAMING_FORMS[relation] if reference is NAME else OWN[relation]
            form = forms[int(random() * len(forms))]
            answers = entity.facts[relation]
            sentences.append(speaker.state_fact(form, answers[int(random() * len(answers))], reference))
            reference = NAME if relation in PERSON_OBJECTS else SHORT if entity.gender else PRONOUN
    return Passage(str(ordinal + 1), f"Short notices, No. {page + 1}", " ".join(sentences))


class Speaker:
    """Writes sentences about one entity: fills sentence templates with its name, its short name or a pronoun, and with
    incidental detail.
    """

    def __init__(self, entity: Entity, random: Callable[[], float]):
        self.entity, self.random = entity, random
        self.short = entity.name.rsplit(" ", 1)[-1] if entity.gender else NOUNS[entity.kind]
        start = entity.born + 19 if entity.born else 1892 + int(random() * 50)
        self.year = start
        self.name = f"the {entity.name}" if entity.kind == "product" else entity.name

    def sentence(self, form: str, reference: str = PRONOUN, **more: str) -> str:
        entity, random = self.entity, self.random
        subject, possessive, other = PRONOUNS[entity.gender]
        if reference is not PRONOUN or random() < 0.25:
            subject = other = self.name if reference is NAME else self.short
            possessive = subject + ("'" if subject[-1] == "s" else "'s")
        year = self.year + int(random() * 20)
        sentence = form.format_map(
            {
                "N": entity.name,
                "s": subject,
                "p": possessive,
                "o": other,
                "S": subject,
                "P": possessive,
                "b": entity.born,
                "d": entity.died,
                "age": entity.died - entity.born,
                "childword": entity.child_noun,
                "y": year,
                "y2": year + 2 + int(random() * 9),
                "number": 12 + int(random() * 470),
                "thing": entity.description,
                "few": FEW[int(random() * 8)],
                "season": SEASONS[int(random() * 4)],
                "quality": QUALITIES[int(random() * 12)],
                **more,
            }
        )
        return sentence[0].upper() + sentence[1:]

    def state_fact(self, form: str, answer: str, reference: str = PRONOUN) -> str:
        return self.sentence(form, reference, A=_with_definite_article(answer), aA=with_article(answer))


class _Writer:
    """Writes one passage. `reference` is how the next sentence may refer to the article's subject."""

    def __init__(self, world: World, entity: Entity, ordinal: int):
        self.world, self.entity, self.ordinal = world, entity, ordinal
        self.random: Callable[[], float] = Random(random_seed(world.seed, 7, ordinal)).random
        self.subject = Speaker(entity, self.random)
        self.reference = NAME

    def passage(self, index: int, items: tuple[str, ...]) -> str:
        blocks: list[Callable[[], str]] = [partial(self._own_statement, item) for item in items]
        other_facts = self.world.mention_in(self.ordinal, self.entity.number)
        if other_facts:
            blocks.append(lambda: self._mention_text(*other_facts, covers_at_length(index)))
        fillers = self._fillers()
        while len(blocks) < (2 if covers_at_length(index) else 3):
            blocks.append(fillers.pop())
        self._shuffle(blocks)
        sentences = [self._lead_passage()] if index == 0 else []
        sentences += [block() for block in blocks]
        words = sum(sentence.count(" ") + 1 for sentence in sentences)
        if words < ROOM_WORDS:
            sentences.append(self._mentioning_sentences(other_facts[0] if other_facts else None))
            words += sentences[-1].count(" ") + 1
        while words < ENOUGH_WORDS and fillers:
            sentences.append(fillers.pop()())
            words += sentences[-1].count(" ") + 1
        return " ".join(filter(None, sentences))

    def _random_choice(self, options):
        return options[int(self.random() * len(options))]

    def _shuffle(self, items: list) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = int(self.random() * (i + 1))
            items[i], items[j] = items[j], items[i]

    def _lead_passage(self) -> str:
        forms = LEADS.get(self.entity.kind) or LEADS["person"]
        relations, form = forms[self.world.layout(self.entity.number).lead]
        answers = {relation: self._random_choice(self.entity.facts[relation]) for relation in relations}
        with_articles = {"a" + relation: with_article(answer) for relation, answer in answers.items()}
        self.reference = PRONOUN if self.entity.gender else SHORT
        return self.subject.sentence(form, **answers, **with_articles)

    def _own_statement(self, item: str) -> str:
        """Return a statement of the article: a fact of its subject, or a fact of another entity in which the subject is
        the object.
        """
        about = self.entity.objects.get(item)
        if about is not None or item == "P26":
            self.reference = NAME  # where this article's subject is the answer, the text contains its name
        form = self._random_choice(OWN_NAMING_FORMS[item] if self.reference is NAME else OWN[item])
        answer = self.world.name(about) if about is not None else self._random_choice(self.entity.facts[item])
        sentence = self.subject.state_fact(form, answer, self.reference)
        names_person = item in PERSON_OBJECTS and item not in ANSWERED_BY
        self.reference = SHORT if names_person == bool(self.entity.gender) else PRONOUN
        if self.entity.gender and item in ("P26", "P40"):
            self.reference = NAME
        return sentence

    def _mention_text(self, number: int, relations: tuple[str, ...], at_length: bool) -> str:
        """Return the facts of another entity in one to three sentences, or in more if the passage covers that entity at
        length.
        """
        other = self.world.entity(number)
        hushed = relations[0] in other.quiet and number % 4 == 0  # by the way, in one sentence
        speaker = Speaker(other, self.random)
        frame = self._random_choice(FRAMES[self.entity.group][other.group])
        rest = list(relations)
        clause = ""
        if self.random() < WITHOUT_CLAUSE and not hushed:
            frame = frame.replace(", {c},", "").replace(", {c}", "")
        else:
            clause = self._mention_clause(other, rest.pop(0))
        sentences = [self.subject.sentence(frame, self.reference, N=other.name, aN=with_article(other.name), c=clause)]
        if not hushed:
            free = [relation for relation in other.facts if relation not in other.asked_relations and relation != "P26"]
            rest += free[: LONG_FACTS if at_length else 1]
        reference = self._reference_to(other, relations[:1])
        for relation in rest:
            sentences.append(
                speaker.state_fact(
                    self._random_choice(OWN_NAMING_FORMS[relation]),
                    self._random_choice(other.facts[relation]),
                    reference,
                )
            )
            reference = self._reference_to(other, (relation,))
        following = list(FOLLOWING[other.group])
        self._shuffle(following)
        n_asides = 0 if hushed else 2 if at_length else len(sentences) == 1 or self.random() < FOLLOW_UP_SHARE
        sentences += [speaker.sentence(form, reference) for form in following[:n_asides]]
        self._record_reference(
            other.name,
            bool(other.gender) or not PERSON_OBJECTS.isdisjoint(relations),
            not other.gender or bool(relations),
        )
        return " ".join(sentences)

    def _reference_to(self, other_entity: Entity, relations: tuple[str, ...]) -> str:
        """Return how the next sentence may refer to another entity after a sentence that named it and the object of
        `relations`.
        """
        if self.random() < FULL_NAME_SHARE:
            return NAME
        if other_entity.gender:
            if not PERSON_OBJECTS.isdisjoint(relations):
                return NAME
            own = self.subject.short if self.entity.gender else ""
            return SHORT if own and not other_entity.name.endswith(" " + own) else NAME if own else PRONOUN
        return NAME if other_entity.kind == self.entity.kind else SHORT

    def _mention_clause(self, other_entity: Entity, relation: str) -> str:
        answer = self._random_choice(other_entity.facts[relation])
        return self._random_choice(CLAUSES[relation]).format(
            A=_with_definite_article(answer),
            aA=with_article(answer),
            childword=other_entity.child_noun,
            y=1892 + int(self.random() * 60),
        )

    def _record_reference(self, name: str, person: bool, is_thing: bool) -> None:
        """Record whether the next sentence may use a pronoun, a short name or neither, after a sentence that named
        other entities.
        """
        if not (person if self.entity.gender else is_thing):
            self.reference = PRONOUN
        elif self.entity.gender and not name.endswith(" " + self.subject.short) and self.random() < 0.6:
            self.reference = SHORT
        else:
            self.reference = NAME

    def _mentioning_sentences(self, mention: int | None) -> str:
        world = self.world
        numbers = {
            n: world.name(n)
            for n in world.entities_mentioned_in(self.ordinal)
            if n not in (self.entity.number, mention)
        }
        if len(numbers) < 2:
            return ""
        first, second = numbers.values()
        sentence = self.subject.sentence(self._random_choice(MENTIONS), N=first, M=second)
        self.reference = NAME
        return sentence

    def _fillers(self) -> list[Callable[[], str]]:
        forms = list(FILLERS[self.entity.group])
        self._shuffle(forms)
        return [partial(self._filler, form) for form in forms]

    def _filler(self, form: str) -> str:
        sentence = self.subject.sentence(form, self.reference)
        if self.reference is NAME and _forms_with_name((form,)):
            self.reference = PRONOUN
        return sentence


def _with_definite_article(answer: str) -> str:
    """Return an answer as it appears in a sentence, such as "the University of Halden"."""
    return f"the {answer}" if answer.startswith(("University of", "Royal College of")) else answer

"""The prose of the generated encyclopedia: turns what an article states and tells into passages of about 100 words.

Pronouns and short names stand only where a reader cannot take them for someone else: the sentence after another
entity's name speaks of its subject by name.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from backend.encyclopedia_language import CLAUSES, FILLERS, FRAMES, LEADS, MENTIONS, OWN, QUALITIES, SEASONS
from backend.encyclopedia_world import Entity, World, key
from db.records import Passage

ENOUGH_WORDS, ROOM_WORDS = 88, 100  # add filler below the first, name further entities below the second

NOUNS = {
    "country": "the country", "town": "the town", "landmark": "the building", "novel": "the book", "painting": "the picture",
    "song": "the song", "product": "the machine", "maker": "the firm", "label": "the label",
}
PRONOUNS = {"female": ("she", "her", "her"), "male": ("he", "his", "him"), "": ("it", "its", "it")}
FEW = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
# Statements that name an entity of a kind the next pronoun could mean.
NAMING = frozenset("P26 P40 P36 P127 P131 P17 P176 P264 P112 P276 capital wrote painted sang makes started".split())
SUBJECT_KEYS = ("{S}", "{s}", "{P}", "{p}", "{o}")


def _named(forms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(form for form in forms if any(subject in form for subject in SUBJECT_KEYS))


NAMED_OWN = {item: _named(forms) for item, forms in OWN.items()}
NAMED_FRAMES = {
    host: {group: _named(forms) or forms for group, forms in frames.items()} for host, frames in FRAMES.items()
}


def article(world: World, number: int) -> list[Passage]:
    """The passages of one entity's article, in order; ids are ordinals counted from 1."""
    entity = world.entity(number)
    first = world.plan.first_passage(number)
    lines = world.layout(number).items
    return [
        Passage(str(first + i + 1), entity.name, _Writer(world, entity, first + i).passage(i, lines[i]))
        for i in range(len(lines))
    ]


class _Writer:
    """Writes one passage. `fresh` says that the next sentence must name its subject."""

    def __init__(self, world: World, entity: Entity, ordinal: int):
        self.world, self.entity, self.ordinal = world, entity, ordinal
        self.random: Callable[[], float] = Random(key(world.seed, 7, ordinal)).random
        self.fresh = True
        self.detail = self._details()

    def passage(self, index: int, items: tuple[str, ...]) -> str:
        sentences = [self._lead()] if index == 0 else []
        blocks: list[Callable[[], str]] = [lambda item=item: self._own(item) for item in items]
        told = self.world.told(self.ordinal, self.entity.number)
        blocks += [lambda fact=fact: self._telling(*fact) for fact in told]
        fillers = self._fillers()
        while len(blocks) < 4:
            blocks.append(fillers.pop())
        for i in range(len(blocks) - 1, 0, -1):
            j = int(self.random() * (i + 1))
            blocks[i], blocks[j] = blocks[j], blocks[i]
        sentences += [block() for block in blocks]
        words = sum(sentence.count(" ") + 1 for sentence in sentences)
        if words < ROOM_WORDS:
            sentences.append(self._mentioning({entity for entity, _ in told}))
            words += sentences[-1].count(" ") + 1
        for filler in fillers:
            if words >= ENOUGH_WORDS:
                break
            sentences.append(filler())
            words += sentences[-1].count(" ") + 1
        return " ".join(filter(None, sentences))

    def _pick(self, options):
        return options[int(self.random() * len(options))]

    def _details(self) -> dict[str, object]:
        """Years, numbers and adjectives that carry no fact, new for every passage."""
        entity, random = self.entity, self.random
        start = entity.born + 19 if entity.born else 1840 + int(random() * 110)
        year = start + int(random() * 16)
        return {
            "N": entity.name, "b": entity.born, "d": entity.died, "age": entity.died - entity.born,
            "y": year, "y2": year + 2 + int(random() * 9), "number": 12 + int(random() * 470), "few": self._pick(FEW),
            "season": self._pick(SEASONS), "quality": self._pick(QUALITIES), "thing": entity.thing, "childword": entity.childword,
        }  # fmt: skip

    def _refer(self) -> None:
        """Sets how the next sentence speaks of its subject."""
        entity, detail = self.entity, self.detail
        subject, possessive, other = PRONOUNS[entity.gender]
        if self.fresh or self.random() < 0.3:
            short = entity.name.rsplit(" ", 1)[-1] if entity.gender else NOUNS[entity.kind]
            subject = other = entity.name if self.fresh else short
            possessive = subject + "'s"
        detail["s"], detail["p"], detail["o"] = subject, possessive, other
        detail["S"], detail["P"] = subject[0].upper() + subject[1:], possessive[0].upper() + possessive[1:]

    def _lead(self) -> str:
        forms = LEADS.get(self.entity.kind) or LEADS["person"]
        relations, form = forms[self.world.layout(self.entity.number).lead]
        for relation in relations:
            answer = self._pick(self.entity.facts[relation])
            self.detail[relation], self.detail["a" + relation] = answer, _with_article(answer)
        self.fresh = not NAMING.isdisjoint(relations)
        return form.format_map(self.detail)

    def _own(self, item: str) -> str:
        """A statement of the article: a fact of its subject, or its part in another entity's fact."""
        form = self._pick(NAMED_OWN[item] if self.fresh else OWN[item])
        self._refer()
        about = self.entity.about.get(item)
        answer = self.world.name(about) if about is not None else self._pick(self.entity.facts[item])
        self.detail["A"], self.detail["aA"] = answer, _with_article(answer)
        self.fresh = item in NAMING
        return form.format_map(self.detail)

    def _telling(self, number: int, relation: str) -> str:
        """A fact of another entity, told in passing."""
        other = self.world.entity(number)
        frames = (NAMED_FRAMES if self.fresh else FRAMES)[self.entity.group][other.group]
        self._refer()
        answer = self._pick(other.facts[relation])
        clause = self._pick(CLAUSES[relation]).format(
            A=answer, aA=_with_article(answer), childword=other.childword, y=self.detail["y2"]
        )
        self.fresh = True
        return self._pick(frames).format_map(self.detail | {"N": other.name, "c": clause})

    def _mentioning(self, told: set[int]) -> str:
        world = self.world
        names = [world.name(n) for n in world.mentioned(self.ordinal) if n != self.entity.number and n not in told]
        if len(names) < 2 or names[0] == names[1]:
            return ""
        self.fresh = True
        return self._pick(MENTIONS).format_map(self.detail | {"N": names[0], "M": names[1]})

    def _fillers(self) -> list[Callable[[], str]]:
        forms = FILLERS.get(self.entity.kind) or FILLERS[self.entity.group]
        start = int(self.random() * len(forms))
        return [lambda form=form: self._filler(form) for form in (forms[start:] + forms[:start])[:7]]

    def _filler(self, form: str) -> str:
        self._refer()
        if any(subject in form for subject in SUBJECT_KEYS):
            self.fresh = False
        return form.format_map(self.detail)


def _with_article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun

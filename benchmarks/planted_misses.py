"""Planted misses: questions whose gold passage is hard to find for one known reason, which is recorded.

Each miss is written twice: with its cause, and without. A miss counts for a measurement only if the encoder finds the
gold passage without the cause and misses it with the cause; whoever plants cannot know that. The text alone carries the
cause, and nothing here knows how causes are looked for.

The planted entities are people and firms whose names the encyclopedia does not contain. A *host* has an article whose
passages use the words of its questions without answering them, as articles do ("The house where X was born ..."). All
causes but the last two are planted in the articles of hosts:

    other_words           the gold passage states the fact in words that share nothing with the question
    question_wording      the question is asked in a roundabout way
    late_fact             the gold passage is long and states the fact in its last sentence
    other_entity_passage  the fact is in a passage of another entity's article
    unnamed_subject       a passage with another title names the subject once, and states the fact of "he", "she" or "it"
    crowded_passage       the fact stands among sentences about five other entities
    cut_fact              the sentence with the fact is cut between two passages
    doubtful_gold         the gold passage has the subject and the answer in a sentence that does not state the fact
    false_negative_above  so it has, and a passage that is not gold states the fact
    near_namesake         short passages state the same fact of entities with almost the same name
    rare_subject          the subject's name is made of letters that names are rarely made of, as are others around it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from benchmarks.planted_sentences import CHANCE, COLLECTIONS, NAMINGS, PLANTED, PREAMBLES
from blindspot.backend.data.encyclopedia import words
from blindspot.backend.data.encyclopedia.language import FILLERS, TEMPLATES
from blindspot.backend.data.encyclopedia.plan import random_seed
from blindspot.backend.data.encyclopedia.prose import NAME, PRONOUN, SHORT, Speaker
from blindspot.backend.data.encyclopedia.world import Entity
from blindspot.db.errors import Refused
from blindspot.db.records import Passage, Question

CAUSES = (
    "near_namesake",
    "other_words",
    "late_fact",
    "other_entity_passage",
    "rare_subject",
    "question_wording",
    "unnamed_subject",
    "crowded_passage",
    "cut_fact",
    "doubtful_gold",
    "false_negative_above",
)
IN_ARTICLES = tuple(cause for cause in CAUSES if cause not in ("near_namesake", "rare_subject"))
MISSES_OF_A_HOST = 4
SIBLINGS = 6  # further passages of a host's article
NAMESAKES = 8
RARE_RIVALS = 8  # passages about subjects whose names are made of the same rare syllables
LATE = 7  # sentences before a late fact, about 75 words
CROWD = 5  # other entities in a crowded passage
RARE_SYLLABLES = "xq zv wr vrol qzi gju krx thw psz gnu yxl dvo ptl bzu fhr".split()
DATASET = "planted"
_PURPOSE = 9  # of the random streams; 0 to 8 are the encyclopedia's


@dataclass(frozen=True, slots=True)
class PlantedMiss:
    """A question that a cause makes hard, and the same without the cause.

    cause: one of CAUSES. question, gold: as planted; `gold` is in the collection. clean_question, clean: the question's
    text and the gold passage without the cause. rivals: ids of passages that only the cause put there.
    """

    cause: str
    question: Question
    gold: Passage
    clean_question: str
    clean: Passage
    rivals: tuple[str, ...] = ()


@dataclass
class PlantedStudy:
    """The planted passages and misses.

    Args:
        counts: the number of misses of each cause; causes that it does not name get none.
        seed: 0 or more; the same seed gives the same bytes everywhere.
        taken: names that planted entities must not have: those of the encyclopedia around them.

    Raises Refused for an unknown cause, a negative number or a negative seed.
    """

    counts: Mapping[str, int]
    seed: int = 0
    taken: frozenset[str] = frozenset()
    passages: list[Passage] = field(default_factory=list, init=False)
    misses: list[PlantedMiss] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        if self.seed < 0 or not set(self.counts) <= set(CAUSES) or min(self.counts.values(), default=0) < 0:
            raise Refused(f"planted misses need counts by cause ({', '.join(CAUSES)}) and a seed of 0 or more")
        self._random = Random(random_seed(self.seed, _PURPOSE, 0))
        self._names = set(self.taken)
        places = self._shuffled([cause for cause in IN_ARTICLES for _ in range(self.counts.get(cause, 0))])
        for start in range(0, len(places), MISSES_OF_A_HOST):
            self._host(places[start : start + MISSES_OF_A_HOST])
        for _ in range(self.counts.get("near_namesake", 0)):
            self._namesakes()
        for number in range(self.counts.get("rare_subject", 0)):
            self._rare(number)

    # What is planted

    def _host(self, causes: list[str]) -> None:
        """An article, with one miss of each of these causes, each about another relation."""
        group = self._pick(("person", "company"))
        entity = self._entity(group)
        relations = self._shuffled([name for name, each in PLANTED.items() if each.group == group])[: len(causes)]
        pairs = list(zip(causes, relations, strict=True))
        misleading = [relation for cause, relation in pairs if cause != "late_fact"] or relations
        for place in range(SIBLINGS):
            decoys = [
                self._pick(PLANTED[misleading[(place + step) % len(misleading)]].decoys).format(X=entity.name)
                for step in range(2)
            ]
            self._add(entity.name, " ".join([*decoys, *self._fillers(entity, 2)]))
        for cause, relation in pairs:
            self._in_article(cause, entity, relation)

    def _in_article(self, cause: str, entity: Entity, relation: str) -> None:
        about, answer = PLANTED[relation], self._answer(relation)
        plain = self._pick(about.plain).format(X=entity.name, A=answer)
        asked = TEMPLATES[relation].replace("[X]", entity.name)
        rest = self._fillers(entity, 4)
        clean = " ".join([plain, *rest])
        question, title, text, clean_title = asked, entity.name, clean, entity.name
        rivals: tuple[str, ...] = ()
        if cause == "other_words":
            text = " ".join([self._pick(about.other_words).format(X=entity.name, A=answer), *rest])
        elif cause == "question_wording":
            question = f"{self._pick(PREAMBLES)} {self._pick(about.roundabout)}".replace("[X]", entity.name)
        elif cause == "late_fact":
            rest = self._fillers(entity, LATE)
            clean, text = " ".join([plain, *rest]), " ".join([*rest, plain])
        elif cause == "other_entity_passage":
            other = self._entity(self._pick(("person", "company")))
            first, *others = self._fillers(other, 4, NAME)
            title, text = other.name, " ".join([plain, first, *others])
        elif cause == "unnamed_subject":
            title = clean_title = self._pick(COLLECTIONS)
            naming = self._pick(NAMINGS).format(X=entity.name)
            text = " ".join([naming, _of_pronoun(plain, entity), rest[0]])
            clean = " ".join([naming, plain, rest[0]])
        elif cause == "crowded_passage":
            others = [self._fillers(self._entity(self._pick(("person", "company"))), 1, NAME)[0] for _ in range(CROWD)]
            clean, text = plain, " ".join([others[0], plain, *others[1:]])
        elif cause == "cut_fact":
            before, after = self._cut(plain, answer)
            if answer in after:
                self._add(entity.name, " ".join([*self._fillers(entity, 4), before]))
                text = " ".join([after, *rest])
            else:
                text, clean = " ".join([*rest, before]), " ".join([*rest, plain])
        else:  # doubtful_gold, false_negative_above
            text = " ".join([self._pick(CHANCE[about.answer]).format(X=entity.name, A=answer), *rest])
            if cause == "false_negative_above":
                rivals = (self._add(entity.name, clean),)
        self._plant(cause, relation, entity, answer, (question, title, text), (asked, clean_title, clean), rivals)
        if cause == "cut_fact" and answer not in after:
            self._add(entity.name, " ".join([after, *self._fillers(entity, 4)]))

    def _cut(self, sentence: str, answer: str) -> tuple[str, str]:
        """The two pieces of a sentence, cut between two words outside the answer."""
        words, length = sentence.split(), len(answer.split())
        start = next(i for i in range(len(words)) if " ".join(words[i : i + length]).strip(".,") == answer)
        places = [i for i in range(2, len(words) - 1) if not start < i < start + length] or [start or length]
        place = self._pick(places)
        return " ".join(words[:place]), " ".join(words[place:])

    def _namesakes(self) -> None:
        """A passage, and short passages that state the same of entities with almost the same name."""
        names = self._look_alikes()
        relation = self._pick([name for name, each in PLANTED.items() if each.group == "person"])
        about, answer = PLANTED[relation], self._answer(relation)
        entity = self._person(names[0])
        text = " ".join([self._pick(about.plain).format(X=entity.name, A=answer), *self._fillers(entity, 5)])
        rivals = tuple(
            self._add(name, self._pick(about.plain).format(X=name, A=self._answer(relation))) for name in names[1:]
        )
        asked = TEMPLATES[relation].replace("[X]", entity.name)
        self._plant(
            "near_namesake", relation, entity, answer, (asked, entity.name, text), (asked, entity.name, text), rivals
        )

    def _rare(self, number: int) -> None:
        """A passage about a subject with a rare name, among short ones about others whose names are made alike."""
        relations = [name for name, each in PLANTED.items() if each.group == "person"]
        relation = relations[number % len(relations)]
        answer, form = self._answer(relation), self._pick(PLANTED[relation].plain)
        syllables = self._rare_syllables()
        rare = self._person(_rare_name(syllables))
        for _ in range(RARE_RIVALS):
            name = self._rare_rival(syllables)
            self._add(name, form.format(X=name, A=self._answer(relation)))
        frequent = self._entity("person")
        state, versions = self._random.getstate(), []
        for entity in (rare, frequent):
            self._random.setstate(state)  # the same fillers in both
            text = " ".join([form.format(X=entity.name, A=answer), *self._fillers(entity, 5)])
            versions.append((TEMPLATES[relation].replace("[X]", entity.name), entity.name, text))
        self._plant("rare_subject", relation, rare, answer, versions[0], versions[1])

    # The parts

    def _plant(
        self,
        cause: str,
        relation: str,
        entity: Entity,
        answer: str,
        planted: tuple[str, str, str],
        clean: tuple[str, str, str],
        rivals: tuple[str, ...] = (),
    ) -> None:
        """Add a miss. planted, clean: (question, title, text)."""
        gold = self._add(planted[1], planted[2])
        question = Question(
            id=f"{cause}.{len(self.misses)}",
            text=planted[0],
            answers=(answer,),
            relation=relation,
            subject=entity.name,
            frequency=SIBLINGS + MISSES_OF_A_HOST if cause in IN_ARTICLES else 1,
            dataset=DATASET,
            split="dev",
            gold=(gold,),
        )
        self.misses.append(
            PlantedMiss(
                cause, question, self.passages[-1], clean[0], Passage(f"{gold}-clean", clean[1], clean[2]), rivals
            )
        )

    def _add(self, title: str, text: str) -> str:
        id = f"planted-{len(self.passages) + 1}"
        self.passages.append(Passage(id, title, text))
        return id

    def _fillers(self, entity: Entity, count: int, first: str = PRONOUN) -> list[str]:
        """Sentences that state nothing that is ever asked."""
        speaker = Speaker(entity, self._random.random)
        forms = self._shuffled(FILLERS[entity.group])[:count]
        return [
            speaker.sentence(form, first if not place else (PRONOUN, SHORT)[place % 2])
            for place, form in enumerate(forms)
        ]

    def _answer(self, relation: str) -> str:
        about = PLANTED[relation]
        if about.answer == "person":
            return self._entity("person").name
        town = (
            f"{self._pick(words.TOWN_STARTS)}{self._pick(self._pick(words.TOWN_MIDDLES).split())}"
            f"{self._pick(words.TOWN_ENDS)}"
        )
        return f"{town} College" if about.answer == "school" else town

    def _entity(self, group: str) -> Entity:
        while True:
            family = self._family()
            if group == "person":
                cluster, gender = self._pick(words.GIVEN_CLUSTERS)
                name = f"{self._pick(cluster)} {family}"
            else:
                name, gender = f"{family} {self._pick(words.MAKER_WORDS)}", ""
            if name not in self._names:
                self._names.add(name)
                return self._person(name, gender) if group == "person" else Entity(-1, "maker", name, {})

    def _person(self, name: str, gender: str = "male") -> Entity:
        born = 1872 + int(self._random.random() * 48)
        return Entity(-1, "founder", name, {}, gender=gender, born=born, died=born + 60)

    def _look_alikes(self) -> list[str]:
        """A name and NAMESAKES more, with another initial in the middle or another end of the family name."""
        while True:
            cluster, _ = self._pick(words.GIVEN_CLUSTERS)
            given, start = self._pick(cluster), self._pick(words.FAMILY_STARTS)
            ends = self._shuffled([end for ends in words.FAMILY_ENDS for end in ends.split()])
            initials = self._shuffled("ABCDEFGHJKLMNPRSTVW")
            names = [f"{given} {initial}. {start}{ends[0]}" for initial in initials[: NAMESAKES - 1]]
            names += [f"{given} {initials[0]}. {start}{end}" for end in ends[1:3]]
            if self._names.isdisjoint(names):
                self._names.update(names)
                return names

    def _family(self) -> str:
        return self._pick(words.FAMILY_STARTS) + self._pick(self._pick(words.FAMILY_ENDS).split())

    def _rare_syllables(self) -> list[str]:
        """The syllables of a rare name, four for each of its two words."""
        while True:
            syllables = self._shuffled(RARE_SYLLABLES)[:8]
            if (name := _rare_name(syllables)) not in self._names:
                self._names.add(name)
                return syllables

    def _rare_rival(self, syllables: list[str]) -> str:
        """A name of the same syllables, in another order in each word, which shares no word with the first."""
        while True:
            name = _rare_name(self._shuffled(syllables[:4]) + self._shuffled(syllables[4:]))
            if name not in self._names and set(name.split()).isdisjoint(_rare_name(syllables).split()):
                self._names.add(name)
                return name

    def _pick(self, options):
        return options[int(self._random.random() * len(options))]

    def _shuffled(self, options) -> list:
        items = list(options)
        for i in range(len(items) - 1, 0, -1):
            j = int(self._random.random() * (i + 1))
            items[i], items[j] = items[j], items[i]
        return items


def _rare_name(syllables: list[str]) -> str:
    return " ".join("".join(part).capitalize() for part in (syllables[:4], syllables[4:]))


def _of_pronoun(sentence: str, entity: Entity) -> str:
    """The sentence with a pronoun for the entity's name."""
    subject, other = {"male": ("He", "him"), "female": ("She", "her")}.get(entity.gender, ("It", "it"))
    if sentence.startswith(entity.name):
        return subject + sentence.removeprefix(entity.name)
    return sentence.replace(f"that {entity.name}", f"that {subject.lower()}").replace(entity.name, other)

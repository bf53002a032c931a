"""The ground truth of the generated encyclopedia: its entities, their facts, and which passages state which facts.

(seed, entity number) determines an entity, and (seed, ordinal) determines a passage, so facts and texts are generated
when they are needed. Only a few integers per entity are stored (`Plan`).

Each passage has one slot for facts about the subject of another article. The slots are numbered, each entity is
assigned consecutive numbers, and an invertible permutation spreads these slots over the collection. The permutation
maps a passage to the entity whose facts it states. Its inverse maps an entity to all passages that state its facts,
which gives the ground truth.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

from blindspot.backend.data.encyclopedia import words
from blindspot.backend.data.encyclopedia.language import LEADS
from blindspot.backend.data.encyclopedia.names import Names
from blindspot.backend.data.encyclopedia.plan import (
    ASSURED_TURNS,
    GROUPS,
    PLAIN,
    WHEEL,
    WORKS,
    Edition,
    KindNumbers,
    Plan,
    country_count,
    random_seed,
)

QUIET_PASSAGES = (4, 6)  # passages of an article from which on one, two of its facts are quiet
RECURRING = 0.95  # share of the loud facts that an article comes back to
REPEAT_SHARE = 0.75  # how often each further passage of the article then states it


def own_facts(index: int) -> int:
    """Return the maximum number of the subject's facts in a passage of its article, besides the opening sentence."""
    return 1 if covers_at_length(index) else 2 if index == 0 else 3


def covers_at_length(index: int) -> bool:
    """Return whether a passage of an article covers another entity at length. Such a passage has room for only one fact
    of its own subject.
    """
    return index % 3 > 0


# kind of the maker: what its article says of the made thing, the kind of that, the relation this answers
MADE_THINGS = {
    "writer": ("wrote", "novel", "P50"),
    "painter": ("painted", "painting", "P170"),
    "musician": ("sang", "song", "P175"),
    "maker": ("makes", "product", "P176"),
}
MAKER_OF = {made: (maker, relation) for maker, (_, made, relation) in MADE_THINGS.items()}
ANSWERED_BY = {"capital": "P36", "started": "P112"} | {item: relation for item, _, relation in MADE_THINGS.values()}

KIN_FACTS = ("P26", "P40")
NOTICE_RELATIONS = "P19 P20 P50 P69 P112 P131 P159 P170 P175 P176 P264 P276 P740 P800".split()
"""Relations that questions ask of an entity with a notice. Their objects are names, because an occupation or a country
occurs in many passages by chance."""


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity and its facts.

    Attributes:
        facts: relation -> the strings that count as the answer (the first is the usual one).
        objects: what its article says that answers a question about another entity: item -> that entity's number.
        relatives: numbers of entities whose facts its article does not tell in passing (its spouse, its maker, what it
            made).
        loud, quiet: relations that questions ask of it. Several other articles state a loud fact, and the entity's own
            article often states it twice; its own and one other article state a quiet fact once.
    """

    number: int
    kind: str
    name: str
    facts: dict[str, tuple[str, ...]]
    objects: dict[str, int] = field(default_factory=dict)
    relatives: frozenset[int] = frozenset()
    loud: tuple[str, ...] = ()
    quiet: tuple[str, ...] = ()
    gender: str = ""
    born: int = 0
    died: int = 0
    child_noun: str = "child"
    description: str = ""

    @property
    def asked_relations(self) -> tuple[str, ...]:
        return self.loud + self.quiet

    @property
    def group(self) -> str:
        return GROUPS[self.kind]


@dataclass(frozen=True, slots=True)
class ArticleLayout:
    """The plan of an article. lead: index into LEADS; items[i]: what passage i states after its opening;
    stated: item (a relation, or a key of ANSWERED_BY) -> indexes of the article's passages that state it."""

    lead: int
    items: tuple[tuple[str, ...], ...]
    stated: dict[str, tuple[int, ...]]


class World:
    """All entities of an encyclopedia of `passages` passages. Needs memory for a few integers per entity and for
    bounded caches.
    """

    def __init__(self, passages: int, seed: int, edition: Edition = PLAIN):
        self.seed, self.passages = seed, passages
        self.plan, self.loudness = Plan(passages, seed, edition), edition.loudness
        self.entities = self.plan.entities + self.plan.noticed
        self._kinds = KindNumbers(self.entities, country_count(self.plan.entities))
        self._drawn = KindNumbers(self.plan.entities, self._kinds.countries).counts  # with an article of their own
        self.countries = self._kinds.countries
        self._names = Names(self._kinds, seed)
        self.name = lru_cache(maxsize=8192)(self._name)
        self.entity = lru_cache(maxsize=8192)(self._entity)
        self.layout = lru_cache(maxsize=2048)(self._layout)

    # Entities

    def _name(self, number: int) -> str:
        kind, index = self._kinds.kind_and_index(number)
        if GROUPS[kind] == "person":
            return self._names.person(self._kinds.person_index(number))[0]
        return self._names.other_name(kind, index)

    def _entity(self, number: int) -> Entity:
        kind, index = self._kinds.kind_and_index(number)
        random = Random(random_seed(self.seed, 1, number)).random
        facts: dict[str, tuple[str, ...]] = {}
        objects: dict[str, int] = {}
        relatives: set[int] = set()
        extra_fields: dict = {}
        if GROUPS[kind] == "person":
            extra_fields = self._add_person(kind, number, random, facts, relatives)
        elif kind in WORKS:
            extra_fields = self._add_work(kind, index, random, facts, relatives)
        elif GROUPS[kind] == "company":
            self._add_company(kind, index, number, random, facts, relatives)
        else:
            self._add_place(kind, index, number, random, facts, objects)
        self._plan_work(kind, index, objects)
        relatives.update(objects.values())
        relations = self._question_relations(kind, index, facts, random)
        tells, length = int(self.plan.tells[number]), int(self.plan.lengths[number])
        if not self.plan.asked[number]:
            relations = []
        if number >= self.plan.entities:  # a notice answers one question
            relations = [relation for relation in relations if relation in NOTICE_RELATIONS][:1]
        louder = max(1, tells // self.loudness)
        quieter = max(0, min(sum(length >= enough for enough in QUIET_PASSAGES), tells - 2))
        loud, quiet = tuple(relations[:louder]), tuple(relations[louder : louder + quieter])
        return Entity(
            number, kind, self.name(number), facts, objects, frozenset(relatives), loud, quiet, **extra_fields
        )

    def _question_relations(self, kind: str, index: int, facts: dict, random) -> list[str]:
        relations = list(facts)
        if kind == "town" and index < self.countries:
            relations.remove("P17")  # "the capital of" says it too
        for i in range(len(relations) - 1, 0, -1):
            j = int(random() * (i + 1))
            relations[i], relations[j] = relations[j], relations[i]
        if index < ASSURED_TURNS * WHEEL.count(kind):  # together they cover every relation
            peculiar = list(facts)[-1 - (index + 3 * (kind == "label")) % len(facts)]
            relations.sort(key=lambda relation: relation != peculiar)
        return relations

    def _draw_entity(self, kind: str, random) -> int:
        """Draw an entity of a kind that has an article; popular entities are drawn more often."""
        return self._kinds.number(kind, int(self._drawn[kind] * random() ** 2))

    def _add_person(self, kind, number, random, facts, relatives) -> dict:
        person = self._kinds.person_index(number)
        _, family, gender = self._names.person(person)
        born = 1872 + int(random() * 48)
        died = born + 45 + int(random() * 45) if random() < 0.7 else 0
        towns = {"P19": self._draw_entity("town", random)}
        if died:
            towns["P20"] = self._draw_entity("town", random)
            if towns["P20"] == towns["P19"]:
                towns["P20"] = self._kinds.number(
                    "town", (self._kinds.kind_and_index(towns["P19"])[1] + 1) % self._drawn["town"]
                )
        for relation, town in towns.items():
            facts[relation] = (self.name(town),)
        school = _random_choice(words.SCHOOLS, random)
        school_town = self.name(self._draw_entity("town", random))
        facts["P69"] = tuple(form.format(t=school_town) for form in school)
        facts["P106"] = _random_choice(words.OCCUPATIONS[kind], random)
        childword = "daughter" if random() < 0.5 else "son"
        spouse = self._kinds.person_number(person ^ 1)
        if spouse is not None and Random(random_seed(self.seed, 2, person // 2)).random() < 0.5:
            facts["P26"] = (self.name(spouse),)
            relatives.add(spouse)
        elif random() < 0.8:
            facts["P40"] = (f"{_random_choice(words.CHILD_NAMES[childword], random)} {family}",)
        if kind == "footballer":
            facts["P413"] = _random_choice(words.POSITIONS, random)
        if kind == "musician":
            facts["P136"] = _random_choice(words.GENRES, random)
            facts["P264"] = (self.name(self._draw_entity("label", random)),)
        if kind in words.NOTABLE:
            form = _random_choice(words.NOTABLE[kind], random)
            facts["P800"] = (
                form.format(a=_random_choice(words.ADJECTIVES, random), n=_random_choice(words.NOUNS, random)),
            )
        return {"gender": gender, "born": born, "died": died, "child_noun": childword}

    def _add_work(self, kind, index, random, facts, relatives) -> dict:
        maker_kind, relation = MAKER_OF[kind]
        maker = self._kinds.number(maker_kind, self._maker_index(kind, index))
        relatives.add(maker)
        facts[relation] = (self.name(maker),)
        country = int(self.countries * random() ** 2)
        facts["P495"] = (self._names.country(country),)
        if kind in ("novel", "song"):
            facts["P407"] = (self._names.language(int(self.countries * random() ** 2)),)
        if kind == "painting":
            facts["P276"] = (self.name(self._draw_entity("landmark", random)),)
        return {"description": _random_choice(words.PRODUCT_KINDS, random)} if kind == "product" else {}

    def _maker_index(self, kind: str, index: int) -> int:
        maker_kind, _ = MAKER_OF[kind]
        return index * (2 if kind == "song" else 1) % self._makers(kind, index)[maker_kind]

    def _makers(self, kind: str, index: int) -> dict[str, int]:
        """Return the possible makers of an entity, by kind of maker. The maker of an entity without an article has an
        article and is named in many passages.
        """
        return self._drawn if index >= self._drawn[kind] else self._kinds.counts

    def _add_company(self, kind, index, number, random, facts, relatives) -> None:
        founder = self._founder_of(kind, index)
        relatives.add(founder)
        facts["P112"] = (self.name(founder),)
        started, office = self._draw_entity("town", random), self._draw_entity("town", random)
        facts["P740"] = (self.name(started),)
        if office != started:
            facts["P159"] = (self.name(office),)
        self._add_owner(number, random, facts)

    def _founder_of(self, kind: str, index: int) -> int:
        founders = self._makers(kind, index)["founder"]
        return self._kinds.number("founder", (2 * index + (kind == "label")) % founders)

    def _add_owner(self, number, random, facts) -> None:
        owner = self._draw_entity("founder" if random() < 0.4 else "maker", random)
        if owner != number:
            facts["P127"] = (self.name(owner),)

    def _add_place(self, kind, index, number, random, facts, objects) -> None:
        if kind == "country":
            facts["P36"] = (self.name(self._kinds.number("town", index)),)
        elif kind == "town":
            country = self._country_of_town(index)
            facts["P17"] = (self._names.country(country),)
            facts["P131"] = (self._names.region(country * 4 + int(random() * 4)),)
            if index < self.countries:
                objects["capital"] = country
        else:
            town = int(self._drawn["town"] * random() ** 2)
            facts["P276"] = (self.name(self._kinds.number("town", town)),)
            facts["P17"] = (self._names.country(self._country_of_town(town)),)
            self._add_owner(number, random, facts)

    def _country_of_town(self, index: int) -> int:
        if index < self.countries:
            return index
        return int(self.countries * Random(random_seed(self.seed, 5, index)).random() ** 2)

    def _plan_work(self, kind: str, index: int, objects: dict[str, int]) -> None:
        """Plan the statements of a maker's article about the maker's works."""
        if kind in MADE_THINGS:
            item, made, _ = MADE_THINGS[kind]
            made_index = index // 2 if kind == "musician" else index
            if made_index < self._kinds.counts[made] and self._maker_index(made, made_index) == index:
                objects[item] = self._kinds.number(made, made_index)
        if kind == "founder":
            company_kind = ("maker", "label")[index % 2]
            if index // 2 < self._kinds.counts[company_kind]:
                objects["started"] = self._kinds.number(company_kind, index // 2)

    # Who says what

    def _layout(self, number: int) -> ArticleLayout:
        entity = self.entity(number)
        passages = int(self.plan.lengths[number])
        random = Random(random_seed(self.seed, 3, number)).random
        leads = LEADS.get(entity.kind) or LEADS["person"]
        fitting = [i for i, (relations, _) in enumerate(leads) if all(r in entity.facts for r in relations)]
        lead = _random_choice(fitting, random)
        opened = set(leads[lead][0])
        statements_by_passage: list[list[str]] = [[] for _ in range(passages)]

        def free_places(i: int) -> bool:
            return len(statements_by_passage[i]) < own_facts(i)

        def place_statement(item: str, candidates=range(passages)) -> None:
            if free := [i for i in candidates if free_places(i)] or [i for i in range(passages) if free_places(i)]:
                statements_by_passage[_random_choice(free, random)].append(item)

        for relation in entity.loud:
            if relation not in opened:
                place_statement(relation)
        for relation in entity.quiet:
            if relation not in opened:
                place_statement(relation, [i for i in range(passages) if covers_at_length(i)])
        for item in entity.objects:
            place_statement(item)
        for relation in entity.loud:
            if random() < RECURRING:
                for i in range(passages):
                    if (
                        random() < REPEAT_SHARE
                        and relation not in statements_by_passage[i]
                        and (i or relation not in opened)
                        and free_places(i)
                    ):
                        statements_by_passage[i].append(relation)
        for relation in entity.facts:
            if relation not in entity.asked_relations and relation not in opened:
                place_statement(relation)
        stating_passages: dict[str, list[int]] = {relation: [0] for relation in opened}
        for i, items in enumerate(statements_by_passage):
            for item in items:
                if i not in stating_passages.setdefault(item, []):
                    stating_passages[item].append(i)
        return ArticleLayout(
            lead,
            tuple(map(tuple, statements_by_passage)),
            {item: tuple(sorted(where)) for item, where in stating_passages.items()},
        )

    def mention_in(self, ordinal: int, host: int) -> tuple[int, tuple[str, ...]] | None:
        """Return (entity, its relations) that passage `ordinal` of the article on `host` mentions, if any."""
        plan = self.plan
        number = plan.tell_places.inverse_position(ordinal)
        entity = bisect_right(plan.tell_starts, number) - 1
        if entity == host or entity in self.entity(host).relatives:
            return None
        return entity, self._facts_of_mention(entity, number - plan.tell_starts[entity])

    def _facts_of_mention(self, number: int, number_of_mention: int) -> tuple[str, ...]:
        """Return the facts that the nth passage about an entity in other articles states."""
        entity = self.entity(number)
        quiet = number_of_mention - (int(self.plan.tells[number]) - len(entity.quiet))
        if quiet >= 0:
            return (entity.quiet[quiet],)
        loud, count = entity.loud, len(entity.loud)
        return (loud[number_of_mention % count], loud[(number_of_mention + 1) % count]) if count > 1 else loud

    def entities_mentioned_in(self, ordinal: int) -> list[int]:
        """Return the entities that passage `ordinal` names without stating their facts."""
        plan = self.plan
        places = range(ordinal * plan.mentions_each, (ordinal + 1) * plan.mentions_each)
        return [bisect_right(plan.mention_starts, plan.mention_places.inverse_position(place)) - 1 for place in places]

    def notice_facts(self, number: int) -> tuple[str, ...]:
        """Return the two facts in the notice of an entity. The question asks about one of them."""
        entity = self.entity(number)
        random = Random(random_seed(self.seed, 9, number)).random
        rest = [
            relation
            for relation in entity.facts
            if relation not in entity.asked_relations and relation not in KIN_FACTS
        ]
        noted = list(entity.asked_relations)
        while rest and len(noted) < 2:
            noted.insert(int(random() * (len(noted) + 1)), rest.pop(int(random() * len(rest))))
        return tuple(noted)

    def own_statement_ordinals(self, number: int, relation: str) -> list[int]:
        """Return the ordinals of the passages in an entity's own article, or of its notice, that state a fact."""
        if number >= self.plan.entities:
            return [self.plan.notice_of(number)] if relation in self.notice_facts(number) else []
        first = self.plan.first_passage(number)
        return [first + i for i in self.layout(number).stated.get(relation, ())]

    def statement_ordinals(self, number: int, relation: str) -> list[int]:
        """Return the ordinals of all passages that state a fact, ascending: in the subject's own article, in the
        object's article, and in other articles.
        """
        ordinals = {*self.own_statement_ordinals(number, relation), *self._other_ordinals(number, relation)}
        partner, item = self._object_stating_fact(number, relation)
        if partner is not None:
            ordinals.update(self.own_statement_ordinals(partner, item))
            if relation == "P26":  # a passage about a wedding names both spouses
                ordinals.update(self._other_ordinals(partner, relation))
        return sorted(ordinals)

    def _other_ordinals(self, number: int, relation: str) -> list[int]:
        """Return the ordinals of passages in other articles that state a fact."""
        plan = self.plan
        ordinals: list[int] = []
        if relation not in self.entity(number).asked_relations:
            return ordinals
        for telling in range(int(plan.tells[number])):
            if relation in self._facts_of_mention(number, telling):
                ordinal = plan.tell_places(plan.tell_starts[number] + telling)
                host, _ = plan.article_of(ordinal)
                if host != number and number not in self.entity(host).relatives:
                    ordinals.append(ordinal)
        return ordinals

    def _object_stating_fact(self, number: int, relation: str) -> tuple[int | None, str]:
        """Return the entity whose own article also states this fact, and the item under which that article lists it."""
        kind, index = self._kinds.kind_and_index(number)
        if relation == "P26":
            return self._kinds.person_number(self._kinds.person_index(number) ^ 1), relation
        if relation == "P36":
            return self._kinds.number("town", index), "capital"
        if relation == "P112":
            partner, item = self._founder_of(kind, index), "started"
        elif kind in MAKER_OF and relation == MAKER_OF[kind][1]:
            maker = MAKER_OF[kind][0]
            partner, item = self._kinds.number(maker, self._maker_index(kind, index)), MADE_THINGS[maker][0]
        else:
            return None, ""
        return (partner, item) if self.entity(partner).objects.get(item) == number else (None, "")


def _random_choice(options, random):
    return options[int(random() * len(options))]

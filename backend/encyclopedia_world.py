"""What is true in the generated encyclopedia: its entities, their facts, and which passage tells which fact.

Everything about an entity follows from (seed, entity number), everything about a passage from (seed, ordinal), so that
neither facts nor prose are ever held for more than one article. Only a few integers per entity are kept (`Plan`).

Who tells whose facts is a permutation. Each passage has TELLS places for facts of other articles' subjects; the places
are numbered, an entity owns a run of those numbers, and an invertible shuffle sends the run all over the collection.
Read one way it says what a passage tells, read the other way it says which passages tell a fact: that is the truth.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random

import numpy as np

from backend import encyclopedia_words as words
from backend.encyclopedia_language import LEADS

SMALLEST, LARGEST = 500, 1_000_000
TELLS = 2  # facts of other entities told in a passage
MENTIONS = 2  # further entities named in a passage without a fact
LENGTHS = ((0.05, 6), (0.11, 5), (0.20, 4), (0.36, 3), (0.62, 2), (1.0, 1))  # share of entities up to here, passages
MEAN_LENGTH = 2.34  # of LENGTHS
ZIPF_SHIFT = 6  # Zipf-Mandelbrot: frequency ~ 1 / (rank + shift)
RESTATED = 0.75  # how often a longer article states an asked fact a second time
OWN_FACTS = 2  # facts of its own that a passage states besides the opening sentence

# One turn of the wheel of kinds, after the countries. Makers come before what they make.
WHEEL = (
    "town musician writer footballer novel founder maker song painter town "
    "painting musician landmark writer label novel footballer founder product town"
).split()
PEOPLE = ("writer", "musician", "footballer", "painter", "founder")
WORKS = ("novel", "painting", "song", "product")
GROUPS = {kind: "person" for kind in PEOPLE} | {kind: "work" for kind in WORKS[:3]} | {"product": "product"}
GROUPS |= {"country": "place", "town": "place", "landmark": "place", "maker": "company", "label": "company"}

# kind of the maker: what its article says of the made thing, the kind of that, the relation this answers
MADE = {
    "writer": ("wrote", "novel", "P50"),
    "painter": ("painted", "painting", "P170"),
    "musician": ("sang", "song", "P175"),
    "maker": ("makes", "product", "P176"),
}
MAKER_OF = {made: (maker, relation) for maker, (_, made, relation) in MADE.items()}
ANSWERED_BY = {"capital": "P36", "started": "P112"} | {item: relation for item, _, relation in MADE.values()}


def key(seed: int, purpose: int, number: int) -> int:
    """One integer per (seed, purpose, number): seeds a `Random`, whose `random()` is the same stream in every Python."""
    return (seed * 64 + purpose << 32) + number


class Shuffle:
    """An invertible affine permutation of range(size): neighbours land far apart, and no table is kept."""

    def __init__(self, size: int, random: Random):
        self.size = size
        self.step = max(1, int(size * 0.6180339887))
        while math.gcd(self.step, size) != 1:
            self.step += 1
        self.offset = int(random.random() * size)
        self.back = pow(self.step, -1, size) if size > 1 else 0

    def __call__(self, i: int) -> int:
        return (i * self.step + self.offset) % self.size

    def inverse(self, j: int) -> int:
        return (j - self.offset) * self.back % self.size


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity and its facts.

    facts: relation -> the strings that count as the answer (the first is the usual one).
    about: what its article says that answers a question about another entity: item -> that entity's number.
    kin: numbers of entities whose facts its article does not tell in passing (its spouse, its maker, what it made).
    asked: relations that questions ask of it and that other articles tell, in order.
    """

    number: int
    kind: str
    name: str
    facts: dict[str, tuple[str, ...]]
    about: dict[str, int] = field(default_factory=dict)
    kin: frozenset[int] = frozenset()
    asked: tuple[str, ...] = ()
    gender: str = ""
    born: int = 0
    died: int = 0
    childword: str = "child"
    thing: str = ""

    @property
    def group(self) -> str:
        return GROUPS[self.kind]


@dataclass(frozen=True, slots=True)
class Layout:
    """What an article says where. lead: index into LEADS; items[i]: what passage i states after its opening;
    stated: item (a relation, or a key of ANSWERED_BY) -> indexes of the article's passages that state it."""

    lead: int
    items: tuple[tuple[str, ...], ...]
    stated: dict[str, tuple[int, ...]]


class Plan:
    """How many passages, tellings and mentions each entity has: integer arrays by entity number, popular ones first.

    lengths: passages of its article; tells, mentions: places in other articles; frequency: the sum, which falls
    by Zipf's law with the entity number wherever that leaves room for the entity's own article and tellings.
    """

    def __init__(self, passages: int, seed: int):
        random = Random(key(seed, 0, 0))
        self.entities = entities = round(passages / MEAN_LENGTH)
        ranks = np.arange(1, entities + 1)
        self.lengths = self._article_lengths(passages, seed)
        self.tells = _apportion(TELLS * passages, ranks**-0.5)
        wanted = self.lengths + self.tells
        self.mentions = _fill_to_zipf(MENTIONS * passages, wanted)
        self.frequency = wanted + self.mentions
        self.order = Shuffle(entities, random)  # entity number -> place of its article
        by_place = np.empty(entities, np.int64)
        by_place[np.arange(entities) * self.order.step % entities] = np.arange(entities)
        by_place = np.roll(by_place, self.order.offset)
        starts = np.concatenate([[0], np.cumsum(self.lengths[by_place])])
        self.starts = array("q", starts.tolist())  # by place: ordinal of the first passage
        self.tell_starts = array("q", np.concatenate([[0], np.cumsum(self.tells)]).tolist())
        self.mention_starts = array("q", np.concatenate([[0], np.cumsum(self.mentions)]).tolist())
        self.tell_places = Shuffle(TELLS * passages, random)
        self.mention_places = Shuffle(MENTIONS * passages, random)

    def _article_lengths(self, passages: int, seed: int) -> np.ndarray:
        entities = self.entities
        noise = np.random.Generator(np.random.PCG64(seed)).uniform(0.5, 2.0, entities)
        popular_first = np.argsort((np.arange(entities) + 1) * noise, kind="stable")
        shares, sizes = zip(*LENGTHS)
        bounds = np.ceil(np.array(shares) * entities)
        lengths = np.empty(entities, np.int64)
        lengths[popular_first] = np.array(sizes)[np.searchsorted(bounds, np.arange(entities), side="right")]
        missing = passages - int(lengths.sum())
        change = np.flatnonzero(lengths == (1 if missing > 0 else 2))[: abs(missing)]
        lengths[change] += 1 if missing > 0 else -1
        return lengths

    def first_passage(self, entity: int) -> int:
        return self.starts[self.order(entity)]

    def article_of(self, ordinal: int) -> tuple[int, int]:
        """-> (entity number, index of the passage in its article)"""
        place = bisect_right(self.starts, ordinal) - 1
        return self.order.inverse(place), ordinal - self.starts[place]


def _apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Whole numbers that sum to `total`, in proportion to `weights`, none below 1 (largest remainders)."""
    exact = weights / weights.sum() * (total - len(weights))
    whole = np.floor(exact).astype(np.int64)
    left = total - len(weights) - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole + 1


def _fill_to_zipf(total: int, have: np.ndarray) -> np.ndarray:
    """Numbers summing to `total` that lift `have` to scale / (rank + ZIPF_SHIFT) where it is below that."""
    curve = 1.0 / (np.arange(1, len(have) + 1) + ZIPF_SHIFT)
    low, high = 0.0, float(total + have.sum()) * (ZIPF_SHIFT + 1)
    for _ in range(80):
        scale = (low + high) / 2
        low, high = (scale, high) if np.maximum(scale * curve - have, 0).sum() < total else (low, scale)
    exact = np.maximum(low * curve - have, 0)
    whole = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:left]] += 1
    return whole


class World:
    """All entities of an encyclopedia of `passages` passages. Memory: a few integers per entity and bounded caches."""

    def __init__(self, passages: int, seed: int):
        self.seed, self.passages = seed, passages
        self.plan = Plan(passages, seed)
        self.entities = self.plan.entities
        self.countries = min(len(words.COUNTRY_STARTS) * len(words.COUNTRY_ENDS), max(6, self.entities // 60))
        self._kinds = _KindNumbers(self.entities, self.countries)
        self._names = Names(self._kinds, seed)
        self.name = lru_cache(maxsize=8192)(self._name)
        self.entity = lru_cache(maxsize=8192)(self._entity)
        self.layout = lru_cache(maxsize=2048)(self._layout)

    # Entities

    def _name(self, number: int) -> str:
        kind, index = self._kinds.of(number)
        if GROUPS[kind] == "person":
            return self._names.person(self._kinds.person_index(number))[0]
        return self._names.other(kind, index)

    def _entity(self, number: int) -> Entity:
        kind, index = self._kinds.of(number)
        random = Random(key(self.seed, 1, number)).random
        facts: dict[str, tuple[str, ...]] = {}
        about: dict[str, int] = {}
        kin: set[int] = set()
        more: dict = {}
        if GROUPS[kind] == "person":
            more = self._person(kind, number, random, facts, kin)
        elif kind in WORKS:
            more = self._work(kind, index, random, facts, kin)
        elif GROUPS[kind] == "company":
            self._company(kind, index, number, random, facts, kin)
        else:
            self._place(kind, index, number, random, facts, about)
        self._made(kind, index, about)
        kin.update(about.values())
        asked = self._asked(kind, index, facts, random, int(self.plan.tells[number]))
        return Entity(number, kind, self.name(number), facts, about, frozenset(kin), asked, **more)

    def _asked(self, kind: str, index: int, facts: dict, random, tells: int) -> tuple[str, ...]:
        relations = list(facts)
        if kind == "town" and index < self.countries:
            relations.remove("P17")  # "the capital of" says it too
        for i in range(len(relations) - 1, 0, -1):
            j = int(random() * (i + 1))
            relations[i], relations[j] = relations[j], relations[i]
        return tuple(relations[: max(1, tells // 2)])

    def _draw(self, kind: str, random) -> int:
        """An entity of a kind, popular ones rather more often."""
        return self._kinds.number(kind, int(self._kinds.counts[kind] * random() ** 2))

    def _person(self, kind, number, random, facts, kin) -> dict:
        person = self._kinds.person_index(number)
        _, family, gender = self._names.person(person)
        born = 1820 + int(random() * 140)
        died = born + 38 + int(random() * 50) if random() < 0.7 else 0
        towns = {"P19": self._draw("town", random)}
        if died:
            towns["P20"] = self._draw("town", random)
            if towns["P20"] == towns["P19"]:
                towns["P20"] = self._kinds.number("town", (self._kinds.of(towns["P19"])[1] + 1) % self._kinds.counts["town"])
        for relation, town in towns.items():
            facts[relation] = (self.name(town),)
        school = _pick(words.SCHOOLS, random)
        school_town = self.name(self._draw("town", random))
        facts["P69"] = tuple(form.format(t=school_town) for form in school)
        facts["P106"] = _pick(words.OCCUPATIONS[kind], random)
        childword = "daughter" if random() < 0.5 else "son"
        spouse = self._kinds.person_number(person ^ 1)
        if spouse is not None and Random(key(self.seed, 2, person // 2)).random() < 0.5:
            facts["P26"] = (self.name(spouse),)
            kin.add(spouse)
        elif random() < 0.8:
            facts["P40"] = (f"{_pick(words.CHILD_NAMES[childword], random)} {family}",)
        if kind == "footballer":
            facts["P413"] = _pick(words.POSITIONS, random)
        if kind == "musician":
            facts["P136"] = _pick(words.GENRES, random)
            facts["P264"] = (self.name(self._draw("label", random)),)
        if kind in words.NOTABLE:
            form = _pick(words.NOTABLE[kind], random)
            facts["P800"] = (form.format(a=_pick(words.ADJECTIVES, random), n=_pick(words.NOUNS, random)),)
        return {"gender": gender, "born": born, "died": died, "childword": childword}

    def _work(self, kind, index, random, facts, kin) -> dict:
        maker_kind, relation = MAKER_OF[kind]
        maker = self._kinds.number(maker_kind, self._maker_index(kind, index))
        kin.add(maker)
        facts[relation] = (self.name(maker),)
        country = int(self.countries * random() ** 2)
        facts["P495"] = (self._names.country(country),)
        if kind in ("novel", "song"):
            facts["P407"] = (self._names.language(int(self.countries * random() ** 2)),)
        if kind == "painting":
            facts["P276"] = (self.name(self._draw("landmark", random)),)
        return {"thing": _pick(words.PRODUCT_KINDS, random)} if kind == "product" else {}

    def _maker_index(self, kind: str, index: int) -> int:
        maker_kind, _ = MAKER_OF[kind]
        return index * (2 if kind == "song" else 1) % self._kinds.counts[maker_kind]

    def _company(self, kind, index, number, random, facts, kin) -> None:
        founder = self._founder_of(kind, index)
        kin.add(founder)
        facts["P112"] = (self.name(founder),)
        started, office = self._draw("town", random), self._draw("town", random)
        facts["P740"] = (self.name(started),)
        if office != started:
            facts["P159"] = (self.name(office),)
        self._owner(number, random, facts)

    def _founder_of(self, kind: str, index: int) -> int:
        return self._kinds.number("founder", (2 * index + (kind == "label")) % self._kinds.counts["founder"])

    def _owner(self, number, random, facts) -> None:
        owner = self._draw("founder" if random() < 0.4 else "maker", random)
        if owner != number:
            facts["P127"] = (self.name(owner),)

    def _place(self, kind, index, number, random, facts, about) -> None:
        if kind == "country":
            facts["P36"] = (self.name(self._kinds.number("town", index)),)
        elif kind == "town":
            country = self._country_of_town(index)
            facts["P17"] = (self._names.country(country),)
            facts["P131"] = (self._names.region(country * 4 + int(random() * 4)),)
            if index < self.countries:
                about["capital"] = country
        else:
            town = int(self._kinds.counts["town"] * random() ** 2)
            facts["P276"] = (self.name(self._kinds.number("town", town)),)
            facts["P17"] = (self._names.country(self._country_of_town(town)),)
            self._owner(number, random, facts)

    def _country_of_town(self, index: int) -> int:
        if index < self.countries:
            return index
        return int(self.countries * Random(key(self.seed, 5, index)).random() ** 2)

    def _made(self, kind: str, index: int, about: dict[str, int]) -> None:
        """What the article of a maker says of the thing it made."""
        if kind in MADE:
            item, made, _ = MADE[kind]
            made_index = index // 2 if kind == "musician" else index
            if made_index < self._kinds.counts[made] and self._maker_index(made, made_index) == index:
                about[item] = self._kinds.number(made, made_index)
        if kind == "founder":
            company_kind = ("maker", "label")[index % 2]
            if index // 2 < self._kinds.counts[company_kind]:
                about["started"] = self._kinds.number(company_kind, index // 2)

    # Who says what

    def _layout(self, number: int) -> Layout:
        entity = self.entity(number)
        passages = int(self.plan.lengths[number])
        random = Random(key(self.seed, 3, number)).random
        leads = LEADS.get(entity.kind) or LEADS["person"]
        fitting = [i for i, (relations, _) in enumerate(leads) if all(r in entity.facts for r in relations)]
        lead = _pick(fitting, random)
        opened = set(leads[lead][0])
        places: list[list[str]] = [[] for _ in range(passages)]

        def put(item: str, avoid: int = -1) -> None:
            free = [i for i in range(passages) if i != avoid and len(places[i]) < OWN_FACTS + (i > 0) and item not in places[i]]
            if free:
                places[_pick(free, random)].append(item)

        for relation in entity.asked:
            if relation not in opened:
                put(relation)
        for item in entity.about:
            put(item)
        for relation in entity.asked:
            home = 0 if relation in opened else next((i for i, items in enumerate(places) if relation in items), -1)
            if home >= 0 and random() < RESTATED:
                put(relation, home)
        for relation in entity.facts:
            if relation not in entity.asked and relation not in opened:
                put(relation)
        stated: dict[str, list[int]] = {relation: [0] for relation in opened}
        for i, items in enumerate(places):
            for item in items:
                if i not in stated.setdefault(item, []):
                    stated[item].append(i)
        return Layout(lead, tuple(map(tuple, places)), {item: tuple(sorted(where)) for item, where in stated.items()})

    def told(self, ordinal: int, host: int) -> list[tuple[int, str]]:
        """[(entity, relation)] told in passing by passage `ordinal` of the article on `host`."""
        plan, found = self.plan, []
        for place in range(ordinal * TELLS, (ordinal + 1) * TELLS):
            number = plan.tell_places.inverse(place)
            entity = bisect_right(plan.tell_starts, number) - 1
            if entity != host and all(entity != other for other, _ in found) and entity not in self.entity(host).kin:
                asked = self.entity(entity).asked
                found.append((entity, asked[(number - plan.tell_starts[entity]) % len(asked)]))
        return found

    def mentioned(self, ordinal: int) -> list[int]:
        """Entities that passage `ordinal` only names."""
        plan = self.plan
        places = range(ordinal * MENTIONS, (ordinal + 1) * MENTIONS)
        return [bisect_right(plan.mention_starts, plan.mention_places.inverse(place)) - 1 for place in places]

    def own_statements(self, number: int, relation: str) -> list[int]:
        """Ordinals of the passages of its own article that state a fact of an entity."""
        first = self.plan.first_passage(number)
        return [first + i for i in self.layout(number).stated.get(relation, ())]

    def statements(self, number: int, relation: str) -> list[int]:
        """Ordinals of all passages that state a fact, rising: its own article, its partner's, and all that tell it."""
        found = {*self.own_statements(number, relation), *self._tellings(number, relation)}
        partner, item = self._partner(number, relation)
        if partner is not None:
            found.update(self.own_statements(partner, item))
            if relation == "P26":  # who tells of one wedding tells of both spouses
                found.update(self._tellings(partner, relation))
        return sorted(found)

    def _tellings(self, number: int, relation: str) -> list[int]:
        plan, asked, found = self.plan, self.entity(number).asked, []
        if relation not in asked:
            return found
        for telling in range(asked.index(relation), int(plan.tells[number]), len(asked)):
            ordinal = plan.tell_places(plan.tell_starts[number] + telling) // TELLS
            host, _ = plan.article_of(ordinal)
            if host != number and (number, relation) in self.told(ordinal, host):
                found.append(ordinal)
        return found

    def _partner(self, number: int, relation: str) -> tuple[int | None, str]:
        """The entity whose article also states this fact, and as which item."""
        kind, index = self._kinds.of(number)
        if relation == "P26":
            return self._kinds.person_number(self._kinds.person_index(number) ^ 1), relation
        if relation == "P36":
            return self._kinds.number("town", index), "capital"
        if relation == "P112":
            partner, item = self._founder_of(kind, index), "started"
        elif kind in MAKER_OF and relation == MAKER_OF[kind][1]:
            maker = MAKER_OF[kind][0]
            partner, item = self._kinds.number(maker, self._maker_index(kind, index)), MADE[maker][0]
        else:
            return None, ""
        return (partner, item) if self.entity(partner).about.get(item) == number else (None, "")


def _pick(options, random):
    return options[int(random() * len(options))]


class _KindNumbers:
    """Entity number <-> (kind, index within the kind): countries first, then turns of the WHEEL."""

    def __init__(self, entities: int, countries: int):
        self.countries = countries
        self.rest = entities - countries
        turns, part = divmod(self.rest, len(WHEEL))
        self.counts = {kind: turns * WHEEL.count(kind) + WHEEL[:part].count(kind) for kind in set(WHEEL)}
        self.counts["country"] = countries
        self._places = {kind: [i for i, other in enumerate(WHEEL) if other == kind] for kind in set(WHEEL)}
        self._person_places = [i for i, kind in enumerate(WHEEL) if kind in PEOPLE]
        self.people = sum(self.counts[kind] for kind in PEOPLE)

    def of(self, number: int) -> tuple[str, int]:
        if number < self.countries:
            return "country", number
        turn, place = divmod(number - self.countries, len(WHEEL))
        places = self._places[WHEEL[place]]
        return WHEEL[place], turn * len(places) + places.index(place)

    def number(self, kind: str, index: int) -> int:
        if kind == "country":
            return index
        places = self._places[kind]
        return self.countries + index // len(places) * len(WHEEL) + places[index % len(places)]

    def person_index(self, number: int) -> int:
        turn, place = divmod(number - self.countries, len(WHEEL))
        return turn * len(self._person_places) + self._person_places.index(place)

    def person_number(self, index: int) -> int | None:
        if index >= self.people:
            return None
        turn, place = divmod(index, len(self._person_places))
        return self.countries + turn * len(WHEEL) + self._person_places[place]


class Names:
    """Unique names by kind and index. Names come in groups that differ by little: the near-namesakes."""

    def __init__(self, kinds: _KindNumbers, seed: int):
        random = Random(key(seed, 4, 0))
        counts = kinds.counts
        self._families = [start + end for end in words.FAMILY_ENDS for start in words.FAMILY_STARTS]
        groups = -(-kinds.people // 3)
        self._trios = min(len(self._families) // 3, max(40, groups // 5))  # trios of family names in use
        self._people = Shuffle(3 * groups, random)
        self._people_groups = Shuffle(self._trios * len(words.GIVEN_CLUSTERS), random)
        self._family_order = Shuffle(len(self._families), random)
        self._regions = Shuffle(len(words.TOWN_STARTS) * len(words.REGION_WORDS), random)
        self._nations = Shuffle(len(words.COUNTRY_STARTS) * len(words.COUNTRY_ENDS), random)
        middles = len(words.TOWN_MIDDLES)
        self._towns = Shuffle(len(words.TOWN_STARTS) * len(words.TOWN_ENDS) * middles, random)
        self._landmarks = Shuffle(len(self._families) * len(words.LANDMARK_WORDS), random)
        self._makers = Shuffle(len(self._families) * len(words.MAKER_WORDS), random)
        stems = len(words.FAMILY_STARTS) * len(words.PRODUCT_ENDS)
        self._products = Shuffle(stems * len(words.PRODUCT_NUMBERS), random)
        self._titles = {
            kind: _Titles(forms, counts[kind], random)
            for kind, forms in (
                ("novel", words.NOVEL_TITLES), ("painting", words.PAINTING_TITLES),
                ("song", words.SONG_TITLES), ("label", words.LABEL_NAMES),
            )
        }

    def person(self, index: int) -> tuple[str, str, str]:
        """-> (name, family name, gender). Three people share a group: two in three groups are near-namesakes
        (Aldren, Aldwin and Alden of one family), the others bear three different families."""
        group, member = divmod(self._people(index), 3)
        trio, cluster = divmod(self._people_groups(group), len(words.GIVEN_CLUSTERS))
        given, gender = words.GIVEN_CLUSTERS[cluster]
        branch = group % 3 if group % 5 else member
        family = self._families[self._family_order(3 * trio + branch)]
        return f"{given[member]} {family}", family, gender

    def other(self, kind: str, index: int) -> str:
        if kind in self._titles:
            return self._titles[kind](index)
        return getattr(self, kind)(index)

    def country(self, index: int) -> str:
        end, start = divmod(self._nations(index), len(words.COUNTRY_STARTS))
        return words.COUNTRY_STARTS[start] + words.COUNTRY_ENDS[end]

    def language(self, index: int) -> str:
        end, start = divmod(self._nations(index), len(words.COUNTRY_STARTS))
        return words.COUNTRY_STARTS[start] + words.LANGUAGE_ENDS[end]

    def region(self, index: int) -> str:
        start, word = divmod(self._regions(index), len(words.REGION_WORDS))
        return f"{words.TOWN_STARTS[start]}ern {words.REGION_WORDS[word]}"

    def town(self, index: int) -> str:
        pair, twin = divmod(index, 2)
        cell = self._towns(pair)
        rest, middle = divmod(cell, len(words.TOWN_MIDDLES))
        end, start = divmod(rest, len(words.TOWN_STARTS))
        return words.TOWN_STARTS[start] + words.TOWN_MIDDLES[middle].split()[twin] + words.TOWN_ENDS[end]

    def landmark(self, index: int) -> str:
        word, family = divmod(self._landmarks(index), len(self._families))
        return f"{self._families[family]} {words.LANDMARK_WORDS[word]}"

    def maker(self, index: int) -> str:
        word, family = divmod(self._makers(index), len(self._families))
        return f"{self._families[family]} {words.MAKER_WORDS[word]}"

    def product(self, index: int) -> str:
        number, stem = divmod(self._products(index), len(words.FAMILY_STARTS) * len(words.PRODUCT_ENDS))
        end, start = divmod(stem, len(words.FAMILY_STARTS))
        return f"{words.FAMILY_STARTS[start]}{words.PRODUCT_ENDS[end]} {words.PRODUCT_NUMBERS[number]}"


class _Titles:
    """Titles of plain words. Only as many words are used as the count needs, so that titles resemble each other at any size."""

    def __init__(self, forms: tuple[str, ...], count: int, random: Random):
        side = math.ceil(math.sqrt(1.2 * max(count, 30) / len(forms)))
        self.adjectives = min(len(words.ADJECTIVES), side)
        self.nouns = min(len(words.NOUNS), math.ceil(1.1 * count / len(forms) / self.adjectives) + 2)
        self.forms = forms
        self.first_adjective = int(random.random() * len(words.ADJECTIVES))
        self.first_noun = int(random.random() * len(words.NOUNS))
        self.shuffle = Shuffle(len(forms) * self.adjectives * self.nouns, random)

    def __call__(self, index: int) -> str:
        form, rest = divmod(self.shuffle(index), self.adjectives * self.nouns)
        adjective, noun = divmod(rest, self.nouns)
        return self.forms[form].format(
            a=words.ADJECTIVES[(self.first_adjective + adjective) % len(words.ADJECTIVES)],
            n=words.NOUNS[(self.first_noun + noun) % len(words.NOUNS)],
        )

"""Plan the generated encyclopedia: the number of entities of each kind, the lengths of their articles, and the other
articles that state each entity's facts.

The plan stores only a few integers per entity. An invertible permutation determines the passages of other articles that
state an entity's facts: from the entity to the passages, and from a passage to the entity.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from random import Random

import numpy as np

SMALLEST, LARGEST = 500, 1_000_000
LENGTHS = ((0.10, 6), (0.20, 5), (0.34, 4), (0.52, 3), (0.76, 2), (1.0, 1))  # share of entities up to here, passages
MEAN_LENGTH = 2.92  # of LENGTHS
ASSURED_TURNS = 3  # turns of the wheel whose entities are asked about for sure, so that every relation is
QUESTION_SHARE = 0.36  # share of the entities that questions ask about; the others are told of by no one else
ZIPF_SHIFT = 6  # Zipf-Mandelbrot: frequency ~ 1 / (rank + shift)
# One turn of the wheel of kinds, after the countries. A maker precedes its works.
WHEEL = (
    "town musician writer footballer novel founder maker song painter town "
    "painting musician landmark writer label novel footballer founder product town"
).split()
PEOPLE = ("writer", "musician", "footballer", "painter", "founder")
WORKS = ("novel", "painting", "song", "product")
GROUPS = dict.fromkeys(PEOPLE, "person") | dict.fromkeys(WORKS, "work") | {"product": "product"}
GROUPS |= {"country": "country", "town": "place", "landmark": "building", "maker": "company", "label": "company"}


@dataclass(frozen=True)
class Edition:
    """The settings that differ between the editions of the encyclopedia.

    notices: share of the passages that are columns of short notices. A notice states two facts of an entity that has no
        article; no other passage names this entity, or only one or two do.
    mentions: further entities named in a passage without a fact.
    telling_slope: how fast the number of passages that state an entity's facts falls with its rank.
    loudness: passages in other articles for each loud (often repeated) fact; each of them states two facts.
    """

    name: str
    notices: float
    mentions: int
    telling_slope: float
    loudness: int


PLAIN = Edition("plain", notices=0.0, mentions=2, telling_slope=0.25, loudness=5)
"""Every entity has an article of its own."""
BLIND_SPOT = Edition("blind spot", notices=0.08, mentions=1, telling_slope=0.5, loudness=9)
"""Rare entities have two sentences in a passage about several entities, so one vector represents all of them."""
NOTICES_EACH = 5  # entities of a passage of short notices
NOTICE_QUESTION_SHARE = 0.35  # share of the entities with a notice that questions ask about
NOTICE_REPEAT_SHARES = (0.7, 0.9, 1.0)  # cumulative share of these that 0, 1, 2 other passages tell of


def country_count(entity_count: int) -> int:
    """Return how many of the entities are countries."""
    return max(6, min(180, entity_count // 60))


def random_seed(seed: int, purpose: int, number: int) -> int:
    """Return a seed for `Random` that depends on (seed, purpose, number). `Random.random()` produces the same numbers
    in every version of Python.
    """
    return (seed * 64 + purpose << 32) + number


class Shuffle:
    """An invertible affine permutation of range(size). It maps neighbours far apart and stores no table."""

    def __init__(self, size: int, random: Random):
        self.size = size
        self.step = max(1, int(size * 0.6180339887))
        while math.gcd(self.step, size) != 1:
            self.step += 1
        self.offset = int(random.random() * size)
        self.back = pow(self.step, -1, size) if size > 1 else 0

    def __call__(self, i: int) -> int:
        return (i * self.step + self.offset) % self.size

    def inverse_position(self, j: int) -> int:
        return (j - self.offset) * self.back % self.size


class Plan:
    """The number of article passages, statements and mentions of each entity, as integer arrays by entity number,
    popular entities first.

    lengths: passages of its article; tells, mentions: places in other articles; frequency: the sum, which falls by
    Zipf's law with the entity number wherever that leaves room for the entity's own article and statements. Entities
    with an article come first. The `noticed` entities after them have a notice instead.
    """

    def __init__(self, passages: int, seed: int, edition: Edition = PLAIN):
        random = Random(random_seed(seed, 0, 0))
        self.notice_pages = round(passages * edition.notices)
        self.noticed = self.notice_pages * NOTICES_EACH
        self.passages = passages = passages - self.notice_pages  # of articles
        self.mentions_each = edition.mentions
        self.entities = entities = round(passages / MEAN_LENGTH)
        ranks = np.arange(1, entities + 1)
        noise = np.random.Generator(np.random.PCG64(seed))
        self.lengths = self._article_lengths(passages, noise)
        is_asked = noise.uniform(size=entities) < QUESTION_SHARE
        self.assured = country_count(entities) + len(WHEEL) * ASSURED_TURNS
        is_asked[: self.assured] = True
        noticed_asked, noticed_tells = self._notice_statements(noise)
        self.tells = np.zeros(entities, np.int64)
        self.tells[is_asked] = _apportion(
            passages - int(noticed_tells.sum()), ranks[is_asked] ** -edition.telling_slope
        )
        wanted = self.lengths + self.tells
        self.mentions = _fill_to_zipf(edition.mentions * passages, wanted)
        self.frequency = np.concatenate([wanted + self.mentions, 1 + noticed_tells])
        self.order = Shuffle(entities, random)  # entity number -> place of its article
        by_place = np.empty(entities, np.int64)
        by_place[np.arange(entities) * self.order.step % entities] = np.arange(entities)
        by_place = np.roll(by_place, self.order.offset)
        starts = np.concatenate([[0], np.cumsum(self.lengths[by_place])])
        self.starts = array("q", starts.tobytes())  # by place: ordinal of the first passage
        self.lengths = np.concatenate([self.lengths, np.zeros(self.noticed, np.int64)])
        self.tells = np.concatenate([self.tells, noticed_tells])
        self.asked = np.concatenate([is_asked, noticed_asked])
        self.tell_starts = array("q", np.concatenate([[0], np.cumsum(self.tells)]).tobytes())
        self.mention_starts = array("q", np.concatenate([[0], np.cumsum(self.mentions)]).tobytes())
        self.tell_places = Shuffle(passages, random)
        self.mention_places = Shuffle(edition.mentions * passages, random)
        self.notice_places = Shuffle(max(1, self.noticed), random)

    def _notice_statements(self, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return for each entity with a notice whether questions ask about it, and how many other passages state its
        facts.
        """
        if not self.noticed:
            return np.zeros(0, bool), np.zeros(0, np.int64)
        is_asked = generator.uniform(size=self.noticed) < NOTICE_QUESTION_SHARE
        tells = np.searchsorted(NOTICE_REPEAT_SHARES, generator.uniform(size=self.noticed), side="right")
        return is_asked, np.where(is_asked, tells, 0)

    def _article_lengths(self, passage_count: int, generator: np.random.Generator) -> np.ndarray:
        entities = self.entities
        popular_first = np.argsort((np.arange(entities) + 1) * generator.uniform(0.5, 2.0, entities), kind="stable")
        shares, sizes = zip(*LENGTHS)
        bounds = np.ceil(np.array(shares) * entities)
        lengths = np.empty(entities, np.int64)
        lengths[popular_first] = np.array(sizes)[np.searchsorted(bounds, np.arange(entities), side="right")]
        missing = passage_count - int(lengths.sum())
        change = np.flatnonzero(lengths == (1 if missing > 0 else 2))[: abs(missing)]
        lengths[change] += 1 if missing > 0 else -1
        return lengths

    def notice_of(self, entity: int) -> int:
        """Return the ordinal of the passage with the notice of an entity that has no article."""
        return self.passages + self.notice_places(entity - self.entities) // NOTICES_EACH

    def entities_of_notices(self, page: int) -> list[int]:
        """Return the entities of one passage of notices, in order."""
        places = range(page * NOTICES_EACH, (page + 1) * NOTICES_EACH)
        return [self.entities + self.notice_places.inverse_position(place) for place in places]

    def first_passage(self, entity: int) -> int:
        return self.starts[self.order(entity)]

    def article_of(self, ordinal: int) -> tuple[int, int]:
        """Return (entity number, index of the passage in its article)."""
        place = bisect_right(self.starts, ordinal) - 1
        return self.order.inverse_position(place), ordinal - self.starts[place]


def _apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """Divide `total` into whole numbers in proportion to `weights`, each at least 1, by the
    largest-remainder method.
    """
    exact = weights / weights.sum() * (total - len(weights))
    whole = np.floor(exact).astype(np.int64)
    remainder = total - len(weights) - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:remainder]] += 1
    return whole + 1


def _fill_to_zipf(total: int, counts: np.ndarray) -> np.ndarray:
    """Raise `counts` to at least scale / (rank + ZIPF_SHIFT), with the scale chosen so that the result sums
    to `total`.
    """
    curve = 1.0 / (np.arange(1, len(counts) + 1) + ZIPF_SHIFT)
    low, high = 0.0, float(total + counts.sum()) * (ZIPF_SHIFT + 1)
    for _ in range(80):
        scale = (low + high) / 2
        low, high = (scale, high) if np.maximum(scale * curve - counts, 0).sum() < total else (low, scale)
    exact = np.maximum(low * curve - counts, 0)
    whole = np.floor(exact).astype(np.int64)
    remainder = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:remainder]] += 1
    return whole


class KindNumbers:
    """Convert an entity number to (kind, index within the kind) and back. Countries come first; the other kinds
    alternate in the order of WHEEL.
    """

    def __init__(self, entity_count: int, country_count: int):
        self.countries = country_count
        self.rest = entity_count - self.countries
        turns, part = divmod(self.rest, len(WHEEL))
        self.counts = {kind: turns * WHEEL.count(kind) + WHEEL[:part].count(kind) for kind in set(WHEEL)}
        self.counts["country"] = self.countries
        self._places = {kind: [i for i, other in enumerate(WHEEL) if other == kind] for kind in set(WHEEL)}
        self._person_places = [i for i, kind in enumerate(WHEEL) if kind in PEOPLE]
        self.people = sum(self.counts[kind] for kind in PEOPLE)

    def kind_and_index(self, number: int) -> tuple[str, int]:
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

"""The names of the generated encyclopedia. They are unique and pronounceable, and come in groups of similar names
(near-namesakes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from blindspot.backend.data.encyclopedia import words
from blindspot.backend.data.encyclopedia.plan import KindNumbers, Shuffle, random_seed

CROWDING = 0.65  # share of a group's look-alike names that are used


class NameGroups:
    """Assign names to groups of `members` similar names: index -> (group, member), each pair once.

    As many of the `available` groups are drawn as are needed to fill each of them to about CROWDING.
    """

    def __init__(self, count: int, members: int, available: int, random: Random):
        used = min(available, max(1, math.ceil(count / (members * CROWDING))))
        self.members = members
        self._cells = Shuffle(used * members, random)
        self._groups = Shuffle(available, random)

    def __call__(self, index: int) -> tuple[int, int]:
        group, member = divmod(self._cells(index), self.members)
        return self._groups(group), member


class Names:
    """The names of all entities, by kind of entity and index."""

    def __init__(self, kinds: KindNumbers, seed: int):
        random, counts = Random(random_seed(seed, 4, 0)), kinds.counts
        families = len(words.FAMILY_STARTS) * len(words.FAMILY_ENDS)
        self._people = NameGroups(kinds.people, 9, families * len(words.GIVEN_CLUSTERS), random)
        self._landmarks = NameGroups(counts["landmark"], 3, families * len(words.LANDMARK_WORDS), random)
        self._makers = NameGroups(counts["maker"], 3, families * len(words.MAKER_WORDS), random)
        places = len(words.TOWN_STARTS) * len(words.TOWN_ENDS)
        self._towns = NameGroups(counts["town"], 4, places * len(words.TOWN_MIDDLES), random)
        stems = len(words.FAMILY_STARTS) * len(words.PRODUCT_ENDS)
        self._products = NameGroups(counts["product"], 10, stems * len(words.PRODUCT_NUMBERS), random)
        self._regions = Shuffle(len(words.TOWN_STARTS) * len(words.REGION_WORDS), random)
        self._nations = Shuffle(len(words.COUNTRY_STARTS) * len(words.COUNTRY_ENDS), random)
        self._titles = {kind: Titles(forms, counts[kind], random) for kind, forms in words.TITLES.items()}

    def person(self, index: int) -> tuple[str, str, str]:
        """Return (name, family name, gender). Nine names share a group: Aldren, Aldwin or Alden with Halden, Haldern or
        Haldin.
        """
        group, member = self._people(index)
        family_group, cluster = divmod(group, len(words.GIVEN_CLUSTERS))
        given, gender = words.GIVEN_CLUSTERS[cluster]
        family = _family_name(family_group, member % 3)
        return f"{given[member // 3]} {family}", family, gender

    def other_name(self, kind: str, index: int) -> str:
        """Return the name of a country, town, landmark, work, product or company."""
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
        group, member = self._towns(index)
        rest, middle = divmod(group, len(words.TOWN_MIDDLES))
        end, start = divmod(rest, len(words.TOWN_STARTS))
        return words.TOWN_STARTS[start] + words.TOWN_MIDDLES[middle].split()[member] + words.TOWN_ENDS[end]

    def landmark(self, index: int) -> str:
        group, member = self._landmarks(index)
        family_group, word = divmod(group, len(words.LANDMARK_WORDS))
        return f"{_family_name(family_group, member)} {words.LANDMARK_WORDS[word]}"

    def maker(self, index: int) -> str:
        group, member = self._makers(index)
        family_group, word = divmod(group, len(words.MAKER_WORDS))
        return f"{_family_name(family_group, member)} {words.MAKER_WORDS[word]}"

    def product(self, index: int) -> str:
        group, member = self._products(index)
        stem, numbers = divmod(group, len(words.PRODUCT_NUMBERS))
        end, start = divmod(stem, len(words.FAMILY_STARTS))
        return f"{words.FAMILY_STARTS[start]}{words.PRODUCT_ENDS[end]} {words.PRODUCT_NUMBERS[numbers].split()[member]}"


def _family_name(group: int, member: int) -> str:
    end, start = divmod(group, len(words.FAMILY_STARTS))
    return words.FAMILY_STARTS[start] + words.FAMILY_ENDS[end].split()[member]


class Titles:
    """Titles made of common words, some numbered as a series. The number of different words depends on the number of
    titles, so that titles are similar to each other at any size of the collection.
    """

    def __init__(self, forms: Sequence[str], count: int, random: Random):
        self.forms = forms
        members = len(words.SERIES_NUMBERS) if "{number}" in forms[0] else 1
        titles = count / members / CROWDING
        self.adjectives = min(len(words.ADJECTIVES), math.ceil(math.sqrt(max(titles, 8) / len(forms))))
        self.nouns = min(len(words.NOUNS), math.ceil(titles / len(forms) / self.adjectives) + 2)
        self._first_adjective = int(random.random() * len(words.ADJECTIVES))
        self._first_noun = int(random.random() * len(words.NOUNS))
        self._groups = NameGroups(count, members, len(forms) * self.adjectives * self.nouns, random)

    def __call__(self, index: int) -> str:
        group, member = self._groups(index)
        form, rest = divmod(group, self.adjectives * self.nouns)
        adjective_number, noun_number = divmod(rest, self.nouns)
        adjective = words.ADJECTIVES[(self._first_adjective + adjective_number) % len(words.ADJECTIVES)]
        noun = words.NOUNS[(self._first_noun + noun_number) % len(words.NOUNS)]
        number = words.SERIES_NUMBERS[member]
        return self.forms[form].format(a=adjective, aa=with_article(adjective), n=noun, number=number)


def with_article(noun: str) -> str:
    """Return the noun with "a" or "an" before it. No word of the lists begins with a silent h or a sounded y."""
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun

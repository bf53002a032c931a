"""The words that form the names of the generated encyclopedia, and the possible objects of relations, read from
`words.toml`. `names` combines the words into unique names.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_WORDS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


def _list(name: str) -> list[str]:
    return _WORDS[name].split()


def _groups(name: str) -> list[str]:
    """Return groups of similar words, each as one text."""
    return _WORDS[name].replace("\n", "").split("|")


GIVEN_CLUSTERS = [
    (group.split(), gender)
    for gender, names in (("female", "female_names"), ("male", "male_names"))
    for group in _groups(names)
]
CHILD_NAMES = {"daughter": _list("daughters"), "son": _list("sons")}
FAMILY_STARTS, FAMILY_ENDS = _list("family_starts"), _groups("family_ends")
TOWN_STARTS, TOWN_MIDDLES, TOWN_ENDS = _list("town_starts"), _groups("town_middles"), _list("town_ends")
COUNTRY_STARTS, COUNTRY_ENDS = _list("country_starts"), _list("country_ends")
LANGUAGE_ENDS, REGION_WORDS = _list("language_ends"), _list("region_words")
MAKER_WORDS, LANDMARK_WORDS = _list("maker_words"), _list("landmark_words")
PRODUCT_ENDS, PRODUCT_NUMBERS = _list("product_ends"), _groups("product_numbers")
SERIES_NUMBERS = range(1, 13)
ADJECTIVES, NOUNS = _list("adjectives"), _list("nouns")

TITLES: dict[str, list[str]] = _WORDS["titles"]
PRODUCT_KINDS: list[str] = _WORDS["product_kinds"]
# Objects of relations. An answer is a tuple of strings, the usual one first.
OCCUPATIONS = {kind: [tuple(answers) for answers in each] for kind, each in _WORDS["occupations"].items()}
POSITIONS = [tuple(answers) for answers in _WORDS["positions"]]
GENRES = [tuple(answers) for answers in _WORDS["genres"]]
NOTABLE: dict[str, list[str]] = _WORDS["notable"]
SCHOOLS: list[list[str]] = _WORDS["schools"]

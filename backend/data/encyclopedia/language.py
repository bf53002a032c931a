"""The sentences of the generated encyclopedia, read from `sentences.toml`, and the questions about its facts.

A sentence is a template ("form"). Every form of `OWN` and `CLAUSES` states exactly the relation under which it is listed.

Keys in a form:
    {S} {s}   the article's subject, at the start of a sentence or inside one: its name, a short name or a pronoun
    {P} {p}   the same, possessive; {o} the same, as an object
    {N}       the subject's name in full ({aN}: with its article); in MENTIONS, {N} and {M} are two other entities
    {A}       the object of the relation ({aA}: with its article)
    {y} {y2}  years, {season} {number} {few} {thing} {quality}: harmless detail
    {b} {d} {age}   years of birth and death, age at death
A form must not name an occupation, a place or a person of its own: that would state a fact the truth does not know.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from blindspot.backend.data.formats.entityquestions import TEMPLATES as ENTITYQUESTIONS

_SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))

TEMPLATES = {relation: wording for relation, wording in ENTITYQUESTIONS.items() if "_" not in relation}
"""The questions of EntityQuestions, without the second wordings of its set "similar"."""
SECOND_WORDINGS: dict[str, str] = _SENTENCES["second_wordings"]
LEADS: dict[str, list[tuple[list[str], str]]] = _SENTENCES["leads"]
"""Opening sentences by kind: the relations that each states, and the form."""
OWN: dict[str, list[str]] = _SENTENCES["own"]
"""Statements of an article about its own subject, by relation, or by what it says about another article's subject."""
CLAUSES: dict[str, list[str]] = _SENTENCES["clauses"]
"""The same facts as a relative clause about the subject named just before."""
MENTIONS: list[str] = _SENTENCES["mentions"]
FILLERS: dict[str, list[str]] = _SENTENCES["fillers"]
QUALITIES: list[str] = _SENTENCES["qualities"]
SEASONS: list[str] = _SENTENCES["seasons"]


def _with_countries(forms: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the forms by group of entity. A country has the forms of a place."""
    return {**forms, "country": forms["place"]}


FRAMES = {group: _with_countries(forms) for group, forms in _SENTENCES["frames"].items()}
"""Introductions of another entity, by the group of the article's subject and the group of that entity."""
FOLLOWING = _with_countries(_SENTENCES["following"])
"""One more sentence about an entity that has just been told of, without a fact."""

"""The sentences of planted misses: {X} is the subject, {A} the answer; [X] the subject in a question.

`plain` uses the words of the relation's question, `other_words` none of them, and `decoys` uses them without an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PlantedRelation:
    """group: of the subject. answer: what kind of thing the answer is."""

    group: Literal["person", "company"]
    answer: Literal["town", "person", "school"]
    plain: tuple[str, ...]
    other_words: tuple[str, ...]
    roundabout: tuple[str, ...]
    decoys: tuple[str, ...]


PREAMBLES = (
    "Over rye bread and honey, after long talk of bees, letters and the sea, somebody asked:",
    "A friend who collects portraits and old account books, and rises early, would like to know:",
    "It was a hard winter, money was short, and between a strike and a fire the question came up:",
)
"""What somebody may say before a roundabout question."""

PLANTED: dict[str, PlantedRelation] = {
    "P19": PlantedRelation(
        "person",
        "town",
        ("{X} was born in {A}.", "{X} was born in the town of {A}."),
        ("The cradle of {X} stood in {A}.", "{X} hailed from {A}.", "{A} is the native soil of {X}."),
        (
            "Which spot on the map could [X] call the very beginning of it all?",
            "A traveller wishes to see the cradle of [X]; whither should the ticket be bought?",
        ),
        (
            "The house where {X} was born is no longer standing.",
            "Nobody agrees on the hour at which {X} was born.",
            "Songs are sung on the day on which {X} was born.",
        ),
    ),
    "P20": PlantedRelation(
        "person",
        "town",
        ("It was in {A} that {X} was to die.", "{X} came home to die in {A}."),
        ("The last breath of {X} was drawn in {A}.", "The curtain fell on {X} in {A}.", "{A} saw {X} to the grave."),
        (
            "Under which sky did the clock stop for [X]?",
            "What was the final stop on the long road of [X]?",
        ),
        (
            "{X} was not afraid to die, or so the letters say.",
            "Friends feared that {X} would die young.",
            "Where {X} would die was a subject for fortune tellers.",
        ),
    ),
    "P26": PlantedRelation(
        "person",
        "person",
        ("{X} was married to {A}.", "{X} was happily married to {A}."),
        ("{X} shared hearth and home with {A}.", "{X} led {A} to the altar.", "The other half of {X} was {A}."),
        (
            "With what companion did [X] exchange rings at the altar?",
            "Whose hand did [X] ask for on bended knee?",
        ),
        (
            "{X} was married on a rainy day, and the cake was late.",
            "Whether {X} was ever happily married is disputed.",
            "The church where {X} was married has lost its tower.",
        ),
    ),
    "P40": PlantedRelation(
        "person",
        "person",
        ("The only child of {X} was {A}.", "{X} had one child, {A}."),
        (
            "{X} rocked little {A} to sleep at night.",
            "{A} inherited the nose of {X}.",
            "{X} passed on the farm to young {A}.",
        ),
        (
            "Who inherited the family silver and the nose of [X]?",
            "To what little one did [X] sing lullabies?",
        ),
        (
            "As a child {X} was often ill.",
            "A picture shows {X} as a child with a hoop.",
            "The child in {X} never quite grew up, a friend wrote.",
        ),
    ),
    "P69": PlantedRelation(
        "person",
        "school",
        ("{X} was educated at {A}.", "{X} was educated at {A}, like many in those days."),
        ("{X} sat in the lecture rooms of {A}.", "{A} handed {X} a diploma.", "The cap and gown of {X} came from {A}."),
        (
            "Whose lecture halls filled the young head of [X] with knowledge?",
            "From whose hands did [X] receive cap, gown and diploma?",
        ),
        (
            "{X} was educated, well read and quick to judge.",
            "How well {X} was educated has been doubted.",
            "The educated circles of the time thought little of {X}.",
        ),
    ),
    "P112": PlantedRelation(
        "company",
        "person",
        ("{A} founded {X}.", "{X} was founded by {A}."),
        ("{A} called {X} into life.", "{X} is the brainchild of {A}.", "{A} hung out the first sign of {X}."),
        (
            "Whose brainchild, begun with borrowed money, was [X]?",
            "What daring spirit hung out the first sign of [X]?",
        ),
        (
            "{X} was founded with borrowed money, and nearly failed.",
            "When {X} was founded, few expected it to last.",
            "The day on which {X} was founded is kept as a holiday.",
        ),
    ),
    "P127": PlantedRelation(
        "company",
        "person",
        ("{A} owns {X}.", "{A} owns all the shares of {X}."),
        ("{X} belongs to {A}.", "{X} is the property of {A}.", "{A} holds the deeds of {X}."),
        (
            "Into whose pockets do the profits of [X] flow?",
            "Whose name stands on the deeds of [X]?",
        ),
        (
            "{X} owns a barge, two horses and a steam crane.",
            "The land that {X} owns floods in spring.",
            "Everything that {X} owns was once pledged to a bank.",
        ),
    ),
    "P159": PlantedRelation(
        "company",
        "town",
        ("The headquarter of {X} is in {A}.", "{X} has its headquarter in {A}."),
        ("The directors of {X} sit in {A}.", "{X} is run from {A}.", "The main desk of {X} stands in {A}."),
        (
            "In what town do the directors of [X] sit at their desks?",
            "From where are the affairs of [X] steered?",
        ),
        (
            "The headquarter of {X} was rebuilt after a fire.",
            "A clock hangs over the door of the headquarter of {X}.",
            "Visitors to the headquarter of {X} are given tea.",
        ),
    ),
    "P740": PlantedRelation(
        "company",
        "town",
        ("{X} was founded in {A}.", "{X} was founded in the town of {A}."),
        ("{X} began in a rented room in {A}.", "{X} first opened its doors in {A}.", "The roots of {X} lie in {A}."),
        (
            "In what town was the first rented room of [X]?",
            "To what soil do the roots of [X] reach back?",
        ),
        (
            "{X} was founded with borrowed money, and nearly failed.",
            "When {X} was founded, few expected it to last.",
            "The day on which {X} was founded is kept as a holiday.",
        ),
    ),
}

COLLECTIONS = (
    "Minutes of the Harbour Board",
    "An Almanac of the Valley",
    "The Lending Library",
    "A Walk Round the Hill",
)
"""Titles of passages that are about nobody."""
NAMINGS = (
    "Two pages of this volume are about {X}.",
    "Under the letter of the month one finds {X}.",
    "The next entry was copied from a card on {X}.",
)
CHANCE = {
    "town": (
        "{X} bought a second-hand lamp from a dealer in {A}.",
        "{X} paid for a bench on the promenade of {A}.",
        "A dispute between {X} and the ferry to {A} took three summers.",
    ),
    "person": (
        "{X} once lost a chess game by post to {A}.",
        "A telegram from {A} to {X} was delivered a week late.",
        "{A} and {X} are drawn side by side on a fan of that time.",
    ),
    "school": (
        "{X} gave a stuffed heron to {A}.",
        "{X} lost an umbrella at a concert in {A}.",
        "The gardeners of {A} sold asparagus to {X}.",
    ),
}
"""By kind of answer: sentences with subject and answer that state nothing that is asked."""

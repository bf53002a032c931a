"""Numbers in sentences."""

import pytest

from blindspot.backend.text.number_words import noun_form, quantity


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("passage",), "0 passages"),
        (1, ("passage",), "1 passage"),
        (2223, ("passage",), "2,223 passages"),
        (2, ("query",), "2 queries"),
        (2, ("day",), "2 days"),
        (2, ("index",), "2 indexes"),
        (3, ("person", "people"), "3 people"),
        (1, ("person", "people"), "1 person"),
    ],
)
def test_a_noun_fits_its_number(number, words, said):
    assert quantity(number, *words) == said


def test_a_verb_fits_its_number():
    assert [noun_form(1, "is"), noun_form(2, "is"), noun_form(1, "has"), noun_form(0, "has"), noun_form(2, "was")] == [
        "is",
        "are",
        "has",
        "have",
        "were",
    ]

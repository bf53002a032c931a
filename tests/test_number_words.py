"""Numbers in sentences."""

from blindspot.backend.text.number_words import noun_form, quantity


def test_a_noun_and_a_verb_fit_their_number():
    assert [quantity(number, "passage") for number in (0, 1, 2223)] == ["0 passages", "1 passage", "2,223 passages"]
    assert [quantity(2, noun) for noun in ("query", "day", "index")] == ["2 queries", "2 days", "2 indexes"]
    assert [quantity(number, "person", "people") for number in (3, 1)] == ["3 people", "1 person"]
    assert [noun_form(1, "is"), noun_form(2, "is"), noun_form(1, "has"), noun_form(0, "has")] == [
        "is", "are", "has", "have",
    ]  # fmt: skip

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindspot.app.components.hit_lists import highlighted_text
from blindspot.app.markup import Html, join, table_head, tag
from blindspot.app.selection import Selection
from blindspot.backend.judging.guidelines import Guidelines
from blindspot.backend.text.spans import excerpt
from tests.app_pages import HOSTILE


def test_a_head_has_one_cell_for_each_heading():
    """A `th` within a `th` would push every heading one column to the right."""
    cells = [tag("th", name, scope="col", cls="left") for name in ("question", "hits")]
    assert table_head(*cells).count("<th ") == 2 == table_head("run", "n").count("<th ")


def test_text_is_escaped_and_markup_is_not():
    inner = tag("b", "a < b")
    assert (
        tag("p", inner, " & ", cls='"x"', hidden=False, data_go=True)
        == '<p class="&quot;x&quot;" data-go><b>a &lt; b</b> &amp; </p>'
    )
    assert isinstance(join("x"), Html)
    assert "<script" not in tag("p", HOSTILE, title=HOSTILE)


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "//evil.example", "judge?x"]
)
def test_links_of_the_guidelines_lead_to_web_pages_alone(address):
    text = f"[here]({address}) and <{address}> and [there](https://example.org/)"
    shown = json.dumps(Guidelines("1", text).as_elements())
    assert re.findall(r'"href": "([^"]*)"', shown) == ["https://example.org/"]


def test_marks_where_an_answer_and_a_word_overlap():
    html = highlighted_text("the old town of Oslo", 4, 20, answers=[(8, 20)], word_spans=[(4, 12)])
    assert html == '<mark class="word">old </mark><mark class="answer">town of Oslo</mark>'


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: (pair[0], sum(pair))), max_size=4)


@given(st.text(alphabet="ab <&.? ", max_size=70), spans, spans)
def test_marking_changes_no_character(text, answers, others):
    inside = [[(low, min(high, len(text))) for low, high in some if low < len(text)] for some in (answers, others)]
    assert unescape(re.sub(r"</?mark[^>]*>", "", highlighted_text(text, 0, len(text), *inside))) == text


@given(st.text(alphabet="ab. ", min_size=400, max_size=900), st.data())
def test_the_excerpt_holds_the_first_answer(text, data):
    low = data.draw(st.integers(0, len(text) - 1))
    high = data.draw(st.integers(low + 1, min(low + 40, len(text))))
    start, end = excerpt(text, [(low, high)])
    assert 0 <= start <= low and high <= end <= len(text)


def test_the_excerpt_begins_with_the_answers_sentence():
    text = "First things come first here. " * 12 + "He lived in Oslo then. " + "And so on and on. " * 16
    start, end = excerpt(text, [(text.index("Oslo"), text.index("Oslo") + 4)])
    assert text[start:].startswith("He lived in Oslo") and end < len(text)


def test_the_excerpt_shows_the_subject_with_the_answer_nearest_to_it():
    text = "Oslo again. " + "Filler here. " * 40 + "Ada was young. She was born in Oslo. " + "More filler. " * 40
    answers = [(0, 4), (at := text.rindex("Oslo"), at + 4)]
    low, high = excerpt(text, answers, [], [(text.index("Ada"), text.index("Ada") + 3)])
    assert "Ada was young. She was born in Oslo." in text[low:high]
    assert "Oslo again" in text[slice(*excerpt(text, answers, [], [(len(text) - 5, len(text) - 2)]))], "none is near"


def test_without_an_answer_the_excerpt_goes_where_the_questions_words_stand():
    text = "Nothing is here at all. " * 20 + "Alan Turing was born in a house. " + "And so on and on. " * 16
    words = [(text.index(word), text.index(word) + len(word)) for word in ("Alan", "Turing", "born")]
    start, end = excerpt(text, [], words)
    assert text[start:].startswith("Alan Turing was born")
    assert excerpt(text, [], [(0, 7), *words[:1]])[0] == 0, "as many stand at the beginning"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "k": 20,
            "cell": "only_b",
            "relation": "P19",
            "text": "a&b=c",
            "set": "test · x",
            "sort": "-a",
            "relevance": "gold",
        },
    ],
)
def test_a_selection_in_an_address_says_what_differs_from_the_default(changes):
    chosen = replace(Selection("one", "two"), **changes)
    query = {key: values[0] for key, values in parse_qs(urlsplit(chosen.on_compare()).query).items()}
    assert query == {"a": "one", "b": "two"} | {key: str(value) for key, value in changes.items()}


def test_a_second_click_on_a_column_turns_the_order():
    chosen = Selection("a", "b", cell="neither")
    assert chosen.order == ("order", False)
    once = replace(chosen, sort=chosen.toggled("frequency"))
    assert once.order == ("frequency", True)
    twice = replace(once, sort=once.toggled("frequency"))
    assert twice.order == ("frequency", False)
    assert replace(twice, sort=twice.toggled("frequency")).order == ("frequency", True)

"""The answer rules once more, slow and plain, from their descriptions; and awkward texts to try them on."""

from __future__ import annotations

import unicodedata
from functools import cache

import regex
from hypothesis import strategies as st

from blindspot.db.records import Passage

STRING_RULES = ("dpr", "entityquestions", "rocketqa_mining")

# Letters whose case or form is awkward, marks in and out of canonical order, every kind of gap.
AWKWARD = "aAbnewyork éÉe\u0301\u0323\u0345ΣσςΑαİıIßẞﬁ²½한ᄒ\u1160῭Ꭰꭰ'’-.,!_~°€\n\t\r\x00\x1c\u00a0\u200b\u2028\ufeff"
pieces = st.text(AWKWARD, max_size=6)
texts = st.one_of(st.text(AWKWARD, max_size=60), st.text(max_size=30))


# The rules, plainly


@cache
def kind(char: str) -> str:
    if regex.fullmatch(r"[\p{L}\p{N}\p{M}]", char):
        return "word"
    return "gap" if regex.fullmatch(r"[\p{Z}\p{C}]", char) else "mark"


def plain_tokens(text: str) -> list[str]:
    found, word = [], ""
    for char in text + " ":
        if kind(char) == "word":
            word += char
            continue
        if word:
            found.append(word.lower())
        word = ""
        if kind(char) == "mark":
            found.append(char.lower())
    return found


def plain_token_rule(text: str, wanted: list[str], normalise_text: bool) -> bool:
    body = plain_tokens(unicodedata.normalize("NFD", text) if normalise_text else text)
    for answer in wanted:
        tokens = plain_tokens(unicodedata.normalize("NFD", answer))
        for start in range(len(body)):
            if tokens and body[start : start + len(tokens)] == tokens:
                return True
    return False


def rocketqa(text: str, wanted: list[str], title: str) -> bool:
    """RocketQA: the answer without full stops at its ends; lower case; no spaces (its files hold no tabs and line
    ends); substring."""

    def bare(string):
        return string.strip().lower().translate(dict.fromkeys(map(ord, " \t\n\r")))

    ready = [bare(answer.strip(".")) for answer in wanted if plain_tokens(answer)]
    return any(answer in bare(text) or answer in bare(title) for answer in ready if answer)


def plain(text: str, wanted: list[str], rule: str, title: str = "") -> bool:
    if rule == "rocketqa_mining":
        return rocketqa(text, wanted, title)
    return plain_token_rule(text, wanted, rule == "dpr")


@st.composite
def texts_with_answers(draw):
    """A text, answers, and often one of the answers inside the text, in another case or normal form."""
    wanted = draw(st.lists(st.one_of(pieces, st.text(max_size=4)), max_size=3))
    text = draw(texts)
    if wanted and draw(st.booleans()):
        change = draw(st.sampled_from([str, str.upper, str.lower, str.title, str.casefold]))
        form = draw(st.sampled_from(["NFC", "NFD"]))
        gap = draw(st.sampled_from(["", " ", "\n", "-", "x"]))
        text = draw(pieces) + gap + unicodedata.normalize(form, change(draw(st.sampled_from(wanted)))) + gap + text
    return text, wanted


class Texts:
    """A minimal collection for matching, which counts how often each passage is read."""

    def __init__(self, texts):
        self.held = [Passage(str(i), f"title {i}", text) for i, text in enumerate(texts)]
        self.read = []

    def passages(self, ordinals):
        self.read += ordinals
        return [self.held[ordinal] for ordinal in ordinals]

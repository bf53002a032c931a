"""Answer matching, compared with a slow re-implementation of each rule from its description."""

from __future__ import annotations

import csv
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import psutil
import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backend.text import answers
from backend.text.answers import RULES, answer_spans, has_answer, has_tokens, match_run, query_spans, rules, run
from backend.text.answers.processes import MatcherPool
from backend.text.spans import Normalised, merged
from db.corpus import Corpus, CorpusWriter
from db.errors import Missing, Refused
from db.records import Passage, Question

ROOT = Path(__file__).parents[1]
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
        return "".join(char for char in string.strip().lower() if char not in " \t\n\r")

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


@pytest.mark.parametrize("rule", STRING_RULES)
@settings(max_examples=400, deadline=None)
@given(texts_with_answers(), pieces)
@example(("ΟΔΟΣ'Α", ["οδος"]), "")
@example(("İstanbul", ["i\u0307stanbul"]), "")
@example(("a\x1cb", ["a b"]), "")
def test_equals_the_plain_rule(rule, case, title):
    text, wanted = case
    assert has_answer(text, wanted, rule, title) == plain(text, wanted, rule, title)


@pytest.mark.parametrize("many", [0, 1000])
@pytest.mark.parametrize("rule", ["dpr", "entityquestions"])
@settings(max_examples=300, deadline=None)
@given(texts_with_answers())
def test_few_and_many_answers_are_looked_for_alike(rule, many, case):
    text, wanted = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "MANY_ANSWERS", many)
        assert has_answer(text, wanted, rule) == plain(text, wanted, rule)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_tokens_equal_the_plain_tokens_on_ascii_and_beyond(text):
    for form in (text, unicodedata.normalize("NFD", text), text.encode("ascii", "ignore").decode()):
        assert [token.lower() for token in answers.tokens(form)] == plain_tokens(form)
        assert answers.joined(form).split() == plain_tokens(form)


def test_every_ascii_character_is_the_same_to_both_patterns():
    for code in range(128):
        char = chr(code)
        assert rules.ASCII_TOKEN.findall(char) == rules.TOKEN.findall(char)


def test_folding_sees_no_difference_that_lower_casing_takes_away():
    """The assumption of the probe holds for every character."""
    chars = [chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    assert all(char.lower().casefold() == char.casefold() for char in chars)


# Cases worked by hand


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("He was born in New York City.", "new york", True),
        ("He was born in New York City.", "york new", False),
        ("He was born in New\nYork.", "New York", True),
        ("Yorkshire", "York", False),
        ("It cost $5.50.", "$5.50", True),
        ("It cost 5 50.", "5.50", False),
        ("The U.S. team", "U.S.", True),
        ("The US team", "U.S.", False),
        ("Rock-and-roll", "rock and roll", False),
        ("O'Brien", "O’Brien", False),
    ],
)
def test_dpr_by_hand(text, answer, held):
    assert has_answer(text, [answer]) is held


@pytest.mark.parametrize("empty", ["", " ", "\n\t", "\x00", "\u200b"])
@pytest.mark.parametrize("rule", RULES)
def test_regression_an_answer_without_tokens_matches_nothing(rule, empty):
    assert not has_answer("any text at all", [empty], rule, title="any title")
    assert answer_spans("any text at all", [empty], rule) == []
    assert rule == "regex" or not has_tokens(empty)


def test_regression_composed_text_is_found_by_dpr_and_missed_by_entityquestions():
    composed = unicodedata.normalize("NFC", "in Zürich itself")
    decomposed = unicodedata.normalize("NFD", composed)
    assert composed != decomposed
    for answer in ("Zürich", unicodedata.normalize("NFD", "Zürich")):
        assert has_answer(composed, [answer]) and has_answer(decomposed, [answer])
        assert not has_answer(composed, [answer], "entityquestions")
        assert has_answer(decomposed, [answer], "entityquestions")


def test_only_rocketqa_mining_searches_the_title_and_inside_words():
    for rule in RULES:
        assert has_answer("a city", ["Paris"], rule, title="Paris") is (rule == "rocketqa_mining")
        assert has_answer("Parisian", ["Paris"], rule) is (rule in ("rocketqa_mining", "regex"))
    assert has_answer("the NewYorker", ["New York"], "rocketqa_mining")
    assert not has_answer("New", ["New York"], "rocketqa_mining", title="York")


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("she lives in PARIS", "paris", True),  # case does not count
        ("in the U.S. Navy", "u.s.", True),  # the full stops at the ends of an answer do not count
        ("the U.S today", "U.S.", True),
        ("the US today", "U.S.", False),  # those inside it do
        ("born in 1912", ". 1912 .", True),
        ("anything at all.", "...", False),  # an answer of full stops only never matches
        ("in Zürich", "Zurich", False),
        ("a New\nYork b", "New York", True),
        ("a New\u00a0York b", "New York", False),
    ],
)
def test_rocketqa_counts_neither_case_nor_outer_full_stops(text, answer, held):
    assert has_answer(text, [answer], "rocketqa_mining") is held
    assert bool(answer_spans(text, [answer], "rocketqa_mining")) is held


def test_rocketqa_on_real_pairs(real_data):
    """100,000 pairs: each question with its gold, with passages of the same article, and with random passages."""
    with lzma.open(real_data / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as file:
        next(file)
        passages = list(csv.reader(file, delimiter="\t"))
    with lzma.open(real_data / "questions.jsonl.xz", "rt", encoding="utf-8") as file:
        asked = [json.loads(line) for line in file]
    rows, articles = {row[0]: number for number, row in enumerate(passages)}, {}
    for number, row in enumerate(passages):
        articles.setdefault(row[2], []).append(number)
    draw, pairs = random.Random(0), []
    for question in asked:
        gold = [rows[id] for id in question["gold"] if id in rows]
        beside = [number for each in gold[:2] for number in articles[passages[each][2]][:3]]
        chosen = dict.fromkeys([*gold[:4], *beside, *(draw.randrange(len(passages)) for _ in range(5))])
        pairs += [(number, tuple(question["answers"])) for number in chosen]
    # Answers that end in a full stop ("Warner Bros."), with passages that write them without it.
    dotted = {question["answers"][0] for question in asked if question["answers"][0].endswith(".")}
    for answer in sorted(dotted)[:30]:
        bare = answer.strip(".")
        pairs += [(n, (answer,)) for n, row in enumerate(passages) if bare in row[1] and answer not in row[1]][:50]
    pairs = [*draw.sample(pairs, 99_000), *pairs[-1000:]]
    held = differ_by_case = differ_by_stop = 0
    for number, wanted in pairs:
        _, text, title = passages[number]
        expected = rocketqa(text, wanted, title)
        assert has_answer(text, wanted, "rocketqa_mining", title) == expected, (number, wanted)
        held += expected
        bare = "".join(text.split()) + "\n" + "".join(title.split())
        differ_by_case += expected and not any("".join(answer.split()).strip(".") in bare for answer in wanted)
        differ_by_stop += expected and not any("".join(answer.split()).lower() in bare.lower() for answer in wanted)
    assert held > 10_000 and differ_by_case > 100 and differ_by_stop > 10


def test_the_table_in_the_docs_is_what_the_rules_say():
    lines = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8").partition("## Where they differ")[2].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    named = [name.strip("`") for name in head[3:]]
    assert sorted(named) == sorted(RULES) and len(rows) > 6
    for text, title, answer, *said in rows:
        assert said == ["yes" if has_answer(text, [answer], rule, title) else "no" for rule in named], text
    assert all(len({row[3 + i] for row in rows}) == 2 for i in range(len(named)))


def test_a_matrix_of_the_rule_before_is_matched_again(tmp_path):
    from backend.core.runs import answer_matrix, write_run
    from backend.core.study import Study
    from db.records import Hits

    study = Study.create(tmp_path / "study", "s")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add_rows([("1", "", "she lives in PARIS"), ("2", "", "she lives in Rome")])
        writer.finish("test", "0")
    study.questions.add([Question("q", "Where?", ("Paris",), dataset="d", split="dev")])
    hits = Hits(np.array([[0, 1]], np.int32), np.array([[2, 1]], np.float32))
    made = write_run(study, "r", ["q"], hits, {"rule": "rocketqa_mining"}, rule="rocketqa_mining")
    assert made.rules == ["rocketqa_mining"] and made.answers("rocketqa_mining").tolist() == [[True, False]]
    # The previous version stored its matrix under this name and was case-sensitive.
    next(made.folder.glob("answers.*")).unlink()
    np.save(made.folder / "answers.rocketqa_mining.npy", np.array([[False, False]]))
    opened = study.run("r")
    with pytest.raises(Missing):
        opened.answers("rocketqa_mining")
    assert answer_matrix(study, opened).tolist() == [[True, False]]


def test_an_unknown_rule_is_refused_by_name():
    with pytest.raises(Missing, match="'exact'.*dpr"):
        has_answer("text", ["answer"], "exact")


# Patterns


@pytest.mark.parametrize(
    ("pattern", "held"),
    [(r"19\d\d", True), ("ZÜRICH", True), (r"^second", True), (r"\d{5}", False), ("(", False), ("*", False)],
)
def test_patterns(pattern, held):
    text = "Founded 1912 in " + unicodedata.normalize("NFC", "Zürich") + "\nsecond line"
    assert has_answer(text, [pattern], "regex") is held


def test_a_broken_pattern_does_not_stand_in_the_way_of_a_sound_one():
    assert has_answer("in 1912", ["(", r"\d+"], "regex")


def test_a_pattern_that_runs_away_is_given_up_for_the_run(monkeypatch, caplog):
    monkeypatch.setattr(rules, "PATTERN_SECONDS", 0.05)
    question = Question("q", "?", answers=("(a|a|aa)+c",), answer_rule="regex")
    corpus = Texts(["a" * 200 + "b"] * 500)
    assert not match_run(corpus, [question], np.arange(500).reshape(1, 500)).any()
    assert len(caplog.records) == 1 and "ignored from now on" in caplog.text


@pytest.mark.parametrize("pattern", ["((a{999}){999}){999}", "a{9999999}", "(?R)b", "(" * 5000 + ")" * 5000, "[[:"])
def test_patterns_that_would_eat_memory_or_stack_match_nothing(pattern):
    assert not has_answer("a" * 100, [pattern], "regex")


@settings(max_examples=300, deadline=None)
@given(st.text("()[]{}*+?|^$\\.,-<>=!pPL1ab é", max_size=12))
def test_no_pattern_raises(pattern):
    assert has_answer("hello ab 11", [pattern], "regex") in (True, False)


# A whole run


class Texts:
    """A minimal collection for matching, which counts how often each passage is read."""

    def __init__(self, texts):
        self.held = [Passage(str(i), f"title {i}", text) for i, text in enumerate(texts)]
        self.read = []

    def passages(self, ordinals):
        self.read += ordinals
        return [self.held[ordinal] for ordinal in ordinals]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_run_equals_one_passage_at_a_time(rule, data):
    collection = data.draw(st.lists(texts, min_size=1, max_size=8))
    asked = [
        Question(str(i), "?", answers=tuple(wanted), answer_rule=kind)
        for i, (wanted, kind) in enumerate(
            data.draw(
                st.lists(
                    st.tuples(st.lists(pieces, max_size=2), st.sampled_from(["string", "string", "regex"])), max_size=5
                )
            )
        )
    ]
    k = data.draw(st.integers(1, 5))
    row = st.lists(st.integers(-1, len(collection) - 1), min_size=k, max_size=k)
    ordinals = np.array([data.draw(row) for _ in asked], dtype=np.int32).reshape(len(asked), k)
    corpus = Texts(collection)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "BLOCK", 3)
        patch.setattr(run, "HITS_PER_BLOCK", 4)
        held = match_run(corpus, asked, ordinals, rule)
    assert held.shape == ordinals.shape and held.dtype == bool
    for (i, j), ordinal in np.ndenumerate(ordinals):
        used = "regex" if asked[i].answer_rule == "regex" else rule
        title = f"title {ordinal}"
        expected = ordinal >= 0 and has_answer(collection[ordinal], asked[i].answers, used, title)
        assert held[i, j] == expected


def test_each_distinct_passage_is_read_once_in_order_and_padding_never():
    corpus = Texts(["one two", "two three", "three four"])
    asked = [Question("a", "?", answers=("two",)), Question("b", "?", answers=("three",)), Question("c", "?")]
    held = match_run(corpus, asked, np.array([[2, 0, -1], [1, 0, 2], [0, 1, -1]]))
    assert held.tolist() == [[False, True, False], [True, False, True], [False, False, False]]
    assert corpus.read == [0, 1, 2]


def test_progress_is_told_and_may_cancel():
    corpus = Texts(["one"] * 10)
    asked, told = [Question("a", "?", answers=("one",))], []
    match_run(corpus, asked, np.arange(10).reshape(1, 10), progress=lambda *args: told.append(args))
    assert told[-1][:2] == (10, 10)

    def cancel(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        match_run(corpus, asked, np.arange(10).reshape(1, 10), progress=cancel)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 questions"):
        match_run(Texts(["a"]), [Question("a", "?"), Question("b", "?")], np.zeros((1, 3), dtype=np.int32))
    assert match_run(Texts([]), [], np.zeros((0, 5), dtype=np.int32)).shape == (0, 5)


# Several processes


@pytest.fixture(scope="module")
def awkward(tmp_path_factory):
    """(path of a corpus.db of 300 awkward texts, 60 questions, (60, 30) ordinals with padding), half of the answers cut
    from a text."""
    seeded = random.Random(7)

    def text(longest):
        return "".join(seeded.choice(AWKWARD.replace("\x00", "")) for _ in range(seeded.randrange(longest)))

    passages = [Passage(str(i), text(8), text(80)) for i in range(300)]
    asked = []
    for i in range(60):
        source = seeded.choice(passages).text
        start = seeded.randrange(len(source) + 1)
        wanted = tuple(
            seeded.choice([text(4), source[start : start + seeded.randrange(1, 6)]]) for _ in range(seeded.randrange(4))
        )
        asked.append(Question(str(i), "?", answers=wanted, answer_rule=seeded.choice(["string", "string", "regex"])))
    path = tmp_path_factory.mktemp("awkward") / "corpus.db"
    with CorpusWriter(path) as writer:
        writer.add(passages)
        writer.finish()
    return path, asked, np.random.default_rng(7).integers(-1, 300, (60, 30)).astype(np.int32)


@pytest.mark.parametrize("rule", RULES)
def test_processes_give_what_one_passage_at_a_time_gives(awkward, rule, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 7)
    monkeypatch.setattr(run, "HITS_PER_BLOCK", 20)
    monkeypatch.setattr(run, "HITS_AT_ONCE", 500)
    path, asked, ordinals = awkward
    corpus = Corpus(path)
    held = match_run(corpus, asked, ordinals, rule, processes=3)
    for (i, j), ordinal in np.ndenumerate(ordinals):
        passage = corpus.passage(ordinal) if ordinal >= 0 else None
        expected = passage and has_answer(passage.text, asked[i].answers, rules.rule_for(asked[i], rule), passage.title)
        assert held[i, j] == bool(expected)
    assert 50 < held.sum() < held.size / 2 and not children()


@settings(max_examples=5, deadline=None)
@given(st.lists(texts_with_answers(), min_size=1, max_size=20), st.sampled_from(STRING_RULES))
def test_processes_equal_this_process(cases, rule):
    cases = [(text.replace("\0", " "), wanted) for text, wanted in cases]
    asked = [Question(str(i), "?", answers=tuple(wanted)) for i, (_, wanted) in enumerate(cases)]
    with tempfile.TemporaryDirectory() as folder, CorpusWriter(Path(folder) / "corpus.db") as writer:
        writer.add(Passage(str(i), "title", text) for i, (text, _) in enumerate(cases))
        writer.finish()
        ordinals = np.tile(np.arange(len(cases)), (len(cases), 1))
        alone, together = (match_run(Corpus(writer.path), asked, ordinals, rule, processes=count) for count in (1, 2))
    np.testing.assert_array_equal(alone, together)
    assert [bool(alone[i, i]) for i in range(len(cases))] == [
        has_answer(text, wanted, rule, "title") for text, wanted in cases
    ]


def children():
    """Return the answer-matching processes, without a browser that other tests keep open."""
    return [
        each for each in psutil.Process().children(recursive=True) if "backend.text.answers.processes" in _command(each)
    ]


def _command(process):
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


@pytest.mark.parametrize("reason", [KeyboardInterrupt, SystemExit])
def test_what_progress_raises_leaves_no_process_and_no_thread(awkward, reason, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 7)
    path, asked, ordinals = awkward

    def stop(done, total, doing):
        assert 0 < done < total and len(children()) == 2
        raise reason

    threads = threading.active_count()
    with pytest.raises(reason):
        match_run(Corpus(path), asked, ordinals, progress=stop, processes=2)
    assert not children() and threading.active_count() == threads


def test_a_process_that_dies_is_told_in_one_line(awkward, monkeypatch):
    monkeypatch.setattr(run, "BLOCK", 1)
    path, asked, ordinals = awkward

    def kill(done, total, doing):
        for child in children():
            child.kill()

    with pytest.raises(Refused, match=r"worker died \(status -9\)"):
        match_run(Corpus(path), asked, ordinals, progress=kill, processes=2)
    assert not children()


def test_processes_end_with_the_one_that_started_them(awkward, tmp_path):
    """A killed process cannot stop its children itself. The script has no `__main__` guard, so the test also shows that
    none is needed.
    """
    path, asked, _ = awkward
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, numpy as np, psutil
from backend.text.answers import match_run, run
from db.corpus import Corpus
from db.records import Question
run.BLOCK = 1
def kill(done, total, doing):
    print(*[child.pid for child in psutil.Process().children()], flush=True)
    os.kill(os.getpid(), 9)
match_run(Corpus({str(path)!r}), [Question("a", "?", answers=("e",))], np.arange(300).reshape(1, 300), progress=kill, processes=2)
""")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert done.returncode == -9 and len(pids) == 2
    for _ in range(100):
        if not any(psutil.pid_exists(pid) for pid in pids):
            break
        time.sleep(0.1)
    assert not [pid for pid in pids if psutil.pid_exists(pid)]


def test_an_ordinal_outside_the_collection(awkward):
    path, asked, _ = awkward
    for count in (1, 2):
        with pytest.raises(Missing, match="no passage number 300"):
            match_run(Corpus(path), asked[:1], np.array([[0, 300]]), processes=count)


def test_when_processes_are_started(awkward, monkeypatch):
    path, asked, ordinals = awkward
    counts = []

    class Counted(MatcherPool):
        def __init__(self, corpus, asked, count):
            counts.append((asked.rule, count))
            super().__init__(corpus, asked, count)

    monkeypatch.setattr("backend.text.answers.processes.MatcherPool", Counted)
    monkeypatch.setattr(run.os, "sched_getaffinity", lambda process: set(range(4)), raising=False)
    match_run(Corpus(path), asked, ordinals)
    assert not counts  # the run is too small
    monkeypatch.setattr(run, "HITS_PER_PROCESS", 1)
    match_run(Corpus(path), asked, ordinals)
    assert counts == [("dpr", 4)]  # not for patterns
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    match_run(Corpus(path), asked, ordinals, "entityquestions")
    assert counts[1:] == [("entityquestions", 2)]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    match_run(Corpus(path), asked, ordinals)
    match_run(Texts(["a"] * 300), asked, ordinals)
    assert len(counts) == 2


# Spans


@settings(max_examples=400, deadline=None)
@given(texts)
def test_decomposing_character_by_character_is_nfd(text):
    normalised = Normalised.nfd(text)
    assert normalised.text == unicodedata.normalize("NFD", text)
    if normalised.source is not None:
        assert sorted(set(normalised.source)) == list(range(len(text)))


@pytest.mark.parametrize("rule", STRING_RULES)
@settings(max_examples=300, deadline=None)
@given(texts_with_answers())
def test_spans_are_where_the_answer_is(rule, case):
    text, wanted = case
    spans = answer_spans(text, wanted, rule)
    assert bool(spans) == has_answer(text, wanted, rule)
    assert spans == sorted(spans) and all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    for start, end in spans:
        assert 0 <= start < end <= len(text)
        assert has_answer(text[start:end], wanted, rule)


def test_spans_speak_of_the_original_text():
    text = unicodedata.normalize("NFC", "Früh in Zürich, später Zu\u0308rich und ZÜRICH")
    assert [text[a:b] for a, b in answer_spans(text, ["zürich"])] == ["Zürich", "Zürich", "ZÜRICH"]
    mixed = "Café in Zu\u0308rich"
    assert [mixed[a:b] for a, b in answer_spans(mixed, ["Zürich", "café"])] == ["Café", "Zu\u0308rich"]
    reordered = "xe\u0301\u0323x e\u0301\u0323 y"  # NFD puts the dot below before the acute
    assert answer_spans(reordered, ["e\u0323\u0301"]) == [(6, 9)]
    assert answer_spans("New  York, new york", ["New York"]) == [(0, 9), (11, 19)]
    assert answer_spans("the New Yorker", ["NewYork"], "rocketqa_mining") == [(4, 12)]
    assert answer_spans("Iİ NEW york.", ["new york", "i\u0307n"], "rocketqa_mining") == [(1, 11)]
    assert answer_spans("in 1912 and 1913", [r"\d{4}", r"x*"], "regex") == [(3, 7), (12, 16)]


def test_overlapping_answers_are_one_span():
    assert answer_spans("New York City", ["New York", "York City"]) == [(0, 13)]
    assert merged([(5, 7), (0, 3), (2, 4), (5, 7), (7, 9)]) == [(0, 4), (5, 7), (7, 9)]


def test_query_words_without_stop_words():
    text = "Where Ada Lovelace was born: ADA's birthplace, London"
    assert [text[a:b] for a, b in query_spans(text, "Where was Ada Lovelace born?")] == [
        "Ada",
        "Lovelace",
        "born",
        "ADA",
    ]
    assert query_spans("was it?", "Where was it?") == []


@settings(max_examples=200, deadline=None)
@given(texts, texts)
def test_query_spans_stay_inside_the_text(text, question):
    for start, end in query_spans(text, question):
        assert 0 <= start < end <= len(text)


def test_a_text_is_tokenised_once_for_its_answers_and_its_question_words():
    text = "Oslo is a harbour. " * 20
    before = rules._kept_words.cache_info().misses
    for rule in ("dpr", "entityquestions"):
        assert answer_spans(text, ["Oslo"], rule)[0] == (0, 4)
    assert query_spans(text, "Where is the harbour?")[0] == (10, 17)
    assert rules._kept_words.cache_info().misses == before + 1

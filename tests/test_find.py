"""Full-text search in passages, questions and notes: what is found, what is marked, who may see which notes."""

from __future__ import annotations

import json
import re
import shutil
from urllib.parse import parse_qs, quote_plus, urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.app.components.found_texts import one_line
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import full_text
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.full_text import find
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.questions import Questions
from blindspot.db.queue import Candidate, Item, Queue
from blindspot.db.records import Hits, Passage, Question
from tests.app_pages import HOSTILE, Page, hand_made_study
from tests.indexes import bm25_of
from tests.studies import make_study


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """Notes of two annotators on questions q0 and q1; q1 still waits for ann in an open batch."""
    study = hand_made_study(tmp_path_factory.mktemp("find") / "study")
    people = People(study.labels_path)
    for name, role in (("ann", "annotator"), ("ben", "annotator"), ("lea", "lead")):
        people.add(name, role)
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    store.add("ann", LabelEvent("n1", "note", "q0", note="The date of birth is missing here"))
    store.add("ben", LabelEvent("n2", "note", "q0", (Choice("answer0"),), note=f"A date, but {HOSTILE}"))
    store.add("ben", LabelEvent("n3", "note", "q1", note="Another date of mine"))
    store.add("ben", LabelEvent("n4", "note", "q2", note="A date that I took back"))
    store.add("ben", LabelEvent("u4", "undo", "q2", undoes="n4"))
    Queue(study.labels_path).add_batch("first", [Item("q1", (Candidate("filler1"),))], {})
    return study


def ids(result) -> list[str]:
    return [each.id for each in result.results]


def marked(each) -> list[str]:
    return [piece for piece, kind in each.excerpt if kind == "word"]


def test_passages_come_in_the_order_of_bm25_where_it_is_indexed(indexed_study):
    query = "weaver from Oslo"
    result = find(indexed_study, query, "passages", limit=5)
    rows = BM25(indexed_study).search([query], 5).ordinals[0]
    assert ids(result) == [each.id for each in indexed_study.corpus.passages(rows[rows >= 0])]
    assert result.has_more and "by BM25" in result.method_note and result.counts.all_words == 0
    assert {word.lower() for each in result.results for word in marked(each)} <= {"weaver", "oslo"}


def test_passages_with_the_words_as_written_come_first_and_only_those_with_all_are_counted(tmp_path):
    """BM25 ranks a short passage with a word twice above a long one with both."""
    passages = [
        Passage("one", "Paul Newman", "Newman, Newman, Newman."),
        Passage("all", "Others", f"Newman and later Ernest played here. {'filler ' * 300}"),
        Passage("as written", "Critics", f"{'filler ' * 400} Then came Ernest  newman of the Times."),
    ]
    study = make_study(tmp_path / "study", passages, [])
    bm25_of(study)
    result = find(study, "Ernest Newman", "passages")
    assert ids(result) == ["as written", "all", "one"]
    assert result.counts == full_text.RankedCounts(3, is_all=True, as_written=1, all_words=2)
    assert [piece for piece, kind in result.results[0].text if kind] == ["Ernest", "newman"], (
        "the whole text is marked too"
    )
    page = Page(study.folder, "find", words="Ernest Newman")
    assert (
        "1 passage has “Ernest Newman”, 1 more has all of its words." in page.text
        and "then those with some" in page.text
    )
    told = Page(study.folder, "find", words="Newman Ernestine").text
    assert "No passage has all of the words of “Newman Ernestine”; the closest are below" in told
    told = Page(study.folder, "find", words="the").text
    assert "2 passages have “the”" in told and "BM25 ranks none (it leaves out the most frequent English words)" in told
    short = Page(study.folder, "find", words="Ernest")
    assert short.html.count("<details") == 2, "an excerpt that is the whole passage does not offer more"
    empty = Page(study.folder, "find", words="zzqqxx")
    assert "No passage has “zzqqxx”" in empty.text and "<table" not in empty.html
    assert "They were looked for in all passages, also inside other words." in empty.text
    assert "in the order of the collection" not in empty.text, "there is no list to explain"
    (excerpt,) = (each.excerpt for each in result.results[:1])
    assert "".join(piece for piece, _ in one_line(excerpt)).endswith("Ernest  newman of the Times.")


def test_counts_say_of_how_many_passages_they_are_and_count_whole_words(tmp_path):
    passages = [Passage(f"p{n}", "Art", "On art." if n < 4 else "A party on art's.") for n in range(130)]
    study = make_study(tmp_path / "study", passages, [])
    bm25_of(study)
    counts = find(study, "art", "passages").counts
    assert (counts.ranked, counts.is_all) == (100, False)
    assert counts.as_written == 100
    assert "All 100 passages that BM25 ranks first have “art”" in Page(study.folder, "find", words="art").text
    assert [full_text._fit("Harold Holt · Harold Edward", each) for each in ("Holt, Harold", "“Harold Holt”")] == [1, 0]
    assert full_text._fit("see Holt, Harold", "Holt, Harold") == 0
    assert [full_text._fit(text, "art on") for text in ("party on art", "a party on", "Art  ON")] == [1, 2, 0]


def test_words_in_quotation_marks_are_found_as_written_only(tmp_path):
    passages = [
        Passage("a", "Holt", "Harold Holt was prime minister."),
        Passage("b", "Other", "Holt succeeded Harold Wilson."),
        Passage("c", "Third", "Harold was there. It was the minister of a Holt."),
    ]
    questions = [Question("q1", "Who wrote Harold Holt?"), Question("q2", "Did Holt meet Harold?")]
    study = make_study(tmp_path / "study", passages, questions)
    bm25_of(study)
    assert len(ids(find(study, "Harold Holt", "passages"))) == 3
    for query in ('"Harold Holt"', "“harold  holt”", '"Harold Holt" minister', 'minister "Harold Holt"'):
        assert ids(find(study, query, "passages")) == ["a"], query
    assert ids(find(study, '"was the"', "passages")) == ["c"], "BM25 does not know these words; they are read"
    assert ids(find(study, '"Harold Holt"', "questions")) == ["q1"]
    assert sorted(ids(find(study, "Harold Holt", "questions"))) == ["q1", "q2"]
    assert full_text.terms('5" of "Harold Holt," and') == ["5", "of", "Harold Holt", "and"]
    page = Page(study.folder, "find", words='"Harold Holt"')
    assert "1 passage has “Harold Holt”." in page.text and "only some of the words" not in page.text
    assert "No passage has “Holt Harold”." in Page(study.folder, "find", words='"Holt Harold"').text


def test_questions_that_a_run_searched_come_first_with_the_names_of_the_runs(study, tmp_path):
    study = Study.open(shutil.copytree(study.folder, tmp_path / "copy"))
    questions = [Question("unsearched", "Where is thing 1 not?", dataset="other", split="train")]
    study.questions.add(questions)
    found = find(study, "where thing 1", "questions").results
    searched = {name: set(study.run(name).question_ids) for name in study.runs()}
    assert found[-1].id == "unsearched" and found[-1].runs == () and len(found) > 1
    for each in found:
        assert set(each.runs) == {name for name, of_run in searched.items() if each.id in of_run}
    text = Page(study.folder, "find", words="where thing 1", place="questions").text
    assert "unsearched · other, train · searched by no run" in text


def test_without_an_index_all_words_must_be_there_in_any_case(study):
    result = find(study, "TOWN ansver3", "passages")
    assert ids(result) == ["answer3"] and "no BM25 index" in result.method_note
    assert marked(result.results[0])[0] == "Ansver3"
    assert ids(find(study, "nothing number", "passages", limit=3)) == ["filler0", "filler1", "filler2"]
    assert find(study, "nothing number", "passages", limit=3).has_more
    assert ids(find(study, "100% sure", "passages")) == ids(find(study, "n_mber", "passages")) == []


def test_letters_beyond_ascii_are_found_in_any_case(tmp_path):
    passages = [Passage("a", "Ålesund", "Die ÖLMÜHLE steht in Ærø."), Passage("b", "Aarhus", "Nothing.")]
    study = make_study(tmp_path / "study", passages, [Question("q", "Hvor ligger Ålesund?")])
    assert ids(find(study, "ålesund ölmühle", "passages")) == ["a"] and ids(find(study, "ærø", "passages")) == ["a"]
    assert ids(find(study, "ÅLESUND", "questions")) == ["q"]


def test_a_large_collection_is_searched_up_to_a_stated_limit(study, monkeypatch):
    monkeypatch.setattr(full_text, "ROWS_SCANNED", 8)
    result = find(study, "nothing", "passages")
    assert ids(result) == ["filler0"] and "only the first 8 of 37 were searched" in result.method_note


def test_whoever_still_has_to_judge_gets_no_ranks(indexed_study):
    result = find(indexed_study, "Oslo", "passages", limit=4, hidden_questions={"q"})
    rows = list(indexed_study.corpus.ordinals(ids(result)).values())
    assert rows == sorted(rows) and "you still have questions to judge" in result.method_note


def test_questions_are_found_by_their_words(study):
    assert ids(find(study, "where 3?", "questions")) == ["q3"]
    result = find(study, "thing", "questions", limit=2)
    assert ids(result) == ["q0", "q1"] and result.has_more and result.total == 6
    assert ids(find(study, "hing", "questions")) == [], "words are whole words"
    assert find(study, "“THING”, where", "questions").total == 6, "marks at the ends of words are not looked for"


def test_gold_that_a_run_did_not_search_for_is_said_and_its_question_is_no_dead_end(tmp_path):
    passages = [Passage(f"p{n}", f"Place {n}", "Nothing here.") for n in range(4)]
    asked = Question("q1", "where is it?", split="dev", answers=("there",))
    other = Question("q2", "where was Ada born?", split="train", gold=("p0",), answers=("there",))
    study = make_study(tmp_path / "study", passages, [asked, other])
    for name in ("a", "b"):
        hits = Hits(np.array([[0, 1]], np.int32), np.array([[2.0, 1.0]], np.float32))
        write_run(study, name, ["q1"], hits, {"retriever": name})
    page = Page(study.folder, "find", words="Place 0")
    assert "where was Ada born? (not searched by " in page.text and "question?question=q2" in page.links()
    told = Page(study.folder, "question", question="q2")
    assert "where was Ada born?" in told.part("<h1.*?</h1>")
    assert "Neither a nor b searched for this train question." in told.text and "Place 0" in told.text


@pytest.mark.parametrize("query, limit, said", [
    ("  ", 20, "between 1 and 200 characters"),
    (', "', 20, "a letter or a digit"),
    ("x" * 201, 20, "between 1 and 200 characters"),
    ("x", 0, "between 1 and 100 results"),
    ("x", 101, "between 1 and 100 results"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(study, query, limit, said):
    with pytest.raises(BadInput, match=said):
        find(study, query, "questions", limit)


def test_notes_are_found_newest_first_without_undone_ones(study):
    result = find(study, "date", "notes")
    assert [(each.id, each.title, each.passage) for each in result.results] == [
        ("q1", "ben", None), ("q0", "ben", "answer0"), ("q0", "ann", None),
    ]  # fmt: skip
    assert ids(find(study, "date", "notes", hidden_questions={"q1"})) == ["q0", "q0"]
    assert [each.title for each in find(study, "date", "notes", annotator="ann").results] == ["ann"]


def test_in_the_app_an_annotator_finds_their_own_notes(study):
    own = Page(study.folder, "find", "ann", words="date", place="notes")
    assert "ann on the question of question q0" in own.text and "ben" not in own.part("<ol.*?</ol>")[0]
    everybody = Page(study.folder, "find", "lea", words="date", place="notes")
    assert "ben on passage answer0 of question q0" in everybody.text
    unnamed = Page(study.folder, "find", words="date", place="notes")
    assert "ben" not in "".join(unnamed.part("<ol.*?</ol>")), "notes are not offered before sign-in"


def test_the_page_begins_with_its_title_examples_and_the_passages_that_are_retrieved_most(study):
    page = Page(study.folder, "find", "lea", run="alpha")
    assert page.html.index("<h1") < page.html.index("For example:") < page.html.index('<table class="found"')
    subject = study.questions.get(study.run("alpha").question_ids[0]).subject
    assert f"find?words={quote_plus(subject)}" in page.links(), "an example is a subject of the run's questions"
    hits = np.asarray(study.run("alpha").hits.ordinals[:, :20])
    rows, counts = np.unique(hits[hits >= 0], return_counts=True)
    ids = re.findall(r'<span class="soft id">(.*?)</span>', page.html)
    shown = study.corpus.ordinals(ids)
    kept = dict(zip(rows.tolist(), counts.tolist(), strict=True))
    assert page.part("<h2.*?</h2>") == ["The 10 passages that alpha retrieves for the most questions"]
    assert "data-to-search" in page.html
    most = shown[ids[0]]
    (title,) = [each.title for each in study.corpus.passages([most])]
    gold = len(study.questions.questions_by_gold([each.id for each in study.corpus.passages([most])]))
    assert not gold and page.part("<h1.*?</h1>") == [
        f"{title} is in alpha's top {hits.shape[1]} for {kept[most]} of {quantity(len(hits), 'question')} "
        "and is gold for none"
    ]
    row = page.part("<tbody><tr>.*?</tr>")[0]
    assert f"{kept[most]} questions" in row and "none" in row and "wide" not in row, (
        "nothing is hidden where it is narrow"
    )
    assert 'class="quiet find here"' in page.html and 'aria-current="page">Find<' in page.html
    assert [kept[shown[id]] for id in ids] == sorted(counts.tolist(), reverse=True)[:10]
    more = Page(study.folder, "find", "lea", run="alpha", show="20")
    assert "show=20" in " ".join(page.links()) and more.part("<h2.*?</h2>")[0].startswith("The 20 passages")
    told = Page(study.folder, "find", "ann", run="alpha").part('<table class="found".*?</table>')[0]
    assert study.questions.get("q1").text not in told, "ann still has to judge this question"


def test_the_title_says_how_many_passages_a_run_retrieves(study):
    page = Page(study.folder, "find", "lea", words="filler", run="beta")
    (title,) = page.part("<h1.*?</h1>")
    nowhere = page.html.count('<td class="left retrieved soft">no question</td>')
    retrieved = page.html.count("<b>") - nowhere
    assert nowhere, "a passage that the run does not retrieve says so"
    told = Page(study.folder, "find", "ann", words="filler", run="beta").text
    assert "no question outside your open batches" in told, "q1 is left out for ann"
    assert title == "More than 20 passages have “filler”."
    assert f"beta ranks {retrieved or 'none'} of the first 20 in its top 15 for " in page.text


def test_a_number_of_questions_is_a_link_that_lists_them_all_and_back_finds_them_open(study):
    address = next(each for each in Page(study.folder, "find", "lea", run="alpha").links() if "passage=" in each)
    chosen = parse_qs(urlsplit(address).query)["passage"][0]
    page = Page(study.folder, "find", "lea", run="alpha", passage=chosen)
    (listed,) = re.findall('<tr class="opened">.*?</tr>', page.html, re.DOTALL)
    run = study.run("alpha")
    retrieved = [
        id
        for id, hits in zip(run.question_ids, run.hits.ordinals, strict=True)
        if study.corpus.ordinals([chosen])[chosen] in hits[:20].tolist()
    ]
    assert sorted(re.findall(r"question=(\w+)&amp;a=alpha", listed)) == sorted(retrieved) and len(retrieved) > 1
    assert 'aria-expanded="true"' in page.html and "find?run=alpha" in page.links(), "the same link closes the list"


def test_an_excerpt_that_begins_within_a_sentence_begins_with_an_ellipsis(tmp_path):
    passages = [Passage("a", "Oslo", "was the first weaver of Oslo."), Passage("b", "Oslo", "The second weaver.")]
    study = make_study(tmp_path / "study", passages, [Question("q", "where is the weaver from?")])
    firsts = {each.id: each.excerpt[0][0] for each in find(study, "weaver", "passages").results}
    assert firsts["a"] == "… " and firsts["b"].startswith("The")
    assert find(study, "where", "questions").results[0].excerpt[0][0] != "… ", "a question in small letters is whole"


def test_the_page_escapes_what_it_shows_and_links_to_questions(study):
    page = Page(study.folder, "find", words="ansver6 before")
    assert HOSTILE in page.text and "<script>" not in page.html and "<img" not in page.html
    assert '<mark class="word">Before</mark>' in page.html
    assert "question?question=q6" in page.links(), "the question whose gold the passage is"
    assert "1 passage has all of the words of “ansver6 before”" in page.text, "the answer is the title"
    assert "Find a question" in Page(study.folder, "find", place="questions").text
    assert "No question has “nowhere”" in Page(study.folder, "find", words="nowhere", place="questions").text
    assert 'data-key="/"' in page.html, "the key / leads here from every page"


def test_an_excerpt_is_one_line_that_ends_with_a_word():
    pieces = [
        ("He wrote a long and rather tedious account of the ", ""),
        ("Ansver", "word"),
        (" and of it all" * 20, ""),
    ]
    line = one_line(pieces)
    assert (
        line[0][0].startswith("… ")
        and line[1] == ("Ansver", "word")
        and line[2][0].endswith((" and …", " of …", " it …", " all …"))
    )
    assert sum(len(piece) for piece, _ in line) < 120
    assert one_line([("Short.", "")]) == [("Short.", "")]


def test_the_gold_of_a_passage_is_known(study):
    found = Questions(study.labels_path).questions_by_gold(["answer0", "filler29", "filler1"])
    assert {passage: [id for id, _ in questions] for passage, questions in found.items()} == {
        "answer0": ["q0"],
        "filler29": ["q4"],
    }


def test_the_command_prints_what_it_found(study):
    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["find", *words, "--study", str(study.folder)])
        assert done.exit_code == 0, done.output
        return done.stdout

    printed = run("ansver2")
    assert "answer2  Town 2" in printed and "The answer here is Ansver2" in printed
    found = json.loads(run("thing 4", "--in", "questions", "--json"))
    assert [each["id"] for each in found["items"]] == ["q4"]
    assert "There are more; give --limit" in run("thing", "--in", "questions", "--limit", "1")
    assert CliRunner().invoke(app, ["find", "x", "--in", "labels", "--study", str(study.folder)]).exit_code == 2

"""Why a run missed, by intervention: each edit, the rank after it, and the job over a run's misses."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.backend.interventions.batch import NONE, cause_counts, explain_misses
from blindspot.backend.interventions.edits import EDITS, MissedQuestion, changed_tokens, edited, renamed, size
from blindspot.backend.interventions.misses import Wordings
from blindspot.backend.interventions.searching import Attempt, ranks
from blindspot.backend.interventions.sentences import answer_sentence, sentences
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Passage, Question

TEXT = "She kept bees in J. K. Lane. The coast is near. In Oslo she came into the world. Little else is known."
BORN = Question(
    "q",
    "Where was Ada Holm born?",
    ("Oslo",),
    relation="P19",
    subject="Ada Holm",
    frequency=2,
    split="dev",
    gold=("g",),
)


def miss(text=TEXT, title="Ada Holm", question=BORN, **more):
    return MissedQuestion(question, Passage("g", title, text), **more)


def after(name, missed):
    return EDITS[name].apply(missed)


def test_a_text_is_split_into_sentences_but_not_after_initials():
    assert sentences(TEXT) == [
        "She kept bees in J. K. Lane.",
        "The coast is near.",
        "In Oslo she came into the world.",
        "Little else is known.",
    ]
    parts = sentences('He said "Go!" Then Dr. Holm left. 3 came.')
    assert parts == ['He said "Go!"', "Then Dr. Holm left.", "3 came."]
    assert answer_sentence(["Oslo is big.", "He was born in Oslo."], BORN.text, ["Oslo"], "dpr") == 1
    assert answer_sentence(["Rome is big."], BORN.text, ["Oslo"], "dpr") is None


def test_the_answers_sentence_moves_first():
    moved = after("move_first", miss())
    assert moved.passage.text.startswith("In Oslo she came into the world. She kept bees")
    assert sorted(moved.passage.text.split()) == sorted(TEXT.split()) and moved.changed == 7
    assert after("move_first", miss("Oslo is her town. She kept bees.")) is None
    assert after("move_first", miss("She kept bees. Rome is her town.")) is None


def test_the_answers_sentence_is_said_in_the_questions_words():
    put = after("put_words_in", miss())
    assert put.passage.text == TEXT.replace("In Oslo she came into the world.", "Where was Ada Holm born? Oslo.")
    assert put.changed == 7
    assert after("put_words_in", miss("Ada Holm was born in Oslo.")) is None
    # The words of a roundabout question are not the passage's to have, if training asks more plainly.
    odd = Question("q", "Whither leads the cradle of Ada Holm?", ("Oslo",), subject="Ada Holm")
    assert after("put_words_in", miss("Ada Holm was born in Oslo.", question=odd, plain=BORN.text)) is None


def test_the_subject_is_named_in_the_answers_sentence():
    named = after("name_subject", miss("He left. His cradle stood in Oslo."))
    assert named.passage.text == "He left. Ada Holm's cradle stood in Oslo."
    assert after("name_subject", miss("Ada Holm was born in Oslo.")) is None
    assert "Ada Holm: In Oslo" in after("name_subject", miss()).passage.text


def test_the_passage_gets_the_subjects_title():
    own = after("give_own_title", miss("Eva Berg sang. Berg met Ada Holm in Oslo.", "Eva Berg"))
    assert own.passage.title == "Ada Holm" and own.passage.text == "Ada Holm sang. Holm met Ada Holm in Oslo."
    assert own.changed == 5
    assert after("give_own_title", miss(title="Ada Holm (painter)")) is None


def test_the_question_is_asked_in_the_words_of_training():
    odd = Question("q", "Whither leads the cradle of Ada Holm?", ("Oslo",), subject="Ada Holm")
    asked = after("ask_plainly", miss(question=odd, plain=BORN.text))
    assert asked.question == BORN.text and asked.passage.text == TEXT
    assert (
        after("ask_plainly", miss(plain="where was Ada Holm born ?")) is None and after("ask_plainly", miss()) is None
    )


def test_the_subject_gets_a_frequent_name_in_question_and_passage_alike():
    above = ((3, Passage("3", "Ada Holm", "Ada Holm sang.")), (4, Passage("4", "Ada Berg", "")))
    new = after("rename_subject", miss("Holm is from Oslo, where ADA HOLM sang.", above=above, stand_in="Eva Lind"))
    assert new.question == "Where was Eva Lind born?" and new.passage.title == "Eva Lind"
    assert new.passage.text == "Lind is from Oslo, where Eva Lind sang."
    assert new.still_above == {3} and new.ignored == "Eva Lind"
    assert after("rename_subject", miss()) is None
    assert renamed("Malholm and Holm", "Ada Holm", "Eva Lind") == "Malholm and Lind"


def test_namesakes_above_are_removed_and_answering_passages_are_relabelled():
    above = (
        (3, Passage("3", "Ada Berg", "Ada Berg was born in Rome.")),
        (4, Passage("4", "Ada Holm", "She kept bees.")),
        (5, Passage("5", "Oslo", "Ada Holm was born in Oslo.")),
        (6, Passage("6", "Bergen", "Eva was born in Oslo.")),
    )
    assert after("remove_namesakes", miss(above=above)).removed == {3}
    assert after("relabel", miss(above=above)).removed == {5}
    assert after("remove_namesakes", miss(above=above[1:])) is None and after("relabel", miss(above=above[:2])) is None


def test_everything_but_the_answers_sentence_is_cut():
    assert after("keep_sentence", miss()).passage.text == "Ada Holm: In Oslo she came into the world."
    assert after("keep_sentence", miss("In Oslo.")) is None


def test_edits_are_ordered_by_the_share_of_tokens_that_they_change():
    above = ((3, Passage("3", "Ada Berg", "")),)
    missed = miss(title="Bergen", above=above)
    order = list(edited(missed))
    sizes = [size(missed, each) for each in edited(missed).values()]
    assert order[0] == "remove_namesakes" and order[-1] == "keep_sentence" and sizes == sorted(sizes)
    assert sizes[0] == 0 and 0 < sizes[1] < sizes[-1] < 1
    assert changed_tokens("a b c".split(), "a x c d".split()) == 2


def test_patterns_and_stand_ins_come_from_the_studys_questions():
    def question(number, subject, mentions, text="Where was {} born?", split="train"):
        return Question(
            str(number), text.format(subject), relation="P19", subject=subject, frequency=mentions, split=split
        )

    known = Wordings.of(
        [
            question(1, "Ada Berg", 900),
            question(2, "Eva Lind", 300),
            question(3, "Ola Nord", 40),
            question(4, "Ida Vik", 5, "Whence came {}?"),
            question(5, "Per Vik", 5, "Whence came {}?", "dev"),
            question(6, "Per Vik", 5, "Whence came {}?", "dev"),
        ]
    )
    assert known.plain(BORN) == "Where was Ada Holm born?"
    assert known.stand_in(BORN) == "Eva Lind"  # Ada Berg shares a name with Ada Holm
    assert known.stand_in(question(7, "Ida Lund", 50)) == "Ada Berg"
    assert known.stand_in(question(7, "Ida Lund", 91)) is None  # not ten times as frequent
    assert known.plain(Question("8", "Who?", subject="Ada")) is None


@pytest.mark.parametrize("similarity", ["dot", "l2"])
def test_ranks_equal_a_plain_sort(similarity, monkeypatch):
    from blindspot.backend.interventions import searching

    monkeypatch.setattr(searching, "ROWS_PER_BLOCK", 7)
    random = np.random.default_rng(0)
    vectors = random.normal(size=(40, 8)).astype(np.float16)
    questions = random.normal(size=(3, 8)).astype(np.float32)
    attempts = [
        Attempt(0, vectors[5], [5]),
        Attempt(2, random.normal(size=8).astype(np.float16), [1, 2, 39, 2]),
        Attempt(1, questions[1].astype(np.float16), [], above=4),
        Attempt(0, np.zeros(8, np.float16), range(40)),
    ]
    found = ranks(vectors, questions, attempts, similarity)
    for attempt, rank in zip(attempts, found, strict=True):
        rows = np.array([row for row in range(40) if row not in set(attempt.without)], int)
        others, query = vectors[rows].astype(np.float64), questions[attempt.question].astype(np.float64)
        own = attempt.passage.astype(np.float64)
        if similarity == "dot":
            above = others @ query > own @ query
        else:
            above = ((others - query) ** 2).sum(1) < ((own - query) ** 2).sum()
        assert rank == 1 + attempt.above + above.sum()
    assert not len(ranks(vectors, questions, [], similarity))


@pytest.fixture(scope="module")
def missing(tmp_path_factory, indexed_study):
    """The tiny study with a run of its random encoder, which misses a lot."""
    from blindspot.backend.core.copying import copy_study
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.retrieve import retrieve

    study = Study.open(copy_study(indexed_study, tmp_path_factory.mktemp("missing") / "study").folder)
    retrieve(study, "dense", k=60, encoder="tiny", name="tiny", device="cpu")
    retrieve(study, "bm25", k=60, name="bm25")
    return study


def test_the_misses_of_a_run_are_explained_and_ranks_are_computed_once(missing, monkeypatch):
    from blindspot.backend.retrieval.encoder import Encoder

    result = explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    assert 0 < result["explained"] == min(10, result["missed"])
    gold = {each.id: missing.corpus.ordinals(each.gold) for each in missing.questions.all()}
    run = missing.run("tiny")
    for row in result["questions"]:
        hits = run.hits.ordinals[run.row(row["id"])].tolist()
        place = (
            hits.index(next(iter(gold[row["id"]].values()))) + 1 if set(gold[row["id"]].values()) & set(hits) else None
        )
        assert row["rank"] > 3 and place in (None, row["rank"])
        mending = [name for name, each in row["edits"].items() if each["rank"] <= 3]
        assert row["edit"] == (mending[0] if mending else None)
        assert row["cause"] == (EDITS[mending[0]].cause if mending else NONE)

    monkeypatch.setattr(Encoder, "encode_passages", lambda *_: pytest.fail("a known rank was computed again"))
    again = explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    assert again == result
    counts = cause_counts(result)
    assert sum(round(each.smallest.value * each.smallest.n) for each in counts) == result["explained"]
    assert counts[-1].cause == NONE and all(each.smallest.n == result["explained"] for each in counts)


def test_a_job_out_of_time_keeps_the_misses_that_it_explained(missing, monkeypatch):
    monkeypatch.setattr("blindspot.backend.interventions.explaining.PER_BLOCK", 2)
    reports = []
    result = explain_misses(
        missing, "tiny", k=3, limit=10, minutes=1e-9, device="cpu", progress=lambda *each: reports.append(each)
    )
    assert result["explained"] == 2 == len(result["questions"]) and reports[-1][:2] == (2, 10)


def test_misses_of_one_run_that_another_finds_and_of_a_slice(missing):
    run, bm25 = missing.run("tiny"), missing.run("bm25")
    result = explain_misses(missing, "tiny", k=3, found_by="bm25", limit=100, device="cpu")
    gold = {each.id: set(missing.corpus.ordinals(each.gold).values()) for each in missing.questions.all()}
    expected = {
        id
        for id in run.question_ids
        if gold[id]
        and not gold[id] & set(run.hits.ordinals[run.row(id)][:3].tolist())
        and gold[id] & set(bm25.hits.ordinals[bm25.row(id)][:3].tolist())
    }
    assert {row["id"] for row in result["questions"]} == expected and result["missed"] == len(expected)
    with pytest.raises(Missing, match="misses none of these questions at k = 3"):
        explain_misses(missing, "tiny", k=3, where="relation:P36", device="cpu")


def test_wrong_input_gets_one_line(missing):
    with pytest.raises(BadInput, match="name a dense run"):
        explain_misses(missing, "bm25")
    with pytest.raises(BadInput, match="k must be from 1 to 60"):
        explain_misses(missing, "tiny", k=10_000)
    with pytest.raises(BadInput, match="--minutes above 0"):
        explain_misses(missing, "tiny", minutes=float("nan"))
    with pytest.raises(Missing):
        explain_misses(missing, "nothing")


def test_the_command_prints_the_table_with_n(missing):
    from blindspot.app.cli import app

    arguments = ["why", "tiny", "--k", "3", "--misses", "10", "--study", str(missing.folder)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0 and "n = 10: 10 of " in shown.output and NONE in shown.output
    result = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert result["explained"] == 10 and result["causes"][-1]["cause"] == NONE


def test_question_tries_the_edits_live_and_escapes_the_edited_texts(missing):
    from tests.app_pages import Page

    result = explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    row = next(row for row in result["questions"] if row["edits"])
    page = Page(missing.folder, "question", a="tiny", b="bm25", question=row["id"], why=1, k=3)
    assert "Try edits of the gold passage and the question" in page.text and "rank after" not in page.text
    page = Page(missing.folder, "question", a="tiny", b="bm25", question=row["id"], why=1, edits=1, k=3)
    assert f"is at rank {row['rank']:,}" in page.text and "What would bring the gold passage into the top" in page.text
    for name, each in row["edits"].items():
        assert f"{EDITS[name].does} {100 * each['size']:.0f}% {each['rank']:,} " in page.text


def test_edited_texts_are_escaped():
    from blindspot.app.components.edits import _table
    from blindspot.backend.interventions.explaining import ExplainedMiss, TriedEdit

    hostile = "<script>alert(1)</script>"
    tried = TriedEdit("move_first", 1, 0.1, hostile, hostile, hostile, 0)
    shown = str(_table(ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (tried,)), 3))
    assert "<script>" not in shown and shown.count("&lt;script&gt;") == 3


def test_the_report_has_the_table_until_the_run_changes(missing):
    from blindspot.backend.reports.interventions import intervention_parts

    explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    shown = "".join(intervention_parts(missing, ["tiny"]))
    assert "Causes of the misses of tiny at 3, by intervention" in shown and "n = 10" in shown
    assert not list(intervention_parts(missing, ["bm25"]))

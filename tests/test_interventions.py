"""Why a run missed, by intervention: each edit, the rank after it, and the job over a run's misses."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.backend.interventions.batch import NONE, SHARED_WITH_PLACEBO, cause_counts, explain_misses
from blindspot.backend.interventions.edit_ranks import EditRanks
from blindspot.backend.interventions.edits import (
    DOUBT,
    EDITS,
    MissedQuestion,
    NeighbouringPieces,
    Placebo,
    applicable_edits,
    changed_tokens,
    cut_off_pieces,
    edit_pairs,
    other_statements,
    replace_name,
)
from blindspot.backend.interventions.explaining import FEW_PLACEBOS, ExplainedMiss, MissExplainer, TriedEdit
from blindspot.backend.interventions.misses import Wordings
from blindspot.backend.interventions.placebos import PLACEBOS, edited_placebos, placebos
from blindspot.backend.interventions.searching import Attempt, PassageRank, ranks_of_passages
from blindspot.backend.interventions.sentences import answer_sentence, sentences
from blindspot.backend.interventions.table import cause_table
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


def test_the_questions_missing_words_come_before_the_answers_sentence():
    put = after("put_words_in", miss())
    assert put.passage.text == TEXT.replace("In Oslo she", "born: In Oslo she")
    assert put.changed == 1
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
    assert new.still_above == {3, 4} and new.ignored == "Eva Lind"
    assert after("rename_subject", miss()) is None
    assert replace_name("Malholm and Holm", "Ada Holm", "Eva Lind") == "Malholm and Lind"


def test_namesakes_above_are_removed_and_answering_passages_are_relabelled():
    above = (
        (3, Passage("3", "Ada Berg", "Ada Berg was born in Rome.")),
        (4, Passage("4", "Ada Holm", "She kept bees.")),
        (5, Passage("5", "Oslo", "Ada Holm was born in Oslo.")),
        (6, Passage("6", "Bergen", "Eva was born in Oslo.")),
    )
    assert after("remove_namesakes", miss(above=above)).removed == {3}
    relabelled = after("relabel", miss(above=above))
    assert (relabelled.new_gold, relabelled.removed) == (5, frozenset()), "the best of old and new gold is row 5"
    assert after("remove_namesakes", miss(above=above[1:])) is None and after("relabel", miss(above=above[:2])) is None


def test_everything_but_the_answers_sentence_is_cut():
    assert after("keep_sentence", miss()).passage.text == "Ada Holm: In Oslo she came into the world."
    assert after("keep_sentence", miss("In Oslo.")) is None


def test_edits_are_ordered_by_the_tokens_that_they_change_and_a_removal_is_not_free():
    namesake = Passage("3", "Ada Berg", "Ada Berg was born in Rome. Then Ada went to Holm.")
    missed = miss(title="Bergen", above=((3, namesake),))
    found = applicable_edits(missed)
    sizes = [each.changed for each in found.values()]
    assert sizes == sorted(sizes) and min(sizes) > 0 and "move_first" in found
    assert "move_first" not in applicable_edits(
        miss("She left. In Oslo she came into the world. She kept bees and read by night.")
    )
    assert found["remove_namesakes"].changed == 4, "Ada, Ada, Ada and Holm: the name's words in title and text"
    assert list(found)[-1] == "keep_sentence"
    assert changed_tokens("a b c".split(), "a x c d".split()) == 2


def tried(name, rank, score, size, *others):
    reach = tuple(None if other is None else PassageRank(*other) for other in others)
    return TriedEdit(name, rank, score, size, BORN.text, "t", "x", 0, reach)


def test_a_cause_is_named_only_where_the_gold_gets_further_than_three_quarters_of_the_placebos():
    lifted_alike = tried("give_own_title", 1, 0.8, 2, (1, 0.7), (1, 0.9))
    beyond = tried("put_words_in", 2, 0.8, 9, (3, 0.7), None)
    not_far_enough = tried("move_first", 30, 0.5, 1, (900, 0.1))
    alone = tried("keep_sentence", 1, 0.9, 4)
    explained = ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (not_far_enough, lifted_alike, alone, beyond))
    assert [each.name for each in explained.mending(3)] == ["give_own_title", "keep_sentence", "put_words_in"]
    assert [each.name for each in explained.named(3)] == ["put_words_in"] and explained.cause(3) == "other_words"
    further = [(1, 0.9)] * 2
    assert tried("move_first", 1, 0.8, 1, *further, *[(5, 0.2)] * 7).beats_placebos  # 7 of 9
    assert not tried("move_first", 1, 0.8, 1, *further, (1, 0.8), *[(5, 0.2)] * 6).beats_placebos
    assert (lifted_alike.lifted(2), beyond.lifted(3), beyond.lifted(2)) == (2, 1, 0)


def test_gold_is_in_doubt_where_its_sentence_gets_no_further_than_others():
    others = [(9, 0.2)] * 7 + [(3, 0.6)] * 3
    doubted, stated = tried(DOUBT, 0, 0.5, 1, *others), tried(DOUBT, 0, 0.5, 1, *others[:-1])
    assert doubted.beats_placebos and not stated.beats_placebos, "7 of 10 left behind, and 7 of 9"
    words = tried("put_words_in", 1, 0.9, 1, (9, 0.1))
    explained = ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (words, doubted))
    assert [each.cause for each in explained.named(3)] == ["doubtful_gold", "other_words"], "a label invents nothing"


def test_where_no_edit_mends_a_miss_two_together_do_and_both_are_named():
    title, words = tried("give_own_title", 5, 0.6, 2, (9, 0.1)), tried("put_words_in", 4, 0.7, 3, (9, 0.1))
    pair = tried("give_own_title+put_words_in", 1, 0.9, 5, (3, 0.2))
    explained = ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (title, words), (pair,))
    assert [each.name for each in explained.named(3)] == ["put_words_in", "give_own_title"]
    assert [each.name for each in explained.named(4)] == ["put_words_in"], "one is enough at 4"
    lifted = tried("give_own_title+put_words_in", 1, 0.9, 5, (1, 0.95))
    shared = ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (title, words), (lifted,))
    assert shared.mending(3) and not shared.named(3)


def test_of_equal_sizes_the_edit_that_gets_further_is_first_and_both_are_named():
    title = tried("give_own_title", 2, 0.7, 2, (9, 0.1))
    name = tried("name_subject", 1, 0.8, 2, (9, 0.1))
    for order in ((title, name), (name, title)):
        explained = ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", order)
        assert [each.name for each in explained.named(3)] == ["name_subject", "give_own_title"]


def test_a_placebo_gets_the_same_edit_and_never_the_answer():
    other = Placebo(
        Passage("9", "Eva Lind", "She sang. Her brother lived in Bergen. All is well."), 9, "Bergen", ("Rome",)
    )
    missed = miss(
        "He left. In Oslo he came into the world. The end.",
        "Eva Berg",
        above=((5, Passage("5", "", "Ada Holm: Rome")),),
    )
    texts = {name: edited_placebos(name, missed, [other])[0] for name in EDITS}
    assert texts["put_words_in"].passage.text == "She sang. born: Her brother lived in Bergen. All is well."
    assert texts["name_subject"].passage.text == "She sang. Ada Holm's brother lived in Bergen. All is well."
    assert texts["give_own_title"].passage.title == "Ada Holm"
    assert texts["move_first"].passage.text == "Her brother lived in Bergen. She sang. All is well."
    assert texts["relabel"].new_gold == 5, "its placebo looks for another question's answer among the passages above"
    assert edited_placebos("relabel", missed, [Placebo(other.passage, 9, None, ("Paris",))]) == [None]
    assert texts[DOUBT].passage.text == "Ada Holm's brother lived in ." and texts[DOUBT].passage.title == ""
    assert not any("Oslo" in each.passage.text for name, each in texts.items() if each and name != "relabel")
    cut = replace(missed, cut=NeighbouringPieces(before="Ada Holm saw that", size=1))
    joined = edited_placebos("join_pieces", cut, [other])[0].passage.text
    assert joined.startswith("Ada Holm saw that She sang.") and edited_placebos("join_pieces", missed, [other]) == [
        None
    ]
    both = edited_placebos("join_pieces+name_subject", cut, [other])[0]
    assert both.passage.text.startswith("Ada Holm saw that") and "Ada Holm's brother" in both.passage.text


def test_a_sentence_that_is_cut_between_two_passages_is_joined():
    gold = miss("in Oslo, where bees were kept. The end.")
    before, after = (
        Passage("f", "Ada Holm", "She sang. Ada Holm was born"),
        Passage("h", "Ada Holm", "in June. It rained."),
    )
    cut = cut_off_pieces(gold, before, after)
    assert cut == NeighbouringPieces(before="Ada Holm was born", size=1)
    joined = EDITS["join_pieces"].apply(replace(gold, cut=cut))
    assert joined.passage.text.startswith("Ada Holm was born in Oslo, where") and joined.changed == 1
    assert cut_off_pieces(miss("The end. Oslo saw her come"), before, after) == NeighbouringPieces(
        after="in June.", size=1
    )
    # A sentence that is whole begins with a pronoun: the one before it names the subject, and all its words count.
    whole = replace(before, text="Ada Holm left Rome.")
    assert cut_off_pieces(miss("There, in Oslo, she was born. The end."), whole, None) == NeighbouringPieces(
        before="Ada Holm left Rome.", size=4
    )
    assert (
        cut_off_pieces(miss("Ada Holm was born in Oslo."), whole, after)
        == NeighbouringPieces()
        == cut_off_pieces(gold, None, None)
    )


def test_the_answers_sentence_is_compared_alone_whole_and_without_the_answer():
    gold = miss("in Oslo. She kept bees.", cut=NeighbouringPieces(before="She was born", size=1))
    assert EDITS[DOUBT].apply(gold).passage == Passage("g", "", "Ada Holm was born in .")
    assert [each.passage.text for each in other_statements(gold)] == ["Ada Holm kept bees."]


def test_two_edits_are_made_one_after_the_other():
    gold = miss("He left. In Oslo he came into the world.", "Bergen")
    made = edit_pairs({"give_own_title", "name_subject", "relabel"}, gold)
    assert list(made) == ["give_own_title+name_subject"]
    both = made["give_own_title+name_subject"]
    assert both.passage == Passage("g", "Ada Holm", "He left. Ada Holm: In Oslo he came into the world.")
    assert both.changed == sum(after(name, gold).changed for name in ("give_own_title", "name_subject"))


class Passages(list):
    """A collection as `placebos` reads it."""

    def passages(self, rows):
        return [self[row] for row in rows]


def test_placebos_are_drawn_with_the_seed_and_cannot_answer():
    corpus = Passages(
        [
            *(
                Passage(str(n), f"Town {n}", f"Town {n} is old. Its mayor is Nils Vik. The sea is distant.")
                for n in range(30)
            ),
            *(Passage(str(n), "Oslo", "It is a city.") for n in range(30, 60)),
            *(Passage(str(n), "Songs", "Ada Holm sang here.") for n in range(60, 90)),
        ]
    )
    drawn = placebos(miss(), corpus, {0, 1, 2}, [("Oslo",), ("Rome",)], seed=4)
    assert len(drawn) == PLACEBOS and drawn == placebos(miss(), corpus, {0, 1, 2}, [("Oslo",), ("Rome",)], seed=4)
    assert {each.row for each in drawn} <= set(range(3, 30)) and all(corpus[each.row] == each.passage for each in drawn)
    assert {each.answers for each in drawn} == {("Rome",)} and {each.word for each in drawn} == {"distant"}
    assert [each.row for each in placebos(miss(), corpus, {0}, [], seed=5)] != [each.row for each in drawn]


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
    for attempt, found in zip(attempts, ranks_of_passages(vectors, questions, attempts, similarity), strict=True):
        rows = np.array([row for row in range(40) if row not in set(attempt.without)], int)
        others, query = vectors[rows].astype(np.float64), questions[attempt.question].astype(np.float64)
        own = attempt.passage.astype(np.float64)
        if similarity == "dot":
            above = others @ query > own @ query
        else:
            above = ((others - query) ** 2).sum(1) < ((own - query) ** 2).sum()
        assert found.rank == 1 + attempt.above + above.sum()
        score = own @ query if similarity == "dot" else -((own - query) ** 2).sum()
        assert found.score == pytest.approx(score, abs=1e-4)
    assert ranks_of_passages(vectors, questions, [], similarity) == []


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
        named = {each["edit"]: each["tokens"] for each in row["causes"]}
        assert row["edit"] == next(iter(named), None)
        if mending:
            assert set(named) == {name for name in mending if row["edits"][name]["beats_placebos"]}
            assert list(named.values()) == sorted(named.values())
        else:
            mending = [name for name, each in row["pairs"].items() if each["rank"] <= 3]
            beating = [name for name in mending if row["pairs"][name]["beats_placebos"]]
            assert set(named) == set(beating[0].split("+") if beating else ())
        assert row["cause"] == (EDITS[row["edit"]].cause if named else SHARED_WITH_PLACEBO if mending else NONE)
        for name, each in {**row["edits"], **row["pairs"]}.items():
            few = len(each["placebos"]) - (PLACEBOS if each["rank"] <= 3 else FEW_PLACEBOS)
            assert few >= 0 if name == DOUBT else few == 0, "few where the edit mends nothing"

    monkeypatch.setattr(EditRanks, "_encode_passages", lambda *_: pytest.fail("a known rank was computed again"))
    again = explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    assert again == result
    counts = cause_counts(result)
    assert sum(round(each.smallest.value * each.smallest.n) for each in counts) == result["explained"]
    assert [each.cause for each in counts[-2:]] == [SHARED_WITH_PLACEBO, NONE]
    assert all(each.smallest.n == result["explained"] for each in counts)
    for each in counts[:-2]:
        if each.edit == DOUBT:
            assert each.gold.n == 0 and each.named.n == 10
            continue
        edits = [row["edits"][each.edit] for row in result["questions"] if each.edit in row["edits"]]
        assert each.gold.n == each.placebo.n == each.difference.n == len(edits)
        if edits:
            gold = np.mean([edit["rank"] <= 3 for edit in edits])
            lifted = np.mean([[rank is not None and rank <= 3 for rank in edit["placebos"]] for edit in edits])
            assert each.gold.value == pytest.approx(gold) and each.placebo.value == pytest.approx(lifted)
            assert each.difference.value == pytest.approx(gold - lifted)


@pytest.mark.parametrize(("controls", "may"), [((7, 30), True), ((8, 30), False), ((0, 9), False), ((2, 10), True)])
def test_doubtful_gold_is_named_only_where_found_questions_are_seldom_doubted(missing, monkeypatch, controls, may):
    """At most a quarter of ten or more found questions; a study without the control does not try the rule."""
    monkeypatch.setattr(MissExplainer, "doubted_controls", controls)
    result = explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    assert any(DOUBT in row["edits"] or row["cause"] == "doubtful_gold" for row in result["questions"]) <= may
    assert any(each.edit == DOUBT for each in cause_counts(result)) is may
    note = cause_table(result).notes[-1]
    assert ("Doubtful gold is not" not in note) is may
    assert (f"{controls[0]} of {controls[1]}" if controls[1] >= 10 else "9 of those drawn are found") in note


def test_the_controls_of_doubtful_gold_are_found_questions(missing, monkeypatch):
    """The rule is tried on them as on misses: counted again from what it says of each."""
    explainer = MissExplainer(missing, "tiny", device="cpu")
    doubted, found = explainer.doubted_controls
    assert 0 <= doubted <= found <= 30
    with_gold = [each for each in missing.questions.all() if each.gold]
    ranks = {each.question.id: each.rank for block in explainer.explain(with_gold) for each in block}
    assert found == min(30, sum(rank <= 5 for rank in ranks.values())), "fewer than 120 questions: all are drawn"
    monkeypatch.setattr(MissExplainer, "can_doubt", True)
    every = [each for block in explainer.explain(with_gold) for each in block if each.rank <= 5]
    if found < 30:
        assert doubted == sum(one.beats_placebos for each in every for one in each.tried if one.name == DOUBT)


def test_a_false_negative_above_gets_its_own_rank(missing):
    """The run's second hit answers; after the edit it is the gold passage, so the rank is 2."""
    from dataclasses import replace

    run = missing.run("tiny")
    for question in missing.questions.with_ids(run.question_ids):
        second, last = (missing.corpus.passages([run.hits.ordinals[run.row(question.id)][at]])[0] for at in (1, 50))
        if missing.corpus.ordinals([last.id]) and second.title.strip() and len(second.text.split()) > 3:
            break
    first = missing.corpus.passages([run.hits.ordinals[run.row(question.id)][0]])[0]
    word = next(
        word for word in second.text.split() if word.isalpha() and word not in first.text and word not in first.title
    )
    asked = replace(question, gold=(last.id,), answers=(word,), subject=second.title)
    (explained,) = next(MissExplainer(missing, "tiny", device="cpu").explain([asked]))
    found = {each.name: each for each in explained.tried}["relabel"]
    assert explained.rank > 2 and (found.rank, found.counted, found.removed) == (2, second.title, 0)
    assert explained.mending(2)[0].name == "relabel", "a label is the smallest edit"


def test_a_result_of_an_older_version_is_still_shown(missing):
    from blindspot.backend.interventions.table import notes

    row = {"id": "q", "cause": "late_fact", "edit": "move_first", "edits": {"move_first": {"rank": 1, "size": 0.1}}}
    old = {
        "run": "r",
        "k": 3,
        "where": "",
        "found_by": None,
        "seed": 0,
        "missed": 1,
        "explained": 1,
        "questions": [row],
    }
    line = next(line for line in cause_table(old).texts() if line[0] == "late fact")
    assert line[2] == "1" and line[4].startswith("100.0") and line[5:7] == ["–", "–"]
    assert any("run `blindspot why` again" in note for note in notes(old))


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
    with pytest.raises(BadInput, match="minutes must be a number above 0"):
        explain_misses(missing, "tiny", minutes=float("nan"))
    with pytest.raises(Missing):
        explain_misses(missing, "nothing")


def test_the_command_prints_the_table_with_n(missing):
    from blindspot.app.cli import app

    arguments = ["why", "tiny", "--k", "3", "--misses", "10", "--study", str(missing.folder)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0 and "n = 10 questions" in shown.output and NONE in shown.output
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
        assert f"{EDITS[name].description} {each['tokens']:,} {each['rank'] or '–'} " in page.text
    (explained,) = next(MissExplainer(missing, "tiny", device="cpu").explain(missing.questions.with_ids([row["id"]])))
    for each in explained.tried:
        if each.rank:
            assert (
                f"{EDITS[each.name].description} {each.size:,} {each.rank:,} {each.lifted(3)} of {PLACEBOS}"
                in page.text
            )


def test_edited_texts_are_escaped():
    from blindspot.app.components.edits import _table

    hostile = "<script>alert(1)</script>"
    tried = TriedEdit("move_first", 1, 0.5, 7, hostile, hostile, hostile, 0, (), hostile)
    shown = str(_table(ExplainedMiss(BORN, Passage("g", "t", "x"), 9, "w", (tried,)), 3))
    assert "<script>" not in shown and shown.count("&lt;script&gt;") == 4


def test_the_report_has_the_table_until_the_run_changes(missing):
    from blindspot.backend.reports.interventions import intervention_parts

    explain_misses(missing, "tiny", k=3, limit=10, device="cpu")
    shown = "".join(intervention_parts(missing, ["tiny"]))
    assert "Causes of the misses of tiny at 3, by intervention" in shown and "n = 10 questions" in shown
    assert not list(intervention_parts(missing, ["bm25"]))

"""Causes of misses: each rule on planted cases, the table against statsmodels and counting by hand, slices, the command."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from blindspot.analysis.accuracy import proportion
from blindspot.analysis.significance import independent_difference
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.cause_rules import ORDER, RULES, run_causes
from blindspot.backend.evaluation.causes import CAUSES, Cause
from blindspot.backend.evaluation.comparison import Comparison, measure, measure_all
from blindspot.backend.evaluation.miss_report import COLUMNS, MissOptions, misses
from blindspot.backend.evaluation.miss_table import miss_table
from blindspot.backend.evaluation.slices import Facts, by_results
from blindspot.backend.judges.scores import ScoreStore
from blindspot.db import questions
from blindspot.db.errors import BadInput, Missing
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.question_table import NEIGHBOURS
from blindspot.db.records import Hits, Passage, Question
from tests.app_pages import Page
from tests.studies import make_study

K, DEPTH = 2, 4
COMMON = "Where was [X] born?"
LONG = "The square of the town has a fountain and seven old lime trees around it. " * 5  # 75 words
# id: (subject, what differs from the plain case, the causes that follow). In the plain case the subject is known, its own
# short passage is gold and says the answer in the question's words, and the run ranks two fillers first.
PLANTED = {
    "plain": ("Alba Reyes", {}, set()),
    "namesake": ("Bruno Keller", {"winner": "Bruno Maas"}, {Cause.NEAR_NAMESAKE}),
    "same-title": ("Carla Diaz", {"winner": "Carla Diaz (singer)"}, set()),
    "words": ("Dina Falk", {"text": "In which municipality did Dina Falk first see daylight?"}, {Cause.OTHER_WORDS}),
    "late": ("Edgar Noll", {"before": LONG}, {Cause.LATE_FACT}),
    "early": ("Frida Otto", {"after": LONG}, set()),
    "short": ("Gerd Paul", {"before": "He liked trees. "}, set()),
    "elsewhere": ("Hanna Quist", {"title": "History of the town"}, {Cause.OTHER_ENTITY_PASSAGE}),
    "rare": ("Ivan Rossi", {"frequency": 1}, {Cause.RARE_SUBJECT}),
    "twice": ("Jana Sorel", {"frequency": 2}, set()),
    "rarest-bucket": ("Kurt Thoma", {"bucket": 7}, {Cause.RARE_SUBJECT}),
    "first-bucket": ("Lena Ullman", {"bucket": 0, "frequency": 1}, set()),
    "unseen": ("Mario Vega", {"relation": "P9"}, {Cause.UNSEEN_RELATION}),
    "odd-pattern": ("Nora Weber", {"template": "Birthplace of [X]?"}, {Cause.QUESTION_WORDING}),
    "paraphrase": ("Otto Xander", {"twin": True}, {Cause.QUESTION_WORDING}),
    "chance": ("Petra Young", {"other": "chance"}, {Cause.CHANCE_MATCH}),
    "no-chance": ("Quinn Zorn", {"other": "gold"}, set()),
    "doubtful": ("Rosa Adler", {"says": "nothing", "gold_score": 0.4}, {Cause.DOUBTFUL_GOLD}),
    "trusted": ("Rolf Adler", {"gold_score": 0.6}, set()),
    "refused": ("Sven Brandt", {"label": ("gold", "negative")}, {Cause.DOUBTFUL_GOLD}),
    "confirmed": ("Tina Cramer", {"says": "nothing", "gold_score": 0.4, "label": ("gold", "positive")}, set()),
    "labelled": ("Udo Decker", {"label": ("winner", "positive")}, {Cause.FALSE_NEGATIVE_ABOVE}),
    "judged": ("Vera Engel", {"score": 0.95}, {Cause.FALSE_NEGATIVE_ABOVE}),
    "unlikely": ("Wim Faber", {"score": 0.85}, set()),
    "overruled": ("Xenia Gauss", {"score": 0.95, "label": ("winner", "negative")}, set()),
    "two": ("Yuri Hahn", {"winner": "Yuri Berg", "frequency": 0}, {Cause.NEAR_NAMESAKE, Cause.RARE_SUBJECT}),
}  # fmt: skip


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The planted questions; run `dense` misses all of them at 2, `bm25` finds those with an `other`."""
    passages, questions, labels, scores = [], [], [], {}
    winners: dict[str, int] = {}
    for number, (id, (subject, changes, _)) in enumerate(PLANTED.items()):
        fact = f"{subject} was born in Place{number}." if changes.get("says") != "nothing" else f"{subject} was born."
        gold = Passage(
            f"{id}-gold", changes.get("title", subject), changes.get("before", "") + fact + changes.get("after", "")
        )
        winner = Passage(f"{id}-winner", changes.get("winner", "Filler"), "Nothing of the kind is said here.")
        chance = Passage(f"{id}-chance", "Harbours", f"A ferry leaves Place{number} at noon.")
        winners[id] = len(passages) + 1
        passages += [gold, winner, chance]
        questions.append(
            Question(
                id,
                changes.get("text", f"Where was {subject} born?"),
                (f"Place{number}",),
                changes.get("relation", "P19"),
                subject,
                template=changes.get("template", COMMON),
                frequency=changes.get("frequency", 50),
                bucket=changes.get("bucket"),
                dataset="toy",
                split="dev",
                gold=(gold.id,),
            )  # fmt: skip
        )
        if "label" in changes:
            which, label = changes["label"]
            labels.append((id, f"{id}-{which}", label))
        if "score" in changes:
            scores[id, winner.id] = changes["score"]
        if "gold_score" in changes:
            scores[id, gold.id] = changes["gold_score"]
    twin = Question("twin", "What is the birthplace of Otto Xander?", questions[0].answers, "P19", "otto  xander",
                    template="What is the birthplace of [X]?", dataset="toy", split="dev", gold=("plain-gold",))  # fmt: skip
    training = [Question(f"t{i}", "?", ("x",), "P19", template=COMMON, split="train") for i in range(5)]
    training += [
        Question(f"odd{i}", "?", ("x",), "P19", template="Birthplace of [X]?", split="train") for i in range(4)
    ]
    made = make_study(tmp_path_factory.mktemp("causes") / "toy", passages, [*questions, twin, *training])
    asked = [question.id for question in [*questions, twin]]
    filler = winners["plain"]
    dense = np.full((len(asked), DEPTH), -1, np.int32)
    bm25 = dense.copy()
    for row, id in enumerate(asked[:-1]):
        dense[row, :3] = winners[id], filler if id != "plain" else winners["twice"], winners[id] - 1
        other = PLANTED[id][1].get("other")
        bm25[row, 0] = {"chance": winners[id] + 1, "gold": winners[id] - 1, None: filler}[other]
    dense[-1, 0] = bm25[-1, 0] = 0
    score = np.tile(np.linspace(4, 1, DEPTH, dtype=np.float32), (len(asked), 1))
    write_run(made, "dense", asked, Hits(dense, score), {"retriever": "toy", "kind": "dense"})
    write_run(made, "bm25", asked, Hits(bm25, score), {"retriever": "bm25", "kind": "bm25"})
    People(made.labels_path).add("ann")
    store = Labels(made.labels_path, passages=made.corpus.ordinals)
    for number, (question, passage, label) in enumerate(labels):
        store.add("ann", LabelEvent(f"label-{number}", "label", question, (Choice(passage, label),)))
    ScoreStore.create(made, "sure", calibrated=True).add((q, p, value) for (q, p), value in scores.items())
    ScoreStore.create(made, "raw", calibrated=False).add([("plain", "plain-winner", 1.0)])
    return made


@pytest.fixture(scope="module")
def compared(study) -> Comparison:
    runs = measure_all(study, ("dense", "bm25"))
    return Comparison.of_runs(runs["dense"], runs["bm25"])


@pytest.fixture(scope="module")
def causes(compared):
    return run_causes(compared, "a", K)


def row_of(compared, id: str) -> int:
    return compared.rows[id]


@pytest.mark.parametrize("id", PLANTED)
def test_a_planted_miss_has_the_causes_that_were_planted(compared, causes, id):
    at = row_of(compared, id)
    assert causes.missed[at]
    assert {cause for cause in ORDER if causes.has_cause(cause)[at]} == PLANTED[id][2]


def test_a_namesake_on_top_is_measured_only_where_no_relevant_passage_is_on_top(compared, causes):
    """It nearly excludes one there, so all found questions would be no control."""
    measured, on_top = causes.is_measured(Cause.NEAR_NAMESAKE), compared.first_ranks_a == 1
    assert on_top.any() and not measured[on_top].any() and measured[causes.missed].any()
    assert not causes.missed[on_top].any()


def test_every_cause_has_a_rule_a_sentence_and_a_planted_case():
    assert set(RULES) == set(CAUSES) == set(ORDER) == set().union(*(expected for _, _, expected in PLANTED.values()))
    assert all(rule.rule.endswith(".") and rule.title for rule in CAUSES.values())


def test_what_is_unknown_is_not_measured(tmp_path):
    """A question without subject, relation, frequency, gold, training and labels: no rule has its facts."""
    made = make_study(
        tmp_path / "bare",
        [Passage("p0", "A", "b"), Passage("p1", "", "")],
        [Question("q", "Who?", ("x",), split="dev")],
    )
    write_run(made, "r", ["q"], Hits(np.array([[0, 1]], np.int32), np.ones((1, 2), np.float32)), {"retriever": "r"})
    alone = measure_all(made, ["r"])["r"]
    found = run_causes(Comparison.of_runs(alone, alone), "a", 2)
    assert found.missed.all() and not found.measured.any() and found.without_cause.all()
    table = misses(made, "r").table
    assert [line.is_measured for line in table.runs[0].lines] == [False] * len(ORDER) + [True]
    assert table.runs[0].lines[-1].count == 1 and table.paired == {}


def test_some_rows_give_the_same_as_all(compared, causes):
    rows = np.array([row_of(compared, id) for id in ("late", "paraphrase", "judged")])
    some = run_causes(compared, "a", K, rows)
    assert (some.present == causes.present[rows]).all() and (some.measured == causes.measured[rows]).all()


def test_a_new_label_counts_at_once(study, compared, causes):
    at = row_of(compared, "plain")
    assert not causes.is_measured(Cause.FALSE_NEGATIVE_ABOVE)[at]
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    store.add("ann", LabelEvent("late-label", "label", "plain", (Choice("plain-winner", "related"),)))
    again = run_causes(compared, "a", K)
    assert again.is_measured(Cause.FALSE_NEGATIVE_ABOVE)[at] and not again.has_cause(Cause.FALSE_NEGATIVE_ABOVE)[at]


def test_counts_shares_and_differences(compared, causes):
    """Counts by hand; the intervals by statsmodels (Wilson; Newcombe's of two independent proportions)."""
    table = miss_table(compared, K, np.arange(len(compared)))
    dense, bm25 = table.runs
    rare = dense.cause_line(Cause.RARE_SUBJECT)
    assert (dense.misses, rare.count, rare.share.n) == (len(PLANTED), 3, len(PLANTED))
    assert (rare.share.low, rare.share.high) == pytest.approx(proportion_confint(3, len(PLANTED), method="wilson"))
    assert rare.found.n == 0 and rare.difference.value is None, "the only found question has no frequency"
    assert bm25.misses == len(PLANTED) - 2
    late = bm25.cause_line(Cause.LATE_FACT)
    found = 3  # chance, no-chance and twin, whose gold passages are short
    by_statsmodels = confint_proportions_2indep(1, late.share.n, 0, found, method="newcomb")
    assert (late.count, late.share.n, late.found.n) == (1, len(PLANTED) - 2 - 2, found), (
        "two have no answer in the gold"
    )
    assert (late.difference.low, late.difference.high) == pytest.approx(by_statsmodels)
    none = dense.cause_line("none")
    assert none.count == sum(not expected for _, _, expected in PLANTED.values())
    assert dense.cause_line(Cause.NEAR_NAMESAKE).examples == ("namesake", "two"), "the clearest example comes first"


def test_a_cause_is_named_only_where_it_is_rarer_among_the_found(compared):
    """By hand: 40 of 50 misses and 10 of 50 found questions have the one cause, 45 of 50 each the other."""
    table = miss_table(compared, K, np.arange(len(compared)))
    assert all("No cause is reliably more common" in each for each in table.sentences), "few questions prove nothing"

    def line(name, missed, found):
        shares = [proportion(np.arange(50) < count) for count in (missed, found)]
        strict = independent_difference(*(proportion(np.arange(50) < count, None, 0.995) for count in (missed, found)))
        known = table.runs[0].cause_line(name)
        return replace(
            known,
            share=shares[0],
            found=shares[1],
            difference=independent_difference(*shares),
            stands_out=strict.low > 0,
        )

    run = replace(
        table.runs[0],
        run="dense",
        misses=50,
        lines=[line(Cause.OTHER_WORDS, 45, 45), line(Cause.LATE_FACT, 40, 10), line("none", 50, 0)],
    )
    assert run.clearest.name == Cause.LATE_FACT
    low, high = confint_proportions_2indep(40, 50, 10, 50, method="newcomb")
    ends = f"(95%: +{100 * low:.1f} to +{100 * high:.1f})"
    assert run.sentence.endswith(f"80.0% of its misses and 20.0% of what it finds, +60.0 points {ends}.")
    assert "No cause" in replace(run, lines=run.lines[:1]).sentence and replace(run, misses=0).sentence == ""


def test_the_paired_difference(compared):
    """Both runs miss `late` with its cause, so the pair says nothing; `chance` is missed by dense alone."""
    paired = miss_table(compared, K, np.arange(len(compared))).paired
    assert paired[Cause.LATE_FACT].difference.estimate.value == 0
    chance = paired[Cause.CHANCE_MATCH]
    n = len(PLANTED) + 1
    assert chance.estimate_a.value == pytest.approx(1 / n) and chance.difference.estimate.value == pytest.approx(1 / n)
    assert all(each.difference.p_adjusted >= each.difference.p for each in paired.values())


def test_runs_are_not_tested_on_questions_that_their_results_chose(study):
    report = misses(study, "dense", "bm25", MissOptions(k=K, slice="first(bm25)<=1"))
    assert report.table.paired == {} and len(report.table.runs) == 2
    assert "follows from its definition" in report.notes[0]
    assert misses(study, "dense", "bm25", MissOptions(k=K, slice="relation:P19")).table.paired


def test_a_run_that_misses_nothing_gets_a_sentence_and_no_table(study, blindspot):
    report = misses(study, "dense", "bm25", MissOptions(k=K, slice="first(bm25)<=1"))
    dense, bm25 = report.table.runs
    assert dense.misses and not bm25.misses
    (table,) = report.tables()
    assert "dense" in table.title and table.rows
    words = ("misses", "dense", "bm25", "--k", K, "--slice", "first(bm25)<=1", "--study", study.folder)
    code, out, err = blindspot(*words)
    said = f"bm25 finds every one of the {bm25.questions} questions at {K}, so it has no miss to explain."
    assert not code and said in " ".join(out.split()) and "bm25 misses 0" not in out, err


@pytest.mark.parametrize(("expression", "ids"), [
    ("cause:near_namesake", ["namesake", "two"]),
    ('cause(dense)="rare_subject"', ["rare", "rarest-bucket", "two"]),
    ("cause(bm25):chance_match", []),
    ("cause(bm25):late_fact", ["late"]),
    ("cause(dense):near_namesake and not cause(dense):rare_subject", ["namesake"]),
])  # fmt: skip
def test_causes_are_slices(compared, expression, ids):
    mask = Facts(compared, K).mask(expression)
    assert [compared.questions[row].id for row in np.flatnonzero(mask)] == ids and by_results(expression)


def test_a_third_run_has_causes_of_its_own(study):
    runs = measure_all(study, ("bm25",))
    facts = Facts(Comparison.of_runs(runs["bm25"], runs["bm25"]), K)
    assert [facts.comparison.questions[row].id for row in np.flatnonzero(facts.mask("cause(dense):other_words"))] == [
        "words"
    ]
    with pytest.raises(Missing):
        facts.mask("cause(nothing):none")


@pytest.mark.parametrize(("expression", "said"), [
    ("cause", "write for example cause:near_namesake"), ("cause:bad", "unknown cause 'bad'; known: near_namesake"),
    ("cause(dense)>3", "is not a valid condition"), ("relation(dense):P19", "is not a valid condition"),
])  # fmt: skip
def test_conditions_that_make_no_sense(compared, expression, said):
    with pytest.raises(BadInput, match=said.replace("(", r"\(")):
        Facts(compared, K).mask(expression)


def test_the_command_prints_the_same_figures(study, compared):
    report = misses(study, "dense", "bm25", MissOptions(k=K))
    written = json.loads(report.as_json())
    rows = list(csv.DictReader(io.StringIO(report.as_csv())))
    assert tuple(rows[0]) == COLUMNS and len(rows) == 2 * (len(ORDER) + 1)
    by_json = {each["cause"]: each for each in written["runs"][0]["causes"]}
    for row in rows[: len(ORDER) + 1]:
        assert int(row["count"]) == by_json[row["cause"]]["count"]
        assert row["examples"].split() == by_json[row["cause"]]["examples"]
    assert "Chance match" in report.as_latex() and written["slice"] == ""
    only = misses(study, "dense", None, MissOptions(k=K, slice="cause(dense):rare_subject"))
    assert only.table.runs[0].misses == 3 and len(only.table.runs) == 1


@pytest.mark.parametrize(("change", "error", "said"), [
    ({"k": 9}, BadInput, "k is 9"), ({"slice": "relation:none"}, BadInput, "no question of these runs is in that slice"),
    ({"slice": "(("}, BadInput, "the slice cannot be read"),
])  # fmt: skip
def test_bad_input_gets_one_line(study, change, error, said):
    with pytest.raises(error, match=said.replace("(", r"\(")):
        misses(study, "dense", "bm25", MissOptions(**change))
    with pytest.raises(Missing):
        misses(study, "dense", "nothing")


def test_thousands_of_questions_take_seconds(tmp_path, monkeypatch):
    """Facts are read for all questions together: 4,000 questions ask the stores as often as 40 do."""
    passages = [
        Passage(f"p{i}", f"Name {i}", f"Name {i} was born in Town{i}. " + "More is told. " * 20) for i in range(2000)
    ]
    asked = [
        Question(f"q{i}", f"Where was Name {i % 2000} born?", (f"Town{i % 2000}",), "P19", f"Name {i % 2000}", gold=(f"p{i % 2000}",), split="dev")
        for i in range(4000)
    ]  # fmt: skip
    made = make_study(tmp_path / "many", passages, asked)
    rows = np.random.default_rng(0).integers(0, 2000, (4000, 20)).astype(np.int32)
    write_run(
        made,
        "r",
        [q.id for q in asked],
        Hits(rows, np.tile(np.arange(20, 0, -1, dtype=np.float32), (4000, 1))),
        {"retriever": "r"},
    )
    measured = measure_all(made, ["r"])["r"]
    statements = []
    made.corpus.connection.set_trace_callback(statements.append)
    start = time.process_time()
    run_causes(Comparison.of_runs(measured, measured), "a", 20)
    assert time.process_time() - start < 20
    assert len(statements) < 60, len(statements)

    records, read = [], questions._question
    monkeypatch.setattr(questions, "_question", lambda row: records.append(row[0]) or read(row))
    measured = measure(made, "r", "answers", "dpr", made.questions.table([q.id for q in asked]))
    run_causes(Comparison.of_runs(measured, measured), "a", 20, np.array([7]))
    assert {"q7", "q2007"} <= set(records) and len(set(records)) <= 2 * NEIGHBOURS, "its own fact, not all 4,000"


def test_from_python(study):
    import blindspot

    opened = blindspot.Study(study)
    counts = opened.causes("dense", "bm25", k=K)
    report = misses(study, "dense", "bm25", MissOptions(k=K))
    assert (
        counts.to_csv(index=False).count("\n") == report.as_csv().count("\n")
        and counts.attrs["method"] == report.table.method
    )
    line = counts.set_index(["run", "cause"]).loc[("dense", "rare_subject")]
    assert (line["count"], line["measured"], line["examples"].split()[0]) == (3, len(PLANTED), "rare")
    frame = opened.miss_causes("dense", "bm25", k=K)
    expected = {id: {str(cause) for cause in causes} for id, (_, _, causes) in PLANTED.items()}
    assert {id: set(frame.columns[row.fillna(False)]) for id, row in frame.iterrows()} == expected
    known = set(frame.index[frame["false_negative_above"].notna()])
    assert known - {"plain"} == {"labelled", "judged", "unlikely", "overruled", "doubtful", "trusted", "confirmed"}, (
        "plain gets a label in another test"
    )
    assert len(opened.plot_causes("dense", "bm25", k=K).data) == 6, "misses, few of them, and found, of two runs"


def test_the_report_for_colleagues_has_the_table(study):
    from blindspot.backend.reports.html_report import html_report

    text = html_report(study, ["dense", "bm25"])
    assert "Causes of the misses of" in text and "Near-namesake on top" in text and "causes-" in text


def test_compare_counts_causes_and_lists_their_questions(study):
    shut = Page(study.folder, "compare", a="dense", b="bm25", k=K)
    assert "Near-namesake on top" not in shut.text and any("causes=1" in address for address in shut.links())
    page = Page(study.folder, "compare", a="dense", b="bm25", k=K, causes=1)
    assert f"dense: {len(PLANTED)} misses of {len(PLANTED) + 1}" in page.text
    address = next(each for each in page.links() if "rare_subject" in each)
    expression = parse_qs(urlsplit(address).query)["slice"][0]
    assert expression == "cause(dense):rare_subject"
    listed = Page(study.folder, "compare", a="dense", b="bm25", k=K, slice=expression)
    assert "These figures cover the 3 of" in listed.text
    asked = Page(study.folder, "question", a="dense", b="bm25", k=K, question="two", why=1)
    assert "shares part of the subject's name first" in asked.text and "near-namesake on top" not in asked.text, (
        "said once"
    )
    assert "dense misses it in the top 2, also: rare subject 0 mentions" in asked.text
    assert "bm25 misses it in the top 2: rare subject 0 mentions" in asked.text
    shut = Page(study.folder, "question", a="dense", b="bm25", k=K, question="two")
    assert "dense misses it in the top 2, also: rare subject" in shut.text


def test_the_words_of_the_subjects_name_say_nothing_of_the_wording():
    from blindspot.backend.evaluation.gold_facts import GoldPassage, largest_overlap
    from blindspot.db.records import Passage, Question

    asked = Question("q", "Where was Ada Holm born?", ("Oslo",), subject="Ada Holm")
    other = GoldPassage.from_passage(Passage("g", "Ada Holm", "Her cradle stood in Oslo."))
    same = GoldPassage.from_passage(Passage("h", "Ada Holm", "She was born in Oslo."))
    assert largest_overlap(asked, [other]) == 0 and largest_overlap(asked, [other, same]) == 1

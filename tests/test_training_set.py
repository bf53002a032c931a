"""Training sets as they are read: counts, texts for trainers, the difference of two sets, strata, commands."""

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from blindspot.app.commands.training_sets import training_set_app
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.training.examples import TrainingSetExamples
from blindspot.backend.training_sets import builder as building
from blindspot.backend.training_sets import denoising
from blindspot.backend.training_sets.assemble import DENIED, NO_POSITIVE
from blindspot.backend.training_sets.differences import (
    KINDS,
    NewLabel,
    change_summary,
    changes_of_kind,
    diff,
    new_labels,
)
from blindspot.backend.training_sets.training_set import read_groups
from blindspot.db.errors import BadInput, Missing, Refused
from tests.studies import copied
from tests.training_studies import build, content, say, score


@pytest.fixture
def study(mined_study, tmp_path):
    return copied(mined_study, tmp_path / "study")


def test_counts_are_those_of_the_pairs(study):
    say(study, "ann", "q0", {"p1": "positive", "p2": "unsure", "p3": "negative"})
    made = build(study, "answer_match+labels", random=2)
    pairs = [pair for _, group in made.groups() for pair in group]
    counts = made.manifest["counts"]
    assert counts["questions"] == 3 and counts["pairs"] == len(pairs)
    assert {(role, source): n for role, row in counts["sources"].items() for source, n in row.items()} == Counter(
        (pair.role, pair.source) for pair in pairs
    )
    assert counts["reasons"] == Counter(pair.reason for pair in pairs)
    assert counts["by_rank"]["1"] == {
        "kept": 0,
        "removed": 1,
        "relabelled": 1,
        "removed_by_people": 0,
    }  # p6 of q1 contains Molde; p6 of q2 is gold
    assert counts["by_rank"]["3"]["removed_by_people"] == 1
    mined = sum(sum(row.values()) for row in counts["by_rank"].values())
    assert mined == sum(pair.mined for pair in pairs) == 15
    assert counts["by_relation"]["P19"]["questions"] == 3 and counts["by_relation"]["P19"]["positives"] == 4
    assert sum(row["kept"] for row in counts["by_bucket"].values()) == sum(
        row["kept"] for row in counts["by_rank"].values()
    )


def test_a_set_is_read_question_by_question_with_its_positives_first(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_BLOCK", 2)
    made = build(study, "labels")
    every = content(made)
    assert [list(made.groups([question])) for question, _ in every] == [[group] for group in every]
    assert list(made.groups(["nobody"])) == [] and made.roles("nobody") == {}
    assert list(read_groups(made.folder / "pairs.parquet", [])) == []
    for _, pairs in every:
        assert [pair.role for pair in pairs] == sorted(
            (pair.role for pair in pairs), key=("positive", "negative", "dropped").index
        )


def test_trainers_get_texts_and_peoples_positives_first(study):
    say(study, "ann", "q0", {"p1": "positive"})
    made = build(study, "labels", random=1)
    examples = TrainingSetExamples(study, made)
    assert len(examples) == 3 and examples.ids == ["q0", "q1", "q2"]
    assert [passage.id for passage in examples[0].positives] == ["p1", "p0"]
    assert [passage.id for passage in examples[0].negatives] == ["p2", "p3", "p4", "p8"]
    assert examples[0].positives[1] == study.corpus.passage(0) and examples[0].question == "Where was Ann born?"
    assert [passage.id for passage in examples[-1].positives] == ["p7"]
    assert len(TrainingSetExamples(study, made, hard=False)[0].negatives) == 5
    with pytest.raises(IndexError):
        examples[3]


def test_what_training_pushes_away_is_known_to_batches(study):
    made = build(study, "answer_match", random=1)
    assert made.hard_negatives(["q0"]) == {"q0": {"p3", "p4", "p8"}}
    assert make_batch(study, "b", ["r"], size=2, splits=["train"], trained=made.hard_negatives()).passages


def test_a_diff_says_what_changed_and_why(study):
    before = build(study, "none")
    say(study, "ann", "q0", {"p1": "positive", "p0": "negative"})
    after = build(study, "answer_match+labels", last=3)
    found = {(change.question, change.passage): change for change in diff(before, after)}
    why = {key: (change.before, change.after, change.why) for key, change in found.items()}
    assert why["q0", "p1"] == (("negative", "run"), ("positive", "label"), denoising.RELABELLED)
    assert why["q0", "p0"] == (("positive", "gold"), ("negative", "label"), denoising.GOLD_DENIED)
    assert why["q0", "p2"] == (("negative", "run"), ("dropped", "run"), denoising.HOLDS_ANSWER)
    assert why["q0", "p3"] == (("negative", "run"), None, "not at ranks 1 to 3 of r")
    assert ("q1", "p4") not in found
    back = {(change.question, change.passage): change.why for change in diff(after, before)}
    assert back["q0", "p1"] == f"{denoising.MINED}; before, {denoising.RELABELLED}"
    made = change_summary(before, after)
    assert made.changed == len(found) and made.same == 15 + 3 - len(found)
    assert made.changes["negative", "positive", denoising.RELABELLED] == 1
    assert list(diff(after, after)) == []
    kinds = made.by_kind()
    assert list(kinds) == [kind for kind in KINDS if kind in {change.kind for change in found.values()}]
    assert list(kinds)[:3] == [("negative", "positive"), ("positive", "negative"), ("negative", "dropped")]
    for kind, reasons in kinds.items():
        of_kind = [change for change in found.values() if change.kind == kind]
        assert Counter(change.why for change in of_kind) == reasons
        assert changes_of_kind(before, after, kind, None, 0, 99) == of_kind
        assert changes_of_kind(before, after, kind, None, 1, 1) == of_kind[1:2]
        assert changes_of_kind(before, after, kind, "no such reason", 0, 99) == []


def test_an_unchanged_role_is_no_change(study):
    """A label that confirms a negative changes the pair's source and reason, and nothing for training."""
    before = build(study)
    say(study, "ann", "q0", {"p1": "negative", "p2": "negative"})
    after = build(study, "labels")
    assert after.roles("q0")["p1"] == ("negative", "label") and before.roles("q0")["p1"] == ("negative", "run")
    made = change_summary(before, after)
    assert made.changed == 0 and list(diff(before, after)) == []
    assert made.same == sum(len(pairs) for _, pairs in before.groups())


def test_a_diff_says_which_questions_came_and_went(study):
    before = build(study)
    for who, label in (("ann", "negative"), ("ben", "positive")):
        say(study, who, "q1", {"p5": label})
    say(study, "ann", "q3", {"p7": "positive"})
    changes = list(diff(before, build(study, "labels")))
    assert {change.why for change in changes if change.question == "q1"} == {f"the question was left out: {DENIED}"}
    assert {change.before for change in changes if change.question == "q3"} == {None}
    assert f"{denoising.RELABELLED}; the question was left out before: {NO_POSITIVE}" in {
        change.why for change in changes
    }


def test_what_new_labels_would_change(study):
    say(study, "ann", "q0", {"p1": "positive", "p3": "negative"})
    made = build(study, "labels")
    assert new_labels(study, made) == []
    say(study, "ben", "q0", {"p1": "negative", "p4": "positive", "p8": "negative"})
    say(study, "ann", "q3", {"p7": "positive"})
    for question in ("dev", "leak"):
        say(study, "ann", question, {"p1": "positive"})
    assert new_labels(study, made) == [
        NewLabel("q0", "p1", "positive", "open", "positive", "dropped"),
        NewLabel("q0", "p4", None, "positive", "negative", "positive"),
        NewLabel("q0", "p8", None, "negative", "negative", "negative"),
        NewLabel("q3", "p7", None, "positive", None, "positive"),
    ]
    assert [label.is_important for label in new_labels(study, made)] == [True, True, False, True]
    changed = {
        (change.question, change.passage) for change in diff(made, build(study, "labels")) if change.before is not None
    }
    assert {("q0", "p1"), ("q0", "p4")} <= changed
    assert len(new_labels(study, build(study, "none"))) == 5


def test_scores_are_kept_by_pair_and_model(study):
    store = score(study, {("q0", "p1"): 0.25, ("q0", "p2"): 0.0})
    assert ScoreStore.open(study, "judge")([("q0", "p1"), ("q0", "p2"), ("q0", "p3"), ("x", "p1")]) == {
        ("q0", "p1"): 0.25,
        ("q0", "p2"): 0.0,
    }
    before = store.digest
    store.add([("q0", "p1", 0.5)])
    assert store.digest != before and len(store) == 2 and store([("q0", "p1")]) == {("q0", "p1"): 0.5}
    for wrong in (1.5, -0.1, float("nan")):
        with pytest.raises(BadInput, match="between 0 and 1"):
            store.add([("q0", "p5", 0.1), ("q0", "p4", wrong)])
    assert ("q0", "p5") not in store([("q0", "p5")])
    with pytest.raises(Refused, match="calibrated"):
        ScoreStore.create(study, "judge", calibrated=False)
    with pytest.raises(Missing, match="models with scores: judge"):
        ScoreStore.open(study, "other")
    assert make_batch(study, "b", ["r"], size=2, splits=["train"], scores=store).passages


def test_scores_of_other_passages_are_refused(study):
    score(study, {("q0", "p1"): 0.25})
    path = study.path("scores", "judge", "manifest.json")
    path.write_text(path.read_text().replace(study.corpus.digest, "0" * 64))
    with pytest.raises(Refused, match="other passages"):
        ScoreStore.open(study, "judge")


def test_the_commands(study, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        done = CliRunner().invoke(training_set_app, [*map(str, words), "--study", str(study.folder)])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    assert "No training sets yet" in run("list")
    out = run("build", "noisy", "--run", "r", "--ranks", "1-6")
    assert "3 questions, 18 pairs" in out and "1 question left out: no positive" in out
    say(study, "ann", "q0", {"p1": "positive"})
    run("build", "clean", "--run", "r", "--policy", "answer_match+labels", "--random", 1)
    assert "clean: answer_match+labels, 3 questions, 4 positives" in run("list")
    assert {each["name"] for each in json.loads(run("list", "--json"))} == {"noisy", "clean"}
    assert "people say it answers" in run("show", "clean")
    assert "p1: positive by label, r rank 1 (mined as a negative; people say it answers)" in run(
        "show", "clean", "--question", "q0"
    )
    assert "q3 is not in training set clean: no positive." in run("show", "clean", "--question", "q3")
    out = run("diff", "noisy", "clean", "--limit", 1)
    assert (
        "negative -> positive: mined as a negative; people say it answers" in out
        and "more; --limit 0 prints all" in out
    )
    rows = [json.loads(line) for line in run("diff", "noisy", "clean", "--json").splitlines()]
    assert {
        "question": "q0",
        "passage": "p1",
        "before": ["negative", "run"],
        "after": ["positive", "label"],
        "why": denoising.RELABELLED,
    } in rows
    assert "Wrote clean-dpr: train.json (3 rows)" in run("export", "clean", "--format", "dpr")
    assert (tmp_path / "clean-dpr" / "README.md").is_file()


@pytest.mark.parametrize(
    "words, message", [(["build", "x", "--run", "r", "--ranks", "a-b"], "--ranks"), (["build", "x"], "--run")]
)
def test_wrong_usage(study, words, message):
    done = CliRunner().invoke(training_set_app, [*words, "--study", str(study.folder)])
    assert done.exit_code == 2 and message in done.output

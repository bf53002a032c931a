"""Gold checks: the draws and their estimate against simulated truth, mended gold in figures, training and exports, the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.analysis.prediction_powered import FEW, ScoredSample, powered_rate
from blindspot.analysis.weighted_draws import draw_keys, inclusion_probabilities
from blindspot.app.cli import app
from blindspot.app.components.gold_check import WORDS
from blindspot.backend.core.runs import write_run
from blindspot.backend.data.exporting import export_qrels, export_questions
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.cards import Cards
from blindspot.backend.judging.corrected import corrected_run
from blindspot.backend.training_sets.gold_checks import (
    PASSAGES,
    POPULATIONS,
    Claim,
    GoldCheck,
    best_judge,
    claims_of,
    gold_estimates,
    outcome_of,
    queue_gold_check,
    unchecked_gold_sentence,
)
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

N = 40  # questions; each third gold passage does not state the fact


def test_inclusion_probabilities_are_unbiased_weights():
    """The weighted total of a drawn beginning has the mean of the true total, whatever the weights."""
    rng = np.random.default_rng(5)
    weights, values = rng.uniform(0.2, 1.0, 60), rng.random(60) < 0.3
    totals = []
    for seed in range(4000):
        keys = draw_keys(weights, seed)
        order = np.argsort(keys)
        drawn = order[:15]
        totals.append((values[drawn] / inclusion_probabilities(weights[drawn], keys[order[15]])).sum())
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - values.sum()) < 4 * error
    assert (inclusion_probabilities(weights, None) == 1).all(), "a census"


@pytest.mark.parametrize("judge", ["good", "reversed", "useless"])
def test_the_interval_covers_the_share_whatever_the_judge(judge):
    """400 checks of 40 of 400 claims: the interval covers the true share in at least 92% (simulation error 1.1 points)."""
    rng = np.random.default_rng(11)
    truth = rng.random(400) < 0.35
    doubt = np.clip({"good": 0.2 + 0.5 * truth, "reversed": 0.7 - 0.5 * truth, "useless": 0.4 + 0 * truth}[judge]
                    + rng.normal(0, 0.15, 400), 0.01, 0.99)  # fmt: skip
    weights = 0.25 + np.sqrt(doubt * (1 - doubt))
    covered, widths = 0, []
    for seed in range(400):
        keys = draw_keys(weights, seed)
        order = np.argsort(keys)
        drawn = order[:40]
        sample = ScoredSample(truth[drawn], np.ones(40, bool), doubt[drawn], inclusion_probabilities(weights[drawn], keys[order[40]]),
                              drawn.astype(str))  # fmt: skip
        found = powered_rate(sample, doubt)
        covered += found.low <= truth.mean() <= found.high
        widths.append(found.width)
    assert covered / 400 >= 0.92
    if judge == "good":
        assert np.mean(widths) < 0.25, "a good judge makes it narrower than labels alone (0.30)"


@pytest.fixture
def study(tmp_path):
    """Questions with one gold passage each, a second one for q1, and a run that misses the odd ones."""
    passages, questions = [], []
    for number in range(N):
        states = number % 3 != 0
        text = f"Person{number} was born in Town{number}." if states else f"Person{number} met a man from Town{number}."
        passages.append(Passage(f"g{number}", f"Person{number}", text))
    passages += [Passage("extra", "Town1", "Person1 and Town1."), Passage("filler", "Filler", "Nothing.")]
    for number in range(N):
        gold = (f"g{number}", "extra") if number == 1 else (f"g{number}",)
        split = "train" if number >= 30 else "dev"
        questions.append(Question(f"q{number}", f"Where was Person{number} born?", (f"Town{number}",), "P19",
                                  f"Person{number}", split=split, gold=gold))  # fmt: skip
    made = make_study(tmp_path / "toy", passages, questions)
    filler = len(passages) - 1
    rows = np.array([[number, filler] if number % 2 == 0 else [filler, -1] for number in range(N)], np.int32)
    scores = np.tile(np.array([2.0, 1.0], np.float32), (N, 1))
    write_run(made, "run", [q.id for q in questions], Hits(rows, scores), {"retriever": "toy"})
    People(made.labels_path).add("ann")
    return made


def judge_all(study, batch, limit=None):
    """Label the drawn claims by the text: a gold passage that only mentions the answer does not state the fact."""
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    for item in Queue(study.labels_path).items(batch)[:limit]:
        for candidate in item.candidates:
            text = study.corpus.passages([study.corpus.ordinals([candidate.passage])[candidate.passage]])[0].text
            label = "positive" if "was born in" in text else "negative"
            give(store, item.question, candidate.passage, label)


def give(store, question, passage, label):
    number = store.last_event
    store.add("ann", LabelEvent(f"event-{number}", "label", question, (Choice(passage, label),)))


def test_claims_of_the_three_populations(study):
    misses, asked = claims_of(study, GoldCheck("misses", "run", 2))
    assert {claim.question for claim in misses} == {f"q{n}" for n in range(1, N, 2)} and asked == N
    assert set(next(claim for claim in misses if claim.question == "q1").passages) == {"g1", "extra"}
    hits, _ = claims_of(study, GoldCheck("hits", "run", 2))
    assert [claim.passages for claim in hits] == [(f"g{n}",) for n in range(0, N, 2)]
    training, _ = claims_of(study, GoldCheck("training", ""))
    assert [(claim.question, *claim.passages) for claim in training] == [(f"q{n}", f"g{n}") for n in range(30, N)]
    assert set(WORDS) == set(POPULATIONS)
    with pytest.raises(BadInput, match="k must be from 1 to 2"):
        claims_of(study, GoldCheck("misses", "run", 3))


def test_the_likeliest_passages_stand_for_many(study):
    ScoreStore.create(study, "mine", calibrated=True).add([("q1", "extra", 0.9), ("q1", "g1", 0.2), ("q3", "g3", 0.4)])
    ScoreStore.create(study, "raw", calibrated=False).add([(f"q{n}", f"g{n}", 0.5) for n in range(N)])
    check = GoldCheck("misses", "run", 2, judge="mine")
    claims = {claim.question: claim for claim in claims_of(study, check)[0]}
    assert claims["q1"].passages == ("extra", "g1") and claims["q1"].doubt == pytest.approx(0.1 * 0.8)
    assert claims["q5"].doubt == pytest.approx(0.5), "unscored: the mean of the scored ones"
    assert best_judge(study, check) == "mine", "only calibrated judges"
    assert PASSAGES == 5


def test_outcomes():
    claim = Claim("q", ("a", "b"), 0.5)

    def outcome(**labels):
        return outcome_of(claim, {("q", passage): label for passage, label in labels.items()}, False)

    assert outcome(a="negative") == outcome() == "waiting"
    assert outcome(b="positive") == outcome(a="open", b="positive") == "stated", "one passage is enough"
    assert outcome(a="related", b="negative") == "doubtful"
    assert outcome(a="unsure", b="negative") == "unsettled"
    assert outcome_of(claim, {}, is_bad=True) == "unsettled"


def test_a_check_from_the_draw_to_the_sentence(study):
    check = GoldCheck("misses", "run", 2)
    queue_gold_check(study, "first", check, 8)
    judge_all(study, "first")
    few = gold_estimates(study)[0]
    assert few.judged == 8 < FEW and few.share is None and "a share needs 10: draw more" in few.sentence()
    queue_gold_check(study, "second", check, 12)
    drawn = [item.question for batch in ("first", "second") for item in Queue(study.labels_path).items(batch)]
    assert sorted(drawn) == sorted(f"q{n}" for n in range(1, N, 2)), "the second batch continues the draws"
    judge_all(study, "second", limit=3)
    part = gold_estimates(study, "run")[0]
    assert (part.drawn, part.judged) == (20, 11) and part.share.low < part.share.value < part.share.high
    judge_all(study, "second")
    whole = gold_estimates(study)[0]
    doubtful = sum(n % 3 == 0 for n in range(1, N, 2))
    assert (whole.judged, whole.doubtful, whole.claims, whole.units) == (20, doubtful, 20, 20)
    assert whole.share.value == pytest.approx(doubtful / 20), "all were drawn"
    assert (
        f"Of 20 misses of run at 2, {100 * doubtful / 20:.0f}% (all were judged) have doubtful gold" in whole.sentence()
    )
    assert "From 20 judged misses (21 labelled pairs), drawn at random." in whole.sentence()
    with pytest.raises(Refused, match="all 20 were drawn already"):
        queue_gold_check(study, "third", check, 1)
    assert gold_estimates(study, "another") == []


def test_success_without_chance_matches(study):
    queue_gold_check(study, "hits", GoldCheck("hits", "run", 2), 20)
    judge_all(study, "hits")
    (found,) = gold_estimates(study)
    right = sum(n % 3 != 0 for n in range(0, N, 2))
    assert found.success.value == pytest.approx(right / N)
    assert f"Success@2 without chance matches: {100 * right / N:.1f}%" in found.sentence()


def test_an_annotator_gets_judged_questions_again_and_sees_no_answer_key(study):
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    give(store, "q5", "filler", "negative")
    queue_gold_check(study, "gold", GoldCheck("misses", "run", 2), 20)
    queue = Queue(study.labels_path)
    assert queue.available_counts("ann") == {"gold": 20}, "q5 too, of which ann judged another passage"
    card = Cards(study).cards_of_leases("ann", queue.claim("ann"))[0]
    assert card["candidates"] and not card["positives"], (
        "the gold that is to be judged is not shown as a known positive"
    )


def test_rejected_gold_leaves_evaluation_training_and_exports(study, tmp_path):
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    for question, passage, label in (
        ("q0", "g0", "negative"),
        ("q1", "extra", "related"),
        ("q2", "filler", "positive"),
    ):
        give(store, question, passage, label)
    run = study.run("run")
    mended, imported = relevant(study, run, "gold"), relevant(study, run, "gold", as_imported=True)
    assert mended.left_out == {"gold passages that people reject": 1} and imported.left_out == {}
    assert len(mended.rows) == N - 1 and mended.n_relevant.sum() == imported.n_relevant.sum() - 2
    assert imported.relevant[0, 0] and "q0" not in {question.id for question in mended.questions}
    original = corrected_run(study, run, "gold").figures_at([1])[0].original
    assert original.n == N, "the original figure keeps the gold as it was imported"
    written = export_qrels(study, "trec", path=tmp_path / "qrels.txt")
    lines = (tmp_path / "qrels.txt").read_text().splitlines()
    assert "q0 0 g0 0" in lines and "q1 0 extra 0" in lines and "q2 0 filler 1" in lines and "q1 0 g1 1" in lines
    assert (
        "2 that people reject are left out" in written.notes[-1] and "1 that people call positive" in written.notes[-1]
    )
    export_questions(study, "question-jsonl", path=tmp_path / "q.jsonl")
    gold = {row["id"]: row.get("gold", []) for row in map(json.loads, (tmp_path / "q.jsonl").read_text().splitlines())}
    assert gold["q1"] == ["g1"] and not gold["q0"] and gold["q2"] == ["g2", "filler"]


def test_how_gold_was_made(study):
    assert "All of 41 passages sampled from the study's gold contain an answer" in unchecked_gold_sentence(study)
    study.questions.add([Question("odd", "Who?", ("Nobody",), gold=("filler",))])
    assert unchecked_gold_sentence(study) == "", "gold without an answer was not made by matching one"


def run_command(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_the_command(study):
    folder = ["--study", str(study.folder)]
    made = run_command("batch", "gold", "b", "--of", "misses", "--run", "run", "--k", "2", "--size", "12", *folder)
    assert "12 of 20 questions" in made
    assert "a share needs 10: 12 more are drawn in b" in run_command("misses", "run", "--k", "2", *folder)
    judge_all(study, "b")
    told = run_command("labels", "audit", *folder)
    assert "have doubtful gold: no gold passage states the fact" in told
    assert json.loads(run_command("labels", "audit", "--json", *folder))["gold"][0]["judged"] == 12
    with pytest.raises(Missing):
        queue_gold_check(study, "none", GoldCheck("training", "no-such-set"), 3)

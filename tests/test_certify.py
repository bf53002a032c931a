"""`training-set certify`: draws by design, bounds from labels, withdrawal, and one line for everything that is wrong."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.analysis.certificates import bet_against_hits
from blindspot.analysis.weighted_draws import draw_order
from blindspot.app.cli import app
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import audit
from blindspot.backend.training_sets.certificate_draws import draw_more, make_plan, parse_share, queue_plan, read_plan
from blindspot.backend.training_sets.certificates import (
    certify,
    proof_sentences,
    sensitivity_sentence,
    stated_certificate,
)
from blindspot.backend.training_sets.exports import export
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.app_pages import Page
from tests.studies import make_study
from tests.training_studies import build, copied

QUESTIONS, DEPTH, PASSAGES = 40, 26, 120


def answers(question: str, passage: str) -> bool:
    """The truth: of a question's 25 negatives, those at rank 2 of every fifth question answer it."""
    number = int(question[1:])
    return number % 5 == 0 and passage == f"p{(number + 3) % PASSAGES}"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    passages = [Passage(f"p{i}", f"Title {i}", f"Text of number {i}.") for i in range(PASSAGES)]
    questions = [
        Question(f"q{i}", f"What is {i}?", (f"answer {i}",), "P1", f"s{i}", split="train", gold=(f"p{i}",), dataset="d")
        for i in range(QUESTIONS)
    ]
    study = make_study(tmp_path_factory.mktemp("certify") / "s", passages, questions)
    rows = np.array([[i, *((i + 3 * step) % PASSAGES for step in range(1, DEPTH))] for i in range(QUESTIONS)], np.int32)
    scores = np.tile(np.arange(DEPTH, 0, -1, dtype=np.float32), (QUESTIONS, 1))
    write_run(study, "r", [q.id for q in questions], Hits(rows, scores), {"retriever": "r", "split": "train"})
    build(study, name="raw")
    store = ScoreStore.create(study, "good", True)
    store.add(
        (q.id, f"p{row}", 0.7 if answers(q.id, f"p{row}") else 0.002)
        for q, hits in zip(questions, rows.tolist(), strict=True)
        for row in hits[1:]
    )
    People(study.labels_path).add("ann")
    return study


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    return copied(untouched, tmp_path / "s")


def judge(study, label=None, limit=None) -> int:
    """Ann judges what the queue gives her: by the truth, or as `label` says for a pair. Return the pairs."""
    queue, labels, done = Queue(study.labels_path), store_of(study), 0
    while (limit is None or done < limit) and (leases := queue.claim("ann", 1)):
        (lease,) = leases
        for each in queue.items(lease.batch, [lease.question])[0].candidates:
            right = answers(lease.question, each.passage) or each.passage == f"p{lease.question[1:]}"
            said = (label or {}).get((lease.question, each.passage)) or ("positive" if right else "negative")
            choices = (Choice(each.passage, said),)
            event = LabelEvent(
                f"{lease.batch}-{lease.question}-{each.passage}", "label", lease.question, choices, batch=lease.batch
            )
            labels.add("ann", event)
            done += 1
        queue.finish("ann", lease.batch, lease.question)
    return done


def again(study, question, passage, label):
    event = LabelEvent(f"again-{question}-{passage}-{label}", "label", question, (Choice(passage, label),))
    store_of(study).add("ann", event)


def store_of(study) -> Labels:
    return Labels(study.labels_path, passages=study.corpus.ordinals)


def run(study, *arguments):
    return CliRunner().invoke(app, ["training-set", "certify", *arguments, "--study", str(study.folder)])


def test_the_draws_are_a_batch_and_a_seed_draws_the_same_again(study):
    planned = make_plan(study, "raw", 0.05, judge="good", positives=10, seed=4)
    assert planned.draws == make_plan(study, "raw", 0.05, judge="good", positives=10, seed=4).draws
    assert planned.draws != make_plan(study, "raw", 0.05, judge="good", positives=10, seed=5).draws
    assert planned.negatives == QUESTIONS * (DEPTH - 1) == planned.cells.size and planned.positives == QUESTIONS
    assert planned.counts.sum() == planned.negatives and not planned.piloted
    name = queue_plan(study, "raw", planned)
    assert name == "raw-certificate-1" and read_plan(TrainingSet.open(study, "raw")).batches == [name]
    items = Queue(study.labels_path).items(name)
    shown = {(item.question, c.passage): c.inclusion_probability for item in items for c in item.candidates}
    drawn = [*planned.draws, *planned.positive_draws]
    assert shown == pytest.approx({draw[:2]: draw.probability for draw in drawn})
    assert items[0].question == planned.draws[0].question
    assert audit(study).drawn == 0, "the draws of a certificate are no audit"
    with pytest.raises(Refused, match="drawn already"):
        make_plan(study, "raw", 0.05)


def test_labels_certify_the_set_and_a_changed_label_withdraws_it(study, tmp_path):
    planned = make_plan(study, "raw", 0.05, judge="good", positives=20)
    queue_plan(study, "raw", planned)
    assert certify(study, "raw").upper == 1.0 and stated_certificate(study, TrainingSet.open(study, "raw")) is None
    judge(study)
    found = certify(study, "raw")
    assert found.judged == len(planned.draws) and found.false >= 1 and found.unsettled == 0
    assert 8 / found.negatives <= found.upper and found.upper_after < found.upper < 0.06
    assert found.holds_after and found.more == 0
    assert (found.positives_judged, found.right) == (20, 20) and 0.8 < found.right_at_least < 1
    assert sum(each.pairs for each in found.strata) == found.negatives
    assert [each.stratum for each in found.strata] == ["ranks 2-5", "ranks 6-20", "rank 21 and below"]
    made = TrainingSet.open(study, "raw")
    assert stated_certificate(study, made).withdrawn == []
    upper, after = found.bounds_with_missed_positives(0.05)
    assert upper == pytest.approx(found.upper / 0.95) and after == pytest.approx(
        max(0.0, upper * found.negatives - found.false) / (found.negatives - found.false)
    )
    assert sensitivity_sentence(found).startswith(
        f"If people miss 5% of the positives: at most {100 * upper:.3g}% as the set is"
    )
    measured = replace(found, missed=3, of_positives=12)
    assert "People missed 3 of 12 labels of settled positives (25.0%)" in sensitivity_sentence(measured)
    assert f"{100 * found.upper / 0.75:.3g}%" in sensitivity_sentence(measured)
    card = (export(study, "raw", "beir", tmp_path / "out").path / "README.md").read_text()
    assert "If people miss 5% of the positives" in card
    assert (
        all(sentence in card for sentence in proof_sentences(found)) and f"at most {100 * found.upper:.3g}% of" in card
    )
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["certificate"]["upper"] == found.upper
    # A label that the certificate rests on changes.
    draw = next(each for each in planned.draws if not answers(*each[:2]))
    again(study, draw.question, draw.passage, "positive")
    (why,) = stated_certificate(study, made).withdrawn
    assert why == f"question {draw.question} passage {draw.passage} was negative and is now positive"
    assert (
        "withdrawn, because question" in (export(study, "raw", "beir", tmp_path / "2").path / "README.md").read_text()
    )
    worse = certify(study, "raw")
    assert worse.false == found.false + 1 and worse.upper > found.upper
    assert stated_certificate(study, made).withdrawn == []


def test_unsettled_pairs_and_bad_questions_count_against_it(study):
    planned = make_plan(study, "raw", 0.05, positives=0)
    queue_plan(study, "raw", planned)
    unsure = next(each for each in planned.draws if not answers(*each[:2]))
    judge(study, {unsure[:2]: "unsure"})
    found = certify(study, "raw")
    assert found.unsettled == 1
    assert found.false == sum(answers(*each[:2]) for each in planned.draws) + 1
    bad = next(each for each in planned.draws if each.question != unsure.question and not answers(*each[:2]))
    Labels(study.labels_path).add("ann", LabelEvent("bad-question-1", "bad_question", bad.question))
    assert certify(study, "raw").unsettled == 1 + sum(each.question == bad.question for each in planned.draws)


def test_labels_out_of_order_count_from_the_first_gap(study):
    planned = make_plan(study, "raw", 0.05, positives=0)
    queue_plan(study, "raw", planned)
    judge(study, limit=60)
    labelled = {(c.question, c.passage) for c in Labels(study.labels_path).consensus()}
    expected = next(n for n, draw in enumerate(planned.draws) if draw[:2] not in labelled)
    found = certify(study, "raw")
    assert 0 < found.judged == expected < len(labelled) and found.unlabelled_draws == len(planned.draws) - expected


def test_more_draws_continue_the_order(study):
    planned = make_plan(study, "raw", 0.1, labels=60, positives=0)
    queue_plan(study, "raw", planned)
    assert draw_more(study, "raw", 30) == "raw-certificate-2"
    longer = read_plan(TrainingSet.open(study, "raw"))
    assert longer.draws[:60] == planned.draws and len(set(longer.draws)) == 90
    assert [len(b.settings) for b in Queue(study.labels_path).batches()] == [5, 5]
    judge(study)
    before = certify(study, "raw").upper
    draw_more(study, "raw", 2000)
    judge(study)
    census = certify(study, "raw")
    assert census.judged == 1000 and census.upper == pytest.approx(8 / 1000) and census.upper < before
    assert census.upper_after == 0
    with pytest.raises(Refused, match="all 1,000 negatives"):
        draw_more(study, "raw", 1)


def test_judged_negatives_are_known_and_not_drawn_and_teach_the_plan(study):
    for number in range(QUESTIONS):
        passages = [f"p{(number + 3 * step) % PASSAGES}" for step in (1, 2)]
        for passage in passages:
            again(study, f"q{number}", passage, "positive" if answers(f"q{number}", passage) else "negative")
    planned = make_plan(study, "raw", 0.05, judge="good", positives=0)
    assert len(planned.known_negatives) == 2 * QUESTIONS and planned.piloted
    assert not {draw[:2] for draw in planned.draws} & set(planned.known_negatives)
    queue_plan(study, "raw", planned)
    judge(study)
    found = certify(study, "raw")
    assert found.known == 80 and found.false == 8, "the known false negatives count"
    assert 8 / 1000 <= found.upper <= 0.05
    clean = build(study, "labels", name="clean")
    assert make_plan(study, "clean", 0.05).negatives == 1000 - 8 and clean.manifest["inputs"]["labels"]["used"]


def test_the_bound_covers_the_truth_with_a_wrong_judge(study):
    """Drawn with 200 seeds, with a judge who is wrong on purpose: the bound is above the truth."""
    store = ScoreStore.create(study, "wrong", True)
    pairs = [pair for _, group in TrainingSet.open(study, "raw").groups() for pair in group if pair.role == "negative"]
    store.add((p.question, p.passage, 0.01 if answers(p.question, p.passage) else 0.03) for p in pairs)
    planned = make_plan(study, "raw", 0.05, judge="wrong", labels=120, positives=0)
    truth = np.array([answers(p.question, p.passage) for p in pairs])
    orders = [draw_order(planned.cells.weights[planned.member], seed, 120)[0] for seed in range(200)]
    made = bet_against_hits(truth[orders], planned.member[orders], planned.cells, planned.target, planned.horizon)
    assert (made.upper_bounds() >= 8 / 1000).mean() >= 0.94


def test_the_command_plans_draws_and_states(study):
    dry = run(study, "raw", "--at-most", "5%", "--judge", "good", "--dry-run")
    assert dry.exit_code == 0 and "Nothing was drawn" in dry.output and "people judge" in " ".join(dry.output.split())
    assert not Queue(study.labels_path).batches()
    planned = run(study, "raw", "--at-most", "5%", "--judge", "good", "--positives", "5")
    assert "Queued them as batch raw-certificate-1 (seed 0)" in planned.output
    assert "0 of" in run(study, "raw").output
    judge(study)
    stated = run(study, "raw").output
    assert (
        "Certified: at most 5% false negatives at 95% confidence." in stated and "Right positives: at least" in stated
    )
    as_json = json.loads(run(study, "raw", "--json").output)
    assert as_json["judge"] == "good" and as_json["more"] == 0
    strict = run(study, "raw", "--at-most", "0.5%").output
    assert "Not certified" in strict
    shown = CliRunner().invoke(app, ["training-set", "show", "raw", "--study", str(study.folder)]).output
    assert "False negatives: at most" in shown
    assert "Queued 7 negatives more as batch raw-certificate-2" in run(study, "raw", "--more", "7").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["raw"], "no pairs of training set 'raw' were drawn for a certificate yet; run 'blindspot training-set certify raw"),
        (["raw", "--more", "5"], "no pairs of training set 'raw' were drawn"),
        (["raw", "--at-most", "0%"], "--at-most must be above 0% and below 50%, as in 2% or 0.02, not '0%'"),
        (["raw", "--at-most", "80%"], "--at-most must be above 0% and below 50%"),
        (["raw", "--at-most", "many"], "--at-most must be above 0%"),
        (["raw", "--at-most", "2%", "--confidence", "100%"], "--confidence must be above 0% and below 100%"),
        (["raw", "--at-most", "2%", "--confidence", "30%"], "confidence must be a number of at least 0.5 and below 1"),
        (["raw", "--at-most", "2%", "--labels", "20"], "20 judged negatives cannot certify 2% at 95% confidence"),
        (["raw", "--at-most", "2%", "--judge", "nobody"], "there are no scores of a model 'nobody'"),
        (["absent", "--at-most", "2%"], "there is no training set 'absent'"),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_one_line(study, arguments, said):

    done = run(study, *arguments)
    assert done.exit_code != 0
    assert said in str(done.exception or done.output)
    assert not Queue(study.labels_path).batches()


def test_a_set_without_negatives_and_another_judge_are_refused(study):
    none = build(study, "cross_encoder", name="none", model="good", keep_below=0.0)
    with pytest.raises(Refused, match="training set 'none' has no negatives, so there is nothing to certify"):
        make_plan(study, none.name, 0.02)
    queue_plan(study, "raw", make_plan(study, "raw", 0.05, positives=0))
    assert "were drawn with no judge; leave out --judge" in str(run(study, "raw", "--judge", "good").exception)
    with pytest.raises(BadInput, match="at least one more"):
        draw_more(study, "raw", 0)
    with pytest.raises(Missing, match="no pairs"):
        draw_more(study, "none", 3)
    (study.path("training_sets", "raw") / "certificate" / "plan.json").write_text("{}")
    with pytest.raises(BadInput, match="is not a plan of a certificate"):
        certify(study, "raw")


def test_a_rebuilt_set_has_no_certificate(study):
    queue_plan(study, "raw", make_plan(study, "raw", 0.05, positives=0))
    judge(study)
    certify(study, "raw")
    folder = study.path("training_sets", "raw")
    kept = folder.with_name("kept")
    shutil.copytree(folder / "certificate", kept)
    shutil.rmtree(folder)
    build(study, "labels", name="raw")
    assert stated_certificate(study, TrainingSet.open(study, "raw")) is None
    shutil.move(kept, folder / "certificate")
    assert stated_certificate(study, TrainingSet.open(study, "raw")).withdrawn[0] == "the pairs of the set changed"
    with pytest.raises(BadInput, match="changed since they were drawn"):
        certify(study, "raw")


def test_the_pages_show_it(study):
    People(study.labels_path).add("lea", "lead")
    assert "Not certified. No pairs were sampled yet." in Page(study.folder, "training", "lea", set="raw").text
    queue_plan(study, "raw", make_plan(study, "raw", 0.05, judge="good", positives=5))
    assert "sampled to judge" in Page(study.folder, "training", "lea", set="raw").text
    judge(study)
    found = certify(study, "raw")
    page = Page(study.folder, "training", "lea", set="raw").text
    assert "Certified: at most 5%" in page and "Right positives: at least" in page and "ranks 6-20" in page
    quality = Page(study.folder, "quality", "lea").text
    assert (
        "Certified training sets" in quality and f"{100 * found.upper:.2f}" in quality and "5% at 95%: holds" in quality
    )
    draw = read_plan(TrainingSet.open(study, "raw")).draws[0]
    again(study, draw.question, draw.passage, "unsure")
    assert f"Withdrawn: question {draw.question}" in Page(study.folder, "training", "lea", set="raw").text
    assert "withdrawn" in Page(study.folder, "quality", "lea").text


def test_shares_are_read_as_people_write_them():
    assert (
        parse_share("2%", "--at-most")
        == parse_share("0.02", "--at-most")
        == parse_share(" 2.0 % ", "--at-most")
        == 0.02
    )

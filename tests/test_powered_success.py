"""Success@k by people's labels: unbiased and covering for judges of every bias, and drawn from random audits alone."""

import numpy as np
import pytest

from blindspot.analysis.expected_success import (
    QuestionCounts,
    SuccessSample,
    expected_success,
    labelled_success,
    powered_success,
    probability_all_shown,
)
from blindspot.analysis.judged import corrected_relevance
from blindspot.backend.judges.powered_success import run_successes
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import audit_samples
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.corrected import corrected_run
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from tests.annotators import annotate
from tests.overlap import RUN, encyclopedia_study

QUESTIONS, K, SHOWN, CERTAIN = 500, 3, 8, 200


@pytest.fixture(scope="module")
def world():
    """(hits, calibrated scores), (QUESTIONS, K) each, and each question's pool, which is larger where hits are wrong."""
    rng = np.random.default_rng(5)
    base = rng.normal(-2.0, 1.2, QUESTIONS)[:, None]
    chance = 1 / (1 + np.exp(-(base + rng.normal(0, 1.5, (QUESTIONS, K)))))
    hits = rng.random(chance.shape) < chance
    return hits, chance, np.where(hits.any(axis=1), 8, rng.integers(8, 13, QUESTIONS))


def drawn(hits, pools, n, seed, settled=None):
    """Draw n questions and SHOWN passages of each pool, and keep the questions whose first K hits were all shown."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(QUESTIONS, n, replace=False)
    kept = np.array([q for q in chosen if (rng.permutation(pools[q])[:SHOWN] < K).sum() == K])
    chances = np.array([n / QUESTIONS * probability_all_shown(int(pools[q]), SHOWN, K) for q in kept])
    right, none = hits[kept].any(axis=1), np.zeros(len(kept), bool)
    known = ~none if settled is None else settled[kept]
    return SuccessSample(right & known, right | ~known, known, none, chances, kept), kept


@pytest.mark.parametrize("bias", ["up", "down"])
@pytest.mark.parametrize(("n", "whole"), [(15, True), (80, False)])
def test_a_biased_judge_does_not_move_success_and_the_interval_covers(world, bias, n, whole):
    """With few questions the audit shows whole pools; a part of each makes a ratio of weighted sums, biased by order 1 / n."""
    hits, chance, pools = world
    pools = np.full(QUESTIONS, SHOWN) if whole else pools
    scores = np.minimum(4 * chance, 1) if bias == "up" else chance / 4
    predicted = expected_success(scores, np.ones_like(hits))
    counts = QuestionCounts(QUESTIONS + CERTAIN, CERTAIN, QUESTIONS)
    truth = counts.success(hits.any(axis=1).mean())
    assert abs(counts.success(predicted.mean()) - truth) > 0.1, "the judge alone is far off"
    found = []
    for seed in range(400):
        sample, kept = drawn(hits, pools, n, seed)
        found.append(powered_success(sample, predicted[kept], predicted, counts))
    assert np.mean([each.low <= truth <= each.high for each in found]) >= 0.94
    assert np.mean([each.value for each in found]) == pytest.approx(truth, abs=0.01)
    if whole:
        return
    unweighted = np.mean([hits[drawn(hits, pools, n, seed)[1]].any(axis=1).mean() for seed in range(100)])
    assert counts.success(unweighted) > truth + 0.02, "without its weights the sample would favour successes"


def test_the_classical_figure_stands_beside_it_and_is_wider(world):
    hits, chance, pools = world
    predicted, counts = expected_success(chance, np.ones_like(hits)), QuestionCounts(QUESTIONS, 0, QUESTIONS)
    pairs = []
    for seed in range(20):
        sample, kept = drawn(hits, pools, 80, seed)
        pairs.append((powered_success(sample, predicted[kept], predicted, counts), labelled_success(sample, counts)))
    assert np.mean([a.high - a.low for a, _ in pairs]) < 0.95 * np.mean([b.high - b.low for _, b in pairs])
    assert all(a.labelled == b.labelled and a.scored == QUESTIONS and b.scored == 0 for a, b in pairs)


def test_unsettled_questions_leave_the_value_and_enter_the_bounds(world):
    hits, chance, pools = world
    settled = np.random.default_rng(2).random(QUESTIONS) < 0.8
    sample, kept = drawn(hits, pools, 80, 1, settled)
    predicted, counts = expected_success(chance, np.ones_like(hits)), QuestionCounts(600, 50, QUESTIONS, 10)
    whole, _ = drawn(hits, pools, 80, 1)
    for make in (labelled_success, lambda s, c: powered_success(s, predicted[kept], predicted, c)):
        found, truth = make(sample, counts), make(whole, counts)
        assert (found.labelled, found.unsettled) == (settled[kept].sum(), (~settled[kept]).sum())
        assert found.lower_bound < found.value < found.upper_bound
        assert found.lower_bound <= truth.value <= found.upper_bound


def test_the_arithmetic_by_hand():
    assert probability_all_shown(10, 8, 2) == pytest.approx(8 / 10 * 7 / 9) and probability_all_shown(5, 5, 5) == 1
    scores = np.array([[0.5, 0.5, np.nan], [0.2, 1.0, 0.0]])
    assert expected_success(scores, np.array([[1, 1, 0], [1, 0, 0]], bool)).tolist() == [0.75, pytest.approx(0.2)]
    assert QuestionCounts(10, 4, 5, 1).success(0.4) == pytest.approx(0.6)
    assert QuestionCounts(10, 4, 5, 1).bounds(0.25, 0.75) == pytest.approx((0.5, 0.8))


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A study with an audit of the first 5 hits, judged without error; its truth; (q, 10) bool, hits that are right."""
    study, truth = encyclopedia_study(tmp_path_factory.mktemp("success") / "study", passages=600)
    make_batch(study, "a", [RUN], size=40, depth=5, candidates=5, mix=ArmShares(1.0, 0, 0), seed=1)
    annotate(study, truth, {"ann": 1.0})
    measured = corrected_run(study, study.run(RUN), "gold")
    right = np.array(
        [[str(o + 1) in truth[q.id] for o in row] for q, row in zip(measured.questions, measured.ordinals, strict=True)]
    )
    return study, truth, right


def judge(study, name, right, measured, value=lambda is_right: float(is_right)):
    ids = {o: p.id for o, p in zip(range(600), study.corpus.passages(range(600)), strict=True)}
    rows = zip(measured.questions, measured.ordinals.tolist(), right.tolist(), strict=True)
    ScoreStore.create(study, name, True).add(
        (q.id, ids[o], value(is_right)) for q, row, good in rows for o, is_right in zip(row, good, strict=True)
    )


def test_a_run_of_a_study(audited):
    study, truth, right = audited
    measured = corrected_run(study, study.run(RUN), "gold")
    (bare,) = run_successes(study, RUN, measured, [5])
    assert "no judge has scores; score all hits: blindspot judge run NAME --run overlap)." in bare.sentences()[0]
    judge(study, "truthful", right, measured)
    judge(study, "eager", right, measured, lambda is_right: 0.9 if is_right else 0.4)
    ScoreStore.create(study, "partly", True).add([(measured.questions[0].id, "1", 0.5)])
    by_k = {each.k: each for each in run_successes(study, RUN, measured, [1, 5, 10, 50])}
    assert list(by_k) == [1, 5, 10]
    for k in (1, 5):
        judges = {each.judge: each for each in by_k[k].judges}
        target = right[:, :k].any(axis=1).mean()
        assert judges["truthful"].share.value == pytest.approx(target, abs=0.02)
        assert judges["truthful"].share.predicted == pytest.approx(target)
        assert judges["eager"].share.low <= target <= judges["eager"].share.high
        assert judges["partly"].share is None and "blindspot judge run partly --run overlap" in judges["partly"].reason
        labelled = by_k[k].labelled
        assert labelled.low <= target <= labelled.high and labelled.labelled <= 40
    gold, labels = measured.gold[:, :5], measured.labels[:, :5]
    certain = (gold & corrected_relevance(measured.relevant[:, :5], labels)).any(axis=1)
    asked = {item.question for sample in audit_samples(study) for item in sample.complete}
    expected = sum(q.id in asked and not sure for q, sure in zip(measured.questions, certain, strict=True))
    assert by_k[5].labelled.labelled == expected, "all drawn questions that gold leaves open"
    assert "No judged random audit drew from the first 10 hits of overlap; draw one" in by_k[10].sentences()[0]


def test_labels_of_priority_batches_settle_no_question_of_the_sample(audited):
    study, truth, right = audited
    measured = corrected_run(study, study.run(RUN), "gold")
    before = run_successes(study, RUN, measured, [5])[0].labelled
    make_batch(study, "p", [RUN], size=30, depth=5, candidates=5, mix=ArmShares(0, 0, 0), seed=4)
    annotate(study, truth, {"ann": 1.0}, seed=7)
    after = corrected_run(study, study.run(RUN), "gold")
    assert (after.labels != 0).sum() > (measured.labels != 0).sum()
    assert run_successes(study, RUN, after, [5])[0].labelled == before


def test_the_page_the_report_and_the_command_show_it(audited):
    import json

    from typer.testing import CliRunner

    from blindspot.app.cli import app
    from blindspot.backend.core.runs import write_run
    from blindspot.backend.reports.labels import label_findings, label_parts, label_sentences
    from blindspot.db.people import People
    from tests.app_pages import Page

    study, _, right = audited
    if "truthful" not in study.parts("scores"):
        judge(study, "truthful", right, corrected_run(study, study.run(RUN), "gold"))
    run = study.run(RUN)
    write_run(study, "other", run.question_ids, run.hits, {"retriever": "other", "kind": "imported"})
    measured = corrected_run(study, run, "gold")
    said = run_successes(study, RUN, measured, [5], judges=["truthful"])[0].sentences()[0]
    where = [
        "labels",
        "audit",
        "--study",
        str(study.folder),
        "--run",
        RUN,
        "--relevance",
        "gold",
        "--judge",
        "truthful",
    ]
    assert said in " ".join(CliRunner().invoke(app, where).output.split())
    told = json.loads(CliRunner().invoke(app, [*where, "--json"]).output)["success"]
    assert [each["k"] for each in told] == [1, 5, 20][: len(told)] and told[1]["judges"][0]["judge"] == "truthful"
    found = label_findings(study, [RUN], "gold", "dpr")
    assert said in list(label_sentences(found, 5)) and any("labels alone" in part for part in label_parts(found))
    People(study.labels_path).add("lea", "lead")
    page = Page(study.folder, "compare", "lea", a=RUN, b="other", k=5, relevance="gold").text
    assert said in page and "Success@5 of other if people judged every hit: no estimate" in page


def test_disputes_and_bad_questions(audited):
    study, _, _ = audited
    sample = audit_samples(study)[0]
    measured = corrected_run(study, study.run(RUN), "gold")
    before = run_successes(study, RUN, measured, [5])[0].labelled
    open_ids = [q.id for q, gold in zip(measured.questions, measured.gold[:, :5], strict=True) if not gold.any()]
    first, second = [item for item in sample.complete if item.question in open_ids][:2]
    labels = Labels(study.labels_path)
    labels.add("ann", LabelEvent("bad-1", "bad_question", first.question, batch="a"))
    unsure = Choice(second.candidates[0].passage, "unsure")
    labels.add("ann", LabelEvent("unsure-1", "label", second.question, (unsure,), batch="a"))
    after = run_successes(study, RUN, corrected_run(study, study.run(RUN), "gold"), [5])[0].labelled
    assert (after.labelled, after.unsettled) == (before.labelled - 2, 1)
    assert after.lower_bound < after.upper_bound and before.lower_bound == before.upper_bound


def test_what_the_audit_cannot_say(tmp_path):
    study, truth = encyclopedia_study(tmp_path / "s", passages=500)
    measured = corrected_run(study, study.run(RUN), "gold")
    assert "No judged random audit drew from the first 5 hits" in run_successes(study, RUN, measured, [5])[0].reason
    make_batch(study, "few", [RUN], size=5, depth=10, candidates=10, mix=ArmShares(1.0, 0, 0), seed=1)
    annotate(study, truth, {"ann": 1.0})
    measured = corrected_run(study, study.run(RUN), "gold")
    assert "and 10 are needed; draw one" in run_successes(study, RUN, measured, [5])[0].sentences()[0]
    narrow = make_batch(study, "narrow", [RUN], size=20, depth=10, candidates=3, mix=ArmShares(1.0, 0, 0), seed=2)
    assert narrow.arms == {"audit": 20}
    annotate(study, truth, {"ann": 1.0}, seed=1)
    measured = corrected_run(study, study.run(RUN), "gold")
    assert "3 passages of a question, too few" in run_successes(study, RUN, measured, [5])[0].reason
    assert run_successes(study, RUN, measured, [1])[0].labelled is not None
    chosen = [q.id for q in measured.questions[:30]]
    make_batch(study, "slice", [RUN], size=15, depth=5, candidates=5, slice=chosen, mix=ArmShares(1.0, 0, 0), seed=3)
    annotate(study, truth, {"ann": 1.0}, seed=2)
    measured = corrected_run(study, study.run(RUN), "gold")
    assert "drawn from a slice" in run_successes(study, RUN, measured, [5], batch="slice")[0].reason
    make_batch(study, "top5", [RUN], size=20, depth=5, candidates=5, mix=ArmShares(1.0, 0, 0), seed=4)
    annotate(study, truth, {"ann": 1.0}, seed=3)
    measured = corrected_run(study, study.run(RUN), "gold")
    found = run_successes(study, RUN, measured, [5])[0]
    assert found.labelled.labelled >= 10, "the audit that shows whole pools is chosen"
    assert found.labelled.lower_bound < found.labelled.value < found.labelled.upper_bound
    assert "other audits drew" in found.sentences()[0]

"""The denoising benchmark: the rule for claims is right, and a killed training resumes to the same result."""

import numpy as np
import pytest

from benchmarks.denoising import plan
from benchmarks.denoising.finding import find
from benchmarks.denoising.retrievers import BEFORE, Bench, keep_before, keep_cell, outcome, same_plan, set_name
from benchmarks.denoising.verdict import claims, of_order, verdict
from blindspot.analysis.accuracy import Estimate
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.training_sets.builder import build
from blindspot.db.errors import Refused
from tests.studies import births, make_study, people, tiny_bert

pytest.importorskip("accelerate", reason="training needs accelerate")

DUAL = {
    "question_tokens": 16,
    "passage_tokens": 24,
    "batch": 4,
    "hard_negatives": 1,
    "steps": 6,
    "learning_rate": 1e-3,
    "held_out": 0,
    "evaluate_every": 2,
    "precision": "bfloat16",
}


@pytest.mark.parametrize(
    "low, high, seeds, said",
    [
        (0.001, 0.3, 3, "supported"),
        (0.3, 0.4, 2, "no claim"),
        (-0.2, 0.009, 3, "not supported"),
        (-0.2, 0.2, 3, "inconclusive"),
        (0.0, 0.2, 5, "inconclusive"),
        (0.001, 0.005, 3, "supported"),
    ],
)
def test_the_rule(low, high, seeds, said):
    assert verdict(Estimate((low + high) / 2, 100, low, high, ""), seeds) == said


def test_claims_are_paired_and_share_their_level():
    generator = np.random.default_rng(0)
    noisy = generator.random((3, 400)) < 0.5
    better = noisy | (generator.random((3, 400)) < 0.3)
    order = (("noisy", "better"), ("better", "same"))
    first, second = claims(order, {"noisy": noisy, "better": better, "same": better})
    # Two equal policies: the interval holds 0 and no difference is shown, which is not the same as a proof that there is none.
    assert (first.verdict, second.verdict) == ("supported", "inconclusive")
    assert of_order([first, second]) == "inconclusive"
    assert first.difference.value == pytest.approx(better.mean() - noisy.mean())
    alone = claims(order[:1], {"noisy": noisy, "better": better})[0].difference
    assert first.difference.low < alone.low and alone.high < first.difference.high  # 97.5% against 95%
    assert (
        of_order([first]) == "supported"
        and of_order(claims(order[:1], {"noisy": noisy[:2], "better": better[:2]})) == "no claim"
    )
    with pytest.raises(ValueError, match="same seeds and questions"):
        claims(order[:1], {"noisy": noisy[:2], "better": better})


def test_the_plan_is_what_can_be_compared():
    assert {policy for pair in plan.ORDER for policy in pair} <= set(plan.RETRIEVERS) and set(plan.RETRIEVERS) <= set(
        plan.POLICIES
    )
    assert plan.REAL_ORDER[0] == plan.REAL_POLICIES and plan.ENCYCLOPEDIA_SEED != 0
    assert plan.DUAL["held_out"] == plan.REAL_DUAL["held_out"] == 0


@pytest.fixture
def benches(tmp_path):
    passages = people()
    study = make_study(tmp_path / "s", passages, [*births(passages, "train")[:16], *births(passages)[16:]])
    from blindspot.backend.retrieval import bm25
    from blindspot.backend.retrieval.retrieve import retrieve

    bm25.build_index(study, threads=1)
    retrieve(study, "bm25", k=5, split="train", name="mined")
    tiny_bert(study.folder / "models" / "start")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "models" / "start"), "pooling": "cls", "max_tokens": 24},
    )
    build(study, set_name("none"), ["mined"])
    dev = study.questions.all(split="dev")

    def bench(name):
        return Bench(
            tmp_path / name,
            study,
            DUAL,
            dev,
            lambda encoder, into: find(study, encoder, dev, 20, into, "cpu", lambda *said: None),
            lambda cell: np.load(cell / "answers.dpr.npy"),
            "tiny",
        )

    return bench


def test_killed_it_goes_on_to_the_same(benches):
    whole, broken = benches("whole"), benches("broken")
    keep_before(whole, "cpu")
    keep_cell(whole, "none", 1, "cpu", lambda line: None)

    def stop(line):
        if "training 5" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        keep_cell(broken, "none", 1, "cpu", stop)
    assert not broken.cell("none", 1).exists()
    seen = []
    keep_cell(broken, "none", 1, "cpu", seen.append)
    assert not any("training 1 " in line for line in seen) and any("training 6 " in line for line in seen)
    assert np.array_equal(*(np.load(bench.cell("none", 1) / "ordinals.npy") for bench in (whole, broken)))
    seen.clear()
    keep_cell(broken, "none", 1, "cpu", seen.append)
    assert seen == [] and not (broken.folder / "models" / "none-1").exists()
    lines = outcome(whole, ["none"], (("none", "none"),), [1])
    assert lines[-1].startswith("none over none: +0.0 points") and lines[-1].endswith("no claim.")
    assert [line.split()[0] for line in lines[2:4]] == [
        BEFORE,
        "none",
    ] and f"{len(whole.questions)} questions" in lines[0]


def test_other_settings_in_one_folder_are_refused(tmp_path):
    same_plan(tmp_path / "work", {"dual": {"steps": 3}, "order": (1, 2)})
    same_plan(tmp_path / "work", {"dual": {"steps": 3}, "order": (1, 2)})
    with pytest.raises(Refused, match="started with other settings \\(dual\\)"):
        same_plan(tmp_path / "work", {"dual": {"steps": 4}, "order": (1, 2)})

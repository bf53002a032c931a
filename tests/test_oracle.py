"""The oracle over several runs, against figures worked by hand and against the oracle of two runs that compare shows."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.runs import write_run
from blindspot.backend.evaluation.comparison import Comparison, measure_all, overall
from blindspot.backend.evaluation.measures import MEASURES
from blindspot.backend.evaluation.oracle import oracle
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

RANKS = {"a": (1, 0, 3, 0, 2), "b": (2, 1, 0, 0, 1), "c": (0, 1, 1, 0, 2)}
"""Rank of each question's only answer passage; 0 for none."""
DEPTH = 4


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = [Passage(f"p{i}", f"T{i}", f"The answer is Ansver{i}.") for i in range(5)]
    passages += [Passage(f"f{i}", "F", "Nothing.") for i in range(8)]
    questions = [Question(f"q{i}", f"Where is {i}?", (f"Ansver{i}",), gold=(f"p{i}",), split="dev") for i in range(5)]
    made = make_study(tmp_path_factory.mktemp("oracle") / "s", passages, questions)
    for name, ranks in RANKS.items():
        rows = np.tile(np.arange(5, 5 + DEPTH, dtype=np.int32), (5, 1))
        for question, rank in enumerate(ranks):
            if rank:
                rows[question, rank - 1] = question
        hits = Hits(rows, np.tile(np.arange(DEPTH, 0, -1, dtype=np.float32), (5, 1)))
        write_run(made, name, [q.id for q in questions], hits, {"retriever": name, "split": "dev"})
    return made


def test_by_hand(study):
    found = oracle(study, ["a", "b", "c"], k=1)
    assert (found.n, found.estimate.value, found.none) == (5, 0.8, 1)
    assert [(c.run, c.estimate.value, c.best, c.only_choice) for c in found.choices] == [
        ("a", 0.2, 1, 1), ("b", 0.4, 2, 1), ("c", 0.4, 2, 1),
    ]  # fmt: skip
    assert found.best_run == "b" and found.gain.value == pytest.approx(0.4) and found.gain.low < 0.4 < found.gain.high
    reciprocal = oracle(study, ["a", "b", "c"], k=4, measure="mrr")
    assert reciprocal.estimate.value == pytest.approx((1 + 1 + 1 + 0 + 1) / 5)
    assert [choice.best for choice in reciprocal.choices] == [1, 2, 2]


@pytest.mark.parametrize("measure", ["success", "mrr"])
def test_of_two_runs_it_is_the_oracle_of_compare(study, measure):
    ours = oracle(study, ["a", "b"], k=3, measure=measure)
    measured = measure_all(study, ("a", "b"))
    theirs = overall(Comparison.of_runs(measured["a"], measured["b"]), [3], measure=MEASURES.get(measure)).figures_at[3]
    assert ours.estimate == theirs.oracle and ours.choices[0].estimate == theirs.a


def test_the_command_and_what_is_wrong(study):
    run = CliRunner().invoke
    done = run(app, ["oracle", "a", "b", "c", "--k", "1", "--study", str(study.folder)])
    assert done.exit_code == 0 and "would gain 40.0 points over b" in " ".join(done.output.split())
    as_json = run(app, ["oracle", "a", "b", "c", "--k", "1", "--json", "--study", str(study.folder)])
    assert json.loads(as_json.output)["estimate"]["value"] == 0.8
    for names, error, said in (
        (["a", "a"], BadInput, "at least two different runs, not a"),
        (["a", "nothing"], Missing, "no run 'nothing'"),
    ):
        with pytest.raises(error, match=said):
            oracle(study, names)
    with pytest.raises(BadInput, match="k is 5, but the run a is only 4 deep"):
        oracle(study, ["a", "b"])

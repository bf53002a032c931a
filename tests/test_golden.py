"""What must not change: results that an earlier state of the code gave, stored in tests/golden.

tests/golden/README.md says what each file holds, how it was made, and how close a result must be. Each part has its
adapters, which call the product and return plain values, and below them its tests.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.studies import make_study

GOLDEN = Path(__file__).parent / "golden"


def stored(name: str) -> Any:
    """Return what a file of tests/golden holds: JSON (may be packed), JSON lines or arrays."""
    path = GOLDEN / name
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = ".jsonl" in path.suffixes
    return [json.loads(line) for line in data.decode().split("\n") if line] if lines else json.loads(data)


# Answer matches


def matches_of_a_pair(text: str, title: str, answers: list[str], rule: str) -> bool:
    from blindspot.backend.text.answers import has_answer

    return has_answer(text, answers, rule, title)


def matches_of_a_run(folder: Path, cases: list[dict], rule: str) -> list[bool]:
    """Match the answers of question i with passage i, as for the hits of a run."""
    from blindspot.backend.text.answers import match_run
    from blindspot.db.records import Passage, Question

    passages = [Passage(f"p{i}", case["title"], case["text"]) for i, case in enumerate(cases)]
    questions = [Question(f"q{i}", "?", tuple(case["answers"])) for i, case in enumerate(cases)]
    study = make_study(folder, passages)
    return match_run(study.corpus, questions, np.arange(len(cases))[:, None], rule)[:, 0].tolist()


@pytest.mark.parametrize("rule", ["dpr", "entityquestions", "regex", "rocketqa_mining"])
def test_answer_matches(tmp_path, rule):
    cases = stored("answers.json.gz")
    expected = [case["match"][rule] for case in cases]
    one = [matches_of_a_pair(case["text"], case["title"], case["answers"], rule) for case in cases]
    assert [case for case, held, was in zip(cases, one, expected, strict=True) if held != was] == []
    many = matches_of_a_run(tmp_path / "study", cases, rule)
    assert [case for case, held, was in zip(cases, many, expected, strict=True) if held != was] == []


# Measures of two runs, and their comparison

MEASURES = ("success", "mrr", "ndcg", "map", "recall", "r-precision")
KINDS = ("gold", "answers", "labels")
KS = (1, 3, 5, 10, 20)
COMPARED_AT = (5, 20)


def study_with_runs(folder: Path) -> Any:
    """Return a study with the files of golden/measures: the runs a and b, graded qrels, one person's labels."""
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.data.importing.qrels import import_qrels
    from blindspot.backend.data.importing.runs import import_run
    from blindspot.backend.judging.labels_io import import_labels

    study, files = Study.create(folder), GOLDEN / "measures"
    import_passages(study, files / "passages.tsv")
    import_questions(study, files / "questions.jsonl")
    import_qrels(study, files / "graded.qrels")
    for name in ("a", "b"):
        import_run(study, files / f"{name}.trec.gz", name)
    import_labels(study, files / "labels.qrels", format="qrels", annotator="ann", by_person=True)
    return study


def measured_values(study: Any, run: str, kind: str, cells: list[tuple[str, int]]) -> dict[str, dict[str, float]]:
    """Return the value of each measured question, for each measure and cut-off."""
    from blindspot.backend.evaluation.comparison import measure as measure_run
    from blindspot.backend.evaluation.measures import measure_named

    measured = measure_run(study, run, kind)
    ids = [question.id for question in measured.questions]
    return {
        f"{name} {k}": dict(zip(ids, map(float, measured.values(measure_named(name), k)), strict=True))
        for name, k in cells
    }


def compared_figures(study: Any, kind: str, cells: list[tuple[str, int]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each measure and cut-off the figures of all questions, of the average over relations, and of each
    relation.
    """
    from blindspot.backend.evaluation.comparison import Comparison, by_group, measure_all, overall
    from blindspot.backend.evaluation.measures import measure_named

    both = Comparison.of_runs(*measure_all(study, ["a", "b"], kind).values())
    found = {}
    for name, k in cells:
        whole = overall(both, [k], measure=measure_named(name))
        groups = by_group(both, k, both.groups("relation"), measure_named(name))
        found[f"{name} {k}"] = {"all": whole.figures_at[k], "macro": whole.macro[k], **groups}
    return {
        cell: {
            group: {
                "n": each.n,
                "units": each.units,
                "a": each.a.value,
                "b": each.b.value,
                "oracle": each.oracle.value,
                "difference": each.difference.estimate.value,
                "only_a": each.difference.only_a,
                "only_b": each.difference.only_b,
                "p_mcnemar": each.difference.p_mcnemar,
                "p_sign_flip": each.difference.p,
                "p_adjusted": each.difference.p_adjusted,
                "interval": [each.difference.estimate.low, each.difference.estimate.high],
                "interval_a": [each.a.low, each.a.high],
                "interval_b": [each.b.low, each.b.high],
            }
            for group, each in groups.items()
        }
        for cell, groups in found.items()
    }


DRAWN = ("p_sign_flip", "p_adjusted")  # from 10,000 random signs: close, not equal


@pytest.fixture(scope="module")
def study_of_two_runs(tmp_path_factory):
    return study_with_runs(tmp_path_factory.mktemp("measures") / "study")


def cells(kind: str, ks: tuple[int, ...] = KS) -> list[tuple[str, int]]:
    """Return the measures that exist for a kind of relevance, each with its cut-offs."""
    known = MEASURES[:2] if kind == "answers" else MEASURES
    return [(measure, k) for measure in known for k in (ks if measure != "r-precision" else ks[:1])]


@pytest.mark.parametrize("run", ["a", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_measures_of_runs(study_of_two_runs, kind, run):
    expected = stored("measures/values.json.gz")[f"{run} {kind}"]
    found = measured_values(study_of_two_runs, run, kind, cells(kind))
    assert list(found) == list(expected)
    for cell, was in expected.items():
        now = found[cell]
        assert now.keys() == was.keys(), cell
        np.testing.assert_allclose([now[id] for id in was], [*was.values()], rtol=0, atol=1e-9, err_msg=cell)
        assert np.mean([*now.values()]) == pytest.approx(np.mean([*was.values()]), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_comparison_of_two_runs(study_of_two_runs, kind):
    expected = stored("measures/comparison.json.gz")[kind]
    found = compared_figures(study_of_two_runs, kind, cells(kind, COMPARED_AT))
    assert list(found) == list(expected)
    for cell, groups in expected.items():
        assert list(found[cell]) == list(groups)
        for group, figures in groups.items():
            for name, value in figures.items():
                tolerance = 0.02 if name in DRAWN else 1e-6
                assert found[cell][group][name] == pytest.approx(value, abs=tolerance), (cell, group, name)

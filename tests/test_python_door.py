"""`import blindspot`: frames equal to what the commands print, own runs stored and refused, and the page's examples run."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import blindspot
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "python.md"


def random_hits(questions, passages, k: int, seed: int) -> pd.DataFrame:
    """Hits with the gold passage at a random rank."""
    rng = np.random.default_rng(seed)
    rows = []
    for question in questions:
        chosen = [passages[i].id for i in rng.choice(len(passages), k, replace=False)]
        if question.gold[0] not in chosen:
            chosen[int(rng.integers(0, k))] = question.gold[0]
        rows += [(question.id, passage, float(k - rank)) for rank, passage in enumerate(chosen)]
    return pd.DataFrame(rows, columns=["question", "passage", "score"])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(60)
    questions = births(passages)
    half = len(questions) // 2
    questions = questions[:half] + births(passages, "train")[half:]
    made = make_study(tmp_path_factory.mktemp("python") / "demo", passages, questions)
    opened = blindspot.Study(made)
    dev, train = (made.questions.all(split=split) for split in ("dev", "train"))
    opened.add_run("bm25-dev", random_hits(dev, passages, 20, 0))
    opened.add_run("minilm-dev", random_hits(dev, passages, 20, 1))
    opened.add_run("bm25-train", random_hits(train, passages, 20, 2))
    return opened


def test_a_run_of_ones_own_comes_back_as_it_was(study):
    passages, dev = people(60), study.study.questions.all(split="dev")
    given = random_hits(dev, passages, 20, 0)
    stored = study.run("bm25-dev")
    assert list(stored.columns) == ["question", "rank", "passage", "score", "answer"]
    pd.testing.assert_frame_equal(
        stored[["question", "passage", "score"]], given.astype({"score": np.float32}), check_dtype=False
    )
    assert stored["rank"].tolist() == [*range(1, 21)] * len(dev)
    town = {question.id: question.answers[0] for question in dev}
    text = {passage.id: passage.text for passage in passages}
    assert stored["answer"].tolist() == [
        town[q] in re.findall(r"\w+", text[p]) for q, p in zip(stored["question"], stored["passage"], strict=True)
    ]
    assert len(study.run("bm25-dev", k=3)) == 3 * len(dev)
    shuffled = given.sample(frac=1, random_state=0)
    study.add_run("bm25-dev", shuffled, replace=True)
    again = study.run("bm25-dev").set_index(["question", "rank"])["passage"]
    assert again.sort_index().equals(stored.set_index(["question", "rank"])["passage"].sort_index())
    study.add_run("bm25-dev", given, replace=True)


def test_lists_of_different_lengths_are_stored(study):
    dev = study.study.questions.all(split="dev")[:2]
    hits = pd.DataFrame(
        [(dev[0].id, "p0", 2.0), (dev[1].id, "p1", 1.0), (dev[0].id, "p3", 3.0)],
        columns=["question", "passage", "score"],
    )
    study.add_run("short", hits)
    assert study.run("short")[["question", "passage"]].values.tolist() == [
        [dev[0].id, "p3"],
        [dev[0].id, "p0"],
        [dev[1].id, "p1"],
    ]


def test_a_single_name_stands_for_a_list_of_one(study):
    one = study.report("bm25-dev", ks=5, measures="ndcg")
    pd.testing.assert_frame_equal(one, study.report(["bm25-dev"], ks=[5], measures=["ndcg"]))
    assert set(one["run"]) == {"bm25-dev"} and set(one[one["measure"] == "ndcg"]["k"]) == {5}
    question = study.study.questions.all(split="dev")[0].id
    pd.testing.assert_frame_equal(study.why(question, "bm25-dev"), study.why(question, ["bm25-dev"]))
    assert study.plot_relations("bm25-dev").to_json() == study.plot_relations(["bm25-dev"]).to_json()
    assert study.plot_frequency("bm25-dev").to_json() == study.plot_frequency(["bm25-dev"]).to_json()


@pytest.mark.parametrize("name", ["NDCG", "nDCG", "ndcg"])
def test_the_capitals_of_a_measure_make_no_difference(study, name):
    report = study.report("bm25-dev", ks=5, measures=[name, "ndcg"])
    assert sorted(set(report["measure"]) & {"ndcg", name}) == ["ndcg"]
    assert study.compare("bm25-dev", "minilm-dev", measure=name).equals(
        study.compare("bm25-dev", "minilm-dev", measure="ndcg")
    )
    assert study.per_question("bm25-dev", name, 5, "gold").name == "nDCG@5"
    with pytest.raises(blindspot.Refused, match="unknown measure 'N-DCG'; known: success"):
        study.per_question("bm25-dev", "N-DCG")


def test_success_of_each_question_is_a_number(study):
    a, b = (study.per_question(name, "success") for name in ("bm25-dev", "minilm-dev"))
    assert a.dtype == b.dtype == np.float64 and set(a) <= {0.0, 1.0}
    difference = a - b
    assert set(difference) <= {-1.0, 0.0, 1.0} and difference.mean() == pytest.approx(a.mean() - b.mean())


def test_frames_are_what_the_commands_print(study):
    frame = study.compare("bm25-dev", "minilm-dev", k=5, by="relation")
    made = compare_with(study.study, "bm25-dev", "minilm-dev", ComparisonOptions(k=5, by="relation"))
    line = frame[(frame["group"] == "all") & (frame["k"] == 5)].iloc[0]
    assert (line["a"], line["b"], line["p"]) == pytest.approx(
        (made.figures_at[5].a.value, made.figures_at[5].b.value, made.figures_at[5].difference.p)
    )
    assert frame.attrs["conclusion"] == made.conclusion and frame.attrs["notes"] == made.notes
    report = study.report(["bm25-dev"], ks=[5], measures=["ndcg"])
    success = report[(report["measure"] == "success") & (report["group"] == "all")]["value"].item()
    assert (
        success
        == pytest.approx(made.figures_at[5].a.value)
        == pytest.approx(study.per_question("bm25-dev", k=5).mean())
    )
    ndcg = report[(report["measure"] == "ndcg") & (report["group"] == "all")]["value"].item()
    assert ndcg == pytest.approx(study.per_question("bm25-dev", "ndcg", 5, "gold").mean())
    assert list(study.runs()["run"])[:3] and set(study.runs()["k"]) >= {20}
    assert len(study.questions("dev")) == len(study.study.questions.all(split="dev"))
    assert study.passages(["p3", "p0"])["passage"].tolist() == ["p3", "p0"]
    assert list(study.labels().columns) == ["question", "passage", "label", "state", "people"]


def test_misses_are_the_questions_without_an_answer_in_the_first_hits(study):
    hits = study.run("bm25-dev")
    found = hits[hits["answer"] & (hits["rank"] <= 5)]["question"].unique()
    missed = study.misses("bm25-dev", k=5).set_index("question")
    assert len(missed) and set(missed.index) == set(hits["question"]) - set(found)
    for question, row in missed.iterrows():
        list_of_question = hits[hits["question"] == question]
        answering = list_of_question[list_of_question["answer"]]["rank"]
        assert (answering.min() if len(answering) else None) == (None if pd.isna(row["rank"]) else row["rank"])
        assert row["top"] == list_of_question.iloc[0]["passage"]
    with pytest.raises(blindspot.BadInput, match="k is 21; bm25-dev has 20 hits"):
        study.misses("bm25-dev", k=21)
    question = missed.index[0]
    why = study.why(question, ["bm25-dev", "minilm-dev"])
    assert why["run"].tolist() == ["bm25-dev", "minilm-dev"] and why["top"][0] == missed.loc[question, "top"]
    gold = study.questions("dev").set_index("question").loc[question, "gold"][0]
    for row in why.itertuples():
        listed = study.run(row.run)
        listed = listed[(listed["question"] == question) & (listed["passage"] == gold)]
        assert row.rank == listed["rank"].item() and row.score == listed["score"].item()
    with pytest.raises(blindspot.Missing):
        study.why("nobody", ["bm25-dev"])


def test_labels_of_ones_own_are_stored_once(study, tmp_path):
    opened = blindspot.Study(make_study(tmp_path / "s", people(9), births(people(9))))
    one, two = opened.questions("dev")["question"][:2]
    labels = pd.DataFrame(
        [(one, "p0", "positive"), (one, "p1", "negative"), (two, "p1", "positive")],
        columns=["question", "passage", "label"],
    )
    assert opened.add_labels(labels, "Ada", by_person=True) == 3
    assert opened.add_labels(labels, "Ada", by_person=True) == 0
    stored = opened.labels()[["question", "passage", "label"]]
    assert sorted(map(tuple, stored.values)) == sorted(map(tuple, labels.values))
    with pytest.raises(blindspot.BadInput, match="a label is 'maybe'; it must be one of positive, negative"):
        opened.add_labels(labels.assign(label="maybe"), "Ada", by_person=True)
    with pytest.raises(blindspot.Refused, match="Ada is a person"):
        opened.add_labels(labels, "Ada")


def test_slices_are_saved_found_and_plotted(study):
    assert study.save_slice("births", "relation=P19") == "relation:P19"
    assert study.saved_slices()[["slice", "expression"]].values.tolist() == [["births", "relation:P19"]]
    found = study.slices("bm25-dev", "minilm-dev", k=5)
    figure = study.plot_slices("bm25-dev", "minilm-dev", k=5)
    shown = list(figure.data[1].x) if figure.data else []
    assert shown == pytest.approx((100 * found["difference"]).tolist())
    assert study.plot_slices("bm25-dev", "minilm-dev", slice="relation:none").layout.height < figure.layout.height + 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("nobody", "p0", 1.0)], "no question 'nobody'"),
        ([("P19.dev.0", "p999", 1.0)], "no passage 'p999'"),
        ([("P19.dev.0", "p0", float("nan"))], "score of hit 1 is no finite number"),
        ([("P19.dev.0", "p0", 1.0), ("P19.dev.0", "p0", 2.0)], "twice in the list"),
        ([], "no hits to store"),
    ],
)
def test_bad_hits_are_refused_and_nothing_is_stored(study, rows, message):
    with pytest.raises(blindspot.BadInput, match=message):
        study.add_run("bad", pd.DataFrame(rows, columns=["question", "passage", "score"]))
    with pytest.raises(blindspot.BadInput, match="lack the column 'score'"):
        study.add_run("bad", pd.DataFrame({"question": [], "passage": []}))
    assert "bad" not in study.study.runs()


def test_the_examples_of_the_page_run(study, monkeypatch, tmp_path):
    """All code blocks of docs/python.md, in one namespace, on a study with runs of the names that they use."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 7
    monkeypatch.chdir(study.folder.parent)
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert "P19.dev.0" in set(namespace["hits"]["question"]) and len(namespace["worst"]) == 5
    assert (study.folder.parent / "relations.html").is_file()
    assert set(namespace["pairs"]["role"]) >= {"positive", "negative"}
    assert "python" in set(study.training_sets()["training_set"])
    with pytest.raises(blindspot.BadInput, match="unknown setting of a training set 'negative'; known: policy"):
        study.build_training_set("other", ["bm25-train"], negative=3)


def test_every_method_is_typed_and_documented():
    for name, method in inspect.getmembers(blindspot.Study, inspect.isroutine):
        if not name.startswith("_"):
            assert inspect.getdoc(method), name
            annotations = method.__annotations__ if not inspect.ismethod(method) else method.__func__.__annotations__
            taken = [p for p in inspect.signature(method).parameters if p != "self"]
            assert set(taken) | {"return"} == set(annotations), name


def test_pandas_loads_with_the_first_frame():
    code = "import sys, blindspot; print('pandas' in sys.modules, blindspot.Study.__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split()[0] == "False", done.stderr

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
from backend.evaluation.comparison_report import compare_runs
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "python.md"
METHODS = re.compile(r"(<!-- methods -->\n).*?(<!-- end -->)", re.S)


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


def test_frames_are_what_the_commands_print(study):
    frame = study.compare("bm25-dev", "minilm-dev", k=5, by="relation")
    made = compare_runs(study.study, "bm25-dev", "minilm-dev", 5, "relation")
    line = frame[(frame["group"] == "all") & (frame["k"] == 5)].iloc[0]
    assert (line["a"], line["b"], line["p"]) == pytest.approx(
        (made.at[5].a.value, made.at[5].b.value, made.at[5].difference.p)
    )
    assert frame.attrs["conclusion"] == made.conclusion and frame.attrs["notes"] == made.notes
    report = study.report(["bm25-dev"], ks=[5], measures=["ndcg"])
    success = report[(report["measure"] == "success") & (report["group"] == "all")]["value"].item()
    assert success == pytest.approx(made.at[5].a.value) == pytest.approx(study.per_question("bm25-dev", k=5).mean())
    ndcg = report[(report["measure"] == "ndcg") & (report["group"] == "all")]["value"].item()
    assert ndcg == pytest.approx(study.per_question("bm25-dev", "ndcg", 5, "gold").mean())
    assert list(study.runs()["run"])[:3] and set(study.runs()["k"]) >= {20}
    assert len(study.questions("dev")) == len(study.study.questions.all(split="dev"))
    assert study.passages(["p3", "p0"])["passage"].tolist() == ["p3", "p0"]
    assert list(study.labels().columns) == ["question", "passage", "label", "state", "people"]


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
    assert len(blocks) == 5
    monkeypatch.chdir(study.folder.parent)
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    assert "P19.dev.0" in set(namespace["hits"]["question"]) and len(namespace["worst"]) == 5
    assert (study.folder.parent / "relations.pdf").read_bytes().startswith(b"%PDF")
    assert set(namespace["pairs"]["role"]) >= {"positive", "negative"}
    assert "python" in set(study.training_sets()["training_set"])
    with pytest.raises(blindspot.BadInput, match="unknown setting of a training set 'negative'; known: policy"):
        study.build_training_set("other", ["bm25-train"], negative=3)
    with pytest.raises(blindspot.BadInput, match="must end in"):
        study.save_plot(namespace["figure"], "figure.jpeg")


def methods_table() -> str:
    lines = ["| Method | What it does |", "|---|---|"]
    for name, method in vars(blindspot.Study).items():
        if not name.startswith("_") and not isinstance(method, property):
            function = getattr(blindspot.Study, name)
            parameters = ", ".join(p for p in inspect.signature(function).parameters if p != "self")
            first = re.split(r"(?<=[.)])\s", " ".join(inspect.getdoc(function).split()))[0]
            lines.append(f"| `{name}({parameters})` | {first} |")
    return "\n".join(lines)


def test_the_page_lists_every_method():
    assert f"<!-- methods -->\n{methods_table()}\n<!-- end -->" in PAGE.read_text(encoding="utf-8"), (
        "run: python -m tests.test_python_door"
    )


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


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(METHODS.sub(lambda found: found[1] + methods_table() + "\n" + found[2], text), encoding="utf-8")

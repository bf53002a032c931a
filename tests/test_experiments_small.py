"""Every experiment with --small on an invented collection with MiniLM: it runs to its table and reports no finding."""

import dataclasses
from pathlib import Path

import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import SECOND_DATASET, SECOND_WORDINGS
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.experiments import tables
from blindspot.backend.experiments.papers import EXPERIMENTS
from blindspot.backend.experiments.running import experiment_named, run_experiment
from blindspot.backend.retrieval.bm25 import build_index
from tests.studies import tiny_bert

pytestmark = pytest.mark.slow
DATA = Path(__file__).parent / "data" / "papers"


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """500 passages; training questions in the second wording too; questions without labels; a second encoder."""
    made = Study.create(tmp_path_factory.mktemp("studies") / "study")
    import_passages(made, DATA / "passages.tsv.gz")
    import_questions(made, DATA / "questions.jsonl.gz")
    build_index(made)
    made.questions.add(
        [
            dataclasses.replace(
                each,
                id=f"{each.id}.second",
                text=SECOND_WORDINGS[each.relation].replace("[X]", each.subject),
                dataset=SECOND_DATASET,
            )
            for each in made.questions.all(split="train")
        ]
    )
    import_questions(made, DATA / "unlabelled.txt.gz", split="unlabelled", dataset="asked")
    tiny_bert(made.folder / "models" / "other")
    add_encoder(
        made.settings_path,
        "other",
        {"model": str(made.folder / "models" / "other"), "pooling": "cls", "max_tokens": 64},
    )
    return made


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_it_runs_to_its_table(study, name):
    given = {"small": True}
    if "encoders" in experiment_named(name).takes and name in ("pretrained", "retrieval"):
        given["encoders"] = ["minilm", "other"]
    result = run_experiment(study, name, given, "cpu")
    rows, columns, cells = tables.result_grid(result)
    assert result["verdict"] == "no finding" and len(rows) > 1
    assert all(cell["value"] is not None for cell in cells.values() if cell["n"])
    assert len(tables.result_table(result).rows) == len(rows) and len(tables.as_csv(result).splitlines()) == 1 + len(
        cells
    )
    print(name, f"{result['seconds']:.0f} s, {len(rows)} rows, {len(columns)} columns")

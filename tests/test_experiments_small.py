"""Every experiment with --small on a generated encyclopedia with MiniLM: it runs to its table and reports no finding."""

import dataclasses

import pytest

from benchmarks.encyclopedia_study import prepared
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import SECOND_DATASET
from blindspot.backend.data.encyclopedia.language import SECOND_WORDINGS
from blindspot.backend.data.importing.importer import import_questions
from blindspot.backend.experiments import tables
from blindspot.backend.experiments.papers import EXPERIMENTS
from blindspot.backend.experiments.running import experiment_named, run_experiment
from tests.studies import tiny_bert

pytestmark = pytest.mark.slow
PASSAGES, SEED = 500, 5


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Study:
    """500 passages; training questions in the second wording too; questions without labels; an audit that somebody judged by the truth; a
    second encoder."""
    made = prepared(tmp_path_factory.mktemp("studies"), PASSAGES, SEED)
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
    import_questions(made, str(made.path("encyclopedia", "unlabelled.txt")), split="unlabelled", dataset="asked")
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

"""A retriever in an installed package outside the repository: it appears everywhere, and no file of ours names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from blindspot.app.runs import retriever_label
from blindspot.backend.core import jobs
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.db.errors import BadInput, Refused
from tests.app_pages import Page
from tests.installed import installed
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "retrieve.md"
TOY = '''
"""Passages in the order of their row, from a row that the question's length gives."""
import numpy as np

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.retrieval.retriever import RetrieverKind
from blindspot.db.records import Hits


@settings_class
class ToyOptions:
    stride: int = Field(1, title="Stride", description="Rows between two hits", ge=1, le=5)


class Toy:
    name = "toy"

    def __init__(self, study, stride=1):
        self.passages, self.stride = len(study.corpus), stride
        self.settings = {"retriever": "toy", "stride": stride}

    def search(self, questions, k, progress=None):
        rows = [(len(text) + self.stride * np.arange(k)) % self.passages for text in questions]
        return Hits(np.array(rows, np.int32).reshape(-1, k), np.tile(np.arange(k, 0, -1, dtype=np.float32), (len(questions), 1)))


class ToyKind(RetrieverKind):
    name, title, help = "toy", "Toy", "passages in the order of their rows"
    options = ToyOptions

    def available(self, study):
        return ["toy"] if study.has_corpus else []

    def open(self, study, options, device=None, part=None):
        return Toy(study, options.stride)

    def describe(self, manifest):
        return f"toy, stride {manifest['stride']}"


TOY = ToyKind()
'''
QUESTION = "Where was she born?"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The package, installed beside the repository for this process; the registry loads entry points again."""
    folder = tmp_path / "site"
    folder.mkdir()
    points = {"toy": "outside_toy:TOY", "torn": "outside_toy:TORN", "named": "outside_toy:QUITE"}
    installed(folder, "outside_toy", "blindspot.retrievers", points, TOY)
    RETRIEVERS.all()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(RETRIEVERS, "_entries", dict(RETRIEVERS._entries))
    monkeypatch.setattr(RETRIEVERS, "failures", [])
    monkeypatch.setattr(RETRIEVERS, "_loaded", False)
    yield folder
    sys.modules.pop("outside_toy", None)


@pytest.fixture
def study(tmp_path):
    passages = people()
    return make_study(tmp_path / "study", passages, births(passages))


def toy_rows(text: str, k: int, stride: int = 1, passages: int = 60) -> list[int]:
    return [(len(text) + stride * i) % passages for i in range(k)]


def test_it_is_in_the_help_and_makes_runs_from_the_command_line(toy, study):
    """In separate processes, as for a user: only PYTHONPATH contains the package."""
    environment = os.environ | {"PYTHONPATH": f"{toy}{os.pathsep}{ROOT}", "COLUMNS": "200"}

    def blindspot(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "blindspot.app.cli", *arguments],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    shown = blindspot("retrieve", "--help")
    words = " ".join(shown.stdout.split())
    assert shown.returncode == 0 and re.search(r"--with \S*bm25\|dense\|\S*hybrid\|\S*milvus\|\S*toy ", words)
    assert (
        "toy: passages in the order of their rows" in words
        and "--stride <int range> Toy: Rows between two hits (default 1)." in words
    )
    assert all(line.startswith("blindspot: ") for line in shown.stderr.splitlines())
    lines = [line for line in shown.stderr.splitlines() if "outside_toy" in line]
    assert len(lines) == 2 and "Traceback" not in shown.stderr
    assert lines[1].startswith("blindspot: cannot load the retriever 'torn' of outside_toy 1.0 (outside_toy:TORN): ")
    made = blindspot(
        "retrieve", "--with", "toy", "--stride", "2", "--split", "dev", "--k", "5", "--study", str(study.folder)
    )
    assert made.returncode == 0 and "Run toy-dev: 40 questions, k=5" in made.stdout, made.stderr
    run = study.run("toy-dev")
    first = study.questions.with_ids(run.question_ids)[0].text
    assert np.asarray(run.hits.ordinals)[0].tolist() == toy_rows(first, 5, 2)
    assert (run.manifest["retriever"], run.manifest["stride"]) == ("toy", 2)
    wrong = blindspot("retrieve", "--with", "bm25", "--stride", "2", "--study", str(study.folder))
    assert wrong.returncode == 1 and "--stride works with --with toy, not with --with bm25" in wrong.stderr


def test_it_is_on_home_in_compare_and_in_a_live_question(toy, study, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    started = []
    monkeypatch.setattr(jobs, "submit_request", lambda study, asked, actor: started.append(asked.arguments))
    home = Page(study.folder)
    offered = home.app.selectbox(key="more-retriever")
    assert offered.options == ["toy"]  # the study has no index
    assert any("blindspot retrieve --with toy --split dev" in code.value for code in home.app.code)
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    home.app.button(key="more-start").click().run()
    assert started == [{"kind": "toy", "split": "dev"}]

    for stride in (1, 3):
        retrieve(study, "toy", stride=stride, split="dev", k=5, name=f"toy-{stride}")
    compare = Page(study.folder, "compare", a="toy-1", b="toy-3")
    picker = next(each for each in compare.app.selectbox if each.label == "Run B")
    assert picker.options == ["toy-1", "toy-3"] and picker.value == "toy-3" and "40 questions" in compare.text
    text = Page(study.folder).text
    assert "toy, stride 1" in text and "toy, stride 3" in text
    assert retriever_label(study.run("toy-3").manifest) == "toy, stride 3"

    assert live.answering_retrievers(study) == ["toy"]
    assert live.search(study, "toy", [QUESTION], 4).ordinals.tolist() == [toy_rows(QUESTION, 4)]
    asked = Page(study.folder, "question", ask=QUESTION)
    picker = next(each for each in asked.app.selectbox if each.label == "Retriever A")
    assert "toy" in picker.options and len(asked.part("<article")) > 0


def test_the_service_offers_it(toy, study):
    with TestClient(make_api(Service(study, "cpu")), base_url="http://localhost") as client:
        assert list(client.get("/retrievers").json()["retrievers"]) == ["toy"]
        answer = client.post("/search", json={"retriever": "toy", "questions": [QUESTION], "k": 3}).json()
    assert answer["ordinals"] == [toy_rows(QUESTION, 3)] and answer["settings"]["retriever"] == "toy"


def test_its_options_are_checked_and_an_unknown_retriever_is_one_line(toy, study):
    with pytest.raises(BadInput, match="^stride must be a whole number from 1 to 5, not 9$"):
        retrieve(study, "toy", stride=9)
    with pytest.raises(Refused, match="^unknown retriever 'tou'; known: .*bm25, dense, hybrid, .*milvus, .*toy$"):
        retrieve(study, "tou")
    with pytest.raises(BadInput, match="unknown retriever option 'strode'; options of toy: stride"):
        retrieve(study, "toy", strode=9)
    ours = [line for line in RETRIEVERS.failures if "outside_toy" in line]
    assert available_retrievers(study) == ["toy"] and len(ours) == 2
    assert all(line.startswith("cannot load the retriever ") for line in ours)


def test_an_entry_point_that_is_no_retriever_or_takes_our_options_is_told(tmp_path, monkeypatch, capsys):
    wrong = TOY.replace("stride: int", "split: int").replace('"toy"', '"bad"')
    installed(
        tmp_path,
        "outside_bad",
        "blindspot.retrievers",
        {"bad": "outside_bad:TOY", "text": "outside_bad:__name__"},
        wrong,
    )
    RETRIEVERS.all()
    monkeypatch.syspath_prepend(tmp_path)
    for name, value in (("_entries", dict(RETRIEVERS._entries)), ("failures", []), ("_loaded", False)):
        monkeypatch.setattr(RETRIEVERS, name, value)
    assert {"bm25", "dense", "hybrid", "milvus"} <= set(RETRIEVERS.names()) and "bad" not in RETRIEVERS
    said = capsys.readouterr().err
    assert (
        "its option 'split' is already an option of 'blindspot retrieve'" in said
        and "str is not a RetrieverKind" in said
    )
    sys.modules.pop("outside_bad", None)


def retrievers_table() -> str:
    """The kinds of retriever of this repository, for docs/retrieve.md."""
    rows = ["| `--with` | searches | options |", "|---|---|---|"]
    for kind in RETRIEVERS:
        if type(kind).__module__.startswith("blindspot.backend."):
            options = ", ".join(f"`{one.option}`" for one in declared_settings(kind.options).values())
            rows.append(f"| `{kind.name}` | {kind.help} | {options} |")
    return "\n".join(rows)


def test_the_docs_list_every_retriever():
    """`python -m tests.test_toy_retriever` rewrites the table."""
    page = DOCS.read_text(encoding="utf-8")
    assert f"<!-- retrievers -->\n{retrievers_table()}\n<!-- end -->" in page, "run: python -m tests.test_toy_retriever"


if __name__ == "__main__":
    text = re.sub(
        r"(<!-- retrievers -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}{retrievers_table()}\n{found[2]}",
        DOCS.read_text(encoding="utf-8"),
        flags=re.S,
    )
    DOCS.write_text(text, encoding="utf-8")

"""Every kind of retriever, from the command line to Compare: one study with a run of each, through every door.

`ROWS` has a row for each registered kind and each engine of opened indexes; a new one without a row fails here.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from blindspot.app import cli
from blindspot.app.runs import retriever_label
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import approximate, live, milvus
from blindspot.backend.retrieval.cost import cost_of
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.opened import ENGINES, open_index
from blindspot.backend.retrieval.retriever import RETRIEVERS, kind_of, kind_of_run
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.backend.training.ready_cross_encoder import add_cross_encoder
from tests.app_pages import Page
from tests.encoder_models import ready
from tests.ties import first as first_hits
from tests.ties import same_ranking

K = 5
HAS_MILVUS = all(importlib.util.find_spec(name) for name in ("pymilvus", "milvus_lite"))


@dataclass(frozen=True)
class Row:
    """How a retriever is asked for, and what stands for it in the interface.

    Attributes:
        kind: the value of --with.
        options: further options of the command line.
        label: on Home and beside a run's hits.
        live: its name in live questions and the service; "" if it answers none.
        exact: whether a live question gives the hits of the run.
    """

    kind: str
    label: str
    live: str
    options: dict[str, str] = field(default_factory=dict)
    exact: bool = True


def opened_row(engine: str, label: str) -> Row:
    return Row("opened", label, f"opened:{engine}-index", {"--index": f"{engine}-index"})


OF_THE_RUN = {
    "name", "ties", "k", "questions", "question_set", "corpus", "rule", "split", "seed", "search_seconds", "latency",
    "index_bytes", "made", "versions",
}  # fmt: skip
"""Keys of a run's manifest that do not come from its retriever."""
TINY = {"--encoder": "tiny"}
ROWS = {
    "bm25": Row("bm25", "BM25, k1 0.9, b 0.4", "bm25"),
    "dense": Row("dense", "dense, tiny", "tiny", TINY),
    # A live question to the encoder is an exact search.
    "approximate": Row("dense", "dense, tiny, hnsw", "tiny", TINY | {"--approximate": "hnsw"}, exact=False),
    "hybrid": Row("hybrid", "BM25 + tiny, 1.1 × dense", "hybrid:tiny", TINY),
    "rerank": Row("rerank", "bm25 reranked by ce, first 100", "rerank:ce@bm25", {"--judge": "ce", "--over": "bm25"}),
    "milvus": Row("milvus", "dense, tiny, in Milvus", "milvus:tiny", TINY),
    "run": Row("run", "the first hits of every-bm25", "", {"--run": "every-bm25"}),
    "lucene": opened_row("lucene", "Lucene lucene-index"),
    "faiss": opened_row("faiss", "FAISS faiss-index, tiny"),
}
NEEDS_MILVUS = ("milvus",)
MADE = {name: row for name, row in ROWS.items() if HAS_MILVUS or name not in NEEDS_MILVUS}
every_row = pytest.mark.parametrize("name", MADE)
every_live_row = pytest.mark.parametrize("name", [name for name, row in MADE.items() if row.live])


@dataclass
class Every:
    """A study with a run of each row, and what the command line printed for it: (exit code, output, errors)."""

    study: Study
    printed: dict[str, tuple[int, str, str]]

    def run(self, name: str) -> Run:
        return self.study.run(f"every-{name}")

    def first(self, name: str) -> str:
        """The text of the run's first question."""
        return self.study.questions.with_ids(self.run(name).question_ids)[0].text


def command(*arguments: object) -> tuple[int, str, str]:
    """Run a command in this process: (exit code, output, errors)."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        patched.setattr(sys, "argv", ["blindspot", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def make_indexes(study: Study, outside: Path) -> None:
    """Make an index of each kind that this study searches itself."""
    approximate.build(study, "tiny", "hnsw")
    add_cross_encoder(study, "ce", str(ready(outside / "cross-encoder")), device="cpu")
    if HAS_MILVUS:
        milvus.build(study, "tiny", str(outside / "milvus.db"))


def open_existing(study: Study, outside: Path) -> None:
    """Open an index of each engine under the name ENGINE-index."""
    import faiss

    vectors = np.load(study.path("indexes", "tiny", "embeddings.npy")).astype(np.float32)
    ids = [passage.id for passage in study.corpus.scan()]
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    faiss.write_index(flat, str(outside / "wiki.index"))
    (outside / "ids.txt").write_text("\n".join(ids) + "\n")
    settings = {"ids": str(outside / "ids.txt"), "encoder": "tiny"}
    open_index(study, "faiss-index", str(outside / "wiki.index"), "faiss", settings)
    shutil.copytree(study.path("indexes", "bm25"), outside / "lucene")
    open_index(study, "lucene-index", str(outside / "lucene"), "lucene")


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory, indexed_study: Study) -> Iterator[Every]:
    outside = tmp_path_factory.mktemp("every")
    shutil.copytree(indexed_study.folder, outside / "study")
    study, printed = Study.open(outside / "study"), {}
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("BLINDSPOT_BACKEND", raising=False)
        make_indexes(study, outside)
        open_existing(study, outside)
        for name, row in MADE.items():
            options = [word for option in row.options.items() for word in option]
            where = ["--split", "dev", "--k", K, "--name", f"every-{name}", "--study", study.folder]
            printed[name] = command("retrieve", "--with", row.kind, *options, *where)
        yield Every(study, printed)


@pytest.fixture(scope="module")
def client(every: Every) -> Iterator[TestClient]:
    with TestClient(make_api(Service(every.study, "cpu")), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def home(every: Every) -> Page:
    return Page(every.study.folder)


def test_every_kind_and_engine_has_a_row():
    assert {row.kind for row in ROWS.values()} == set(RETRIEVERS.names())
    opened = {row.live for row in ROWS.values() if row.kind == "opened"}
    assert opened == {f"opened:{engine}-index" for engine in ENGINES}


@every_row
def test_the_command_line_makes_a_run_with_its_cost(every, name):
    code, out, err = every.printed[name]
    assert code == 0, err
    assert f"Run every-{name}: 40 questions, k={K}, " in out
    run = every.run(name)
    cost = cost_of(run.manifest)
    assert run.hits.ordinals.shape == (40, K) and (run.hits.ordinals[:, 0] >= 0).any()
    assert cost.p50_ms is not None and cost.p50_ms > 0 and "questions/s; one question: " in out
    assert kind_of_run(run.manifest) is RETRIEVERS.get(ROWS[name].kind)
    assert retriever_label(run.manifest) == ROWS[name].label


@every_row
def test_the_options_of_a_run_open_its_retriever_again(every, name):
    """A round trip through the manifest: the same hits for all questions."""
    run = every.run(name)
    kind = RETRIEVERS.get(ROWS[name].kind)
    again = kind.open(every.study, kind.options(**kind.options_of_run(run.manifest)), "cpu")
    texts = [question.text for question in every.study.questions.with_ids(run.question_ids)]
    hits = again.search(texts, K)
    same_ranking(hits, run.hits)
    told = {"kind": "run"} | json.loads(json.dumps(again.settings))
    assert [key for key, value in told.items() if key not in OF_THE_RUN and run.manifest[key] != value] == []
    assert set(run.manifest) - set(told) <= OF_THE_RUN
    if ROWS[name].live:
        assert kind.retriever_of(run.manifest) == ROWS[name].live


def finds(every: Every, name: str) -> list[bool]:
    """Whether a passage among a run's hits contains an answer, by searching for the answer as a word."""
    run, found = every.run(name), []
    for question, rows in zip(every.study.questions.with_ids(run.question_ids), run.hits.ordinals, strict=True):
        texts = [passage.text for passage in every.study.corpus.passages([int(row) for row in rows if row >= 0])]
        found.append(any(re.search(rf"\b{answer}\b", text) for answer in question.answers for text in texts))
    return found


def test_compare_gives_a_difference_with_interval_and_p(every):
    code, out, err = command("compare", "every-dense", "every-bm25", "--json", "--study", every.study.folder)
    assert code == 0, err
    figures = json.loads(out)["at"][str(K)]
    a, b = np.mean(finds(every, "dense")), np.mean(finds(every, "bm25"))
    assert figures["n"] == 40 and figures["difference"] == pytest.approx(a - b)
    assert figures["low"] <= figures["difference"] <= figures["high"] and 0 <= figures["p"] <= 1


@every_row
def test_home_shows_its_label_and_cost(every, home, name):
    rows = home.part(r"<tr[ >](?:(?!</tr>).)*?</tr>")
    (shown,) = [row for row in rows if row.startswith(f"every-{name} ")]
    assert f" {ROWS[name].label} 40 " in shown  # the split is the heading of its group
    assert re.search(r" [\d.,e+]+ ms [\d,.]+/s", shown), shown
    if row_live := ROWS[name].live:
        kind = kind_of(row_live)
        offered = home.app.selectbox(key="more-retriever").options
        assert kind is not None and kind.label(row_live) in offered


def test_compare_offers_every_run_and_says_what_made_the_two(every):
    page = Page(every.study.folder, "compare", a="every-bm25", b="every-hybrid")
    picker = next(each for each in page.app.selectbox if each.label == "Run B")
    assert set(picker.options) == {f"every-{name}" for name in MADE}
    for side, name in (("A", "bm25"), ("B", "hybrid")):
        cost = r"[\d.,e+]+ ms a question, index of [\d.,]+ MB\."
        assert re.search(rf"\b{side} {re.escape(ROWS[name].label)}, {cost}", page.text), page.text


@every_live_row
def test_a_live_question_gives_the_hits_of_the_run(every, name):
    row, run = MADE[name], every.run(name)
    assert row.live in live.answering_retrievers(every.study) and row.live in available_retrievers(every.study)
    hits = live.search(every.study, row.live, [every.first(name)], K)
    if row.exact:
        same_ranking(hits, first_hits(run.hits, 1))
    else:
        exact = Dense(every.study, "tiny", "cpu").search([every.first(name)], K)
        same_ranking(hits, exact)


def test_the_service_offers_them_and_answers(every, client):
    offered = client.get("/retrievers").json()["retrievers"]
    assert {row.live for row in MADE.values() if row.live} <= set(offered)
    question = every.first("milvus" if HAS_MILVUS else "hybrid")
    for name in ("rerank", "faiss"):
        answer = client.post("/search", json={"retriever": MADE[name].live, "questions": [question], "k": K})
        assert answer.status_code == 200, answer.json()
        here = live.search(every.study, MADE[name].live, [question], K)
        assert answer.json()["ordinals"] == [[place for place in here.ordinals[0].tolist() if place >= 0]]


def test_a_stored_run_is_asked_nothing_live(every, client):
    assert not any(name.startswith("run:") for name in live.answering_retrievers(every.study))
    asked = {"retriever": "run:every-bm25", "questions": ["Who?"], "k": K}
    answer = client.post("/search", json=asked)
    assert answer.status_code == 404 and "unknown retriever 'run:every-bm25'" in answer.json()["error"]

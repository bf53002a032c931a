"""Question shows what a score is made of: terms of learned sparse retrieval, tokens of late interaction."""

from __future__ import annotations

import re

import numpy as np
import pytest

from blindspot.app.components.explanation import heat_map, marked_passage, term_weights
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.retrieval import late_interaction, live, sparse
from blindspot.backend.retrieval.explanation import TermMatch, TermWeights, TokenMatches
from blindspot.backend.retrieval.model_kinds import encoders_of_kind
from blindspot.backend.retrieval.retrieve import retrieve
from tests.app_pages import HOSTILE, Page
from tests.encoder_models import tiny_colbert, tiny_splade
from tests.studies import births, make_study, people


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people()
    study = make_study(tmp_path_factory.mktemp("explained") / "study", passages, births(passages))
    for name, make, build in (
        ("splade", tiny_splade, sparse.build_index),
        ("colbert", tiny_colbert, late_interaction.build_index),
    ):
        add_encoder(study.settings_path, name, {"model": str(make(study.folder / "models" / name)), "max_tokens": 64})
        build(study, name, device="cpu")
    retrieve(study, "sparse", encoder="splade", split="dev", k=5, device="cpu")
    retrieve(study, "late-interaction", encoder="colbert", split="dev", k=5, device="cpu")
    return study


def question_page(study, **parameters) -> Page:
    asked = study.run("splade-dev").question_ids[0]
    return Page(study.folder, "question", a="splade-dev", b="colbert-dev", question=asked, **parameters)


def test_a_passage_of_either_list_can_be_explained(study, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    page = question_page(study)
    picker = next(each for each in page.app.selectbox if each.label == "What a score is made of")
    assert len(picker.options) == 11 and 'class="panel explanation"' not in page.html
    run = study.run("splade-dev")
    page = question_page(study, explain="a-2")
    score = float(run.hits.scores[0, 1])
    assert f"Score {score:.4g}: terms that question and passage share" in page.text
    shares = [float(x) for x in re.findall(r"<td>(\d+)</td></tr>", page.html)]
    assert shares and sum(shares) <= 101
    page = question_page(study, explain="b-1")
    score = float(study.run("colbert-dev").hits.scores[0, 0])
    assert f"Score {score:.4g}: words of the passage" in page.text and "background:rgba" in page.html
    assert len(page.app.get("plotly_chart")) == 1


def test_a_live_question_is_explained_and_a_service_has_no_explanation(study, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    page = Page(
        study.folder, "question", ask="Where was Arve born?", left="sparse:splade", right="sparse:splade", explain="a-1"
    )
    assert "terms that question and passage share" in page.text
    monkeypatch.setenv("BLINDSPOT_BACKEND", "http://127.0.0.1:9")
    assert not live.can_explain(study, "sparse:splade")


def test_terms_and_words_of_strangers_are_text():
    found = TermWeights(2.0, [(HOSTILE, 1.0)], [(HOSTILE, 2.0), ("<i>", 1.0)], [TermMatch(HOSTILE, 1.0, 2.0, 2.0)])
    html = term_weights(found)
    assert "<script>" not in html and "<i>" not in html and "&lt;script&gt;" in html
    whole = f"{HOSTILE} town"
    matches = TokenMatches(1.0, ["<b>"], ["<script>", "town"], [(0, 8), None], np.float32([[0.9, 0.1]]))
    assert "<script>" not in marked_passage(matches, whole) and marked_passage(matches, whole).endswith("town")
    figure = heat_map(matches)
    assert figure.layout.xaxis.ticktext == ("&lt;script&gt;", "town") and figure.layout.yaxis.ticktext == ("&lt;b&gt;",)
    assert figure.data[1].x.tolist() == [0]


def test_a_word_is_as_dark_as_what_it_adds():
    products = np.float32([[0.2, 0.9, 0.1], [0.1, 0.4, 0.8]])
    matches = TokenMatches(1.7, ["a", "b"], ["x", "y", "z"], [(0, 1), (2, 3), (4, 5)], products)
    np.testing.assert_allclose(matches.contributions, [0, 0.9, 0.8])
    html = marked_passage(matches, "x y z")
    assert re.findall(r"rgba\(0,114,178,([\d.]+)\)", html) == ["0.55", "0.49"] and html.startswith("x <mark")


def test_the_commands_index_and_retrieve(study, blindspot):
    for kind, name, said in (
        ("sparse", "splade", "terms a passage"),
        ("late-interaction", "colbert", "vectors a pass"),
    ):
        code, out, err = blindspot("index", kind, "--encoder", name, "--device", "cpu", "--study", study.folder)
        assert code == 0 and said in out and "60 passages" in out, err
        options = ["--encoder", name, "--split", "dev", "--k", "5", "--replace", "--device", "cpu"]
        code, out, err = blindspot("retrieve", "--with", kind, *options, "--study", study.folder)
        assert code == 0 and f"Run {name}-dev: 40 questions" in out and "one question: " in out, err
    code, _, err = blindspot("index", "sparse", "--encoder", name, "--study", study.folder)
    assert code == 1 and "is a late-interaction encoder (ColBERT), not a sparse encoder (SPLADE); use" in err
    assert encoders_of_kind(study, "sparse") == ["splade"] and encoders_of_kind(study, "dense") == ["minilm"]

"""The Experiments page: the offered experiments and the results; words of a result are shown as data, not markup."""

import pytest

from blindspot.app.components.experiments import _counted_words, claim_words
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.cost import planned_parts
from blindspot.backend.experiments.papers import EXPERIMENTS
from blindspot.backend.experiments.running import run_experiment
from blindspot.backend.text.number_words import quantity
from tests.app_pages import HOSTILE, Page
from tests.experiments import experiment_study
from tests.training_studies import copied


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return experiment_study(tmp_path_factory.mktemp("studies") / "s")


def test_without_anything_it_says_where_to_begin(tmp_path):
    assert "No passages and questions yet" in Page(Study.create(tmp_path / "empty").folder, "experiments").text


def test_every_experiment_is_there_to_ask(study):
    page = Page(study.folder, "experiments")
    assert "No claim is tested yet: " in page.text
    assert all(name in page.text and each.asks in page.text for name, each in EXPERIMENTS.items())
    assert {f"experiments?experiment={name}" for name in EXPERIMENTS} <= set(page.links())
    page = Page(study.folder, "experiments", experiment="denoised-by-rank")
    chosen = next(each for each in page.app.selectbox if each.label == "Experiment")
    assert len(chosen.options) == len(EXPERIMENTS) and "denoised-by-rank" in chosen.value
    assert (
        EXPERIMENTS["denoised-by-rank"].asks in page.text
        and "blindspot experiment denoised-by-rank --plan" in page.text
    )
    waiting, there = planned_parts(study, "denoised-by-rank").as_words()
    assert f"To be made: {waiting}; there already: {there}." in page.text, "of the full experiment, beside its button"


def test_a_result_stands_with_its_claims_and_its_word(study, tmp_path):
    study = copied(study, tmp_path / "s")
    found = run_experiment(study, "retrieval", {"encoders": ["tiny"], "ks": [5]}, "cpu")
    words = [claim["word"] for claim in found["claims"]]
    overview = Page(study.folder, "experiments")
    tested = f"{quantity(len(words), 'claim')} of the papers tested"
    assert f"{tested}{_counted_words(words)}; 1 of {len(EXPERIMENTS)} experiments has run." in overview.text
    assert "not run" not in overview.text
    first = next(each for each in overview.links() if each.startswith("experiments?experiment="))
    assert first == "experiments?experiment=retrieval", "what ran comes first"
    page = Page(study.folder, "experiments", experiment="retrieval")
    assert found["verdict"] in page.text and found["sentence"] in page.text
    (lead,) = page.part('<p class="lead">.*?</p>')
    assert lead.startswith(found["sentence"]) and "n = " in lead
    for claim in found["claims"]:
        assert claim_words(claim["says"]) in page.text and f"n = {claim['n']}" in page.text
    for cell in found["cells"]:
        assert f"{100 * cell['value']:.1f}" in page.text
    assert "births/dev @5" in page.text


def test_verdicts_are_counted_and_lines_named_in_words():
    assert _counted_words(["inconclusive"]) == ", inconclusive"
    assert _counted_words(["inconclusive"] * 2) == ", both inconclusive"
    assert _counted_words(["supported"] * 3) == ", all 3 supported"
    assert _counted_words(["inconclusive", "supported", "supported"]) == ": 2 supported, 1 inconclusive"
    assert claim_words("other ent, bucket 6 less bucket 7: m is better on frequent entities") == (
        "Entities outside the training questions, more frequent (bucket 6) less rarer (bucket 7): "
        "m is better on frequent entities"
    )


def test_a_result_is_data(study, tmp_path):
    """Names of question sets come from files; they reach the page as text."""
    study = copied(study, tmp_path / "s")
    run_experiment(study, "retrieval", {"encoders": ["tiny"], "ks": [5]}, "cpu")
    path = next((study.folder / "experiments").glob("retrieval-*/result.json"))
    result = read_json(path)
    result["cells"][0]["row"] = result["claims"][0]["says"] = HOSTILE
    write_json(path, result)
    page = Page(study.folder, "experiments", experiment="retrieval")
    assert HOSTILE in page.text and "<script>" not in page.html


def test_a_result_of_an_experiment_that_is_gone_stays_readable(study, tmp_path):
    study = copied(study, tmp_path / "s")
    found = run_experiment(study, "retrieval", {"encoders": ["tiny"], "ks": [5]}, "cpu")
    path = next((study.folder / "experiments").glob("retrieval-*/result.json"))
    write_json(path, {**read_json(path), "experiment": "joint", "asks": "Are both better together?"})
    assert "Are both better together?" in Page(study.folder, "experiments").text
    page = Page(study.folder, "experiments", experiment="joint")
    assert "Are both better together?" in page.text and found["sentence"] in page.text
    assert "This version cannot run this experiment" in page.text and "--plan" not in page.text
    assert "experiment retrieval --plan" in Page(study.folder, "experiments", experiment="retrieval").text

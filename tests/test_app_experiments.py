"""The Experiments page: the offered experiments and the results; words of a result are shown as data, not markup."""

import re
from dataclasses import replace
from importlib import import_module

import pytest

from blindspot.analysis import published
from blindspot.app.components.experiments import (
    _counted_words,
    _same_figure,
    _same_figure_and_verdict,
    finding,
    overview_sentence,
)
from blindspot.app.components.planned_experiment import planned_table, planned_title
from blindspot.backend.core.manifest import atomic_folder, read_json, write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.papers import EXPERIMENTS, WITHOUT_TRAINING
from blindspot.backend.experiments.plan import Cell, PaperClaim
from blindspot.backend.experiments.planned import next_without_training, planned_parts
from blindspot.backend.experiments.running import results, run_experiment
from blindspot.backend.experiments.tables import difference
from blindspot.backend.text.number_words import quantity
from tests.app_pages import HOSTILE, Page, words
from tests.experiments import experiment_study
from tests.studies import copied


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return experiment_study(tmp_path_factory.mktemp("studies") / "s")


def test_without_anything_it_says_where_to_begin(tmp_path):
    assert "No passages and questions yet" in Page(Study.create(tmp_path / "empty").folder, "experiments").text


def test_every_experiment_is_there_to_ask(study):
    page = Page(study.folder, "experiments")
    assert "No claim is tested yet: " in page.text
    assert all(each.asks in page.text for each in EXPERIMENTS.values())
    assert all(f"{each.reports} {each.source}" in page.text for each in EXPERIMENTS.values())
    assert all(f'title="blindspot experiment {name}"' in page.html for name in EXPERIMENTS)
    assert {f"experiments?experiment={name}" for name in EXPERIMENTS} <= set(page.links())
    page = Page(study.folder, "experiments", experiment="denoised-by-rank")
    assert "experiments" in page.links(), "leads back to all of them"
    assert (
        EXPERIMENTS["denoised-by-rank"].asks[1:] in page.text
        and "blindspot experiment denoised-by-rank --plan" in page.text
    )
    planned = planned_parts(study, "denoised-by-rank")
    waiting, there = planned.as_words()
    assert f"What it makes {waiting.replace(',', '')} There already: {there}." in page.text, "of the full experiment"
    words = [button.label for button in page.app.button][:2]
    assert words == [f"Train {planned.trainings}", "Run the small version"]
    assert page.part("<h1.*?</h1>") == [
        "RocketQA claims that more passages are removed at the first ranks than at the last; not run here yet."
    ]


def test_before_it_runs_an_experiment_shows_the_paper_s_figures_and_claims(study):
    page = Page(study.folder, "experiments", experiment="strategies")
    assert (
        "less in-batch negatives +0.4 points 68.9 against 68.5" in page.text
        and " +0.9 points 68.9 against 68.0" in page.text
    )
    assert "variant Success@5" not in page.text, "the claims have every figure"
    assert "questions for each of 8 devices, processed as one batch." in page.text, "the plan's notes"
    (title,) = page.part("<h1.*?</h1>")
    assert title.startswith("RocketQA reports that denoised hard negatives beat raw ones: 5.2 points of Success@5 (")
    assert title.endswith(" (73.2 against 68.0); not run here yet.")
    assert f"{EXPERIMENTS['strategies'].asks} RocketQA, Tables 3 and 7." in page.text
    pair = "hard negatives, denoised (step 3) less hard negatives, not denoised"
    assert f"denoised hard negatives beat raw ones {pair} +5.2 points 73.2 against 68.0 not run" in page.text
    assert "What RocketQA reports on Natural Questions" in page.text


def test_figures_that_no_claim_has_stand_below_the_claims():
    cells = [
        Cell("Average", name, (), published) for name, published in (("BM25", 71.2), ("tiny", 49.7), ("DPR", 56.6))
    ]
    claim = PaperClaim("BM25 beats tiny", ("Average", "BM25"), ("Average", "tiny"))
    about = EXPERIMENTS["relations"]
    assert "variant BM25 tiny DPR Average 71.2 49.7 56.6" in words(planned_table(cells, [claim], [], about))
    assert "variant" not in words(planned_table(cells[:2], [claim], [], about))


def test_a_paper_s_claim_names_its_own_retriever():
    cells = [Cell("Average", name, (), published) for name, published in (("BM25", 71.2), ("tiny", 49.7))]
    said = "BM25 beats its dense retriever"
    beats = PaperClaim("BM25 beats tiny", ("Average", "BM25"), ("Average", "tiny"), as_published=said)
    title = f"EntityQuestions reports that {said}: 21.5 (71.2 against 49.7); not run here yet."
    assert planned_title(cells, [beats], "EntityQuestions") == title
    unprinted = [replace(cell, published=None) for cell in cells]
    assert planned_title(unprinted, [beats], "DPR") == f"DPR claims that {said}; not run here yet."
    plain = replace(beats, statement="more is better", as_published="")
    assert planned_title(unprinted, [plain], "DPR") == "DPR claims that more is better; not run here yet."
    assert planned_title(cells, [], "DPR") == ""


def test_the_page_offers_the_next_experiment_that_trains_nothing(study, tmp_path):
    study = copied(study, tmp_path / "s")
    name, planned = next_without_training(study, set())
    asks = EXPERIMENTS[name].asks
    assert experiments_offered(study) == [f"Test: {asks[:1].lower()}{asks[1:]}"] and planned.waiting
    later, _ = next_without_training(study, {name})
    assert WITHOUT_TRAINING.index(later) > WITHOUT_TRAINING.index(name)
    assert next_without_training(study, set(WITHOUT_TRAINING)) is None


def experiments_offered(study):
    page = Page(study.folder, "experiments")
    return [button.label.partition(" (")[0] for button in page.app.button if button.label.startswith("Test: ")]


def test_a_result_stands_with_its_claims_and_its_word(study, tmp_path):
    study = copied(study, tmp_path / "s")
    found = run_experiment(study, "retrieval", {"encoders": ["tiny"], "ks": [5]}, "cpu")
    words = [claim["word"] for claim in found["claims"]]
    overview = Page(study.folder, "experiments")
    assert f"{finding(found)[:-1]}; 1 of {len(EXPERIMENTS)} experiments has run." in overview.text
    tested = f"{quantity(2 * len(words), 'claim')} of the papers tested"
    several = f"{tested}{_counted_words(2 * words)}; 2 of {len(EXPERIMENTS)} experiments have run."
    assert overview_sentence([found, {**found, "experiment": "hybrid"}]) == several
    rows = [each.partition("=")[2] for each in overview.links() if each.startswith("experiments?experiment=")]
    dpr = [name for name in rows[2 * len(words) :] if EXPERIMENTS[name].paper == "DPR"]
    assert rows[: 2 * len(words)] == ["retrieval"] * 2 * len(words), (
        "its claims lead to it, so its question stands no second time"
    )
    assert dpr[:2] == ["hybrid", "tune-bm25"] and "retrieval" not in dpr, "first what trains nothing"
    first = next(each for each in overview.links() if each.startswith("experiments?experiment="))
    assert first == "experiments?experiment=retrieval", "the tested claims come first"
    page = Page(study.folder, "experiments", experiment="retrieval")
    (answer,) = page.part("<h1.*?</h1>")
    assert answer == finding(found) and answer.lower().startswith(found["verdict"]) and " question" in answer
    for claim in found["claims"]:
        figure = difference(claim, found["unit"], "Success@5")
        assert f"{claim['says']} {claim.get('about') or ''}".strip() in overview.text and figure in overview.text
        assert claim["says"] in page.text and quantity(claim["n"], "question") in page.text
    for cell in found["cells"]:
        assert f"{100 * cell['value']:.1f}" in page.text
    assert "births/dev @5" in page.text


def test_verdicts_are_counted_and_the_finding_is_a_sentence():
    assert _counted_words(["inconclusive"]) == ", inconclusive"
    assert _counted_words(["inconclusive"] * 2) == ", both inconclusive"
    assert _counted_words(["supported"] * 3) == ", all 3 supported"
    assert _counted_words(["inconclusive", "supported", "supported"]) == ": 2 supported, 1 inconclusive"
    claim = {"says": "m is better", "about": "group 6 less group 7", "word": "inconclusive", "because": "only 2 seeds"}
    claim |= {"difference": 0.055, "low": -0.056, "high": 0.165, "n": 145}
    result = {"verdict": "inconclusive", "claims": [claim], "sentence": "It is inconclusive.", "unit": "%"}
    assert finding(result) == (
        "Inconclusive here (only 2 seeds): “m is better”: +5.5 points (95%: \N{MINUS SIGN}5.6 to +16.5), 145 questions."
    )
    assert "+5.5 points of Success@20 (" in finding({**result, "plot": {"y": "Success@20"}}), "the plot's measure"
    assert "+5.5 points (" in finding({**result, "plot": {"y": "taken out"}})
    assert finding({**result, "verdict": "no finding"}) == "It is inconclusive.", "no claim has this verdict"


def test_two_claims_with_one_figure_say_why():
    first = {"ahead": ["row", "m"], "behind": None}
    second = {"ahead": ["row", "m"], "behind": ["row", "BM25"]}
    cells = [{"row": "row", "column": "BM25", "value": 0.0}]
    assert "BM25 has the same figure for the two." in _same_figure(second, first, cells)
    assert _same_figure_and_verdict({**second, "word": "supported"}, {**first, "word": "supported"}, cells)
    assert not _same_figure_and_verdict({**second, "word": "supported"}, {**first, "word": "inconclusive"}, cells)
    assert not _same_figure(second, first, [{**cells[0], "value": 0.1}]) and not _same_figure(first, second, cells)


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
    assert 'title="Are both better together?"' in Page(study.folder, "experiments").html
    page = Page(study.folder, "experiments", experiment="joint")
    assert "Are both better together?" in page.text and finding(found) in page.text
    assert "This version cannot run this experiment" in page.text and "--plan" not in page.text
    assert "experiment retrieval --plan" in Page(study.folder, "experiments", experiment="retrieval").text
    with atomic_folder(study.folder / "experiments" / "mine") as folder:  # label budgets, as before version 0.3.0
        write_json(folder / "result.json", {"budgets": [], "verdict": "worth it"})
        write_manifest(folder, {"kind": "experiment", "what": "label budget", "name": "mine", "request": {}})
    assert [each["experiment"] for each in results(study)] == ["joint"]
    assert 'title="Are both better together?"' in Page(study.folder, "experiments").html


def printed_figures(node: object) -> list[float]:
    """Every number in a module's table of published figures, however deep."""
    if isinstance(node, dict):
        return [number for value in node.values() for number in printed_figures(value)]
    if isinstance(node, tuple):
        return [number for value in node for number in printed_figures(value)]
    return [float(node)] if isinstance(node, int | float) else []


MULTI_OF_TREC = (79.8, 89.1)  # DPR, Table 2, top-20: trained on TREC, and on several sets


def test_what_a_paper_reports_has_the_figures_of_its_table():
    """Every decimal in a row of the page is a published figure, or the difference of two of the row."""
    for name, about in EXPERIMENTS.items():
        module = import_module(f"blindspot.backend.experiments.papers.{name.replace('-', '_')}")
        known = {*printed_figures(getattr(module, "PUBLISHED", {})), *printed_figures(published.AVERAGE)}
        known |= set(MULTI_OF_TREC) if name == "multi" else set()
        told = [float(text) for text in re.findall(r"\d+\.\d", about.reports)]
        if name == "tune-bm25":
            assert told == [0.9, 0.4]
            continue
        pairs = {round(abs(a - b), 1) for a in told for b in told}
        assert all(number in known or (number in pairs and len(told) == 3) for number in told), name
        assert not told or any(number in known for number in told), name
    assert all(about.reports for about in EXPERIMENTS.values())

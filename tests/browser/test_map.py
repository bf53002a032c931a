"""The map in a real browser: from a lasso to a judged batch, from a click to a passage, and the choices on a phone."""

from __future__ import annotations

import re
import shutil

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.maps.making import make_map
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.retrieval.dense import build_index
from blindspot.db.queue import Queue
from tests.browser.pages import parameters, visit
from tests.browser.servers import showing
from tests.studies import tiny_bert

WHOLE = {
    "encoder": "tiny",
    "questions": "dev",
    "run": "tiny-dev",
    "passages": ("gold", "random"),
    "random": 61,
    "method": "tsne",
    "perplexity": 8,
    "cluster_count": 4,
    "components": 10,
}
POINT = """(number) => {
  const plot = document.querySelector(".js-plotly-plot"), layout = plot._fullLayout, frame = plot.getBoundingClientRect();
  const trace = plot._fullData.find((each) => each.customdata && each.customdata.length > number);
  return [frame.left + layout.xaxis._offset + layout.xaxis.d2p(trace.x[number]),
          frame.top + layout.yaxis._offset + layout.yaxis.d2p(trace.y[number])];
}"""


@pytest.fixture(scope="module")
def mapped(study, tmp_path_factory) -> Study:
    """A copy of the study with a second encoder, and the maps `one` and `two`."""
    folder = tmp_path_factory.mktemp("mapped") / "people"
    shutil.copytree(study.folder, folder)
    made = Study.open(folder)
    tiny_bert(folder / "models" / "other", 1)
    add_encoder(
        made.settings_path, "other", {"model": str(folder / "models" / "other"), "pooling": "cls", "max_tokens": 64}
    )
    build_index(made, "other", device="cpu")
    make_map(made, MapRequest("two", second="other", **WHOLE))
    make_map(made, MapRequest("one", **WHOLE))
    return made


@pytest.fixture(scope="module")
def maps_address(mapped):
    with showing(mapped) as port:
        yield f"http://{server.ADDRESS}:{port}/"


def picture(tab, address: str, query: str) -> dict[str, float]:
    """Open a map and return the frame of its first picture."""
    visit(tab, f"{address}map?{query}")
    tab.wait_for_selector(".js-plotly-plot[data-linked=yes] .nsewdrag")
    tab.wait_for_timeout(500)
    return tab.locator(".js-plotly-plot .nsewdrag").first.bounding_box()


def lasso(tab, frame: dict[str, float], left: float = 0.02, right: float = 0.98) -> None:
    """Draw a lasso around the picture's part from `left` to `right`."""
    corners = [(left, 0.02), (right, 0.02), (right, 0.98), (left, 0.98), (left, 0.04)]
    places = [(frame["x"] + across * frame["width"], frame["y"] + down * frame["height"]) for across, down in corners]
    tab.mouse.move(*places[0])
    tab.mouse.down()
    for place in places[1:]:
        tab.mouse.move(*place, steps=8)
    tab.mouse.up()


def typed(tab, label: str, words: str) -> None:
    """Type into a field and wait until the page has processed it: a click on a button that is being redrawn is lost."""
    tab.get_by_label(label).fill(words)
    tab.get_by_label(label).press("Enter")
    tab.wait_for_timeout(200)
    tab.wait_for_selector("[data-test-script-state=notRunning]", state="attached")


def test_from_a_lasso_to_a_batch(tab, maps_address, mapped):
    frame = picture(tab, maps_address, "map=one&k=10")
    lasso(tab, frame)
    panel = tab.locator(".st-key-map-selection")
    expect(panel.locator(".list-head")).to_contain_text("40 questions and 61 passages")
    before = [batch.name for batch in Queue(mapped.labels_path).batches()]
    name = f"by lasso {len(before)}"  # a repetition of this test finds the batch of the first
    typed(tab, "Name of the batch", name)
    panel.get_by_role("button", name="Create batch").click()
    expect(tab.locator(".notice", has_text=f"Created batch “{name}”: 40 questions")).to_be_visible()
    assert [batch.name for batch in Queue(mapped.labels_path).batches()] == [*before, name]


def test_a_selection_outlives_another_colour_and_can_be_cleared(tab, maps_address):
    lasso(tab, picture(tab, maps_address, "map=one"), right=0.5)
    head = tab.locator(".st-key-map-selection .list-head")
    expect(head).to_be_visible()
    told = head.inner_text()
    tab.get_by_label("Colour by").click()
    tab.get_by_role("option", name="cluster").click()
    expect(tab.locator(".js-plotly-plot .legendtext", has_text=re.compile("^question$"))).to_be_visible()
    assert parameters(tab)["by"] == "cluster"
    expect(head).to_have_text(told, use_inner_text=True)
    tab.get_by_role("button", name="Clear selection").click()
    expect(head).to_have_count(0)
    expect(tab.get_by_text("Draw a lasso or a box")).to_be_visible()


def test_a_click_opens_the_passage_whose_point_it_is_and_back_closes_it(tab, maps_address):
    picture(tab, maps_address, "map=one&by=kind")
    tab.mouse.move(*tab.evaluate(POINT, 5))
    tab.wait_for_selector(".js-plotly-plot .hoverlayer .hovertext")
    pointed = tab.locator(".js-plotly-plot .hoverlayer .hovertext").text_content()
    tab.mouse.click(*tab.evaluate(POINT, 5))
    expect(tab.locator(".map-point h2")).to_be_visible()
    assert parameters(tab)["point"].startswith(("p:", "q:"))
    first = tab.locator(".map-point h2").inner_text()
    assert pointed.startswith(first), "the passage under the pointer is the one that opens"
    nearest = tab.locator(".map-point .map-list").last
    expect(nearest.locator("li")).to_have_count(10)
    other = nearest.locator("a").first
    name = other.inner_text()
    other.click()
    expect(tab.locator(".map-point h2")).to_have_text(name)
    tab.go_back()
    expect(tab.locator(".map-point h2")).to_have_text(first)
    tab.go_back()
    expect(tab.locator(".map-point")).to_have_count(0)


def test_hostile_titles_stay_text_on_the_map(tab, maps_address):
    picture(tab, maps_address, "map=one&point=p:hostile")
    tab.wait_for_selector(".map-point")
    assert tab.evaluate("window.pwned") is None
    assert tab.locator(".map-point script, .map-point img").count() == 0


def test_in_a_narrow_window_the_choices_fold_away_and_the_map_follows_the_sentence(tab, maps_address):
    tab.set_viewport_size({"width": 400, "height": 900})
    picture(tab, maps_address, "map=two")
    choice = tab.get_by_label("Colour by")
    expect(choice).to_be_hidden()
    order = "[...document.querySelectorAll('h1, .choices-fold, .js-plotly-plot')].map((each) => each.getBoundingClientRect().top)"
    tops = tab.evaluate(order)
    assert tops == sorted(tops) and len(tops) == 3
    tab.locator(".choices-fold summary").click()
    expect(choice).to_be_visible()
    tab.set_viewport_size({"width": 1400, "height": 900})
    expect(tab.locator(".choices-fold")).to_be_hidden()
    expect(choice).to_be_visible()

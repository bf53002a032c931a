"""The Map page as a person gets it, without a browser: empty states, the form, colours, clusters, points,
selections."""

import json
import re
import shutil
from dataclasses import replace
from html import escape

import numpy as np
import pytest

from blindspot.app.components import jobs
from blindspot.app.components.map.data import points
from blindspot.app.components.map.figure import (
    COLOURS,
    DARK_GREY,
    FADED,
    FIXED,
    GREY,
    PASSAGE_SIZE,
    SELECTABLE,
    hover_text,
    map_figure,
    selectable,
)
from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.jobs import request
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import measure
from blindspot.backend.maps.clusters import clusters_of
from blindspot.backend.maps.colours import (
    BOTH,
    FOUND,
    MAP_COLOURS,
    MISSED,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    MapColour,
    colour_values,
    hits_of_two,
)
from blindspot.backend.maps.making import make_map
from blindspot.backend.maps.point_values import cluster_rows, facts_of_points
from blindspot.backend.maps.selection import QUESTION
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.retrieval.dense import build_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.records import Passage
from tests.app_pages import HOSTILE, Page
from tests.studies import births, make_study, people, tiny_bert

WHOLE = {
    "encoder": "tiny",
    "questions": "dev",
    "passages": ("gold", "random"),
    "random": 61,
    "method": "tsne",
    "perplexity": 8,
    "cluster_count": 4,
    "components": 10,
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """61 passages, one of them hostile, 40 questions of three relations, two encoders, a run; maps `one` and `two`."""
    passages = people()
    made = make_study(
        tmp_path_factory.mktemp("app-map") / "people",
        [*passages, Passage("hostile", HOSTILE, f"{HOSTILE} tells.")],
        [
            replace(question, relation="P20" if number < 5 else "P413" if number < 8 else "P19")
            for number, question in enumerate(births(passages))
        ],
    )
    for name, seed in (("tiny", 0), ("other", 1)):
        tiny_bert(made.folder / "models" / name, seed)
        add_encoder(
            made.settings_path, name, {"model": str(made.folder / "models" / name), "pooling": "cls", "max_tokens": 64}
        )
        build_index(made, name, device="cpu")
    retrieve(made, "dense", encoder="tiny", split="dev", k=20, device="cpu")
    make_map(made, MapRequest("one", **WHOLE))
    make_map(made, MapRequest("two", second="other", **WHOLE))
    return made


@pytest.fixture(autouse=True)
def nobody_is_signed_in(monkeypatch):
    """A local browser; the page under test has no cookies."""
    monkeypatch.setattr("blindspot.app.who.signed_in_person", lambda path: None)
    monkeypatch.setattr("blindspot.app.who.mode", lambda: "local")


def test_without_a_map_the_page_says_what_one_is_and_builds_the_index(study, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "start", lambda opened, asked, *_, **__: started.append(asked))
    bare = make_study(tmp_path / "bare", people())
    page = Page(bare.folder, "map")
    assert "No map yet; making one takes a minute or two" in page.text
    page.app.button(key="map-index").click().run()
    assert started == [request(build_index, "minilm")]
    settings = bare.settings_path.read_text()
    bare.settings_path.write_text(settings[: settings.index("[encoders.minilm]")])
    assert "blindspot encoder add" in Page(bare.folder, "map").text


def test_the_form_has_sane_answers(study, monkeypatch):
    started = []
    monkeypatch.setattr(jobs, "start", lambda opened, asked, *_, **__: started.append(asked))
    page = Page(study.folder, "map", new=1)
    encoder = page.app.selectbox(key="make-encoder").value
    assert page.app.text_input(key=f"make-name-{encoder}-").value == encoder
    page.app.button(key="map-start").click()
    again(page, study)
    asked = build_settings(MapRequest, started[0].arguments)
    assert asked == MapRequest(encoder, encoder=encoder, run="tiny-dev", seed=study.settings.seed)
    page.app.multiselect(key="make-passages").set_value([])
    again(page, study)
    assert page.app.button(key="map-start").disabled and "choose at least one source of passages" in page.text


def test_the_numbers_stand_beside_the_picture(study):
    page = Page(study.folder, "map", map="one")
    quality = study.parts("maps")["one"]["encoders"][0]["quality"]
    assert f"trustworthiness {quality['trustworthiness']['value']:.3f}" in page.text
    assert f"neighbour overlap {quality['overlap']['value']:.3f}" in page.text
    assert "seed 0; 40 questions and 61 passages" in page.text and "gaps between them have no meaning" in page.text


def test_the_title_counts_the_misses_that_the_picture_shows(study):
    (title,) = Page(study.folder, "map", map="one").part("<h1.*?</h1>")
    missed = sum(not 0 < rank <= 5 for rank in measure(study, "tiny-dev").first_ranks)
    said = f"tiny-dev misses {missed} of 40 questions in the top 5: {100 * missed / 40:.1f}% (95%: "
    assert title.startswith(said) and title.endswith(")")
    (other,) = Page(study.folder, "map", map="one", by="kind").part("<h1.*?</h1>")
    assert other == "40 questions among 61 passages"


def opacities(traces) -> dict[str, float]:
    """Return the opacity of each point of a figure, by its id."""
    found = {}
    for trace in traces:
        if trace.get("customdata") is not None:
            shown = trace["marker"]["opacity"]
            every = [shown] * len(trace["customdata"]) if isinstance(shown, (int, float)) else shown
            found |= dict(zip(trace["customdata"], every, strict=True))
    return found


def test_a_point_of_the_grey_rest_tells_its_own_category(study):
    map = map_of(study)
    values = [f"category {row % 20}" for row in range(len(map))]
    made = map_figure(map, ["t"] * len(map), [str(i) for i in range(len(map))], values)
    told = {}
    for trace in made.data:
        if trace.customdata is not None:
            last = trace.name if trace.name != "other" else None
            told |= {
                id: last or text.rpartition("<i>")[2].removesuffix("</i>")
                for id, text in zip(trace.customdata, trace.text)
            }
    assert told == {str(row): values[row] for row in range(len(map))}


def test_the_passages_fade_where_the_colours_show_hits_and_misses(study):
    for by, faded in (("hit", 61), ("label", 0)):
        figure = json.loads(Page(study.folder, "map", map="one", by=by).app.get("plotly_chart")[0].proto.spec)
        shown = opacities(figure["data"])
        assert {shown[id] for id in shown if id.startswith(QUESTION)} == {1}
        assert sum(opacity == FADED for opacity in shown.values()) == faded


def test_the_clusters_with_the_most_misses_come_first_in_the_table(study):
    opened, state, first = map_of(study), clusters_of(map_of(study)), measure(study, "tiny-dev")
    ranks = {question.id: rank for question, rank in zip(first.questions, first.first_ranks.tolist(), strict=True)}
    rows = cluster_rows(facts_of_points(opened), state, {"tiny-dev": ranks}, 5)
    missed = {row.name: row.hits["tiny-dev"].n * (1 - (row.hits["tiny-dev"].value or 0)) for row in rows}
    page = Page(study.folder, "map", map="one")
    (table,) = re.findall('<table class="figures clusters">.*?</table>', page.html, re.DOTALL)
    shown = re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', table)
    assert [missed[name] for name in shown] == sorted(missed.values(), reverse=True) and len(shown) == len(missed)
    (folded,) = [each for each in page.app.expander if each.label == f"All {len(rows)} clusters of passages"]
    assert not folded.proto.expanded


def test_an_open_cluster_stands_out_and_lists_its_passages(study):
    opened, state = map_of(study), clusters_of(map_of(study))
    first = state.ids[0]
    page = Page(study.folder, "map", map="one", cluster=first + 1)
    assert f"{state.name(first)} {len(state.members(first))} passages" in page.text
    figure = json.loads(page.app.get("plotly_chart")[0].proto.spec)
    strong = {points(opened).ids[opened.shown_questions + place] for place in state.members(first)}
    assert {id for id, shown in opacities(figure["data"]).items() if shown == 1} == strong


def test_every_run_of_many_can_be_chosen(study, tmp_path):
    shutil.copytree(study.folder, tmp_path / "s")
    copied = Study.open(tmp_path / "s")
    names = [f"again{number}" for number in range(5)]
    for name in names:
        retrieve(copied, "dense", encoder="other", split="dev", k=5, device="cpu", name=name)
    for name in names:
        page = Page(copied.folder, "map", map="two", run=name)
        assert page.part("<h1.*?</h1>")[0].startswith(f"{name} misses ") and f"{name}, S@5" in page.text


def test_two_encoders_have_their_change_and_one_places_the_points(study):
    page = Page(study.folder, "map", map="two")
    assert "orthogonal Procrustes" in page.text and "trustworthiness of other" in page.text
    assert page.app.selectbox(key="url-view").value == "0"
    placed = [
        page.app.get("plotly_chart")[0].proto.spec for page in (page, Page(study.folder, "map", map="two", view="1"))
    ]
    assert placed[0] != placed[1]


def test_one_map_shows_what_two_runs_find_of_the_same_questions(study, tmp_path):
    shutil.copytree(study.folder, tmp_path / "s")
    both = Study.open(tmp_path / "s")
    (title,) = Page(both.folder, "map", map="two").part("<h1.*?</h1>")
    assert "tiny-dev misses" in title, "the other encoder has no run"
    retrieve(both, "dense", encoder="other", split="dev", k=20, device="cpu")
    tiny, other = (
        {question.id for question, rank in zip(made.questions, made.first_ranks.tolist(), strict=True) if 0 < rank <= 5}
        for made in (measure(both, "tiny-dev"), measure(both, "other-dev"))
    )
    assert "tiny-dev misses" in Page(both.folder, "map", map="two").part("<h1.*?</h1>")[0], (
        "one run until two are chosen"
    )
    page = Page(both.folder, "map", map="two", against="other-dev")
    title = f"tiny-dev misses {40 - len(tiny)} of 40 questions in the top 5, other-dev {40 - len(other)} of 40"
    assert page.part("<h1.*?</h1>") == [title]
    figure = json.loads(page.app.get("plotly_chart")[0].proto.spec)
    drawn = {}
    for trace in figure["data"]:
        for id in trace.get("customdata") or ():
            if id.startswith(QUESTION):
                drawn.setdefault(trace["name"], set()).add(id.removeprefix(QUESTION))
    asked = {question.id for question in measure(both, "tiny-dev").questions}
    cells = {"fixed": other - tiny, "broken": tiny - other, "still found": tiny & other}
    cells["still missed"] = asked - tiny - other
    assert drawn == {name: ids for name, ids in cells.items() if ids}
    alone = Page(both.folder, "map", map="two").app.get("plotly_chart")[0].proto.spec
    assert "fixed" not in alone
    swapped = Page(both.folder, "map", map="two", run="other-dev", against="tiny-dev").app.get("plotly_chart")[0]
    assert "only tiny-dev finds" in swapped.proto.spec or not tiny - other


@pytest.mark.parametrize("by", ["kind", "relation", "bucket", "hit", "label", "cluster"])
def test_every_colour_can_be_shown(study, by):
    page = Page(study.folder, "map", map="one", by=by)
    assert page.app.selectbox(key="url-by").value == by
    assert "Draw a lasso or a box" in page.text


def test_a_colour_registered_elsewhere_is_offered_and_drawn(study, monkeypatch):
    MAP_COLOURS.all()
    monkeypatch.setattr(MAP_COLOURS, "_entries", dict(MAP_COLOURS._entries))
    seen = []

    def first_letter(view):
        seen.append(view.k)
        return [question.text[0] for question in view.shown_questions] + ["passage"] * len(view.passages)

    MAP_COLOURS.register(MapColour("letter", "first letter", first_letter, note=lambda run, k: f"Letters, {k}."))
    page = Page(study.folder, "map", map="one", by="letter", k=5)
    picker = page.app.selectbox(key="url-by")
    assert picker.value == "letter" and picker.options[-1] == "Colour: first letter" and seen == [5]
    assert "Letters, 5." in page.text


def test_a_point_opens_with_its_true_neighbours(study):
    page = Page(study.folder, "map", map="one", point="p:p0")
    assert "Nearest of all 61 passages" in page.text
    assert len(page.part(r"<li><span class=\"soft number\">.*?</li>")) == 10
    question = Page(study.folder, "map", map="one", point="q:P19.dev.0")
    assert "Where was Arve Aurset0 born?" in question.text and "Answers: Oslo" in question.text
    assert "question?question=P19.dev.0&a=tiny-dev&k=5" in question.links()
    (nearest,) = re.findall('<ol class="map-list">.*?</ol>', question.html, re.DOTALL)
    near = map_of(study).neighbours(0, 10).rows[0].tolist()
    titles = [passage.title for passage in study.corpus.passages(near)]
    assert re.findall(r"<a[^>]*>(.*?)</a>", nearest) == [escape(title) for title in titles]
    assert "This point is not on this map" in Page(study.folder, "map", map="one", point="p:nobody").text


def test_hostile_text_is_text_everywhere(study):
    page = Page(study.folder, "map", map="one", point="p:hostile")
    assert HOSTILE in page.text and "<script>" not in page.html and "<img" not in page.html
    path = map_of(study).folder / "words.json"
    words = path.read_text()
    state = clusters_of(map_of(study))
    cluster = int(state.labels[60])
    path.write_text(json.dumps({**json.loads(words), str(cluster): ["<img src=x onerror=alert(1)>"]}))
    try:
        opened = Page(study.folder, "map", map="one", by="cluster", cluster=cluster + 1)
        assert "<img" not in opened.html and "<img src=x onerror=alert(1)>" in opened.text
        assert "<img" not in opened.app.get("plotly_chart")[0].proto.spec
    finally:
        path.write_text(words)


def test_hover_texts_are_escaped_and_points_carry_their_ids(study):
    map = map_of(study)
    state, what = clusters_of(map), facts_of_points(map)
    ids = [f"p:{i}" for i in range(len(map))]
    hovers = [hover_text(HOSTILE, HOSTILE)] * len(map)
    made = map_figure(
        map, hovers, ids, colour_values(map, what, "kind", state), label_of_value=lambda name: HOSTILE + name
    )
    traces = [trace for trace in made.data if trace.customdata is not None]
    assert sorted(id for trace in traces for id in trace.customdata) == sorted(ids)
    assert not any(
        "<script" in text or "<img" in text
        for trace in traces
        for text in (*trace.text, trace.meta, trace.hovertemplate)
    )
    assert {trace.type for trace in traces} == {"scattergl"}
    for trace in traces:
        rows = [int(id[2:]) for id in trace.customdata]
        np.testing.assert_array_equal(np.stack([trace.x, trace.y], axis=1), map.coordinates()[rows])


def test_strong_points_stand_out_from_faded_ones_and_the_legend_does_not_fade(study):
    map = map_of(study)
    ids = [str(i) for i in range(len(map))]
    values = [MISSED if row % 2 else FOUND for row in range(len(map))]
    strong = frozenset({ids[0], ids[1], ids[map.shown_questions + 1]})
    made = map_figure(map, ["t"] * len(map), ids, values, 0, strong)
    shown = opacities(made.to_dict()["data"])
    assert {id for id, opacity in shown.items() if opacity == 1} == strong and set(shown.values()) == {1, FADED}
    legend = [trace for trace in made.data if trace.showlegend is not False]
    assert [(trace.name, trace.marker.opacity, trace.customdata) for trace in legend] == [
        (FOUND, None, None),
        (MISSED, None, None),
    ]


def test_questions_are_larger_and_each_category_has_a_colour_and_a_shape(study):
    map = map_of(study)
    state, what = clusters_of(map), facts_of_points(map)
    firsts = [{question.id: number // part % 2 for number, question in enumerate(what.questions)} for part in (1, 2)]
    run = study.run("tiny-dev")
    one, other = (colour_values(map, what, "hit", state, first, run, 5) for first in firsts)
    for values in (one, hits_of_two(one, other)):
        made = map_figure(map, ["t"] * len(map), [str(i) for i in range(len(map))], values)
        looks, sizes = {}, {}
        for trace in (trace for trace in made.data if trace.customdata is not None):
            for id in trace.customdata:
                looks.setdefault(values[int(id)], set()).add((trace.marker.symbol, trace.marker.color))
                sizes[int(id) < map.shown_questions, values[int(id)]] = trace.marker.size
            assert trace.marker.opacity == 1 and all(ratio >= 3 for ratio in contrasts(trace.marker.color))
        assert all(len(each) == 1 for each in looks.values())
        coloured = [*set(values) - {"other passage"}]
        assert len({symbol for name in coloured for symbol, _ in looks[name]}) == len(coloured)
        assert all(
            sizes[True, name] > sizes[False, name] == PASSAGE_SIZE
            for is_question, name in sizes
            if (not is_question, name) in sizes
        )


def contrasts(colour: str) -> list[float]:
    """Return the contrast of a colour with the page's background, light and dark."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    pairs = [sorted((luminance(colour), luminance(ground)), reverse=True) for ground in ("#ffffff", "#12161b")]
    return [(light + 0.05) / (dark + 0.05) for light, dark in pairs]


def test_every_colour_of_a_map_is_seen_in_light_and_in_dark():
    assert min(ratio for colour in (*COLOURS, GREY, DARK_GREY) for ratio in contrasts(colour)) >= 3
    assert FIXED[NEITHER][0] == DARK_GREY, (
        "what neither run finds is no shade of the orange of what only the first finds"
    )


def test_hits_of_two_runs_are_those_of_both_one_or_neither():
    one = ["found", "found", "missed", "missed", "other passage", "found", "not in this run"]
    other = ["found", "missed", "found", "missed", "other passage", "not in this run", "missed"]
    assert hits_of_two(one, other) == [
        BOTH,
        ONLY_FIRST,
        ONLY_SECOND,
        NEITHER,
        "other passage",
        *2 * ["not in this run"],
    ]


def test_more_points_than_can_be_chosen_from_are_a_fixed_sample():
    assert selectable(SELECTABLE).tolist() == list(range(SELECTABLE))
    many = selectable(100_000)
    assert len(many) == SELECTABLE and len(np.unique(many)) == len(many)
    assert np.array_equal(many, selectable(100_000))


def test_what_cannot_be_chosen_is_drawn_as_density_and_the_page_says_so(study, monkeypatch):
    monkeypatch.setattr("blindspot.app.components.map.figure.SELECTABLE", 60)
    map = map_of(study)
    what, state = facts_of_points(map), clusters_of(map)
    made = map_figure(map, ["t"] * 101, [str(i) for i in range(101)], colour_values(map, what, "kind", state))
    density = next(trace for trace in made.data if trace.type == "heatmap")
    assert round(float(np.nansum(np.expm1(density.z)))) == 101, "every point is in the density"
    assert sum(len(trace.customdata) for trace in made.data if trace.customdata is not None) == 60
    page = Page(study.folder, "map", map="one")
    assert "The map has 101 points. A random sample of 60 is selectable" in page.text


def test_a_cluster_is_sent_to_judging(study):
    from blindspot.db.queue import Queue

    first = clusters_of(map_of(study)).ids[0]
    page = Page(study.folder, "map", map="one", cluster=first + 1, k=10)
    next(box for box in page.app.text_input if box.label == "Name of the batch").set_value("from a cluster")
    page.app.button(key="map-batch").click()
    again(page, study)
    batch = next(each for each in Queue(study.labels_path).batches() if each.name == "from a cluster")
    assert f"Created batch “from a cluster”: {batch.questions} question" in page.text
    page.app.button(key="map-batch").click()
    again(page, study)
    assert "there is a batch 'from a cluster' already" in page.text


def test_an_address_that_makes_no_sense_shows_the_newest_map(study):
    page = Page(study.folder, "map", map="../../etc", by="colour", k="many", cluster="999", view="7")
    assert page.app.selectbox(key="url-map").value == "two" and page.app.selectbox(key="url-by").value == "hit"


def again(page, study):
    """Run the script again after an input."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BLINDSPOT_STUDY", str(study.folder))
        page.app.run()
    assert not page.app.exception, page.app.exception


def map_of(study):
    from blindspot.backend.maps.stored import Map

    return Map.open(study, "one")

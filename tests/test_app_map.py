"""The Map page as a person gets it, without a browser: empty states, the form, colours, clusters, points,
selections."""

import json
import re
import shutil
from html import escape
from itertools import combinations
from textwrap import shorten
from urllib.parse import parse_qsl

import numpy as np
import pytest

from blindspot.app.components import jobs
from blindspot.app.components.map.clusters import (
    APART,
    LONGEST_NAME,
    WIDE,
    best_other,
    by_misses,
    lie_apart,
    missed_count,
    missed_points,
    missed_questions,
    names_on_map,
    rows_of_runs,
)
from blindspot.app.components.map.data import open_map, points
from blindspot.app.components.map.figure import (
    COLOURS,
    DARK_GREY,
    FADED,
    FIXED,
    GREY,
    PASSAGE_SIZE,
    SELECTABLE,
    Highlighted,
    map_figure,
    selectable,
)
from blindspot.backend.core.jobs import request
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import measure
from blindspot.backend.evaluation.saved_selections import save_selection
from blindspot.backend.maps.cluster_names import cluster_names
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
from blindspot.backend.maps.edits import clusters_of, rename
from blindspot.backend.maps.making import make_map
from blindspot.backend.maps.point_values import facts_of_points
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
    """61 passages, one of them hostile, 40 questions, two encoders, a run; maps `one` and `two`."""
    passages = people()
    made = make_study(
        tmp_path_factory.mktemp("app-map") / "people",
        [*passages, Passage("hostile", HOSTILE, f"{HOSTILE} tells.")],
        births(passages),
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


def test_the_form_has_sane_answers_and_tells_the_command(study):
    page = Page(study.folder, "map", new=1)
    encoder = page.app.selectbox(key="make-encoder").value
    assert page.app.text_input(key=f"make-name-{encoder}-").value == encoder
    command = next(code.value for code in page.app.code if "map new" in code.value)
    assert command.startswith("blindspot map new ") and "--run tiny-dev" in command and str(study.folder) in command
    assert not page.app.button(key="map-start").disabled
    assert (
        f"Vectors of {encoder}, with what tiny-dev finds; at most 10,000 passages. Takes about a minute or two."
        in page.text
    )
    page.app.multiselect(key="make-passages").set_value([])
    again(page, study)
    assert page.app.button(key="map-start").disabled and "choose at least one source of passages" in page.text


def test_the_numbers_stand_beside_the_picture(study):
    page = Page(study.folder, "map", map="one")
    quality = study.parts("maps")["one"]["encoders"][0]["quality"]
    assert f"trustworthiness {quality['trustworthiness']['value']:.3f}" in page.text
    assert f"neighbour overlap {quality['overlap']['value']:.3f}" in page.text
    assert "seed 0; 40 questions and 61 passages" in page.text and "gaps between them have no meaning" in page.text
    assert "place of birth (P19)" in page.text  # the spread of each group


def test_the_title_counts_the_misses_that_the_picture_shows(study):
    (title,) = Page(study.folder, "map", map="one").part("<h1.*?</h1>")
    missed = sum(not 0 < rank <= 5 for rank in measure(study, "tiny-dev").first_ranks)
    said = f"tiny-dev misses {missed} of 40 questions in the top 5 ({100 * missed / 40:.1f}%, 95%: "
    assert title.startswith(said) and title.endswith(")")
    (other,) = Page(study.folder, "map", map="one", by="kind").part("<h1.*?</h1>")
    assert other == "40 questions among 61 passages"


def test_the_map_names_its_clusters_where_they_do_not_collide(study):
    opened = open_map(study, "one")
    state = clusters_of(opened)
    names, named = names_on_map(opened, state, 0), cluster_names(facts_of_points(opened), state)
    assert names and {each.words for each in names} <= {
        shorten(name, LONGEST_NAME, placeholder=" …") for name in named.values()
    }
    points = np.asarray(opened.coordinates(0))
    for each in names:
        (id,) = [id for id in state.ids if each.words == shorten(named[id], LONGEST_NAME, placeholder=" …")]
        own = points[opened.shown_questions + state.members(id)]
        assert [each.x, each.y] in own.tolist(), "at a passage of the cluster"
    extent = np.ptp(np.asarray(opened.coordinates(0)), axis=0).max()
    for one, other in combinations(names, 2):
        assert abs(one.x - other.x) > APART[0] * extent or abs(one.y - other.y) > APART[1] * extent
    last = state.ids[-1]
    (only,) = names_on_map(opened, state, 0, [last])
    assert only.words == shorten(named[last], LONGEST_NAME, placeholder=" …")
    spec = Page(study.folder, "map", map="one").app.get("plotly_chart")[0].proto.spec
    assert '"name":"place"' in spec.replace(" ", "")


def test_passages_lie_apart_by_their_median_distance_to_their_middle(study):
    opened = open_map(study, "one")
    state, places = clusters_of(opened), np.asarray(opened.coordinates(0))
    for id in state.ids:
        own = places[opened.shown_questions + np.flatnonzero(state.labels == id)]
        distances = np.sqrt(((own - own.mean(axis=0)) ** 2).sum(axis=1))
        wide = np.median(distances) > WIDE * np.ptp(places, axis=0).max()
        assert lie_apart(opened, state, id, 0) == wide
    figure = json.loads(Page(study.folder, "map", map="one").app.get("plotly_chart")[0].proto.spec)
    written = {each["text"] for each in figure["layout"].get("annotations", ())}
    for id, name in cluster_names(facts_of_points(opened), state).items():
        if lie_apart(opened, state, id, 0):
            assert escape(shorten(name, LONGEST_NAME, placeholder=" …"), quote=False) not in written
    worst = by_misses(rows_of_runs(opened, state, ["tiny-dev"], 5), "tiny-dev")[0].id
    text = Page(study.folder, "map", map="one").text
    assert ("The passages of the worst cluster lie apart" in text) == lie_apart(opened, state, worst, 0)
    missed = {each.id for each in missed_questions(opened, state, worst, "tiny-dev", 5)}
    facts = facts_of_points(opened)
    ringed = missed_points(opened, points(opened), state, worst, "tiny-dev", 5)
    assert ringed == {QUESTION + question for question in missed} | {
        points(opened).ids[opened.shown_questions + place]
        for number, question in enumerate(facts.questions)
        for place in facts.positives[number]
        if question.id in missed and state.labels[place] == worst
    }
    assert ringed, "the worst cluster has a missed passage"


def test_the_worst_clusters_come_first_beside_the_map_and_in_the_table(study):
    opened = open_map(study, "one")
    rows = rows_of_runs(opened, clusters_of(opened), ["tiny-dev"], 5)
    ordered = by_misses(rows, "tiny-dev")
    counts = [missed_count(row, "tiny-dev") for row in ordered]
    assert counts == sorted(counts, reverse=True) and best_other(rows, "tiny-dev") is None
    page = Page(study.folder, "map", map="one")
    table = re.findall('<table class="figures clusters">.*?</table>', page.html, re.DOTALL)
    names = [re.findall(r'<th scope="row">(?:<span[^>]*>\d+ </span>)?<a[^>]*>(.*?)</a>', each) for each in table]
    assert names == [[row.name for row in ordered if missed_count(row, "tiny-dev")], [row.name for row in ordered]]
    worst = ordered[0]
    share = 100 * counts[0] / worst.hits["tiny-dev"].n
    assert f"{worst.name} {counts[0]} of {worst.hits['tiny-dev'].n} {share:.1f}" in page.text
    (folded,) = [each for each in page.app.expander if each.label == f"All {len(rows)} clusters"]
    assert not folded.proto.expanded


def test_two_encoders_have_their_change_and_one_places_the_points(study):
    page = Page(study.folder, "map", map="two")
    assert "orthogonal Procrustes" in page.text and "trustworthiness of other" in page.text
    heads = page.part(r'<table class="figures spread">.*?</thead>')[0]
    assert heads.count("tiny other change") == 3
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
    assert page.part("<h1.*?</h1>") == [
        f"other-dev finds {len(other - tiny)} of the {40 - len(tiny)} questions that tiny-dev misses in the top 5"
    ]
    assert f"It misses {len(tiny - other)} that tiny-dev finds" in page.text
    assert re.search(r"tiny-dev misses the most questions in .*; other-dev misses (\d+|none) there\.", page.text)
    assert "other-dev, %" in page.text, "its share stands beside tiny-dev's"
    spec = page.app.get("plotly_chart")[0].proto.spec
    assert "fixed: only other-dev finds" in spec and "still missed" in spec
    name, count = re.search(
        r"tiny-dev misses the most questions in the cluster (.+): (\d+) of \d+ questions", page.text
    ).groups()
    words, address = page.next_step()
    assert words.startswith(f"Next: see the {count} missed question") and words.endswith(f" of the cluster {name}")
    opened = Page(both.folder, "map", **dict(parse_qsl(address.partition("?")[2])))
    listed = re.findall(
        r'href="question\?question=([^&"]+)&amp;a=tiny-dev&amp;b=other-dev&amp;k=5" data-go>', opened.html
    )
    assert len(listed) == int(count) and not tiny.intersection(listed)
    assert opened.next_step()[1] == f"question?question={listed[0]}&a=tiny-dev&b=other-dev&k=5"
    alone = Page(both.folder, "map", map="two").app.get("plotly_chart")[0].proto.spec
    assert "fixed" not in alone and "missed in the cluster" in alone and name[1:-1] in alone, (
        "the missed questions and their positives have rings"
    )


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
    assert picker.value == "letter" and picker.options[-1] == "first letter" and seen == [5]
    assert "Letters, 5." in page.text


def test_a_point_opens_with_its_true_neighbours(study):
    page = Page(study.folder, "map", map="one", point="p:p0")
    assert "Nearest neighbours" in page.text and "over 61 passages" in page.text
    assert len(page.part(r"<li><span class=\"soft number\">.*?</li>")) == 10
    question = Page(study.folder, "map", map="one", point="q:P19.dev.0")
    assert "Where was Arve Aurset0 born?" in question.text and "Answers: Oslo" in question.text
    assert "This point is not on this map" in Page(study.folder, "map", map="one", point="p:nobody").text


def test_hostile_text_is_text_everywhere(study):
    page = Page(study.folder, "map", map="one", point="p:hostile")
    assert HOSTILE in page.text and "<script>" not in page.html and "<img" not in page.html
    state = clusters_of(map_of(study))
    cluster = int(state.labels[60])
    rename(map_of(study), cluster, "<img src=x onerror=alert(1)>")
    try:
        opened = Page(study.folder, "map", map="one", cluster=cluster + 1)
        assert "<img" not in opened.html and "<img src=x onerror=alert(1)>" in opened.text
    finally:
        (map_of(study).folder / "edits.json").unlink()


def test_hover_texts_are_escaped_and_points_carry_their_ids(study):
    map = map_of(study)
    state, what = clusters_of(map), facts_of_points(map)
    ids = [f"p:{i}" for i in range(len(map))]
    made = map_figure(map, [HOSTILE] * len(map), [HOSTILE] * len(map), ids, colour_values(map, what, "kind", state))
    traces = [trace for trace in made.data if trace.customdata is not None]
    assert sorted(id for trace in traces for id in trace.customdata) == sorted(ids)
    assert not any("<script" in text or "<img" in text for trace in traces for text in trace.text)
    assert {trace.type for trace in traces} == {"scattergl"}
    for trace in traces:
        rows = [int(id[2:]) for id in trace.customdata]
        np.testing.assert_array_equal(np.stack([trace.x, trace.y], axis=1), map.coordinates()[rows])


@pytest.mark.parametrize("misses", [10, 90])
def test_misses_are_drawn_above_hits_however_many_they_are(study, misses):
    map = map_of(study)
    values = [MISSED if 100 * row < misses * len(map) else FOUND for row in range(len(map))]
    made = map_figure(map, ["t"] * len(map), ["s"] * len(map), [str(i) for i in range(len(map))], values)
    drawn = list(dict.fromkeys(trace.name for trace in made.data if trace.customdata is not None))
    assert drawn == [FOUND, MISSED], "later traces lie above"
    ringed = map_figure(
        map, ["t"] * len(map), ["s"] * len(map), [str(i) for i in range(len(map))], values, 0, Highlighted({"3"})
    )
    rings = ringed.data[-1]
    assert rings.name == "marked" and rings.customdata is None and rings.hoverinfo == "skip", "above all, and no target"
    assert rings.marker.symbol == "circle-open" and {trace.marker.opacity for trace in ringed.data[:-1]} == {1}


@pytest.mark.parametrize("is_one_colour", [True, False])
def test_many_marked_points_stand_out_from_faded_ones(study, monkeypatch, is_one_colour):
    map = map_of(study)
    ids = [str(i) for i in range(len(map))]
    values = [MISSED if row % 2 else FOUND for row in range(len(map))]
    monkeypatch.setattr("blindspot.app.components.map.figure.MANY_RINGS", 3)
    wanted = {ids[0], ids[1], ids[map.shown_questions], ids[map.shown_questions + 1]}
    made = map_figure(map, ["t"] * len(map), ["s"] * len(map), ids, values, 0, Highlighted(wanted, is_one_colour))
    marks = [trace for trace in made.data if trace.name == "marked"]
    assert [(each.marker.symbol, len(each.x)) for each in marks] == ([("x", 4)] if is_one_colour else [])
    opacity = {}
    for trace in made.data:
        if trace.customdata is not None:
            shown = trace.marker.opacity
            shown = [shown] * len(trace.customdata) if isinstance(shown, (int, float)) else shown
            opacity |= dict(zip(trace.customdata, shown, strict=True))
    questions = set(ids[: map.shown_questions]) if is_one_colour else set()
    assert {id for id, shown in opacity.items() if shown == 1} == wanted | questions
    assert set(opacity.values()) == {1, FADED}


def test_questions_are_larger_and_each_category_has_a_colour_and_a_shape(study):
    map = map_of(study)
    state, what = clusters_of(map), facts_of_points(map)
    firsts = [{question.id: number // part % 2 for number, question in enumerate(what.questions)} for part in (1, 2)]
    run = study.run("tiny-dev")
    one, other = (colour_values(map, what, "hit", state, first, run, 5) for first in firsts)
    for values in (one, hits_of_two(one, other)):
        made = map_figure(map, ["t"] * len(map), ["s"] * len(map), [str(i) for i in range(len(map))], values)
        looks, sizes = {}, {}
        for trace in made.data:
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
    made = map_figure(
        map, ["t"] * 101, ["s"] * 101, [str(i) for i in range(101)], colour_values(map, what, "kind", state)
    )
    density = next(trace for trace in made.data if trace.type == "heatmap")
    assert round(float(np.nansum(np.expm1(density.z)))) == 101, "every point is in the density"
    assert sum(len(trace.customdata) for trace in made.data if trace.customdata is not None) == 60
    page = Page(study.folder, "map", map="one")
    assert "The map has 101 points. A random sample of 60 is selectable" in page.text


def test_a_cluster_is_opened_renamed_and_the_change_undone(study):
    state = clusters_of(map_of(study))
    first = state.ids[0]
    page = Page(study.folder, "map", map="one", cluster=first + 1)
    assert f"{len(state.members(first))} passages" in page.text
    page.app.text_input(key=f"map-rename-{first}-0").set_value("skiers & <b>bakers</b>")
    page.app.button(key="map-rename").click()
    again(page, study)
    assert "Renamed." in page.text and "skiers & <b>bakers</b>" in page.text
    page.app.button(key="map-undo").click()
    again(page, study)
    assert "Undone." in page.text and "bakers</b>" not in page.text
    page.app.number_input(key="map-parts").set_value(2)
    page.app.button(key="map-split").click()
    again(page, study)
    assert "Split." in page.text and len(clusters_of(map_of(study)).ids) == len(state.ids) + 1
    page.app.button(key="map-undo").click()
    again(page, study)
    assert np.array_equal(clusters_of(map_of(study)).labels, state.labels)


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


def test_a_saved_selection_opens_by_its_address(study):
    save_selection(study, "three of them", ["P19.dev.0"], ["p:p0", "p:p1", "q:P19.dev.0", "p:gone"], "one")
    page = Page(study.folder, "map", map="one", selection="three of them")
    assert "1 question, 2 passages" in page.text and "Not on this map: 1 point of this selection" in page.text
    assert "no saved selection 'nothing'" in Page(study.folder, "map", map="one", selection="nothing").text


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

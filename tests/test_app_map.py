"""The Map page as a person gets it, without a browser: empty states, the form, colours, clusters, points,
selections."""

import json
import re
import shutil
from dataclasses import replace
from html import escape
from textwrap import shorten
from types import SimpleNamespace

import numpy as np
import pytest

from blindspot.app.components import jobs
from blindspot.app.components.map import clusters, groups, point
from blindspot.app.components.map.data import open_map, points
from blindspot.app.components.map.figure import (
    COLOURS,
    DARK_GREY,
    FADED,
    FIXED,
    GREY,
    LONGEST_NAME,
    PASSAGE_SIZE,
    PLACE,
    SELECTABLE,
    TURNS,
    Marks,
    fullest_place,
    hover_text,
    map_figure,
    selectable,
)
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import signed_number, with_minus_sign
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
from blindspot.backend.text.number_words import quantity
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
    said = f"tiny-dev misses {missed} of 40 questions in the top 5: {100 * missed / 40:.1f}% (95%: "
    assert title.startswith(said) and title.endswith(")")
    (other,) = Page(study.folder, "map", map="one", by="kind").part("<h1.*?</h1>")
    assert other == "40 questions among 61 passages"


def test_the_map_names_the_groups_of_its_questions_where_these_are_densest(study):
    opened = open_map(study, "one")
    found = groups.groups_of_map(opened, ["tiny-dev"], 5)
    places, most = (
        np.asarray(opened.coordinates(0)),
        groups.most_missed(found, "tiny-dev", None, groups.hits_of_map(opened, "tiny-dev", 5)),
    )
    names = groups.names_on_map(opened, most, 0, "tiny-dev")
    assert [name.words for name in names] == [group.name for group in most]
    assert {name.words for name in names} <= {"place of birth", "place of death", "position played on team"}
    for name, group in zip(names, most, strict=True):
        assert (name.x, name.y) == fullest_place(places[list(group.numbers)], places)
        assert name.counts == f"{groups.missed_count(group.hits['tiny-dev'])} of {len(group.numbers)} missed"
    plain = groups.names_on_map(opened, found, 0)
    assert [name.words for name in plain] == [group.name for group in found] and not any(name.counts for name in plain)
    figure = json.loads(Page(study.folder, "map", map="one").app.get("plotly_chart")[0].proto.spec)
    assert written_places(figure) == [f"<b>{name.words}</b> {name.counts}" for name in names]


def written_places(figure) -> list[str]:
    return [each["text"] for each in figure["layout"]["annotations"] if each.get("name") == PLACE]


def test_a_name_is_of_the_fullest_part_of_the_map():
    places = np.array([[0.0, 0.0], [100.0, 100.0], [50.0, 50.0], [51.0, 50.0], [52.0, 50.0], [90.0, 10.0]])
    assert fullest_place(places[2:], places) == (51.0, 50.0), "the middle one of three beside each other"
    assert fullest_place(places[:1], places[:1]) == (0.0, 0.0)


def test_the_clusters_have_names_where_the_colours_show_clusters(study):
    opened = open_map(study, "one")
    state = clusters_of(opened)
    named, places = cluster_names(facts_of_points(opened), state), np.asarray(opened.coordinates(0))
    names = clusters.names_on_map(opened, state, 0)
    assert [name.words for name in names] == [named[id] for id in state.ids[: clusters.NAMES_SHOWN]]
    for name, id in zip(names, state.ids):
        assert (name.x, name.y) == fullest_place(places[opened.shown_questions + state.members(id)], places)
    figure = json.loads(Page(study.folder, "map", map="one", by="cluster").app.get("plotly_chart")[0].proto.spec)
    written = written_places(figure)
    shortened = [shorten(name.words, LONGEST_NAME, placeholder=" …") for name in names]
    assert written == [f"<b>{escape(words, quote=False)}</b>" for words in shortened]


def test_the_groups_that_a_run_misses_most_beyond_its_average_come_first(study):
    opened = open_map(study, "one")
    found = groups.groups_of_map(opened, ["tiny-dev"], 5)
    most = groups.most_missed(found, "tiny-dev", None, groups.hits_of_map(opened, "tiny-dev", 5))
    assert groups.best_other(opened, ["tiny-dev"], "tiny-dev", None, 5) is None
    first = measure(study, "tiny-dev")
    missed = {
        question.id: not 0 < rank <= 5
        for question, rank in zip(first.questions, first.first_ranks.tolist(), strict=True)
    }
    average = sum(missed.values()) / len(missed)
    beyond = {}
    for group in found:
        own = [missed[facts_of_points(opened).questions[number].id] for number in group.numbers]
        beyond[group.id] = sum(own) - len(own) * average
        assert groups.missed_count(group.hits["tiny-dev"]) == sum(own)
        assert groups.excess(group, "tiny-dev", None, groups.hits_of_map(opened, "tiny-dev", 5)) == pytest.approx(
            beyond[group.id]
        )
    assert [group.id for group in most] == sorted(beyond, key=lambda id: -beyond[id])
    page = Page(study.folder, "map", map="one")
    listed, _ = re.findall('<table class="figures clusters">.*?</table>', page.html, re.DOTALL)
    assert re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', listed) == [group.name for group in most]
    for group in most:
        count, n = groups.missed_count(group.hits["tiny-dev"]), group.hits["tiny-dev"].n
        more = with_minus_sign(beyond[group.id], 0, "+")
        points = with_minus_sign(100 * beyond[group.id] / n, 0, "+")
        assert f"{group.name} {count} of {n} {100 * count / n:.1f} {more} {points}" in page.text
    worst = f"questions of the relation “{most[0].name}” ({groups.missed_count(most[0].hits['tiny-dev'])} of"
    assert f"misses the most beyond its average in {worst}" in page.text
    for order, of in (("missed", lambda group: groups.missed_count(group.hits["tiny-dev"])), ("points", None)):
        ordered = Page(study.folder, "map", map="one", order=order).html
        listed = re.search('<table class="figures clusters">.*?</table>', ordered, re.DOTALL).group()
        of = of or (lambda group: beyond[group.id] / len(group.numbers))
        assert re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', listed) == [
            group.name for group in sorted(most, key=lambda group: -of(group))
        ]


def test_groups_are_ordered_by_how_far_a_run_falls_behind_another(study, monkeypatch):
    opened = open_map(study, "one")
    rank = {"P19": (1, 1), "P20": (0, 1), "P413": (1, 0)}  # of the run and of the other: 0 is a miss
    questions = facts_of_points(opened).questions
    firsts = [{question.id: rank[question.relation][place] for question in questions} for place in (0, 1)]
    monkeypatch.setattr(groups, "first_hits", lambda _, run: firsts[run == "other"])
    found = groups.groups_of_map(opened, ["run", "other"], 5)
    assert {group.id: groups.excess(group, "run", "other", group.hits["run"]) for group in found} == {
        "P19": 0,
        "P20": 5,
        "P413": -3,
    }
    assert [group.id for group in groups.most_missed(found, "run", "other", found[0].hits["run"])] == ["P20"]
    assert groups.most_missed_sentence(opened, found, "run", "other", found[0].hits["run"]) == (
        "run falls furthest behind other, by number, in questions of the relation “place of death” (5 of 5 missed; other none; only 5 facts)."
    )
    large = replace(
        found[0], hits={"run": replace(found[0].hits["run"], value=0.5, n=32), "other": found[0].hits["other"]}
    )
    assert groups.most_missed_sentence(opened, [large, *found[1:]], "run", "other", large.hits["run"]) == (
        "run falls furthest behind other in questions of the relation “place of birth” (16 of 32 missed; other none), "
        "by number and by share."
    ), "the others have too few questions for a share"
    assert groups.most_missed_sentence(opened, found, "other", "run", found[0].hits["run"]) == (
        "other falls furthest behind run, by number, in questions of the relation “position played on team” (3 of 3 missed; run none; only 3 facts)."
    )


def test_an_open_group_stands_out_and_lists_its_missed_questions(study):
    opened = open_map(study, "one")
    facts, first = facts_of_points(opened), measure(study, "tiny-dev")
    ranks = {question.id: rank for question, rank in zip(first.questions, first.first_ranks.tolist(), strict=True)}
    own = [number for number, question in enumerate(facts.questions) if question.relation == "P20"]
    missed = [facts.questions[number].id for number in own if not 0 < ranks[facts.questions[number].id] <= 5]
    page = Page(study.folder, "map", map="one", group="P20")
    links = r'href="question\?question=([^&"]+)&amp;a=tiny-dev&amp;k=5&amp;slice=[^&"]+" data-go>'
    assert re.findall(links, page.html) == missed
    assert f"Of the 5 questions of the relation “place of death”, tiny-dev misses {len(missed) or 'none'}." in page.text
    assert f"The other {5 - len(missed)} question" in page.text
    strong = {QUESTION + facts.questions[number].id for number in own} | {
        points(opened).ids[opened.shown_questions + place] for number in own for place in facts.positives[number]
    }
    figure = json.loads(page.app.get("plotly_chart")[0].proto.spec)
    assert {id for id, shown in opacities(figure["data"]).items() if shown == 1} == strong
    assert "Show all relations" in page.text and "Where tiny-dev misses" not in page.text


def opacities(traces) -> dict[str, float]:
    """Return the opacity of each point of a figure, by its id."""
    found = {}
    for trace in traces:
        if trace.get("customdata") is not None:
            shown = trace["marker"]["opacity"]
            every = [shown] * len(trace["customdata"]) if isinstance(shown, (int, float)) else shown
            found |= dict(zip(trace["customdata"], every, strict=True))
    return found


def test_lines_lead_from_an_open_question_to_its_positives_and_first_hits(study, monkeypatch):
    seen, grouped = [], []
    monkeypatch.setattr(
        "blindspot.app.components.map.picture.map_link",
        lambda lines, groups: (seen.append(lines), grouped.append(groups)),
    )
    opened = open_map(study, "one")
    known, run, ids = facts_of_points(opened), study.run("tiny-dev"), points(opened).ids
    where = {ordinal: place for place, ordinal in enumerate(opened.ordinals.tolist())}
    Page(study.folder, "map", map="one", point=ids[3], k=4)
    Page(study.folder, "map", map="one", point=ids[opened.shown_questions + known.positives[3][0]])
    Page(study.folder, "map", map="one", by="kind")
    of_question, of_passage, none = seen
    hits = run.hits.ordinals[run.row(known.questions[3].id), :4].tolist()
    assert of_question.solid == tuple(ids[opened.shown_questions + place] for place in known.positives[3])
    assert of_question.dotted == tuple(ids[opened.shown_questions + where[ordinal]] for ordinal in hits)
    assert of_passage == ((ids[3],), ()) and none == ((), ())
    assert sorted(id for group in grouped[0].values() for id in group) == sorted(ids[: opened.shown_questions])


def test_a_hit_that_is_not_on_the_map_keeps_its_rank(study):
    opened = open_map(study, "one")
    fewer = SimpleNamespace(
        study=study,
        shown_questions=opened.shown_questions,
        ordinals=opened.ordinals[opened.ordinals != study.run("tiny-dev").hits.ordinals[0, 1]],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(point, "known_of", lambda _: facts_of_points(opened))
        number = study.run("tiny-dev").row(opened.question_ids[0])
        assert number == 0
        lines = point.lines_of(point.OpenPoint(fewer, points(opened), 0, ["tiny-dev"], 4, 0))
    assert [bool(id) for id in lines.dotted] == [True, False, True, True]


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
    opened = open_map(study, "one")
    rows = clusters.rows_of_runs(opened, clusters_of(opened), ["tiny-dev"], 5)
    ordered = sorted(rows, key=lambda row: -groups.missed_count(row.hits["tiny-dev"]))
    page = Page(study.folder, "map", map="one")
    _, table = re.findall('<table class="figures clusters">.*?</table>', page.html, re.DOTALL)
    assert re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', table) == [row.name for row in ordered]
    (folded,) = [each for each in page.app.expander if each.label == f"All {len(rows)} clusters of passages"]
    assert not folded.proto.expanded


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
    title = f"other-dev misses {40 - len(other)} of 40 questions in the top 5, tiny-dev {40 - len(tiny)}"
    assert page.part("<h1.*?</h1>") == [title]
    gained = 100 * (len(other) - len(tiny)) / 40
    assert (
        f"It finds {len(other - tiny)} that tiny-dev misses and misses {len(tiny - other)} that tiny-dev finds"
        in page.text
    )
    assert f"{signed_number(gained)} points of Success@5 (95%: " in page.text
    listed = re.search('<table class="figures clusters">.*?</table>', page.html, re.DOTALL).group()
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', listed)[1:] == ["fixed", "broken", "missed"]
    relations = {"place of birth": "P19", "place of death": "P20", "position played on team": "P413"}
    relation_of = {question.id: question.relation for question in measure(both, "tiny-dev").questions}
    for name, gained_there, lost_there in re.findall(
        r"<a[^>]*>([a-z ]+)</a></th><td[^>]*>(\d+)</td><td[^>]*>(\d+)</td>", listed
    ):
        own = {id for id, relation in relation_of.items() if relation == relations[name]}
        assert (int(gained_there), int(lost_there)) == (len(own & other - tiny), len(own & tiny - other))
    spec = page.app.get("plotly_chart")[0].proto.spec
    assert "fixed" in spec and "still missed" in spec and " → " in spec
    opened = Page(both.folder, "map", map="two", against="other-dev", group="P19")
    missed = re.findall(
        r'href="question\?question=([^&"]+)&amp;a=tiny-dev&amp;b=other-dev&amp;k=5&amp;slice=[^&"]+" data-go>',
        opened.html,
    )
    births_of = {id for id, relation in relation_of.items() if relation == "P19"}
    assert sorted(missed) == sorted(births_of - tiny)
    alone = Page(both.folder, "map", map="two").app.get("plotly_chart")[0].proto.spec
    assert "fixed" not in alone and "missed; other-dev finds it" in alone and "missed by other-dev too" in alone


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
    assert "First relevant passage" not in page.text and "Its positives" not in page.text
    assert len(page.part(r"<li><span class=\"soft number\">.*?</li>")) == 10
    question = Page(study.folder, "map", map="one", point="q:P19.dev.0")
    assert "Where was Arve Aurset0 born?" in question.text and "Answers: Oslo" in question.text
    first = measure(study, "tiny-dev")
    rank = first.first_ranks[[each.id for each in first.questions].index("P19.dev.0")]
    said = f"rank {rank} in" if rank else "not in the first 20 of"
    assert f"First relevant passage: {said} tiny-dev" in question.text
    assert question.part("<h1.*?</h1>") == ["Where was Arve Aurset0 born?"]
    own, nearest = re.findall('<ol class="map-list">.*?</ol>', question.html, re.DOTALL)
    assert own.count("<li>") == 1 and nearest.count("<li>") == 10 and f">{people()[0].title}<" in own
    assert "question?question=P19.dev.0&a=tiny-dev&k=5" in question.links()
    near = map_of(study).neighbours(0, 10).rows[0].tolist()
    gold = facts_of_points(map_of(study)).positives[0]
    assert nearest.count('class="positive"') == len(
        {map_of(study).ordinals[place] for place in gold}.intersection(near)
    )
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


@pytest.mark.parametrize("misses", [10, 90])
def test_hits_and_misses_are_drawn_in_turns_so_that_neither_hides_the_other(study, misses):
    map = map_of(study)
    values = [MISSED if 37 * row % 100 < misses else FOUND for row in range(len(map))]
    made = map_figure(map, ["t"] * len(map), [str(i) for i in range(len(map))], values)
    of_questions = [trace for trace in made.data if trace.customdata is not None and trace.marker.size > PASSAGE_SIZE]
    drawn = [trace.name for trace in of_questions]
    rarer = min(drawn.count(FOUND), drawn.count(MISSED))
    assert drawn[: 2 * rarer] == rarer * [FOUND, MISSED] and rarer > 1, "in turns: later traces lie above"
    assert max(len(trace.x) for trace in of_questions) <= -(-map.shown_questions // TURNS)
    ringed = map_figure(
        map,
        ["t"] * len(map),
        [str(i) for i in range(len(map))],
        values,
        0,
        Marks(ringed=frozenset({"3"})),
    )
    rings = ringed.data[-1]
    assert rings.name == "marked" and rings.customdata is None and rings.hoverinfo == "skip", "above all, and no target"
    assert rings.marker.symbol == "circle-open" and set(opacities(ringed.to_dict()["data"]).values()) == {1}


def test_strong_points_stand_out_from_faded_ones_and_the_legend_does_not_fade(study):
    map = map_of(study)
    ids = [str(i) for i in range(len(map))]
    values = [MISSED if row % 2 else FOUND for row in range(len(map))]
    strong = frozenset({ids[0], ids[1], ids[map.shown_questions + 1]})
    made = map_figure(map, ["t"] * len(map), ids, values, 0, Marks(strong=strong))
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
    assert "1 question and 2 passages" in page.text and "Not on this map: 1 point of this selection" in page.text
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


def test_an_open_passage_says_which_questions_it_is_positive_for_and_which_retrieve_it(study):
    opened = open_map(study, "one")
    known, run = facts_of_points(opened), study.run("tiny-dev")
    retrieved = set(run.hits.ordinals[:, :4].ravel().tolist())
    place = next(each for each in known.questions_by_passage if opened.ordinals[each] in retrieved)
    asked = known.questions_by_passage[place]
    found = {
        run.question_ids[row]: rank
        for row, hits in enumerate(run.hits.ordinals[:, :4].tolist())
        for rank, ordinal in enumerate(hits, 1)
        if ordinal == opened.ordinals[place]
    }
    page = Page(study.folder, "map", map="one", k=4, point=points(opened).ids[opened.shown_questions + place])
    assert page.part("<h1.*?</h1>") == [points(opened).titles[opened.shown_questions + place]]
    assert f"Positive for {quantity(len(asked), 'question')} (solid lines)" in page.text
    texts = {question.id: question.text for question in known.questions}
    assert all(texts[known.questions[number].id] in page.text for number in asked)
    assert f"top 4 for {quantity(len(found), 'question') if found else 'none'}" in page.text
    assert found
    for id, rank in list(found.items())[:3]:
        assert f"rank {rank} {texts[id]}" in page.text

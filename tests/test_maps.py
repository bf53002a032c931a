"""Maps of a small study: their points, their storage, clusters and their edits, and the way to judging."""

import json
from dataclasses import replace

import numpy as np
import pytest

from blindspot.analysis.projection import projection_quality
from blindspot.backend.core import jobs
from blindspot.backend.core.manifest import read_manifest, write_manifest
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.maps.colours import (
    FOUND,
    MISSED,
    NEITHER,
    NO_QUESTION,
    NO_RELATION,
    POSITIVE,
    colour_values,
    misses_of_two,
)
from blindspot.backend.maps.edits import clusters_of, merge, note, redo, rename, split, undo
from blindspot.backend.maps.making import make, make_map, run_watched
from blindspot.backend.maps.point_values import categories, cluster_rows, facts_of_points
from blindspot.backend.maps.question_groups import closeness, question_groups
from blindspot.backend.maps.request import chosen_points
from blindspot.backend.maps.selection import pairs_to_judge, questions_of_selection, send_to_judging
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.maps.stored import Map, maps_of
from blindspot.backend.retrieval.dense import build_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.labels import Choice, LabelEvent, Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests.studies import births, make_study, people, tiny_bert

WHOLE = {
    "encoder": "tiny",
    "questions": "dev",
    "passages": ("gold", "random"),
    "random": 60,
    "method": "tsne",
    "perplexity": 8,
    "cluster_count": 4,
    "components": 10,
}


def point_ids(map):
    """The id of each point, as the selection of a map names it."""
    passages = map.study.corpus.passages(map.ordinals.tolist())
    return [f"q:{id}" for id in map.question_ids[: map.shown_questions]] + [f"p:{passage.id}" for passage in passages]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """60 passages, 40 questions, two encoders of one width and one of another, a dense run over dev."""
    passages = people()
    made = make_study(tmp_path_factory.mktemp("maps") / "people", passages, births(passages))
    for name, seed, width in (("tiny", 0, 32), ("other", 1, 32), ("wide", 2, 48)):
        tiny_bert(made.folder / "models" / name, seed, width)
        add_encoder(
            made.settings_path, name, {"model": str(made.folder / "models" / name), "pooling": "cls", "max_tokens": 64}
        )
        build_index(made, name, device="cpu")
    retrieve(made, "dense", encoder="tiny", split="dev", k=20, device="cpu")
    return made


@pytest.fixture(scope="module")
def whole(study):
    """All passages and questions on one map."""
    return make_map(study, MapRequest("whole", **WHOLE))


@pytest.fixture
def edited(study, whole):
    """The map without edits, before and after."""
    path = whole.folder / "edits.json"
    path.unlink(missing_ok=True)
    yield whole
    path.unlink(missing_ok=True)


def test_a_map_holds_its_points_by_id_and_what_it_was_made_of(study, whole):
    assert len(whole) == 100 and whole.shown_questions == 40
    assert whole.ordinals.tolist() == list(range(60))
    ids = point_ids(whole)
    assert ids[:2] == ["q:P19.dev.0", "q:P19.dev.1"] and ids[40:42] == ["p:p0", "p:p1"]
    assert whole.coordinates().shape == (100, 2) and np.isfinite(whole.coordinates()).all()
    manifest = read_manifest(whole.folder)
    assert (
        manifest["seed"] == 0
        and manifest["request"]["perplexity"] == 8
        and manifest["sources"] == {"gold": 40, "random": 20}
    )
    assert list(maps_of(study)) == ["whole"]


def test_the_quality_beside_the_picture_is_that_of_the_vectors_themselves(study, whole):
    from blindspot.backend.retrieval.dense import Dense

    dense = Dense(study, "tiny", "cpu")
    asked = dense.encode([question.text for question in study.questions.with_ids(whole.question_ids)])
    vectors = np.concatenate([asked, np.asarray(dense.vectors, np.float32)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = whole.manifest["encoders"][0]["quality"]
    measured = projection_quality(vectors, whole.coordinates(), kept["k"], sampled_rows=1000)
    assert kept["trustworthiness"]["value"] == pytest.approx(measured.trustworthiness.value, abs=1e-6)
    assert kept["overlap"]["value"] == pytest.approx(measured.overlap.value, abs=1e-6)


def test_the_same_request_gives_the_same_map(study, whole):
    again = make_map(study, MapRequest("again", **WHOLE))
    assert np.array_equal(again.coordinates(), whole.coordinates())
    assert np.array_equal(clusters_of(again).labels, clusters_of(whole).labels)
    other = make_map(study, MapRequest("again", **{**WHOLE, "seed": 1}), replace_old=True)
    assert not np.array_equal(other.coordinates(), whole.coordinates())


def test_neighbours_are_those_of_the_whole_collection_in_the_original_space(study, whole):
    vectors = np.load(study.path("indexes", "tiny") / "embeddings.npy").astype(np.float64)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    small = make_map(
        study, MapRequest("small", **{**WHOLE, "questions": None, "slice": ("P19.dev.0",), "random": 30, "most": 31})
    )
    assert len(small.ordinals) == 31
    for map, point in ((whole, 45), (small, 7)):
        ordinal = map.ordinals[point - map.shown_questions]
        cosines = vectors @ vectors[ordinal]
        cosines[ordinal] = -2
        found = map.neighbours(point, 5)
        assert found.rows[0].tolist() == np.argsort(-cosines, kind="stable")[:5].tolist()
        np.testing.assert_allclose(found.similarity[0], np.sort(cosines)[::-1][:5], atol=1e-6)
    found = whole.neighbours(0, 3)
    assert found.rows.shape == (1, 3) and (np.diff(found.similarity[0]) <= 0).all()


def test_two_encoders_of_one_width_share_a_plane_and_a_copy_lies_on_its_original(study):
    both = make_map(study, MapRequest("both", second="other", **WHOLE))
    assert both.manifest["together"] == "aligned" and both.encoders == ["tiny", "other"]
    assert both.manifest["left_after_turning"] > 0.05
    assert both.coordinates(1).shape == (100, 2) and "Procrustes" in both.alignment_sentence
    row = both.spread[0]
    assert row["group"] == "all" and row["before"]["positives"] == 40
    assert row["similarity"]["value"] == pytest.approx(
        row["after"]["similarity"]["value"] - row["before"]["similarity"]["value"]
    )


def test_two_encoders_of_different_widths_are_two_maps_and_say_so(study):
    both = make_map(study, MapRequest("widths", second="wide", **WHOLE))
    assert both.manifest["together"] == "matched" and "have different dimensions" in both.alignment_sentence
    assert [each["dimension"] for each in both.manifest["encoders"]] == [32, 48]


def test_spread_counts_positives_as_labels_have_corrected_them(study, whole):
    rows = {row["group"]: row for row in whole.spread}
    assert set(rows) == {"all", "P19"} and rows["P19"]["positives"] == 40 and rows["P19"]["margin"]["n"] == 40


def test_passages_come_from_gold_then_the_run_by_rank_then_at_random(study):
    run = study.run("tiny-dev")
    request = MapRequest("points", encoder="tiny", run="tiny-dev", top=2, random=5, most=60)
    points = chosen_points(study, request)
    top = set(np.asarray(run.hits.ordinals[:, :2]).reshape(-1).tolist())
    gold = {3 * (i // 2) + i % 2 for i in range(40)}
    assert points.sources == {"gold": 40, "top": len(top - gold), "random": 5}
    assert top | gold <= set(points.ordinals.tolist())
    few = chosen_points(study, MapRequest("points", encoder="tiny", run="tiny-dev", top=2, random=5, most=42))
    assert len(few.ordinals) == 42 and few.sources["gold"] == 40
    sampled = chosen_points(study, MapRequest("points", encoder="tiny", questions="dev", passages=("gold",), most=30))
    assert len(sampled.ordinals) == 30 and set(sampled.ordinals.tolist()) <= gold


@pytest.mark.parametrize(
    "change, said",
    [
        ({"passages": ("top",)}, "'top' needs a run"),
        ({"passages": ()}, "choose at least one source"),
        ({"method": "pca"}, "umap, tsne"),
        ({"second": "tiny"}, "differ from the first"),
        ({"clusters": "optics"}, "kmeans, hdbscan, none"),
        ({"most": 5}, "30 to"),
        ({"name": "../x"}, "map name"),
        ({"neighbours": 1}, "at least 2"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_one_line(change, said):
    with pytest.raises((Refused, BadInput), match=said):
        MapRequest(**{"name": "x", **WHOLE, **change})


def test_what_is_not_there_is_said(study, whole):
    with pytest.raises(Refused, match="a map named 'whole' already exists"):
        make_map(study, MapRequest("whole", **WHOLE))
    with pytest.raises(Missing, match="no dense index for encoder 'absent'"):
        make_map(study, MapRequest("x", **{**WHOLE, "encoder": "absent"}))
    with pytest.raises(Missing, match="no map 'x'; maps of this study: .*whole"):
        Map.open(study, "x")
    with pytest.raises(Refused, match="only 1 passages"):
        make_map(study, MapRequest("x", **{**WHOLE, "questions": None, "slice": ("P19.dev.0",), "passages": ("gold",)}))
    assert not study.path("maps", "x").exists()


def test_an_index_that_was_made_again_is_noticed(study, whole, monkeypatch):
    folder = study.path("indexes", "tiny")
    before = read_manifest(folder)
    try:
        write_manifest(folder, before)
        path = folder / "manifest.json"
        path.write_text(json.dumps({**before, "made": "2000-01-01T00:00:00Z"}))
        assert whole.outdated_indexes() == ["tiny"]
        with pytest.raises(Refused, match="make the map again"):
            whole.neighbours(50)
    finally:
        path.write_text(json.dumps(before))
    assert whole.outdated_indexes() == []


def test_a_map_is_made_by_a_job_and_a_cancelled_one_leaves_nothing(study):
    made = jobs.run(make, study, **{"name": "by-job", **WHOLE, "passages": ["gold", "random"]})
    assert made.name == "by-job" and "by-job" in maps_of(study)

    def stop(done, total, doing):
        if doing.startswith("drawing"):
            raise jobs.Cancelled("stop")

    with pytest.raises(jobs.Cancelled):
        jobs.run(make, study, name="never", **WHOLE, progress=stop)
    assert not study.path("maps", "never").exists()


def test_whoever_waits_for_long_work_is_told_and_gets_its_errors():
    told = []
    assert run_watched(lambda: 7, lambda *each: told.append(each), "working") == 7
    assert set(told) <= {(0, None, "working")}
    with pytest.raises(ZeroDivisionError):
        run_watched(lambda: 1 / 0, lambda *each: None, "working")


def test_colours_say_what_the_study_knows(study, whole):
    what, state = facts_of_points(whole), clusters_of(whole)
    kinds = colour_values(whole, what, "kind", state)
    assert categories(kinds) == ["positive", "question", "other passage"]  # 40, 40, 20
    relations = colour_values(whole, what, "relation", state)
    assert relations[:40] == ["P19"] * 40 and relations[40:43] == ["P19", "P19", NO_QUESTION]
    assert set(colour_values(whole, what, "bucket", state)) == {"<=1 mentions", NO_QUESTION}
    assert set(colour_values(whole, what, "label", state)) == {"question", "gold", "unlabelled"}
    named = colour_values(whole, what, "cluster", state)
    assert named[40] == state.name(int(state.labels[0]))


def test_hit_or_miss_is_of_questions_and_passages_are_positives_or_not(study, whole):
    run, what, state = study.run("tiny-dev"), facts_of_points(whole), clusters_of(whole)
    first = {"P19.dev.0": 1, "P19.dev.1": 0, "P19.dev.2": 7}
    found = colour_values(whole, what, "hit", state, first, run, k=5)
    assert found[:3] == [FOUND, MISSED, MISSED] and found[3] == "not in this run"
    positives = {place for places in what.positives for place in places}
    assert found[40:] == [POSITIVE if place in positives else NO_QUESTION for place in range(60)]
    assert found[42] == NO_QUESTION
    assert set(colour_values(whole, what, "hit", state)) == {"not in this run", POSITIVE, NO_QUESTION}


def test_misses_are_told_apart_by_what_another_run_misses_too():
    run = [FOUND, FOUND, MISSED, MISSED, POSITIVE, MISSED]
    other = [FOUND, MISSED, FOUND, MISSED, POSITIVE, "not in this run"]
    assert misses_of_two(run, other) == [FOUND, FOUND, MISSED, NEITHER, POSITIVE, MISSED]


def test_clusters_are_counted_with_their_questions(study, whole):
    what, state = facts_of_points(whole), clusters_of(whole)
    first = {question.id: 1 if i % 2 else 0 for i, question in enumerate(what.questions)}
    rows = cluster_rows(what, state, {"run": first}, k=5)
    assert sum(row.size for row in rows) == 60
    assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True)
    assert sum(row.hits["run"].n for row in rows) == sum(row.questions for row in rows) == 40
    assert sum(round(row.hits["run"].value * row.hits["run"].n) for row in rows if row.hits["run"].n) == 20
    assert sum(round(row.unlabelled.value * row.unlabelled.n) for row in rows) == 20


def test_questions_are_grouped_by_relation_else_by_question_word(whole):
    plain = facts_of_points(whole)
    some = [
        replace(each, relation="P131" if n < 4 else None if n < 7 else "P19") for n, each in enumerate(plain.questions)
    ]
    first = {question.id: n % 3 for n, question in enumerate(some) if n != 5}  # ranks 0 (missed), 1, 2
    groups = question_groups(replace(plain, questions=some), {"run": first}, k=1)
    assert [(group.id, group.name, len(group.numbers)) for group in groups] == [
        ("P19", "place of birth", 33),
        ("P131", "located in", 4),
        (NO_RELATION, NO_RELATION, 3),
    ]
    assert sorted(number for group in groups for number in group.numbers) == list(range(40))
    for group in groups:
        measured = [number for number in group.numbers if number != 5]
        hits = group.hits["run"]
        assert hits.n == len(measured) and round(hits.value * hits.n) == sum(number % 3 == 1 for number in measured)
    words = [replace(each, relation=None, text="Who is it?" if n < 9 else "Oslo?") for n, each in enumerate(some)]
    by_word = question_groups(replace(plain, questions=words), {}, k=1)
    assert [(group.id, group.name, len(group.numbers)) for group in by_word] == [
        ("other", "other", 31),
        ("who", "who", 9),
    ]


def test_some_passages_are_ordered_by_their_nearness_to_a_point(whole):
    among = np.array([5, 50, 17, 3])
    found = whole.nearest_among(2, among)
    everything = whole.neighbours(2, 60)
    similarity = dict(zip(everything.rows[0].tolist(), everything.similarity[0].tolist(), strict=True))
    assert found.rows[0].tolist() == sorted(among.tolist(), key=lambda ordinal: -similarity[ordinal])
    assert found.similarity[0].tolist() == pytest.approx([similarity[ordinal] for ordinal in found.rows[0].tolist()])


def test_closeness_is_that_of_the_vectors_of_the_original_space(whole):
    plain = facts_of_points(whole)
    two = [replace(each, relation="P20" if n < 4 else "P19") for n, each in enumerate(plain.questions)]
    facts = replace(plain, questions=two)
    death = next(group for group in question_groups(facts, {}, k=1) if group.id == "P20")
    vectors = np.load(whole.folder / "questions.0.npy").astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    found = closeness(whole, facts, death, 0)
    assert found.questions == pytest.approx(
        np.mean([cosines[i, j] for i in range(4) for j in range(4) if i != j]), abs=1e-5
    )
    assert found.other_questions == pytest.approx(cosines[:4, 4:].mean(), abs=1e-5)
    assert found.positives is None, "the map has no such relation"
    births_of = next(group for group in question_groups(facts, {}, k=1) if group.id == "P19")
    row = next(row for row in whole.spread if row["group"] == "P19")
    everything = next(row for row in whole.spread if row["group"] == "all")
    both = closeness(whole, facts, births_of, 0)
    assert both.positives == row["similarity"]["value"] and both.all_positives == everything["similarity"]["value"]
    assert both.is_of_questions == (both.questions - both.other_questions > both.positives - both.all_positives)
    (only,) = question_groups(plain, {}, k=1)
    assert closeness(whole, plain, only, 0) is None, "nothing outside"


def test_edits_are_kept_in_order_and_undone_one_by_one(edited):
    People(edited.study.labels_path).add("amy", "adjudicator")
    plain = clusters_of(edited)
    first, second = plain.ids[:2]
    together = merge(edited, [first, second], seen_version=0, actor="amy")
    assert set(together.members(first)) == set(plain.members(first)) | set(plain.members(second))
    with pytest.raises(Missing):
        together.members(second)
    rename(edited, first, "  skiers   of  the north ")
    noted = note(edited, first, "all of one village")
    assert noted.name(first) == f"{first + 1} · skiers of the north" and noted.notes == {first: "all of one village"}
    assert noted.edits == 3 and noted.undoable == f"note of cluster {first + 1}"
    undo(edited)
    undo(edited)
    back = undo(edited)
    assert np.array_equal(back.labels, plain.labels) and back.names == {} and back.undoable is None
    assert back.redoable == f"merge of clusters {first + 1}, {second + 1}"
    assert np.array_equal(redo(edited).labels, together.labels)
    log = json.loads((edited.folder / "edits.json").read_text())
    assert log["edits"][0]["by"] == "amy" and log["edits"][0]["at"]


def test_a_split_keeps_every_passage_and_gives_new_numbers(edited):
    plain = clusters_of(edited)
    first = plain.ids[0]
    done = split(edited, first, 3)
    new = [id for id in done.ids if id not in plain.ids]
    assert len(new) == 2 and min(new) > max(plain.ids)
    parts = [set(done.members(id)) for id in (first, *new)]
    assert set.union(*parts) == set(plain.members(first)) and sum(map(len, parts)) == len(plain.members(first))
    assert np.array_equal(clusters_of(edited).labels, done.labels)
    merge(edited, new)
    again = split(edited, first, 2)
    assert max(again.ids) > max(new), "a number that was merged away does not come back as another cluster"


def test_edits_that_make_no_sense_are_refused_and_kept_nowhere(edited):
    first = clusters_of(edited).ids[0]
    for wrong in (
        lambda: merge(edited, [first]),
        lambda: split(edited, first, 1),
        lambda: rename(edited, first, "x" * 81),
        lambda: undo(edited),
        lambda: redo(edited),
        lambda: rename(edited, first, "late", seen_version=4),
    ):
        with pytest.raises(Refused):
            wrong()
    with pytest.raises(Missing, match="no cluster 100"):
        rename(edited, 99, "nobody")
    assert clusters_of(edited).edits == 0


def test_a_selection_becomes_pairs_that_nobody_labelled(study, whole):
    run, what = study.run("tiny-dev"), facts_of_points(whole)
    chosen = [id for id in point_ids(whole) if id in ("p:p0", "p:p2", "p:p5", "p:p59")]
    found = pairs_to_judge(whole, what, run, chosen, k=10)
    corpus = study.corpus.ordinals(id[2:] for id in chosen)
    expected = {
        (question.id, id[2:])
        for question in what.questions
        for id in chosen
        if corpus[id[2:]] in run.hits.ordinals[run.row(question.id), :10] and id[2:] not in question.gold
    }
    assert set(found.pairs) == expected and expected
    assert found.without_pairs == len({id[2:] for id in chosen} - {passage for _, passage in found.pairs})
    of_question = pairs_to_judge(whole, what, run, ["q:P19.dev.0"], k=10)
    assert {question for question, _ in of_question.pairs} == {"P19.dev.0"} and len(of_question.pairs) == 8
    assert of_question.further_pairs == len(set(run.hits.ordinals[0, :10].tolist()) - {0}) - 8
    assert questions_of_selection(what, whole, ["q:P19.dev.3", "p:p0"]) == ["P19.dev.0", "P19.dev.3"]


def test_a_selection_is_sent_to_judging_and_labels_come_back_as_colours(study, whole):
    run = study.run("tiny-dev")
    People(study.labels_path).add("ada", "lead")
    chosen = [f"p:{id}" for id in ("p0", "p1", "p2", "p3", "p4", "p5")]
    made = send_to_judging(whole, facts_of_points(whole), run, chosen, 10, "from the map")
    assert made.passages == len(pairs_to_judge(whole, facts_of_points(whole), run, chosen, 10).pairs)
    assert [batch.name for batch in Queue(study.labels_path).batches()] == ["from the map"]
    question, passage = pairs_to_judge(whole, facts_of_points(whole), run, chosen, 10).pairs[0]
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    labels.add("ada", LabelEvent("g" * 20, "label", question, (Choice(passage, "positive"),)))
    after = facts_of_points(whole)
    assert (question, passage) not in pairs_to_judge(whole, after, run, chosen, 10).pairs
    place = study.corpus.ordinals([passage])[passage]
    assert colour_values(whole, after, "label", clusters_of(whole))[whole.shown_questions + place] == "positive"
    remade = make_map(study, MapRequest("corrected", **WHOLE))
    assert remade.spread[1]["positives"] == whole.spread[1]["positives"] + (place in {2, 5}), (
        "a judged positive counts in the spread"
    )
    with pytest.raises(Refused, match="nothing to judge"):
        send_to_judging(whole, after, run, [], 10, "empty")


def test_a_selection_is_kept_by_name_and_found_again(study, whole):
    from blindspot.backend.evaluation.saved_selections import save_selection, saved_selection, saved_selections

    save_selection(study, " skiers  of Oslo ", ["P19.dev.0"], ["p:p0", "q:P19.dev.3"], "whole")
    found = saved_selection(study, "skiers of Oslo")
    assert found.questions == ("P19.dev.0",) and found.points == ("p:p0", "q:P19.dev.3") and found.map == "whole"
    with pytest.raises(Refused, match="already"):
        save_selection(study, "skiers of Oslo", ["P19.dev.1"], [], "whole")
    with pytest.raises(Refused, match="has no questions"):
        save_selection(study, "empty", [], ["p:p2"], "whole")
    with pytest.raises(Missing, match="saved: skiers of Oslo"):
        saved_selection(study, "skiers")
    assert list(saved_selections(study)) == ["skiers of Oslo"]


def test_the_command_line_makes_lists_and_shows_maps(study, whole, monkeypatch):
    from typer.testing import CliRunner

    from blindspot.app.commands.map import map_app

    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))

    def told(*arguments):
        done = CliRunner().invoke(map_app, [str(each) for each in arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    made = told(
        "new",
        "typed",
        "--encoder",
        "tiny",
        "--second",
        "other",
        "--run",
        "tiny-dev",
        "--passages",
        "gold",
        "--passages",
        "random",
        "--method",
        "tsne",
        "--perplexity",
        "8",
        "--components",
        "10",
        "--cluster-count",
        "4",
        "--seed",
        "3",
    )
    assert "Map typed: 40 questions and 60 passages (40 gold, 20 random), tsne, seed 3" in made and "Procrustes" in made
    assert "whole: tiny, tsne, seed 0, 40 questions, 60 passages" in told("list")
    shown = told("show", "typed")
    quality = Map.open(study, "typed").manifest["encoders"][1]["quality"]
    assert (
        f"other: trustworthiness {quality['trustworthiness']['value']:.3f}" in shown
        and "n = 100 of 100 points" in shown
    )
    positives = Map.open(study, "typed").spread[1]["before"]["positives"]
    assert f"Positives of P19 ({positives}): mean cosine" in shown
    assert shown.count("Cluster ") == len(clusters_of(Map.open(study, "typed")).ids)
    content = json.loads(told("show", "whole", "--json"))
    assert sum(each["size"] for each in content["clusters"]) == 60 and content["clusters"][0]["unlabelled"]["n"] > 0
    assert {each["name"] for each in json.loads(told("list", "--json"))} >= {"whole", "typed"}
    with pytest.raises(Missing, match="no saved selection"):
        told("new", "x", "--selection", "nothing there")

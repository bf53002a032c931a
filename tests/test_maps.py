"""Maps of a small study: their points, their storage, clusters, and the way to judging."""

import json

import numpy as np
import pytest

from blindspot.analysis.projection import projection_quality
from blindspot.backend.core import jobs
from blindspot.backend.core.manifest import read_manifest, write_manifest
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.maps.clusters import clusters_of
from blindspot.backend.maps.colours import FOUND, MISSED, NO_QUESTION, POSITIVE, colour_values
from blindspot.backend.maps.making import make, make_map, run_watched
from blindspot.backend.maps.point_values import categories, cluster_rows, facts_of_points
from blindspot.backend.maps.request import chosen_points
from blindspot.backend.maps.selection import pairs_to_judge, send_to_judging
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
    small = make_map(study, MapRequest("small", **{**WHOLE, "passages": ("random",), "random": 31}))
    assert len(small.ordinals) == 31
    for map, point in ((whole, 45), (small, 47)):
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


def test_two_encoders_of_different_widths_are_two_maps_and_say_so(study):
    both = make_map(study, MapRequest("widths", second="wide", **WHOLE))
    assert both.manifest["together"] == "matched" and "have different dimensions" in both.alignment_sentence
    assert [each["dimension"] for each in both.manifest["encoders"]] == [32, 48]


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
    with pytest.raises(Refused, match="only 5 passages"):
        make_map(study, MapRequest("x", **{**WHOLE, "passages": ("random",), "random": 5}))
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


def test_clusters_are_counted_with_their_questions(study, whole):
    what, state = facts_of_points(whole), clusters_of(whole)
    first = {question.id: 1 if i % 2 else 0 for i, question in enumerate(what.questions)}
    rows = cluster_rows(what, state, {"run": first}, k=5)
    assert sum(row.size for row in rows) == 60
    assert [row.size for row in rows] == sorted((row.size for row in rows), reverse=True)
    assert sum(row.hits["run"].n for row in rows) == sum(row.questions for row in rows) == 40
    assert sum(round(row.hits["run"].value * row.hits["run"].n) for row in rows if row.hits["run"].n) == 20
    assert sum(round(row.unlabelled.value * row.unlabelled.n) for row in rows) == 20


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
    with pytest.raises(Refused, match="nothing to judge"):
        send_to_judging(whole, after, run, [], 10, "empty")


def test_the_command_line_makes_maps_and_status_lists_them(study, monkeypatch):
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))

    def told(words):
        done = CliRunner().invoke(app, words.split(), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    made = told(
        "map new typed --encoder tiny --second other --run tiny-dev --passages gold --passages random --method tsne "
        "--perplexity 8 --components 10 --cluster-count 4 --seed 3"
    )
    assert "Map typed: 40 questions and 60 passages (40 gold, 20 random), tsne, seed 3" in made and "Procrustes" in made
    quality = Map.open(study, "typed").manifest["encoders"][1]["quality"]["trustworthiness"]["value"]
    assert f"other: trustworthiness {quality:.3f}" in made and "n = 100 of 100 points" in made
    assert "Map typed: tiny and other, 40 questions, 60 passages" in " ".join(told("status").split())
    assert json.loads(told("status --json"))["maps"]["typed"]["seed"] == 3

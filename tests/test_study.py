"""The study folder, its settings and its runs."""

import os

import numpy as np
import pytest

from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.manifest import atomic_folder, write_manifest
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.settings import BM25Settings, HybridSettings, Settings, add_encoder, read_settings
from blindspot.backend.core.study import Study
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits
from tests.studies import births, make_study, people


@pytest.fixture
def study(tmp_path):
    passages = people(12)
    return make_study(tmp_path / "s", passages, births(passages))


def some_hits(study, k=5):
    ids = [question.id for question in study.questions.all()]
    ordinals = np.tile(np.arange(k, dtype=np.int32), (len(ids), 1))
    return ids, Hits(ordinals, -ordinals.astype(np.float32))


def test_a_new_study_has_readable_settings(tmp_path):
    study = Study.create(tmp_path / "new", 'My "study"\n')
    assert (study.settings.name, study.settings.k, study.settings.bm25.k1) == ("My  study  ", 100, 0.9)
    assert study.settings.encoders["minilm"].model == "minilm"
    assert not study.has_corpus
    with pytest.raises(Missing, match="blindspot import passages"):
        _ = study.corpus


def test_where_a_study_is_looked_for(tmp_path, monkeypatch):
    made = Study.create(tmp_path / "a")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(tmp_path / "a"))
    assert Study.open().folder == made.folder
    monkeypatch.delenv("BLINDSPOT_STUDY")
    monkeypatch.chdir(tmp_path / "a")
    assert Study.open().folder == made.folder
    with pytest.raises(Missing, match="blindspot new"):
        Study.open(tmp_path)


def test_a_folder_in_use_is_not_taken(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").write_text("x")
    with pytest.raises(Refused, match="not empty"):
        Study.create(tmp_path / "used")
    Study.create(tmp_path / "s")
    with pytest.raises(Refused, match="is already a study"):
        Study.create(tmp_path / "s")
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="is a file"):
        Study.create(tmp_path / "file")


WRONG_SETTINGS = (
    ("name = ", "not valid TOML"),
    ("k = 0", "k must be a whole number from 1 to 1,000,000,000, not 0"),
    ('k = "many"', "k must be a whole number from 1 to 1,000,000,000, not 'many'"),
    ("k = true", "k must be a whole number .*, not True"),
    ("k = 1.5", "k must be a whole number .*, not 1.5"),
    ("kk = 3", "unknown setting kk"),
    ("[bm25]\nk1 = -1", "bm25.k1 must be a number from 0 to 1000, not -1"),
    ("bm25 = 3", "bm25 must be a table"),
    ('[hybrid]\nmethod = "sum"', "hybrid.method must be one of auto, weighted, rrf"),
    ("[encoders.x]\npooling = 'cls'", "encoders.x needs either model"),
    ("[encoders.x]\nmodel = 'a'\nquestion_model = 'b'\npassage_model = 'c'", "encoders.x needs either model"),
    ("[encoders.x]\nmodel = 'a'\npooling = 'max'", "pooling must be one of auto, cls, mean"),
    ("[encoders.x]\nmodel = 'a'\npassage_template = '{body}'", "title} and {text} only"),
    ("[encoders.'../x']\nmodel = 'a'", "encoder name"),
    ("encoders = 5", r"encoders must be a table, with a section \[encoders.NAME\]"),
    ("encoders.dpr = 5", "encoders.dpr must be a table, not 5"),
    ("[encoders.x]\nmodel = 5", "encoders.x.model must be a text, not 5"),
    ("[encoders.x]\nmodel = 'a'\nbatch_size = 0", "encoders.x.batch_size must be a whole number from 1 to .*, not 0"),
    ("[encoders.x]\nmodel = 'a'\nmax_tokens = 0", "encoders.x.max_tokens must be a whole number from 1 to 1,000,000, not 0"),
    ("[encoders.x]\nmodel = 'a'\nmax_tokens = 99999999", "max_tokens must be a whole number from 1 to .*, not 99999999"),
    ("[encoders.x]\nmodel = 'a'\npassage_template = '{title.foo}'", "passage_template may hold {title} and {text} only"),
    ("[encoders.x]\nmodel = 'a'\npassage_template = '{text[0]}'", "may hold {title} and {text} only"),
    ("[encoders.x]\nmodel = 'a'\npassage_template = '{text:>999999999999}'", "may hold {title} and {text} only"),
    ("[encoders.x]\nmodel = 'a'\npassage_template = '{text'", "may hold {title} and {text} only"),
    ("[encoders.x]\nmodel = 'a'\nmax_token = 3", "unknown setting encoders.x.max_token; known: model, "),
    ("[bm25]\nk1 = inf", "bm25.k1 must be a number from 0 to 1000, not inf"),
    ("[bm25]\nk1 = nan", "bm25.k1 must be a number from 0 to 1000, not nan"),
    ("seed = " + "9" * 60, "seed must be a whole number .*, not a number of more than 40 digits"),
    ("seed = " + "9" * 6000, "a number has too many digits"),
    ("k = " + "[" * 100_000, "nest too deeply"),
    ("a = " + "{b = " * 5000 + "1" + "}" * 5000, "nest too deeply"),
    ("k = [1]", "k must be a whole number .*, not a list"),
)  # fmt: skip


def test_wrong_settings_are_named(tmp_path):
    path = tmp_path / "study.toml"
    for text, says in WRONG_SETTINGS:
        path.write_text(text)
        with pytest.raises(BadInput, match=says) as error:
            read_settings(path)
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value), text[:40]
        assert len(error.value.message) < 240, text[:40]


def test_a_study_toml_that_is_no_text_or_no_small_file_is_named(tmp_path):
    path = tmp_path / "study.toml"
    path.write_bytes(b'name = "caf\xe9"')
    with pytest.raises(BadInput, match="byte 11 is not UTF-8"):
        read_settings(path)
    path.write_bytes(b"# " + b"x" * (1 << 20))
    with pytest.raises(BadInput, match="larger than 1 MB"):
        read_settings(path)


def test_a_new_study_toml_says_what_every_setting_is(tmp_path):
    text = Study.create(tmp_path / "new").settings_path.read_text()
    read = read_settings(tmp_path / "new" / "study.toml")
    assert (read.bm25, read.hybrid, read.k) == (BM25Settings(), HybridSettings(), 100)
    for kind in (Settings, BM25Settings, HybridSettings):
        for name, setting in declared_settings(kind).items():
            if setting.kind in (int, float, str):
                assert f"\n{name} = " in text and setting.help.split(";")[0] in text


def test_adding_an_encoder_keeps_comments(study):
    add_encoder(study.settings_path, "dpr", {"question_model": "q", "passage_model": "p", "pooling": None})
    text = study.settings_path.read_text()
    assert "# Hits kept per question" in text
    assert study.settings.encoders["dpr"].passage_model == "p"
    add_encoder(study.settings_path, "cut", {"model": "a", "passage_template": "{title}: {text:.3}"})
    assert study.settings.encoders["cut"].passage_template.format(title="a", text="bcde") == "a: bcd"
    with pytest.raises(Refused, match="already an encoder"):
        add_encoder(study.settings_path, "dpr", {"model": "m"})
    with pytest.raises(Refused, match="encoder name"):
        add_encoder(study.settings_path, "../x", {"model": "m"})


def test_no_path_leaves_the_study(study):
    for parts in (("runs", ".."), ("..",), ("runs", "a/../../b"), ("/etc",), ("",), ("a\0b",)):
        with pytest.raises(Refused, match="not a place inside"):
            study.path(*parts)


def test_a_part_without_a_manifest_is_not_there(study):
    (study.folder / "runs" / "half").mkdir(parents=True)
    assert study.runs() == []
    write_manifest(study.folder / "runs" / "half", {})
    assert study.runs() == ["half"]


def test_a_folder_is_whole_or_absent(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "part") as building:
        (building / "x").write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".part.building").mkdir()  # left by a killed process
    for text in ("whole", "newer"):
        with atomic_folder(tmp_path / "part") as building:
            (building / "x").write_text(text)
        assert (tmp_path / "part" / "x").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


def test_two_processes_do_not_build_the_same_part(study):
    with study.lock_part("indexes/x"), pytest.raises(Refused, match="another process"), study.lock_part("indexes/x"):
        pass


def test_a_run_reads_back_as_written(study):
    ids, hits = some_hits(study)
    write_run(study, "mine", ids, hits, {"retriever": "test"})
    run = study.run("mine")
    assert run.question_ids == ids
    assert run.row(ids[3]) == 3 and run.row("absent") is None
    np.testing.assert_array_equal(run.hits.ordinals, hits.ordinals)
    np.testing.assert_array_equal(run.hits.scores, hits.scores)
    assert isinstance(run.hits.ordinals, np.memmap)
    gold = study.questions.with_ids(ids)
    words = [study.corpus.passage(ordinal).text.replace(",", " ").split() for ordinal in range(5)]
    for row, question in enumerate(gold):
        assert run.answers()[row].tolist() == [question.answers[0] in each for each in words]
    assert run.rules == ["dpr"]
    with pytest.raises(Missing, match="regex"):
        run.answers("regex")


def test_runs_are_not_overwritten_by_accident(study):
    ids, hits = some_hits(study)
    write_run(study, "mine", ids, hits, {"retriever": "a"})
    with pytest.raises(Refused, match="--replace"):
        write_run(study, "mine", ids, hits, {"retriever": "b"})
    assert write_run(study, "mine", ids, hits, {"retriever": "b"}, replace=True).manifest["retriever"] == "b"


def test_run_names_are_plain(study):
    ids, hits = some_hits(study)
    for name in ("../up", "", ".hidden", "a b", "x" * 65):
        with pytest.raises(Refused, match="run name"):
            write_run(study, name, ids, hits, {})


def test_hits_that_do_not_fit_are_refused(study):
    ids, hits = some_hits(study)
    with pytest.raises(Refused, match="do not fit"):
        write_run(study, "mine", ids[:-1], hits, {})
    with pytest.raises(Refused, match="do not fit"):
        write_run(study, "mine", ids, Hits(hits.ordinals + 100, hits.scores), {})
    assert study.runs() == []


def test_a_run_over_other_passages_is_refused(study, tmp_path):
    ids, hits = some_hits(study)
    write_run(study, "mine", ids, hits, {})
    other = make_study(tmp_path / "other", people(13))
    (other.folder / "runs").symlink_to(study.folder / "runs")
    with pytest.raises(Refused, match="made over other passages than this study holds"):
        other.run("mine")


def test_a_damaged_run_is_one_line(study):
    ids, hits = some_hits(study)
    write_run(study, "mine", ids, hits, {})
    (study.folder / "runs" / "mine" / "ordinals.npy").write_bytes(b"\x93NUMPY garbage")
    with pytest.raises(BadInput, match="damaged"):
        _ = study.run("mine").hits
    with pytest.raises(Missing, match="no run 'other'; runs of this study: mine"):
        study.run("other")


def test_an_encoder_inside_the_study_moves_with_it(tmp_path):
    study = Study.create(tmp_path / "here")
    (study.folder / "models" / "mine").mkdir(parents=True)
    add_encoder(study.settings_path, "mine", {"model": str(study.folder / "models" / "mine")})
    add_encoder(study.settings_path, "hub", {"model": "someone/model"})
    moved = (tmp_path / "here").rename(tmp_path / "there")
    encoders = read_settings(moved / "study.toml").encoders
    assert encoders["mine"].model == str(moved / "models" / "mine")
    assert encoders["hub"].model == "someone/model"


def test_parts_that_were_made_in_one_second_come_in_the_order_of_their_writing(tmp_path):
    study = Study.create(tmp_path / "study")
    for place, name in enumerate(("noisy", "clean")):
        path = study.path("training_sets", name) / "manifest.json"
        path.parent.mkdir(parents=True)
        path.write_text('{"made": "2026-01-01T00:00:00Z"}', encoding="utf-8")
        os.utime(path, ns=(place, place))
    assert list(study.parts("training_sets")) == ["noisy", "clean"]

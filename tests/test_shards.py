"""Encoding in shards: together they equal, bit for bit, the output of one process; shards that do not belong together
are refused.
"""

import json
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.retrieval import dense, dense_shards
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.dense_shards import Shard
from blindspot.db.errors import BadInput, Missing, Refused
from tests.studies import births, make_study, people


@pytest.fixture
def study(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(dense_shards, "BLOCK", 4)
    return study_in(tmp_path / "s", tiny)


def study_in(folder, tiny, count=30):
    passages = people(count)
    study = make_study(folder, passages, births(passages))
    add_encoder(study.settings_path, "tiny", {"model": tiny, "pooling": "cls", "max_tokens": 64})
    return study


def vectors(study):
    return (study.folder / "indexes" / "tiny" / "embeddings.npy").read_bytes()


def encode(study, *parts):
    for part in parts:
        dense.encode_part(study, "tiny", part, "cpu")


def place(study, name):
    return study.folder / "indexes" / "tiny" / "shards" / name


@pytest.mark.parametrize("of", [1, 2, 3, 8])
def test_shards_together_are_the_index_of_one_process(study, of):
    dense.build_index(study, "tiny", device="cpu")
    whole = vectors(study)
    encode(study, *(f"{number}/{of}" for number in range(of, 0, -1)))
    assert read_manifest(place(study, "").parent) is not None  # the old index stays until the merge
    manifest = dense.build_index(study, "tiny", merge=True)
    assert vectors(study) == whole
    assert (manifest["made_by"], manifest["shards"], manifest["passages"]) == ("encoding in shards", of, 30)
    assert not place(study, "").exists()
    assert Dense(study, "tiny", "cpu").search(["Where was Arve born?"], 3).ordinals.shape == (1, 3)


@pytest.mark.parametrize("passages", [0, 1, 2048, 2049, 100_000])
def test_every_row_is_in_one_shard(passages):
    blocks = -(-passages // 2048)
    for of in {1, 2, 7, max(blocks, 1)}:
        if of <= max(blocks, 1):
            starts = [start for number in range(1, of + 1) for start in Shard(number, of).starts(passages)]
            assert starts == list(range(0, passages, 2048))
            sizes = [len(Shard(number, of).starts(passages)) for number in range(1, of + 1)]
            assert max(sizes) - min(sizes) <= 1


def test_each_shard_goes_on_where_it_was_interrupted(study):
    def interrupt(done, total, doing):
        if done >= 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense.encode_part(study, "tiny", "2/2", "cpu", progress=interrupt)
    kept = {path.name: path.stat().st_mtime_ns for path in place(study, "2-of-2").glob("*.npy")}
    assert kept and read_manifest(place(study, "2-of-2")) is None
    with pytest.raises(Missing, match=r"2 of 2 shards of 'tiny' are missing or unfinished: 1, 2; run .*--shard 1/2"):
        dense.build_index(study, "tiny", merge=True)
    encode(study, "1/2", "2/2")
    assert all(place(study, "2-of-2").joinpath(name).stat().st_mtime_ns == at for name, at in kept.items())
    sealed = (place(study, "1-of-2") / "manifest.json").read_text()
    encode(study, "1/2")  # finished: not changed
    assert (place(study, "1-of-2") / "manifest.json").read_text() == sealed
    assert dense.build_index(study, "tiny", merge=True)["shards"] == 2


def test_shards_of_copies_come_together(study, tiny, tmp_path):
    """Each machine has the passages and study.toml, no labels.db, and its own copy of the encoder's folder is the
    same."""
    other = tmp_path / "other"
    other.mkdir()
    for name in ("study.toml", "corpus.db"):
        shutil.copy(study.folder / name, other / name)
    done = CliRunner().invoke(
        app, ["index", "dense", "--study", str(other), "--encoder", "tiny", "--shard", "2/2", "--device", "cpu"]
    )
    assert done.exit_code == 0, done.output
    assert "Shard 2 of 2: 14 passages in" in done.output and "--merge" in done.output
    assert not (other / "labels.db").exists()
    encode(study, "1/2")
    shutil.copytree(other / "indexes/tiny/shards/2-of-2", place(study, "2-of-2"))
    done = CliRunner().invoke(app, ["index", "dense", "--study", str(study.folder), "--encoder", "tiny", "--merge"])
    assert done.exit_code == 0 and "30 passages, 32 dimensions, similarity dot, encoding in shards" in done.output


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "break_it, error, says",
    [
        (lambda at: shutil.rmtree(at("2-of-3")), Missing, r"1 of 3 shards of 'tiny' are missing or unfinished: 2"),
        (lambda at: (at("2-of-3") / "manifest.json").unlink(), Missing, "unfinished: 2"),
        (lambda at: [shutil.rmtree(at(f"{i}-of-3")) for i in (1, 2, 3)], Missing, "no shards of 'tiny'"),
        (
            lambda at: change(at("3-of-3") / "recipe.json", corpus="0" * 64),
            Refused,
            "3-of-3 was encoded from other passages",
        ),
        (
            lambda at: change(at("3-of-3") / "recipe.json", model_hash="another"),
            Refused,
            r"3-of-3 does not match .*1-of-3 \(model_hash: 'another'",
        ),
        (lambda at: change(at("2-of-3") / "recipe.json", precision="float16"), Refused, r"precision: 'float16'"),
        (lambda at: change(at("2-of-3") / "recipe.json", max_tokens=128), Refused, r"max_tokens: 128"),
        (lambda at: shutil.copytree(at("1-of-3"), at("1-of-2")), Refused, "has shards of 2 and of 3"),
        (lambda at: (at("1-of-3") / "0000000004.npy").unlink(), BadInput, "0000000004.npy: is missing or damaged"),
        (lambda at: (at("1-of-3") / "0000000004.npy").write_bytes(b"no array"), BadInput, "is missing or damaged"),
        (
            lambda at: (at("1-of-3") / "0000000004.npy").write_bytes(
                (at("1-of-3") / "0000000000.npy").read_bytes()[:200]
            ),
            BadInput,
            "damaged",
        ),
        (
            lambda at: np.save(at("3-of-3") / "0000000028.npy", np.zeros((3, 32), np.float16)),
            BadInput,
            r"has shape \(3, 32\) instead of \(2, 32\)",
        ),
        (
            lambda at: np.save(at("3-of-3") / "0000000028.npy", np.full((2, 32), np.nan, np.float16)),
            Refused,
            "passage row 28 contains NaN",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused_and_no_index_appears(study, break_it, error, says):
    encode(study, "1/3", "2/3", "3/3")
    break_it(lambda name: place(study, name))
    with pytest.raises(error, match=says) as raised:
        dense.build_index(study, "tiny", merge=True)
    assert "\n" not in str(raised.value)
    assert read_manifest(study.folder / "indexes" / "tiny") is None


def test_a_shard_of_other_settings_is_encoded_again(study):
    encode(study, "1/2", "2/2")
    text = study.settings_path.read_text()
    study.settings_path.write_text(text.replace('pooling = "cls"', 'pooling = "mean"'))
    encode(study, "2/2")
    with pytest.raises(Refused, match="pooling"):
        dense.build_index(study, "tiny", merge=True)
    encode(study, "1/2")
    assert dense.build_index(study, "tiny", merge=True)["pooling"] == "mean"


@pytest.mark.parametrize(
    "options, says",
    [
        (["--shard", "0/2"], "--shard 0/2: give the number of the shard"),
        (["--shard", "3/2"], "give the number of the shard"),
        (["--shard", "two"], "give the number of the shard"),
        (["--shard", "1/9"], "30 passages make 8 blocks of 4, too few for 9 shards"),
        (["--shard", "1/2", "--merge"], "--shard encodes one shard"),
        (["--vectors", "v.npy", "--merge"], "give either --vectors"),
        (["--shard", "1/2", "--precision", "float8"], "unknown precision 'float8'"),
        (["--shard", "1/2", "--encoder", "other"], "has no encoder 'other'"),
        (["--shard", "1/2", "--study", "nowhere"], "is not a study"),
    ],
)
def test_bad_options_get_one_line(study, options, says):
    chosen = ["--encoder", "tiny", "--study", str(study.folder), *options]
    done = CliRunner().invoke(app, ["index", "dense", "--device", "cpu", *chosen])
    assert done.exit_code != 0 and not place(study, "").exists()
    message = done.output if done.exception is None or isinstance(done.exception, SystemExit) else str(done.exception)
    assert re.search(re.escape(says), message) and len(message.strip().splitlines()) == 1

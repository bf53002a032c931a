"""Indexes and engines that exist already: opened as they are, equal to the study's own search, one line when wrong."""

import json
import pickle
import shutil
import subprocess

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.engines.lucene_index import title_and_text
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.lucene import java_command
from blindspot.backend.retrieval.opened import open_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import is_lexical, kind_of_run
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import BadInput, Missing, Refused
from tests.ties import same_ranking

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


@pytest.fixture
def study(own_indexed_study):
    return own_indexed_study


@pytest.fixture
def empty(tmp_path):
    return Study.create(tmp_path / "empty")


@pytest.fixture(scope="module")
def prebuilt(tmp_path_factory, indexed_study):
    """An index that Anserini's own command made, with `raw` stored, as Pyserini's prebuilt indexes are."""
    folder = tmp_path_factory.mktemp("prebuilt")
    (folder / "json").mkdir()
    rows = [{"id": p.id, "contents": f'"{p.title}"\n{p.text}'} for p in indexed_study.corpus.scan()]
    (folder / "json" / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = f"-collection JsonCollection -input {folder / 'json'} -index {folder / 'index'} -threads 1 -storeRaw"
    command = [*java_command(), "io.anserini.index.IndexCollection", *options.split()]
    subprocess.run([*command, "-generator", "DefaultLuceneDocumentGenerator"], check=True, capture_output=True)
    return folder / "index"


@pytest.fixture
def lucene(tmp_path, prebuilt):
    shutil.copytree(prebuilt, tmp_path / "lucene")
    return tmp_path / "lucene"


@pytest.fixture
def flat(tmp_path, indexed_study):
    """A FAISS index with its ids, shuffled, as another tool wrote them: (file, ids file, order)."""
    import faiss

    vectors = np.load(indexed_study.folder / "indexes" / "tiny" / "embeddings.npy").astype(np.float32)
    order = np.random.default_rng(1).permutation(len(vectors))
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors[order])
    faiss.write_index(index, str(tmp_path / "wiki.index"))
    ids = [passage.id for passage in indexed_study.corpus.passages(order.tolist())]
    (tmp_path / "ids.txt").write_text("\n".join(ids) + "\n")
    return tmp_path / "wiki.index", tmp_path / "ids.txt", order


def refused_in_one_line(study, error, said, *arguments, **settings):
    with pytest.raises(error, match=said) as caught:
        open_index(study, *arguments, **settings)
    assert "\n" not in str(caught.value)
    assert f"opened:{arguments[0]}" not in available_retrievers(study)


def test_a_lucene_index_gives_the_hits_of_our_own(study, lucene):
    record = open_index(study, "wiki", str(lucene), "lucene")
    assert (record["documents"], record["matched"], record["passages_read"]) == (60, 60, 0)
    run = retrieve(study, "opened", index="wiki", k=10, split="dev")
    ours = retrieve(study, "bm25", k=10, split="dev")
    assert run.name == "wiki-dev" and run.manifest["fingerprint"] == record["fingerprint"]
    assert np.array_equal(run.hits.ordinals, ours.hits.ordinals) and np.array_equal(run.hits.scores, ours.hits.scores)
    assert kind_of_run(run.manifest).describe(run.manifest) == "Lucene wiki" and is_lexical(run.manifest)
    dense = retrieve(study, "dense", encoder="tiny", k=10, split="dev")
    runs = {"tiny-dev": dense.manifest, "wiki-dev": run.manifest}
    assert default_pair(runs) == ("wiki-dev", "tiny-dev"), "Compare puts words on side A"
    assert "opened:wiki" in available_retrievers(study)
    same_ranking(live.search(study, "opened:wiki", QUESTIONS, 5), BM25(study).search(QUESTIONS, 5))


def test_a_study_without_passages_reads_them_from_the_index(empty, lucene, indexed_study):
    record = open_index(empty, "wiki", str(lucene), "lucene")
    assert record["passages_read"] == 60
    assert sorted(empty.corpus.scan(), key=str) == sorted(indexed_study.corpus.scan(), key=str)
    found = live.search(empty, "opened:wiki", QUESTIONS, 1).ordinals[:, 0].tolist()
    best = BM25(indexed_study).search(QUESTIONS, 1).ordinals[:, 0].tolist()
    assert empty.corpus.passages(found) == indexed_study.corpus.passages(best)


def test_an_index_without_stored_passages(empty, indexed_study):
    ours = str(indexed_study.folder / "indexes" / "bm25")
    refused_in_one_line(empty, Missing, "stores no passages; import them", "x", ours, "lucene")
    assert not empty.has_corpus


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ('{"id": "1", "contents": "\\"Aaron\\"\\nAaron is a prophet."}', ("Aaron", "Aaron is a prophet.")),
        ('{"_id": "1", "title": "Aaron", "text": "A prophet."}', ("Aaron", "A prophet.")),
        ('{"id": "1", "contents": "no title"}', ("", "no title")),
        ("{ no JSON", ("", "{ no JSON")),
        ("plain text", ("", "plain text")),
    ],
)
def test_stored_forms_of_passages(stored, expected):
    assert title_and_text(stored) == expected


def test_documents_that_the_study_lacks_are_passed_over(tmp_path, lucene, indexed_study):
    half = Study.create(tmp_path / "half")
    with CorpusWriter(half.folder / "corpus.db") as writer:
        writer.add(list(indexed_study.corpus.scan())[::2])
        writer.finish("half.tsv", "0" * 64)
    assert open_index(half, "wiki", str(lucene), "lucene")["matched"] == 30
    found = live.search(half, "opened:wiki", ["born in Oslo Bergen Molde town harbour"], 25)
    whole = BM25(indexed_study).search(["born in Oslo Bergen Molde town harbour"], 60)
    kept = [row // 2 for row in whole.ordinals[0].tolist() if row >= 0 and row % 2 == 0]
    assert sorted(found.ordinals[0].tolist()) == sorted(kept[:25]) and (found.ordinals[0] >= 0).all()


def test_what_is_wrong_with_a_lucene_index(study, lucene, tmp_path):
    refused_in_one_line(study, Missing, "not a Lucene index", "x", str(tmp_path), "lucene")
    refused_in_one_line(study, Refused, "--ids does not apply", "x", str(lucene), "lucene", {"ids": "a"})
    refused_in_one_line(study, Refused, "the name of an index", "tiny", str(lucene), "lucene")
    refused_in_one_line(study, Refused, "unknown engine 'solr'", "x", str(lucene), "solr")
    segments = next(lucene.glob("segments_*"))
    whole = segments.read_bytes()
    # CodecUtil writes magic, the name with its length, and the version of the format.
    place = whole.index(b"segments") + len(b"segments")
    for version in (b"\0\0\0\2", b"\0\0\0\x63"):
        segments.write_bytes(whole[:place] + version + whole[place + 4 :])
        refused_in_one_line(study, Refused, "Lucene index of another version", "x", str(lucene), "lucene")
    segments.write_bytes(whole[:-20] + bytes(20))
    refused_in_one_line(study, BadInput, "broken Lucene index", "x", str(lucene), "lucene")


def test_a_changed_index_is_refused(study, lucene):
    open_index(study, "wiki", str(lucene), "lucene")
    segments = next(lucene.glob("segments_*"))
    shutil.copy(segments, lucene / "segments_z")
    (lucene / "segments_z").write_bytes(segments.read_bytes() + b"x")
    with pytest.raises(Refused, match=r"has changed since it was opened; .* --replace"):
        retrieve(study, "opened", index="wiki", k=3)
    (lucene / "segments_z").unlink()
    refused = pytest.raises(Refused, match="already an opened index 'wiki'")
    with refused:
        open_index(study, "wiki", str(lucene), "lucene")
    assert open_index(study, "wiki", str(lucene), "lucene", replace=True)["documents"] == 60


def test_a_faiss_index_gives_the_hits_of_exact_search(study, flat):
    path, ids, _ = flat
    record = open_index(study, "faiss", str(path), "faiss", {"encoder": "tiny", "ids": str(ids)})
    assert (record["documents"], record["matched"], record["index_type"]) == (60, 60, "IndexFlatIP")
    exact = Dense(study, "tiny", "cpu").search(QUESTIONS, 10)
    same_ranking(live.search(study, "opened:faiss", QUESTIONS, 10), exact)
    run = retrieve(study, "opened", index="faiss", k=10, split="dev", name="f")
    assert not is_lexical(run.manifest) and run.manifest["encoder"] == "tiny"
    assert kind_of_run(run.manifest).describe(run.manifest) == "FAISS faiss, tiny"


def test_a_folder_of_pyserinis_and_the_labels_of_an_id_map(study, flat, tmp_path):
    import faiss

    path, ids, order = flat
    (tmp_path / "folder").mkdir()
    shutil.copy(path, tmp_path / "folder" / "index")
    shutil.copy(ids, tmp_path / "folder" / "docid")
    assert open_index(study, "folder", str(tmp_path / "folder"), "faiss", {"encoder": "tiny"})["matched"] == 60
    inner = faiss.IndexFlatIP(32)
    mapped = faiss.IndexIDMap(inner)
    vectors = np.load(study.folder / "indexes" / "tiny" / "embeddings.npy").astype(np.float32)[order]
    numbers = np.random.default_rng(0).permutation(60).astype(np.int64)
    mapped.add_with_ids(vectors, numbers)
    faiss.write_index(mapped, str(tmp_path / "mapped.index"))
    (tmp_path / "names.txt").write_text("\n".join(f"p{row}" for row in order) + "\n")
    settings = {"encoder": "tiny", "ids": str(tmp_path / "names.txt")}
    open_index(study, "mapped", str(tmp_path / "mapped.index"), "faiss", settings)
    same_ranking(live.search(study, "opened:mapped", QUESTIONS, 7), Dense(study, "tiny", "cpu").search(QUESTIONS, 7))
    refused_in_one_line(
        study, Missing, "none of the 60 ids", "x", str(tmp_path / "mapped.index"), "faiss", {"encoder": "tiny"}
    )


def test_what_is_wrong_with_a_faiss_index(study, flat, tmp_path):
    from tests.studies import tiny_bert

    path, ids, _ = flat
    tiny = {"encoder": "tiny"}
    refused_in_one_line(study, Missing, "there is no file", "x", str(tmp_path / "no"), "faiss", tiny)
    refused_in_one_line(study, BadInput, "not a FAISS index", "x", str(ids), "faiss", tiny)
    refused_in_one_line(study, Refused, "without passage ids", "x", str(path), "faiss", tiny)
    (tmp_path / "short.txt").write_text("p0\np1\n")
    short = {**tiny, "ids": str(tmp_path / "short.txt")}
    refused_in_one_line(study, BadInput, "has 2 ids, but the FAISS index has 60", "x", str(path), "faiss", short)
    refused_in_one_line(study, Refused, "--encoder", "x", str(path), "faiss", {"ids": str(ids)})
    (tmp_path / "meta.dpr").write_bytes(pickle.dumps(["p0"] * 60))
    pickled = {**tiny, "ids": str(tmp_path / "meta.dpr")}
    refused_in_one_line(study, BadInput, "is a pickle", "x", str(path), "faiss", pickled)
    np.save(tmp_path / "ids.npy", np.array(["p0"] * 60, dtype=object), allow_pickle=True)
    pickled = {**tiny, "ids": str(tmp_path / "ids.npy")}
    refused_in_one_line(study, BadInput, "pickled objects", "x", str(path), "faiss", pickled)
    tiny_bert(tmp_path / "narrow", width=16)
    add_encoder(study.settings_path, "narrow", {"model": str(tmp_path / "narrow"), "pooling": "cls"})
    other = {"encoder": "narrow", "ids": str(ids)}
    said = "vectors of 32 dimensions, but encoder 'narrow' gives 16"
    refused_in_one_line(study, Refused, said, "x", str(path), "faiss", other)
    (tmp_path / "wrong.txt").write_text("\n".join(f"p{row}" for row in range(60)))
    wrong = {**tiny, "ids": str(tmp_path / "wrong.txt")}
    refused_in_one_line(study, BadInput, "differs from the encoder's vector", "x", str(path), "faiss", wrong)

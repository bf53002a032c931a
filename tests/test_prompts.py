"""Prompts and cut vectors: equal to the library's own, recorded with the index, refused when they change."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.commands.indexes import encoder_app
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.retrieval import dense, live
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.prompts import FAMILIES, family_of
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Refused
from tests.studies import tiny_bert

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a model with Normalize that stores no prompts, and of one that stores them."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    folder = tmp_path_factory.mktemp("models")
    tiny_bert(folder / "bert")
    modules = [Transformer(str(folder / "bert"), max_seq_length=64), Pooling(32, "mean"), Normalize()]
    plain = SentenceTransformer(modules=modules, device="cpu")
    plain.save(str(folder / "e5-small-v2"))
    plain.prompts = {"query": "query: ", "document": "passage: "}
    plain.save(str(folder / "stored"))
    return folder


@pytest.fixture
def study(own_indexed_study):
    return own_indexed_study


def test_vectors_are_the_librarys_own(models, indexed_study):
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(models / "e5-small-v2"), device="cpu")
    theirs.max_seq_length = 64
    settings = {"model": str(models / "e5-small-v2"), "max_tokens": 64}
    ours = load_encoder(
        EncoderSettings(**settings, question_prompt="ask: ", passage_prompt="text: ", dimensions=16), "cpu"
    )
    passages = list(indexed_study.corpus.scan())[:5]
    texts = [f"{p.title} [SEP] {p.text}" for p in passages]
    expected = theirs.encode(QUESTIONS, prompt="ask: ", truncate_dim=16, normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_questions(QUESTIONS), expected, atol=1e-6)
    expected = theirs.encode(texts, prompt="text: ", truncate_dim=16, normalize_embeddings=True)
    np.testing.assert_allclose(ours.encode_passages(passages), expected, atol=1e-6)
    assert (ours.similarity, ours.dimension) == ("cosine", 16)
    plain = load_encoder(EncoderSettings(**settings), "cpu")
    assert plain.similarity == "dot" and "dimensions" not in plain.describe()
    hashes = {plain.model_hash, ours.model_hash}
    hashes |= {
        load_encoder(EncoderSettings(**settings, **{key: value}), "cpu").model_hash
        for key, value in (("question_prompt", "a"), ("passage_prompt", "a"), ("dimensions", 16))
    }
    assert len(hashes) == 5, "each setting gives other vectors, so an index of one does not serve another"
    with pytest.raises(Refused, match="dimensions is 33, but the model gives vectors of 32"):
        load_encoder(EncoderSettings(**settings, dimensions=33), "cpu")


def test_an_index_knows_its_prompts_and_dimensions(study, models):
    values = {"model": str(models / "e5-small-v2"), "max_tokens": 64, "question_prompt": "q: ", "passage_prompt": "p: "}
    add_encoder(study.settings_path, "cut", {**values, "dimensions": 16})
    manifest = dense.build_index(study, "cut", device="cpu", precision="float32")
    assert (manifest["question_prompt"], manifest["dimensions"], manifest["dimension"]) == ("q: ", 16, 16)
    encoder = load_encoder(study.settings.encoders["cut"], "cpu")
    passages = list(study.corpus.scan())
    stored = Dense(study, "cut", "cpu").vectors
    np.testing.assert_allclose(stored, encoder.encode_passages(passages), atol=2e-3)
    run = retrieve(study, "dense", encoder="cut", k=5, split="dev")
    assert (run.manifest["passage_prompt"], run.manifest["dimensions"]) == ("p: ", 16)
    assert live.search(study, "cut", QUESTIONS, 3).ordinals.shape == (2, 3)
    text = study.settings_path.read_text()
    for changed in (text.replace("q: ", "other: "), text.replace('question_prompt = "q: "\n', "")):
        study.settings_path.write_text(changed)
        with pytest.raises(Refused, match="has changed since its index was made"):
            Dense(study, "cut", "cpu").search(QUESTIONS, 3)


def test_older_indexes_open_as_before(study):
    found = Dense(study, "tiny", "cpu")
    assert not {"question_prompt", "passage_prompt", "dimensions"} & set(found.manifest)
    assert found.search(QUESTIONS, 3).ordinals.shape == (2, 3)


def added(study, *arguments):
    done = CliRunner().invoke(encoder_app, ["add", *arguments, "--study", str(study.folder)])
    assert done.exit_code == 0, done.output
    return done.output


def test_encoder_add_takes_prompts_and_warns_without(study, models):
    said = added(study, "stored", "--model", str(models / "stored"))
    assert "Prompts: 'query: ' before questions, 'passage: ' before passages." in said
    kept = study.settings.encoders["stored"]
    assert (kept.question_prompt, kept.passage_prompt) == ("query: ", "passage: ")
    said = added(study, "e5", "--model", str(models / "e5-small-v2"))
    assert "Warning: E5 models were trained with prompts" in said and "--question-prompt 'query: '" in said
    assert study.settings.encoders["e5"].question_prompt is None
    given = ("--question-prompt", "query: ", "--passage-prompt", "passage: ")
    said = added(study, "given", "--model", str(models / "e5-small-v2"), *given)
    assert "Warning" not in said and study.settings.encoders["given"].passage_prompt == "passage: "


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("intfloat/e5-base-v2", "E5"),
        ("intfloat/multilingual-e5-large-instruct", "E5 with instructions"),
        ("BAAI/bge-small-en-v1.5", "BGE (English)"),
        ("Alibaba-NLP/gte-Qwen2-1.5B-instruct", "GTE with instructions"),
        ("nomic-ai/nomic-embed-text-v1.5", "Nomic"),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", "Arctic 2"),
        ("Snowflake/snowflake-arctic-embed-m", "Arctic"),
        ("Qwen/Qwen3-Embedding-0.6B", "Qwen3-Embedding"),
        ("sentence-transformers/all-MiniLM-L6-v2", None),
        ("BAAI/bge-m3", None),
        ("thenlper/gte-base", None),
    ],
)
def test_families_by_name(model, family, monkeypatch):
    from blindspot.db.errors import Missing

    def absent(name):
        raise Missing("no network")

    monkeypatch.setattr("blindspot.backend.retrieval.prompts.open_model", absent)
    found = family_of(model)
    assert (found and found.name) == family
    assert all(each.question for each in FAMILIES)

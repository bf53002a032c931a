"""Encoders, compared with transformers' own classes on the same weights."""

import json
import shutil

import numpy as np
import pytest

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage
from tests.studies import tiny_bert

PASSAGES = [
    Passage("1", "Oslo", "Oslo was a town in the north."),
    Passage("2", "Arve", "born where? " * 40),
    Passage("3", "", "x"),
]
QUESTIONS = ["Where was Arve born?", "oslo"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    return folder, tiny_bert(folder)


@pytest.fixture(scope="module")
def dpr(tmp_path_factory):
    """A DPR pair of random weights: (question folder, passage folder, question model, context model)."""
    import torch
    import transformers

    made = []
    for seed, kind in enumerate((transformers.DPRQuestionEncoder, transformers.DPRContextEncoder)):
        folder = tmp_path_factory.mktemp(kind.__name__)
        bert = tiny_bert(folder, seed)
        torch.manual_seed(100 + seed)
        model = kind(
            transformers.DPRConfig(
                **{
                    key: value
                    for key, value in bert.config.to_dict().items()
                    if key
                    in (
                        "vocab_size",
                        "hidden_size",
                        "num_hidden_layers",
                        "num_attention_heads",
                        "intermediate_size",
                        "max_position_embeddings",
                    )
                }
            )
        ).eval()
        model.save_pretrained(folder)
        made.append((str(folder), model))
    return made[0][0], made[1][0], made[0][1], made[1][1]


def tokenised(folder, texts, max_tokens):
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)(
        texts, padding=True, truncation=True, max_length=max_tokens, return_tensors="pt"
    )


def test_dpr_equals_transformers_classes(dpr):
    import torch

    question_folder, passage_folder, question_model, context_model = dpr
    encoder = load_encoder(
        EncoderSettings(question_model=question_folder, passage_model=passage_folder, max_tokens=64), "cpu"
    )
    with torch.no_grad():
        questions = question_model(**tokenised(question_folder, QUESTIONS, 64)).pooler_output.numpy()
        passages = context_model(
            **tokenised(passage_folder, [f"{p.title} [SEP] {p.text}" for p in PASSAGES], 64)
        ).pooler_output.numpy()
    np.testing.assert_allclose(encoder.encode_questions(QUESTIONS), questions, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_passages(PASSAGES), passages, atol=1e-5)
    assert (encoder.similarity, encoder.pooling, encoder.dimension) == ("dot", "cls", 32)


def test_dpr_text_gives_the_ids_of_a_title_and_text_pair_with_segments_all_zero(dpr):
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(dpr[1])
    encoder = load_encoder(EncoderSettings(question_model=dpr[0], passage_model=dpr[1]), "cpu")
    ours, pair = tokenizer(encoder.passage_text(PASSAGES[0])), tokenizer(PASSAGES[0].title, PASSAGES[0].text)
    assert ours["input_ids"] == pair["input_ids"]
    assert set(ours["token_type_ids"]) == {0}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_plain_bert_pools_as_told(bert, pooling):
    import torch

    folder, model = bert
    encoder = load_encoder(EncoderSettings(model=str(folder), pooling=pooling, max_tokens=64), "cpu")
    inputs = tokenised(folder, QUESTIONS, 64)
    with torch.no_grad():
        states = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"][:, :, None]
    expected = states[:, 0] if pooling == "cls" else (states * mask).sum(1) / mask.sum(1)
    np.testing.assert_allclose(encoder.encode_questions(QUESTIONS), expected.numpy(), atol=1e-5)


def test_cosine_gives_unit_vectors(bert):
    encoder = load_encoder(EncoderSettings(model=str(bert[0]), pooling="mean", similarity="cosine"), "cpu")
    np.testing.assert_allclose(np.linalg.norm(encoder.encode_passages(PASSAGES), axis=1), 1, atol=1e-5)


def test_minilm_equals_the_real_vectors(real_data, tmp_path):
    """The packaged model, its own pooling and normalisation, against vectors made elsewhere with transformers alone."""
    import csv

    from tests.real import first_passages

    with open(first_passages(real_data, 6, tmp_path), encoding="utf-8", newline="") as file:
        passages = [Passage(row["id"], row["title"], row["text"]) for row in csv.DictReader(file, delimiter="\t")]
    encoder = load_encoder(EncoderSettings(model="minilm"), "cpu")
    stored = np.load(real_data / "minilm_passages.npy", mmap_mode="r")[:6].astype(np.float32)
    np.testing.assert_allclose(encoder.encode_passages(passages), stored, atol=2e-4)
    assert (encoder.dimension, encoder.similarity) == (384, "dot")


def test_the_hash_follows_the_weights(bert, tmp_path):
    settings = EncoderSettings(model=str(bert[0]), pooling="cls")
    tiny_bert(tmp_path / "other", seed=9)
    other = EncoderSettings(model=str(tmp_path / "other"), pooling="cls")
    assert load_encoder(settings).model_hash == load_encoder(settings).model_hash != load_encoder(other).model_hash


def test_what_cannot_be_loaded_is_one_line(bert, dpr, tmp_path):
    with pytest.raises(Refused, match="pooling"):
        load_encoder(EncoderSettings(model=str(bert[0])))
    with pytest.raises(Missing, match="cannot load the model"):
        load_encoder(EncoderSettings(model=str(tmp_path / "nothing")))
    wide = tmp_path / "wide"
    tiny_bert(wide, width=64)
    with pytest.raises(Refused, match="question_model has 64 dimensions, passage_model 32; they must be equal"):
        load_encoder(EncoderSettings(question_model=str(wide), passage_model=str(bert[0]), pooling="cls"))
    broken = tmp_path / "broken"
    shutil.copytree(bert[0], broken)
    (broken / "config.json").write_text(json.dumps({"model_type": "no such thing"}))
    with pytest.raises(Missing, match="cannot load"):
        load_encoder(EncoderSettings(model=str(broken), pooling="cls"))


@pytest.mark.parametrize(
    ("file", "content", "found"),
    [
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, r"a sparse encoder \(SPLADE\)"),
        (
            "modules.json",
            [{"type": "sentence_transformers.sparse_encoder.models.SpladePooling"}],
            r"a sparse encoder \(SPLADE\)",
        ),
        ("config.json", {"architectures": ["HF_ColBERT"]}, r"a late-interaction encoder \(ColBERT\)"),
        ("config.json", {"architectures": ["BertForSequenceClassification"]}, "a cross-encoder"),
    ],
)
def test_a_model_that_is_no_dense_encoder_is_one_line(bert, tmp_path, file, content, found):
    folder = tmp_path / "model"
    shutil.copytree(bert[0], folder)
    (folder / file).write_text(json.dumps(content))
    with pytest.raises(Refused, match=f"model is {found}, not a dense encoder"):
        load_encoder(EncoderSettings(model=str(folder), pooling="cls"), "cpu")

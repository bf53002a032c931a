"""Tiny sparse and late-interaction encoders of random weights, made with sentence-transformers' own classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from tests.studies import tiny_bert


def tiny_masked_language_model(folder: Path, seed: int = 0) -> Path:
    """A random BERT with the head that predicts words, as Hugging Face saves it. Returns its folder."""
    import torch
    import transformers

    tiny_bert(folder, seed)
    torch.manual_seed(seed)
    config = transformers.BertConfig.from_pretrained(folder)
    config.initializer_range = 0.3  # with small weights every term gets nearly the same weight
    transformers.BertForMaskedLM(config).eval().save_pretrained(folder)
    return folder


def tiny_splade(folder: Path, seed: int = 0, similarity: str | None = None) -> Path:
    """A random SPLADE model of one tower, saved by SparseEncoder."""
    from sentence_transformers import SparseEncoder

    plain = tiny_masked_language_model(folder.with_name(f"{folder.name}-mlm"), seed)
    SparseEncoder(str(plain), device="cpu", similarity_fn_name=similarity).save(str(folder))
    shutil.rmtree(plain)
    return folder


def tiny_inference_free(folder: Path, seed: int = 0) -> Path:
    """A random inference-free SPLADE: the weights of a question come from a table (IDF), through a Router."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router, Transformer
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding, SpladePooling

    plain = tiny_masked_language_model(folder.with_name(f"{folder.name}-mlm"), seed)
    tower = Transformer(str(plain), transformer_task="fill-mask")
    torch.manual_seed(seed)
    table = SparseStaticEmbedding(tower.tokenizer, weight=torch.rand(len(tower.tokenizer)))
    router = Router.for_query_document([table], [tower, SpladePooling("max")])
    SparseEncoder(modules=[router], device="cpu", similarity_fn_name="dot").save(str(folder))
    shutil.rmtree(plain)
    return folder


def tiny_colbert(folder: Path, seed: int = 0, width: int = 8, **transformer: object) -> Path:
    """A random ColBERT, saved by MultiVectorEncoder.

    Args:
        transformer: knobs of the Transformer module, such as query_expansion and document_length.
    """
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.base.modules.dense import Dense
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    plain = folder.with_name(f"{folder.name}-bert")
    tiny_bert(plain, seed)
    torch.manual_seed(seed)
    body = Transformer(str(plain), **transformer)
    names = {"module_input_name": "token_embeddings"}
    head = Dense(body.get_embedding_dimension(), width, bias=False, activation_function=torch.nn.Identity(), **names)
    modules = [body, head, MultiVectorMask(skiplist_words=[".", ","]), Normalize(**names)]
    MultiVectorEncoder(modules=modules, device="cpu").save(str(folder))
    shutil.rmtree(plain)
    return folder


def ready(folder, labels=1):
    """A cross-encoder that somebody else made, with random weights."""
    import transformers

    tiny_bert(folder)
    config = transformers.BertConfig.from_pretrained(folder, num_labels=labels)
    torch.manual_seed(1)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder

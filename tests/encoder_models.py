"""Tiny cross-encoders of random weights."""

from __future__ import annotations

import torch

from tests.studies import tiny_bert


def ready(folder, labels=1):
    """A cross-encoder that somebody else made, with random weights."""
    import transformers

    tiny_bert(folder)
    config = transformers.BertConfig.from_pretrained(folder, num_labels=labels)
    torch.manual_seed(1)
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder

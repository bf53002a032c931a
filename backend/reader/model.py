"""The reader's network: transformers' `DPRReader`, initialised from any BERT or loaded from a checkpoint.

Weights are read only from safetensors.

A trained reader is an ordinary folder, which `DPRReader.from_pretrained(folder)` and
`AutoTokenizer.from_pretrained(folder)` load without Blindspot.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.model_files import ModelFolder, open_model, readable_model
from blindspot.backend.reader.inputs import TOKENS, ReaderInputs
from blindspot.backend.retrieval.encoder import DPR_TOWERS
from blindspot.backend.training.checkpoints import TRAINING
from blindspot.backend.training.initial_model import keep_layers
from blindspot.backend.training.scoring import weights_hash
from blindspot.db.errors import Missing, Refused

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import DPRReader

    from blindspot.backend.core.study import Study

READER = "DPRReader"
KIND = "reader"
MODULES = "modules.json"  # this file marks a sentence-transformers folder


@dataclass(frozen=True)
class ReaderModel:
    """A network with its tokenizer. `hash`: hash of weights and tokenizer; "" if they were not loaded from a folder."""

    network: DPRReader
    inputs: ReaderInputs
    hash: str = ""


def start_reader(start: str, layers: int | None = None, tokens: int = TOKENS, seed: int = 0) -> ReaderModel:
    """Return a reader for training: an already trained reader, or a BERT with new randomly initialised output layers.

    Args:
        start: a folder or Hugging Face name of a `DPRReader`, a BERT, a DPR encoder or a dual encoder (with two towers,
            the passage tower); or "minilm".
        layers: number of first layers to keep; None keeps all.

    Raises:
        Missing: the model cannot be loaded, or has no safetensors.
        Refused: its network is not a BERT, it has too few layers, or its tokenizer does not fit.
    """
    import torch
    from transformers import BertModel, DPRConfig
    from transformers import DPRReader as Network

    folder = open_model(start)
    if _architecture(folder) == READER:
        model = load_reader(folder.path, tokens=tokens)
        if layers is not None:
            keep_layers(model.network.span_predictor.encoder.bert_model, layers)
            model.network.config.num_hidden_layers = layers
        return ReaderModel(model.network.float(), model.inputs)
    bert, tokenizer = _bert(folder)
    if not isinstance(bert, BertModel):
        raise Refused(
            f"{start} is a {type(bert).__name__}; the reader starts from a BERT (BERT, MiniLM, DPR's encoders)"
        )
    if layers is not None:
        keep_layers(bert, layers)
    torch.manual_seed(seed)
    known = set(DPRConfig().to_dict()) - {
        "model_type",
        "architectures",
        "transformers_version",
        "dtype",
        "projection_dim",
    }
    network = Network(DPRConfig(**{key: value for key, value in bert.config.to_dict().items() if key in known}))
    weights = {name: weight for name, weight in bert.state_dict().items() if not name.startswith("pooler.")}
    network.span_predictor.encoder.bert_model.load_state_dict(weights)
    return ReaderModel(network.float(), _inputs(network, tokenizer, tokens, start))


def load_reader(folder: str | Path, tokens: int | None = None) -> ReaderModel:
    """Load a reader from its folder or Hugging Face name, in 32 bits, on the CPU.

    Args:
        tokens: maximum tokens of question, title and passage; None takes the value of its training, else DPR's 350.

    Raises:
        Missing: the folder does not exist, is not a reader's, or has no safetensors.
        Refused: the reader was changed since its training, or its tokenizer belongs to another model.
    """
    import transformers

    source = open_model(folder)
    path = source.path
    if _architecture(source) != READER:
        raise Missing(
            f"{path} is not a reader; train one with 'blindspot train reader', or give a DPRReader checkpoint"
        )
    about = read_object(Path(path) / TRAINING) if (Path(path) / TRAINING).is_file() else {}
    digest = weights_hash(Path(path)) if Path(path).is_dir() else ""
    if about.get("kind") == KIND and about.get("model_hash", digest) != digest:
        raise Refused(
            f"the weights or the tokenizer of {path} have changed since its training; train it again, or delete "
            f"{TRAINING} if you changed them on purpose"
        )
    with readable_model(path, "the reader"):
        loaded: Any = transformers.DPRReader.from_pretrained(path, output_loading_info=True, **source.transformers)
        network, found = loaded
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    if lacking := sorted(found["missing_keys"]):
        raise Refused(f"{path} lacks weights of a reader, such as {lacking[0]}")
    limit = tokens or about.get("settings", {}).get("tokens") or TOKENS
    return ReaderModel(network.float().eval(), _inputs(network, tokenizer, limit, path), digest)


def reader_folder(study: Study, reader: str) -> str:
    """Return the folder of a reader in the study. Any other folder or Hugging Face name is returned unchanged."""
    if "/" not in reader and (study.path("models", reader) / TRAINING).is_file():
        return str(study.path("models", reader))
    return reader


def start_folder(study: Study, start: str) -> str:
    """Return the initial model for a training: the model of an encoder of study.toml (its passage tower if it has two),
    or else the result of `reader_folder`.
    """
    encoder = study.settings.encoders.get(start)
    if encoder is None:
        return reader_folder(study, start)
    folder = encoder.model or encoder.passage_model
    assert folder is not None, "every encoder has a model, or a passage model"
    return folder


def reader_logits(
    network: DPRReader, ids: Tensor, real: Tensor, half_precision: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return start and end logits (n, L) and relevance logits (n,) in 32 bits; `half_precision` runs the BERT in bfloat16."""
    import torch

    predictor = network.span_predictor
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=half_precision):
        hidden = predictor.encoder(ids, attention_mask=real.long())[0]
    with torch.autocast(ids.device.type, enabled=False):
        hidden = hidden.float()
        start, end = predictor.qa_outputs(hidden).unbind(dim=-1)
        return start, end, predictor.qa_classifier(hidden[:, 0]).squeeze(-1)


def _inputs(network: DPRReader, tokenizer: Any, tokens: int, path: str) -> ReaderInputs:
    size, needed = network.config.vocab_size, (tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
    if None in needed:
        raise Refused(f"the tokenizer of {path} has no [CLS], [SEP] or [PAD]; the reader needs a BERT tokenizer")
    if len(tokenizer) > size or network.config.pad_token_id not in (None, tokenizer.pad_token_id):
        raise Refused(
            f"the tokenizer of {path} belongs to another model: it has {len(tokenizer):,} words, the network "
            f"{size:,}; use the tokenizer that the weights were trained with"
        )
    if not tokenizer.is_fast:
        raise Refused(
            f"the tokenizer of {path} does not map tokens to characters; use a fast tokenizer (tokenizer.json)"
        )
    return ReaderInputs(tokenizer, min(tokens, network.config.max_position_embeddings))


def _architecture(folder: ModelFolder) -> str:
    """Return the name of the network's class in the folder's configuration; "" if it has none."""
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if (Path(folder.path) / MODULES).is_file():
        return ""
    with readable_model(folder.path, "the reader"):
        config = transformers.AutoConfig.from_pretrained(folder.path, trust_remote_code=folder.trusted)
    return (config.architectures or [""])[0]


def _bert(source: ModelFolder) -> tuple[Any, Any]:
    """Return the BERT network of an encoder, and its tokenizer."""
    import transformers

    path = source.path
    with readable_model(path, "the reader"):
        if (Path(path) / MODULES).is_file():
            from sentence_transformers import SentenceTransformer

            transformer: Any = SentenceTransformer(path, device="cpu", **source.sentence_transformers)[0]
            transformer = transformer.sub_modules["document"][0] if hasattr(transformer, "sub_modules") else transformer
            return transformer.model, transformer.tokenizer
        architecture = _architecture(source)
        if architecture in DPR_TOWERS:
            whole = getattr(transformers, architecture).from_pretrained(path, **source.transformers)
            return getattr(whole, DPR_TOWERS[architecture]).bert_model, transformers.AutoTokenizer.from_pretrained(path)
        return transformers.AutoModel.from_pretrained(
            path, **source.transformers
        ), transformers.AutoTokenizer.from_pretrained(path)

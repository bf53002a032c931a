"""Build the dual encoder that training starts from: any encoder, with the requested towers, pooling and layers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from blindspot.backend.core.model_files import locate_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Towers = Literal["two", "shared"]
SIMILARITY_NAMES: dict[str, Literal["dot", "cosine", "euclidean"]] = {
    "dot": "dot",
    "cosine": "cosine",
    "l2": "euclidean",
}
ROUTES = {"question": "query", "passage": "document"}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """How the initial encoder is modified before training.

    Attributes:
        towers: "two" separate towers for questions and passages (DPR), with the same weights if the start has one
            tower; or one "shared" tower.
        pooling: "cls" or "mean"; None keeps the start's pooling.
        layers: number of first layers to keep in each tower; None keeps all.
        normalise: whether vectors have unit length; None keeps the start's way.
        question_prompt, passage_prompt: texts put before each question and passage; None keeps the start's.
    """

    towers: Towers = "two"
    pooling: Literal["cls", "mean"] | None = None
    layers: int | None = None
    normalise: bool | None = None
    similarity: str = "dot"
    question_tokens: int = 64
    passage_tokens: int = 256
    question_prompt: str | None = None
    passage_prompt: str | None = None


def prompts_of(model: SentenceTransformer, model_shape: ModelShape) -> dict[str, str]:
    """Return the prompts that `encode_query` and `encode_document` use, if there are any."""
    default = model.prompts.get(model.default_prompt_name or "")
    names = {
        ROUTES["question"]: ("query",),
        ROUTES["passage"]: ("document", "passage", "corpus"),
    }  # as the library looks for them
    own = {
        route: next((prompt for name in names[route] if (prompt := model.prompts.get(name))), default)
        for route in names
    }
    prompts = {ROUTES["question"]: model_shape.question_prompt, ROUTES["passage"]: model_shape.passage_prompt}
    return {route: prompt for route in own if (prompt := own[route] if prompts[route] is None else prompts[route])}


def load_initial_model(
    start: EncoderSettings, model_shape: ModelShape, device: str | None = None
) -> SentenceTransformer:
    """Return the model to train, in 32-bit precision.

    Raises:
        Missing: the start cannot be loaded.
        Refused: a plain model without a pooling, one shared tower from a start with two, or missing layers.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    loaded: Any = load_encoder(_encoder_settings(start, model_shape.pooling), device).model
    prompts = prompts_of(loaded, model_shape)
    if isinstance(loaded[0], Router):
        if model_shape.towers == "shared":
            raise Refused(
                f"{start.model or start.question_model} has two towers already; train both, or start from a model "
                "with one"
            )
        after = list(loaded)[1:]
        towers: Any = loaded[0].sub_modules
        pair = [[*towers[route], *copy.deepcopy(after)] for route in ROUTES.values()]
    else:
        modules = list(loaded)
        pair = [modules, modules if model_shape.towers == "shared" else copy.deepcopy(modules)]
    bases = pair[:1] if model_shape.towers == "shared" else pair
    shaped = [
        _reshape_modules(tower, model_shape, tokens)
        for tower, tokens in zip(bases, (model_shape.question_tokens, model_shape.passage_tokens), strict=False)
    ]
    if model_shape.towers == "shared":
        shaped[0][0].max_seq_length = model_shape.passage_tokens
        model = SentenceTransformer(
            modules=shaped[0],
            device=device,
            prompts=prompts,
            similarity_fn_name=SIMILARITY_NAMES[model_shape.similarity],
        )
    else:
        router = Router.for_query_document(query_modules=shaped[0], document_modules=shaped[1])
        model = SentenceTransformer(
            modules=[router],
            device=device,
            prompts=prompts,
            similarity_fn_name=SIMILARITY_NAMES[model_shape.similarity],
        )
    return model.float()


def tower_modules(model: SentenceTransformer, tower_name: Literal["question", "passage"]) -> Any:
    """Return the modules that encode questions, or those that encode passages; the model itself if one
    tower does both.
    """
    if not has_two_towers(model):
        return model
    router: Any = model[0]
    return router.sub_modules[ROUTES[tower_name]]


def has_two_towers(model: SentenceTransformer) -> bool:
    from sentence_transformers.sentence_transformer.modules import Router

    return isinstance(model[0], Router)


def normalises(model: SentenceTransformer) -> bool:
    """Return whether the model's vectors have unit length."""
    return any(type(module).__name__ == "Normalize" for module in tower_modules(model, "passage"))


def _encoder_settings(start: EncoderSettings, pooling: Literal["cls", "mean"] | None) -> EncoderSettings:
    """Return the settings with a pooling for plain checkpoints. A sentence-transformers folder has its own pooling,
    which is replaced later.
    """
    says_itself = start.model is not None and (Path(locate_model(start.model)) / "modules.json").is_file()
    return start if pooling is None or says_itself else replace(start, pooling=pooling)


def _reshape_modules(modules: list, model_shape: ModelShape, tokens: int) -> list:
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    modules = list(modules)
    modules[0].max_seq_length = min(tokens, _max_positions(modules[0]))
    if model_shape.layers is not None:
        keep_layers(modules[0].model, model_shape.layers)
    if model_shape.pooling is not None:
        modules = [
            Pooling(module.embedding_dimension, model_shape.pooling) if isinstance(module, Pooling) else module
            for module in modules
        ]
    if model_shape.normalise is not None:
        modules = [module for module in modules if not isinstance(module, Normalize)] + (
            [Normalize()] if model_shape.normalise else []
        )
    return modules


def _max_positions(transformer: Any) -> int:
    return getattr(transformer.model.config, "max_position_embeddings", None) or 512


def keep_layers(model: Any, count: int) -> None:
    """Keep only the first layers of a transformer. Raises Refused if it has fewer layers or does not expose them."""
    for owner, name in _layer_lists(model):
        layers = getattr(owner, name)
        if not 1 <= count <= len(layers):
            raise Refused(f"layers must be between 1 and {len(layers)}, the number in this model, not {count}")
        setattr(owner, name, layers[:count])
        model.config.num_hidden_layers = count
        return
    raise Refused(f"{type(model).__name__} does not expose its layers; train it whole, without --layers")


def _layer_lists(model: Any) -> Iterator[tuple[Any, str]]:
    """Yield (owner, attribute) of each list of layers, as in BERT and similar models or in DistilBERT."""
    for owner_name, name in (("encoder", "layer"), ("transformer", "layer"), ("", "layers")):
        owner = getattr(model, owner_name, None) if owner_name else model
        if hasattr(owner, name):
            yield owner, name

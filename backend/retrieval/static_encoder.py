"""Static encoders, for a first look at a large collection: a vector a token, averaged over the text.

They are made from an encoder of the study by Model2Vec's distillation (Tulkens and van Dongen 2024): each token of the
vocabulary is encoded alone, the vectors are reduced by principal components and weighted down for frequent tokens. No
context is left, so such an encoder answers worse than the one it was made from; it encodes some hundred times as many
passages a second.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import whole_folder
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.core.settings import add_encoder, check_name
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import encoder_settings
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

DIMENSIONS = 256
BATCH = 1024


@job("add static encoder", extras=("static",))
def make_static_encoder(study: Study, name: str, start: str = "minilm", progress: Progress | None = None) -> dict:
    """Make the static encoder `name` from the encoder `start`, below models/, and add it to study.toml.

    Returns its `dimension`, and the number of its `tokens`.

    Raises:
        Missing: Model2Vec is not installed, or there is no encoder `start`.
        Refused: an encoder or model `name` exists, or `start` has two towers or no fast tokenizer.
    """
    settings, folder = encoder_settings(study, start), study.path("models", check_name(name, "encoder"))
    if settings.model is None:
        raise Refused(f"encoder {start!r} has a tower for questions and one for passages; name an encoder with one")
    if name in study.settings.encoders or folder.exists():
        raise Refused(f"there is already an encoder or model named {name!r}; choose another name")
    if progress is not None:
        progress(0, None, f"encoding each token of {start} alone")
    with study.building(f"models/{name}"), whole_folder(folder) as building:
        tokens, dimension = _distil(open_model(settings.model).path, str(building))
    add_encoder(
        study.settings_path,
        name,
        {
            "model": str(folder),
            "similarity": "cosine",
            "passage_template": "{title} {text}",
            "max_tokens": settings.max_tokens,
            "batch_size": BATCH,
        },
    )
    return {"encoder": name, "from": start, "dimension": dimension, "tokens": tokens}


def _distil(model: str, folder: str) -> tuple[int, int]:
    require("static")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    options: dict[str, Any] = {"device": "cpu", "pca_dims": DIMENSIONS}
    with readable_model(model):
        try:
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):  # its progress bars
                embedding = StaticEmbedding.from_distillation(model, **options)
        except (ValueError, OSError, KeyError) as error:
            first = str(error).strip().splitlines()[0][:160]
            raise Refused(f"{model} cannot be made into a static encoder ({first})") from error
    SentenceTransformer(modules=[embedding, Normalize()], device="cpu").save(folder)
    tokens, dimension = embedding.embedding.weight.shape
    return tokens, dimension

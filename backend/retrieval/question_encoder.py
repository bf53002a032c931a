"""Encode questions fast: in batches of similar length, with OpenVINO if it is installed, always in float32.

Importing PyTorch's libraries and reading a model takes longer than searching 100,000 passages. When the first large set
of questions is encoded, the converted network and its tokenizer are therefore stored in the user's cache folder
(`network_cache`). Later processes read these files and import neither transformers nor sentence-transformers. Passages
that are in no index (`new_passages`) are encoded with this network too, if questions and passages share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.network_cache import StoredNetwork, network_fingerprint, store_network, stored_network
from blindspot.backend.retrieval.openvino_model import OpenVINOModel, has_openvino
from blindspot.backend.retrieval.passage_encoder import OFF as OFF_16_BITS
from blindspot.backend.retrieval.passage_encoder import SAMPLE_TEXTS, BulkEncoder, quick_precisions, vectors_agree
from blindspot.backend.retrieval.search import default_device
from blindspot.backend.retrieval.token_batches import unit_vectors
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from blindspot.backend.core.settings import EncoderSettings

WORTH_CONVERTING = 256  # questions; converting a model takes about as long as encoding them in PyTorch
SAMPLE = 32  # questions on which OpenVINO's vectors are compared with PyTorch's
OFF = 1e-3  # maximum distance of the two vectors, relative to the typical distance of two questions

Tick = Callable[[int], None]


class QuestionEncoder:
    """Encodes questions in the fastest available way that reproduces the encoder's own vectors.

    Args:
        device: "cpu", "cuda", ... (default: a GPU if there is one). OpenVINO runs on CPUs only.
        load: returns the encoder. It is called only if the encoder is needed.
        check: raises if an encoder that `Encoder.describe` describes so must not be used.
    """

    def __init__(
        self,
        settings: EncoderSettings,
        device: str | None,
        load: Callable[[], Encoder],
        check: Callable[[Mapping[str, Any]], None],
    ):
        self._load = load
        self._check = check
        self._bulk: BulkEncoder | StoredEncoder | None = None
        self._key = network_fingerprint(settings) if has_openvino() and (device or default_device()) == "cpu" else None
        stored = None if self._key is None else stored_network(self._key)
        self._is_inexact = stored is not None and not stored.is_exact
        if stored is not None and stored.is_exact:
            check(stored.described)
            self._bulk = StoredEncoder(stored, stored.tokenizer(), OpenVINOModel(stored.network_file, "float32"))

    def encode(self, questions: Sequence[str], tick: Tick | None = None) -> np.ndarray:
        """Return the vectors (q, d) float32. `tick` gets the number of finished questions before each batch."""
        if self._bulk is None and len(questions) < WORTH_CONVERTING:
            return self._load().encode_questions(questions)
        if self._bulk is None:
            self._bulk = self._convert_network(questions) or BulkEncoder(self._load(), "float32", task="query")
        if isinstance(self._bulk, StoredEncoder):
            return self._bulk.encode(questions, tick)
        return self._bulk.encode_float32(self._bulk.tokenise_texts(questions), tick).cpu().numpy()

    def passage_network(self, sample: Sequence[str], may_convert: bool) -> StoredEncoder | None:
        """Return the stored network for passages, in 16 bits where they are fast and exact enough on a sample of texts.

        None where passages need another network than questions, or where none is stored and none may be converted.
        """
        if self._key is None or self._is_inexact:
            return None
        stored = stored_network(self._key)
        if may_convert and stored is None:
            self._bulk = self._convert_network(sample) or self._bulk
            stored = stored_network(self._key)
        if stored is None or not stored.is_exact or stored.passage_prompt is None:
            return None
        self._check(stored.described)
        tokenizer, prompt = stored.tokenizer(), stored.passage_prompt
        exact = StoredEncoder(stored, tokenizer, OpenVINOModel(stored.network_file, "float32"), prompt)
        for precision in quick_precisions("cpu"):
            quick = StoredEncoder(stored, tokenizer, OpenVINOModel(stored.network_file, precision), prompt)
            if vectors_agree(quick.encode(sample), exact.encode(sample), OFF_16_BITS):
                return quick
        return exact

    def _convert_network(self, questions: Sequence[str]) -> StoredEncoder | None:
        """Convert the network and store it in the cache. Return None if OpenVINO cannot run it or does not reproduce
        its vectors accurately enough.
        """
        if self._key is None or self._is_inexact:
            return None
        encoder, bulk = self._load(), None
        stored = StoredNetwork(encoder.describe(), "", 0, is_exact=False)
        with suppress(Refused):  # OpenVINO cannot run this model, which is remembered as well
            bulk = BulkEncoder(encoder, "float32", engine="openvino", task="query")
            sample = [questions[row] for row in np.unique(np.linspace(0, len(questions) - 1, SAMPLE).astype(int))]
            ours = bulk.encode_float32(bulk.tokenise_texts(sample)).numpy()
            is_exact = vectors_agree(ours, encoder.encode_questions(sample), OFF)
            prompt = _passage_prompt(encoder, bulk) if is_exact else None
            stored = StoredNetwork(encoder.describe(), bulk.prompt, bulk.inputs["padding"], is_exact, prompt)
        network, tokenizer = (bulk.openvino, bulk.tokenizer) if bulk is not None else (None, None)
        store_network(self._key, stored, tokenizer, network)
        if network is None or tokenizer is None or not stored.is_exact:
            return None
        return StoredEncoder(stored, tokenizer, network)


def _passage_prompt(encoder: Encoder, question_encoder: BulkEncoder) -> str | None:
    """Return the prompt of passages if the network of questions gives the encoder's vectors of passages with it, else None."""
    passages = BulkEncoder(encoder, "float32")
    if passages.tokenizer is None or question_encoder.openvino is None:
        return None
    exact = passages.encode_float32(passages.tokenise_texts(SAMPLE_TEXTS)).numpy()
    passages.openvino = question_encoder.openvino
    ours = passages.encode_float32(passages.tokenise_texts(SAMPLE_TEXTS)).numpy()
    return passages.prompt if vectors_agree(ours, exact, OFF) else None


class StoredEncoder:
    """A network in OpenVINO that encodes texts, without the library that the model came from.

    prompt: goes before each text; that of questions by default.
    """

    def __init__(
        self, stored_network: StoredNetwork, tokenizer: Tokenizer, network: OpenVINOModel, prompt: str | None = None
    ):
        self._stored, self._tokenizer, self._network = stored_network, tokenizer, network
        self._prompt = stored_network.prompt if prompt is None else prompt

    def encode(self, texts: Sequence[str], tick: Tick | None = None) -> np.ndarray:
        """Return the vectors (n, d) float32."""
        cuts = self._tokenizer.encode_batch_fast([self._prompt + text for text in texts])
        described, ids = self._stored.described, [cut.ids for cut in cuts]
        vectors = self._network.encode(ids, self._stored.padding, described["dimension"], tick=tick)
        return unit_vectors(vectors) if described["similarity"] == "cosine" else vectors

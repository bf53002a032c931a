"""Encode many texts, in batches of texts with similar token counts and with 16-bit arithmetic if it is accurate enough.
Passages are read, encoded and written in parallel.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np

from blindspot.backend.core.processor import cpu_multiplies_bfloat16
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.openvino_model import OpenVINOModel, convert_network
from blindspot.backend.retrieval.prompts import Task, prompt_before
from blindspot.backend.retrieval.token_batches import Ids, batch_rows, pad_tokens, unit_vectors
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

Block = TypeVar("Block")
Texts = list[str]

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
Engine = Literal["torch", "openvino"]
TOKENS_CPU, TOKENS_GPU = 4096, 65_536  # tokens in a batch, including padding
MIN_COSINE = 0.9999  # minimum cosine of a 16-bit vector with its float32 vector
OFF = 0.02  # maximum distance of the two vectors, relative to the typical distance of two texts
# both ways to tokenise must agree on these texts
SAMPLE_TEXTS = ("", "a", "Zürich, 北京 (1912) [SEP] e\u0301", "a word " * 5000)
TENSORS = {"input_ids", "attention_mask", "token_type_ids"}


class BulkEncoder:
    """Encodes thousands of texts with one encoder.

    Texts are sorted by length and batched by their number of tokens. On a CPU, 16-bit precision uses torch's autocast:
    matrix products in bfloat16, everything else in float32. On a GPU the whole model is in 16 bits.

    Args:
        precision: one of `PRECISIONS`. "auto" tries the 16-bit precisions that the device is fast at. It takes the
            first in which every vector of `sample` has a cosine of at least 0.9999 with its float32 vector and differs
            from it by at most 2% of the typical distance between two vectors; otherwise it takes float32.
        sample: texts.
        engine: what runs the network. "auto" precision goes back to torch where OpenVINO cannot run the model, or not
            exactly enough.
        task: whether the texts are questions or passages: the model's prompts and towers differ.

    Raises:
        Refused: an unknown precision, or one that the device does not support.
        Missing: OpenVINO is asked for and not installed.
    """

    def __init__(
        self,
        encoder: Encoder,
        precision: str = "auto",
        sample: Sequence[str] = (),
        engine: Engine = "torch",
        task: Task = "document",
    ):
        if precision not in PRECISIONS:
            raise Refused(f"unknown precision {precision!r}; known: {', '.join(PRECISIONS)}")
        self.encoder, self.device = encoder, encoder.model.device
        if precision == "float16" and self.device.type == "cpu":
            raise Refused("float16 needs a GPU; on a CPU use bfloat16 or float32")
        self.tokens = TOKENS_CPU if self.device.type == "cpu" else TOKENS_GPU
        self.task, self.prompt = task, prompt_before(encoder.model, task)
        self.tokenizer, self.inputs = _tokenizer(encoder.model, self.prompt, task)
        self.openvino: OpenVINOModel | None = None
        self._set_engine("float32" if precision == "auto" else precision)
        if engine == "openvino" and precision != "auto":
            self._set_engine(precision, "openvino")
        elif precision == "auto" and sample:
            self._choose_engine(sample, engine)

    def tokenise_texts(self, texts: Sequence[str]) -> Ids | Texts:
        """Tokenise the texts, in another thread. Without a fast tokenizer the texts are returned unchanged."""
        if self.tokenizer is None:
            return list(texts)
        return [cut.ids for cut in self.tokenizer.encode_batch_fast([self.prompt + text for text in texts])]

    @property
    def engine(self) -> Engine:
        return "torch" if self.openvino is None else "openvino"

    def encode_float32(self, tokens: Ids | Texts, tick: Callable[[int], None] | None = None) -> torch.Tensor:
        """Return the vectors (n, d) float32 on the device, which may still be computing. `tick` gets the number of
        finished texts before each batch.
        """
        import torch

        with torch.inference_mode(), self._autocast():
            if self.tokenizer is None:
                return self._encode_with_library(cast(Texts, tokens), tick)
            ids = cast(Ids, tokens)
            if self.openvino is not None:
                return torch.from_numpy(self._with_openvino(self.openvino, ids, tick))
            done = 0
            vectors = torch.empty((len(ids), self.encoder.dimension), device=self.device)
            for rows in batch_rows(ids, self.tokens):
                if tick is not None:
                    tick(done)
                result = self.model(self._model_inputs([ids[row] for row in rows]))["sentence_embedding"][
                    :, : vectors.shape[1]
                ].float()
                if self.encoder.similarity == "cosine":
                    result = torch.nn.functional.normalize(result, dim=1)
                vectors[torch.from_numpy(rows).to(self.device)] = result
                done += len(rows)
            return vectors

    def _with_openvino(self, model: OpenVINOModel, ids: Ids, tick: Callable[[int], None] | None) -> np.ndarray:
        vectors = model.encode(ids, self.inputs["padding"], self.encoder.dimension, self.tokens, tick)
        return unit_vectors(vectors) if self.encoder.similarity == "cosine" else vectors

    def _model_inputs(self, ids: Ids) -> dict[str, Any]:
        """Return a batch in the model's format."""
        import torch

        arrays = pad_tokens(ids, self.inputs["tensors"], self.inputs["padding"])
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self.device.type == "cuda":
            tensors = {name: tensor.pin_memory() for name, tensor in tensors.items()}
        return self.inputs["rest"] | {
            name: tensor.to(self.device, non_blocking=True) for name, tensor in tensors.items()
        }

    def _encode_with_library(self, texts: Texts, tick: Callable[[int], None] | None = None) -> torch.Tensor:
        if tick is not None:
            tick(0)
        encode = self.model.encode_query if self.task == "query" else self.model.encode_document
        result: torch.Tensor = encode(
            texts,
            batch_size=self.encoder.settings.batch_size,
            show_progress_bar=False,
            convert_to_tensor=True,
            normalize_embeddings=self.encoder.similarity == "cosine",
        )
        return result.float()

    def _set_engine(self, precision: str, engine: Engine = "torch") -> None:
        import torch

        self.precision, self.openvino = precision, None
        if engine == "openvino":
            self.openvino = self._load_openvino(precision)
            return
        whole = precision != "float32" and self.device.type != "cpu"
        self.model = copy.deepcopy(self.encoder.model).to(getattr(torch, precision)) if whole else self.encoder.model

    def _autocast(self) -> AbstractContextManager:
        import torch

        if self.device.type == "cpu" and self.precision != "float32":
            return torch.autocast("cpu", torch.bfloat16)
        return nullcontext()

    def _load_openvino(self, precision: str) -> OpenVINOModel:
        if self.tokenizer is None or self.device.type != "cpu":
            raise Refused("OpenVINO runs encoders with a fast tokenizer, on a CPU")
        example = self._model_inputs([self.tokenizer.encode(self.prompt + text).ids for text in ("a b c", "a b")])
        tensors = {name: example[name] for name in self.inputs["tensors"]}
        network = convert_network(self.encoder.model, tensors, self.inputs["rest"])
        return OpenVINOModel(network, precision)

    def _choose_engine(self, sample: Sequence[str], engine: Engine) -> None:
        exact = self._encode_with_library(list(sample)).cpu().numpy()
        for precision, by in _engine_candidates(self.device, engine):
            try:
                self._set_engine(precision, by)
            except (Missing, Refused):
                continue
            if vectors_agree(self.encode_float32(self.tokenise_texts(sample)).cpu().numpy(), exact, OFF):
                return
        self._set_engine("float32")


class PassageEncoder(BulkEncoder):
    """A `BulkEncoder` for passages that returns 16-bit vectors. `sample`: passages."""

    def __init__(
        self,
        encoder: Encoder,
        precision: str = "auto",
        sample: Sequence[Passage] = (),
        engine: Engine = "torch",
    ):
        super().__init__(encoder, precision, [encoder.passage_text(passage) for passage in sample], engine)

    def tokenise(self, passages: Sequence[Passage]) -> Ids | Texts:
        """Tokenise passages as `tokenise_texts` does."""
        return self.tokenise_texts([self.encoder.passage_text(passage) for passage in passages])

    def encode(self, tokens: Ids | Texts, tick: Callable[[int], None] | None = None) -> torch.Tensor:
        """Return the result of `encode_float32` as float16."""
        import torch

        return self.encode_float32(tokens, tick).to(torch.float16)

    def encode_blocks(
        self,
        blocks: Iterable[Block],
        read_passages: Callable[[Block], Sequence[Passage]],
        write: Callable[[Block, np.ndarray], None],
        tick: Callable[[Block, int], None] | None = None,
    ) -> None:
        """Encode all blocks. While a block is encoded, threads read and tokenise the next block and write the previous
        one.
        """
        blocks = list(blocks)

        def prepare(block: Block) -> Ids | Texts:
            return self.tokenise(read_passages(block))

        def store(block: Block, vectors: torch.Tensor) -> None:
            write(block, vectors.cpu().numpy())

        with ThreadPoolExecutor(1) as readers, ThreadPoolExecutor(1) as writers:
            reading = [readers.submit(prepare, block) for block in blocks[:1]]
            writing: list[Future[None]] = []
            for number, block in enumerate(blocks):
                tokenised = reading.pop().result()
                reading += [readers.submit(prepare, following) for following in blocks[number + 1 : number + 2]]
                vectors = self.encode(tokenised, None if tick is None else partial(tick, block))
                if writing:
                    writing.pop().result()
                writing.append(writers.submit(store, block, vectors))
            if writing:
                writing.pop().result()


def vectors_agree(vectors: np.ndarray, exact: np.ndarray, tolerance: float) -> bool:
    """Return whether two sets of vectors agree, both by cosine and by distance. The distance must be at most
    `tolerance` times the typical distance between two texts. The cosine alone is not sufficient, because an encoder may
    place all texts in a narrow cone.
    """
    vectors, exact = vectors.astype(np.float64), exact.astype(np.float64)
    cosines = (vectors * exact).sum(1) / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(exact, axis=1))
    distances = np.linalg.norm(vectors - exact, axis=1)
    is_near = distances.max() <= tolerance * (typical_distance(exact) or 1)
    return bool(np.nan_to_num(cosines, nan=-1).min() >= MIN_COSINE and is_near)


def typical_distance(vectors: np.ndarray) -> float | None:
    """Return the median distance of two of the vectors (n, d); None for a single one."""
    apart = np.linalg.norm(vectors[:, None] - vectors, axis=2)[np.triu_indices(len(vectors), 1)]
    return float(np.median(apart)) if len(apart) else None


def _tokenizer(model: SentenceTransformer, prompt: str, task: Task) -> tuple[Any, dict[str, Any]]:
    """Return the model's fast (Rust) tokenizer, for use without its Python wrapper, and further inputs of a batch;
    (None, {}) if the model has no fast tokenizer.

    With the wrapper, which builds Python lists, 5,000 texts per second are tokenised; without it, 70,000. A test on
    sample texts checks that both give the model the same inputs.
    """
    import torch

    features = model.preprocess(list(SAMPLE_TEXTS), prompt=prompt or None, task=task)
    towers = getattr(model[0], "sub_modules", {})
    wrapper: Any = getattr(towers[task][0] if task in towers else model[0], "tokenizer", None)
    if not getattr(wrapper, "is_fast", False):
        return None, {}
    tokenizer = copy.deepcopy(wrapper.backend_tokenizer)  # with the truncation set above
    tokenizer.no_padding()
    tensors = {name: value for name, value in features.items() if isinstance(value, torch.Tensor)}
    expected = {
        "padding": wrapper.pad_token_id,
        "tensors": set(tensors),
        "rest": {k: v for k, v in features.items() if k not in tensors},
    }
    if not {"input_ids", "attention_mask"} <= set(tensors) <= TENSORS or wrapper.pad_token_id is None:
        return None, {}
    for row, text in enumerate(SAMPLE_TEXTS):
        ids = tokenizer.encode(prompt + text).ids
        wide = tensors["input_ids"].shape[1]
        padded = torch.tensor(ids + [wrapper.pad_token_id] * (wide - len(ids)))
        mask = torch.tensor([1] * len(ids) + [0] * (wide - len(ids)))
        zeros = tensors.get("token_type_ids", torch.zeros(1))
        if (
            not (torch.equal(padded, tensors["input_ids"][row]) and torch.equal(mask, tensors["attention_mask"][row]))
            or zeros.any()
        ):
            return None, {}
    return tokenizer, expected


def _engine_candidates(device: torch.device, engine: Engine) -> list[tuple[str, Engine]]:
    """Return the precisions and engines that "auto" tries, fastest first."""
    fast_options: list[tuple[str, Engine]] = [(precision, "torch") for precision in quick_precisions(device.type)]
    if engine == "torch" or device.type != "cpu":
        return fast_options
    return [*((precision, "openvino") for precision, _ in fast_options), ("float32", "openvino"), *fast_options]


def quick_precisions(device: str) -> tuple[str, ...]:
    """Return the 16-bit precisions that are faster than float32 on a type of device ("cpu", "cuda")."""
    import torch

    if device == "cuda":
        return ("bfloat16", "float16") if torch.cuda.is_bf16_supported(including_emulation=False) else ("float16",)
    return ("bfloat16",) if device == "cpu" and cpu_multiplies_bfloat16() else ()

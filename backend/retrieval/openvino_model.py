"""Run an encoder's network on a CPU with OpenVINO, with the same weights and faster matrix products.

For short texts on few cores, OpenVINO is faster than PyTorch. It is an optional dependency (`pip install
"blindspot[openvino]"`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.retrieval.token_batches import Ids, batch_rows, pad_tokens
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}
"""Blindspot's names of precisions, and OpenVINO's names for them."""
TOKENS = 2048  # in a batch, including padding


def openvino() -> Any:
    """Import OpenVINO with its usage statistics switched off, which it would otherwise send over the network.

    Raises Missing if OpenVINO is not installed.
    """
    if "openvino" not in sys.modules:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # an import of it fails, as if absent
    import openvino as module

    return module


def has_openvino() -> bool:
    """Return whether OpenVINO is installed."""
    from importlib.util import find_spec

    return find_spec("openvino") is not None


class OpenVINOModel:
    """A sentence-transformers model that OpenVINO runs.

    Args:
        network: what `converted` returned, or the .xml file in which `save` stored it.
        precision: a key of `PRECISIONS`.

    Raises Missing if OpenVINO is not installed.
    """

    def __init__(self, network: Any, precision: str):
        module = openvino()
        self.precision, self.version = precision, version()
        self._network = module.Core().read_model(network) if isinstance(network, Path) else network
        compiled = module.Core().compile_model(
            self._network,
            "CPU",
            {
                "PERFORMANCE_HINT": "THROUGHPUT",
                "INFERENCE_PRECISION_HINT": PRECISIONS[precision],
                "INFERENCE_NUM_THREADS": threads(),
            },
        )
        self.inputs = tuple(port.get_any_name() for port in compiled.inputs)
        self._queue = module.AsyncInferQueue(compiled)

    def encode(
        self,
        ids: Ids,
        padding: int,
        dimension: int,
        tokens_per_batch: int = TOKENS,
        tick: Callable[[int], None] | None = None,
    ) -> np.ndarray:
        """Return the vectors (n, dimension) float32 of tokenised texts.

        Args:
            padding: the token id of padding.
            dimension: the model's own vectors are cut to it.
            tokens_per_batch: limit of tokens in a batch; at most `TOKENS` are used.
            tick: gets the number of texts handed over, before each batch.
        """
        vectors = np.empty((len(ids), dimension), np.float32)

        def store(request: Any, rows: np.ndarray) -> None:
            vectors[rows] = request.get_output_tensor(0).data[:, :dimension]

        self._queue.set_callback(store)
        done = 0
        for rows in batch_rows(ids, min(tokens_per_batch, TOKENS)):
            if tick is not None:
                tick(done)
            self._queue.start_async(pad_tokens([ids[row] for row in rows], self.inputs, padding), userdata=rows)
            done += len(rows)
        self._queue.wait_all()
        return vectors

    def save(self, path: Path) -> None:
        """Write the network to a .xml file, and its weights to a .bin file in the same folder."""
        openvino().save_model(self._network, path, compress_to_fp16=False)


def version() -> str:
    """Return the version of OpenVINO."""
    return str(openvino().get_version()).split("-")[0]


def threads() -> int:
    """Return the number of threads that PyTorch would use, which OMP_NUM_THREADS sets."""
    import torch

    return int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())


def convert_network(model: SentenceTransformer, inputs: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Return the model's network for OpenVINO.

    Args:
        model: on the CPU.
        inputs: an example batch: tensors (n, t) int64 by name, as the model's `forward` takes them.
        arguments: the other entries of a batch, the same for every batch.

    Raises:
        Missing: OpenVINO is not installed.
        Refused: OpenVINO cannot convert this model.
    """
    import torch
    from transformers.utils import logging

    module, names = openvino(), sorted(inputs)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return self.model({**dict(zip(names, tensors, strict=True)), **arguments})["sentence_embedding"]

    level = logging.get_verbosity()
    logging.set_verbosity_error()  # tracing reads every attribute, and transformers warns of one that is not set
    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing warns of every branch on a shape
            example = tuple(inputs[name] for name in names)
            network = module.convert_model(Network().eval(), example_input=example)
        for port, name in zip(network.inputs, names, strict=True):
            port.get_tensor().set_names({name})
            port.get_node().set_partial_shape(module.PartialShape([-1, -1]))
        network.validate_nodes_and_infer_types()
    except Exception as error:  # PyTorch's tracing and OpenVINO raise many kinds
        raise Refused(f"OpenVINO cannot convert this model ({str(error).strip().splitlines()[0][:160]})") from error
    finally:
        logging.set_verbosity(level)
    return network

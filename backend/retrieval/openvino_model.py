"""An encoder's network on a CPU through OpenVINO: the same weights, faster matrix products, and 8-bit integers.

PyTorch is not built for short texts on few cores; OpenVINO is. It is an extra (`pip install "blindspot[openvino]"`).
Integers need NNCF's post-training quantisation (the transformer scheme with SmoothQuant), calibrated on passages of
the study.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from db.errors import Missing, Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

NEEDED = 'this needs OpenVINO; install it with: pip install "blindspot[openvino]"'
PRECISIONS = {"float32": "f32", "bfloat16": "bf16", "int8": "bf16"}
"""Our names of precisions, and what OpenVINO calculates in where it has no integers."""

Batch = Mapping[str, np.ndarray]


def openvino() -> Any:
    """Import OpenVINO without its usage statistics: it would send them over the network without asking.

    Raises Missing if OpenVINO is not installed.
    """
    if "openvino" not in sys.modules:
        sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # an import of it fails, as if absent
    try:
        import openvino as module
    except ImportError:
        raise Missing(NEEDED) from None
    return module


def has_openvino() -> bool:
    """Whether OpenVINO is installed."""
    from importlib.util import find_spec

    return find_spec("openvino") is not None


class OpenVINOModel:
    """A sentence-transformers model that OpenVINO runs.

    Args:
        model: on the CPU.
        inputs: an example batch: tensors (n, t) int64 by name, as the model's `forward` takes them.
        rest: the other entries of a batch, the same for every batch.
        precision: a key of `PRECISIONS`.
        calibration: batches of passages; only "int8" reads them.

    Raises:
        Missing: OpenVINO, or NNCF for "int8", is not installed.
        Refused: OpenVINO cannot convert this model.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        inputs: Mapping[str, Any],
        rest: Mapping[str, Any],
        precision: str,
        calibration: Sequence[Batch] = (),
    ):
        module = openvino()
        self.precision, self.version = precision, module.get_version().split("-")[0]
        converted = _converted(module, model, inputs, rest)
        if precision == "int8":
            converted = _quantised(converted, calibration)
        self._compiled = module.Core().compile_model(
            converted,
            "CPU",
            {
                "PERFORMANCE_HINT": "THROUGHPUT",
                "INFERENCE_PRECISION_HINT": PRECISIONS[precision],
                "INFERENCE_NUM_THREADS": threads(),
            },
        )
        self._queue = module.AsyncInferQueue(self._compiled)

    def run(self, batches: Iterable[tuple[np.ndarray, Batch]], vectors: np.ndarray) -> Iterator[int]:
        """Encode batches, each given with the rows of `vectors` (n, d) that it fills. Yields the number of texts handed
        over so far; when it ends, every row is filled.
        """

        def store(request: Any, rows: np.ndarray) -> None:
            vectors[rows] = request.get_output_tensor(0).data[:, : vectors.shape[1]]

        self._queue.set_callback(store)
        done = 0
        for rows, batch in batches:
            yield done
            self._queue.start_async(dict(batch), userdata=rows)
            done += len(rows)
        self._queue.wait_all()


def threads() -> int:
    """The number of threads that PyTorch would use; OMP_NUM_THREADS sets it."""
    import torch

    return int(os.environ.get("OMP_NUM_THREADS") or torch.get_num_threads())


def _converted(module: Any, model: SentenceTransformer, inputs: Mapping[str, Any], rest: Mapping[str, Any]) -> Any:
    import torch

    names = sorted(inputs)

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return self.model({**dict(zip(names, tensors, strict=True)), **rest})["sentence_embedding"]

    try:
        with torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing warns of every branch on a shape
            example = tuple(inputs[name] for name in names)
            converted = module.convert_model(Network().eval(), example_input=example)
        for port, name in zip(converted.inputs, names, strict=True):
            port.get_tensor().set_names({name})
            port.get_node().set_partial_shape(module.PartialShape([-1, -1]))
        converted.validate_nodes_and_infer_types()
    except Exception as error:  # PyTorch's tracing and OpenVINO raise many kinds
        raise Refused(f"OpenVINO cannot convert this model ({str(error).strip().splitlines()[0][:160]})") from error
    return converted


def _quantised(converted: Any, calibration: Sequence[Batch]) -> Any:
    import logging

    try:
        import nncf
    except ImportError:
        raise Missing(f"int8: {NEEDED}") from None
    nncf.set_log_level(logging.ERROR)
    batches = [dict(batch) for batch in calibration]
    if not batches:
        raise Refused("int8 needs passages to calibrate on; this study has none")
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # its progress bars
        return nncf.quantize(
            converted,
            nncf.Dataset(batches),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(batches),
        )

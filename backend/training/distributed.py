"""Distributed training in several processes: ranks, and gathering vectors with exact gradients.

A process started by `torchrun` reads its rank and the addresses of the other processes from the environment. NCCL is
used for GPUs, gloo for CPUs.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module


def is_distributed() -> bool:
    """Return whether a launcher such as `torchrun` started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Return whether this is the main process, which reports, writes files and runs the job. True if there is only one
    process.
    """
    return int(os.environ.get("RANK", "0")) == 0


def shard_and_device(device: str | None) -> tuple[str, str | None]:
    """Return the shard of this process, as in "2/8", and its device: a GPU of its own where this machine has GPUs."""
    import torch

    if device is None and torch.cuda.is_available():
        device = f"cuda:{os.environ['LOCAL_RANK']}"
    return f"{int(os.environ['RANK']) + 1}/{os.environ['WORLD_SIZE']}", device


def join_processes() -> None:
    """Wait until every process arrives here, however long the others take. Not for processes that train together, which
    use `wait_for_all`.
    """
    from torch import distributed

    distributed.init_process_group("gloo", timeout=timedelta(days=30))
    distributed.barrier()
    distributed.destroy_process_group()


def rank() -> int:
    """Return the rank of this process; 0 if there is only one."""
    from torch import distributed

    return distributed.get_rank() if _is_initialised() else 0


def world_size() -> int:
    """Return the number of processes that train together."""
    from torch import distributed

    return distributed.get_world_size() if _is_initialised() else 1


def gather_tensors(rows: Tensor) -> Tensor:
    """Return the rows (n, ...) of all w processes, (w * n, ...), in the order of ranks. Every process must pass the
    same number of rows.

    The gradient of a row, summed over all processes, is returned to the process that owns the row. (DPR's own code uses
    only the gradient from the process itself, which after averaging is one w-th of it.)
    """
    if not _is_initialised():
        return rows
    import warnings

    from sentence_transformers.util import all_gather, all_gather_with_grad

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch will rename the function that the library calls
        return all_gather_with_grad(rows) if rows.is_floating_point() else all_gather(rows)


def average_gradients(model: Module) -> None:
    """Average the gradients over all processes. Every process must have gradients for the same weights."""
    if not _is_initialised():
        return
    import torch
    from torch import distributed

    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(together)
    together /= world_size()
    for gradient, part in zip(gradients, together.split([gradient.numel() for gradient in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def wait_for_all() -> None:
    """Wait until every process has called this function."""
    if _is_initialised():
        from torch import distributed

        distributed.barrier()


def _is_initialised() -> bool:
    from torch import distributed

    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1

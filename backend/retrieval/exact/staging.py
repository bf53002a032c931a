"""Copy rows from a memory map to a device, block by block. The next blocks are read and copied while products of the
current block are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

READERS = 8  # threads that read a block from the memory map; a single thread would wait for the disk page by page


class Staging:
    """Copies a range of rows of `vectors` (n, d) float16 to a device.

    It has two buffers in page-locked host memory and two on the device. One buffer is filled while the other is used.
    """

    def __init__(self, vectors: np.ndarray, start: int, end: int, block_rows: int, device: str):
        self._vectors, self._stop, self._device = vectors, end, device
        self._starts = range(start, end, block_rows)
        self._rows = min(block_rows, end - start)

    def blocks(self) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (first row, rows (m, d) float16 on the device). The next block overwrites the rows."""
        import torch

        shape, on_gpu = (self._rows, self._vectors.shape[1]), self._device.startswith("cuda")
        host = [torch.empty(shape, dtype=torch.float16, pin_memory=on_gpu) for _ in range(2)]
        on_device = [torch.empty(shape, dtype=torch.float16, device=self._device) for _ in range(2)] if on_gpu else host
        copies = _Copies(self._device) if on_gpu else None
        with ThreadPoolExecutor(READERS, "reading") as readers:
            coming = self._read_block(0, host[0], readers)
            for i, start in enumerate(self._starts):
                slot, count = i % 2, min(self._rows, self._stop - start)
                for read in coming:
                    read.result()
                if copies is not None:
                    copies.start_copy(slot, host[slot][:count], on_device[slot][:count])
                    copies.wait_for_host(1 - slot)
                coming = self._read_block(i + 1, host[1 - slot], readers) if i + 1 < len(self._starts) else []
                if copies is not None:
                    copies.wait_for_copy(slot)
                yield start, on_device[slot][:count]
                if copies is not None:
                    copies.record_use(slot)

    def _read_block(self, block_number: int, target: torch.Tensor, readers: ThreadPoolExecutor) -> list[Future]:
        start, stop = self._starts[block_number], min(self._starts[block_number] + self._rows, self._stop)
        bounds = np.linspace(start, stop, READERS + 1).astype(int).tolist()
        rows = target.numpy()
        return [
            readers.submit(np.copyto, rows[first - start : last - start], self._vectors[first:last])
            for first, last in zip(bounds, bounds[1:])
        ]


class _Copies:
    """Copies buffers on a separate CUDA stream. Two events per buffer mark that its copy is finished and that its rows
    have been used.
    """

    def __init__(self, device: str):
        import torch

        self._device, self._stream = device, torch.cuda.Stream(device)
        self._copied: list[torch.cuda.Event | None] = [None, None]
        self._used: list[torch.cuda.Event | None] = [None, None]

    def start_copy(self, buffer: int, source: torch.Tensor, target: torch.Tensor) -> None:
        import torch

        if (used := self._used[buffer]) is not None:
            self._stream.wait_event(used)
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
            self._copied[buffer] = self._stream.record_event()

    def wait_for_host(self, buffer: int) -> None:
        """Wait until the buffer's previous block has been copied from the host."""
        if (copied := self._copied[buffer]) is not None:
            copied.synchronize()

    def wait_for_copy(self, buffer: int) -> None:
        """Make the stream of the products wait for the copy."""
        import torch

        if (copied := self._copied[buffer]) is not None:
            torch.cuda.current_stream(self._device).wait_event(copied)

    def record_use(self, buffer: int) -> None:
        """Record an event after the work queued so far, which reads these rows."""
        import torch

        self._used[buffer] = torch.cuda.current_stream(self._device).record_event()

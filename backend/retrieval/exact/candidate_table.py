"""A table of the best rows found so far for each question, which all search threads fill."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.retrieval.exact.keys import EMPTY, LAST_ROW, keys_of, rows_of, scores_of
from blindspot.backend.retrieval.exact.products import RoundedQueries

if TYPE_CHECKING:
    import torch

CANDIDATES = 4  # limits of the candidates kept: in units of k, and
MORE_CANDIDATES = 256


class CandidateTable:
    """The candidate rows of each question, as sortable keys. A question's floor is a lower bound: all rows with a
    low-precision product above the floor are in the table.

    Threads do not wait for each other. Each thread puts its candidates into a queue, and the next thread that finds the
    table unlocked moves the whole queue into the table.

    Args:
        rounded: the questions.
        k: hits per question.
        columns: maximum number of rows in one call of `add`.
    """

    def __init__(self, queries: RoundedQueries, k: int, columns: int):
        import torch

        questions = len(queries.operand)
        self._rounded, self._k, self._limit = queries, k, CANDIDATES * k + MORE_CANDIDATES
        self._dtype = getattr(torch, queries.precision.scores)
        self._queue: deque[tuple[np.ndarray, np.ndarray]] = deque()
        self._in_use = threading.Lock()  # held by the thread that changes the table
        self._keys = np.empty((questions, self._limit + columns), np.int64)
        self._counts = np.zeros(questions, np.int64)  # of keys in each row of the table
        self._added, self._budget = 0, max(4096, questions * k)  # keys since the last cut, and their limit
        self._set_floor(np.full(questions, -np.inf, np.float32))

    def set_floors(self, maxima: np.ndarray) -> None:
        """Set the initial floors from products (q, m) float32 with some rows, or from maxima of products over disjoint
        groups of rows. Group maxima are valid because their k-th largest is at most the k-th largest product.
        """
        if maxima.shape[1] >= self._k:
            self._raise_floor(np.partition(maxima, maxima.shape[1] - self._k, axis=1)[:, -self._k])

    def add(self, start: int, products: torch.Tensor) -> None:
        """Add the products (q, m) of all questions with the m rows that start at row `start`. Each row may be added
        only once.
        """
        import torch

        passing = np.flatnonzero(self._above_floors(products))
        if not len(passing):
            return
        scores = products.view(-1)[torch.from_numpy(passing)].float().numpy()
        questions, columns = np.divmod(passing, products.shape[1])
        self._queue.append((questions, keys_of(scores, columns + start)))
        if self._in_use.acquire(blocking=False):
            try:
                self._flush_queue()
            finally:
                self._in_use.release()

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates (q, m) int32, padded with -1, and the floors (q,) float32. All threads must have
        finished adding.
        """
        self._flush_queue()
        self._drop_below_floors()
        width = self._counts.max(initial=1)
        present = np.arange(width) < self._counts[:, None]
        return np.where(present, rows_of(self._keys[:, :width]), np.int32(-1)), self._floor

    def _flush_queue(self) -> None:
        questions, capacity = self._keys.shape
        while self._queue:
            which, keys = self._queue.popleft()
            counts = np.bincount(which, minlength=questions)
            if (self._counts + counts).max() > capacity:
                self._drop_below_floors()
            # `which` ascends, so the keys of a question lie together; they go behind those in the table.
            offset = np.arange(questions) * capacity + self._counts - (counts.cumsum() - counts)
            self._keys.reshape(-1)[np.arange(len(keys)) + offset[which]] = keys
            self._counts += counts
            self._added += len(keys)
            if self._added > self._budget:
                self._drop_below_floors()

    def _drop_below_floors(self) -> None:
        """Sort the candidates of each question, raise the floors, and remove candidates below their floor."""
        width = self._counts.max()
        keys = self._keys[:, :width]
        keys[np.arange(width) >= self._counts[:, None]] = EMPTY
        keys.sort(axis=1)
        if width >= self._k:
            kth = scores_of(keys[:, self._k - 1])
            self._raise_floor(np.where(self._counts >= self._k, kth, np.float32(-np.inf)))
        self._counts = np.count_nonzero(keys <= keys_of(self._floor, LAST_ROW)[:, None], axis=1)
        crowded = np.flatnonzero(self._counts > self._limit)
        if len(crowded):
            floor = self._floor.copy()
            floor[crowded] = scores_of(keys[crowded, self._limit])  # the best candidate that is dropped
            self._set_floor(floor)
            self._counts[crowded] = self._limit
        self._added = 0

    def _raise_floor(self, kth_products: np.ndarray) -> None:
        """Raise the floors, given the k-th best product so far of each question, `kth_products` (q,). The floor is lower than
        `kth_products` by the maximum rounding errors of both rows, so that no row of the true top k is dropped.
        """
        self._set_floor(
            np.maximum(self._floor, self._round_down(kth_products - 2 * self._rounded.rounding_slack(kth_products)))
        )

    def _round_down(self, floor: np.ndarray) -> np.ndarray:
        """Round the floors down to representable products, so that a product equal to its floor compares as equal."""
        import torch

        nearest = torch.from_numpy(floor).to(self._dtype).double().numpy()
        step = 2.0**-6 * np.abs(np.where(np.isfinite(floor), floor, 0)) + 2.0**-24
        lower = torch.from_numpy(floor - step).to(self._dtype).double().numpy()
        return np.where(nearest <= floor, nearest, lower).astype(np.float32)

    def _set_floor(self, floor: np.ndarray) -> None:
        """Set the floors (q,), and their representation for fast comparison."""
        import torch

        narrow = torch.from_numpy(floor).to(self._dtype)
        sixteen = self._dtype != torch.float32 and bool((floor > 0).all())
        self._floor, self._compared = floor, (narrow.view(torch.int16).numpy() if sixteen else None, narrow)

    def _above_floors(self, products: torch.Tensor) -> np.ndarray:
        """Return which products are above the floors, (q, m) bool. Positive 16-bit floats are compared by their bits as
        integers, which is faster and gives the same order.
        """
        import torch

        bits, floor = self._compared
        if bits is not None:
            return products.view(torch.int16).numpy() > bits[:, None]
        if products.dtype == torch.float32:
            return products.numpy() > floor.numpy()[:, None]
        return (products > floor[:, None]).numpy()

"""Answer matching in several worker processes, each with its own connection to corpus.db.

`python -m blindspot.backend.text.answers.processes` runs a worker. It reads the answer table and then blocks of hits
from standard input, and writes to standard output which hits contain an answer. A worker ends when its input ends, so
no worker outlives the process that started it. Workers are not started with `multiprocessing`, because that would run
the caller's main module again, which may be a script without a guard, a Streamlit page or a command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import IO

import numpy as np

from blindspot.backend.text.answers.run import AnswerTable, HitBlock, Matcher, PlacedBlock
from blindspot.db.corpus import Corpus
from blindspot.db.errors import Refused

Results = SimpleQueue[tuple[np.ndarray, np.ndarray] | BaseException | None]


class MatcherPool:
    """Worker processes that match blocks. Use it as a context manager: it ends the workers, even after an error."""

    def __init__(self, corpus: Path, table: AnswerTable, count: int):
        self.corpus, self.table, self.count = corpus, table, count
        self.workers: list[subprocess.Popen[bytes]] = []
        self.threads: list[Thread] = []

    def __enter__(self) -> MatcherPool:
        # One thread per worker, because the arithmetic is small. Workers have sessions of their own, so Ctrl-C in the
        # terminal reaches only this process.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "blindspot.backend.text.answers.processes"]
        try:
            for _ in range(self.count):
                self.workers.append(
                    subprocess.Popen(
                        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
                    )
                )
        except BaseException:
            self._end_worker()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end_worker()

    def _end_worker(self) -> None:
        for worker in self.workers:
            worker.kill()
        for thread in self.threads:
            thread.join()
        for worker in self.workers:
            worker.wait()
            requests, results = _pipes(worker)
            results.close()
            # The buffer may still hold a request for the killed worker.
            with suppress(BrokenPipeError):
                requests.close()

    def match(self, blocks: Iterator[PlacedBlock]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Match each (positions, block). Yield (positions, whether each contains an answer) in order of completion."""
        lock, done = Lock(), Results()
        self.threads = [
            Thread(target=self._feed, args=(worker, blocks, lock, done), daemon=True) for worker in self.workers
        ]
        for thread in self.threads:
            thread.start()
        running = len(self.threads)
        while running:
            result = done.get()
            if isinstance(result, BaseException):
                raise result
            if result is None:
                running -= 1
            else:
                yield result

    def _feed(self, worker: subprocess.Popen[bytes], blocks: Iterator[PlacedBlock], lock: Lock, done: Results) -> None:
        """Send blocks to a worker one after another. Put its results into `done`, followed by None or by the error."""
        table = self.table
        requests, results = _pipes(worker)
        try:
            send(requests, json.dumps([str(self.corpus), table.rule, table.answers]).encode())
            send(requests, table.starts)
            send(requests, table.members)
            while True:
                with lock:
                    placed = next(blocks, None)
                if placed is None:
                    break
                positions, block = placed
                for array in (block.ordinals, block.ends, block.rows):
                    send(requests, array)
                packed = np.frombuffer(receive(results), np.uint8)
                done.put((positions, np.unpackbits(packed, count=len(positions)).astype(bool)))
        except (EOFError, OSError):
            done.put(Refused(f"an answer-matching worker died (status {worker.wait()}); try again"))
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)


def _pipes(worker: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    """Return the worker's standard input and output."""
    if worker.stdin is None or worker.stdout is None:
        raise ValueError("the worker was started without pipes")
    return worker.stdin, worker.stdout


def send(file: IO[bytes], content: bytes | np.ndarray) -> None:
    """Write one message: its length in 8 bytes, then its bytes."""
    view = (memoryview(content) if isinstance(content, bytes) else content.data).cast("B")
    file.write(len(view).to_bytes(8, "little"))
    file.write(view)
    file.flush()


def receive(file: IO[bytes]) -> bytes:
    """Read the next message. Raises EOFError at the end of the file."""
    length = file.read(8)
    content = file.read(int.from_bytes(length, "little"))
    if len(length) < 8 or len(content) < int.from_bytes(length, "little"):
        raise EOFError
    return content


def main(requests: IO[bytes], results: IO[bytes]) -> None:
    """Match blocks until the input ends."""
    corpus, rule, answers = json.loads(receive(requests))
    starts, members = np.frombuffer(receive(requests), np.int64), np.frombuffer(receive(requests), np.int32)
    matcher = Matcher(Corpus(corpus), AnswerTable(rule, answers, starts, members))
    while True:
        block = HitBlock(*(np.frombuffer(receive(requests), np.int32) for _ in range(3)))
        send(results, np.packbits(matcher.match(block)))


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        pass

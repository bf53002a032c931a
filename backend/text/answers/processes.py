"""Answer matching in several processes, each with its own connection to corpus.db.

`python -m backend.text.answers.processes` is one of them: it reads what is asked, then blocks, from its standard input, and
writes which hits hold an answer to its standard output, until the input ends. So none outlives the process that started it.
Standard input and not `multiprocessing`, which runs the main module of the process that calls once more: a script without
a guard, a Streamlit page, a command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import BinaryIO

import numpy as np

from backend.text.answers.run import Asked, Block, Matcher
from db.corpus import Corpus
from db.errors import Refused


class Processes:
    """Processes that decide blocks. A context manager: at its end they are gone, whatever happened inside."""

    def __init__(self, corpus: Path, asked: Asked, count: int):
        self.corpus, self.asked, self.count = corpus, asked, count
        self.started: list[subprocess.Popen] = []
        self.threads: list[Thread] = []

    def __enter__(self) -> Processes:
        # One thread each: the arithmetic here is small. A session of their own: Ctrl-C on the terminal is for the process that waits.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "backend.text.answers.processes"]
        try:
            for _ in range(self.count):
                self.started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                                                     start_new_session=True))  # fmt: skip
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.started:
            process.kill()
        for thread in self.threads:
            thread.join()
        for process in self.started:
            process.wait()
            process.stdout.close()
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass  # what stood in the buffer is for nobody

    def match(self, blocks: Iterator[tuple[np.ndarray, Block]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(positions, which of them hold an answer) of each (positions, block), in the order in which they are done."""
        done, lock = SimpleQueue(), Lock()
        self.threads = [
            Thread(target=self._feed, args=(process, blocks, lock, done), daemon=True) for process in self.started
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

    def _feed(self, process: subprocess.Popen, blocks: Iterator, lock: Lock, done: SimpleQueue) -> None:
        """Give a process one block after another. Its results, then None or what went wrong, go to `done`."""
        asked = self.asked
        try:
            for part in (
                json.dumps([str(self.corpus), asked.rule, asked.answers]).encode(),
                asked.starts,
                asked.members,
            ):
                send(process.stdin, part)
            while True:
                with lock:
                    positions, block = next(blocks, (None, None))
                if block is None:
                    break
                for part in (block.ordinals, block.ends, block.rows):
                    send(process.stdin, part)
                packed = np.frombuffer(receive(process.stdout), np.uint8)
                done.put((positions, np.unpackbits(packed, count=len(positions)).astype(bool)))
        except (EOFError, OSError):
            done.put(
                Refused(
                    f"a process that matched answers ended before its work was done (status {process.wait()}); try again"
                )
            )
        except BaseException as error:
            done.put(error)
        else:
            done.put(None)


def send(file: BinaryIO, content: bytes | np.ndarray) -> None:
    """One message: its length in 8 bytes, then the bytes."""
    content = memoryview(content).cast("B")
    file.write(len(content).to_bytes(8, "little"))
    file.write(content)
    file.flush()


def receive(file: BinaryIO) -> bytes:
    """The next message. Raises EOFError where there is none."""
    length = file.read(8)
    content = file.read(int.from_bytes(length, "little"))
    if len(length) < 8 or len(content) < int.from_bytes(length, "little"):
        raise EOFError
    return content


def main(requests: BinaryIO, results: BinaryIO) -> None:
    """Decide blocks until there are no more."""
    corpus, rule, answers = json.loads(receive(requests))
    starts, members = np.frombuffer(receive(requests), np.int64), np.frombuffer(receive(requests), np.int32)
    matcher = Matcher(Corpus(corpus), Asked(rule, answers, starts, members))
    while True:
        block = Block(*(np.frombuffer(receive(requests), np.int32) for _ in range(3)))
        send(results, np.packbits(matcher.match(block)))


if __name__ == "__main__":
    try:
        main(sys.stdin.buffer, sys.stdout.buffer)
    except (EOFError, BrokenPipeError):
        pass

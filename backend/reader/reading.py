"""Let a reader extract answers from a run's top k passages of each question, for all k in one pass.

The scores of a passage do not depend on the other passages, so one pass over the top `depth` passages gives the answer
at every k up to `depth`. The result ("reading") is in `runs/<run>/answers-read.<reader>/`: arrays, predictions.jsonl
for other programs, and manifest.json, which is written last. Until then, results for blocks of 32 questions are in
`runs/<run>/.reading-<reader>/`, from which a killed job resumes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.backend.core.arrays import open_array
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import (
    atomic_folder,
    read_json,
    read_manifest,
    text_sha256,
    write_json,
    write_manifest,
)
from blindspot.backend.core.runs import Run
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.reader.best_span import ANSWER_TOKENS
from blindspot.backend.reader.examples import run_hash
from blindspot.backend.reader.reader import PassageReadings, Reader, select_answer
from blindspot.backend.reader.settings import ReadingSettings
from blindspot.db.errors import Missing, Refused

KS = (1, 5, 10, 20, 50, 100)
"""The values of k at which answers are stored and measured, up to the depth of the run."""
FOLDER = "answers-read."
ARRAYS = ("relevance", "spans", "scores", "probabilities")
PREDICTIONS = "predictions.jsonl"
QUESTIONS_PER_SHARD = 32  # questions
VERSION = 1  # version of the computation of readings


class Reading:
    """The stored output of a reader for a run.

    Arrays are memory maps, row i is the run's question i: relevance, scores, probabilities (q, depth) float32 and
    spans (q, depth, 2) int32, as in `PassageReadings`.
    """

    def __init__(self, run: Run, folder: Path, manifest: dict):
        self.run, self.folder, self.manifest = run, folder, manifest
        self.name, self.reader = f"{run.name} read by {manifest['reader']}", manifest["reader"]
        self.relevance, self.spans, self.scores, self.probabilities = (
            open_array(folder / f"{name}.npy", "delete its folder and read the run again") for name in ARRAYS
        )

    @classmethod
    def open(cls, study: Study, run: str | Run, reader: str) -> Reading:
        """Open a reading.

        Raises Missing if the reader has not read the run, and Refused if the run was replaced since then.
        """
        opened = study.run(run) if isinstance(run, str) else run
        folder = opened.folder / f"{FOLDER}{check_name(reader, 'reader')}"
        manifest = read_manifest(folder)
        if manifest is None:
            known = ", ".join(readings_of(opened)) or "none yet"
            raise Missing(
                f"the reader {reader!r} has not read run {opened.name!r} (readers of this run: {known}); use "
                f"'blindspot read --run {opened.name} --reader {reader}'"
            )
        if manifest["run_hash"] != run_hash(opened):
            raise Refused(f"run {opened.name!r} was replaced since {reader!r} read it; read the run again")
        return cls(opened, folder, manifest)

    @property
    def depth(self) -> int:
        return self.manifest["depth"]

    @property
    def ks(self) -> list[int]:
        """Return the values of k for which predictions.jsonl has answers."""
        return self.manifest["ks"]

    def selected(self, k: int) -> np.ndarray:
        """Return the column of the passage that gives the predicted answer at k, (q,) int64; -1 if no
        passage was read.
        """
        return select_answer(self.relevance, self.scores, k)

    def selection_probability(self, row: int, column: int, k: int) -> float:
        """Return P_selected (equation 5) of a passage among the top k."""
        relevance = self.relevance[row, :k][np.isfinite(self.scores[row, :k])].astype(np.float64)
        return float(np.exp(self.relevance[row, column] - relevance.max()) / np.exp(relevance - relevance.max()).sum())

    def answers(
        self, study: Study, ks: Sequence[int], rows: Sequence[int] | None = None
    ) -> dict[int, list[str | None]]:
        """Return the predicted answers at each k: the text of the best span of the selected passage, None if no passage
        was read.
        """
        rows = list(range(len(self.relevance))) if rows is None else list(rows)
        columns = {k: self.selected(k)[rows] for k in ks}
        places = sorted(
            {(row, int(at)) for chosen in columns.values() for row, at in zip(rows, chosen, strict=True) if at >= 0}
        )
        ordinals = [int(self.run.hits.ordinals[place]) for place in places]
        texts = dict(zip(places, (passage.text for passage in study.corpus.passages(ordinals)), strict=True))
        predictions = {place: text[slice(*self.spans[place].tolist())] for place, text in texts.items()}
        return {
            k: [predictions.get((row, int(column))) for row, column in zip(rows, chosen, strict=True)]
            for k, chosen in columns.items()
        }


def readings_of(run: Run) -> dict[str, dict]:
    """Return the readers that have read a run, oldest first: name to manifest."""
    manifests = [
        manifest for folder in run.folder.glob(f"{FOLDER}*") if (manifest := read_manifest(folder)) is not None
    ]
    return {manifest["reader"]: manifest for manifest in sorted(manifests, key=lambda each: each["made"])}


@job("read", extras=("dense",))
@named_settings(ReadingSettings)
def read(study: Study, run: str, reader: str, settings: ReadingSettings, progress: Progress | None = None) -> Reading:
    """Read the top max(ks) passages of each question of a run (a job). Stored readings with the same settings are
    reused.

    Args:
        reader: a reader of the study, or a folder or Hugging Face name of a `DPRReader`.

    Raises:
        Missing: an unknown run or reader.
        Refused: a run without hits, a k beyond its depth, or a reader with another model's tokenizer.
    """
    opened = study.run(run)
    cut_offs = _cut_offs(opened, settings.ks)
    loaded = Reader.open(study, reader, settings.device, settings.batch, settings.precision)
    called = check_name(settings.name or Path(reader).name, "reader")
    about = {
        "run": run,
        "run_hash": run_hash(opened),
        "reader": called,
        "reader_hash": loaded.hash,
        "tokens": loaded.inputs.limit,
        "answer_tokens": ANSWER_TOKENS,
        "precision": "bfloat16" if loaded.half else "float32",
        "version": VERSION,
    }
    target = opened.folder / f"{FOLDER}{called}"
    with study.lock_part(f"runs/{run}.{called}"):
        before = read_manifest(target)
        same = before is not None and loaded.hash and all(before[key] == about[key] for key in about)
        if before is not None and same and before["depth"] >= cut_offs[-1]:
            return Reading(opened, target, before)
        working = opened.folder / f".reading-{called}"
        parts = _ReadingShards(working, about | {"depth": cut_offs[-1]})
        began = time.monotonic()
        done = sum(
            _read_shard(study, opened, loaded, parts, begin, cut_offs[-1], progress)
            for begin in range(0, len(opened.hits), QUESTIONS_PER_SHARD)
        )
        seconds = time.monotonic() - began
        with atomic_folder(target) as building:
            parts.join(building, len(opened.hits))
            result = Reading(opened, building, about | {"depth": cut_offs[-1], "ks": cut_offs})
            _write_predictions(study, result)
            took = {
                "kind": "reading",
                "questions": len(opened.hits),
                "device": loaded.device,
                "batch": loaded.batch,
                "seconds": round(seconds, 2),
                "seconds_per_question": round(seconds / done, 4) if done else None,
            }
            write_manifest(building, result.manifest | took)
        shutil.rmtree(working)
    return Reading.open(study, opened, called)


def _cut_offs(run: Run, ks: Sequence[int] | None) -> list[int]:
    """Return ascending values of k. Raises Refused for a k beyond the depth of the run."""
    n_columns = int((np.asarray(run.hits.ordinals) >= 0).any(axis=0).sum()) if len(run.hits) else 0
    if not n_columns:
        raise Refused(f"run {run.name!r} has no hits: there is nothing to read")
    if ks is None:
        return sorted({k for k in KS if k < n_columns} | {min(n_columns, KS[-1])})
    if not ks or min(ks) < 1 or max(ks) > n_columns:
        raise Refused(
            f"run {run.name!r} has up to {n_columns} passages per question; k must be from 1 to {n_columns}, not "
            f"{max(ks, default=0)}"
        )
    return sorted(set(ks))


def _read_shard(
    study: Study,
    run: Run,
    reader: Reader,
    shards: _ReadingShards,
    first_question: int,
    depth: int,
    progress: Progress | None,
) -> int:
    """Read the passages of one block of questions and store the result. Returns the number of questions, or 0 if the
    block was stored before.
    """
    if progress is not None:
        progress(first_question, len(run.hits), f"reading {run.name}")
    if shards.has_shard(first_question):
        return 0
    rows = range(first_question, min(first_question + QUESTIONS_PER_SHARD, len(run.hits)))
    found = []
    for row, question in zip(rows, study.questions.with_ids([run.question_ids[row] for row in rows]), strict=True):
        if progress is not None:
            progress(row, len(run.hits), f"reading {run.name}")
        ordinals = np.asarray(run.hits.ordinals[row, :depth])
        present = np.flatnonzero(ordinals >= 0)
        readings = reader.read(question.text, study.corpus.passages(ordinals[present].tolist()))
        whole = PassageReadings.empty(depth)
        for name in ARRAYS:
            getattr(whole, name)[present] = getattr(readings, name)
        found.append(whole)
    shards.write(first_question, {name: np.stack([getattr(each, name) for each in found]) for name in ARRAYS})
    return len(rows)


class _ReadingShards:
    """The stored blocks ("shards") of a reading in progress, in the order of the questions. Shards made with other
    settings are deleted.
    """

    def __init__(self, folder: Path, description: dict):
        self.folder, path = folder, folder / "about.json"
        fingerprint = {"fingerprint": text_sha256(json.dumps(description, sort_keys=True))}
        if not path.is_file() or read_json(path) != fingerprint or not description["reader_hash"]:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            write_json(path, fingerprint)

    def has_shard(self, first_question: int) -> bool:
        return self._path(first_question).is_file()

    def write(self, first_question: int, arrays: dict[str, Any]) -> None:
        partial = self.folder / "partial.npz"
        np.savez(partial, **arrays)
        partial.replace(self._path(first_question))

    def join(self, target: Path, questions: int) -> None:
        paths = [self._path(begin) for begin in range(0, questions, QUESTIONS_PER_SHARD)]
        for name in ARRAYS:
            np.save(target / f"{name}.npy", np.concatenate([np.load(path, allow_pickle=False)[name] for path in paths]))

    def _path(self, first_question: int) -> Path:
        return self.folder / f"part-{first_question:08d}.npz"


def _write_predictions(study: Study, reading: Reading) -> None:
    with open(reading.folder / PREDICTIONS, "w", encoding="utf-8") as file:
        for line in _predictions(study, reading):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _predictions(study: Study, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield the lines of predictions.jsonl, one for each question: at each k the answer, its passage and rank, its
    character span in the passage's text, and its scores.
    """
    ids, chosen = reading.run.question_ids, {k: reading.selected(k) for k in reading.ks}
    for begin in range(0, len(ids), QUESTIONS_PER_SHARD):
        rows = range(begin, min(begin + QUESTIONS_PER_SHARD, len(ids)))
        answers = reading.answers(study, reading.ks, rows)
        places = [(row, int(chosen[k][row])) for row in rows for k in reading.ks]
        passages = study.corpus.passages(max(0, int(reading.run.hits.ordinals[place])) for place in places)
        named = dict(zip(places, (passage.id for passage in passages), strict=True))
        for row in rows:
            said = ((k, int(chosen[k][row]), answers[k][row - begin]) for k in reading.ks)
            yield {
                "question": ids[row],
                "predictions": [
                    {"k": k, "answer": answer}
                    | ({} if answer is None else {"passage": named[row, at]} | _scores_dict(reading, row, at, k))
                    for k, at, answer in said
                ],
            }


def _scores_dict(reading: Reading, row: int, k_index: int, k: int) -> dict[str, Any]:
    return {
        "rank": k_index + 1,
        "span": reading.spans[row, k_index].tolist(),
        "relevance": float(reading.relevance[row, k_index]),
        "selected": reading.selection_probability(row, k_index, k),
        "score": float(reading.scores[row, k_index]),
        "probability": float(reading.probabilities[row, k_index]),
    }

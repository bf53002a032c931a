"""The papers' experiments at full size, one seed an item, and the question that no paper asks: can an encoder of
MiniLM's size answer EntityQuestions' relations as BM25 does, if it is trained on other relations?

An item keeps the values of one seed. Once all seeds of an experiment are there, on whichever machine they were
measured, `verdict` judges the experiment's claims over all of them, with the functions of `blindspot experiment`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.gpu.inputs import DATASET, PackedHits
from benchmarks.gpu.results import Row
from blindspot.backend.core.manifest import write_json
from blindspot.backend.experiments.hits import Bm25Hits, Bm25Index, HybridHits, RunPart
from blindspot.backend.experiments.papers import ExperimentDescription
from blindspot.backend.experiments.parts import Part
from blindspot.backend.experiments.plan import (
    Cell,
    Experiment,
    ExperimentPlan,
    PaperClaim,
    Setting,
    dense_row,
    success_cells,
)
from blindspot.backend.experiments.running import (
    all_parts,
    experiment_named,
    hashable_options,
    make_parts,
    measure_plan,
    plan_without,
)
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing

SEEDS = (0, 1, 2)
TRAIN, DEV = f"{DATASET}/train", f"{DATASET}/dev"

# Relations alternate in the order of their ids. The split was fixed before any training.
SEEN = ("P17", "P20", "P36", "P50", "P106", "P127", "P136", "P170", "P176", "P276", "P413", "P740")
UNSEEN = ("P19", "P26", "P40", "P69", "P112", "P131", "P159", "P175", "P264", "P407", "P495", "P800")

TEXTS: dict[str, Any] = {"question_tokens": 32, "passage_tokens": 128}
STEPS: dict[str, Any] = {**TEXTS, "learning_rate": 3e-5, "epochs": 10.0}
COMMON: dict[str, Any] = {"train": [TRAIN], "on": DEV, "depth": 20}
CROSS: dict[str, Any] = {"tokens": 160, "negatives": 1, "batch": 32, "epochs": 2.0, "learning_rate": 1e-5}
READER: dict[str, Any] = {"tokens": 256, "passages": 16, "batch": 16, "steps": 400, "depth": 20, "read": 20}
ASKED_FOR: dict[str, dict[str, Any]] = {
    "strategies": {**COMMON, "ks": [5, 20], "batches": [64], "training": STEPS, "cross": CROSS},
    "unseen-relations": {**COMMON, "ks": [1, 5, 20, 100], "training": {**STEPS, "batch": 256}},
    "finetune": {**COMMON, "ks": [5, 20], "relations": ["P26", "P170"], "training": {**TEXTS, "steps": 500}},
    "negatives": {**COMMON, "ks": [1, 5, 20], "batches": [8, 32, 128], "training": {**TEXTS, "steps": 500}},
    "random-negatives": {**COMMON, "ks": [1, 5, 20], "batches": [8, 64, 512], "training": {**TEXTS, "steps": 500}},
    "specialised": {**COMMON, "ks": [5, 20], "training": {"question_tokens": 32, "steps": 200, "batch": 24}},
    "denoised-by-rank": {**COMMON, "ks": [5, 20], "batches": [64], "training": STEPS, "cross": CROSS},
    "augmentation-size": {**COMMON, "ks": [5, 20], "batches": [64], "training": STEPS, "cross": CROSS},
    "end-to-end": {**COMMON, "ks": [1, 5], "measured": 1000, "reader": READER},
}  # fmt: skip
"""By experiment, the fields of `Setting`. Later items reuse the models of earlier ones on the same machine."""
FEW = {"steps": 3, "evaluate_every": 3, "held_out": 4}
SMALL: dict[str, Any] = {
    "small": True,
    "training": {**FEW, "passage_tokens": 32, "pool": 20},
    "cross": {**FEW, "tokens": 64, "batch": 4, "pairs": 8},
    "reader": {"tokens": 64, "passages": 2, "batch": 2, "steps": 2, "depth": 5, "read": 2, "held_out": 4},
}
"""What `--small` gives an experiment, of the words that are in its entry of `ASKED_FOR`."""
MINUTES = {
    "strategies": 5, "unseen-relations": 2, "finetune": 4, "negatives": 5, "random-negatives": 4, "specialised": 4,
    "denoised-by-rank": 2, "augmentation-size": 4, "end-to-end": 5,
}  # fmt: skip
"""Estimated minutes of one seed on an H200."""


def unseen_relations(setting: Setting, bench: Workbench) -> ExperimentPlan:
    """BM25, MiniLM as it comes, and MiniLM trained on 12 relations, on the questions of the other 12."""
    from blindspot.backend.experiments.hits import DenseHits, Index

    asked, deepest = setting.question_selection(relations=UNSEEN), max(setting.ks)
    data = setting.data(mined=setting.mined(), policy="answer_match", relations=SEEN)
    cells = [
        *success_cells("BM25", [Bm25Hits(asked, deepest)], setting.ks, macro=True),
        *success_cells(
            "MiniLM as it comes", [DenseHits(asked, deepest, Index(setting.first_encoder))], setting.ks, macro=True
        ),
        *(_macro(cell) for cell in dense_row(setting, "trained on other relations", data, selection=asked)),
    ]
    at = f"Success@{setting.ks[-2] if len(setting.ks) > 1 else setting.ks[0]}"
    trained = ("trained on other relations", at)
    return ExperimentPlan(
        cells,
        [
            PaperClaim("training on other relations helps", trained, ("MiniLM as it comes", at)),
            PaperClaim(
                "the trained encoder is at most 2 points behind BM25", trained, ("BM25", at), minimum_gain=-0.02
            ),
        ],
        convention="Macro average over the 12 relations that no training question asks for. Success@k: the text of a "
        "passage in the top k contains an answer by DPR's rule.",
    )


def _macro(cell: Cell) -> Cell:
    return replace(cell, measures=tuple(replace(measure, macro=True) for measure in cell.measures))


def experiment(name: str) -> Experiment:
    if name != "unseen-relations":
        return experiment_named(name)
    about = ExperimentDescription(
        "EntityQuestions", "section 4", "Does an encoder of MiniLM's size generalise to unseen relations?"
    )
    return Experiment(name, about, unseen_relations)


def values_of_seed(bench: Workbench, name: str, given: Mapping[str, Any], hits: PackedHits, progress: Progress) -> dict:
    """Make what an experiment needs for the one seed in `given`. Returns the values of each cell, packed.

    `progress` may raise to interrupt; the next call resumes.
    """
    chosen, setting = _chosen(name, given)
    plan = chosen.plan(setting, bench)
    parts = list(dict.fromkeys(all_parts(plan)))
    for part in parts:
        if not part.finished(bench):
            _serve(bench, part, hits)
    plan = plan_without(plan, make_parts(parts, bench, progress))
    return {_key(cell): _packed(np.asarray(cell.measures[0].values(bench), np.float64)) for cell in plan.cells}


def verdict(bench: Workbench, name: str, given: Mapping[str, Any], seeds: Sequence[Mapping[str, str]]) -> dict:
    """Judge an experiment from the values of its seeds; returns what `blindspot experiment` would store."""
    chosen, setting = _chosen(name, given)
    plan = chosen.plan(setting, bench)
    cells = [
        replace(
            cell,
            measures=tuple(
                Stored(_unpacked(seed[_key(cell)]), tuple(measure.needs()), getattr(measure, "share", False))
                for seed, measure in zip(seeds, cell.measures, strict=False)
            ),
        )
        for cell in plan.cells
        if all(_key(cell) in seed for seed in seeds)
    ]
    places = {(cell.row, cell.column) for cell in cells}
    claims = [
        claim
        for claim in plan.claims
        if claim.expected_better in places and (claim.expected_worse is None or claim.expected_worse in places)
    ]
    return measure_plan(chosen, setting, replace(plan, cells=cells, claims=claims), bench)


@dataclass(frozen=True, eq=False)
class Stored:
    """A measure whose values are already there."""

    held: np.ndarray
    parts: tuple[Part, ...]
    share: bool

    def needs(self) -> Sequence[Part]:
        return self.parts

    def values(self, bench: Workbench) -> np.ndarray:
        return self.held


def rows_of(result: Mapping[str, Any]) -> list[Row]:
    """Return a row for the verdict, and one for each claim."""
    scale = 100 if result["unit"] == "%" else 1

    def figure(place: Sequence[str], other: Sequence[str] | None) -> str:
        row, column = place
        cell = next(each for each in result["cells"] if (each["row"], each["column"]) == (row, column))
        return f"{scale * cell['value']:.1f} ({column if other and other[0] == row else row})"

    rows = [Row(f"{result['asks']} ({result['paper']}, {result['source']})", result["verdict"])]
    for claim in result["claims"]:
        difference = "" if claim["difference"] is None else f"{scale * claim['difference']:+.1f}"
        if claim["low"] is not None:
            difference += f" ({scale * claim['low']:+.1f} to {scale * claim['high']:+.1f}), n = {claim['n']:,}"
        rows.append(
            Row(
                f"{claim['says']}, {claim['ahead'][1]}",
                f"{claim['word']}: {figure(claim['ahead'], claim['behind'])}",
                peer=figure(claim["behind"], claim["ahead"]) if claim["behind"] else "",
                ratio=difference,
            )
        )
    return rows


def _chosen(name: str, given: Mapping[str, Any]) -> tuple[Experiment, Setting]:
    chosen = experiment(name)
    return chosen, chosen.setting(hashable_options(given))


def _key(cell: Cell) -> str:
    return f"{cell.row}\t{cell.column}"


def _packed(values: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(values.astype("<f8").tobytes(), 9)).decode()


def _unpacked(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f8")


def _serve(bench: Workbench, part: Part, hits: PackedHits) -> None:
    """Make a part from the packed hits, if it is one of BM25's."""
    from blindspot.backend.core.runs import write_run

    if type(part) is Bm25Index:
        folder = bench.path("indexes", bench.name(part))
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "manifest.json", hits.settings["index"])
        return
    way = {Bm25Hits: "bm25", HybridHits: "hybrid"}.get(type(part))
    if way is None or not isinstance(part, RunPart):
        return
    if isinstance(part, Bm25Hits) and (part.k1, part.b) != (None, None):
        raise Missing("the packed hits of BM25 are those of the study's own k1 and b")
    ids, name = [question.id for question in part.asked.questions_of(bench)], bench.name(part)
    found = hits.of(way, ids, min(part.k, len(bench.corpus)))
    write_run(bench, name, ids, found, {**hits.settings[way], "split": part.asked.split})
    bench.home.mkdir(parents=True, exist_ok=True)
    write_json(bench.record(part), {"part": part.title(), "recipe": part.recipe(bench)})

"""The kit's items, the most valuable first. Each writes its result when it is done, and takes some minutes at most."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.gpu import experiments, inputs, models, search
from benchmarks.gpu.inputs import DATA, MODEL, PackedHits
from benchmarks.gpu.results import OutOfTime, Result, Row
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.workbench import Workbench

ROCKET: dict[str, Any] = {
    "depth": 50,
    "dual": {"epochs": 10.0, "batch": 512, "mini_batch": 128},
    "cross": {"epochs": 2.0},
}
"""RocketQA's settings are the defaults of the recipe. Fewer epochs and ranks fit the minutes of one item."""
ROCKET_SAID = "10 epochs (paper: 30), negatives from the first 50 passages (paper: 100), other settings the paper's"
ROCKET_MINUTES = 6.0
MINED = "bm25-train"


@dataclass
class Context:
    """What an item runs with. deadline: in seconds of `time.monotonic`; None for no limit."""

    work: Path
    device: str
    small: bool
    finished: Mapping[str, Result]
    deadline: float | None = None
    told: list[str] = field(default_factory=list)

    def say(self, what: str) -> None:
        self.progress(0, None, what)

    def progress(self, done: int, total: int | None, doing: str) -> None:
        """Print what is done, each step once. Raises OutOfTime after the deadline."""
        if doing not in self.told[-1:]:
            self.told.append(doing)
            print(f"    {doing}", flush=True)
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise OutOfTime("the minutes are over; the same command resumes this item")

    @property
    def packed(self) -> Path:
        return self.work / "inputs"

    @cached_property
    def study(self) -> Study:
        self.say("the study of the packed passages and questions")
        return inputs.study_of(self.work / "study", self.packed, labels=False)

    @cached_property
    def labelled(self) -> Study:
        """The study with the labels of the simulated annotator, and BM25's run over the training questions."""
        from blindspot.backend.core.runs import write_run

        study = inputs.study_of(self.work / "labelled", self.packed, labels=True)
        if MINED not in study.runs():
            hits, ids = PackedHits(self.packed, study), [each.id for each in study.questions.all(split="train")]
            found = hits.of("bm25", ids, min(inputs.TRAIN_DEPTH, len(study.corpus)))
            write_run(study, MINED, ids, found, {**hits.settings["bm25"], "split": "train"})
        return study

    @cached_property
    def bench(self) -> Workbench:
        return Workbench(self.study, self.device)

    @cached_property
    def hits(self) -> PackedHits:
        return PackedHits(self.packed, self.study)

    def folder(self, name: str) -> Path:
        """Return an empty folder for the files of one item."""
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


Outcome = tuple[list[Row], dict[str, Any]]


@dataclass(frozen=True)
class Item:
    """minutes: estimated on an H200. needs: inputs. planned: what the table says while nothing is measured."""

    name: str
    minutes: float
    run: Callable[[Context], Outcome]
    planned: tuple[Row, ...]
    needs: tuple[str, ...] = ()


def items(small: bool) -> Iterator[Item]:
    yield Item("first-search", 3, _in_folder(search.first, "vectors", keep=True), (
        Row("exact search, 21,015,324 x 768: time, share of the bandwidth, lists as on the CPU", target="100%"),
    ))  # fmt: skip
    both = (*DATA, *MODEL)
    yield Item("first-encoding", 1, lambda to: (models.first_encoding(to.study, to.device, to.small, to.say), {}), (
        Row("BERT-base's shape, 128 tokens, one round", target="22,000 passages/s"),
    ), both)  # fmt: skip
    yield Item("first-training", 1, lambda to: (models.first_training(to.device, to.small, to.say), {}), (
        Row("a step of training with gradient caching", target="1.5 times sentence-transformers' cached loss"),
    ), MODEL)  # fmt: skip
    yield Item("search-correctness", 2, _in_folder(search.correctness, "checked"), (
        Row("exact search, hits at their rank: dot, l2; one and two shards; streamed; short memory", target="100%"),
    ))  # fmt: skip
    yield Item("search", 5, _in_folder(search.speed, "vectors"), (
        Row("exact search, 21,015,324 x 768, k = 100, 4,096 questions at once", target="18,000 questions/s"),
        Row("exact search, one question", target="8 ms"),
    ))  # fmt: skip
    yield Item("sixteen-bits", 1, lambda to: (models.sixteen_bits(to.study, to.device, to.small, to.say), {}), (
        Row("encoding and training in bfloat16 beside float32", target=f"cosine {models.LEAST_COSINE}"),
    ), both)  # fmt: skip
    yield Item("encoding", 4, lambda to: (models.encoding_speed(to.study, to.device, to.small, to.say), {}), (
        Row("BERT-base's shape, 128 tokens", target="22,000 passages/s"),
        Row("MiniLM, 128 tokens", target="60,000 passages/s"),
        Row("the same compiled; one question in a CUDA graph"),
    ), both)  # fmt: skip
    yield Item("training", 2, lambda to: (models.training_speed(to.device, to.small, to.say), {}), (
        Row("training with gradient caching, questions/s", target="1.5 times sentence-transformers' cached loss"),
        Row("memory of a training step", target="flat with the batch"),
    ), MODEL)  # fmt: skip
    seeds = experiments.SEEDS[:1] if small else experiments.SEEDS
    yield from _over_seeds(
        "rocketqa",
        ROCKET_MINUTES,
        seeds,
        _rocketqa,
        f"RocketQA's four steps, labels by a simulated annotator; {ROCKET_SAID}",
        both,
    )
    for name, given in experiments.ASKED_FOR.items():
        asks = experiments.experiment(name).about.asks
        yield from _over_seeds(name, experiments.MINUTES[name], seeds, _experiment(name, given, small), asks, both)


def _in_folder(
    measure: Callable[[Path, str, bool, Callable[[str], None]], list[Row]], name: str, keep: bool = False
) -> Callable[[Context], Outcome]:
    """keep: leave the vectors for the next item, which takes them if they fit; else the folder goes."""

    def run(to: Context) -> Outcome:
        folder = to.work / name
        folder.mkdir(parents=True, exist_ok=True)
        finished = False
        try:
            rows, finished = measure(folder, to.device, to.small, to.say), True
            return rows, {}
        finally:
            if not (keep and finished):
                shutil.rmtree(folder, ignore_errors=True)

    return run


def _over_seeds(
    name: str,
    minutes: float,
    seeds: tuple[int, ...],
    run: Callable[[Context, int, tuple[str, ...]], Outcome],
    asks: str,
    needs: tuple[str, ...],
) -> Iterator[Item]:
    """Yield an item for each seed. The last one to finish has the rows over all seeds."""
    names = tuple(f"{name}/{seed}" for seed in seeds)
    for place, seed in enumerate(seeds):
        others = tuple(each for each in names if each != names[place])
        planned = (Row(asks),) if not place else ()
        yield Item(names[place], minutes, lambda to, s=seed, o=others: run(to, s, o), planned, needs)


def _experiment(name: str, given: Mapping[str, Any], small: bool) -> Callable[[Context, int, tuple[str, ...]], Outcome]:
    chosen: dict[str, Any] = {**given}
    if small:
        for word, value in experiments.SMALL.items():
            chosen |= {word: value} if word in chosen or word == "small" else {}
        chosen.pop("measured", None)

    def run(to: Context, seed: int, others: tuple[str, ...]) -> Outcome:
        values = experiments.values_of_seed(to.bench, name, {**chosen, "seeds": [seed]}, to.hits, to.progress)
        found = {seed: values} | {
            int(each.split("/")[1]): to.finished[each].data["values"] for each in others if each in to.finished
        }
        if len(found) <= len(others):
            waiting = ", ".join(sorted(set(others) - set(to.finished)))
            return [Row(f"seed {seed}", f"measured; the verdict needs {waiting}")], {"values": values}
        seeds = sorted(found)
        judged = experiments.verdict(to.bench, name, {**chosen, "seeds": seeds}, [found[each] for each in seeds])
        return experiments.rows_of(judged), {"values": values, "verdict": judged["verdict"]}

    return run


def _rocketqa(to: Context, seed: int, others: tuple[str, ...]) -> Outcome:
    """Run the recipe of RocketQA's steps, and report the retriever of each step on dev."""
    from blindspot.backend.evaluation.relevance import relevant
    from blindspot.backend.recipes.rocketqa import train_rocketqa

    few = {"dual": {**experiments.SMALL["training"], "layers": 1, "batch": 4}, "cross": experiments.SMALL["cross"]}
    settings = {"small": True, "depth": 5, **few} if to.small else ROCKET
    made = train_rocketqa(
        to.labelled, f"rocket{seed}", MINED, "minilm", {**settings, "seed": seed}, to.device, to.progress
    )
    assert made is not None  # there is one process
    steps = {}
    for run in made.runs:
        judged = relevant(to.labelled, to.labelled.run(run))
        steps[run.replace(f"rocket{seed}", "rocket")] = [
            float(judged.relevant[:, :k].any(axis=1).mean()) for k in (1, 5, 20)
        ]
    found = [steps, *(to.finished[each].data["steps"] for each in others if each in to.finished)]
    rows = []
    for run in steps:
        figures = [
            f"{100 * sum(each[run][place] for each in found) / len(found):.1f} "
            f"({', '.join(f'{100 * each[run][place]:.1f}' for each in found)})"
            for place in range(3)
        ]
        what = f"RocketQA, {run}: Success@1, @5, @20 on dev, mean (by seed, {len(found)} of {len(others) + 1})"
        rows.append(Row(what, "; ".join(figures)))
    return rows, {"steps": steps, "skipped": {str(step): why for step, why in made.skipped.items()}}


def planned_rows(small: bool) -> list[tuple[str, tuple[Row, ...]]]:
    return [(item.name, item.planned) for item in items(small)]

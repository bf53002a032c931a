"""The second part: retrievers trained on the set of each policy, from the same initial model, and their accuracy.

A retriever is trained, searched with and deleted. Its hits are stored in `cells/<set>-<seed>/`. A killed training
resumes from its last checkpoint. Two processes may work on different seeds in one folder once the sets exist.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.denoising.plan import KS
from benchmarks.denoising.verdict import Claim, K, claims, of_order
from blindspot.analysis.accuracy import Estimate, success_at
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.manifest import atomic_folder, read_json, read_manifest, write_json, write_manifest
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.training.checkpoints import TrainingFolders
from blindspot.backend.training.dual_encoder import initial_encoder_settings, train
from blindspot.backend.training.examples import TrainingSetExamples
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import Refused
from blindspot.db.records import Question

BEFORE = "before"
Find = Callable[[EncoderSettings, Path], None]


@dataclass(frozen=True)
class Bench:
    """folder: the working folder. dual: settings of every training except its seed. questions: the measured questions.
    find: searches with an encoder and writes the hits into a folder. relevant: which hits in a folder are relevant, (q,
    k) bool. start: the initial model of all retrievers.
    """

    folder: Path
    study: Study
    dual: Mapping[str, Any]
    questions: Sequence[Question]
    find: Find
    relevant: Callable[[Path], np.ndarray]
    start: str = "minilm"

    def cell(self, policy: str, seed: int | None = None) -> Path:
        return self.folder / "cells" / (policy if seed is None else f"{policy}-{seed}")

    def found(self, policy: str, seeds: Sequence[int], k: int) -> np.ndarray:
        """Return Success@k, (s, q) bool."""
        cells = [self.cell(policy)] if policy == BEFORE else [self.cell(policy, seed) for seed in seeds]
        return np.array([success_at(self.relevant(cell), k) for cell in cells])


def same_plan(folder: Path, plan: Mapping[str, Any]) -> None:
    """Record the plan of a folder. Raises Refused if the folder was started with another plan."""
    path, plan = folder / "plan.json", json.loads(json.dumps(plan))
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, plan)
    elif (held := read_json(path)) != plan:
        raise Refused(
            f"{folder} was started with other settings "
            f"({', '.join(key for key in plan if held.get(key) != plan[key])}); choose another folder"
        )


def set_name(policy: str) -> str:
    return f"set-{policy.replace('_', '-').replace('+', '-')}"


def keep_before(bench: Bench, device: str | None) -> None:
    """Store the hits of the initial model before any training."""
    cell = bench.cell(BEFORE)
    if read_manifest(cell) is not None:
        return
    from blindspot.backend.training.initial_model import load_initial_model

    begin, model = initial_encoder_settings(bench.study, bench.start), bench.folder / "models" / BEFORE
    settings = DualEncoderSettings(**bench.dual)
    load_initial_model(begin, settings.shape, device).save_pretrained(str(model), create_model_card=False)
    _ask(bench, begin, model, settings, cell, {})
    shutil.rmtree(model)


def keep_cell(bench: Bench, policy: str, seed: int, device: str | None, say: Callable[[str], None]) -> None:
    """Train a retriever on the set of a policy, and store its hits."""
    cell = bench.cell(policy, seed)
    if read_manifest(cell) is not None:
        return
    opened, begin = TrainingSet.open(bench.study, set_name(policy)), initial_encoder_settings(bench.study, bench.start)
    model, settings = bench.folder / "models" / cell.name, DualEncoderSettings(**bench.dual, seed=seed)
    if not (model / "training.json").is_file():
        train(
            begin,
            TrainingSetExamples(bench.study, opened),
            TrainingFolders(
                model,
                bench.folder / "training" / cell.name,
                device,
                about={"fingerprint": opened.manifest["fingerprint"]},
                progress=lambda done, total, doing: say(f"{cell.name}: {doing} {done} of {total}"),
            ),
            settings,
        )
    made = read_json(model / "training.json")
    _ask(
        bench,
        begin,
        model,
        settings,
        cell,
        {
            key: made[key]
            for key in ("questions", "steps", "seconds", "device", "model_hash", "start", "settings", "fingerprint")
        },
    )
    shutil.rmtree(model)


def _ask(
    bench: Bench,
    begin: EncoderSettings,
    model: Path,
    settings: DualEncoderSettings,
    cell: Path,
    about: Mapping[str, Any],
) -> None:
    cell.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(cell) as building:
        bench.find(
            replace(
                begin,
                model=str(model),
                question_model=None,
                passage_model=None,
                pooling="auto",
                similarity="auto",
                max_tokens=settings.passage_tokens,
            ),
            building,
        )
        write_manifest(
            building, {"kind": "benchmark cell", "cell": cell.name, "corpus": bench.study.corpus.digest, **about}
        )


def outcome(
    bench: Bench,
    policies: Sequence[str],
    order: Sequence[tuple[str, str]],
    seeds: Sequence[int],
    groups: Mapping[str, np.ndarray] | None = None,
    pairs: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """Return lines with Success@k of every set, the claims and the verdict.

    Args:
        order: pairs of sets with a joint claim.
        pairs: pairs of sets with separate claims.
        groups: further groups to show, by name (q,) bool.
    """
    found = {policy: {k: bench.found(policy, seeds, k) for k in KS} for policy in (BEFORE, *policies)}
    lines = [
        f"\nSuccess over {len(bench.questions):,} questions, %, with 95% intervals over seeds and questions; seeds "
        f"{', '.join(map(str, seeds))}",
        f"{'trained on':<22}" + "".join(f"{f'@{k}':>24}" for k in KS) + f"   @{K} by seed",
    ]
    for policy, by_k in found.items():
        each = " ".join(f"{100 * share:.1f}" for share in by_k[K].mean(axis=1))
        lines.append(f"{policy:<22}" + "".join(f"{_estimate(crossed_mean(by_k[k])):>24}" for k in KS) + f"   {each}")
    for name, inside in (groups or {}).items():
        shown = ", ".join(f"{policy} {_estimate(crossed_mean(by_k[K][:, inside]))}" for policy, by_k in found.items())
        lines.append(f"@{K}, {name}, n = {int(inside.sum()):,}: {shown}")
    by_policy = {policy: by_k[K] for policy, by_k in found.items()}
    made = claims(order, by_policy)
    lines += ["", *map(_claim, [claim for pair in pairs for claim in claims([pair], by_policy)]), *map(_claim, made)]
    if len(made) > 1:
        lines.append(f"The order {' < '.join([made[0].worse, *(claim.better for claim in made)])}: {of_order(made)}.")
    return lines


def _claim(claim: Claim) -> str:
    found = claim.difference
    return (
        f"{claim.better} over {claim.worse}: {100 * found.value:+.1f} points of Success@{K} ({100 * found.low:+.1f} to "
        f"{100 * found.high:+.1f}), n = {found.n:,}: {claim.verdict}."
    )


def _estimate(found: Estimate) -> str:
    return "-" if found.value is None else f"{100 * found.value:.1f} ({100 * found.low:.1f} to {100 * found.high:.1f})"

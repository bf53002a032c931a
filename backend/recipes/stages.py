"""The stages of a recipe: the inputs, the output and the function of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.model_files import locate
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.progress import Progress
from blindspot.backend.recipes.settings import JUDGED_POLICY, RecipeSettings
from blindspot.backend.recipes.state import Kind, State, hash_of
from blindspot.backend.retrieval.bm25 import is_indexed
from blindspot.db.errors import Refused
from blindspot.db.labels import Labels

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.evaluation.report import Report

DEV_DEPTH = 100
KS = (1, 5, 20)
NO_UNLABELLED = (
    "there are no unlabelled questions to learn from; import some with 'blindspot import questions FILE --split "
    "unlabelled', and start a recipe with another name"
)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a recipe, with one output.

    step: 1 to 4; 0 is the preparation. what: the stage in words. kind, name: of the output. needs: keys of the stages
    whose output it uses. outside: the entry of the recipe's request that it also uses. everywhere: all processes take
    part. unless: returns a reason to skip the rest of the step; empty for none. figures: entries for the step's
    manifest.
    """

    step: int
    what: str
    kind: Kind
    name: str
    needs: tuple[str, ...]
    make: Callable[[Progress | None], Any]
    outside: str | None = None
    everywhere: bool = False
    unless: Callable[[], str] = str
    figures: Callable[[], dict] | None = None

    @property
    def key(self) -> str:
        return f"{self.step} {self.what}"


@dataclass(frozen=True)
class Recipe:
    """A recipe in progress, with everything that its stages need."""

    study: Study
    name: str
    run: str
    start: str
    settings: RecipeSettings
    device: str | None
    state: State

    def stages(self) -> list[Stage]:
        """Return all stages, in order."""
        pinned, name = self.state.pinned, self.name
        over = "+labels" if pinned["labels"] else ""
        first, judge, free = f"{name}-1-train", f"{name}-2-judge", f"{name}-3-unlabelled"
        labels, judged, freely = (
            ("1 training run",),
            ("1 training run", "2 scores"),
            ("1 training run", "4 run", "4 scores"),
        )
        return [
            *([self._dev(0, self.start, (), "start_sha256")] if pinned["before"] else []),
            *self._retriever(1, (), "run_sha256", runs=(self.run,), policy="none"),
            Stage(
                1,
                "training run",
                "run",
                first,
                ("1 index",),
                partial(self._retrieve, first, f"{name}-1", "train", self.settings.ranks),
            ),
            self._set(2, labels, None, runs=(first,), policy=f"{JUDGED_POLICY}{over}", random=self.settings.easy),
            Stage(
                2,
                "cross-encoder",
                "model",
                judge,
                ("2 training set",),
                partial(self._cross_encoder, judge),
                "start_sha256",
                True,
                figures=partial(self._trained, judge),
            ),
            Stage(
                2, "scores", "scores", judge, ("1 training run", "2 cross-encoder"), partial(self._score, judge, first)
            ),
            *self._retriever(3, judged, None, runs=(first,), policy=f"cross_encoder{over}", model=judge),
            Stage(
                4,
                "run",
                "run",
                free,
                ("3 index",),
                partial(self._retrieve, free, f"{name}-3", "unlabelled", self.settings.ranks),
                unless=self._no_unlabelled,
            ),
            Stage(4, "scores", "scores", judge, ("4 run", "2 cross-encoder"), partial(self._score, judge, free)),
            *self._retriever(
                4,
                freely,
                None,
                runs=(first, free),
                policy=f"cross_encoder{over}",
                model=judge,
                questions=("train", "unlabelled"),
                positives=(*pinned["positives"], "cross_encoder"),
            ),
        ]

    def notes(self) -> list[str]:
        """Return remarks on the recipe's results for the user."""
        state, notes = self.state, []
        if not self.state.pinned["dev"]:
            notes.append("there are no dev questions, so no figure says which step's retriever is best")
        if state.done("3 training set") and not self._counts(f"{self.name}-3")["sources"]["negative"].get("run", 0):
            notes.append(
                f"the cross-encoder scored no passage of step 3 below {self.settings.thresholds[0]:g}, so step 3 "
                "had only people's hard negatives; train the cross-encoder longer, or check its calibration"
            )
        if len(state.pinned["positives"]) == 1:
            notes.append("positives are gold only: there is no BM25 index to find passages for questions without gold")
        return notes

    def _retriever(self, step: int, needs: tuple[str, ...], outside: str | None, **request: Any) -> list[Stage]:
        """Return the stages of a retriever: training set, dual encoder, index, and dev run."""
        name = f"{self.name}-{step}"
        unless = self._nothing_taught if step == 4 else str
        return [
            self._set(step, needs, outside, **request),
            Stage(
                step,
                "dual encoder",
                "model",
                name,
                (f"{step} training set",),
                partial(self._dual_encoder, step),
                "start_sha256",
                True,
                unless,
                partial(self._trained, name),
            ),
            Stage(step, "index", "index", name, (f"{step} dual encoder",), partial(self._index, name)),
            *([self._dev(step, name, (f"{step} index",), None)] if self.state.pinned["dev"] else []),
        ]

    def _dev(self, step: int, encoder: str, needs: tuple[str, ...], outside: str | None) -> Stage:
        name = f"{self.name}-{step}-dev"
        return Stage(
            step,
            "dev run",
            "run",
            name,
            needs,
            partial(self._retrieve, name, encoder, "dev", DEV_DEPTH),
            outside,
            figures=partial(self._accuracy, name),
        )

    def _set(self, step: int, needs: tuple[str, ...], outside: str | None, **request: Any) -> Stage:
        name = f"{self.name}-{step}"
        return Stage(
            step,
            "training set",
            "set",
            name,
            needs,
            partial(self._build, name, request),
            outside,
            figures=partial(self._counts, name),
        )

    def _build(self, name: str, request: dict[str, Any], progress: Progress | None) -> None:
        from blindspot.backend.training_sets.builder import build

        keep, propose = self.settings.thresholds
        spec = {
            "positives": self.state.pinned["positives"],
            "first": 1,
            "last": self.settings.ranks,
            "seed": self.settings.seed,
            "until": self.state.pinned["until"],
            "thresholds": {"keep_below": keep, "propose_above": propose},
            **request,
        }
        build(self.study, name, spec.pop("runs"), progress, **spec)

    def _dual_encoder(self, step: int, progress: Progress | None) -> None:
        from blindspot.backend.training.dual_encoder import train_dual_encoder

        name, settings = f"{self.name}-{step}", self.settings.dual_settings(step, f"{self.name}-2-judge")
        train_dual_encoder(self.study, name, name, self.start, settings, self.device, progress=progress)

    def _cross_encoder(self, judge: str, progress: Progress | None) -> None:
        from blindspot.backend.training.cross_encoder import train_cross_encoder

        train_cross_encoder(
            self.study,
            judge,
            f"{self.name}-2",
            model_of(self.study, self.start),
            self.settings.cross_settings(),
            self.device,
            progress=progress,
        )

    def _index(self, name: str, progress: Progress | None) -> None:
        from blindspot.backend.retrieval.dense import build_index

        if (
            name not in self.study.settings.encoders
        ):  # the job was killed after the training, before the model was added to study.toml
            about = read_object(self.study.path("models", name) / "training.json")
            add_encoder(
                self.study.settings_path,
                name,
                {
                    "model": str(self.study.path("models", name)),
                    "passage_template": about["start"]["passage_template"],
                    "max_tokens": about["settings"]["passage_tokens"],
                },
            )
        build_index(self.study, name, device=self.device, progress=progress)

    def _retrieve(self, name: str, encoder: str, split: str, depth: int, progress: Progress | None) -> None:
        from blindspot.backend.retrieval.retrieve import retrieve

        retrieve(
            self.study,
            "dense",
            k=min(depth, len(self.study.corpus)),
            split=split,
            name=name,
            encoder=encoder,
            device=self.device,
            progress=progress,
        )

    def _score(self, judge: str, run: str, progress: Progress | None) -> None:
        from blindspot.backend.training.scoring import score_run

        score_run(self.study, judge, run, self.settings.ranks, self.device, progress)

    def _no_unlabelled(self) -> str:
        return "" if any(count["split"] == "unlabelled" for count in self.study.questions.counts()) else NO_UNLABELLED

    def _nothing_taught(self) -> str:
        from blindspot.backend.training_sets.training_set import TrainingSet

        free = [question.id for question in self.study.questions.all(split="unlabelled")]
        if next(TrainingSet.open(self.study, f"{self.name}-4").groups(free), None) is not None:
            return ""
        return (
            f"the cross-encoder scored no passage of the {len(free):,} unlabelled questions above "
            f"{self.settings.thresholds[1]:g}, so there is nothing to add"
        )

    def _counts(self, name: str) -> dict:
        from blindspot.backend.training_sets.training_set import TrainingSet

        manifest = TrainingSet.open(self.study, name).manifest
        return {
            "policy": manifest["policy"],
            "questions": manifest["counts"]["questions"],
            "sources": manifest["counts"]["sources"],
            "left_out": manifest["left_out"],
        }

    def _trained(self, name: str) -> dict:
        about = read_object(self.study.path("models", name) / "training.json")
        return {
            key: about[key]
            for key in (
                "questions",
                "batch",
                "processes",
                "steps",
                "best_step",
                "average_rank",
                "mean_average_precision",
                "held_out_loss",
                "calibration",
                "device",
                "seconds",
            )
            if key in about
        }

    def _accuracy(self, name: str) -> dict:
        return dev_report(self.study, [name]).as_dict()["runs"][name]["k"]


def begin(
    study: Study,
    name: str,
    run: str,
    start: str,
    settings: RecipeSettings,
    device: str | None,
    state: State,
    wait: float | None = None,
) -> Recipe:
    """Start a recipe, or open the one that was started with the same arguments.

    With `wait`, poll every `wait` seconds until another process has
    started it.

    Raises:
        Refused: it was started with other arguments. Missing: no such run.
    """
    if wait is not None:
        while not state.begun:
            time.sleep(wait)
    model = Path(locate(model_of(study, start)))
    study.run(run)
    request = {
        "run": run,
        "start": start,
        "settings": settings.as_dict(),
        "corpus": study.corpus.digest,
        "run_sha256": hash_of(study, "run", run),
        "start_sha256": weights_of(model),
    }
    splits = {count["split"] for count in study.questions.counts()}
    state.open(
        request,
        {}
        if state.begun
        else {
            **_labels(study),
            "positives": ["gold", "distant"] if is_indexed(study) else ["gold"],
            "dev": "dev" in splits,
            "before": "dev" in splits and start in study.parts("indexes"),
        },
    )
    return Recipe(study, name, run, start, settings, device, state)


def dev_report(study: Study, runs: Sequence[str]) -> Report:
    """Return Success@1, 5 and 20 of the steps' retrievers over dev."""
    from blindspot.backend.evaluation.report import report

    return report(study, runs, ks=KS)


def _labels(study: Study) -> dict[str, Any]:
    """Return the last label event, and whether anybody has judged a passage of a training question."""
    labels = Labels(study.labels_path, read_only=True)
    return {
        "until": labels.last_event,
        "labels": any(pair.trains and pair.state != "gold" for pair in labels.corrected(training=True)),
    }


def model_of(study: Study, start: str) -> str:
    """Return the model behind an encoder of study.toml, or else the name itself.

    Raises Refused for an encoder of two separate models.
    """
    known = study.settings.encoders.get(start)
    if known is not None and known.model is None:
        raise Refused(
            f"the encoder {start!r} consists of two models, but a recipe starts its cross-encoder from one; choose "
            "an encoder with a single model"
        )
    return start if known is None or known.model is None else known.model


def weights_of(model: Path) -> str | None:
    """Return a hash of the weights; None for a model that is not a local folder."""
    from blindspot.backend.training.scoring import weights_hash

    return weights_hash(model) if model.is_dir() else None

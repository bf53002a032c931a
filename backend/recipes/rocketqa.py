"""RocketQA's training procedure (Qu et al. 2021, section 3.4), run by `blindspot train rocketqa`. Where people labelled
a pair, their label overrides the cross-encoder's.

1. A dual encoder that is trained only with in-batch negatives (across all processes, under torchrun).
2. A cross-encoder, trained on the passages that the dual encoder retrieves for the training questions. Its scores of
   these passages are stored.
3. A dual encoder trained with denoised hard negatives: passages to which the cross-encoder gives a low score.
4. A dual encoder trained on the same data and on unlabelled questions, whose positives and negatives are passages that
   the cross-encoder scores with high confidence.

Steps 1, 3 and 4 start from the same model. Each step consists of stages, and each stage makes a part of the study: a
training set, a model, an index, a run or scores. `recipes/<name>/state.json` lists the parts that are finished and is
rewritten after every stage. The report and the manifest are written last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import (
    file_sha256,
    read_manifest,
    read_object,
    text_sha256,
    write_json,
    write_manifest,
)
from blindspot.backend.core.model_files import locate_model
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.report import Report
from blindspot.backend.progress import Progress
from blindspot.backend.recipes.settings import JUDGED_POLICY, RecipeSettings, check_recipe_name, model_of, weights_of
from blindspot.backend.retrieval.bm25 import is_indexed
from blindspot.backend.training.distributed import is_main_process
from blindspot.db.errors import Refused
from blindspot.db.labels import Labels

DEV_DEPTH = 100
KS = (1, 5, 20)
STATE = "state.json"
RUN_FILES = ("questions.json", "ordinals.npy", "scores.npy")
POLL = 0.2  # seconds between checks of a process that waits for the main process
FOLDERS = {"training set": "training_sets", "model": "models", "index": "indexes", "run": "runs", "scores": "scores"}
NO_UNLABELLED = (
    "there are no unlabelled questions to learn from; import some with 'blindspot import questions FILE --split "
    "unlabelled', and start a recipe with another name"
)


@dataclass(frozen=True, slots=True)
class RecipeResult:
    """The result of a recipe. runs: the dev run of each step's retriever, in order. skipped: for each skipped step the
    reason. notes: remarks for the user.
    """

    name: str
    runs: list[str]
    skipped: dict[int, str]
    notes: list[str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a recipe, which makes one part.

    Attributes:
        step: 1 to 4; 0 is the preparation.
        title: the stage in words.
        kind: of the output, a key of FOLDERS.
        runs_on_all_processes: all processes take part.
        skip_reason: returns a reason to skip the rest of the step; empty for none.
    """

    step: int
    title: str
    kind: str
    name: str
    make: Callable[[Progress | None], Any]
    runs_on_all_processes: bool = False
    skip_reason: Callable[[], str] = str

    @property
    def key(self) -> str:
        return f"{self.step} {self.title}"


@job("train rocketqa", extras=("train",))
def train_rocketqa(
    study: Study,
    name: str,
    run: str,
    start: str = "minilm",
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> RecipeResult | None:
    """Run all four steps, or the remaining ones (a job). Returns None in processes other than the main one.

    Args:
        run: a run over the training questions; step 1's training set is mined from it.
        start: the initial model of all four models: an encoder of study.toml, a folder or a Hugging Face name.
        settings: fields of `RecipeSettings` that differ from its defaults.

    Raises:
        Refused: the recipe was started with other arguments, a name it needs is taken, or the output of a stage was
            deleted since.
        BadInput, Missing: as in the stages.
    """
    check_recipe_name(name)
    recipe = Recipe(study, name, run, start, RecipeSettings.from_values(settings or {}), device)
    if not is_main_process():
        while not recipe.has_begun:
            time.sleep(POLL)
        recipe.open()
        _wait_for_stages(recipe)
        return None
    with study.lock_part(f"recipes/{name}"):
        recipe.open()
        _run_stages(recipe, progress)
        return _finish(recipe)


def _run_stages(recipe: Recipe, progress: Progress | None) -> None:
    for stage in recipe.stages():
        if stage.step in recipe.skipped:
            continue
        if recipe.is_done(stage.key):
            if not recipe.is_made(stage):
                raise Refused(
                    f"the {stage.kind} {stage.name!r}, which this recipe made, is gone; begin a recipe of another name"
                )
            continue
        say = _stage_progress(progress, stage)
        if why := stage.skip_reason():
            recipe.write(skipped={str(stage.step): why})
            say(0, None, f"left out: {why}")
            continue
        began = time.monotonic()
        if stage.kind == "scores" or not recipe.is_made(stage):
            say(0, None, stage.title)
            stage.make(say)
        recipe.finish(stage, time.monotonic() - began)


def _wait_for_stages(recipe: Recipe) -> None:
    """In processes other than the main one, wait for each stage and take part in each training. An existing model is
    not trained again.
    """
    stages = recipe.stages()
    for number, stage in enumerate(stages):
        if not stage.runs_on_all_processes:
            continue
        while any(before.step not in recipe.skipped and not recipe.is_done(before.key) for before in stages[:number]):
            time.sleep(POLL)
        if stage.step not in recipe.skipped and not recipe.is_done(stage.key) and not recipe.is_made(stage):
            stage.make(None)


def _stage_progress(progress: Progress | None, stage: Stage) -> Progress:
    def report(completed: int, total: int | None, activity: str) -> None:
        if progress is not None:
            progress(completed, total, f"step {stage.step}: {activity}" if stage.step else activity)

    return report


def _finish(recipe: Recipe) -> RecipeResult:
    """Write the report and the recipe's manifest, or read them if they exist."""
    manifest: Mapping[str, Any] | None = read_manifest(recipe.folder)
    if manifest is None:
        state = recipe.state
        runs = [stage.name for stage in recipe.stages() if stage.title == "dev run" and recipe.is_done(stage.key)]
        if runs:
            write_json(recipe.folder / "report.json", dev_report(recipe.study, runs).as_dict())
        manifest = write_manifest(
            recipe.folder,
            {
                "kind": "recipe",
                "name": recipe.name,
                "request": state["request"],
                "pinned": state["pinned"],
                "runs": runs,
                "skipped": state["skipped"],
                "notes": recipe.notes(),
                "seconds": round(sum(each["seconds"] for each in state["stages"].values() if "seconds" in each), 1),
            },
        )
    skipped = {int(step): why for step, why in manifest["skipped"].items()}
    return RecipeResult(recipe.name, manifest["runs"], skipped, manifest["notes"], manifest["seconds"])


def dev_report(study: Study, runs: Sequence[str]) -> Report:
    """Return a report with Success@1, 5 and 20 of the steps' retrievers on dev."""
    from blindspot.backend.evaluation.report import report

    return report(study, runs, ks=KS)


@dataclass(frozen=True)
class Recipe:
    """A recipe in progress: its arguments, its state, and its stages."""

    study: Study
    name: str
    run: str
    start: str
    settings: RecipeSettings
    device: str | None

    # The state: the arguments, what was read at the start and stays fixed, the finished stages, the skipped steps.

    @property
    def folder(self) -> Path:
        return self.study.path("recipes", self.name)

    @property
    def has_begun(self) -> bool:
        return (self.folder / STATE).is_file()

    @property
    def state(self) -> dict[str, Any]:
        return read_object(self.folder / STATE)

    @property
    def skipped(self) -> dict[int, str]:
        """Return the skipped steps, with the reason for each."""
        return {int(step): why for step, why in self.state["skipped"].items()}

    def is_done(self, key: str) -> bool:
        return "seconds" in self.state["stages"].get(key, {})

    def finish(self, stage: Stage, seconds: float) -> None:
        self.write(stages={stage.key: {"kind": stage.kind, "made": stage.name, "seconds": round(seconds, 1)}})

    def write(self, **more: dict[str, Any]) -> None:
        state = self.state
        write_json(self.folder / STATE, state | {key: state[key] | value for key, value in more.items()})

    def open(self) -> None:
        """Start the recipe, or check that it was started with the same arguments.

        Raises:
            Refused: it was started with others, or another job made a part of a name that it needs. Missing: no such run.
        """
        opened = self.study.run(self.run)
        request = {
            "run": self.run,
            "start": self.start,
            "settings": self.settings.as_dict(),
            "corpus": self.study.corpus.digest,
            "run_sha256": text_sha256(*(file_sha256(opened.folder / file) for file in RUN_FILES)),
            "start_sha256": weights_of(Path(locate_model(model_of(self.study, self.start)))),
        }
        if self.has_begun:
            before = self.state["request"]
            if differs := [key.replace("_", " ") for key in request if before.get(key) != request[key]]:
                raise Refused(
                    f"{self.name!r} was started with another {', '.join(differs)}; resume with the original arguments, "
                    "or choose another name"
                )
            return
        pinned = self._pinned_settings()
        for stage in self.stages(pinned):
            if stage.kind != "scores" and self.is_made(stage):
                raise Refused(
                    f"a {stage.kind} {stage.name!r} already exists, and this recipe would make one of that name; "
                    "choose another name for the recipe"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / STATE, {"request": request, "pinned": pinned, "stages": {}, "skipped": {}})

    def _pinned_settings(self) -> dict[str, Any]:
        """Return the inputs that are fixed when the recipe starts: the last label event, whether people judged a
        passage of a training question, the sources of positives, and whether dev and the initial model are measured.
        """
        labels = Labels(self.study.labels_path, read_only=True)
        has_dev = any(count["split"] == "dev" for count in self.study.questions.counts())
        return {
            "until": labels.last_event,
            "labels": any(pair.trains and pair.state != "gold" for pair in labels.corrected_relevance(training=True)),
            "positives": ["gold", "distant"] if is_indexed(self.study) else ["gold"],
            "dev": has_dev,
            "before": has_dev and self.start in self.study.parts("indexes"),
        }

    def is_made(self, stage: Stage) -> bool:
        folder = self.study.path(FOLDERS[stage.kind], stage.name)
        return (folder / "training.json").is_file() if stage.kind == "model" else read_manifest(folder) is not None

    # The stages

    def stages(self, recorded_settings: Mapping[str, Any] | None = None) -> list[Stage]:
        """Return all stages, in order."""
        recorded_settings, name = recorded_settings or self.state["pinned"], self.name
        over = "+labels" if recorded_settings["labels"] else ""
        first, free, judge = f"{name}-1-train", f"{name}-3-unlabelled", f"{name}-2-judge"
        by_judge = {"policy": f"cross_encoder{over}", "model": judge}
        return [
            *(
                [self._run_stage(0, "dev run", f"{name}-0-dev", self.start, "dev")]
                if recorded_settings["before"]
                else []
            ),
            *self._retriever_stages(1, recorded_settings, runs=[self.run], policy="none"),
            self._run_stage(1, "training run", first, f"{name}-1", "train"),
            self._training_set_stage(
                2,
                recorded_settings,
                runs=[first],
                policy=f"{JUDGED_POLICY}{over}",
                random=self.settings.random_negatives,
            ),
            Stage(2, "cross-encoder", "model", judge, self._train_cross_encoder, runs_on_all_processes=True),
            Stage(2, "scores", "scores", judge, lambda progress: self._score_run(first, progress)),
            *self._retriever_stages(3, recorded_settings, runs=[first], **by_judge),
            self._run_stage(4, "run", free, f"{name}-3", "unlabelled", self._why_no_unlabelled_questions),
            Stage(4, "scores", "scores", judge, lambda progress: self._score_run(free, progress)),
            *self._retriever_stages(
                4,
                recorded_settings,
                runs=[first, free],
                **by_judge,
                questions=["train", "unlabelled"],
                positives=[*recorded_settings["positives"], "cross_encoder"],
            ),
        ]

    def notes(self) -> list[str]:
        """Return remarks on the recipe's results for the user."""
        pinned, notes = self.state["pinned"], []
        if not pinned["dev"]:
            notes.append("there are no dev questions, so no figure says which step's retriever is best")
        if self.is_done("3 training set"):
            counts = read_object(self.study.path("training_sets", f"{self.name}-3", "manifest.json"))["counts"]
            if not counts["sources"]["negative"].get("run", 0):
                notes.append(
                    f"the cross-encoder scored no passage of step 3 below {self.settings.thresholds[0]:g}, so step 3 "
                    "had only people's hard negatives; train the cross-encoder longer, or check its calibration"
                )
        if len(pinned["positives"]) == 1:
            notes.append("positives are gold only: there is no BM25 index to find passages for questions without gold")
        return notes

    def _retriever_stages(self, step: int, recorded_settings: Mapping[str, Any], **spec: Any) -> list[Stage]:
        """Return the stages for one step's retriever: training set, dual encoder, index, and dev run."""
        name = f"{self.name}-{step}"

        def train(progress: Progress | None) -> None:
            from blindspot.backend.training.dual_encoder import train_dual_encoder

            settings = self.settings.dual_settings(step, f"{self.name}-2-judge")
            train_dual_encoder(
                self.study, name, name, settings, start=self.start, device=self.device, progress=progress
            )

        unless = self.why_nothing_to_teach if step == 4 else str
        return [
            self._training_set_stage(step, recorded_settings, **spec),
            Stage(step, "dual encoder", "model", name, train, runs_on_all_processes=True, skip_reason=unless),
            Stage(step, "index", "index", name, lambda progress: self._build_index(name, progress)),
            *([self._run_stage(step, "dev run", f"{name}-dev", name, "dev")] if recorded_settings["dev"] else []),
        ]

    def _training_set_stage(
        self, step: int, recorded_settings: Mapping[str, Any], *, runs: list[str], **spec: Any
    ) -> Stage:
        name, (keep, propose) = f"{self.name}-{step}", self.settings.thresholds
        spec = {
            "positives": recorded_settings["positives"],
            "first": 1,
            "last": self.settings.ranks,
            "seed": self.settings.seed,
            "until": recorded_settings["until"],
            "thresholds": {"keep_below": keep, "propose_above": propose},
            **spec,
        }

        def make(progress: Progress | None) -> None:
            from blindspot.backend.training_sets.builder import build

            build(self.study, name, runs, progress, **spec)

        return Stage(step, "training set", "training set", name, make)

    def _run_stage(
        self, step: int, noun: str, name: str, encoder: str, split: str, skip_reason: Callable[[], str] = str
    ) -> Stage:
        def search(progress: Progress | None) -> None:
            from blindspot.backend.retrieval.retrieve import retrieve

            k = min(DEV_DEPTH if noun == "dev run" else self.settings.ranks, len(self.study.corpus))
            retrieve(
                self.study, "dense", k=k, split=split, name=name, encoder=encoder, device=self.device, progress=progress
            )

        return Stage(step, noun, "run", name, search, skip_reason=skip_reason)

    def _train_cross_encoder(self, progress: Progress | None) -> None:
        from blindspot.backend.training.cross_encoder import train_cross_encoder

        start, settings = model_of(self.study, self.start), self.settings.cross_settings()
        train_cross_encoder(
            self.study,
            f"{self.name}-2-judge",
            f"{self.name}-2",
            settings,
            start=start,
            device=self.device,
            progress=progress,
        )

    def _build_index(self, name: str, progress: Progress | None) -> None:
        from blindspot.backend.retrieval.dense import build_index

        if name not in self.study.settings.encoders:  # killed after the training, before study.toml named the model
            folder = self.study.path("models", name)
            about = read_object(folder / "training.json")
            encoder = {
                "model": str(folder),
                "passage_template": about["start"]["passage_template"],
                "max_tokens": about["settings"]["passage_tokens"],
            }
            add_encoder(self.study.settings_path, name, encoder)
        build_index(self.study, name, device=self.device, progress=progress)

    def _score_run(self, run: str, progress: Progress | None) -> None:
        from blindspot.backend.training.scoring import score_run

        score_run(self.study, f"{self.name}-2-judge", run, self.settings.ranks, self.device, progress)

    def _why_no_unlabelled_questions(self) -> str:
        return "" if any(count["split"] == "unlabelled" for count in self.study.questions.counts()) else NO_UNLABELLED

    def why_nothing_to_teach(self) -> str:
        """Return why step 4 cannot use the unlabelled questions; "" if it can."""
        from blindspot.backend.training_sets.training_set import TrainingSet

        free = [question.id for question in self.study.questions.all(split="unlabelled")]
        if next(TrainingSet.open(self.study, f"{self.name}-4").groups(free), None) is not None:
            return ""
        return (
            f"the cross-encoder scored no passage of the {len(free):,} unlabelled questions above "
            f"{self.settings.thresholds[1]:g}, so there is nothing to add"
        )

"""RocketQA's training procedure (Qu et al. 2021, section 3.4): `blindspot train rocketqa`. People's labels override the
cross-encoder's.

1. A dual encoder whose only negatives are the other passages of the batch (of all processes, under torchrun). 2. A
cross-encoder, trained on the passages that the dual encoder retrieves for the training questions. Its scores of these
passages are stored. 3. A dual encoder with denoised hard negatives: passages to which the cross-encoder gives a low
score. 4. A dual encoder on the same data and on unlabelled questions, with positives and negatives that the
cross-encoder scores with confidence.

Steps 1, 3 and 4 start from the same model. Each step consists of stages (`stages.py`), each an ordinary part of the
study: a training set, a model, an index, a run, scores. `recipes/<name>/` holds state.json, a folder with a manifest
for each step, and the report.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest, write_json, write_manifest
from blindspot.backend.progress import Progress
from blindspot.backend.recipes.settings import RecipeSettings, check_recipe_name
from blindspot.backend.recipes.stages import Recipe, Stage, begin, dev_report
from blindspot.backend.recipes.state import WORDS, State, hash_of
from blindspot.backend.training.distributed import is_main_process
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

STEPS = {0: "before training", 1: "dual encoder", 2: "cross-encoder", 3: "dual encoder on denoised negatives",
         4: "dual encoder with unlabelled questions"}  # fmt: skip
POLL = 0.2  # seconds between checks of a process that waits for the main process


@dataclass(frozen=True, slots=True)
class RecipeMade:
    """The result of a recipe. runs: the dev run of each step's retriever, in order. skipped: reason, by step.
    notes: remarks for the user.
    """

    name: str
    runs: list[str]
    skipped: dict[int, str]
    notes: list[str]
    seconds: float


@job("train rocketqa", extras=("train",))
def train_rocketqa(
    study: Study,
    name: str,
    run: str,
    start: str = "minilm",
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> RecipeMade | None:
    """Run all four steps, or the remaining ones (a job). Returns None in processes other than the main one.

    Args:
        run: a run over the training questions; step 1's training set is mined from it.
        start: the initial model of all four models: an encoder of study.toml, a folder or a Hugging Face name.
        settings: fields of `RecipeSettings` that differ from its defaults.

    Raises:
        Refused: the recipe was started with other arguments, a name it needs is taken, or the output of a stage has
            changed since.
        BadInput, Missing: as in the stages.
    """
    check_recipe_name(name)
    chosen = RecipeSettings.of(settings or {})
    state = State(study.path("recipes", name))
    if not is_main_process():
        _follow(study, begin(study, name, run, start, chosen, device, state, wait=POLL))
        return None
    with study.building(f"recipes/{name}"):
        recipe = begin(study, name, run, start, chosen, device, state)
        _lead(study, recipe, progress)
        return _finish(study, recipe)


def _lead(study: Study, recipe: Recipe, progress: Progress | None) -> None:
    stages, state = recipe.stages(), recipe.state
    _check_free(study, state, stages)
    for step in STEPS:
        own = [stage for stage in stages if stage.step == step]
        for stage in own:
            if step in state.skipped or state.done(stage.key):
                continue
            say = _stage_progress(progress, stage)
            if why := stage.unless():
                state.skip(step, why)
                say(0, None, f"left out: {why}")
            else:
                _run_stage(study, state, stage, stages, say)
        _seal(study, recipe, step, own)


def _run_stage(study: Study, state: State, stage: Stage, stages: list[Stage], say: Progress) -> None:
    began = time.monotonic()
    if stage.kind == "scores" or not (state.stage(stage.key) and hash_of(study, stage.kind, stage.name)):
        inputs = {stage.outside: state.read()["request"][stage.outside]} if stage.outside else {}
        inputs |= {
            need: _unchanged(study, state, next(stage for stage in stages if stage.key == need)) for need in stage.needs
        }
        state.begin(stage.key, kind=stage.kind, made=stage.name, inputs=inputs)
        say(0, None, stage.what)
        stage.make(say)
    state.finish(stage.key, hash_of(study, stage.kind, stage.name), time.monotonic() - began)


def _unchanged(study: Study, state: State, stage: Stage) -> str:
    """Return the hash of an earlier stage's output. Raises Refused if the output has changed; new scores are
    allowed.
    """
    now, then = hash_of(study, stage.kind, stage.name), state.stage(stage.key)["sha256"]
    if now is None or now != then and stage.kind != "scores":
        raise Refused(
            f"the {WORDS[stage.kind]} {stage.name!r}, which this recipe made, "
            f"{'is gone' if now is None else 'was changed'}; begin a recipe of another name"
        )
    return now


def _check_free(study: Study, state: State, stages: list[Stage]) -> None:
    """Check that the names of the outputs are free. Raises Refused if another job made a part of the same name."""
    for stage in stages:
        if not state.stage(stage.key) and stage.kind != "scores" and hash_of(study, stage.kind, stage.name) is not None:
            raise Refused(
                f"a {WORDS[stage.kind]} {stage.name!r} already exists, and this recipe would make one of that name; "
                "choose another name for the recipe"
            )


def _follow(study: Study, recipe: Recipe) -> None:
    """Wait in the other processes, and take part in each training. An existing model is not trained again."""
    stages, state = recipe.stages(), recipe.state
    for number, stage in enumerate(stages):
        if not stage.everywhere:
            continue
        while any(
            before.step not in (skipped := state.skipped) and not state.done(before.key) for before in stages[:number]
        ):
            time.sleep(POLL)
        if stage.step not in skipped and not state.done(stage.key) and hash_of(study, stage.kind, stage.name) is None:
            stage.make(None)


def _stage_progress(progress: Progress | None, stage: Stage) -> Progress:
    def say(done: int, total: int | None, doing: str) -> None:
        if progress is not None:
            progress(done, total, f"step {stage.step}: {doing}" if stage.step else doing)

    return say


def _seal(study: Study, recipe: Recipe, step: int, stages: list[Stage]) -> None:
    """Write the manifest of a finished step: inputs, outputs, figures."""
    folder, state = study.path("recipes", recipe.name, f"step-{step}"), recipe.state
    done = [stage for stage in stages if state.done(stage.key)]
    if not done or step in state.skipped or read_manifest(folder) is not None:
        return
    folder.mkdir(exist_ok=True)
    write_manifest(
        folder,
        {
            "kind": "recipe step",
            "recipe": recipe.name,
            "step": step,
            "name": STEPS[step],
            "stages": {stage.key: state.stage(stage.key) for stage in done},
            "figures": {stage.key: stage.figures() for stage in done if stage.figures},
        },
    )


def _finish(study: Study, recipe: Recipe) -> RecipeMade:
    """Write the report and the recipe's manifest, or read them if they exist."""
    folder, state = study.path("recipes", recipe.name), recipe.state
    manifest: Mapping[str, Any] | None = read_manifest(folder)
    if manifest is None:
        record = state.read()
        runs = [stage.name for stage in recipe.stages() if stage.what == "dev run" and state.done(stage.key)]
        if runs:
            write_json(folder / "report.json", dev_report(study, runs).as_dict())
        manifest = write_manifest(
            folder,
            {
                "kind": "recipe",
                "name": recipe.name,
                "request": record["request"],
                "pinned": record["pinned"],
                "runs": runs,
                "skipped": record["skipped"],
                "notes": recipe.notes(),
                "seconds": round(sum(each["seconds"] for each in record["stages"].values() if "seconds" in each), 1),
            },
        )
    skipped = {int(step): why for step, why in manifest["skipped"].items()}
    return RecipeMade(recipe.name, manifest["runs"], skipped, manifest["notes"], manifest["seconds"])

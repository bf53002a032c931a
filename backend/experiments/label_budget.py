"""Measure what labels gain: train retrievers with none, some and all of the labels, and measure them on held-out
questions.

Labels count in the order in which people gave them. A budget holds the labels up to an event; a label that somebody
changed later has the value of that event. Each budget has one training set, and each seed one retriever trained on it, all from the same start. The present
labels of held-out questions, which no training sees, measure the retrievers.

The results hold manifest.json, result.json, and each retriever's run. `experiments/<name>/` appears complete at the end.
Until then all files are in `experiments/.<name>~working`, where a killed experiment resumes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import build, named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest, read_object, whole_folder, write_json, write_manifest
from blindspot.backend.core.model_files import locate
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.experiments.budget_results import measured
from blindspot.backend.experiments.finding import find
from blindspot.backend.experiments.plan import FORMER_WORDS
from blindspot.backend.experiments.settings import LabelBudgetSettings
from blindspot.backend.judges.label_judge import is_label_judge
from blindspot.backend.progress import Progress
from blindspot.backend.recipes.settings import SMALL_DEPTH, SMALL_DUAL
from blindspot.backend.recipes.state import State, hash_of
from blindspot.backend.retrieval.bm25 import is_indexed
from blindspot.backend.training.training_settings import DualEncoderSettings, check
from blindspot.backend.training_sets.denoising import policy_named
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

TRAINS = ("train", "unlabelled")
"""The splits of training questions."""
RESULT = "result.json"
DEPTH = 100


@dataclass(frozen=True, slots=True)
class Budget:
    """A label budget. share: percent. labels: number of labels. until: the last event; 0 for none. name: of the
    training set.
    """

    share: int
    labels: int
    until: int
    name: str


@dataclass(frozen=True)
class LabelBudgetSpec:
    """A label-budget experiment. run: over training questions, from which negatives are mined."""

    study: Study
    name: str
    run: str
    settings: LabelBudgetSettings
    device: str | None

    def training(self, seed: int) -> DualEncoderSettings:
        return build(
            DualEncoderSettings, {**(SMALL_DUAL if self.settings.small else {}), **self.settings.settings, "seed": seed}
        )

    def check(self) -> list[Question]:
        """Check the arguments and return the questions to measure on. Raises BadInput, Refused or Missing."""
        check_name(self.name, "experiment")
        if len(self.name) > 48:
            raise BadInput(
                f"the experiment's name has {len(self.name)} characters; use at most 48, because the names of its "
                "training sets are longer"
            )
        if len(self.settings.shares) < 2 or not 0 <= self.settings.shares[0] <= self.settings.shares[-1] <= 100:
            raise BadInput("give at least two shares of the labels, each from 0 to 100 percent")
        if not self.settings.seeds:
            raise BadInput("give at least one seed; use three or more to get a verdict")
        if not policy_named(self.settings.policy).labels:
            raise BadInput(
                f"the policy {self.settings.policy!r} does not use labels; choose labels, or a policy that ends in +labels"
            )
        if self.settings.model is not None and is_label_judge(self.study, self.settings.model):
            raise Refused(
                f"the judge {self.settings.model!r} learned from people's labels, so even the smallest share would know them all; "
                "leave out the model, or name one that did not learn from them"
            )
        if not 1 <= self.settings.k <= len(self.study.corpus):
            raise BadInput(
                f"k must be from 1 to {len(self.study.corpus):,}, the number of passages, not {self.settings.k}"
            )
        check(self.training(0))
        questions = questions_in_split(self.study, self.settings.split)
        if any(question.split in TRAINS for question in questions):
            raise Refused(f"{self.settings.split!r} contains training questions; measure on dev or test")
        return questions

    @property
    def working(self) -> Path:
        return self.study.folder / "experiments" / f".{self.name}~working"

    @property
    def folder(self) -> Path:
        return self.study.path("experiments", self.name)

    @property
    def run_hash(self) -> str | None:
        """The hash of the run. Raises Missing if there is no such run."""
        self.study.run(self.run)
        return hash_of(self.study, "run", self.run)

    def finished(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of the experiment if it is complete; None if there is none of this name.

        Raises Refused if it was made with other settings.
        """
        if (manifest := read_manifest(self.folder)) is None:
            return None
        if manifest["request"] != request:
            raise Refused(
                f"an experiment {self.name!r} with other settings already exists; results never change, so choose "
                "another name"
            )
        return read_object(self.folder / RESULT)

    def write(self, result: Mapping[str, Any], parts: Iterable[Path], about: Mapping[str, Any]) -> None:
        """Write the folder of results, its manifest last, and delete the working folder.

        Args:
            parts: files and folders of the working folder that belong to the results.
            about: the manifest's other fields.
        """
        with whole_folder(self.folder) as building:
            for part in parts:
                copy = shutil.copytree if part.is_dir() else shutil.copy
                copy(part, building / part.name)
            write_json(building / RESULT, result)
            write_manifest(building, {"kind": "experiment", "name": self.name, **about})
        shutil.rmtree(self.working)


@job("experiment label-budget")
@named_settings(LabelBudgetSettings, "chosen")
def label_budget(
    study: Study,
    name: str,
    run: str,
    chosen: LabelBudgetSettings,
    device: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run the experiment (a job).

    Returns the content of result.json: Success@k of each budget, over all questions and by bucket, the gain and the
    verdict.

    Args:
        run: the run over training questions that negatives are mined from.

    Raises:
        Refused: no label of a training question, or an experiment of this name with other settings.
        BadInput, Missing: invalid settings, or an unknown run or model.
    """
    shares, seeds = tuple(sorted(set(chosen.shares))), tuple(dict.fromkeys(chosen.seeds))
    asked = LabelBudgetSpec(study, name, run, replace(chosen, shares=shares, seeds=seeds), device)
    questions = asked.check()
    request = _request(asked)
    if (result := asked.finished(request)) is not None:
        return result | {"verdict": FORMER_WORDS.get(result["verdict"], result["verdict"])}
    with study.building(f"experiments/{name}"):
        return _run(asked, request, questions, progress)


def _run(
    asked: LabelBudgetSpec, request: dict[str, Any], questions: Sequence[Question], progress: Progress | None
) -> dict[str, Any]:
    """Build the training sets, train and search with each seed and budget, and write the results."""
    state = State(asked.working)
    state.open(request, {} if state.begun else _pinned(asked))
    budgets = [Budget(**each) for each in state.pinned["budgets"]]
    for budget in budgets:
        _build(asked, state, budget, progress)
    cells = [(seed, budget) for seed in asked.settings.seeds for budget in budgets]
    for number, (seed, budget) in enumerate(cells, 1):
        which = f"{number} of {len(cells)}, {budget.labels:,} labels, seed {seed}"
        _train_and_search(asked, state, budget, seed, questions, partial(_report, progress, which))
    return _write_results(asked, state, budgets, questions)


def _request(asked: LabelBudgetSpec) -> dict[str, Any]:
    from blindspot.backend.recipes.stages import model_of, weights_of

    return {
        "run": asked.run,
        **asdict(asked.settings),
        "shares": list(asked.settings.shares),
        "seeds": list(asked.settings.seeds),
        "corpus": asked.study.corpus.digest,
        "run_sha256": asked.run_hash,
        "start_sha256": weights_of(Path(locate(model_of(asked.study, asked.settings.start)))),
    }


def _pinned(asked: LabelBudgetSpec) -> dict[str, Any]:
    """Fix the budgets: the last event of each among the present events.

    Raises Refused for taken names, or without labels.
    """
    labels = Labels(asked.study.labels_path, read_only=True)
    judged = list(labels.judgements())
    trains = {
        question.id
        for question in asked.study.questions.some(sorted({each.question for each in judged}))
        if question.split in TRAINS
    }
    numbers = [each.number for each in judged if each.question in trains]
    if not numbers:
        raise Refused("nobody has labelled a passage of a training question yet; label some first")
    budgets = []
    for share in asked.settings.shares:
        count = round(share / 100 * len(numbers))
        until = labels.last_event if share == 100 else numbers[count - 1] if count else 0
        budgets.append(Budget(share, count, until, f"{asked.name}-{share:03d}"))
        if hash_of(asked.study, "set", budgets[-1].name) is not None:
            raise Refused(
                f"a training set {budgets[-1].name!r} already exists, and this experiment would make one of that "
                "name; choose another name"
            )
    return {
        "budgets": [asdict(budget) for budget in budgets],
        "last_event": labels.last_event,
        "positives": ["gold", "distant"] if is_indexed(asked.study) else ["gold"],
    }


def _build(asked: LabelBudgetSpec, state: State, budget: Budget, progress: Progress | None) -> None:
    from blindspot.backend.training_sets.builder import build

    if not state.done(budget.name):
        state.begin(budget.name, inputs={"run": state.read()["request"]["run_sha256"], "until": budget.until})
        began = time.monotonic()
        if hash_of(asked.study, "set", budget.name) is None:
            build(
                asked.study,
                budget.name,
                [asked.run],
                progress,
                policy=asked.settings.policy,
                model=asked.settings.model,
                until=budget.until,
                positives=state.pinned["positives"],
                last=SMALL_DEPTH if asked.settings.small else DEPTH,
            )
        state.finish(budget.name, hash_of(asked.study, "set", budget.name), time.monotonic() - began)
    elif hash_of(asked.study, "set", budget.name) != state.stage(budget.name)["sha256"]:
        raise Missing(
            f"the training set {budget.name!r} of this experiment was deleted or changed; start an experiment with "
            "another name"
        )


def _train_and_search(
    asked: LabelBudgetSpec, state: State, budget: Budget, seed: int, questions: Sequence[Question], progress: Progress
) -> None:
    """Train one retriever, search with it, and delete it. Its run is kept."""
    from blindspot.backend.training.dual_encoder import start_encoder, train
    from blindspot.backend.training.examples import TrainingSetExamples
    from blindspot.backend.training_sets.training_set import TrainingSet

    cell = asked.working / _cell(budget, seed)
    if read_manifest(cell) is not None:
        return
    opened, begin, chosen = (
        TrainingSet.open(asked.study, budget.name),
        start_encoder(asked.study, asked.settings.start),
        asked.training(seed),
    )
    model, training = asked.working / "model", asked.working / "training"
    about = {"training_set": budget.name, "fingerprint": opened.manifest["fingerprint"]}
    if not _is_of(model, about, seed):
        shutil.rmtree(model, ignore_errors=True)
        train(
            begin,
            TrainingSetExamples(asked.study, opened),
            model,
            training,
            chosen,
            device=asked.device,
            about=about,
            progress=progress,
        )
    with whole_folder(cell) as building:
        encoder = replace(
            begin,
            model=str(model),
            question_model=None,
            passage_model=None,
            pooling="auto",
            similarity="auto",
            max_tokens=chosen.passage_tokens,
        )
        find(asked.study, encoder, questions, asked.settings.k, building, asked.device, progress)
        result = read_object(model / "training.json")
        write_manifest(
            building,
            {
                "kind": "run",
                "share": budget.share,
                "seed": seed,
                "training_set": budget.name,
                "corpus": asked.study.corpus.digest,
                "inputs": {
                    "training_set": state.stage(budget.name)["sha256"],
                    "start": state.read()["request"]["start_sha256"],
                },
                **{
                    key: result[key]
                    for key in ("model_hash", "steps", "best_step", "average_rank", "questions", "seconds", "device")
                },
            },
        )
    shutil.rmtree(model)


def _is_of(model: Path, about: Mapping[str, Any], seed: int) -> bool:
    """Return whether a stored model is the wanted one. If so, the process was killed after the training."""
    path = model / "training.json"
    manifest = read_object(path) if path.is_file() else {}
    return (
        bool(manifest)
        and all(manifest.get(key) == value for key, value in about.items())
        and manifest["settings"]["seed"] == seed
    )


def _cell(budget: Budget, seed: int) -> str:
    return f"{budget.share:03d}-{seed}"


def _write_results(
    asked: LabelBudgetSpec, state: State, budgets: Sequence[Budget], questions: Sequence[Question]
) -> dict[str, Any]:
    """Measure all runs, and write the folder of results."""
    held = state.read()
    result = measured(asked, budgets, lambda budget, seed: asked.working / _cell(budget, seed))
    runs = [asked.working / _cell(budget, seed) for seed in asked.settings.seeds for budget in budgets]
    about = {
        "what": "label budget",
        "request": held["request"],
        "pinned": held["pinned"],
        "sets": held["stages"],
        "questions": len(questions),
    }
    asked.write(result, runs, about)
    return result


def _report(progress: Progress | None, which: str, done: int, total: int | None, doing: str) -> None:
    if progress is not None:
        progress(done, total, f"{which}: {doing}")

"""The path through a study: which steps are done and which one is next, for every page of the app and for `blindspot
status`.

The steps are: see the failure, look at questions, judge, clean, train, see the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.training.before_after import run_before
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue


@dataclass(frozen=True)
class PathState:
    """The facts about a study and a person that determine which steps are done.

    Attributes:
        runs: name to manifest, two or more.
        pair: the two runs to compare.
        has_labels: whether the person has judged a passage; for a command, whether anybody has.
        has_viewed_question: whether the person has looked at a question.
        has_others_labels: whether others have judged passages, for which they looked at questions.
        current_set: the set that is shown, if any.
        has_batch, has_training_questions: only commands ask.
    """

    study: Study
    runs: dict[str, dict]
    pair: tuple[str, str]
    has_labels: bool
    has_viewed_question: bool
    training_sets: dict[str, Any]
    models: dict[str, dict]
    current_set: str | None = None
    has_others_labels: bool = False
    may: Callable[[str], bool] = lambda action: True
    has_batch: bool = False
    has_training_questions: bool = True

    @property
    def training_set(self) -> str | None:
        """The training set to continue with: the shown one, or else the newest."""
        return self.current_set if self.current_set in self.training_sets else next(reversed(self.training_sets), None)

    @cached_property
    def retrievers(self) -> dict[str, dict]:
        """The trained models that search, oldest first: no judges, cross-encoders and readers."""
        encoders = self.study.settings.encoders
        return {name: about for name, about in self.models.items() if name in encoders}

    @property
    def has_trained_on_newest_set(self) -> bool:
        """Whether a retriever is trained, and on the newest training set if there is one."""
        newest = next(reversed(self.training_sets), None)
        return any(newest is None or about.get("training_set") == newest for about in self.retrievers.values())

    @cached_property
    def runs_of_change(self) -> tuple[str, str] | None:
        """The runs before and after the newest training for which both exist."""
        for name, about in reversed(self.retrievers.items()):
            for after in reversed(self.runs):
                if self.runs[after].get("retriever") == name:
                    split = str(self.runs[after].get("split"))
                    before = run_before(self.study, about, after, split, self.runs)
                    if before is not None:
                        return before, after
        return None


@dataclass(frozen=True)
class NextStep:
    """A next step: a description, the page of the app with its parameters, and the command; "" for a step that only the
    app has.
    """

    label: str
    page: str
    command: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PathStep:
    """One step: its title, the titles of the pages on which it is done, whether the person has done it, how to do it if
    that is possible now, and whether others have done it.
    """

    title: str
    pages: tuple[str, ...]
    is_done: Callable[[PathState], bool]
    next: Callable[[PathState], NextStep | None]
    is_done_by_others: Callable[[PathState], bool] = lambda s: False


def _compare_step(state: PathState) -> NextStep:
    a, b = state.pair
    return NextStep("Compare the runs", "compare", f"blindspot compare {a} {b}", {"a": a, "b": b})


def _look_step(state: PathState) -> NextStep:
    a, b = state.pair
    words = f"Look at questions that {a} answers and {b} misses"
    return NextStep(words, "question", f"blindspot compare {a} {b}", {"a": a, "b": b, "cell": "only_a"})


def _judge_step(state: PathState) -> NextStep:
    make = f"blindspot batch new first --run {_run_for_mining(state) or state.pair[0]}"
    return NextStep("Judge passages", "judge", "blindspot open" if state.has_batch else make)


def _clean_step(state: PathState) -> NextStep | None:
    if not state.may("build training sets"):
        return None
    if state.training_set is not None:
        words = "See what the labels change in a training set"
        parameters = {"tab": "sets", "set": state.training_set}
        return NextStep(words, "training", f"blindspot training-set show {state.training_set}", parameters)
    run = _run_for_mining(state)
    if run is not None:
        command = f"blindspot training-set build clean --run {run} --policy answer_match+labels"
    elif state.has_training_questions:
        command = "blindspot retrieve --with bm25 --split train"
    else:
        command = "blindspot import questions FILE --split train"
    return NextStep("Build a training set", "training", command, {"tab": "sets"})


def _train_step(state: PathState) -> NextStep | None:
    if state.training_set is None or not state.may("train"):
        return None
    on_set = (
        name for name, about in reversed(state.retrievers.items()) if about.get("training_set") == state.training_set
    )
    if (model := next(on_set, None)) is not None:
        parameters = {"tab": "models", "set": state.training_set, "model": model}
        return NextStep(f"See the model trained on {state.training_set}", "training", "blindspot open", parameters)
    command = f"blindspot train dual-encoder trained --on {state.training_set}"
    return NextStep(
        f"Train a retriever on {state.training_set}", "training", command, {"tab": "models", "set": state.training_set}
    )


def _change_step(state: PathState) -> NextStep | None:
    if state.runs_of_change is None:
        return None
    before, after = state.runs_of_change
    command = f"blindspot compare {before} {after}"
    return NextStep(f"See what changed from {before} to {after}", "compare", command, {"a": before, "b": after})


STEPS = (
    PathStep("See the failure", ("Compare", "Relations", "Slices", "Map"), lambda s: len(s.runs) > 1, _compare_step),
    PathStep("Look at questions", ("Question", "Find"), lambda s: s.has_viewed_question, _look_step, lambda s: s.has_others_labels),
    PathStep("Judge", ("Judge", "Quality", "Team"), lambda s: s.has_labels, _judge_step, lambda s: s.has_others_labels),
    PathStep("Clean", ("Training",), lambda s: bool(s.training_sets), _clean_step),
    PathStep("Train", (), lambda s: s.has_trained_on_newest_set, _train_step),
    PathStep("See the change", (), lambda s: s.runs_of_change is not None, _change_step),
)  # fmt: skip
JUDGE, TRAIN = STEPS[2], STEPS[4]


def next_command(study: Study) -> Step | None:
    """Return the next step of a study for the command line; None if it cannot be determined.

    For a check of a training file, the next step is judging in the app. Without two runs, it is a step that leads to a
    run. Otherwise it is the first step that is not done, or the last one if all are done. Questions count as looked at
    as soon as a batch or a label exists.
    """
    if is_check(study):
        return Step("Judge the drawn pairs, then choose a rule.", "blindspot open")
    runs: dict[str, dict] = dict(study.parts("runs"))
    if len(runs) < 2:
        from blindspot.backend.retrieval.next_steps import next_steps  # not for every start of `status`

        return next(iter(next_steps(study)), None)
    judged = Labels(study.labels_path, read_only=True).last_event > 0
    batches = Queue(study.labels_path).batches()
    state = PathState(
        study,
        runs,
        default_pair(runs),
        judged,
        judged or bool(batches),
        training_sets(study),
        models_of(study),
        has_batch=any(batch.state == "open" for batch in batches),
        has_training_questions=any(count["split"] == "train" for count in study.questions.counts()),
    )
    step = next((step for step in STEPS if not step.is_done(state)), STEPS[-1])
    following = step.next(state)
    if following is None:
        return _search_step(study, next(reversed(state.retrievers)))
    if step is TRAIN and (extra := first_missing(("train",))) is not None:
        return Step(f"Training needs the extra {extra}.", install_command(extra))
    return Step(f"{following.label}.", following.command)


def _search_step(study: Study, model: str) -> Step:
    """Return the step that makes the run of a trained model, which is needed to see the change."""
    if model in study.parts("indexes"):
        return Step(f"Search with {model}.", f"blindspot retrieve --with dense --encoder {model} --split dev")
    return Step(f"Encode the passages with {model}.", f"blindspot index dense --encoder {model}")


def _run_for_mining(state: PathState) -> str | None:
    """Return a run over training questions from which negatives can be mined. A run without a split contains all
    questions.
    """
    return next((name for name, manifest in state.runs.items() if manifest.get("split") in ("train", None)), None)

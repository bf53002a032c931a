"""The one next command of a study, with which `blindspot status` ends: compare, judge, clean, train, compare again."""

from __future__ import annotations

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


def next_command(study: Study) -> Step | None:
    """Return the next step: without two runs one that leads to a run, else the first of the loop that is not done."""
    if is_check(study):
        return Step("Judge the drawn pairs, then choose a rule.", "blindspot open")
    runs: dict[str, dict] = dict(study.parts("runs"))
    if len(runs) < 2:
        from blindspot.backend.retrieval.next_steps import next_steps  # not for every start of `status`

        return next(iter(next_steps(study)), None)
    a, b = default_pair(runs)
    if Labels(study.labels_path, read_only=True).last_event == 0:
        if not Queue(study.labels_path).batches():
            return Step("Compare the runs, then judge passages.", f"blindspot compare {a} {b}")
        return Step("Judge passages.", "blindspot open")
    sets = training_sets(study)
    if not sets:
        return Step("Build a training set.", _build_command(study, runs))
    retrievers = trained_retrievers(study)
    newest_set = next(reversed(sets))
    if not any(about.get("training_set") == newest_set for about in retrievers.values()):
        if (extra := first_missing(("train",))) is not None:
            return Step(f"Training needs the extra {extra}.", install_command(extra))
        return Step(f"Train on {newest_set}.", f"blindspot train dual-encoder trained --on {newest_set}")
    if (pair := runs_of_change(study, runs, retrievers)) is not None:
        return Step(f"See what changed from {pair[0]} to {pair[1]}.", f"blindspot compare {pair[0]} {pair[1]}")
    newest = next(reversed(retrievers))
    if newest in study.parts("indexes"):
        return Step(f"Search with {newest}.", f"blindspot retrieve --with dense --encoder {newest} --split dev")
    return Step(f"Encode the passages with {newest}.", f"blindspot index dense --encoder {newest}")


def _build_command(study: Study, runs: dict[str, dict]) -> str:
    """Return the command that mines a set from a run over training questions (one without a split has all questions), or
    one that leads to such a run.
    """
    run = next((name for name, manifest in runs.items() if manifest.get("split") in ("train", None)), None)
    if run is not None:
        return f"blindspot training-set build clean --run {run} --policy answer_match+labels"
    if any(count["split"] == "train" for count in study.questions.counts()):
        return "blindspot retrieve --with bm25 --split train"
    return "blindspot import questions FILE --split train"


def trained_retrievers(study: Study) -> dict[str, dict]:
    """Return the trained models that search, oldest first: no judges, cross-encoders and readers."""
    return {name: about for name, about in models_of(study).items() if name in study.settings.encoders}


def runs_of_change(study: Study, runs: dict[str, dict], retrievers: dict[str, dict]) -> tuple[str, str] | None:
    """Return the runs before and after the newest training for which both exist."""
    for model, about in reversed(retrievers.items()):
        for after in reversed(runs):
            if runs[after].get("retriever") == model:
                before = run_before(study, about, after, str(runs[after].get("split")), runs)
                if before is not None:
                    return before, after
    return None

"""What training changed: the runs before and after a model, and two models of which one learned from a cleaned set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from blindspot.app import study, url
from blindspot.app.components.training.this_set import cleaned_from
from blindspot.app.markup import Html, join, link
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.before_after import initial_encoder_name, run_before
from blindspot.backend.training.dual_encoder import trial_run_name
from blindspot.backend.training_sets.training_set import training_sets


def before_and_after(open_study: Study, model: str, about: dict) -> tuple[str | None, str | None]:
    """Return the runs of a dual encoder's initial model and of the trained encoder; None for a run that does not exist."""
    runs, split = study.runs(open_study), measured_split(open_study)
    after = trial_run_name(model, split) if split else ""
    if after not in runs:
        return None, None
    return run_before(open_study, about, after, split, runs), after


def measured_split(open_study: Study) -> str:
    """Return the split on which a trained model is tried; "" if there is none."""
    there = {row["split"] for row in open_study.questions.counts()}
    return next((split for split in ("dev", "test") if split in there), "")


class ModelChange(NamedTuple):
    """What a model's run changed in the run before it.

    Attributes:
        name, start: the model, and what `before` searched with: the initial model, or the run itself if it is another's.
    """

    name: str
    start: str
    before: str
    after: str
    figures: PairedFigures

    @property
    def points(self) -> str:
        """By how many points the run after differs, such as "+8.4"."""
        return gain_words(self.figures)[0]


class CleaningEffect(NamedTuple):
    """Two models with one start, one trained on a cleaned set and one on the set it was cleaned from.

    Attributes:
        name, cleaned_set, other, source_set: the models and their training sets.
        of, than: what each changed in its start. change: what the first has more than the second.
    """

    name: str
    cleaned_set: str
    other: str
    source_set: str
    of: ModelChange
    than: ModelChange
    change: ModelChange


def change_of_model(open_study: Study, name: str, about: dict) -> ModelChange | None:
    """Return what a model changed; None if a run is absent, or if no question is measured in both."""
    before, after = before_and_after(open_study, name, about)
    if not before or not after:
        return None
    start = initial_encoder_name(open_study, about) or ""
    is_start = study.runs(open_study)[before].get("retriever") == start
    return _change_of_runs(open_study, name, start if is_start else before, before, after)


def _change_of_runs(open_study: Study, name: str, start: str, before: str, after: str) -> ModelChange | None:
    rule = study.rule_of_runs(open_study, before, after)
    compared = study.comparison(open_study, before, after, "answers", rule)
    k = min(HEADLINE_K, compared.depth)
    return ModelChange(name, start, before, after, figures_at(compared, k)) if len(compared) and k else None


def gain_words(figures: PairedFigures) -> tuple[str, str]:
    """Return the points that B has more than A, and the ends of their interval."""
    less = figures.difference.estimate  # A less B
    return signed_number(-100 * (less.value or 0.0)), signed_ends(-100 * (less.high or 0.0), -100 * (less.low or 0.0))


def is_sure(figures: PairedFigures) -> bool:
    """Return whether the interval of a difference excludes 0."""
    estimate = figures.difference.estimate
    return (estimate.low or 0.0) > 0 or (estimate.high or 0.0) < 0


def turned_questions(change: ModelChange) -> Html:
    """How many questions training turned each way, with links to them."""
    return _flip_links(change, f"{change.figures.flips.only_b:,} got better")


def _flip_links(change: ModelChange, better: str) -> Html:
    cells, worse = compared_runs(change), f"{change.figures.flips.only_a:,} worse"
    return join(
        link(better, url.href(url.COMPARE, {**cells, "cell": "only_b"})),
        ", ",
        link(worse, url.href(url.COMPARE, {**cells, "cell": "only_a"})),
    )


def compared_runs(change: ModelChange) -> dict[str, Any]:
    """Return the parameters of Compare for the runs before and after."""
    return {"a": change.before, "b": change.after, "k": change.figures.k}


def cleaning_effects(
    open_study: Study, models: dict[str, dict], changed: Mapping[str, ModelChange | None]
) -> list[CleaningEffect]:
    """Return each model of a cleaned set beside one of the set it was cleaned from, with the same start."""
    sets, found = training_sets(open_study), []
    for name, about in models.items():
        trained_on = about.get("training_set") or ""
        source = cleaned_from(trained_on, sets) if trained_on in sets else ""
        for other, other_about in models.items() if source else ():
            of, than = changed[name], changed[other]
            if other_about.get("training_set") != source or of is None or than is None or of.before != than.before:
                continue
            change = _change_of_runs(open_study, name, other, than.after, of.after)
            if change is not None:
                found.append(CleaningEffect(name, trained_on, other, source, of, than, change))
    return found


def cleaning_sentence(effect: CleaningEffect) -> str:
    """Say what cleaning adds to training, with the verdict first where it is not established."""
    figures = effect.change.figures
    points, ends = gain_words(figures)
    measure = f"Success@{figures.k}"
    if not is_sure(figures):
        return f"Not established: cleaning changes {measure} by {points} points (95%: {ends})."
    verb, size = "takes" if points.startswith("\N{MINUS SIGN}") else "adds", points.lstrip("+\N{MINUS SIGN}")
    return f"Cleaning {verb} {size} points of {measure} (95%: {ends})."


def cleaning_flips(effect: CleaningEffect) -> Html:
    """Say how many questions the two models answer differently, with a link to them, and what the interval leaves out."""
    flips, n = effect.change.figures.flips, effect.change.figures.n
    words = f"{effect.name} against {effect.other}: {quantity(flips.only_b, 'question')} better, {flips.only_a:,} worse"
    return join(
        link(words, url.href(url.COMPARE, compared_runs(effect.change))),
        f", of {quantity(n, 'question')}. One training each: the interval is over questions, not over seeds.",
    )

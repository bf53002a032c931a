"""The report's section on training: the training sets of the models, and the accuracy before and after training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blindspot.backend.core.result_table import Column, ResultTable, signed_ends, signed_number, stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import n_value
from blindspot.backend.evaluation.comparison import SURE, Comparison, PairedFigures, figures_at, measure_all
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.reports.markup import heading, remark
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.before_after import run_before
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.dual_encoder import trial_run_name
from blindspot.backend.training_sets.differences import KINDS, change_summary
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets

ANCHOR = "training"


@dataclass(frozen=True)
class TrainedModel:
    """A trained retriever whose run can be compared with the run before training. figures: A is before, B is after."""

    name: str
    training_set: str
    run_before: str
    run_after: str
    figures: PairedFigures


def trained_models(study: Study, k: int, relevance: Kind, rule: str) -> list[TrainedModel]:
    """Return the trained retrievers that have a run before and a run after training over dev, or else over test."""
    runs = study.parts("runs")
    found = []
    for name, about in models_of(study).items():
        after, split = next(
            ((run, split) for split in ("dev", "test") if (run := trial_run_name(name, split)) in runs), (None, "")
        )
        before = None if after is None else run_before(study, about, after, split, runs)
        if after is None or before is None:
            continue
        measured = measure_all(study, [before, after], relevance, rule)
        compared = Comparison.of_runs(measured[before], measured[after])
        if len(compared) and compared.depth >= k:
            trained_on = str(about.get("training_set") or about.get("run") or "")
            found.append(TrainedModel(name, trained_on, before, after, figures_at(compared, k)))
    return found


def training_sentences(models: list[TrainedModel], k: int) -> Iterator[str]:
    for model in models:
        gain = model.figures.difference.estimate
        value, low, high = (0 - each for each in gain.percent)  # the comparison is before minus after
        on = f" on {model.training_set}" if model.training_set else ""
        if model.figures.difference.p > SURE:
            yield (
                f"No change by training {model.name}{on} is established: Success@{k} {signed_number(value)} points "
                f"{stated_interval(high, low, '+')} against {model.run_before}."
            )
        else:
            yield (
                f"Training {model.name}{on} changes Success@{k} by {signed_number(value)} points {stated_interval(high, low, '+')} "
                f"against {model.run_before}."
            )


def training_parts(study: Study, models: list[TrainedModel], k: int) -> Iterator[str]:
    """Yield the HTML of the section; nothing if there is neither a training set nor a model.

    Training sets are compared with the one whose negatives are not cleaned, or else with the oldest one.
    """
    sets = training_sets(study)
    if not sets and not models:
        return
    yield heading("What training changed", ANCHOR)
    if sets:
        yield _training_sets_table(study).as_html()
        first = next((name for name, manifest in sets.items() if manifest["policy"] == "none"), next(iter(sets)))
        for name in (name for name in sets if name != first):
            yield from _differences(study, first, name)
    if models:
        yield _models_table(models, k).as_html()
        yield remark(
            "Before: the run of the initial model over the same questions. Intervals and p values are paired by question."
        )


def _training_sets_table(study: Study) -> ResultTable:
    rows = []
    for name, manifest in training_sets(study).items():
        counts = manifest["counts"]
        roles = {role: sum(row.values()) for role, row in counts["sources"].items()}
        rows.append(
            [
                name,
                manifest["policy"],
                ", ".join(manifest["request"]["runs"]),
                counts["questions"],
                *(roles[role] for role in ("positive", "negative", "dropped")),
            ]
        )
    heads = ["", "policy", "mined from", "questions", "positives", "negatives", "dropped"]
    return ResultTable("Training sets", heads, rows)


def _differences(study: Study, run_before: str, run_after: str) -> Iterator[str]:
    summary = change_summary(TrainingSet.open(study, run_before), TrainingSet.open(study, run_after))
    if not summary.changed:
        yield remark(f"{run_before} and {run_after} have the same pairs in the same roles.")
        return
    rows = [[KINDS[kind], why, count] for kind, reasons in summary.by_kind().items() for why, count in reasons.items()]
    same = f"{quantity(summary.same, 'pair')} with the same role"
    title = f"From {run_before} to {run_after}: {quantity(summary.changed, 'changed pair')}, {same}"
    yield ResultTable(title, ["", "reason", "pairs"], rows).as_html()


def _models_table(models: list[TrainedModel], k: int) -> ResultTable:
    rows = []
    for model in models:
        figures = model.figures
        value, low, high = (0 - each for each in figures.difference.estimate.percent)
        rows.append(
            [
                model.name,
                model.training_set,
                model.run_before,
                n_value(figures.n, figures.units, figures.unit),
                figures.a,
                figures.b,
                f"{signed_number(value)} ({signed_ends(high, low)})",
                f"{figures.difference.p:.4f}",
                figures.difference.only_b,
                figures.difference.only_a,
            ]
        )
    before, after = Column("before", "%", "percent"), Column("after", "%", "percent")
    heads = ("", "trained on", "before", "n", before, after, "change", "p", "gained", "lost")
    return ResultTable(f"Success@{k} before and after training", heads, rows)

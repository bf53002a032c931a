"""The Models tab of the Training page: the forms that train, the curves, the runs before and after training, and the
list of models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import streamlit as st

from blindspot.analysis.accuracy import Estimate
from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import command, notice, percent, percentage, success_head
from blindspot.app.components.parts import descriptions, name_with_description, parts_panel
from blindspot.app.components.path_bar import lead_to
from blindspot.app.components.plots import plot
from blindspot.app.components.strips import difference_strip, widest_difference
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.components.training import tabs
from blindspot.app.components.training.changes import PARAMETERS
from blindspot.app.components.training.form import BEGUN, cross_encoder_form, retriever_form, taught_form
from blindspot.app.components.training.tabs import part_name
from blindspot.app.components.training.this_set import cleaned_from
from blindspot.app.markup import (
    Html,
    div,
    join,
    link,
    row,
    show,
    span,
    table,
    table_head,
    tag,
    wide_head,
)
from blindspot.backend.core import jobs as work
from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.jobs import request
from blindspot.backend.core.result_table import signed_ends, signed_number
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.judges.feature_judge import KIND, feature_judges
from blindspot.backend.judges.judge import kind_title
from blindspot.backend.reader.reading import read
from blindspot.backend.reader.training import train_reader
from blindspot.backend.recipes.rocketqa import train_rocketqa
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training.before_after import initial_encoder_name, run_before
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.cross_encoder import train_cross_encoder
from blindspot.backend.training.dual_encoder import train_dual_encoder, trial_run_name, try_model
from blindspot.backend.training.scoring import score_run
from blindspot.backend.training.training_log import read_log
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.backend.upkeep.study_path import NextStep

COMPARED_BY = {
    "average_rank": (
        "Average rank of the held-out questions' positives within a fixed pool of passages; lower is better, 1 is best. "
        "Each training set has its own pool, so compare only models of the same set."
    ),
    "mean_average_precision": "Mean average precision: how well the model orders the passages of each held-out "
    "question; "
    "higher is better, 1 is best.",
    "held_out_loss": "Held-out loss: mean log loss over pairs of held-out questions; lower is better.",
}
"""The measures by which checkpoints are compared, with explanations."""
RESUMABLE = (train_dual_encoder, train_cross_encoder, train_reader, train_rocketqa)
"""Jobs that resume from their last checkpoint when they are started again."""
FROM_START = "from its start"
JUDGED = 20  # passages per question for a cross-encoder to score; more take long on a CPU


def models_tab(open_study: Study, training_set: str) -> None:
    """Show what cleaning or training changed, all models beside the models they began as, and the forms that train."""
    models, stopped = models_of(open_study), unfinished(open_study)
    model = url.value("model") or next(reversed(models), "")
    started_models: dict[str, str] = st.session_state.get(BEGUN, {})
    changed = {name: _change(open_study, name, about) for name, about in models.items()}
    cleaned = _cleaning_effects(open_study, models, changed)
    shown = next((each for each in cleaned if model in (each.name, each.other)), None)
    if shown:
        tabs.title(_cleaning_sentence(shown), _cleaning_flips(shown))
        lead_to(NextStep("See the questions that changed", url.COMPARE, parameters=_compared(shown.change)))
    else:
        tabs.title(*_sentences(model, changed.get(model), training_set))
    if model in models:
        has_searched = _before_and_after(open_study, model, models[model])[1] is not None
        after_training(open_study, model, has_searched)
    if model in started_models and model not in models:
        show(notice(f"{model} is being trained. {started_models[model]}"))
    if models:
        every = scrolling(models_table(open_study, models, changed, model, training_set, shown))
        others = [_cleaning_sentence(each) for each in cleaned if each is not shown]
        show(style_sheet("training/training.css"), div(every, *(tag("p", words) for words in others), cls="panel"))
    if model and (model in models or model in stopped or model in started_models or read_log(open_study, model)):
        watch(open_study, model)
    elif model:
        show(notice(f"This study has no model named {model}."))
    _forms(open_study, models, stopped, training_set)
    if model in models:
        parts_panel(open_study, "model", [model])


def _forms(open_study: Study, models: dict[str, dict], stopped_models: set[str], training_set: str) -> None:
    """Show the forms that train, in one fold once there is a model."""
    judges = [about["name"] for about in feature_judges(open_study)]
    if not training_set and not judges:
        return
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can train models."))
        return
    if extra := first_missing(("train",)):
        show(notice(f"Training needs the extra {extra}: ", command(install_command(extra))))
        return
    taken_names = set(models) | set(open_study.settings.encoders) | stopped_models
    with st.expander("Train another model") if models else st.container():
        if training_set:
            names = list(reversed(training_sets(open_study)))
            with st.columns([1, 2])[0]:
                url.select("Training set", "set", names, names[0], forget=("before", *PARAMETERS))
            retriever_form(open_study, training_set, taken_names, primary=not models)
            with st.expander("Train a cross-encoder"):
                cross_encoder_form(open_study, training_set, taken_names)
        if judges:
            with st.expander("Let a judge teach a retriever", expanded=not training_set):
                taught_form(open_study, judges[::-1], taken_names)


def _before_and_after(open_study: Study, model: str, about: dict) -> tuple[str | None, str | None]:
    """Return the runs of a dual encoder's initial model and of the trained encoder; None for a run that does not exist."""
    runs, split = study.shown_runs(open_study), _split(open_study)
    after = trial_run_name(model, split) if split else ""
    if after not in runs:
        return None, None
    return run_before(open_study, about, after, split, runs), after


def _split(open_study: Study) -> str:
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
        return _gain(self.figures)[0]


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


def _change(open_study: Study, name: str, about: dict) -> ModelChange | None:
    """Return what a model changed; None if a run is absent, or if no question is measured in both."""
    before, after = _before_and_after(open_study, name, about)
    if not before or not after:
        return None
    start = initial_encoder_name(open_study, about) or ""
    is_start = study.shown_runs(open_study)[before].get("retriever") == start
    return _change_of_runs(open_study, name, start if is_start else before, before, after)


def _change_of_runs(open_study: Study, name: str, start: str, before: str, after: str) -> ModelChange | None:
    rule = study.rule_of_runs(open_study, before, after)
    compared = study.comparison(open_study, before, after, "answers", rule)
    k = min(HEADLINE_K, compared.depth)
    return ModelChange(name, start, before, after, figures_at(compared, k)) if len(compared) and k else None


def _gain(figures: PairedFigures) -> tuple[str, str]:
    """Return the points that B has more than A, and the ends of their interval."""
    less = figures.difference.estimate  # A less B
    return signed_number(-100 * (less.value or 0.0)), signed_ends(-100 * (less.high or 0.0), -100 * (less.low or 0.0))


def _is_sure(figures: PairedFigures) -> bool:
    """Return whether the interval of a difference excludes 0."""
    estimate = figures.difference.estimate
    return (estimate.low or 0.0) > 0 or (estimate.high or 0.0) < 0


def _sentences(model: str, change: ModelChange | None, training_set: str) -> tuple[object, object]:
    """Say by how much training changed the share of answered questions, with links to the questions behind it."""
    if not training_set and not model:
        return "No model yet.", "A retriever learns from a training set, and this study has none yet."
    if not model:
        about = f"A retriever learns from the set {training_set}; then you see which questions it changes."
        return "No model yet.", about
    shown = part_name(model)
    if change is None:
        about = "Index the passages with it and retrieve, to see for which questions training changed the result."
        return join(shown, " has not searched yet."), about
    figures = change.figures
    points = -100 * (figures.difference.estimate.value or 0.0)
    verdict = "" if _is_sure(figures) else ": not established"
    finding = join(
        shown,
        f" answers {abs(points):.1f} points {'more' if points >= 0 else 'fewer'} than ",
        part_name(change.start),
        f" in the top {figures.k} (95%: {_gain(figures)[1]}){verdict}.",
    )
    shares = (
        f"{percent(figures.b.value)}% of {quantity(figures.n, 'question')} instead of {percent(figures.a.value)}%: "
    )
    return finding, join(shares, _turned_questions(change), ".")


def _turned_questions(change: ModelChange) -> Html:
    """How many questions training turned each way, with links to them."""
    return _flip_links(change, f"{change.figures.flips.only_b:,} got better")


def _flip_links(change: ModelChange, better: str) -> Html:
    cells, worse = _compared(change), f"{change.figures.flips.only_a:,} worse"
    return join(
        link(better, url.href(url.COMPARE, {**cells, "cell": "only_b"})),
        ", ",
        link(worse, url.href(url.COMPARE, {**cells, "cell": "only_a"})),
    )


def _compared(change: ModelChange) -> dict[str, Any]:
    """Return the parameters of Compare for the runs before and after."""
    return {"a": change.before, "b": change.after, "k": change.figures.k}


def _cleaning_effects(
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


def _cleaning_sentence(effect: CleaningEffect) -> str:
    """Say what cleaning adds to training, with the verdict first where it is not established."""
    figures = effect.change.figures
    points, ends = _gain(figures)
    measure = f"Success@{figures.k}"
    if not _is_sure(figures):
        return f"Not established: cleaning changes {measure} by {points} points (95%: {ends})."
    verb, size = "takes" if points.startswith("\N{MINUS SIGN}") else "adds", points.lstrip("+\N{MINUS SIGN}")
    return f"Cleaning {verb} {size} points of {measure} (95%: {ends})."


def _cleaning_flips(effect: CleaningEffect) -> Html:
    """Say how many questions the two models answer differently, with a link to them, and what the interval leaves out."""
    flips, n = effect.change.figures.flips, effect.change.figures.n
    words = f"{effect.name} against {effect.other}: {quantity(flips.only_b, 'question')} better, {flips.only_a:,} worse"
    return join(
        link(words, url.href(url.COMPARE, _compared(effect.change))),
        f", of {quantity(n, 'question')}. One training each: the interval is over questions, not over seeds.",
    )


def models_table(
    open_study: Study,
    models: dict[str, dict],
    changed: Mapping[str, ModelChange | None],
    chosen_model: str,
    training_set: str,
    cleaned: CleaningEffect | None = None,
) -> Html:
    """The models, newest first, and the models they began as: what each answers on the questions that measure, on one
    axis, and its difference from its start.

    Args:
        cleaned: two models whose difference has a row of its own, with an axis in points of the same scale.
    """
    known = [change for change in changed.values() if change]
    k = max((change.figures.k for change in known), default=HEADLINE_K)
    starts = {change.start: change.figures.a for change in known}
    more = None if cleaned is None else _of_cleaning(cleaned)
    axis = _axis(
        [*(change.figures.b for change in known), *starts.values()], 2 * widest_difference([more]) if more else 0
    )
    scale = _ends(f"{axis[0]:.0f}", f"{axis[1]:.0f}") if known else ""
    rows, described_as = [], descriptions(open_study, "model")
    for name, about in reversed(models.items()):
        change = changed[name]
        address = tabs.address("models", set=training_set, model=name)
        is_chosen = name == chosen_model
        name_link = link(name, address, aria_current="true" if is_chosen else None)
        cells = (
            *_measured_cells(change, about, axis),
            _named_cell("trained on", about.get("training_set") or about.get("run") or "–", "left wide"),
            _named_cell("initial model", initial_encoder_name(open_study, about) or "–", "left wide"),
            _named_cell("kind", kind_title(about.get("kind", "dual encoder")) + _teacher_text(about), "left wide"),
            _named_cell("steps", _step_text(about.get("last_step"))),
            _named_cell("time", duration(about.get("seconds", 0))),
        )
        rows.append(
            row(
                *cells,
                head=name_with_description(name_link, described_as.get(name)),
                cls="chosen" if is_chosen else None,
            )
        )
    blank = [tag("td", "", cls="wide blank")] * 5
    for name, share in starts.items():
        strip = tag("td", _strip(share, axis), cls="drawn")
        rows.append(row(percentage(share, inline=True), strip, _named_cell(FROM_START, "start"), *blank, head=name))
    if cleaned is not None and more is not None:
        rows.append(_difference_row(cleaned, more, (axis[1] - axis[0]) / 2, blank))
    left = [tag("th", words, scope="col", cls="left wide") for words in ("trained on", "initial model", "kind")]
    heads = (success_head(k), tag("th", scale, scope="col", cls="drawn"), wide_head(FROM_START), *left)
    return table(table_head("model", *heads, wide_head("steps"), wide_head("time")), rows, "figures groups models")


def _of_cleaning(effect: CleaningEffect) -> Estimate | None:
    """Return what the model of the cleaned set has more than that of its source; None without an interval."""
    less = effect.change.figures.difference.estimate  # the source's share less the cleaned one's
    if less.value is None or less.low is None or less.high is None:
        return None
    return replace(less, value=-less.value, low=-less.high, high=-less.low)


def _difference_row(effect: CleaningEffect, more: Estimate, limit: float, blank: Sequence[Html]) -> Html:
    """Return the row of a difference, around 0, on a line from -limit to limit."""
    limit, (value, ends) = max(limit, widest_difference([more])), _gain(effect.change.figures)
    name = f"{effect.cleaned_set} − {effect.source_set}"
    ends_of_axis = _ends(signed_number(-limit, 0), "0", signed_number(limit, 0))
    gain = link(value, url.href(url.COMPARE, _compared(effect.change)), title="Points that cleaning adds")
    return row(
        tag("td", span(gain, span(ends, cls="interval"), cls="figure")),
        tag("td", difference_strip(more, limit, what=name), ends_of_axis, cls="drawn"),
        blank[0],
        *blank,
        head=name,
        cls="of-two",
    )


def _ends(*values: str) -> Html:
    """Return the values at the ends of an axis, and between them."""
    return div(*(span(each) for each in values), cls="ends")


def _named_cell(name: str, content: object, cls: str = "wide") -> Html:
    """A cell that narrow windows show on demand, after its column's name."""
    return tag("td", content, cls=cls, data_name=name)


def _axis(shares: Sequence[Estimate], width: float = 0.0) -> tuple[float, float]:
    """Return the ends of the axis of the intervals, in percent, as tens, at least `width` apart where 0 and 100 allow."""
    ends = [100 * end for share in shares for end in (share.low, share.high) if end is not None]
    if not ends:
        return 0.0, 100.0
    low, high = 10.0 * math.floor(min(ends) / 10), 10.0 * math.ceil(max(ends) / 10)
    low = max(0.0, min(low, high - width))
    return low, min(100.0, max(high, low + width))


def _strip(share: Estimate, axis: tuple[float, float]) -> Html:
    """Draw a share and its interval on the axis."""
    if share.value is None or share.low is None or share.high is None:
        return Html("")
    value, low, high = (
        100 * (100 * each - axis[0]) / ((axis[1] - axis[0]) or 1.0) for each in (share.value, share.low, share.high)
    )
    return div(
        span(cls="range", style=f"left:{low:.1f}%;width:{high - low:.1f}%"),
        span(cls="dot", style=f"left:{value:.1f}%"),
        cls="strip",
        aria_hidden="true",
    )


def _measured_cells(change: ModelChange | None, about: dict, axis: tuple[float, float]) -> tuple[Html, Html, Html]:
    """Return a model's share, its interval on the axis, and the difference from its start."""
    if change is None:
        is_retriever = about.get("kind") not in ("reader", "cross-encoder", KIND)
        words = span("not yet searched", cls="soft") if is_retriever else "–"
        return tag("td", words), tag("td", "", cls="drawn"), _named_cell(FROM_START, "–")
    value, ends = _gain(change.figures)
    flips = change.figures.flips
    turned = f"{quantity(flips.only_b, 'question')} better, {flips.only_a:,} worse than {change.start}"
    gain = link(value, url.href(url.COMPARE, _compared(change)), title=turned)
    share = change.figures.b
    return (
        tag("td", percentage(share, inline=True)),
        tag("td", _strip(share, axis), cls="drawn"),
        _named_cell(FROM_START, span(gain, span(ends, cls="interval"), cls="figure")),
    )


def smaller_k(open_study: Study) -> dict[str, Any]:
    """Return the option `k` for a retrieval, if the study has fewer passages than the default k."""
    return {"k": len(open_study.corpus)} if len(open_study.corpus) < open_study.settings.k else {}


def _teacher_text(manifest: dict) -> str:
    settings = manifest.get("settings") or {}
    return f", distilled from {settings['distil']}" if settings.get("distil") else ""


def _step_text(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def watch(open_study: Study, name: str) -> None:
    """Show the curves of a model, live during training, and its actions."""
    running = any(job.unfinished and job.arguments.get("name") == name for job in work.recent(open_study, 20))
    with st.container() if running else st.expander(f"Training curve of {name}"):
        st.fragment(_watch, run_every=3.0 if running else None)(open_study, name, running)
    if not running:
        _resume(open_study, name)


def unfinished(open_study: Study) -> set[str]:
    """Return the names of models whose training was stopped and can be resumed."""
    return {path.name[1:].removesuffix("~training") for path in open_study.folder.glob("models/.*~training")}


def _resume(open_study: Study, name: str) -> None:
    """Show a button that restarts the stopped job with the same arguments, from its last checkpoint."""
    of_model = (job for job in work.recent(open_study, 100) if job.arguments.get("name") == name)
    job, again = next(
        (
            (job, again)
            for job in of_model
            if (again := work.request_again(job)) is not None and again.kind.function in RESUMABLE
        ),
        (None, None),
    )
    if job is not None and again is not None and name in unfinished(open_study) and not job.unfinished:
        show(notice(f"The training of {name} was stopped."))
        jobs.start_button(open_study, again, key=f"go-on-{name}", label="Resume")


def _watch(open_study: Study, name: str, was_running: bool) -> None:
    if who.sign_in_has_ended(open_study.labels_path):
        st.rerun()
    log = read_log(open_study, name)
    losses = [line for line in log if "loss" in line]
    compared_by = next((figure for figure in COMPARED_BY for line in log if figure in line), "average_rank")
    ranks = [line for line in log if compared_by in line]
    running = was_running and any(
        job.unfinished and job.arguments.get("name") == name for job in work.recent(open_study, 20)
    )
    if losses or ranks:
        last = losses[-1] if losses else {}
        progress = (
            f"step {last.get('step', 0):,}, loss {last.get('loss', float('nan')):.3f}, "
            f"{last.get('examples_per_second', 0):.1f} questions/s"
            if last
            else ""
        )
        show(div(tag("h2", name), span("training, " if running else "", progress, cls="soft"), cls="list-head"))
        plot(_curves(losses, ranks, compared_by), f"curves-{name}")
        show(tag("p", COMPARED_BY[compared_by], cls="convention"))
    elif running:
        show(notice(f"Training {name}. The first figures appear after a few steps."))
    if was_running and not running:
        st.rerun()


def _curves(losses: list[dict], ranks: list[dict], compared_by: str = "average_rank"):
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    words = compared_by.replace("_", " ")
    figure = make_subplots(1, 2, subplot_titles=("loss", words))
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in losses],
            y=[line["loss"] for line in losses],
            mode="lines+markers",
            name="loss",
            line_color=BLUE,
        ),
        1,
        1,
    )
    figure.add_trace(
        go.Scatter(
            x=[line["step"] for line in ranks],
            y=[line[compared_by] for line in ranks],
            mode="lines+markers",
            name=words,
            line_color=VERMILION,
            marker_symbol="square",
        ),
        1,
        2,
    )
    figure.update_layout(height=260, margin={"l": 40, "r": 10, "t": 30, "b": 40}, showlegend=False)
    figure.update_xaxes(title_text="step")
    return figure


def after_training(open_study: Study, name: str, has_searched: bool) -> None:
    """Show the next steps after training.

    A dual encoder can be indexed and tried; then the path leads on to the comparison with its initial model. A
    cross-encoder can score a run. A reader can read a run.

    Args:
        has_searched: whether there is a run of a dual encoder over the questions that measure.
    """
    runs, manifest = study.shown_runs(open_study), models_of(open_study)[name]
    kind = manifest.get("kind")
    if kind == "reader":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "dev"][-3:]:
            jobs.start_button(
                open_study, request(read, run, reader=name), key=f"read-{name}-{run}", label=f"Read {run}"
            )
    elif kind == "cross-encoder":
        for run in [run for run, manifest in runs.items() if manifest.get("split") == "train"][-2:]:
            words = f"Score the first {JUDGED} passages of each question of {run}"
            jobs.start_button(open_study, request(score_run, name, run, JUDGED), key=f"score-{name}-{run}", label=words)
    elif kind != KIND and not has_searched and (split := _split(open_study)):
        # The tab Judges judges runs with a feature judge.
        job = request(try_model, name, split, **smaller_k(open_study))
        words = f"Index and retrieve for {split}{_indexing_time(open_study, manifest)}"
        jobs.start_button(open_study, job, key=f"try-{name}", label=words, primary=True)


def _indexing_time(open_study: Study, manifest: dict[str, Any]) -> str:
    """How long it took to index the passages with the initial model, in brackets; "" if there is no such index."""
    index = open_study.parts("indexes").get(initial_encoder_name(open_study, manifest) or "")
    took = index.get("seconds") if index else None
    return f" (about {duration(took)}, as its start took)" if took else ""

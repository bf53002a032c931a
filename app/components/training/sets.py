"""Training sets on the Training page: the list, the contents of one set, and its differences from labels and other
sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import command, empty, notice
from blindspot.app.components.parts import described
from blindspot.app.components.plots import plot
from blindspot.app.components.training.certificate import certificate_panel
from blindspot.app.components.training.changes import PARAMETERS, changes_panel
from blindspot.app.components.training.models import fewer
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.desk import desk
from blindspot.app.markup import Html, div, join, link, show, span, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.demo import is_demo
from blindspot.backend.evaluation.chart_colours import GREEN, PINK
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS
from blindspot.backend.text.counting import counted
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.denoising import DENOISING, policy_help, policy_named, policy_names
from blindspot.backend.training_sets.differences import new_labels
from blindspot.backend.training_sets.stratified_sample import queue_stratified_sample
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.descriptions import Description
from blindspot.db.errors import BlindspotError
from blindspot.db.rights import SETTLERS

NEW_SHOWN = 12
NO_MODEL = "none"
_SAID = "training-said"
FATES = {
    "kept": ("kept as negatives", "#8a94a0"),
    "removed": ("removed by the policy", "#e69f00"),
    "removed_by_people": ("removed by annotators", PINK),
    "relabelled": ("relabelled positive by annotators", GREEN),
}


def sets_table(made: dict[str, Manifest], chosen: str, about: Mapping[str, Description]) -> Html:
    """Every set with its size, newest first, linked to its panel."""
    head = tag(
        "tr",
        *(
            tag("th", name, scope="col", cls="left" if name in ("set", "policy", "mined from") else None)
            for name in (
                "set",
                "policy",
                "mined from",
                "questions",
                "positives",
                "negatives",
                "up to label",
                "created (UTC)",
            )
        ),
    )
    rows = []
    for name, manifest in reversed(made.items()):
        counts = manifest["counts"]
        roles = {role: sum(row.values()) for role, row in counts["sources"].items()}
        used = manifest["inputs"]["labels"]
        cells = (
            manifest["policy"],
            ", ".join(manifest["request"]["runs"]),
            f"{counts['questions']:,}",
            f"{roles['positive']:,}",
            f"{roles['negative']:,}",
            f"{used['last_event']:,}" if used["used"] else "–",
            manifest["made"][:16].replace("T", " "),
        )
        rows.append(
            tag(
                "tr",
                tag("th", described(link(name, url.href(url.TRAINING, {"set": name})), about.get(name)), scope="row"),
                *(tag("td", cell, cls="left" if place < 2 else None) for place, cell in enumerate(cells)),
                cls="chosen" if name == chosen else None,
            )
        )
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures")


def build_form(opened: Study, made: dict[str, Manifest]) -> None:
    """Show the form that builds a set from runs over the training questions."""
    if not who.may(opened.labels_path, "build training sets"):
        show(notice("Only leads can build training sets."))
        return
    runs = [
        name for name, manifest in study.shown_runs(opened).items() if "train" in (manifest.get("split") or "train")
    ]
    if not runs:
        _run_over_train(opened)
        return
    number = next(n for n in range(1, 10_000) if f"set-{n}" not in made)
    with st.form("build-set", border=False, enter_to_submit=False):
        columns = st.columns([2, 3, 3, 2.2, 1.4, 1.2], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"set-{number}", max_chars=64)
        chosen = columns[1].multiselect("Mine from", runs, runs[:1])
        policy = columns[2].selectbox(
            "Denoising policy", policy_names(), index=policy_names().index("answer_match+labels"), help=policy_help()
        )
        scored = _scored_models(opened)
        model = columns[3].selectbox(
            "Model",
            [NO_MODEL, *scored],
            help="Judge or cross-encoder whose scores the policies "
            f"{', '.join(policy.name for policy in DENOISING if policy.uses_model)} and positive_aware use.",
        )
        last = columns[4].number_input("Maximum rank", 1, 1000, 100)
        with columns[5]:
            pressed = st.form_submit_button("Build")
        proposes = st.checkbox(
            "Add the model's positives",
            help=(
                "Passages that the model is sure answer become positives besides gold (policies cross_encoder and "
                "judge)."
            ),
        )
    if pressed:
        more = _model_settings(policy, None if model == NO_MODEL else model, proposes)
        if more is None:
            show(
                notice(
                    f"The policy {policy} needs a model. Choose one; learn a judge above if there is none.",
                    kind="error",
                )
            )
            return
        jobs.start(opened, request(build, name.strip(), chosen, policy=policy, last=last, **more))
        st.rerun()


def _scored_models(opened: Study) -> list[str]:
    """Return the judges with scores, the newest first."""
    return list(reversed(opened.parts("scores")))


def _model_settings(policy: str, model: str | None, proposes: bool) -> dict[str, Any] | None:
    """Return the settings of a set that follow from the chosen model; None if the policy needs one and there is
    none.
    """
    definition = policy_named(policy).definition
    if not (definition.uses_model or definition.uses_ceiling):
        return {}  # a model that the policy does not use is no part of the set
    if model is None:
        return None if definition.uses_model else {}
    positives = {"positives": ["gold", definition.proposes]} if proposes and definition.proposes else {}
    return {"model": model, **positives}


def _run_over_train(opened: Study) -> None:
    splits = {row["split"] for row in opened.questions.counts()}
    if "train" not in splits:
        show(
            empty(
                "No training questions",
                "A training set needs questions of the split train with gold passages. Import some first.",
            )
        )
        return
    show(
        notice(
            "A training set mines its negatives from a run over the training questions. This study has no such run yet."
        )
    )
    for kind in RETRIEVERS:
        for name in kind.available(opened)[:1] if kind.suggested and not kind.fusion else ():
            jobs.start_button(
                opened,
                request(retrieve, kind.name, split="train", **kind.options_of(name), **fewer(opened)),
                key=f"train-{kind.name}",
                words=f"Retrieve for train with {kind.title}",
            )


def set_panel(opened: Study, chosen: TrainingSet, made: dict[str, Manifest]) -> None:
    """Show the contents of a set, and the fate of the mined passages by rank (RocketQA's Figure 5)."""
    counts = chosen.manifest["counts"]
    out = chosen.manifest["left_out"]
    show(
        div(
            div(tag("h2", chosen.name), span(chosen.manifest["policy"], cls="soft"), cls="list-head"),
            _sources(counts),
            _left_out(out),
            cls="panel",
        )
    )
    sees_labels = _sees_labels(opened)
    others = [name for name in made if name != chosen.name]
    if others and not sees_labels and url.value("before"):
        show(
            notice(
                "The differences of two sets show annotators' labels. Only people who settle disputes can see them: ",
                f"{' and '.join(SETTLERS)}s. ",
                link("Sign in on Judge", url.JUDGE),
                ".",
            )
        )
    if others and sees_labels:
        with st.columns([1, 2])[0]:
            before = url.select(
                "Compare with",
                "before",
                ["", *others],
                "",
                forget=PARAMETERS,
                format_func=lambda name: name or "choose a set",
            )
        if before:
            changes_panel(opened, TrainingSet.open(opened, before), chosen)
    if sees_labels:
        _new(opened, chosen)
    show(certificate_panel(opened, chosen, sees_labels))
    ranks = counts["by_rank"]
    if ranks:
        show(div(tag("h2", "Mined passages by rank"), cls="list-head"))
        plot(_fates(ranks), f"fates-{chosen.name}")
    _judge_strata(opened, chosen)
    show(
        div(
            span("Export: ", cls="soft"),
            command(f"blindspot training-set export {chosen.name} --format sentence-transformers"),
            span(" or dpr, rocketqa, tevatron, beir, parquet", cls="soft"),
            cls="foot",
        )
    )


def _sees_labels(opened: Study) -> bool:
    """Whether the viewer may see labels: by their role, or because all labels of a demo nobody has joined are
    simulated.
    """
    if who.may(opened.labels_path, "see others' labels"):
        return True
    return is_demo(opened) and who.mode() == "local" and not who.real_people(opened.labels_path)


def _judge_strata(opened: Study, chosen: TrainingSet) -> None:
    """Show a button that queues a stratified sample of the set for judging; leads only."""
    if not who.may(opened.labels_path, "make batches"):
        return
    words = "Queue a sample for judging"
    st.button(words, key="judge-strata", on_click=_send, args=(opened, chosen.name))
    if said := st.session_state.pop(_SAID, None):
        show(
            notice(
                said, " ", link("Judge", url.JUDGE), " the sample; Quality then shows the precision of each stratum."
            )
        )


def _send(opened: Study, name: str) -> None:
    taken = {batch.name for batch in desk(opened).queue.batches()}
    batch = next(batch for n in range(1, 10_000) if (batch := f"{name}-check-{n}") not in taken)
    try:
        made = queue_stratified_sample(opened, batch, name, by=who.acting(opened.labels_path))
        st.session_state[_SAID] = f"Queued {counted(made.passages, 'passage')} as batch {batch}."
    except BlindspotError as error:
        st.session_state[_SAID] = str(error)


def _sources(counts: dict) -> Html:
    words = {
        "label": "annotators",
        "gold": "gold",
        "distant": "distant supervision",
        "cross_encoder": "cross-encoder",
        "judge": "judge",
        "run": "mined",
        "random": "random",
        "other_gold": "gold of other questions",
    }
    parts = [tag("p", f"{counted(counts['questions'], 'question')}, {counted(counts['pairs'], 'pair')}")]
    for role, row in counts["sources"].items():
        if row:
            total = sum(row.values())
            name = f"{total:,} dropped" if role == "dropped" else counted(total, role)
            sources = ", ".join(f"{number:,} {words.get(source, source)}" for source, number in row.items())
            parts.append(tag("p", tag("b", f"{name}: "), sources))
    return join(*parts)


def _left_out(reasons: dict[str, int]) -> Html:
    if not reasons:
        return Html("")
    by_reason = "; ".join(f"{number:,} ({reason})" for reason, number in reasons.items())
    return tag(
        "p",
        term("Questions left out", "Questions without training data, by reason, including leaks from dev and test"),
        f": {by_reason}.",
        cls="convention",
    )


def _fates(ranks: dict[str, dict[str, int]]):
    import plotly.graph_objects as go

    at = [int(rank) for rank in ranks]
    bars = [
        go.Bar(
            name=words,
            x=at,
            y=[row[fate] for row in ranks.values()],
            marker_color=colour,
            hovertemplate="rank %{x}: %{y:,}<extra>" + words + "</extra>",
        )
        for fate, (words, colour) in FATES.items()
        if any(row[fate] for row in ranks.values())
    ]
    figure = go.Figure(bars)
    figure.update_layout(
        barmode="stack",
        height=260,
        margin={"l": 50, "r": 10, "t": 10, "b": 40},
        xaxis_title="rank",
        yaxis_title="passages",
        legend={"orientation": "h", "y": 1.15},
        bargap=0.1,
    )
    return figure


def _new(opened: Study, chosen: TrainingSet) -> None:
    """Show the pairs that labels given since the set was built would change."""
    found = [each for each in new_labels(opened, chosen) if each.matters]
    if not found:
        return
    rows = pair_rows(
        opened,
        [
            (
                each.question,
                each.passage,
                each.now or "undone",
                f"{each.role or 'absent'} → {each.becomes or 'as without labels'}",
            )
            for each in found[:NEW_SHOWN]
        ],
    )
    more = tag("p", f"The first {NEW_SHOWN} of {len(found):,}.", cls="convention") if len(found) > NEW_SHOWN else ""
    policy = chosen.manifest["policy"]
    wanted = policy if "labels" in policy else "labels" if policy == "none" else f"{policy}+labels"
    show(
        div(
            tag("h2", f"New labels would change {counted(len(found), 'pair')}"),
            tag("table", tag("tbody", *rows), cls="figures"),
            more,
            cls="panel",
        )
    )
    made_from = chosen.manifest["request"]
    name = next(
        name
        for n in range(2, 10_000)
        if (name := f"{chosen.name.rstrip('0123456789').rstrip('-')}-{n}") not in training_sets(opened)
    )
    arguments = {key: value for key, value in made_from.items() if key != "until"} | {"name": name, "policy": wanted}
    jobs.start_button(opened, request(build, **arguments), key="build-again", words=f"Build {name} with these labels")

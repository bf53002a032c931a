"""The tab This set of the Training page: the contents of the set, what new labels would change in it, its certificate,
its export, and its differences from another set.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.gold_check import gold_panel
from blindspot.app.components.marks import notice
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.plots import plot
from blindspot.app.components.training import tabs
from blindspot.app.components.training.certificate import certificate_section
from blindspot.app.components.training.changes import PARAMETERS, changes_panel
from blindspot.app.components.training.export import export_form
from blindspot.app.components.training.labels import label_counts
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, row, show, table, table_head, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.demo import is_demo
from blindspot.backend.evaluation.chart_colours import GREEN, PINK
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.decision_sample import queue_stratified_sample
from blindspot.backend.training_sets.differences import NewLabel, new_labels
from blindspot.backend.training_sets.gold_checks import GoldCheck
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.rights import SETTLERS

NEW_SHOWN = 12
FATES = {
    "kept": ("kept as negatives", "#8a94a0"),
    "removed": ("removed by the policy", "#e69f00"),
    "removed_by_people": ("removed by annotators", PINK),
    "relabelled": ("relabelled positive by annotators", GREEN),
}
SOURCES = {
    "label": "by annotators",
    "gold": "gold",
    "distant": "by distant supervision",
    "cross_encoder": "by a cross-encoder",
    "judge": "by a judge",
    "run": "mined",
    "random": "random",
    "other_gold": "gold of other questions",
}


def set_tab(open_study: Study, training_set: TrainingSet, manifests: dict[str, Manifest]) -> None:
    """Show the set: first what new labels would change, then its contents beside those of the set it was cleaned from,
    its certificate and its export.
    """
    sees_labels = may_see_labels(open_study)
    found = _pairs_with_new_labels(open_study, training_set) if sees_labels else []
    new = f"New labels would change {quantity(len(found), 'pair')} of it." if found else ""
    tabs.title(cleaned_words(training_set.name, manifests[training_set.name]), new)
    labels = label_counts(open_study)
    if found:
        _build_again(open_study, training_set, found, manifests)
    others = [name for name in manifests if name != training_set.name]
    usual = cleaned_from(training_set.name, manifests)
    before = url.one_of("before", others, usual)
    with st.container(key="set-compare"):
        show(
            tag("h2", "Contents"),
            _contents(training_set.name, manifests[training_set.name], before, manifests.get(before)),
            _left_out(training_set.manifest["left_out"]),
            labels,
        )
        if others:
            _comparison(open_study, training_set, (before, usual), others, sees_labels)
    with st.container(key="set-check"):
        certificate_section(open_study, training_set, sees_labels)
        _judge_strata(open_study, training_set)
    gold_panel(open_study, [GoldCheck("training", training_set.name)])
    with st.container(key="set-export"):
        export_form(open_study, training_set)
    counts = training_set.manifest["counts"]
    if counts["by_rank"]:
        with st.expander("Mined passages by rank"):
            plot(_fate_chart(counts["by_rank"]), f"fates-{training_set.name}")
    parts_panel(open_study, "training-set", [training_set.name], can_download=False)


def cleaned_words(name: str, manifest: Manifest) -> str:
    """Say which of the mined passages the policy removed from a set, and what the set contains."""
    counts, asked = manifest["counts"], manifest["request"]
    fates = {fate: sum(row[fate] for row in counts["by_rank"].values()) for fate in FATES}
    mined, kept = sum(fates.values()), fates["kept"]
    roles = _roles(manifest)
    if not mined:
        return (
            f"{name} holds {quantity(counts['questions'], 'question')}, {quantity(roles['positive'], 'positive')}, "
            f"{quantity(roles['negative'], 'negative')}."
        )
    where = f"{quantity(mined, 'passage')} mined from {' and '.join(asked['runs'])}"
    if kept == mined:
        return f"{name} takes all {where} as negatives ({policy_words(manifest['policy'])})."
    share = f"{100 * (mined - kept) / mined:.1f}%"
    return f"{name} drops or relabels {share} of the {where} ({policy_words(manifest['policy'])})."


def policy_words(policy: str) -> str:
    """Return a policy's name in words, such as "answer match and labels"."""
    if policy == "none":
        return "no cleaning"
    return " and ".join(name.replace("_", " ") for name in policy.split("+"))


def cleaned_from(name: str, manifests: Mapping[str, Manifest]) -> str:
    """Return the newest older set that was mined from the same runs; "" if there is none. Of sets that were made in the
    same second, one without a policy is the older one.
    """
    age = {each: (about["made"], about["policy"] != "none") for each, about in manifests.items()}
    runs = manifests[name]["request"]["runs"]
    older = [each for each in manifests if age[each] < age[name] and manifests[each]["request"]["runs"] == runs]
    return max(older, key=lambda each: age[each], default="")


def _comparison(
    open_study: Study,
    training_set: TrainingSet,
    before_and_usual: tuple[str, str],
    other_sets: list[str],
    sees_labels: bool,
) -> None:
    """Show the choice of another set, and the differences between the two sets.

    Args:
        before_and_usual: the set to compare with, and the one that is offered first; "" for none.
    """
    before, usual = before_and_usual
    if not sees_labels:
        if url.value("before"):
            show(
                notice(
                    "The differences of two sets show annotators' labels. Only people who settle disputes can see "
                    f"them: {' and '.join(SETTLERS)}s. ",
                    link("Sign in on Judge", url.JUDGE),
                    ".",
                )
            )
        return
    with st.columns([1, 2])[0]:
        url.select(
            "Compare with",
            "before",
            other_sets if usual else ["", *other_sets],
            usual,
            forget=PARAMETERS,
            format_func=lambda name: name or "choose a set",
        )
    if before:
        changes_panel(open_study, TrainingSet.open(open_study, before), training_set)


def may_see_labels(open_study: Study) -> bool:
    """Whether the viewer may see labels: because of their role, or because all labels are simulated, in a demo that
    nobody has joined.
    """
    if who.may(open_study.labels_path, "see others' labels"):
        return True
    return is_demo(open_study) and who.mode() == "local" and not who.real_people(open_study.labels_path)


def _judge_strata(open_study: Study, training_set: TrainingSet) -> None:
    """Show a button that sends a stratified sample of the set to judging; only leads see it."""
    if not who.may(open_study.labels_path, "make batches"):
        return
    words = "Judge a sample of what the policy kept and removed"
    st.button(
        words, key="judge-strata", on_click=try_action, args=(partial(_send, open_study, training_set.name), "strata")
    )
    show_last_message("strata")


def _send(open_study: Study, name: str) -> Html:
    taken = {batch.name for batch in judging_stores(open_study).queue.batches()}
    batch = next(batch for n in range(1, 10_000) if (batch := f"{name}-check-{n}") not in taken)
    made = queue_stratified_sample(open_study, batch, name, actor=who.acting_name(open_study.labels_path))
    judge = link("Judge", url.JUDGE)
    queued = f"Queued {quantity(made.passages, 'passage')} as batch {batch}. "
    return join(queued, judge, " the sample; Quality then shows the precision of each stratum.")


def _roles(manifest: Manifest) -> dict[str, int]:
    return {role: sum(row.values()) for role, row in manifest["counts"]["sources"].items()}


def _contents(name: str, manifest: Manifest, previous_name: str, manifest_before: Manifest | None) -> Html:
    """Return the table of what a set holds, beside the set before it, and with the sources of each role."""
    sources = manifest["counts"]["sources"]
    roles, former = _roles(manifest), _roles(manifest_before) if manifest_before else None
    rows = []
    for role, total in roles.items():
        was = former.get(role, 0) if former is not None else 0
        if total or was:
            words = ", ".join(f"{number:,} {SOURCES.get(source, source)}" for source, number in sources[role].items())
            earlier = [f"{was:,}"] if former is not None else []
            plural = role if role == "dropped" else f"{role}s"
            rows.append(row(*earlier, f"{total:,}", tag("td", words, cls="left"), head=plural))
    for key in ("pairs", "questions"):
        earlier = [f"{manifest_before['counts'][key]:,}"] if manifest_before else []
        rows.append(row(*earlier, f"{manifest['counts'][key]:,}", tag("td", ""), head=key))
    heads = [f"before: {previous_name}", name] if former is not None else [name]
    head = table_head("", *heads, tag("th", "of which", scope="col", cls="left"))
    return div(table(head, rows), cls="scrolling")


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


def _fate_chart(ranks: dict[str, dict[str, int]]):
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


def _pairs_with_new_labels(open_study: Study, training_set: TrainingSet) -> list[NewLabel]:
    """Return the pairs that would change because of labels given since the set was built."""
    last = judging_stores(open_study).labels.last_event
    return _cached_new_labels(
        open_study, training_set, str(open_study.folder), training_set.manifest["fingerprint"], last
    )


@st.cache_data(max_entries=8, show_spinner="Comparing the labels with the set …")
def _cached_new_labels(
    _study: Study, _chosen: TrainingSet, folder: str, fingerprint: str, last_event: int
) -> list[NewLabel]:
    return [each for each in new_labels(_study, _chosen) if each.is_important]


def _build_again(
    open_study: Study, training_set: TrainingSet, new_labels: list[NewLabel], manifests: dict[str, Manifest]
) -> None:
    """Show the button that builds the set again with the new labels, and the pairs that they change."""
    policy = training_set.manifest["policy"]
    wanted = policy if "labels" in policy else "labels" if policy == "none" else f"{policy}+labels"
    stem = training_set.name.rstrip("0123456789").rstrip("-")
    name = next(name for n in range(2, 10_000) if (name := f"{stem}-{n}") not in manifests)
    arguments: dict[str, Any] = {
        key: value for key, value in training_set.manifest["request"].items() if key != "until"
    }
    jobs.start_button(
        open_study,
        request(build, **(arguments | {"name": name, "policy": wanted})),
        key="build-again",
        label=f"Build {name} with these labels (about {duration(training_set.manifest['seconds'])})",
        primary=True,
    )
    rows = pair_rows(
        open_study,
        [
            (
                each.question,
                each.passage,
                each.now or "undone",
                f"{each.role or 'absent'} → {each.becomes or 'as without labels'}",
            )
            for each in new_labels[:NEW_SHOWN]
        ],
    )
    more = (
        tag("p", f"The first {NEW_SHOWN} of {len(new_labels):,}.", cls="convention")
        if len(new_labels) > NEW_SHOWN
        else ""
    )
    head = table_head(
        "question", *(tag("th", name, scope="col", cls="left") for name in ("passage", "label", "change"))
    )
    pairs = div(tag("table", head, tag("tbody", *rows), cls="figures"), cls="scrolling")
    show(div(tag("h2", f"New labels would change {quantity(len(new_labels), 'pair')}"), pairs, more, cls="panel"))

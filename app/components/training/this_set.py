"""One training set on the Training page: its contents, what new labels would change in it, its export,
and its differences from another set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.plots import plot
from blindspot.app.components.training.changes import PARAMETERS, change_words, contents_panel, reason_words
from blindspot.app.components.training.export import export_form
from blindspot.app.components.training.labels import label_sentence, label_warning
from blindspot.app.components.training.pairs import pair_rows
from blindspot.app.components.training.tabs import part_name
from blindspot.app.judging_stores import judging_stores, labels_owner
from blindspot.app.markup import Html, div, join, link, show, table_head, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.demo import is_demo
from blindspot.backend.evaluation.chart_colours import GREEN, PINK
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.differences import NewLabel, new_labels
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.rights import SETTLERS

NEW_SHOWN = 12
FATES = {
    "kept": ("kept as negatives", "#8a94a0"),
    "removed": ("removed by the policy", "#e69f00"),
    "removed_by_people": ("removed by annotators", PINK),
    "relabelled": ("relabelled positive by annotators", GREEN),
}


class SetFinding(NamedTuple):
    """What the page says of a set: its sentence, one more line, the set that it is compared with ("" for none), and the
    labels that would change it.
    """

    sentence: Html
    more: str
    before: str
    new_labels: list[NewLabel]


def set_finding(open_study: Study, training_set: TrainingSet, manifests: dict[str, Manifest]) -> SetFinding:
    """Return what the page says of a set. What the labels show is only for people who may see them."""
    name, sees_labels = training_set.name, may_see_labels(open_study)
    before = url.one_of("before", [each for each in manifests if each != name], cleaned_from(name, manifests))
    new = _pairs_with_new_labels(open_study, training_set) if sees_labels else []
    if before and sees_labels:
        sentence = change_words(TrainingSet.open(open_study, before), training_set)
    else:
        sentence = cleaned_words(name, manifests[name])
    counts = manifests[name]["counts"]
    decided = f"{pairs_by_annotators(manifests[name]):,} of its {quantity(counts['pairs'], 'pair')}"
    decided += ", dropped ones included" if roles_of(manifests[name]).get("dropped") else ""
    more = [f"{labels_owner(open_study)} decide the role of {decided}.", label_sentence(open_study)]
    more += [f"New labels would change {quantity(len(new), 'pair')} of it."] if new else []
    return SetFinding(sentence, " ".join(filter(None, more)), before, new)


def set_section(
    open_study: Study, training_set: TrainingSet, manifests: dict[str, Manifest], finding: SetFinding
) -> None:
    """Show one set: its contents beside those of the set it was cleaned from, and its export."""
    sees_labels = may_see_labels(open_study)
    with st.container(key="set-compare"):
        _comparison(open_study, training_set, manifests, finding.before, sees_labels)
        show(_left_out(training_set.manifest["left_out"]))
        label_warning(open_study)
    with st.container(key="set-export"):
        export_form(open_study, training_set)
    counts = training_set.manifest["counts"]
    if counts["by_rank"]:
        with st.expander("Mined passages by rank"):
            plot(_fate_chart(counts["by_rank"]), f"fates-{training_set.name}")
    parts_panel(open_study, "training-set", [training_set.name], can_download=False)


def pairs_by_annotators(manifest: Manifest) -> int:
    """Return the number of pairs whose role annotators' labels decide."""
    return sum(row.get("label", 0) for row in manifest["counts"]["sources"].values())


def cleaned_words(name: str, manifest: Manifest) -> Html:
    """Say which of the mined passages the policy removed from a set, and what the set contains."""
    counts, asked, shown = manifest["counts"], manifest["request"], part_name(name)
    fates = {fate: sum(row[fate] for row in counts["by_rank"].values()) for fate in FATES}
    mined, kept = sum(fates.values()), fates["kept"]
    roles = roles_of(manifest)
    if not mined:
        holds = f" holds {quantity(counts['questions'], 'question')}, {quantity(roles['positive'], 'positive')}, "
        return join(shown, holds, f"{quantity(roles['negative'], 'negative')}.")
    where = f"{quantity(mined, 'passage')} mined from {' and '.join(asked['runs'])}"
    if kept == mined:
        return join(shown, f" takes all {where} as negatives ({policy_words(manifest['policy'])}).")
    share = f"{100 * (mined - kept) / mined:.1f}%"
    return join(shown, f" drops or relabels {share} of the {where} ({policy_words(manifest['policy'])}).")


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
    open_study: Study, training_set: TrainingSet, manifests: dict[str, Manifest], before: str, sees_labels: bool
) -> None:
    """Show the contents of a set, the choice of another one, and the differences between the two."""
    others = [name for name in manifests if name != training_set.name]
    usual = cleaned_from(training_set.name, manifests)
    left, right = st.columns([5, 2], vertical_alignment="top")
    with left:
        show(tag("h2", "Contents of ", part_name(training_set.name)))
    if others and sees_labels:
        with right:
            url.select(
                "Compare with",
                "before",
                others if usual else ["", *others],
                usual,
                forget=PARAMETERS,
                format_func=lambda name: name or "choose a set",
            )
    contents_panel(open_study, TrainingSet.open(open_study, before) if before else None, training_set, sees_labels)
    if url.value("before") and not sees_labels:
        words = (
            "The differences of two sets show annotators' labels. Only people who settle disputes can see "
            f"them: {' and '.join(SETTLERS)}s. "
        )
        show(notice(words, link("Sign in on Judge", url.JUDGE), "."))


def may_see_labels(open_study: Study) -> bool:
    """Whether the viewer may see labels: because of their role, or because all labels are simulated, in a demo that
    nobody has joined.
    """
    if who.may(open_study.labels_path, "see others' labels"):
        return True
    return is_demo(open_study) and who.mode() == "local" and not who.real_people(open_study.labels_path)


def roles_of(manifest: Manifest) -> dict[str, int]:
    return {role: sum(row.values()) for role, row in manifest["counts"]["sources"].items()}


def _left_out(reasons: dict[str, int]) -> Html:
    if not reasons:
        return Html("")
    by_reason = "; ".join(f"{number:,} ({reason_words(reason)})" for reason, number in reasons.items())
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


def build_again(
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

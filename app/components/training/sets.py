"""The Sets tab of the Training page: the list of training sets, and the form that builds one."""

from __future__ import annotations

from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import empty, notice
from blindspot.app.components.training import tabs
from blindspot.app.components.training.labels import label_sentence, label_warning
from blindspot.app.components.training.this_set import (
    build_again,
    may_see_labels,
    pairs_by_annotators,
    policy_words,
    roles_of,
    set_finding,
    set_section,
)
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, link, show, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS
from blindspot.backend.text.number_words import duration
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.denoising import DENOISING, policy_help, policy_named, policy_names
from blindspot.backend.training_sets.training_set import TrainingSet

NO_MODEL = "none"


def sets_tab(open_study: Study, manifests: dict[str, Manifest], chosen_set: str) -> None:
    """Show what the chosen set makes of the one it was cleaned from, the list of sets, the form for another one, and
    below them the chosen set.
    """
    if not manifests:
        about = (
            "A training set lists the positives and hard negatives of each question, with their sources. Annotators' "
            "labels take precedence over the cross-encoder, and the cross-encoder over answer matching."
        )
        tabs.title("No training set yet.", about)
        show(tag("p", said, cls="convention") if (said := label_sentence(open_study)) else "")
        label_warning(open_study)
        build_form(open_study, manifests, None)
        return
    training_set = TrainingSet.open(open_study, chosen_set)
    finding = set_finding(open_study, training_set, manifests)
    tabs.title(finding.sentence, finding.more)
    if finding.new_labels:
        build_again(open_study, training_set, finding.new_labels, manifests)
    table = sets_table(manifests, chosen_set)
    show(div(scrolling(table), cls="panel"))
    with st.expander("Build another set"):
        build_form(open_study, manifests, manifests.get(chosen_set))
    if not may_see_labels(open_study) and who.signed_in_person(open_study.labels_path) is None:
        words = (
            "Without a name this page shows no labels: not the pairs behind a count, and no comparison of two sets. "
        )
        show(notice(words, link("Sign in on Judge", url.JUDGE), "."))
    set_section(open_study, training_set, manifests, finding)


def sets_table(manifests: dict[str, Manifest], chosen_set: str) -> Html:
    """Every set with its size, newest first, linked to its contents below."""
    by_labels = term("by annotators", "Pairs whose role annotators' labels decide, dropped ones included")
    turned = term("turned positive", "Mined passages that annotators' labels make positives")
    names = ("set", "questions", "positives", "negatives", turned, "dropped", by_labels, "policy", "mined from")
    classes = ("left", "wide", None, None, "wide", "wide", "wide", "left wide", "left wide")
    head = tag("tr", *(tag("th", name, scope="col", cls=cls) for name, cls in zip(names, classes, strict=True)))
    rows = []
    for name, manifest in reversed(manifests.items()):
        roles, policy = roles_of(manifest), manifest["policy"]
        cells = (
            f"{manifest['counts']['questions']:,}",
            f"{roles['positive']:,}",
            f"{roles['negative']:,}",
            f"{sum(fates['relabelled'] for fates in manifest['counts']['by_rank'].values()):,}",
            f"{roles.get('dropped', 0):,}",
            f"{pairs_by_annotators(manifest):,}",
            term(policy_words(policy), policy_explanation(policy)),
            ", ".join(manifest["request"]["runs"]),
        )
        address, made = tabs.address("sets", set=name), f"Built {manifest['made'][:16].replace('T', ' ')} UTC"
        is_chosen = name == chosen_set
        name_link = link(name, address, title=made, aria_current="true" if is_chosen else None)
        rows.append(
            tag(
                "tr",
                tag("th", name_link, scope="row"),
                *(tag("td", cell, cls=cls) for cell, cls in zip(cells, classes[1:], strict=True)),
                cls="chosen" if is_chosen else None,
            )
        )
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures sets")


def policy_explanation(policy: str) -> str:
    """Return what a set's policy does: the help of its parts."""
    helps = {each.name: each.help for each in DENOISING}
    return " ".join(
        "Annotators' labels override the policy." if name == "labels" else helps.get(name, "")
        for name in policy.split("+")
    )


def build_form(open_study: Study, manifests: dict[str, Manifest], set_manifest: Manifest | None) -> None:
    """Show the form that builds a set from runs over the training questions.

    Args:
        set_manifest: the current set, whose runs and ranks the form begins with.
    """
    if not who.may(open_study.labels_path, "build training sets"):
        show(notice("Only leads can build training sets."))
        return
    runs = [name for name, manifest in study.runs(open_study).items() if "train" in (manifest.get("split") or "train")]
    if not runs:
        _run_over_train(open_study)
        return
    number = next(n for n in range(1, 10_000) if f"set-{n}" not in manifests)
    has_labels = judging_stores(open_study).labels.last_event > 0
    with st.form("build-set", border=False, enter_to_submit=False):
        columns = st.columns([2, 3, 3, 2], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"set-{number}", max_chars=64)
        chosen = columns[1].multiselect("Mine from", runs, tabs.pools(set_manifest, runs))
        policy = columns[2].selectbox(
            "Denoising policy",
            policy_names(),
            index=policy_names().index("answer_match+labels" if has_labels else "answer_match"),
            format_func=policy_words,
            help=policy_help(),
        )
        with columns[3]:
            took = f" (about {duration(set_manifest['seconds'])})" if set_manifest else ""
            pressed = st.form_submit_button(f"Build{took}", type="secondary" if manifests else "primary")
        with st.expander("More settings"):
            last, model, proposes = _more_fields(open_study, set_manifest)
    if pressed:
        more = _model_settings(policy, None if model == NO_MODEL else model, proposes)
        if more is None:
            why = f"The policy {policy} needs a model. Choose a judge under More settings; if there is none, create one on the Judges tab."
            show(notice(why, kind="error"))
            return
        jobs.start(open_study, request(build, name.strip(), chosen, policy=policy, last=last, **more))
        st.rerun()


def _more_fields(open_study: Study, set_manifest: Manifest | None) -> tuple[int, str, bool]:
    """Show the further fields of the form: the maximum rank, the model, and whether its positives are added."""
    columns = st.columns([1.5, 3, 4], vertical_alignment="bottom")
    last = columns[0].number_input("Maximum rank", 1, 1000, set_manifest["request"]["last"] if set_manifest else 100)
    scored = [NO_MODEL, *reversed(open_study.parts("scores"))]
    used = set_manifest["request"]["model"] if set_manifest else None
    model = columns[1].selectbox(
        "Model",
        scored,
        scored.index(used) if used in scored else 0,
        help="Judge or cross-encoder whose scores the policies "
        f"{', '.join(policy.name for policy in DENOISING if policy.uses_model)} and positive_aware use.",
    )
    proposes = columns[2].checkbox(
        "Add the model's positives",
        help="Passages that the model gives a high probability become positives besides gold (policies cross_encoder and judge).",
    )
    return last, model, proposes


def _model_settings(policy: str, model: str | None, proposes: bool) -> dict[str, Any] | None:
    """Return the settings that follow from the chosen model; None if the policy needs a model and there is none."""
    definition = policy_named(policy).definition
    if not (definition.uses_model or definition.uses_ceiling):
        return {}  # a model that the policy does not use is no part of the set
    if model is None:
        return None if definition.uses_model else {}
    positives = {"positives": ["gold", definition.proposes]} if proposes and definition.proposes else {}
    return {"model": model, **positives}


def _run_over_train(open_study: Study) -> None:
    splits = {row["split"] for row in open_study.questions.counts()}
    if "train" not in splits:
        show(
            empty(
                "No training questions",
                "A training set needs questions of the split train with gold passages. Import some first.",
                heading="h2",
            )
        )
        return
    show(
        notice(
            "A training set mines its negatives from a run over the training questions. This study has no such run yet. DPR "
            "mines its negatives with BM25; RocketQA mines harder ones with the dense retriever itself."
        )
    )
    offered = [kind for kind in RETRIEVERS if kind.suggested and not kind.fusion]
    offered_names = [(kind, name) for kind in offered for name in kind.available(open_study)[:1]]
    for kind, name in offered_names:
        jobs.start_button(
            open_study,
            request(retrieve, kind.name, split="train", **kind.options_of(name)),
            key=f"train-{kind.name}",
            label=f"Retrieve for train with {kind.title}",
            primary=kind is offered_names[0][0],
        )

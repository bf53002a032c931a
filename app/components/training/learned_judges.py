"""The tab Judges of the Training page: the study's judges of every kind, and a form that learns a feature judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.components.training import tabs
from blindspot.app.components.training.judges import agreement_panel, agreement_sentence, shown_agreement
from blindspot.app.components.training.language_models import ask_form
from blindspot.app.markup import Html, div, join, link, show, span, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import KIND, feature_judges, judge_run, learn_judge
from blindspot.backend.judges.feature_model import FeatureJudgeSettings
from blindspot.backend.judges.judge import JudgeCard, judges_of, kind_title, unknown_judges
from blindspot.backend.retrieval.dense import dense_indexes
from blindspot.backend.text.number_words import quantity

NO_ENCODER = "none"
_ENCODER_HELP = "Dense index whose similarities become features of the judge. Without an index its features are words and the run's own scores."


def judges_tab(open_study: Study, set_manifest: Manifest | None) -> None:
    """Show the judges, the forms that learn a judge or use a language model, and the pairs on which judges differ.

    set_manifest: the current training set; the forms first offer its run.
    """
    cards, reports = judges_of(open_study), {about["name"]: about for about in feature_judges(open_study)}
    shown = shown_agreement(open_study, set_manifest)
    agreement = agreement_sentence(shown)
    tabs.title("Judges", agreement or _sentence(cards, reports))
    if agreement:
        agreement_panel(open_study, shown)
    if cards:
        show(_table(cards, reports))
        if who.may(open_study.labels_path, "see others' labels"):
            show(tag("p", link("How good are they? Measured on people's labels", url.QUALITY), cls="convention"))
    show(*(tag("p", f"{name}: {line}.", cls="soft") for name, line in unknown_judges(open_study).items()))
    with st.expander("Learn a judge") if cards or agreement else st.container():
        learn_form(open_study, set_manifest, primary=not cards and not agreement)
    _judging_buttons(open_study)
    with st.expander("Ask a language model"):
        ask_form(open_study, set_manifest)
    if not agreement:
        agreement_panel(open_study, shown)


def _sentence(cards: Sequence[JudgeCard], reports: Mapping[str, dict[str, Any]]) -> str:
    about = "A judge says which unlabelled passages answer their question, so that a training set can drop or add them."
    if not cards:
        return f"No judge yet. {about}"
    if not reports:
        return f"{quantity(len(cards), 'judge')}. {about}"
    last = list(reports.values())[-1]
    return (
        f"{quantity(len(cards), 'judge')}. {last['name']} tells answers from other passages with an AUC of "
        f"{last['auc']:.3f}, learned from {quantity(last['labelled_questions'], 'question')} (1 is perfect, 0.5 is chance)."
    )


def _table(cards: Sequence[JudgeCard], reports: Mapping[str, dict[str, Any]]) -> Html:
    names = ("judge", "kind", "learned from", "questions", "AUC", "negatives below", "positives from", "scores")
    head = tag("tr", *(tag("th", name, scope="col", cls="left" if i < 3 else None) for i, name in enumerate(names)))
    rows = [_row(card, reports.get(card.name) if card.kind == KIND else None) for card in cards]
    return div(tag("table", tag("thead", head), tag("tbody", *rows), cls="figures"), cls="scrolling panel")


def _row(card: JudgeCard, report: dict[str, Any] | None) -> Html:
    calibrated = "" if card.calibrated else span(" not calibrated", cls="soft")
    cells: list[object] = [join(kind_title(card.kind), calibrated), card.learned_from or "–"]
    if report is None:
        cells += ["–"] * 4
    else:
        drop, add = report["drop"], report["add"]
        cells += [f"{report['labelled_questions']:,}", f"{report['auc']:.3f}", _threshold(drop), _threshold(add)]
    cells.append("yes" if card.scored else "none yet")
    left = (tag("td", cell, cls="left" if i < 2 else None) for i, cell in enumerate(cells))
    return tag("tr", tag("th", card.name, scope="row"), *left)


def _threshold(quality: dict[str, Any]) -> Html | str:
    if quality["value"] is None:
        return span(
            "none", cls="soft", title="No threshold is precise enough. Label more questions and learn the judge again."
        )
    left_out = quality.get("left_out", 0)
    said = f"{quality['share']:.1%} known positives (95%: {quality['low']:.1%} to {quality['high']:.1%}), n = {quality['pairs']:,} pairs"
    more = f"; {left_out:,} unlabelled pairs with an answer are left out" if left_out else ""
    return term(f"{quality['value']:.3f}", f"{said}{more}")


def learn_form(open_study: Study, set_manifest: Manifest | None, primary: bool) -> None:
    """Show the form that learns a feature judge from a run over training questions."""
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can learn judges."))
        return
    manifests = study.shown_runs(open_study)
    runs = [name for name, manifest in manifests.items() if manifest.get("split") == "train"]
    if not runs:
        show(
            notice(
                "A judge learns from a run over the training questions. This study has no such run yet. ",
                link("Retrieve for train on Sets", tabs.address("sets")),
                ".",
            )
        )
        return
    taken = {card.name for card in judges_of(open_study)} | set(open_study.settings.encoders)
    number = next(n for n in range(1, 10_000) if f"judge-{n}" not in taken)
    with st.form("learn-judge", border=False, enter_to_submit=False):
        columns = st.columns([2, 3, 2.5, 1.4, 1.6], vertical_alignment="bottom")
        name = columns[0].text_input("Name", f"judge-{number}", max_chars=64)
        run = columns[1].selectbox("Learn from", runs, runs.index(tabs.pools(set_manifest, runs)[0]))
        encoder = columns[2].selectbox("Encoder", [NO_ENCODER, *dense_indexes(open_study)], help=_ENCODER_HELP)
        depth = setting_field(columns[3], FeatureJudgeSettings, "depth")
        with columns[4]:
            pressed = st.form_submit_button("Learn judge", type="primary" if primary else "secondary")
    if pressed:
        chosen = None if encoder == NO_ENCODER else encoder
        jobs.start(open_study, request(learn_judge, name.strip(), run, chosen, {"depth": depth}))
        st.rerun()


def _judging_buttons(open_study: Study) -> None:
    """Show buttons with which the newest feature judge judges further runs of the retriever that it learned from."""
    learned, manifests = feature_judges(open_study), study.shown_runs(open_study)
    if not learned or not who.may(open_study.labels_path, "train"):
        return
    last = learned[-1]
    others = [name for name, m in manifests.items() if m.get("retriever") == last["retriever"] and name != last["run"]]
    for other in others[:3]:
        jobs.start_button(
            open_study,
            request(judge_run, last["name"], other),
            key=f"judge-{other}",
            label=f"Judge {other} with {last['name']}",
        )

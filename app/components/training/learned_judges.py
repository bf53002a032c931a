"""The tab Judges of the Training page: the study's judges of every kind, and a form that trains a feature judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components import jobs
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import notice
from blindspot.app.components.setting_fields import setting_field
from blindspot.app.components.training import tabs
from blindspot.app.components.training.language_models import ask_form
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, show, span, tag, term
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import KIND, feature_judges, judge_run, learn_judge
from blindspot.backend.judges.feature_model import FeatureJudgeSettings
from blindspot.backend.judges.judge import JudgeCard, judges_of, kind_title, unknown_judges
from blindspot.backend.retrieval.dense import dense_indexes
from blindspot.backend.text.number_words import duration, quantity

ABOUT = "A judge says which unlabelled passages answer their question, so that a training set can drop or add them."
CLASSES = ("left", None, None, "left wide", "left wide", "wide", "wide", "wide")
"""The classes of the columns of the table of judges."""
NO_ENCODER = "none"
_ENCODER_HELP = "Dense index whose similarities become features of the judge. Without an index its features are words and the run's own scores; on real data, reranking then lost 1.9 points of Success@1 (0.5 to 3.2)."


def judges_tab(open_study: Study, set_manifest: Manifest | None) -> None:
    """Show the judges, and the forms that learn a judge or use a language model.

    set_manifest: the current training set; the forms first offer its run.
    """
    cards, reports = judges_of(open_study), {about["name"]: about for about in feature_judges(open_study)}
    best = max(reports.values(), key=lambda report: report["auc"], default=None)
    tabs.title(_best_judge_words(best) if best else "No judge is trained yet.", ABOUT)
    has_labels = judging_stores(open_study).labels.last_event > 0
    if not has_labels and not cards:
        show(link("Judge passages", url.JUDGE, cls="button main"))
    if cards:
        show(div(scrolling(_table(cards, reports)), cls="panel"))
        if who.may(open_study.labels_path, "see others' labels"):
            show(tag("p", link("How good are they? Measured on people's labels", url.QUALITY), cls="convention"))
    show(*(tag("p", f"{name}: {line}.", cls="soft") for name, line in unknown_judges(open_study).items()))
    is_first = has_labels and not cards
    with st.container() if is_first else st.expander("Learn a judge from the labels"):
        learn_form(open_study, set_manifest, primary=is_first)
    _judging_buttons(open_study)
    with st.expander("Ask a language model"):
        ask_form(open_study, set_manifest)


def _best_judge_words(report: Mapping[str, Any]) -> str:
    return (
        f"{report['name']} tells answers from other passages in {100 * report['auc']:.0f} of 100 pairs (AUC "
        f"{report['auc']:.3f}), learned from {quantity(report['labelled_questions'], 'question')}."
    )


def _table(cards: Sequence[JudgeCard], reports: Mapping[str, dict[str, Any]]) -> Html:
    best_first = sorted(cards, key=lambda card: -(report["auc"] if (report := _report(card, reports)) else 0))
    names = ("judge", "AUC", "questions", "kind", "learned from", "negatives below", "positives from", "scores")
    head = tag("tr", *(tag("th", name, scope="col", cls=cls) for name, cls in zip(names, CLASSES, strict=True)))
    rows = [_row(card, _report(card, reports)) for card in best_first]
    return tag("table", tag("thead", head), tag("tbody", *rows), cls="figures")


def _report(card: JudgeCard, reports: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    return reports.get(card.name) if card.kind == KIND else None


def _row(card: JudgeCard, report: dict[str, Any] | None) -> Html:
    calibrated = "" if card.calibrated else span(" not calibrated", cls="soft")
    figures: list[object] = ["–"] * 4
    if report is not None:
        drop, add = report["drop"], report["add"]
        figures = [f"{report['auc']:.3f}", f"{report['labelled_questions']:,}", _threshold(drop), _threshold(add)]
    kind = join(kind_title(card.kind), calibrated)
    scores = "yes" if card.scored else "none yet"
    cells = [*figures[:2], kind, card.learned_from or "–", *figures[2:], scores]
    return tag(
        "tr",
        tag("th", card.name, scope="row"),
        *(tag("td", cell, cls=cls) for cell, cls in zip(cells, CLASSES[1:], strict=True)),
    )


def _threshold(quality: dict[str, Any]) -> Html | str:
    if quality["value"] is None:
        return span(
            "none", cls="soft", title="No threshold is precise enough. Label more questions and train the judge again."
        )
    left_out = quality.get("left_out", 0)
    said = f"{quality['share']:.1%} known positives (95%: {quality['low']:.1%} to {quality['high']:.1%}), n = {quality['pairs']:,} pairs"
    more = f"; {left_out:,} unlabelled pairs with an answer are left out" if left_out else ""
    return term(f"{quality['value']:.3f}", f"{said}{more}")


def learn_form(open_study: Study, set_manifest: Manifest | None, primary: bool) -> None:
    """Show the form that trains a feature judge on a run over training questions."""
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can train judges."))
        return
    manifests = study.runs(open_study)
    runs = [name for name, manifest in manifests.items() if manifest.get("split") == "train"]
    if not runs:
        show(
            notice(
                "A judge is trained on a run over the training questions. This study has no such run yet. ",
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
        run = columns[1].selectbox("Train on", runs, runs.index(tabs.pools(set_manifest, runs)[0]))
        encoder = columns[2].selectbox("Encoder", [*dense_indexes(open_study), NO_ENCODER], help=_ENCODER_HELP)
        depth = setting_field(columns[3], FeatureJudgeSettings, "depth")
        with columns[4]:
            pressed = st.form_submit_button(
                f"Train judge{_last_duration(open_study)}", type="primary" if primary else "secondary"
            )
    if pressed:
        chosen = None if encoder == NO_ENCODER else encoder
        jobs.start(open_study, request(learn_judge, name.strip(), run, chosen, {"depth": depth}))
        st.rerun()


def _last_duration(open_study: Study) -> str:
    """Return how long a feature judge took to learn, in brackets; "" before the first."""
    seconds = max((about.get("seconds") or 0 for about in feature_judges(open_study)), default=0)
    return f" (about {duration(seconds)})" if seconds else ""


def _judging_buttons(open_study: Study) -> None:
    """Show buttons with which the newest feature judge judges further runs of the retriever that it learned from."""
    learned, manifests = feature_judges(open_study), study.runs(open_study)
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

"""The certificate of a training set on the Training page, and the certificates of all sets on Quality."""

from __future__ import annotations

from functools import partial

import streamlit as st

from blindspot.analysis.intervals import LEVEL
from blindspot.app import url, who
from blindspot.app.certificates import more_line, plan_lines, verdict, withdrawal
from blindspot.app.components.check_row import check_row
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import notice
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.components.training import tabs
from blindspot.app.entry import one_line
from blindspot.app.markup import Html, div, link, row, show, span, table, table_head, tag, term
from blindspot.backend.core.require_right import require
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import duration, quantity
from blindspot.backend.training_sets.certificate_draws import (
    CertificatePlan,
    draw_more,
    make_plan,
    queue_plan,
    read_plan,
)
from blindspot.backend.training_sets.certificates import Certificate, certify, proof_sentences, stated_certificate
from blindspot.backend.training_sets.check_settings import POSITIVES
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.errors import BlindspotError

WHAT = (
    "An upper bound on the share of false negatives among the set's negatives, from pairs sampled at random that people judged. "
    "It holds however often one looks and however wrong the judge is"
)
NO_JUDGE = "none"
SECONDS_A_PAIR = 10
"""Used to estimate the time that judging takes while nobody has judged anything."""
_PLAN = "certificate-plan"


def certificate_check(open_study: Study, training_set: TrainingSet, sees_labels: bool) -> None:
    """Show a set's certificate, or what was withdrawn and why, and the buttons that sample pairs and state what the
    labels prove. Withdrawals name labels.
    """
    state, action = check_row("False negatives", WHAT)
    try:
        found, made = stated_certificate(open_study, training_set), read_plan(training_set)
    except BlindspotError as error:
        with state:
            show(notice(str(error), kind="error"))
        return
    with state:
        show(div(*_state_lines(found, made, sees_labels), cls="certificate"))
        show_last_message("certificate")
    if not who.may(open_study.labels_path, "make batches"):
        return
    if made is None:
        opened = f"certify-{training_set.name}"
        with action:
            if st.button("Certify this set", key="certify-open"):
                st.session_state[opened] = not st.session_state.get(opened)
        if st.session_state.get(opened) or f"{_PLAN}-{training_set.name}" in st.session_state:
            with one_line():
                _plan_form(open_study, training_set)
    else:
        with action:
            _state_buttons(open_study, training_set, found)


def _state_lines(found: Certificate | None, made: CertificatePlan | None, sees_labels: bool) -> list[Html]:
    """Return what is certified, in lines."""
    if found is None:
        sampled = f"{quantity(len(made.draws), 'negative')} sampled to judge." if made else "No pairs were sampled yet."
        return [tag("p", f"Not certified. {sampled}")]
    if found.withdrawn:
        unnamed = "Withdrawn: the set changed, or a label on which the certificate rests."
        return [notice(withdrawal(found) if sees_labels else unnamed, kind="error")]
    more = more_line(found)
    return [
        tag("p", tag("b", verdict(found))),
        *(tag("p", line) for line in proof_sentences(found)),
        tag("p", more, cls="convention") if more else Html(""),
        _strata(found),
    ]


def _plan_form(open_study: Study, training_set: TrainingSet) -> None:
    """Show the form that plans how many pairs to sample. Once they are planned, show how many pairs people must judge,
    and the button for it.
    """
    scored = [NO_JUDGE, *reversed(open_study.parts("scores"))]
    with st.form("plan-certificate", border=False, enter_to_submit=False):
        columns = st.columns([1.6, 1.6, 2.4, 1.8, 1.4, 1.2], vertical_alignment="bottom")
        at_most = columns[0].number_input("False negatives, at most %", 0.1, 49.9, 2.0, step=0.5)
        confidence = columns[1].number_input("Confidence, %", 50.0, 99.9, 100 * LEVEL, step=1.0)
        judge = columns[2].selectbox(
            "Judge", scored, help="Its scores determine which pairs are sampled more often, and can save labels."
        )
        labels = columns[3].number_input("Negatives to judge", 1, None, None, placeholder="enough")
        positives = columns[4].number_input("Positives", 0, None, POSITIVES)
        with columns[5]:
            pressed = st.form_submit_button("Plan")
    key = f"{_PLAN}-{training_set.name}"
    if pressed:
        chosen_judge = None if judge == NO_JUDGE else judge
        st.session_state.pop(key, None)
        with st.spinner("Planning the sample …"):
            st.session_state[key] = make_plan(
                open_study,
                training_set.name,
                at_most / 100,
                confidence=confidence / 100,
                judge=chosen_judge,
                labels=labels,
                positives=int(positives),
            )
        st.rerun()  # with the form open
    planned = st.session_state.get(key)
    if planned is None:
        return
    pairs = len(planned.draws) + len(planned.positive_draws)
    show(*(tag("p", line) for line in plan_lines(training_set.name, planned)))
    words = f"Queue {quantity(pairs, 'pair')} (about {duration(pairs * SECONDS_A_PAIR)} of judging)"
    st.button(
        words,
        key="queue-certificate",
        on_click=try_action,
        args=(partial(_queue, open_study, training_set.name, key), "certificate"),
    )


def _state_buttons(open_study: Study, training_set: TrainingSet, certificate: Certificate | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        if certificate is None or certificate.unlabelled_draws:
            show(link("Judge the sampled pairs", url.JUDGE, cls="button"))
        st.button(
            "State what the labels prove (a few seconds)",
            key="certify",
            on_click=try_action,
            args=(partial(_certify, open_study, training_set.name), "certificate"),
        )
        if (
            certificate is not None
            and not certificate.withdrawn
            and certificate.more
            and not certificate.unlabelled_draws
        ):
            cost = duration(certificate.more * SECONDS_A_PAIR)
            st.button(
                f"Sample {quantity(certificate.more, 'more negative')} (about {cost} of judging)",
                key="draw-more",
                on_click=try_action,
                args=(partial(_draw, open_study, training_set.name, certificate.more), "certificate"),
            )


def _queue(open_study: Study, name: str, key: str) -> str:
    planned = st.session_state.pop(key)
    batch = queue_plan(open_study, name, planned, actor=who.acting_name(open_study.labels_path))
    return f"Queued as batch {batch} (seed {planned.seed}). Judge the pairs, then state what the labels prove."


def _draw(open_study: Study, name: str, count: int) -> str:
    batch = draw_more(open_study, name, count, actor=who.acting_name(open_study.labels_path))
    return f"Queued {quantity(count, 'negative')} more as batch {batch}."


def _certify(open_study: Study, name: str) -> str:
    require(open_study, who.acting_name(open_study.labels_path), "make batches")
    found = certify(open_study, name)
    waiting = f"Nothing is judged yet: {quantity(found.drawn, 'sampled negative')} wait on Judge."
    return "" if found.judged + found.known else waiting


def certificates_panel(open_study: Study) -> Html:
    """The certificates of all sets, one row each; empty if pairs were sampled for none of them."""
    rows = []
    for name in training_sets(open_study):
        try:
            made = TrainingSet.open(open_study, name)
            found = stated_certificate(open_study, made)
        except BlindspotError:
            continue
        if found is not None:
            rows.append(_row(found))
    if not rows:
        return Html("")
    head = table_head(
        "set", "false negatives, at most %", "after, at most %", "right positives, at least %", "judged", "target"
    )
    note = tag(
        "p",
        "Upper bounds for finite sets of pairs, from pairs sampled at random. After: without the false negatives that people found.",
        cls="convention",
    )
    return div(
        tag("h2", term("Certified training sets", WHAT)), scrolling(table(head, rows)), note, cls="panel certificate"
    )


def _row(certificate: Certificate) -> Html:
    target = f"{100 * certificate.at_most:g}% at {100 * certificate.confidence:g}%"
    if certificate.withdrawn:
        state = "withdrawn"
    elif certificate.meets_target:
        state = "holds"
    else:
        state = "holds after" if certificate.holds_after else "not shown"
    return row(
        f"{100 * certificate.upper:.2f}",
        f"{100 * certificate.upper_after:.2f}",
        f"{100 * certificate.right_at_least:.1f}",
        f"{certificate.judged:,} + {certificate.positives_judged:,}",
        span(f"{target}: {state}", title="; ".join(certificate.withdrawn) or None),
        head=link(certificate.training_set, tabs.address("sets", set=certificate.training_set)),
    )


def _strata(certificate: Certificate) -> Html:
    if len(certificate.strata) < 2:
        return Html("")
    rows = (
        row(f"{each.pairs:,}", f"{each.judged:,}", f"{each.false:,}", f"{100 * each.upper:.1f}", head=each.stratum)
        for each in certificate.strata
    )
    return scrolling(table(table_head("stratum", "negatives", "judged", "false", "at most %"), rows, "figures small"))

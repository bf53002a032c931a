"""The certificate of a training set on Training, and the certificates of all sets on Quality."""

from __future__ import annotations

from blindspot.app import url
from blindspot.app.certificates import bound_line, more_line, positives_line, verdict, withdrawal
from blindspot.app.components.marks import command, notice
from blindspot.app.components.tables import scrolling
from blindspot.app.markup import Html, div, heads, link, row, span, table, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.text.counting import counted
from blindspot.backend.training_sets.certificates import Certificate, stated_certificate
from blindspot.backend.training_sets.certification import read_plan
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.errors import BlindspotError

WHAT = (
    "An upper bound on the share of false negatives among the set's negatives, from pairs drawn at random that people judged. "
    "It holds however often one looks and however wrong the judge is"
)


def certificate_panel(opened: Study, chosen: TrainingSet, sees_labels: bool) -> Html:
    """Show a set's certificate, or what has been withdrawn and why, or how to certify it. Withdrawals name labels."""
    title = tag("h2", term("Certificate", WHAT))
    try:
        found, made = stated_certificate(opened, chosen), read_plan(chosen)
    except BlindspotError as error:
        return div(title, notice(str(error), kind="error"), cls="panel certificate")
    if found is None:
        text = (
            "Not certified: draw pairs to judge with "
            if made is None
            else f"{counted(len(made.draws), 'negative')} drawn to judge. State what the labels prove with "
        )
        wanted = f"blindspot training-set certify {chosen.name}" + (" --at-most 2%" if made is None else "")
        return div(title, tag("p", text, command(wanted)), cls="panel certificate")
    if found.withdrawn:
        why = withdrawal(found) if sees_labels else "Withdrawn: the set or a label that it rests on changed."
        return div(title, notice(why, kind="error"), cls="panel certificate")
    more = more_line(found)
    return div(
        title,
        tag("p", tag("b", verdict(found))),
        tag("p", bound_line(found)),
        tag("p", positives_line(found)),
        tag("p", more, cls="convention") if more else "",
        _strata(found),
        cls="panel certificate",
    )


def certificates_panel(opened: Study) -> Html:
    """The certificates of all sets, one row each; empty if no pairs were drawn for one."""
    rows = []
    for name in training_sets(opened):
        try:
            made = TrainingSet.open(opened, name)
            found = stated_certificate(opened, made)
        except BlindspotError:
            continue
        if found is not None:
            rows.append(_row(found))
    if not rows:
        return Html("")
    head = heads(
        "set", "false negatives, at most %", "after, at most %", "right positives, at least %", "judged", "target"
    )
    note = tag(
        "p",
        "Bounds on finite sets, from pairs drawn at random. After: once the found false negatives are taken out.",
        cls="convention",
    )
    return div(
        tag("h2", term("Certified training sets", WHAT)), scrolling(table(head, rows)), note, cls="panel certificate"
    )


def _row(found: Certificate) -> Html:
    target = f"{100 * found.at_most:g}% at {100 * found.confidence:g}%"
    if found.withdrawn:
        state = "withdrawn"
    elif found.holds:
        state = "holds"
    else:
        state = "holds after" if found.holds_after else "not shown"
    return row(
        f"{100 * found.upper:.2f}",
        f"{100 * found.upper_after:.2f}",
        f"{100 * found.right_at_least:.1f}",
        f"{found.judged:,} + {found.positives_judged:,}",
        span(f"{target}: {state}", title="; ".join(found.withdrawn) or None),
        head=link(found.training_set, url.href(url.TRAINING, {"set": found.training_set})),
    )


def _strata(found: Certificate) -> Html:
    if len(found.strata) < 2:
        return Html("")
    rows = (
        row(f"{each.pairs:,}", f"{each.judged:,}", f"{each.false:,}", f"{100 * each.upper:.1f}", head=each.stratum)
        for each in found.strata
    )
    return scrolling(table(heads("stratum", "negatives", "judged", "false", "at most %"), rows, "figures small"))

"""The form that writes the cleaned file, and the files that were written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import streamlit as st

from blindspot.app import checks, url, who
from blindspot.app.checks import Labelled
from blindspot.app.components import jobs
from blindspot.app.components.check.rules_panel import chosen_row, rule_names, usual_name
from blindspot.app.markup import Html, div, escape_markdown, show, tag
from blindspot.backend.checking.jobs import CleanedFile, cleaned_paths, write_cleaned
from blindspot.backend.checking.rules import RuleCurve, parse_rule
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity

MOST_DOWNLOADED = 200 << 20  # bytes; a larger file is named, not sent
NAMES = ("Download the file", "The list of changes", "The card")
RELABEL = {"relabel": "become positives", "drop": "go"}


def file_panel(open_study: Study, figures: Labelled, curve: RuleCurve, written_file: CleanedFile | None) -> None:
    """Show the choices, the button that writes the file, and links to the written files."""
    if not who.may(open_study.labels_path, "export") or not checks.sees_rate(open_study, figures):
        return
    with st.container(key="file"):
        show(tag("h2", "The cleaned file", id="file"))
        left, right = st.columns(2)
        with left:
            how = url.select(
                "Judged false negatives", "false", list(RELABEL), "relabel", format_func=RELABEL.__getitem__
            )
        names, row = rule_names(curve), chosen_row(curve, written_file)
        conditions = {each.rule.as_text(): each.rule.condition for each in curve.rows}
        with right:
            url.select(
                "Keep a negative only if",
                "rule",
                names,
                usual_name(curve, written_file),
                disabled=len(names) == 1,
                format_func=lambda name: conditions.get(name, "(no rule)"),
            )
        if written_file is not None:
            write_button(open_study, curve, written_file, "Write it again")
        elif not url.value("step"):
            write_button(open_study, curve, None, "Write the cleaned file")
        show(tag("p", _file_sentence(how, 0 if row is None else row.dropped), cls="convention"))
        if written_file is not None:
            _written_file(open_study, figures, written_file)


def write_button(
    open_study: Study, curve: RuleCurve, written_file: CleanedFile | None, label: str, primary: bool = False
) -> None:
    """Show the button that writes the file with the choices in the page's address."""
    row, how = chosen_row(curve, written_file), url.one_of("false", list(RELABEL), "relabel")
    asked = request(write_cleaned, how == "relabel", None if row is None else row.rule.as_text())
    jobs.start_button(open_study, asked, key="write", label=label, primary=primary)


def _file_sentence(false_negatives_fate: str, dropped_by_rule: int) -> str:
    judged = "become positives of their questions" if false_negatives_fate == "relabel" else "go"
    more = (
        f" The {quantity(dropped_by_rule, 'negative')} that the rule drops go too, although nobody judged most of them."
        if dropped_by_rule
        else ""
    )
    return (
        f"The cleaned file has the same format, columns and order. Negatives that were judged false {judged}; those that the file itself calls "
        f"positive go.{more}"
    )


def _written_file(open_study: Study, figures: Labelled, written_file: CleanedFile) -> None:
    rule = (
        "" if written_file.rule is None else f"; a negative is kept only if {parse_rule(written_file.rule).condition}"
    )
    since = figures.judged - written_file.judged
    later = f" {quantity(since, 'pair')} judged since: write it again." if since > 0 else ""
    show(
        tag(
            "p",
            tag("b", f"Written: {quantity(written_file.rows, 'row')}"),
            f", {quantity(written_file.relabelled, 'negative')} relabelled, {written_file.dropped:,} dropped{rule}.{later}",
        )
    )
    paths = list(cleaned_paths(open_study, written_file))
    with st.container(key="downloads", horizontal=True):
        for words, path in zip(NAMES, paths, strict=True):
            if path.is_file() and path.stat().st_size <= MOST_DOWNLOADED:
                st.download_button(
                    escape_markdown(words),
                    partial(_file_content, path),
                    path.name,
                    key=f"get-{words}",
                    on_click="ignore",
                )
    show(_file_locations(paths[0]))


def _file_content(path: Path) -> bytes:
    return path.read_bytes()


def _file_locations(path: Path) -> Html:
    return div(tag("span", str(path), cls="soft"), cls="place-of-file")

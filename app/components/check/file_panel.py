"""The form that writes the cleaned file, and the files that were written."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Literal

import streamlit as st

from blindspot.app import checks, url, who
from blindspot.app.checks import Labelled
from blindspot.app.components import jobs
from blindspot.app.components.check.rules_panel import RELABEL, chosen_row, fate, rule_names, usual_fate, usual_name
from blindspot.app.markup import Html, div, escape_markdown, link, show, tag
from blindspot.backend.checking.cleaned_file import Outcome
from blindspot.backend.checking.jobs import CleanedFile, cleaned_paths, write_cleaned
from blindspot.backend.checking.rules import RuleCurve, RuleRow, parse_rule
from blindspot.backend.checking.sample import RateEstimate
from blindspot.backend.checking.words import left_words, overruled_words
from blindspot.backend.core.jobs import request
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity

MOST_DOWNLOADED = 200 << 20  # bytes; a larger file is named, not sent
LONGEST_EXAMPLE = 800  # characters; DPR's passages of 100 words are shown whole
NAMES = ("Download the file", "The list of changes", "The card")


def file_panel(open_study: Study, figures: Labelled, curve: RuleCurve, written_file: CleanedFile | None) -> None:
    """Show the choices, the button that writes the file, and links to the written files."""
    if not who.may(open_study.labels_path, "export") or not checks.sees_rate(open_study, figures):
        return
    with st.container(key="file"):
        show(tag("h2", "The cleaned file", id="file"))
        left, right = st.columns(2)
        with left:
            how = url.select(
                "Judged false negatives",
                "false",
                list(RELABEL),
                usual_fate(written_file),
                format_func=RELABEL.__getitem__,
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
        is_current = is_written(curve, figures, written_file)
        is_primary = url.value("step") and not (figures.rate is not None and figures.rate.is_vague)
        if not is_primary and not is_current:
            write_button(open_study, curve, written_file)
        rule = None if row is None else row.rule.as_text()
        result = checks.outcome(open_study, rule)
        show(tag("p", _file_sentence(how, row, result, figures.rate), cls="convention"))
        if result is not None and result.examples:
            show(_dropped_examples(open_study, result))
        if written_file is not None:
            _written_file(open_study, figures, written_file, is_current)


def write_button(open_study: Study, curve: RuleCurve, written_file: CleanedFile | None, primary: bool = False) -> None:
    """Show the button that writes the file with the choices in the page's address."""
    asked = request(write_cleaned, *_choices(curve, written_file))
    label = "Write the cleaned file" if written_file is None else "Write it again"
    jobs.start_button(open_study, asked, key="write", label=label, primary=primary)


def is_written(curve: RuleCurve, figures: Labelled, written_file: CleanedFile | None) -> bool:
    """Return whether the written file is that of the page's choices and of all labels."""
    return (
        written_file is not None
        and (written_file.relabel, written_file.rule) == _choices(curve, written_file)
        and written_file.judged == figures.labels
    )


def _choices(curve: RuleCurve, written_file: CleanedFile | None) -> tuple[bool, str | None]:
    """Return whether judged false negatives become positives, and the chosen rule."""
    row = chosen_row(curve, written_file)
    return fate(written_file) == "relabel", None if row is None else row.rule.as_text()


def _file_sentence(
    false_negatives_fate: str, row: RuleRow | None, result: Outcome | None, rate: RateEstimate | None
) -> str:
    """Say what goes and what becomes a positive, and how many of the negatives left are false."""
    judged = "become positives of their questions" if false_negatives_fate == "relabel" else "go"
    which = "Negatives" if result is None else f"The {quantity(result.judged_false, 'negative')}"
    called = "; those that the file itself calls positive go" if result is None or result.called_positive else ""
    said = f"The cleaned file has the same format, columns and order. {which} judged false {judged}{called}."
    if result is None:
        return said
    by_rule = "" if row is None else f" {overruled_words(row, result)}"
    return f"{said}{by_rule} {left_words(result, rate)}"


def _dropped_examples(open_study: Study, result: Outcome) -> Html:
    """Show some of the pairs that go although nobody judged them."""
    of = "" if len(result.examples) == result.by_rule else f"{len(result.examples)} of "
    questions = open_study.questions.with_ids(question for question, _ in result.examples)
    passages = open_study.corpus.by_id(passage for _, passage in result.examples)
    lines = []
    for question, (_, passage) in zip(questions, result.examples, strict=True):
        found = passages[passage]
        text = shorten(found.text, LONGEST_EXAMPLE, placeholder=" …")
        asked = link(question.text, url.href(url.QUESTION, {"q": question.id}))
        lines.append(tag("li", asked, tag("p", tag("b", found.title), " " if found.title else "", text)))
    words = f"See {of}the {quantity(result.by_rule, 'pair')} that the rule drops and nobody judged"
    return tag("details", tag("summary", words), tag("ul", *lines), cls="dropped")


def download_main(open_study: Study, written_file: CleanedFile) -> bool:
    """Show the button that downloads the written file as the page's next step. Return False if there is none: the person
    may not export, or the file is gone or too large.
    """
    path = next(cleaned_paths(open_study, written_file))
    return who.may(open_study.labels_path, "export") and _download_button(
        "Download the cleaned file", path, "get-main", "primary"
    )


def _download_button(words: str, path: Path, key: str, kind: Literal["primary", "secondary"] = "secondary") -> bool:
    """Show a button that downloads a file. Return False, and show none, if the file is gone or too large."""
    if not path.is_file() or path.stat().st_size > MOST_DOWNLOADED:
        return False
    content = partial(_file_content, path)
    st.download_button(escape_markdown(words), content, path.name, key=key, on_click="ignore", type=kind)
    return True


def _written_file(open_study: Study, figures: Labelled, written_file: CleanedFile, is_current: bool) -> None:
    rule = (
        "" if written_file.rule is None else f"; a negative is kept only if {parse_rule(written_file.rule).condition}"
    )
    since = figures.labels - written_file.judged
    later = f" {quantity(since, 'pair')} judged since: write it again." if since > 0 else ""
    if not is_current and not later:
        later = " With other choices than those above: write it again to have these."
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
            _download_button(words, path, f"get-{words}")
    show(_file_locations(paths[0]))


def _file_content(path: Path) -> bytes:
    return path.read_bytes()


def _file_locations(path: Path) -> Html:
    return div(tag("span", str(path), cls="soft"), cls="place-of-file")

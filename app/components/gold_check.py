"""The checks of whether gold passages state the fact: what people's judgements say about runs and training sets, and
the button that draws more pairs to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import streamlit as st

from blindspot.app import hidden_questions, study, url, who
from blindspot.app.components.check_row import check_row
from blindspot.app.components.message import show_last_message, try_action
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, div, join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.gold_checks import (
    SIZE,
    GoldCheck,
    gold_estimates,
    queue_gold_check,
    unchecked_gold_sentence,
    with_default_judge,
)

WORDS = {
    "misses": "Check the gold of {size} misses of {of}",
    "hits": "Check {size} finds of {of} for chance matches",
    "training": "Check {size} gold passages of this set",
}


def gold_sentences(open_study: Study, populations: Sequence[str]) -> list[str]:
    """Return what the checks of these runs or training sets say; empty for people who must not see others' labels."""
    if not hidden_questions.may_use_labels(open_study):
        return []
    last = judging_stores(open_study).labels.last_event
    return _sentences(
        open_study, str(open_study.folder), tuple(populations), last, len(judging_stores(open_study).queue.batches())
    )


@st.cache_data(max_entries=32, show_spinner=False)
def _sentences(_study: Study, folder: str, populations: tuple[str, ...], last_event: int, batches: int) -> list[str]:
    return [each.sentence() for name in populations for each in gold_estimates(_study, name)]


@st.cache_data(max_entries=8, show_spinner=False)
def _unchecked_runs(_study: Study, questions: object) -> str:
    return unchecked_gold_sentence(_study)


def gold_panel(open_study: Study, checks: Sequence[GoldCheck]) -> None:
    """Show the sentences of some checks, and one button that samples (more) pairs of the chosen check as a batch."""
    said = _lines(open_study, checks)
    if not said:
        return
    with st.container(key="gold-check"):
        show(div(tag("h2", "Does the gold state the fact?"), join(*(tag("p", line) for line in said))))
        if not who.may(open_study.labels_path, "make batches"):
            return
        with st.container(horizontal=True, vertical_alignment="bottom"):
            check = st.selectbox("What to check", checks, format_func=_button_label, key="gold-check-of", width=420)
            _draw_button(open_study, check, "Make a batch")
    show_last_message("gold-check")


def gold_row(open_study: Study, check: GoldCheck) -> None:
    """Show one check among others of a training set."""
    said = _lines(open_study, [check])
    if not said:
        return
    state, action = check_row("Gold states the fact", "Whether gold passages state the fact, judged by annotators")
    with state:
        show(*(tag("p", line) for line in said))
        show_last_message("gold-check")
    if who.may(open_study.labels_path, "make batches"):
        with action:
            _draw_button(open_study, check, _button_label(check))


def _lines(open_study: Study, checks: Sequence[GoldCheck]) -> list[str]:
    sentences = gold_sentences(open_study, list(dict.fromkeys(check.of for check in checks)))
    return sentences or list(filter(None, [_unchecked_runs(open_study, study.questions_key(open_study))]))


def _draw_button(open_study: Study, check: GoldCheck, words: str) -> None:
    draw = partial(_draw, open_study, check)
    st.button(words, key="gold-check-draw", on_click=try_action, args=(draw, "gold-check"))


def _button_label(check: GoldCheck) -> str:
    return WORDS[check.population].format(size=SIZE, of=check.of)


def _draw(open_study: Study, check: GoldCheck) -> Html:
    taken = {batch.name for batch in judging_stores(open_study).queue.batches()}
    stem = f"{check.of[:40]}-{check.population}"
    batch = next(name for n in range(1, 10_000) if (name := f"{stem}-{n}") not in taken)
    made = queue_gold_check(
        open_study, batch, with_default_judge(open_study, check), actor=who.acting_name(open_study.labels_path)
    )
    return join(f"Queued {made.passages:,} passages as batch {batch}. ", link("Judge", url.JUDGE), " it.")


def gold_items(open_study: Study, populations: Sequence[str]) -> Html:
    """Return the sentences as list items for Home's findings."""
    return join(*(tag("li", sentence) for sentence in gold_sentences(open_study, populations)))

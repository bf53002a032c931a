"""The path through a study, shown on every page: which step this page belongs to, which steps are done, and the one
next step (`backend/upkeep/study_path.py`).

*Next* follows what a page found, if the page says so with `lead_to`; otherwise it is the next step that can be done. A
check has its own steps: see the facts, judge, choose the rule, write the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from blindspot.app import checks, study, url, who
from blindspot.app.components.check.rules_panel import FILE_STEP, RULE_STEP
from blindspot.app.components.training import tabs
from blindspot.app.judging_stores import judging_stores
from blindspot.app.markup import Html, link, show, span, tag
from blindspot.backend.checking.jobs import cleaned_file
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.demo import is_demo
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.upkeep.study_path import STEPS, NextStep, PathState, PathStep
from blindspot.db.people import Person


class Stop(NamedTuple):
    """A step: its title, the pages on which people do it, whether this person has done it, how to do it if that is
    possible now, and the title of its tick; "" for no tick. The tick says more than `is_done`: others may have done
    the step, and a step of which something is left has none.
    """

    title: str
    pages: tuple[str, ...]
    is_done: bool
    next: NextStep | None
    tick: str

    @property
    def address(self) -> str | None:
        return None if self.next is None else href(self.next)


SEE, LOOK, JUDGE, CLEAN, CHANGE = 0, 1, 2, 3, 5
"""Places of steps. After "See the change" the loop begins again with judging."""
JUDGE_A_FILE, WRITE_A_FILE = 1, 3  # among the steps of a check
PREPARED = "Prepared by the demo"
_VIEWED = "question-viewed"
_place_of_next: ContextVar[list[DeltaGenerator] | None] = ContextVar("place of the next step", default=None)


def href(next_step: NextStep) -> str:
    """Return the address of a next step."""
    return url.href(next_step.page, next_step.parameters)


@contextmanager
def path_above(open_study: Study, page: str, person: Person | None) -> Iterator[None]:
    """Show the path, and below it the page that the block runs. There is no path until the study has two runs to
    compare, nor if computing it fails; the page then says what is wrong with the study.

    On the pages that show a finding, *Next* waits for the page, which may know a better one (`lead_to`).
    """
    try:
        has_end = is_check(open_study)
        stops = _check_stops(open_study) if has_end else _stops(open_study, page, person)
        here = _current_stop(open_study, stops, page) if stops else -1
        following = next_step(stops, here, page, has_end) if stops else None
        if page == "Judge" and person is not None and not person.is_allowed("see others' labels"):
            following = None  # an annotator's work ends here; what comes next shows retrieval results
    except Exception:
        logging.getLogger(__name__).exception("the path failed")
        stops = []
    if not stops:
        yield
        return
    with st.container(key="path", horizontal=True, vertical_alignment="center"):
        coming = -1
        if page == "Home":
            # The button of Home leads to the first step that is not done; in a check, to the page of the check.
            coming = _current_stop(open_study, stops, "Check") if has_end else _coming_stop(stops)
        items = [
            _stop_item(number, len(stops), stop, number == here, number == coming) for number, stop in enumerate(stops)
        ]
        show(tag("div", tag("ol", *items), cls="path", role="navigation", aria_label="The path"))
        unfilled = [st.container()]
    is_finding = here in (SEE, CHANGE) or (page == "Training" and tabs.current() == "models")
    if has_end or not is_finding:
        # Who judges does not leave before the last question: the step shows when there is none.
        _show_next(unfilled, following, is_after_judging=page == "Judge" and not has_end)
    token = _place_of_next.set(unfilled)
    try:
        yield
    finally:
        _place_of_next.reset(token)
    _show_next(unfilled, following)


def lead_to(following: NextStep | None) -> None:
    """Make a step the next one of this page, because it follows from what the page found. None leaves the next step of
    the path.
    """
    _show_next(_place_of_next.get() or [], following)


def lead_nowhere() -> None:
    """Show no next step: this page has what can be done now, or nothing can be until something ends."""
    (_place_of_next.get() or []).clear()


def _show_next(placeholders: list[DeltaGenerator], following: NextStep | None, is_after_judging: bool = False) -> None:
    """Show a next step in its place, unless another is there."""
    if following is not None and placeholders:
        words = f"Next: {following.label[:1].lower()}{following.label[1:]}"
        after = "judging" if is_after_judging else None
        with placeholders.pop():
            show(link(span(words), href(following), cls="next", data_key=">", title="Key: >", data_after=after))


def next_step(steps: Sequence[Stop], current_stop: int, page: str, has_end: bool = False) -> NextStep | None:
    """Return the step after this one that can be done now. Without one, return this step if another page has it, or
    else the nearest step before it that is not done. None on Home and Check, which name it themselves, and where the
    page itself has what can be done now.

    Args:
        has_end: The path of a check, which ends with the file, does not lead back to its beginning.
    """
    if page in ("Home", "Check"):
        return None
    if current_stop == CHANGE:
        return steps[JUDGE].next
    later = next((stop.next for stop in steps[current_stop + 1 :] if stop.next is not None), None)
    if later is not None or has_end or current_stop < 0:
        return later
    current = steps[current_stop]
    if current.next is not None and not current.is_done:
        return None if _is_shown(current.next, page) else current.next
    return next(
        (stop.next for stop in reversed(steps[:current_stop]) if stop.next is not None and not stop.is_done), None
    )


def _is_shown(step: NextStep, page: str) -> bool:
    """Return whether a page, with its open tab, is the one of a step."""
    return step.page == page.lower() and step.parameters.get("tab", tabs.current()) == tabs.current()


def home_step(open_study: Study, person: Person | None) -> NextStep | None:
    """Return the first step that is not done, for Home's button; the last step if all are done."""
    stops = _stops(open_study, "Home", person)
    coming = _coming_stop(stops)
    return stops[coming].next if coming >= 0 else None


def _coming_stop(stops: Sequence[Stop]) -> int:
    """Return the number of the step that Home leads to."""
    possible = [number for number, stop in enumerate(stops) if number and stop.next is not None]
    return next((number for number in possible if not stops[number].is_done), possible[-1] if possible else -1)


def _stop_item(number: int, stop_count: int, stop: Stop, is_here: bool, is_coming: bool) -> Html:
    """Return one step, with a tick if it is done, else with its number. The current step is bold: that of the page, on
    Home the coming one, which has no tick if only others have done it. A narrow screen shows the current step only, as
    "Step 2 of 6".
    """
    is_current = is_here or is_coming
    has_tick = bool(stop.tick) and (stop.is_done or not is_coming)
    step = f"Step {number + 1} of {stop_count}: " if is_current else None
    place = span(span(f"{number + 1} "), cls="place", data_step=step)
    return tag(
        "li",
        span("✓ ", cls="tick" if stop.is_done and stop.tick != PREPARED else "tick soft") if has_tick else "",
        place if step or not has_tick else "",
        stop.title if is_here or stop.address is None else link(stop.title, stop.address),
        cls="now" if is_current else "done" if stop.tick else None,
        title=stop.tick or None,
        aria_current="step" if is_current else None,
    )


def _current_stop(open_study: Study, steps: Sequence[Stop], page: str) -> int:
    """Return the step of a page; -1 if it belongs to none."""
    if page == "Check" and is_check(open_study):
        found = checks.proven_labels(open_study)
        if url.value("step") == FILE_STEP["step"]:
            return WRITE_A_FILE
        return 2 if url.value("step") or found.is_enough else JUDGE_A_FILE if found.judged else 0
    runs, trained = study.runs(open_study), set(study.models(open_study))
    if page == "Compare" and {runs[each].get("retriever") for each in _pair(runs)} & trained:
        return CHANGE
    if page == "Map" and runs.get(url.value("against"), {}).get("retriever") in trained:
        return CHANGE
    if page == "Training" and tabs.current() == "models":
        return 4
    return next((number for number, stop in enumerate(steps) if page in stop.pages), -1)


def _pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """Return the runs that the address names, or else the runs that Home compares."""
    a, b = default_pair(runs)
    return url.one_of("a", list(runs), a), url.one_of("b", list(runs), b)


def _stops(open_study: Study, page: str, person: Person | None) -> list[Stop]:
    runs = study.runs(open_study)
    if len(runs) < 2:
        return []
    sets = study.parts(open_study, "training_sets")
    models = study.models(open_study)
    if (model := url.value("model")) in models:
        # The change to see is that of the shown model, as if it were the newest.
        models = {**{name: about for name, about in models.items() if name != model}, model: models[model]}
    if page == "Question":
        st.session_state[_VIEWED] = True
    name = "" if person is None else person.name
    judged, anyone_judged = open_study.labels.has_labelled(name)
    has_viewed = (
        judged or _VIEWED in st.session_state or (bool(name) and judging_stores(open_study).tags.has_tagged(name))
    )
    state = PathState(
        open_study,
        runs,
        _pair(runs),
        judged,
        has_viewed,
        sets,
        models,
        url.one_of("set", list(sets), "") or None,
        anyone_judged,
        lambda action: who.has_right(person, action),
    )
    return [
        Stop(step.title, step.pages, step.is_done(state), step.next(state), _tick(open_study, step, state))
        for step in STEPS
    ]


def _tick(open_study: Study, step: PathStep, state: PathState) -> str:
    """Say by whom a step is done; "" if it is not, or if questions of open batches wait to be judged."""
    if step is STEPS[JUDGE] and open_study.labels.has_waiting_questions():
        return ""
    if step.is_done(state):
        if step in STEPS[LOOK : JUDGE + 1]:
            return "Done by you"
        return PREPARED if step in STEPS[CLEAN:] and is_demo(open_study) and _is_as_made(state) else "Done"
    return "Done by others" if step.is_done_by_others(state) else ""


def _is_as_made(state: PathState) -> bool:
    """Whether a demo has no sets and models besides its own."""
    from blindspot.backend.demo.making import MODELS, POLICIES  # slow to import, and for a demo alone

    return state.training_sets.keys() <= POLICIES.keys() and state.retrievers.keys() <= set(MODELS.values())


def _check_stops(open_study: Study) -> list[Stop]:
    found, written = checks.proven_labels(open_study), cleaned_file(open_study)
    has_judged = found.is_enough or written is not None
    has_rule = written is not None and written.rule is not None
    judge = NextStep("Judge the next pair", url.JUDGE, "blindspot open") if found.rate is not None else None
    rule = file = None
    if found.rate is not None and who.may(open_study.labels_path, "see others' labels"):
        # Before the first label, too: Judge's page stands while one labels.
        parameters = RULE_STEP if found.judged else {}
        rule = NextStep("See the rate and the rule", url.CHECK, "blindspot open", parameters)
        file = NextStep("Write the file", url.CHECK, "blindspot open", FILE_STEP) if found.judged else None
    return [
        Stop("See the facts", ("Check",), True, NextStep("See the facts", url.CHECK, "blindspot open"), "Done"),
        Stop("Judge", ("Judge", "Question"), has_judged, judge, "Done" if has_judged else ""),
        Stop("Choose the rule", (), has_rule, rule, "Done" if has_rule else ""),
        Stop("Write the file", (), written is not None, file, "Done" if written is not None else ""),
    ]

"""The path through a study, shown on every page: which step this page belongs to, which steps are done, and the one
next step (`backend/upkeep/study_path.py`).

A check has its own steps: see the facts, judge, choose the rule, write the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from blindspot.app import checks, study, url, who
from blindspot.app.components.check.rules_panel import RULE_STEP
from blindspot.app.components.training import tabs
from blindspot.app.desk import desk
from blindspot.app.markup import Html, link, span, tag
from blindspot.backend.checking.jobs import cleaned_file
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.pairs import default_pair
from blindspot.backend.upkeep.study_path import STEPS, NextStep, PathState
from blindspot.db.people import Person


class Stop(NamedTuple):
    """A step: its title, the pages on which people do it, whether it is done, and the page that it links to if it can
    be done.
    """

    title: str
    pages: tuple[str, ...]
    is_done: bool
    next: NextStep | None

    @property
    def address(self) -> str | None:
        return None if self.next is None else href(self.next)


CHANGE = 5  # the place of "See the change"; from there the loop begins again with judging
JUDGE = 2
JUDGE_A_FILE = 1  # among the steps of a check


def href(next_step: NextStep) -> str:
    """Return the address of a next step."""
    return url.href(next_step.page, next_step.parameters)


def path(open_study: Study, page: str, person: Person | None) -> Html:
    """Return the path for a page; empty until the study has two runs to compare."""
    has_end = is_check(open_study)
    stops = _check_stops(open_study) if has_end else _stops(open_study, person)
    if not stops:
        return Html("")
    here = _current_stop(open_study, stops, page)
    items = [_stop_item(number, len(stops), stop, number == here) for number, stop in enumerate(stops)]
    following = next_step(stops, here, page, has_end)
    button: Html | str = ""
    if following is not None:
        words = f"Next: {following.label[:1].lower()}{following.label[1:]}"
        button = link(words, href(following), cls="next", data_key=">", title="Key: >")
    return tag("div", tag("ol", *items), button, cls="path", role="navigation", aria_label="The path")


def next_step(stops: Sequence[Stop], current_stop: int, page: str, has_end: bool = False) -> NextStep | None:
    """Return the step after this one that can be done now, or else the nearest step before it that is not done; None on
    Home and Check, which name it themselves.

    Args:
        has_end: The path of a check, which ends with the file, does not lead back to its beginning.
    """
    if page in ("Home", "Check"):
        return None
    if current_stop == CHANGE:
        return stops[JUDGE].next
    before = [stop for stop in reversed(stops[: max(current_stop, 0)]) if not stop.is_done]
    beginning = () if has_end else (*before, *stops[:1])
    later = (stop.next for stop in (*stops[current_stop + 1 :], *beginning) if stop.next is not None)
    return next(later, None)


def home_step(open_study: Study, person: Person | None) -> NextStep | None:
    """Return the first step that is not done, for Home's button; the last step if all are done."""
    open_stops = [stop for stop in _stops(open_study, person)[1:] if stop.next is not None]
    return next((stop.next for stop in open_stops if not stop.is_done), open_stops[-1].next if open_stops else None)


def _stop_item(number: int, stop_count: int, stop: Stop, is_here: bool) -> Html:
    """Return one step. A narrow screen shows the current step only, as "Step 2 of 6"."""
    mark = "✓ " if stop.is_done and not is_here else f"{number + 1} "
    place = span(mark, cls="place", data_of=stop_count if is_here else None)
    return tag(
        "li",
        span("✓ ", cls="tick") if stop.is_done and is_here else "",
        place,
        stop.title if is_here or stop.address is None else link(stop.title, stop.address),
        cls="now" if is_here else "done" if stop.is_done else None,
        aria_current="step" if is_here else None,
    )


def _current_stop(open_study: Study, stops: Sequence[Stop], page: str) -> int:
    """Return the step of a page; -1 if it belongs to none."""
    if page == "Check" and (url.value("step") or (is_check(open_study) and stops[JUDGE_A_FILE].is_done)):
        return 2
    runs = study.shown_runs(open_study)
    if page == "Compare" and {runs[each].get("retriever") for each in _pair(runs)} & set(study.models(open_study)):
        return CHANGE
    if page == "Training" and tabs.current() == "models":
        return 4
    return next((number for number, stop in enumerate(stops) if page in stop.pages), -1)


def _pair(runs: Mapping[str, dict]) -> tuple[str, str]:
    """Return the runs that the address names, or else the runs that Home compares."""
    a, b = default_pair(runs)
    return url.one_of("a", list(runs), a), url.one_of("b", list(runs), b)


def _stops(open_study: Study, person: Person | None) -> list[Stop]:
    runs = study.shown_runs(open_study)
    if len(runs) < 2:
        return []
    sets = study.parts(open_study, "training_sets")
    models = study.models(open_study)
    if (model := url.value("model")) in models:
        # The change to see is that of the shown model, as if it were the newest.
        models = {**{name: about for name, about in models.items() if name != model}, model: models[model]}
    judged = person is not None and open_study.labels.has_labelled(person.name)
    state = PathState(
        open_study,
        runs,
        _pair(runs),
        judged,
        judged or (person is not None and desk(open_study).tags.has_tagged(person.name)),
        sets,
        models,
        url.one_of("set", list(sets), "") or None,
        lambda action: who.may_sign_in(person, action),
    )
    return [Stop(step.title, step.pages, step.is_done(state), step.next(state)) for step in STEPS]


def _check_stops(open_study: Study) -> list[Stop]:
    found, is_written = checks.proven_labels(open_study), cleaned_file(open_study) is not None
    judge = NextStep("Judge the next pair", url.JUDGE, "blindspot open") if found.rate is not None else None
    rule = file = None
    if found.rate is not None and who.may(open_study.labels_path, "see others' labels"):
        # Before the first label, too: Judge's page stands while one labels.
        parameters = RULE_STEP if found.judged else {}
        rule = NextStep("See the rate and the rule", url.CHECK, "blindspot open", parameters)
        file = NextStep("Write the file", url.CHECK, "blindspot open", RULE_STEP) if found.judged else None
    return [
        Stop("See the facts", ("Check",), True, NextStep("See the facts", url.CHECK, "blindspot open")),
        Stop("Judge", ("Judge", "Question"), found.is_enough, judge),
        Stop("Choose the rule", (), is_written, rule),
        Stop("Write the file", (), is_written, file),
    ]

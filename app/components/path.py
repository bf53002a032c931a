"""The path through a study, on every page: where one is, what is done, and the one next step.

See the failure, look at questions, judge, clean, train, see the change. Each step leads to the next, so nobody has to go
back to Home to find it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import streamlit as st

from blindspot.app import study, url, who
from blindspot.app.components.training import tabs
from blindspot.app.desk import desk
from blindspot.app.markup import Html, link, span, tag
from blindspot.backend.checking.check import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.findings import default_pair
from blindspot.backend.training.before_after import run_before
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.db.people import Person

LOOKED = "looked-at-a-question"


class Next(NamedTuple):
    """What comes next, in words, and its address."""

    words: str
    address: str


class Stop(NamedTuple):
    """A step as it is drawn: its title, the address that it leads to if any, and whether it is done."""

    title: str
    address: str | None
    done: bool


@dataclass(frozen=True)
class PathStep:
    """One step: its title, the titles of the pages on which one does it, and the test of what is done."""

    title: str
    pages: tuple[str, ...]
    done: Callable[[PathState], bool]
    next: Callable[[PathState], Next | None]


@dataclass(frozen=True)
class PathState:
    """What the steps ask about a study and a person.

    runs: the shown runs, name to manifest. pair: the runs of this page, else those that Home compares. judged: whether
    the person has judged a passage. sets, models: name to manifest. change: the runs before and after the newest
    training that has both.
    """

    runs: dict[str, dict]
    pair: tuple[str, str]
    judged: bool
    looked: bool
    sets: dict[str, Any]
    models: dict[str, dict]
    change: tuple[str, str] | None
    may: Callable[[str], bool]


def _look(state: PathState) -> Next | None:
    a, b = state.pair
    return Next(
        f"Look at questions that {a} answers and {b} misses", url.href(url.QUESTION, {"a": a, "b": b, "cell": "only_a"})
    )


def _judge(state: PathState) -> Next | None:
    return Next("Judge passages", url.JUDGE)


def _clean(state: PathState) -> Next | None:
    if not state.may("build training sets"):
        return None
    if not state.sets:
        return Next("Build a training set", tabs.address("sets"))
    return Next("See what the labels change in a training set", tabs.address("set", set=_current_set(state)))


def _train(state: PathState) -> Next | None:
    if not state.sets or not state.may("train"):
        return None
    name = _current_set(state)
    return Next(f"Train a retriever on {name}", tabs.address("models", set=name))


def _current_set(state: PathState) -> str:
    return url.one_of("set", list(state.sets), next(reversed(state.sets)))


def _change(state: PathState) -> Next | None:
    if state.change is None:
        return None
    before, after = state.change
    return Next(f"See what changed from {before} to {after}", url.href(url.COMPARE, {"a": before, "b": after}))


STEPS = (
    PathStep("See the failure", ("Compare", "Relations", "Slices", "Map", "Experiments"), lambda s: len(s.runs) > 1,
             lambda s: Next("Compare the runs", url.href(url.COMPARE, {"a": s.pair[0], "b": s.pair[1]}))),
    PathStep("Look at questions", ("Question", "Find"), lambda s: s.looked, _look),
    PathStep("Judge", ("Judge", "Quality", "Team"), lambda s: s.judged, _judge),
    PathStep("Clean", ("Training",), lambda s: bool(s.sets), _clean),
    PathStep("Train", (), lambda s: bool(s.models), _train),
    PathStep("See the change", (), lambda s: False, _change),
)  # fmt: skip


def path(opened: Study, page: str, person: Person | None) -> Html:
    """Return the path for a page; empty until the study has two runs to compare. A check has a path of its own."""
    if is_check(opened):
        from blindspot.app.components.check.path import check_path

        return check_path(opened, page)
    state = _state(opened, person)
    if state is None:
        return Html("")
    here = _here(state, page)
    if here == 1:
        st.session_state[LOOKED] = True
    following = next((each for step in STEPS[here + 1 :] if (each := step.next(state)) is not None), None)
    if here == len(STEPS) - 1:
        following = _judge(state)  # the loop begins again
    stops = []
    for step in STEPS:
        leads_to = step.next(state)
        stops.append(Stop(step.title, None if leads_to is None else leads_to.address, step.done(state)))
    return drawn(stops, here, following)


def drawn(stops: Sequence[Stop], here: int, following: Next | None) -> Html:
    """Return the path as one line.

    Args:
        here: the place of the stop that one is on; -1 for none.
    """
    items = [_item(number, stop, number == here) for number, stop in enumerate(stops)]
    button: Html | str = ""
    if following is not None:
        words = f"Next: {following.words[:1].lower()}{following.words[1:]}"
        button = link(words, following.address, cls="next", data_key=">", title="Key: >")
    return tag("div", tag("ol", *items), button, cls="path", role="navigation", aria_label="The path")


def _item(number: int, stop: Stop, is_here: bool) -> Html:
    place = span("✓ " if stop.done and not is_here else f"{number + 1} ", cls="place")
    return tag(
        "li",
        place,
        stop.title if is_here or stop.address is None else link(stop.title, stop.address),
        cls="now" if is_here else "done" if stop.done else None,
        aria_current="step" if is_here else None,
    )


def _here(state: PathState, page: str) -> int:
    """The step of a page; -1 on Home."""
    if page == "Compare" and {state.runs[name].get("retriever") for name in state.pair} & set(state.models):
        return len(STEPS) - 1
    if page == "Training" and tabs.current() == "models":
        return 4
    return next((number for number, step in enumerate(STEPS) if page in step.pages), -1)


def _state(opened: Study, person: Person | None) -> PathState | None:
    runs = study.shown_runs(opened)
    if len(runs) < 2:
        return None
    a, b = default_pair(runs)
    models = models_of(opened)
    return PathState(
        runs,
        (url.one_of("a", list(runs), a), url.one_of("b", list(runs), b)),
        person is not None and _has_judged(opened, person.name),
        bool(st.session_state.get(LOOKED)),
        training_sets(opened),
        models,
        _before_and_after(opened, models, runs),
        lambda action: who.allowed(person, action),
    )


def _has_judged(opened: Study, name: str) -> bool:
    """Return whether a person has judged a passage. Nobody loses that, so it is asked until it is so."""
    key = f"has-judged-{name}"
    if not st.session_state.get(key):
        st.session_state[key] = desk(opened).labels.has_labelled(name)
    return bool(st.session_state[key])


def _before_and_after(opened: Study, models: dict[str, dict], runs: dict[str, dict]) -> tuple[str, str] | None:
    for name, about in reversed(models.items()):
        for after in reversed(runs):
            if runs[after].get("retriever") == name:
                before = run_before(opened, about, after, str(runs[after].get("split")), runs)
                if before is not None:
                    return before, after
    return None

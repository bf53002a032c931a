"""The demo's own panel on Home: what the study is, and five steps to follow, each with its place on the path."""

from __future__ import annotations

from blindspot.app import study, url
from blindspot.app.components.marks import methods_note
from blindspot.app.markup import Html, div, join, link, span, tag
from blindspot.backend.core.study import Study
from blindspot.backend.demo.making import CLEAN, NOISY, RUNS, is_running
from blindspot.backend.demo.steps import BEFORE, TRAINED_CLEAN, TRAINED_NOISY, DemoStep, StepKey, demo_steps
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.upkeep.study_path import STEPS
from blindspot.db.people import Person

STATES = {"waiting": "being made", "ready": "", "done": "✓ done"}
ON_PATH: dict[StepKey, tuple[int, ...]] = {
    "blind-spot": (1,),
    "question": (2,),
    "judge": (3,),
    "training-set": (4,),
    "retriever": (5, 6),
}
"""The numbers of the steps on the path above the page that each step of the demo shows."""

SAID_ABOVE = "The plot above with all figures, and the questions behind each of them."
ABOUT = (
    "This study is a generated encyclopedia: its people, places and works do not exist, so every passage that answers a "
    "question is known. BM25 and a dense retriever search it, annotators whose names end in “(simulated)” are programs, "
    "and this computer computed every figure."
)


def demo_panel(open_study: Study, person: Person | None, heading: str = "h1") -> Html:
    """The demo's steps, one a line, each with its state and a link, and in an expander what the demo is and how it counts.

    Args:
        heading: the element of the panel's heading: "h2" below the findings.
    """
    name = person.name if person is not None else None
    steps = demo_steps(
        open_study,
        lambda a, b: study.comparison(open_study, a, b, "answers", study.rule_of_runs(open_study, a, b)),
        name,
    )
    is_made = is_running(open_study) is not None
    return div(
        tag(heading, "Where does dense retrieval fail, and what do labels change?"),
        tag(
            "ol",
            *(_step(step, is_made, heading == "h2") for step in steps),
            cls="steps",
        ),
        methods_note(
            ABOUT,
            *(tag("p", f"{step.title}: {step.note}") for step in steps if step.note),
            title="About this study",
        ),
        cls="panel demo",
    )


def _step(step: DemoStep, is_made: bool, is_below: bool) -> Html:
    """One step. is_below: whether the findings, which the first step repeats, are above the steps."""
    waits = step.state == "waiting"
    title = step.title if waits else link(step.title, _address(step), data_focus=f"step-{step.key}")
    state = STATES[step.state] if is_made or not waits else "not made"
    places = ", ".join(f"{place} {STEPS[place - 1].title}" for place in ON_PATH[step.key])
    return tag(
        "li",
        tag(
            "h3" if is_below else "h2",
            span(places, cls="on-path"),
            " ",
            span(title, span(state, cls="soft after") if state else ""),
        ),
        tag(
            "p", join(SAID_ABOVE if is_below and step.key == "blind-spot" and not waits else step.sentence), cls="soft"
        ),
        cls=step.state,
    )


def _address(step: DemoStep) -> str:
    pair = {"a": RUNS["bm25"], "b": BEFORE, "k": HEADLINE_K}
    if step.key == "blind-spot":
        return url.href(url.RELATIONS, {"runs": f"{pair['a']},{pair['b']}", "k": HEADLINE_K, "view": "frequency"})
    if step.key == "question":
        return url.href(url.QUESTION, {**pair, "cell": "only_a", "question": step.question, "why": 1})
    if step.key == "judge":
        return url.JUDGE
    if step.key == "training-set":
        return url.href(url.TRAINING, {"set": CLEAN, "before": NOISY})
    return url.href(
        url.RELATIONS, {"runs": f"{TRAINED_CLEAN},{BEFORE},{TRAINED_NOISY}", "k": HEADLINE_K, "view": "frequency"}
    )

"""Empty pages: what the page will show, and the one thing to do next in this study."""

from __future__ import annotations

import shlex

from blindspot.app import url, who
from blindspot.app.components.marks import command, empty
from blindspot.app.markup import Html, join, link, tag
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.next_steps import next_steps


def empty_page(opened: Study, title: str, about: str) -> Html:
    """Return the empty state of a page that waits for passages, questions, an index or runs.

    Args:
        about: what the page will show.
    """
    return empty(title, about, next_step(opened))


def next_step(opened: Study) -> Html:
    """Return the next step in the study, with its command or the way to its button."""
    steps = next_steps(opened)
    if not who.may(opened.labels_path, "retrieve"):
        return join("A lead of the study prepares it; come back later.")
    if not steps:
        return join("Next: another run. ", link("Retrieve on Home", url.HOME), ".")
    step = steps[0]
    if step.job is not None:
        return join(
            "Next: ",
            _lower(step.why),
            " ",
            link("Start it on Home", url.HOME),
            ", or run: ",
            _command(step.command, opened),
        )
    return join("Next: ", _lower(step.why), " Run: ", _command(step.command, opened))


def with_study(line: str, opened: Study) -> str:
    """The command with `--study`, so that it works from any folder."""
    return f"{line} --study {shlex.quote(str(opened.folder))}"


def _command(line: str, opened: Study) -> Html:
    return tag("span", command(with_study(line, opened)), cls="next-command")


def _lower(sentence: str) -> str:
    """Begin a sentence in lower case, unless its first word is a name such as BM25."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]

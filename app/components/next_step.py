"""Empty pages: what the page will show, and the one thing to do next in this study."""

from __future__ import annotations

import shlex

from blindspot.app import url, who
from blindspot.app.components.marks import command, empty
from blindspot.app.markup import Html, join, link, tag
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.next_steps import next_steps


def empty_page(open_study: Study, title: str, page_purpose: str) -> Html:
    """Return the empty state of a page that needs passages, questions, an index or runs first.

    Args:
        page_purpose: what the page will show.
    """
    return empty(title, page_purpose, next_step(open_study))


def next_step(open_study: Study) -> Html:
    """Return the next step in the study, with its command or with directions to its button."""
    steps = next_steps(open_study)
    if not who.may(open_study.labels_path, "retrieve"):
        return join("A lead prepares the study; come back later.")
    if not steps:
        return join("Next: another run. ", link("Retrieve on Home", url.HOME), ".")
    step = steps[0]
    if step.job is not None:
        return join(
            "Next: ",
            _lower_first(step.why),
            " ",
            link("Start it on Home", url.HOME),
            ", or run: ",
            _command(step.command, open_study),
        )
    return join("Next: ", _lower_first(step.why), " Run: ", _command(step.command, open_study))


def with_study(line: str, open_study: Study) -> str:
    """The command with `--study`, so that it works from any folder."""
    return f"{line} --study {shlex.quote(str(open_study.folder))}"


def _command(line: str, open_study: Study) -> Html:
    return tag("span", command(with_study(line, open_study)), cls="next-command")


def _lower_first(sentence: str) -> str:
    """Put the first word of a sentence in lower case, unless it is a name such as BM25."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]

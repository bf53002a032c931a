"""Empty pages: what the page will show, and the one thing to do next in this study."""

from __future__ import annotations

import shlex

from blindspot.app import url, who
from blindspot.app.components import jobs
from blindspot.app.components.marks import command, empty
from blindspot.app.markup import Html, join, link, show, tag
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.retrieval.next_steps import next_steps


def show_empty_page(open_study: Study, title: str, page_purpose: str) -> None:
    """Show the empty state of a page that needs passages, questions, an index or runs first, with the button of the next
    step. It asks a person who may not start that step to come back later.

    Args:
        page_purpose: what the page will show.
    """
    step = _step(open_study)
    show(empty(title, page_purpose, _words(open_study, step)))
    _button(open_study, step)


def show_next_step(open_study: Study) -> None:
    """Show the one next step and its button, in a panel that waits for runs."""
    step = _step(open_study)
    show(tag("p", _words(open_study, step)))
    _button(open_study, step)


def _step(open_study: Study) -> Step | None:
    may_prepare = who.may(open_study.labels_path, "retrieve")
    return next(iter(next_steps(open_study)), None) if may_prepare else None


def _words(open_study: Study, step: Step | None) -> Html:
    if not who.may(open_study.labels_path, "retrieve"):
        return join("A lead prepares the study; come back later.")
    if step is None:
        return join("Next: another run. ", link("Retrieve on Home", url.HOME), ".")
    run = "" if step.job is not None else join(" Run: ", _command(step.command, open_study))
    return join("Next: ", _lower_first(step.why), run)


def _button(open_study: Study, step: Step | None) -> None:
    if step is not None and step.job is not None:
        words = f"{step.job.title[:1].upper()}{step.job.title[1:]}"
        jobs.followed_button(open_study, step.job, key="next-step", words=words)


def with_study(line: str, open_study: Study) -> str:
    """The command with `--study`, so that it works from any folder."""
    return f"{line} --study {shlex.quote(str(open_study.folder))}"


def _command(line: str, open_study: Study) -> Html:
    return tag("span", command(with_study(line, open_study)), cls="next-command")


def _lower_first(sentence: str) -> str:
    """Put the first word of a sentence in lower case, unless it is a name such as BM25."""
    return sentence if sentence[1:2].isupper() else sentence[:1].lower() + sentence[1:]

"""The path of a check: see the facts, judge, choose the rule, write the file."""

from __future__ import annotations

from blindspot.app import checks, url
from blindspot.app.components.check.rules_panel import RULE_STEP
from blindspot.app.components.path import Next, Stop, drawn
from blindspot.app.markup import Html
from blindspot.backend.checking.jobs import cleaned_file
from blindspot.backend.core.study import Study


def check_path(opened: Study, page: str) -> Html:
    """Return the path for a page of a check."""
    found, written = checks.labelled(opened), cleaned_file(opened) is not None
    on_check = 2 if url.value("step") else 0
    here = {"Check": on_check, "Judge": 1, "Question": 1}.get(page, -1)
    sees = checks.sees_rate(opened, found)
    rule = url.href(url.CHECK, RULE_STEP) if found.judged and sees else None
    stops = [
        Stop("See the facts", url.CHECK, True),
        Stop("Judge", url.JUDGE if found.rate is not None else None, found.is_enough),
        Stop("Choose the rule", rule and f"{rule}#rules", written),
        Stop("Write the file", rule and f"{rule}#file", written),
    ]
    return drawn(stops, here, _next(found, page, sees))


def _next(found: checks.Labelled, page: str, sees: bool) -> Next | None:
    """Return what comes next; on Check the page itself says it."""
    if page == "Check" or found.rate is None:
        return None
    if found.judged and sees:
        return Next("See the rate", url.CHECK)
    return Next("See the facts", url.CHECK) if page == "Judge" else Next("Judge the next pair", url.JUDGE)

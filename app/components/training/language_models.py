"""Judging with a language model on the Training page: what it costs, which server receives the texts, and the job.

Language-model judges can be added only on the command line. Only the command line or the person at this machine decides
whether texts may be sent to a judge's endpoint.
"""

from __future__ import annotations

import streamlit as st

from blindspot.app import study, who
from blindspot.app.components import jobs
from blindspot.app.components.consent import consent_form
from blindspot.app.components.marks import command, notice
from blindspot.app.components.training import tabs
from blindspot.app.markup import Html, join, show, tag
from blindspot.backend.core.jobs import request
from blindspot.backend.core.manifest import Manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.judge import LLMJudge, llm_judges
from blindspot.backend.judges.llm.judging import DEPTH, LLMPlan, judge_with_llm, plan
from blindspot.backend.text.number_words import duration, quantity
from blindspot.db.errors import BlindspotError

SETTLED = "pairs that people settled"
PAIRS = 500


def ask_form(open_study: Study, set_manifest: Manifest | None) -> None:
    """Show the form in which a language model judges the passages of a run, and what that costs."""
    if not who.may(open_study.labels_path, "train"):
        show(notice("Only leads can ask language models."))
        return
    judges = list(llm_judges(open_study))
    if not judges:
        show(
            notice(
                "A language model behind an OpenAI-compatible endpoint can judge passages. Add one on the command "
                "line: ",
                command("blindspot judge add NAME --endpoint URL --model MODEL"),
            )
        )
        return
    columns = st.columns([3, 4, 1.6, 1.6], vertical_alignment="bottom")
    name = columns[0].selectbox("Judge", judges, key="ask-judge")
    runs = [*study.runs(open_study), SETTLED]
    run = columns[1].selectbox("Passages of", runs, runs.index(tabs.pools(set_manifest, runs)[0]), key="ask-run")
    depth = DEPTH if run == SETTLED else columns[2].number_input("Ranks", 1, 1000, DEPTH, key="ask-depth")
    limit = columns[3].number_input(
        "Pairs at most", 1, 20_000, PAIRS, key="ask-limit", help="Those that the judge has scored already included"
    )
    chosen = None if run == SETTLED else run
    try:
        found = plan(open_study, name, chosen, int(depth), int(limit))
    except BlindspotError as error:
        show(notice(f"{str(error)[:1].upper()}{str(error)[1:]}.", kind="warning"))
        return
    show(plan_words(found))
    lacking = "" if found.pairs else "every pair has a score, or the judge has scored as many pairs as it may"
    if found.how_to_allow:
        lacking = "allow it first"
        consent_form(open_study, LLMJudge.load(open_study, name).about["endpoint"])
    asked = request(judge_with_llm, name, chosen, int(depth), int(limit))
    jobs.start_button(
        open_study,
        asked,
        key="ask-start",
        label=f"Ask about {quantity(found.pairs, 'pair')}",
        missing_part=lacking,
    )


def plan_words(plan: LLMPlan) -> Html:
    """Return the cost of judging with the language model, and the server that receives the texts."""
    cost = "cost unknown (no price given)" if plan.cost is None else f"cost {plan.cost:,.4f}"
    how = "from earlier answers" if plan.measured else "estimated from the length of the texts"
    stored = f" {quantity(plan.stored, 'answer')} stored already." if plan.stored else ""
    return tag(
        "p",
        join(
            tag("b", quantity(plan.requests, "request")),
            f", {plan.tokens_in:,} input and {plan.tokens_out:,} output tokens, {cost}, {duration(plan.seconds)} "
            f"({how}).{stored} Texts go to {plan.destination}.",
        ),
        cls="convention",
    )

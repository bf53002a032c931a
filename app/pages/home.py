"""Home: what the study holds, its runs and how well they did, what to do next, and the work that is going on."""

from __future__ import annotations

import shlex
from typing import Any

import streamlit as st

from app import study, url
from app.components import jobs
from app.components.marks import SUCCESS, WILSON, count, letter, notice
from app.components.tables import run_figures, success_heads
from app.guard import one_line
from app.markup import Html, div, join, link, show, span, tag, term
from app.runs import convention, default_pair, left_out, retriever_label, short_time
from app.study import set_label
from backend.study import Study
from backend.summary import next_steps, summary


def page() -> None:
    opened = study.current()
    held = summary(opened)
    if held["passages"] is None and not held["questions"]:
        show(_welcome(held["name"]))
    runs = study.runs(opened)
    if runs:
        show(_runs(opened, runs))
    with st.container(key="home"):
        left, right = st.columns(2, gap="small")
        with left:
            show(_holdings(held))
        with right:
            with st.container(key="next"):
                _next(opened, held)
                _make_more(opened, held)
            jobs.panel(opened)


def _welcome(name: str) -> Html:
    return div(tag("h1", f"{name} is a new study"),
               tag("p", "Blindspot sets two retrievers side by side on your questions and your passages, so that you see what each finds "
                        "and the other misses. It needs a passage collection and questions; type the command below in a "
                        "terminal, with a file of yours, and this page shows the next step."), cls="welcome")


def _holdings(held: dict[str, Any]) -> Html:
    """Passages, questions, frequencies and indexes, as a table of facts."""
    passages = held["passages"]
    rows = [_fact("passages", join(f"{passages['count']:,}", span(passages["source"], cls="soft after")) if passages else span("none yet", cls="soft")),
            _fact("questions", _questions(held["questions"]))]
    source = held["frequency_source"]
    rows.append(_fact(term("frequencies", "How often each question's subject is mentioned: what makes an entity rare or frequent"),
                      source or span("none yet", cls="soft")))
    rows.append(_fact("indexes", _indexes(held["indexes"])))
    return div(tag("h2", "What this study holds"), tag("dl", *rows), tag("p", held["folder"], cls="soft path"), cls="panel holdings")


def _fact(name: object, value: object) -> Html:
    return div(tag("dt", name), tag("dd", value))


def _questions(counts: list[dict[str, Any]]) -> object:
    if not counts:
        return span("none yet", cls="soft")
    head = tag("tr", tag("th", "set", scope="col", cls="left"), tag("th", "questions", scope="col"), tag("th", "with answers", scope="col"),
               tag("th", term("with gold", "Questions with at least one passage labelled as answering them"), scope="col"))
    lines = [tag("tr", tag("th", set_label(c["dataset"], c["split"]), scope="row"),
                 *(tag("td", f"{c[key]:,}") for key in ("questions", "with_answers", "with_gold"))) for c in counts]
    if len(counts) > 1:
        lines.append(tag("tr", tag("th", "all", scope="row"), *(tag("td", f"{sum(c[key] for c in counts):,}")
                                                                  for key in ("questions", "with_answers", "with_gold")), cls="sum"))
    return tag("table", tag("thead", head), tag("tbody", *lines), cls="figures small")


def _indexes(indexes: dict[str, dict]) -> object:
    if not indexes:
        return span("none yet", cls="soft")
    lines = []
    for name, manifest in indexes.items():
        dense = manifest.get("kind") == "dense index"
        what = f"dense, {manifest.get('dimension', '?')} dimensions, {manifest.get('similarity', '')}" if dense else "Lucene"
        lines.append(div(span(name), span(what, cls="soft after")))
    return join(*lines)


def _runs(opened: Study, runs: dict[str, dict]) -> Html:
    """Every run with its Success@k, newest first; two of them are picked as A and B."""
    first, second = default_pair(runs)
    a, b = url.one_of("a", list(runs), first), url.one_of("b", list(runs), second)
    found = {name: study.measured(opened, name, "answers", runs[name].get("rule", "dpr")) for name in runs}
    head = tag("tr", tag("th", "run", scope="col", cls="left"), tag("th", "retriever", scope="col", cls="left"),
               tag("th", "over", scope="col", cls="left"), tag("th", term("n", "Questions that can be measured"), scope="col"), *success_heads(),
               tag("th", "made (UTC)", scope="col"), tag("th", "compare as", scope="col"))
    lines = []
    for name, manifest in reversed(runs.items()):
        got = found[name]
        missing = left_out(got)
        picks = [_pick(side, name, a, b) for side in ("a", "b")]
        lines.append(tag("tr", tag("th", name, scope="row"), tag("td", retriever_label(manifest), cls="left"),
                         tag("td", manifest.get("split") or "every question", cls="left"),
                         tag("td", f"{len(got.questions):,}", span("*", title=missing) if missing else "",
                             span(" gold", cls="soft", title="measured by gold: no question of this run has answers") if got.kind == "gold" else ""),
                         *run_figures(got.first, got.k), tag("td", short_time(manifest.get("made")), cls="soft"), tag("td", *picks, cls="picks")))
    rules = sorted({runs[name].get("rule", "dpr") for name in runs})
    kinds = sorted({got.kind for got in found.values()})
    said = " ".join(dict.fromkeys(convention(kind, rule) for kind in kinds for rule in rules))
    compare = link(join("Compare ", letter("a"), f" {a} with ", letter("b"), f" {b}"), url.href(url.COMPARE, {"a": a, "b": b}),
                   cls="button") if len(runs) > 1 else span("A second run makes a comparison.", cls="soft")
    return div(div(tag("h2", "Runs"), compare, cls="list-head"),
               div(tag("table", tag("thead", head), tag("tbody", *lines), cls="figures runs"), cls="scrolling"),
               tag("p", said, " ", term("Success@k", SUCCESS), " in per cent, with the ", term("95% interval", WILSON), ".", cls="convention"),
               cls="panel")


def _pick(side: str, name: str, a: str, b: str) -> Html:
    """Choose this run as A or B; the run that had the letter takes the other one where they would be the same."""
    chosen = name == (a if side == "a" else b)
    pair = {"a": name, "b": a if name == b else b} if side == "a" else {"a": b if name == a else a, "b": name}
    return link(letter(side), url.href(url.HOME, pair), cls="pick" + (" chosen" if chosen else ""), data_focus=f"pick-{side}-{name}",
                aria_current="true" if chosen else None, title=f"{name} is {side.upper()}" if chosen else f"Compare {name} as {side.upper()}")


def _road(held: dict[str, Any]) -> Html:
    """The way from an empty study to a comparison, and how far this one has come."""
    indexes, runs = held["indexes"], held["runs"]
    done = {
        "Passages": held["passages"] is not None,
        "Questions": bool(held["questions"]),
        "BM25 index": "bm25" in indexes,
        "Dense index": any(manifest.get("kind") == "dense index" for manifest in indexes.values()),
        "Two runs": len(runs) > 1,
    }
    here = next((name for name, is_done in done.items() if not is_done), None)
    return tag("ol", *(tag("li", "✓ " if is_done else "", name, cls="done" if is_done else "now" if name == here else None,
                           aria_current="step" if name == here else None) for name, is_done in done.items()), cls="road")


def _next(opened: Study, held: dict[str, Any]) -> None:
    steps = next_steps(opened)
    show(tag("h2", "What to do next"), _road(held))
    if not steps:
        show(tag("p", "Everything is in place: pick two runs above and compare them, or put a question of your own to the retrievers on ",
                 link("Question", url.QUESTION), "."))
        return
    for number, step in enumerate(steps, 1):
        with st.container(key=f"step-{number}"):
            show(div(span(f"{number}", cls="place"), span(step.why), cls="step-why"))
            left, right = st.columns([7, 2], vertical_alignment="center")
            with left:
                st.code(with_study(step.command, opened), language=None, wrap_lines=True)
            if step.job is not None:
                with right:
                    jobs.start_button(opened, *step.job, key=f"start-{number}", lacking=_lacking(held, *step.job))


def _lacking(held: dict[str, Any], kind: str, arguments: dict[str, Any]) -> str:
    """The index that a retrieval still needs; "" when it can start."""
    needed = {"bm25": ["bm25"], "hybrid": ["bm25", arguments.get("encoder")]}.get(arguments.get("kind"), [arguments.get("encoder")])
    missing = [index for index in needed if index not in held["indexes"]] if kind == "retrieve" else []
    return f"needs the {' and the '.join(missing)} index first" if missing else ""


def with_study(line: str, opened: Study) -> str:
    """A command that works from any folder."""
    return f"{line} --study {shlex.quote(str(opened.folder))}"


def _make_more(opened: Study, held: dict[str, Any]) -> None:
    """Runs and indexes beyond the first ones."""
    indexes, counts = held["indexes"], held["questions"]
    dense = [name for name, manifest in indexes.items() if manifest.get("kind") == "dense index"]
    kinds = {"bm25": "bm25"} if "bm25" in indexes else {}
    kinds |= {name: "dense" for name in dense}
    kinds |= {f"hybrid of bm25 and {name}": "hybrid" for name in dense if "bm25" in indexes}
    if not kinds or not counts:
        return
    with st.expander("Make another run"):
        left, middle, right = st.columns([3, 3, 2], vertical_alignment="bottom")
        with left:
            retriever = st.selectbox("Retriever", list(kinds), key="more-retriever")
        with middle:
            sets = list(dict.fromkeys([*(c["split"] for c in counts), *(c["dataset"] for c in counts if c["dataset"])]))
            split = st.selectbox("Questions", sets, key="more-split", help="A split, or one named question set.")
        arguments: dict[str, Any] = {"kind": kinds[retriever], "split": split}
        if kinds[retriever] != "bm25":
            arguments["encoder"] = retriever.rsplit(" ", 1)[-1]
        encoder = f" --encoder {arguments['encoder']}" if "encoder" in arguments else ""
        with right:
            jobs.start_button(opened, "retrieve", arguments, key="more-start", words="Retrieve")
        st.code(with_study(f"blindspot retrieve --with {kinds[retriever]}{encoder} --split {split}", opened), language=None, wrap_lines=True)


with one_line():
    page()

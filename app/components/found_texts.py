"""The results of a full-text search, with excerpts that highlight the words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from itertools import accumulate
from typing import NamedTuple

from blindspot.app import url
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.markup import Html, div, join, link, span, tag, term
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.full_text import RankedCounts, TextResult, TextSearch, has_phrase, terms
from blindspot.backend.text.number_words import noun_form, quantity

LINE = 110  # characters of an excerpt that fit on a line
BEFORE = 40  # characters before the first word found
OPENED = "passage"  # parameter of the address: the passage whose questions are listed
GOLD = "Questions whose relevant passages, as imported, include this one; also of other question sets than the run's"


class Retrieved(NamedTuple):
    """For each passage id, the questions for which a run ranks the passage in its first k, as (rank, question id,
    text), best rank first. searched: the ids of all questions of the run. leaves_out: whether questions that the person
    still has to judge are left out.
    """

    run: str
    k: int
    by: Mapping[str, Sequence[tuple[int, str, str]]]
    searched: Set[str]
    leaves_out: bool = False


def found_title(result: TextSearch, words: str, retrieving_questions: Retrieved | None) -> Html:
    """Say how many texts have the words, and below it how many of them a run retrieves."""
    place, note = result.place[:-1], result.method_note
    counts = result.counts
    if counts is None:
        count, is_cut = (len(result.results), result.has_more) if result.total is None else (result.total, False)
        named = f"all of the words of {_named(words)}" if len(terms(words)) > 1 else _named(words)
        shown = f"{quantity(count, place)} {noun_form(count, 'has', 'have')} {named}"
        title = f"No {place} has {named}" if not count else f"More than {shown}" if is_cut else shown
    else:
        count, is_cut, title = counts.all_words, False, _of_ranked(counts, words)
    retrieved = ""
    if count and retrieving_questions is not None:
        ids = [each.id for each in result.results[:count]]
        number = sum(id in retrieving_questions.by for id in ids) or "none"
        of_them = f"{number} of the first {len(ids)}" if is_cut or len(ids) < count else f"{number} of them"
        some = "any" if number == "none" else "some"
        retrieved = (
            f"{retrieving_questions.run} ranks {of_them} in its top {retrieving_questions.k} for {some} question. "
        )
    return join(tag("h1", f"{title}."), tag("p", retrieved, note, cls="soft"))


def _of_ranked(counts: RankedCounts, words: str) -> str:
    """Say how many of the passages that BM25 ranks have the words."""
    count, more = counts.as_written, counts.all_words - counts.as_written
    ranked = f"{counts.ranked:,} passages that BM25 ranks first"
    if not counts.all_words:
        nothing = "No passage" if counts.is_all else f"None of the {ranked}"
        return f"{nothing} has all of the words of {_named(words)}; the closest are below"
    if counts.is_all:
        subject = quantity(count, "passage") if count else "No passage"
    else:
        subject = f"All {ranked}" if count == counts.ranked else f"{count or 'None'} of the {ranked}"
    title = f"{subject} {'have' if count > 1 else 'has'} {_named(words)}"
    if not more:
        return title
    further = f"{more:,} more" if count else f"{more:,}"
    return f"{title}{'' if count else ' as written'}, {further} {noun_form(more, 'has', 'have')} all of its words"


def _named(words: str) -> str:
    """The words in quotation marks; if parts of them are in such marks already, those parts alone."""
    if has_phrase(words):
        return re.sub(r'"([^"]*)"', r"“\1”", words)
    return f"“{words}”"


def found_list(
    study: Study,
    result: TextSearch,
    here: Mapping[str, str],
    more: int | None = None,
    retrieving_questions: Retrieved | None = None,
) -> Html:
    """Show the results, best or first ones first.

    Args:
        here: The parameters of the page's address; `passage` names the row whose questions are listed below it.
        more: The length of a longer list. retrieving_questions: The questions that retrieve each passage.
    """
    if not result.results:
        return Html("")
    foot = (
        link("Show more", url.href(url.FIND, {**here, "show": more}), cls="button", data_focus="more") if more else ""
    )
    if result.place == "passages":
        found = _passage_table(study, result, here, retrieving_questions)
    else:
        found = tag("ol", *(_text_item(result, each) for each in result.results), cls="found")
    return join(found, div(foot, cls="foot"))


def _passage_table(
    study: Study, result: TextSearch, here: Mapping[str, str], retrieving_questions: Retrieved | None
) -> Html:
    """The passages found, with the questions that retrieve each of them and those that have it as gold. In a narrow window
    the style sheet sets these cells below the passage's title.
    """
    gold = study.questions.questions_by_gold([each.id for each in result.results])
    rows = []
    for number, each in enumerate(result.results):
        if number and result.counts is not None and number == result.counts.all_words:
            words = tag("th", "only some of the words", colspan=4, scope="rowgroup", cls="left soft")
            rows.append(tag("tr", words, cls="some-words"))
        cells, lists = [_passage_cell(each)], []
        if retrieving_questions is not None:
            found = retrieving_questions.by.get(each.id, [])
            links = [
                join(_question_link(id, text, a=retrieving_questions.run), span(f" at rank {rank}", cls="unbroken"))
                for rank, id, text in found
            ]
            none = "no question" + (" outside your open batches" if retrieving_questions.leaves_out else "")
            cells += [
                tag(
                    "td", _listed_or_counted(links, each.id, here) or none, cls="left retrieved" + " soft" * (not links)
                ),
                tag("td", f"{found[0][0]}" if found else "–", cls="best"),
            ]
            lists.append((f"{retrieving_questions.run} retrieves it for", links))
        links = [_gold_link(id, text, retrieving_questions) for id, text in gold.get(each.id, [])]
        shown = _listed_or_counted(links, each.id, here) or span("none", cls="soft")
        rows.append(tag("tr", *cells, tag("td", shown, cls="left gold-of")))
        if here.get(OPENED) == each.id:
            rows.append(_lists_row([*lists, ("It is gold of", links)]))
    heads = [tag("th", "passage", scope="col", cls="left")]
    if retrieving_questions is not None:
        title = f"Questions for which {retrieving_questions.run} ranks the passage in its top {retrieving_questions.k}"
        heads += [
            tag("th", term("questions", title), scope="col", cls="left"),
            tag(
                "th", term("best rank", "The best of the passage's ranks for these questions"), scope="col", cls="best"
            ),
        ]
    heads.append(tag("th", term("gold of", GOLD), scope="col", cls="left gold-of"))
    return scrolling(tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows), cls="found"))


def _passage_cell(passage: TextResult) -> Html:
    """A passage's title, id and excerpt; a click on the excerpt shows the whole text if there is more."""
    line = one_line(passage.excerpt)
    whole_text = "".join(piece for piece, _ in passage.text).strip()
    is_all = "".join(piece for piece, _ in line).lstrip("… ") == whole_text
    excerpt = span(_marked(line), cls="excerpt")
    whole = tag(
        "details", tag("summary", excerpt, title="The whole passage"), tag("p", _marked(passage.text)), cls="whole"
    )
    title, id = tag("b", passage.title or "untitled"), span(passage.id, cls="soft id")
    return tag("td", title, id, div(excerpt) if is_all else whole, cls="left")


def _listed_or_counted(links: Sequence[Html], passage: str, here: Mapping[str, str]) -> Html:
    """One question as a link; several as their number, a link that lists them below the passage or closes the list. The
    list is in the address, so Back finds it open.
    """
    if len(links) < 2:
        return join(*links)
    is_open = here.get(OPENED) == passage
    address = url.href(url.FIND, {**here, OPENED: None if is_open else passage})
    return link(
        quantity(len(links), "question"),
        address,
        aria_expanded="true" if is_open else "false",
        data_focus=f"questions-{passage}",
    )


def _lists_row(lists: Sequence[tuple[str, Sequence[Html]]]) -> Html:
    """The questions of a passage, below it over the whole width."""
    parts = [
        join(
            tag("p", heading, " ", quantity(len(links), "question"), cls="soft"),
            tag("ul", *(tag("li", each) for each in links)),
        )
        for heading, links in lists
        if links
    ]
    return tag("tr", tag("td", *parts, colspan=4, cls="left"), cls="opened")


def _gold_link(id: str, text: str, retrieved: Retrieved | None) -> Html:
    """A question that has the passage as gold; if the run did not search for it, that is said."""
    if retrieved is None or id in retrieved.searched:
        return _question_link(id, text)
    return join(_question_link(id, text), span(f" (not searched by {retrieved.run})", cls="soft"))


def _question_link(id: str, text: str, **more: str) -> Html:
    return link(text, url.href(url.QUESTION, {"question": id, **more}))


def _text_item(result: TextSearch, found_text: TextResult) -> Html:
    """A question or a note with the words found."""
    if result.place == "questions":
        runs = found_text.runs
        searched = "no run" if not runs else " and ".join(runs) if len(runs) < 3 else quantity(len(runs), "run")
        about = f"{found_text.id} · {found_text.of} · searched by {searched}"
        question = _question_link(found_text.id, _marked(found_text.excerpt))
        return tag("li", question, div(about, cls="soft", title=", ".join(runs)))
    about = f"on passage {found_text.passage}" if found_text.passage else "on the question"
    where = _question_link(found_text.id, f"question {found_text.id}")
    return tag(
        "li", tag("p", _marked(found_text.excerpt)), div(found_text.title, " ", about, " of ", where, cls="soft")
    )


def _marked(pieces: Sequence[tuple[str, str]]) -> Html:
    return join(*(tag("mark", piece, cls="word") if kind else piece for piece, kind in pieces))


def one_line(pieces: Sequence[tuple[str, str]], limit: int = LINE) -> list[tuple[str, str]]:
    """Return the pieces of an excerpt that fit on a line: from shortly before the part with the most words found, to
    the end of a word.
    """
    ends = list(accumulate(len(piece) for piece, _ in pieces))

    def words_from(number: int) -> int:
        end = ends[number] - len(pieces[number][0]) + limit - BEFORE
        return sum(bool(kind) and ends[at] <= end for at, (_, kind) in enumerate(pieces) if at >= number)

    first = max((number for number, (_, kind) in enumerate(pieces) if kind), key=words_from, default=0)
    before = "".join(piece for piece, _ in pieces[:first])
    if len(before) > BEFORE:
        before = f"… {before[-BEFORE:].partition(' ')[2]}"
    left = limit
    line: list[tuple[str, str]] = []
    for piece, kind in [(before, "")] * bool(before) + [*pieces[first:]]:
        if len(piece) > left:
            short = piece[:left].rpartition(" ")[0]
            return [*line, (f"{short} …", kind)]
        line.append((piece, kind))
        left -= len(piece)
    return line

"""Panels about agreement between annotators and about each annotator's work."""

from __future__ import annotations

from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.marks import methods_note, percent
from blindspot.app.components.quality.marks import bounds, coefficient, share
from blindspot.app.markup import Html, div, row, span, table_head, tag, term, wide_cell, wide_head
from blindspot.backend.judging.quality import MAX_GESTURE_MS, AnnotatorStats, PairAgreement, Quality
from blindspot.backend.text.number_words import quantity

ALPHA = (
    "Krippendorff's alpha: 1 is perfect agreement, 0 is agreement by chance. Krippendorff recommends at least 0.80, "
    "or 0.67 for tentative conclusions."
)
KAPPA = "Cohen's kappa of two annotators over the passages that both judged blind"
POSITIVE = "Positive against related or negative; unsure counts as not judged"
FOUR = "Positive, related, negative and unsure as four nominal labels"


def agreement_panel(quality: Quality) -> Html:
    together = quality.together
    if together is None or not together.four.passages:
        message = (
            "Agreement can be measured only on passages that two people judged blind, and there are none yet. Create a batch with "
            "second labels, or raise the number of people per question."
        )
        return div(tag("h2", "Agreement"), tag("p", message, cls="convention"), cls="panel")
    lines = [
        row(
            coefficient(each),
            share(each.agreed),
            wide_cell(f"{each.passages:,}"),
            wide_cell(f"{each.questions:,}"),
            head=term(words, explained),
        )
        for words, explained, each in (
            ("four labels", FOUR, together.four),
            ("positive or not", POSITIVE, together.positive),
        )
    ]
    table = tag(
        "table",
        table_head("all annotators", term("alpha", ALPHA), "all agree", wide_head("passages"), wide_head("questions")),
        tag("tbody", *lines),
        cls="figures agreement",
    )
    message = methods_note(
        f"{quantity(len(together.people), 'annotator')}; last blind label of each annotator and passage. The 95% "
        "intervals resample questions, so they hold for other questions judged by the same people."
    )
    pairs = _pairs(quality.pairs) if len(quality.pairs) > 1 else ""  # of two annotators the table above says the same
    return div(tag("h2", "Agreement"), scrolling(table), pairs, message, cls="panel")


def _pairs(pairs: tuple[PairAgreement, ...]) -> Html:
    worst_first = sorted(pairs, key=lambda pair: (pair.four.value is None, pair.four.value, pair.people))
    lines = [
        row(
            coefficient(pair.four),
            coefficient(pair.positive),
            wide_cell(share(pair.four.agreed)),
            wide_cell(f"{pair.four.passages:,}"),
            wide_cell(f"{pair.four.questions:,}"),
            head=" and ".join(pair.people),
        )
        for pair in worst_first
    ]
    table = tag(
        "table",
        table_head(
            "annotators",
            term("kappa, four", f"{KAPPA}. {FOUR}."),
            term("kappa, positive", f"{KAPPA}. {POSITIVE}."),
            *map(wide_head, ("agree", "passages", "questions")),
        ),
        tag("tbody", *lines),
        cls="figures agreement",
    )
    return div(tag("h3", "Pairs of annotators"), scrolling(table))


def people_panel(quality: Quality) -> Html:
    if not quality.work:
        return Html("")
    head = table_head(
        "annotator",
        "labels",
        wide_head("questions"),
        wide_head(
            term(
                "seconds per label",
                "Median seconds per label; a key that labels several passages divides its time among them",
            )
        ),
        term(
            "per hour", f"Labels per hour of labelling; each action counts at most {MAX_GESTURE_MS // 60_000} minutes"
        ),
        wide_head("positive"),
        wide_head("unsure"),
        wide_head(term("consistent", "Passages with the same label when judged blind a second time in another batch")),
    )
    lines = [_person(each) for each in quality.work]
    drift = quality.drift
    note = ["Current labels. "]
    if drift.passages:
        interval = f" ({bounds(drift.low, drift.high)})" if drift.low is not None else ""
        again = f"{quantity(drift.passages, 'passage')} of {quantity(drift.questions, 'question')}"
        note += [f"Judged a second time: {again}; {percent(drift.value)}%{interval} got the same label."]
    else:
        note += ["Nobody has judged a passage twice yet; batches include repeats for that purpose."]
    table = tag("table", head, tag("tbody", *lines), cls="figures agreement")
    return div(tag("h2", "Annotators"), scrolling(table), tag("p", *note, cls="convention"), cls="panel")


def _person(work: AnnotatorStats) -> Html:
    timed = "" if work.timed == work.labels else f"{quantity(work.timed, 'label')} timed"
    return row(
        f"{work.labels:,}",
        wide_cell(f"{work.questions:,}"),
        wide_cell(span("–" if work.seconds is None else f"{work.seconds:.1f}", title=timed or None)),
        span("–" if work.per_hour is None else f"{work.per_hour:,.0f}", title=timed or None),
        wide_cell(share(work.positive / work.labels)),
        wide_cell(share(work.unsure / work.labels)),
        wide_cell(f"{work.same} of {work.repeats}" if work.repeats else "–"),
        head=work.name,
    )

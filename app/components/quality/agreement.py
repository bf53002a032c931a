"""How far people agree, and how each of them works."""

from __future__ import annotations

from app.components.marks import count, percent
from app.components.quality.marks import bounds, coefficient, heads, row, share
from app.components.tables import scrolling
from app.markup import Html, div, span, tag, term
from backend.judging.quality import MAX_GESTURE_MS, Agreements, AnnotatorStats, Quality

ALPHA = (
    "Krippendorff's alpha: the share of the disagreement expected by chance that is absent. 1: none is left; 0: no better than "
    "chance. Krippendorff asks for 0.80, and for 0.67 where conclusions are tentative."
)
KAPPA = "Cohen's kappa of two people, over the passages that both judged blind"
POSITIVE = "Positive against related or negative; unsure counts as not judged"
FOUR = "Positive, related, negative and unsure as four labels of equal standing"


def agreement_panel(found: Quality) -> Html:
    together = found.together
    if together is None or not together.four.passages:
        said = (
            "Nothing was judged blind by two people yet. Make a batch with second labels, or raise the people needed: without two "
            "labels of one passage nobody knows how far to trust one."
        )
        return div(tag("h2", "Agreement"), tag("p", said, cls="convention"), cls="panel")
    lines = [
        row(
            coefficient(each),
            share(each.agreed),
            f"{each.passages:,}",
            f"{each.questions:,}",
            head=term(words, explained),
        )
        for words, explained, each in (
            ("four labels", FOUR, together.four),
            ("positive or not", POSITIVE, together.positive),
        )
    ]
    table = tag(
        "table",
        heads("all annotators", term("alpha", ALPHA), "all agree", "passages", "questions"),
        tag("tbody", *lines),
        cls="figures agreement",
    )
    said = tag(
        "p",
        f"{len(together.people):,} people; of the labels given blind, each one's last. The 95% interval draws questions again: "
        "it is about other questions and the same people.",
        cls="convention",
    )
    return div(tag("h2", "Agreement"), scrolling(table), said, _pairs(found.pairs), cls="panel")


def _pairs(pairs: tuple[Agreements, ...]) -> Html:
    if not pairs:
        return Html("")
    worst_first = sorted(pairs, key=lambda pair: (pair.four.value is None, pair.four.value, pair.people))
    lines = [
        row(
            coefficient(pair.four),
            coefficient(pair.positive),
            share(pair.four.agreed),
            f"{pair.four.passages:,}",
            f"{pair.four.questions:,}",
            head=" and ".join(pair.people),
        )
        for pair in worst_first
    ]
    table = tag(
        "table",
        heads(
            "two at a time",
            term("kappa, four", f"{KAPPA}. {FOUR}."),
            term("kappa, pos.", f"{KAPPA}. {POSITIVE}."),
            "agree",
            "passages",
            "questions",
        ),
        tag("tbody", *lines),
        cls="figures agreement",
    )
    return div(tag("h3", "In pairs"), scrolling(table))


def people_panel(found: Quality) -> Html:
    if not found.work:
        return Html("")
    head = heads(
        "annotator",
        "labels",
        "questions",
        term("s per label", "Median seconds; a key that labels several passages shares its time out among them"),
        term(
            "per hour", f"Labels in an hour of labelling; a gesture counts {MAX_GESTURE_MS // 60_000} minutes at most"
        ),
        "positive",
        "unsure",
        term(
            "same again",
            "Of passages judged blind a second time, in another batch: those that got the same label as before",
        ),
    )
    lines = [_person(each) for each in found.work]
    drift = found.drift
    said = ["Labels that stand, each passage once; practice is left out. "]
    if drift.passages:
        interval = f" ({bounds(drift.low, drift.high)})" if drift.low is not None else ""
        again = f"{count(drift.passages, 'passage')} of {count(drift.questions, 'question')}"
        said += [f"Judged a second time: {again}; the label was the same for {percent(drift.value)}%{interval}."]
    else:
        said += ["Nobody has judged a passage a second time yet: batches have repeats for that."]
    table = tag("table", head, tag("tbody", *lines), cls="figures agreement")
    return div(tag("h2", "People"), scrolling(table), tag("p", *said, cls="convention"), cls="panel")


def _person(work: AnnotatorStats) -> Html:
    timed = "" if work.timed == work.labels else f"{count(work.timed, 'label')} timed"
    return row(
        f"{work.labels:,}",
        f"{work.questions:,}",
        span("–" if work.seconds is None else f"{work.seconds:.1f}", title=timed or None),
        span("–" if work.per_hour is None else f"{work.per_hour:,.0f}", title=timed or None),
        share(work.positive / work.labels),
        share(work.unsure / work.labels),
        f"{work.same} of {work.repeats}" if work.repeats else "–",
        head=work.name,
    )

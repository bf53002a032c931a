"""The facts about a training file that need no labels: its size, its faults, and in-batch false negatives."""

from __future__ import annotations

from blindspot.app.markup import Html, div, tag, term
from blindspot.backend.checking.facts import FileFacts, FileFinding
from blindspot.backend.checking.words import NO_FAULTS
from blindspot.backend.text.number_words import noun_form, quantity

IN_BATCH = "In a batch, the positives of the other rows are negatives of each row. Such a negative is false if the file gives the same text, or a nearly identical one, as a positive of the row's question. Rows are drawn at random, as in a shuffled epoch"


def facts_panel(facts: FileFacts, form: str) -> Html:
    """Return the sizes and the faults of the file."""
    sizes = {
        "rows": facts.rows,
        "questions": facts.questions,
        "passages": facts.passages,
        "positives": facts.positives,
        "negatives": facts.negatives,
    }
    rows = [_finding(each) for each in facts.findings]
    table = tag("table", tag("tbody", *rows), cls="figures faults") if rows else tag("p", NO_FAULTS)
    return div(
        tag("h2", "Seen at once"),
        tag("dl", *(div(tag("dt", name), tag("dd", f"{count:,}")) for name, count in sizes.items()), cls="sizes"),
        table,
        tag("p", f"{form}. Each pair of a question and a passage is counted once.", cls="convention"),
        cls="panel",
    )


def _finding(finding: FileFinding) -> Html:
    lines = ""
    if finding.lines:
        more = " …" if finding.count > len(finding.lines) else ""
        lines = f"{noun_form(len(finding.lines), 'line')} {', '.join(f'{line:,}' for line in finding.lines)}{more}"
    share = f"{finding.share} of {quantity(finding.of, finding.unit)}"
    return tag(
        "tr",
        tag("td", tag("b", f"{finding.count:,}")),
        tag("td", finding.words, div(" · ".join(filter(None, (share, lines))), cls="soft"), cls="left"),
    )


def batch_panel(facts: FileFacts) -> Html:
    """Return the number of in-batch false negatives by batch size; empty for a file form that is trained without
    in-batch negatives.
    """
    if not facts.batches:
        return Html("")
    head = tag(
        "tr",
        tag("th", "batch", scope="col", cls="left"),
        tag("th", "rows with one", scope="col"),
        tag("th", "pairs in an epoch", scope="col"),
    )
    rows = [
        tag(
            "tr",
            tag("th", f"{each.size:,}", scope="row"),
            tag("td", f"{each.rows:.1%}"),
            tag("td", f"{each.pairs:,.0f}"),
        )
        for each in facts.batches
    ]
    shared = f"Expected in random order of the {quantity(facts.rows, 'row')}. {quantity(facts.doubled, 'row')} {noun_form(facts.doubled, 'shares', 'share')} a question or a positive with another row."
    return div(
        tag("h2", term("False negatives inside the batch", IN_BATCH)),
        tag("table", tag("thead", head), tag("tbody", *rows), cls="figures"),
        tag("p", shared, cls="convention"),
        cls="panel",
    )

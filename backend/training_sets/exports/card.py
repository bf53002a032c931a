"""Write the card of an exported training set: the origin of its pairs, how reliable they are, and the licence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blindspot.analysis.agreement import Agreement
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets.exports.base import ExportFormat
from blindspot.backend.training_sets.training_set import TrainingSet

SOURCE_WORDS = {
    "label": "people", "gold": "gold of the question set", "distant": "the highest BM25 passage that contains an answer (distant supervision)",
    "cross_encoder": "a cross-encoder that was sure", "judge": "a judge that was sure", "run": "mined from runs", "random": "drawn at random",
    "other_gold": "gold of other questions",
}  # fmt: skip
LICENCE = (
    "The questions and passages belong to the makers of the question sets and of the collection, and keep their "
    "licences (text of Wikipedia: CC BY-SA); an export does not change that. Labels are your annotators' work: ask "
    "the annotators, and credit them, before you pass the labels on. No annotator is named here."
)


def card(
    study: Study, training_set: TrainingSet, form: ExportFormat, files: Mapping[str, int], notes: Sequence[str]
) -> str:
    """Return the card as Markdown."""
    manifest = training_set.manifest
    counts = manifest["counts"]
    sources = [
        f"- {count:,} {role}: {SOURCE_WORDS[source]}"
        for role in ("positive", "negative")
        for source, count in counts["sources"][role].items()
    ]
    dropped = sum(counts["sources"]["dropped"].values())
    sections = {
        "Files": [*(f"- `{name}`: {rows:,} rows" for name, rows in files.items()), *(f"- {note}" for note in notes)],
        "Where the pairs come from": [
            "Counts are of the whole set; a format may take fewer negatives.",
            "",
            *sources,
            f"- {dropped:,} seen and dropped, not in these files",
        ],
        "How it was made": list(_model_lines(manifest)),
        "How far the labels can be trusted": list(_trust_lines(study)),
        "Left out": _left_out_lines(manifest),
        "Licence": [LICENCE],
    }
    parts = [
        f"# Training set {training_set.name}",
        "",
        f"{counts['questions']:,} questions, in {form.title}. Made with Blindspot.",
        "",
    ]
    for heading, lines in sections.items():
        parts += [f"## {heading}", "", *lines, ""]
    return "\n".join(parts)


def _model_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    request, inputs = manifest["request"], manifest["inputs"]
    yield (
        f"- policy `{manifest['policy']}`; ranks {request['first']} to {request['last']} of "
        f"{', '.join(request['runs'])}; seed {request['seed']}"
    )
    if inputs["scores"]:
        thresholds = request["thresholds"]
        yield (
            f"- model `{inputs['scores']['model']}`: negatives below {thresholds['keep_below']}, positives "
            f"{_proposed_above(thresholds)}"
        )
    used = "used up to" if inputs["labels"]["used"] else "not used; the last was"
    yield f"- labels {used} event {inputs['labels']['last_event']}"
    yield f"- fingerprint `{manifest['fingerprint']}`: the same inputs give the same pairs"


def _proposed_above(thresholds: Mapping[str, Any]) -> str:
    above, with_answer = thresholds["propose_above"], thresholds.get("propose_above_with_answer")
    if with_answer is None:
        return "none" if above is None else f"above {above}"
    return f"from {with_answer} with an answer" + ("" if above is None else f", from {above} without")


def _trust_lines(study: Study) -> Iterator[str]:
    from blindspot.backend.judging.quality import quality

    together = quality(study).together
    if together is None:
        yield "- agreement of people: nobody has judged anything blind"
    else:
        yield f"- agreement of people on positive or not: {_agreement(together.positive)}"


def _agreement(agreement: Agreement) -> str:
    if agreement.value is None:
        return f"not defined (n = {agreement.passages:,} passages judged twice or more)"
    interval = "" if agreement.low is None else f" (95%: {agreement.low:.2f} to {agreement.high:.2f})"
    return (
        f"Krippendorff's alpha {agreement.value:.2f}{interval}, n = {agreement.passages:,} passages of {agreement.questions:,} "
        "questions, over all labels of the study"
    )


def _left_out_lines(manifest: Mapping[str, Any]) -> list[str]:
    return [f"- {count:,} questions: {reason}" for reason, count in manifest["left_out"].items()] or [
        "No question was left out."
    ]

"""Collect the results from annotators' labels for a report: agreement, the share of false negatives, and figures
corrected by labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.agreement import Agreement
from blindspot.analysis.judged import NONE, JudgedFigures
from blindspot.backend.core.result_table import ABSENT, ResultTable, percent
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import n_value
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.judging.audits import Audit, audit
from blindspot.backend.judging.corrected import corrected_run
from blindspot.backend.judging.quality import Quality, quality
from blindspot.backend.reports.markup import heading, remark
from blindspot.backend.text.number_words import quantity

ANCHOR = "labels"
KS = (1, 5, 20)


@dataclass(frozen=True)
class LabelFindings:
    """The results from labels. corrected: for each run whose questions have labels, the figures at KS."""

    quality: Quality
    audit: Audit
    corrected: dict[str, list[JudgedFigures]]

    @property
    def count(self) -> int:
        return sum(each.labels for each in self.quality.work)


def label_findings(study: Study, runs: Sequence[str], relevance: Kind, rule: str) -> LabelFindings | None:
    """Return the results from labels; None if there are no labels."""
    found = quality(study)
    if not found.work:
        return None
    corrected: dict[str, list[JudgedFigures]] = {}
    for name in runs:
        measured = corrected_run(study, study.run(name), relevance, rule)
        if (measured.labels != NONE).any():
            corrected[name] = measured.figures_at(KS)
    return LabelFindings(found, audit(study), corrected)


def label_sentences(findings: LabelFindings, k: int) -> Iterator[str]:
    people = quantity(len(findings.quality.work), "annotator")
    together = findings.quality.together
    if together is not None and together.positive.value is not None:
        yield (
            f"{people} gave {quantity(findings.count, 'label')}; on whether a passage answers, they agree with alpha "
            f"{_coefficient(together.positive)}, where 1 is perfect and 0 is chance."
        )
    else:
        yield f"{people} gave {quantity(findings.count, 'label')}. No passage has labels from two people who judged independently, so agreement is unknown."
    rate = None if findings.audit.overall is None else findings.audit.overall.positive
    if rate is not None and (share := rate.value) is not None:
        between = "" if rate.low is None or rate.high is None else f" ({100 * rate.low:.1f} to {100 * rate.high:.1f})"
        yield (
            f"{100 * share:.1f}%{between} of the unlabelled passages that the audit drew at random answer their "
            "question: false negatives."
        )
    for name, figures in findings.corrected.items():
        at_k = next((each for each in figures if each.k == k), None)
        if at_k is not None and at_k.corrected.value != at_k.original.value:
            yield f"Labels correct Success@{k} of {name} from {percent(at_k.original)} to {percent(at_k.corrected)}."


def label_parts(findings: LabelFindings) -> Iterator[str]:
    yield heading("Labels of annotators", ANCHOR)
    together = findings.quality.together
    if together is not None and together.four.passages:
        yield _agreement_table(together.four, together.positive).as_html()
        yield remark(
            f"{together.four.method}. The intervals resample questions: they hold for other questions judged by the "
            "same people."
        )
    if findings.quality.pairs:
        rows = [
            [" and ".join(pair.people), _coefficient(pair.four), _coefficient(pair.positive), pair.four.passages]
            for pair in findings.quality.pairs
        ]
        heads = ["", "four labels", "positive or not", "passages"]
        yield ResultTable("Pairs of annotators: Cohen's kappa", heads, rows).as_html()
    yield _people_table(findings.quality).as_html()
    disputed = sum(len(dispute.passages) for dispute in findings.quality.disputes)
    yield remark(f"{quantity(disputed, 'passage')} disputed or unsure, and not yet settled.")
    if findings.corrected:
        yield _corrected_table(findings.corrected).as_html()
        yield remark(
            "A settled label overrides the answer match or the gold. The bounds are the corrected figure if no unjudged passage were relevant, and if every one were: further labels cannot move it beyond these bounds."
        )


def _agreement_table(four: Agreement, positive: Agreement) -> ResultTable:
    rows = [
        [
            name,
            _coefficient(each),
            None if each.agreed is None else f"{100 * each.agreed:.1f}%",
            each.passages,
            each.questions,
        ]
        for name, each in (("positive, related, negative, unsure", four), ("positive or not", positive))
    ]
    heads = ["labels", "alpha", "all agree", "passages", "questions"]
    return ResultTable("Agreement of all annotators", heads, rows)


def _people_table(quality: Quality) -> ResultTable:
    rows = [
        [
            each.name,
            each.labels,
            each.questions,
            f"{100 * each.positive / each.labels:.1f}%",
            f"{100 * each.unsure / each.labels:.1f}%",
            None if each.seconds is None else f"{each.seconds:.1f}",
        ]
        for each in quality.work
    ]
    return ResultTable("Annotators", ["", "labels", "questions", "positive", "unsure", "seconds per label"], rows)


def _corrected_table(corrected_figures: dict[str, list[JudgedFigures]]) -> ResultTable:
    rows = [
        [
            name,
            f"@{each.k}",
            n_value(each.original.n, each.original.units),
            percent(each.judged),
            _interval(each.original),
            _interval(each.corrected),
            f"{percent(each.lower_bound)} to {percent(each.upper_bound)}",
        ]
        for name, figures in corrected_figures.items()
        for each in figures
    ]
    heads = ["run", "k", "n", "judged hits", "Success@k, original", "Success@k, corrected", "bounds"]
    return ResultTable("Accuracy before and after labels correct it, %", heads, rows)


def _coefficient(agreement: Agreement) -> str:
    if agreement.value is None:
        return ABSENT
    return f"{agreement.value:.2f} ({agreement.low:.2f} to {agreement.high:.2f})"


def _interval(estimate: Estimate) -> str:
    if estimate.value is None:
        return ABSENT
    value, low, high = estimate.percent
    return f"{value:.1f} ({low:.1f} to {high:.1f})"

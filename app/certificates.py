"""Certificates in words: how many labels the plan needs, what the labels prove, and what was withdrawn. This module
formats no pages.
"""

from __future__ import annotations

from collections.abc import Iterator

from blindspot.backend.text.number_words import quantity
from blindspot.backend.training_sets.certificate_draws import CertificatePlan
from blindspot.backend.training_sets.certificates import Certificate, percent, proof_sentences


def plan_lines(name: str, plan: CertificatePlan) -> Iterator[str]:
    """Say how many labels a new plan needs."""
    unjudged = plan.cells.size if plan.negatives > len(plan.known_negatives) else 0
    yield (
        f"Training set {name}: {quantity(plan.negatives, 'negative')}, {len(plan.known_negatives):,} of them judged; "
        f"{quantity(plan.positives, 'positive')}, {len(plan.known_positives):,} of them judged."
    )
    if not unjudged:
        yield "Every negative is judged; certify again to state what the labels prove."
    else:
        yield (
            f"To certify at most {percent(plan.at_most)} false negatives at {percent(plan.confidence)} confidence, people "
            f"judge {quantity(len(plan.draws), 'negative')} and {quantity(len(plan.positive_draws), 'positive')}."
        )
        yield _judge_sentence(plan)
        yield _expectation_sentence(plan)


def _judge_sentence(plan: CertificatePlan) -> str:
    if plan.judge is None:
        return "No judge: every pair is drawn with the same probability. A judge's scores can save labels."
    learned = (
        "people's labels so far taught what its score and the answer match are worth"
        if plan.piloted
        else "no labels so far say what its scores are worth, so the plan trusts them little"
    )
    return f"Judge {plan.judge} chooses which pairs are drawn more often; {learned}. The bound is valid even if the scores are wrong."


def _expectation_sentence(plan: CertificatePlan) -> str:
    if plan.capped:
        return "By the plan's probabilities, this set has more false negatives than the target allows. If they are right, no number of labels can certify it. Clean the set first: build it with another policy."
    if not plan.enough:
        return "The plan expects that these labels are not enough in one of five cases or more; further pairs can be drawn later."
    half = "" if plan.median is None else f"; half of the simulated studies need {plan.median:,} or fewer"
    return (
        f"The plan expects {percent(plan.rate)} false negatives; four of five simulated studies reach the target{half}."
    )


def state_lines(certificate: Certificate) -> Iterator[str]:
    """Say what the labels prove."""
    yield (
        f"Training set {certificate.training_set}: {certificate.judged:,} of {quantity(certificate.drawn, 'sampled negative')} judged"
        f"{f', {certificate.unlabelled_draws:,} left' if certificate.unlabelled_draws else ''}; {quantity(certificate.false, 'false negative')} found"
        f"{f', {certificate.unsettled:,} of them unsettled' if certificate.unsettled else ''}."
    )
    yield verdict(certificate)
    yield from proof_sentences(certificate)
    for each in certificate.strata:
        yield (
            f"  {each.stratum}: at most {percent(each.upper)} of {quantity(each.pairs, 'negative')} "
            f"({each.judged:,} judged, {each.false:,} false; this bound alone)"
        )
    if more := more_line(certificate):
        yield more
    if certificate.more and not certificate.unlabelled_draws:
        yield f"Draw them: blindspot training-set certify {certificate.training_set} --more {certificate.more}"


def stated_lines(certificate: Certificate | None) -> Iterator[str]:
    """Say what was certified for a set, or what was withdrawn."""
    if certificate is None:
        yield "No certificate."
    elif certificate.withdrawn:
        yield f"{withdrawal(certificate)} State it again: blindspot training-set certify {certificate.training_set}"
    else:
        yield verdict(certificate)
        yield from proof_sentences(certificate)


def verdict(certificate: Certificate) -> str:
    """Say in one sentence whether the target is met."""
    target = f"at most {percent(certificate.at_most)} false negatives at {percent(certificate.confidence)} confidence"
    if certificate.meets_target:
        return f"Certified: {target}."
    if certificate.holds_after:
        return f"Certified once the {quantity(certificate.false, 'found false negative')} are taken out: {target}. To remove them, build the set again with a policy whose name ends in +labels."
    return f"Not certified: {target} is not shown."


def more_line(certificate: Certificate) -> str:
    """Say how many more pairs must be judged to meet the target; "" if it is met."""
    if certificate.more == 0:
        return ""
    if certificate.more is None:
        return "None of the numbers of further labels that were tried is expected to meet the target. Clean the set, or certify a higher share of false negatives."
    if certificate.unlabelled_draws:
        return (
            f"Judge the {quantity(certificate.unlabelled_draws, 'sampled negative')} that are left, then certify again."
        )
    return f"About {quantity(certificate.more, 'more negative')} must be judged."


def withdrawal(certificate: Certificate) -> str:
    """Return what has been withdrawn and why; "" for a valid certificate."""
    if not certificate.withdrawn:
        return ""
    return f"Withdrawn: {'; '.join(certificate.withdrawn)}."

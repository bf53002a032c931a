"""Certificates in words: what the plan takes, what the labels prove, what was withdrawn. No formatting of a page."""

from __future__ import annotations

from collections.abc import Iterator

from blindspot.backend.text.counting import counted
from blindspot.backend.training_sets.certificates import Certificate, sensitivity
from blindspot.backend.training_sets.certification import CertificatePlan


def plan_lines(name: str, made: CertificatePlan) -> Iterator[str]:
    """Say what a new plan takes."""
    unjudged = made.cells.size if made.negatives > len(made.known_negatives) else 0
    yield (
        f"Training set {name}: {counted(made.negatives, 'negative')}, {len(made.known_negatives):,} of them judged; "
        f"{counted(made.positives, 'positive')}, {len(made.known_positives):,} of them judged."
    )
    if not unjudged:
        yield "Every negative is judged; certify again to state what the labels prove."
    else:
        yield (
            f"To certify at most {_percent(made.at_most)} false negatives at {_percent(made.confidence)} confidence, people "
            f"judge {counted(len(made.draws), 'negative')} and {counted(len(made.positive_draws), 'positive')}."
        )
        yield _steering(made)
        yield _expectation(made)


def _steering(made: CertificatePlan) -> str:
    if made.judge is None:
        return "No judge: every pair is drawn with the same probability. A judge's scores can save labels."
    learned = (
        "people's labels so far taught what its score and the answer match are worth"
        if made.piloted
        else "no labels so far say what its scores are worth, so the plan trusts them little"
    )
    return f"Judge {made.judge} chooses which pairs are drawn more often; {learned}. The bound holds if it is wrong."


def _expectation(made: CertificatePlan) -> str:
    if made.capped:
        return (
            "The plan's chances promise more false negatives than the target allows: if they are right, no number of labels "
            "certifies this set. Clean it first: build it with another policy."
        )
    if not made.enough:
        return "The plan does not expect these labels to be enough in four of five cases; further pairs can be drawn later."
    half = "" if made.median is None else f"; half of the simulated studies need {made.median:,} or fewer"
    return f"The plan expects {_percent(made.rate)} false negatives; four of five simulated studies reach the target{half}."


def state_lines(found: Certificate) -> Iterator[str]:
    """Say what the labels prove."""
    yield (
        f"Training set {found.training_set}: {found.judged:,} of {counted(found.drawn, 'drawn negative')} judged"
        f"{f', {found.left:,} left' if found.left else ''}; {counted(found.false, 'false negative')} found"
        f"{f', {found.unsettled:,} of them unsettled' if found.unsettled else ''}."
    )
    yield verdict(found)
    yield bound_line(found)
    yield sensitivity(found)
    yield positives_line(found)
    for each in found.strata:
        yield (
            f"  {each.stratum}: at most {_percent(each.upper)} of {counted(each.pairs, 'negative')} "
            f"({each.judged:,} judged, {each.false:,} false; this bound alone)"
        )
    if more := more_line(found):
        yield more
    if found.more and not found.left:
        yield f"Draw them: blindspot training-set certify {found.training_set} --more {found.more}"


def stated_lines(found: Certificate | None) -> Iterator[str]:
    """Say what was certified of a set, or what was withdrawn."""
    if found is None:
        yield "No certificate."
    elif found.withdrawn:
        yield f"{withdrawal(found)} State it again: blindspot training-set certify {found.training_set}"
    else:
        yield verdict(found)
        yield bound_line(found)
        yield sensitivity(found)
        yield positives_line(found)


def verdict(found: Certificate) -> str:
    """Whether the target holds, in one sentence."""
    target = f"at most {_percent(found.at_most)} false negatives at {_percent(found.confidence)} confidence"
    if found.holds:
        return f"Certified: {target}."
    if found.holds_after:
        return (
            f"Certified once the {counted(found.false, 'found false negative')} are taken out: {target}. To take them out, "
            "build the set again with a policy that ends in +labels."
        )
    return f"Not certified: {target} is not shown."


def bound_line(found: Certificate) -> str:
    return (
        f"False negatives: at most {_percent(found.upper)} of {counted(found.negatives, 'negative')} as the set is, at most "
        f"{_percent(found.upper_after)} after the found ones are taken out ({_percent(found.confidence)} confidence, "
        f"{found.judged:,} drawn and {found.known:,} earlier labels, {_judge_words(found)}, "
        f"seed {found.seed})."
    )


def _judge_words(found: Certificate) -> str:
    if found.judge is None:
        return "no judge"
    return f"judge {found.judge}" + (", which also cleaned this set" if found.judge == found.cleaned_by else "")


def positives_line(found: Certificate) -> str:
    return (
        f"Right positives: at least {_percent(found.right_at_least)} of {counted(found.positives, 'positive')} "
        f"({found.right:,} of {found.positives_judged:,} judged ones are right)."
    )


def more_line(found: Certificate) -> str:
    """How many more pairs the target takes; "" if it is met."""
    if found.more == 0:
        return ""
    if found.more is None:
        return (
            "By the labels so far, no number of further labels that was tried meets the target: clean the set, or certify "
            "a higher share."
        )
    if found.left:
        return f"Judge the {counted(found.left, 'drawn negative')} that are left, then certify again."
    return f"About {counted(found.more, 'more negative')} must be judged."


def withdrawal(found: Certificate) -> str:
    """Return what has been withdrawn and why; "" for a valid certificate."""
    if not found.withdrawn:
        return ""
    return f"Withdrawn: {'; '.join(found.withdrawn)}."


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"

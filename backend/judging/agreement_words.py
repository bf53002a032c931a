"""Describe the agreement of annotators in a sentence: how strong it is, and which label most disputes involve."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.judging.quality import Quality
from blindspot.backend.text.number_words import quantity

STRENGTHS = ((0.8, "good"), (0.667, "fair, enough for tentative conclusions"), (0.2, "weak"))
POOR = "poor, hardly better than chance"
MAIN_SHARE = 0.5  # a label is named if more than this share of the disputes involves it


@dataclass(frozen=True, slots=True)
class AgreementWords:
    """A sentence such as "alpha 0.41 (95%: 0.30 to 0.52): weak; most disputes are about related", in two parts.

    Attributes:
        label: The label that most disputes involve; "" if there is none.
        detail: How many disputes there are, and between which labels.
    """

    sentence: str
    label: str
    detail: str


def agreement_in_words(quality: Quality) -> AgreementWords | None:
    """Return the agreement of all annotators in words; None if no passage was judged blind by two people."""
    if quality.together is None or quality.together.four.value is None:
        return None
    alpha, low, high = quality.together.four.value, quality.together.four.low, quality.together.four.high
    interval = "" if low is None or high is None else f" {stated_interval(low, high, places=2)}"
    sentence = f"alpha {alpha:.2f}{interval}: {agreement_strength(alpha)}"
    disputes = sum(count for _, _, count in quality.clashes)
    if not disputes:
        return AgreementWords(sentence, "", "Nobody disagrees.")
    involved: Counter[str] = Counter()
    for first, second, count in quality.clashes:
        involved[first] += count
        involved[second] += count
    label, most = involved.most_common(1)[0]
    kinds = ", ".join(f"{count:,} {first} against {second}" for first, second, count in quality.clashes)
    detail = f"{quantity(disputes, 'disagreement')} between two annotators: {kinds}."
    return AgreementWords(sentence, label if most > MAIN_SHARE * disputes else "", detail)


def agreement_strength(alpha: float) -> str:
    """Return a word for the strength of Krippendorff's alpha, using the two thresholds that Krippendorff proposed."""
    return next((word for least, word in STRENGTHS if alpha >= least), POOR)

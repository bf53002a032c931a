"""The causes of misses. Each cause has a measurable rule with thresholds.

A cause is a property of a missed question that its rule detected. It does not prove why the encoder missed the
question. A miss may have several causes, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NAMESAKE_SHARE = 0.5
"""near_namesake and other_entity_passage: share of the words of the subject's name that a title needs."""
OTHER_WORDS_SHARE = 0.5
"""other_words: each gold passage contains a smaller share of the question's content words than this, the subject's aside."""
LATE_SHARE, LONG_WORDS = 0.5, 60
"""late_fact: a passage of at least LONG_WORDS words, with the first answer after this share of them."""
RARE_MENTIONS, RAREST_BUCKET = 1, 7
"""rare_subject: at most this many mentions; if the question has an official bucket, this bucket."""
RARE_PATTERN = 5
"""question_wording: fewer training questions than this have the question's pattern."""
DOUBTED = 0.5
"""doubtful_gold: a judge doubts a gold passage to which it gives a smaller probability than this."""
JUDGED_POSITIVE = 0.9
"""false_negative_above: probability from which a judge counts as saying that a passage answers."""


class Cause(StrEnum):
    """The name of a cause in slices, files and commands."""

    NEAR_NAMESAKE = "near_namesake"
    OTHER_WORDS = "other_words"
    LATE_FACT = "late_fact"
    OTHER_ENTITY_PASSAGE = "other_entity_passage"
    RARE_SUBJECT = "rare_subject"
    UNSEEN_RELATION = "unseen_relation"
    QUESTION_WORDING = "question_wording"
    CHANCE_MATCH = "chance_match"
    DOUBTFUL_GOLD = "doubtful_gold"
    FALSE_NEGATIVE_ABOVE = "false_negative_above"


@dataclass(frozen=True, slots=True)
class CauseRule:
    """A cause as it is shown to people: its title, and its rule in one sentence."""

    title: str
    rule: str


CAUSES: dict[Cause, CauseRule] = {
    Cause.NEAR_NAMESAKE: CauseRule(
        "Near-namesake on top",
        f"The title of the passage at rank 1 has at least {NAMESAKE_SHARE:.0%} of the words of the subject's name, but "
        "is another title, and the passage is not gold. Found questions count only if the passage at rank 1 is not relevant.",
    ),
    Cause.OTHER_WORDS: CauseRule(
        "Question in other words than the passage",
        f"Each gold passage has less than {OTHER_WORDS_SHARE:.0%} of the question's content words, those of the subject's name aside.",
    ),
    Cause.LATE_FACT: CauseRule(
        "Fact late in a long passage",
        f"Each gold passage that contains an answer has at least {LONG_WORDS} words, no answer in its title, and its "
        f"first answer after {LATE_SHARE:.0%} of the words.",
    ),
    Cause.OTHER_ENTITY_PASSAGE: CauseRule(
        "Gold in another entity's passage",
        f"The title of each gold passage has less than {NAMESAKE_SHARE:.0%} of the words of the subject's name.",
    ),
    Cause.RARE_SUBJECT: CauseRule(
        "Rare subject",
        f"The question is in official bucket {RAREST_BUCKET}, the rarest; or, without a bucket, its subject has at most "
        f"{RARE_MENTIONS} mention.",
    ),
    Cause.UNSEEN_RELATION: CauseRule(
        "Relation unseen in training", "No training question of the study has the question's relation."
    ),
    Cause.QUESTION_WORDING: CauseRule(
        "Question wording",
        "The run finds another question with the same subject and relation in other words; or the relation occurs in "
        f"training, and fewer than {RARE_PATTERN} training questions have the question's pattern.",
    ),
    Cause.CHANCE_MATCH: CauseRule(
        "Chance match of the other run",
        "The other run finds a relevant passage, but this passage is not gold and does not mention the subject.",
    ),
    Cause.DOUBTFUL_GOLD: CauseRule(
        "Doubtful gold",
        "People call every gold passage related or negative; or they call none positive, and a calibrated judge gives each "
        f"gold passage without a label a probability below {DOUBTED:.0%}.",
    ),
    Cause.FALSE_NEGATIVE_ABOVE: CauseRule(
        "False negative above",
        "People labelled a passage of the top k positive, or a calibrated judge gives it a probability of at least "
        f"{JUDGED_POSITIVE:.0%} and people labelled it in no other way.",
    ),
}

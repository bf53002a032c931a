"""Answer matching: the rules (`rules.py`), and matching a whole run (`run.py`)."""

from blindspot.backend.text.answers.rules import (
    RULES,
    SEARCHES_TITLE,
    STOP_WORDS,
    answer_spans,
    has_answer,
    has_tokens,
    matrix_file,
    mentions_subject,
    nfd,
    pattern_fault,
    query_spans,
    rule_for,
    rule_named,
    spaced_tokens,
    tokens,
)
from blindspot.backend.text.answers.run import match_run
from blindspot.backend.text.default_rule import DEFAULT_RULE

__all__ = [
    "DEFAULT_RULE",
    "RULES",
    "SEARCHES_TITLE",
    "STOP_WORDS",
    "answer_spans",
    "has_answer",
    "has_tokens",
    "spaced_tokens",
    "matrix_file",
    "match_run",
    "mentions_subject",
    "nfd",
    "query_spans",
    "rule_for",
    "rule_named",
    "tokens",
    "pattern_fault",
]

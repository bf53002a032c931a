"""SQL conditions for texts that contain words, for tables without a full-text index."""

from __future__ import annotations

from collections.abc import Sequence


def contains_all_words(column: str, search_words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the SQL condition that a column contains every word, ignoring case, and the values for it.

    SQLite ignores case only for ASCII letters, so each word is tried as typed, in lower case, in capitals, and
    capitalised.
    """
    conditions, values = [], []
    for word in search_words:
        forms = list(dict.fromkeys((word, word.lower(), word.upper(), word.capitalize())))
        if word.isascii():
            forms = [word]
        conditions.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for _ in forms) + ")")
        values += [f"%{_escape_wildcards(form)}%" for form in forms]
    return " AND ".join(conditions) or "1", values


def _escape_wildcards(search_word: str) -> str:
    """Return a word with LIKE's wildcards escaped."""
    return search_word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")

"""The experiments of the three papers, by name; each is planned in a file of that name, which holds the paper's figures.

Such a file has `plan(setting, bench) -> Plan`, and may have TAKES (names of `Setting`'s fields that it uses besides those that all
use) and DEFAULTS (its own values of fields).
"""

from __future__ import annotations

from typing import NamedTuple


class About(NamedTuple):
    """Which paper, which table or figure, and the question in a sentence."""

    paper: str
    source: str
    asks: str


EXPERIMENTS = {
    "negatives": About("DPR", "Table 3", "Which negatives does a dual encoder need: others' gold passages, how many, or BM25's?"),
}  # fmt: skip

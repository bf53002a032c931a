"""Write a training file without its false negatives, keeping the kind of file, the columns and the order.

A judged false negative becomes a positive, or is removed with `relabel=False`. Two kinds of negatives are removed
without a judgement: negatives that the file itself has as a positive, and negatives that the rule drops. A rule drops no
pair that people judged to be a true negative.
`FILE.changes.jsonl` lists every change with its reason, and `FILE.card.md` describes the file and its estimates.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from blindspot.backend.checking.building import CheckedStudy, number_of, passage_id, question_id
from blindspot.backend.checking.formats.base import Cell, RowLayout, Values
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.checking.reading import TrainingFile
from blindspot.backend.checking.rules import MiningRule, pairs_kept_by
from blindspot.backend.checking.sample import FALSE, OPEN, PairId, judged_draws
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.files import open_atomically
from blindspot.db.errors import Refused

MOST_SPARES = 20  # other negatives of a question that fill the places of its false ones
SHOWN = 200  # characters of a passage in the list of changes
EXAMPLES = 5
JUDGED, BY_THE_FILE, BY_RULE = 1, 2, 3


@dataclass(frozen=True)
class FileChange:
    """The change to one negative of the file, and its reason."""

    line: int
    slot: int
    question: str
    passage: str
    change: str
    reason: str
    by: str


@dataclass
class Changes:
    """The changes to a training file.

    Attributes:
        replacements: The rows that come in the place of a row, by its number. changes: One for each place.
        unfilled: Rows that went because their question has no other negative.
    """

    replacements: dict[int, list[Values]] = field(default_factory=dict)
    changes: list[FileChange] = field(default_factory=list)
    unfilled: int = 0

    def count(self, noun: str) -> int:
        return sum(change.change == noun for change in self.changes)


def plan_changes(
    file: TrainingFile,
    checked_study: CheckedStudy,
    labels: Mapping[PairId, str],
    relabel: bool = True,
    rule: MiningRule | None = None,
    by: str = "people",
) -> Changes:
    """Return the changes to a file, and read the file twice for it.

    Args:
        relabel: Turn judged false negatives into positives; else take them out.
        rule: Also drop the negatives that a rule drops.

    Raises BadInput for a rule that needs scores that the file lacks.
    """
    why = _reasons(checked_study, labels, rule)
    found = Changes()
    if not why.any():
        return found
    relabel = relabel and file.layout.can_relabel
    places = checked_study.occurrences
    by_row: dict[int, list[int]] = defaultdict(list)
    for place in np.flatnonzero(why).tolist():
        by_row[int(places.row[place])].append(place)
    spares = _spare_negatives(file, checked_study, why)
    became: set[int] = set()
    for number, (_, values) in enumerate(file.file.rows()):
        if number not in by_row:
            continue
        false, added = [], []
        for place in by_row[number]:
            slot, key = int(places.slot[place]), int(places.keys[place])
            gains = relabel and why[place] == JUDGED and key not in became
            if gains:
                became.add(key)
                added.append(slot)
            false.append(slot)
            found.changes.append(_change(checked_study, place, int(why[place]), gains, rule, by))
        rows = file.layout.corrected_rows(values, false, added, spares.get(int(places.question[by_row[number][0]]), ()))
        found.replacements[number] = rows
        found.unfilled += not rows and bool(added)
    return found


def _reasons(checked_study: CheckedStudy, labels: Mapping[PairId, str], rule: MiningRule | None) -> np.ndarray:
    """Return for each passage in a row a code for the reason of its change, (n,) int8; 0 means no change."""
    places = checked_study.occurrences
    why = np.zeros(len(places), np.int8)
    if rule is not None:
        pairs = negative_pairs(places)
        dropped = pairs.keys[~pairs_kept_by(rule, pairs, judged_draws(checked_study, labels))]
        why[~places.positive & np.isin(places.keys, dropped)] = BY_RULE
    why[np.isin(places.keys, _keys_of(labels, is_false=False))] = 0
    why[places.known_false] = BY_THE_FILE
    why[~places.positive & ~places.known_false & np.isin(places.keys, _keys_of(labels, is_false=True))] = JUDGED
    return why


def _keys_of(labels: Mapping[PairId, str], is_false: bool) -> np.ndarray:
    """Return the keys of the pairs that were judged false negatives, or of those that were judged true ones, int64."""
    settled = ((pair, label == FALSE) for pair, label in labels.items() if label != OPEN)
    return np.array(
        [number_of(pair[0]) << 32 | number_of(pair[1]) for pair, false in settled if false == is_false], np.int64
    )


@dataclass(frozen=True)
class Outcome:
    """What is in a cleaned file, counted in distinct negative pairs.

    Attributes:
        judged_false: Pairs that were judged false: they become positives or go. by_rule: Further pairs that the rule drops.
        overruled: Pairs that it would drop, but that people judged true. called_positive: Pairs that the file itself calls
        positive: they go. left: The negatives left. false_share, low, high: The share of them that is false, with its interval;
        with a rule, one that holds for all rows of the comparison together. is_of_rule: Whether there is a rule.
        examples: Some of the pairs in `by_rule`, drawn at random. questions_emptied: Questions with negatives that have none left.
    """

    judged_false: int
    by_rule: int
    overruled: int
    left: int
    false_share: float
    low: float
    high: float
    called_positive: int
    is_of_rule: bool
    examples: tuple[PairId, ...]
    questions_emptied: int


def outcome(
    checked_study: CheckedStudy,
    labels: Mapping[PairId, str],
    rule: MiningRule | None,
    shares: tuple[float, float, float],
) -> Outcome:
    """Return what a cleaned file will have.

    Args:
        shares: The share of false negatives among the pairs that the rule keeps (without one, among all that the file does
        not call positive), and the two ends of its interval.
    """
    places = checked_study.occurrences
    why = _reasons(checked_study, labels, rule)
    pairs = negative_pairs(places)
    kept = pairs.keys if rule is None else pairs.keys[pairs_kept_by(rule, pairs, judged_draws(checked_study, labels))]
    judged_false = np.unique(places.keys[why == JUDGED])
    stays = ~places.positive & (why == 0)
    left = len(np.unique(places.keys[stays]))
    emptied = np.setdiff1d(places.question[~places.positive], places.question[stays])
    found = int(np.isin(kept, judged_false).sum())
    false, low, high = (min(max(share * len(kept) - found, 0.0) / max(left, 1), 1.0) for share in shares)
    by_rule = np.unique(places.keys[why == BY_RULE])
    some = np.random.default_rng(0).permutation(by_rule)[:EXAMPLES].tolist()
    examples = tuple((question_id(key >> 32), passage_id(key & 0xFFFFFFFF)) for key in some)
    overruled = int(np.isin(np.setdiff1d(pairs.keys, kept), _keys_of(labels, is_false=False)).sum())
    called_positive = len(np.unique(places.keys[why == BY_THE_FILE]))
    return Outcome(
        len(judged_false),
        len(by_rule),
        overruled,
        left,
        false,
        low,
        high,
        called_positive,
        rule is not None,
        examples,
        len(emptied),
    )


def _spare_negatives(
    file: TrainingFile, checked_study: CheckedStudy, reason_codes: np.ndarray
) -> dict[int, list[Cell]]:
    """Return true negatives of each question that changes, as replacements; {} for formats without replacements."""
    if type(file.layout).cell is RowLayout.cell:
        return {}
    places = checked_study.occurrences
    wanted = np.unique(places.question[reason_codes > 0])
    chosen = np.flatnonzero((reason_codes == 0) & ~places.positive & np.isin(places.question, wanted))
    by_row: dict[int, list[int]] = defaultdict(list)
    seen: set[int] = set()
    count: dict[int, int] = defaultdict(int)
    for place in chosen.tolist():
        question, key = int(places.question[place]), int(places.keys[place])
        if key not in seen and count[question] < MOST_SPARES:
            seen.add(key)
            count[question] += 1
            by_row[int(places.row[place])].append(place)
    cells: dict[int, list[Cell]] = defaultdict(list)
    for number, (_, values) in enumerate(file.file.rows()):
        for place in by_row.get(number, ()):
            cells[int(places.question[place])].append(file.layout.cell(values, int(places.slot[place])))
    return cells


def _change(
    checked_study: CheckedStudy, pair_row: int, reason_code: int, gains: bool, rule: MiningRule | None, by: str
) -> FileChange:
    places = checked_study.occurrences
    question, passage = int(places.question[pair_row]), int(places.passage[pair_row])
    reasons = {
        JUDGED: "judged as an answer to the question",
        BY_THE_FILE: "a row of the file calls it positive for the question",
        BY_RULE: ""
        if rule is None
        else f"{rule.as_text()} keeps a negative only if {rule.condition}; no label says otherwise",
    }
    return FileChange(
        int(checked_study.lines[places.row[pair_row]]),
        int(places.slot[pair_row]),
        question_id(question),
        passage_id(passage),
        "relabelled" if gains else "dropped",
        reasons[reason_code],
        {JUDGED: by, BY_THE_FILE: "the file", BY_RULE: "the rule"}[reason_code],
    )


def write_changed(
    file: TrainingFile, checked_study: CheckedStudy, all_changes: Changes, out: Path, card: str
) -> tuple[int, list[Path]]:
    """Write the changed file, the list of changes and the card. Returns the number of rows and the paths.

    Raises Refused if `out` is the file itself.
    """
    if out.resolve() == file.path.resolve() or out.resolve() in file.path.resolve().parents:
        raise Refused(f"{out} is the file that was checked; choose another place")
    rows = file.file.write(out, all_changes.replacements)
    changes, about = out.with_name(out.name + ".changes.jsonl"), out.with_name(out.name + ".card.md")
    with open_atomically(changes) as lines:
        for change in all_changes.changes:
            lines.write(
                json.dumps({**change.__dict__, **_texts(checked_study.study, change)}, ensure_ascii=False) + "\n"
            )
    with open_atomically(about) as lines:
        lines.write(card)
    return rows, [out, changes, about]


def _texts(study: Study, change: FileChange) -> dict[str, str]:
    """Return the texts of a change, for the list of changes."""
    passage = study.corpus.passage(number_of(change.passage))
    return {"question_text": study.questions.get(change.question).text, "passage_text": passage.text[:SHOWN]}

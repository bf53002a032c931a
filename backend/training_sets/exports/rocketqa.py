"""RocketQA's TSV files, without a header and quotes; a missing title is written as `-`.

Dual encoder: query, title and text of a positive, title and text of a negative, 0. Cross-encoder: query, title, text,
    label.
"""

from __future__ import annotations

from pathlib import Path

from blindspot.backend.data.formats.files import one_line, open_atomically
from blindspot.backend.training_sets.exports.base import EXPORTS, ExportFormat, ExportRows, left_out_note
from blindspot.db.records import Passage

DUAL, CROSS = "dual.tsv", "cross.tsv"


def write(folder: Path, rows: ExportRows) -> tuple[dict[str, int], tuple[str, ...]]:
    """Pair each positive with each hard negative of its question.

    A question without hard negatives has no line in dual.tsv, as in RocketQA.
    """
    dual = cross = bare = 0
    with open_atomically(folder / DUAL) as pairs, open_atomically(folder / CROSS) as labelled:
        for row in rows:
            query = one_line(row.question.text)
            bare += not row.hard
            for positive in row.positives:
                for negative in row.hard:
                    pairs.write(
                        "\t".join((query, *_title_and_text(positive.passage), *_title_and_text(negative.passage), "0"))
                        + "\n"
                    )
                    dual += 1
            for label, passages in (("1", row.positives), ("0", row.hard)):
                for _, passage in passages:
                    labelled.write("\t".join((query, *_title_and_text(passage), label)) + "\n")
                    cross += 1
    return {DUAL: dual, CROSS: cross}, left_out_note(bare, f"questions of {DUAL}", "they have no hard negative")


def _title_and_text(passage: Passage) -> tuple[str, str]:
    return one_line(passage.title).strip() or "-", one_line(passage.text)


EXPORTS.register(
    ExportFormat(
        "rocketqa",
        "RocketQA's TSVs, of the dual encoder and of the cross-encoder",
        "RocketQA's trainers in PaddlePaddle.",
        write,
        negatives=4,
        has_easy=False,
    )
)

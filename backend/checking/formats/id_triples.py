"""MS MARCO's id triples: question id, positive id and negative id, separated by tabs. Other files hold the texts.

Passages are in `collection.tsv` (id, text) or `psgs_w100.tsv` (id, text, title), questions in `queries*.tsv` (id,
text). The caller names these files; by default they are searched for in the folder of the triples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from blindspot.backend.checking.formats.base import (
    TRAINING_FORMATS,
    Cell,
    Entry,
    RowLayout,
    Slot,
    TrainingFormat,
    Values,
)
from blindspot.backend.data.formats.fields import FieldError


@dataclass
class IdLayout(RowLayout):
    """texts: for each needed file, the text of each id; filled in after the columns are recognised."""

    name: str = "MS MARCO's id triples"
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: {"collection": {}, "queries": {}})

    def ids(self, values: Values) -> dict[str, list[str]]:
        """Return the ids whose texts a row needs, grouped by the file that holds them."""
        return {"queries": [values["0"]], "collection": [values["1"], values["2"]]}

    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        slots = [Slot(column == "1", self._text("collection", values[column])) for column in ("1", "2")]
        return Entry(self._text("queries", values["0"]), slots)

    def _text(self, role: str, id: str) -> str:
        found = self.texts[role].get(id)
        if found is None:
            raise FieldError(f"the id {id[:40]!r} is not in the {role}; give --{role} FILE")
        return found

    def cell(self, values: Values, position: int) -> Cell:
        return (values[str(position + 1)],)

    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        others = [cell for cell in spare_negatives if cell[0] not in (values["1"], values["2"])]
        return [{**values, "1": values["2"], "2": others[0][0]}] if added_positives and others else []


def _recognise(columns: Sequence[str], rows: Sequence[Values]) -> RowLayout | None:
    if list(columns) != ["0", "1", "2"] or not all(value.isdigit() for row in rows for value in row.values()):
        return None
    return IdLayout()


TRAINING_FORMATS.register(
    TrainingFormat("id-triples", "MS MARCO's triples of ids", _recognise, needs=("collection", "queries"))
)

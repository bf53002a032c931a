"""The report's sections on causes of misses by intervention, and on probes of encoders, if the study has results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_object
from blindspot.backend.evaluation.latex import Table
from blindspot.backend.interventions.batch import FOLDER, RESULT
from blindspot.backend.interventions.table import cause_table, notes
from blindspot.backend.reports.markup import as_table, heading, remark

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

ANCHOR, PROBES = "interventions", "probes"


def intervention_parts(study: Study, runs: Sequence[str]) -> Iterator[str]:
    """Yield the tables of causes of these runs. Results over another collection or an older run are left out."""
    made = {name: study.run(name).manifest.get("made") for name in runs}
    current = [
        read_object(study.path(FOLDER, name, RESULT))
        for name, manifest in study.parts(FOLDER).items()
        if manifest["corpus"] == study.corpus.digest
        and manifest["run"] in made
        and manifest["run_made"] == made[manifest["run"]]
    ]
    if current:
        yield heading("Causes of misses, by intervention", ANCHOR)
    for result in current:
        yield as_table(cause_table(result))
        yield from (remark(words) for words in notes(result))


def probe_parts(study: Study) -> Iterator[str]:
    """Yield the tables of the experiment "probes"; small trial runs are left out."""
    stored = [
        read_object(study.path("experiments", name, RESULT))
        for name, manifest in study.parts("experiments").items()
        if manifest.get("what") == PROBES and manifest.get("corpus") == study.corpus.digest
    ]
    full = [result for result in stored if not result["setting"]["small"]]
    if full:
        yield heading("Probes: what the encoder favours", PROBES)
    for result in full:
        yield as_table(_probe_table(result))
        yield from (remark(words) for words in [result["convention"], *result["notes"]])


def _probe_table(result: dict[str, Any]) -> Table:
    columns = list(dict.fromkeys(cell["column"] for cell in result["cells"]))
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in result["cells"]:
        rows.setdefault(cell["row"], {})[cell["column"]] = cell
    return (
        "Share of pairs in which the encoder scores the favoured passage higher, %",
        ["probe", *(heading for column in columns for heading in (column, "n"))],
        [[name, *(text for column in columns for text in _figures(cells[column]))] for name, cells in rows.items()],
    )


def _figures(cell: dict[str, Any]) -> tuple[str, str]:
    if cell["value"] is None:
        return "–", "0"
    value, low, high = (100 * cell[key] for key in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]", f"{cell['n']:,}"

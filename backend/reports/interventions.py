"""The report's sections on causes of misses by intervention, and on probes of encoders, if the study has results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.result_table import ResultTable
from blindspot.backend.core.study import Study
from blindspot.backend.interventions.batch import FOLDER, RESULT
from blindspot.backend.interventions.table import cause_table
from blindspot.backend.reports.markup import heading, with_notes

ANCHOR, PROBES = "interventions", "probes"


def intervention_parts(study: Study, runs: Sequence[str]) -> Iterator[str]:
    """Yield the tables of causes for these runs. Results for another collection or a replaced run are left out."""
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
        yield from with_notes(cause_table(result))


def probe_parts(study: Study) -> Iterator[str]:
    """Yield the tables of the experiment "probes". Results with `--small` are left out."""
    stored = [
        read_object(study.path("experiments", name, RESULT))
        for name, manifest in study.parts("experiments").items()
        if manifest.get("what") == PROBES and manifest.get("corpus") == study.corpus.digest
    ]
    full = [result for result in stored if not result["setting"]["small"]]
    if full:
        yield heading("Probes: what the encoder favours", PROBES)
    for result in full:
        yield from with_notes(_probe_table(result))


def _probe_table(result: dict[str, Any]) -> ResultTable:
    columns = list(dict.fromkeys(cell["column"] for cell in result["cells"]))
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for cell in result["cells"]:
        rows.setdefault(cell["row"], {})[cell["column"]] = cell
    return ResultTable(
        "Share of pairs in which the encoder scores the favoured passage higher, %",
        ["probe", *(heading for column in columns for heading in (column, "n"))],
        [
            [name, *(each for column in columns for each in _estimate_and_count(cells[column]))]
            for name, cells in rows.items()
        ],
        [result["convention"], *result["notes"]],
    )


def _estimate_and_count(cell: dict[str, Any]) -> tuple[Estimate, int]:
    return Estimate(cell["value"], cell["n"], cell["low"], cell["high"], ""), cell["n"]

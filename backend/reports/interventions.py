"""The report's section on causes of misses by intervention, if the study has results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.study import Study
from blindspot.backend.interventions.batch import FOLDER, RESULT
from blindspot.backend.interventions.table import cause_table
from blindspot.backend.reports.markup import heading, with_notes

ANCHOR = "interventions"


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


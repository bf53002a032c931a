"""`blindspot why RUN`: edit missed questions and their gold passages, search again, and count the causes."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, Device, StudyOption, do, open_study, print_json
from blindspot.app.commands.options import takes_settings
from blindspot.backend.interventions.settings import MissesToExplain


@takes_settings(MissesToExplain)
def why(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run of an encoder whose index is in the study.")],
    *,
    settings: dict[str, Any],
    device: Device = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Explain a run's misses by intervention: edit the gold passage or the question, search again, and name the edits
    that bring the gold passage into the top k and do less for passages without the answer (placebos).
    """
    from blindspot.app.console import Terminal
    from blindspot.backend.interventions.batch import as_dict, explain_misses
    from blindspot.backend.interventions.table import cause_table

    result = do(explain_misses, open_study(study), run=run, device=device, **settings)
    if json:
        print_json(as_dict(result))
    else:
        Terminal().print(cause_table(result).as_rich())

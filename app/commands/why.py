"""`blindspot why RUN`: edit missed questions and their gold passages, search again, and count the causes."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import AsJson, Device, StudyOption, do, open_study


def why(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run of an encoder whose index is in the study.")],
    k: Annotated[int, typer.Option("--k", min=1, help="A miss has no gold passage in the top k.")] = 5,
    where: Annotated[
        str, typer.Option("--slice", metavar="EXPRESSION", help="Explain only these questions, as in 'relation:P19'.")
    ] = "",
    found_by: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Explain only misses for which this run has a gold passage in its top k."),
    ] = None,
    misses: Annotated[int, typer.Option(min=1, help="Maximum number of misses, drawn at random.")] = 200,
    minutes: Annotated[
        float | None,
        typer.Option(help="Stop after this time; the same command resumes from there (default: no limit)."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    placebos: Annotated[
        int, typer.Option(min=1, help="Passages without the answer, for each miss, that get the same edits.")
    ] = 9,
    device: Device = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Explain a run's misses by intervention: edit the gold passage or the question, search again, and name the edits
    that bring the gold passage into the top k and do less for passages without the answer (placebos).
    """
    from blindspot.app.console import Terminal
    from blindspot.app.terminal_tables import print_json
    from blindspot.backend.interventions.batch import as_dict, explain_misses
    from blindspot.backend.interventions.table import cause_table

    result = do(
        explain_misses,
        open_study(study),
        run=run,
        k=k,
        where=where,
        found_by=found_by,
        limit=misses,
        minutes=minutes,
        seed=seed,
        device=device,
        placebos=placebos,
    )
    if json:
        print_json(as_dict(result))
    else:
        Terminal().print(cause_table(result).as_rich())

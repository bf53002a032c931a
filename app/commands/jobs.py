"""`blindspot jobs`: long work that runs, and what became of it."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands.common import StudyOption, group, open_study

jobs_app = group("Long work: what runs, what failed and why.")


@jobs_app.command("list")
def jobs_list(study: StudyOption = None) -> None:
    """List the last jobs, newest first."""
    from app.tables import print_jobs
    from backend.core import jobs

    print_jobs(jobs.recent(open_study(study)))


@jobs_app.command("log")
def jobs_log(job: Annotated[str, typer.Argument(metavar="ID")], study: StudyOption = None) -> None:
    """Print what a job printed."""
    from backend.core import jobs

    opened = open_study(study)
    jobs.status(opened, job)
    print(jobs.log(opened, job), end="")


@jobs_app.command("cancel")
def jobs_cancel(job: Annotated[str, typer.Argument(metavar="ID")], study: StudyOption = None) -> None:
    """Ask a job to stop."""
    from backend.core import jobs

    jobs.cancel(open_study(study), job)
    print(f"Asked {job} to stop.")

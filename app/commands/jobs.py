"""`blindspot jobs`: list jobs, print their logs, cancel them."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import StudyOption, group, open_study

jobs_app = group("List jobs, print their logs, cancel them.")
JobId = Annotated[str, typer.Argument(metavar="ID", help="Name of the job, as printed by 'blindspot jobs list'.")]


@jobs_app.command("list")
def jobs_list(study: StudyOption = None) -> None:
    """List the latest jobs, newest first."""
    from blindspot.app.terminal_tables import print_jobs
    from blindspot.backend.core import jobs

    print_jobs(jobs.recent(open_study(study)))


@jobs_app.command("log")
def jobs_log(job: JobId, study: StudyOption = None) -> None:
    """Print the output of a job, with the traceback of an unexpected error."""
    from blindspot.backend.core import jobs

    opened = open_study(study)
    jobs.status(opened, job)
    print(jobs.log(opened, job), end="")


@jobs_app.command("cancel")
def jobs_cancel(
    job: JobId,
    force: Annotated[
        bool, typer.Option("--force", help="Kill a job that does not stop; its unsaved work is lost.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Cancel a job. The job stops at its next progress report and keeps its finished work."""
    from blindspot.backend.core import jobs

    opened = open_study(study)
    if not jobs.status(opened, job).unfinished:
        print(f"{job} has already ended: {jobs.status(opened, job).state}.")
        return
    jobs.cancel(opened, job, force=force)
    print(f"Ended {job}." if force else f"Asked {job} to stop.")

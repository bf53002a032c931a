"""Jobs for tests, and waiting for them."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from blindspot.backend.core import jobs
from blindspot.backend.core.jobs import job


@dataclasses.dataclass
class Outcome:
    count: int
    where: object
    share: float


class Part:
    name = "a-part"


@job("test count")
def count_up(study, steps=10**9, file=None, progress=None):
    """Run until all steps are done, and write each step to a file."""
    for step in range(steps):
        progress(step, None, "counting")
        if file is not None:
            with open(file, "a") as lines:
                print(step, file=lines)
        time.sleep(0.01)
    return {"steps": steps}


@job("test result")
def give_back(study, what, progress=None):
    return {
        "text": "a-run",
        "nothing": None,
        "number": 3,
        "dataclass": Outcome(np.int64(3), study.folder, float("nan")),
        "part": Part(),
        "list": (1, "two"),
        "object": object,
    }[what]


def wait(study, id, seconds=60):
    return until(study, id, lambda job: not job.unfinished, seconds)


def until(study, id, is_so, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_so(job := jobs.status(study, id)):
        assert time.monotonic() < deadline, (job, jobs.log(study, id))
        time.sleep(0.02)
    return job

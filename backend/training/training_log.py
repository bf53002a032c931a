"""The log of a training: JSON lines in the model's folder, which a page can follow while it grows.

    {"step": 40, "epoch": 1.25, "loss": 2.31, "learning_rate": 1.8e-05, "examples_per_second": 11.2, "seconds": 57.1}
    {"step": 50, "epoch": 1.56, "average_rank": 14.2, "first": 0.41, "questions": 200, "passages": 1000}

`loss` is the mean loss since the previous line. The line for step 0 contains the average rank before training.
"""

from __future__ import annotations

import json
from pathlib import Path

from blindspot.backend.core.study import Study

LOG = "log.jsonl"
WORKING = ".{name}~training"  # cannot clash with a model's name


def working_folder(study: Study, name: str) -> Path:
    """Return the working folder of a model during its training."""
    return study.path("models", WORKING.format(name=name))


def write_line(folder: Path, line: dict) -> None:
    with open(folder / LOG, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_lines(folder: Path) -> list[dict]:
    """Return the complete lines of the log in this folder, without a line that is still being written."""
    path = folder / LOG
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def read_log(study: Study, name: str) -> list[dict]:
    """Return the log of a model during or after its training; [] if there is none."""
    for folder in (working_folder(study, name), study.path("models", name)):
        if (folder / LOG).is_file():
            return read_lines(folder)
    return []


def cut_log(folder: Path, step: int) -> None:
    """Remove the lines after this step, from which training is resumed."""
    lines = [line for line in read_lines(folder) if line["step"] <= step]
    (folder / LOG).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

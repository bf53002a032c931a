"""Experiment trackers to which the trainers can report: TensorBoard, Weights & Biases, MLflow, Trackio."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from blindspot.backend.core.consent import require_consent
from blindspot.backend.core.extras import require
from blindspot.db.errors import Missing

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Tracker = Literal["none", "tensorboard", "wandb", "mlflow", "trackio"]
ADDRESSES = {
    "wandb": ("WANDB_BASE_URL", "https://api.wandb.ai"),
    "mlflow": ("MLFLOW_TRACKING_URI", ""),
    "trackio": ("HF_ENDPOINT", "https://huggingface.co"),
}
"""Environment variable that names a tracker's server, and the tracker's default; "" means files on this machine."""
FILES = re.compile(r"(?!databricks)(file:|sqlite:|[^:]*$)")
"""The value of MLFLOW_TRACKING_URI for files on this machine."""
PROJECT = "blindspot"
FOLDER = "tracking"
LOGGING_DIR = "TENSORBOARD_LOGGING_DIR"
_set_here: list[str] = []  # values of LOGGING_DIR that this module set; others are a person's


def tracking_arguments(tracker: Tracker, working_folder: Path) -> dict[str, str]:
    """Return the library's arguments for a tracker.

    TensorBoard's files are in `tracking/NAME` of the study, unless $TENSORBOARD_LOGGING_DIR names another folder. The
    other trackers get the project name "blindspot", unless their own environment variables name another one, and the
    model's name as the name of the run.

    Args:
        working_folder: the working folder of the model, `models/.NAME~training`.

    Raises:
        Missing: the tracker's package is not installed. NeedsConsent: nobody allowed figures to go to its server.
    """
    if tracker == "none":
        return {"report_to": "none"}
    if tracker == "tensorboard":
        require("tracking")
    elif find_spec(tracker) is None:
        raise Missing(f"--report-to {tracker} needs the package {tracker}; run: pip install {tracker}")
    from blindspot.backend.training.training_log import WORKING

    name = working_folder.name.removeprefix(".").removesuffix(WORKING.format(name="")[1:])
    study = working_folder.parent.parent if working_folder.parent.name == "models" else working_folder.parent
    if tracker == "tensorboard":
        if os.environ.get(LOGGING_DIR) in (None, *_set_here):
            os.environ[LOGGING_DIR] = str(study / FOLDER / name)
            _set_here[:] = [os.environ[LOGGING_DIR]]
    else:
        from blindspot.backend.core.study import Study

        _require_consent(tracker, Study(study))
        os.environ.setdefault("WANDB_PROJECT", PROJECT)
        os.environ.setdefault("MLFLOW_EXPERIMENT_NAME", PROJECT)
    return {"report_to": tracker, "run_name": name, "project": PROJECT}


def _require_consent(tracker: str, study: Study) -> None:
    """Raise NeedsConsent if a tracker would send data to a server without a person's consent."""
    variable, default = ADDRESSES[tracker]
    address = os.environ.get(variable, "").strip() or default
    if not FILES.match(address):
        require_consent(study, address, f"the tracker {tracker} would send settings, figures and names of the training")
        os.environ[variable] = address  # a settings file in the current folder must not name another server

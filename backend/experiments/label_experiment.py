"""What the experiments on labels share: their folders, the held-out questions, and the results that never change.

`experiments/<name>/` appears complete at the end. Until then all files are in `experiments/.<name>~working`, where a
killed experiment resumes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_manifest, read_object, whole_folder, write_json, write_manifest
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.recipes.state import hash_of
from blindspot.db.errors import Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

RESULT = "result.json"
TRAINS = ("train", "unlabelled")
"""The splits of training questions."""


@dataclass(frozen=True)
class LabelExperiment:
    """An experiment on labels. run: the run over training questions that it starts from."""

    study: Study
    name: str
    run: str

    @property
    def working(self) -> Path:
        return self.study.folder / "experiments" / f".{self.name}~working"

    @property
    def folder(self) -> Path:
        return self.study.path("experiments", self.name)

    @property
    def run_hash(self) -> str | None:
        """The hash of the run. Raises Missing if there is no such run."""
        self.study.run(self.run)
        return hash_of(self.study, "run", self.run)

    def check_name(self) -> None:
        check_name(self.name, "experiment")

    def held_out(self, splits: Sequence[str]) -> list[Question]:
        """Return the questions of the splits. Raises Refused for training questions."""
        questions = [question for split in splits for question in questions_in_split(self.study, split)]
        if any(question.split in TRAINS for question in questions):
            raise Refused(f"{','.join(splits)!r} contains training questions; measure on dev or test")
        return questions

    def finished(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of the experiment if it is complete; None if there is none of this name.

        Raises Refused if it was made with other settings.
        """
        if (manifest := read_manifest(self.folder)) is None:
            return None
        if manifest["request"] != request:
            raise Refused(
                f"an experiment {self.name!r} with other settings already exists; results never change, so choose "
                "another name"
            )
        return read_object(self.folder / RESULT)

    def write(self, result: Mapping[str, Any], parts: Iterable[Path], about: Mapping[str, Any]) -> None:
        """Write the folder of results, its manifest last, and delete the working folder.

        Args:
            parts: files and folders of the working folder that belong to the results.
            about: the manifest's other fields.
        """
        with whole_folder(self.folder) as building:
            for part in parts:
                copy = shutil.copytree if part.is_dir() else shutil.copy
                copy(part, building / part.name)
            write_json(building / RESULT, result)
            write_manifest(building, {"kind": "experiment", "name": self.name, **about})
        shutil.rmtree(self.working)

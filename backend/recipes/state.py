"""The state of work in several stages: one small JSON file, rewritten after every stage, so that killed work resumes.

A stage records the hashes of its inputs when it starts and the hash of its output when it is done. A complete output
of a killed stage is accepted. An output that has disappeared or changed since is refused.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from blindspot.backend.core.manifest import file_sha256, read_manifest, read_object, text_sha256, write_json
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

STATE = "state.json"
Kind = Literal["set", "model", "index", "run", "scores"]
WORDS = {"set": "training set", "model": "model", "index": "index", "run": "run", "scores": "scores"}
RUN_FILES = ("questions.json", "ordinals.npy", "scores.npy")


class State:
    """The state of one piece of work, in `folder/state.json`. One process writes it; others may read it.

    `request` holds the arguments of the work; resuming with others is refused. `pinned` holds facts that were read at
    the start and stay fixed, such as the last label event.
    """

    def __init__(self, folder: Path):
        self.path = folder / STATE

    @property
    def begun(self) -> bool:
        return self.path.is_file()

    def open(self, request: dict[str, Any], pinned: dict[str, Any]) -> None:
        """Start the work, or check that the arguments are the same. Raises Refused if they differ."""
        if not self.begun:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.path, {"request": request, "pinned": pinned, "stages": {}, "skipped": {}})
            return
        request_before = self.read()["request"]
        if differs := [key.replace("_", " ") for key in request if request_before.get(key) != request[key]]:
            raise Refused(
                f"{self.path.parent.name.strip('.')!r} was started with another {', '.join(differs)}; resume with "
                "the original arguments, or choose another name"
            )

    def read(self) -> dict[str, Any]:
        return read_object(self.path)

    @property
    def pinned(self) -> dict[str, Any]:
        return self.read()["pinned"]

    def stage(self, key: str) -> dict[str, Any]:
        """Return the record of a stage: `inputs` once it has started, `sha256` and `seconds` once it is done; empty
        before.
        """
        return self.read()["stages"].get(key, {})

    def done(self, key: str) -> bool:
        return "sha256" in self.stage(key)

    def begin(self, key: str, **about: Any) -> None:
        self._set(key, {**about, "begun": _now()})

    def finish(self, key: str, sha256: str | None, seconds: float, **about: Any) -> None:
        self._set(key, {**self.stage(key), **about, "sha256": sha256, "seconds": round(seconds, 1), "done": _now()})

    def skip(self, step: int, why: str) -> None:
        record = self.read()
        write_json(self.path, record | {"skipped": record["skipped"] | {str(step): why}})

    @property
    def skipped(self) -> dict[int, str]:
        """Return the reason of each skipped step."""
        return {int(step): why for step, why in self.read()["skipped"].items()}

    def _set(self, key: str, about: dict[str, Any]) -> None:
        record = self.read()
        write_json(self.path, record | {"stages": record["stages"] | {key: about}})


def hash_of(study: Study, kind: Kind, name: str) -> str | None:
    """Return a hash of a finished part of a study; None if the part is absent or incomplete.

    Scores are never complete, because more may be added. Their hash covers the present scores.
    """
    if kind == "model":
        path = study.path("models", name) / "training.json"
        return read_object(path)["model_hash"] if path.is_file() else None
    if kind == "scores":
        from blindspot.backend.judges.scores import ScoreStore

        return ScoreStore.open(study, name).digest if name in study.parts("scores") else None
    folder = study.path({"set": "training_sets", "index": "indexes", "run": "runs"}[kind], name)
    manifest = read_manifest(folder)
    if manifest is None:
        return None
    if kind == "set":
        return manifest["sha256"]["pairs.parquet"]
    if kind == "index":
        return text_sha256(manifest["model_hash"], manifest["corpus"])
    return text_sha256(*(file_sha256(folder / file) for file in RUN_FILES))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

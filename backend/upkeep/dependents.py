"""Find what depends on a part of a study: other parts whose records name it, and unfinished jobs that use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from blindspot.backend.core import jobs
from blindspot.backend.core.manifest import MANIFEST, read_json
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.queue import Queue

FOLDERS = {"run": "runs", "training-set": "training_sets", "model": "models", "map": "maps"}
"""The kinds of part that are folders, and the folder that holds them."""
RECORDS = (MANIFEST, "training.json", "specialised.json")
"""The files in which a part records how it was made. Only models have the last two of these files."""
How = Literal["needs", "belongs", "names"]

_MODEL_KEYS = {"model", "judge", "encoder", "encoders", "retriever", "vectors_of", "start", "distil", "guide", "scores"}
_KEYS = {
    "run": {"run", "runs", "judge_run", "over", "train", "dev"},
    "training-set": {"training_set", "training_sets", "sets"},
    "model": _MODEL_KEYS | {"sparse", "dense", "ranker", "cross_encoder"},
    "map": set(),
}
"""The keys of a record under which the name of a part of this kind is stored."""
_WORDS = {
    "runs": "run",
    "training_sets": "training set",
    "models": "model",
    "maps": "map",
    "indexes": "index",
    "scores": "score table",
    "readings": "reading",
    "experiments": "experiment",
    "recipes": "recipe",
}


@dataclass(frozen=True, slots=True)
class Dependent:
    """Something that depends on a part.

    Attributes:
        kind: What it is, in words.
        folder: The folder of the study that holds it; "" for what is not a folder.
        relation: "needs": it does not work without the part. "belongs": it is of use to the part alone, and is deleted with
            it. "names": it was made from the part and works without it.
    """

    kind: str
    name: str
    folder: str
    relation: How

    @property
    def sentence_part(self) -> str:
        """The dependent in words, as in "training set clean was made from it"."""
        ends = {"needs": "needs it", "belongs": "belongs to it", "names": "was made from it"}
        return f"{self.kind} {self.name} {ends[self.relation]}"


def dependents(study: Study, kind: str, name: str) -> list[Dependent]:
    """Return everything that depends on a part. Dependents that do not work without the part come first."""
    if kind == "batch":
        count = Queue(study.labels_path).count_events(name)
        return [Dependent("annotators' work", f"({quantity(count, 'event')})", "", "needs")] if count else []
    found = [
        *_unfinished_jobs(study, name),
        *(_files_of_part(study, name) if kind == "model" else ()),
        *_dependents_by_record(study, kind, name),
    ]
    order = {"needs": 0, "belongs": 1, "names": 2}
    return sorted(dict.fromkeys(found), key=lambda each: (order[each.relation], each.kind, each.name))


def _unfinished_jobs(study: Study, name: str) -> Iterator[Dependent]:
    for job in jobs.recent(study, 100):
        if job.unfinished and _mentions_part(job.arguments, name, None, below_key=True):
            yield Dependent("job", jobs.title(job.kind, job.arguments), "", "needs")


def _files_of_part(study: Study, name: str) -> Iterator[Dependent]:
    """Yield what belongs to a model: its encoder in study.toml, its dense index, and its stored scores."""
    encoder = study.settings.encoders.get(name)
    if encoder is not None and name in _encoder_models(encoder):
        yield Dependent("encoder", name, "", "belongs")
        if study.path("indexes", name).is_dir():
            yield Dependent("index", name, "indexes", "belongs")
    if study.path("scores", name).is_dir():
        yield Dependent("score table", name, "scores", "belongs")


def _encoder_models(encoder: Any) -> set[str]:
    paths = (encoder.model, encoder.question_model, encoder.passage_model)
    return {Path(path).name for path in paths if path and Path(path).parent.name == "models"}


def _dependents_by_record(study: Study, kind: str, name: str) -> Iterator[Dependent]:
    """Yield the parts whose records name the part, except the part itself and what belongs to it."""
    own = {(FOLDERS[kind], name)}
    if kind == "model":
        own |= {("indexes", name), ("scores", name)}
        for other, encoder in study.settings.encoders.items():
            if other != name and name in _encoder_models(encoder):
                yield Dependent("encoder", other, "", "needs")
    for folder, words in _WORDS.items():
        for part, record in _read_records(study.folder / folder):
            if (folder, part) not in own and _mentions_part(record, name, _KEYS[kind]):
                # an adapter for the model, a judge that uses its similarity, or an index that shares its vectors
                needs = kind == "model" and folder in ("models", "indexes")
                needs &= name in (record.get("vectors_of"), record.get("encoder"))
                yield Dependent(words, part, folder, "needs" if needs else "names")
    for batch in Queue(study.labels_path).batches():
        if _mentions_part(batch.settings, name, _KEYS[kind]):
            yield Dependent("batch", batch.name, "", "names")


def _read_records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not folder.is_dir():
        return
    for part in sorted(folder.iterdir()):
        for file in RECORDS:
            if part.name.startswith(".") or not (part / file).is_file():
                continue
            try:
                content = read_json(part / file)
            except BlindspotError:
                continue  # a damaged record is reported where the part is opened
            if isinstance(content, dict):
                yield part.name, content


def _mentions_part(value: Any, name: str, keys: set[str] | None, below_key: bool = False) -> bool:
    """Return whether a nested value contains the name of a part under one of the keys. Models may also be named by
    their paths.
    """
    if isinstance(value, str):
        return below_key and (value == name or value.rpartition(":")[2] == name or value.endswith(f"models/{name}"))
    if isinstance(value, dict):
        return any(
            _mentions_part(item, name, keys, below_key or (keys is not None and key in keys))
            or (below_key and key == name)
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return any(_mentions_part(item, name, keys, below_key) for item in value)
    return False

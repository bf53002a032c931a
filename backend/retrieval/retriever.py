"""The interface of retrievers, and the registry of the kinds of retriever.

BM25, dense and hybrid retrieval, imported runs and remote engines all have the same interface. To add a kind, write a
module with a subclass of `RetrieverKind` and register it in `RETRIEVERS`, in this package or in an installed one (entry
point group `blindspot.retrievers`). The command line, the Home and Compare pages, live questions, the service and the
docs then include it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from blindspot.backend.core.declared import declared_settings, settings_class
from blindspot.backend.core.manifest import MANIFEST, read_manifest
from blindspot.backend.core.registry import Registry
from blindspot.backend.core.runs import RUN
from blindspot.backend.core.settings import Settings
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import Step
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Hits


@runtime_checkable
class Retriever(Protocol):
    """A retriever: an object with a name, a method `search`, and settings that the manifests of its runs record."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> dict[str, Any]: ...

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        """Return the k best passages of each question, best first, with ties ordered by row. Short lists are padded
        with -1.
        """
        ...


OpenPart = Callable[[str], Any] | None
"""Returns an open retriever by name, if the caller shares open retrievers."""


@settings_class
class NoOptions:
    """The empty options for kinds of retriever that have no options."""


class RetrieverKind(ABC):
    """One kind of retriever, with methods to find, open and describe its retrievers.

    Every retriever of a study has a name: "bm25", the encoder's name for a dense index ("dense:ENCODER" if the
    encoder's name is also the name of a kind), "hybrid:ENCODER". `available` lists the names that a study can open now;
    the same names appear in live questions and in the service.

    Attributes:
        name: the value of `blindspot retrieve --with`.
        title: its name in the interface.
        help: one line.
        options: a settings class (`blindspot.backend.core.declared`) with the options of `blindspot retrieve` for this kind.
        lexical: whether it ranks by shared words; Compare then puts it on side A.
        fusion: whether it joins two retrievers.
        uses_torch: whether its searches run in PyTorch and compete for the cores.
        suggested: whether Home suggests a run with it.
        extras: the extras (`blindspot.backend.core.extras`) whose packages a search needs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str]
    options: ClassVar[type] = NoOptions
    lexical: ClassVar[bool] = False
    fusion: ClassVar[bool] = False
    uses_torch: ClassVar[bool] = False
    suggested: ClassVar[bool] = False
    extras: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def available(self, study: Study) -> list[str]:
        """Return the names of the retrievers of this kind that the study can open now."""

    @abstractmethod
    def open(self, study: Study, options: Any, device: str | None = None, part: OpenPart = None) -> Retriever:
        """Open a retriever. Raises Missing if there is no index, and Refused if the index was made over other passages.

        Args:
            options: an instance of `self.options`.
        """

    def owns(self, name: str) -> bool:
        """Return whether `name` is the name of a retriever of this kind."""
        return name == self.name or name.startswith(f"{self.name}:")

    def options_of(self, name: str) -> dict[str, Any]:
        """Return the options that open the retriever `name`."""
        return {}

    def name_of(self, options: Any) -> str:
        """Return the name of the retriever that these options open. This method is the inverse of `options_of`."""
        return self.name

    def label(self, name: str) -> str:
        """Return the label of the retriever `name` in the interface."""
        return name

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the folders in indexes/ that the retriever `name` searches. Retrievers with the same last folder share
        an encoder.
        """
        return ()

    def parts_in(self, study: Study, name: str) -> tuple[str, ...]:
        """Return the same as `parts`, for kinds of which the name alone does not determine the folders."""
        return self.parts(name)

    def files(self, study: Study, name: str) -> list[Path]:
        """Return the files that the retriever `name` depends on. If one changes, the retriever must be opened again."""
        return [study.path("indexes", part, MANIFEST) for part in self.parts_in(study, name)]

    def index_files(self, study: Study, options: Any) -> list[Path]:
        """Return the files that a search with these options reads. Their total size is reported as the size of the
        index.
        """
        folders = (study.path("indexes", part) for part in self.parts_in(study, self.name_of(options)))
        files = [path for folder in folders for path in sorted(folder.glob("*"))]
        return [path for path in files if path.suffix != ".db" and not path.name.startswith("faiss-")]

    def settings_of(self, settings: Settings, name: str) -> tuple:
        """Return the settings of study.toml that affect the retriever `name`."""
        return ()

    def run_name(self, options: Any) -> str:
        """Return the default name of a run with these options, without its split."""
        return self.name

    def tunes(self, options: Any) -> bool:
        """Return whether these options ask for tuning on the dev questions."""
        return False

    def tuned(self, study: Study, retriever: Any, options: Any, rule: str, progress: Progress | None) -> dict[str, Any]:
        """Tune the open retriever if the options ask for it, and return the tuning record for the run's manifest."""
        return {}

    def made(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether the run with this manifest was made by a retriever of this kind."""
        kind = manifest.get("kind")
        return kind == self.name or (kind in (None, RUN) and manifest.get("retriever") == self.name)

    def is_lexical(self, manifest: Mapping[str, Any]) -> bool:
        """Return whether the retriever of a run of this kind ranks by shared words."""
        return self.lexical

    def describe(self, manifest: Mapping[str, Any]) -> str:
        """Describe the retriever of a run that this kind made, for the interface."""
        return self.title

    def retriever_of(self, manifest: Mapping[str, Any]) -> str:
        """Return the name of the retriever that made a run. It is one of `available` as long as its index exists."""
        return str(manifest["retriever"])

    def options_of_run(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that open the retriever of a run with the settings used for that run."""
        return self.options_of(self.retriever_of(manifest))

    def steps(self, study: Study) -> list[Step]:
        """Return the steps that are needed before the first retriever of this kind can be opened. The Home page and
        `blindspot status` suggest them.
        """
        return []


class NamedKind(RetrieverKind):
    """Base class of kinds whose retrievers are named after what their `option` names: "KIND:ENCODER", "run:RUN"."""

    option: ClassVar[str]

    def named(self, name: str) -> str:
        """Return what the retriever `name` is named after."""
        return name.removeprefix(f"{self.name}:")

    def options_of(self, name: str) -> dict[str, Any]:
        return {self.option: self.named(name)}

    def name_of(self, options: Any) -> str:
        return f"{self.name}:{getattr(options, self.option)}"


RESERVED = ("kind", "retriever", "k", "split", "name", "rule", "replace", "device", "study", "progress")
"""Names of the options that `blindspot retrieve` itself has."""


def _check(entry: object) -> None:
    if not isinstance(entry, RetrieverKind):
        raise TypeError(f"{type(entry).__name__} is not a RetrieverKind")
    for word in ("name", "title", "help"):
        if not isinstance(getattr(entry, word, None), str):
            raise TypeError(f"the attribute {word} is missing")
    if reserved := [option for option in declared_settings(entry.options) if option in RESERVED]:
        raise TypeError(f"its option {reserved[0]!r} is already an option of 'blindspot retrieve'")


RETRIEVERS: Registry[RetrieverKind] = Registry(
    "retriever",
    package="blindspot.backend.retrieval",
    group="blindspot.retrievers",
    order=lambda kind: (not type(kind).__module__.startswith("blindspot.backend."), kind.name),
    check=_check,
)


def kind_of(name: str) -> RetrieverKind | None:
    """Return the kind of the retriever `name`; None if its package is not installed."""
    return next((kind for kind in RETRIEVERS if kind.owns(name)), None)


def kind_of_run(manifest: Mapping[str, Any]) -> RetrieverKind | None:
    """Return the kind of retriever that made a run; None for an imported run, or if its package is not installed."""
    return next((kind for kind in RETRIEVERS if kind.made(manifest)), None)


INDEXES_OF_NO_ENCODER = ("bm25 index",)
"""Kinds of index, as manifests name them, with a folder of the same name; the other folders in indexes/ belong to
encoders.
"""


def refuse_other_index(study: Study, name: str, kind: str) -> None:
    """Raise Refused if an index of this kind in indexes/NAME would replace one that belongs to something else."""
    manifest = read_manifest(study.path("indexes", name))
    held = kind if manifest is None else manifest["kind"]
    if held != kind and (held in INDEXES_OF_NO_ENCODER or kind in INDEXES_OF_NO_ENCODER):
        raise Refused(
            f"indexes/{name} holds another index ({held}), which a {kind} would replace; give the encoder {name!r} another "
            "name in study.toml, index it again, and delete that folder"
        )


def is_lexical(manifest: Mapping[str, Any]) -> bool:
    """Return whether the run with this manifest was made by a retriever that ranks by shared words."""
    kind = kind_of_run(manifest)
    return kind is not None and kind.is_lexical(manifest)


def options_for(kind: RetrieverKind, values: Mapping[str, Any]) -> Any:
    """Return the options of a retriever, selected from the options of a command or job. A value of None means that the
    option was not given.

    Raises Refused for an option of another kind, and BadInput for an unknown option or an invalid value.
    """
    chosen: dict[str, Any] = {}
    for name, value in values.items():
        takers = [other for other in RETRIEVERS if name in declared_settings(other.options)]
        if value is None:
            continue
        if not takers:
            raise BadInput(
                f"unknown retriever option {name!r}; options of {kind.name}: "
                f"{', '.join(declared_settings(kind.options)) or 'none'}"
            )
        if kind in takers:
            chosen[name] = value
            continue
        declaration = declared_settings(takers[0].options)[name]
        # jobs of older versions contain every default
        if value != declaration.default and not declaration.extra.get("ignored_elsewhere"):
            raise Refused(
                f"{declaration.option} works with --with {' and '.join(taker.name for taker in takers)}, not with "
                f"--with {kind.name}"
            )
    return kind.options(**chosen)


def search_in_blocks(
    questions: Sequence[str] | np.ndarray,
    k: int,
    size: int,
    search: Callable[[slice], Hits],
    report: tuple[Progress | None, str],
) -> Hits:
    """Search in blocks of `size` questions, and return the hits of all questions.

    Args:
        search: returns the hits of questions[block], k wide.
        report: the progress to report to before the first and after each block, and the words for it.
    """
    progress, doing = report
    hits = Hits(np.full((len(questions), k), -1, np.int32), np.full((len(questions), k), -np.inf, np.float32))
    if progress is not None and len(questions):
        progress(0, len(questions), doing)
    for start in range(0, len(questions), size):
        block = slice(start, min(start + size, len(questions)))
        found = search(block)
        hits.ordinals[block], hits.scores[block] = found.ordinals, found.scores
        if progress is not None:
            progress(block.stop, len(questions), doing)
    return hits


def top_k(ordinals: np.ndarray, scores: np.ndarray, k: int) -> Hits:
    """Sort each list by descending score, with ties ordered by row, and keep the first k.

    Args:
        ordinals: (q, m) int32, padded with -1, without duplicates in a list. scores: (q, m) float32.

    Returns:
        Hits of width k; rows shorter than k end in -1 and -inf.
    """
    scores = np.where(ordinals < 0, -np.inf, scores).astype(np.float32)
    last = np.where(ordinals < 0, np.iinfo(np.int32).max, ordinals)
    order = np.lexsort((last, -scores), axis=1)[:, :k]
    hits = Hits(np.take_along_axis(ordinals, order, 1).astype(np.int32), np.take_along_axis(scores, order, 1))
    return hits if hits.k == k else pad_hits(hits, k)


def pad_hits(hits: Hits, k: int) -> Hits:
    """Pad hits to k columns, with -1 for rows and -inf for scores."""
    missing = ((0, 0), (0, k - hits.k))
    return Hits(
        np.pad(hits.ordinals, missing, constant_values=-1), np.pad(hits.scores, missing, constant_values=-np.inf)
    )

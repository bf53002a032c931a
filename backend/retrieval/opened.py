"""Open existing indexes of Lucene and FAISS without converting them (`blindspot index open`).

`indexes/<name>/manifest.json` records the location and a fingerprint of the index, so that a changed index is refused.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blindspot.backend.core.declared import Field, build_settings, declared_settings, settings_class
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, read_manifest, write_manifest
from blindspot.backend.core.settings import Settings, check_name
from blindspot.backend.core.study import Study
from blindspot.backend.data.importing.tools import readable_write_errors
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.engines.engine import OPENED, Engine
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.faiss_file import FaissEngine
from blindspot.backend.retrieval.engines.lucene_index import LuceneEngine
from blindspot.backend.retrieval.retriever import RETRIEVERS, NamedKind, OpenPart, Retriever
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import Missing, Refused
from blindspot.db.imports import ImportRecord, Imports

KIND = "opened index"
OWN_INDEXES = ("bm25",)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (LuceneEngine(), FaissEngine())}


@job("index open")
def open_index(
    study: Study,
    name: str,
    where: str,
    engine: str,
    settings: dict[str, Any] | None = None,
    replace: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Record an existing index as the retriever "opened:NAME", and return its manifest. Nothing is indexed.

    If the study has no passages, the passages stored in the index are imported. Otherwise hits are matched to the
    study's passages by id.

    Args:
        where: a path, as the engine says.
        engine: one of `ENGINES`.
        settings: fields of `EngineSettings`.
        replace: open another index under a name that an opened index has.

    If the index cannot be searched, raises BlindspotError with a one-line message and records nothing.
    """
    chosen, read_as = _engine(engine), build_settings(EngineSettings, settings or {})
    chosen.check_settings(read_as)
    _refuse_taken_name(study, check_name(name, "index"), replace)
    started, folder = time.monotonic(), study.path("indexes", name)
    with study.lock_part(f"indexes/{name}"):
        imported = not study.has_corpus
        if imported:
            _import_passages(study, chosen, name, where, read_as, progress)
        try:
            with atomic_folder(folder) as building:
                record = chosen.examine(study, where, read_as, building, progress)
                manifest = {
                    "kind": KIND,
                    "name": name,
                    "engine": engine,
                    "passages": record["documents"],
                    "corpus": study.corpus.digest,
                    "settings": _changed_settings(read_as),
                    **record,
                    "passages_read": len(study.corpus) if imported else 0,
                    "seconds": round(time.monotonic() - started, 1),
                }
                written = write_manifest(building, manifest)
        except BaseException:
            if imported:
                study.__dict__.pop("corpus", None)
                (study.folder / "corpus.db").unlink(missing_ok=True)
            raise
    if imported:
        read = ImportRecord("passages", name, written["fingerprint"], 0, len(study.corpus), 0, "")
        Imports(study.labels_path).add(read)
    return written


def _changed_settings(settings: EngineSettings) -> dict[str, Any]:
    known = declared_settings(EngineSettings)
    return {name: getattr(settings, name) for name in known if getattr(settings, name) != known[name].default}


def _refuse_taken_name(study: Study, name: str, replace: bool) -> None:
    existing = read_manifest(study.path("indexes", name))
    if name in study.settings.encoders or name in OWN_INDEXES or (existing and existing.get("kind") != KIND):
        raise Refused(f"{name!r} is the name of an index or encoder of this study; choose another name")
    if existing and not replace:
        raise Refused(f"there is already an opened index {name!r}; choose another name, or give --replace")


def _import_passages(
    study: Study, engine: Engine, name: str, location: str, settings: EngineSettings, progress: Progress | None
) -> None:
    """Write corpus.db from the passages that an index stores. Raises Missing if it stores none."""
    stored = engine.read_passages(study, location, settings, progress)
    if stored is None:
        raise Missing(
            "the study has no passages, and none can be read from this index; run 'blindspot import passages FILE' "
            "first, with the ids of the index"
        )
    with readable_write_errors(study.folder), CorpusWriter(study.folder / "corpus.db") as writer:
        for rows in stored.blocks():
            writer.add_rows(rows)
        writer.finish(f"index {name}", "")  # not where it is: the collection goes along in a push


@settings_class
class OpenedOptions:
    index: str = Field(default="", description="Name of an opened index", json_schema_extra={"metavar": "NAME"})


class OpenedKind(NamedKind):
    name, title, option = OPENED, "opened index", "index"
    help = "an index of Lucene or FAISS that exists already (index open)"
    options = OpenedOptions
    uses_torch = True

    def available(self, study: Study) -> list[str]:
        return [f"{self.name}:{name}" for name, each in study.parts("indexes").items() if each.get("kind") == KIND]

    def open(self, study: Study, options: OpenedOptions, device: str | None = None, part: OpenPart = None) -> Retriever:
        names = [self.named(name) for name in self.available(study)]
        name = options.index or (names[0] if len(names) == 1 else "")
        if name not in names:
            known = f"opened indexes: {', '.join(names)}" if names else "open one with 'blindspot index open'"
            raise Missing(
                f"there is no opened index {name!r}; {known}" if name else f"name the index with --index; {known}"
            )
        manifest = study.parts("indexes")[name]
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(f"the index {name!r} was opened over other passages; open it again with --replace")
        return _engine(manifest["engine"]).open(study, name, manifest, device)

    def label(self, name: str) -> str:
        return self.named(name)

    def parts(self, name: str) -> tuple[str, ...]:
        return (self.named(name),)

    def index_files(self, study: Study, options: OpenedOptions) -> list[Path]:
        """Return the files of the index itself; [] if they are not on this machine."""
        manifest: Mapping[str, Any] = study.parts("indexes").get(options.index or "", {})
        place = Path(str(manifest.get("file") or manifest.get("where") or ""))
        return sorted(place.iterdir()) if place.is_dir() else [place]

    def settings_of(self, settings: Settings, name: str) -> tuple:
        return (settings.bm25, tuple(sorted(settings.encoders.items())))

    def run_name(self, options: OpenedOptions) -> str:
        return options.index or self.name

    def is_lexical(self, manifest: Mapping[str, Any]) -> bool:
        return bool(manifest.get("lexical"))

    def describe(self, manifest: Mapping[str, Any]) -> str:
        encoder = f", {manifest['encoder']}" if manifest.get("encoder") else ""
        return f"{_engine_title(manifest)} {manifest.get('index', '')}{encoder}"


def describe_index(manifest: Mapping[str, Any]) -> str:
    """Return a description for the Home page, such as "Lucene at /data/index"."""
    return f"{_engine_title(manifest)} at {manifest.get('where')}"


def _engine(name: str) -> Engine:
    if name not in ENGINES:
        raise Refused(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    return ENGINES[name]


def _engine_title(manifest: Mapping[str, Any]) -> str:
    return _engine(str(manifest.get("engine"))).title


RETRIEVERS.register(OpenedKind())

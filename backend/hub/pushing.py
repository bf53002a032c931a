"""Push a training set, an encoder, a judge or the whole study to the Hugging Face Hub.

The files to be sent are first written to a folder, so that a person can inspect them before anything leaves the
machine. People's names are replaced by pseudonyms unless somebody asks for the names.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from blindspot.backend.core.consent import OF_OLDER_VERSIONS
from blindspot.backend.core.copying import copy_study
from blindspot.backend.core.manifest import read_json, versions, write_json, write_text
from blindspot.backend.core.model_files import PACKAGED, code_in_model
from blindspot.backend.core.settings import MODELS
from blindspot.backend.core.study import Study
from blindspot.backend.hub.cards import model_card, record_of, study_card, with_dataset_header
from blindspot.backend.hub.repository import ABOUT, HubRepository
from blindspot.backend.judges.judge import judge_kind_of
from blindspot.backend.judges.llm.judge import llm_judges
from blindspot.backend.progress import Progress
from blindspot.backend.training_sets.exports import export
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import Missing, Refused
from blindspot.db.private_rows import remove_private_rows
from blindspot.db.pseudonyms import people_named, rename_people, replace_names

FORM = 1
SET_FOLDER, FILES_FOLDER = "blindspot", "files"
MODEL_SUFFIXES = (".json", ".jsonl", ".txt", ".model", ".safetensors", ".jinja", ".npz", ".md")
VIEWABLE = (".parquet", ".jsonl")
NOT_SENT = ("jobs", "cache", "backups", "exports", "tracking")
DENSE_FILES = {"manifest.json", "embeddings.npy"}


@dataclass(frozen=True, slots=True)
class PushPlan:
    """The files that a push sends.

    Attributes:
        folder: the content of the repository.
        files: path and size in bytes.
        notes: what a person should know before, one line each.
    """

    folder: Path
    files: list[tuple[str, int]]
    notes: list[str]

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.files)


@contextmanager
def plan_push(
    study: Study,
    kind: str,
    name: str | None,
    format: str = "parquet",
    with_names: bool = False,
    progress: Progress | None = None,
) -> Iterator[PushPlan]:
    """Write the files that a push would send to a temporary folder. Nothing is sent.

    Args:
        kind: "training-set", "encoder", "judge" or "study".
        name: of the part; not used for a study.
        format: of a training set: an export whose files the Hub's viewer shows.
        with_names: send the names of people in a study's labels, instead of pseudonyms.

    Raises:
        Missing: no such part. Refused: it cannot be pushed.
    """
    if kind != "study" and not name:
        raise Refused(f"which {kind.replace('-', ' ')}? Give --name")
    with TemporaryDirectory(prefix="blindspot-hub-") as place:
        folder = Path(place) / "repository"
        if kind == "training-set":
            notes = _lay_out_training_set(study, name or "", format, folder, progress)
        elif kind == "encoder":
            notes = _lay_out_encoder(study, name or "", folder)
        elif kind == "judge":
            notes = _lay_out_judge(study, name or "", folder)
        elif kind == "study":
            notes = _lay_out_study(study, folder, with_names)
        else:
            raise Refused(f"unknown kind {kind!r}; known: training-set, encoder, judge, study")
        found = sorted(path for path in folder.rglob("*") if path.is_file())
        yield PushPlan(folder, [(str(path.relative_to(folder)), path.stat().st_size) for path in found], notes)


def push(plan: PushPlan, repository: HubRepository, public: bool = False) -> str:
    """Send the planned files in one commit, creating the repository if there is none. Return the URL of the commit.

    Raises:
        Refused: the repository is public and `public` is false, or it holds something else.
        BlindspotError: as `HubRepository`.
    """
    private = repository.is_private()
    if private is False and not public:
        raise Refused(f"{repository.address} is public; give --public if everybody may see this")
    if private is not None:
        _refuse_other_content(plan, repository)
    repository.create(private=not public)
    about = read_json(plan.folder / ABOUT)
    return repository.upload(plan.folder, f"Blindspot: {about['kind']} {about['name']}")


def _refuse_other_content(plan: PushPlan, repository: HubRepository) -> None:
    """Raise Refused unless the repository is empty or holds an earlier push of the same kind."""
    commit, files = repository.files()
    present = {file.path for file in files} - {".gitattributes", "README.md"}
    if not present:
        return
    kind = read_json(plan.folder / ABOUT)["kind"]
    if ABOUT in present:
        with TemporaryDirectory(prefix="blindspot-hub-") as place:
            repository.download(commit, [ABOUT], Path(place))
            content = read_json(Path(place) / ABOUT)
        if isinstance(content, dict) and content.get("kind") == kind:
            return
    raise Refused(f"{repository.address} holds something else; name another repository")


def _write_description(folder: Path, kind: str, name: str, **more: Any) -> None:
    blindspot = versions().get("blindspot")
    write_json(folder / ABOUT, {"form": FORM, "kind": kind, "name": name, "blindspot": blindspot, **more})


def _lay_out_training_set(study: Study, name: str, format: str, folder: Path, progress: Progress | None) -> list[str]:
    """Write an export of the training set, which the Hub's viewer can show, and the training set itself, which another
    study can pull.
    """
    opened = TrainingSet.open(study, name)
    written = export(study, name, format, folder, progress=progress)
    files = list(written.rows)
    if not all(file.endswith(VIEWABLE) for file in files):
        raise Refused(
            f"the Hub's viewer does not show {', '.join(files)}; take parquet, sentence-transformers or tevatron"
        )
    card = (folder / "README.md").read_text(encoding="utf-8")
    write_text(folder / "README.md", with_dataset_header(card, f"Training set {name}", files))
    (folder / "manifest.json").unlink()
    shutil.copytree(opened.folder, folder / SET_FOLDER, ignore=shutil.ignore_patterns(".*"))
    _write_description(folder, "training-set", name, corpus=study.corpus.digest, format=format)
    return [
        "It contains the texts of questions and passages; check whether their licences allow this.",
        "It names no annotator.",
    ]


def _lay_out_encoder(study: Study, name: str, folder: Path) -> list[str]:
    settings = study.settings.encoders.get(name)
    if settings is None:
        known = ", ".join(study.settings.encoders) or "none"
        raise Missing(f"no encoder {name!r} in study.toml; encoders: {known}")
    sources = {key: Path(value) for key in MODELS if (value := getattr(settings, key))}
    folders = {key: path for key, path in sources.items() if path.is_dir() and str(path) not in PACKAGED}
    if len(folders) < len(sources):
        other = next(str(path) for key, path in sources.items() if key not in folders)
        raise Refused(
            f"encoder {name!r} is {other!r}, which is installed or on the Hub already; push one that you trained"
        )
    folder.mkdir()
    for key, source in folders.items():
        _copy_model(source, folder if key == "model" else folder / key)
    values = {key: value for key, value in asdict(settings).items() if key not in MODELS}
    _write_description(folder, "encoder", name, settings=values, models=sorted(folders))
    library = "sentence-transformers" if "model" in folders else None
    about = _without_local_paths(study, record_of(next(iter(folders.values()))))
    write_text(folder / "README.md", model_card(name, "encoder", about, library))
    return []


def _lay_out_judge(study: Study, name: str, folder: Path) -> list[str]:
    kind = judge_kind_of(study, name)
    if kind.run_job is None:
        raise Refused(
            f"judge {name!r} is judgements of another tool about this study's pairs; share their file instead"
        )
    source = next(path for place in ("models", "judges") if (path := study.path(place, name)).is_dir())
    folder.mkdir()
    _copy_model(source, folder / FILES_FOLDER)
    _write_description(folder, "judge", name, judge=kind.name, place=source.parent.name)
    about = _without_local_paths(study, record_of(source))
    write_text(folder / "README.md", model_card(name, "judge", about, None))
    notes = ["It contains words and numbers that were learned from the study's passages and labels."]
    return notes + ["Its record contains the address of a language model."] if "endpoint" in about else notes


def _lay_out_study(study: Study, folder: Path, with_names: bool) -> list[str]:
    copy_study(study, folder)
    for name in NOT_SENT:
        shutil.rmtree(folder / name, ignore_errors=True)
    left_out = _drop_indexes(folder) + ["backups and records of jobs"]
    remove_private_rows(folder / "labels.db")
    people = people_named(folder / "labels.db")
    if not with_names:
        names = {person: f"annotator-{number}" for number, person in enumerate(people, 1)}
        rename_people(folder / "labels.db", names)
        for path in folder.rglob("*.json"):
            _rewrite_json(path, lambda content: replace_names(content, names))
    for path in folder.rglob("*.json"):
        _rewrite_json(path, _without_addresses)
    _shorten_source(folder / "corpus.db")
    settings = folder / "study.toml"
    write_text(settings, settings.read_text(encoding="utf-8").replace(f"{folder}/", ""))
    _write_description(folder, "study", study.settings.name)
    write_text(folder / "README.md", study_card(study, left_out, 0 if with_names else len(people)))
    named = f"{len(people):,} people are named." if with_names else f"{len(people):,} people have pseudonyms."
    judges = ", ".join(llm_judges(study))
    return [
        f"Left out: {', '.join(left_out)}.",
        *([f"It names the addresses of the language models of {judges}."] if judges else []),
        f"{named} Notes are sent as people wrote them. E-mail addresses and invitations are not sent.",
        "It contains the texts of questions and passages; check whether their licences allow this.",
    ]


def _without_addresses(content: Any) -> Any:
    """Return a manifest without the path or address of an external index, which is also in the manifests of runs over
    that index.
    """
    if isinstance(content, list):
        return [_without_addresses(each) for each in content]
    if not isinstance(content, dict):
        return content
    kept = {key: _without_addresses(value) for key, value in content.items()}
    if "engine" in kept and "where" in kept:
        kept = {key: value for key, value in kept.items() if key not in ("where", "file")}
        if isinstance(kept.get("settings"), dict):
            kept["settings"] = {key: value for key, value in kept["settings"].items() if key != "ids"}
    return kept


def _shorten_source(corpus: Path) -> None:
    """Shorten the recorded source of the passages to its last path component, because older versions recorded the full
    path or address of an index.
    """
    if not corpus.is_file():
        return
    with closing(sqlite3.connect(corpus)) as connection, connection:
        connection.execute("PRAGMA secure_delete = ON")
        (source,) = connection.execute("SELECT value FROM meta WHERE key = 'source_name'").fetchone() or ("",)
        if "/" in source:
            short = PurePosixPath(source).name
            connection.execute("UPDATE meta SET value = ? WHERE key = 'source_name'", (short,))


def _drop_indexes(folder: Path) -> list[str]:
    """Remove all indexes except the vectors of dense indexes. Other indexes are files of a search engine and are quick
    to build again.
    """
    dropped = []
    for index in sorted((folder / "indexes").iterdir()) if (folder / "indexes").is_dir() else []:
        if {path.name for path in index.iterdir()} != DENSE_FILES:
            shutil.rmtree(index)
            dropped.append(f"index {index.name}")
    return dropped


def _copy_model(source: Path, target: Path) -> None:
    """Copy a model's own files. Raises Refused for a model whose loading runs code, so that others do not have to run
    it.
    """
    if would_run := code_in_model(source):
        raise Refused(
            f"{source.name} holds code or pickled weights ({would_run[0]}); save it with safetensors weights first"
        )
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        hidden = path.name == OF_OLDER_VERSIONS or any(part.startswith(".") for part in inside.parts)
        if path.is_file() and path.suffix in MODEL_SUFFIXES and not hidden:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / inside)


def _rewrite_json(path: Path, change: Callable[[object], object]) -> None:
    content = read_json(path)
    changed = change(content)
    if changed != content:
        write_json(path, changed)  # type: ignore[arg-type]  # read_json returned an object or a list


def _without_local_paths(study: Study, record: dict[str, Any]) -> dict[str, Any]:
    """Return a record in which folders inside the study are relative paths, so that a card does not show paths of this
    machine.
    """
    place = f"{study.folder}/"
    return {key: value.replace(place, "") if isinstance(value, str) else value for key, value in record.items()}

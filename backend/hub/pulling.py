"""Pull a training set, an encoder, a judge or a study from the Hugging Face Hub.

A repository may come from a stranger, so its content is untrusted. Only listed kinds of files are downloaded, paths
that lead out of the folder are refused, and so is a model whose loading would run code.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from blindspot.backend.core.consent import OF_OLDER_VERSIONS
from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.manifest import atomic_folder, read_object, write_json
from blindspot.backend.core.model_files import CODE_SUFFIXES, code_in_model
from blindspot.backend.core.settings import MODELS, EncoderSettings, add_encoder, check_name, read_settings
from blindspot.backend.core.study import Study
from blindspot.backend.hub.pushing import FILES_FOLDER, MODEL_SUFFIXES, SET_FOLDER
from blindspot.backend.hub.repository import ABOUT, HubRepository, RemoteFile, check_inside
from blindspot.backend.judges.judge import JUDGES
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.connection import connect, readable_sqlite_errors
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.private_rows import remove_private_rows
from blindspot.db.schema_check import foreign_objects

STUDY_SUFFIXES = (*MODEL_SUFFIXES, ".parquet", ".npy", ".db", ".toml", ".csv", ".tsv")
LARGEST_ABOUT = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class PullResult:
    """The result of a pull: the name of the part (or of the study's folder), its files and bytes, and what was skipped."""

    kind: str
    name: str
    files: int
    bytes: int
    skipped: list[str]


def pull(study: Study, repository: HubRepository, name: str | None = None) -> PullResult:
    """Download a training set, an encoder or a judge into a study.

    Args:
        name: its name in the study; default the name under which it was pushed.

    Raises:
        Missing: no such repository, or not one that Blindspot pushed. Refused: the name is taken, the part does not fit
            the study, or loading it would run code. BadInput: damaged files, or a path that leads out.
    """
    with TemporaryDirectory(prefix=".hub-", dir=study.folder) as place:
        folder = Path(place) / "repository"
        suffixes = (".json", ".jsonl", ".parquet") if repository.kind == "training-set" else MODEL_SUFFIXES
        about, taken, skipped = download_files(repository, folder, suffixes)
        name = check_name(str(about["name"]) if name is None else name, repository.kind.replace("-", " "))
        if repository.kind == "training-set":
            _add_training_set(study, folder, name, about)
        elif repository.kind == "encoder":
            _add_encoder(study, folder, name, about)
        else:
            _add_judge(study, folder, name, about)
    return PullResult(repository.kind, name, len(taken), sum(file.size for file in taken), skipped)


def pull_study(repository: HubRepository, target: Path) -> PullResult:
    """Download a whole study into a new or empty folder, which appears only when the download is complete. Raises the
    same errors as `pull`.
    """
    target = target.absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Refused(f"{target} exists already; choose a new folder")
    with atomic_folder(target) as building:
        about, taken, skipped = download_files(repository, building, STUDY_SUFFIXES)
        shutil.rmtree(building / ".cache", ignore_errors=True)
        (building / ABOUT).unlink()
        for model in sorted(path for path in building.glob("models/*") if path.is_dir()):
            _refuse_code(model, repository.address)
        _refuse_outside(building, repository.address)
        _refuse_foreign_schema(building, repository.address)
        remove_private_rows(building / "labels.db")
    Study.open(target)
    return PullResult("study", str(about["name"]), len(taken), sum(file.size for file in taken), skipped)


def download_files(
    repository: HubRepository, folder: Path, suffixes: Sequence[str]
) -> tuple[dict[str, Any], list[RemoteFile], list[str]]:
    """Download the files with these endings. Return the parsed `blindspot.json`, the files to download, and the paths
    of the remaining files."""
    commit, files = repository.files()
    for file in files:
        check_inside(file.path, repository.address)
    pickled = [file.path for file in files if file.path.endswith((*CODE_SUFFIXES, ".pickle", ".joblib"))]
    if pickled:
        raise Refused(
            f"{repository.address} holds {pickled[0]}, which can run code; only safetensors weights are pulled"
        )
    taken = [file for file in files if PurePosixPath(file.path).suffix in suffixes and not _is_hidden(file.path)]
    about_file = next((file for file in taken if file.path == ABOUT), None)
    if about_file is None or about_file.size > LARGEST_ABOUT:
        raise Missing(f"{repository.address} has no {ABOUT}, so Blindspot did not push it; nothing was taken")
    folder.mkdir(parents=True, exist_ok=True)
    repository.download(commit, [file.path for file in taken], folder)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    about = read_object(folder / ABOUT)
    if about.get("kind") != repository.kind or not isinstance(about.get("name"), str):
        held = about.get("kind")
        raise Refused(
            f"{repository.address} holds a {held}, not a {repository.kind}; run: blindspot hub pull {held} ..."
        )
    skipped = [file.path for file in files if file not in taken and file.path != ".gitattributes"]
    return about, taken, skipped


def _add_training_set(study: Study, folder: Path, name: str, record: dict[str, Any]) -> None:
    source = folder / SET_FOLDER
    if not (source / "manifest.json").is_file():
        raise BadInput("holds no training set that a study can take", source / "manifest.json")
    if record.get("corpus") != study.corpus.digest:
        raise Refused(
            f"training set {name!r} was built over other passages than this study holds; its texts can be loaded with "
            "datasets.load_dataset"
        )
    write_json(source / "manifest.json", {**read_object(source / "manifest.json"), "name": name})
    with _copied(study, source, ("training_sets", name), "training set"):
        try:
            study.questions.with_ids([question for question, _ in TrainingSet.open(study, name).groups()])
        except (Missing, Refused, BadInput):
            raise
        except Exception as error:
            raise BadInput(f"is not a training set ({type(error).__name__}: {str(error)[:100]})", name) from None


def _add_encoder(study: Study, folder: Path, name: str, record: dict[str, Any]) -> None:
    target = study.path("models", name)
    keys = record.get("models")
    if not isinstance(keys, list) or not keys or not set(keys) <= set(MODELS):
        raise BadInput("names no model", ABOUT)
    settings = record.get("settings")
    values = dict(settings) if isinstance(settings, dict) else {}
    places = {key: str(target if key == "model" else target / key) for key in keys}
    build_settings(EncoderSettings, {**values, **places}, "settings", Path(ABOUT))
    if name in study.settings.encoders:
        raise Refused(f"there is already an encoder named {name!r}; give another --name")
    _refuse_code(folder, name)
    (folder / ABOUT).unlink()
    with _copied(study, folder, ("models", name), "model"):
        add_encoder(study.settings_path, name, {**values, **places})


def _add_judge(study: Study, folder: Path, name: str, manifest: dict[str, Any]) -> None:
    place, kind, source = manifest.get("place"), manifest.get("judge"), folder / FILES_FOLDER
    if place not in ("models", "judges") or not isinstance(kind, str) or kind not in JUDGES or not source.is_dir():
        raise BadInput("names no judge that this version knows", ABOUT)
    if any(study.path(each, name).exists() for each in ("models", "judges", "scores")):
        raise Refused(f"there is already a judge or model named {name!r}; give another --name")
    _refuse_code(source, name)
    for record in ("training.json", "manifest.json"):
        if (source / record).is_file():
            write_json(source / record, {**read_object(source / record), "name": name})
    with _copied(study, source, (place, name), "judge"):
        if name not in {card.name for card in JUDGES.get(kind).cards(study)}:
            raise BadInput(f"holds no judge of kind {kind}", ABOUT)


@contextmanager
def _copied(study: Study, source: Path, place: tuple[str, str], noun: str) -> Iterator[None]:
    """Copy a downloaded folder into the study. If the `with` block, which tries it, fails, the copy is deleted again.

    Args:
        place: the folder of the study, and the name of the part in it.
    """
    target = study.path(*place)
    with study.lock_part("/".join(place), lambda: _refuse_existing(target, noun, place[1])):
        with atomic_folder(target) as building:
            shutil.copytree(source, building, dirs_exist_ok=True)
        try:
            yield
        except BaseException:
            shutil.rmtree(target, ignore_errors=True)
            raise


def _refuse_outside(folder: Path, repository_name: str) -> None:
    """Raise Refused if an encoder of study.toml is in a folder outside the study, because it would open this machine's
    own files.
    """
    if not (folder / "study.toml").is_file() or not (folder / "labels.db").is_file():
        raise BadInput("lacks study.toml or labels.db; it is not a whole study", repository_name)
    read_settings(folder / "study.toml")
    encoders = tomllib.loads((folder / "study.toml").read_text(encoding="utf-8")).get("encoders", {})
    for name, encoder in encoders.items():
        for value in (encoder.get(key) for key in MODELS):
            if value and (Path(value).is_absolute() or ".." in Path(value).parts):
                raise Refused(
                    f"encoder {name!r} of {repository_name} names {value}, outside the study; nothing was taken"
                )


def _refuse_foreign_schema(folder: Path, repository_name: str) -> None:
    """Raise Refused for a database with triggers, views or tables that Blindspot does not create, because they could
    run code of the study's author.
    """
    for path in sorted(folder.rglob("*.db")):
        with closing(connect(path, read_only=True)) as connection, readable_sqlite_errors(path):
            if path == folder / "labels.db":
                problems = foreign_objects(connection)
            else:
                running = "SELECT type || ' ' || quote(name) FROM sqlite_master WHERE type IN ('trigger', 'view')"
                problems = [f"the {name} is not ours" for (name,) in connection.execute(running)]
        if problems:
            raise Refused(f"{path.relative_to(folder)} of {repository_name}: {problems[0]}; nothing was taken")


def _refuse_code(folder: Path, repository_name: str) -> None:
    if would_run := code_in_model(folder):
        raise Refused(
            f"loading the model of {repository_name} would run code of whoever made it: {would_run[0]}; nothing was taken"
        )


def _refuse_existing(target: Path, noun: str, name: str) -> None:
    if target.exists():
        raise Refused(f"there is already a {noun} named {name!r}; give another --name")


def _is_hidden(path: str) -> bool:
    """Return whether a file is not downloaded: hidden files (such as a folder's identity), and consents of older
    versions.
    """
    return any(part.startswith(".") or part == OF_OLDER_VERSIONS for part in PurePosixPath(path).parts)

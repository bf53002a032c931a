"""Download public data sets and models. Downloads can be resumed and are verified, and archives are unpacked safely.

The sources publish no checksums. Therefore the size that the server announces is checked, and the SHA-256 is recorded
in `downloads.json`; a later download with another hash is reported. DPR's models are fetched with huggingface_hub,
which checks the hashes that the hub publishes.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from blindspot.backend.core.manifest import file_sha256, read_json, write_json
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

DPR = "https://dl.fbaipublicfiles.com/dpr"
FILES = {
    "entityquestions": ("https://nlp.cs.princeton.edu/projects/entity-questions/dataset.zip",),
    "wikipedia": (f"{DPR}/wikipedia_split/psgs_w100.tsv.gz",),
    "nq": tuple(
        f"{DPR}/data/retriever/{name}"
        for name in ("biencoder-nq-train.json.gz", "biencoder-nq-dev.json.gz", "nq-dev.qa.csv", "nq-test.qa.csv")
    ),
}
MODELS = {"dpr": ("facebook/dpr-question_encoder-single-nq-base", "facebook/dpr-ctx_encoder-single-nq-base")}
NAMES = (*FILES, *MODELS)
NEXT = {
    "entityquestions": "blindspot import questions {folder}/dataset",
    "wikipedia": "blindspot import passages {folder}/psgs_w100.tsv.gz",
    "nq": "blindspot import questions {folder}/biencoder-nq-dev.json.gz",
    "dpr": "blindspot encoder add dpr --question-model {folder}/dpr-question_encoder-single-nq-base "
    "--passage-model {folder}/dpr-ctx_encoder-single-nq-base --trust",
}

RECORD = "downloads.json"
BLOCK = 1 << 20
TRIES = 5
TIMEOUT = 60
MAX_UNPACKED = 64 << 30  # bytes; limit for zip bombs


def download(name: str, folder: Path, progress: Progress | None = None) -> list[Path]:
    """Download one of NAMES into `folder`. Return the files or model folders.

    Raises:
        Missing: an unknown name, or the server cannot be reached.
        BadInput: a file with another size or hash than announced.
    """
    if name not in NAMES:
        raise Missing(f"there is no download {name!r}; there are: {', '.join(NAMES)}")
    folder.mkdir(parents=True, exist_ok=True)
    if name in MODELS:
        return [_download_model(model, folder) for model in MODELS[name]]
    paths = []
    for url in FILES[name]:
        path = download_file(url, folder, progress)
        paths.append(path)
        if zipfile.is_zipfile(path):
            unpack(path, folder, progress)
    return paths


def download_file(url: str, folder: Path, progress: Progress | None = None, wait: float = 2.0) -> Path:
    """Download one file into `folder`, unless it is there already, and return its path. An interrupted download is kept
    as `NAME.partial`, and a later call resumes it.

    Args:
        wait: Seconds before the first retry after a broken connection; doubled for each further retry.
    """
    path = folder / _file_name(url)
    known = _download_record(folder).get(path.name)
    if path.is_file() and known and path.stat().st_size == known["size"]:
        return path
    partial = path.with_name(path.name + ".partial")
    for attempt in range(TRIES):
        try:
            tag = _append_missing_bytes(
                url, partial, _download_record(folder).get(partial.name, {}).get("etag"), folder, progress
            )
            break
        except urllib.error.HTTPError as error:
            if error.code < 500 or attempt == TRIES - 1:
                raise Missing(f"{url}: the server answers {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException) as error:
            if attempt == TRIES - 1:
                advice = ""
                if partial.exists():
                    advice = f"; {partial.stat().st_size:,} bytes are kept; run the same command to resume"
                raise Missing(f"{url}: cannot be fetched ({_failure_reason(error)}){advice}") from error
        time.sleep(wait * 2**attempt)
    digest = file_sha256(partial)
    if known and known["sha256"] != digest:
        raise BadInput(
            f"differs from the download of {known['when']} (SHA-256 {known['sha256'][:12]} then, {digest[:12]} now); "
            f"if that is right, delete its entry in {folder / RECORD}",
            partial,
        )
    os.replace(partial, path)
    record = {
        **_download_record(folder),
        path.name: {
            "url": url,
            "size": path.stat().st_size,
            "sha256": digest,
            "etag": tag,
            "when": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }
    record.pop(partial.name, None)
    write_json(folder / RECORD, record)
    return path


def _append_missing_bytes(
    url: str, partial: Path, etag: str | None, folder: Path, progress: Progress | None
) -> str | None:
    """Append the missing bytes to `partial`. Return the server's ETag. Raises BadInput if the server sends nothing."""
    have = partial.stat().st_size if partial.exists() else 0
    headers = {"User-Agent": "blindspot", "Accept-Encoding": "identity"}
    if have and etag:
        headers |= {"Range": f"bytes={have}-", "If-Range": etag}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as answer:
        if urlsplit(answer.url).scheme not in ("http", "https") or (
            url.startswith("https:") and not answer.url.startswith("https:")
        ):
            raise Refused(f"{url} redirects to {answer.url}, which is not safe to follow")
        goes_on = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-")
        start, tag = (have, etag) if goes_on else (0, answer.headers.get("ETag"))
        length = answer.headers.get("Content-Length")
        total = None if length is None else start + int(length)
        if tag and not tag.startswith("W/"):  # a weak ETag does not guarantee identical bytes
            write_json(folder / RECORD, {**_download_record(folder), partial.name: {"etag": tag}})
        size = _write_response(answer, partial, start, total, progress, f"downloading {_file_name(url)}")
    if total is None and size == 0:
        raise BadInput("the server sent nothing", partial)
    return tag


def _write_response(
    response: IO[bytes], partial: Path, start: int, total: int | None, progress: Progress | None, activity: str
) -> int:
    with open(partial, "r+b" if start else "wb") as file:
        file.seek(start)
        size = start
        while block := response.read(BLOCK):
            size += len(block)
            file.write(block)
            if progress is not None:
                progress(size, total, activity)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    if total is not None and size < total:
        raise ConnectionError(f"the connection ended after {size:,} of {total:,} bytes")
    return size


def unpack(archive: Path, folder: Path, progress: Progress | None = None) -> None:
    """Unpack a zip archive into `folder`. Raises BadInput, before writing anything, if a member leaves the folder or it
    is too large.
    """
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        for member in members:
            place = PurePosixPath(member.filename.replace("\\", "/"))
            link = (member.external_attr >> 16) & 0o170000 == 0o120000
            if place.is_absolute() or ".." in place.parts or ":" in member.filename or link:
                raise BadInput(
                    f"its member {member.filename!r} points outside the archive; it is not unpacked", archive
                )
        if (size := sum(member.file_size for member in members)) > MAX_UNPACKED:
            raise BadInput(f"would unpack to {size:,} bytes; it is not unpacked", archive)
        for done, member in enumerate(members):
            if progress is not None:
                progress(done, len(members), f"unpacking {archive.name}")
            try:
                opened.extract(member, folder)
            except (zipfile.BadZipFile, OSError, RuntimeError) as error:
                raise BadInput(
                    f"is damaged at its member {member.filename!r} ({error}); delete it and download again", archive
                ) from error


def _download_model(name: str, folder: Path) -> Path:
    from huggingface_hub import snapshot_download

    target = folder / name.split("/")[-1]
    try:
        snapshot_download(name, local_dir=target, allow_patterns=["*.json", "*.txt", "*.bin", "*.safetensors"])
    except Exception as error:  # the hub's errors have no common class
        if isinstance(error, BlindspotError):
            raise
        raise Missing(f"the model {name} cannot be fetched: {_failure_reason(error)}") from error
    return target


def _download_record(folder: Path) -> dict[str, Any]:
    """Return the downloads recorded in a folder, by file name."""
    path = folder / RECORD
    record = read_json(path) if path.is_file() else {}
    if not isinstance(record, dict):
        raise BadInput("is not a record of downloads; delete it", path)
    return record


def _file_name(url: str) -> str:
    name = PurePosixPath(urlsplit(url).path).name
    if not name or name.startswith("."):
        raise Refused(f"{url} names no file")
    return name


def _failure_reason(error: BaseException) -> str:
    return (str(getattr(error, "reason", "") or error) or type(error).__name__).splitlines()[0][:200]

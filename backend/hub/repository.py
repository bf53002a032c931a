"""Repositories of the Hugging Face Hub, accessed with the client huggingface_hub. Errors become one-line messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KINDS = {"training-set": "dataset", "study": "dataset", "encoder": "model", "judge": "model"}
"""The kinds of part that can be pushed and pulled, and the type of repository of each."""
ABOUT = "blindspot.json"
SIGN_IN = "sign in with 'hf auth login', or set HF_TOKEN"


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository. size: in bytes."""

    path: str
    size: int


class HubRepository:
    """A repository of the Hub, `user/name`. The token and the endpoint are those that huggingface_hub finds on this
    machine.

    Args:
        kind: a key of KINDS.
    """

    def __init__(self, name: str, kind: str):
        import sys

        from huggingface_hub import HfApi, constants
        from huggingface_hub.utils import disable_progress_bars

        if kind not in KINDS:
            raise Refused(f"unknown kind {kind!r}; known: {', '.join(KINDS)}")
        self.name, self.kind, self.type = name, kind, KINDS[kind]
        if not sys.stderr.isatty():
            disable_progress_bars()
        self.endpoint = constants.ENDPOINT
        self._api: HfApi = HfApi(endpoint=self.endpoint, library_name="blindspot")

    @property
    def address(self) -> str:
        """The web address of the repository."""
        return f"{self.endpoint}/{'datasets/' if self.type == 'dataset' else ''}{self.name}"

    def is_private(self) -> bool | None:
        """Return whether the repository is private; None if it does not exist or the token may not see it."""
        try:
            with self._readable_errors():
                return bool(self._api.repo_info(self.name, repo_type=self.type).private)
        except Missing:
            return None

    def create(self, private: bool) -> None:
        """Create the repository, unless it exists."""
        with self._readable_errors():
            self._api.create_repo(self.name, repo_type=self.type, private=private, exist_ok=True)

    def files(self) -> tuple[str, list[RemoteFile]]:
        """Return the newest commit and its files by path. Raises Missing if there is no such repository."""
        from huggingface_hub.hf_api import RepoFile

        with self._readable_errors():
            commit = self._api.repo_info(self.name, repo_type=self.type).sha
            if commit is None:
                raise BlindspotError(f"{self.address} names no commit; is {self.endpoint} a Hub?")
            entries = self._api.list_repo_tree(self.name, recursive=True, revision=commit, repo_type=self.type)
            found = [RemoteFile(each.path, each.size) for each in entries if isinstance(each, RepoFile)]
        return commit, sorted(found, key=lambda file: file.path)

    def upload(self, folder: Path, message: str) -> str:
        """Replace the content of the repository by the content of a folder, in one commit. Return the URL of the
        commit.
        """
        with self._readable_errors():
            commit = self._api.upload_folder(
                repo_id=self.name,
                repo_type=self.type,
                folder_path=folder,
                commit_message=message,
                delete_patterns=["*"],
            )
        return str(commit.commit_url)

    def download(self, commit: str, paths: Sequence[str], folder: Path) -> None:
        """Download files into a folder, keeping their paths.

        Raises BadInput, before anything is downloaded, for a path that leads out of the folder.
        """
        for path in paths:
            check_inside(path, self.address)
        escaped = [path.replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for path in paths]
        with self._readable_errors():
            self._api.snapshot_download(
                self.name, repo_type=self.type, revision=commit, allow_patterns=escaped, local_dir=folder, max_workers=4
            )
        if absent := [path for path in paths if not (folder / path).is_file()]:
            raise BlindspotError(f"{self.address}: {absent[0]} was not downloaded; pull again")

    @contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn the client's errors into one-line messages: what is wrong, where, and what to do."""
        from huggingface_hub import errors

        try:
            yield
        except errors.HFValidationError:
            raise BadInput(f"the repository is {self.name!r}; it must be USER/NAME") from None
        except errors.OfflineModeIsEnabled:
            raise Refused("HF_HUB_OFFLINE is set, so nothing is sent or fetched; unset it") from None
        except errors.HfHubHTTPError as error:
            raise self._readable_error(error) from None
        except errors.LocalEntryNotFoundError as error:
            raise BlindspotError(f"cannot reach {self.endpoint} ({_first_line(error.__cause__ or error)})") from None
        except errors.HTTPError as error:
            raise BlindspotError(
                f"cannot reach {self.endpoint} ({_first_line(error)}); check the network and HF_ENDPOINT"
            ) from None

    def _readable_error(self, error: Exception) -> BlindspotError:
        from huggingface_hub import errors, get_token

        response = getattr(error, "response", None)
        status = getattr(response, "status_code", None)
        message = "" if response is None else response.headers.get("X-Error-Message", "")
        if status == 401 and (not get_token() or "Invalid" in message or "token" in message.lower()):
            had = "refused the token" if get_token() else "wants a token"
            return Refused(f"{self.endpoint} {had}; {SIGN_IN}")
        if status == 403:
            return Refused(f"the token may not do this in {self.name} on {self.endpoint}; {SIGN_IN} with another token")
        if isinstance(error, (errors.RepositoryNotFoundError, errors.GatedRepoError)):
            return Missing(f"there is no {self.type} {self.name} on {self.endpoint}, or the token may not read it")
        return BlindspotError(f"{self.endpoint} answered {status or 'with an error'}: {_first_line(error)}")


def check_inside(path: str, repository_name: str) -> None:
    """Raise BadInput for a path that leads out of the repository."""
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or "\\" in path or "\0" in path or ".." in pure.parts or ":" in pure.parts[0]:
        raise BadInput(
            f"the repository names the file {path[:100]!r}, which leads out of it; nothing was taken", repository_name
        )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]

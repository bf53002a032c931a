"""List the servers named in the parts of a study, to which its texts would be sent with a person's consent."""

from __future__ import annotations

from collections.abc import Iterator

from blindspot.backend.core.consent import server_of
from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.judge import llm_judges
from blindspot.backend.retrieval import milvus
from blindspot.db.errors import BlindspotError


def servers_used(study: Study) -> dict[str, list[str]]:
    """Return each server (see `server_of`) with the parts of the study that name it."""
    users_by_server: dict[str, list[str]] = {}
    for part, address in _addresses(study):
        try:
            users_by_server.setdefault(server_of(address), []).append(part)
        except BlindspotError:  # a file of this machine, or no address at all
            continue
    return users_by_server


def _addresses(study: Study) -> Iterator[tuple[str, str]]:
    for name, about in llm_judges(study).items():
        yield f"judge {name}", str(about.get("endpoint"))
    for name in study.parts("indexes"):
        path = study.path("indexes", name, milvus.FILE)
        if path.is_file():
            yield f"index {name}-milvus", milvus.with_port(str(read_object(path).get("uri")))

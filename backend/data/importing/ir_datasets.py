"""Import a dataset by its ir_datasets id, such as `ir:beir/scifact/test`. It is first written as a BEIR folder and then
imported.

The collection is streamed, so memory does not grow with its size. ir_datasets downloads what it needs into its own folder
(`~/.ir_datasets`, or $IR_DATASETS_HOME).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from blindspot.backend.data.formats.base import SPLIT_NAMES
from blindspot.backend.data.formats.beir import write_qrels
from blindspot.backend.data.formats.files import write_json_lines
from blindspot.backend.data.importing.tools import ThrottledProgress
from blindspot.backend.progress import Progress
from blindspot.db.errors import BadInput, BlindspotError

PREFIX = "ir:"


def is_ir_id(source: str | Path) -> bool:
    """Return whether the source of an import is an ir_datasets id instead of a file."""
    return str(source).startswith(PREFIX)


def split_of(id: str) -> str:
    """Return the split named in an ir_datasets id. If several parts of the id name a split, the last one counts; "test"
    if there is none.
    """
    return next((SPLIT_NAMES[part] for part in reversed(id.split("/")) if part in SPLIT_NAMES), "test")


@contextmanager
def ir_dataset_folder(
    source: str,
    parent: Path,
    passages: bool,
    questions: bool,
    split: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Path]:
    """Write a dataset as a BEIR folder inside `parent`, and delete it at the end of the `with` block.

    For a passage without text, the title becomes the text. A query that is not in the qrels is unlabelled.

    Args:
        source: "ir:" and an id.
        split: of the judged questions; default `split_of` the id.

    Raises:
        Missing: ir_datasets is not installed. BadInput: an unknown id, or one without documents or queries.
        BlindspotError: its files cannot be fetched.
    """
    id = source.removeprefix(PREFIX).strip("/")
    dataset, report = _load_dataset(id), ThrottledProgress(progress)
    for wanted, kind in ((passages, "docs"), (questions, "queries")):
        if wanted and not getattr(dataset, f"has_{kind}")():
            raise BadInput(f"{PREFIX}{id} has no {kind}; name one of its parts, as `ir_datasets list` shows them")
    with TemporaryDirectory(prefix=".ir-", dir=parent) as temporary:
        folder = Path(temporary) / "-".join(f"ir-{id}".split("/"))
        folder.mkdir()
        try:
            if passages:
                write_json_lines(folder / "corpus.jsonl", _documents(dataset, report))
            if questions:
                write_json_lines(folder / "queries.jsonl", _queries(dataset))
                (folder / "qrels").mkdir()
                if dataset.has_qrels():
                    _write_qrels(folder / "qrels" / f"{split or split_of(id)}.tsv", dataset)
        except (OSError, RuntimeError, ValueError, KeyError, EOFError) as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise BlindspotError(
                f"ir_datasets cannot read {PREFIX}{id} ({first}); check the network and its notes on it"
            ) from error
        yield folder


def _load_dataset(id: str) -> Any:
    import ir_datasets

    try:
        return ir_datasets.load(id)
    except KeyError:
        near = difflib.get_close_matches(id, list(ir_datasets.registry), n=3, cutoff=0.5)
        hint = f"; close ids: {', '.join(near)}" if near else "; 'ir_datasets list' shows its ids"
        raise BadInput(f"ir_datasets knows no dataset {id!r}{hint}") from None


def _documents(dataset: Any, report: ThrottledProgress) -> Iterator[dict[str, str]]:
    total = dataset.docs_count() if hasattr(dataset, "docs_count") else None
    for done, document in enumerate(dataset.docs_iter(), 1):
        title = getattr(document, "title", None) or ""
        text = getattr(document, "text", None) if title else None
        text = text if isinstance(text, str) else document.default_text()
        yield {"_id": document.doc_id, "title": _one_line(title), "text": text if text.strip() else title}
        report(done, total, "reading passages")


def _queries(dataset: Any) -> Iterator[dict[str, str]]:
    for query in dataset.queries_iter():
        yield {"_id": query.query_id, "text": query.default_text()}


def _write_qrels(path: Path, dataset: Any) -> None:
    """Write the qrels. If a pair has several judgements, the highest grade is written."""
    grades: dict[tuple[str, str], int] = {}
    for row in dataset.qrels_iter():
        pair = row.query_id, row.doc_id
        grades[pair] = max(int(row.relevance), grades.get(pair, int(row.relevance)))
    write_qrels(path, ((*pair, grade) for pair, grade in grades.items()))


def _one_line(title: str) -> str:
    return " ".join(title.split())

"""A folder of .md and .txt files, which are split into passages like the articles of the format `articles`, with the
same settings.

Subfolders are read too. Files and folders whose names begin with a dot are skipped. The title is the file's first
Markdown heading, or else the file name. A passage's id is the file's path and the number of the block from 0:
"guide/setup.md-0".
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats.articles import SETTINGS, block_splitter
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, PassageBatch
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, text_blocks
from blindspot.db.errors import BadInput

SUFFIXES = (".md", ".txt")
_HEADING = re.compile(r"#{1,6}\s+(.*?)\s*#*$")


def recognise(file_head: Head) -> bool:
    return (
        file_head.folder
        and file_head.table is None
        and any(name.lower().endswith(SUFFIXES) for name in file_head.inside)
    )


def files(folder: Path) -> list[Path]:
    """Return the text files of a folder, sorted by path."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(place, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith(".")]
    if not found:
        raise BadInput(f"this folder holds no {' or '.join(SUFFIXES)} file", folder)
    return sorted(found)


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    """Yield the passages of each file."""
    cut = block_splitter({**SETTINGS, **options.settings})
    folder, found = (path, files(path)) if path.is_dir() else (path.parent, [path])
    for number, file in enumerate(found, 1):
        name = "-".join(file.relative_to(folder).as_posix().split())
        batch = PassageBatch(path=file, share=number / len(found))
        lines = [line for block in text_blocks(ByteSource(file)) for line in block.lines]
        text = "\n".join(lines)
        if has_invalid_utf8(text) or has_invalid_utf8(name):
            batch.problems.append(BadInput("this file contains bytes that are not UTF-8; save it as UTF-8", file))
        else:
            title = (
                next((match[1] for line in lines if (match := _HEADING.match(line))), None)
                if _is_markdown(file)
                else None
            )
            batch.rows = [(f"{name}-{block}", title or file.stem, passage) for block, passage in enumerate(cut(text))]
            batch.lines = [1] * len(batch.rows)
        yield batch


def _is_markdown(file: Path) -> bool:
    return file.suffix.lower() == ".md"


FORMATS = [
    Format(
        "texts",
        "passages",
        "a folder of .md and .txt files, cut into passages",
        recognise,
        read,
        files=files,
        settings=SETTINGS,
    )
]

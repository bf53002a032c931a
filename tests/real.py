"""Parts of the real data that are small enough for a test."""

import json
import lzma
from itertools import islice
from pathlib import Path


def first_passages(real_data: Path, count: int, folder: Path) -> Path:
    """The first `count` passages as a plain TSV (no passage there has a line break)."""
    path = folder / "passages.tsv"
    with lzma.open(real_data / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as source:
        path.write_text("".join(islice(source, count + 1)), encoding="utf-8")
    return path


def questions(real_data: Path, name: str) -> list[dict]:
    """The questions of one set, as in the file."""
    with lzma.open(real_data / "questions.jsonl.xz", "rt", encoding="utf-8") as source:
        return [question for line in source if (question := json.loads(line))["set"] == name]

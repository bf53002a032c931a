"""The results of the kit: one JSON line per finished item, and the table of all items for RESULTS.md."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from backend.core.manifest import write_text

FILE = "results.jsonl"
BEGIN, END = "<!-- benchmarks.gpu: begin -->", "<!-- benchmarks.gpu: end -->"
NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Row:
    """A row of the table. ours, peer: figures with their unit. ratio: ours against the peer, with its range."""

    what: str
    ours: str = NOT_MEASURED
    target: str = ""
    peer: str = ""
    ratio: str = ""


@dataclass(frozen=True)
class Result:
    """A finished item. data: what later items read, such as the values of one seed. about: hardware, versions, date."""

    item: str
    rows: tuple[Row, ...]
    seconds: float
    small: bool
    about: Mapping[str, str]
    data: Mapping[str, Any] = field(default_factory=dict)


class Results:
    """The results in a folder. Of several results of one item, the last one counts."""

    def __init__(self, folder: Path):
        self.file = folder / FILE
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, result: Result) -> None:
        """Append a result, and return once the disk has it."""
        with open(self.file, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def finished(self, small: bool) -> dict[str, Result]:
        """Return the finished items of this size. A line that a killed process left unfinished is skipped."""
        found = {}
        for line in self.file.read_text(encoding="utf-8").splitlines() if self.file.is_file() else ():
            try:
                held = json.loads(line)
            except ValueError:
                continue
            if held["small"] == small:
                found[held["item"]] = Result(**{**held, "rows": tuple(Row(**row) for row in held["rows"])})
        return found


def about(device: str) -> dict[str, str]:
    """Return hardware, versions and date."""
    import sentence_transformers
    import torch
    import transformers

    from benchmarks.machine import machine

    return {
        "machine": machine(),
        "device": device,
        "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}, transformers "
        f"{transformers.__version__}, sentence-transformers {sentence_transformers.__version__}",
        "date": time.strftime("%Y-%m-%d"),
    }


def table(items: Iterable[tuple[str, Sequence[Row]]], finished: Mapping[str, Result]) -> str:
    """Return the Markdown table. items: name of each item, and the rows that it will have, for items that are not
    finished.
    """
    lines = ["| item | what | target | ours | peer | ratio (range) |", "|---|---|---|---|---|---|"]
    machines: dict[str, list[str]] = {}
    for name, planned in items:
        result = finished.get(name)
        for row in result.rows if result else planned:
            lines.append(
                f"| `{name}` | {row.what} | {row.target} | {row.ours} | {row.peer or '–'} | {row.ratio or '–'} |"
            )
        if result:
            said = ", ".join(result.about[key] for key in ("machine", "versions", "date"))
            machines.setdefault(said, []).append(f"`{name}` ({result.seconds:,.0f} s)")
    notes = [f"{said}: {', '.join(names)}." for said, names in machines.items()]
    return "\n".join([*lines, "", *(notes or [f"Nothing has been run yet: every row is {NOT_MEASURED}."])])


def put_into(path: Path, text: str) -> None:
    """Replace what stands between the two markers of a Markdown file."""
    whole = path.read_text(encoding="utf-8")
    before, found, rest = whole.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not (found and ended):
        raise ValueError(f"{path} has no place for the table; add a line {BEGIN} and a line {END}")
    write_text(path, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")

"""The results of the kit: one JSON line per finished item, and the table of all items for RESULTS.md."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from blindspot.backend.core.manifest import write_text
from blindspot.db.errors import BlindspotError

FILE, ATTEMPTS = "results.jsonl", "attempts.jsonl"
BEGIN, END = "<!-- benchmarks.gpu: begin -->", "<!-- benchmarks.gpu: end -->"
NOT_MEASURED = "not measured"


class OutOfTime(BlindspotError):
    """The minutes are over; the item resumes with the same command."""


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
        _append(self.file, asdict(result))

    def finished(self, small: bool) -> dict[str, Result]:
        """Return the finished items of this size. A line that a killed process left unfinished is skipped."""
        return {
            held["item"]: Result(**{**held, "rows": tuple(Row(**row) for row in held["rows"])})
            for held in _records(self.file)
            if held["small"] == small
        }


class Attempts:
    """The starts and ends of items in a folder. An end has an `error` if the item raised; a killed process leaves a
    start without an end.
    """

    def __init__(self, folder: Path):
        self.file = folder / ATTEMPTS
        folder.mkdir(parents=True, exist_ok=True)

    def begin(self, item: str, small: bool) -> None:
        _append(self.file, {"item": item, "small": small, "date": time.strftime("%Y-%m-%d"), "ended": False})

    def end(self, item: str, small: bool, error: str = "") -> None:
        record = {"item": item, "small": small, "date": time.strftime("%Y-%m-%d"), "ended": True, "error": error}
        _append(self.file, record)

    def failures(self, small: bool) -> dict[str, str]:
        """Return the error of each item whose last end is one, with its date."""
        ends = {each["item"]: each for each in _records(self.file) if each["small"] == small and each["ended"]}
        return {name: f"{each['error']} ({each['date']})" for name, each in ends.items() if each["error"]}

    def killed(self, small: bool) -> dict[str, int]:
        """Return by item how many processes died in it."""
        found: dict[str, int] = {}
        for each in _records(self.file):
            if each["small"] == small:
                found[each["item"]] = found.get(each["item"], 0) + (-1 if each["ended"] else 1)
        return found


def _append(path: Path, record: Mapping[str, Any]) -> None:
    """Append a line, and return once the disk has it."""
    # A killed process may have left half a line; the newline ends it.
    broken = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with open(path, "a", encoding="utf-8") as file:
        file.write(("\n" if broken else "") + json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file. A line that a killed process left unfinished is skipped."""
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def one_line(error: Exception) -> str:
    """Return the type and the first line of an error, so that running out of memory is told from other errors."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def guarded(what: str, measure: Callable[[], list[Row]]) -> list[Row]:
    """Return the rows, or one row that says why there are none, a missing package or another error: the rest of the item
    is still measured.
    """
    try:
        return measure()
    except OutOfTime:
        raise
    except ImportError as error:
        row = Row(what, NOT_MEASURED, peer=one_line(error))
    except Exception as error:
        row = Row(what, f"failed: {one_line(error)}")
    print(f"    {what}: {row.peer or row.ours}", flush=True)
    release()
    return [row]


def release() -> None:
    """Return unused memory to the GPU, if there is one."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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


def table(
    items: Iterable[tuple[str, Sequence[Row]]], finished: Mapping[str, Result], failures: Mapping[str, str]
) -> str:
    """Return the Markdown table.

    Args:
        items: name of each item, and the rows that it will have, for items that are not finished.
        failures: the error of each item that raised.
    """
    lines = ["| item | what | target | ours | peer | ratio (range) |", "|---|---|---|---|---|---|"]
    machines: dict[str, list[str]] = {}
    for name, planned in items:
        result = finished.get(name)
        if result is None and name in failures:
            planned = [replace(row, ours=f"failed: {failures[name]}") for row in planned or [Row(name)]]
        for row in result.rows if result else planned:
            lines.append(
                "| "
                + " | ".join(
                    each.replace("|", "\\|")
                    for each in (f"`{name}`", row.what, row.target, row.ours, row.peer or "–", row.ratio or "–")
                )
                + " |"
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

"""The results of the checks on a GPU: one JSON line per finished check, and their table."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """A row of the table. ours, peer: figures with their unit. ratio: ours against the peer, with its range."""

    what: str
    ours: str
    target: str = ""
    peer: str = ""
    ratio: str = ""


def guarded(what: str, measure: Callable[[], list[Row]]) -> list[Row]:
    """Return the rows, or one that says why there are none, such as a missing peer: the rest is still measured."""
    try:
        return measure()
    except ImportError as error:
        row = Row(what, "not measured", peer=one_line(error))
    except Exception as error:
        row = Row(what, f"failed: {one_line(error)}")
    release()
    return [row]


def one_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def release() -> None:
    """Return unused memory to the GPU, if there is one."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def about(device: str) -> str:
    """Return hardware, versions and date in a line."""
    import sentence_transformers
    import torch
    import transformers

    from benchmarks.machine import machine

    return (
        f"{machine()}, device {device}, torch {torch.__version__}, CUDA {torch.version.cuda or 'none'}, transformers "
        f"{transformers.__version__}, sentence-transformers {sentence_transformers.__version__}, {time.strftime('%Y-%m-%d')}"
    )


def store(path: Path, check: str, rows: Sequence[Row], seconds: float, said: str) -> None:
    line = {"check": check, "rows": [asdict(row) for row in rows], "seconds": round(seconds, 1), "about": said}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def stored(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last result of each check. A line that a killed process left unfinished is skipped."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            result = json.loads(line)
        except ValueError:
            continue
        found[result["check"]] = result
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the Markdown table of the results, and a line that names each machine."""
    lines = ["| check | what | target | ours | peer | ratio (range) |", "|---|---|---|---|---|---|"]
    for check, result in found.items():
        for row in result["rows"]:
            cells = [f"`{check}`", row["what"], row["target"], row["ours"], row["peer"] or "–", row["ratio"] or "–"]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", *sorted({result["about"] for result in found.values()})])

"""Counts and times of the service, in Prometheus' text format (version 0.0.4)."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the time buckets."""

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counters and histograms. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = defaultdict(float)
        self._times: dict[tuple[str, Labels], list[float]] = {}
        self._about: dict[str, tuple[str, str]] = {}

    def count(self, name: str, about: str, by: float = 1, /, **labels: str) -> None:
        with self._lock:
            self._about[name] = "counter", about
            self._counts[name, tuple(sorted(labels.items()))] += by

    def time(self, name: str, about: str, seconds: float, /, **labels: str) -> None:
        """Add to a histogram over SECONDS."""
        with self._lock:
            self._about[name] = "histogram", about
            kept = self._times.setdefault((name, tuple(sorted(labels.items()))), [0.0] * (len(SECONDS) + 2))
            for place, bound in enumerate(SECONDS):
                kept[place] += seconds <= bound
            kept[-2] += 1
            kept[-1] += seconds

    def text(self, now: Iterable[tuple[str, str, dict[str, str], float]] = ()) -> str:
        """The page. `now`: gauges as (name, about, labels, value)."""
        with self._lock:
            lines: dict[str, list[str]] = defaultdict(list)
            about = dict(self._about)
            for (name, labels), value in self._counts.items():
                lines[name].append(_line(name, labels, value))
            for (name, labels), kept in self._times.items():
                for bound, value in zip((*map(str, SECONDS), "+Inf"), kept[:-1], strict=True):
                    lines[name].append(_line(f"{name}_bucket", (*labels, ("le", bound)), value))
                lines[name] += [_line(f"{name}_sum", labels, kept[-1]), _line(f"{name}_count", labels, kept[-2])]
        for name, words, given, value in now:
            about[name] = "gauge", words
            lines[name].append(_line(name, tuple(given.items()), value))
        return "".join(
            f"# HELP {name} {about[name][1]}\n# TYPE {name} {about[name][0]}\n" + "".join(rows)
            for name, rows in lines.items()
        )


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)
    return f"{name}{{{inside}}} {value:.10g}\n" if inside else f"{name} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def resident_bytes() -> int:
    """Memory of this process now; 0 where /proc does not tell."""
    import os

    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

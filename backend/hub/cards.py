"""Write the README.md of a pushed repository: the metadata header that the Hub reads, and a description of the
provenance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity

TAGS = ["blindspot", "information-retrieval"]


def with_dataset_header(card: str, title: str, files: Sequence[str]) -> str:
    """Put the metadata header in front of a card. For the Hub's viewer, each data file is a separate configuration."""
    from huggingface_hub import DatasetCardData

    configs = [
        {
            "config_name": "default" if len(files) == 1 else PurePosixPath(file).name.split(".")[0],
            "data_files": [{"split": "train", "path": file}],
        }
        for file in files
    ]
    data = DatasetCardData(pretty_name=title, tags=[*TAGS, "hard-negatives"], configs=configs or None)
    return f"---\n{data.to_yaml()}\n---\n\n{card}"


def study_card(study: Study, left_out: Sequence[str], pseudonyms: int) -> str:
    """Return the card of a whole study."""
    splits = ", ".join(
        f"{row['questions']:,} {' '.join(filter(None, (row['dataset'], row['split'])))}"
        for row in study.questions.counts()
    )
    lines = [
        f"# Study {study.settings.name}",
        "",
        "A study of [Blindspot](https://pypi.org/project/blindspot): passages, questions, runs, labels, training sets and models.",
        "Fetch it with `blindspot hub pull study USER/NAME --to DIR`.",
        "",
        f"- {quantity(len(study.corpus), 'passage')} (digest `{study.corpus.digest}`)",
        f"- questions: {splits or 'none'}",
        f"- runs: {', '.join(study.runs()) or 'none'}",
        f"- annotators: {quantity(pseudonyms, 'person')} under pseudonyms" if pseudonyms else "- annotators: as named",
        f"- not included: {', '.join(left_out)}",
        "",
        "Passages and questions keep the licences of their makers. Labels are the annotators' work: ask before you pass them on.",
        "",
    ]
    return with_dataset_header("\n".join(lines), f"Study {study.settings.name}", [])


def model_card(name: str, kind: str, record: Mapping[str, Any], library: str | None) -> str:
    """Return the card of an encoder or a judge.

    Args:
        record: its own record (training.json or manifest.json).
        library: the library that loads its files; None if only Blindspot does.
    """
    from huggingface_hub import ModelCardData

    data = ModelCardData(library_name=library or "blindspot", tags=[*TAGS, kind])
    facts = [
        f"- {key.replace('_', ' ')}: {value}"
        for key, value in record.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and key not in ("name", "folder")
    ]
    settings = record.get("settings")
    lines = [
        f"# {kind.capitalize()} {name}",
        "",
        f"Made with Blindspot. Fetch it into a study with `blindspot hub pull {kind} USER/NAME`.",
        "",
        "## How it was made",
        "",
        *(facts or ["The study has no record of how it was made."]),
        *([f"- settings: `{settings}`"] if settings else []),
        "",
    ]
    return f"---\n{data.to_yaml()}\n---\n\n" + "\n".join(lines)


def record_of(folder: Path) -> dict[str, Any]:
    """Return the record of a model's or judge's folder; {} if it has none."""
    for name in ("training.json", "manifest.json", "specialised.json"):
        if (folder / name).is_file():
            return read_object(folder / name)
    return {}

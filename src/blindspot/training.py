"""Training sets and models from Python: build, compare, export, train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.db.errors import BadInput
from blindspot.opened import OpenedStudy, as_list

if TYPE_CHECKING:
    import pandas as pd

DIFFERENCE_COLUMNS = ["question", "passage", "role_before", "source_before", "role_after", "source_after", "why"]


class StudyTraining(OpenedStudy):
    """Training sets and training."""

    def training_sets(self) -> pd.DataFrame:
        """Return the training sets, oldest first: training_set, made, and the counts of the manifest."""
        import pandas as pd

        from blindspot.backend.training_sets.training_set import training_sets

        parts = training_sets(self.study)
        return pd.DataFrame(
            [
                {"training_set": name, "made": manifest.get("made"), **_numbers(manifest)}
                for name, manifest in parts.items()
            ]
        )

    def training_set(self, name: str) -> pd.DataFrame:
        """Return the pairs of a training set, one a row; the columns are the fields of
        `blindspot.backend.training_sets.training_set.Pair`. Raises Missing, Refused.
        """
        import pandas as pd

        from blindspot.backend.training_sets.training_set import PAIRS, TrainingSet

        return pd.read_parquet(TrainingSet.open(self.study, name).folder / PAIRS)

    def build_training_set(self, name: str, runs: str | Sequence[str], **settings: Any) -> pd.DataFrame:
        """Build a training set as `blindspot training-set build` does, and return its pairs.

        Args:
            settings: the fields of `blindspot.backend.training_sets.spec.TrainingSetSpec`.

        Raises BadInput for an unknown setting and for invalid ones, Missing, Refused if the name is taken.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.training_sets.builder import build
        from blindspot.backend.training_sets.spec import TrainingSetSpec

        known = [field.name for field in fields(TrainingSetSpec) if field.name not in ("name", "runs")]
        if unknown := [setting for setting in settings if setting not in known]:
            raise BadInput(f"unknown setting of a training set {unknown[0]!r}; known: {', '.join(known)}")
        jobs.run(build, self.study, name, as_list(runs), **settings)
        return self.training_set(name)

    def diff_training_sets(self, before: str, after: str) -> pd.DataFrame:
        """Return the pairs whose role differs between two training sets, one a row, with the reason.

        The columns are question, passage, role_before, source_before, role_after, source_after and why; a role is
        missing if the set lacks the pair. Raises Missing.
        """
        import pandas as pd

        from blindspot.backend.training_sets.differences import diff
        from blindspot.backend.training_sets.training_set import TrainingSet

        old, new = (TrainingSet.open(self.study, name) for name in (before, after))
        rows = [
            (
                change.question,
                change.passage,
                *(change.before or (None, None)),
                *(change.after or (None, None)),
                change.why,
            )
            for change in diff(old, new)
        ]
        return pd.DataFrame(rows, columns=DIFFERENCE_COLUMNS)

    def export_training_set(self, name: str, format: str, path: str | Path | None = None, **options: Any) -> Path:
        """Write a training set in the format of a trainer, and return the folder.

        Args:
            format: as in `blindspot training-set formats`.
            path: a new folder; default named after the set and the format, in the current folder.
            options: negatives, draw, seed, template and rows, as in `blindspot training-set export`.

        Raises BadInput for an unknown or invalid option, Refused if the folder exists, Missing.
        """
        from blindspot.backend.core.declared import build_settings as settings_of
        from blindspot.backend.training_sets.exports import export
        from blindspot.backend.training_sets.exports.base import ExportOptions

        return export(self.study, name, format, path, settings_of(ExportOptions, options)).path

    def train_adapter(
        self,
        name: str,
        training_set: str | None = None,
        encoder: str = "minilm",
        run: str | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Train an adapter of question vectors over an encoder's index, as `blindspot train adapter` does.

        Args:
            training_set: what it learns from; without one, the judge `distil` teaches.
            encoder: an encoder of study.toml with a dense index.
            run: the run whose lists the judge teaches; default the one that it learned from.
            settings: the options of `blindspot train adapter`, with underscores, and `replace`.

        Returns a record of the training: questions, scale, steps, held_out, and Success@20 of the held-out questions
        before and after (None without held-out questions). Afterwards retrieve("dense", encoder=name) searches with the
        adapter. Raises BadInput for an unknown setting, Refused, Missing.
        """
        from blindspot.backend.training.adapter import train_adapter

        return self._train(train_adapter, settings, name, training_set, encoder=encoder, run=run)

    def train_dual_encoder(
        self,
        name: str,
        training_set: str | None = None,
        start: str = "minilm",
        run: str | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Train a dual encoder, as `blindspot train dual-encoder` does, and add it to study.toml.

        Args:
            training_set, run: as for `train_adapter`.
            start: the initial model: an encoder of study.toml, a folder or a Hugging Face name.
            settings: the options of `blindspot train dual-encoder`, with underscores, and `replace`, `device`.

        Returns a record of the training. Then run index("dense", encoder=name). Raises BadInput for an unknown setting,
        Refused, Missing.
        """
        from blindspot.backend.training.dual_encoder import train_dual_encoder

        return self._train(train_dual_encoder, settings, name, training_set, start=start, run=run)

    def train_cross_encoder(
        self, name: str, training_set: str, start: str = "minilm", **settings: Any
    ) -> dict[str, Any]:
        """Train a cross-encoder on the negatives of a training set, as `blindspot train cross-encoder` does.

        Args:
            start: the initial model: minilm, a folder or a Hugging Face name.
            settings: the options of `blindspot train cross-encoder`, with underscores, and `replace`, `device`.

        Returns a record of the training. Raises BadInput for an unknown setting, Refused, Missing.
        """
        from blindspot.backend.training.cross_encoder import train_cross_encoder

        return self._train(train_cross_encoder, settings, name, training_set, start=start)

    def _train(
        self, function: Callable[..., Any], settings: dict[str, Any], *names: str | None, **more: Any
    ) -> dict[str, Any]:
        from blindspot.backend.core import jobs

        of_job = {name: settings.pop(name) for name in ("replace", "device") if name in settings}
        return asdict(jobs.run(function, self.study, *names, settings=settings, **of_job, **more))


def _numbers(manifest: dict[str, Any]) -> dict[str, int]:
    counts = manifest.get("counts", {})
    return {name: value for name, value in counts.items() if isinstance(value, int)}

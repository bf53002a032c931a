"""The workbench of experiments: a study with additional parts that only experiments need. Each such part is named by a
hash of its recipe, that is, of everything that it depends on.

The parts are in `experiments/parts/`, which has the same subfolders as a study (runs, training_sets, models, indexes,
scores). Experiments share parts. The study's lists of runs and encoders do not show them.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from blindspot.backend.core.manifest import read_object, text_sha256, write_json
from blindspot.backend.core.model_files import locate_model
from blindspot.backend.core.settings import EncoderSettings, Settings
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.experiments.parts import Part

PART = re.compile(r"\.?(parts-)?part-[0-9a-f]{16}([.~].*)?")
KINDS = ("runs", "training_sets", "models", "indexes", "scores", "readings")


class Workbench(Study):
    """A study that can also make, find and open parts of experiments by name.

    device: the device of trainings and encoders; None for a GPU if there is one.
    """

    def __init__(self, study: Study, device: str | None = None):
        super().__init__(study.folder)
        self.device = device
        self._encoders: dict[str, EncoderSettings] = {}
        self._names: dict[Part, str] = {}

    @property
    def home(self) -> Path:
        return self.folder / "experiments" / "parts"

    def path(self, *parts: str) -> Path:
        if len(parts) > 1 and parts[0] in KINDS and PART.fullmatch(parts[1]):
            parts = ("experiments", "parts", *parts)
        return super().path(*parts)

    @property
    def settings(self) -> Settings:
        """The study's settings, with the models trained by experiments as further encoders."""
        settings = super().settings
        models = self.home / "models"
        for path in models.glob("part-*/training.json") if models.is_dir() else ():
            if path.parent.name not in self._encoders and (result := read_object(path)).get("kind") == "dual encoder":
                self._encoders[path.parent.name] = EncoderSettings(
                    model=str(path.parent),
                    passage_template=result["start"]["passage_template"],
                    max_tokens=result["settings"]["passage_tokens"],
                )
        return replace(settings, encoders={**settings.encoders, **self._encoders})

    @cached_property
    def _digest(self) -> str:
        """Return a hash of the passages and of all data about the questions."""
        names = [field.name for field in fields(Question)]  # flat: `asdict` would copy every value
        rows = (
            json.dumps({name: getattr(question, name) for name in names}, sort_keys=True)
            for question in self.questions.all()
        )
        return text_sha256(self.corpus.digest, *rows)

    @cached_property
    def _weights(self) -> dict[str, str]:
        return {}

    def weights(self, encoder: str) -> str:
        """Return a hash of the settings and weights of an encoder of the study.

        Raises Missing for an unknown encoder.
        """
        from blindspot.backend.recipes.settings import weights_of

        if encoder not in self._weights:
            known = super().settings.encoders
            if encoder not in known:
                raise Missing(
                    f"study.toml has no encoder {encoder!r}; known: {', '.join(known) or 'none'} (add one with "
                    "'blindspot encoder add')"
                )
            folders = [known[encoder].model, known[encoder].question_model, known[encoder].passage_model]
            hashes = [weights_of(Path(locate_model(folder))) or folder for folder in folders if folder]
            self._weights[encoder] = text_sha256(
                json.dumps(asdict(replace(known[encoder], model=None, question_model=None, passage_model=None))),
                *hashes,
            )
        return self._weights[encoder]

    def name(self, part: Part) -> str:
        """Return the name of a part: its own, or a hash of its recipe."""
        if part not in self._names:
            recipe = json.dumps(part.recipe(self), sort_keys=True)
            self._names[part] = part.own_name(self) or f"part-{text_sha256(self._digest, recipe)[:16]}"
        return self._names[part]

    def make(self, part: Part, progress: Progress | None = None) -> str:
        """Make a part and the parts that it needs, unless they exist, and return its name."""
        for needed in part.needs():
            self.make(needed, progress)
        name = self.name(part)
        if not part.finished(self):
            part.make(self, name, progress)
            self.home.mkdir(parents=True, exist_ok=True)
            write_json(self.record(part), {"part": part.title(), "recipe": part.recipe(self)})
        return name

    def record(self, part: Part) -> Path:
        """Return the file with the recipe of a part."""
        return self.home / f"{self.name(part)}.{type(part).__name__}.json"

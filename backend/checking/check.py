"""Check a file of training data. The command line, the Python interface and the app call this module. Each check stores
its data in a study.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.backend.checking.building import CheckedStudy, build_study, open_checked, source_sha256
from blindspot.backend.checking.cleaned_file import Changes, Outcome, outcome, plan_changes, write_changed
from blindspot.backend.checking.facts import BatchSize, FileFacts, FileFinding, facts
from blindspot.backend.checking.judging import judge_sample, labels_of_judge
from blindspot.backend.checking.reading import TrainingFile, open_training_file
from blindspot.backend.checking.row_files import InMemory
from blindspot.backend.checking.rules import MiningRule, RuleCurve, compare_rules, parse_rule
from blindspot.backend.checking.sample import (
    DRAWS,
    JudgedDraws,
    PairId,
    RateEstimate,
    SamplePlan,
    WidthForecast,
    draw_sample,
    estimate_rate,
    forecast_widths,
    judged_draws,
    peoples_labels,
    planned_widths,
    read_sample,
    trace,
)
from blindspot.backend.checking.words import cleaning_card, forecast_words, planned_words
from blindspot.backend.core.made_from import CHECK
from blindspot.backend.core.manifest import read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused

FACTS = "facts.json"
PEOPLE = "people"


@dataclass
class Check:
    """A checked training file, and the study that holds its passages, questions and labels.

    Attributes:
        file: The file. checked_study: The study that was made of it. facts: What was seen at once. judge: Whose labels
            count;
        None for people's.
    """

    file: TrainingFile
    checked_study: CheckedStudy
    facts: FileFacts
    judge: str | None = None

    @property
    def study(self) -> Study:
        """The study of this check. The app opens it like any other study."""
        return self.checked_study.study

    @property
    def labels(self) -> dict[PairId, str]:
        """The labels used for the estimates, by (question id, passage id): those of `judge`, or else people's."""
        if self.judge is None:
            return peoples_labels(self.checked_study)
        made = read_sample(self.checked_study)
        return {} if made is None else labels_of_judge(self.checked_study, made, self.judge)

    @property
    def by(self) -> str:
        return PEOPLE if self.judge is None else f"the judge {self.judge}"

    def draw(
        self, pairs: int = DRAWS, seed: int = 0, encoder: str | None = None, progress: Progress | None = None
    ) -> SamplePlan:
        """Draw negative pairs to judge, or extend the sample to this number, and queue them as a batch of the study.

        Args:
            encoder: An encoder of the study. Similar pairs are drawn more often. Only the first call uses it.
        """
        return draw_sample(self.checked_study, pairs, encoder, seed, progress)

    def judge_with(self, judge: str, progress: Progress | None = None) -> None:
        """Let a judge of the study, or a cross-encoder given by folder or name, judge the drawn pairs. Draws pairs
        first if there are none.
        """
        self.judge = judge_sample(self.checked_study, read_sample(self.checked_study) or self.draw(), judge, progress)

    def rate(self, level: float = LEVEL) -> RateEstimate | None:
        """Return the share of false negatives estimated from the labels so far, with its interval. None before pairs
        are drawn.
        """
        return estimate_rate(self.checked_study, self.labels, self.by, level)

    def forecast(self) -> list[WidthForecast]:
        """Return what the next labels are expected to leave of the rate's interval; nothing where it cannot be said."""
        judged, rate = self.judged(), self.rate()
        return [] if judged is None or rate is None else forecast_widths(judged, rate)

    def outlook(self) -> str:
        """Say how long the rate's interval will be after some more labels; "" where it cannot be said."""
        rate = self.rate()
        if rate is None or not rate.judged:
            return planned_words(planned_widths(self.checked_study))
        return forecast_words(rate, self.forecast())

    def judged(self) -> JudgedDraws | None:
        return judged_draws(self.checked_study, self.labels)

    def trace(self, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return three arrays for a chart: estimate, lower end and upper end of the rate after each label. They are
        empty before the first label.
        """
        judged, rate = self.judged(), self.rate(level)
        if judged is None or rate is None or not len(judged):
            return np.zeros(0), np.zeros(0), np.zeros(0)
        middle, low, high = (
            (rate.known_false + share * len(judged.pairs)) / rate.pairs for share in trace(judged, level)
        )
        return middle, low, high

    def rules(self, level: float = LEVEL) -> RuleCurve:
        """Compare the rules that drop negatives, using the labels so far."""
        return compare_rules(self.checked_study, self.judged(), level)

    def changes(self, relabel: bool = True, rule: MiningRule | str | None = None) -> Changes:
        """Return the changes that `write` would make. Raises BadInput for a rule that needs scores or labels that are
        missing.
        """
        chosen = parse_rule(rule) if isinstance(rule, str) else rule
        return plan_changes(self.file, self.checked_study, self.labels, relabel, chosen, self.by)

    def write(
        self, out: str | Path, relabel: bool = True, rule: MiningRule | str | None = None
    ) -> tuple[int, list[Path]]:
        """Write the file without its false negatives, the list of changes and the card. Returns the number of rows and
        the paths.
        """
        return self.write_changes(out, self.changes(relabel, rule), rule)

    def write_changes(
        self, out: str | Path, changes: Changes, rule: MiningRule | str | None = None
    ) -> tuple[int, list[Path]]:
        """Write as `write` does, with changes that were planned with a rule."""
        chosen, curve = parse_rule(rule) if isinstance(rule, str) else rule, self.rules()
        result = self.outcome(curve, chosen)
        card = cleaning_card(
            self.file.path.name, self.file.name, self.facts, self.rate(), curve, changes, chosen, result
        )
        return write_changed(self.file, self.checked_study, changes, Path(out), card)

    def outcome(self, curve: RuleCurve, rule: MiningRule | None = None) -> Outcome | None:
        """Return what a cleaned file will have; None where the labels say nothing of its rate, as of a rule that is not in
        the comparison.
        """
        if rule is None:
            rate = self.rate()
            shares = None if rate is None else rate.of_drawable
        else:
            row = curve.row_of(rule)
            shares = None if row is None or np.isnan(row.false_share) else (row.false_share, *curve.bounds(row)[:2])
        return None if shares is None else outcome(self.checked_study, self.labels, rule, shares)

    def cleaned(self, relabel: bool = True, rule: MiningRule | str | None = None) -> Any:
        """Return the Dataset or DataFrame without its false negatives. Raises Refused if the check is of a file on
        disk.
        """
        if not isinstance(self.file.file, InMemory):
            raise Refused("this is the check of a file; call .write(OUT)")
        return self.file.file.cleaned(self.changes(relabel, rule).replacements)

    def as_json(self) -> dict[str, Any]:
        """Return the whole result as the object that `blindspot check --json` prints."""
        rate = self.rate()
        return {
            "file": str(self.file.path),
            "form": self.file.name,
            "study": str(self.study.folder),
            "facts": self.facts.as_json(),
            "rate": None if rate is None else rate.as_json(),
            "forecast": [asdict(each) for each in self.forecast()],
            "rules": self.rules().as_json(),
        }


def check(
    source: Any,
    study: str | Path | None = None,
    held_out: Iterable[str] = (),
    collection: str | Path | None = None,
    queries: str | Path | None = None,
    progress: Progress | None = None,
) -> Check:
    """Check a file of training data, or a Dataset or DataFrame in memory. Does not draw a sample yet.

    Args:
        source: A file or folder, or a `datasets.Dataset`, or a DataFrame.
        study: The folder of the study that is made of it, or was made of it before. Default: FILE.check beside the
        file; of data in memory, a temporary folder.
        held_out: Questions of dev and test sets, to look for leaks.
        collection, queries: Where the texts of ids are.

    Raises:
        BadInput: no file of a known form, or a wrong row. Refused: the study belongs to another file.
    """
    file = open_training_file(
        source, None if collection is None else Path(collection), None if queries is None else Path(queries)
    )
    in_memory = isinstance(file.file, InMemory)
    if study is None:
        beside = file.path.with_name(file.path.name + ".check")
        folder = Path(tempfile.mkdtemp(prefix="blindspot-check-")) if in_memory else beside
    else:
        folder = Path(study)
    if (folder / CHECK).is_dir():
        checked = open_checked(Study.open(folder))
        if in_memory or checked.manifest["sha256"] != source_sha256(file.path):
            raise Refused(f"{folder} was made of another file, or the file changed since; give another --study")
    else:
        checked = build_study(file, folder, progress)
    return Check(file, checked, _facts(file, checked, list(held_out)))


def open_check(study: Study) -> Check:
    """Open the check that is stored in a study. Raises Missing if the study holds no check, and BadInput if the checked
    file is gone.
    """
    checked = open_checked(study)
    beside = {role: Path(path) for role, path in checked.manifest["beside"].items()}
    file = open_training_file(checked.manifest["source"], beside.get("collection"), beside.get("queries"))
    return Check(file, checked, _facts(file, checked, []))


def _facts(file: TrainingFile, checked_study: CheckedStudy, held_out: list[str]) -> FileFacts:
    """Return the facts of the file. Stored facts are reused unless other held-out questions are given."""
    path = checked_study.folder / FACTS
    if path.is_file() and not held_out:
        plain = read_json(path)
        findings = [FileFinding(**{**each, "lines": tuple(each["lines"])}) for each in plain.pop("findings")]
        batches = plain.pop("batches")
        return FileFacts(
            **plain, findings=findings, batches=None if batches is None else [BatchSize(**each) for each in batches]
        )
    found = facts(checked_study, [*held_out, *file.held_out_questions()])
    write_json(path, found.as_json())
    return found


def questions_in(path: str | Path) -> list[str]:
    """Return the questions of a dev or test file: training data, JSON lines or a table with a column of questions, or
    plain lines.
    """
    from blindspot.backend.checking.formats.base import QUESTIONS
    from blindspot.backend.checking.row_files import open_rows

    file = open_rows(path)
    column = next((name for name in (*QUESTIONS, "text") if name in file.columns), file.columns[0])
    return [str(values[column]) for _, values in file.rows() if not re.fullmatch(r"\s*", str(values[column]))]

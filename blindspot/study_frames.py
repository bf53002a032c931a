"""`blindspot.Study`: one study, with its parts as pandas DataFrames."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from backend.core.study import Study
from backend.evaluation.relevance import Kind
from backend.text.answers import DEFAULT_RULE
from db.errors import BadInput
from db.labels import Labels
from db.records import Hits

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

Table = Literal["relation", "bucket", "slice"]
PASSAGE_COLUMNS = ["passage", "title", "text"]
RUN_COLUMNS = ["question", "rank", "passage", "score", "answer"]
TITLES_PER_READ = 100_000


class StudyFrames:
    """An open study.

    Attributes:
        study: the underlying study, for everything that has no method here. Its functions are not a stable interface.
    """

    def __init__(self, study: Study):
        self.study = study

    @classmethod
    def open(cls, folder: str | Path | None = None) -> StudyFrames:
        """Open the study in a folder (default $BLINDSPOT_STUDY, else the current folder). Raises Missing."""
        return cls(Study.open(folder))

    def __repr__(self) -> str:
        return f"Study({str(self.study.folder)!r})"

    @property
    def folder(self) -> Path:
        """The study's folder."""
        return self.study.folder

    def questions(self, split: str | None = None) -> pd.DataFrame:
        """Return the questions of a split, or all, one a row in the order of import.

        The columns are the fields of `db.records.Question`; `id` is named `question`. `answers` and `gold` hold tuples.
        """
        import pandas as pd

        rows = [asdict(question) for question in self.study.questions.all(split=split)]
        return pd.DataFrame(rows).rename(columns={"id": "question"})

    def passages(self, ids: Iterable[str]) -> pd.DataFrame:
        """Return the passages with these ids, in this order: passage, title, text. Raises BadInput for an unknown
        id.
        """
        import pandas as pd

        ids = list(ids)
        rows = self._passage_rows(ids)
        found = self.study.corpus.passages([rows[id] for id in ids])
        return pd.DataFrame([(p.id, p.title, p.text) for p in found], columns=PASSAGE_COLUMNS)

    def runs(self) -> pd.DataFrame:
        """Return the runs, oldest first: run, retriever, k, questions, split, search_seconds, made."""
        import pandas as pd

        columns = ["retriever", "k", "questions", "split", "search_seconds", "made"]
        parts = self.study.parts("runs")
        rows = [[name, *(manifest.get(column) for column in columns)] for name, manifest in parts.items()]
        return pd.DataFrame(rows, columns=["run", *columns])

    def run(self, name: str, k: int | None = None) -> pd.DataFrame:
        """Return the hits of a run, one a row, best first within a question: question, rank, passage, score, answer.

        Args:
            k: the hits of each question to return; default all.

        `answer` says whether the passage contains an answer by the run's own rule. Raises Missing for an unknown run.
        """
        import pandas as pd

        from backend.core.runs import answer_matrix

        run = self.study.run(name)
        ordinals = np.asarray(run.hits.ordinals)[:, :k]
        present = ordinals >= 0
        question, column = np.nonzero(present)
        rows = ordinals[present]
        return pd.DataFrame(
            {
                "question": np.array(run.question_ids, dtype=object)[question],
                "rank": column + 1,
                "passage": self._ids_of(rows),
                "score": np.asarray(run.hits.scores)[:, :k][present],
                "answer": np.asarray(answer_matrix(self.study, run))[:, :k][present],
            },
            columns=RUN_COLUMNS,
        )

    def add_run(self, name: str, hits: pd.DataFrame, replace: bool = False) -> None:
        """Store hits of your own as a run.

        Args:
            hits: one hit a row, with the columns question, passage and score. Equal scores are ordered by the
                passage's row in the collection.
            replace: replace a run of this name.

        Raises BadInput for a missing column, an unknown question or passage, a passage twice in one list, or a score
        that is no finite number; Refused if the run exists.
        """
        from backend.core.runs import write_run
        from backend.retrieval.retriever import top_k

        if absent := [column for column in ("question", "passage", "score") if column not in hits.columns]:
            raise BadInput(f"the hits lack the column {absent[0]!r}; they need question, passage and score")
        if not len(hits):
            raise BadInput("there are no hits to store")
        questions = [str(each) for each in hits["question"]]
        order = list(dict.fromkeys(questions))
        self._check_questions(order)
        ids = [str(each) for each in hits["passage"]]
        known = self._passage_rows(ids)
        scores = np.asarray(hits["score"], dtype=np.float32)
        if not np.isfinite(scores).all():
            raise BadInput(f"the score of hit {int(np.flatnonzero(~np.isfinite(scores))[0]) + 1} is no finite number")
        place = {question: row for row, question in enumerate(order)}
        rows = np.array([place[question] for question in questions])
        passages = np.array([known[id] for id in ids], dtype=np.int32)
        pairs = np.stack([rows, passages], axis=1)
        if len(np.unique(pairs, axis=0)) < len(pairs):
            raise BadInput("a passage occurs twice in the list of one question")
        counts = np.bincount(rows)
        ordinals = np.full((len(order), counts.max()), -1, np.int32)
        values = np.full(ordinals.shape, -np.inf, np.float32)
        column = np.empty(len(rows), dtype=np.int64)
        by_question = np.argsort(rows, kind="stable")
        column[by_question] = np.arange(len(rows)) - np.repeat(counts.cumsum() - counts, counts)
        ordinals[rows, column], values[rows, column] = passages, scores
        best: Hits = top_k(ordinals, values, ordinals.shape[1])
        write_run(self.study, name, order, best, {"retriever": "imported", "made_by": "Python"}, replace=replace)

    def retrieve(self, kind: str, **options: Any) -> str:
        """Search every question with a retriever, store the run, and return its name.

        Args:
            kind: as in `blindspot retrieve --with`.
            options: k, split, name, rule, replace, device and the options of the kind, as in `blindspot retrieve`.

        Raises as the command does.
        """
        from backend.core import jobs
        from backend.retrieval.retrieve import retrieve

        return jobs.run(retrieve, self.study, kind, **options).name

    def report(
        self,
        runs: Sequence[str] | None = None,
        by: Literal["relation", "bucket", "split", "slice"] | None = None,
        relevance: Kind = "answers",
        rule: str = DEFAULT_RULE,
        ks: Sequence[int] = (1, 5, 20, 100),
        measures: Sequence[str] = (),
    ) -> pd.DataFrame:
        """Return the accuracy of runs, one figure a row, as `blindspot report --csv` writes it.

        The columns are run, relevance, group, measure, k, value, n, n_groups, low, high and method.
        `attrs["convention"]` says how the figures were computed; `attrs["notes"]` holds warnings. Raises Missing,
        BadInput, Refused.
        """
        from backend.evaluation.report import report

        made = report(self.study, runs, by, relevance, rule, ks, measures=measures)
        notes = [*made.notes, *(f"{run.name}: {note}" for run in made.runs for note in run.notes)]
        return _frame(made.as_csv(), convention=made.convention, notes=notes)

    def compare(
        self,
        a: str,
        b: str,
        k: int | None = None,
        by: Table | None = None,
        relevance: Kind = "answers",
        rule: str = DEFAULT_RULE,
        slice: str = "",
        measure: str = "success",
    ) -> pd.DataFrame:
        """Compare two runs, one group of questions a row, as `blindspot compare --csv` writes it.

        Args:
            k: cut-off of the groups and the conclusion; default 5 for Success@k, 10 for other measures.
            by: adds groups by relation, bucket or saved slice.
            relevance: "answers", "gold" or "labels".
            slice: an expression; only its questions count.
            measure: "success", "mrr", "ndcg", "map", "recall" or "r-precision".

        `attrs` holds the conclusion, the reservation, the method and the notes. Raises Missing, BadInput, Refused.
        """
        from backend.evaluation.comparison_report import ComparisonOptions, compare_with

        made = compare_with(self.study, a, b, ComparisonOptions(k, by, relevance, rule, slice, measure))
        attributes = ("conclusion", "reservation", "method", "notes")
        return _frame(made.as_csv(), **{name: getattr(made, name) for name in attributes})

    def slices(
        self, a: str, b: str, k: int | None = None, slice: str = "", relevance: Kind = "answers"
    ) -> pd.DataFrame:
        """Return the slices in which the difference of two runs departs from the rest, as `compare --find-slices` does.

        The columns are slice, k, n, a, b, difference, low, high, outside, explained, p and p_adjusted;
        `attrs["method"]` explains the test. Raises Missing, BadInput.
        """
        from backend.evaluation.slice_report import find_in_runs, method

        made = find_in_runs(self.study, a, b, k, relevance, slice=slice)
        return _frame(made.as_csv(), method=method(made.found))

    def per_question(self, run: str, measure: str = "success", k: int = 5, relevance: Kind = "answers") -> pd.Series:
        """Return a measure of each measured question, indexed by question id, for tests and plots of your own.

        Raises BadInput for a measure that needs gold or labels, Missing, Refused.
        """
        import pandas as pd

        from backend.evaluation.comparison import measure as measured
        from backend.evaluation.measures import MEASURES

        chosen = MEASURES.get(measure)
        side = measured(self.study, run, relevance)
        if k > side.k or k < 1:
            raise BadInput(f"k is {k}; {run} has {side.k} hits per question")
        ids = [question.id for question in side.questions]
        return pd.Series(side.values(chosen, k), index=pd.Index(ids, name="question"), name=chosen.at(k))

    def labels(self, consensus: bool = True) -> pd.DataFrame:
        """Return the labels: the consensus of each judged pair, or every annotator's label.

        The columns of the consensus are question, passage, label, state and people; a pair in dispute has the state
        "open".
        """
        import pandas as pd

        from db.judgements import Consensus, Judgement

        store = Labels(self.study.labels_path)
        rows = store.consensus() if consensus else store.judgements()
        columns = list((Consensus if consensus else Judgement).__dataclass_fields__)
        return pd.DataFrame([asdict(row) for row in rows], columns=columns)

    def training_sets(self) -> pd.DataFrame:
        """Return the training sets, oldest first: training_set, made, and the counts of the manifest."""
        import pandas as pd

        from backend.training_sets.training_set import training_sets

        parts = training_sets(self.study)
        return pd.DataFrame(
            [
                {"training_set": name, "made": manifest.get("made"), **_numbers(manifest)}
                for name, manifest in parts.items()
            ]
        )

    def training_set(self, name: str) -> pd.DataFrame:
        """Return the pairs of a training set, one a row; the columns are the fields of
        `backend.training_sets.training_set.Pair`. Raises Missing, Refused.
        """
        import pandas as pd

        from backend.training_sets.training_set import PAIRS, TrainingSet

        return pd.read_parquet(TrainingSet.open(self.study, name).folder / PAIRS)

    def build_training_set(self, name: str, runs: Sequence[str], **settings: Any) -> pd.DataFrame:
        """Build a training set as `blindspot training-set build` does, and return its pairs.

        Args:
            settings: the fields of `backend.training_sets.spec.TrainingSetSpec`.

        Raises BadInput for an unknown setting and for invalid ones, Missing, Refused if the name is taken.
        """
        from backend.core import jobs
        from backend.training_sets.builder import build
        from backend.training_sets.spec import TrainingSetSpec

        known = [field.name for field in fields(TrainingSetSpec) if field.name not in ("name", "runs")]
        if unknown := [setting for setting in settings if setting not in known]:
            raise BadInput(f"unknown setting of a training set {unknown[0]!r}; known: {', '.join(known)}")
        jobs.run(build, self.study, name, list(runs), **settings)
        return self.training_set(name)

    def plot_relations(self, runs: Sequence[str], k: int = 20, relevance: Kind = "answers") -> Figure:
        """Return the plot of Success@k by relation of the Relations page, a plotly figure."""
        from analysis.relations import relation_order
        from backend.evaluation.comparison import measure_all
        from backend.evaluation.panel import Panel, relation_table
        from backend.evaluation.report_plots import dumbbell

        table = relation_table(Panel.of(measure_all(self.study, runs, relevance)), k)
        return dumbbell(table, list(runs), sorted((row.group for row in table.rows), key=relation_order))

    def plot_frequency(self, runs: Sequence[str], k: int = 20, relevance: Kind = "answers") -> Figure:
        """Return the plot of Success@k by mentions of the subject of the Relations page, a plotly figure."""
        from backend.evaluation.comparison import measure_all
        from backend.evaluation.panel import Panel, frequency_curves
        from backend.evaluation.report_plots import curve_plot

        return curve_plot(frequency_curves(Panel.of(measure_all(self.study, runs, relevance)), k), list(runs))

    def save_plot(self, figure: Figure, path: str | Path) -> Path:
        """Save a plot for a paper, in one column's width, as .pdf, .svg or .png. Raises BadInput for another ending."""
        from backend.evaluation.paper_plots import FORMS, paper_plot

        path = Path(path)
        form = next((each for each in FORMS if path.suffix == f".{each}"), None)
        if form is None:
            raise BadInput(f"{path.name} must end in {', '.join(f'.{each}' for each in FORMS)}")
        path.write_bytes(paper_plot(figure, form))
        return path

    def _passage_rows(self, ids: Sequence[str]) -> dict[str, int]:
        known = self.study.corpus.ordinals(dict.fromkeys(ids))
        if absent := next((id for id in ids if id not in known), None):
            raise BadInput(f"the study has no passage {absent!r}")
        return dict(known)

    def _check_questions(self, ids: Sequence[str]) -> None:
        known = {question.id for question in self.study.questions.all()}
        if absent := next((id for id in ids if id not in known), None):
            raise BadInput(f"the study has no question {absent!r}")

    def _ids_of(self, rows: np.ndarray) -> list[str]:
        """Return the ids of passage rows; each passage is read once."""
        unique, place = np.unique(rows, return_inverse=True)
        read: Callable[[list[int]], list[Any]] = self.study.corpus.passages
        ids = [
            passage.id
            for start in range(0, len(unique), TITLES_PER_READ)
            for passage in read(unique[start : start + TITLES_PER_READ].tolist())
        ]
        return np.array(ids, dtype=object)[place].tolist() if ids else []


def _frame(text: str, **attributes: Any) -> pd.DataFrame:
    import pandas as pd

    made = pd.read_csv(io.StringIO(text))
    made.attrs.update(attributes)
    return made


def _numbers(manifest: dict[str, Any]) -> dict[str, int]:
    counts = manifest.get("counts", {})
    return {key: value for key, value in counts.items() if isinstance(value, int)}

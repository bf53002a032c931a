"""Bring data into a study from Python: files, your own hits and labels, indexes and runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.db.errors import BadInput
from blindspot.db.records import Hits
from blindspot.opened import OpenedStudy, as_list

if TYPE_CHECKING:
    import pandas as pd

_GRADES = {"positive": 1, "negative": 0}


class StudyAdditions(OpenedStudy):
    """Imports, your own runs and labels, indexes, searches."""

    def import_passages(self, path: str | Path, format: str | None = None, settings: str | Sequence[str] = ()) -> int:
        """Import the passage collection as `blindspot import passages` does, and return the number of passages.

        Args:
            format: a name from docs/formats.md; default recognised from the content.
            settings: settings of the format, as "name=value".

        Raises BadInput with file and line, Refused if the study has another collection.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.data.importing.importer import import_passages

        return jobs.run(import_passages, self.study, str(path), format=format, settings=as_list(settings)).rows

    def import_questions(
        self,
        path: str | Path,
        format: str | None = None,
        split: str | None = None,
        dataset: str | None = None,
        settings: str | Sequence[str] = (),
    ) -> int:
        """Import questions as `blindspot import questions` does, and return their number.

        Args:
            format: a name from docs/formats.md; default recognised from the content.
            split, dataset: of the questions if the file names none.
            settings: settings of the format, as "name=value".

        Raises BadInput with file and line, Refused.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.data.importing.importer import import_questions

        chosen = as_list(settings)
        result = jobs.run(
            import_questions, self.study, str(path), format=format, split=split, dataset=dataset, settings=chosen
        )
        return result.rows

    def import_ir_dataset(self, id: str, split: str | None = None) -> int:
        """Import a dataset by its ir_datasets id, as `blindspot import questions ir:ID` does: passages if the study has
        none, questions and gold. Return the number of questions.

        Args:
            split: of the judged questions; default the one that the id names, else "test".

        Raises BadInput for an unknown id, Missing without the package ir_datasets, BlindspotError if its files cannot
        be fetched.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.data.importing.importer import import_passages, import_questions
        from blindspot.backend.data.importing.ir_datasets import PREFIX, ir_dataset_folder

        passages = not self.study.has_corpus
        with ir_dataset_folder(f"{PREFIX}{id}", self.folder, passages, True, split) as folder:
            if passages:
                jobs.run(import_passages, self.study, str(folder), format="beir")
            return jobs.run(import_questions, self.study, str(folder), format="beir", dataset=folder.name).rows

    def import_qrels(self, path: str | Path, format: str | None = None, settings: str | Sequence[str] = ()) -> int:
        """Import relevance judgements as gold, as `blindspot import qrels` does, and return the number of lines.

        Args:
            settings: settings of the format, as "name=value".

        Raises BadInput with file and line, Missing if the study has no questions or passages.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.data.importing.qrels import import_qrels

        return jobs.run(import_qrels, self.study, str(path), format=format, settings=as_list(settings)).rows

    def import_run(
        self, path: str | Path, name: str | None = None, format: str | None = None, split: str | None = None
    ) -> str:
        """Import a run file of another tool (TREC, DPR, Pyserini, MS MARCO), and return the run's name.

        Args:
            name: default from the file's name.
            split: the questions that the run covers; those that the file lacks count as not found.

        Raises BadInput with file and line, Refused if another run has the name.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.core.runs import run_name_of
        from blindspot.backend.data.importing.runs import import_run

        name = name or run_name_of(Path(path))
        jobs.run(import_run, self.study, str(path), name, format=format, split=split)
        return name

    def add_run(self, name: str, hits: pd.DataFrame, replace: bool = False) -> None:
        """Store your own hits as a run.

        Args:
            hits: one hit a row, with the columns question, passage and score. Equal scores are ordered by the
                passage's row in the collection.
            replace: replace a run of this name.

        Raises BadInput for a missing column, an unknown question or passage, a passage that occurs twice in one list,
        or a score that is not a finite number; Refused if the run exists.
        """
        from blindspot.backend.core.runs import write_run
        from blindspot.backend.retrieval.retriever import top_k

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

    def add_labels(self, labels: pd.DataFrame, annotator: str, by_person: bool = False) -> int:
        """Store labels, and return the number of new ones. Labels that are stored already are skipped.

        Args:
            labels: one pair a row, with the columns question, passage and label ("positive" or "negative").
            annotator: who gave the labels. A new annotator is a machine, whose labels count for no consensus.
            by_person: a person gave these labels.

        Raises BadInput for a missing column, an unknown label, question or passage; Refused for a machine's labels
        under a person's name, or the reverse.
        """
        import tempfile

        from blindspot.backend.data.formats.trec import write_qrels
        from blindspot.backend.judging.labels_io import import_labels

        if absent := [column for column in ("question", "passage", "label") if column not in labels.columns]:
            raise BadInput(f"the labels lack the column {absent[0]!r}; they need question, passage and label")
        columns = (labels[name].astype(str) for name in ("question", "passage", "label"))
        rows = list(zip(*columns, strict=True))
        if other := next((label for _, _, label in rows if label not in _GRADES), None):
            raise BadInput(f"a label is {other!r}; it must be one of {', '.join(_GRADES)}")
        self._check_questions([question for question, _, _ in rows])
        self._passage_rows([passage for _, passage, _ in rows])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "labels.qrels"
            write_qrels(path, ((question, passage, _GRADES[label]) for question, passage, label in rows))
            return import_labels(self.study, path, "qrels", annotator, by_person=by_person).stored

    def add_encoder(self, name: str, model: str | Path, **settings: Any) -> None:
        """Add an encoder to study.toml, after loading it once, as `blindspot encoder add` does.

        Args:
            model: a folder or a Hugging Face name.
            settings: the options of `blindspot encoder add`, with underscores.

        Raises BadInput for an unknown setting, Missing for a model that cannot be loaded, Refused if the name is taken
        or if loading the model would run its author's code.
        """
        from blindspot.backend.retrieval.adding_encoders import add_loaded_encoder

        place = str(Path(model).absolute()) if Path(model).is_dir() else str(model)
        add_loaded_encoder(self.study, name, {"model": place, **settings})

    def index(self, kind: str, encoder: str = "minilm", device: str | None = None) -> None:
        """Index the passages, as `blindspot index bm25` and `dense` do.

        Args:
            kind: "bm25" or "dense".
            encoder: of study.toml, for dense.
            device: of the encoder; default a GPU if there is one.

        Raises BadInput for another kind of index, Missing for an unknown encoder, Refused while another process builds
        the index.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.retrieval import bm25, dense

        if kind not in ("bm25", "dense"):
            raise BadInput(f"the kind of index is {kind!r}; it must be bm25 or dense")
        if kind == "bm25":
            jobs.run(bm25.build_index, self.study)
        else:
            jobs.run(dense.build_index, self.study, encoder, device=device)

    def retrieve(self, kind: str, **options: Any) -> str:
        """Search every question with a retriever, store the run, and return its name.

        Args:
            kind: as in `blindspot retrieve --with`.
            options: k, split, name, rule, replace, device and the options of the kind, as in `blindspot retrieve`.

        Raises the errors of `blindspot retrieve`.
        """
        from blindspot.backend.core import jobs
        from blindspot.backend.retrieval.retrieve import retrieve

        return jobs.run(retrieve, self.study, kind, **options).name

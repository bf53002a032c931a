"""The contents of a study as DataFrames: questions, passages, runs, hits, misses, labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.text.answers import DEFAULT_RULE
from blindspot.db.errors import BadInput
from blindspot.db.labels import Labels
from blindspot.opened import OpenedStudy, as_list

if TYPE_CHECKING:
    import pandas as pd

PASSAGE_COLUMNS = ["passage", "title", "text"]
RUN_COLUMNS = ["question", "rank", "passage", "score", "answer"]
MISS_COLUMNS = ["question", "text", "relation", "frequency", "rank", "gold", "top"]
WHY_COLUMNS = [
    "run", "retriever", "gold", "rank", "score", "margin", "top", "top_title", "top_answers", "shared_words", "missing_words",
]  # fmt: skip


class StudyContents(OpenedStudy):
    """Questions, passages, runs and labels of a study."""

    def questions(self, split: str | None = None) -> pd.DataFrame:
        """Return the questions of a split, or all, one a row in the order of import.

        The columns are the fields of `blindspot.db.records.Question`; `id` is named `question`. `answers` and `gold` hold tuples.
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
        """Return the runs, oldest first: run, retriever, k, questions, split, search_seconds, p50_ms (of one question),
        index_bytes, made.
        """
        import pandas as pd

        from blindspot.backend.retrieval.cost import cost_of

        rows = []
        for name, manifest in self.study.parts("runs").items():
            known = [manifest.get(key) for key in ("retriever", "k", "questions", "split", "search_seconds")]
            cost = cost_of(manifest)
            rows.append([name, *known, cost.p50_ms, cost.index_bytes, manifest.get("made")])
        columns = ["retriever", "k", "questions", "split", "search_seconds", "p50_ms", "index_bytes", "made"]
        return pd.DataFrame(rows, columns=["run", *columns])

    def run(self, name: str, k: int | None = None) -> pd.DataFrame:
        """Return the hits of a run, one a row, best first within a question: question, rank, passage, score, answer.

        Args:
            k: the hits of each question to return; default all.

        `answer` says whether the passage contains an answer by the run's own rule. Raises Missing for an unknown run.
        """
        import pandas as pd

        from blindspot.backend.core.runs import answer_matrix

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

    def misses(self, run: str, k: int = 5, relevance: Kind = "answers", rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Return the questions without a relevant passage among a run's first k hits, one a row.

        The columns are question, text, relation, frequency, rank (of the first relevant passage; missing if the run
        has none), gold (passage ids) and top (the passage at rank 1). Raises BadInput for a k beyond the run's depth,
        Missing, Refused.
        """
        import pandas as pd

        from blindspot.backend.evaluation.comparison import measure

        side = measure(self.study, run, relevance, rule)
        if not 1 <= k <= side.k:
            raise BadInput(f"k is {k}; {run} has {side.k} hits per question")
        missed = np.flatnonzero((side.first_ranks == 0) | (side.first_ranks > k))
        tops = np.asarray(side.run.hits.ordinals)[side.rows[missed], 0]
        top_ids = dict(zip(tops[tops >= 0].tolist(), self._ids_of(tops[tops >= 0]), strict=True))
        records = []
        for row, top in zip(missed.tolist(), tops.tolist(), strict=True):
            question = side.questions[row]
            rank = int(side.first_ranks[row]) or None
            facts = (question.id, question.text, question.relation, question.frequency)
            records.append((*facts, rank, question.gold, top_ids.get(top)))
        frame = pd.DataFrame(records, columns=MISS_COLUMNS)
        return frame.astype({"rank": "Int64", "frequency": "Int64"})

    def why(self, question: str, runs: str | Sequence[str], rule: str = DEFAULT_RULE) -> pd.DataFrame:
        """Explain how runs did on a question, one run a row, as the Question page does.

        The columns are run, retriever, gold (the best-ranked gold passage), rank, score, margin (the top score less the
        gold's), top (the passage at rank 1), top_title, top_answers (whether its text contains an answer),
        shared_words and missing_words (the question's words in the top passage, and those it lacks).
        `attrs["summary"]` is one sentence; it is empty if no fact stands out. Raises Missing for an unknown question
        or run.
        """
        import pandas as pd

        from blindspot.backend.evaluation.miss_facts import explain_question, summary_sentence

        found = explain_question(self.study, self.study.questions.get(question), as_list(runs), rule, neighbours=0)
        records: list[tuple[object, ...]] = []
        for each in found.standings:
            gold = None if each.gold is None else found.passages[each.gold].id
            gold_facts = (each.run, each.retriever, gold, each.rank, each.score, each.margin)
            if each.winner is None:
                records.append((*gold_facts, None, None, None, (), ()))
                continue
            top, words = found.passages[each.winner], found.words[each.winner]
            holds = found.holds_answer[each.winner]
            records.append((*gold_facts, top.id, top.title, holds, words.shared, words.missing))
        frame = pd.DataFrame(records, columns=WHY_COLUMNS).astype({"rank": "Int64"})
        frame.attrs["summary"] = summary_sentence(found)
        return frame

    def labels(self, consensus: bool = True) -> pd.DataFrame:
        """Return the labels: the consensus of each judged pair, or every annotator's labels.

        The columns of the consensus are question, passage, label, state and people; a pair in dispute has the state
        "open".
        """
        import pandas as pd

        from blindspot.db.judgements import Consensus, Judgement

        store = Labels(self.study.labels_path)
        rows = store.consensus() if consensus else store.judgements()
        columns = list((Consensus if consensus else Judgement).__dataclass_fields__)
        return pd.DataFrame([asdict(row) for row in rows], columns=columns)

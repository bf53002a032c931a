"""Make a run: search a set of questions with a retriever, and store the hits with their answer matrix.

The default of k is `Settings.k` in backend/core/settings.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from blindspot.backend.core.declared import Field, named_settings, settings_class
from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.own_passages import LEFT_OUT, own_rows, without_own
from blindspot.backend.core.runs import Run, claim_run, write_run
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.cost import index_bytes, live_latency
from blindspot.backend.retrieval.question_vectors import cached_question_vectors
from blindspot.backend.retrieval.retriever import RETRIEVERS, options_for
from blindspot.backend.text.default_rule import DEFAULT_RULE
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Refused
from blindspot.db.records import Hits, Question


def _check_retriever(study: Study, kind: str, **_: object) -> None:
    require(*RETRIEVERS.get(kind).extras)


@settings_class
class RunSettings:
    """The questions to search for, and the run in which the hits are stored."""

    k: int | None = Field(default=None, description="Hits per question; default from study.toml, 100", ge=1)
    split: str | None = Field(
        default=None,
        description="Questions to use: train, dev, test, unlabelled, a question set, or SET/SPLIT; default all",
    )
    name: str | None = Field(default=None, description="Name of the run; default as in bm25-dev")
    rule: str = Field(
        default=DEFAULT_RULE, description="Answer matching rule: dpr, regex, entityquestions or rocketqa_mining"
    )
    replace: bool = Field(default=False, description="Replace the run of this name if it exists")
    without_own_passage: bool = Field(
        default=False,
        description="Leave the passage with a question's own id out of its list, as BEIR does (ArguAna, Quora)",
    )
    device: str | None = Field(
        default=None, description="Device: cpu, cuda, cuda:1, ...; default a GPU if there is one"
    )


@job("retrieve", check=_check_retriever)
@named_settings(RunSettings, "asked")
def retrieve(study: Study, kind: str, *, asked: RunSettings, progress: Progress | None = None, **options: Any) -> Run:
    """Search every question of a split and store the hits as a run.

    Args:
        kind: the name of a registered kind of retriever. options: its options, as its settings class declares them.

    Raises Missing if there is no index, and Refused for a run that already exists or for incompatible settings.
    """
    chosen = RETRIEVERS.get(kind)
    chosen_options, settings, without = options_for(chosen, options), study.settings, asked.without_own_passage
    name = check_name(asked.name or default_name(chosen.run_name(chosen_options), asked.split), "run")
    k = asked.k or min(settings.k, len(study.corpus))
    if k > len(study.corpus):
        raise Refused(f"k is {k}, but there are only {len(study.corpus)} passages")
    with claim_run(study, name, asked.replace):
        questions = questions_in_split(study, asked.split)
        if chosen.tunes(chosen_options):
            refuse_tuned_questions(study, questions)
        retriever = chosen.open(study, chosen_options, asked.device)
        texts = [question.text for question in questions]
        ids = [question.id for question in questions]
        with cached_question_vectors(study, retriever) as dense:
            extra = chosen.tuned(study, retriever, chosen_options, asked.rule, progress)
            started, before = time.monotonic(), dense.seconds_saved if dense else 0.0
            hits = retriever.search(texts, min(k + without, len(study.corpus)), progress)
            saved = dense.seconds_saved - before if dense else 0.0
        if without:
            hits = Hits(*without_own(hits.ordinals, own_rows(study.corpus, ids), k, hits.scores))
            extra = {**extra, "own_passage": LEFT_OUT}
        seconds = round(time.monotonic() - started + saved, 2)
        about = {
            "retriever": chosen.name,
            **retriever.settings,
            **extra,
            "split": asked.split,
            "seed": settings.seed,
            "search_seconds": seconds,
            "latency": live_latency(retriever, texts, k),
            "index_bytes": index_bytes(study, chosen, chosen_options),
        }
        return write_run(study, name, ids, hits, about, rule=asked.rule, replace=asked.replace, progress=progress)


def refuse_tuned_questions(study: Study, questions: Sequence[Question]) -> None:
    """Raise Refused if a run would contain dev questions, by split or by text. Weights are tuned on dev questions, so
    the run's figures would be too optimistic.
    """
    texts = {question.text for question in questions_in_split(study, "dev")}
    same = sum(question.split == "dev" or question.text in texts for question in questions)
    if same:
        raise Refused(
            f"{same:,} of the run's {quantity(len(questions), 'question')} are dev questions, on which the weights are "
            "tuned; choose other questions, as in --split test"
        )


def default_name(retriever: str, split: str | None) -> str:
    """Return the default name of a run."""
    return f"{retriever}-{split.replace('/', '-')}" if split else retriever

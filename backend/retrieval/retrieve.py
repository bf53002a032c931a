"""Make a run: search a set of questions with a retriever, and store the hits with their answer matrix."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.own_passages import LEFT_OUT, own_rows, without_own
from blindspot.backend.core.runs import Run, claim_run, write_run
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.cost import index_bytes, live_latency
from blindspot.backend.retrieval.question_vectors import kept_vectors
from blindspot.backend.retrieval.retriever import RETRIEVERS, options_for
from blindspot.backend.text.counting import counted
from blindspot.db.errors import Refused
from blindspot.db.records import Hits, Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def _check(study: Study, kind: str, **_: object) -> None:
    require(*RETRIEVERS.get(kind).extras)


@job("retrieve", check=_check)
def retrieve(
    study: Study,
    kind: str,
    *,
    k: int | None = None,
    split: str | None = None,
    name: str | None = None,
    rule: str = "dpr",
    replace: bool = False,
    device: str | None = None,
    without_own_passage: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Run:
    """Search every question of `split` and store the hits as a run.

    Args:
        kind: the name of a registered kind of retriever.
        split: as in `questions_in_split`.
        without_own_passage: leave the passage with a question's own id out of its list (see
            `blindspot.backend.core.own_passages`).
        name: the run's name (default: the retriever's name and the split, as in "bm25-dev"). options: options of the
            kind, as its settings class declares them.

    Raises Missing without an index, Refused for a run that exists and for incompatible settings.
    """
    chosen = RETRIEVERS.get(kind)
    chosen_options, settings = options_for(chosen, options), study.settings
    name = check_name(name or default_name(chosen.run_name(chosen_options), split), "run")
    k = k or settings.k
    if k > len(study.corpus):
        raise Refused(f"k is {k}, but there are only {len(study.corpus)} passages")
    with claim_run(study, name, replace):
        questions = questions_in_split(study, split)
        if chosen.tunes(chosen_options):
            refuse_tuned_questions(study, questions)
        retriever = chosen.open(study, chosen_options, device)
        texts = [question.text for question in questions]
        ids = [question.id for question in questions]
        with kept_vectors(study, retriever) as dense:
            extra = chosen.tuned(study, retriever, chosen_options, rule, progress)
            started, before = time.monotonic(), dense.seconds_saved if dense else 0.0
            hits = retriever.search(texts, min(k + without_own_passage, len(study.corpus)), progress)
            saved = dense.seconds_saved - before if dense else 0.0
        if without_own_passage:
            hits = Hits(*without_own(hits.ordinals, own_rows(study.corpus, ids), k, hits.scores))
            extra = {**extra, "own_passage": LEFT_OUT}
        seconds = round(time.monotonic() - started + saved, 2)
        return write_run(
            study,
            name,
            ids,
            hits,
            {
                "retriever": chosen.name,
                **retriever.settings,
                **extra,
                "split": split,
                "seed": settings.seed,
                "rule": rule,
                "search_seconds": seconds,
                "latency": live_latency(retriever, texts, k),
                "index_bytes": index_bytes(study, chosen, chosen_options),
            },
            rule=rule,
            replace=replace,
            progress=progress,
        )


def refuse_tuned_questions(study: Study, questions: Sequence[Question]) -> None:
    """Raise Refused if some questions of a run are dev questions, by split or by text: weights are tuned on these, so
    the run's figures would be too good.
    """
    texts = {question.text for question in questions_in_split(study, "dev")}
    same = sum(question.split == "dev" or question.text in texts for question in questions)
    if same:
        raise Refused(
            f"{same:,} of the run's {counted(len(questions), 'question')} are dev questions, on which the weights are "
            "tuned; choose other questions, as in --split test"
        )


def default_name(retriever: str, split: str | None) -> str:
    """Return the default name of a run."""
    return f"{retriever}-{split.replace('/', '-')}" if split else retriever

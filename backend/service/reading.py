"""Return data of a study to callers as JSON values: questions, passages, runs, comparisons, slices and explanations.

The HTTP interface and the agents' server share these functions. Questions that are hidden from the caller are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import Kind
from blindspot.backend.evaluation.settings import ComparisonOptions
from blindspot.backend.retrieval.full_text import Place
from blindspot.backend.service.caller import Caller
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Hits, Passage, Question

OF_A_RUN = ("retriever", "k", "questions", "split", "rule", "search_seconds", "made")


def describe_study(study: Study) -> dict[str, Any]:
    """Return the name of the study, its passages and its question sets."""
    corpus = study.corpus if study.has_corpus else None
    return {
        "study": study.settings.name,
        "passages": 0 if corpus is None else len(corpus),
        "corpus": None if corpus is None else corpus.digest,
        "questions": study.questions.counts(),
        "runs": study.runs(),
    }


def question(record: Question) -> dict[str, Any]:
    """Return a question as JSON values."""
    return asdict(record) | {"answers": list(record.answers), "gold": list(record.gold)}


def questions(study: Study, offset: int, limit: int, query: str = "", **filters: str | None) -> dict[str, Any]:
    """Return a page of the questions. `filters` are split, dataset and relation."""
    found, total = study.questions.page(search_words=query.split(), offset=offset, limit=limit, **filters)
    return {"total": total, "offset": offset, "items": [question(each) for each in found]}


def passage(study: Study, id: str) -> Passage:
    """Return a passage. Raises Missing for an unknown id."""
    (found,) = passages(study, [id])
    return found


def passages(study: Study, ids: Iterable[str]) -> list[Passage]:
    """Return passages by id, in this order. Raises Missing for an unknown id."""
    ids = list(ids)
    known = study.corpus.by_id(ids)
    if absent := next((id for id in ids if id not in known), None):
        raise Missing(f"there is no passage {absent!r} in this study")
    return [known[id] for id in ids]


def runs(study: Study) -> list[dict[str, Any]]:
    """Return the finished runs with the main facts of their manifests, oldest first."""
    return [_run_record(name, manifest) for name, manifest in study.parts("runs").items()]


def run(study: Study, name: str) -> dict[str, Any]:
    """Return one run. Raises Missing for an unknown run."""
    return _run_record(name, study.run(name).manifest)


def _run_record(name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    return {"run": name, **{key: manifest.get(key) for key in OF_A_RUN}}


def hits(
    study: Study, caller: Caller, name: str, k: int, question_ids: Sequence[str], page: tuple[int, int]
) -> dict[str, Any]:
    """Return the first k hits of a run for some questions, or for one page of its questions.

    Args:
        question_ids: ids of questions; empty for all.
        page: (offset, limit) among the questions that the caller may see.

    Raises:
        Missing: The run, or one of the questions in it, does not exist.
        Refused: One of the questions is hidden from the caller.
    """
    opened, hidden = study.run(name), caller.hidden_questions(study)
    for each in question_ids:
        caller.refuse_hidden(study, each)
        if opened.row(each) is None:
            raise Missing(f"run {name!r} holds no question {each!r}")
    ids = list(question_ids) or [id for id in opened.question_ids if id not in hidden]
    offset, limit = page
    shown = ids[offset : offset + limit]
    return {
        "total": len(ids),
        "offset": offset,
        "hidden": len(hidden.intersection(opened.question_ids)),
        "items": [
            {"question": id, "hits": found}
            for id, found in zip(shown, _hits_of_questions(study, opened, shown, k), strict=True)
        ],
    }


def _hits_of_questions(study: Study, run: Run, ids: Sequence[str], k: int) -> list[list[dict[str, Any]]]:
    from blindspot.backend.core.runs import answer_matrix

    rows = [row for id in ids if (row := run.row(id)) is not None]
    ordinals, scores = np.asarray(run.hits.ordinals)[rows, :k], np.asarray(run.hits.scores)[rows, :k]
    answers = np.asarray(answer_matrix(study, run))[rows, :k]
    return [
        [hit | {"answer": bool(answer)} for hit, answer in zip(listed, row, strict=False)]
        for listed, row in zip(named_hits(study, Hits(ordinals, scores)), answers, strict=True)
    ]


def named_hits(study: Study, hits: Hits) -> list[list[dict[str, Any]]]:
    """Return hits as a list for each question, best first. Each hit has the rank, the passage's id and title, and the
    score.
    """
    wanted = sorted({int(row) for row in hits.ordinals.ravel() if row >= 0})
    named = dict(zip(wanted, study.corpus.passages(wanted), strict=True))
    return [
        [
            {"rank": rank, "passage": named[row].id, "title": named[row].title, "score": score}
            for rank, (row, score) in enumerate(zip(rows, scores, strict=True), 1)
            if row >= 0
        ]
        for rows, scores in zip(hits.ordinals.tolist(), hits.scores.tolist(), strict=True)
    ]


def find(study: Study, caller: Caller, words: str, place: Place, limit: int) -> dict[str, Any]:
    """Find words in passages, questions or notes. A caller who may not see others' labels gets their own notes only.

    Raises the same errors as `blindspot.backend.retrieval.full_text.find`, and Forbidden if notes are requested by a
    caller who is not a known person.
    """
    from blindspot.backend.retrieval.full_text import find as found_texts

    caller.require(study, "see results")
    annotator = None
    if place == "notes" and not caller.is_allowed(study, "see others' labels"):
        annotator = caller.person_with_right(study, "judge")
    result = found_texts(study, words, place, limit, caller.hidden_questions(study), annotator)
    return {
        "place": result.place,
        "how": result.method_note,
        "more": result.has_more,
        "items": [
            {
                "id": each.id,
                "title": each.title,
                "passage": each.passage,
                "excerpt": [{"text": text, "found": kind == "word"} for text, kind in each.excerpt],
            }
            for each in result.results
        ],
    }


def compare(study: Study, caller: Caller, run_a: str, run_b: str, options: ComparisonOptions) -> dict[str, Any]:
    """Compare two runs as `blindspot compare --json` does, without the questions that are hidden from the caller.

    Raises the same errors as `blindspot.backend.evaluation.comparison_report.compare_with`.
    """
    from dataclasses import replace

    from blindspot.backend.evaluation.comparison_report import compare_with

    hidden, evidence = caller.hidden_questions(study), caller.may_use_labels(study)
    return compare_with(study, run_a, run_b, replace(options, hidden=hidden, evidence=evidence)).as_dict()


def find_slices(
    study: Study, caller: Caller, run_a: str, run_b: str, k: int | None, relevance: Kind, slice: str
) -> dict[str, Any]:
    """Find the slices that explain the difference of two runs, as `blindspot compare --find-slices --json` does."""
    from blindspot.backend.evaluation.slice_report import find_in_runs

    hidden, evidence = caller.hidden_questions(study), caller.may_use_labels(study)
    found = find_in_runs(
        study, (run_a, run_b), k, relevance, slice=slice, hidden_questions=hidden, with_evidence=evidence
    )
    return found.as_dict()


def explain_question(study: Study, caller: Caller, id: str, names: Sequence[str]) -> dict[str, Any]:
    """Explain the results of runs on a question: the rank of the gold passage, the top-ranked passage, and the words
    that both share with the question.

    Raises:
        BadInput: No run holds the question. Missing: an unknown run or question. Refused: the question is hidden.
    """
    from blindspot.backend.evaluation.miss_facts import explain_question as explained
    from blindspot.backend.evaluation.miss_facts import summary_sentence

    asked = study.questions.get(id)
    caller.refuse_hidden(study, id)
    found = explained(study, asked, names)
    if not found.standings:
        raise BadInput(f"none of the runs {', '.join(names)} holds the question {id!r}; name another run")

    def passage_name(row: int | None) -> str | None:
        return None if row is None else found.passages[row].id

    return {
        "question": question(asked),
        "summary": summary_sentence(found),
        "runs": [
            {
                "run": each.run,
                "gold": passage_name(each.gold),
                "gold_rank": each.rank,
                "gold_score": each.score,
                "margin": each.margin,
                "winner": passage_name(each.winner),
                "winner_holds_answer": None if each.winner is None else found.holds_answer[each.winner],
                "winner_is_namesake": None if each.winner is None else each.winner in found.namesake,
            }
            for each in found.standings
        ],
        "passages": [
            {
                "passage": found.passages[row].id,
                "title": found.passages[row].title,
                "shared_words": list(words.shared),
                "missing_words": list(words.missing),
            }
            for row, words in found.words.items()
        ],
        "frequency": found.frequency,
        "training_questions": None if found.trained is None else asdict(found.trained),
        "neighbours": {
            encoder: [
                {"passage": found.passages[each.ordinal].id, "similarity": each.similarity, "gold": each.is_gold}
                for each in near
            ]
            for encoder, near in found.neighbours.items()
        },
    }

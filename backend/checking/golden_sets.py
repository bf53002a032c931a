"""Make a study from a retriever's log: summarise the log, estimate its precision from a judged sample, list unanswered
questions, and export a golden set.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from blindspot.analysis.audit import Rate, rate
from blindspot.analysis.intervals import Interval, mean_interval
from blindspot.backend.checking.near_duplicate_candidates import near_duplicate_groups
from blindspot.backend.core.made_from import log_run_name
from blindspot.backend.core.manifest import atomic_folder, read_json, write_json
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_by_id
from blindspot.backend.data.exporting import export_passages
from blindspot.backend.data.formats import find_writer
from blindspot.backend.data.formats.files import open_atomically
from blindspot.backend.data.importing.from_results import study_from_results
from blindspot.backend.data.leaks import words_key
from blindspot.backend.judging.audits import audit_samples
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing, Refused
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.question_fields import QuestionFields
from blindspot.db.queue import Queue
from blindspot.db.records import Question

FACTS, BATCH = "log-facts.json", "log"
DEPTH, QUESTIONS = 5, 40
"""Number of first chunks that are judged for a question, and number of questions in a sample."""
LISTED = 20


@dataclass(frozen=True)
class LogFacts:
    """The facts of a log that can be computed without labels.

    Attributes:
        events: Questions asked, repetitions counted. questions: Distinct ones; case, spaces and punctuation ignored.
        without_chunks: Events for which nothing came back. chunks: Distinct by id and text. identical: Chunks whose text
        another one has, under another id. near_identical: Chunks that share 90% of their 5-word sequences with another
        one. depth: Chunks of an event, at the median. fields: Own facts, each with the number of events that have it.
    """

    events: int
    questions: int
    without_chunks: int
    chunks: int
    identical: int
    near_identical: int
    depth: int
    fields: Mapping[str, int]


@dataclass(frozen=True)
class LogPrecision:
    """The precision of a log, estimated from the judged sample.

    Attributes:
        k: First chunks that were judged. precision: Share of them that answer; over questions that were drawn at random.
        unanswered: Share of the questions none of whose first k chunks answers. examples: Ids of such questions.
        drawn_questions: Questions of the sample. judged: Those whose chunks all have a label; the others do not count yet.
    """

    k: int
    drawn_questions: int
    judged: int
    precision: Rate | None
    unanswered: Interval | None
    examples: tuple[str, ...]


def study_from_log(
    folder: str | Path,
    file: str | Path,
    title: str | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad: bool = False,
    progress: Progress | None = None,
) -> Study:
    """Make a study from a log and draw a sample to judge. On an error no study is left. Raises the same errors as
    `study_from_results`.
    """
    made = study_from_results(folder, [file], title, "test", skip_bad, progress, columns=columns or {})
    log_facts(made.study)
    if made.passages:
        draw_questions(made.study)
    return made.study


def log_facts(study: Study) -> LogFacts:
    """Return the facts of a study's log, and store them on the first call. Raises Missing if the study has no log."""
    name = _log_run_of(study)
    path = study.path("runs", name) / FACTS
    if path.is_file():
        return LogFacts(**read_json(path))
    hits, corpus = study.run(name).hits, study.corpus
    found = (np.asarray(hits.ordinals) >= 0).sum(axis=1)
    passages = len(corpus)
    copies = near_duplicate_groups(passages, lambda rows: [each.text for each in corpus.passages(list(rows))])
    texts = corpus.connection.execute("SELECT sum(n) FROM (SELECT count(*) - 1 AS n FROM passage GROUP BY text)")
    fields = QuestionFields(study.labels_path)
    facts = LogFacts(
        len(found),
        len({words_key(question.text) for question in study.questions.all()}),
        int((found == 0).sum()),
        passages,
        int(texts.fetchone()[0] or 0),
        passages - len(np.unique(copies)),
        int(np.median(found)) if len(found) else 0,
        {each: len(fields.values(each)) for each in fields.field_names()},
    )
    write_json(path, asdict(facts))
    return facts


def _log_run_of(study: Study) -> str:
    name = log_run_name(study)
    if name is None:
        raise Missing(f"{study.folder} was not made of a log; run 'blindspot new DIR --from-log FILE'")
    return name


def draw_questions(study: Study, count: int = QUESTIONS, depth: int = DEPTH, seed: int = 0) -> str:
    """Draw questions at random and queue their first `depth` chunks for judging. Further calls extend the sample.
    Returns the batch's name.

    Raises Refused if every question with chunks has already been drawn.
    """
    run, drawn = study.run(_log_run_of(study)), Queue(study.labels_path).audited_questions()
    if all(id in drawn for id, row in zip(run.question_ids, run.hits.ordinals, strict=True) if (row >= 0).any()):
        raise Refused("every question of the log that has chunks is drawn already")
    taken = {batch.name for batch in Queue(study.labels_path).batches()}
    name = next(each for each in (BATCH, *(f"{BATCH}-{n}" for n in range(2, 10_000))) if each not in taken)
    all_random = ArmShares(audit=1.0, second=0.0, repeat=0.0)
    make_batch(study, name, [run.name], size=count, depth=depth, candidates=depth, mix=all_random, seed=seed)
    return name


def log_precision(study: Study) -> LogPrecision | None:
    """Return the precision estimated from the judged sample; None before a sample is drawn."""
    run = _log_run_of(study)
    sample = next((each for each in audit_samples(study) if list(each.settings["runs"]) == [run]), None)
    if sample is None:
        return None
    items = sample.complete
    k, drawn = int(sample.settings["depth"]), sample.drawn
    if not items:
        return LogPrecision(k, drawn, 0, None, None, ())
    ids = [item.question for item in items]
    labels = labels_by_pair(Labels(study.labels_path).consensus(ids))
    rows = [(item.question, candidate) for item in items for candidate in item.candidates]
    label = np.array([labels.get((question, candidate.passage), "") for question, candidate in rows])
    settled = np.isin(label, SETTLED)
    chances = np.array([candidate.inclusion_probability for _, candidate in rows], np.float64)
    asked = np.array([question for question, _ in rows])
    units = units_by_id(study, asked.tolist())
    precision = rate(label == "positive", settled, chances, asked, units=units)
    answered = set(asked[label == "positive"].tolist())
    open_ones = set(asked[~settled].tolist())
    known = [id for id in ids if id in answered or id not in open_ones]
    none = np.array([id not in answered for id in known])
    share = mean_interval(none, units_by_id(study, known)) if known else None
    return LogPrecision(k, drawn, len(items), precision, share, tuple(np.array(known)[none][:LISTED].tolist()))


# The golden set


@dataclass(frozen=True)
class GoldenQuestion:
    """A question with its judged passages. grades: for each passage id, 1 if the passage answers the question, else 0.
    retrieved: ids of the retrieved passages in rank order.
    """

    question: Question
    grades: Mapping[str, int]
    retrieved: tuple[str, ...]

    @property
    def answers(self) -> list[str]:
        return [id for id, grade in self.grades.items() if grade > 0]


def golden_set(study: Study) -> list[GoldenQuestion]:
    """Return the judged questions, merging questions with the same words. Pairs without a settled label are left out.

    Raises Missing if no pair is judged.
    """
    grades: dict[str, dict[str, int]] = {}
    for pair in Labels(study.labels_path).corrected_relevance():
        if pair.relevance in SETTLED and pair.state != "gold":
            grades.setdefault(pair.question, {})[pair.passage] = int(pair.relevance == "positive")
    bad, run = Labels(study.labels_path).bad_questions(), log_run_name(study)
    lists = None if run is None else study.run(run)
    merged: dict[bytes, GoldenQuestion] = {}
    for question in study.questions.with_ids([id for id in grades if id not in bad]):
        key, own = words_key(question.text), grades[question.id]
        if known := merged.get(key):  # where two askings were judged apart, an answer to one is an answer to both
            both = {id: max(own.get(id, 0), known.grades.get(id, 0)) for id in {**known.grades, **own}}
            merged[key] = replace(known, grades=both)
            continue
        row = None if lists is None else lists.row(question.id)
        ordinals = (
            [] if lists is None or row is None else [each for each in lists.hits.ordinals[row].tolist() if each >= 0]
        )
        found = tuple(passage.id for passage in study.corpus.passages(ordinals))
        merged[key] = GoldenQuestion(question, own, found)
    if not merged:
        raise Missing("nobody judged a question yet; judge the sample, then export the golden set")
    return list(merged.values())


def _passage_texts(study: Study, ids: Sequence[str]) -> list[str]:
    passages = study.corpus.by_id(ids)
    return [passages[id].text for id in ids]


def _write_ragas(study: Study, golden: Sequence[GoldenQuestion], path: Path) -> int:
    """Write JSON lines for `ragas.EvaluationDataset.from_jsonl`: single-turn samples with contexts and their ids."""
    with open_atomically(path) as file:
        rows = [each for each in golden if each.answers]
        for each in rows:
            sample = {
                "user_input": each.question.text,
                "retrieved_contexts": _passage_texts(study, each.retrieved),
                "reference_contexts": _passage_texts(study, each.answers),
                "retrieved_context_ids": list(each.retrieved),
                "reference_context_ids": each.answers,
            }
            file.write(json.dumps(sample, ensure_ascii=False) + "\n")
    return len(rows)


def _write_deepeval(study: Study, golden: Sequence[GoldenQuestion], path: Path) -> int:
    """Write a JSON array for DeepEval's `EvaluationDataset.add_goldens_from_json_file`."""
    rows = [
        {
            "input": each.question.text,
            "actual_output": None,
            "expected_output": None,
            "context": _passage_texts(study, each.answers),
            "retrieval_context": _passage_texts(study, each.retrieved),
        }
        for each in golden
        if each.answers
    ]
    with open_atomically(path) as file:
        json.dump(rows, file, ensure_ascii=False, indent=1)
    return len(rows)


def _write_beir(study: Study, golden: Sequence[GoldenQuestion], path: Path) -> int:
    """Write a BEIR folder: all passages, the judged questions, and their qrels, including grades of 0."""
    with atomic_folder(path.absolute()) as building:
        (building / "qrels").mkdir()
        export_passages(study, "beir", building / "corpus.jsonl")
        find_writer("questions", "beir").write_to(building / "queries.jsonl", [each.question for each in golden])
        find_writer("qrels", "beir").write_to(building / "qrels" / "test.tsv", _qrels(golden))
    return len(golden)


def _write_trec(study: Study, golden: Sequence[GoldenQuestion], path: Path) -> int:
    find_writer("qrels", "trec").write_to(path, _qrels(golden))
    return len(golden)


def _qrels(golden: Sequence[GoldenQuestion]) -> Iterator[tuple[str, str, int]]:
    return ((each.question.id, passage, grade) for each in golden for passage, grade in each.grades.items())


GOLDEN: Mapping[str, tuple[str, Callable[[Study, Sequence[GoldenQuestion], Path], int]]] = {
    "ragas": ("golden.ragas.jsonl", _write_ragas),
    "deepeval": ("golden.deepeval.json", _write_deepeval),
    "beir": ("golden-beir", _write_beir),
    "qrels": ("golden.qrels", _write_trec),
}
"""The forms of a golden set: the usual name of the file or folder, and the function that writes it."""


def export_golden_set(study: Study, form: str, path: Path | None = None) -> tuple[Path, int, int]:
    """Write the judged questions in another tool's format. Returns the path, the number of questions written, and the
    number judged.

    Questions without a relevant passage appear in qrels and BEIR with grades of 0. Formats that require a context leave
    them out.

    Raises:
        Refused: an unknown form; the place is taken by a folder. Missing: nobody judged anything.
    """
    if form not in GOLDEN:
        raise Refused(f"--format must be one of {', '.join(GOLDEN)}, not {form!r}")
    usual, write = GOLDEN[form]
    target, golden = path or Path(usual), golden_set(study)
    if target.exists() and (target.is_dir() or form == "beir"):
        raise Refused(f"{target} exists; choose another place")
    return target, write(study, golden, target), len(golden)

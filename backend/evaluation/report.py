"""Report the accuracy of runs: success, reciprocal rank and recall, overall and by relation, bucket or split, each with
n and an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from blindspot.analysis import accuracy
from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import bucket_group, bucket_order
from blindspot.analysis.judged import judged_at
from blindspot.analysis.relations import relation_name, relation_order
from blindspot.backend.core.result_table import Results, ResultTable
from blindspot.backend.core.runs import Run
from blindspot.backend.core.settings import Unit
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import Units, generalisation, units_of
from blindspot.backend.evaluation.measures import MEASURES, SUCCESS, RankingMeasure, measure_named
from blindspot.backend.evaluation.relevance import Kind, Relevance, relevant
from blindspot.backend.retrieval.cost import Cost, cost_of
from blindspot.backend.text.answers import DEFAULT_RULE, SEARCHES_TITLE
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import SPLITS, Question

By = Literal["relation", "bucket", "split", "slice"]
KS = (1, 5, 20, 100)
MRR_DEPTH = 10


@dataclass(frozen=True, slots=True)
class Group:
    """A measure on the questions of one relation, bucket, split or saved slice, by k. `name` is the display name, `key`
    is for scripts.
    """

    key: str
    name: str
    n: int
    units: int
    at: dict[int, Estimate]


@dataclass(frozen=True, slots=True)
class MeasureFigures:
    """One measure of a run, by k: over all questions, averaged over relations (empty without relations), and by the
    requested grouping. kind: the relevance used; gold instead of answers for a measure that needs all relevant
    passages.
    """

    kind: Kind
    at: dict[int, Estimate]
    macro: dict[int, Estimate]
    groups: list[Group]


@dataclass(frozen=True, slots=True)
class JudgedShare:
    """The share of a run's top k that people have judged, and bounds on Success@k for any further labels.

    Attributes:
        judged: Judged@k, the mean share of judged passages in the top k.
        lower, upper: Success@k if every unjudged passage were not relevant, or relevant.
    """

    judged: Estimate
    lower: Estimate
    upper: Estimate


@dataclass(frozen=True, slots=True)
class RunReport:
    """The figures of one run. Keys of dictionaries are cut-offs k. Cut-offs deeper than the run are left out with a
    note.

    Attributes:
        questions: ids of the measured questions.
        kind: the relevance used.
        notes: one line each.
        mrr: mean reciprocal rank at 10; None for a run with fewer than 10 hits per question.
        recall: over gold, whatever `kind` is; n is the number of questions with gold.
        groups: Success@k by the requested grouping; relations are always included.
        units: the unit of observation of each measured question.
        cost: of the retriever, as `retrieve` measured it.
        judged: by k, only if relevance is by labels.
        measures: by name, the requested measures.
    """

    name: str
    retriever: str | None
    k: int
    kind: Kind
    questions: tuple[str, ...]
    success: dict[int, Estimate]
    macro: dict[int, Estimate]
    mrr: Estimate | None
    recall: dict[int, Estimate]
    relations: list[Group]
    groups: list[Group]
    notes: list[str]
    units: Units
    cost: Cost
    judged: dict[int, JudgedShare]
    measures: dict[str, MeasureFigures]


@dataclass(frozen=True, slots=True)
class Report(Results):
    """A report on several runs, formatted with `as_json`, `as_csv`, `as_latex` or `as_rich`."""

    runs: list[RunReport]
    grouping: By | None
    ks: tuple[int, ...]
    convention: str
    notes: list[str]
    measures: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        from blindspot.backend.evaluation.report_text import as_dict

        return as_dict(self)

    def figures_table(self) -> ResultTable:
        from blindspot.backend.evaluation.report_text import report_figures

        return report_figures(self)

    def tables(self) -> list[ResultTable]:
        from blindspot.backend.evaluation.report_text import report_tables

        return report_tables(self)

    def remarks(self) -> list[str]:
        notes = (f"{run.name}: {note}." for run in self.runs for note in run.notes)
        return [*self.notes, *notes, self.convention]


NO_RELATIONS = (
    "no question has a relation, so there is nothing to group by relation; import questions that have one, or give the "
    "questions file of a results file: blindspot new DIR --from-run FILE --questions FILE"
)


def report(
    study: Study,
    runs: Sequence[str] | None = None,
    by: By | None = None,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    ks: Iterable[int] = KS,
    measures: Iterable[str] = (),
) -> Report:
    """Report on runs of a study.

    Args:
        runs: names; None for all.
        by: adds groups by relation, bucket, split or saved slice.
        relevance: "answers" (by `rule`), "gold" or "labels"; gold instead of answers if no question has answers.
        ks: cut-offs.
        measures: names of registered measures to add to the figures.

    Raises: Missing for an unknown run or rule, BadInput for an invalid `by`, relevance or k, Refused for an unknown
        measure.
    """
    if by is not None and by not in get_args(By):
        raise BadInput(f"--by must be one of {', '.join(get_args(By))}, not {by!r}")
    ks = tuple(sorted(set(ks)))
    chosen = list({measure.name: measure for measure in map(measure_named, measures)}.values())
    if not ks or ks[0] < 1:
        raise BadInput("k must be at least 1")
    names = list(dict.fromkeys(study.runs() if runs is None else runs))
    if not names:
        raise Missing("no runs to report on; make one with 'blindspot retrieve'")
    opened = [study.run(name) for name in names]
    known = _questions(study, opened)
    reports = [
        _run_report(study, run, relevance, rule, [known[id] for id in run.question_ids], by, ks, chosen)
        for run in opened
    ]
    source = study.questions.frequency_source if by == "bucket" else None
    kinds = {run.kind for run in reports}
    said = convention(kinds, rule, by, source, study.settings.unit)
    said = " ".join([said, *(f"{each.title_at('k')}: {each.help}." for each in chosen if each is not SUCCESS)])
    return Report(reports, by, ks, said, _differences(reports), tuple(each.name for each in chosen))


def convention(kinds: Collection[str], rule: str, grouping: By | None, frequency_source: str | None, unit: Unit) -> str:
    """Return the note on how the figures were computed."""
    sentences = []
    if "answers" in kinds:
        title = "title and text are searched" if rule in SEARCHES_TITLE else "titles are not searched"
        sentences.append(f"A passage is relevant if it contains an answer (rule: {rule}; {title}).")
    if "gold" in kinds:
        where = ", in runs whose questions have no answers" if "answers" in kinds else ""
        sentences.append(f"A passage is relevant if it is gold for the question{where}.")
    if "labels" in kinds:
        sentences.append(
            "A passage is relevant if people labelled it positive, or if it is gold and no settled label says "
            "otherwise. Judged@k: mean share of gold or labelled passages in the top k. The bounds are Success@k if no other passage were relevant, and if every other passage were."
        )
    sentences += [
        "Success@k: share of questions with a relevant passage in the top k, with 95% interval.",
        "Macro: mean over relations.",
        f"MRR@{MRR_DEPTH}: mean of 1 / rank of the first relevant passage within {MRR_DEPTH}, over "
        f"{' or '.join(sorted(kinds))}.",
        "Recall@k: mean share of a question's gold passages in the top k, always over gold.",
        f"Every interval counts by the {unit} (Wilson's, with the effective n of these units). {generalisation(unit)}",
        "Passages with equal scores are ordered by their row in the collection; in an imported run, by their order in the file.",
    ]
    if grouping == "bucket":
        source = frequency_source or "none, no frequencies are known"
        sentences.append(
            "Official buckets are used for questions that have one (0 most frequent, 7 rarest), otherwise mentions "
            f"of the subject (source: {source})."
        )
    return " ".join(sentences)


def _questions(study: Study, runs) -> dict[str, Question]:
    """Read every question of the runs once."""
    ids = dict.fromkeys(id for run in runs for id in run.question_ids)
    return {question.id: question for question in study.questions.with_ids(list(ids))}


def _run_report(
    study: Study,
    run: Run,
    relevance: Kind,
    rule: str,
    questions: Sequence[Question],
    grouping: By | None,
    ks: tuple[int, ...],
    measures: Sequence[RankingMeasure],
) -> RunReport:
    depth = run.hits.k
    within = [k for k in ks if k <= depth]
    measured = relevant(study, run, relevance, rule, questions)
    gold = measured if measured.kind == "gold" else relevant(study, run, "gold", rule, questions)
    of_run, of_gold = (_MeasuredQuestions(study, run, each, grouping) for each in (measured, gold))
    success = of_run.figures(SUCCESS, within)
    relations = of_run.groups({k: SUCCESS.values_of(measured, k) for k in within}, _group_rows(measured, "relation"))
    notes = _notes(measured, len(run.question_ids), [k for k in ks if k > depth], depth)
    return RunReport(
        name=run.name,
        retriever=run.manifest.get("retriever"),
        k=depth,
        kind=measured.kind,
        questions=tuple(question.id for question in measured.questions),
        success=success.at,
        macro=success.macro,
        mrr=of_run.mean(accuracy.reciprocal_rank(measured.relevant, MRR_DEPTH)) if depth >= MRR_DEPTH else None,
        recall=of_gold.figures(MEASURES.get("recall"), within).at,
        relations=relations,
        groups=success.groups,
        notes=[*notes, NO_RELATIONS] if grouping == "relation" and not relations else notes,
        units=of_run.units,
        cost=cost_of(run.manifest),
        judged=_judged(run, measured, of_run.units.codes, within),
        measures={
            each.name: (of_gold if each.needs_all and measured.kind == "answers" else of_run).figures(each, within)
            for each in measures
        },
    )


class _MeasuredQuestions:
    """The measured questions of a run under one kind of relevance, with their units and groups."""

    def __init__(self, study: Study, run: Run, relevance: Relevance, grouping: By | None):
        self.relevance = relevance
        self.units = units_of(relevance.questions, study.settings.unit)
        self.relations = np.array([question.relation or "" for question in relevance.questions], dtype=str)
        by_slice = grouping == "slice"
        self.rows = _slice_rows(study, run, relevance) if by_slice else _group_rows(relevance, grouping)

    def figures(self, measure: RankingMeasure, ks: Sequence[int]) -> MeasureFigures:
        """Return a measure at each cut-off, or at the run's depth if it has no cut-off."""
        values = {k: measure.values_of(self.relevance, k) for k in (ks if measure.has_cut_off else ks[-1:])}
        related = self.relations != ""
        macro = {
            k: accuracy.macro_average(each[related], self.relations[related], self.units.codes[related])
            for k, each in values.items()
            if related.any()
        }
        at = {k: self.mean(each) for k, each in values.items()}
        return MeasureFigures(self.relevance.kind, at, macro, self.groups(values, self.rows))

    def groups(self, values: Mapping[int, np.ndarray], members: Mapping[str, tuple[str, np.ndarray]]) -> list[Group]:
        return [
            Group(
                key,
                name,
                len(rows),
                self.units.units_of_rows(rows).count,
                {k: self.mean(each, rows) for k, each in values.items()},
            )
            for key, (name, rows) in members.items()
        ]

    def mean(self, values: np.ndarray, rows: np.ndarray | slice = slice(None)) -> Estimate:
        return accuracy.mean(values[rows], self.units.codes[rows])


def _judged(run: Run, relevance: Relevance, units: np.ndarray, ks: list[int]) -> dict[int, JudgedShare]:
    if relevance.judged is None:
        return {}
    present = np.asarray(run.hits.ordinals)[relevance.rows] >= 0
    possible = relevance.relevant | (present & ~relevance.judged)
    made = {}
    for k in ks:
        shares = judged_at(relevance.judged, present, k)
        made[k] = JudgedShare(
            accuracy.mean(shares[np.isfinite(shares)], units[np.isfinite(shares)]),
            accuracy.proportion(accuracy.success_at(relevance.relevant, k), units),
            accuracy.proportion(accuracy.success_at(possible, k), units),
        )
    return made


def _group_rows(relevance: Relevance, grouping: By | None) -> dict[str, tuple[str, np.ndarray]]:
    """Return the display name and the rows of each group, in the order in which tables list them."""
    questions = relevance.questions
    if grouping is None:
        return {}
    labels: Sequence[str | None]
    order: Callable[[str], tuple | int]
    if grouping == "relation":
        labels, order = [question.relation for question in questions], relation_order
    elif grouping == "bucket":
        labels, order = [bucket_group(q.bucket, q.frequency) for q in questions], bucket_order
    else:
        labels, order = [question.split for question in questions], SPLITS.index
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        if label is not None:
            members.setdefault(label, []).append(row)
    name = relation_name if grouping == "relation" else str
    return {key: (name(key), np.array(members[key], dtype=np.int64)) for key in sorted(members, key=order)}


def _slice_rows(study: Study, run: Run, relevance: Relevance) -> dict[str, tuple[str, np.ndarray]]:
    """Return the display name and the rows of each saved slice. Tags in a slice, which compare two runs, are evaluated
    with this run as both. Raises Missing if no slices are saved.
    """
    from blindspot.backend.evaluation.comparison import Comparison, MeasuredRun
    from blindspot.backend.evaluation.saved_slices import saved_slices
    from blindspot.backend.evaluation.slices import Facts

    slices = saved_slices(study)
    if not slices:
        raise Missing("this study has no saved slices; save one on the Slices page")
    rule, first = relevance.rule or DEFAULT_RULE, accuracy.first_hit(relevance.relevant)
    itself = MeasuredRun(
        study, run, relevance.kind, rule, relevance.questions, relevance.rows, first, relevance.left_out
    )
    facts = Facts(Comparison.of_runs(itself, itself), min(5, run.hits.k))
    return {
        name: (f"{name} ({each.expression})", np.flatnonzero(facts.mask(each.expression)))
        for name, each in slices.items()
    }


def _notes(relevance: Relevance, questions_in_run: int, too_deep: list[int], depth: int) -> list[str]:
    notes = []
    if relevance.kind != relevance.requested_kind:
        notes.append("no question has answers, so relevance is gold")
    notes += [
        f"{count:,} of {questions_in_run:,} questions left out: {reason}"
        for reason, count in relevance.left_out.items()
    ]
    if relevance.n_relevant is not None and (zeros := int((relevance.n_relevant == 0).sum())):
        notes.append(
            f"{quantity(zeros, 'question')} {noun_form(zeros, 'was', 'were')} judged without any relevant passage and "
            f"{noun_form(zeros, 'counts', 'count')} as 0, as in trec_eval"
        )
    if too_deep:
        notes.append(f"the run has {depth} hits per question, so k = {', '.join(map(str, too_deep))} is left out")
    if depth < MRR_DEPTH:
        notes.append(f"the run has {depth} hits per question, so MRR@{MRR_DEPTH} is left out")
    return notes


def _differences(runs: list[RunReport]) -> list[str]:
    """Return warnings about runs whose figures cannot be compared."""
    notes = []
    sets = [frozenset(run.questions) for run in runs]
    if len(set(sets)) > 1:
        counts = ", ".join(f"{run.name} {len(questions):,}" for run, questions in zip(runs, sets, strict=True))
        shared = len(frozenset.intersection(*sets))
        message = f"The runs cover different questions ({counts}; {shared:,} in all of them)"
        notes.append(f"{message}: do not compare their figures.")
    if len({run.kind for run in runs}) > 1:
        message = ", ".join(f"{run.name} by {run.kind}" for run in runs)
        notes.append(f"Relevance differs between the runs: {message}.")
    return notes

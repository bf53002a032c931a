"""Draw the pairs that people judge for the certificate of a training set.

`training_sets/<name>/certificate/` holds plan.json (the design, and every draw in its order), cells.npy (the cell of
each negative) and, once stated, certificate.json. A set never changes, and neither do its plan and the order of its
draws; further draws are appended. `blindspot.backend.training_sets.certificates` states what the labels of these pairs
prove.

Pairs are drawn from the set's negatives that have no label when the plan is made. Negatives that have a label are
counted and not drawn. A judge's scores, the answer match and the labels so far determine which pairs are drawn more
often. If they are accurate, fewer labels are needed, and if not, more; the certificate is valid in both cases.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from blindspot.analysis.certificate_plan import SamplingPlan, fewest_draws, horizon_of, pilot_chances, plan
from blindspot.analysis.weighted_draws import Cells, draw_order, group_into_cells
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.require_right import require
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import RANK_GROUPS
from blindspot.backend.judging.batches import pair_items
from blindspot.backend.judging.priority import rank_group
from blindspot.backend.training_sets.check_settings import CertificateSettings
from blindspot.backend.training_sets.training_set import PAIRS, SOURCES, Role, Source, TrainingSet, is_mined
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import SETTLED
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

if TYPE_CHECKING:
    import pyarrow

    from blindspot.backend.core.study import Study

FOLDER, PLAN, CELLS, STATED = "certificate", "plan.json", "cells.npy", "certificate.json"
WRONG_POSITIVES = 0.10
"""The share of wrong positives for which the stakes of the bets on positives are best. It bounds nothing."""
HIGHEST = 0.5
DRAWN, NAMED = "drawn negatives", "named by people"
STRATA = (*RANK_GROUPS, DRAWN, NAMED)
PairId = tuple[str, str]


class Draw(NamedTuple):
    """A drawn pair. probability: the probability of this draw among the remaining pairs. cell, stratum: indexes in the
    plan.
    """

    question: str
    passage: str
    probability: float
    cell: int = 0
    stratum: int = 0


@dataclass(frozen=True)
class CertificatePlan:
    """The plan of a set's certificate, as stored in plan.json: the design of the sample and its draws.

    Attributes:
        pairs_sha256: Of the set's pairs. at_most, confidence: What to certify. judge: Whose scores steer the draws.
        piloted: Whether people's labels taught the chances. negatives, positives: Pairs of the set.
        known: Negatives and positives that had a label at the time of the plan, as (question, passage).
        cells: Of the other negatives. strata: Names. counts: (strata, cells) pairs.
        horizon: Of the stakes, see `blindspot.analysis.certificates`. draws, positive_draws: In their order.
        batches: Names of the batches that the draws are judged in.
    """

    pairs_sha256: str
    at_most: float
    confidence: float
    judge: str | None
    piloted: bool
    seed: int
    negatives: int
    positives: int
    known_negatives: list[PairId]
    known_positives: list[PairId]
    cells: Cells
    strata: list[str]
    counts: np.ndarray
    horizon: int
    median: int | None
    enough: bool
    rate: float
    capped: bool
    draws: list[Draw]
    positive_draws: list[Draw]
    batches: list[str]
    member: np.ndarray | None = None
    """(n,) the cell of each negative without a label, in the set's order; of a new plan alone, and then in cells.npy."""

    @property
    def target(self) -> float:
        """The maximum share of false negatives among the unlabelled pairs for which the share in the whole set is at
        most `at_most`.
        """
        return self.at_most * self.negatives / max(1, self.cells.size)

    def as_json(self) -> dict[str, Any]:
        plain = {key: value for key, value in self.__dict__.items() if key not in ("cells", "counts", "member")}
        cells = {name: getattr(self.cells, name).tolist() for name in ("counts", "chances", "weights")}
        return {**plain, "cells": cells, "counts": self.counts.tolist()}

    @classmethod
    def of_json(cls, json_object: Mapping[str, Any]) -> CertificatePlan:
        cells = {name: np.array(values) for name, values in json_object["cells"].items()}
        lists = {
            "known_negatives": [(question, passage) for question, passage in json_object["known_negatives"]],
            "known_positives": [(question, passage) for question, passage in json_object["known_positives"]],
            "draws": [Draw(*row) for row in json_object["draws"]],
            "positive_draws": [Draw(*row) for row in json_object["positive_draws"]],
        }
        return cls(
            **{**json_object, **lists, "cells": Cells(**cells), "counts": np.array(json_object["counts"], np.int64)}
        )


def parse_share(text: str, option: str, highest: float = 1.0) -> float:
    """Parse a share such as "2%" or "0.02". Raises BadInput unless it is above 0 and below `highest`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    share = float(found[1]) / (100 if found[2] else 1) if found else -1.0
    if not 0 < share < highest:
        raise BadInput(f"{option} must be above 0% and below {100 * highest:.0f}%, as in 2% or 0.02, not {text!r}")
    return share


def read_plan(training_set: TrainingSet) -> CertificatePlan | None:
    """Return the plan of a set's certificate, or None. Raises BadInput for a damaged file."""
    path = _folder(training_set) / PLAN
    if not path.is_file():
        return None
    try:
        return CertificatePlan.of_json(read_object(path))
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"is not a plan of a certificate ({error}); build the set again", path) from None


@named_settings(CertificateSettings)
def make_plan(study: Study, name: str, at_most: float, settings: CertificateSettings) -> CertificatePlan:
    """Plan the draws for a set's certificate, without writing anything. at_most: the share of false negatives to
    certify.

    Raises:
        Missing: no such set, or no scores of that judge. Refused: a set without negatives, a plan exists already, or the
        labels cannot reach the target. BadInput: a number out of range.
    """
    if not 0 < at_most < HIGHEST:
        raise BadInput("--at-most must be above 0% and below 50%")
    confidence, labels, seed = settings.confidence, settings.labels, settings.seed
    training_set = TrainingSet.open(study, name)
    if read_plan(training_set) is not None:
        raise Refused(f"the pairs of training set {name!r} were drawn already; leave out --judge, --labels and --seed")
    store = None if settings.judge is None else ScoreStore.open(study, settings.judge)
    found = _population(study, training_set)
    if not len(found.negatives):
        raise Refused(f"training set {name!r} has no negatives, so there is nothing to certify")
    chances, piloted = _drawing_chances(study, found, store)
    cells, member = group_into_cells(chances)
    target = at_most * len(found.negatives) / max(1, len(found.open))
    made = plan(cells, target, seed, confidence) if len(found.open) else _census_plan(cells)
    drawn = min(len(found.open), labels if labels is not None else made.draws)
    if drawn < len(found.open):
        _refuse_too_few(drawn, made.cells, target, at_most, confidence, seed)
    named = found.open.strata()
    strata = [name for name in STRATA if STRATA.index(name) in named]
    place = np.searchsorted([STRATA.index(name) for name in strata], named)
    counts = np.zeros((len(strata), len(cells.counts)), np.int64)
    np.add.at(counts, (place, member), 1)
    return CertificatePlan(
        training_set.manifest["sha256"][PAIRS],
        at_most,
        confidence,
        settings.judge,
        piloted,
        seed,
        len(found.negatives),
        len(found.positives),
        found.known_negatives,
        found.known_positives,
        made.cells,
        strata,
        counts,
        horizon_of(drawn),
        made.median,
        made.enough and drawn >= made.draws,
        made.rate,
        made.capped,
        _draw_pairs(found.open, made.cells.weights[member], seed, drawn, member, place),
        _draw_pairs(found.open_positives, np.ones(len(found.open_positives)), seed + 1, settings.positives, None, None),
        [],
        member,
    )


def _refuse_too_few(draw_count: int, cells: Cells, target: float, maximum: float, confidence: float, seed: int) -> None:
    """Raise Refused if the planned number of draws cannot certify the target even if no drawn negative is false."""
    fewest = fewest_draws(cells, target, confidence, seed)
    if draw_count < fewest:
        raise Refused(
            f"{draw_count:,} judged negatives cannot certify {100 * maximum:g}% at {100 * confidence:g}% confidence: even "
            f"without a single false negative it takes about {fewest:,}; give a higher --at-most or more --labels"
        )


def queue_plan(study: Study, name: str, plan: CertificatePlan, actor: str | None = None) -> str:
    """Queue the pairs of a new plan as a batch, store the plan, and return the batch's name. Raises Refused if the
    batch cannot be made.
    """
    require(study, actor, "make batches")
    training_set = TrainingSet.open(study, name)
    assert plan.member is not None
    with study.lock_part(f"training_sets/{name}"):
        if read_plan(training_set) is not None:
            raise Refused(f"the pairs of training set {name!r} were drawn already")
        folder = _folder(training_set)
        folder.mkdir(exist_ok=True)
        with open(folder / CELLS, "wb") as file:
            np.save(file, plan.member.astype(np.int16))
        return _queue_draws(study, training_set, plan, [*plan.draws, *plan.positive_draws], actor)


def draw_more(study: Study, name: str, count: int, actor: str | None = None) -> str:
    """Draw `count` further negatives of a set and queue them as another batch. Raises Missing if there is no plan, and
    Refused or BadInput if so many cannot be drawn.
    """
    require(study, actor, "make batches")
    training_set = TrainingSet.open(study, name)
    made = read_plan(training_set)
    if made is None:
        raise Missing(no_plan_message(name))
    if count < 1:
        raise BadInput("draw at least one more pair")
    negatives = _read_pairs(training_set, "negative")
    pairs = negatives.without_rows(negatives.rows_of_pairs(set(made.known_negatives)))
    total = min(len(pairs), len(made.draws) + count)
    if total == len(made.draws):
        raise Refused(f"all {len(pairs):,} negatives of training set {name!r} were drawn already")
    member = np.load(_folder(training_set) / CELLS).astype(np.int64)
    place = np.array([made.strata.index(STRATA[stratum]) for stratum in pairs.strata().tolist()])
    draws = _draw_pairs(pairs, made.cells.weights[member], made.seed, total, member, place)
    new = draws[len(made.draws) :]
    plain = CertificatePlan.of_json({**made.as_json(), "draws": [list(draw) for draw in draws]})
    with study.lock_part(f"training_sets/{name}"):
        return _queue_draws(study, training_set, plain, new, actor)


def no_plan_message(name: str) -> str:
    """Return the message for a set without a plan."""
    return (
        f"no pairs of training set {name!r} were drawn for a certificate yet; run 'blindspot training-set certify {name} "
        "--at-most 2%'"
    )


class _Pairs:
    """Pairs of a set, in its order, as a table: a set has a hundred for each question."""

    COLUMNS: ClassVar = ("question", "passage", "rank", "origin", "source", "answer")

    def __init__(self, table: pyarrow.Table):
        self.table = table

    def __len__(self) -> int:
        return self.table.num_rows

    def ids(self, rows: np.ndarray | None = None) -> list[PairId]:
        """Return (question, passage) of the pairs in these rows, or of all."""
        table = self.table.select(["question", "passage"])
        taken = table if rows is None else table.take(rows)
        return list(zip(*(column.to_pylist() for column in taken.columns), strict=True))

    def rows_of_pairs(self, pair_ids: Collection[PairId]) -> np.ndarray:
        """Return the rows whose pair is one of these."""
        import pyarrow as pa
        import pyarrow.compute as compute

        questions = pa.array(sorted({question for question, _ in pair_ids}), pa.string())
        rows = np.flatnonzero(compute.is_in(self.table["question"], value_set=questions).to_numpy())
        return rows[[pair in pair_ids for pair in self.ids(rows)]] if len(rows) else rows

    def without_rows(self, rows: np.ndarray) -> _Pairs:
        return _Pairs(self.table.take(np.delete(np.arange(len(self)), rows))) if len(rows) else self

    def answers(self) -> np.ndarray:
        """Return 1.0 for each pair whose passage contains an answer, otherwise 0.0."""
        return self.table["answer"].fill_null(False).to_numpy().astype(float)

    def strata(self) -> np.ndarray:
        """Return the place of each pair's stratum in STRATA."""
        import pyarrow as pa
        import pyarrow.compute as compute

        names = pa.array(SOURCES)
        origins, sources = (
            compute.index_in(self.table[name], value_set=names).fill_null(len(SOURCES)).to_numpy().astype(np.int64)
            for name in ("origin", "source")
        )
        ranks, base = self.table["rank"].fill_null(0).to_numpy().astype(np.int64), len(SOURCES) + 1
        kinds, which = np.unique((ranks * base + origins) * base + sources, return_inverse=True)
        found = [
            _stratum_of(kind // base**2 or None, (*SOURCES, None)[kind // base % base], SOURCES[kind % base])
            for kind in kinds.tolist()
        ]
        return np.array([STRATA.index(name) for name in found], np.int64)[which]


@dataclass(frozen=True)
class _Population:
    """The pairs of a set: all negatives and positives, divided into pairs without and with a label."""

    negatives: _Pairs
    positives: _Pairs
    open: _Pairs
    open_positives: _Pairs
    known_negatives: list[PairId]
    known_positives: list[PairId]
    labels: Mapping[PairId, str]


def _read_pairs(training_set: TrainingSet, role: Role) -> _Pairs:
    import pyarrow.compute as compute
    import pyarrow.parquet as parquet

    table = parquet.read_table(
        training_set.folder / PAIRS, columns=list(_Pairs.COLUMNS), filters=compute.field("role") == role
    )
    return _Pairs(table)


def _population(study: Study, training_set: TrainingSet) -> _Population:
    negatives, positives = _read_pairs(training_set, "negative"), _read_pairs(training_set, "positive")
    labels = labels_by_pair(Labels(study.labels_path).consensus())
    known, known_positives = negatives.rows_of_pairs(labels), positives.rows_of_pairs(labels)
    free, free_positives = negatives.without_rows(known), positives.without_rows(known_positives)
    return _Population(
        negatives, positives, free, free_positives, negatives.ids(known), positives.ids(known_positives), labels
    )


def _drawing_chances(study: Study, population: _Population, store: ScoreStore | None) -> tuple[np.ndarray, bool]:
    """Return for each unjudged negative the estimated probability that it is false, and whether the estimate was
    trained on labels.

    All settled labels of the study are used for this; they do not have to be a random sample.
    """
    count = len(population.open)
    if not count:
        return np.zeros(0), False
    if store is None:
        return np.full(count, np.nan), False
    settled = {pair: label for pair, label in population.labels.items() if label in SETTLED}
    answer_of = {
        pair: answer
        for pairs in (population.negatives, population.positives)
        for rows in [pairs.rows_of_pairs(settled)]
        for pair, answer in zip(pairs.ids(rows), pairs.answers()[rows].tolist(), strict=True)
    }
    pilot = [pair for pair in settled if pair in answer_of]
    wanted = [*population.open.ids(), *pilot]
    known = store(wanted)
    scores = np.array([known.get(pair, np.nan) for pair in wanted])
    answers = np.concatenate([population.open.answers(), [answer_of[pair] for pair in pilot]])
    places = count + np.flatnonzero(np.isfinite(scores[count:]))
    hits = np.array([settled[wanted[place]] == "positive" for place in places], dtype=bool)
    chances, learned = pilot_chances(scores, answers, places, hits)
    return chances[:count], learned


def _census_plan(cells: Cells) -> SamplingPlan:
    return SamplingPlan(cells, 0, True, 0, 0.0, False)


def _draw_pairs(
    pairs: _Pairs,
    weights: np.ndarray,
    seed: int,
    count: int,
    member: np.ndarray | None,
    strata: np.ndarray | None,
) -> list[Draw]:
    if not len(pairs) or not count:
        return []
    order, probabilities = draw_order(weights, seed, count)
    zeros = np.zeros(len(order), np.int64)
    cells, places = (zeros if each is None else each[order] for each in (member, strata))
    columns = zip(np.minimum(1.0, probabilities).tolist(), cells.tolist(), places.tolist(), strict=True)
    return [Draw(*pair, *row) for pair, row in zip(pairs.ids(order), columns, strict=True)]


def _stratum_of(rank: int | None, origin: Source | None, source: Source) -> str:
    if rank is not None and is_mined(rank, origin):
        return RANK_GROUPS[rank_group(rank)]
    return NAMED if source == "label" else DRAWN


def _queue_draws(
    study: Study, training_set: TrainingSet, plan: CertificatePlan, draws: Sequence[Draw], actor: str | None
) -> str:
    """Queue some draws, and store the plan with the batch's name."""
    taken = {batch.name for batch in Queue(study.labels_path).batches()}
    name = training_set.name
    batch = next(each for n in range(1, 10_000) if (each := f"{name}-certificate-{n}") not in taken)
    probabilities = {draw[:2]: draw.probability for draw in draws}
    if draws:
        items = pair_items(study, list(probabilities), probabilities)
        settings = {
            "certificate": name,
            "origin": f"certificate of training set {name}",
            "seed": plan.seed,
            "judge": plan.judge,
            "size": len(draws),
        }
        Queue(study.labels_path).add_batch(batch, items, settings, actor=actor)
        plan.batches.append(batch)
    write_json(_folder(training_set) / PLAN, plan.as_json())
    return batch


def _folder(training_set: TrainingSet) -> Path:
    return training_set.folder / FOLDER

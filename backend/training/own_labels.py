"""Measure the effect of one person's labels: on training pairs, and on the reranker trained with and without these
labels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from blindspot.analysis.accuracy import Estimate, mean_difference
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import settled_labels
from blindspot.backend.progress import Progress
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.backend.training.curve_bench import CurveBench, curve_inputs
from blindspot.db.events import Label
from blindspot.db.judgements import Consensus
from blindspot.db.people import SIMULATED

USUAL_GAIN = 0.0004  # of a label in Success@1 while labels are few: 3 points for the first 80 on real data
MOST_MORE = 500


@dataclass(frozen=True, slots=True)
class OwnEffect:
    """The effect of a person's labels. labels: number of settled pairs of training questions that they judged.
    simulated, others: number of pairs that simulated annotators, or other people, judged. pairs: number of training
    pairs whose role would differ without the labels. gained, lost: number of dev questions on which the reranker
    succeeds at rank 1 only with the labels, and only without them.
    """

    labels: int
    simulated: int
    others: int
    pairs: int
    gained: int
    lost: int
    difference: Estimate

    @property
    def further_labels_needed(self) -> int:
        """Return about how many more labels are needed to show a difference; 0 if the labels already do."""
        low, high, value = self.difference.low, self.difference.high, self.difference.value
        assert low is not None and high is not None and value is not None
        if low > 0 or high < 0:
            return 0
        per_label = max(value / max(self.labels, 1), USUAL_GAIN)
        needed = (high - low) / 2 / per_label - self.labels
        return int(min(max(10 * math.ceil(needed / 10), 10), MOST_MORE))

    def lines(self) -> list[str]:
        """Return the effect in plain words; simulated annotators' labels are named separately."""
        beside = [f"{self.others:,} of other people"] if self.others else []
        beside += [f"{self.simulated:,} of simulated annotators"] if self.simulated else []
        counts = f"You gave {quantity(self.labels, 'label')} that {noun_form(self.labels, 'teaches', 'teach')}"
        lines = [counts + (f", beside {' and '.join(beside)}." if beside else ".")]
        lines.append(f"Without yours {quantity(self.pairs, 'training pair')} would have another role.")
        if self.further_labels_needed:
            about = (
                f"more than {self.further_labels_needed:,}"
                if self.further_labels_needed == MOST_MORE
                else f"about {self.further_labels_needed:,}"
            )
            lines.append(f"What they change in the reranker: too few labels to tell yet; {about} more would.")
        else:
            assert self.difference.value is not None
            value, low, high = (
                100 * each
                for each in (self.difference.value, self.difference.low, self.difference.high)
                if each is not None
            )
            lines.append(
                f"With them the reranker answers {quantity(self.gained, 'dev question')} first that it does not without, and "
                f"loses {self.lost:,}: {signed_number(value)} points {stated_interval(low, high, '+')}."
            )
        return lines


def own_effect(study: Study, annotator: str, seed: int = 0, progress: Progress | None = None) -> OwnEffect:
    """Measure the effect of a person's labels of training questions. It takes seconds. Dev questions are only used for
    measuring.

    Raises Missing if the learning curve has no runs to train on and to measure with.
    """
    bench = CurveBench(study, curve_inputs(study), seed, progress)
    everybody = [pair for pair in bench.labels.consensus() if pair.question in bench.trainable]
    given: dict[tuple[str, str], dict[str, Label]] = {}
    for each in bench.labels.judgements():
        if each.question in bench.trainable:
            given.setdefault((each.question, each.passage), {})[each.annotator] = each.label
    own = {pair for pair, labels in given.items() if annotator in labels}
    without = [pair for pair in (_consensus_without(each, given, annotator) for each in everybody) if pair is not None]
    first = []
    # Both learn from the same questions with their gold, so that only the person's labels differ.
    judged: dict[str, dict[str, int]] = {pair.question: {} for pair in everybody}
    for consensus in (everybody, without):
        lists, features, truth, answers = bench.training_lists("judged", judged | settled_labels(consensus))
        first.append(bench.rerank_dev_run(bench.fit(lists, features, truth, answers))[1])
    names = [labels.keys() - {annotator} for labels in given.values()]
    simulated = sum(any(name.endswith(SIMULATED) for name in each) for each in names)
    return OwnEffect(
        labels=len(own),
        simulated=simulated,
        others=sum(any(not name.endswith(SIMULATED) for name in each) for each in names),
        pairs=len(bench.changed_pairs(everybody, without)),
        gained=int((first[0] & ~first[1]).sum()),
        lost=int((first[1] & ~first[0]).sum()),
        difference=mean_difference(first[0].astype(float) - first[1], bench.units),
    )


def _consensus_without(
    pair: Consensus, labels_given: dict[tuple[str, str], dict[str, Label]], annotator: str
) -> Consensus | None:
    """Return the consensus without a person's label: None if nobody else judged the pair, and open if the others
    disagree.
    """
    labels = labels_given.get((pair.question, pair.passage), {})
    if annotator not in labels:
        return pair
    others = {label for name, label in labels.items() if name != annotator}
    if not others:
        return None
    return replace(pair, label=others.pop() if len(others) == 1 else None)

"""The experiments of the papers, by name. The module with an experiment's name contains its plan and the paper's
figures.

Such a module has `plan(setting, bench) -> ExperimentPlan`, and may have TAKES (fields of `Setting` that it uses besides
the common ones) and DEFAULTS (its own values of fields). An installed package adds an `Experiment` through the entry
point group `blindspot.experiments`. The table of names is in this module so that the command line can list the
experiments without importing them.
"""

from __future__ import annotations

from typing import NamedTuple

from blindspot.backend.core.registry import Registry


class About(NamedTuple):
    """The description of an experiment: the paper, the table or figure, and the research question in a sentence."""

    paper: str
    source: str
    asks: str


OURS = "Blindspot"
"""Written in place of a paper for experiments that are not from a paper."""
EXPERIMENTS = {
    "negatives": About("DPR", "Table 3", "Which negatives does a dual encoder need: gold passages of other questions, how many, or BM25 "
            "passages?"),
    "similarity": About("DPR", "Table 6", "Dot product, Euclidean distance or cosine; softmax or triplet loss?"),
    "distant-supervision": About("DPR", "Table 5", "What does it cost to train on passages that merely contain the answer?"),
    "sample-efficiency": About("DPR", "Figure 1", "How many training questions does a dual encoder need to pass BM25?"),
    "hybrid": About("DPR", "Table 2", "Do BM25 and dense find more together?"),
    "cross-dataset": About("DPR", "section 5.2", "Does a retriever that is trained on one question set work on another?"),
    "multi": About("DPR", "Table 2", "Is one retriever for several question sets as good as one for each?"),
    "retrieval": About("DPR", "Table 2", "How accurate is each retriever on each question set?"),
    "tune-bm25": About("DPR", "section 5", "Which k1 and b are best for BM25 here?"),
    "end-to-end": About("DPR", "Table 4; RocketQA, Table 5", "Does better retrieval give better answers?"),
    "strategies": About("RocketQA", "Tables 3 and 7", "What do cross-batch negatives, denoised negatives and unlabelled questions add?"),
    "random-negatives": About("RocketQA", "Figure 4", "How many random negatives does a question need?"),
    "denoised-by-rank": About("RocketQA", "Figure 5", "At which ranks does the cross-encoder remove passages?"),
    "augmentation-size": About("RocketQA", "Figure 6", "How many unlabelled questions help?"),
    "pretrained": About("RocketQA", "Table 6", "How much does the initial model of the training matter?"),
    "relations": About("EntityQuestions", "Tables 1 and 5", "On which relations is a dense retriever worse than BM25?"),
    "blocks": About("EntityQuestions", "Table 6", "Do blocks of 288 tokens find more than passages of 100 words?"),
    "buckets": About("EntityQuestions", "Figure 1", "Does the accuracy of a dense retriever depend on the frequency of the entity?"),
    "finetune": About("EntityQuestions", "Table 2", "Does training on a relation's questions help with entities that it never saw?"),
    "interference": About("EntityQuestions", "Table 3", "How does training on one relation change the accuracy on all other questions?"),
    "specialised": About("EntityQuestions", "Tables 4 and 8", "How accurate are question encoders by relation over one fixed index?"),
    "embedding-spread": About("EntityQuestions", "Figure 2", "Are a relation's passages crowded before training on the relation, and spread out after?"),
    "label-budget": About(OURS, "people's labels", "How much do people's labels improve retrieval, and are a hundred more worth the effort?"),
    "probes": About("ColDeR", "ACL 2025", "Does an encoder prefer passages with early, short, literal or repeated words to passages that state the fact?"),
}  # fmt: skip


def _check(entry: object) -> None:
    from blindspot.backend.experiments.plan import Experiment

    if not isinstance(entry, Experiment):
        raise TypeError(f"{type(entry).__name__} is not an Experiment")
    if entry.name in EXPERIMENTS:
        raise ValueError(f"Blindspot already has an experiment {entry.name!r}")


INSTALLED: Registry = Registry("experiment", group="blindspot.experiments", check=_check)
"""The registry of experiments from installed packages."""


def experiments() -> dict[str, About]:
    """Return every experiment by name: those of the papers, then those of installed packages."""
    return EXPERIMENTS | {experiment.name: experiment.about for experiment in INSTALLED}

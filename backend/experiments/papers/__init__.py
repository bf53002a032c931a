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


class ExperimentDescription(NamedTuple):
    """The description of an experiment: the paper, the table or figure, the research question in a sentence, and what the
    experiment trains and needs, in a few words.
    """

    paper: str
    source: str
    asks: str
    needs: str = ""


EXPERIMENTS = {
    "negatives": ExperimentDescription("DPR", "Table 3", "Which negatives does a dual encoder need: gold passages of other questions, how many, or BM25 passages?", "trains retrievers"),
    "similarity": ExperimentDescription("DPR", "Table 6", "Dot product, Euclidean distance or cosine; softmax or triplet loss?", "trains retrievers"),
    "distant-supervision": ExperimentDescription("DPR", "Table 5", "What does it cost to train on passages that merely contain the answer?", "trains retrievers"),
    "sample-efficiency": ExperimentDescription("DPR", "Figure 1", "How many training questions does a dual encoder need to pass BM25?", "trains retrievers"),
    "hybrid": ExperimentDescription("DPR", "Table 2", "Do BM25 and dense find more together?", "trains nothing"),
    "cross-dataset": ExperimentDescription("DPR", "section 5.2", "Does a retriever that is trained on one question set work on another?", "trains retrievers; needs two question sets"),
    "multi": ExperimentDescription("DPR", "Table 2", "Is one retriever for several question sets as good as one for each?", "trains retrievers; needs two question sets"),
    "retrieval": ExperimentDescription("DPR", "Table 2", "How accurate is each retriever on each question set?", "trains nothing"),
    "tune-bm25": ExperimentDescription("DPR", "section 5", "Which k1 and b are best for BM25 here?", "trains nothing"),
    "end-to-end": ExperimentDescription("DPR", "Table 4; RocketQA, Table 5", "Does better retrieval give better answers?", "trains readers"),
    "strategies": ExperimentDescription("RocketQA", "Tables 3 and 7", "What do cross-batch negatives, denoised negatives and unlabelled questions add?", "trains retrievers and cross-encoders"),
    "random-negatives": ExperimentDescription("RocketQA", "Figure 4", "How many random negatives does a question need?", "trains retrievers"),
    "denoised-by-rank": ExperimentDescription("RocketQA", "Figure 5", "At which ranks does the cross-encoder remove passages?", "trains retrievers and cross-encoders"),
    "augmentation-size": ExperimentDescription("RocketQA", "Figure 6", "How many unlabelled questions help?", "trains retrievers and cross-encoders; needs unlabelled questions"),
    "pretrained": ExperimentDescription("RocketQA", "Table 6", "How much does the initial model of the training matter?", "trains retrievers; needs two encoders to start from"),
    "relations": ExperimentDescription("EntityQuestions", "Tables 1 and 5", "On which relations is a dense retriever worse than BM25?", "trains nothing; needs questions with relations"),
    "blocks": ExperimentDescription("EntityQuestions", "Table 6", "Do blocks of 288 tokens find more than passages of 100 words?", "trains nothing"),
    "buckets": ExperimentDescription("EntityQuestions", "Figure 1", "Does the accuracy of a dense retriever depend on the frequency of the entity?", "trains nothing; needs frequencies of entities"),
    "finetune": ExperimentDescription("EntityQuestions", "Table 2", "Does training on a relation's questions help with entities that it never saw?", "trains retrievers; needs questions with relations"),
    "interference": ExperimentDescription("EntityQuestions", "Table 3", "How does training on one relation change the accuracy on all other questions?", "trains retrievers; needs two question sets"),
    "specialised": ExperimentDescription("EntityQuestions", "Tables 4 and 8", "How accurate are question encoders by relation over one fixed index?", "trains question encoders; needs questions with relations"),
    "embedding-spread": ExperimentDescription("EntityQuestions", "Figure 2", "Are a relation's passages crowded before training on the relation, and spread out after?", "trains retrievers; needs questions with relations"),
}  # fmt: skip


def _check(entry: object) -> None:
    from blindspot.backend.experiments.plan import Experiment

    if not isinstance(entry, Experiment):
        raise TypeError(f"{type(entry).__name__} is not an Experiment")
    if entry.name in EXPERIMENTS:
        raise ValueError(f"Blindspot already has an experiment {entry.name!r}")


INSTALLED: Registry = Registry("experiment", group="blindspot.experiments", check=_check)
"""The registry of experiments from installed packages."""


def experiments() -> dict[str, ExperimentDescription]:
    """Return every experiment by name: those of the papers, then those of installed packages."""
    return EXPERIMENTS | {experiment.name: experiment.about for experiment in INSTALLED}

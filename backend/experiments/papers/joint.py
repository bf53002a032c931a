"""DPR, section 6.2 and appendix D: compare question encoder and reader trained jointly over a fixed index with both
trained separately.
"""

from __future__ import annotations

from blindspot.backend.experiments.hits import DenseHits, Index
from blindspot.backend.experiments.parts import QuestionSelection
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting, success_cells
from blindspot.backend.experiments.readers import (
    JointHits,
    JointModelPart,
    ReaderModelPart,
    ReadingPart,
    exact_cells,
    reader_settings,
)
from blindspot.backend.experiments.rocketqa import need_one_train
from blindspot.backend.experiments.workbench import Workbench
from blindspot.backend.reader.settings import JointSettings, ReaderSettings

PUBLISHED = {"apart": 41.5, "together": 39.8}
TAKES = frozenset({"reader"})
DEFAULTS = {"ks": (1, 10, 50)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    need_one_train(setting)
    deepest, index, cells = max(setting.ks), Index(setting.first_encoder), []
    found = DenseHits(QuestionSelection(setting.train[0], limit=setting.data().limit), setting.depth, index)
    apart = DenseHits(setting.question_selection(), deepest, index)
    readers = [
        ReaderModelPart(found, reader_settings(ReaderSettings, setting, seed), setting.first_encoder)
        for seed in setting.seeds
    ]
    models = [
        JointModelPart(index, reader_settings(JointSettings, setting, seed), setting.first_encoder)
        for seed in setting.seeds
    ]
    together = [JointHits(setting.question_selection(), deepest, model=model) for model in models]
    cells += success_cells("apart", [apart], setting.ks)
    cells += exact_cells(
        "apart", [ReadingPart(reader, apart, deepest) for reader in readers], setting.ks, PUBLISHED["apart"]
    )
    cells += success_cells("together", together, setting.ks)
    cells += exact_cells(
        "together",
        [ReadingPart(model, hits, deepest) for model, hits in zip(models, together, strict=True)],
        setting.ks,
        PUBLISHED["together"],
    )
    at = f"EM@{deepest}"
    return ExperimentPlan(
        cells,
        [PaperClaim("separate training gives better answers than joint training", ("apart", at), ("together", at))],
        convention="EM@k: the best span of the reader's best passage among the top k is an answer, after SQuAD's "
        "normalisation. Success@k: one of the top k passages contains an answer by DPR's rule.",
        notes=[
            "Separate: the retriever is the unchanged encoder. Together: its question encoder is trained with the "
            "reader."
        ],
    )

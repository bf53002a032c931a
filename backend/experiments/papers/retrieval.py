"""DPR, Table 2: retrievers by question set. Nothing is trained; the experiment compares the encoders of the study."""

from __future__ import annotations

from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, HybridHits, Index, RunPart
from blindspot.backend.experiments.parts import StudyEncoder
from blindspot.backend.experiments.plan import (
    ExperimentPlan,
    PaperClaim,
    Setting,
    success_cells,
    with_column_name,
)
from blindspot.backend.experiments.question_sets import measured_sets
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"sets", "encoders"})
DEFAULTS = {"ks": (20, 100)}
PUBLISHED = {
    "BM25": {"nq": (59.1, 73.7), "triviaqa": (66.9, 76.7), "webquestions": (55.0, 71.1), "trec": (70.9, 84.1), "squad": (68.8, 80.0)},
    "DPR (NQ)": {"nq": (78.4, 85.4), "triviaqa": (79.4, 85.0), "webquestions": (73.2, 81.4), "trec": (79.8, 89.1), "squad": (63.2, 77.2)},
}  # fmt: skip


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    encoders, k, cells, claims = setting.compared_encoders, max(setting.ks), [], []
    for name in measured_sets(setting, bench):
        questions = setting.question_selection(name)
        rows: dict[str, RunPart] = {"BM25": Bm25Hits(questions, k)}
        for encoder in encoders:
            rows |= {
                encoder: DenseHits(questions, k, Index(StudyEncoder(encoder))),
                f"BM25 + {encoder}": HybridHits(questions, k, Index(StudyEncoder(encoder)), "auto"),
            }
        for at in setting.ks:
            printed = PUBLISHED["BM25"].get(name.lower().partition("/")[0], ()) if at in (20, 100) else ()
            cells += [
                cell
                for row, hits in rows.items()
                for cell in with_column_name(
                    success_cells(row, [hits], (at,), {at: printed[at == 100]} if printed and row == "BM25" else None),
                    f"{name} @{at}",
                )
            ]
        claims += [
            PaperClaim(
                f"{encoder} beats BM25 on {name}",
                (encoder, f"{name} @{setting.ks[0]}"),
                ("BM25", f"{name} @{setting.ks[0]}"),
            )
            for encoder in encoders
        ]
    return ExperimentPlan(
        cells,
        claims,
        notes=[
            "Hybrid retrieval uses the weight in study.toml for encoders without normalised vectors, and "
            "reciprocal rank fusion for the others."
        ],
    )

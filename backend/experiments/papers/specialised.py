"""EntityQuestions, Tables 4 and 8: compare a question encoder for each relation with a single one for all relations,
over a fixed index (section 5, appendix C).
"""

from __future__ import annotations

from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.by_relation import (
    AVERAGE,
    LEAST,
    SMALL_MINIMUM,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    relation_cells,
    restrict_to_trained_set,
    success_of_each_seed,
)
from blindspot.backend.experiments.hits import Bm25Hits, DenseHits, Index, RunPart
from blindspot.backend.experiments.parts import StudyEncoder
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.question_encoders import QuestionEncoders, SpecialisedHits
from blindspot.backend.experiments.relation_training import largest_k
from blindspot.backend.experiments.trainings import DualEncoder
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput

SYSTEMS = ("DPR (NQ)", "FT by relation", "FT for all", "DPR (PAQ)", "FT by relation", "FT for all", "BM25")
PUBLISHED = {  # as in SYSTEMS, success at 20 in per cent
    "P17": (56.6, 63.9, 64.2, 58.0, 65.2, 64.3, 61.0), "P19": (26.0, 48.1, 53.8, 54.6, 63.9, 64.4, 75.2),
    "P20": (32.8, 61.1, 65.4, 63.1, 71.8, 70.7, 80.3), "P26": (25.1, 32.7, 38.5, 60.8, 69.4, 69.4, 85.9),
    "P36": (74.9, 82.2, 74.9, 76.6, 82.4, 85.7, 90.0), "P40": (16.5, 46.0, 16.5, 49.7, 63.0, 63.9, 82.9),
    "P50": (75.7, 79.4, 79.6, 74.8, 79.8, 79.2, 72.2), "P69": (19.9, 55.9, 55.8, 48.9, 68.1, 69.5, 73.0),
    "P106": (19.9, 59.6, 19.9, 47.7, 71.6, 47.7, 70.7), "P112": (74.7, 72.2, 73.3, 75.1, 74.9, 76.3, 78.2),
    "P127": (46.5, 70.3, 46.5, 63.4, 73.6, 63.4, 77.5), "P131": (44.1, 50.6, 49.9, 42.1, 49.5, 50.8, 62.6),
    "P136": (34.7, 57.3, 54.8, 44.7, 57.6, 56.0, 48.5), "P159": (69.0, 77.7, 78.3, 72.2, 75.5, 78.4, 85.0),
    "P170": (33.4, 64.8, 33.4, 66.1, 75.6, 66.1, 71.7), "P175": (41.6, 56.2, 41.6, 51.4, 57.8, 51.4, 54.1),
    "P176": (43.0, 81.0, 43.0, 73.9, 82.2, 73.9, 80.6), "P264": (27.6, 47.9, 27.6, 47.1, 53.8, 52.2, 45.0),
    "P276": (71.4, 80.8, 76.8, 73.8, 80.6, 80.2, 84.3), "P407": (72.9, 81.6, 85.1, 73.7, 84.2, 86.5, 86.1),
    "P413": (75.7, 85.3, 75.7, 69.3, 85.7, 69.3, 74.2), "P495": (19.4, 24.2, 35.1, 20.2, 26.0, 30.0, 21.8),
    "P740": (57.0, 77.8, 57.0, 67.6, 79.9, 67.6, 74.3), "P800": (24.4, 22.6, 25.8, 49.3, 49.8, 52.0, 74.2),
    "Average": (45.1, 61.6, 53.0, 59.3, 68.4, 65.4, 71.2),
}  # fmt: skip
TAKES = frozenset({"encoders", "relations"})
DEFAULTS = {"ks": (20,), "training": {"batch": 24}}
CLOSE = 0.05


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    setting = restrict_to_trained_set(setting, bench)
    k, questions = largest_k(setting), setting.question_selection()
    if changed := [name for name in ("layers", "similarity", "normalise") if name in dict(setting.training)]:
        raise BadInput(f"the index is fixed, so {changed[0]} cannot be chosen here; remove this setting")
    counts = count_by_relation(bench, questions)
    relations, left_out = choose_relations(setting, counts, f"questions in {setting.on}")
    eligible_questions(bench, setting.train, relations=setting.relations)
    encoders = setting.compared_encoders
    data = setting.data_by_answers(relations=setting.relations, positives=("gold", "distant"))
    minimum = SMALL_MINIMUM if setting.small else LEAST
    runs: dict[str, list[RunPart]] = {}
    for encoder in encoders:
        index = Index(StudyEncoder(encoder))
        settings = [setting.settings(seed, only="question", layers=None) for seed in setting.seeds]
        runs[encoder] = [DenseHits(questions, k, index)]
        runs[f"{encoder}, FT by relation"] = [
            SpecialisedHits(questions, k, QuestionEncoders(data, training, index, minimum)) for training in settings
        ]
        runs[f"{encoder}, FT for all"] = [
            DenseHits(questions, k, index, DualEncoder((data,), training, StudyEncoder(encoder)))
            for training in settings
        ]
    runs["BM25"] = [Bm25Hits(questions, k)]
    places = {**dict(zip([name for name in runs if name != "BM25"], range(6), strict=False)), "BM25": 6}
    at = claim_cutoff(setting.ks)

    def row_of(system: str) -> tuple[str, str]:
        return AVERAGE, column(system, at, setting.ks)

    claims = [
        PaperClaim(
            f"question encoders by relation beat {encoder} alone",
            row_of(f"{encoder}, FT by relation"),
            row_of(encoder),
        )
        for encoder in encoders
    ]
    if len(encoders) > 1:
        first, second = encoders[:2]
        claims += [
            PaperClaim(
                f"question encoders by relation are better over {second}'s passages than over {first}'s",
                row_of(f"{second}, FT by relation"),
                row_of(f"{first}, FT by relation"),
            ),
            PaperClaim(
                f"over {second}'s passages they are within 5 points of BM25",
                row_of(f"{second}, FT by relation"),
                row_of("BM25"),
                minimum_gain=-CLOSE,
            ),
        ]
    return ExperimentPlan(
        relation_cells(
            {name: success_of_each_seed(hits) for name, hits in runs.items()},
            relations,
            setting.ks,
            lambda relation, name: (
                PUBLISHED[relation][places[name]] if relation in PUBLISHED and name in places else None
            ),
        ),
        claims,
        notes=[
            *left_out,
            "The first encoder is compared with the paper's DPR trained on NQ, the second with its DPR trained on PAQ.",
            f"Questions of a relation with fewer than {LEAST} training questions use the encoder of the index.",
        ],
    )

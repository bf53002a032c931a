"""ColDeR: do dense retrievers favour short, early and literal passages over the fact (Fayyaz et al. 2025, ACL)?

The paper's documents come from Re-DocRED. Here they are the gold passages of the study's own questions, so the paper
has no comparable figures. The probes for negation, numbers and namesakes are not in the paper.
"""

from __future__ import annotations

from blindspot.backend.experiments.plan import Cell, ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.probe_pairs import MIN_SENTENCES, PROBES, ProbeMeasure
from blindspot.backend.experiments.workbench import Workbench

TAKES = frozenset({"encoders"})
DEFAULTS = {"measured": 300}
FROM_THE_PAPER = ("early position", "brevity", "literal match", "repetition")
FAVOURED_WINS = "favoured wins"


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    encoders = setting.compared_encoders
    cells = [
        Cell(
            name,
            _column(encoder, encoders),
            (ProbeMeasure(name, encoder, bench.weights(encoder), setting.question_selection()),),
        )
        for name in PROBES
        for encoder in encoders
    ]
    column = _column(encoders[0], encoders)
    claims = [
        PaperClaim(f"the encoder favours {PROBES[name].favours}", (name, column), minimum_gain=0.5, about=name)
        for name in FROM_THE_PAPER
    ]
    wrong = ", ".join(name for name, probe in PROBES.items() if probe.is_wrong)
    return ExperimentPlan(
        cells,
        claims,
        f"Pairs of passages that differ in one respect, made from a question's gold passage of at least {MIN_SENTENCES} "
        "sentences that states the answer: the share of pairs in which the encoder scores the favoured passage higher.",
        notes=[f"{name}: {probe.favours}." for name, probe in PROBES.items()]
        + [
            f"Without a bias, 50% in early position and brevity, where both passages answer, and 0% in {wrong}, where the "
            "favoured one is wrong."
        ],
    )


def _column(encoder: str, encoders: tuple[str, ...]) -> str:
    return FAVOURED_WINS if len(encoders) == 1 else f"{FAVOURED_WINS}, {encoder}"

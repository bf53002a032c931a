"""DPR, Figure 1: how many training questions does a dual encoder need to surpass BM25 (section 5.2)?

The figure has no printed numbers. The paper's text says that training on 1,000 examples is already better than BM25,
and that more examples help further.
"""

from __future__ import annotations

from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.hits import Bm25Hits
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Plot, Setting, dense_row, success_cells
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput

TAKES = frozenset({"sizes"})
DEFAULTS = {"sizes": (1000, 10_000, 20_000, 40_000)}


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    count = len(eligible_questions(bench, setting.train).ids)
    sizes = [size for size in sorted(setting.sizes) if size < count] + [count]
    if setting.small:
        sizes = [max(2, count // 4), max(3, count // 2), count]
    if len(sizes) < 2:
        raise BadInput(
            f"the {count:,} training questions are fewer than the smallest size, {sizes[0]:,}; give smaller sizes "
            "with --sizes"
        )
    cells = success_cells("BM25", [Bm25Hits(setting.question_selection(), max(setting.ks))], setting.ks)
    for size in sizes:
        data = setting.data_by_answers(limit=size)
        cells += dense_row(setting, f"{size:,}", data)
    at, rows = setting.claim_column(), [f"{size:,}" for size in sizes]
    return ExperimentPlan(
        cells,
        [
            PaperClaim(f"{rows[0]} training questions already beat BM25", (rows[0], at), ("BM25", at)),
            PaperClaim("more training questions help further", (rows[-1], at), (rows[0], at)),
        ],
        plot=Plot(
            "training questions",
            "Success@k",
            {
                **{f"dense, @{k}": [(size, f"{size:,}", f"Success@{k}") for size in sizes] for k in setting.ks},
                **{
                    f"BM25, @{k}": [(size, "BM25", f"Success@{k}") for size in (sizes[0], sizes[-1])]
                    for k in setting.ks
                },
            },
            logarithmic=True,
        ),
    )

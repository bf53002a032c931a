"""Published figures to compare with: EntityQuestions (Sciavolino, Zhong, Lee and Chen 2021), Table 5.

The figures are top-20 retrieval accuracy in per cent over 21,015,324 Wikipedia passages, on the test questions of each
relation. The paper's table swaps the ids P413 and P800, which are correct in its other tables; the swap is corrected
here. The last row is the paper's average over relations.
"""

from __future__ import annotations

SOURCE = "EntityQuestions (Sciavolino et al. 2021), Table 5"
K = 20
SYSTEMS = ("DPR (NQ)", "DPR (multi)", "BM25")
TOP_20: dict[str, tuple[float, float, float]] = {
    "P36": (77.3, 78.9, 90.0),
    "P407": (77.1, 82.5, 86.1),
    "P26": (35.6, 48.1, 85.9),
    "P159": (70.0, 72.0, 85.0),
    "P276": (74.9, 77.3, 84.3),
    "P40": (19.2, 33.8, 82.9),
    "P176": (61.7, 73.7, 80.6),
    "P20": (34.4, 45.1, 80.3),
    "P112": (77.1, 75.7, 78.2),
    "P127": (60.7, 63.8, 77.5),
    "P19": (25.4, 41.8, 75.2),
    "P740": (59.9, 61.6, 74.3),
    "P413": (75.7, 71.5, 74.2),
    "P800": (19.0, 33.9, 74.2),
    "P69": (26.4, 41.8, 73.0),
    "P50": (75.7, 77.8, 72.2),
    "P170": (54.1, 57.7, 71.7),
    "P106": (25.9, 52.9, 70.7),
    "P131": (45.7, 44.2, 62.6),
    "P17": (64.2, 67.7, 61.0),
    "P175": (47.6, 51.5, 54.1),
    "P136": (37.4, 36.8, 48.5),
    "P264": (25.3, 43.2, 45.0),
    "P495": (21.6, 28.0, 21.8),
}
AVERAGE = (49.7, 56.7, 71.2)


def comparability_caveat(passage_count: int, question_count: int) -> str:
    """Return the caveat that must be shown with the published figures."""
    return (
        "Not directly comparable: the published figures use 21,015,324 passages and each relation's whole test "
        f"set, ours use {passage_count:,} passages and {question_count:,} questions. On fewer passages every figure is higher, most of all for BM25 and for rare subjects, and the models differ too. Compare the pattern over "
        "relations, not the values."
    )

"""EntityQuestions, Table 6: blocks of 288 tokens against passages of 100 words, and BM25 against dense retrieval of
blocks (appendix A)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from blindspot.analysis.published import AVERAGE as PUBLISHED_AVERAGE
from blindspot.analysis.published import TOP_20
from blindspot.backend.experiments.block_parts import (
    TOKENS,
    BlockHits,
    BlockIndex,
    Blocks,
    SuccessOnEqualText,
    passages_with_as_much_text,
)
from blindspot.backend.experiments.by_relation import (
    AVERAGE,
    choose_relations,
    claim_cutoff,
    column,
    count_by_relation,
    relation_cells,
    restrict_to_trained_set,
    success_of_each_seed,
)
from blindspot.backend.experiments.hits import Bm25Hits
from blindspot.backend.experiments.parts import StudyEncoder
from blindspot.backend.experiments.plan import ExperimentPlan, PaperClaim, Setting
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import Refused

PUBLISHED = {  # REALM and BM25 over blocks, success at 20 in per cent
    "P17": (70.6, 76.0), "P19": (52.9, 90.3), "P20": (61.9, 89.2), "P26": (47.1, 90.0), "P36": (91.7, 91.9), "P40": (39.7, 87.1),
    "P50": (77.2, 76.2), "P69": (38.6, 84.1), "P106": (53.6, 83.4), "P112": (77.3, 85.5), "P127": (73.6, 84.4), "P131": (63.9, 86.8),
    "P136": (42.6, 53.4), "P159": (70.4, 90.7), "P170": (56.8, 78.5), "P175": (53.1, 65.8), "P176": (69.2, 83.2), "P264": (53.2, 55.3),
    "P276": (77.1, 89.5), "P407": (81.9, 92.0), "P413": (53.8, 90.4), "P495": (34.8, 24.8), "P740": (50.9, 77.5), "P800": (45.3, 81.9),
    "Average": (59.9, 79.5),
}  # fmt: skip
TAKES = frozenset({"encoders", "relations"})
DEFAULTS = {"ks": (20,)}
PASSAGES, BLOCKS, AS_MUCH = "BM25, passages", "BM25, blocks", "BM25, passages, as much text"
TEXT_MULTIPLE = 4  # deep enough that a run over passages has as much text as the blocks


def plan(setting: Setting, bench: Workbench) -> ExperimentPlan:
    setting = restrict_to_trained_set(setting, bench)
    questions, k = setting.question_selection(), max(setting.ks)
    if not any(question.answers for question in questions.questions_of(bench)):
        raise Refused(f"the questions of {setting.on} have no answers; blocks need questions with answers")
    relations, left_out = choose_relations(setting, count_by_relation(bench, questions), f"questions in {setting.on}")
    blocks, passages = Blocks(TOKENS, setting.first_encoder), Bm25Hits(questions, k * TEXT_MULTIPLE)
    dense = {
        f"{encoder}, blocks": BlockHits(questions, k, BlockIndex(blocks, (StudyEncoder(encoder),)))
        for encoder in dict.fromkeys(setting.encoders)
    }
    systems = {
        PASSAGES: success_of_each_seed([passages]),
        BLOCKS: success_of_each_seed([BlockHits(questions, k, BlockIndex(blocks))]),
        AS_MUCH: lambda k, relations, macro: (SuccessOnEqualText(passages, blocks, k, relations, macro),),
        **{name: success_of_each_seed([hits]) for name, hits in dense.items()},
    }

    def published(relation: str, system: str) -> float | None:
        if system == PASSAGES:
            return {**TOP_20, "Average": PUBLISHED_AVERAGE}.get(relation, (None,) * 3)[2]
        return PUBLISHED.get(relation, (None, None))[system == BLOCKS] if system in (BLOCKS, *list(dense)[:1]) else None

    at = claim_cutoff(setting.ks)
    return ExperimentPlan(
        relation_cells(systems, relations, setting.ks, published),
        [
            PaperClaim(
                "BM25 finds more with blocks than with passages",
                (AVERAGE, column(BLOCKS, at, setting.ks)),
                (AVERAGE, column(PASSAGES, at, setting.ks)),
            ),
            *(
                PaperClaim(
                    f"over the same blocks BM25 finds more than {name.removesuffix(', blocks')}",
                    (AVERAGE, column(BLOCKS, at, setting.ks)),
                    (AVERAGE, column(name, at, setting.ks)),
                )
                for name in dense
            ),
        ],
        notes=_Notes(bench, blocks, at, left_out),
    )


@dataclass(frozen=True)
class _Notes:
    """Notes about the blocks, which are written after the articles have been split."""

    bench: Workbench
    blocks: Blocks
    k: int
    first_notes: list[str]

    def __iter__(self) -> Iterator[str]:
        yield from self.first_notes
        cut = self.blocks.split_statistics(self.bench)
        yield (
            f"{cut.passages:,} passages of {cut.words_per_passage:.0f} words on average became {cut.blocks:,} "
            f"blocks of up to {self.blocks.tokens} tokens of {self.blocks.tokenizer.encoder}, "
            f"{cut.words_per_block:.0f} words on average. Blocks are cut between words, not between sentences as in "
            "REALM."
        )
        if cut.gaps:
            yield (
                f"Some articles are incomplete: {cut.articles:,} of them have missing passages, at {cut.gaps:,} "
                "places. No block spans such a place, so blocks are shorter and the difference is smaller than "
                "with complete articles."
            )
        yield (
            f"As much text: the first {passages_with_as_much_text(cut, self.k)} passages have as many words as the first {self.k} "
            "blocks. If the success rates are equal, blocks help only because they are longer."
        )
        yield (
            "The column of a dense encoder is compared with REALM's column in the paper. The encoder truncates a block at "
            "its model's maximum."
        )

"""Join the passages of a study into articles, split the articles into blocks of a fixed number of tokens, and index and
search the blocks.

REALM and ORQA search blocks of up to 288 word pieces, whereas DPR searches passages of 100 words (EntityQuestions,
appendix A, Table 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.manifest import read_object, write_json
from blindspot.backend.core.model_files import locate_model
from blindspot.backend.core.settings import EncoderSettings, Settings
from blindspot.backend.core.study import Study
from blindspot.backend.experiments.hits import RunPart
from blindspot.backend.experiments.parts import Part, StudyEncoder, required
from blindspot.backend.experiments.plan import Success
from blindspot.backend.progress import Progress
from blindspot.db.corpus import CorpusWriter
from blindspot.db.records import Passage, Question

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench

TOKENS = 288  # the size of REALM's blocks
TITLE_TOKENS = 32  # extra tokens for an encoder, which reads the title as well
STATISTICS_FILE = "blocks.json"


class BlockStudy(Study):
    """A study whose passages are the blocks, with the questions and settings of the original study.

    Encoders read whole blocks, up to the model's maximum length.
    """

    def __init__(self, bench: Workbench, name: str, tokens: int):
        super().__init__(bench.home / "studies" / name)
        self._bench, self._tokens = bench, tokens

    @property
    def questions(self):
        return self._bench.questions

    @property
    def settings(self) -> Settings:
        settings = self._bench.settings
        return replace(
            settings,
            encoders={
                name: _with_max_length(encoder, self._tokens + TITLE_TOKENS)
                for name, encoder in settings.encoders.items()
            },
        )

    @cached_property
    def description(self) -> dict[str, Any]:
        return read_object(self.folder / STATISTICS_FILE)


def _with_max_length(settings: EncoderSettings, tokens: int) -> EncoderSettings:
    """Return the encoder's settings with a maximum length of `tokens`, or the model's own maximum if that is less."""
    model = settings.passage_model or settings.model
    assert model is not None, "every encoder has a model, or a passage model"
    path = Path(locate_model(model)) / "config.json"
    places = read_object(path).get("max_position_embeddings") if path.is_file() else None
    return replace(settings, max_tokens=max(settings.max_tokens, min(tokens, places or settings.max_tokens)))


@dataclass(frozen=True)
class SplitStatistics:
    """Statistics of splitting articles into blocks. gaps: positions inside an article with missing passages; no block
    spans a gap.
    """

    passages: int
    articles: int
    gaps: int
    blocks: int
    words: int

    @property
    def words_per_block(self) -> float:
        return self.words / self.blocks

    @property
    def words_per_passage(self) -> float:
        return self.words / self.passages


@dataclass(frozen=True)
class Blocks(Part):
    """The collection of blocks. tokenizer: the encoder whose tokenizer measures the blocks."""

    plural = "collections of blocks"
    tokens: int
    tokenizer: StudyEncoder

    def title(self) -> str:
        return f"cutting articles into blocks of {self.tokens} tokens"

    def study(self, bench: Workbench) -> BlockStudy:
        return BlockStudy(bench, bench.name(self), self.tokens)

    def split_statistics(self, bench: Workbench) -> SplitStatistics:
        return SplitStatistics(**self.study(bench).description)

    def finished(self, bench: Workbench) -> bool:
        return (self.study(bench).folder / STATISTICS_FILE).is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        study = self.study(bench)
        study.folder.mkdir(parents=True, exist_ok=True)
        (study.folder / "corpus.db").unlink(missing_ok=True)
        count, made = (
            token_counter(bench, self.tokenizer.encoder),
            dict.fromkeys(("passages", "articles", "gaps", "blocks", "words"), 0),
        )
        with CorpusWriter(study.folder / "corpus.db") as writer:
            writer.add(
                _with_progress(blocks(bench.corpus.scan(), self.tokens, count, made), made, len(bench.corpus), progress)
            )
            writer.finish(f"blocks of {self.tokens} tokens", bench.corpus.digest)
        write_json(study.folder / STATISTICS_FILE, asdict(SplitStatistics(**made)))


def token_counter(bench: Workbench, encoder: str) -> Callable[[str], int]:
    """Return a function that counts the tokens of a word with an encoder's tokenizer. Counts are cached."""
    from blindspot.backend.retrieval.encoder import load_encoder

    tokenizer = load_encoder(bench.settings.encoders[encoder], "cpu").model.tokenizer
    token_counts: dict[str, int] = {}

    def count(word: str) -> int:
        if word not in token_counts:
            token_counts[word] = max(1, len(tokenizer.tokenize(word)))
        return token_counts[word]

    return count


def blocks(
    passages: Iterable[Passage], tokens: int, count: Callable[[str], int], token_counts: dict[str, int]
) -> Iterator[Passage]:
    """Yield blocks of up to `tokens` tokens from consecutive passages of an article. Blocks end between words.

    Passages are consecutive if their titles are equal and, for whole-number ids, each id is one more than the last. A
    block's id, such as "12.0", consists of the id of the first passage in a sequence of consecutive passages and the
    block's number in that sequence. The statistics of `SplitStatistics` are added to `token_counts`.
    """
    for stretch in _article_runs(passages, token_counts):
        words = [word for passage in stretch for word in passage.text.split()]
        number, start, size = 0, 0, 0
        for end, word in enumerate(chain(words, [None])):
            more = 0 if word is None else count(word)
            if end > start and (word is None or size + more > tokens):
                yield Passage(f"{stretch[0].id}.{number}", stretch[0].title, " ".join(words[start:end]))
                token_counts["blocks"] += 1
                number, start, size = number + 1, end, 0
            size += more
        token_counts["words"] += len(words)


def _article_runs(passages: Iterable[Passage], counts: dict[str, int]) -> Iterator[list[Passage]]:
    stretch: list[Passage] = []
    for passage in passages:
        counts["passages"] += 1
        if stretch and passage.title == stretch[-1].title:
            if _is_next_passage(stretch[-1].id, passage.id):
                stretch.append(passage)
                continue
            counts["gaps"] += 1
        else:
            counts["articles"] += 1
        if stretch:
            yield stretch
        stretch = [passage]
    if stretch:
        yield stretch


def _is_next_passage(id: str, next_id: str) -> bool:
    whole = id.isascii() and id.isdecimal() and next_id.isascii() and next_id.isdecimal()
    return not whole or int(next_id) == int(id) + 1


def _with_progress(
    passages: Iterable[Passage], counts: dict[str, int], total: int, progress: Progress | None
) -> Iterator[Passage]:
    for number, passage in enumerate(passages):
        if progress is not None and number % 1000 == 0:
            progress(counts["passages"], total, "cutting blocks")
        yield passage


@dataclass(frozen=True)
class BlockIndex(Part):
    """The index of the blocks: BM25, or dense if an encoder is given."""

    plural = "indexes"
    blocks: Blocks
    encoder: tuple[StudyEncoder, ...] = ()

    def title(self) -> str:
        return "encoding blocks" if self.encoder else "indexing blocks for BM25"

    def finished(self, bench: Workbench) -> bool:
        from blindspot.backend.retrieval.bm25 import is_indexed

        study = self.blocks.study(bench)
        return self.encoder[0].encoder in study.parts("indexes") if self.encoder else is_indexed(study)

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.retrieval import bm25, dense

        if self.encoder:
            dense.build_index(self.blocks.study(bench), self.encoder[0].encoder, device=bench.device, progress=progress)
        else:
            bm25.build_index(self.blocks.study(bench), progress=progress)


@dataclass(frozen=True)
class BlockHits(RunPart):
    """A run over the blocks. Relevance is by answers only, because gold refers to passages, not to blocks."""

    index: BlockIndex = required()

    def title(self) -> str:
        return "searching blocks"

    def searched_study(self, bench: Workbench) -> Study:
        return self.index.blocks.study(bench)

    def finished(self, bench: Workbench) -> bool:
        return bench.name(self) in self.searched_study(bench).parts("runs")

    def search(self, bench, questions, k, progress):
        from blindspot.backend.retrieval.bm25 import BM25
        from blindspot.backend.retrieval.dense import Dense

        study = self.searched_study(bench)
        retriever = Dense(study, self.index.encoder[0].encoder, bench.device) if self.index.encoder else BM25(study)
        return retriever.search([question.text for question in questions], k, progress), retriever.settings


@dataclass(frozen=True)
class SuccessOnEqualText:
    """Success@n of passages with as much text as `k` blocks: n is the number of passages that have, on average, as many
    words as k blocks, at most the depth of the run.
    """

    hits: RunPart
    blocks: Blocks
    k: int
    relations: tuple[str, ...] = ()
    macro: bool = False

    def needs(self) -> Sequence[Part]:
        return self.hits, self.blocks

    def values(self, bench: Workbench) -> np.ndarray:
        k = min(passages_with_as_much_text(self.blocks.split_statistics(bench), self.k), self.hits.k)
        return Success(self.hits, k, self.macro, self.relations).values(bench)

    def questions(self, bench: Workbench) -> list[Question]:
        return Success(self.hits, self.k, self.macro, self.relations).questions(bench)


def passages_with_as_much_text(block_cut: SplitStatistics, k: int) -> int:
    """Return the number of passages with as many words as `k` blocks."""
    return max(1, round(k * block_cut.words_per_block / block_cut.words_per_passage))

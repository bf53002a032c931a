"""Build the reader's inputs, `[CLS] question [SEP] title [SEP] passage` as token ids, and map tokens back to
characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.reader.settings import TOKENS
from blindspot.backend.text.answers import answer_spans
from blindspot.db.records import Passage

if TYPE_CHECKING:
    import torch

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class EncodedPassage:
    """One question and passage as the reader's input.

    Attributes:
        ids: token ids, at most as many as the limit.
        first: the position in `ids` where the passage begins.
        offsets: (ids - first, 2) int32, the (start, end) characters of each passage token in the passage's text.
    """

    ids: list[int]
    first: int
    offsets: np.ndarray

    def characters(self, start: int, end: int) -> Span:
        """Return the character span from token `start` to token `end`. Both are positions in `ids`, inclusive."""
        return int(self.offsets[start - self.first, 0]), int(self.offsets[end - self.first, 1])

    def tokens(self, start: int, end: int) -> Span | None:
        """Return the first and last token (inclusive) of a character span; None if truncation removed a part of it."""
        touched = np.flatnonzero((self.offsets[:, 1] > start) & (self.offsets[:, 0] < end))
        if not len(touched) or self.offsets[touched[-1], 1] < end:
            return None
        return int(touched[0]) + self.first, int(touched[-1]) + self.first


@dataclass(frozen=True)
class ReaderInputs:
    """A tokenizer with the reader's input format.

    limit: maximum number of tokens. A question gets at most a third of them and a title a sixth, so part of the
    passage always fits.
    """

    tokenizer: Any
    limit: int = TOKENS

    def encode(self, question: str, passages: Sequence[Passage]) -> list[EncodedPassage]:
        """Encode the passages of one question."""
        if not passages:
            return []
        question_ids = self._ids([question])[0][: self.limit // 3]
        titles = self._ids([passage.title for passage in passages])
        texts = self.tokenizer(
            [passage.text for passage in passages],
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        sep = self.tokenizer.sep_token_id
        begin = [self.tokenizer.cls_token_id, *question_ids, sep]
        result = []
        for title, ids, offsets in zip(titles, texts["input_ids"], texts["offset_mapping"], strict=True):
            head = [*begin, *title[: self.limit // 6], sep]
            room = self.limit - len(head)
            result.append(
                EncodedPassage(head + ids[:room], len(head), np.array(offsets[:room], np.int32).reshape(-1, 2))
            )
        return result

    def batch(self, encoded_passages: Sequence[EncodedPassage]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return ids (n, L) int64, padded on the right, and a mask (n, L) bool of the tokens."""
        import torch

        width = max(len(each.ids) for each in encoded_passages)
        ids = torch.full((len(encoded_passages), width), self.tokenizer.pad_token_id, dtype=torch.int64)
        real = torch.zeros((len(encoded_passages), width), dtype=torch.bool)
        for row, each in enumerate(encoded_passages):
            ids[row, : len(each.ids)] = torch.tensor(each.ids)
            real[row, : len(each.ids)] = True
        return ids, real

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )["input_ids"]


def answer_positions(
    encoded_passage: EncodedPassage, passage: Passage, answers: Sequence[str], rule: str = "dpr"
) -> list[Span]:
    """Return the token spans of all occurrences of all answers in the passage, as sorted (first, last). Spans removed
    by truncation are left out.
    """
    positions = {
        span
        for answer in answers
        for low, high in answer_spans(passage.text, [answer], rule)
        if (span := encoded_passage.tokens(low, high)) is not None
    }
    return sorted(positions)

"""Tokenise many texts at once into arrays with the position and a hash of each token.

`tokens` of `blindspot.backend.text.answers` splits one text. Calling it for every passage of a collection takes longer
than all further processing of the tokens. Here NumPy tokenises a thousand passages together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from blindspot.backend.text.answers import nfd, spaced_tokens, tokens

BETWEEN = "\0"  # separates the texts; NUL belongs to no token and occurs in no passage
_NEITHER, _WORD, _SYMBOL = 0, 1, 2
_FACTOR = 0x9E3779B97F4A7C15  # odd, so that it has an inverse modulo 2**64
_ASCII = 0x80
_SURROGATES = range(0xD800, 0xE000)
_CODE_POINTS = 0x110000


@dataclass(frozen=True)
class TokenArrays:
    """The tokens of some texts, in order.

    Attributes:
        text: the decomposed (NFD), lower-cased texts, separated by NUL.
        starts, ends: (tokens,) int64, the span of each token in `text`.
        numbers: (tokens,) int64, the number of the text that holds each token, from 0.
        codes: (characters,) the code points of `text`.
    """

    text: str
    starts: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)

    def joined_tokens(self, first: int, stop: int) -> str:
        """Return the tokens `first` to `stop` (exclusive) with a space between them."""
        places = zip(self.starts[first:stop].tolist(), self.ends[first:stop].tolist(), strict=True)
        return " ".join([self.text[start:end] for start, end in places])

    @cached_property
    def hashes(self) -> np.ndarray:
        """The hash of each token, (tokens,) uint64. Equal tokens have equal hashes, and different tokens rarely do.

        The hash is the sum of the code points times powers of a factor, modulo 2**64. It is computed as a difference of
        two cumulative sums.
        """
        powers, inverses = _powers(len(self.codes))
        sums = np.zeros(len(self.codes) + 1, np.uint64)
        np.cumsum(self.codes * powers, out=sums[1:])
        return (sums[self.ends] - sums[self.starts]) * inverses[self.starts]


def token_arrays(texts: Sequence[str]) -> TokenArrays:
    """Return the lower-cased tokens of the texts: those of `spaced_tokens(nfd(text))`. No text may contain NUL."""
    text = nfd(BETWEEN.join(texts))
    if "Σ" in text:  # the only letter whose lower case depends on its neighbours: lower-case token by token
        text = BETWEEN.join(spaced_tokens(part) if "Σ" in part else part for part in text.split(BETWEEN))
    text = text.lower()
    if text.isascii():
        codes, kinds = np.frombuffer(text.encode("ascii"), np.uint8), _character_kinds(_ASCII)
    else:
        codes, kinds = np.frombuffer(text.encode("utf-32-le"), np.uint32), _character_kinds(_CODE_POINTS)
    kind = kinds[codes]
    word, symbol = kind == _WORD, kind == _SYMBOL
    first, last = word.copy(), word.copy()
    first[1:] &= ~word[:-1]
    last[:-1] &= ~word[1:]
    starts = np.flatnonzero(first | symbol)
    numbers = np.searchsorted(np.flatnonzero(codes == 0), starts)
    return TokenArrays(text, starts, np.flatnonzero(last | symbol) + 1, numbers, codes)


@cache
def _character_kinds(size: int) -> np.ndarray:
    """Return for each code point below `size` whether it is part of a word, a symbol (a token of its own) or neither."""
    kinds = np.full(size, _NEITHER, np.uint8)
    characters = [chr(code) for code in range(size) if code not in _SURROGATES]
    # Between spaces, each character that belongs to a token is a token.
    of_tokens = tokens(" ".join(characters))
    kinds[[ord(token) for token in of_tokens]] = _SYMBOL
    # After a letter, a character that belongs to a word makes that word longer.
    words = tokens(" ".join("a" + token for token in of_tokens))
    kinds[[ord(word[1]) for word in words if len(word) == 2]] = _WORD
    return kinds


_kept_powers = (np.ones(1, np.uint64), np.ones(1, np.uint64))


def _powers(length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the powers of the factor and of its inverse modulo 2**64, (length,) uint64 each."""
    global _kept_powers
    if len(_kept_powers[0]) < length:
        size = 1 << (length - 1).bit_length()
        _kept_powers = (_powers_of(_FACTOR, size), _powers_of(pow(_FACTOR, -1, 1 << 64), size))
    powers, inverses = _kept_powers
    return powers[:length], inverses[:length]


def _powers_of(factor: int, size: int) -> np.ndarray:
    factors = np.full(size, factor, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)

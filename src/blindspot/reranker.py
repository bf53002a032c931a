"""A learned reranker that works without a study: it loads a folder and ranks passages for a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from blindspot.backend.core.manifest import read_json
from blindspot.backend.judges.feature_judge import ABOUT, KIND, read_model
from blindspot.backend.judges.feature_model import RANK, FeatureModel
from blindspot.backend.judges.features import FIRST_WORDS, WordWeights, list_features, word_features
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Passage


class Reranker:
    """A judge made by `blindspot judge learn`, for questions and passages from anywhere."""

    def __init__(self, model: FeatureModel, weights: WordWeights, description: Mapping[str, Any]):
        self.about = dict(description)
        self._model, self._weights = model, weights

    @classmethod
    def load(cls, source: str | Path) -> Self:
        """Open a judge: `models/NAME` of a study, or a copy of that folder.

        Raises Missing if there is no such judge, and BadInput for a damaged one.
        """
        folder = Path(source).expanduser()
        path = folder / ABOUT
        about = read_json(path) if path.is_file() else {}
        if not isinstance(about, dict) or about.get("kind") != KIND:
            raise Missing(f"{folder} holds no judge of 'blindspot judge learn'")
        model, weights = read_model(folder, about)
        return cls(model, weights, about)

    def rank(
        self,
        question: str,
        passages: Sequence[str | Mapping[str, str]],
        top_k: int | None = None,
        return_documents: bool = False,
        scores: Sequence[float] | None = None,
        similarities: Sequence[float] | None = None,
        in_order: bool = True,
    ) -> list[dict[str, Any]]:
        """Order passages by how likely they answer a question, most likely first, as `CrossEncoder.rank` does.

        Args:
            passages: texts, or mappings with "text" and, where there is one, "title". The judge learned from whole lists
                of a retriever: give all candidates at once.
            scores: the retriever's scores of the passages.
            similarities: of question and passages by the encoder that the judge learned with (`about["encoder"]`).
            in_order: whether the passages are in the order of a retriever, the best first; that order counts.

        Returns:
            A list of {"corpus_id": place in `passages`, "score": log-odds}; with `return_documents` also "text".

        Raises BadInput for a passage in another form, or if the number of values differs from the number of passages.
        """
        if not passages:
            return []
        read = [_passage(number, passage) for number, passage in enumerate(passages)]
        present = np.ones((1, len(read)), bool)
        matrix = list_features(
            present, _values_row("scores", scores, len(read)), _values_row("similarities", similarities, len(read))
        )
        if not in_order:
            matrix[:, :, RANK] = np.nan
        matrix[:, :, FIRST_WORDS:] = word_features([read], [question], self._weights)
        found = self._model.ranking_scores(matrix[0])
        order = np.argsort(-found, kind="stable")[:top_k].tolist()
        ranked: list[dict[str, Any]] = [{"corpus_id": place, "score": float(found[place])} for place in order]
        if return_documents:
            for each in ranked:
                each["text"] = read[each["corpus_id"]].text
        return ranked


def _passage(number: int, passage: Any) -> Passage:
    if isinstance(passage, str):
        return Passage(str(number), "", passage)
    if isinstance(passage, Mapping) and isinstance(passage.get("text"), str):
        return Passage(str(number), str(passage.get("title") or ""), passage["text"])
    raise BadInput(f"passage {number} must be a text, or a mapping with 'text' and 'title'")


def _values_row(name: str, values: Sequence[float] | None, count: int) -> np.ndarray:
    """The values as (1, k) float32; NaN if there are none."""
    if values is None:
        return np.full((1, count), np.nan, np.float32)
    given = np.asarray(values, np.float32)
    if given.shape != (count,):
        raise BadInput(f"{name} must hold one number for each of the {count} passages")
    return given[None]

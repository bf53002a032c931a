"""The trainer of `blindspot.backend.reader.joint`. Only training imports this module, because it loads torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save_model
from sentence_transformers import SentenceTransformer
from transformers import DPRReader

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.reader.loss import reader_loss
from blindspot.backend.reader.model import reader_logits
from blindspot.backend.reader.trainer import ReaderCollator, ReaderTrainer
from blindspot.backend.training.examples import sample_passages
from blindspot.backend.training.initial_model import Shape, load_initial_model, tower
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.reader.joint import RetrievedPassages


class JointModel(torch.nn.Module):
    """A question encoder and a reader as one trainable module."""

    def __init__(self, questions: SentenceTransformer, reader: DPRReader):
        super().__init__()
        self.questions, self.reader = questions, reader


def question_tower(start: EncoderSettings, tokens: int) -> SentenceTransformer:
    """Return the question tower of an encoder."""
    model = load_initial_model(start, Shape(question_tokens=tokens, passage_tokens=start.max_tokens), "cpu")
    return SentenceTransformer(modules=list(tower(model, "question")), device="cpu")


@dataclass(frozen=True)
class Keys:
    """A dataset whose items are just their keys: (epoch, question number)."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, key: tuple[int, int]) -> tuple[int, int]:
        return key


def keys_of(batch: Sequence[tuple[int, int]]) -> dict[str, torch.Tensor]:
    return {"keys": torch.tensor(batch)}


class JointTrainer(ReaderTrainer):
    """A trainer that retrieves passages in every training step.

    The evaluation measures the reader's answers on the passages that the question encoder retrieves.
    """

    def __init__(
        self,
        *arguments: Any,
        retrieved: RetrievedPassages,
        training: Sequence[Question],
        held_out: Sequence[Question],
        **named: Any,
    ):
        self.found, self.training, self.aside, self.settings = retrieved, training, held_out, retrieved.settings
        super().__init__(
            *arguments,
            held_out=(),
            eval_dataset=list(range(len(held_out))),
            passages_read=retrieved.settings.read,
            **named,
        )

    def network(self) -> DPRReader:
        reader: DPRReader = self.model.reader
        return reader

    def compute_loss(
        self, model: torch.nn.Module, inputs: dict[str, torch.Tensor], *unused: Any, **named: Any
    ) -> torch.Tensor:
        assert isinstance(model, JointModel)
        keys = inputs["keys"].tolist()
        asked = [self.training[number] for _, number in keys]
        vectors = self._vectors(model, asked)
        ordinals, union, holds = self.found.retrieve(asked, vectors.detach().cpu().numpy())
        passages = torch.from_numpy(np.asarray(self.found.index.vectors[union], np.float32)).to(vectors.device)
        loss = retriever_loss(self.found.scale * vectors @ passages.T, torch.from_numpy(holds).to(vectors.device))
        drawn = []
        for (epoch, _), question, row, held in zip(keys, asked, ordinals, holds, strict=True):
            row = row[row >= 0]
            example = self.found.example(question, row, held[np.searchsorted(union, row)])
            if example is not None:
                drawn.append(
                    sample_passages(
                        example, self.settings.passages_on(self.args.device.type) - 1, epoch, self.settings.seed
                    )
                )
        if not drawn:
            return loss
        batch = {name: value.to(vectors.device) for name, value in ReaderCollator(self.inputs)(drawn).items()}
        logits = reader_logits(model.reader, batch["input_ids"], batch["real"], self.args.bf16)
        return loss + reader_loss(*logits, batch["real"], batch["places"], batch["spans"])

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, float]:
        self.model.eval()
        with torch.inference_mode():
            vectors = self._vectors(self.model, self.aside).cpu().numpy()
        ordinals, union, holds = self.found.retrieve(self.aside, vectors, self.read)
        self.held_out = [
            self.found.whole_example(question, row, held[np.searchsorted(union, row)])
            for question, row, held in zip(self.aside, ordinals, holds, strict=True)
        ]
        return super().evaluate()

    def _vectors(self, model: JointModel, questions: Sequence[Question]) -> torch.Tensor:
        """Return question vectors, (q, d) float32."""
        features = model.questions.preprocess(
            [question.text for question in questions], max_length=self.settings.question_tokens
        )
        features = {
            name: value.to(self.args.device) if torch.is_tensor(value) else value for name, value in features.items()
        }
        vectors = model.questions(features)["sentence_embedding"].float()
        cosine = self.found.index.manifest["similarity"] == "cosine"
        return torch.nn.functional.normalize(vectors, dim=1) if cosine else vectors

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = Path(output_dir or str(self.args.output_dir))
        folder.mkdir(parents=True, exist_ok=True)
        save_model(self.model, str(folder / "model.safetensors"))


def retriever_loss(scores: torch.Tensor, contains_answer: torch.Tensor) -> torch.Tensor:
    """Return the retriever's loss: the negative log of the softmax probability of all passages with an answer, averaged
    over the questions that have such a passage.

    Args:
        scores: (q, u), of each question and all retrieved passages. contains_answer: (q, u) bool.
    """
    has_answer = contains_answer.any(dim=1)
    if not has_answer.any():
        return 0.0 * scores.sum()
    scores, contains_answer = scores[has_answer], contains_answer[has_answer]
    return (scores.logsumexp(dim=1) - scores.masked_fill(~contains_answer, float("-inf")).logsumexp(dim=1)).mean()

"""A subclass of transformers' Trainer for the reader, with its own batches, loss and evaluation.

Only training imports this module, because it loads torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Trainer

from blindspot.backend.reader.answer_scores import score_prediction
from blindspot.backend.reader.examples import ReaderExample
from blindspot.backend.reader.inputs import EncodedPassage, ReaderInputs, answer_positions
from blindspot.backend.reader.loss import PAD, reader_loss
from blindspot.backend.reader.model import ReaderModel, reader_logits
from blindspot.backend.reader.reader import Reader, select_answer
from blindspot.backend.training.examples import SampledExample
from blindspot.backend.training.trainer import SampledTraining

FIGURE, SECOND = "exact_match", "f1"


@dataclass(frozen=True)
class ReaderCollator:
    """Converts sampled examples to the inputs of `reader_loss`: the passages of all questions in one batch, with the
    positive first for each question.
    """

    inputs: ReaderInputs

    def __call__(self, batch: Sequence[SampledExample[ReaderExample]]) -> dict[str, torch.Tensor]:
        encoded: list[EncodedPassage] = []
        groups: list[list[int]] = []
        spans: list[Sequence[tuple[int, int]]] = []
        for drawn in batch:
            some = self.inputs.encode(drawn.example.question, (drawn.positive, *drawn.negatives))
            groups.append(list(range(len(encoded), len(encoded) + len(some))))
            spans.append(answer_positions(some[0], drawn.positive, drawn.example.answers, drawn.example.rule))
            encoded += some
        ids, real = self.inputs.batch(encoded)
        places = torch.full((len(batch), max(map(len, groups))), PAD)
        positions = torch.full((len(batch), max(1, *map(len, spans)), 2), PAD)
        for row, (group, found) in enumerate(zip(groups, spans, strict=True)):
            places[row, : len(group)] = torch.tensor(group)
            if found:
                positions[row, : len(found)] = torch.tensor(found)
        return {"input_ids": ids, "real": real, "places": places, "spans": positions}


class ReaderTrainer(SampledTraining, Trainer):
    """A trainer that chooses the checkpoint with the best exact match on held-out questions, and the later one of
    equally good checkpoints.
    """

    def __init__(
        self, *arguments: Any, held_out: Sequence[ReaderExample], passages_read: int, inputs: ReaderInputs, **named: Any
    ):
        self.held_out, self.read, self.inputs = held_out, passages_read, inputs
        super().__init__(*arguments, eval_dataset=list(range(len(held_out))), **named)

    def compute_loss(self, model: Any, inputs: dict[str, torch.Tensor], *unused: Any, **named: Any) -> torch.Tensor:
        start, end, relevance = reader_logits(model, inputs["input_ids"], inputs["real"], self.args.bf16)
        return reader_loss(start, end, relevance, inputs["real"], inputs["places"], inputs["spans"])

    def evaluate(self, *arguments: Any, **named: Any) -> dict[str, float]:
        figures = measure(reader_of(ReaderModel(self.model, self.inputs), self.args), self.held_out, self.read)
        metrics = {f"eval_{name}": value for name, value in figures.items()}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.model.train()
        return metrics

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        found, best = metrics[f"eval_{FIGURE}"], self.state.best_metric
        better = best is None or found >= best
        if better:
            self.state.best_metric, self.state.best_global_step = found, self.state.global_step
        return better

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = output_dir or self.args.output_dir
        self.model.save_pretrained(folder)
        self.inputs.tokenizer.save_pretrained(folder)


def reader_of(model: ReaderModel, arguments: Any) -> Reader:
    """Return the reader with its current weights, on the device and in the precision used for training."""
    return Reader(model, arguments.device.type, precision="bfloat16" if arguments.bf16 else "float32")


def measure(reader: Reader, examples: Sequence[ReaderExample], k: int) -> dict[str, float]:
    """Return exact match and F1, from 0 to 1, of the answers from the top k passages of each question."""
    predictions = []
    for example in examples:
        passages = example.passages[:k]
        read = reader.read(example.question, passages)
        place = int(select_answer(read.relevance[None], read.scores[None], len(passages))[0])
        answer = None if place < 0 else passages[place].text[slice(*read.spans[place].tolist())]
        predictions.append(score_prediction(answer, example.answers, example.rule == "regex"))
    exact, shared = np.mean(predictions, axis=0).tolist()
    return {FIGURE: exact, SECOND: shared}

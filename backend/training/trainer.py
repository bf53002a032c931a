"""Subclasses of sentence-transformers' trainers with complete checkpoints, Blindspot's log, reproducible batches, and
no pickled files in a model.

Only training imports this module, because it loads torch and transformers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from sentence_transformers import CrossEncoderTrainer, SentenceTransformer, SentenceTransformerTrainer
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback
from transformers.trainer_callback import TrainerState

from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.model_files import readable_model
from blindspot.backend.progress import Progress
from blindspot.backend.training.checkpoints import WHOLE, delete_checkpoints, trainer_state
from blindspot.backend.training.distributed import average_gradients, is_main_process, wait_for_all
from blindspot.backend.training.examples import BatchSampler, Example, SampledExample, passage_number
from blindspot.backend.training.lora import has_updates, load_updates, merge_updates, save_updates
from blindspot.backend.training.losses import PAD
from blindspot.backend.training.training_log import write_line
from blindspot.db.errors import Refused
from blindspot.db.records import Passage


@dataclass(frozen=True)
class Collator:
    """Converts sampled examples to the inputs of the loss: token ids of each column, and numbers that identify
    passages.

    Attributes:
        hard_negatives: columns of hard negatives. For a question with fewer, an empty text and PAD, which the loss
            leaves out.
        teacher: returns (b, 1 + hard_negatives) log odds of the sampled passages, for distillation.
        stored: returns the vectors of passages, which are then not encoded.
    """

    model: SentenceTransformer
    template: str
    hard_negatives: int
    question_tokens: int
    passage_tokens: int
    routed: bool
    teacher: Callable[[Sequence[SampledExample[Example]], int], torch.Tensor] | None = None
    stored: Callable[[Sequence[Passage | None]], torch.Tensor] | None = None

    def __call__(self, batch: Sequence[SampledExample[Example]]) -> dict[str, Any]:
        columns: list[list[Passage | None]] = [[drawn.positive for drawn in batch]]
        columns += [
            [drawn.negatives[i] if i < len(drawn.negatives) else None for drawn in batch]
            for i in range(self.hard_negatives)
        ]
        made = self._tokens("question", [drawn.example.question for drawn in batch], "query", self.question_tokens)
        for number, column in enumerate(columns if self.stored is None else ()):
            texts = [
                "" if passage is None else self.template.format(title=passage.title, text=passage.text)
                for passage in column
            ]
            made |= self._tokens(f"passage{number}", texts, "document", self.passage_tokens)
        taught = {} if self.teacher is None else {"teacher": self.teacher(batch, self.hard_negatives)}
        if self.stored is not None:
            taught["vectors"] = self.stored([passage for column in columns for passage in column])
        return {
            **made,
            "label": taught
            | {
                "passages": torch.tensor(
                    [PAD if passage is None else passage_number(passage.id) for column in columns for passage in column]
                ),
                "positives": _pad_batch(
                    [[passage_number(passage.id) for passage in drawn.example.positives] for drawn in batch]
                ),
            },
        }

    def _tokens(self, name: str, texts: list[str], route: str, limit: int) -> dict[str, Any]:
        prompt = self.model.prompts.get(route) or None
        features = self.model.preprocess(texts, prompt=prompt, task=route if self.routed else None, max_length=limit)
        return {f"{name}_{key}": value for key, value in features.items()}


def features_of(batch: dict[str, Any], device: Any) -> tuple[list[dict[str, Any]], dict[str, torch.Tensor]]:
    """Move the output of a `Collator` to a device: the features of each column, and the labels."""
    batch = dict(batch)
    labels = {key: value.to(device) for key, value in batch.pop("label").items()}
    names = dict.fromkeys(key.split("_", 1)[0] for key in batch)
    return [
        {
            key.split("_", 1)[1]: value.to(device) if torch.is_tensor(value) else value
            for key, value in batch.items()
            if key.startswith(f"{name}_")
        }
        for name in names
    ], labels


def _pad_batch(rows: list[list[int]]) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


if TYPE_CHECKING:
    MixedIn = Trainer  # SampledTraining is mixed into one of its subclasses
else:
    MixedIn = object


class SampledTraining(MixedIn):
    """A mixin for trainers that takes batches from a `BatchSampler`, and keeps frozen towers in evaluation mode,
    without dropout.

    In distributed training, gradients are averaged after the backward pass. The library's own way, wrapping the model
    in DistributedDataParallel, fails for two towers that each have a forward pass before a common backward pass.
    """

    model: Any  # the library allows for none before training

    def __init__(
        self, *arguments: Any, sampler: BatchSampler, dataset: Any, frozen: Sequence[torch.nn.Module] = (), **named: Any
    ):
        self.sampler, self.dataset, self.frozen = sampler, dataset, frozen
        super().__init__(*arguments, **named)
        self.accelerator.prepare_model = partial(
            self.accelerator.prepare_model, evaluation_mode=True
        )  # mixed precision without the wrapper

    def training_step(self, *arguments: Any, **named: Any) -> torch.Tensor:
        loss = super().training_step(*arguments, **named)
        average_gradients(self.model)
        return loss

    def get_train_dataloader(self) -> DataLoader:
        return self.accelerator.prepare(
            DataLoader(
                self.dataset,
                batch_sampler=self.sampler,
                collate_fn=self.data_collator,
                pin_memory=self.args.device.type == "cuda",
            )
        )

    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        for module in self.frozen:
            module.eval()
        return super().compute_loss(*arguments, **named)

    def _load_from_checkpoint(self, *arguments: Any, **named: Any) -> None:
        with readable_model(arguments[0], "the checkpoint"):
            super()._load_from_checkpoint(*arguments, **named)

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Do nothing, because a model card would contain training texts and paths. training.json records the facts
        instead.
        """

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        folder = output_dir or str(self.args.output_dir)
        updates = has_updates(self.model)
        (merge_updates(self.model) if updates else self.model).save_pretrained(folder, create_model_card=False)
        if updates:
            save_updates(self.model, Path(folder))


class DualEncoderTrainer(SampledTraining, SentenceTransformerTrainer):
    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: torch.nn.Module | None = None) -> None:
        if has_updates(self.model):
            load_updates(self.model, Path(resume_from_checkpoint))
        else:
            super()._load_from_checkpoint(resume_from_checkpoint)


class PairTrainer(SampledTraining, CrossEncoderTrainer):
    pass


@dataclass(frozen=True)
class PairCollator:
    """Converts sampled examples to pairs of texts with the label 1 or 0."""

    template: str

    def __call__(self, batch: Sequence[SampledExample[Example]]) -> dict[str, Any]:
        pairs = [
            (drawn.example.question, passage, label)
            for drawn in batch
            for passage, label in ((drawn.positive, 1.0), *((negative, 0.0) for negative in drawn.negatives))
        ]
        return {
            "question": [question for question, _, _ in pairs],
            "passage": [self.template.format(title=passage.title, text=passage.text) for _, passage, _ in pairs],
            "label": torch.tensor([label for _, _, label in pairs]),
        }


class CheckpointCallback(TrainerCallback):
    """Reports progress, writes the log, completes checkpoints, deletes old ones, and stops a training that no longer
    improves.

    metrics: the evaluator's figures to log. sizes: what they were measured on, logged beside them.
    patience: evaluations without improvement before training stops; 0 never stops it.
    """

    def __init__(
        self,
        folder: Path,
        sampler: BatchSampler,
        metrics: Sequence[str],
        patience: int,
        sizes: dict,
        progress: Progress | None,
    ):
        self.folder, self.per_step, self.steps_per_epoch = (
            folder,
            sampler.batch * sampler.processes,
            sampler.steps_per_epoch,
        )
        self.figures, self.patience, self.sizes, self.progress = metrics, patience, sizes, progress
        self._logged = (0, 0.0)  # step and time of the last log line, without evaluation and saving
        self._ended = 0.0  # when the last step ended

    def on_train_begin(self, args: Any, state: TrainerState, control: Any, **named: Any) -> None:
        self._logged = (state.global_step, time.monotonic())

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **named: Any) -> Any:
        self._ended = time.monotonic()
        if self.progress is not None:
            self.progress(state.global_step, state.max_steps, "training")
        if state.global_step >= state.max_steps:
            control.should_save, control.should_evaluate = True, args.eval_strategy != "no"
        return control

    def on_log(
        self, args: Any, state: TrainerState, control: Any, logs: dict[str, Any] | None = None, **named: Any
    ) -> None:
        if logs is None or "loss" not in logs:
            return
        if not abs(logs["loss"]) < float("inf"):
            raise Refused(
                f"the loss is {logs['loss']} at step {state.global_step}: training diverged; lower the learning rate"
            )
        now = time.monotonic()
        step, began = self._logged
        rate = (state.global_step - step) * self.per_step / max(now - began, 1e-9)
        self._logged = (state.global_step, now)
        self._write(
            state, loss=logs["loss"], learning_rate=logs["learning_rate"], examples_per_second=rate, seconds=now - began
        )

    def on_evaluate(
        self, args: Any, state: TrainerState, control: Any, metrics: dict[str, Any] | None = None, **named: Any
    ) -> None:
        assert metrics is not None, "the trainer passes the figures of the evaluation"
        self._write(state, **{figure: metrics[f"eval_{figure}"] for figure in self.figures}, **self.sizes)
        self._leave_out()

    def on_save(self, args: Any, state: TrainerState, control: Any, **named: Any) -> Any:
        wait_for_all()  # every process has written its part of the checkpoint
        if is_main_process():
            write_json(self.folder / f"checkpoint-{state.global_step}" / WHOLE, {"step": state.global_step})
            delete_checkpoints(self.folder, {state.global_step, state.best_global_step})
        self._leave_out()
        control.should_training_stop = control.should_training_stop or is_out_of_patience(
            state, args.eval_steps, self.patience
        )
        return control

    def _leave_out(self) -> None:
        now = time.monotonic()
        self._logged, self._ended = (self._logged[0], self._logged[1] + now - self._ended), now

    def _write(self, state: TrainerState, **values: Any) -> None:
        if is_main_process():
            write_line(
                self.folder,
                {"step": state.global_step, "epoch": round(state.global_step / self.steps_per_epoch, 4), **values},
            )


def run(trainer: Trainer, checkpoint: Path | None) -> None:
    """Train from a checkpoint, or from the start if there is none. Progress is reported by Blindspot's own callback
    instead of the library's.
    """
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def is_out_of_patience(state: TrainerState, evaluate_every: float, patience: int) -> bool:
    return bool(
        patience
        and state.best_global_step is not None
        and state.global_step - state.best_global_step >= patience * evaluate_every
    )


def is_finished(checkpoint: Path, arguments: Any, patience: int) -> bool:
    """Return whether the training was interrupted after its last step."""
    state = trainer_state(checkpoint)
    return state.global_step >= arguments.max_steps or is_out_of_patience(state, arguments.eval_steps, patience)

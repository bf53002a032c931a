"""Checkpoints of a training, the arguments that all trainers share, and readable training errors.

The working folder of a training holds request.json (what is trained), log.jsonl and the checkpoints. A checkpoint is
complete only if its whole.json exists, so a training may be killed at any moment and resumes from its last complete
checkpoint.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import atomic_folder, read_object, versions, write_json
from blindspot.backend.core.processor import cpu_multiplies_bfloat16
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.training.distributed import is_distributed, is_main_process, wait_for_all, world_size
from blindspot.backend.training.lora import UPDATES
from blindspot.backend.training.tracking import tracking_arguments
from blindspot.backend.training.training_log import LOG, cut_log, read_lines, working_folder
from blindspot.db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    from transformers.trainer_callback import TrainerState

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress
    from blindspot.backend.training.examples import BatchSampler
    from blindspot.backend.training.training_settings import TrainingOptions

TRAINING = "training.json"
REQUEST = "request.json"
WHOLE = "whole.json"  # written last: a checkpoint without it is never read
STATE_FILES = {".pt", ".pth", ".bin"}  # the files of a checkpoint that only resuming needs
STATE_NAMES = {"trainer_state.json", "whole.json", UPDATES}


@dataclass(frozen=True)
class TrainingFolders:
    """The folders and options of one training.

    Attributes:
        target: the folder of the finished model.
        working: the folder of checkpoints and log during the training; deleted at the end.
        restart: discard an unfinished training in `working`.
        about: further entries of training.json. A training is resumed only if they are the same.
    """

    target: Path
    working: Path
    device: str | None = None
    restart: bool = False
    about: Mapping[str, Any] | None = None
    progress: Progress | None = None

    @property
    def main_process_progress(self) -> Progress | None:
        """The progress callback in the main process; None in other processes."""
        return self.progress if is_main_process() else None

    @classmethod
    def in_study(
        cls, study: Study, name: str, options: TrainingOptions, progress: Progress | None, **about: Any
    ) -> TrainingFolders:
        """Return the training place for a model of a study."""
        folders = study.path("models", name), working_folder(study, name)
        return cls(*folders, options.device, options.restart, about, progress)


@contextmanager
def lock_model(study: Study, name: str, replace: bool) -> Iterator[None]:
    """Let only one training at a time build the model `name`. In distributed training, the main process reserves the
    name.

    Raises Refused if a model of this name exists and `replace` is false, or if another process is building it.
    """
    if not is_main_process():
        yield
        return
    with study.lock_part(f"models/{name}", lambda: new_model_folder(study, name, replace)):
        yield


def models_of(study: Study) -> dict[str, dict]:
    """Return the models trained in this study, oldest first: name to training.json. Models of unknown age
    come first.
    """
    found = {path.parent.name: read_object(path) for path in study.folder.glob(f"models/*/{TRAINING}")}
    return dict(
        sorted(
            ((name, about) for name, about in found.items() if not name.startswith(".")),
            key=lambda item: item[1].get("made", ""),
        )
    )


def training_request(start: Any, settings: Any, examples: str, description: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return everything that determines a training. An interrupted training is resumed only if its request is the same.

    Args:
        start: the initial model. settings: a settings record. examples: the digest of the examples.
        description: further facts.
    """
    return {
        "start": start,
        "settings": asdict(settings),
        "examples": examples,
        "processes": world_size(),
        **(description or {}),
    }


def training_facts(kind: str, name: str, sampler: BatchSampler, device: str, start_time: float) -> dict[str, Any]:
    """Return the entries that training.json has for every finished training. start_time: `time.monotonic()` at the
    start.
    """
    return {
        "kind": kind,
        "name": name,
        "batch": sampler.batch * sampler.processes,
        "steps": sampler.steps,
        "device": device,
        "seconds": round(time.monotonic() - start_time, 1),
    }


def load_checkpoint(working_folder: Path, request: dict, restart: bool) -> Path | None:
    """Return the checkpoint to resume from, or None for a new training. The main process deletes old files while the
    other processes wait.

    Raises:
        Refused: this folder has another unfinished training, and `restart` is false.
    """
    if is_main_process():
        if restart:
            shutil.rmtree(working_folder, ignore_errors=True)
        working_folder.mkdir(parents=True, exist_ok=True)
        if (working_folder / REQUEST).is_file():
            if differs := _request_differences(read_object(working_folder / REQUEST), request):
                raise Refused(
                    f"an unfinished training of this name differs in {', '.join(differs)}; resume it with the same "
                    "arguments, take another name, or give --restart"
                )
        else:
            write_json(working_folder / REQUEST, request)
        found = last_checkpoint(working_folder)
        cut_log(working_folder, int(found.name.rsplit("-", 1)[1]) if found else -1)
    wait_for_all()
    return last_checkpoint(working_folder)


def _request_differences(old_request: dict, new_request: dict) -> list[str]:
    names = [key for key in new_request if key != "settings" and old_request.get(key) != new_request[key]]
    return names + [
        key
        for key, value in new_request["settings"].items()
        if key != "report_to" and old_request["settings"].get(key) != value  # a tracker changes nothing in the model
    ]


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The checkpoint that becomes the model: the one with the best `figure`, or the last one if none was evaluated."""

    folder: Path
    step: int
    last_step: int
    value: float | None
    curve: list[dict]

    def facts(self, metric: str) -> dict[str, Any]:
        """Return the entries about the checkpoint for training.json."""
        return {"last_step": self.last_step, "best_step": self.step, metric: self.value, "curve": self.curve}


def best_checkpoint(working_folder: Path, metric: str) -> BestCheckpoint:
    last = last_checkpoint(working_folder)
    assert last is not None, "a finished training has a checkpoint"
    state = trainer_state(last)
    step = state.best_global_step or state.global_step
    curve = [line for line in read_lines(working_folder) if metric in line]
    value = next((line[metric] for line in curve if line["step"] == step), None)
    return BestCheckpoint(last.parent / f"checkpoint-{step}", step, state.global_step, value, curve)


@contextmanager
def saved_model(working_folder: Path, target: Path, metric: str) -> Iterator[tuple[BestCheckpoint, Path]]:
    """Copy the best checkpoint (the last one if none was evaluated) and the log to a new folder. The block completes
    it with training.json; then it is renamed to `target`, and the working folder is deleted.
    """
    best = best_checkpoint(working_folder, metric)
    with atomic_folder(target) as building:
        for path in best.folder.iterdir():
            if path.is_dir():
                shutil.copytree(path, building / path.name)
            elif path.suffix not in STATE_FILES and path.name not in STATE_NAMES:
                shutil.copy2(path, building / path.name)
        shutil.copy2(working_folder / LOG, building / LOG)
        yield best, building
    shutil.rmtree(working_folder)


def write_training_json(new_folder: Path, description: dict) -> None:
    """Write training.json, which completes a model."""
    write_json(
        new_folder / TRAINING,
        description | {"made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "versions": versions()},
    )


def training_device(device: str | None) -> str:
    """Return the device to train on, cpu or cuda. Raises Refused for a device that does not exist."""
    import torch

    if device is not None and device not in ("cpu", "cuda"):
        raise Refused(f"device must be cpu or cuda, not {device!r}; choose among GPUs with CUDA_VISIBLE_DEVICES")
    if device == "cuda" and not torch.cuda.is_available():
        raise Refused("torch finds no GPU here; leave --device out, or give cpu")
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def uses_bfloat16(precision: str, device: str) -> bool:
    """Return whether to compute in bfloat16, given "auto", "float32" or "bfloat16".

    "auto" uses bfloat16 on GPUs and CPUs with hardware instructions for it.
    """
    import torch

    if precision != "auto":
        return precision == "bfloat16"
    if device == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return cpu_multiplies_bfloat16()


def training_arguments(
    kind: type, working_folder: Path, settings: Any, device: str, metric: str, greater_is_better: bool = False
) -> Any:
    """Return the library's training arguments that do not depend on the data. In distributed training, this call also
    connects to the other processes.

    Args:
        kind: the library's class of arguments.
        metric: the metric that compares checkpoints. greater_is_better: whether more of it is better.
    """
    import logging

    import transformers

    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    arguments = kind(
        output_dir=str(working_folder),
        use_cpu=device == "cpu",
        seed=settings.seed,
        bf16=uses_bfloat16(settings.precision, device),
        ddp_backend="gloo" if device == "cpu" and is_distributed() else None,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        lr_scheduler_type="linear" if settings.decay else "constant_with_warmup",
        save_strategy="steps",
        logging_nan_inf_filter=False,
        metric_for_best_model=f"eval_{metric}",
        greater_is_better=greater_is_better,
        **tracking_arguments(settings.report_to, working_folder),
        disable_tqdm=True,
        log_level="error",
        dataloader_drop_last=True,
    )  # every batch of our sampler has the same size
    if arguments.device.type == "cuda" and arguments.n_gpu > 1:
        arguments._n_gpu = 1  # use one process for each GPU (torchrun); the library would split batches among threads
    return arguments


def set_schedule(
    arguments: Any,
    settings: Any,
    steps: int,
    batch_size: int,
    evaluations: int,
    trained_texts: int = 1,
    compared_texts: int = 0,
) -> None:
    """Set the arguments that depend on the number of steps.

    The parameters after `batch_size` are those of `steps_between_checkpoints`.
    """
    arguments.max_steps, arguments.per_device_train_batch_size = steps, batch_size
    arguments.warmup_steps = round(settings.warmup * steps)
    arguments.eval_steps = arguments.save_steps = steps_between_checkpoints(
        settings, steps, evaluations, trained_texts, compared_texts
    )
    arguments.logging_steps = max(1, min(50, steps // 100))
    arguments.eval_strategy = type(arguments.eval_strategy)("steps" if evaluations else "no")


def steps_between_checkpoints(
    settings: Any, steps: int, evaluations: int, trained_texts: int, compared_texts: int
) -> int:
    """Return the number of steps between two checkpoints. Every checkpoint is evaluated.

    If the settings do not determine it, there are `evaluations` evaluations in total, or fewer if evaluation would take more
    than about half as long as training. (A training text costs about three times as much as a text that is only
    encoded.)

    Args:
        evaluations: 0 means no evaluation; ten checkpoints are then saved, each replacing the last.
        trained_texts, compared_texts: number of texts encoded in one step, and in one evaluation.
    """
    return min(
        steps,
        settings.evaluate_every
        or max(1, steps // (evaluations or 10), round(2 * compared_texts / (3 * trained_texts))),
    )


@contextmanager
def readable_training_errors(batch: int, caches: bool = False) -> Iterator[None]:
    """Turn a full disk or exhausted GPU memory into a one-line error. caches: whether the training can use gradient
    caching, which the error message then suggests.
    """
    try:
        yield
    except BlindspotError:
        raise
    except Exception as error:
        if "No space left on device" in str(error):
            raise Refused(
                "the disk is full; free some space, and the same command resumes from the last checkpoint"
            ) from error
        if type(error).__name__ == "OutOfMemoryError":
            cached = (
                f", or give --mini-batch {max(1, batch // 4)}, which encodes that many texts at a time and "
                "computes the same"
            )
            raise Refused(
                f"the GPU's memory does not hold a batch of {batch}; make it smaller{cached if caches else ''}"
            ) from error
        raise


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, and delete incomplete ones."""
    delete_checkpoints(
        folder, {step for step, path in _checkpoints_by_step(folder).items() if (path / WHOLE).is_file()}
    )
    return max(_checkpoints_by_step(folder).items(), default=(0, None))[1]


def delete_checkpoints(folder: Path, kept_steps: set[int | None]) -> None:
    for step, path in _checkpoints_by_step(folder).items():
        if step not in kept_steps:
            shutil.rmtree(path)


def trainer_state(checkpoint: Path) -> TrainerState:
    from transformers.trainer_callback import TrainerState

    read_object(checkpoint / "trainer_state.json")  # raises a one-line error for a damaged file
    return TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))


def _checkpoints_by_step(folder: Path) -> dict[int, Path]:
    return {int(path.name.rsplit("-", 1)[1]): path for path in folder.glob("checkpoint-*")}

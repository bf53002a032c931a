"""Training a dual encoder: DPR's recipe (Karpukhin et al. 2020, section 3.2) on sentence-transformers' trainer.

`train` works on folders and knows no study; `train_dual_encoder` is the job. What is made is an ordinary folder that
`SentenceTransformer(...)` loads anywhere, with training.json (settings, hashes, curve) and log.jsonl beside the weights. In several
processes: `torchrun --nproc-per-node 4 -m app.cli train dual-encoder ...`, each the same command.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from backend.manifest import read_json, versions, whole_folder, write_json
from backend.retrieval.encoder import load_encoder
from backend.settings import EncoderSettings
from backend.training.distributed import launched, leads, wait_for_all, world_size
from backend.training.examples import Drawing, Example, Examples, Order, Pool, Some, digest, hold_out, make_pool, usable
from backend.training.starting import Shape, Towers, has_two_towers, normalises, start_model, tower
from backend.training.training_log import LOG, cut_log, read_lines, write_line
from db.errors import BlindspotError, Missing, Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Progress = Callable[[int, "int | None", str], None]
TRAINING = "training.json"
REQUEST = "request.json"
UNIT_SCALE = 20.0  # for scores between -1 and 1, the library's own choice
STATE_FILES = {".pt", ".pth", ".bin"}  # of a checkpoint: what only going on needs


@dataclass(frozen=True, slots=True)
class DualEncoderSettings:
    """Every setting of a training. The defaults are DPR's where it names one, with a batch and lengths that smaller machines hold."""

    towers: Towers = "two"  # "two" (DPR) or "shared"
    pooling: str | None = None  # "cls" (DPR), "mean"; None: the start model's
    layers: int | None = None  # only the first so many of the start model; None: all
    normalise: bool | None = None  # vectors of unit length; None: as the start model
    similarity: str = "dot"  # "dot" (DPR), "cosine", "l2"
    question_tokens: int = 64
    passage_tokens: int = 256

    loss: Literal["softmax", "triplet"] = "softmax"
    scale: float | None = None  # of the scores before the softmax; None: 1, or 20 where scores lie between -1 and 1
    margin: float = 1.0  # of the triplet loss
    masked: bool = True  # known positives are nobody's negatives
    hard_negatives: int = 1  # of each question, besides the passages of the others in its batch

    batch: int = 32  # questions, in each process
    mini_batch: int | None = None  # texts encoded at a time (gradient caching); None: no caching
    epochs: float = 10.0
    steps: int | None = None  # in the place of epochs
    learning_rate: float = 2e-5
    warmup: float = 0.1  # share of the steps
    decay: bool = True  # linearly to 0 after the warm-up
    weight_decay: float = 0.0
    clip: float = 2.0  # of the gradient's norm
    only: Literal["question", "passage"] | None = None  # train this tower alone (EntityQuestions, Table 2: OnlyQ, OnlyP)

    held_out: int = 200  # questions held out to compare checkpoints by, at most a fifth
    pool: int = 1000  # passages that their positives are ranked among
    evaluate_every: int | None = None  # steps; None: ten times in all
    patience: int = 0  # evaluations without a better one before training stops; 0: never

    seed: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU that has it

    @property
    def shape(self) -> Shape:
        return Shape(self.towers, self.pooling, self.layers, self.normalise, self.similarity, self.question_tokens, self.passage_tokens)


@dataclass(frozen=True)
class Trained:
    """A trained model's folder and what its training.json says."""

    name: str
    folder: str
    steps: int
    best_step: int
    average_rank: float | None
    seconds: float


def train(start: EncoderSettings, examples: Examples, target: Path, working: Path, settings: DualEncoderSettings | None = None, *,
          dev: Sequence[Example] | None = None, device: str | None = None, restart: bool = False, about: dict | None = None,
          progress: Progress | None = None) -> Trained:
    """Train, or go on where a training that was broken off stands, and put the best model into `target`.

    Args:
        start: the encoder to start from; its passage template is kept.
        working: where checkpoints and the log lie meanwhile; removed at the end.
        dev: what checkpoints are compared by; None holds some of the examples out.
        restart: begin again although an unfinished training stands in `working`.
        about: what else training.json is to say.

    Raises:
        Refused: settings that cannot learn, no positives, another training unfinished in `working`, a full disk.
        Missing: the start model cannot be loaded, or a package that training needs.
    """
    _check_packages()
    settings = settings or DualEncoderSettings()
    _check(settings)
    on = _device(device)
    arguments = _arguments(working, settings, on)  # joins the other processes
    every = usable(examples)
    chosen, pool = _split(every, settings, dev)
    with _told(settings):
        model = start_model(start, settings.shape, on)
        scale = _scale(settings, normalises(model))
        _check_model(settings, model, len(chosen))
        order = _order(len(chosen), settings)
        request = {"start": asdict(start), "settings": asdict(settings), "examples": digest(every), "pool": pool.digest if pool else None,
                   "processes": world_size(), **(about or {})}
        checkpoint = _stand(working, request, restart)
        began = time.monotonic()
        _run(model, arguments, settings, scale, start.passage_template, Drawing(chosen, settings.hard_negatives, settings.seed), order, pool,
             working, checkpoint, progress if leads() else None)
        made = None
        if leads():
            made = _keep(working, target, start, request | {
                "kind": "dual encoder", "name": target.name, "scale": scale, "questions": len(chosen), "held_out": len(pool.questions) if pool else 0,
                "without_positives": len(examples) - len(every), "batch": order.batch * order.processes, "steps": order.steps,
                "device": on, "seconds": round(time.monotonic() - began, 1)})
        wait_for_all()
    return made or Trained(target.name, str(target), order.steps, order.steps, None, time.monotonic() - began)


def _split(examples: Some, settings: DualEncoderSettings, dev: Sequence[Example] | None) -> tuple[Examples, Pool | None]:
    """What is trained on, and the pool; None where nothing is held out."""
    if dev is not None:
        return examples, make_pool([one for one in dev if one.positives], settings.pool, examples, settings.seed)
    training, held_out = hold_out(examples, settings.held_out, settings.seed)
    if not held_out:
        return examples, None
    chosen = Some(examples, training)
    return chosen, make_pool([examples[number] for number in held_out], settings.pool, chosen, settings.seed)


def _check(settings: DualEncoderSettings) -> None:
    positive = ("question_tokens", "passage_tokens", "batch", "learning_rate", "clip", "pool", "epochs")
    wrong = [name for name in positive if not getattr(settings, name) > 0]
    wrong += [name for name in ("mini_batch", "steps", "evaluate_every", "scale") if (value := getattr(settings, name)) is not None and value <= 0]
    wrong += [name for name in ("hard_negatives", "margin", "weight_decay", "held_out", "patience") if getattr(settings, name) < 0]
    wrong += [] if 0 <= settings.warmup < 1 else ["warmup"]
    if wrong:
        raise Refused(f"{wrong[0].replace('_', ' ')} cannot be {getattr(settings, wrong[0])}; nothing would be learned")
    choices = {"towers": ("two", "shared"), "pooling": (None, "cls", "mean"), "similarity": ("dot", "cosine", "l2"), "loss": ("softmax", "triplet"),
               "only": (None, "question", "passage"), "precision": ("auto", "float32", "bfloat16")}
    for name, known in choices.items():
        if getattr(settings, name) not in known:
            raise Refused(f"{name} must be one of {', '.join(str(one) for one in known if one)}, not {getattr(settings, name)!r}")
    if settings.only and settings.towers == "shared":
        raise Refused(f"one tower cannot be trained for {settings.only}s alone; take two towers")
    if settings.batch == 1 and not settings.hard_negatives and not launched():
        raise Refused("a batch of one question without hard negatives has nothing to compare with; take a larger batch")


def _scale(settings: DualEncoderSettings, unit_length: bool) -> float:
    """Raises Refused where scores between -1 and 1 would stand in a softmax as they are: it can hardly prefer any."""
    bounded = settings.loss == "softmax" and (unit_length or settings.similarity == "cosine")
    if settings.scale is None:
        return UNIT_SCALE if bounded else 1.0
    if bounded and settings.scale < 5:
        why = "compares by cosine" if settings.similarity == "cosine" else "gives vectors of unit length"
        raise Refused(f"this encoder {why}, so its scores differ by 2 at most, and a softmax over scores times {settings.scale:g} has almost no "
                      f"gradient; take a scale of {UNIT_SCALE:g}, or do not normalise")
    return settings.scale


def _check_model(settings: DualEncoderSettings, model: SentenceTransformer, examples: int) -> None:
    if settings.only and has_two_towers(model):
        other = tower(model, "passage" if settings.only == "question" else "question")
        other.requires_grad_(False)
    if examples < max(world_size(), 1 if settings.hard_negatives else 2):
        raise Refused(f"{examples} questions are too few to train on with {world_size()} processes; add some")


def _order(examples: int, settings: DualEncoderSettings) -> Order:
    processes = world_size()
    batch = min(settings.batch, examples // processes)
    steps = settings.steps or max(1, round(settings.epochs * (examples // (batch * processes))))
    return Order(examples, batch, steps, processes, settings.seed)


def _device(device: str | None) -> str:
    import torch

    if device is not None and device not in ("cpu", "cuda"):
        raise Refused(f"device must be cpu or cuda, not {device!r}; choose among GPUs with CUDA_VISIBLE_DEVICES")
    if device == "cuda" and not torch.cuda.is_available():
        raise Refused("there is no GPU here that torch can use; leave --device out, or give cpu")
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def _arguments(working: Path, settings: DualEncoderSettings, device: str) -> Any:
    """The library's arguments as far as they do not depend on the data."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformerTrainingArguments

    transformers.utils.logging.set_verbosity_error()
    half = device == "cuda" and (settings.precision == "bfloat16" or settings.precision == "auto" and torch.cuda.is_bf16_supported())
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(working), use_cpu=device == "cpu", seed=settings.seed, bf16=half, ddp_backend="gloo" if device == "cpu" and launched() else None,
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay, max_grad_norm=settings.clip,
        lr_scheduler_type="linear" if settings.decay else "constant_with_warmup", save_strategy="steps", logging_nan_inf_filter=False,
        metric_for_best_model="eval_average_rank", greater_is_better=False, report_to="none", disable_tqdm=True, log_level="error")
    if arguments.device.type == "cuda" and arguments.n_gpu > 1:
        arguments._n_gpu = 1  # several GPUs are several processes (torchrun); the library would split batches among threads
    return arguments


def _run(model: Any, arguments: Any, settings: DualEncoderSettings, scale: float, template: str, drawing: Drawing, order: Order,
         pool: Pool | None, working: Path, checkpoint: Path | None, progress: Progress | None) -> None:
    from transformers import PrinterCallback

    from backend.training.losses import InBatchLoss
    from backend.training.trainer import Collator, Keeper, RankEvaluator, Trainer, out_of_patience, state_of

    every = settings.evaluate_every or max(1, order.steps // 10)
    arguments.max_steps, arguments.per_device_train_batch_size = order.steps, order.batch
    arguments.warmup_steps = round(settings.warmup * order.steps)
    arguments.eval_steps = arguments.save_steps = min(every, order.steps)
    arguments.logging_steps = max(1, min(50, order.steps // 100))
    arguments.eval_strategy = type(arguments.eval_strategy)("steps" if pool else "no")
    if checkpoint is not None:
        state = state_of(checkpoint)
        if state.global_step >= order.steps or out_of_patience(state, arguments.eval_steps, settings.patience):
            return  # it was broken off after its last step
    evaluator = RankEvaluator(pool, template, settings.similarity, settings.batch) if pool else None
    sizes = {"questions": len(pool.questions), "passages": len(pool.passages)} if pool else {}
    if evaluator is not None and checkpoint is None and leads():
        write_line(working, {"step": 0, "epoch": 0, **evaluator(model), **sizes})
    frozen = [part for part in (tower(model, side) for side in ("question", "passage"))
              if settings.only and not any(weight.requires_grad for weight in part.parameters())]
    trainer = Trainer(
        model=model, args=arguments, evaluator=evaluator, order=order, drawing=drawing, frozen=frozen,
        loss=InBatchLoss(model, settings.loss, settings.similarity, scale, settings.margin, settings.mini_batch, settings.masked),
        data_collator=Collator(model, template, settings.hard_negatives, settings.question_tokens, settings.passage_tokens, has_two_towers(model)),
        callbacks=[Keeper(working, order.batch * order.processes, order.steps_per_epoch, settings.patience, sizes, progress)])
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def _stand(working: Path, request: dict, restart: bool) -> Path | None:
    """The checkpoint to go on from; None to begin. One process clears up, the others wait."""
    from backend.training.trainer import last_checkpoint

    if leads():
        if restart:
            shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True, exist_ok=True)
        if (working / REQUEST).is_file():
            old = read_json(working / REQUEST)
            differs = [key for key in request if old.get(key) != request[key]]
            if "settings" in differs:
                differs += [key for key, value in request["settings"].items() if old["settings"].get(key) != value]
            if differs:
                raise Refused(f"an unfinished training of this name differs in {', '.join(d for d in differs if d != 'settings')}; go on "
                              "with what it was begun with, take another name, or give --restart")
        else:
            write_json(working / REQUEST, request)
        found = last_checkpoint(working)
        cut_log(working, int(found.name.rsplit("-", 1)[1]) if found else -1)
    wait_for_all()
    return last_checkpoint(working)


def _keep(working: Path, target: Path, start: EncoderSettings, about: dict) -> Trained:
    """Put the best checkpoint, or the last where none was compared, into `target`; the working folder goes."""
    from backend.training.trainer import last_checkpoint, state_of

    last = last_checkpoint(working)
    state = state_of(last)
    best = state.best_global_step or state.global_step
    curve = [line for line in read_lines(working) if "average_rank" in line]
    rank = next((line["average_rank"] for line in curve if line["step"] == best), None)
    with whole_folder(target) as building:
        for path in (last.parent / f"checkpoint-{best}").iterdir():
            if path.is_dir():
                shutil.copytree(path, building / path.name)
            elif path.suffix not in STATE_FILES and path.name not in ("trainer_state.json", "whole.json"):
                shutil.copy2(path, building / path.name)
        shutil.copy2(working / LOG, building / LOG)
        saved = EncoderSettings(model=str(building), passage_template=start.passage_template, max_tokens=about["settings"]["passage_tokens"])
        encoder = load_encoder(saved, "cpu")
        write_json(building / TRAINING, about | {
            "last_step": state.global_step, "best_step": best, "average_rank": rank, "curve": curve, "model_hash": encoder.model_hash,
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "versions": versions()})
    shutil.rmtree(working)
    return Trained(target.name, str(target), state.global_step, best, rank, about["seconds"])


def _check_packages() -> None:
    from sentence_transformers.util import is_training_available

    if not is_training_available():
        raise Missing("training needs the packages accelerate and datasets; run 'pip install accelerate datasets'")


@contextmanager
def _told(settings: DualEncoderSettings) -> Iterator[None]:
    """A full disk and a full GPU, in one line each."""
    try:
        yield
    except BlindspotError:
        raise
    except Exception as error:
        if "No space left on device" in str(error):
            raise Refused("the disk is full; free some space, and the same command goes on from the last checkpoint") from error
        if type(error).__name__ == "OutOfMemoryError":
            raise Refused(f"the GPU's memory does not hold a batch of {settings.batch}; give --mini-batch {max(1, settings.batch // 4)}, which "
                          "encodes so many texts at a time and computes the same") from error
        raise

"""Training a dual encoder: DPR's recipe (Karpukhin et al. 2020, section 3.2) on sentence-transformers' trainer.

`train` works on folders and knows no study; `train_dual_encoder` is the job. What is made is an ordinary folder that
`SentenceTransformer(...)` loads anywhere, with training.json (settings, hashes, curve) and log.jsonl beside the weights. In several
processes: `torchrun --nproc-per-node 4 --no-python blindspot train dual-encoder ...`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.core.jobs import job
from backend.core.manifest import read_json, whole_folder
from backend.core.settings import EncoderSettings, add_encoder, check_name
from backend.progress import Progress
from backend.retrieval.encoder import load_encoder
from backend.training.distillation import Cost, Teacher
from backend.training.distributed import leads, wait_for_all, world_size
from backend.training.examples import Drawing, Example, Examples, Order, Pool, Some, digest, hold_out, make_pool, usable
from backend.training.resuming import (
    TRAINING,
    arguments_of,
    best,
    check_packages,
    copy_model,
    device_of,
    free_name,
    plan,
    seal,
    stand,
    told,
)
from backend.training.starting import has_two_towers, normalises, start_model, tower
from backend.training.training_log import working_folder, write_line
from backend.training.training_settings import DualEncoderSettings, check, scale_of
from db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch.nn import Module

    from backend.core.study import Study
    from backend.training.trainer import Collator

FIGURE = "average_rank"


@dataclass(frozen=True)
class Trained:
    """A trained model's folder and what its training.json says."""

    name: str
    folder: str
    steps: int
    best_step: int
    average_rank: float | None
    seconds: float


@job("train dual-encoder")
def train_dual_encoder(
    study: Study,
    name: str,
    training_set: str,
    start: str = "minilm",
    settings: dict[str, Any] | None = None,
    device: str | None = None,
    replace: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """The job: train on a training set of the study, and name the model as an encoder in study.toml.

    Args:
        start: an encoder of study.toml, or a folder or Hugging Face name.
        settings: what differs from the defaults of `DualEncoderSettings`.

    Raises:
        Refused: a model of that name exists and `replace` is false; and what `train` raises.
    """
    from backend.training.set_examples import SetExamples
    from backend.training_sets.training_set import TrainingSet

    chosen, known = DualEncoderSettings(**(settings or {})), study.settings.encoders.get(name)
    if known is not None and known.model != str(study.path("models", name)):
        raise Refused(f"study.toml already names another encoder {name}; take another name for the model")
    made = None if replace or known else _unnamed(study, name, training_set, chosen)
    teacher = Teacher(study, chosen.distil, device) if chosen.distil is not None and made is None else None
    target = free_name(study, name, replace or made is not None)
    opened, begin = TrainingSet.open(study, training_set), start_of(study, start)
    if made is None:
        with study.building(f"models/{name}") if leads() else nullcontext():
            made = train(
                begin,
                SetExamples(study, opened),
                target,
                working_folder(study, name),
                chosen,
                device=device,
                restart=restart,
                about={"training_set": training_set, "fingerprint": opened.manifest["fingerprint"]},
                teacher=teacher,
                progress=progress,
            )
    if leads() and known is None:
        add_encoder(
            study.settings_path,
            name,
            {"model": str(target), "passage_template": begin.passage_template, "max_tokens": chosen.passage_tokens},
        )
    return made


def _unnamed(study: Study, name: str, training_set: str, settings: DualEncoderSettings) -> Trained | None:
    """The model that this job made, if it was killed after that and before study.toml named it."""
    path = study.path("models", check_name(name, "model")) / TRAINING
    about = read_json(path) if path.is_file() else {}
    if about.get("training_set") != training_set or about.get("settings") != asdict(settings):
        return None
    return Trained(name, str(path.parent), about["last_step"], about["best_step"], about[FIGURE], about["seconds"])


def start_of(study: Study, start: str) -> EncoderSettings:
    """An encoder of study.toml, else a folder or Hugging Face name."""
    return study.settings.encoders.get(start) or EncoderSettings(model=start)


def train(
    start: EncoderSettings,
    examples: Examples,
    target: Path,
    working: Path,
    settings: DualEncoderSettings | None = None,
    *,
    dev: Sequence[Example] | None = None,
    device: str | None = None,
    restart: bool = False,
    about: dict | None = None,
    teacher: Teacher | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train, or go on where a training that was broken off stands, and put the best model into `target`.

    Args:
        start: the encoder to start from; its passage template is kept.
        working: where checkpoints and the log lie meanwhile; removed at the end.
        dev: what checkpoints are compared by; None holds some of the examples out.
        restart: begin again although an unfinished training stands in `working`.
        about: what else training.json is to say; a training with other words there is another one.
        teacher: the cross-encoder that `settings.distil` names; it scores what it has not scored yet before the first step.

    Raises:
        Refused: settings that cannot learn, no positives, another training unfinished in `working`, a full disk.
        Missing: the start model cannot be loaded, or a package that training needs.
    """
    from sentence_transformers import SentenceTransformerTrainingArguments

    check_packages()
    settings = settings or DualEncoderSettings()
    check(settings)
    if settings.distil is not None and teacher is None:
        raise Refused(f"here nothing is learned from a cross-encoder; leave out distil {settings.distil!r}")
    on = device_of(device)
    arguments = arguments_of(SentenceTransformerTrainingArguments, working, settings, on, FIGURE)
    every = usable(examples)
    chosen, pool = _split(every, settings, dev)
    began = time.monotonic()
    with told(settings.batch, caches=True):
        model = start_model(start, settings.shape, on)
        scale, order = scale_of(settings, normalises(model)), _order(len(chosen), settings)
        request = {
            "start": asdict(start),
            "settings": asdict(settings),
            "examples": digest(every),
            "pool": pool.digest if pool else None,
            "processes": world_size(),
            **({"teacher_hash": teacher.model_hash} if teacher else {}),
            **(about or {}),
        }
        checkpoint = stand(working, request, restart)
        drawing = Drawing(chosen, settings.hard_negatives, settings.seed)
        if teacher is not None:
            teacher.prepare(drawing, order, progress if leads() else None)
        collator = _collator(model, settings, start.passage_template, teacher)
        _run(
            model, arguments, settings, scale, collator, drawing, order, pool, checkpoint, progress if leads() else None
        )
        made = Trained(target.name, str(target), order.steps, order.steps, None, round(time.monotonic() - began, 1))
        if leads():
            made = _keep(
                working,
                target,
                start.passage_template,
                settings.passage_tokens,
                request
                | {
                    "kind": "dual encoder",
                    "name": target.name,
                    "scale": scale,
                    "questions": len(chosen),
                    "held_out": len(pool.questions) if pool else 0,
                    "without_positives": len(examples) - len(every),
                    "batch": order.batch * order.processes,
                    "steps": order.steps,
                    "device": on,
                    "seconds": made.seconds,
                },
            )
        wait_for_all()
    return made


def _split(
    examples: Some, settings: DualEncoderSettings, dev: Sequence[Example] | None
) -> tuple[Examples, Pool | None]:
    """What is trained on, and the pool; None where nothing is held out."""
    if dev is not None:
        return examples, make_pool([one for one in dev if one.positives], settings.pool, examples, settings.seed)
    training, held_out = hold_out(examples, settings.held_out, settings.seed)
    if not held_out:
        return examples, None
    chosen = Some(examples, training)
    return chosen, make_pool([examples[number] for number in held_out], settings.pool, chosen, settings.seed)


def _order(examples: int, settings: DualEncoderSettings) -> Order:
    """Raises Refused for fewer questions than can stand beside each other."""
    processes = world_size()
    if examples < max(processes, 1 if settings.hard_negatives else 2):
        raise Refused(f"{examples} questions are too few to train on with {processes} processes; add some")
    batch = min(settings.batch, examples // processes)
    steps = settings.steps or max(1, round(settings.epochs * (examples // (batch * processes))))
    return Order(examples, batch, steps, processes, settings.seed)


def _run(
    model: SentenceTransformer,
    arguments: Any,
    settings: DualEncoderSettings,
    scale: float,
    collator: Collator,
    drawing: Drawing,
    order: Order,
    pool: Pool | None,
    checkpoint: Path | None,
    progress: Progress | None,
) -> None:
    from transformers import PrinterCallback

    from backend.training.trainer import DualEncoderTrainer, Keeper, RankEvaluator, ended

    plan(arguments, settings, order.steps, order.batch, 10 if pool else 0, *_texts(order, settings, pool))
    if checkpoint is not None and ended(checkpoint, arguments, settings.patience):
        return
    working = Path(arguments.output_dir)
    evaluator = RankEvaluator(pool, collator.template, settings.similarity, settings.batch) if pool else None
    sizes = {"questions": len(pool.questions), "passages": len(pool.passages)} if pool else {}
    if evaluator is not None and checkpoint is None and leads():
        write_line(working, {"step": 0, "epoch": 0, **evaluator(model), **sizes})
    frozen = (
        [tower(model, "passage" if settings.only == "question" else "question").requires_grad_(False)]
        if settings.only
        else []
    )
    trainer = DualEncoderTrainer(
        model=model,
        args=arguments,
        evaluator=evaluator,
        order=order,
        drawing=drawing,
        frozen=frozen,
        loss=_loss(model, settings, scale),
        data_collator=collator,
        callbacks=[Keeper(working, order, (FIGURE, "first"), settings.patience, sizes, progress)],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def _loss(model: SentenceTransformer, settings: DualEncoderSettings, scale: float) -> Module:
    from backend.training.losses import InBatchLoss

    return InBatchLoss(
        model,
        settings.loss,
        settings.similarity,
        scale,
        settings.margin,
        settings.mini_batch,
        settings.masked,
        settings.distil_weight,
        settings.in_batch,
    )


def _collator(
    model: SentenceTransformer, settings: DualEncoderSettings, template: str, teacher: Teacher | None
) -> Collator:
    from backend.training.trainer import Collator

    return Collator(
        model,
        template,
        settings.hard_negatives,
        settings.question_tokens,
        settings.passage_tokens,
        has_two_towers(model),
        teacher,
    )


def _keep(working: Path, target: Path, template: str, tokens: int, about: dict) -> Trained:
    """Put the best checkpoint, or the last where none was compared, into `target`; the working folder goes."""
    kept = best(working, FIGURE)
    with whole_folder(target) as building:
        copy_model(kept.folder, building)
        encoder = load_encoder(
            EncoderSettings(model=str(building), passage_template=template, max_tokens=tokens), "cpu"
        )
        seal(
            building,
            about
            | {
                "last_step": kept.last_step,
                "best_step": kept.step,
                FIGURE: kept.value,
                "curve": kept.curve,
                "model_hash": encoder.model_hash,
            },
        )
    shutil.rmtree(working)
    return Trained(target.name, str(target), kept.last_step, kept.step, kept.value, about["seconds"])


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a training would take here: its steps, the seconds of one that was tried, and of all with comparing.

    scoring: what a teacher scores before the first step; not in `seconds`.
    """

    steps: int
    seconds_per_step: float
    seconds: float
    scoring: Cost | None = None


def estimate(
    start: EncoderSettings,
    examples: Examples,
    settings: DualEncoderSettings,
    device: str | None = None,
    tries: int = 2,
    teacher: Teacher | None = None,
) -> Estimate:
    """Do `tries` steps on a model that is thrown away, and reckon from the last. Nothing is kept but some scores of a teacher.

    Raises what `train` raises for settings that cannot learn.
    """
    from backend.training.resuming import every_steps
    from backend.training.trainer import features_of

    check(settings)
    on = device_of(device)
    chosen, pool = _split(usable(examples), settings, None)
    model = start_model(start, settings.shape, on).train()
    order = _order(len(chosen), settings)
    loss, collator = (
        _loss(model, settings, scale_of(settings, normalises(model))),
        _collator(model, settings, start.passage_template, None),
    )
    drawing, took = Drawing(chosen, settings.hard_negatives, settings.seed), 0.0
    for _, keys in zip(range(tries), order, strict=False):
        began = time.monotonic()
        columns, labels = features_of(collator([drawing[key] for key in keys]), model.device)
        loss(columns, labels).backward()
        took = time.monotonic() - began
    trained, compared = _texts(order, settings, pool)
    every = every_steps(settings, order.steps, 10 if pool else 0, trained, compared)
    comparisons = 1 + -(-order.steps // every) if pool else 0
    seconds = took * (order.steps + comparisons * compared / (3 * trained))
    return Estimate(order.steps, took, seconds, teacher.cost(drawing, order) if teacher else None)


def _texts(order: Order, settings: DualEncoderSettings, pool: Pool | None) -> tuple[int, int]:
    """Texts that a step, and a comparison, encodes."""
    return order.batch * (2 + settings.hard_negatives), len(pool.questions) + len(pool.passages) if pool else 0

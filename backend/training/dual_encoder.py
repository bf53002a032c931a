"""Train a dual encoder by DPR's recipe (Karpukhin et al. 2020, section 3.2) with sentence-transformers' trainer.

`train` works on folders and knows no study; `train_dual_encoder` is the job. The model is an ordinary folder that
`SentenceTransformer(...)` loads anywhere, with training.json (settings, hashes, curve) and log.jsonl beside the
weights. In several
processes: `torchrun --nproc-per-node 4 --no-python blindspot train dual-encoder ...`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.core.jobs import job
from backend.core.manifest import read_object, whole_folder
from backend.core.settings import EncoderSettings, add_encoder, check_name
from backend.progress import Progress
from backend.retrieval.encoder import load_encoder
from backend.training.checkpoints import (
    TRAINING,
    best_checkpoint,
    check_packages,
    copy_model,
    load_checkpoint,
    new_model_folder,
    readable_training_errors,
    set_schedule,
    training_arguments,
    training_device,
    write_training_json,
)
from backend.training.distillation import ScoringCost, Teacher
from backend.training.distributed import is_main_process, wait_for_all, world_size
from backend.training.examples import (
    BatchSampler,
    Example,
    NegativeSampler,
    Pool,
    Subset,
    TrainingExamples,
    examples_digest,
    hold_out,
    make_pool,
    with_positives,
)
from backend.training.guide import Guide
from backend.training.initial_model import has_two_towers, normalises, start_model, tower
from backend.training.lora import add_updates
from backend.training.refresh import Dropped, FirstRound
from backend.training.share_index import share_index
from backend.training.stored_vectors import StoredVectors
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
class TrainedDualEncoder:
    """A trained model's folder and the main values of its training.json."""

    name: str
    folder: str
    steps: int
    best_step: int
    average_rank: float | None
    seconds: float
    passages_from_index: bool = False


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
) -> TrainedDualEncoder:
    """The job: train on a training set of the study, and add the model to study.toml as an encoder.

    Args:
        start: an encoder of study.toml, or a folder or Hugging Face name.
        settings: the settings that differ from the defaults of `DualEncoderSettings`.

    Raises:
        Refused: a model of that name exists and `replace` is false; and as `train` raises.
    """
    from backend.training.examples import TrainingSetExamples
    from backend.training_sets.training_set import TrainingSet

    chosen, known = DualEncoderSettings(**(settings or {})), study.settings.encoders.get(name)
    if known is not None and known.model != str(study.path("models", name)):
        raise Refused(f"study.toml already names another encoder {name}; take another name for the model")
    made = None if replace or known else _unregistered(study, name, training_set, chosen)
    teacher = Teacher(study, chosen.distil, device) if chosen.distil is not None and made is None else None
    target = new_model_folder(study, name, replace or made is not None)
    opened, begin = TrainingSet.open(study, training_set), start_encoder(study, start)
    if made is None:
        with (
            study.building(f"models/{name}", lambda: new_model_folder(study, name, replace))
            if is_main_process()
            else nullcontext()
        ):
            made = train(
                begin,
                TrainingSetExamples(study, opened),
                target,
                working_folder(study, name),
                chosen,
                device=device,
                restart=restart,
                about={"training_set": training_set, "fingerprint": opened.manifest["fingerprint"]},
                teacher=teacher,
                guide=Guide(study, chosen.guide, chosen.guide_above) if chosen.guide is not None else None,
                stored=StoredVectors.open(study, start, chosen.passage_tokens) if chosen.only == "question" else None,
                dropped=opened.dropped,
                progress=progress,
            )
    if is_main_process() and known is None:
        add_encoder(
            study.settings_path,
            name,
            {"model": str(target), "passage_template": begin.passage_template, "max_tokens": chosen.passage_tokens},
        )
        if made.passages_from_index:
            share_index(study, start, name)
    return made


def _unregistered(
    study: Study, name: str, training_set: str, settings: DualEncoderSettings
) -> TrainedDualEncoder | None:
    """The finished model of this job, if the job was killed before study.toml named the model."""
    path = study.path("models", check_name(name, "model")) / TRAINING
    about = read_object(path) if path.is_file() else {}
    untracked = {"report_to": "none"}
    if (
        about.get("training_set") != training_set
        or about.get("settings", {}) | untracked != asdict(settings) | untracked
    ):
        return None
    return TrainedDualEncoder(
        name,
        str(path.parent),
        about["last_step"],
        about["best_step"],
        about[FIGURE],
        about["seconds"],
        about.get("passages_from_index", False),
    )


def start_encoder(study: Study, start: str) -> EncoderSettings:
    """An encoder of study.toml, or else a folder or Hugging Face name."""
    return study.settings.encoders.get(start) or EncoderSettings(model=start)


def train(
    start: EncoderSettings,
    examples: TrainingExamples,
    target: Path,
    working: Path,
    settings: DualEncoderSettings | None = None,
    *,
    dev: Sequence[Example] | None = None,
    device: str | None = None,
    restart: bool = False,
    about: dict | None = None,
    teacher: Teacher | None = None,
    stored: StoredVectors | None = None,
    guide: Guide | None = None,
    dropped: Dropped | None = None,
    progress: Progress | None = None,
) -> TrainedDualEncoder:
    """Train, or resume an interrupted training, and put the best model into `target`.

    Args:
        start: the encoder to start from; the model keeps its passage template.
        working: folder of checkpoints and log during the training; removed at the end.
        dev: examples that compare checkpoints; None holds out some of `examples`.
        restart: discard an unfinished training in `working`.
        about: further entries of training.json; a training with other entries is another training.
        teacher: the cross-encoder named by `settings.distil`; it scores unscored pairs before the first step.
        stored: the index of the start model. If only questions are trained and the model encodes passages to its
        vectors, the
            passages are not encoded again.
        guide: the judge named by `settings.guide`, whose stored scores mask passages of a batch.
        dropped: returns passages by question that `settings.refresh` must not take as negatives, besides known
        positives.

    Raises:
        Refused: settings that cannot learn, no positives, another unfinished training in `working`, a full disk.
        Missing: the start model cannot be loaded, or a package for training is missing.
    """
    from sentence_transformers import SentenceTransformerTrainingArguments

    check_packages()
    settings = settings or DualEncoderSettings()
    check(settings)
    _check_helpers(settings, teacher, guide)
    on, shown = training_device(device), progress if is_main_process() else None
    arguments = training_arguments(SentenceTransformerTrainingArguments, working, settings, on, FIGURE)
    every = with_positives(examples)
    chosen, pool = _split(every, settings, dev)
    began = time.monotonic()
    with readable_training_errors(settings.batch, caches=True):
        model = _start(start, settings, on)
        scale, sampler = scale_of(settings, normalises(model)), _sampler(len(chosen), settings)
        request = {
            "start": asdict(start),
            "settings": asdict(settings),
            "examples": examples_digest(every),
            "pool": pool.digest if pool else None,
            "processes": world_size(),
            **({"teacher_hash": teacher.model_hash} if teacher else {}),
            **({"guide_digest": guide.digest} if guide else {}),
            **(about or {}),
        }
        checkpoint, rounds = load_checkpoint(working, request, restart), {}
        if settings.refresh:
            del model  # frees its memory for the first round
            first = FirstRound(working, start, settings.passage_tokens)
            if not first.folder.is_dir():
                once = replace(settings, refresh=False)
                same: dict[str, Any] = {
                    "dev": dev,
                    "device": device,
                    "teacher": teacher,
                    "stored": stored,
                    "guide": guide,
                }
                train(start, examples, first.folder, first.checkpoints, once, progress=progress, **same)
            chosen = first.refreshed(chosen, dropped, on, shown)
            model, rounds = _start(first.encoder, settings, on), {"first_round": first.about()}
        dataset = NegativeSampler(chosen, settings.hard_negatives, settings.seed)
        if teacher is not None:
            teacher.prepare(dataset, sampler, shown)
        if stored is not None and not (settings.only == "question" and stored.agree(model, start.passage_template)):
            stored = None
        collator = replace(_collator(model, settings, start.passage_template, teacher), stored=stored, guide=guide)
        _run_trainer(model, arguments, settings, scale, collator, dataset, sampler, pool, checkpoint, shown)
        made = TrainedDualEncoder(
            target.name, str(target), sampler.steps, sampler.steps, None, round(time.monotonic() - began, 1)
        )
        if is_main_process():
            made = _save_best(
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
                    "batch": sampler.batch * sampler.processes,
                    "steps": sampler.steps,
                    "device": on,
                    "seconds": made.seconds,
                    "passages_from_index": stored is not None,
                    **rounds,
                },
            )
        wait_for_all()
    return made


def _check_helpers(settings: DualEncoderSettings, teacher: Teacher | None, guide: Guide | None) -> None:
    """Raises Refused if the settings name a cross-encoder or a judge that was not passed."""
    if settings.distil is not None and teacher is None:
        raise Refused(f"this training has no cross-encoder to learn from; leave out distil {settings.distil!r}")
    if settings.guide is not None and guide is None:
        raise Refused(f"this training has no scores of {settings.guide!r} to be guided by; leave out the guide")


def _start(start: EncoderSettings, settings: DualEncoderSettings, device: str) -> SentenceTransformer:
    """The model to train; with LoRA, with updates of rank `settings.lora` in the towers that train."""
    model = start_model(start, settings.shape, device)
    if settings.lora:
        add_updates(model, tower(model, settings.only) if settings.only else model, settings.lora, settings.seed)
    return model


def _split(
    examples: Subset, settings: DualEncoderSettings, dev: Sequence[Example] | None
) -> tuple[TrainingExamples, Pool | None]:
    """The training examples, and the pool; None if nothing is held out."""
    if dev is not None:
        return examples, make_pool([one for one in dev if one.positives], settings.pool, examples, settings.seed)
    training, held_out = hold_out(examples, settings.held_out, settings.seed)
    if not held_out:
        return examples, None
    chosen = Subset(examples, training)
    return chosen, make_pool([examples[number] for number in held_out], settings.pool, chosen, settings.seed)


def _sampler(examples: int, settings: DualEncoderSettings) -> BatchSampler:
    """The sampler of batches. Raises Refused if there are too few questions for a batch."""
    processes = world_size()
    if examples < max(processes, 1 if settings.hard_negatives else 2):
        raise Refused(f"{examples} questions are too few to train on with {processes} processes; add some")
    batch = min(settings.batch, examples // processes)
    steps = settings.steps or max(1, round(settings.epochs * (examples // (batch * processes))))
    return BatchSampler(examples, batch, steps, processes, settings.seed)


def _run_trainer(
    model: SentenceTransformer,
    arguments: Any,
    settings: DualEncoderSettings,
    scale: float,
    collator: Collator,
    dataset: NegativeSampler,
    sampler: BatchSampler,
    pool: Pool | None,
    checkpoint: Path | None,
    progress: Progress | None,
) -> None:
    from transformers import PrinterCallback

    from backend.training.evaluators import RankEvaluator
    from backend.training.trainer import CheckpointCallback, DualEncoderTrainer, is_finished

    set_schedule(
        arguments, settings, sampler.steps, sampler.batch, 10 if pool else 0, *_texts_encoded(sampler, settings, pool)
    )
    if checkpoint is not None and is_finished(checkpoint, arguments, settings.patience):
        return
    working = Path(arguments.output_dir)
    vectors = collator.stored(pool.passages) if pool and collator.stored else None
    evaluator = RankEvaluator(pool, collator.template, settings.similarity, settings.batch, vectors) if pool else None
    sizes = {"questions": len(pool.questions), "passages": len(pool.passages)} if pool else {}
    if evaluator is not None and checkpoint is None and is_main_process():
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
        sampler=sampler,
        dataset=dataset,
        frozen=frozen,
        loss=_loss(model, settings, scale),
        data_collator=collator,
        callbacks=[CheckpointCallback(working, sampler, (FIGURE, "first"), settings.patience, sizes, progress)],
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
        settings.distil_loss,
        _smaller_dimensions(model, settings),
        normalises(model),
    )


def _smaller_dimensions(model: SentenceTransformer, settings: DualEncoderSettings) -> tuple[int, ...]:
    """Raises Refused for a dimension that is not smaller than the model's."""
    dimensions, whole = settings.smaller_dimensions, model.get_embedding_dimension()
    assert whole is not None, "a model with pooling has a dimension"
    if dimensions and dimensions[-1] >= whole:
        raise Refused(
            f"this encoder has {whole} dimensions; Matryoshka dimensions must be smaller, not {dimensions[-1]}"
        )
    return dimensions


def _collator(
    model: SentenceTransformer,
    settings: DualEncoderSettings,
    template: str,
    teacher: Teacher | None,
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


def _save_best(working: Path, target: Path, template: str, tokens: int, about: dict) -> TrainedDualEncoder:
    """Put the best checkpoint, or the last one if none was evaluated, into `target`, and remove the working folder."""
    kept = best_checkpoint(working, FIGURE)
    with whole_folder(target) as building:
        copy_model(kept.folder, building)
        encoder = load_encoder(
            EncoderSettings(model=str(building), passage_template=template, max_tokens=tokens), "cpu"
        )
        write_training_json(
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
    return TrainedDualEncoder(
        target.name,
        str(target),
        kept.last_step,
        kept.step,
        kept.value,
        about["seconds"],
        about["passages_from_index"],
    )


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """Estimated duration of a training: its steps, seconds for one step, and seconds for all steps with evaluation.

    scoring: the teacher's scoring before the first step; not part of `seconds`.
    """

    steps: int
    seconds_per_step: float
    seconds: float
    scoring: ScoringCost | None = None


def estimate(
    start: EncoderSettings,
    examples: TrainingExamples,
    settings: DualEncoderSettings,
    device: str | None = None,
    tries: int = 2,
    teacher: Teacher | None = None,
) -> TrainingEstimate:
    """Time `tries` steps on a temporary model and extrapolate from the last. Only some scores of a teacher are stored.

    Raises what `train` raises for settings that cannot learn.
    """
    from backend.training.checkpoints import every_steps
    from backend.training.trainer import features_of

    check(settings)
    on = training_device(device)
    chosen, pool = _split(with_positives(examples), settings, None)
    model = _start(start, settings, on).train()
    sampler = _sampler(len(chosen), settings)
    loss, collator = (
        _loss(model, settings, scale_of(settings, normalises(model))),
        _collator(model, settings, start.passage_template, None),
    )
    dataset, took = NegativeSampler(chosen, settings.hard_negatives, settings.seed), 0.0
    for _, keys in zip(range(tries), sampler, strict=False):
        began = time.monotonic()
        columns, labels = features_of(collator([dataset[key] for key in keys]), model.device)
        loss(columns, labels).backward()
        took = time.monotonic() - began
    trained, compared = _texts_encoded(sampler, settings, pool)
    every = every_steps(settings, sampler.steps, 10 if pool else 0, trained, compared)
    comparisons = 1 + -(-sampler.steps // every) if pool else 0
    rounds = 2 if settings.refresh else 1
    seconds = rounds * took * (sampler.steps + comparisons * compared / (3 * trained))
    return TrainingEstimate(sampler.steps, took, seconds, teacher.cost(dataset, sampler) if teacher else None)


def _texts_encoded(sampler: BatchSampler, settings: DualEncoderSettings, pool: Pool | None) -> tuple[int, int]:
    """Texts encoded in a step, and in an evaluation."""
    return sampler.batch * (2 + settings.hard_negatives), len(pool.questions) + len(pool.passages) if pool else 0


def _check_trial(study: Study, name: str, split: str = "dev", **_: object) -> None:
    check_name(trial_run_name(name, split), "run")


@job("try model", check=_check_trial)
def try_model(
    study: Study,
    name: str,
    split: str = "dev",
    k: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Index the passages with a trained encoder and retrieve with it. Skip what exists. Return the name of the run.

    Raises:
        Missing: no encoder of that name, or no question in the split.
    """
    from backend.retrieval import dense
    from backend.retrieval.retrieve import retrieve

    if name not in study.parts("indexes"):
        dense.build_index(study, name, device=device, progress=progress)
    run = trial_run_name(name, split)
    if run not in study.parts("runs"):
        retrieve(study, "dense", encoder=name, split=split, k=k, name=run, device=device, progress=progress)
    return run


def trial_run_name(model: str, split: str) -> str:
    return f"{model}-{split.replace('/', '-')}"

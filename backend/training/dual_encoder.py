"""Train a dual encoder as in DPR (Karpukhin et al. 2020, section 3.2) with sentence-transformers' trainer.

`train` works on folders without a study; `train_dual_encoder` is the job. The trained model is an ordinary folder that
`SentenceTransformer(...)` can load. It also contains training.json (settings, hashes, training curve) and log.jsonl. In
several processes: `torchrun --nproc-per-node 4 --no-python blindspot train dual-encoder ...`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_object
from blindspot.backend.core.settings import EncoderSettings, add_encoder, check_name
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training.checkpoints import (
    TRAINING,
    TrainingFolders,
    load_checkpoint,
    lock_model,
    readable_training_errors,
    saved_model,
    set_schedule,
    training_arguments,
    training_device,
    training_facts,
    training_request,
    write_training_json,
)
from blindspot.backend.training.distillation import PassageTeacher, Teacher
from blindspot.backend.training.distributed import is_main_process, wait_for_all
from blindspot.backend.training.dual_parts import (
    dual_encoder_collator,
    dual_encoder_loss,
    dual_encoder_sampler,
    encoded_text_counts,
    initial_dual_encoder,
    split_examples,
)
from blindspot.backend.training.examples import (
    BatchSampler,
    Example,
    NegativeSampler,
    Pool,
    TrainingExamples,
    examples_digest,
    with_positives,
)
from blindspot.backend.training.initial_model import normalises, tower_modules
from blindspot.backend.training.share_index import share_index
from blindspot.backend.training.stored_vectors import StoredVectors
from blindspot.backend.training.training_log import write_line
from blindspot.backend.training.training_settings import (
    DualEncoderSettings,
    TrainingOptions,
    check_settings,
    training_scale,
)
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from blindspot.backend.core.study import Study
    from blindspot.backend.training.trainer import Collator

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


@job("train dual-encoder", extras=("train",))
@named_settings(TrainingOptions, "options")
def train_dual_encoder(
    study: Study,
    name: str,
    training_set: str | None = None,
    settings: dict[str, Any] | None = None,
    *,
    run: str | None = None,
    tried_on: str | None = None,
    options: TrainingOptions,
    progress: Progress | None = None,
) -> TrainedDualEncoder:
    """Train a dual encoder and add it to study.toml as an encoder (a job). It learns from a training set of the study, or
    from what the judge `distil` of the settings says of a run's lists.

    Args:
        settings: the settings that differ from the defaults of `DualEncoderSettings`.
        run: without a training set, the run whose lists the judge teaches; default the one that a feature judge learned
            from.
        tried_on: the split whose questions the trained encoder then searches, as `try_model` does; None for none.

    Raises:
        Refused: a model of that name exists and it is not to be replaced; neither a set nor a judge is named; and as
        `train` and `judged_lists` raise.
    """
    chosen, known = DualEncoderSettings(**(settings or {})), study.settings.encoders.get(name)
    if known is not None and known.model != str(study.path("models", name)):
        raise Refused(f"study.toml already names another encoder {name}; take another name for the model")
    made = None if options.replace or known else _finished_but_unregistered(study, name, training_set, chosen)
    target = new_model_folder(study, name, options.replace or made is not None)
    begin = initial_encoder_settings(study, options.start)
    if made is None:
        source = training_source(study, training_set, chosen, run, options.device, progress)
        stored = chosen.only == "question"
        with lock_model(study, name, options.replace):
            made = train(
                begin,
                source.examples,
                TrainingFolders.in_study(study, name, options, progress, **source.about),
                chosen,
                teacher=source.teacher,
                stored_vectors=StoredVectors.open(study, options.start, chosen.passage_tokens) if stored else None,
            )
    if is_main_process() and known is None:
        add_encoder(
            study.settings_path,
            name,
            {"model": str(target), "passage_template": begin.passage_template, "max_tokens": chosen.passage_tokens},
        )
        if made.passages_from_index:
            share_index(study, options.start, name)
    if is_main_process() and tried_on is not None:
        try_model(study, name, tried_on, device=options.device, progress=progress)
    return made


@dataclass(frozen=True)
class TrainingSource:
    """What a dual encoder learns from: examples, a teacher, and where they come from as training.json says it."""

    examples: TrainingExamples
    teacher: PassageTeacher | None
    about: dict[str, Any]


def training_source(
    study: Study,
    training_set: str | None,
    settings: DualEncoderSettings,
    run: str | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> TrainingSource:
    """Return the examples of a training set, or without one a run's lists in the order of the judge of the settings.

    Raises as `judged_lists`, `TrainingSet.open` and `Teacher` do.
    """
    from blindspot.backend.training.examples import TrainingSetExamples
    from blindspot.backend.training.judged_lists import ListExamples, ListTeacher, judged_lists, required_teacher
    from blindspot.backend.training_sets.training_set import TrainingSet

    if (judge := required_teacher(training_set, settings.distil, run)) is not None:
        lists = judged_lists(study, judge, run, progress)
        about = {"run": lists.run, "fingerprint": lists.digest}
        return TrainingSource(ListExamples(study, lists), ListTeacher(study, lists), about)
    assert training_set is not None
    teacher = None if settings.distil is None else Teacher(study, settings.distil, device)
    opened = TrainingSet.open(study, training_set)
    about = {"training_set": training_set, "fingerprint": opened.manifest["fingerprint"]}
    return TrainingSource(TrainingSetExamples(study, opened), teacher, about)


def _finished_but_unregistered(
    study: Study, name: str, training_set: str | None, settings: DualEncoderSettings
) -> TrainedDualEncoder | None:
    """Return the finished model of this job if the job was killed before the model was added to study.toml;
    else None.
    """
    path = study.path("models", check_name(name, "model")) / TRAINING
    about = read_object(path) if path.is_file() else {}
    untracked = {"report_to": "none"}
    if (
        about.get("training_set") != training_set
        or about.get("settings", {}) | untracked != asdict(settings) | untracked
    ):
        return None
    return _trained(path.parent, about)


def _trained(folder: Path, about: dict[str, Any]) -> TrainedDualEncoder:
    """Return the main values of a finished model's training.json."""
    steps, best_step, figure = (about[name] for name in ("last_step", "best_step", FIGURE))
    from_index = about.get("passages_from_index", False)
    return TrainedDualEncoder(folder.name, str(folder), steps, best_step, figure, about["seconds"], from_index)


def initial_encoder_settings(study: Study, start: str) -> EncoderSettings:
    """Return the settings of the initial encoder: an encoder of study.toml, or else a folder or Hugging Face name."""
    return study.settings.encoders.get(start) or EncoderSettings(model=start)


def train(
    start: EncoderSettings,
    examples: TrainingExamples,
    folders: TrainingFolders,
    settings: DualEncoderSettings | None = None,
    *,
    dev: Sequence[Example] | None = None,
    teacher: PassageTeacher | None = None,
    stored_vectors: StoredVectors | None = None,
) -> TrainedDualEncoder:
    """Train, or resume an interrupted training, and write the best model to `place.target`.

    Args:
        start: the encoder to start from; the model keeps its passage template.
        dev: examples that compare checkpoints; None holds out some of `examples`.
        teacher: the cross-encoder named by `settings.distil`; it scores unscored pairs before the first step.
        stored_vectors: the index of the start model. If only questions are trained and the model encodes passages to
            its vectors, the passages are not encoded again.

    Raises:
        Refused: settings that cannot learn, no positives, another unfinished training in that place, a full disk.
        Missing: the start model cannot be loaded, or a package for training is missing.
    """
    settings = settings or DualEncoderSettings()
    require("train")
    check_settings(settings)
    if settings.distil is not None and teacher is None:
        raise Refused(f"this training has no cross-encoder to learn from; leave out distil {settings.distil!r}")
    training = _Training(
        start, examples, folders, settings, training_device(folders.device), teacher, stored_vectors, dev
    )
    with readable_training_errors(settings.batch, caches=True):
        made = training.run()
        wait_for_all()
    return made


@dataclass(frozen=True)
class _Training:
    """One call of `train`, with the device of this process."""

    start: EncoderSettings
    examples: TrainingExamples
    place: TrainingFolders
    settings: DualEncoderSettings
    device: str
    teacher: PassageTeacher | None
    stored_vectors: StoredVectors | None
    dev: Sequence[Example] | None

    def run(self) -> TrainedDualEncoder:
        from sentence_transformers import SentenceTransformerTrainingArguments

        settings, place, began = self.settings, self.place, time.monotonic()
        arguments = training_arguments(
            SentenceTransformerTrainingArguments, place.working, settings, self.device, FIGURE
        )
        every = with_positives(self.examples)
        chosen, pool = split_examples(every, settings, self.dev)
        model = initial_dual_encoder(self.start, settings, self.device)
        scale, sampler = training_scale(settings, normalises(model)), dual_encoder_sampler(len(chosen), settings)
        taught = {"teacher_hash": self.teacher.model_hash} if self.teacher else {}
        also = {"pool": pool.digest if pool else None, **taught, **(place.about or {})}
        request = training_request(asdict(self.start), settings, examples_digest(every), also)
        checkpoint = load_checkpoint(place.working, request, place.restart)
        dataset = NegativeSampler(chosen, settings.hard_negatives, settings.seed)
        if self.teacher is not None:
            self.teacher.prepare(dataset, sampler, place.main_process_progress)
        collator = dual_encoder_collator(
            model, settings, self.start.passage_template, self.teacher, self.stored_vectors
        )
        self._run_trainer(model, arguments, scale, collator, dataset, sampler, pool, checkpoint)
        facts = training_facts("dual encoder", place.target.name, sampler, self.device, began) | {
            "scale": scale,
            "questions": len(chosen),
            "held_out": len(pool.questions) if pool else 0,
            "without_positives": len(self.examples) - len(every),
            "passages_from_index": collator.stored is not None,
        }
        if is_main_process():
            tokens = settings.passage_tokens
            return _save_best(place.working, place.target, self.start.passage_template, tokens, {**request, **facts})
        steps = sampler.steps
        return TrainedDualEncoder(place.target.name, str(place.target), steps, steps, None, facts["seconds"])

    def _run_trainer(
        self,
        model: SentenceTransformer,
        arguments: Any,
        scale: float,
        collator: Collator,
        dataset: NegativeSampler,
        sampler: BatchSampler,
        pool: Pool | None,
        checkpoint: Path | None,
    ) -> None:
        from blindspot.backend.training.evaluators import RankEvaluator
        from blindspot.backend.training.trainer import CheckpointCallback, DualEncoderTrainer, is_finished, run

        settings, working = self.settings, self.place.working
        set_schedule(
            arguments,
            settings,
            sampler.steps,
            sampler.batch,
            10 if pool else 0,
            *encoded_text_counts(sampler, settings, pool),
        )
        if checkpoint is not None and is_finished(checkpoint, arguments, settings.patience):
            return
        vectors = collator.stored(pool.passages) if pool and collator.stored else None
        evaluator = (
            RankEvaluator(pool, collator.template, settings.similarity, settings.batch, vectors) if pool else None
        )
        sizes = {"questions": len(pool.questions), "passages": len(pool.passages)} if pool else {}
        if evaluator is not None and checkpoint is None and is_main_process():
            write_line(working, {"step": 0, "epoch": 0, **evaluator(model), **sizes})
        frozen = (
            [tower_modules(model, "passage" if settings.only == "question" else "question").requires_grad_(False)]
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
            loss=dual_encoder_loss(model, settings, scale),
            data_collator=collator,
            callbacks=[
                CheckpointCallback(
                    working, sampler, (FIGURE, "first"), settings.patience, sizes, self.place.main_process_progress
                )
            ],
        )
        run(trainer, checkpoint)


def _save_best(working_folder: Path, target: Path, template: str, tokens: int, description: dict) -> TrainedDualEncoder:
    """Write the best checkpoint to `target` (the last one if none was evaluated), and delete the working folder."""
    with saved_model(working_folder, target, FIGURE) as (best, building):
        settings = EncoderSettings(model=str(building), passage_template=template, max_tokens=tokens)
        model_hash = load_encoder(settings, "cpu").model_hash
        about = description | best.facts(FIGURE) | {"model_hash": model_hash}
        write_training_json(building, about)
    return _trained(target, about)


def _check_trial(study: Study, name: str, split: str = "dev", **_: object) -> None:
    check_name(trial_run_name(name, split), "run")


@job("try model", check=_check_trial, extras=("dense",))
def try_model(
    study: Study,
    name: str,
    split: str = "dev",
    k: int | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Index the passages with a trained encoder and make a run with it. An existing index or run is not made again.
    Return the name of the run.

    Raises:
        Missing: no encoder of that name, or no question in the split.
    """
    from blindspot.backend.retrieval import dense
    from blindspot.backend.retrieval.retrieve import retrieve

    if name not in study.parts("indexes"):
        dense.build_index(study, name, device=device, progress=progress)
    run = trial_run_name(name, split)
    if run not in study.parts("runs"):
        retrieve(study, "dense", encoder=name, split=split, k=k, name=run, device=device, progress=progress)
    return run


def trial_run_name(model: str, split: str) -> str:
    return f"{model}-{split.replace('/', '-')}"

"""The parts of a dual encoder's training: the initial model, the held-out pool, the loss and the collator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.training.distillation import PassageTeacher
from blindspot.backend.training.examples import (
    BatchSampler,
    Example,
    Pool,
    Subset,
    TrainingExamples,
    batch_sampler,
    hold_out,
    make_pool,
)
from blindspot.backend.training.initial_model import has_two_towers, load_initial_model, normalises, tower_modules
from blindspot.backend.training.lora import add_updates
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch.nn import Module

    from blindspot.backend.training.stored_vectors import StoredVectors
    from blindspot.backend.training.trainer import Collator


def initial_dual_encoder(start: EncoderSettings, settings: DualEncoderSettings, device: str) -> SentenceTransformer:
    """Return the model to train. With LoRA, low-rank updates of rank `settings.lora` are added to the
    trained towers.
    """
    model = load_initial_model(start, settings.shape, device)
    if settings.lora:
        add_updates(
            model, tower_modules(model, settings.only) if settings.only else model, settings.lora, settings.seed
        )
    return model


def split_examples(
    examples: Subset, settings: DualEncoderSettings, dev: Sequence[Example] | None
) -> tuple[TrainingExamples, Pool | None]:
    """Return the training examples, and the evaluation pool of held-out examples (None if nothing is held out)."""
    if dev is not None:
        return examples, make_pool([one for one in dev if one.positives], settings.pool, examples, settings.seed)
    training, held_out = hold_out(examples, settings.held_out, settings.seed)
    if not held_out:
        return examples, None
    chosen = Subset(examples, training)
    return chosen, make_pool([examples[number] for number in held_out], settings.pool, chosen, settings.seed)


def dual_encoder_loss(model: SentenceTransformer, settings: DualEncoderSettings, scale: float) -> Module:
    from blindspot.backend.training.losses import InBatchLoss

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
    """Return the Matryoshka dimensions in the settings. Raises Refused for a dimension that is not smaller than the
    model's.
    """
    dimensions, whole = settings.smaller_dimensions, model.get_embedding_dimension()
    assert whole is not None, "a model with pooling has a dimension"
    if dimensions and dimensions[-1] >= whole:
        raise Refused(
            f"this encoder has {whole} dimensions; Matryoshka dimensions must be smaller, not {dimensions[-1]}"
        )
    return dimensions


def dual_encoder_collator(
    model: SentenceTransformer,
    settings: DualEncoderSettings,
    template: str,
    teacher: PassageTeacher | None,
    stored_vectors: StoredVectors | None = None,
) -> Collator:
    """The collator; with the stored vectors of passages, if only questions are trained and the model still gives these
    vectors.
    """
    from blindspot.backend.training.trainer import Collator

    if stored_vectors is not None and not (
        settings.only == "question" and stored_vectors.matches_model(model, template)
    ):
        stored_vectors = None
    return Collator(
        model,
        template,
        settings.hard_negatives,
        settings.question_tokens,
        settings.passage_tokens,
        has_two_towers(model),
        teacher,
        stored_vectors,
    )


def encoded_text_counts(sampler: BatchSampler, settings: DualEncoderSettings, pool: Pool | None) -> tuple[int, int]:
    """Return the number of texts encoded in one training step, and in one evaluation."""
    return sampler.batch * (2 + settings.hard_negatives), len(pool.questions) + len(pool.passages) if pool else 0


def dual_encoder_sampler(examples: int, settings: DualEncoderSettings) -> BatchSampler:
    """Return the batch sampler. If there are no hard negatives, every batch must have at least two questions."""
    return batch_sampler(examples, settings, 1 if settings.hard_negatives else 2)

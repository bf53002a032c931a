"""The losses of a dual encoder, as torch modules: each question is compared with every passage of the batch. The formulas
are in `loss_kinds.py`.

Only training imports this module, because it loads torch and sentence-transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from sentence_transformers.base.losses.gradcache import CachedLossMixin
from sentence_transformers.base.losses.merged_forward import embed_columns
from sentence_transformers.util import cos_sim, dot_score
from torch import Tensor, nn

from blindspot.backend.training.distributed import gather_tensors, rank
from blindspot.backend.training.loss_kinds import LOSSES, ScoredBatch

PAD = -1  # the id of a missing passage
ROWS = 512  # questions whose scores are in memory at a time, with gradient caching


def l2_similarity(questions: Tensor, passages: Tensor) -> Tensor:
    """Return the negative Euclidean distances, (q, n) (DPR, appendix B)."""
    return -torch.cdist(questions, passages, compute_mode="donot_use_mm_for_euclid_dist")


SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"dot": dot_score, "cosine": cos_sim, "l2": l2_similarity}


class InBatchLoss(CachedLossMixin, nn.Module):
    """The loss over in-batch and hard negatives. Known positives and repeated passages are excluded from the negatives.

    The softmax loss is DPR's (Karpukhin et al. 2020, equation 2, over the batch as in section 3.2): the negative log
    likelihood of a question's positive among all passages of the batch, averaged over questions. The triplet loss
    (appendix B) is max(0, margin - positive + negative), averaged over a question's negatives, then over questions.

    A known positive of a question is never used as its negative, regardless of which question it was sampled for. A
    passage that occurs in the batch more than once counts once. If nothing is left out, the softmax loss equals the
    library's `MultipleNegativesRankingLoss`. Scores are computed in 32 bits, even if the model runs in 16.

    With a teacher, each question's loss has a second term: `distillation_loss` over its positive and its own hard
    negatives.

    Args:
        model: the dual encoder, a SentenceTransformer.
        kind: a name of `blindspot.backend.training.loss_kinds.LOSSES`.
        similarity: "dot", "cosine" or "l2".
        scale: factor of the scores, for a loss that scales them (the softmax).
        margin: margin of the triplet loss.
        mini_batch: texts encoded at a time with gradient caching (GradCache, Gao et al. 2021): the memory does not
            grow with the batch, and each text is encoded twice. None encodes the whole batch at once.
        masked: False counts every other passage of the batch as a negative, as DPR does.
        in_batch: False compares a question only with its own passages (DPR's 1-of-N training, equation 2).
        distil_weight: factor of the teacher's term; needs a loss that takes a teacher (the softmax).
        distil_loss: "kl" or "margin_mse", see `TEACHER_LOSSES`.
        dimensions: the loss is the mean over vectors cut to each of these lengths, and whole (Matryoshka
            representations, Kusupati et al. 2022). unit_length: cut vectors are normalised again.

    Inputs: the features of the questions (B), of their positives (B), and of any number of columns of hard negatives (B
    each); or the features of the questions alone, with the vectors of the passages among the labels. The labels are a
    dictionary. `passages` (B x columns,) int64 has the passage ids, column after column, with PAD for a missing
    passage. `positives` (B, p) int64 has all known positives of each question, padded with PAD. With a teacher,
    `teacher` (B, columns) float32 has its log odds, -inf for a missing passage. If passages are not encoded, `vectors`
    (B x columns, d) float32 has their vectors, column after column.

    In several processes (`blindspot.backend.training.distributed`) each process uses the passages of all processes as negatives:
    RocketQA's cross-batch negatives. Every process must hold equally many questions and columns. Averaged over the
    processes, the gradient equals that of one process with the whole batch.
    """

    def __init__(
        self,
        model: nn.Module,
        kind: str = "softmax",
        similarity: str = "dot",
        scale: float = 1.0,
        margin: float = 1.0,
        mini_batch: int | None = None,
        masked: bool = True,
        distil_weight: float = 1.0,
        in_batch: bool = True,
        distil_loss: str = "kl",
        dimensions: tuple[int, ...] = (),
        unit_length: bool = False,
    ):
        super().__init__()
        if kind not in LOSSES:
            raise ValueError(f"kind must be one of {', '.join(LOSSES.names())}, not {kind!r}")
        if similarity not in SIMILARITIES:
            raise ValueError(f"similarity must be one of {', '.join(SIMILARITIES)}, not {similarity!r}")
        if scale <= 0 or margin < 0:
            raise ValueError(f"scale must be above 0 and margin at least 0, not {scale} and {margin}")
        self.model, self.loss, self.margin, self.masked = model, LOSSES.get(kind), margin, masked
        self.scale = scale if self.loss.scales else 1.0
        self.distil_weight, self.in_batch = distil_weight, in_batch
        self.teacher_loss = TEACHER_LOSSES[distil_loss]
        self.dimensions, self.unit_length = dimensions, unit_length
        self.similarity = SIMILARITIES[similarity]
        self.uses_gradient_cache = mini_batch is not None
        self.mini_batch_size = mini_batch or 0

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: dict[str, Tensor]) -> Tensor:
        if self.uses_gradient_cache:
            return self.forward_cached(sentence_features, labels)  # type: ignore[arg-type]  # passed on as they are
        return self.calculate_loss([[vectors] for vectors in embed_columns(self.model, sentence_features)], labels)

    def calculate_loss(  # type: ignore[override]  # the library's labels are one tensor, ours a dictionary
        self, reps: list[list[Tensor]], labels: dict[str, Tensor], *, with_backward: bool = False
    ) -> Tensor:
        """Return the loss, given the vectors of the questions and then of each column of passages, each as a list of
        pieces (b, d).

        `with_backward` also runs the backward pass, a few rows of scores at a time, and returns the loss detached from
        its graph.
        """
        questions = torch.cat(reps[0]).float()
        encoded = [piece for column in reps[1:] for piece in column]
        passages = gather_tensors(torch.cat(encoded) if encoded else labels["vectors"]).float()
        ids = gather_tensors(labels["passages"])
        first = rank() * len(labels["passages"])  # the row of this process's first passage
        unwanted = is_repeated(ids) if self.masked and self.in_batch else ids == PAD
        own: dict[str, Tensor] = {key: labels[key] for key in ("positives", "teacher") if key in labels}
        shape = len(questions), len(labels["passages"]) // len(questions)
        if not with_backward:
            return self._losses(questions, passages, ids, unwanted, own, first, *shape).mean()
        leaves = [vectors.detach().requires_grad_() for vectors in (questions, passages)]
        total = torch.zeros((), device=questions.device)
        for begin in range(0, len(questions), ROWS):
            rows = slice(begin, begin + ROWS)
            chunk = {key: values[rows] for key, values in own.items()}
            part = self._losses(leaves[0][rows], leaves[1], ids, unwanted, chunk, first + begin, *shape).sum() / len(
                questions
            )
            part.backward()
            total += part.detach()
        learned = [
            (vectors, leaf.grad)
            for vectors, leaf in zip((questions, passages), leaves, strict=True)
            if vectors.requires_grad
        ]
        torch.autograd.backward([vectors for vectors, _ in learned], [gradient for _, gradient in learned])
        return total

    def _losses(
        self,
        questions: Tensor,
        passages: Tensor,
        ids: Tensor,
        is_excluded: Tensor,
        own_labels: dict[str, Tensor],
        first_row: int,
        stride: int,
        columns: int,
    ) -> Tensor:
        """Return the losses (b,) of questions (b, d) against passages (n, d).

        The passages of question i are the rows first_row + i + stride * column.
        """
        rows = torch.arange(len(questions), device=questions.device)
        left_out = is_excluded.expand(len(questions), -1)
        if self.masked:
            left_out = left_out | is_known_positive(ids, own_labels["positives"])
        if not self.in_batch:
            place = torch.arange(len(ids), device=questions.device) - first_row - rows[:, None]
            left_out = left_out | (place < 0) | (place % stride != 0) | (place >= columns * stride)
        left_out = left_out.clone()
        left_out[rows, first_row + rows] = False
        taught = None
        if "teacher" in own_labels and self.loss.takes_teacher:
            taught = (
                first_row
                + rows[:, None]
                + stride * torch.arange(own_labels["teacher"].shape[1], device=questions.device)
            )
        with torch.autocast(questions.device.type, enabled=False):
            of_each = []
            for dimension in (*self.dimensions, None):
                scores = self.similarity(self._truncate(questions, dimension), self._truncate(passages, dimension))
                if self.loss.scales:
                    scores = scores * self.scale
                negatives = ~left_out
                negatives[rows, first_row + rows] = False
                batch = ScoredBatch(scores, scores[rows, first_row + rows], negatives, left_out, self.margin)
                losses = self.loss.losses(batch)
                if taught is not None:
                    losses = losses + self.distil_weight * self.teacher_loss(
                        scores.gather(1, taught), own_labels["teacher"]
                    )
                of_each.append(losses)
            return torch.stack(of_each).mean(0)

    def _truncate(self, vectors: Tensor, dimension: int | None) -> Tensor:
        if dimension is None:
            return vectors
        cut = vectors[:, :dimension]
        return nn.functional.normalize(cut, dim=1) if self.unit_length else cut


def distillation_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of the student's softmax from the teacher's, over each question's own
    passages, (b,).

    Equals the library's `DistillKLDivLoss` at temperature 1, but allows missing passages.

    Args:
        student, teacher: (b, c) scores; the teacher's are -inf for a missing passage.
    """
    absent = teacher == -torch.inf
    log_probabilities = student.masked_fill(absent, -torch.inf).log_softmax(1).masked_fill(absent, 0)
    return nn.functional.kl_div(log_probabilities, teacher.softmax(1), reduction="none").sum(1)


def margin_mse_loss(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared error of the margins between the positive (column 0) and each hard negative, (b,)
    (Hofstätter et al. 2020).

    Equals the library's `MarginMSELoss`, but allows missing passages.
    """
    absent = teacher[:, 1:] == -torch.inf
    margins = student[:, :1] - student[:, 1:] - (teacher[:, :1] - teacher[:, 1:].masked_fill(absent, 0))
    return (margins.masked_fill(absent, 0) ** 2).sum(1) / (~absent).sum(1).clamp(min=1)


TEACHER_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "kl": distillation_loss,
    "margin_mse": margin_mse_loss,
}


def is_known_positive(ids: Tensor, positives: Tensor) -> Tensor:
    """Return whether each passage is a known positive of each question, (b, n) bool. ids: (n,). positives: (b, p),
    padded with PAD.
    """
    known = torch.zeros(len(positives), len(ids), dtype=torch.bool, device=ids.device)
    for column in positives.unbind(1):
        known |= (ids == column[:, None]) & (ids != PAD)
    return known


def is_repeated(ids: Tensor) -> Tensor:
    """Return which entries are PAD or repeat an earlier id, (n,) bool."""
    places = torch.arange(len(ids), device=ids.device)
    _, numbers = ids.unique(return_inverse=True)
    first = torch.full((len(ids),), len(ids), device=ids.device).scatter_reduce(0, numbers, places, "amin")
    return (ids == PAD) | (first[numbers] != places)

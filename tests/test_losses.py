"""The training loss, compared with DPR's formula and with the library's loss."""

import math

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, MultipleNegativesRankingLoss
from sentence_transformers.util import cos_sim, dot_score, pairwise_cos_sim, pairwise_dot_score

from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.registry import Registry
from blindspot.backend.training import losses
from blindspot.backend.training.loss_kinds import LOSSES, LossKind
from blindspot.backend.training.losses import (
    PAD,
    InBatchLoss,
    distillation_loss,
    is_known_positive,
    is_repeated,
    margin_mse_loss,
)
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.db.errors import BadInput

QUESTIONS, WIDTH = 6, 8


def batch(columns=2, seed=0, spread=1.0):
    """Vectors of questions and of each column of passages."""
    torch.manual_seed(seed)
    return [(torch.randn(QUESTIONS, WIDTH) * spread).requires_grad_() for _ in range(1 + columns)]


def labels(columns=2, ids=None, positives=None):
    ids = torch.arange(QUESTIONS * columns) if ids is None else torch.tensor(ids)
    return {"passages": ids, "positives": ids[:QUESTIONS, None] if positives is None else torch.tensor(positives)}


def loss_of(vectors, given=None, **settings):
    columns = len(vectors) - 1
    return InBatchLoss(torch.nn.Identity(), **settings).calculate_loss([[v] for v in vectors], given or labels(columns))


def dpr(vectors, leave_out=frozenset()):
    """Equation 2 of the paper, with the other passages of the batch as negatives: plain loops over exponentials."""
    questions, passages = vectors[0], torch.cat(vectors[1:])
    total = 0.0
    for i, question in enumerate(questions):
        similarities = [(question @ passage).item() for passage in passages]
        below = sum(math.exp(s) for j, s in enumerate(similarities) if j == i or (i, j) not in leave_out)
        total += -math.log(math.exp(similarities[i]) / below)
    return total / len(questions)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_softmax_is_the_formula_of_dpr(columns):
    vectors = batch(columns)
    assert loss_of(vectors).item() == pytest.approx(dpr(vectors), rel=1e-5)


@pytest.mark.parametrize("similarity, function, scale", [("dot", dot_score, 1.0), ("cosine", cos_sim, 20.0)])
def test_with_nothing_to_mask_it_is_the_librarys(similarity, function, scale):
    ours, theirs = batch(), batch()
    loss_of(ours, similarity=similarity, scale=scale).backward()
    peer = MultipleNegativesRankingLoss(torch.nn.Identity(), scale=scale, similarity_fct=function)
    expected = peer.compute_loss_from_embeddings(theirs, None)
    expected.backward()
    assert torch.equal(loss_of(ours, similarity=similarity, scale=scale), expected)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("mini_batch", [None, 2])
@pytest.mark.parametrize("columns", [2, 4])
def test_without_in_batch_negatives_it_is_one_of_n(columns, mini_batch):
    """Equation 2 over a question's own passages: the library's cross-entropy for each question alone. A passage that is
    also another question's stays this question's negative.
    """
    vectors, given = batch(columns), labels(columns)
    given["passages"][QUESTIONS] = given["passages"][QUESTIONS + 1] = (
        99  # the first negative of questions 0 and 1 is the same passage
    )
    scores = torch.stack(
        [torch.stack([(question * column[i]).sum() for column in vectors[1:]]) for i, question in enumerate(vectors[0])]
    )
    expected = torch.nn.functional.cross_entropy(scores, torch.zeros(QUESTIONS, dtype=torch.long))
    assert loss_of(vectors, given, in_batch=False, mini_batch=mini_batch).item() == pytest.approx(
        expected.item(), rel=1e-5
    )


def test_a_known_positive_is_no_negative_whoever_brought_it():
    """Question 0 also has passage 3 (the positive of question 3) and passage 10 (the hard negative of question 4)."""
    vectors = batch()
    positives = [[i, PAD, PAD] for i in range(QUESTIONS)]
    positives[0] = [0, 3, 10]
    given = labels(positives=positives)
    assert loss_of(vectors, given).item() == pytest.approx(dpr(vectors, {(0, 3), (0, 10)}), rel=1e-5)
    assert loss_of(vectors, given, masked=False).item() == pytest.approx(dpr(vectors), rel=1e-5)


def test_what_is_masked_gets_no_gradient():
    vectors = batch(1)
    positives = [list(range(QUESTIONS)) for _ in range(QUESTIONS)]  # every passage answers every question
    loss = loss_of(vectors, labels(1, positives=positives))
    loss.backward()
    assert loss.item() == 0
    assert all(not v.grad.any() for v in vectors)


def test_a_passage_twice_in_the_batch_counts_once():
    """Passage 1 is the positive of question 1 and the hard negative of question 0: for question 2 it is one
    negative."""
    vectors = batch()
    with torch.no_grad():
        vectors[2][0] = vectors[1][1]
    ids = list(range(2 * QUESTIONS))
    ids[QUESTIONS] = 1
    copies = {(i, QUESTIONS) for i in range(QUESTIONS)}
    assert loss_of(vectors, labels(ids=ids)).item() == pytest.approx(dpr(vectors, copies), rel=1e-5)


def test_two_questions_with_the_same_positive():
    vectors = batch(1)
    ids = [0, 0, 2, 3, 4, 5]
    with torch.no_grad():
        vectors[1][1] = vectors[1][0]
    left_out = {(0, 1), (1, 0), *((i, 1) for i in range(2, QUESTIONS))}
    assert loss_of(vectors, labels(1, ids=ids)).item() == pytest.approx(dpr(vectors, left_out), rel=1e-5)


def test_a_missing_hard_negative_is_none():
    vectors = batch()
    ids = [*range(QUESTIONS + 1), *[PAD] * (QUESTIONS - 1)]
    absent = {(i, j) for i in range(QUESTIONS) for j in range(QUESTIONS + 1, 2 * QUESTIONS)}
    assert loss_of(vectors, labels(ids=ids)).item() == pytest.approx(dpr(vectors, absent), rel=1e-5)


@pytest.mark.parametrize("similarity", ["dot", "l2", "cosine"])
def test_the_triplet_loss_by_hand(similarity):
    """Appendix B: margin 1, signs changed for dot products; here the mean over a question's negatives."""
    vectors = batch(1, spread=0.5)
    measure = {
        "dot": lambda q, p: float(q @ p),
        "l2": lambda q, p: -float((q - p).pow(2).sum().sqrt()),
        "cosine": lambda q, p: float(torch.nn.functional.cosine_similarity(q, p, dim=0)),
    }[similarity]
    losses = [
        max(0.0, 1 - measure(q, vectors[1][i]) + measure(q, p))
        for i, q in enumerate(vectors[0])
        for j, p in enumerate(vectors[1])
        if i != j
    ]
    assert loss_of(vectors, kind="triplet", similarity=similarity).item() == pytest.approx(
        sum(losses) / len(losses), rel=1e-5
    )


def test_l2_softmax_negates_the_distance():
    vectors = batch(1)
    distances = [[float((q - p).pow(2).sum().sqrt()) for p in vectors[1]] for q in vectors[0]]
    by_hand = sum(math.log(sum(math.exp(-d) for d in row)) + row[i] for i, row in enumerate(distances)) / QUESTIONS
    assert loss_of(vectors, similarity="l2").item() == pytest.approx(by_hand, rel=1e-5)
    loss_of(vectors, similarity="l2").backward()
    assert all(torch.isfinite(v.grad).all() for v in vectors)


def test_l2_of_equal_vectors_has_a_finite_gradient():
    vectors = batch(1)
    with torch.no_grad():
        vectors[0].copy_(vectors[1])
    loss_of(vectors, similarity="l2").backward()
    assert all(torch.isfinite(v.grad).all() for v in vectors)


def test_the_backward_pass_in_pieces_is_the_whole_one(monkeypatch):
    from blindspot.backend.training import losses

    monkeypatch.setattr(losses, "ROWS", 2)
    whole, pieces = batch(), batch()
    expected = loss_of(whole)
    expected.backward()
    cached = InBatchLoss(torch.nn.Identity(), mini_batch=4).calculate_loss(
        [[v] for v in pieces], labels(), with_backward=True
    )
    assert float(cached) == pytest.approx(float(expected), rel=1e-6)
    for a, b in zip(whole, pieces, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_scores_are_exact_under_mixed_precision():
    """At DPR's scores near 80, products in bfloat16 are half a unit apart."""
    vectors = [v.detach() * 6 for v in batch()]
    expected = dpr(vectors)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss_of(vectors).item() == pytest.approx(expected, rel=1e-5)


def test_masks():
    assert is_known_positive(torch.tensor([5, 6, PAD]), torch.tensor([[6, PAD], [PAD, PAD]])).tolist() == [
        [False, True, False],
        [False] * 3,
    ]
    assert is_repeated(torch.tensor([4, 9, 4, PAD, 9, 1])).tolist() == [False, False, True, True, True, False]


@pytest.mark.parametrize("wrong", [{"kind": "hinge"}, {"similarity": "manhattan"}, {"scale": 0}, {"margin": -1}])
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        InBatchLoss(torch.nn.Identity(), **wrong)


TAUGHT = [[4.0, 1.0, -2.0], [0.5, 0.0, 3.0], [-13.8, 13.8, 0.0], [2.0, 2.0, 2.0], [9.0, -9.0, 1.0], [0.0, 1.0, 2.0]]


def taught(columns=2, **more):
    return labels(columns, **more) | {"teacher": torch.tensor(TAUGHT)[:, :columns]}


@pytest.mark.parametrize(
    "similarity, pairwise, scale", [("dot", pairwise_dot_score, 1.0), ("cosine", pairwise_cos_sim, 20.0)]
)
@pytest.mark.parametrize("mini_batch", [None, 4])
def test_the_teachers_term_is_the_librarys(similarity, pairwise, scale, mini_batch, monkeypatch):
    """Beside the in-batch loss, weighted; with gradient caching too, some questions at a time."""
    from blindspot.backend.training import losses

    monkeypatch.setattr(losses, "ROWS", 4)
    ours, theirs = batch(3), batch(3)
    loss = InBatchLoss(
        torch.nn.Identity(), similarity=similarity, scale=scale, mini_batch=mini_batch, distil_weight=0.7
    )
    found = loss.calculate_loss([[v] for v in ours], taught(3), with_backward=mini_batch is not None)
    if mini_batch is None:
        found.backward()
    peer = DistillKLDivLoss(torch.nn.Identity(), similarity_fct=lambda a, b: scale * pairwise(a, b))
    expected = loss_of(theirs, similarity=similarity, scale=scale) + 0.7 * peer.compute_loss_from_embeddings(
        theirs, torch.tensor(TAUGHT)
    )
    expected.backward()
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_a_teacher_has_nothing_to_say_of_a_missing_negative():
    """Question 0 has one hard negative of two, question 1 none: the library's loss of the shorter rows."""
    student = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    teacher = torch.tensor([[4.0, 1.0, -torch.inf], [0.5, -torch.inf, -torch.inf], [1.0, 2.0, 3.0]])
    found = distillation_loss(student, teacher)
    found.sum().backward()

    def peer(row, columns):
        one = [torch.ones(1, 1), *(student[row, column].reshape(1, 1) for column in range(columns))]
        return DistillKLDivLoss(torch.nn.Identity()).compute_loss_from_embeddings(one, teacher[row : row + 1, :columns])

    assert found.tolist() == pytest.approx([peer(0, 2).item(), 0.0, peer(2, 3).item()], abs=1e-6)
    assert torch.isfinite(student.grad).all() and not student.grad[1].any() and student.grad[0, 2] == 0


def test_the_gradient_leads_to_the_teachers_distribution():
    """On the teacher's term alone the student ends with the teacher's probabilities, not with all on the positive."""
    questions, passages = torch.eye(3)[:2], torch.nn.Parameter(torch.zeros(2, 3, 3))
    teacher = torch.tensor([[1.0, 0.0, -1.0], [-2.0, 2.0, 0.5]])
    descent = torch.optim.SGD([passages], lr=1.0)
    before = distillation_loss((questions[:, None] * passages).sum(2), teacher).mean().item()
    for _ in range(300):
        descent.zero_grad()
        distillation_loss((questions[:, None] * passages).sum(2), teacher).mean().backward()
        descent.step()
    after = (questions[:, None] * passages.detach()).sum(2)
    assert distillation_loss(after, teacher).mean().item() < 1e-3 < before
    torch.testing.assert_close(after.softmax(1), teacher.softmax(1), atol=0.02, rtol=0)


def test_each_process_teaches_its_own_questions(monkeypatch):
    """The second of two processes: its passages stand behind the first one's, column after column."""
    from blindspot.backend.training import losses

    other, mine = batch(seed=1), batch(seed=2)
    elsewhere = {True: torch.cat(other[1:]), False: torch.arange(100, 100 + 2 * QUESTIONS)}
    monkeypatch.setattr(losses, "rank", lambda: 1)
    monkeypatch.setattr(losses, "gather_tensors", lambda rows: torch.cat([elsewhere[rows.is_floating_point()], rows]))
    plain = loss_of(mine).item()
    peer = DistillKLDivLoss(torch.nn.Identity()).compute_loss_from_embeddings(mine, torch.tensor(TAUGHT)[:, :2])
    assert loss_of(mine, taught()).item() == pytest.approx(plain + peer.item(), rel=1e-6)


def test_a_loss_that_is_registered_is_offered_and_trains(monkeypatch):
    """A new loss needs only its entry: the hinge of the highest negative, worked out by hand."""

    def highest(batch):
        return (1 - batch.positive_scores + batch.scores.masked_fill(~batch.negatives, -math.inf).amax(1)).clamp(min=0)

    fresh = Registry("loss")
    for loss in (*LOSSES, LossKind("highest", "Highest", "the highest negative alone", highest)):
        fresh.register(loss)
    monkeypatch.setattr(losses, "LOSSES", fresh)
    vectors = batch(1)
    scores = (vectors[0] @ vectors[1].T).detach()
    expected = [max(0.0, 1 - row[i] + max(row[:i] + row[i + 1 :])) for i, row in enumerate(scores.tolist())]
    assert loss_of(vectors, kind="highest").item() == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def test_the_setting_takes_its_choices_and_help_from_the_losses():
    setting = declared_settings(DualEncoderSettings)["loss"]
    assert setting.choices == tuple(LOSSES.names()) and all(loss.help in setting.help for loss in LOSSES)
    with pytest.raises(BadInput, match=r"^loss must be one of softmax, triplet, not 'hinge'$"):
        DualEncoderSettings(loss="hinge")


def margins(columns=2):
    """The teacher's log odds of a positive and of its hard negatives; the last question has no second column."""
    torch.manual_seed(3)
    return torch.randn(QUESTIONS, columns)


def test_margin_mse_is_the_librarys():
    """On one hard negative: the mean squared error between the student's margin and the teacher's."""
    vectors, taught = batch(), margins()
    plain = loss_of(vectors)
    given = labels() | {"teacher": taught}
    ours = loss_of(vectors, given, distil_loss="margin_mse", distil_weight=0.5) - plain
    margin = pairwise_dot_score(vectors[0], vectors[1]) - pairwise_dot_score(vectors[0], vectors[2])
    expected = torch.nn.MSELoss()(margin, taught[:, 0] - taught[:, 1])  # as `MarginMSELoss` has it
    assert ours.item() == pytest.approx(0.5 * expected.item(), rel=1e-4)


def test_margin_mse_leaves_out_missing_negatives():
    student = torch.tensor([[3.0, 1.0, 9.0], [3.0, 1.0, 2.0]])
    teacher = torch.tensor([[1.0, 0.0, -torch.inf], [1.0, 0.0, -1.0]])
    assert margin_mse_loss(student, teacher).tolist() == [1.0, 1.0]  # (2 - 1)^2; the mean of (2 - 1)^2 and (1 - 2)^2
    nothing = margin_mse_loss(student, torch.tensor([[1.0, -torch.inf, -torch.inf]] * 2))
    assert nothing.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("unit_length", [False, True])
def test_matryoshka_is_the_mean_over_cut_vectors(unit_length):
    """As the library's MatryoshkaLoss adds up: vectors cut, and of unit length again, at every dimension and whole."""
    vectors = [torch.nn.functional.normalize(v, dim=1) if unit_length else v for v in batch()]

    def cut(length):
        pieces = [v[:, :length] for v in vectors]
        return [torch.nn.functional.normalize(v, dim=1) for v in pieces] if unit_length else pieces

    ours = loss_of(vectors, dimensions=(2, 4), unit_length=unit_length, scale=3.0)
    expected = sum(loss_of(cut(length), scale=3.0).item() for length in (2, 4, WIDTH)) / 3
    assert ours.item() == pytest.approx(expected, rel=1e-5)

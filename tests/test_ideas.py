"""The worked example of docs/ideas.md: the program computes every number on the page."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from blindspot.backend.text.answers import RULES
from blindspot.backend.text.gold_matching import GoldParagraph, match_gold
from blindspot.backend.training.losses import InBatchLoss

PAGE = (Path(__file__).parents[1] / "docs" / "ideas.md").read_text(encoding="utf-8")


def table(title):
    """The numbers of the table under a bold line."""
    lines = PAGE.split(f"**{title}**", 1)[1].strip().split("\n\n", 1)[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return np.array([[float(cell) for cell in row if not cell.startswith("Q")] for row in rows])


@pytest.fixture(scope="module")
def scores():
    return table("Scores")


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def said(pattern):
    return [float(number) for number in re.search(pattern, " ".join(PAGE.split())).groups()]


def test_the_tables(scores):
    probabilities = softmax(scores)
    losses = -np.log(np.diag(probabilities))
    np.testing.assert_allclose(table("Probabilities"), probabilities, atol=0.0005001)
    np.testing.assert_allclose(table("Losses")[0], [*losses, losses.mean()], atol=0.0005001)
    np.testing.assert_allclose(
        table("Gradient of each question's loss by its scores"), probabilities - np.eye(4), atol=0.0005001
    )


def test_the_page_computes_what_the_loss_computes(scores):
    given = torch.tensor(scores, dtype=torch.float32).requires_grad_()
    ids = torch.arange(4)
    labels = {"passages": ids, "positives": ids[:, None]}
    loss = InBatchLoss(torch.nn.Identity()).calculate_loss(
        [[given], [torch.eye(4)]], labels
    )  # passages are the axes: scores are given
    loss.backward()
    assert loss.item() == pytest.approx(table("Losses")[0, -1], abs=0.0005)
    np.testing.assert_allclose(
        4 * given.grad.numpy(), table("Gradient of each question's loss by its scores"), atol=0.0005001
    )
    labels["positives"] = torch.tensor([[0, -1], [1, 2], [2, -1], [3, -1]])
    masked = InBatchLoss(torch.nn.Identity()).calculate_loss([[given], [torch.eye(4)]], labels).item()
    assert masked == pytest.approx(said(r"and the mean loss to ([\d.]+\d)\.")[0], abs=0.0005)


def test_the_numbers_in_the_text(scores):
    raised = np.exp(scores)
    first, again, *rest = said(r"e⁵ = ([\d.]+), and the row's sum is ([\d.]+) \+ ([\d.]+) \+ ([\d.]+) \+ ([\d.]+) = ")
    np.testing.assert_allclose([first, again, *rest], [raised[0, 0], *raised[0]], atol=0.005)
    total, numerator, below, share = said(r"= ([\d.]+), so P1 gets ([\d.]+) / ([\d.]+) = ([\d.]+\d)\.")
    assert (total, numerator) == (below, first) and total == pytest.approx(raised[0].sum(), abs=0.005)
    assert share == pytest.approx(softmax(scores)[0, 0], abs=0.0005)
    assert said(r"ln 4 = ([\d.]+\d)\.")[0] == pytest.approx(math.log(4), abs=0.0005)
    left = np.where((np.arange(16).reshape(4, 4) == 6), -np.inf, scores)
    np.testing.assert_allclose(
        said(r"becomes ([\d.]+), ([\d.]+), nothing, ([\d.]+\d)\."), softmax(left)[1, [0, 1, 3]], atol=0.0005
    )
    before, after = said(r"Its loss falls from ([\d.]+) to ([\d.]+),")
    assert before == table("Losses")[0, 1] and after == pytest.approx(-np.log(softmax(left)[1, 1]), abs=0.0005)
    best, floor = said(r"only ([\d.]+), and the loss cannot fall below ([\d.]+\d)\.")
    row = softmax(np.array([[1.0, -1, -1, -1]]))[0, 0]
    assert (best, floor) == (pytest.approx(row, abs=0.0005), pytest.approx(-np.log(row), abs=0.0005))
    strongest = said(r"The largest positive number, ([\d.]+), is that of Q2 and P3")[0]
    assert strongest == (table("Gradient of each question's loss by its scores")).max()


def test_what_the_rule_says():
    """The table of answers, by the program."""
    rows = re.findall(r"^\| ([^|]+) \| \"([^|]+)\" \| (contains it|does not contain it) \|", PAGE, re.M)
    assert len(rows) == 4
    rule = RULES["dpr"]
    for answer, passage, verdict in [
        *rows,
        ("Ray", "Ray Charles", "contains it"),
        ("Ray", "X-rays", "does not contain it"),
        ("Ray", "stray", "does not contain it"),
    ]:
        assert rule.contains_answer(rule.passage(passage), rule.needles([answer])) == (verdict == "contains it"), (
            answer,
            passage,
        )


def test_the_example_of_matching():
    paragraph, block = re.search(
        r"the paragraph \*\"(.+?)\"\* and a block .*?\*\"(.+?) \.\.\.\"\*", PAGE, re.S
    ).groups()

    class Corpus:
        def __len__(self):
            return 2

        def blocks(self):
            yield [
                ("1", "Arve Furset", " ".join(block.split())),
                ("2", "Arve Furset", "Arve Furset has a sister who is a Norwegian painter."),
            ]

    found = match_gold(Corpus(), [GoldParagraph("Arve Furset", " ".join(paragraph.split()), ("Molde",))])[0]
    assert (found.ordinal, found.how) == (0, "overlap")

"""The parts of the reader, compared with the paper's formulas, transformers' DPRReader and an independent SQuAD
scorer."""

from __future__ import annotations

import json
import math
import random
import shutil

import numpy as np
import pytest
import torch
import transformers

from blindspot.backend.reader.answer_scores import exact_match, f1, normalise_answer, score_prediction
from blindspot.backend.reader.best_span import best_spans
from blindspot.backend.reader.inputs import ReaderInputs, answer_positions
from blindspot.backend.reader.loss import reader_loss, span_loss
from blindspot.backend.reader.model import load_reader, start_reader
from blindspot.backend.reader.reader import Reader, select_answer
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage
from tests.readers import tiny_reader
from tests.studies import CITIES, people, tiny_bert


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reader")
    tiny_reader(made)
    return made


def by_the_paper(start, end, relevance, lengths, groups, spans):
    """Section 6.1 with probabilities and loops: -log P_selected(positive) - log sum P_start(s) P_end(t)."""
    total = 0.0
    for group, answers in zip(groups, spans, strict=True):
        weights = [math.exp(relevance[row]) for row in group]
        total -= math.log(weights[0] / sum(weights))
        positive, length = group[0], lengths[group[0]]
        starts, ends = ([math.exp(value) for value in logits[positive][:length]] for logits in (start, end))
        total -= math.log(sum(starts[s] / sum(starts) * ends[t] / sum(ends) for s, t in answers))
    return total / len(groups)


def drawn_batch(generator, questions=3, passages=4, width=12):
    """Random logits; the questions have different numbers of passages and of spans."""
    rows = iter(range(questions * passages))
    groups = [[next(rows) for _ in range(int(generator.integers(1, passages + 1)))] for _ in range(questions)]
    count = max(row for group in groups for row in group) + 1
    start, end = generator.normal(0, 3, (2, count, width))
    lengths = generator.integers(6, width + 1, count)
    spans = [
        sorted({tuple(sorted(generator.integers(0, 6, 2).tolist())) for _ in range(int(generator.integers(1, 4)))})
        for _ in groups
    ]
    return start, end, generator.normal(0, 3, count), lengths, groups, spans


def as_tensors(start, end, relevance, lengths, groups, spans):
    places = torch.full((len(groups), max(map(len, groups))), -1)
    positions = torch.full((len(groups), max(map(len, spans)), 2), -1)
    for row, (group, answers) in enumerate(zip(groups, spans, strict=True)):
        places[row, : len(group)] = torch.tensor(group)
        positions[row, : len(answers)] = torch.tensor(answers)
    real = torch.arange(start.shape[1]) < torch.tensor(lengths)[:, None]
    return (*(torch.tensor(each, dtype=torch.float32) for each in (start, end, relevance)), real, places, positions)


def test_the_loss_is_the_papers():
    for seed in range(3):
        batch = drawn_batch(np.random.default_rng(seed))
        assert reader_loss(*as_tensors(*batch)).item() == pytest.approx(by_the_paper(*batch), rel=1e-5), seed


def test_the_loss_by_hand():
    """Two passages of equal relevance: ln 2. All of 4 tokens alike and two spans of the answer: -ln (2 / 16)."""
    zeros, real = torch.zeros(2, 4), torch.ones(2, 4, dtype=torch.bool)
    spans = torch.tensor([[[0, 1], [3, 3]]])
    loss = reader_loss(zeros, zeros, torch.zeros(2), real, torch.tensor([[0, 1]]), spans)
    assert loss.item() == pytest.approx(math.log(2) + math.log(8))


def test_padding_and_a_positive_without_a_span_change_nothing():
    batch = drawn_batch(np.random.default_rng(3))
    start, end, relevance, real, places, spans = as_tensors(*batch)
    wider = [torch.cat([each, torch.full((len(each), 5), 50.0)], dim=1).requires_grad_() for each in (start, end)]
    hidden = torch.cat([real, torch.zeros(len(real), 5, dtype=torch.bool)], dim=1)
    loss = reader_loss(*wider, relevance, hidden, places, spans)
    assert loss.item() == pytest.approx(reader_loss(start, end, relevance, real, places, spans).item(), rel=1e-6)
    spans[1] = -1
    per_question = span_loss(*wider, hidden, places[:, 0], spans)
    per_question.sum().backward()
    assert per_question[1].item() == 0.0 and all(torch.isfinite(each.grad).all() for each in wider)
    assert not wider[0].grad[places[1, 0]].any() and not wider[0].grad[:, -5:].any()


def test_the_best_span_by_brute_force():
    generator = np.random.default_rng(0)
    for _ in range(60):
        width, longest = int(generator.integers(2, 14)), int(generator.integers(1, 12))
        start, end = np.round(generator.normal(size=(2, 5, width)), 1).astype(np.float32)  # some sums are equal
        low, high = np.sort(generator.integers(0, width + 1, (5, 2)), axis=1).T
        readable = (np.arange(width) >= low[:, None]) & (np.arange(width) < high[:, None])
        s, t, score = (each.numpy() for each in best_spans(*map(torch.tensor, (start, end, readable)), longest))
        for row in range(5):
            spans = [(a, b) for a in range(low[row], high[row]) for b in range(a, min(high[row], a + longest))]
            if not spans:
                assert (s[row], t[row], score[row]) == (-1, -1, -np.inf)
                continue
            best = max(spans, key=lambda span: start[row, span[0]] + end[row, span[1]])  # the first among equals
            assert (s[row], t[row]) == best and score[row] == start[row, best[0]] + end[row, best[1]]


@pytest.mark.parametrize("question", ["In which town did the miner live?", "Where?"])
def test_the_predicted_span_is_that_of_transformers(folder, question):
    """`DPRReader` and its tokenizer's `decode_best_spans` on the same weights, 30 passages in one batch.

    That function begins after the question's [SEP], so it also finds spans in the title. DPR's own code does not: the
    title's start logits
    are taken away before it is asked.
    """
    tokenizer = transformers.DPRReaderTokenizerFast(vocab=json_vocab(folder))
    network = transformers.DPRReader.from_pretrained(folder).eval()
    passages = [
        Passage(p.id, p.title, f"{p.text} The town of {CITIES[i % 9]} was {'old ' * (i % 7)}.")
        for i, p in enumerate(people(30))
    ]
    inputs = tokenizer(
        [question] * 30, [p.title for p in passages], [p.text for p in passages], padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        outputs = [each.clone() for each in network(**inputs)[:3]]
    norms = [
        [outputs[i][row][inputs["attention_mask"][row] > 0].logsumexp(0).item() for i in range(2)] for row in range(30)
    ]
    for row, ids in enumerate(inputs["input_ids"].tolist()):
        outputs[0][row, : ids.index(3, ids.index(3) + 1) + 1] = -1e9  # 3 is [SEP]
    lists = {"input_ids": inputs["input_ids"].tolist()}, [each.tolist() for each in outputs]
    theirs = tokenizer.decode_best_spans(*lists, num_spans=30, max_answer_length=10, num_spans_per_passage=1)
    ours = Reader(load_reader(folder, tokens=256), "cpu", batch=7).read(question, passages)
    assert len(theirs) == 30
    for span in theirs:
        assert ours.tokens[span.doc_id].tolist() == [span.start_index, span.end_index]
        assert ours.scores[span.doc_id] == pytest.approx(float(span.span_score), abs=1e-4)
        assert ours.relevance[span.doc_id] == pytest.approx(float(span.relevance_score), abs=1e-4)
        low, high = ours.spans[span.doc_id]
        text = span.text.replace("##", "").replace(" ", "")
        assert passages[span.doc_id].text[low:high].lower().replace(" ", "") == text
        probability = np.exp(float(span.span_score) - sum(norms[span.doc_id]))
        assert ours.probabilities[span.doc_id] == pytest.approx(probability, rel=1e-3)
    assert select_answer(ours.relevance[None], ours.scores[None], 30)[0] == theirs[0].doc_id
    for k in (1, 5, 12):
        first = next(span for span in theirs if span.doc_id < k)
        assert select_answer(ours.relevance[None], ours.scores[None], k)[0] == first.doc_id


def json_vocab(folder):
    return {word: number for number, word in enumerate((folder / "vocab.txt").read_text().split("\n")[:-1])}


def test_what_cannot_be_read_is_not_chosen(folder):
    """An empty passage has no span, whatever its relevance; without passages there is no answer."""
    reader = Reader(load_reader(folder), "cpu")
    read = reader.read("Where?", [Passage("a", "Oslo", ""), Passage("b", "", "Oslo"), Passage("c", "", " \t ")])
    assert read.spans.tolist() == [[-1, -1], [0, 4], [-1, -1]] and np.isinf(read.scores[[0, 2]]).all()
    assert select_answer(read.relevance[None], read.scores[None], 3).tolist() == [1]
    assert select_answer(read.relevance[None], read.scores[None], 1).tolist() == [-1]
    assert len(reader.read("Where?", []).spans) == 0
    assert select_answer(np.zeros((2, 0)), np.zeros((2, 0)), 5).tolist() == [-1, -1]


def test_a_long_question_leaves_room_for_the_passage(folder):
    model = load_reader(folder)
    inputs = ReaderInputs(model.inputs.tokenizer, 60)
    (encoded,) = inputs.encode("where was born " * 300, [Passage("a", "Oslo " * 300, "Born in Oslo. " * 100)])
    assert len(encoded.ids) == 60 and encoded.first == 1 + 20 + 1 + 10 + 1 and len(encoded.offsets) == 27


def test_tokens_and_characters_lead_to_each_other(folder):
    inputs = load_reader(folder).inputs
    text = "Åse was born in Oslo, the Oslo of the north. Mo i Rana, mo I  rana."
    passage = Passage("a", "A title with Oslo", text)
    (encoded,) = inputs.encode("Where was Åse born?", [passage])
    found = {
        text[slice(*encoded.characters(*span))]
        for span in answer_positions(encoded, passage, ["oslo", "Mo i Rana", "Bergen"])
    }
    assert found == {"Oslo", "Mo i Rana", "mo I  rana"}
    assert len(answer_positions(encoded, passage, ["oslo"])) == 2  # a span in the title is none
    nested = answer_positions(encoded, passage, ["Oslo", "Oslo of the north"])
    assert [text[slice(*encoded.characters(*span))] for span in nested] == ["Oslo", "Oslo", "Oslo of the north"]
    held = []
    for limit in range(28, len(encoded.ids) + 3, 2):
        (cut,) = ReaderInputs(inputs.tokenizer, limit).encode("Where?", [passage])
        said = [text[slice(*cut.characters(*span))] for span in answer_positions(cut, passage, ["north", "rana"])]
        assert said == ["north", "Rana", "rana"][: len(said)]  # whole answers alone
        held.append(len(said))
    assert held == sorted(held) and set(held) == {1, 2, 3}


WORDS = ("the", "a", "an", "The", "Oslo", "oslo", "o'slo", "U.S.", "us", "New", "York-City", "york", "“Oslo”", "1,000", "Åse", "ÅSE", "and", "  ",
         "\t", "anthem", "theatre", ".", "?!", "--", "", "１２", "ß", "İ")  # fmt: skip


def test_exact_match_and_f1_are_an_independent_scorers():
    """torchmetrics' SQuAD, on thousands of strings of words that normalisation changes."""
    from torchmetrics.functional.text.squad import _compute_exact_match_score, _compute_f1_score, _normalize_text

    draw = random.Random(0)
    said = [draw.choice(("", " ")).join(draw.choices(WORDS, k=draw.randrange(5))) for _ in range(2000)]
    said += ["".join(draw.choices("aAnthe .,'-é\n", k=draw.randrange(9))) for _ in range(1000)]
    matches = 0
    for number, prediction in enumerate(said):
        answers = draw.choices(said, k=draw.randrange(1, 4)) + (
            [prediction.upper() + " the"] if number % 3 == 0 else []
        )
        assert normalise_answer(prediction) == _normalize_text(prediction)
        expected = max(bool(_compute_exact_match_score(prediction, answer)) for answer in answers)
        matches += expected
        assert exact_match(prediction, answers) == expected, (prediction, answers)
        expected = max(float(_compute_f1_score(prediction, answer)) for answer in answers)
        assert f1(prediction, answers) == pytest.approx(expected, abs=1e-6)
    assert 500 < matches < 2700


def test_answers_by_hand():
    assert exact_match("The  Beatles!", ["beatles"])
    assert not exact_match("Beatles band", ["beatles"]) and not exact_match("x", [])
    assert f1("the Beatles band", ["Beatles"]) == pytest.approx(2 / 3) and f1("x", []) == 0.0
    patterns = (r"19\d\d", r"(unfinished")
    found = [score_prediction(said, patterns, True)[0] for said in ("1984", "1984 it was", "in 1984", None)]
    assert found == [True, True, False, False]
    assert score_prediction(None, ("1984",)) == (False, 0.0)
    assert score_prediction("in 1984", ("1984",)) == (False, pytest.approx(2 / 3))


def test_a_start_is_any_bert(folder, tmp_path):
    """A plain BERT and the tower of a dual encoder give their own vectors; three new vectors are drawn by the seed."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Router, Transformer

    bert = tiny_bert(tmp_path / "bert")
    made = start_reader(str(tmp_path / "bert"), tokens=999)
    inside = made.network.span_predictor.encoder.bert_model.state_dict()
    assert all(
        torch.equal(inside[name], weight) for name, weight in bert.state_dict().items() if not name.startswith("pooler")
    )
    assert made.inputs.limit == 256  # the network's number of positions
    again, other = (
        start_reader(str(tmp_path / "bert"), seed=seed).network.span_predictor.qa_outputs.weight for seed in (0, 1)
    )
    assert torch.equal(made.network.span_predictor.qa_outputs.weight, again) and not torch.equal(again, other)
    assert start_reader(str(tmp_path / "bert"), layers=1).network.config.num_hidden_layers == 1
    towers = [[Transformer(str(tmp_path / "bert")), Pooling(32, "cls")] for _ in range(2)]
    SentenceTransformer(modules=[Router.for_query_document(*towers)], device="cpu").save_pretrained(
        str(tmp_path / "dual"), create_model_card=False
    )
    from_dual = start_reader(str(tmp_path / "dual")).network.span_predictor.encoder.bert_model.state_dict()
    assert all(torch.equal(inside[name], weight) for name, weight in from_dual.items())
    goes_on = start_reader(str(folder)).network.state_dict()
    saved = transformers.DPRReader.from_pretrained(folder).state_dict()
    assert all(torch.equal(goes_on[name], weight) for name, weight in saved.items())
    assert start_reader(str(folder), layers=1).network.config.num_hidden_layers == 1


def test_what_is_no_reader_is_one_line(folder, tmp_path):
    tiny_bert(tmp_path / "bert")
    with pytest.raises(Missing, match="is not a reader; train one"):
        load_reader(tmp_path / "bert")
    with pytest.raises(Missing, match="cannot load .*nothing"):
        load_reader(tmp_path / "nothing")
    config = transformers.DistilBertConfig(vocab_size=90, dim=32, hidden_dim=64, n_layers=1, n_heads=4)
    transformers.DistilBertModel(config).save_pretrained(tmp_path / "distil")
    shutil.copy(folder / "tokenizer.json", tmp_path / "distil")
    shutil.copy(folder / "tokenizer_config.json", tmp_path / "distil")
    with pytest.raises(Refused, match="is a DistilBertModel; the reader starts from a BERT"):
        start_reader(str(tmp_path / "distil"))


def test_a_reader_for_another_tokenizer_is_one_line(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    words = [*json_vocab(folder), *(f"word{i}" for i in range(50))]
    transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(other)
    with pytest.raises(Refused, match="the tokenizer of .* belongs to another model: it has .* words, the network"):
        load_reader(other)
    trained = tmp_path / "trained"
    shutil.copytree(folder, trained)
    (trained / "training.json").write_text(json.dumps({"kind": "reader", "model_hash": load_reader(folder).hash}))
    load_reader(trained)
    words = [*words[:5], *reversed(list(json_vocab(folder))[5:])]  # the same number of words, in another order
    transformers.BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}).save_pretrained(trained)
    with pytest.raises(Refused, match="the tokenizer of .* have changed since its training"):
        load_reader(trained)


def test_pickled_weights_are_not_read(folder, tmp_path):
    pickled = tmp_path / "pickled"
    shutil.copytree(folder, pickled)
    torch.save(load_reader(folder).network.state_dict(), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    refused = "would run code of whoever made it: pytorch_model.bin: pickled weights.*safetensors"
    with pytest.raises(Refused, match=refused):
        load_reader(pickled)
    with pytest.raises(Refused, match=refused):
        start_reader(str(pickled))
    tiny_bert(tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").rename(tmp_path / "bert" / "pytorch_model.bin")
    with pytest.raises(Refused, match=refused):
        start_reader(str(tmp_path / "bert"))

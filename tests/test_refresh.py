"""The second round of a dual encoder's training: it starts from the first model, and takes the negatives that this model ranks high."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training import dual_encoder, refresh
from blindspot.backend.training.refresh import DEPTH, SHARE, RefreshedExamples, _mine, _pool
from blindspot.db.errors import Refused
from tests.training import Stopped, examples, quick, start, weights

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return start(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def rounds(monkeypatch):
    """(start weights, examples) of each round, as its trainer got them."""
    seen, run = [], dual_encoder._run_trainer

    def watched(*given):
        model = next(each for each in given if isinstance(each, torch.nn.Module))
        dataset = next(each for each in given if isinstance(each, dual_encoder.NegativeSampler))
        started = {name: weight.clone() for name, weight in model.state_dict().items()}
        seen.append((started, [dataset.examples[number] for number in range(len(dataset))]))
        return run(*given)

    monkeypatch.setattr(dual_encoder, "_run_trainer", watched)
    return seen


def test_the_second_round_starts_from_the_first_and_takes_its_negatives(bert, tmp_path, rounds, monkeypatch):
    mined, mine = [], refresh._mine

    def watched(encoder, *given):
        model = {name: weight.clone() for name, weight in encoder.model.state_dict().items()}
        mined.append((model, mine(encoder, *given)))
        return mined[-1][1]

    monkeypatch.setattr(refresh, "_mine", watched)
    quick(bert, tmp_path / "model", refresh=True)
    (first_start, first), (second_start, second) = rounds
    ((miner, found),) = mined
    assert all(torch.equal(weight, second_start[name]) for name, weight in miner.items())
    assert any(not torch.equal(weight, second_start[name]) for name, weight in first_start.items())
    assert [each.id for each in first] == [each.id for each in second]
    for before, after in zip(first, second, strict=True):
        negatives = [passage.id for passage in after.hard_negatives()]
        assert negatives == (found[after.id] or [passage.id for passage in before.hard_negatives()])
        assert not set(negatives) & {passage.id for passage in after.positives}
    assert any(found.values()) and {each.id for each in first} == set(found)
    about = read_json(tmp_path / "model" / "training.json")
    assert about["settings"]["refresh"] and about["start"]["model"] == bert.model
    assert about["first_round"]["last_step"] == 6 and not (tmp_path / "model~working").exists()


@pytest.mark.parametrize("normalise, share", [(True, SHARE), (False, 1.0)])
def test_new_negatives_by_hand(tmp_path, normalise, share):
    """Against numpy: the ranking, less known positives, dropped passages and hits close to the best positive (for unit
    vectors) or above it.
    """
    begin, data = start(tmp_path / "bert"), examples(40)
    quick(begin, tmp_path / "model", normalise=normalise, steps=40, evaluate_every=40, learning_rate=3e-3)
    data[0] = replace(data[0], positives=(*data[0].positives, data[1].positives[0]))
    encoder, pool = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu"), _pool(data)
    whole = _mine(encoder, data, pool, {}, None)
    dropped = {question: {ids[0]} for question, ids in whole.items() if ids}
    found = _mine(encoder, data, pool, dropped, None)
    passages = encoder.encode_passages(pool).astype(np.float16).astype(np.float64)
    scores = encoder.encode_questions([each.question for each in data]).astype(np.float64) @ passages.T
    rows = {passage.id: row for row, passage in enumerate(pool)}
    for row, example in zip(scores, data, strict=True):
        known = {passage.id for passage in example.positives}
        best = max(row[rows[id]] for id in known)
        allowed = {
            pool[place].id
            for place in np.argsort(-row, kind="stable")[:DEPTH]
            if row[place] < best - (1 - share) * abs(best)
        }
        assert set(found[example.id]) == allowed - known - dropped.get(example.id, set())
        ranks = [row[rows[id]] for id in found[example.id]]
        assert all(a >= b - 1e-4 for a, b in zip(ranks, ranks[1:], strict=False))
    assert dropped and any(found.values())


def test_the_pool_holds_all_positives_and_is_bounded(monkeypatch):
    data = examples(30)
    monkeypatch.setattr(refresh, "POOL", 5)
    positives = {passage.id for example in data for passage in example.positives}
    assert {passage.id for passage in _pool(data)} == positives
    alone = [replace(data[0], negatives=tuple(each.positives[0] for each in data[1:]))]
    assert len(_pool(alone)) == 5


def test_what_people_judged_stays():
    data = examples(10)
    judged = replace(data[0], judged=frozenset({data[0].negatives[1].id}))
    new = data[5].positives[0]
    refreshed = RefreshedExamples([judged, data[1]], {new.id: new}, {judged.id: [new.id], data[1].id: []})
    assert refreshed[0].negatives == (data[0].negatives[1], new) and refreshed[1] == data[1]
    assert len(refreshed) == 2


def test_broken_off_in_the_second_round_it_ends_with_the_same_bytes(bert, tmp_path, rounds):
    said = []

    def stop(done, total, doing):
        said.append(doing)
        if doing == "training" and done == 5 and "looking for new hard negatives: searching" in said:
            raise Stopped

    quick(bert, tmp_path / "whole", refresh=True)
    with pytest.raises(Stopped):
        quick(bert, tmp_path / "again", refresh=True, progress=stop)
    assert len(rounds) == 4
    quick(bert, tmp_path / "again", refresh=True)
    assert len(rounds) == 5  # the first round stands
    assert weights(tmp_path / "again") == weights(tmp_path / "whole")


def test_without_hard_negatives_it_is_refused_and_by_default_it_is_off(bert, tmp_path, rounds):
    with pytest.raises(Refused, match="refresh looks for new hard negatives, and this training takes none"):
        quick(bert, tmp_path / "model", refresh=True, hard_negatives=0)
    assert list(tmp_path.iterdir()) == []
    quick(bert, tmp_path / "model", steps=1, evaluate_every=1)
    assert len(rounds) == 1

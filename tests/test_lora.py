"""LoRA: only small updates train, the saved folder is an ordinary model, and a training without peft is one line."""

import numpy as np
import pytest
import torch

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.training import trainer as training_loop
from blindspot.backend.training.initial_model import ModelShape, load_initial_model, tower_modules
from blindspot.backend.training.lora import add_updates, load_updates, merge_updates
from blindspot.backend.training.training_log import read_lines
from blindspot.db.errors import Missing, Refused
from tests.absent import hide
from tests.training import QUICK, Stopped, quick, start, stop_at, weights

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["Where was she born?", "Oslo", "a town by the sea"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return start(tmp_path_factory.mktemp("bert"))


def vectors(folder):
    encoder = load_encoder(EncoderSettings(model=str(folder), max_tokens=48), "cpu")
    return np.concatenate([encoder.encode_questions(TEXTS), encoder.model.encode_document(TEXTS)])


def test_only_a_small_share_trains_and_at_first_nothing_changes(bert):
    model = load_initial_model(bert, ModelShape(), "cpu").eval()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    encoded = model.encode_query(TEXTS)
    add_updates(model, model, rank=1, seed=0)
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained and all(".lora_A." in name or ".lora_B." in name for name in trained)
    sizes = {name: weight.numel() for name, weight in model.named_parameters()}
    assert sum(sizes[name] for name in trained) < 0.1 * sum(sizes.values())
    np.testing.assert_array_equal(model.encode_query(TEXTS), encoded)
    whole = merge_updates(model).state_dict()
    assert whole.keys() == before.keys() and all(torch.equal(whole[name], before[name]) for name in before)


def test_the_start_weights_stand_still_and_the_merged_model_encodes_alike(bert, tmp_path, monkeypatch):
    """The model in the trainer's hands after its last step, against the folder that it leaves."""
    kept, save = [], training_loop.SampledTraining._save
    monkeypatch.setattr(
        training_loop.SampledTraining, "_save", lambda self, *given: (kept.append(self.model), save(self, *given))[1]
    )
    quick(bert, tmp_path / "model", lora=4, held_out=0, steps=3, precision="float32")
    trained, began = kept[-1].eval(), load_initial_model(bert, ModelShape(), "cpu").state_dict()
    bases = {
        name.replace(".base_layer", ""): weight for name, weight in trained.state_dict().items() if ".lora_" not in name
    }
    assert bases.keys() == began.keys() and all(torch.equal(bases[name], began[name]) for name in began)
    in_training = np.concatenate([trained.encode_query(TEXTS), trained.encode_document(TEXTS)])
    np.testing.assert_allclose(vectors(tmp_path / "model"), in_training, atol=1e-5)
    start_vectors = load_initial_model(bert, ModelShape(), "cpu").encode_query(TEXTS)
    assert not np.allclose(in_training[: len(TEXTS)], start_vectors, atol=1e-4)


def test_the_saved_folder_needs_no_peft(bert, tmp_path, monkeypatch):
    quick(bert, tmp_path / "model", lora=4, precision="bfloat16")
    expected = vectors(tmp_path / "model")
    hide(monkeypatch, "peft")
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".jsonl", ".safetensors"}
    assert not [path for path in files if "adapter" in path.name or "lora" in path.name]
    np.testing.assert_array_equal(vectors(tmp_path / "model"), expected)
    second = EncoderSettings(model=str(tmp_path / "model"))  # it can be trained on, as any model
    quick(second, tmp_path / "second", steps=1, evaluate_every=1)
    assert read_json(tmp_path / "model" / "training.json")["settings"]["lora"] == 4


def test_broken_off_it_ends_with_the_same_bytes(bert, tmp_path):
    quick(bert, tmp_path / "whole", lora=2)
    with pytest.raises(Stopped):
        quick(bert, tmp_path / "again", lora=2, progress=stop_at(5))
    assert {line["step"] for line in read_lines(tmp_path / "again~working")} >= {0, 4}
    quick(bert, tmp_path / "again", lora=2)
    assert weights(tmp_path / "again") == weights(tmp_path / "whole")


def test_a_checkpoint_without_updates_is_one_line(bert, tmp_path):
    model = load_initial_model(bert, ModelShape(towers="shared"), "cpu")
    add_updates(model, model, rank=1, seed=0)
    with pytest.raises(Missing, match=r"has no lora.safetensors; give --restart to train from the start"):
        load_updates(model, tmp_path)


def test_one_tower_alone(bert, tmp_path):
    quick(bert, tmp_path / "model", only="question", lora=2, steps=2)
    saved = load_encoder(EncoderSettings(model=str(tmp_path / "model")), "cpu").model
    began = load_encoder(bert, "cpu").model.state_dict()
    same = {
        side: all(torch.equal(weight, began[name]) for name, weight in tower_modules(saved, side).state_dict().items())
        for side in ("question", "passage")
    }
    assert same == {"question": False, "passage": True}


@pytest.mark.parametrize("settings", [{"mini_batch": 3}, {"towers": "shared", "similarity": "cosine"}])
def test_with_other_settings(bert, tmp_path, settings):
    quick(bert, tmp_path / "model", lora=2, steps=2, **settings)
    assert not np.allclose(
        vectors(tmp_path / "model")[: len(TEXTS)],
        load_initial_model(bert, ModelShape(), "cpu").encode_query(TEXTS),
        atol=1e-5,
    )


def test_without_peft_it_is_one_line_and_nothing_is_begun(bert, tmp_path, monkeypatch):
    hide(monkeypatch, "peft")
    message = r"LoRA needs the extra lora: pip install 'blindspot\[lora\]'"
    with pytest.raises(Missing, match=message):
        quick(bert, tmp_path / "model", lora=4)
    assert list(tmp_path.iterdir()) == []
    quick(bert, tmp_path / "model", steps=1, evaluate_every=1)  # every other training goes on


def test_a_model_without_a_transformer_is_refused():
    with pytest.raises(Refused, match="this model has none; train it without --lora"):
        add_updates(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), rank=1, seed=0)


def test_it_is_off_by_default(bert, tmp_path):
    quick(bert, tmp_path / "model", steps=1, evaluate_every=1)
    assert "lora" not in QUICK and read_json(tmp_path / "model" / "training.json")["settings"]["lora"] == 0

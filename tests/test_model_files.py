"""Model folders of other people: their code never runs without --trust, and a broken folder gives one line."""

import json
import os
import pickle
import shutil
import threading

import pytest
from typer.testing import CliRunner

from blindspot.backend.core.model_files import TRUSTED_FILE, code_in_model, open_model, readable_model, trust_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from tests.studies import tiny_bert


@pytest.fixture(autouse=True)
def trusted_file(tmp_path, monkeypatch):
    monkeypatch.setenv(TRUSTED_FILE, str(tmp_path / "config" / "trusted.jsonl"))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny_bert(folder)
    return folder


@pytest.fixture
def model(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "model")
    return tmp_path / "model"


class Payload:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def edit(path, **changes):
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | changes))


def source(marker):
    """Python code that leaves a trace when imported."""
    return f"import os\nos.makedirs({str(marker)!r}, exist_ok=True)\n"


def pickled(folder, marker):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(marker)))


def own_module(folder, marker):
    (folder / "mine.py").write_text(source(marker) + "class Mine: pass\n")
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "mine.Mine"}]))


def installed_module(folder, marker):
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": "os.system"}]))


def remote_code(folder, marker):
    (folder / "modeling_own.py").write_text(source(marker))
    edit(folder / "config.json", auto_map={"AutoModel": "modeling_own.Own", "AutoConfig": "modeling_own.Config"})


def tokenizer_code(folder, marker):
    (folder / "own_tokenizer.py").write_text(source(marker))
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["own_tokenizer.Own", None]})


def router(folder, marker):
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Router"}])
    )
    (folder / "router_config.json").write_text(json.dumps({"types": {"0_Own": "own.Module"}, "structure": {}}))


def activation(folder, marker):
    (folder / "1_Dense").mkdir()
    edit(folder / "1_Dense" / "config.json", activation_function="os.system")


def adapter(folder, marker):
    edit(folder / "adapter_config.json", auto_mapping={"parent_library": "own", "base_model_class": "Own"})


def adapter_of_another(folder, marker):
    edit(folder / "adapter_config.json", base_model_name_or_path="stranger/model")


def kernel(folder, marker):
    edit(folder / "config.json", attn_implementation="stranger/kernel")


RUNNING = {
    pickled: "pytorch_model.bin: pickled weights",
    own_module: "modules.json: module type 'mine.Mine'",
    installed_module: "modules.json: module type 'os.system'",
    remote_code: "config.json: auto_map names modeling_own.Own",
    tokenizer_code: "tokenizer_config.json: auto_map names",
    router: "router_config.json: module type 'own.Module'",
    activation: "1_Dense/config.json: activation_function 'os.system'",
    adapter: "adapter_config.json: auto_mapping names",
    adapter_of_another: "adapter_config.json: also loads the model 'stranger/model'",
    kernel: "config.json: attn_implementation fetches the program 'stranger/kernel'",
}


def loaders():
    from blindspot.backend.reader.model import load_reader, start_reader
    from blindspot.backend.training.scoring import CrossEncoderScorer

    return {
        "encoder": lambda folder: load_encoder(EncoderSettings(model=str(folder), pooling="mean"), "cpu"),
        "towers": lambda folder: load_encoder(
            EncoderSettings(question_model=str(folder), passage_model=str(folder), pooling="cls"), "cpu"
        ),
        "reader": start_reader,
        "trained reader": load_reader,
        "cross-encoder of a study": lambda folder: CrossEncoderScorer(folder, "cpu"),
        "start of a cross-encoder": lambda folder: _start_cross_encoder(folder),
    }


def _start_cross_encoder(folder):
    from blindspot.backend.training import cross_encoder

    settings = cross_encoder.CrossEncoderSettings()
    return cross_encoder._initial_model(str(folder), settings, "cpu")


@pytest.mark.parametrize("hostile", RUNNING, ids=lambda make: make.__name__)
def test_a_folder_that_would_run_code_is_refused_wherever_models_are_loaded(hostile, model, tmp_path):
    marker = tmp_path / "it ran"
    hostile(model, marker)
    edit(model / "training.json", kind="cross-encoder")
    for load in loaders().values():
        with pytest.raises(Refused) as error:
            load(model)
        assert RUNNING[hostile] in str(error.value) and "--trust" in str(error.value)
    assert not marker.exists()


def test_with_trust_it_runs_until_a_file_changes(model, tmp_path):
    marker = tmp_path / "it ran"
    own_module(model, marker)
    assert trust_model(model) == ["modules.json: module type 'mine.Mine'"]
    assert open_model(model).trusted
    with pytest.raises(Missing):  # the class is not a module, but its file was imported
        load_encoder(EncoderSettings(model=str(model)), "cpu")
    assert marker.exists()
    (model / "mine.py").write_text("class Mine: pass\n")
    with pytest.raises(Refused):
        open_model(model)


def test_trusted_pickled_weights_are_the_same_encoder(model):
    import numpy as np
    import torch
    from safetensors.torch import load_file

    settings = EncoderSettings(model=str(model), pooling="mean")
    before = load_encoder(settings, "cpu").encode_questions(["Where is Oslo?"])
    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    assert code_in_model(model) == []  # a pickle next to safetensors is never read
    (model / "model.safetensors").unlink()
    with pytest.raises(Refused, match="pickled"):
        load_encoder(settings, "cpu")
    trust_model(model)
    np.testing.assert_array_equal(load_encoder(settings, "cpu").encode_questions(["Where is Oslo?"]), before)


def test_an_encoder_is_added_with_trust_alone_and_says_what_may_run(model, tmp_path):
    import torch
    from safetensors.torch import load_file

    from blindspot.app.cli import app
    from blindspot.backend.core.study import Study

    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()
    study = Study.create(tmp_path / "study", "s")
    words = ["encoder", "add", "own", "--model", str(model), "--pooling", "mean", "--study", str(study.folder)]
    run = lambda *more: CliRunner().invoke(app, [*words, *more])  # noqa: E731
    assert isinstance(run().exception, Refused) and "own" not in Study.open(study.folder).settings.encoders
    done = run("--trust")
    assert done.exit_code == 0 and "may now run: pytorch_model.bin: pickled weights" in done.output
    assert "own" in Study.open(study.folder).settings.encoders


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def no_header(folder):
    (folder / "model.safetensors").write_bytes(b"\xff" * 64)


def empty_weights(folder):
    (folder / "model.safetensors").write_bytes(b"")


def cut_config(folder):
    (folder / "config.json").write_text('{"hidden_size": 3')


def deep_config(folder):
    (folder / "config.json").write_text('{"a":' * 100_000)


def huge_config(folder):
    with open(folder / "config.json", "wb") as file:
        file.truncate(1 << 31)  # sparse


def pipe(folder):
    os.mkfifo(folder / "vocab.txt.fifo")


def link_to_itself(folder):
    (folder / "1_Pooling").symlink_to(folder / "1_Pooling")


def outside(folder):
    (folder / "modules.json").write_text(
        json.dumps([{"idx": 0, "path": "../../etc", "type": "sentence_transformers.models.Dense"}])
    )


def not_modules(folder):
    (folder / "modules.json").write_text('{"a": 1}')


BROKEN = [
    cut,
    no_header,
    empty_weights,
    cut_config,
    deep_config,
    huge_config,
    pipe,
    link_to_itself,
    outside,
    not_modules,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda make: make.__name__)
def test_a_broken_folder_is_one_line_that_names_the_file(broken, model):
    broken(model)
    for load in loaders().values():
        with pytest.raises(BadInput) as error:
            edit(model / "training.json", kind="cross-encoder")
            load(model)
        assert "\n" not in str(error.value) and str(error.value).startswith(str(model)) and len(str(error.value)) < 500


def test_a_folder_without_weights_and_a_name_that_cannot_be_fetched_are_one_line(model, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (model / "model.safetensors").unlink()
    for name in (str(model), "nobody/nothing-of-this-name"):
        with pytest.raises(BlindspotError) as error:
            load_encoder(EncoderSettings(model=name, pooling="mean"), "cpu")
        assert "\n" not in str(error.value) and "safetensors" in str(error.value)


def test_models_load_one_at_a_time():
    """Transformers replaces functions of its classes while it loads a model, for all threads."""
    began = threading.Event()

    def load_another():
        with readable_model("second"):
            began.set()

    second = threading.Thread(target=load_another, daemon=True)
    with readable_model("first"):
        second.start()
        assert not began.wait(0.3), "the second model began to load while the first was loading"
    assert began.wait(10)

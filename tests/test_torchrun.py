"""Two processes of `torchrun` over gloo, as commands: they encode what one process does, and encoding and training resume
after one of them was killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training_sets.builder import build
from tests.studies import births, make_study, people
from tests.training import start as start_model

pytestmark = pytest.mark.slow
PASSAGES = 4200  # three blocks of an encoding, two of them in one shard
TRAINING = ["train", "dual-encoder", "m", "--on", "set", "--from", "tiny", "--device", "cpu", "--held-out", "8"]
TRAINING += ["--pool", "50", "--learning-rate", "1e-3", "--question-tokens", "24", "--passage-tokens", "48"]
ENCODING = ["index", "dense", "--encoder", "tiny", "--device", "cpu", "--precision", "float32"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(PASSAGES)
    made = make_study(tmp_path_factory.mktemp("torchrun") / "study", passages, births(passages[:120], "train"))
    begin = start_model(tmp_path_factory.mktemp("models") / "tiny", dropout=0.0)
    add_encoder(made.settings_path, "tiny", {"model": begin.model, "pooling": "cls", "max_tokens": 64})
    build(made, "set", [], random=4)
    return made


def copied(study, folder):
    return Study.open(Path(shutil.copytree(study.folder, folder)))


def start(study, *words, processes=2):
    """Start a command in so many processes of torchrun; in one, without torchrun."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *(launcher if processes > 1 else []), "-m", "blindspot.app.cli", *words]
    quiet = {"OMP_NUM_THREADS": "1", "BLINDSPOT_STUDY": str(study.folder)}
    return subprocess.Popen(
        command, env=os.environ | quiet, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def ended(process):
    said, _ = process.communicate(timeout=300)
    return process.returncode, said.decode(errors="replace")


def done(study, *words, processes=2):
    code, said = ended(start(study, *words, processes=processes))
    assert code == 0, said[-3000:]
    return said


def kill_one(process, when):
    """Kill the last of the launcher's processes once `when` says so."""
    while not when():
        assert process.poll() is None, ended(process)
        time.sleep(0.02)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    code, said = ended(process)
    assert code != 0, said[-2000:]


def vectors(study, name="tiny"):
    return np.load(study.path("indexes", name, "embeddings.npy"))


def test_two_processes_encode_what_one_does_and_the_hits_are_the_same(study, tmp_path):
    one, two = copied(study, tmp_path / "one"), copied(study, tmp_path / "two")
    done(one, *ENCODING, processes=1)
    assert "encoding in shards" in done(two, *ENCODING)
    assert vectors(two).tobytes() == vectors(one).tobytes()
    hits = [retrieve(each, "dense", encoder="tiny", split="train", k=10, device="cpu").hits for each in (one, two)]
    assert np.array_equal(hits[0].ordinals, hits[1].ordinals) and np.array_equal(hits[0].scores, hits[1].scores)


def test_an_encoding_resumes_after_one_process_was_killed(study, tmp_path):
    whole, broken = copied(study, tmp_path / "whole"), copied(study, tmp_path / "broken")
    done(whole, *ENCODING, processes=1)
    shards = broken.path("indexes", "tiny", "shards")
    kill_one(start(broken, *ENCODING), lambda: any(shards.glob("*/*.npy")))
    assert any(shards.glob("*/*.npy")) and not broken.path("indexes", "tiny", "manifest.json").exists()
    done(broken, *ENCODING)
    assert vectors(broken).tobytes() == vectors(whole).tobytes()


def vectors_of(study, encoder):
    encoders = Study.open(study.folder).settings.encoders
    return load_encoder(encoders[encoder], "cpu").encode_questions(["Where was Arve born?", "Where was Bode born?"])


def test_a_training_resumes_after_one_process_was_killed(study, tmp_path):
    command = [*TRAINING, "--batch", "4", "--steps", "60", "--evaluate-every", "20"]
    whole, broken = copied(study, tmp_path / "whole"), copied(study, tmp_path / "broken")
    done(whole, *command)
    models = broken.path("models")
    kill_one(start(broken, *command), lambda: any(models.glob("*/checkpoint-20/whole.json")))
    assert not models.joinpath("m").exists()
    done(broken, *command)
    assert np.array_equal(vectors_of(whole, "m"), vectors_of(broken, "m"))

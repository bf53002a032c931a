"""Long fault tests on a whole study: kill -9 in each kind of job, full disks, damaged stores, strange paths, jumping
clocks.

`make soak` runs them. Each prints how often it did what its name says (`pytest -s` shows it).
"""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.db import backup as backups
from blindspot.db.corpus import Corpus
from blindspot.db.errors import BlindspotError
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.studies import births, make_study, people, tiny_bert

ROOT = Path(__file__).parents[1]
MARK = "BLINDSPOT_SOAK_RUN"
QUICK = ("--batch", 8, "--question-tokens", 24, "--passage-tokens", 48, "--device", "cpu")
pytestmark = pytest.mark.slow


def start(study, *words, mark="", **options):
    """Start a command in a separate process whose children inherit `mark`."""
    return subprocess.Popen(
        [sys.executable, "-m", "blindspot.app.cli", *map(str, words), "--study", str(study)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, MARK: mark, "PYTHONPATH": str(ROOT)},
        **options,
    )


def run(study, *words, code=0):
    process = start(study, *words)
    said = process.communicate(timeout=900)[0]
    assert process.returncode == code, said
    return said


def marked(mark):
    """Return the processes that a command left behind."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def whole(folder):
    """Open every part of a study; fail if a part is incomplete."""
    study = Study.open(folder)
    assert backups.check(study.labels_path).problems == ()
    for name in study.runs():
        opened = study.run(name)
        assert opened.hits.ordinals.shape == opened.answers().shape == (len(opened.question_ids), opened.hits.k)
    for name in study.parts("training_sets"):
        from blindspot.backend.training_sets.training_set import TrainingSet

        assert sum(1 for _ in TrainingSet.open(study, name).groups()) > 0
    for name, manifest in study.parts("indexes").items():
        if name != "bm25":
            assert np.load(study.folder / "indexes" / name / "embeddings.npy", mmap_mode="r").shape[0] == len(
                study.corpus
            )
        assert manifest["passages"] == len(study.corpus)
    if study.has_corpus:
        assert sum(1 for _ in study.corpus.scan()) == len(study.corpus)
    study.questions.close()
    return study


# kill -9 in each kind of job


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A study in the state before each kind of job; made once."""
    folder = tmp_path_factory.mktemp("base")
    passages = people(2000)
    questions = [
        dataclasses.replace(question, relation="P19" if number % 2 else "P20")
        for number, question in enumerate(births(passages, "train"))
    ]
    (folder / "passages.tsv").write_text(
        "id\ttext\ttitle\n"
        + "".join(f"{i}\tPassage {i} is about {i % 977} and {i % 13}.\tTitle {i}\n" for i in range(400_000))
    )
    Study.create(folder / "import")
    study = make_study(folder / "s", passages, questions)
    tiny_bert(study.folder / "start")
    add_encoder(study.settings_path, "tiny", {"model": str(study.folder / "start"), "pooling": "cls", "max_tokens": 64})
    study.questions.close()
    run(study.folder, "index", "bm25")
    run(study.folder, "retrieve", "--with", "bm25", "--split", "train", "--k", 10, "--name", "mined")
    run(study.folder, "training-set", "build", "clean", "--run", "mined")
    run(
        study.folder,
        "train",
        "cross-encoder",
        "judge",
        "--on",
        "clean",
        "--from",
        study.folder / "start",
        "--steps",
        4,
        "--batch",
        8,
        "--device",
        "cpu",
    )
    for part in ("bm25-train", "unused"):
        assert not (study.folder / "runs" / part).exists()
    return folder


JOBS = {
    "import": ("import", "passages", "{base}/passages.tsv"),
    "index bm25": ("index", "bm25"),
    "index dense": ("index", "dense", "--encoder", "tiny", "--device", "cpu"),
    "retrieve": ("retrieve", "--with", "bm25", "--split", "train", "--k", 20, "--name", "again"),
    "training set": ("training-set", "build", "second", "--run", "mined"),
    "training": ("train", "dual-encoder", "first", "--on", "clean", "--from", "tiny", "--steps", 20, *QUICK),
    "judging by a model": ("train", "score", "judge", "--run", "mined", "--depth", 10, "--device", "cpu"),
}


def result_of(kind, study):
    """Return the output of a job, to compare it with that of an undisturbed job."""
    if kind == "import":
        return (len(study.corpus), study.corpus.digest)
    if kind == "index bm25":
        return np.load(study.folder / "indexes" / "bm25" / "ordinals.npy").tobytes()
    if kind == "index dense":
        return np.load(study.folder / "indexes" / "tiny" / "embeddings.npy").tobytes()
    if kind == "retrieve":
        opened = study.run("again")
        return opened.hits.ordinals.tobytes(), opened.answers().tobytes()
    if kind == "training set":
        return json.loads((study.folder / "training_sets" / "second" / "manifest.json").read_text())["sha256"]
    if kind == "training":
        about = json.loads((study.folder / "models" / "first" / "training.json").read_text())
        return about["last_step"], about["training_set"]
    connection = sqlite3.connect(next((study.folder / "scores").rglob("scores.db")))
    table = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%score%'"
    ).fetchone()[0]
    return connection.execute(f"SELECT count(*) FROM {table}").fetchone()


@pytest.mark.parametrize("kind", JOBS)
def test_kill_9_in_the_middle_of_a_job(kind, base, tmp_path, kills=8):
    words = [str(word).format(base=base) for word in JOBS[kind]]
    origin = base / ("import" if kind == "import" else "s")
    calm = tmp_path / "calm"
    shutil.copytree(origin, calm)
    if kind == "index bm25":
        shutil.rmtree(calm / "indexes" / "bm25")
    began = time.monotonic()
    run(calm, *words)
    took = time.monotonic() - began
    expected = result_of(kind, Study.open(calm))

    folder = tmp_path / "killed"
    shutil.copytree(origin, folder)
    if kind == "index bm25":
        shutil.rmtree(folder / "indexes" / "bm25")
    chance, killed, orphans, completed, process = random.Random(kind), 0, 0, 0, None
    while killed < kills and completed < 3 * kills:
        if process is not None and process.returncode == 0:  # done before the kill: begin again
            shutil.rmtree(folder)
            shutil.copytree(origin, folder)
            if kind == "index bm25":
                shutil.rmtree(folder / "indexes" / "bm25")
        mark = uuid.uuid4().hex
        process = start(folder, *words, mark=mark)
        moment = time.monotonic() + took * chance.uniform(0.2, 1.0)
        while time.monotonic() < moment and process.poll() is None:
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate()
        deadline = time.monotonic() + 15
        while left := marked(mark):
            if time.monotonic() > deadline:
                orphans += 1
                for each in left:
                    os.kill(each, signal.SIGKILL)
                break
            time.sleep(0.1)
        completed += process.returncode == 0
        whole(folder)
    if process.returncode != 0:
        last = start(folder, *words)
        said = last.communicate(timeout=900)[0]
        # If the kill came between the last rename and the end of the process, the output is complete, and the command
        # says so.
        assert last.returncode == 0 or "there is already a" in said, said
    assert result_of(kind, whole(folder)) == expected
    assert orphans == 0 and killed >= kills // 2
    hidden = [path for path in folder.rglob(".*") if path.name.endswith((".building", ".old", ".partial"))]
    assert hidden == [] and not (folder / "corpus.db.partial").exists()
    print(f"{kind}: killed {killed} times, {took:.1f} s undisturbed, no orphan, the same result")


# A full disk


@pytest.fixture
def disk(tmp_path):
    """A small file system, and a function that leaves so many bytes free on it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"cannot mount a small file system here: {made.stderr.strip()}")
    filler = folder / "filler"

    def leave(free):
        filler.unlink(missing_ok=True)
        if free is not None:
            status = os.statvfs(folder)
            with open(filler, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, status.f_bavail * status.f_frsize - free))

    try:
        yield folder, leave
    finally:
        gc.collect()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_labels_on_a_full_disk_lose_nothing_and_go_on(disk, cycles=40):
    from blindspot.db.connection import NotSaved

    folder, leave = disk
    passages = people(12)
    study = make_study(folder / "s", passages, births(passages))
    People(study.labels_path).add("ann")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    chance, stored, refusals = random.Random(0), [], 0
    for cycle in range(cycles):
        leave(chance.randrange(0, 300_000))
        for number in range(400):
            id = f"{cycle}-{number}"
            try:
                labels.add_all("ann", [LabelEvent(id, "note", "P19.dev.0", note="x" * 3000)])
                stored.append(id)
            except NotSaved as error:
                refusals += 1
                assert "labels.db" in str(error) and "\n" not in str(error)
                assert "the disk is full" in str(error) or "the disk does not take it" in str(error)
                assert labels.stored_ids([id]) == set()
                break
        leave(None)
        id = f"{cycle}-after"
        labels.add_all("ann", [LabelEvent(id, "note", "P19.dev.0", note="x")])
        stored.append(id)
        if cycle % 10 == 9:  # room for the next ones
            labels.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert labels.stored_ids(stored) == set(stored) and refusals >= cycles * 0.9
    found = backups.check(study.labels_path)
    assert found.problems == () and found.events == len(stored)
    print(f"{refusals} refusals on a full disk, {len(stored):,} labels acknowledged, all stored")


@pytest.mark.parametrize(
    "kind", ["index bm25", "index dense", "retrieve", "training set", "training", "judging by a model"]
)
def test_a_job_on_a_full_disk_says_so_and_goes_on_after(kind, base, disk):
    folder, leave = disk
    study, words = folder / "s", JOBS[kind]
    shutil.copytree(base / "s", study)
    if kind == "index bm25":
        shutil.rmtree(study / "indexes" / "bm25")
    refusals = 0
    for free in (0, 8_000, 60_000, 200_000):
        leave(free)
        process = start(study, *words)
        said = process.communicate(timeout=900)[0]
        if process.returncode == 0:
            break
        refusals += 1
        last = said.strip().splitlines()[-1]
        assert "Traceback" not in said, said
        assert any(word in last for word in ("disk", "space", "room")), said
        leave(None)
        whole(study)
    leave(None)
    if process.returncode:
        run(study, *words)
    whole(study)
    assert refusals > 0
    print(f"{kind}: refused {refusals} times on a full disk, then done")


# A damaged labels.db


def test_a_truncated_or_flipped_labels_db_is_found_and_restored(tmp_path, times=400):
    passages = people(60)
    study = make_study(tmp_path / "s", passages, births(passages))
    path = study.labels_path
    People(path).add("ann")
    labels = Labels(path, passages=study.corpus.ordinals)
    for number, question in enumerate(study.questions.all()):
        labels.add("ann", LabelEvent(f"e{number}", "label", question.id, (Choice("p0", "negative"),)))
    kept = backups.checked_backup(path, tmp_path / "kept.db")
    expected = list(Labels(kept, read_only=True).events())
    labels.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    labels.close()
    study.questions.close()
    gc.collect()
    sound = path.read_bytes()
    chance, counts = random.Random(1), {"found": 0, "unnoticed": 0, "refused at opening": 0, "restored": 0}
    for number in range(times):
        for file in path.parent.glob("labels.db*"):
            file.unlink()
        content = bytearray(sound)
        if number % 4 == 0:
            del content[chance.randrange(1, len(content)) :]
        else:
            for _ in range(chance.choice((1, 1, 8, 200))):
                content[chance.randrange(len(content) if number % 2 else 4096)] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        found = backups.check(path)
        counts["found" if found.problems else "unnoticed"] += 1
        try:
            opened = Study.open(study.folder)
            assert len(opened.questions.all()) >= 0 and Labels(path).consensus() is not None
        except BlindspotError as error:
            counts["refused at opening"] += 1
            assert "\n" not in str(error) and str(path) in str(error)
        except (sqlite3.Error, ValueError) as error:
            assert found.problems, f"{error!r} although the check finds nothing"
        gc.collect()
        try:
            backups.restore(kept, path)
        except BlindspotError as error:
            assert "can still be read" in str(error) or "are in the study" in str(error), error
            backups.restore(kept, path, drop_newer=True)
        assert backups.check(path).problems == ()
        assert list(Labels(path, read_only=True).events()) == expected
        counts["restored"] += 1
        shutil.rmtree(path.parent / "backups", ignore_errors=True)
        gc.collect()
    assert counts["restored"] == times and counts["found"] > times // 3
    print(counts)


# A strange path, two servers, a clock that jumps


def test_the_loop_in_a_path_with_quotes_spaces_and_other_scripts(base, tmp_path):
    folder = tmp_path / "it's a \"study\" 研究 ñ %20 #1 & 'x'; Ω" / "ü ?mode=memory"
    folder.parent.mkdir()
    shutil.copytree(base / "s", folder)
    settings = folder / "study.toml"
    settings.write_text(settings.read_text().replace(str(base / "s"), "start-of"))
    for part in ("indexes", "runs", "training_sets", "models"):
        shutil.rmtree(folder / part)
    settings.write_text(settings.read_text().replace("start-of", str(folder).replace('"', '\\"')))
    for words in (JOBS["index bm25"], JOBS["index dense"], ("retrieve", "--with", "bm25", "--split", "train", "--k", 10, "--name", "mined"),
                  ("retrieve", "--with", "dense", "--encoder", "tiny", "--split", "train", "--k", 10, "--name", "dense"),
                  ("report", "--run", "mined"), ("training-set", "build", "clean", "--run", "mined"), ("people", "add", "ann"),
                  ("labels", "backup"), ("labels", "check"), ("copy", folder.parent / "copy")):  # fmt: skip
        run(folder, *words)
    whole(folder)
    whole(folder.parent / "copy")


def test_a_clock_that_is_set_back_and_forth(tmp_path, steps=6000):
    """Every write has a random clock error of up to three days. Nothing depends on time order, no question has too many
    people, nobody is stuck.
    """
    passages, chance, now = people(12), random.Random(2), [1.7e9]
    study = make_study(tmp_path / "s", passages, births(passages))
    questions = [question.id for question in study.questions.all()]
    names = [f"a{i}" for i in range(6)]
    for name in names:
        People(study.labels_path).add(name)
    queue = Queue(study.labels_path, clock=lambda: now[0])
    labels = Labels(study.labels_path, passages=study.corpus.ordinals, clock=lambda: now[0])
    finished = batches = jumps = 0
    for step in range(steps):
        if chance.random() < 0.2:
            now[0] += chance.uniform(-3 * 86400, 3 * 86400)
            jumps += 1
        now[0] += chance.uniform(0, 60)
        if not any(batch.done < batch.questions for batch in queue.batches()):
            queue.add_batch(
                f"b{batches}", [Item(id, (Candidate("p0"),), arm="repeat", people_needed=2) for id in questions], {}
            )
            batches += 1
        name = chance.choice(names)
        leases = queue.claim(name)
        assert all(lease.expires <= now[0] + 15 * 60 for lease in leases)
        if leases:
            lease = chance.choice(leases)
            sent = [
                LabelEvent(f"l{step}", "label", lease.question, (Choice("p0", "positive"),), batch=lease.batch),
                {"id": f"f{step}", "kind": "finish", "question": lease.question, "batch": lease.batch},
            ]
            if chance.random() < 0.8:
                assert {receipt.state for receipt in labels.add_all(name, sent)} == {"stored"}
                finished += 1
        if step % 200 == 0:
            crowded = queue.connection.execute(
                "SELECT batch, question, count(*) FROM lease WHERE (state = 'finished' AND surplus = 0) "
                "OR (state = 'held' AND expires > ?) GROUP BY batch, question HAVING count(*) > 2",
                (now[0],),
            ).fetchall()
            assert crowded == []
    assert [row.number for row in labels.events()] == list(range(1, finished + 1))
    assert batches > 2 and backups.check(study.labels_path).problems == ()
    print(f"{jumps:,} jumps of the clock, {finished:,} questions finished in {batches} batches")


def test_two_servers_on_one_study(base, tmp_path, seconds=30):
    """Two apps on one study, with people who label in both stores meanwhile: each answers, nothing is lost."""
    import socket
    import urllib.request

    folder = tmp_path / "s"
    shutil.copytree(base / "s", folder)
    ports, servers = [], []
    for _ in range(2):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            ports.append(free.getsockname()[1])
    mark = uuid.uuid4().hex
    try:
        for port in ports:
            servers.append(
                start(folder, "open", "--port", port, "--backend", "none", mark=mark, start_new_session=True)
            )
        deadline, ready = time.monotonic() + 120, set()
        while len(ready) < 2 and time.monotonic() < deadline:
            for port in ports:
                try:
                    with urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=2) as answer:
                        if answer.read() == b"ok":
                            ready.add(port)
                except OSError:
                    time.sleep(0.2)
        assert ready == set(ports)
        from benchmarks.labels import start as annotators

        for name in ("ann", "ben"):
            People(folder / "labels.db").add(name)
        assert annotators is not None
        study, end, number = Study.open(folder), time.monotonic() + seconds, 0
        stores = [Labels(study.labels_path, passages=study.corpus.ordinals) for _ in range(2)]
        while time.monotonic() < end:
            for name, store in zip(("ann", "ben"), stores, strict=True):
                number += 1
                event = LabelEvent(f"{name}{number}", "label", "P19.train.0", (Choice("p1", "positive"),))
                assert store.add(name, event).state == "stored"
            for port in ports:
                with urllib.request.urlopen(f"http://localhost:{port}/", timeout=5) as answer:
                    assert answer.status == 200
        assert backups.check(study.labels_path).events == number
    finally:
        for server in servers:
            server.send_signal(signal.SIGTERM)
        for server in servers:
            try:
                server.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
    deadline = time.monotonic() + 15
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    left = marked(mark)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert left == [], "the servers left processes behind"
    whole(folder)
    print(f"two servers, {number:,} labels meanwhile")


def test_a_study_of_a_newer_version_is_refused_and_left_alone(base, tmp_path):
    folder = tmp_path / "s"
    shutil.copytree(base / "s", folder)
    connection = sqlite3.connect(folder / "labels.db")
    connection.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('blindspot', 'm999_newer', '2099-01-01')"
    )
    connection.commit()
    connection.close()
    before = {path: path.read_bytes() for path in folder.glob("*.db")}
    tried = 0
    for words in (
        ("status",),
        ("report", "--run", "mined"),
        *(JOBS[kind] for kind in JOBS if kind != "import"),
        ("labels", "backup"),
    ):
        if words == ("labels", "backup"):
            continue  # a backup of a newer file does no harm
        said = run(folder, *words, code=1)
        assert "newer" in said and "Traceback" not in said
        tried += 1
    assert {path: path.read_bytes() for path in folder.glob("*.db")} == before
    assert Corpus(folder / "corpus.db").digest
    print(f"{tried} commands refused")

"""Version 1 of the HTTP interface, asked by httpx2 over a real port: reading, labels, judgements, jobs, and its schema."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from unittest.mock import Mock

import httpx2
import jsonschema
import pytest
from fastapi.testclient import TestClient
from openapi_pydantic import OpenAPI
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation import comparison_report
from blindspot.backend.evaluation.settings import ComparisonOptions
from blindspot.backend.service import guard, reading
from blindspot.backend.service.api import make_api
from blindspot.backend.service.caller import Caller
from blindspot.backend.service.service import Service
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Candidate, Item, Queue
from tests.app_pages import HOSTILE, hand_made_study
from tests.http_service import client, served
from tests.training_studies import copied


@pytest.fixture(scope="module")
def untouched(tmp_path_factory) -> Study:
    study = hand_made_study(tmp_path_factory.mktemp("http") / "study")
    people = People(study.labels_path)
    for name, role in (("ann", "annotator"), ("ben", "annotator"), ("ada", "adjudicator"), ("lea", "lead")):
        people.add(name, role)
    return study


@pytest.fixture(scope="module")
def reader(untouched):
    """A client that only reads, shared by the tests of this file."""
    with served(untouched) as url, client(url) as asked:
        yield asked


@pytest.fixture
def study(untouched, tmp_path) -> Study:
    return copied(untouched, tmp_path / "study")


@pytest.fixture
def url(study):
    with served(study) as address:
        yield address


def label(id: str, question: str = "q0", passage: str = "answer0", value: str = "positive", **more) -> dict:
    return {"id": id, "kind": "label", "question": question, "choices": [{"passage": passage, "label": value}], **more}


def give(asked: httpx2.Client, *events: dict) -> list[str]:
    answer = asked.post("/v1/labels", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    return [receipt["state"] for receipt in answer.json()["receipts"]]


# ---- the schema


@pytest.fixture(scope="module")
def described(untouched) -> dict:
    return make_api(Service(untouched, "cpu")).openapi()


def operations(described: dict):
    for path, methods in described["paths"].items():
        yield from ((f"{method.upper()} {path}", operation) for method, operation in methods.items())


def bodies(operation: dict):
    """(schema, example) of what is sent and of what comes back when all went well."""
    answers = [answer for code, answer in operation["responses"].items() if code.startswith("2")]
    for body in [*answers, *([operation["requestBody"]] if "requestBody" in operation else [])]:
        for content in body.get("content", {}).values():
            yield content.get("schema", {}), content.get("example")


def test_the_schema_is_valid_openapi(described):
    parsed = OpenAPI.model_validate(described)
    assert parsed.openapi.startswith("3.1") and len(parsed.paths) > 20
    ids = [operation["operationId"] for _, operation in operations(described)]
    assert len(set(ids)) == len(ids)


def test_every_route_of_version_1_has_an_example_that_fits_its_schema(described):
    schemas = described["components"]["schemas"]
    looked_at = 0
    for name, operation in operations(described):
        if " /v1/" not in name:
            continue
        assert operation["description"], name
        assert {"401", "403", "404", "422"} <= set(operation["responses"]), name
        for schema, example in bodies(operation):
            if "$ref" in schema:
                example = schemas[schema["$ref"].rsplit("/", 1)[-1]].get("example")
                jsonschema.Draft202012Validator({**schema, "components": {"schemas": schemas}}).validate(example)
            assert example, f"{name} has no example"
            looked_at += 1
        assert all(
            parameter.get("description") or parameter["in"] == "path" for parameter in operation.get("parameters", [])
        ), name
    assert looked_at > 30


# ---- reading


def test_questions_come_in_pages_and_by_their_words(reader):
    first = reader.get("/v1/questions", params={"limit": 3}).json()
    rest = reader.get("/v1/questions", params={"limit": 500, "offset": 3}).json()
    assert first["total"] == rest["total"] == 7
    assert [each["id"] for each in first["items"] + rest["items"]] == [f"q{i}" for i in range(7)]
    assert [each["id"] for each in reader.get("/v1/questions?words=THING 4").json()["items"]] == ["q4"]
    assert reader.get("/v1/questions?relation=P19&split=dev").json()["total"] == 3
    assert reader.get("/v1/questions/q6").json()["text"] == HOSTILE
    assert reader.get("/v1/questions?words=100%25_").json()["total"] == 0, "% and _ are letters here"


def test_hits_are_those_of_the_run(reader):
    answer = reader.get("/v1/runs/alpha/hits", params={"k": 3, "limit": 2, "offset": 1}).json()
    assert (answer["total"], [each["question"] for each in answer["items"]]) == (7, ["q1", "q2"])
    assert [hit["passage"] for hit in answer["items"][1]["hits"]] == ["filler0", "filler1", "answer2"]
    assert [hit["answer"] for hit in answer["items"][1]["hits"]] == [False, False, True]
    one = reader.get("/v1/runs/alpha/hits?question=q4&k=1000").json()["items"][0]["hits"]
    assert len(one) == 15 and one[0]["rank"] == 1


@pytest.mark.parametrize("words, query", [
    (["alpha", "beta"], "a=alpha&b=beta"),
    (["alpha", "beta", "--measure", "ndcg", "--by", "relation"], "a=alpha&b=beta&measure=ndcg&by=relation"),
    (["alpha", "short", "--k", "2", "--slice", "relation:P19"], "a=alpha&b=short&k=2&slice=relation:P19"),
])  # fmt: skip
def test_a_comparison_is_what_the_command_prints(reader, untouched, words, query):
    printed = CliRunner().invoke(app, ["compare", *words, "--json", "--study", str(untouched.folder)])
    assert reader.get(f"/v1/compare?{query}").json() == json.loads(printed.stdout)


def test_slices_are_what_the_command_finds(reader, untouched):
    command = ["compare", "alpha", "beta", "--find-slices", "--json", "--study", str(untouched.folder)]
    assert reader.get("/v1/slices?a=alpha&b=beta").json() == json.loads(CliRunner().invoke(app, command).stdout)


def test_why_names_the_gold_and_the_winner(reader):
    answer = reader.get("/v1/why?question=q2&run=alpha&run=beta").json()
    alpha, beta = answer["runs"]
    assert (alpha["gold"], alpha["gold_rank"], alpha["winner"]) == ("answer2", 3, "filler0")
    assert (beta["gold_rank"], beta["winner_holds_answer"]) == (1, True)


@pytest.mark.parametrize("path, status, said", [
    ("/v1/runs/nowhere", 404, "no run 'nowhere'"),
    ("/v1/runs/alpha/hits?question=q99", 404, "holds no question 'q99'"),
    ("/v1/runs/alpha/hits?k=1001", 422, "query.k"),
    ("/v1/questions/q99", 404, "no question 'q99'"),
    ("/v1/questions?limit=501", 422, "query.limit"),
    ("/v1/questions?offset=-1", 422, "query.offset"),
    ("/v1/passages/x/y", 404, "no passage 'x/y'"),
    ("/v1/compare?a=alpha&b=nowhere", 404, "no run 'nowhere'"),
    ("/v1/compare?a=alpha&b=beta&k=99", 400, "99"),
    ("/v1/compare?a=alpha&b=beta&slice=relation", 400, "slice"),
    ("/v1/compare?a=alpha", 422, "query.b"),
    ("/v1/compare?a=..%2F..&b=beta", 400, "'../..'"),
    ("/v1/why?question=q6&run=short", 400, "none of the runs short holds"),
    ("/v1/jobs/none", 404, "no job 'none'"),
    ("/v1/find?words=x&place=elsewhere", 422, "query.place"),
    ("/v1/labels?question=q0", 403, "say who you are"),
    ("/v1/nothing", 404, "Not Found"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(reader, path, status, said):
    answer = reader.get(path)
    assert answer.status_code == status and list(answer.json()) == ["error"]
    assert said in answer.json()["error"] and "\n" not in answer.json()["error"], answer.text


# ---- runs from elsewhere


def test_a_run_goes_out_and_in_again(url, study):
    with client(url, "lea") as asked:
        trec = asked.get("/v1/runs/alpha/trec").text
        made = asked.put("/v1/runs/copy", content=trec).json()
        assert (made["questions"], made["unchanged"]) == (7, False)
        assert asked.put("/v1/runs/copy", content=trec).json()["unchanged"] is True
        mine, theirs = (asked.get(f"/v1/runs/{name}/hits?k=100").json()["items"] for name in ("alpha", "copy"))
        assert theirs == mine
        changed = asked.put("/v1/runs/copy", content=trec.replace("answer0", "filler29"))
        assert changed.status_code == 400 and "already a run named 'copy'" in changed.json()["error"]
        assert asked.put("/v1/runs/copy?replace=true", content=trec.replace("answer0", "filler29")).status_code == 200


WRONG_RUNS = [
    ("q0 Q0 nowhere 1 2.5 x\n", "line 1: the passage 'nowhere' is not in the collection"),
    ("q0 Q0 answer0 1 2.5 x\nq9 Q0 answer0 1 2 x\n", "line 2: the question 'q9' is not in the study"),
    ("q0 Q0 answer0\n", "line 1"),
    ("", "holds no hits"),
    (b"\xff\xfe q", "UTF-8"),
]  # fmt: skip


def test_a_wrong_run_is_refused_whole(url):
    with client(url, "lea") as asked:
        for sent, said in WRONG_RUNS:
            answer = asked.put("/v1/runs/wrong", content=sent)
            assert answer.status_code == 400 and said in answer.json()["error"] and "tmp" not in answer.text, (
                answer.text
            )
            assert asked.get("/v1/runs/wrong").status_code == 404


def test_a_run_may_be_larger_than_other_requests_and_has_a_limit(study, monkeypatch):
    """In this process: a real server closes the connection while the client still sends, which not every client survives."""
    spaced = "q0 Q0 answer0 1 2.5" + " " * guard.MAX_BODY + "x\n"
    lead = {"Blindspot-Person": "lea"}
    with TestClient(make_api(Service(study, "cpu")), "http://localhost", headers=lead) as asked:
        assert asked.put("/v1/runs/large", content=spaced).status_code == 200
        assert asked.post("/v1/labels", content=spaced).status_code == 413
        assert asked.put("/v1/saved-slices/x", content=spaced).status_code == 413
    monkeypatch.setattr("blindspot.backend.service.api.MAX_UPLOAD", guard.MAX_BODY)
    with TestClient(make_api(Service(study, "cpu")), "http://localhost", headers=lead) as asked:
        answer = asked.put("/v1/runs/huge", content=spaced)
        assert answer.status_code == 413 and "1,048,576 bytes" in answer.json()["error"]


# ---- labels


def test_a_label_sent_again_is_stored_once(url, study):
    with client(url, "ann") as asked:
        assert give(asked, label("one")) == ["stored"]
        assert give(asked, label("one"), label("two", "q1", "answer1")) == ["known", "stored"]
        assert give(asked, label("one", value="negative")) == ["refused"], "the same id with another content"
    (first, second) = Labels(study.labels_path).events()
    assert (first.annotator, first.label, first.blind, second.question) == ("ann", "positive", 0, "q1")


def test_a_person_sees_their_own_labels_and_a_lead_everybodys(url):
    with client(url, "ann") as ann, client(url, "ben") as ben, client(url, "lea") as lea:
        give(ann, label("a"))
        give(ben, label("b", value="negative"))
        assert [each["annotator"] for each in ann.get("/v1/labels?question=q0").json()["labels"]] == ["ann"]
        assert ann.get("/v1/labels?question=q0").json()["consensus"] == []
        both = lea.get("/v1/labels?question=q0").json()
        assert [each["annotator"] for each in both["labels"]] == ["ann", "ben"]
        assert both["consensus"] == [
            {"question": "q0", "passage": "answer0", "label": None, "state": "open", "people": 2}
        ]
        undo = {"id": "u", "kind": "undo", "question": "q0", "undoes": "b"}
        assert give(ann, undo) == ["refused"] and give(ben, undo | {"id": "u2"}) == ["stored"]
        assert ann.get("/v1/compare?a=alpha&b=beta&relevance=labels").status_code == 403


def test_results_of_a_question_are_hidden_until_it_is_judged(url, study):
    passages = (Candidate("answer0", run="alpha", rank=1, score=9.0), Candidate("filler1"))
    Queue(study.labels_path).add_batch("first", [Item("q0", passages)], {})
    with client(url, "ann") as asked:
        for path in ("why?question=q0&run=alpha", "runs/alpha/hits?question=q0", "labels?question=q0"):
            answer = asked.get(f"/v1/{path}")
            assert answer.status_code == 400 and "has still to judge question 'q0'" in answer.text
        listed = asked.get("/v1/runs/alpha/hits").json()
        assert listed["hidden"] == 1 and "q0" not in {each["question"] for each in listed["items"]}
        compared = asked.get("/v1/compare?a=alpha&b=beta").json()
        assert compared["at"]["5"]["n"] == 6 and any("still to judge" in note for note in compared["notes"])
        live = asked.post("/v1/search", json={"retriever": "bm25", "questions": ["Where?"]})
        assert live.status_code == 400 and "1 question remaining" in live.text
        assert give(asked, label("early")) == ["refused"], "outside the batch"
        assert give(asked, label("early2", batch="first")) == ["refused"], "the queue never gave it"
        (card,) = asked.post("/v1/queue", json={"count": 3}).json()["items"]
        assert (card["question"], [each["passage"] for each in card["passages"]]) == ("q0", ["answer0", "filler1"])
        assert "alpha" not in json.dumps(card), "neither run nor rank"
        finish = {"id": "f", "kind": "finish", "question": "q0", "batch": "first"}
        assert give(asked, label("mine", batch="first"), finish) == ["stored", "stored"]
        assert asked.get("/v1/why?question=q0&run=alpha").status_code == 200
    (row,) = Labels(study.labels_path).events()
    assert (row.blind, row.run, row.rank) == (1, "alpha", 1), "as the batch has it"


def test_causes_rest_on_no_labels_for_an_annotator_who_has_questions_to_judge(study, monkeypatch):
    """A slice such as cause:likely_false_negative would tell them what others said."""
    Queue(study.labels_path).add_batch("first", [Item("q0", (Candidate("filler1"),))], {})
    asked = []
    monkeypatch.setattr(comparison_report, "compare_with", lambda *given: asked.append(given[-1]) or _Empty())
    for name in ("ann", "lea"):
        reading.compare(study, Caller("person", name), "alpha", "beta", ComparisonOptions())
    assert [(options.hidden, options.evidence) for options in asked] == [({"q0"}, False), (frozenset(), True)]


class _Empty:
    def as_dict(self) -> dict:
        return {}


def test_adjudication_takes_an_adjudicator(url):
    settled = {
        "id": "s",
        "kind": "adjudicate",
        "question": "q0",
        "choices": [{"passage": "answer0", "label": "positive"}],
    }
    with client(url, "ann") as ann, client(url, "ada") as ada:
        assert give(ann, settled) == ["refused"] and give(ada, settled) == ["stored"]


def test_a_paused_person_stores_nothing(url, study):
    People(study.labels_path).pause("ann")
    with client(url, "ann") as asked:
        assert give(asked, label("one")) == ["refused"]
    assert list(Labels(study.labels_path).events()) == []


MALFORMED = [
    ({"id": "", "kind": "label", "question": "q0"}, "events.1.id"),
    (label("x", value="perhaps"), "events.1.choices.0.label"),
    (label("x") | {"annotator": "lea"}, "events.1.annotator"),
    (label("x") | {"blind": True}, "events.1.blind"),
]


def test_a_malformed_event_is_refused_with_all_that_came_with_it(url):
    with client(url, "ann") as asked:
        for event, said in MALFORMED:
            answer = asked.post("/v1/labels", json={"events": [label("good"), event]})
            assert answer.status_code == 422 and said in answer.json()["error"]
        assert asked.post("/v1/labels", json={"events": [label(f"i{i}") for i in range(201)]}).status_code == 422
        assert asked.get("/v1/labels?question=q0").json()["labels"] == []


def test_an_acknowledged_label_survives_the_end_of_the_service(study):
    """The service is killed while labels arrive. Whatever it acknowledged is stored, and sending all again adds none."""
    command = [
        sys.executable,
        "-c",
        "from blindspot.app.cli import main; main()",
        "serve",
        "--port",
        "0",
        "--study",
        str(study.folder),
    ]
    command[command.index("0")] = str(_free_port())
    service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "BLINDSPOT_STUDY": ""})
    sent = [label(f"l{i}", f"q{i % 6}", f"filler{i}", "negative") for i in range(30)] + [
        label(f"m{i}", f"q{i % 6}", f"answer{(i + 1) % 6}", "negative") for i in range(300)
    ]
    acknowledged: list[str] = []

    def send(address: str) -> None:
        with client(address, "ann") as asked:
            for event in sent:
                try:
                    receipts = asked.post("/v1/labels", json={"events": [event]}).json()["receipts"]
                except (httpx2.HTTPError, ValueError):
                    return
                acknowledged.extend(each["id"] for each in receipts if each["state"] != "refused")

    try:
        address = next(word for word in service.stdout.readline().split() if word.startswith("http"))
        thread = threading.Thread(target=send, args=(address,))
        thread.start()
        deadline = time.monotonic() + 60
        while len(acknowledged) < 20 and time.monotonic() < deadline:
            time.sleep(0.005)
        service.send_signal(signal.SIGKILL)
        thread.join(30)
    finally:
        service.kill()
        service.wait()
        service.stdout.close()
    assert 20 <= len(acknowledged) < len(sent)
    stored = {row.gesture for row in Labels(study.labels_path).events()}
    assert set(acknowledged) <= stored
    with served(study) as url, client(url, "ann") as asked:
        assert set(give(asked, *sent[:100])) == {"known", "stored"}
    rows = [row.gesture for row in Labels(study.labels_path).events()]
    assert len(rows) == len(set(rows)) and set(rows) >= {event["id"] for event in sent[:100]}


def _free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


# ---- machines


def judged(*items: tuple[str, str, dict], machine: str = "umbrela") -> dict:
    return {"machine": machine, "items": [{"id": id, "question": q, "labels": labels} for id, q, labels in items]}


def test_a_machine_s_labels_are_stored_once_and_count_for_no_consensus(url, study):
    body = judged(("u1", "q0", {"answer0": "positive", "filler1": "negative"}), ("u2", "q1", {"answer1": "related"}))
    with client(url, "lea") as asked:
        for state in ("stored", "known"):
            receipts = asked.post("/v1/judgements", json=body).json()["receipts"]
            assert [each["state"] for each in receipts] == [state, state]
        page = asked.get("/v1/judgements?machine=umbrela&limit=2").json()
        assert (page["total"], len(page["items"])) == (3, 2)
        assert page["items"][0] == {"question": "q0", "passage": "answer0", "label": "positive"}
        assert asked.get("/v1/machines").json()["items"] == [{"machine": "umbrela", "labels": 3}]
    assert Labels(study.labels_path).consensus() == []
    assert People(study.labels_path).get("umbrela").kind == "machine"
    assert {row.guideline_version for row in Labels(study.labels_path).events()} == {"qrels"}


WRONG_JUDGEMENTS = [
    (judged(("u", "q0", {"answer0": "positive"}), machine="ann"), 403, "ann is a person"),
    (judged(("u", "q0", {"answer0": "positive"}), ("v", "q9", {"answer0": "positive"})), 404, "no question 'q9'"),
    (judged(("u", "q0", {"nowhere": "positive"})), 404, "no passage 'nowhere'"),
    (judged(("u", "q0", {"answer0": "yes"})), 422, "labels"),
    (judged(("u", "q0", {"answer0": "positive"}), ("u", "q1", {"answer1": "positive"})), 400, "already used"),
]  # fmt: skip


def test_wrong_judgements_store_nothing(url, study):
    with client(url, "lea") as asked:
        for body, status, said in WRONG_JUDGEMENTS:
            answer = asked.post("/v1/judgements", json=body)
            assert answer.status_code == status and said in answer.json()["error"], answer.text
    assert list(Labels(study.labels_path).events()) == [] and Labels(study.labels_path).machine_label_counts() == {}


def test_nobody_acts_in_the_name_of_a_machine(url):
    with client(url, "lea") as lead, client(url, "umbrela") as machine:
        lead.post("/v1/judgements", json=judged(("u", "q0", {"answer0": "positive"})))
        assert machine.get("/v1/study").status_code == 403


# ---- jobs


def test_a_job_starts_and_ends(url):
    with client(url, "lea") as asked:
        started = asked.post("/v1/jobs", json={"kind": "count frequencies"})
        assert started.status_code == 202
        job, deadline = started.json(), time.monotonic() + 60
        while job["state"] in ("waiting", "running") and time.monotonic() < deadline:
            time.sleep(0.1)
            job = asked.get(f"/v1/jobs/{job['job']}").json()
        assert job["state"] == "done", job
        assert asked.post(f"/v1/jobs/{job['job']}/cancel").json()["state"] == "done", "it had ended"
        assert [each["job"] for each in asked.get("/v1/jobs").json()["items"]] == [job["job"]]
        assert asked.get(f"/v1/jobs/{job['job']}/log").status_code == 200


WRONG_JOBS = [
    ({"kind": "import run", "arguments": {"path": "/etc/passwd", "name": "x"}}, "cannot be started here"),
    ({"kind": "judge with llm", "arguments": {"name": "x", "send": True}}, "cannot be started here"),
    ({"kind": "index dense", "arguments": {"name": "x", "vectors": "/etc/passwd"}}, "'vectors' of 'index dense' cannot be given"),
    ({"kind": "make batch", "arguments": {"name": "x", "runs": ["alpha"], "by": "ada"}}, "'by' of 'make batch' cannot be given"),
    ({"kind": "index bm25", "arguments": {"speed": 3}}, "unknown argument 'speed' of 'index bm25'; known: threads"),
    ({"kind": "index dense"}, "'index dense' needs the argument 'name'"),
    ({"kind": "map", "arguments": {"name": "x" * 20_001}}, "at most 20,000 characters"),
]  # fmt: skip


PATHS = "a path or an address cannot be given here; use the command line"
TRAIN = {"name": "x", "training_set": "clean"}
WRONG_VALUES = [
    ("train dual-encoder", {**TRAIN, "start": "/etc"}, 400, f"'start' of 'train dual-encoder' is '/etc': {PATHS}"),
    ("train cross-encoder", {**TRAIN, "start": "../../home"}, 400, PATHS),
    ("train reader", {"name": "x", "run": "alpha", "start": "~/models"}, 400, PATHS),
    ("train reader", {"name": "x", "run": "alpha", "start": "https://evil.example/model"}, 400, PATHS),
    ("train cross-encoder", {**TRAIN, "start": "gpt2"}, 400, "'gpt2', which is no model of this study"),
    ("train cross-encoder", {**TRAIN, "start": ".git"}, 400, PATHS),
    ("train dual-encoder", {**TRAIN, "settings": {"distil": "\\\\host\\share"}}, 400, PATHS),
    ("train dual-encoder", {**TRAIN, "settings": {"distil": "gpt2"}}, 400, "is no model of this study"),
    ("train dual-encoder", {**TRAIN, "settings": {"report_to": "wandb"}}, 403, "cannot name a tracker here"),
    ("train reader", {"name": "x", "run": "alpha", "settings": {"report_to": "tensorboard"}}, 403, "a tracker"),
    ("read", {"run": "alpha", "reader": "/etc"}, 400, PATHS),
    ("score run", {"model": "/etc", "run": "alpha"}, 400, PATHS),
    ("score run", {"model": "passwd", "run": "alpha"}, 400, "is no model of this study"),
    ("build training set", {"name": "x", "runs": ["/etc/passwd"]}, 400, "'runs' of 'build training set' is '/etc/passwd'"),
    ("learn judge", {"name": "x", "run": "alpha", "settings": {"deep": {"er": ["/etc"]}}}, 400, "'er' of 'learn judge'"),
    ("retrieve", {"kind": "opened", "index": "theirs", "split": "dev"}, 403, "sends the questions to another server"),
    ("retrieve", {"kind": "milvus", "split": "dev"}, 403, "sends the questions to another server"),
    ("retrieve", {"kind": "rerank", "judge": "j", "over": "opened:theirs"}, 403, "sends the questions to another server"),
]  # fmt: skip


def opened_elsewhere(study: Study) -> None:
    from blindspot.backend.core.manifest import write_manifest

    folder = study.folder / "indexes" / "theirs"
    folder.mkdir(parents=True)
    about = {"kind": "opened index", "name": "theirs", "engine": "vespa", "where": "http://evil.example"}
    write_manifest(folder, {**about, "corpus": study.corpus.digest, "settings": {}, "passages": 1})


def test_values_of_jobs_lead_nowhere_else(url, study):
    opened_elsewhere(study)
    with client(url, "lea") as asked:
        for kind, arguments, status, said in WRONG_VALUES:
            answer = asked.post("/v1/jobs", json={"kind": kind, "arguments": arguments})
            assert answer.status_code == status and said in answer.json()["error"], (kind, arguments, answer.text)
        assert asked.get("/v1/jobs").json()["items"] == []


def test_texts_that_are_no_paths_may_hold_a_slash(study):
    """SET/SPLIT, ids of questions and prompts."""
    from blindspot.backend.service.job_values import check_values

    check_values(study, "retrieve", {"kind": "bm25", "split": "nq/dev", "name": "x"})
    check_values(study, "make batch", {"name": "x", "runs": ["alpha"], "slice": ["trec/1", "~2"], "splits": ["nq/dev"]})
    check_values(
        study, "train dual-encoder", {**TRAIN, "start": "minilm", "settings": {"question_prompt": "either/or: "}}
    )


def test_why_a_job_failed_is_for_those_who_may_start_it(url, study):
    from blindspot.db.jobs import Jobs

    record = Jobs(study.labels_path)
    record.create("j1", "train reader", {"name": "x"})
    record.end("j1", "failed", "/home/lea has no config.json; it has: secret.txt")
    with client(url, "lea") as lead, client(url, "ann") as annotator, client(url, "ada") as adjudicator:
        assert "secret.txt" in lead.get("/v1/jobs/j1").json()["error"]
        for person in (annotator, adjudicator):
            for answer in (person.get("/v1/jobs/j1"), person.get("/v1/jobs")):
                assert answer.status_code == 200 and "secret" not in answer.text and "see why" in answer.text


def test_the_same_job_with_the_same_id_is_started_once(url, study, monkeypatch):
    started = []

    def sleeping(command: list, **options) -> Mock:
        started.append(command)
        return Mock()

    monkeypatch.setattr(subprocess, "Popen", sleeping)
    asked_for = {"id": "nightly-1", "kind": "index bm25", "arguments": {"threads": 1}}
    with client(url, "lea") as lea, client(url) as nobody:
        first, again = (lea.post("/v1/jobs", json=asked_for) for _ in range(2))
        assert first.status_code == again.status_code == 202 and first.json()["job"] == again.json()["job"]
        assert len(started) == 1
        other = lea.post("/v1/jobs", json={**asked_for, "arguments": {"threads": 2}})
        assert other.status_code == 400 and "this id started another job" in other.json()["error"]
        assert nobody.post("/v1/jobs", json=asked_for).json()["job"] != first.json()["job"], "an id is its caller's"
        assert lea.post("/v1/jobs", json={**asked_for, "id": "nightly-2"}).json()["job"] != first.json()["job"]
        assert len(started) == 3


def test_many_at_once_with_the_same_id_start_one_job(url, monkeypatch):
    started, answers = [], []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(command) or Mock())

    def start() -> None:
        with client(url, "lea") as lea:
            answers.append(lea.post("/v1/jobs", json={"id": "once", "kind": "count frequencies"}))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {202} and len(
        {answer.json()["job"] for answer in answers}
    ) == 1
    assert len(started) == 1


def test_search_honours_the_person_named(study):
    """As /v1/search does: what a person still has to judge is not shown by the plain search either."""
    from blindspot.backend.retrieval import bm25

    bm25.build_index(study, threads=1)
    Queue(study.labels_path).add_batch("first", [Item("q0", (Candidate("answer0"),))], {})
    asked_for = {"retriever": "bm25", "questions": ["something else"], "k": 1}
    secret = People(study.labels_path).invite("ann")
    with served(study) as url, client(url, "ann") as ann, client(url) as nobody, client(url, "mallory") as stranger:
        refused = ann.post("/search", json=asked_for)
        assert refused.status_code == 400 and "1 question remaining" in refused.json()["error"]
        assert refused.json() == ann.post("/v1/search", json=asked_for).json()
        assert nobody.post("/search", json=asked_for).status_code == 200
        assert stranger.post("/search", json=asked_for).status_code == 404
    with served(study, TOKEN) as url, client(url, token=secret) as ann, client(url, token=TOKEN) as team:
        assert "1 question remaining" in ann.post("/search", json=asked_for).json()["error"]
        assert ann.get("/retrievers").status_code == 200 and ann.get("/metrics").status_code == 403
        assert team.post("/search", json=asked_for).status_code == 200
        People(study.labels_path).revoke("ann")
        assert ann.post("/search", json=asked_for).status_code == 401


def test_a_job_that_cannot_be_started_says_why(url):
    with client(url, "lea") as asked:
        for asked_for, said in WRONG_JOBS:
            answer = asked.post("/v1/jobs", json=asked_for)
            assert answer.status_code == 400 and said in answer.json()["error"], answer.text
        assert asked.get("/v1/jobs").json()["items"] == []


def test_a_waiting_job_can_be_cancelled(url, study, monkeypatch):
    """A process that sleeps stands for the job's own: it inherits the lock, so the job counts as alive."""
    start, children = subprocess.Popen, []

    def sleeping(_: list, **options) -> subprocess.Popen:
        children.append(start(["sleep", "60"], stdin=subprocess.DEVNULL, pass_fds=options["pass_fds"]))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", sleeping)
    with client(url, "lea") as asked:
        job = asked.post("/v1/jobs", json={"kind": "index bm25", "arguments": {"threads": 1}}).json()
        assert job["state"] == "waiting"
        assert asked.post(f"/v1/jobs/{job['job']}/cancel").json()["state"] == "waiting", "it stops at its next report"
        assert (study.folder / "jobs" / job["job"] / "cancel").is_file()
        children[0].kill()
        children[0].wait()
        assert asked.get(f"/v1/jobs/{job['job']}").json()["state"] == "cancelled"


# ---- tokens

TOKEN = "t" * 32


def test_a_person_s_link_is_their_token(study):
    people = People(study.labels_path)
    secret = people.invite("ann")
    with served(study, TOKEN) as url, client(url, token=secret) as ann, client(url, token=TOKEN) as app_of_a_team:
        assert give(ann, label("one")) == ["stored"]
        assert app_of_a_team.get("/v1/runs").status_code == 200
        assert app_of_a_team.post("/v1/labels", json={"events": [label("two")]}).status_code == 403
        assert app_of_a_team.post("/v1/jobs", json={"kind": "index bm25"}).status_code == 403
        people.revoke("ann")
        assert ann.get("/v1/study").status_code == 401
    assert [row.annotator for row in Labels(study.labels_path).events()] == ["ann"]


def test_without_a_token_nothing_is_read(study):
    with served(study, TOKEN) as url:
        with client(url, "lea") as named:
            answer = named.get("/v1/study")
            assert answer.status_code == 401 and "person's" in answer.json()["error"], "a name alone counts for nothing"
        with client(url, token="wrong") as guessing:
            statuses = [guessing.get("/v1/study").status_code for _ in range(25)]
            assert statuses[0] == 401 and statuses[-1] == 429
        with client(url) as anonymous:
            for path in ("runs", "labels?question=q0", "jobs", "find?words=x", "questions/q0"):
                assert anonymous.get(f"/v1/{path}").status_code in (401, 429)

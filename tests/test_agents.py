"""The agents' server, driven by the mcp package's own client: in this process, over standard input and over HTTP."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.retrieval import bm25
from blindspot.backend.service.agents import INSTRUCTIONS, make_agents_server
from blindspot.db.errors import Forbidden
from blindspot.db.labels import Labels
from blindspot.db.people import People
from tests.app_pages import HOSTILE, hand_made_study
from tests.training_studies import copied

READS = {
    "study_overview", "list_runs", "compare", "find_slices", "missed_questions", "why", "list_questions", "question", "search", "find",
    "passages", "list_jobs", "job_state",
}  # fmt: skip
WITH_JOBS = {"job_kinds", "start_job", "cancel_job"}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Do not write to it."""
    study = hand_made_study(tmp_path_factory.mktemp("agents") / "study")
    bm25.build_index(study, threads=1)
    return study


def run(function):
    """Run an async function in a thread of its own: browser tests leave an event loop in the main thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, function).result()


def asked(server, *calls: tuple[str, dict]) -> list:
    """Return the results of tool calls that a client makes one after another."""

    async def call() -> list:
        async with Client(server) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return run(call)


def tools(server) -> dict:
    async def listed() -> dict:
        async with Client(server) as client:
            assert client.instructions == INSTRUCTIONS
            return {tool.name: tool for tool in (await client.list_tools()).tools}

    return run(listed)


def answer(server, name: str, **arguments):
    (result,) = asked(server, (name, arguments))
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def refusal(server, name: str, **arguments) -> str:
    (result,) = asked(server, (name, arguments))
    assert result.is_error
    return result.content[0].text


def test_a_server_without_options_only_reads(study):
    listed = tools(make_agents_server(study))
    assert set(listed) == READS
    assert all(tool.annotations.read_only_hint and tool.description for tool in listed.values())
    assert set(tools(make_agents_server(study, "claude"))) == READS | {"label"}
    more = tools(make_agents_server(study, starts_jobs=True))
    assert set(more) == READS | WITH_JOBS
    assert more["start_job"].annotations.read_only_hint is False and more["cancel_job"].annotations.destructive_hint
    assert "Unknown tool" in refusal(make_agents_server(study), "label", question="q0", labels={"answer0": "positive"})


def test_figures_are_those_of_the_command_line(study):
    server = make_agents_server(study)
    found = answer(server, "compare", a="alpha", b="beta", by="relation")
    ours = compare_with(study, "alpha", "beta", ComparisonOptions(by="relation")).as_dict()
    assert (found["conclusion"], found["at"]) == (ours["conclusion"], ours["at"])
    assert {each["untrusted"]["group"]: each["n"] for each in found["groups"]} == {"P19": 3, "P50": 4}
    assert [each["run"] for each in answer(server, "list_runs")["runs"]] == ["alpha", "beta", "short"]
    assert answer(server, "find_slices", a="alpha", b="beta")["slices"] == []
    explained = answer(server, "why", question="q2", runs=["alpha", "beta"])
    assert [each["gold_rank"] for each in explained["runs"]] == [3, 1]


def test_passages_are_read_and_searched(study):
    server = make_agents_server(study)
    assert answer(server, "study_overview")["retrievers"][0] == "bm25"
    found = answer(server, "search", question="Ansver3", k=3)["hits"]
    assert found[0]["passage"] == "answer3" and "Ansver3" in found[0]["untrusted"]["text"]
    read = answer(server, "question", question="q1", runs=["alpha", "beta"], k=2)
    assert read["untrusted"]["text"] == "Where is thing 1?" and read["runs"]["alpha"][0]["gold"] is True
    assert [each["passage"] for each in answer(server, "passages", ids=["filler3", "answer0"])["passages"]] == [
        "filler3",
        "answer0",
    ]
    assert [each["id"] for each in answer(server, "find", words="Ansver2")["items"]] == ["answer2"]
    assert answer(server, "list_questions", words="thing 4")["items"][0]["question"] == "q4"


def test_every_argument_is_described_and_no_other_is_taken(study):
    listed = tools(make_agents_server(study, "claude", starts_jobs=True))
    for tool in listed.values():
        assert tool.input_schema["additionalProperties"] is False, tool.name
        for name, about in tool.input_schema.get("properties", {}).items():
            assert about.get("description"), (tool.name, name)
    server = make_agents_server(study)
    for name, arguments in (
        ("search", {"question": "x", "limit": 3}),
        ("list_runs", {"split": "dev"}),
        ("compare", {"a": "alpha", "b": "beta", "cutoff": 5}),
    ):
        unknown = list(arguments)[-1]
        said = refusal(server, name, **arguments)
        assert unknown in said and "not permitted" in said


def test_missed_questions_are_those_of_the_command_line(study):
    from blindspot.backend.evaluation.miss_report import MissOptions, misses
    from blindspot.backend.evaluation.miss_table import NONE

    server, report = make_agents_server(study), misses(study, "alpha", options=MissOptions(k=5))
    (run,) = report.table.runs
    found = answer(server, "missed_questions", run="alpha", k=5)
    assert found["total"] == run.misses == len(found["items"]) > 1 and found["k"] == 5
    for line in run.lines:
        has = [line.name in item["causes"] if line.name != NONE else not item["causes"] for item in found["items"]]
        assert sum(has) == line.count, line.name
    second = answer(server, "missed_questions", run="alpha", k=5, offset=1, limit=1)["items"]
    assert second == found["items"][1:2]
    assert "no run 'nowhere'" in refusal(server, "missed_questions", run="nowhere")


def test_an_agent_without_jobs_is_not_told_why_one_failed(study, tmp_path):
    from blindspot.db.jobs import Jobs

    own = copied(study, tmp_path / "study")
    Jobs(own.labels_path).create("j1", "train reader", {"name": "x"})
    Jobs(own.labels_path).end("j1", "failed", "/home has: secret.txt")
    reads, starts = make_agents_server(own), make_agents_server(own, starts_jobs=True)
    assert "secret" not in json.dumps([answer(reads, "job_state", job="j1"), answer(reads, "list_jobs")])
    assert "secret" in json.dumps(answer(starts, "job_state", job="j1"))
    said = refusal(starts, "start_job", kind="train reader", arguments={"name": "x", "run": "alpha", "start": "/etc"})
    assert "a path or an address cannot be given here" in said


def trusted_texts(value, key: str = ""):
    """Yield every text of a result that does not stand under the key `untrusted`."""
    if isinstance(value, dict):
        for name, each in value.items():
            if name != "untrusted":
                yield name
                yield from trusted_texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from trusted_texts(each, key)
    elif isinstance(value, str):
        yield value


def test_text_of_the_study_stands_under_untrusted_alone(study):
    """Question 6, its answer and its passage hold markup that could as well be instructions."""
    server, marks = make_agents_server(study), ("window.pwned", "More is told", "Where is thing", "Town")
    results = [
        answer(server, "question", question="q6", runs=["alpha", "beta"], k=15),
        answer(server, "search", question="Ansver6", k=10),
        answer(server, "why", question="q6", runs=["alpha", "beta"]),
        answer(server, "passages", ids=["answer6", "answer0"]),
        answer(server, "list_questions"),
        answer(server, "find", words="told"),
        answer(server, "find", words="pwned", place="questions"),
    ]
    assert HOSTILE in json.dumps(results[0], ensure_ascii=False).replace('\\"', '"').replace("\\\\", "\\")
    for result in results:
        assert not [text for text in trusted_texts(result) if any(mark in text for mark in marks)]


@pytest.mark.parametrize("name, arguments, said", [
    ("compare", {"a": "alpha", "b": "nowhere"}, "no run 'nowhere'"),
    ("why", {"question": "q99", "runs": ["alpha"]}, "no question 'q99'"),
    ("question", {"question": "q0", "runs": ["alpha"], "k": 51}, "the k is 51; it must be from 1 to 50"),
    ("passages", {"ids": []}, "the number of ids is 0"),
    ("passages", {"ids": ["nowhere"]}, "no passage 'nowhere'"),
    ("search", {"question": "x", "retriever": "other"}, "no dense index for encoder 'other'"),
    ("find", {"words": " "}, "between 1 and 200 characters"),
    ("list_questions", {"limit": 1000}, "the limit is 1000"),
    ("job_state", {"job": "none"}, "no job 'none'"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(study, name, arguments, said):
    text = refusal(make_agents_server(study), name, **arguments)
    assert said in text and "\n" not in text and "Traceback" not in text


def test_the_agent_labels_as_a_machine_and_never_as_a_person(study, tmp_path):
    own = copied(study, tmp_path / "study")
    People(own.labels_path).add("ann")
    with pytest.raises(Forbidden, match="ann is a person"):
        make_agents_server(own, "ann")
    server = make_agents_server(own, "claude")
    labels = {"answer0": "positive", "filler0": "negative"}
    assert answer(server, "label", question="q0", labels=labels, id="c1")["state"] == "stored"
    assert answer(server, "label", question="q0", labels=labels, id="c1")["state"] == "known"
    assert answer(server, "label", question="q0", labels={"filler0": "related"})["state"] == "stored"
    assert "labels.answer0" in refusal(server, "label", question="q0", labels={"answer0": "perhaps"})
    assert "no passage 'nowhere'" in refusal(server, "label", question="q0", labels={"nowhere": "positive"})
    store = Labels(own.labels_path)
    assert store.machine_labels("claude") == {("q0", "answer0"): "positive", ("q0", "filler0"): "related"}
    assert store.consensus() == [] and len(list(store.events())) == 3
    People(own.labels_path).set_kind("claude", "person")
    assert "claude is a person" in refusal(server, "label", question="q0", labels={"answer0": "negative"})


def test_jobs_start_and_are_followed(study, tmp_path):
    server = make_agents_server(copied(study, tmp_path / "study"), starts_jobs=True)
    assert "cannot be started here" in refusal(
        server, "start_job", kind="import run", arguments={"path": "/etc/passwd"}
    )
    job, deadline = answer(server, "start_job", kind="count frequencies", arguments={}), time.monotonic() + 60
    while job["state"] in ("waiting", "running") and time.monotonic() < deadline:
        time.sleep(0.1)
        job = answer(server, "job_state", job=job["job"])
    assert job["state"] == "done", job
    assert answer(server, "cancel_job", job=job["job"])["state"] == "done"
    assert [each["job"] for each in answer(server, "list_jobs")["jobs"]] == [job["job"]]


def test_over_standard_input_the_command_serves_a_client(study):
    command = ["-c", "from blindspot.app.cli import main; main()", "mcp", str(study.folder), "--as", "claude"]

    async def talk() -> tuple:
        parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(stdio_client(parameters)) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            found = await client.call_tool("search", {"question": "Ansver1", "k": 1})
            return names, found.structured_content

    names, found = run(talk)
    assert names == READS | {"label"}
    assert found["hits"][0]["passage"] == "answer1", "the Java machine prints nothing into the protocol"

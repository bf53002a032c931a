"""A retriever's log becomes a study, its precision follows from a judged sample, and its labels become a golden set."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta

import ir_measures
import numpy as np
import pandas as pd
import pytest

from blindspot.app import cli
from blindspot.app.components.check.log_upload import may_be_log, start_log
from blindspot.app.main import PAGES
from blindspot.backend.checking.golden_sets import (
    draw_questions,
    export_golden_set,
    golden_set,
    log_facts,
    log_precision,
    study_from_log,
)
from blindspot.backend.checking.jobs import import_retrieval_log
from blindspot.backend.checking.words import log_precision_words
from blindspot.backend.core import jobs
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.tables import read_qrels
from blindspot.backend.data.importing.uploads import store_upload
from blindspot.backend.data.retrieval_logs import open_log
from blindspot.backend.evaluation.comparison import Comparison, measure
from blindspot.backend.evaluation.slice_finder import candidates
from blindspot.backend.evaluation.slices import Facts
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.question_fields import QuestionFields
from blindspot.db.queue import Queue
from tests.app_pages import Page, lacked_words

EVENTS = 100
K = 4


def chunk(i: int) -> dict:
    """Chunk 1 is chunk 0 under another id; chunk 2 is chunk 3 but for its last word."""
    words = np.random.default_rng(max(i, 1) if i < 2 else 3 if i == 2 else i).integers(9000, size=40)
    text = " ".join(f"w{word}" for word in words)
    return {"id": f"c{i}", "text": f"{text} last" if i == 2 else text, "score": 1 - i / 100, "title": f"Page {i}"}


def event(i: int) -> dict:
    """Question i with K chunks; none for the last, and questions 0 and 1 ask the same."""
    chunks = [] if i == EVENTS - 1 else [chunk((i * 3 + j) % 90) for j in range(K)]
    chunks.sort(key=lambda each: -each["score"])
    day = datetime(2026, 11, 1, 12, tzinfo=UTC) + timedelta(days=i % 2)
    return {
        "id": f"span{i}", "question": "How do I pay?" if i < 2 else f"How do I do thing {i}?", "chunks": chunks,
        "time": day, "session": f"s{i // 2}", "source": "faq" if i % 2 else "manual", "score": i % 2,
    }  # fmt: skip


def phoenix_frame(events):
    """What `phoenix.client.Client().spans.get_spans_dataframe()` returns: retrievers' spans among others."""
    rows = []
    for each in events:
        documents = [
            {"document.content": c["text"], "document.id": c["id"], "document.score": c["score"], "document.metadata": {"title": c["title"]}}
            for c in each["chunks"]
        ]  # fmt: skip
        at = {"start_time": each["time"], "context.trace_id": f"t{each['id']}"}
        rows.append(
            {
                "name": "answer",
                "span_kind": "CHAIN",
                "context.span_id": f"chain{each['id']}",
                "attributes.input.value": each["question"],
                **at,
            }
        )
        rows.append({
            "name": "VectorStoreRetriever", "span_kind": "RETRIEVER", "context.span_id": each["id"],
            "attributes.openinference.span.kind": "RETRIEVER", "attributes.input.value": each["question"],
            "attributes.retrieval.documents": documents, "attributes.session.id": each["session"],
            "attributes.metadata": {"source": each["source"]}, **at,
        })  # fmt: skip
    return pd.DataFrame(rows)


def flat_spans(events):
    """Spans of OpenInference with flattened attributes."""
    for each in events:
        attributes = {
            "openinference.span.kind": "RETRIEVER",
            "input.value": json.dumps({"query": each["question"]}),
            "session.id": each["session"],
            "metadata": json.dumps({"source": each["source"]}),
        }
        for place, c in enumerate(each["chunks"]):
            head = f"retrieval.documents.{place}.document"
            attributes |= {
                f"{head}.content": c["text"],
                f"{head}.id": c["id"],
                f"{head}.score": c["score"],
                f"{head}.metadata": json.dumps({"title": c["title"]}),
            }
        yield {
            "name": "retrieve",
            "context": {"span_id": each["id"]},
            "start_time": each["time"].isoformat(),
            "attributes": attributes,
        }


def otlp(events):
    """Lines of OTLP/JSON as the collector's file exporter writes them."""
    for span in flat_spans(events):
        attributes = [
            {"key": name, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}}
            for name, value in span["attributes"].items()
        ]
        nano = str(int(datetime.fromisoformat(span["start_time"]).timestamp() * 1e9))
        one = {
            "name": "retrieve",
            "spanId": span["context"]["span_id"],
            "startTimeUnixNano": nano,
            "attributes": attributes,
        }
        yield {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [one]}]}]}


def documents(each):
    return [
        {
            "page_content": c["text"],
            "type": "Document",
            "metadata": {"id": c["id"], "score": c["score"], "title": c["title"]},
        }
        for c in each["chunks"]
    ]


def langfuse(events):
    """Observations of the export (blob storage, enriched): input and output are JSON texts."""
    for each in events:
        yield {
            "id": f"g{each['id']}",
            "trace_id": "t",
            "type": "GENERATION",
            "input": json.dumps([{"role": "user", "content": each["question"]}]),
            "output": "An answer.",
            "start_time": "",
            "metadata": {},
        }
        yield {
            "id": each["id"], "trace_id": "t", "type": "RETRIEVER", "name": "retrieve", "session_id": each["session"],
            "start_time": each["time"].strftime("%Y-%m-%d %H:%M:%S.%f"), "input": json.dumps(each["question"]) if each["id"] == "x" else each["question"],
            "output": json.dumps(documents(each)), "metadata": {"source": each["source"]},
        }  # fmt: skip


def langsmith(events, as_text):
    """Runs: as the SDK gives them, or as the bulk export writes them, with inputs and outputs as JSON texts."""
    for each in events:
        row = {
            "id": each["id"], "run_type": "retriever", "name": "VectorStoreRetriever", "start_time": each["time"].isoformat(),
            "inputs": {"query": each["question"]}, "outputs": {"documents": documents(each)},
            "extra": {"metadata": {"source": each["source"], "session_id": each["session"]}},
            "feedback_stats": {"user_score": {"n": 1, "avg": float(each["score"])}},
        }  # fmt: skip
        yield (
            {
                "id": "llm",
                "run_type": "llm",
                "inputs": {},
                "outputs": {},
                "extra": {},
                "feedback_stats": {},
                "name": "x",
                "start_time": "",
            }
            if not as_text
            else {}
        )
        yield {name: json.dumps(value) if as_text and isinstance(value, dict) else value for name, value in row.items()}


def table(events):
    for each in events:
        yield {
            "trace_id": each["id"],
            "question": each["question"],
            "contexts": [
                {"id": c["id"], "text": c["text"], "score": c["score"], "title": c["title"]} for c in each["chunks"]
            ],
            "session": each["session"],
            "source": each["source"],
            "timestamp": each["time"].isoformat(),
        }


def lines(path, rows):
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows if row))
    return path


def phoenix_parquet(folder, events):
    phoenix_frame(events).to_parquet(folder / "spans.parquet")
    return folder / "spans.parquet"


def chunk_rows(folder, events):
    rows = [
        {"trace_id": each["id"], "query": each["question"], "chunk": c.get("text"), "doc_id": c.get("id"), "score": c.get("score"), "session": each["session"], "source": each["source"], "date": each["time"]}
        for each in events for c in each["chunks"] or [{}]
    ]  # fmt: skip
    pd.DataFrame(rows).to_csv(folder / "log.csv", index=False)
    return folder / "log.csv"


def langsmith_parquet(folder, events):
    pd.DataFrame([row for row in langsmith(events, True) if row]).to_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


def array(path, rows):
    path.write_text(json.dumps(list(rows), default=str))
    return path


WRITERS = {
    "phoenix parquet": phoenix_parquet,
    "openinference flat": lambda folder, events: lines(folder / "a.jsonl", flat_spans(events)),
    "otlp": lambda folder, events: lines(folder / "a.jsonl", otlp(events)),
    "langfuse jsonl": lambda folder, events: lines(folder / "a.jsonl", langfuse(events)),
    "langfuse json": lambda folder, events: array(folder / "a.json", langfuse(events)),
    "langfuse csv": lambda folder, events: _csv(folder / "a.csv", langfuse(events)),
    "langsmith jsonl": lambda folder, events: lines(folder / "a.jsonl", langsmith(events, False)),
    "langsmith parquet": langsmith_parquet,
    "table": lambda folder, events: lines(folder / "a.jsonl", table(events)),
    "csv of chunks": chunk_rows,
}


def _csv(path, rows):
    pd.DataFrame(
        [{name: json.dumps(value) if isinstance(value, dict) else value for name, value in row.items()} for row in rows]
    ).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", WRITERS)
def test_each_form_gives_the_same_study(tmp_path, name):
    events = [event(i) for i in range(EVENTS)]
    study = study_from_log(tmp_path / "s", WRITERS[name](tmp_path, events))
    [run] = study.parts("runs")
    lists = study.run(run)
    assert list(lists.question_ids) == [each["id"] for each in events]
    for row, each in enumerate(events):
        question = study.questions.get(each["id"])
        assert question.text == each["question"] and question.split == "test" and not question.answers
        found = study.corpus.passages([ordinal for ordinal in lists.hits.ordinals[row].tolist() if ordinal >= 0])
        assert [(p.id, p.text) for p in found] == [(c["id"], c["text"]) for c in each["chunks"]]
        if "csv" not in name or "langfuse" in name:
            assert [p.title for p in found] == [c["title"] for c in each["chunks"]]
        np.testing.assert_allclose(
            lists.hits.scores[row][: len(found)], [c["score"] for c in each["chunks"]], rtol=1e-6
        )
        fields = QuestionFields(study.labels_path).fields_of(each["id"])
        assert {"session": each["session"], "source": each["source"], "date": each["time"].date().isoformat()}.items() <= {
            **fields, "session": fields.get("session", fields.get("session_id"))
        }.items()  # fmt: skip
        if name.startswith("langsmith"):
            assert fields["user_score"] == str(float(each["score"]))


def test_the_facts_of_a_log(tmp_path):
    study = study_from_log(tmp_path / "s", lines(tmp_path / "a.jsonl", table([event(i) for i in range(EVENTS)])))
    facts = log_facts(study)
    assert (facts.events, facts.questions, facts.without_chunks, facts.depth) == (EVENTS, EVENTS - 1, 1, K)
    assert facts.chunks == len({c["id"] for i in range(EVENTS) for c in event(i)["chunks"]})
    assert (facts.identical, facts.near_identical) == (1, 2)
    assert facts.fields["source"] == EVENTS


@pytest.fixture
def judged(tmp_path):
    """The log of EVENTS questions, all of them drawn and judged: a chunk answers if its number ends in 1 or 4."""
    study = study_from_log(tmp_path / "s", lines(tmp_path / "a.jsonl", table([event(i) for i in range(EVENTS)])))
    draw_questions(study, EVENTS)
    People(study.labels_path).add("ann", "annotator")
    labels = Labels(study.labels_path, passages=lambda ids: study.corpus.ordinals(ids))
    for batch in ("log", "log-2"):
        for number, item in enumerate(Queue(study.labels_path).items(batch)):
            choices = tuple(
                Choice(each.passage, "positive" if answers(each.passage) else "negative") for each in item.candidates
            )
            labels.add("ann", LabelEvent(f"{batch}-{number}", "label", item.question, choices, batch=batch))
    return study


def answers(passage):
    return passage.endswith(("1", "4"))


def test_a_judged_log_has_its_own_precision_and_unanswered_questions(judged):
    found = log_precision(judged)
    with pytest.raises(Refused, match="drawn already"):
        draw_questions(judged)
    asked = [[c["id"] for c in event(i)["chunks"]] for i in range(EVENTS - 1)]
    assert (found.k, found.drawn_questions, found.judged) == (5, EVENTS - 1, EVENTS - 1)
    assert found.precision.value == pytest.approx(np.mean([answers(id) for ids in asked for id in ids]))
    assert found.precision.low < found.precision.value < found.precision.high
    none = [f"span{i}" for i, ids in enumerate(asked) if not any(map(answers, ids))]
    assert found.unanswered.mean == pytest.approx(len(none) / len(asked)) and set(found.examples) <= set(none)
    assert "of the first 5 chunks answer" in log_precision_words(found)


def test_fields_are_conditions_and_candidates_of_the_finder(judged):
    [run] = judged.parts("runs")
    measured = measure(judged, run, "labels")
    facts = Facts(Comparison.of_runs(measured, measured), K)
    ids = [question.id for question in facts.comparison.questions]
    assert len(ids) > 30
    expected = [event(int(id.removeprefix("span")))["source"] == "faq" for id in ids]
    assert facts.mask("field(source):faq").tolist() == expected
    families = [family for family, _ in candidates(facts)]
    assert "field source" in families and "field session" not in families
    with pytest.raises(BadInput, match="no question has the field 'sorce'; fields: date, session, source"):
        facts.mask("field(sorce):faq")


def test_a_golden_set_is_what_people_judged(judged, tmp_path):
    """Questions 0 and 1 ask the same, so they are one question with the labels of both."""
    by_text = {}
    for i in range(EVENTS - 1):
        by_text.setdefault(event(i)["question"], {}).update(
            {c["id"]: int(answers(c["id"])) for c in event(i)["chunks"]}
        )
    golden = golden_set(judged)
    assert {each.question.text: dict(each.grades) for each in golden} == by_text
    path, written, everything = export_golden_set(judged, "qrels", tmp_path / "g.qrels")
    assert (written, everything) == (len(by_text), len(by_text))
    qrels = {(row.query_id, row.doc_id): row.relevance for row in ir_measures.read_trec_qrels(str(path))}
    assert qrels == {(each.question.id, id): grade for each in golden for id, grade in each.grades.items()}
    path, _, _ = export_golden_set(judged, "beir", tmp_path / "beir")
    rows = list(read_qrels(path / "qrels" / "test.tsv"))
    assert {(row.question_id, row.passage_id): row.grade for row in rows} == qrels
    with_answer = [each for each in golden if each.answers]
    path, written, everything = export_golden_set(judged, "ragas", tmp_path / "g.jsonl")
    samples = [json.loads(line) for line in path.read_text().splitlines()]
    assert written == len(samples) == len(with_answer) < everything
    assert set(samples[0]) == {
        "user_input",
        "retrieved_contexts",
        "reference_contexts",
        "retrieved_context_ids",
        "reference_context_ids",
    }
    texts = {c["id"]: c["text"] for i in range(EVENTS) for c in event(i)["chunks"]}
    for sample in samples:
        assert sample["reference_contexts"] == [texts[id] for id in sample["reference_context_ids"]]
        assert all(map(answers, sample["reference_context_ids"]))
    path, written, _ = export_golden_set(judged, "deepeval", tmp_path / "g.json")
    goldens = json.loads(path.read_text())
    assert [each["input"] for each in goldens] == [each.question.text for each in with_answer] and goldens[0]["context"]
    with pytest.raises(Refused, match="one of ragas"):
        export_golden_set(judged, "xml")


def test_the_command_makes_the_study_and_shows_columns_to_choose(tmp_path, capsys, monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["blindspot", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    rows = [
        {"frage": each["question"], "stuecke": [c["text"] for c in each["chunks"]]} for each in map(event, range(6))
    ]
    file = lines(tmp_path / "log.jsonl", rows)
    code, out, err = run("new", tmp_path / "s", "--from-log", file)
    assert code == 1 and "frage: How do I pay?" in out and "--set question=COLUMN" in err and err.count("\n") == 1
    code, out, err = run(
        "new", tmp_path / "s", "--from-log", file, "--set", "question=frage", "--set", "chunks=stuecke"
    )
    assert code == 0 and "6 questions asked, 5 of them distinct" in out and "sample 'log'" in out, err
    code, out, err = run("export", "golden", "--format", "ragas", "--study", tmp_path / "s")
    assert code == 1 and "nobody judged" in err


def test_wrong_logs_are_one_line(tmp_path):
    for rows, words in (
        ([{"a": 1}], "no retrieval log of a known shape; the columns are a"),
        ([{"question": "q", "contexts": [{"id": "7"}]}], "chunk '7' has no text"),
        ([{"question": "", "contexts": []}], "holds no question"),
    ):
        with pytest.raises(BadInput, match=words) as error:
            study_from_log(tmp_path / "s", lines(tmp_path / "a.jsonl", rows))
        assert "\n" not in str(error.value) and not (tmp_path / "s").exists()
    with pytest.raises(BadInput, match="there is no column 'x'"):
        open_log(lines(tmp_path / "a.jsonl", table([event(0)])), {"question": "x"})
    with pytest.raises(Missing, match="--from-log"):
        log_facts(Study.create(tmp_path / "other"))
    with pytest.raises(Missing, match="nobody judged"):
        golden_set(Study.create(tmp_path / "third"))


# In the app


def test_the_page_of_a_log_leads_from_the_first_question_to_the_golden_set(tmp_path, judged):
    fresh = study_from_log(tmp_path / "fresh", lines(tmp_path / "b.jsonl", table([event(i) for i in range(EVENTS)])))
    page = Page(fresh.folder, "check")
    assert "No question is judged yet" in page.text and "Judge the first question" in page.text
    assert "Nothing came back for 1 question" in page.text and not page.app.get("download_button")
    assert "See the log" in Page(fresh.folder, "").text
    People(judged.labels_path).add("lea", "lead")
    page = Page(judged.folder, "check", "lea")
    found = log_precision(judged)
    assert log_precision_words(found) in page.text and "The whole sample is judged." in page.text
    assert judged.questions.get(found.examples[0]).text in page.text
    assert len(page.app.get("download_button")) == 4


def test_no_page_of_a_log_speaks_of_what_it_lacks(judged):
    [run] = judged.parts("runs")
    lists = judged.run(run)
    write_run(judged, "again", list(lists.question_ids), lists.hits, {"retriever": "other", "split": "test"})
    People(judged.labels_path).add("lea", "lead")
    for title, name in PAGES.items():
        if title in ("Relations", "Experiments"):
            continue
        page = Page(
            judged.folder,
            "" if name == "home" else name,
            "lea",
            **({"a": run, "b": "again"} if name != "check" else {}),
        )
        assert not lacked_words(page), name
        assert "relations" not in page.links()


def test_a_dropped_log_becomes_a_study_and_a_table_asks_for_its_columns(tmp_path):
    study = Study.create(tmp_path / "s")
    rows = [
        {"frage": each["question"], "stuecke": [c["text"] for c in each["chunks"]]} for each in map(event, range(6))
    ]
    strange = "".join(json.dumps(row) + "\n" for row in rows).encode()
    kept = store_upload(study, "strange.jsonl", io.BytesIO(strange))
    assert may_be_log(kept) and not start_log(study, kept)
    store_upload(
        study, "known.jsonl", io.BytesIO(lines(tmp_path / "a.jsonl", table(map(event, range(6)))).read_bytes())
    )
    jobs.run(import_retrieval_log, study, kept.name, {"question": "frage", "chunks": "stuecke"})
    opened = Study.open(study.folder)
    assert log_facts(opened).events == 6 and "Judge the first question" in Page(study.folder, "check").text
    with pytest.raises(Refused, match="holds passages"):
        jobs.run(import_retrieval_log, opened, "known.jsonl")

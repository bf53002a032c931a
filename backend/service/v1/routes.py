"""The routes of version 1 for the contents of a study, labels, judgements and jobs. Each route checks the caller's
rights.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import PlainTextResponse
from starlette.concurrency import run_in_threadpool

from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import Kind as Relevance
from blindspot.backend.evaluation.saved_slices import SavedSlice, save, saved_slices
from blindspot.backend.retrieval import full_text
from blindspot.backend.service import job_requests, labelling, reading
from blindspot.backend.service.batching import BatchedHits, Busy
from blindspot.backend.service.caller import Caller
from blindspot.backend.service.guard import MAX_UPLOAD
from blindspot.backend.service.service import Service
from blindspot.backend.service.v1 import answers, requests
from blindspot.backend.service.v1.callers import Asking
from blindspot.db.errors import Forbidden
from blindspot.db.records import Passage
from blindspot.db.rights import action_of_job

MAX_PAGE = 500
MAX_HITS_PAGE = 100
COMPUTING_AT_ONCE = 2  # comparisons and the like that run together
SECONDS_TO_WAIT = 20.0  # for a place among them

Offset = Annotated[int, Query(ge=0, le=10_000_000, description="Position of the first item, from 0.")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Number of items.")]
Name = Annotated[str, Path(max_length=80, description="Name of the run.")]
RunA = Annotated[str, Query(max_length=80, description="First run.")]
RunB = Annotated[str, Query(max_length=80, description="Run to compare it with.")]
CutOff = Annotated[
    int | None, Query(ge=1, le=10_000, description="Cut-off; the default is that of `blindspot compare`.")
]
SliceOf = Annotated[str, Query(max_length=2000, description="Only the questions of this slice expression.")]
SliceName = Annotated[str, Path(max_length=100, description="Name of the slice.")]
JobName = Annotated[str, Path(max_length=80, description="Id of the job.")]


class Version1:
    """What all routes share: the study, the search service, its time limit, and a limit on concurrent computations."""

    def __init__(self, service: Service, time_limit: float):
        self.service, self.time_limit = service, time_limit
        self._places = threading.BoundedSemaphore(COMPUTING_AT_ONCE)

    @property
    def study(self) -> Study:
        return self.service.study

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Wait until a computation may start. Raises Busy if other computations take too long."""
        if not self._places.acquire(timeout=SECONDS_TO_WAIT):
            raise Busy("other comparisons are running; ask again in a moment")
        try:
            yield
        finally:
            self._places.release()

    async def search(self, caller: Caller, retriever: str, questions: Sequence[str], k: int) -> BatchedHits:
        """Search with a retriever now. Raises HTTPException 504 after the time limit."""
        await run_in_threadpool(caller.require_live, self.study, questions)
        found = asyncio.wrap_future(self.service.submit_search(retriever, questions, k))
        try:
            return await asyncio.wait_for(found, self.time_limit)
        except TimeoutError:
            line = f"{retriever} did not answer within {self.time_limit:g} s; ask again in a moment"
            raise HTTPException(504, line) from None
        except asyncio.CancelledError:
            raise HTTPException(503, "the service is closing") from None


def add_version_1(router: APIRouter, version: Version1) -> None:
    """Add every route of version 1."""
    _add_study(router, version)
    _add_runs(router, version)
    _add_upload(router, version)
    _add_comparisons(router, version)
    _add_slices(router, version)
    _add_search(router, version)
    _add_labels(router, version)
    _add_judgements(router, version)
    _add_jobs(router, version)


def _add_study(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/study", response_model=answers.StudyAnswer)
    def about_study(caller: Asking) -> dict[str, Any]:
        """What the study holds."""
        caller.require(study, "see results")
        return reading.describe_study(study)

    @router.get("/questions", response_model=answers.Page[answers.QuestionAnswer])
    def list_questions(
        caller: Asking,
        split: Annotated[str | None, Query(max_length=80, description="train, dev, test or unlabelled.")] = None,
        dataset: Annotated[str | None, Query(max_length=256, description="Name of a question set.")] = None,
        relation: Annotated[str | None, Query(max_length=256, description="Relation, as in P19.")] = None,
        words: Annotated[str, Query(max_length=200, description="Words that the question contains.")] = "",
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """List questions, in the order of import."""
        caller.require(study, "see results")
        return reading.questions(study, offset, limit, words, split=split, dataset=dataset, relation=relation)

    @router.get("/questions/{id:path}", response_model=answers.QuestionAnswer)
    def one_question(caller: Asking, id: Annotated[str, Path(max_length=256)]) -> dict[str, Any]:
        """A question with its answers and gold passages."""
        caller.require(study, "see results")
        return reading.question(study.questions.get(id))

    @router.get("/passages/{id:path}", response_model=Passage)
    def one_passage(caller: Asking, id: Annotated[str, Path(max_length=256)]) -> Passage:
        """A passage of the collection."""
        caller.require(study, "see results")
        return reading.passage(study, id)


def _add_runs(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/runs", response_model=answers.Items[answers.RunAnswer])
    def list_runs(caller: Asking) -> dict[str, Any]:
        """List the finished runs."""
        caller.require(study, "see results")
        return {"items": reading.runs(study)}

    @router.get("/runs/{run}", response_model=answers.RunAnswer)
    def one_run(caller: Asking, run: Name) -> dict[str, Any]:
        """A run."""
        caller.require(study, "see results")
        return reading.run(study, run)

    @router.get("/runs/{run}/hits", response_model=answers.HitsAnswer)
    def hits_of_run(
        caller: Asking,
        run: Name,
        question: Annotated[
            list[str], Query(max_length=MAX_HITS_PAGE, description="Only these questions (repeatable).")
        ] = [],  # noqa: B006
        k: Annotated[int, Query(ge=1, le=1000, description="Hits per question.")] = 10,
        offset: Offset = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_HITS_PAGE, description="Number of questions.")] = 20,
    ) -> dict[str, Any]:
        """The hits of a run, by question. Questions that you still have to judge are left out."""
        caller.require(study, "see results")
        return reading.hits(study, caller, run, k, question, (offset, limit))

    @router.get(
        "/runs/{run}/trec",
        response_class=PlainTextResponse,
        responses={200: {"content": {"text/plain": {"example": "eq-P19-1 Q0 1189 1 14.2 bm25-dev\n"}}}},
    )
    def run_as_trec(caller: Asking, run: Name) -> PlainTextResponse:
        """A whole run in TREC's form, `question Q0 passage rank score run`."""
        caller.require(study, "export")
        if hidden := caller.hidden_questions(study).intersection(study.run(run).question_ids):
            raise Forbidden(f"you have still to judge {len(hidden):,} questions of {run}; export it after that")
        from blindspot.backend.upkeep.downloads import download

        return PlainTextResponse(download(study, "run", run, "trec", caller.name).content)


def _add_upload(router: APIRouter, version: Version1) -> None:
    study = version.study
    body = {
        "required": True,
        "content": {"text/plain": {"schema": {"type": "string"}, "example": "eq-P19-1 Q0 1189 1 14.2 mine\n"}},
    }

    @router.put("/runs/{run}", response_model=answers.UploadAnswer, openapi_extra={"requestBody": body})
    async def upload_run(
        caller: Asking,
        request: Request,
        run: Name,
        split: Annotated[
            str | None,
            Query(max_length=80, description="Questions of this split that are not in the request have no hits."),
        ] = None,
        replace: Annotated[bool, Query(description="Replace a run of this name.")] = False,
    ) -> dict[str, Any]:
        """Store a run in TREC's form, at most 64 MiB. The same run again changes nothing."""
        await run_in_threadpool(caller.require, study, "import")
        with tempfile.TemporaryDirectory() as folder:
            path, size = FilePath(folder) / "upload.trec", 0
            with path.open("wb") as file:
                async for part in request.stream():
                    size += len(part)
                    if size > MAX_UPLOAD:
                        raise HTTPException(413, f"a run may have at most {MAX_UPLOAD:,} bytes")
                    file.write(part)
            return await run_in_threadpool(_import_run, study, path, run, split, replace)


def _import_run(study: Study, path: FilePath, name: str, split: str | None, replace: bool) -> dict[str, Any]:
    """Import an uploaded run immediately, without waiting for other jobs, as `blindspot --no-wait import run` does."""
    from blindspot.backend.core import jobs
    from blindspot.backend.data.importing.runs import import_run
    from blindspot.db.errors import BadInput

    try:
        with jobs.without_waiting():
            made = jobs.run(import_run, study, path=path, name=name, format="trec", split=split, replace=replace)
    except BadInput as error:  # names the line, not the place of the file on the server
        line = "" if error.line is None else f"line {error.line}: "
        raise BadInput(f"{line}{error.message}") from None
    return {"run": name, "questions": made.rows, "unchanged": made.unchanged, "notes": list(made.notes)}


def _add_comparisons(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/compare", response_model=answers.ComparisonAnswer, response_model_exclude_unset=True)
    def compare_two_runs(
        caller: Asking,
        a: RunA,
        b: RunB,
        k: CutOff = None,
        by: Annotated[Literal["relation", "bucket", "slice"] | None, Query(description="Groups to add.")] = None,
        relevance: Annotated[Relevance, Query(description="Passages that count as relevant.")] = "answers",
        measure: Annotated[str, Query(max_length=40, description="As in `blindspot compare`.")] = "success",
        slice: SliceOf = "",
    ) -> dict[str, Any]:
        """Compare two runs, as `blindspot compare --json` does."""
        from blindspot.backend.evaluation.settings import ComparisonOptions

        caller.require(study, "see results")
        _refuse_labels(study, caller, relevance)
        options = ComparisonOptions(k=k, by=by, relevance=relevance, slice=slice, measure=measure)
        with version.computing():
            return reading.compare(study, caller, a, b, options)

    @router.get("/why", response_model=answers.WhyAnswer)
    def why_missed(
        caller: Asking,
        question: Annotated[str, Query(max_length=256, description="Id of the question.")],
        run: Annotated[list[str], Query(min_length=1, max_length=8, description="Run to explain (repeatable).")],
    ) -> dict[str, Any]:
        """Why runs missed a question: the gold's rank, the winner, the words that both share with the question."""
        caller.require(study, "see results")
        with version.computing():
            return reading.explain_question(study, caller, question, run)


def _refuse_labels(study: Study, caller: Caller, relevance: Relevance) -> None:
    if relevance == "labels":
        caller.require(study, labelling.OTHERS)


def _add_slices(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/slices", response_model=answers.SlicesAnswer)
    def find_slices(
        caller: Asking,
        a: RunA,
        b: RunB,
        k: CutOff = None,
        relevance: Annotated[Relevance, Query(description="Passages that count as relevant.")] = "answers",
        slice: SliceOf = "",
    ) -> dict[str, Any]:
        """Find the slices that explain most of the difference, as `blindspot compare --find-slices --json` does."""
        caller.require(study, "see results")
        _refuse_labels(study, caller, relevance)
        with version.computing():
            return reading.find_slices(study, caller, a, b, k, relevance, slice)

    @router.get("/saved-slices", response_model=answers.Items[SavedSlice])
    def list_saved_slices(caller: Asking) -> dict[str, Any]:
        """List the saved slices."""
        caller.require(study, "see results")
        return {"items": [asdict(each) for each in saved_slices(study).values()]}

    @router.put("/saved-slices/{name}", response_model=SavedSlice)
    def save_slice(caller: Asking, name: SliceName, body: requests.SliceRequest) -> dict[str, Any]:
        """Save a slice by name."""
        caller.require(study, "save slices")
        return asdict(save(study, name, body.expression, body.replace, caller.name))


def _add_search(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.post("/search", response_model=answers.LiveAnswer)
    async def search_live(caller: Asking, body: requests.LiveRequest) -> dict[str, Any]:
        """Search with a retriever now, and return passages by id."""
        found = await version.search(caller, body.retriever, body.questions, body.k)
        return {"retriever": body.retriever, "hits": await run_in_threadpool(reading.named_hits, study, found.hits)}

    @router.get("/find", response_model=answers.FoundAnswer)
    def find_text(
        caller: Asking,
        words: Annotated[str, Query(min_length=1, max_length=full_text.MAX_WORDS, description="Words to find.")],
        place: Annotated[full_text.Place, Query(description="Where to look.")] = "passages",
        limit: Annotated[int, Query(ge=1, le=full_text.MAX_FOUND, description="Number of results.")] = 20,
    ) -> dict[str, Any]:
        """Find words in passages, questions or the notes of annotators, as `blindspot find` does."""
        return reading.find(study, caller, words, place, limit)


def _add_labels(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/labels", response_model=answers.LabelsAnswer)
    def labels_of_question(
        caller: Asking, question: Annotated[str, Query(max_length=256, description="Id of the question.")]
    ) -> dict[str, Any]:
        """The labels of a question's passages: your own, or everybody's if you may see them."""
        return labelling.labels_of_question(study, caller, question)

    @router.post("/labels", response_model=answers.ReceiptsAnswer)
    def give_labels(caller: Asking, body: requests.LabelsRequest) -> dict[str, Any]:
        """Store label events in your own name. Send them again, with the same ids, if no answer comes: an event is
        stored once.
        """
        events = [each.model_dump(exclude_unset=True) for each in body.events]
        return {"receipts": labelling.store_events(study, caller, events)}

    @router.post("/queue", response_model=answers.Items[answers.QuestionToJudge])
    def take_questions(caller: Asking, body: requests.QueueRequest) -> dict[str, Any]:
        """Take questions of the open batches to judge, without ranks and scores, for 15 minutes."""
        return {"items": labelling.take_questions(study, caller, body.count)}


def _add_judgements(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/machines", response_model=answers.Items[answers.MachineItem])
    def list_machines(caller: Asking) -> dict[str, Any]:
        """List the machine annotators."""
        caller.require(study, labelling.OTHERS)
        return {"items": labelling.machine_annotators(study)}

    @router.get("/judgements", response_model=answers.Page[answers.MachineLabelItem])
    def list_judgements(
        caller: Asking,
        machine: Annotated[str, Query(max_length=128, description="Name of the machine annotator.")],
        offset: Offset = 0,
        limit: Limit = 100,
    ) -> dict[str, Any]:
        """List the labels of a machine annotator."""
        caller.require(study, labelling.OTHERS)
        return labelling.machine_judgements(study, machine, offset, limit)

    @router.post("/judgements", response_model=answers.ReceiptsAnswer)
    def give_judgements(caller: Asking, body: requests.JudgementsRequest) -> dict[str, Any]:
        """Store labels of a machine annotator, all or none. They count for no consensus and no agreement of people."""
        given = [labelling.machine_event(each.id, each.question, each.labels) for each in body.items]
        return {"receipts": labelling.store_judgements(study, caller, body.machine, given)}


def _add_jobs(router: APIRouter, version: Version1) -> None:
    study = version.study

    @router.get("/job-kinds", response_model=answers.Items[job_requests.StartableJob])
    def list_job_kinds(caller: Asking) -> dict[str, Any]:
        """List the jobs that you may start here, with their arguments."""
        caller.require(study, "see results")
        mine = [kind for kind in job_requests.STARTABLE if caller.is_allowed(study, action_of_job(kind))]
        return {"items": [asdict(job_requests.startable(kind)) for kind in mine]}

    @router.get("/jobs", response_model=answers.Items[answers.JobAnswer])
    def list_jobs(
        caller: Asking, limit: Annotated[int, Query(ge=1, le=100, description="Number of jobs.")] = 20
    ) -> dict[str, Any]:
        """List the last jobs, newest first."""
        caller.require(study, "see results")
        return {"items": job_requests.recent_jobs(study, caller, limit)}

    @router.post("/jobs", response_model=answers.JobAnswer, status_code=202)
    def start_job(caller: Asking, body: requests.JobStart) -> dict[str, Any]:
        """Start a job in a process of its own."""
        started = job_requests.start_job(study, caller, body.kind, body.arguments, body.id)
        return job_requests.job_state(study, caller, started)

    @router.get("/jobs/{job}", response_model=answers.JobAnswer)
    def one_job(caller: Asking, job: JobName) -> dict[str, Any]:
        """A job as it is now."""
        caller.require(study, "see results")
        return job_requests.job_state(study, caller, job)

    @router.get("/jobs/{job}/log", response_model=answers.LogAnswer)
    def log_of_job(caller: Asking, job: JobName) -> dict[str, Any]:
        """The end of what a job printed."""
        caller.require(study, "cancel jobs")
        return {"job": job, "log": job_requests.log_end(study, job)}

    @router.post("/jobs/{job}/cancel", response_model=answers.JobAnswer)
    def cancel_job(caller: Asking, job: JobName) -> dict[str, Any]:
        """Ask a job to stop. It keeps its finished work."""
        return job_requests.cancel_job(study, caller, job)

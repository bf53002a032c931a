"""The `blindspot` command: a thin layer, one function per command. Heavy things load inside the commands that need them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from app.cli_batches import batch_app
from app.cli_compare import compare
from app.cli_labels import labels_app
from app.cli_map import map_app
from app.cli_people import people_app
from db.errors import BlindspotError

if TYPE_CHECKING:
    from backend.study import Study

LOOP = ("demo", "new", "import", "status", "index", "encoder", "retrieve", "report", "compare", "map", "open", "batch", "people", "labels", "export",
        "download", "jobs")


class _InOrder(TyperGroup):
    """Lists commands in the order in which they are used; Typer would put the ones with sub-commands last."""

    def list_commands(self, context: object) -> list[str]:
        return sorted(self.commands, key=lambda name: LOOP.index(name) if name in LOOP else len(LOOP))


def _group(about: str) -> typer.Typer:
    """Plain help: it reads the same on a terminal, in a log and in the docs."""
    return typer.Typer(help=about, cls=_InOrder, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
                       rich_markup_mode=None)


app = _group("Find where a dense passage retriever is blind, mend its training data by hand, train it again.")
import_app = _group("Bring passages, questions or entity frequencies into a study.")
index_app = _group("Index the passages for BM25 or for dense retrieval.")
encoder_app = _group("The encoders that study.toml names.")
export_app = _group("Write parts of a study in the form that other tools read.")
jobs_app = _group("Long work: what runs, what failed and why.")

StudyOption = Annotated[str | None, typer.Option("--study", metavar="DIR", help="The study's folder; default $BLINDSPOT_STUDY, else here.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file to read; .gz and .xz are unpacked on the way.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Import the rest when rows are bad; what is left out goes to a file.")]
Format = Annotated[str | None, typer.Option("--format", help="The format, where its content does not tell.")]
Encoder = Annotated[str, typer.Option("--encoder", help="An encoder of study.toml.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1; default a GPU if there is one.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting of the format; see docs/formats.md.")]
Split = Annotated[str | None, typer.Option(help="train, dev, test, unlabelled, a question set, or SET/SPLIT; default all.")]
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Where to; default a name of its own, here.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for scripts.")]


def main() -> None:
    """Run the command; what a person can put right is one line and exit code 1."""
    try:
        app()
    except BlindspotError as error:
        print(f"blindspot: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__ != "sqlite3":
            raise  # a fault of ours: the traceback is wanted
        print(f"blindspot: {error}", file=sys.stderr)  # a full disk, a file that may not be read or written
        sys.exit(1)


def _open(folder: str | None) -> Study:
    from backend.study import Study

    return Study.open(folder)


def _do(study: Study, job: str, /, **arguments: Any) -> Any:
    """Do a job here, with a progress bar."""
    from backend import jobs

    with _progress() as watch:
        return jobs.run(study, job, arguments, watch)


@contextmanager
def _progress() -> Iterator[Any]:
    """Show progress; on Ctrl-C say what is kept, and exit with 130."""
    from app.progress import shown
    from backend.jobs import CANCELLED

    try:
        with shown() as watch:
            yield watch
    except KeyboardInterrupt:
        print(f"\nblindspot: {CANCELLED}", file=sys.stderr)
        raise typer.Exit(130) from None


@app.command()
def new(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
        title: Annotated[str | None, typer.Option("--name", help="The study's name; default the folder's.")] = None,
        results: Annotated[list[Path] | None, typer.Option(
            "--from-run", metavar="FILE", help="Start from retriever output (DPR, Pyserini); may be given several times.")] = None,
        split: Annotated[str, typer.Option(help="With --from-run: the split of its questions.")] = "test",
        skip_bad: SkipBad = False) -> None:
    """Make an empty study, or one of retriever output."""
    if results:
        from app.tables import print_made_from_results
        from backend.from_results import study_from_results

        with _progress() as watch:
            made = study_from_results(folder, results, title, split, skip_bad, watch)
        print_made_from_results(made, str(folder))
        return
    from backend.study import Study

    study = Study.create(folder, title)
    print(f"Made the study {study.folder}. Next: blindspot import passages FILE --study {folder}")


@import_app.command("passages")
def import_passages(file: FileArgument, study: StudyOption = None, format: Format = None, skip_bad: SkipBad = False,
                    settings: Settings = None) -> None:
    """Import the passage collection: psgs_w100.tsv, JSONL, BEIR, MS MARCO, or articles to cut."""
    _import(study, "passages", path=str(file.absolute()), format=format, skip_bad=skip_bad, settings=settings or [])


@import_app.command("questions")
def import_questions(
    file: FileArgument, study: StudyOption = None, format: Format = None,
    split: Annotated[str | None, typer.Option(help="For files that do not say: train, dev, test or unlabelled.")] = None,
    dataset: Annotated[str | None, typer.Option(help="For files that do not say: the question set's name.")] = None,
    gold: Annotated[str, typer.Option(help="all: every gold passage. one: one a question, the rest count as unlabelled.")] = "all",
    skip_bad: SkipBad = False, settings: Settings = None,
) -> None:
    """Import questions, in any of the field's formats."""
    _import(study, "questions", path=str(file.absolute()), format=format, split=split, dataset=dataset, gold=gold, skip_bad=skip_bad,
            settings=settings or [])
    opened = _open(study)
    if opened.has_corpus and opened.questions.subjects(without_frequency=True):
        print("Some subjects have no frequency: import them ('blindspot import frequencies FILE') or count them here "
              "('blindspot import frequencies --count').")


@import_app.command("frequencies")
def import_frequencies(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="A TSV with a header: entity, count.")] = None,
    count: Annotated[bool, typer.Option("--count", help="Count the passages that mention each subject instead.")] = False,
    study: StudyOption = None, skip_bad: SkipBad = False,
) -> None:
    """Give the questions' subjects their frequencies: from a file, or counted in the passages."""
    if (file is None) == (not count):
        raise typer.BadParameter("give a FILE, or --count to count mentions in the passages")
    if file is not None:
        _import(study, "frequencies", path=str(file.absolute()), skip_bad=skip_bad)
    else:
        _say_imported(_do(_open_or_new(study), "count frequencies"), "subjects")


@import_app.command("qrels")
def import_qrels(file: FileArgument, study: StudyOption = None, format: Format = None, skip_bad: SkipBad = False) -> None:
    """Import relevance judgements (TREC, BEIR, MS MARCO): relevant passages become gold."""
    _say_imported(_do(_open(study), "import qrels", path=str(file.absolute()), format=format, skip_bad=skip_bad), "qrels")


@import_app.command("run")
def import_run(
    file: FileArgument,
    name: Annotated[str, typer.Option("--name", help="The run's name in the study.")],
    study: StudyOption = None, format: Format = None,
    split: Annotated[str | None, typer.Option(help="The questions it is over; those it does not name then count as not found.")] = None,
    rule: Annotated[str, typer.Option(help="Answer matching: dpr, regex, entityquestions or rocketqa_mining.")] = "dpr",
    replace: Annotated[bool, typer.Option("--replace", help="Import a run of that name again.")] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Import a run that another tool made: TREC, DPR's or Pyserini's output, MS MARCO."""
    _say_imported(_do(_open(study), "import run", path=str(file.absolute()), name=name, format=format, split=split, rule=rule,
                      replace=replace, skip_bad=skip_bad), "questions of a run")


def _import(folder: str | None, what: str, **arguments: Any) -> None:
    _say_imported(_do(_open_or_new(folder), f"import {what}", **arguments), what)


def _open_or_new(folder: str | None) -> Study:
    """A first import into an empty folder makes the study."""
    import os

    from backend.study import ENVIRONMENT_VARIABLE, Study

    place = Path(folder or os.environ.get(ENVIRONMENT_VARIABLE) or ".")
    if place.is_dir() and not any(place.iterdir()):
        return Study.create(place)
    return Study.open(place)


def _say_imported(result: Any, what: str) -> None:
    if not result.unchanged:
        rate = f" ({result.rows / result.seconds:,.0f} rows/s)" if result.seconds >= 1 else ""
        print(f"Imported {result.rows:,} {what} in {result.seconds:.1f} s{rate}.")
    if result.left_out:
        print(f"Left out {result.left_out:,} bad rows: see {result.left_out_file}")
    for note in result.notes:
        print(note)


@app.command()
def status(study: StudyOption = None, json: AsJson = False) -> None:
    """Show what the study holds and what to do next."""
    from app.tables import print_json, print_status
    from backend.summary import next_steps, summary

    opened = _open(study)
    if json:
        print_json(summary(opened))
    else:
        print_status(summary(opened), next_steps(opened))


@index_app.command("bm25")
def index_bm25(study: StudyOption = None,
               threads: Annotated[int | None, typer.Option(min=1, help="Indexing threads; default all cores.")] = None) -> None:
    """Index the passages with Lucene."""
    manifest = _do(_open(study), "index bm25", threads=threads)
    print(f"Indexed {manifest['passages']:,} passages for BM25 in {manifest['seconds']} s.")


@index_app.command("dense")
def index_dense(
    study: StudyOption = None, encoder: Encoder = "minilm",
    vectors: Annotated[Path | None, typer.Option(metavar="FILE.npy", help="Take vectors made elsewhere, row i for passage i.")] = None,
    device: Device = None,
) -> None:
    """Encode the passages, or take their vectors from a file. Goes on where it was interrupted."""
    manifest = _do(_open(study), "index dense", name=encoder, vectors=None if vectors is None else str(vectors.absolute()), device=device)
    print(f"{manifest['passages']:,} passages, {manifest['dimension']} dimensions, similarity {manifest['similarity']}, "
          f"{manifest['made_by']}, {manifest['seconds']} s.")


@index_app.command("faiss")
def index_faiss(
    kind: Annotated[str, typer.Option(metavar="flat|hnsw|ivfpq", help="The index.")] = "hnsw",
    encoder: Encoder = "minilm",
    links: Annotated[int | None, typer.Option(min=2, help="HNSW: links per vector; default 32, DPR took 512.")] = None,
    build_effort: Annotated[int | None, typer.Option(min=1, help="HNSW: efConstruction; default 200.")] = None,
    search_effort: Annotated[int | None, typer.Option(min=1, help="HNSW: efSearch; default 128.")] = None,
    lists: Annotated[int | None, typer.Option(min=1, help="IVF-PQ: inverted lists; default 4 x the square root of n.")] = None,
    code_bytes: Annotated[int | None, typer.Option(min=1, help="IVF-PQ: bytes per vector; default 64.")] = None,
    probes: Annotated[int | None, typer.Option(min=1, help="IVF-PQ: lists searched; default 64.")] = None,
    device: Device = None, study: StudyOption = None,
) -> None:
    """Build a FAISS index over an encoder's vectors, and measure its recall against exact search."""
    given = {"links": links, "build_effort": build_effort, "search_effort": search_effort, "lists": lists, "code_bytes": code_bytes, "probes": probes}
    manifest = _do(_open(study), "index faiss", name=encoder, kind=kind, device=device,
                   options={key: value for key, value in given.items() if value is not None})
    recall = ", ".join(f"@{k} {100 * value:.1f}%" for k, value in manifest["recall"].items() if k.isdigit())
    print(f"{kind}: {manifest['passages']:,} vectors, {manifest['bytes'] / 1e6:,.0f} MB, {manifest['seconds']} s. Of the exact hits it finds "
          f"{recall} (mean over {manifest['recall']['n']} {manifest['recall']['of']}).")


@encoder_app.command("add")
def encoder_add(
    encoder: Annotated[str, typer.Argument(metavar="NAME", help="A name for it, used by --encoder.")],
    model: Annotated[str | None, typer.Option(help="A sentence-transformers or Hugging Face folder or name.")] = None,
    question_model: Annotated[str | None, typer.Option(help="The question tower (DPR), with --passage-model.")] = None,
    passage_model: Annotated[str | None, typer.Option(help="The passage tower (DPR), with --question-model.")] = None,
    pooling: Annotated[str | None, typer.Option(help="cls or mean, for a plain Hugging Face model.")] = None,
    similarity: Annotated[str | None, typer.Option(help="dot, cosine or l2, where the model does not say.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=8, help="Longer texts are cut; default 256.")] = None,
    study: StudyOption = None,
) -> None:
    """Name an encoder in study.toml, after loading it once to see that it works."""
    from backend.retrieval.encoder import load_encoder
    from backend.settings import EncoderSettings, add_encoder

    folders = {"model": model, "question_model": question_model, "passage_model": passage_model}
    values = {**{key: str(Path(value).absolute()) if value and Path(value).is_dir() else value for key, value in folders.items()},
              "pooling": pooling, "similarity": similarity, "max_tokens": max_tokens}
    opened = _open(study)
    if (model is None) == (question_model is None or passage_model is None):
        raise typer.BadParameter("give --model, or --question-model and --passage-model")
    loaded = load_encoder(EncoderSettings(**{key: value for key, value in values.items() if value is not None}), "cpu")
    add_encoder(opened.settings_path, encoder, values)
    print(f"{encoder}: {loaded.dimension} dimensions, similarity {loaded.similarity}, pooling {loaded.pooling}. "
          f"Next: blindspot index dense --encoder {encoder}")


@encoder_app.command("list")
def encoder_list(study: StudyOption = None) -> None:
    """List the encoders of study.toml."""
    for name, settings in _open(study).settings.encoders.items():
        print(f"{name}: {settings.model or f'{settings.question_model} + {settings.passage_model}'}")


@app.command()
def retrieve(
    retriever: Annotated[str, typer.Option("--with", metavar="bm25|dense|hybrid", help="The retriever.")],
    k: Annotated[int | None, typer.Option("--k", min=1, help="Hits per question; default from study.toml (100).")] = None,
    split: Annotated[str | None, typer.Option(help="train, dev, test, unlabelled, a question set, or SET/SPLIT; default all.")] = None,
    name: Annotated[str | None, typer.Option(help="The run's name; default as in bm25-dev.")] = None,
    encoder: Encoder = "minilm",
    fusion: Annotated[str | None, typer.Option(metavar="auto|weighted|rrf", help="How hybrid joins the lists; default from study.toml.")] = None,
    weight: Annotated[float | None, typer.Option(help="Hybrid: BM25 + WEIGHT x dense (DPR: 1.1).")] = None,
    missing: Annotated[str, typer.Option(metavar="exact|minimum", help="Hybrid, weighted: the score of a passage one list lacks.")] = "exact",
    tune: Annotated[bool, typer.Option("--tune", help="Hybrid, weighted: choose the weight on dev (Success@20).")] = False,
    approximate: Annotated[str | None, typer.Option(metavar="flat|hnsw|ivfpq", help="Dense: search this FAISS index instead of all vectors.")] = None,
    rule: Annotated[str, typer.Option(help="Answer matching: dpr, regex, entityquestions or rocketqa_mining.")] = "dpr",
    replace: Annotated[bool, typer.Option("--replace", help="Make a run of that name again.")] = False,
    device: Device = None, study: StudyOption = None,
) -> None:
    """Search every question and keep the hits as a run."""
    run = _do(_open(study), "retrieve", kind=retriever, k=k, split=split, name=name, encoder=encoder, method=fusion, weight=weight,
              missing=missing, tune=tune, approximate=approximate, rule=rule, replace=replace, device=device)
    seconds, count = run.manifest["search_seconds"], run.manifest["questions"]
    print(f"Run {run.name}: {count:,} questions, k={run.hits.k}, {seconds} s ({count / max(seconds, 0.01):,.0f} questions/s).")
    if tuned := run.manifest.get("tuned"):
        print(f"Weight {run.manifest['weight']} gave the best {tuned['measure']} on {tuned['on']} (n={tuned['n']}).")


@app.command()
def report(
    run: Annotated[list[str] | None, typer.Option("--run", help="A run; may be given several times; default all.")] = None,
    by: Annotated[str | None, typer.Option(metavar="relation|bucket|split|slice", help="A table per group.")] = None,
    relevance: Annotated[str, typer.Option(metavar="answers|gold", help="What counts as found.")] = "answers",
    rule: Annotated[str, typer.Option(help="The answer matching rule.")] = "dpr",
    k: Annotated[str, typer.Option("--k", metavar="K,K,...", help="The cut-offs.")] = "1,5,20,100",
    json: AsJson = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="A LaTeX table (booktabs).")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="One HTML file with every table and plot.")] = None,
    study: StudyOption = None,
) -> None:
    """Accuracy of the runs, with n and intervals."""
    from backend.report import report as make

    if json + csv + latex + (html is not None) > 1:
        raise typer.BadParameter("give one of --json, --csv, --latex, --html")
    if html is not None:
        from backend.html_report import write_html_report

        size = write_html_report(_open(study), html, run or None, relevance, rule)
        print(f"Wrote {html}: {size / 1e6:.1f} MB.")
        return
    if not all(part.strip().isdecimal() and len(part) < 10 for part in k.split(",")):
        raise typer.BadParameter("--k takes whole numbers with commas between, as in 10,50,1000")
    made = make(_open(study), run or None, by, relevance, rule, [int(part) for part in k.split(",")])
    if json or csv or latex:
        text = made.as_json() if json else made.as_csv() if csv else made.as_latex()
        print(text.rstrip("\n"))
    else:
        from rich.console import Console

        Console().print(made.as_rich())


@export_app.command("run")
def export_run(
    run: Annotated[str, typer.Argument(metavar="NAME", help="The run.")],
    format: Annotated[str, typer.Option("--format", metavar="trec|dpr|pyserini|msmarco", help="The form to write it in.")],
    out: Out = None, study: StudyOption = None,
) -> None:
    """Write a run for other tools: TREC, DPR's or Pyserini's output, MS MARCO."""
    from backend.exporting import export_run as export

    _say_exported(export(_open(study), run, format, out))


@export_app.command("qrels")
def export_qrels(
    format: Annotated[str, typer.Option("--format", metavar="trec|beir|msmarco", help="The form to write them in.")],
    split: Split = None, out: Out = None, study: StudyOption = None,
) -> None:
    """Write the gold of the questions as relevance judgements."""
    from backend.exporting import export_qrels as export

    _say_exported(export(_open(study), format, split, out))


@export_app.command("questions")
def export_questions(
    format: Annotated[str, typer.Option("--format", metavar="question-jsonl|dpr-csv|beir|msmarco", help="The form to write them in.")],
    split: Split = None, out: Out = None, study: StudyOption = None,
) -> None:
    """Write the questions."""
    from backend.exporting import export_questions as export

    _say_exported(export(_open(study), format, split, out))


@export_app.command("passages")
def export_passages(
    format: Annotated[str, typer.Option("--format", metavar="psgs|beir|msmarco", help="The form to write them in.")],
    out: Out = None, study: StudyOption = None,
) -> None:
    """Write the passage collection."""
    from backend.exporting import export_passages as export

    _say_exported(export(_open(study), format, out))


def _say_exported(written: Any) -> None:
    print(f"Wrote {written.path}: {written.rows:,} rows.")
    for note in written.notes:
        print(note)


@app.command()
def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help="entityquestions, wikipedia, nq or dpr.")],
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the files go.")] = Path("downloads"),
) -> None:
    """Fetch the field's data sets and models, for those who have a network. Goes on where it broke off."""
    from backend.download import NEXT
    from backend.download import download as fetch

    with _progress() as watch:
        paths = fetch(name, folder, watch)
    for path in paths:
        print(f"Have {path}")
    print("Next: " + NEXT[name].format(folder=folder))


@jobs_app.command("list")
def jobs_list(study: StudyOption = None) -> None:
    """List the last jobs, newest first."""
    from app.tables import print_jobs
    from backend import jobs

    print_jobs(jobs.recent(_open(study)))


@jobs_app.command("log")
def jobs_log(job: Annotated[str, typer.Argument(metavar="ID")], study: StudyOption = None) -> None:
    """Print what a job printed."""
    from backend import jobs

    opened = _open(study)
    jobs.status(opened, job)
    print(jobs.log(opened, job), end="")


@jobs_app.command("cancel")
def jobs_cancel(job: Annotated[str, typer.Argument(metavar="ID")], study: StudyOption = None) -> None:
    """Ask a job to stop."""
    from backend import jobs

    jobs.cancel(_open(study), job)
    print(f"Asked {job} to stop.")


@app.command("open")
def open_app(
    study: StudyOption = None,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 8501,
    address: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 lets others in, who sign in by a personal link.")] = "localhost",
    without_sign_in: Annotated[bool, typer.Option("--without-sign-in", help="Believe everybody who comes.")] = False,
) -> None:
    """Open the study in the app, on http://localhost:8501."""
    from app.server import serve

    serve(_open(study), port, address, without_sign_in)


@app.command()
def demo(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the demo study lies or will lie.")] = Path("demo"),
    passages: Annotated[int, typer.Option(min=500, max=1_000_000, help="Passages of the generated encyclopedia.")] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="The seed it is generated from.")] = 0,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 8501,
    app: Annotated[bool, typer.Option("--app/--no-app", help="Open the app at the end.")] = True,
) -> None:
    """Make the demo study, retrieve three ways, open the app."""
    from app.server import serve
    from backend.demo import make_demo

    with _progress() as watch:
        study, lines = make_demo(folder, passages, seed, watch)
    for line in lines:
        print(line)
    if app:
        serve(study, port)


app.command("compare")(compare)
GROUPS = {"import": import_app, "index": index_app, "encoder": encoder_app, "map": map_app, "batch": batch_app, "people": people_app,
          "labels": labels_app, "export": export_app, "jobs": jobs_app}
for name, group in GROUPS.items():
    app.add_typer(group, name=name)

if __name__ == "__main__":
    main()

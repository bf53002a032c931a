"""`blindspot judge`: judges that estimate how probably a passage answers a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from blindspot.app.commands.common import (
    AsJson,
    FileArgument,
    SkipBad,
    StudyOption,
    Trust,
    do,
    group,
    open_study,
    print_json,
    trust_models,
)
from blindspot.app.commands.options import takes_settings
from blindspot.app.judge_texts import asked_lines, cost_words, language_model_line, plan_lines, quality_lines
from blindspot.backend.judges.settings import FeatureJudgeSettings, LLMSettings
from blindspot.backend.text.number_words import duration, quantity
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.judges.measuring import Sample

LLM_KIND = "llm"
judge_app = group("Learn a judge from your labels in seconds, and judge the passages of runs with it.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the judge.")]
Run = Annotated[str, typer.Option(metavar="RUN", help="Run whose passages are judged.")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the judge of this name if it exists.")]
WithEncoder = Annotated[
    str | None,
    typer.Option(
        help="Also use similarities from this encoder's dense index (default: the study's oldest one; none: from no index)."
    ),
]


@judge_app.command("add")
@takes_settings(LLMSettings)
def add(
    name: Name,
    model: Annotated[
        str | None, typer.Option("--from", metavar="MODEL", help="A cross-encoder's folder or Hugging Face name.")
    ] = None,
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="An OpenAI-compatible endpoint, as in http://localhost:8000/v1.")
    ] = None,
    served: Annotated[str | None, typer.Option("--model", metavar="M", help="Model that the endpoint serves.")] = None,
    prompt: Annotated[
        str,
        typer.Option(
            metavar="umbrella|rocketqa|FILE",
            help="Prompt for the language model: a name, or a file with {question} and {passage}.",
        ),
    ] = "umbrella",
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Cross-encoder: a run over training questions to calibrate on; default no calibration."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Cross-encoder: cpu or cuda; default a GPU if there is one.")
    ] = None,
    *,
    settings: dict[str, Any],
    replace: Replace = False,
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Use a ready judge without any training: a language model behind an endpoint, or a cross-encoder."""
    if endpoint is not None and model is not None:
        raise Refused("give --endpoint or --from, not both")
    if model is not None:
        if settings or served:
            raise Refused("--model and the options of language models go with --endpoint, not with --from")
        _add_cross_encoder(open_study(study), name, model, run, device, replace, trust)
        return
    if endpoint is None:
        raise Refused("give --endpoint URL for a language model, or --from MODEL for a cross-encoder")
    from blindspot.backend.core.consent import how_to_allow
    from blindspot.backend.judges.llm.endpoint import destination
    from blindspot.backend.judges.llm.judge import add_llm_judge

    opened = open_study(study)
    judge = add_llm_judge(opened, name, endpoint, served or "", prompt, settings, replace)
    to = destination(judge.about["endpoint"])
    print(f"Added {name}: {judge.model}, prompt {judge.prompt.name}, grades 0 to {judge.prompt.top}.")
    print(f"Texts will go to {to}. Nothing was sent yet. {how_to_allow(opened, judge.about['endpoint'])}")
    print(f"Next: blindspot judge run {name} --run RUN --dry-run")


def _add_cross_encoder(
    open_study: Study, name: str, model: str, run: str | None, device: str | None, replace: bool, trust: bool
) -> None:
    from blindspot.backend.training.ready_cross_encoder import add_cross_encoder

    if trust:
        trust_models(open_study, model)
    made = do(add_cross_encoder, open_study, name, model, run=run, device=device, replace=replace)
    report = made["report"]
    if report is None:
        print(
            f"Added {name}, not calibrated: its probabilities are the plain logistic of its scores. Give --run to "
            "calibrate it."
        )
    else:
        print(
            f"Added {name}, calibrated ({report['method']}) on {quantity(report['pairs'], 'pair')}, "
            f"{report['base_rate']:.1%} positive."
        )
    print(f"Next: blindspot train score {name} --run RUN")


def _encoder_of_features(open_study: Study, given: str | None) -> str | None:
    """Return the encoder whose similarities a judge uses: the given one, or the one that the form of the app offers first."""
    from blindspot.backend.retrieval.dense import dense_indexes

    if given is None:
        return next(iter(dense_indexes(open_study)), None)
    return None if given == "none" else given


@judge_app.command("learn")
@takes_settings(FeatureJudgeSettings)
def learn(
    name: Name,
    run: Annotated[str, typer.Option(metavar="RUN", help="Run over training questions to learn from.")],
    encoder: WithEncoder = None,
    *,
    settings: dict[str, Any],
    replace: Replace = False,
    study: StudyOption = None,
) -> None:
    """Learn from gold and people's labels which passages answer a question. Takes seconds, without a GPU."""
    from blindspot.backend.judges.feature_judge import learn_judge

    opened = open_study(study)
    encoder = _encoder_of_features(opened, encoder)
    result = do(learn_judge, opened, name, run, encoder=encoder, settings=settings, replace=replace)
    about = result.report
    print(
        f"Learned {name} from {quantity(about['labelled_questions'], 'labelled question')} "
        f"({quantity(about['pairs'], 'pair')}) in {result.seconds:,.0f} s: {about['model']}, {len(about['features'])} "
        "features."
    )
    for line in quality_lines(about):
        print(f"  {line}")
    print(f"Next: blindspot retrieve --with rerank --judge {name} --split dev")


@judge_app.command("run")
def run_judge(
    name: Name,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Run whose passages are judged. Language model: default the pairs people settled."
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Language model: ranks of each question (default 20).")
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Language model: maximum number of pairs in all, including those of earlier calls."),
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0, help="Language model: maximum total cost, including that of earlier calls; needs prices."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Language model: show requests, tokens, cost and time, and send nothing.")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Judge passages with a judge of any kind and store the scores. Pairs that are already judged keep their scores."""
    from blindspot.backend.judges.judge import judge_kind_of

    opened = open_study(study)
    kind = judge_kind_of(opened, name)
    if kind.name == LLM_KIND:
        _ask_language_model(opened, name, run, depth, limit, max_cost, dry_run)
        return
    if any(given is not None for given in (depth, limit, max_cost)) or dry_run:
        raise Refused(
            "--depth, --limit, --max-cost and --dry-run are for language models; "
            f"{name!r} is a judge of kind {kind.title!r}"
        )
    if kind.run_job is None:
        raise Refused(f"the scores of {name!r} were imported; import a file again with 'blindspot judge import'")
    if run is None:
        raise Refused("name the run whose passages are judged with --run")
    result = do(kind.run_job, opened, name, run)
    pairs = quantity(result["pairs"] if "pairs" in result else result["scored"], "pair")
    questions = f" of {quantity(result['questions'], 'question')}" if "questions" in result else ""
    print(f"Judged {pairs}{questions}.")


def _ask_language_model(
    open_study: Study,
    name: str,
    run: str | None,
    depth: int | None,
    limit: int | None,
    max_cost: float | None,
    dry_run: bool,
) -> None:
    from blindspot.backend.judges.llm.judging import DEPTH, judge_with_llm, plan

    if dry_run:
        for line in plan_lines(plan(open_study, name, run, depth or DEPTH, limit), max_cost):
            print(line)
        return
    found = do(judge_with_llm, open_study, name, run, depth=depth or DEPTH, limit=limit, max_cost=max_cost)
    print(
        f"Judged {quantity(found['pairs'], 'pair')} with {quantity(found['requests'], 'request')} and "
        f"{found['tokens_in'] + found['tokens_out']:,} tokens{cost_words(found['cost'])} in {duration(found['seconds'])}."
    )
    for line in asked_lines(found, limit, max_cost):
        print(line)
    print(f"Next: blindspot judge measure {name}")


@judge_app.command("import")
def import_judge(
    name: Name,
    file: FileArgument,
    format: Annotated[
        str, typer.Option("--format", metavar="qrels|umbrela|rlhn|jsonl", help="Format of the file (default qrels).")
    ] = "qrels",
    positive_from: Annotated[
        int | None, typer.Option(min=1, help="Lowest positive grade (default: 2 for umbrela, else 1).")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the imported judgements of this name if they exist.")
    ] = False,
    skip_bad: SkipBad = False,
    study: StudyOption = None,
) -> None:
    """Import the judgements of another tool as a judge. They are a machine's: people's labels stay as they are."""
    from blindspot.backend.judges.imported import import_judgements

    done = do(import_judgements, open_study(study), name, str(file), format, positive_from, replace, skip_bad)
    print(f"Imported {quantity(done['pairs'], 'judgement')} as {name}.")
    if done["left_out"]:
        print(f"Left out {quantity(done['left_out'], 'line')}; they are listed in {done['file']}")
    print(f"Next: blindspot judge measure {name}")


@judge_app.command("measure")
def measure(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Judges to measure (default: all with scores).")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="audit|settled",
            help=(
                "Pairs to measure on: the random audits, or all that people settled (default: audits if there are any)."
            ),
        ),
    ] = None,
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Measure judges on pairs that people settled: precision, recall, kappa, calibration, and where to trust each."""
    from dataclasses import asdict

    from blindspot.backend.judges.measuring import measure_judges

    found = measure_judges(open_study(study), names or None, cast("Sample | None", sample))
    if as_json:
        print_json(asdict(found))
        return
    from blindspot.app.judge_tables import print_judge, print_judges

    print_judges(found)
    if len(found.judges) == 1 and found.judges[0].figures is not None:
        print_judge(found.judges[0].figures)


@judge_app.command("list")
def list_judges(as_json: AsJson = False, study: StudyOption = None) -> None:
    """List the judges of every kind with the quality of each."""
    from blindspot.backend.judges.feature_judge import KIND, feature_judges
    from blindspot.backend.judges.judge import judges_of, kind_title, unknown_judges

    opened = open_study(study)
    found = feature_judges(opened)
    if as_json:
        print_json(found)
        return
    cards, unknown = judges_of(opened), unknown_judges(opened)
    if not cards and not unknown:
        print("No judge yet. Learn one: blindspot judge learn NAME --run RUN")
    for about in found:
        print(
            f"{about['name']}: {about['model']}, from {about['run']}, "
            f"{quantity(about['labelled_questions'], 'labelled question')}"
        )
        for line in quality_lines(about):
            print(f"  {line}")
    for card in cards:
        if card.kind != KIND:
            says = "calibrated" if card.calibrated else "not calibrated"
            scores = "" if card.scored else f"; no scores yet, run: blindspot judge run {card.name} --run RUN"
            if card.kind == LLM_KIND:
                print(f"{card.name}: {language_model_line(opened, card)}")
                continue
            print(f"{card.name}: {kind_title(card.kind)}, from {card.learned_from or 'elsewhere'}, {says}{scores}")
    for name, line in unknown.items():
        print(f"{name}: {line}")

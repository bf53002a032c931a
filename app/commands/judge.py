"""`blindspot judge`: judges that estimate how probably a passage answers a question."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands.common import AsJson, StudyOption, Trust, do, group, open_study, trust_models
from app.commands.options import takes_settings
from backend.judges.settings import FeatureJudgeSettings
from backend.text.counting import counted

judge_app = group("Learn a judge from your labels in seconds, and judge the passages of runs with it.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the judge.")]
Run = Annotated[str, typer.Option(metavar="RUN", help="Run whose passages are judged.")]


@judge_app.command("add")
def add(
    name: Name,
    model: Annotated[
        str, typer.Option("--from", metavar="MODEL", help="A cross-encoder's folder or Hugging Face name.")
    ],
    run: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="A run over training questions to calibrate on; default no calibration."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if there is one.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a model of that name.")] = False,
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Use a ready cross-encoder as a judge, without any training."""
    from backend.training.ready_cross_encoder import add_cross_encoder

    opened = open_study(study)
    if trust:
        trust_models(opened, model)
    made = do(add_cross_encoder, opened, name, model, run=run, device=device, replace=replace)
    report = made["report"]
    if report is None:
        print(
            f"Added {name}, not calibrated: its probabilities are the plain logistic of its scores. Give --run to calibrate it."
        )
    else:
        print(
            f"Added {name}, calibrated ({report['method']}) on {counted(report['pairs'], 'pair')}, {report['base_rate']:.1%} positive."
        )
    print(f"Next: blindspot train score {name} --run RUN")


@judge_app.command("learn")
@takes_settings(FeatureJudgeSettings)
def learn(
    name: Name,
    run: Annotated[str, typer.Option(metavar="RUN", help="Run over training questions to learn from.")],
    encoder: Annotated[
        str | None, typer.Option(help="Also use similarities from this encoder's dense index (default: none).")
    ] = None,
    *,
    settings: dict[str, Any],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the judge of this name if it exists.")] = False,
    study: StudyOption = None,
) -> None:
    """Learn from gold and people's labels which passages answer a question. Takes seconds, without a GPU."""
    from backend.judges.feature_judge import learn_judge

    result = do(learn_judge, open_study(study), name, run, encoder=encoder, settings=settings, replace=replace)
    about = result.report
    print(
        f"Learned {name} from {counted(about['labelled_questions'], 'labelled question')} "
        f"({counted(about['pairs'], 'pair')}) in {result.seconds:,.0f} s: {about['model']}, {len(about['features'])} features."
    )
    for line in _worth(about):
        print(f"  {line}")
    print(f"Next: blindspot retrieve --with rerank --judge {name} --split dev")


def _worth(about: dict[str, Any]) -> list[str]:
    """Return the judge's quality on out-of-fold training questions, as lines of text."""
    drop, settings = about["drop"], about["settings"]
    lines = [
        f"AUC {about['auc']:.3f}, average precision {about['average_precision']:.3f} "
        f"({about['positives']:,} positives, base rate {about['base_rate']:.1%}; {about['measured_on']})"
    ]
    if unknown := about.get("unknown", 0):
        lines.append(
            f"left out: {counted(unknown, 'pair')} ({unknown / about['pairs']:.1%}) contain an answer or are disputed, and nobody settled "
            "them; they teach nothing and set no threshold for negatives"
        )
    if drop["value"] is None:
        lines.append(
            f"no threshold keeps known positives under {settings['false_negatives']:.1%}: label more questions"
        )
    else:
        lines.append(
            f"keep as negatives below {drop['value']:.3f}: {drop['share']:.1%} of the kept are known positives "
            f"[{drop['low']:.1%}, {drop['high']:.1%}], n={drop['pairs']:,}"
        )
        lines += _bound(drop)
    with_answer = about.get("drop_with_answer") or {"value": None}
    if with_answer["value"] is None:
        lines.append("passages that contain an answer: kept as negatives only if people label them so")
    else:
        lines.append(
            f"passages that contain an answer: keep as negatives below {with_answer['value']:.3f}; "
            f"{with_answer['share']:.1%} of the kept are known positives "
            f"[{with_answer['low']:.1%}, {with_answer['high']:.1%}], n={with_answer['pairs']:,}"
        )
    for key, which in (("add", "passages"), ("add_with_answer", "passages that contain an answer")):
        add = about[key]
        if add["value"] is None:
            lines.append(f"{which}: no threshold reaches a precision of positives of {settings['precision']:.0%}")
        else:
            lines.append(
                f"{which}: add as positives from {add['value']:.3f}; precision {add['share']:.1%} "
                f"[{add['low']:.1%}, {add['high']:.1%}], n={add['pairs']:,}"
            )
    return lines


def _bound(drop: dict[str, Any]) -> list[str]:
    """Say what the share of false negatives would be if every pair that the threshold left out were one."""
    left_out = drop.get("left_out", 0)
    if not left_out:
        return []
    worst = (drop["share"] * drop["pairs"] + left_out) / (drop["pairs"] + left_out)
    return [
        f"another {counted(left_out, 'pair')} below it contain an answer and are not labelled: with them as negatives, up to "
        f"{worst:.1%} could be false, so the policy does not keep them"
    ]


@judge_app.command("run")
def run_judge(name: Name, run: Run, study: StudyOption = None) -> None:
    """Judge the passages of a run with a judge of any kind and store the probabilities. Pairs that are already judged
    keep their probabilities.
    """
    from backend.judges.judge import judge_kind_of

    opened = open_study(study)
    result = do(judge_kind_of(opened, name).run_job, opened, name, run)
    pairs = counted(result["pairs"] if "pairs" in result else result["scored"], "pair")
    print(
        f"Judged {pairs} of {counted(result['questions'], 'question')}."
        if "questions" in result
        else f"Judged {pairs}."
    )


@judge_app.command("list")
def list_judges(as_json: AsJson = False, study: StudyOption = None) -> None:
    """List the judges of every kind with the quality of each."""
    import json

    from backend.judges.feature_judge import KIND, feature_judges
    from backend.judges.judge import judges_of, kind_title

    opened = open_study(study)
    found = feature_judges(opened)
    if as_json:
        print(json.dumps(found, indent=2))
        return
    cards = judges_of(opened)
    if not cards:
        print("No judge yet. Learn one: blindspot judge learn NAME --run RUN")
    for about in found:
        print(
            f"{about['name']}: {about['model']}, from {about['run']}, {counted(about['labelled_questions'], 'labelled question')}"
        )
        for line in _worth(about):
            print(f"  {line}")
    for card in cards:
        if card.kind != KIND:
            says = "calibrated" if card.calibrated else "not calibrated"
            scores = "" if card.scored else f"; no scores yet, run: blindspot judge run {card.name} --run RUN"
            print(f"{card.name}: {kind_title(card.kind)}, from {card.learned_from or 'elsewhere'}, {says}{scores}")


@judge_app.command("explain")
def explain(
    name: Name,
    run: Run,
    question: Annotated[str, typer.Option(metavar="ID", help="Question of the run.")],
    passages: Annotated[int, typer.Option(min=1, max=100, help="Number of passages to show.")] = 5,
    study: StudyOption = None,
) -> None:
    """Show the judge's probability for a question's top passages, with the features that count for and against each."""
    from backend.judges.feature_judge import explain_question

    for judged in explain_question(open_study(study), name, run, question, passages):
        print(f"{judged.rank}. {judged.probability:.3f}  {judged.title} ({judged.passage})")
        print("     " + "; ".join(f"{label} {value:+.1f}" for label, value in judged.spoke))


@judge_app.command("curve")
def curve(
    train: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run to learn from; default the newest of BM25.")
    ] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="RUN", help="Run to measure on; default the newest of BM25.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder whose index the adapter searches; default the first with an index.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the judge and of the adapter.")] = 0,
    history: Annotated[
        bool, typer.Option("--history", help="Add the points of every 25 labels so far instead.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Only print the points.")] = False,
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Add a point to the learning curve: what the labels so far are worth on dev. Dev never trains."""
    from backend.training.curve_points import as_json as points_as_json
    from backend.training.curve_points import curve_points
    from backend.training.learning_curve import add_history, add_point

    opened = open_study(study)
    if history:
        do(add_history, opened, train, dev, encoder, seed)
    elif not list_only:
        do(add_point, opened, "asked", train, dev, encoder, seed)
    points = curve_points(opened)
    if as_json:
        print(points_as_json(points))
        return
    from app.tables import print_curve

    print_curve(points)

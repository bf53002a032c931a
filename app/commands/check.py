"""`blindspot check`: faults in a file of training data, and the share of its negatives that are false."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, print_json, progress
from blindspot.app.commands.options import takes_settings
from blindspot.backend.checking.settings import CheckSettings
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.checking.check import Check


@takes_settings(CheckSettings)
def check(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Training data as trainers write it: JSON lines, CSV, Parquet, Arrow, a saved Dataset, or a folder.",
        ),
    ],
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="DIR", help="Folder of the study that is made from the file (default FILE.check)."
        ),
    ] = None,
    *,
    settings: dict[str, Any],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the file here without its false negatives, in the same format."),
    ] = None,
    open_app: Annotated[
        bool,
        typer.Option(
            "--open", help="Open the app on the check's result; its first link leads to the first pair to judge."
        ),
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the app (with --open).")] = 8501,
    json: AsJson = False,
) -> None:
    """Check a file of training data: faults at once, and the share of false negatives from a few labels."""
    from blindspot.backend.checking.check import check as check_file
    from blindspot.backend.checking.check import questions_in

    asked = CheckSettings(**settings)
    with progress() as watch:
        held_out = [] if asked.dev is None else questions_in(asked.dev)
        found = check_file(file, study, held_out, asked.collection, asked.queries, watch)
        if found.facts.negatives:
            found.draw(asked.pairs, asked.seed, asked.vectors, watch)
            if asked.judge is not None:
                found.judge_with(asked.judge, watch)
        written = None if out is None else found.write(out, not asked.drop, asked.rule)
    _print_check(found, written, json)
    if open_app and not json:
        from blindspot.app.server import serve

        serve(found.study, port)


def _print_check(checked: Check, written: tuple[int, list[Path]] | None, json: bool) -> None:
    """Print the findings and the names of the files that were written."""
    if json:
        print_json({**checked.as_json(), "written": None if written is None else [str(path) for path in written[1]]})
        return
    _show_facts(checked)
    if written is not None:
        print(f"\nWrote {quantity(written[0], 'row')}: {', '.join(str(path) for path in written[1])}")


def _show_facts(checked: Check) -> None:
    from blindspot.backend.checking.words import NO_FAULTS, batch_words, finding_words, rate_words, size_lines

    print(f"{checked.file.path}: {checked.file.name}")
    for line in size_lines(checked.facts):
        print(f"  {line}")
    print("\nSeen at once")
    for finding in checked.facts.findings:
        print(f"  {finding_words(finding)}")
    if not checked.facts.findings:
        print(f"  {NO_FAULTS}")
    if checked.facts.batches:
        print(
            f"\nInside the batch ({quantity(checked.facts.doubled, 'row')} with the question or the positive of another)"
        )
        for batch in checked.facts.batches:
            print(f"  {batch_words(batch)}")
    rate = checked.rate()
    if rate is None:
        return
    print("\nFalse negatives")
    print(f"  {rate_words(rate)}")
    if rate.judged < rate.drawn:
        print(
            f"  Next: blindspot open --study {checked.study.folder}, and judge the batch 'check' by keys; then check again."
        )
    _show_rules(checked)
    if outlook := checked.outlook():
        print(f"\n{outlook}")


def _show_rules(checked: Check) -> None:
    from blindspot.backend.checking.words import bounds_words, paste_words, rule_words

    curve = checked.rules()
    if not curve.rows:
        return
    print("\nRules: of the negatives that each keeps, and of those that it drops, so many are false")
    keeps = max(len(row.rule.condition) for row in curve.rows) + 2
    print(
        f"  {'keeps a negative if':<{keeps}}{'--rule':<24}{'kept':>11}{'false':>8}{'interval':>14}{'of dropped':>14}{'emptied':>9}"
    )
    for place, row in enumerate(curve.rows):
        mark = "*" if place == curve.chosen else " "
        print(
            f"{mark} {row.rule.condition:<{keeps}}{row.rule.as_text():<24}{row.kept:>11,}{row.false_share:>8.1%}"
            f"{f'{row.low:.1%}-{row.high:.1%}':>14}{f'{row.dropped_low:.1%}-{row.dropped_high:.1%}':>14}{row.questions_emptied:>9,}"
        )
    print(f"* {rule_words(curve)}" if curve.chosen is not None else "  No rule is chosen.")
    print(f"  Why: {curve.why}.")
    if curve.best is not None:
        print(f"  {bounds_words(curve)}")
    if paste := paste_words(curve):
        print(f"  {paste}")

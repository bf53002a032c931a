"""`blindspot find`: words in passages, questions and notes."""

from __future__ import annotations

from typing import Annotated

import typer

from blindspot.app.commands.common import AsJson, StudyOption, open_study, print_json


def find(
    words: Annotated[str, typer.Argument(metavar="WORDS", help="Words to find, in quotes if there are several.")],
    place: Annotated[
        str, typer.Option("--in", metavar="passages|questions|notes", help="Texts to search.")
    ] = "passages",
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of results.")] = 20,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Find words in passages (by BM25 if it is indexed), questions or the notes of annotators."""
    from blindspot.backend.retrieval.full_text import PLACES
    from blindspot.backend.retrieval.full_text import find as found_in

    chosen = next((each for each in PLACES if each == place), None)
    if chosen is None:
        raise typer.BadParameter(f"--in must be one of {', '.join(PLACES)}")
    result = found_in(open_study(study), words, chosen, limit)
    if json:
        items = [
            {
                "id": each.id,
                "title": each.title,
                "passage": each.passage,
                "excerpt": [{"text": text, "found": kind == "word"} for text, kind in each.excerpt],
            }
            for each in result.results
        ]
        print_json({"place": place, "how": result.method_note, "more": result.has_more, "items": items})
        return
    from rich.text import Text

    from blindspot.app.console import Terminal

    terminal = Terminal()
    for each in result.results:
        terminal.print(Text.assemble((each.id, "bold"), f"  {each.title}" if each.title else ""))
        pieces = [(text, "reverse" if kind == "word" else "") for text, kind in each.excerpt]
        terminal.print(Text.assemble("  ", *pieces))
    print(result.method_note + (" There are more; give --limit." if result.has_more else ""))

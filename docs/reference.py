"""`make docs`: write what the program says of itself, every command's help and every method of `blindspot.Study`."""

from __future__ import annotations

import pydoc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """(words of the command, command) for every command and group."""
    import typer

    from blindspot.app.cli import app

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from below(command.commands[name], (*words, name))

    return below(typer.main.get_command(app), ("blindspot",))


def help_text(words: tuple[str, ...], command: Any) -> str:
    context = type(command).context_class(command, info_name=" ".join(words), max_content_width=100, terminal_width=100)
    return command.get_help(context)


def main(folder: str) -> None:
    import blindspot

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    helps = [f"## {' '.join(words)}\n\n```text\n{help_text(words, command)}\n```\n" for words, command in commands()]
    (target / "commands.md").write_text("\n".join(["# Every command\n", *helps]), encoding="utf-8")
    text = pydoc.plaintext.document(blindspot.Study, "Study")
    (target / "python.md").write_text(f"# blindspot.Study\n\n```text\n{text}\n```\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/docs")

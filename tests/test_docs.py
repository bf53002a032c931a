"""The docs: every command has help and a place, shown commands parse, links lead somewhere."""

import re
import shlex
from pathlib import Path

from docs.reference import commands

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_command_and_option_has_help():
    without = []
    for words, command in commands():
        parameters = [p for p in command.params if p.name != "help" and p.param_type_name != "argument"]
        without += [(words, None)] if not (command.help or "").strip() else []
        without += [(words, parameter.name) for parameter in parameters if not getattr(parameter, "help", None)]
    assert without == []


def test_every_command_has_a_place_in_a_page_by_task():
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = [" ".join(words) for words, command in commands() if not hasattr(command, "list_commands")]
    assert len(names) > 40 and [name for name in names if name not in pages] == []


def shown_commands():
    """(page, command line) of every command that a page shows."""
    for page in PAGES:
        for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip().startswith("blindspot "):
                    yield page.name, line.split("#")[0].strip()


def test_commands_shown_in_the_docs_parse():
    """Every word of a shown command is a command, an option or a value that the program takes."""
    import click
    import typer

    from blindspot.app.cli import app

    shown, wrong = list(shown_commands()), []
    for page, line in shown:
        command, words = typer.main.get_command(app), shlex.split(line)[1:]
        while hasattr(command, "commands"):
            flags = {option for parameter in command.params if parameter.is_flag for option in parameter.opts}
            while words and words[0] in flags:
                words = words[1:]
            if not words or words[0] not in command.commands:
                break
            command, words = command.commands[words[0]], words[1:]
        try:
            assert not hasattr(command, "commands"), "no such command"
            command.make_context("blindspot", words)
        except (AssertionError, click.ClickException) as error:
            wrong.append((page, line, str(error)))
    assert len(shown) > 50 and wrong == []


def test_links_and_pictures_exist():
    broken = [
        f"{page.name} -> {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []

"""The docs: every command has help and a place, quoted output matches the program, links lead somewhere.

`python -m tests.test_docs` writes docs/commands.md anew.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = ROOT / "docs" / "commands.md"


def walk():
    """(words of the command, command) for every command and group."""
    import typer

    from blindspot.app.cli import app

    def below(command, words):
        yield words, command
        for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
            yield from below(command.commands[name], (*words, name))

    return list(below(typer.main.get_command(app), ("blindspot",)))


def help_text(words, command):
    context = type(command).context_class(command, info_name=" ".join(words), max_content_width=100, terminal_width=100)
    return command.get_help(context)


def commands_page():
    parts = [
        "# Every command",
        "",
        "What `--help` prints, checked against the program by a test. The pages by task say when to use which.",
        "",
    ]
    seen = {}
    for words, command in walk():
        name, (about, _, options) = " ".join(words), help_text(words, command).rstrip().partition("Options:\n")
        if options.count("\n") > 9 and options in seen:
            about, shown = about + f"Options: those of {seen[options]}", ""
        else:
            shown = f"Options:\n{options}"
            seen[options] = name
        parts += [f"## {name}", "", "```text", about + shown, "```", ""]
    return "\n".join(parts)


def test_the_commands_page_is_what_the_program_prints():
    assert COMMANDS.read_text(encoding="utf-8") == commands_page(), "run: python -m tests.test_docs"


@pytest.mark.parametrize(
    "words, command", walk(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_every_command_and_option_has_help(words, command):
    assert command.help and command.help.strip()
    for parameter in command.params:
        assert (
            parameter.name == "help" or getattr(parameter, "help", None) or parameter.param_type_name == "argument"
        ), parameter.name


@pytest.mark.parametrize(
    "words, command",
    [(w, c) for w, c in walk() if not hasattr(c, "list_commands")],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)
def test_every_command_has_a_place_in_a_page_by_task(words, command):
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES if page != COMMANDS)
    assert " ".join(words) in pages


def shown_commands():
    for page in PAGES:
        if page == COMMANDS:
            continue
        for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if line.strip().startswith("blindspot "):
                    yield page.name, line.split("#")[0].strip()


@pytest.mark.parametrize("page, line", list(shown_commands()))
def test_commands_shown_in_the_docs_parse(page, line):
    """Every word of a shown command is a command, an option or a value that the program takes."""
    import shlex

    import typer

    from blindspot.app.cli import app

    command, words = typer.main.get_command(app), shlex.split(line)[1:]
    while hasattr(command, "commands"):
        flags = {option for parameter in command.params if parameter.is_flag for option in parameter.opts}
        while words and words[0] in flags:
            words = words[1:]
        assert words and words[0] in command.commands, f"{page}: {line}"
        command, words = command.commands[words[0]], words[1:]
    command.make_context("blindspot", words)


def test_links_and_pictures_exist():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} -> {target}"


if __name__ == "__main__":
    COMMANDS.write_text(commands_page(), encoding="utf-8")

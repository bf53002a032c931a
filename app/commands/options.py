"""Command-line options from declared settings. Their name, type, bounds and help come from the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand

from blindspot.app.commands.common import whole_numbers
from blindspot.backend.core.declared import DeclaredSetting, declared_settings, value_text

LARGEST_SHOWN = 100_000


def takes_settings(
    kind: type,
    parameter: str = "settings",
    names: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each setting of `kind`. The command receives a dict of the options that the user
    gave.

    Args:
        parameter: the command's parameter that receives the dict.
        names: the settings to offer; default all that fit on a command line.
        defaults: defaults that the help shows in place of the declared ones.
    """
    known = declared_settings(kind)
    return takes_options([known[name] for name in names or known], parameter, defaults)


def takes_options(
    settings: Iterable[DeclaredSetting], parameter: str = "settings", defaults: Mapping[str, Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The same for settings of several classes; see `takes_settings`."""
    offered = {one.name: one for one in settings if one.kind in (int, float, bool, str, tuple)}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(command).parameters.values():
            if each.name == parameter:
                for name, one in offered.items():
                    annotation = option(one, (defaults or {}).get(name, one.default))
                    parameters.append(inspect.Parameter(name, each.KEYWORD_ONLY, default=None, annotation=annotation))
            else:
                annotation = hints.get(each.name, each.annotation)
                parameters.append(each.replace(kind=each.KEYWORD_ONLY, annotation=annotation))

        @wraps(command)
        def run(**given: Any) -> Any:
            chosen = {name: value for name in offered if (value := given.pop(name)) not in (None, [])}
            return command(**given, **{parameter: chosen})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__  # otherwise typer would read the annotations of the command itself
        return run

    return decorate


class LateCommand(TyperCommand):
    """A command whose options depend on what is registered, such as the kinds of retriever. The registries are loaded
    when the command's help or arguments are first needed.

    Register a command from a function without parameters, whose docstring is the command's help. `build` returns the
    function that runs.
    """

    build: ClassVar[Callable[[], Callable[..., Any]]]

    def get_params(self, ctx: Any) -> list[Any]:
        if self.callback is not None and not hasattr(self, "_built"):
            app = typer.Typer(add_completion=False, rich_markup_mode=None)
            app.command()(type(self).build())
            self._built = typer.main.get_command(app)
            self.params = list(self._built.params)
            self.callback = self._built.callback
        return super().get_params(ctx)


class ReadsFormat(TyperCommand):
    """A command of `blindspot import`. Its help of --format lists all formats, including those of installed packages."""

    kind: ClassVar[str]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from blindspot.backend.data.formats import formats

        names = ", ".join(each.name for each in formats() if each.kind == self.kind and each.read is not None)
        for parameter in self.params:
            if parameter.name == "format":
                parameter.help = f"Format of the file: {names} (default: recognised from its content)."  # type: ignore[attr-defined]
        super().format_options(ctx, formatter)


def reads(kind: str) -> type[ReadsFormat]:
    """Return the class of a command that reads files of a kind ("passages", "runs")."""
    return type(f"Reads{kind.title()}", (ReadsFormat,), {"kind": kind})


def option(declared: DeclaredSetting, default: Any) -> Any:
    """Return the annotation of an optional command-line option. Without the option the value is None, and the setting
    keeps its default.
    """
    dashed = declared.option
    about = declared.help if default == declared.default else declared.help.split("; default ")[0]
    if declared.kind is bool and default is False:
        return Annotated[bool | None, typer.Option(dashed, help=f"{about}.")]
    remarks = ["repeatable"] if declared.kind is tuple and declared.item is str else []
    shown = ",".join(map(value_text, default)) if isinstance(default, tuple) else value_text(default)
    if default is not None and shown:
        remarks.append(f"default {shown}")
    about = f"{about} ({'; '.join(remarks)})." if remarks else f"{about}."
    if declared.kind is bool:
        return Annotated[bool | None, typer.Option(f"{dashed}/--no-{dashed[2:]}", help=about)]
    names = (dashed, *declared.extra.get("aliases", ()))
    extra: dict[str, Any] = {"metavar": "|".join(declared.choices)} if declared.choices else {}
    if "metavar" in declared.extra:
        extra["metavar"] = declared.extra["metavar"]
    if declared.kind is tuple and declared.item is int:
        return Annotated[list | None, typer.Option(*names, help=about, parser=_numbers(dashed), metavar="N,N,...")]
    if declared.kind is tuple:
        return Annotated[list[str] | None, typer.Option(*names, help=about, **extra)]
    if declared.kind in (int, float):  # the class checks every bound; the help shows only the informative ones
        extra |= {"min": declared.minimum, "max": declared.maximum if (declared.maximum or 0) < LARGEST_SHOWN else None}
    return Annotated[declared.kind | None, typer.Option(*names, help=about, **extra)]


def _numbers(option_name: str) -> Callable[[str], list[int]]:
    def parse(text: str) -> list[int]:
        return whole_numbers(text, option_name, "5,20,100")

    return parse

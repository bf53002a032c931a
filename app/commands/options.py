"""Command-line options from declared settings: name, type, bounds and help come from the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from backend.core.declared import Declared, declared

LARGEST_SHOWN = 100_000


def takes_settings(
    kind: type,
    parameter: str = "settings",
    only: Sequence[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command an option for each setting of `kind`; the command receives those that were given as a dict.

    Args:
        parameter: the command's parameter that takes the dict.
        only: the settings to offer; default all that fit on a command line.
        defaults: defaults that the help shows in place of the declared ones.
    """
    known = declared(kind)
    names = [name for name in only or known if known[name].kind in (int, float, bool, str)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(command).parameters.values():
            if each.name == parameter:
                for name in names:
                    annotation = option(known[name], (defaults or {}).get(name, known[name].default))
                    parameters.append(inspect.Parameter(name, each.KEYWORD_ONLY, default=None, annotation=annotation))
            else:
                annotation = hints.get(each.name, each.annotation)
                parameters.append(each.replace(kind=each.KEYWORD_ONLY, annotation=annotation))

        @wraps(command)
        def run(**given: Any) -> Any:
            chosen = {name: value for name in names if (value := given.pop(name)) is not None}
            return command(**given, **{parameter: chosen})

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        del run.__wrapped__  # typer would read the annotations of the command itself
        return run

    return decorate


def option(one: Declared, default: Any) -> Any:
    """The annotation of an optional command-line option. Not given, it is None, and the setting keeps its default."""
    dashed = one.extra.get("option", f"--{one.name.replace('_', '-')}")
    about = one.help if default == one.default else one.help.split("; default ")[0]
    if one.kind is bool and default is False:
        return Annotated[bool | None, typer.Option(dashed, help=f"{about}.")]
    if default is not None:
        about = f"{about} (default {shown(default)})"
    if one.kind is bool:
        return Annotated[bool | None, typer.Option(f"{dashed}/--no-{dashed[2:]}", help=f"{about}.")]
    extra: dict[str, Any] = {"metavar": "|".join(one.choices)} if one.choices else {}
    if "metavar" in one.extra:
        extra["metavar"] = one.extra["metavar"]
    if one.kind in (
        int,
        float,
    ):  # the settings class checks every bound; the help shows those that tell a person something
        extra |= {"min": one.minimum, "max": one.maximum if (one.maximum or 0) < LARGEST_SHOWN else None}
    return Annotated[one.kind | None, typer.Option(dashed, help=f"{about}.", **extra)]  # type: ignore[operator]


def shown(value: object) -> str:
    """A default as help shows it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)

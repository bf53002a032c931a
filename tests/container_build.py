"""A Dockerfile's instructions, the rules that the image keeps, and its build's steps done without a container engine."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SECRET = re.compile(r"token|secret|password|passwd|api_?key|credential", re.IGNORECASE)
KNOWN = {
    "FROM", "RUN", "COPY", "ADD", "ENV", "ARG", "WORKDIR", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD",
    "LABEL",
}  # fmt: skip
WITHOUT_AN_ENGINE = ("groupadd",)
"""Commands that need root in the image's own file system."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its line, its name in capitals, and the rest of it."""

    line: int
    name: str
    rest: str


@dataclass
class BuildStage:
    """The instructions from one FROM to the next."""

    image: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def last(self, name: str) -> str | None:
        return next((each.rest for each in reversed(self.instructions) if each.name == name), None)


def instructions(text: str) -> list[Instruction]:
    """Return the instructions of a Dockerfile; lines that end with a backslash are joined."""
    found, parts, first = [], [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first if parts else number
        parts.append(line.strip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\"):
            continue
        name, _, rest = " ".join(parts).partition(" ")
        found.append(Instruction(first, name.upper(), rest.strip()))
        parts = []
    return found


def stages(text: str) -> list[BuildStage]:
    found: list[BuildStage] = []
    for each in instructions(text):
        if each.name == "FROM":
            image, _, name = each.rest.partition(" AS ")
            found.append(BuildStage(image.strip(), name.strip() or str(len(found))))
        elif found:
            found[-1].instructions.append(each)
    return found


def faults(text: str) -> list[str]:
    """Return the rules that a Dockerfile breaks, one line each."""
    built, wrong = stages(text), []
    names = {stage.name for stage in built}
    for stage in built:
        if stage.image not in names and not re.fullmatch(r"[\w./-]+:[\w][\w.-]*\d[\w.-]*", stage.image):
            wrong.append(f"FROM {stage.image}: pin the base image by a tag with a version")
    for each in instructions(text):
        if each.name not in KNOWN:
            wrong.append(f"line {each.line}: unknown instruction {each.name}")
        if each.name == "ADD":
            wrong.append(f"line {each.line}: COPY in place of ADD")
        if each.name in ("ENV", "ARG") and SECRET.search(each.rest):
            wrong.append(f"line {each.line}: a secret in {each.name} stays in the image")
        if each.name == "RUN" and re.search(r"(curl|wget)[^|]*\|\s*(ba)?sh|\bsudo\b|apt-get upgrade", each.rest):
            wrong.append(f"line {each.line}: it runs what it downloads, or as another user")
        if each.name == "RUN" and "apt-get install" in each.rest and "rm -rf /var/lib/apt/lists" not in each.rest:
            wrong.append(f"line {each.line}: remove the lists of apt in the same step")
        if each.name in ("ENTRYPOINT", "CMD") and not each.rest.startswith("["):
            wrong.append(f"line {each.line}: give {each.name} as a list, so that signals arrive")
        if each.name == "WORKDIR" and not each.rest.startswith("/"):
            wrong.append(f"line {each.line}: WORKDIR takes an absolute path")
    user = built[-1].last("USER") if built else None
    if user is None or not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", user):
        wrong.append("the last stage must end as a user by number, not root")
    if built and (built[-1].last("HEALTHCHECK") or "NONE") == "NONE":
        wrong.append("the image has no HEALTHCHECK")
    return wrong


def let_in(ignore: str, path: str) -> bool:
    """Return whether .dockerignore lets a file of the context in; the last matching line decides."""
    kept = True
    for line in ignore.splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = path.split("/")
        ancestors = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        matches = any(_matches(each, pattern) for each in ancestors)
        if matches:
            kept = line.strip().startswith("!")
    return kept


def _matches(path: str, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return any(fnmatch.fnmatchcase(part, pattern[3:]) for part in path.split("/"))
    return "/" not in path and fnmatch.fnmatchcase(path, pattern)


class BuildInFolders:
    """Does the steps of a build in folders: each stage has a folder that stands for its file system's root.

    Absolute paths of commands are turned into paths below it. Steps that need root in the image are left out and named.

    Args:
        context: the folder of the Dockerfile. replaced: commands to run in place of steps that contain a text.
        arguments: values of ARG, as with --build-arg. Settings of pip (PIP_...) come from this process's environment.
    """

    def __init__(
        self,
        context: Path,
        target: Path,
        replaced: dict[str, str] | None = None,
        arguments: dict[str, str] | None = None,
    ):
        self._context, self._target = context, target
        self._replaced, self._arguments = replaced or {}, arguments or {}
        self._ignore = (context / ".dockerignore").read_text(encoding="utf-8")
        self.left_out: list[str] = []

    def build(self) -> Path:
        """Return the folder of the last stage."""
        root = self._target
        for stage in stages((self._context / "Dockerfile").read_text(encoding="utf-8")):
            root = self._target / stage.name
            root.mkdir(parents=True)
            self._build(stage, root)
        return root

    def _build(self, stage: BuildStage, root: Path) -> None:
        of_pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        folder, environment = "/", of_pip | {"PATH": "/usr/bin:/bin", "HOME": str(root)}
        for each in stage.instructions:
            if each.name == "WORKDIR":
                folder = each.rest
                self._inside(root, folder).mkdir(parents=True, exist_ok=True)
            elif each.name in ("ENV", "ARG"):
                pairs = dict(word.partition("=")[::2] for word in shlex.split(each.rest))
                environment |= {key: value for key, value in pairs.items() if key != "PATH"}
                environment |= {key: self._arguments[key] for key in pairs if key in self._arguments}
            elif each.name == "COPY":
                self._copy(each.rest, root, folder)
            elif each.name == "RUN":
                self._run(each.rest, root, folder, environment)

    def _run(self, command: str, root: Path, folder: str, environment: dict[str, str]) -> None:
        if command.startswith(WITHOUT_AN_ENGINE):
            self.left_out.append(command)
            return
        command = next((new for text, new in self._replaced.items() if text in command), command)
        command = re.sub(r"(?<![\w.:/])/(opt|src|study)\b", lambda match: f"{root}/{match[1]}", command)
        if command.startswith("python "):
            import sys

            command = f"{getattr(sys, '_base_executable', sys.executable)} {command.removeprefix('python ')}"
        done = subprocess.run(
            ["bash", "-ec", command], cwd=self._inside(root, folder), env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _copy(self, rest: str, root: Path, folder: str) -> None:
        words = shlex.split(rest)
        source = self._context
        if words[0].startswith("--from="):
            source = self._target / words.pop(0).removeprefix("--from=")
        *names, target = words
        place = self._inside(root, target if target.startswith("/") else f"{folder}/{target}")
        for name in names:
            origin = source / name.lstrip("/")
            if origin.is_dir():
                ignored = None if source != self._context else self._ignored
                shutil.copytree(origin, place, ignore=ignored, dirs_exist_ok=True, symlinks=True)
            else:
                assert source != self._context or let_in(self._ignore, name), f"{name} is not in the context"
                (place if target.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, place)

    def _ignored(self, folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(self._context)
        return [name for name in names if not let_in(self._ignore, (inside / name).as_posix())]

    @staticmethod
    def _inside(root: Path, path: str) -> Path:
        return root / path.strip("/").removeprefix("./")


def listed(value: str | None) -> list[str]:
    """Return the words of an instruction in list form."""
    return [] if value is None else json.loads(value[value.index("[") :])

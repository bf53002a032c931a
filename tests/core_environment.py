"""An environment with the core of Blindspot alone: the wheel, and links to the distributions that its dependencies name."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@cache
def built(sources: Path, kind: str) -> Path:
    """Build what pip would install of a source folder. kind: "wheel", or "editable" for `pip install -e`."""
    code = f"import setuptools.build_meta as backend; print(backend.build_{kind}('{kind}s'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=sources, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return next((sources / f"{kind}s").glob("*.whl"))


def requirements_of(wheel: Path, extra: str = "") -> list[Requirement]:
    """What the wheel's metadata requires with this extra; "" for the core."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = message_from_bytes(archive.read(name)).get_all("Requires-Dist") or []
    found = [Requirement(line) for line in lines]
    return [each for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def closure(requirements: list[Requirement]) -> dict[str, Distribution]:
    """Return the installed distributions that these requirements bring, each with what it requires itself."""
    found: dict[str, Distribution] = {}
    seen, waiting = set(), list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, *requirement.extras) in seen:
            continue
        seen.add((name, *requirement.extras))
        try:
            found[name] = distribution(name)
        except PackageNotFoundError as error:
            raise AssertionError(f"{requirement} is not installed here; run 'make install'") from error
        for line in found[name].requires or ():
            needed = Requirement(line)
            extras = ("", *requirement.extras)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return found


def make_environment(folder: Path, wheel: Path, with_core: bool = True) -> Path:
    """Make a virtual environment that holds the wheel and the closure of its core, without a network. Return its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site, python = folder / "lib" / version / "site-packages", folder / "bin" / "python"
    for each in closure(requirements_of(wheel)).values() if with_core else ():
        _link(each, site)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return python


def _link(installed: Distribution, site: Path) -> None:
    """Link the packages of a distribution. Of a namespace package, such as `google`, only the distribution's own part."""
    places = {Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("platlib"))}
    for file in installed.files or ():
        if file.parts[0] in ("..", "__pycache__") or not file.locate().exists():
            continue
        place = next(place for place in places if (place / file).exists())
        top = place / file.parts[0]
        is_namespace = top.is_dir() and "." not in top.name and not (top / "__init__.py").exists()
        target = Path(*file.parts[: 2 if is_namespace else 1])
        if not (site / target).exists():
            (site / target).parent.mkdir(exist_ok=True)
            (site / target).symlink_to(place / target)


def megabytes(installed: Iterable[Distribution]) -> float:
    """Return the size of the files that come in the wheels of these distributions, without what pip compiles from them."""
    files = (file for each in installed for file in each.files or () if file.suffix != ".pyc")
    return sum(place.stat().st_size for file in files if (place := Path(file.locate())).is_file()) / 1e6

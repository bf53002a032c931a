"""CONTRIBUTING.md: the paths and names in its table exist; the core is small and stands without the periphery."""

import re
from pathlib import Path

import pytest

from tests.test_house import backend_imports

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \| `([^`|]+)` \|$", TEXT, re.MULTILINE)

CORE = re.findall(
    r"`((?:db|analysis|backend)/[\w/]+\.py)`", TEXT.split("## The core, in reading order")[1].split("\n## ")[0]
)
MOST_OF_THE_CORE = 15_000  # lines
PERIPHERY = (
    "experiments", "recipes", "reader", "maps", "reports", "demo", "upkeep", "hub", "service", "interventions", "checking",
    "data.encyclopedia", "retrieval.engines", "retrieval.milvus", "retrieval.opened", "judges.llm",
)  # fmt: skip


def test_the_core_is_small_and_each_step_of_the_path_is_in_it():
    files = [ROOT / name for name in CORE]
    assert len(set(files)) == len(files) > 40 and all(file.is_file() for file in files)
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    assert lines <= MOST_OF_THE_CORE, f"the core has {lines:,} lines"
    packages = {name.split("/")[1] for name in CORE if name.startswith("backend/")}
    assert packages >= {"core", "data", "retrieval", "evaluation", "judging", "training_sets", "training"}


@pytest.mark.parametrize("name", CORE)
def test_the_core_stands_without_the_periphery(name):
    outside = tuple(f"blindspot.backend.{package}" for package in PERIPHERY)
    wrong = [
        f"{name}:{line} imports {module}"
        for module, line in backend_imports((ROOT / name).read_text(encoding="utf-8"))
        if any(module == each or module.startswith(f"{each}.") for each in outside)
    ]
    assert not wrong, wrong


def test_the_table_is_long_enough_and_names_nothing_twice():
    assert len(ROWS) >= 25 and len({row[0] for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("topic, path, name", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_leads_somewhere(topic, path, name):
    file = ROOT / path
    assert file.is_file(), f"{topic}: there is no {path}"
    assert name in file.read_text(encoding="utf-8"), f"{topic}: {path} does not hold {name!r}"


def test_the_map_names_every_package_of_the_backend():
    packages = {path.parent.name for path in (ROOT / "backend").glob("*/__init__.py")}
    shown = set(re.findall(r"(\w+)/(?= )", TEXT.split("```text")[1].split("```")[0]))
    assert packages <= shown, packages - shown


def test_the_tests_for_other_machines_exist():
    from tests.other_machines import HERE, NUMBERS, OPENVINO

    assert not [name for name in (*NUMBERS, *OPENVINO) if not (HERE / f"test_{name}.py").is_file()]

"""CONTRIBUTING.md: the paths and names in its table exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \| `([^`|]+)` \|$", TEXT, re.MULTILINE)


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

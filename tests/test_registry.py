"""Registries: built-in entries, entry points of installed packages, and one line for each entry that fails to load."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass

import pytest

from blindspot.backend.core.registry import Registry
from blindspot.db.errors import Refused
from tests.absent import hide
from tests.installed import installed


@dataclass(frozen=True)
class Thing:
    name: str


def test_entries_are_found_by_name_and_errors_list_what_is_known():
    things = Registry("thing")
    one = things.register(Thing("one"))
    things.register(Thing("two"))
    assert things.get("one") is one and things.names() == ["one", "two"] and "two" in things and "three" not in things
    assert things.register(one) is one and len(things) == 2
    with pytest.raises(Refused, match="^unknown thing 'three'; known: one, two$"):
        things.get("three")
    with pytest.raises(Refused, match="two things named 'one'"):
        things.register(Thing("one"))


def test_modules_of_a_package_register_their_own_and_sorting_is_the_registrys(tmp_path, monkeypatch):
    package = tmp_path / "some_things"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from blindspot.backend.core.registry import Registry\nfrom types import SimpleNamespace as Thing\n"
        "THINGS = Registry('thing', package='some_things', order=lambda each: each.name)\n"
    )
    for file, name in (("a", "z"), ("b", "c")):
        (package / f"{file}.py").write_text(
            f"from some_things import THINGS, Thing\nTHINGS.register(Thing(name='{name}'))\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    from some_things import THINGS

    assert "some_things.a" not in sys.modules  # nothing is imported before it is needed
    assert THINGS.names() == ["c", "z"]


def test_a_module_that_needs_an_extra_takes_itself_out_and_says_so(tmp_path, monkeypatch):
    hide(monkeypatch, "numba")
    package = tmp_path / "compiled_things"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernel.py").write_text("import blindspot.backend.retrieval.postings.kernel")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "blindspot.backend.retrieval.postings.kernel", raising=False)
    things = Registry("thing", package="compiled_things")
    one = things.register(Thing("one"))
    assert things.all() == (one,)
    says = r"^unknown thing 'two'; known: one; BM25 in compiled code needs the extra fast: pip install 'blindspot\[fast\]'$"
    with pytest.raises(Refused, match=says):
        things.get("two")


def test_installed_packages_add_entries_and_one_that_fails_gives_one_line(tmp_path, monkeypatch, capsys):
    installed(
        tmp_path,
        "some_toys",
        "blindspot.test_things",
        {
            "good": "some_toys:GOOD",
            "broken": "some_toys:NOTHING",
            "missing": "no_such_module",
            "module": "some_toys",
            "wrong": "some_toys:NAME",
        },
        "from types import SimpleNamespace as Thing\nNAME = 'x'\nGOOD = Thing(name='good')\n",
    )
    monkeypatch.syspath_prepend(tmp_path)

    def check(entry):
        if not hasattr(entry, "name"):
            raise TypeError(f"{type(entry).__name__} is not a thing")

    things = Registry("thing", group="blindspot.test_things", check=check)
    things.register(Thing("own"))
    assert things.names() == ["own", "good"]
    assert things.names() == ["own", "good"]  # loaded once
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("blindspot: cannot load the thing ") for line in lines)
    assert "'broken' of some_toys 1.0 (some_toys:NOTHING)" in lines[0] and "NOTHING" in lines[0]
    assert "No module named 'no_such_module'" in lines[1] and "str is not a thing" in lines[2]
    assert [line.removeprefix("blindspot: ").split(";")[0] for line in lines] == things.failures


def test_threads_that_ask_at_once_see_every_entry(tmp_path, monkeypatch):
    (tmp_path / "slow_things.py").write_text(
        "import time, tests.test_registry as t\ntime.sleep(0.2)\nt.SLOW.register(t.Thing('slow'))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[list[str]] = []
    global SLOW
    SLOW = Registry("thing", modules=("slow_things",))
    monkeypatch.setitem(sys.modules, "tests.test_registry", sys.modules[__name__])
    threads = [threading.Thread(target=lambda: seen.append(SLOW.names())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [["slow"]] * 4

"""A retriever in an installed package: the one of docs/extend/retriever.md, as its page stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS
from tests.app_pages import Page
from tests.installed import installed
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extend" / "retriever.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The package, installed beside the repository for this process; the registry loads entry points again."""
    group, name, place = re.search(r'entry-points\."([\w.]+)"\]\n([\w-]+) = "([\w:]+)"', PAGE).groups()
    folder = tmp_path / "site"
    folder.mkdir()
    installed(folder, place.partition(":")[0], group, {name: place}, CODE)
    RETRIEVERS.all()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(RETRIEVERS, "_entries", dict(RETRIEVERS._entries))
    monkeypatch.setattr(RETRIEVERS, "failures", [])
    monkeypatch.setattr(RETRIEVERS, "_loaded", False)
    yield folder
    sys.modules.pop(place.partition(":")[0], None)


@pytest.fixture
def study(tmp_path):
    passages = people()
    return make_study(tmp_path / "study", passages, births(passages))


def test_it_is_in_the_help_and_makes_runs_from_the_command_line(package, study):
    """In separate processes, as for a user: only PYTHONPATH contains the package."""
    paths = [str(package), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}

    def blindspot(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "blindspot.app.cli", *arguments]
        return subprocess.run(command, env=environment, cwd=package, capture_output=True, text=True)

    shown = blindspot("retrieve", "--help")
    words = " ".join(shown.stdout.split())
    assert shown.returncode == 0 and "title-words: passages whose title shares words with the question" in words
    assert "--word-score" in words and "Title words: Score of a shared word" in words and not shown.stderr
    made = blindspot(
        "retrieve",
        "--with",
        "title-words",
        "--word-score",
        "2",
        "--split",
        "dev",
        "--k",
        "5",
        "--study",
        str(study.folder),
    )
    assert made.returncode == 0 and "Run title-words-dev: 40 questions, k=5" in made.stdout, made.stderr
    run = study.run("title-words-dev")
    first = [passage.title for passage in study.corpus.passages(run.hits.ordinals[:, 0].tolist())]
    assert first == [question.subject for question in study.questions.with_ids(run.question_ids)]
    assert (run.manifest["retriever"], run.manifest["word_score"]) == ("title-words", 2)
    wrong = blindspot("retrieve", "--with", "title-words", "--word-score", "0", "--study", str(study.folder))
    assert wrong.returncode == 1 and "word_score must be" in wrong.stderr


def test_it_is_on_home_in_compare_and_in_a_live_question(package, study, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    started = []
    monkeypatch.setattr(jobs, "submit_request", lambda study, asked, actor: started.append(asked.arguments))
    home = Page(study.folder)
    assert home.app.selectbox(key="more-retriever").options == ["title-words"]  # the study has no index
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    home.app.button(key="more-start").click().run()
    assert started == [{"kind": "title-words", "split": "dev"}]
    for score in (1.0, 3.0):
        retrieve(study, "title-words", word_score=score, split="dev", k=5, name=f"own-{score:g}")
    compare = Page(study.folder, "compare", a="own-1", b="own-3")
    picker = next(each for each in compare.app.selectbox if each.label == "Run B")
    assert picker.options == ["own-1", "own-3"] and "40 questions" in compare.text
    assert "Title words" in Page(study.folder).text
    assert live.answering_retrievers(study) == ["title-words"]
    asked = Page(study.folder, "question", ask="Where was she born?")
    picker = next(each for each in asked.app.selectbox if each.label == "Retriever A")
    assert "title-words" in picker.options and len(asked.part("<article")) > 0

"""Plug-ins: the contracts of `blindspot.testing` hold for everything registered, the pages of docs/extend work as they
stand, and a plug-in that breaks a rule is told which.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot import plugin
from blindspot.app.cli import app
from blindspot.backend.core.registry import Registry
from blindspot.backend.core.study import Study
from blindspot.backend.data import formats
from blindspot.backend.judges.judge import JUDGES
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS
from blindspot.backend.training_sets.denoising import DENOISING
from blindspot.backend.training_sets.exports.base import EXPORTS
from blindspot.db.records import Hits
from blindspot.plugin import DenoisingPolicy, Format, ImportedQuestion, PairJudge, Question, RetrieverKind
from blindspot.testing import PluginFault, check_export, check_format, check_judge, check_policy, check_retriever
from tests.format_files import SAMPLES
from tests.indexes import bm25_of
from tests.installed import installed
from tests.studies import births, make_study, people

PAGES = Path(__file__).parents[1] / "docs" / "extend"
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(page: str) -> list[str]:
    return BLOCK.findall((PAGES / f"{page}.md").read_text(encoding="utf-8"))


# What is registered here


def test_our_retrievers_keep_the_rules(tmp_path):
    passages = people(24)
    study = make_study(tmp_path / "study", passages, births(passages))
    bm25_of(study)
    check_retriever(RETRIEVERS.get("bm25"), study)


@pytest.mark.parametrize("name", DENOISING.names())
def test_our_policies_keep_the_rules(name):
    check_policy(DENOISING.get(name))


@pytest.mark.parametrize("name", EXPORTS.names())
def test_our_exports_keep_the_rules(name):
    check_export(EXPORTS.get(name))


@pytest.mark.parametrize(
    "sample",
    [each for each in SAMPLES if each.kind in ("questions", "qrels", "runs") and each.format != "beir"],
    ids=lambda s: s.name,
)
def test_our_formats_keep_the_rules(sample, tmp_path):
    form = next(each for each in formats.formats() if (each.kind, each.name) == (sample.kind, sample.format))
    with form.opened(sample.write(tmp_path)) as rows:
        count = len(list(rows))
    assert count
    check_format(form, sample.data, count, sample.name)


# The pages


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """Install the code of a page as a package beside Blindspot, as its entry point names it."""
    made = []

    def install(page: str, registry: Registry):
        text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
        group, name, place = re.search(r'entry-points\."([\w.]+)"\]\n([\w-]+) = "([\w:]+)"', text).groups()
        module = place.partition(":")[0]
        site = tmp_path / f"site-{page}"
        site.mkdir()
        installed(site, module, group, {name: place}, blocks(page)[0])
        registry.all()
        monkeypatch.syspath_prepend(site)
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
        monkeypatch.setattr(registry, "failures", [])
        monkeypatch.setattr(registry, "_loaded", False)
        made.append(module)
        assert name in [entry.name for entry in registry] and not registry.failures
        return group

    yield install
    for module in made:
        sys.modules.pop(module, None)


@pytest.fixture
def study(tmp_path) -> Study:
    passages = people(24)
    return make_study(tmp_path / "study", passages, births(passages[:12]) + births(passages[12:], "train"))


def blindspot(study: Study, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--study", str(study.folder)])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("page", ["retriever", "format", "judge", "policy"])
def test_each_page_is_short_imports_the_door_alone_and_its_check_passes(page, monkeypatch):
    code, check = blocks(page)
    assert code.count("\n") <= 40
    imported = set(re.findall(r"^from (blindspot\S*)|^import (blindspot\S*)", code, re.MULTILINE))
    assert imported == {("blindspot.plugin", "")}
    module = ModuleType(f"page_{page}")
    monkeypatch.setitem(sys.modules, module.__name__, module)  # dataclasses look up their module
    exec(compile(code + check, f"docs/extend/{page}.md", "exec"), module.__dict__)


def test_the_retriever_of_the_page_makes_a_run(beside, study):
    beside("retriever", RETRIEVERS)
    run = retrieve(study, "title-words", weight=2.0, split="dev", k=5)  # tests/test_toy_retriever.py has the command
    first = [passage.title for passage in study.corpus.passages(run.hits.ordinals[:, 0].tolist())]
    assert first == [question.subject for question in study.questions.with_ids(run.question_ids)]


def test_the_format_of_the_page_is_in_the_help_and_read(beside, study, tmp_path):
    beside("format", formats.REGISTRY)
    assert re.search(
        r"Format of the file:[^(]*\bquiz\b", CliRunner().invoke(app, ["import", "questions", "--help"]).output
    )
    path = tmp_path / "some.quiz"
    path.write_text("QUIZ\nWho wrote Hedda Gabler?\tHenrik Ibsen\nNo tab here\n")
    refused = CliRunner().invoke(app, ["import", "questions", str(path), "--study", str(study.folder)])
    assert refused.exit_code and "some.quiz:3: a line needs a question, a tab and an answer" in str(refused.exception)
    blindspot(study, "import", "questions", str(path), "--skip-bad")
    assert study.questions.get("quiz2").answers == ("Henrik Ibsen",)


def test_the_judge_of_the_page_judges_orders_and_cleans(beside, study):
    beside("judge", JUDGES)
    bm25_of(study)
    blindspot(study, "retrieve", "--with", "bm25", "--split", "train", "--k", "5")
    assert "Judged 40 pairs" in blindspot(study, "judge", "run", "shared-words", "--run", "bm25-train")
    blindspot(study, "retrieve", "--with", "rerank", "--judge", "shared-words", "--split", "dev", "--k", "5")


def test_the_policy_of_the_page_builds_a_set(beside, study):
    beside("policy", DENOISING)
    bm25_of(study)
    blindspot(study, "retrieve", "--with", "bm25", "--split", "train", "--k", "5")
    blindspot(study, "training-set", "build", "careful", "--run", "bm25-train", "--policy", "cautious")


def test_the_door_names_only_what_exists():
    missing = [name for name in plugin.__all__ if not hasattr(plugin, name)]
    assert not missing and len(set(plugin.__all__)) == len(plugin.__all__)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("from backend.retrieval.retriever import RetrieverKind\n", "the name of version 0.2"),
        ("from blindspot.backend.text.counting import counted\n", "where this version does not have it"),
        ("from blindspot.backend.judges.feature_model import Threshold\n", "where this version does not have it"),
    ],
)
def test_a_plug_in_of_an_older_version_is_told_what_to_import(tmp_path, monkeypatch, capsys, code, why):
    installed(tmp_path, "old_search", "blindspot.test_old", {"old": "old_search:KIND"}, code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if Path(each or ".").resolve() != PAGES.parents[1]])
    monkeypatch.chdir(tmp_path)
    assert Registry("retriever", group="blindspot.test_old").names() == []
    (line,) = capsys.readouterr().err.splitlines()
    assert "old_search 1.0" in line and f"{why}; import what it needs from 'blindspot.plugin' (docs/extend)" in line


# Faulty ones


class Falling(RetrieverKind):
    name, title, help = "falling", "Falling", "its scores rise"
    bottom_first = True

    def available(self, study):
        return [self.name]

    def open(self, study, options, device=None, part=None):
        class Opened:
            name, settings = "falling", {"retriever": "falling"}

            def search(self, questions, k, progress=None):
                rows = np.tile(np.arange(k, dtype=np.int32), (len(questions), 1))
                return Hits(rows, rows.astype(np.float32))

        return Opened()


class Certain(PairJudge):
    name, title, help = "certain", "certain", "gives percentages"

    def probabilities(self, questions, passages):
        return [100.0 for _ in passages]


def test_a_faulty_retriever_is_told_the_rule():
    with pytest.raises(PluginFault, match="^retriever 'falling': the scores must not rise along a list: best first$"):
        check_retriever(Falling())


def test_a_faulty_judge_is_told_the_rule():
    with pytest.raises(PluginFault, match="^judge 'certain': .*must give a number from 0 to 1 for each of"):
        check_judge(Certain())


def test_a_faulty_format_is_told_the_rule():
    def read(path, options):
        for line in path.read_text().splitlines():
            yield ImportedQuestion(Question(line, line))

    form = Format("greedy", "questions", "anything", lambda head: True, read)
    with pytest.raises(PluginFault, match=r"^format 'greedy': recognise\(head\) must be false of "):
        check_format(form, b"who?\n", 1)
    torn = replace(form, recognise=lambda head: head.first_line == "who?")
    with pytest.raises(PluginFault, match="^format 'greedy': a torn file must give BadInput, .* UnicodeDecodeError"):
        check_format(torn, b"who?\n", 1)


def test_a_faulty_policy_is_told_the_rule():
    policy = DenoisingPolicy("kind", "Kind", "calls all good", lambda *_: ("positive", "all are good"))
    with pytest.raises(
        PluginFault, match="^denoising policy 'kind': a policy that makes positives must name their source"
    ):
        check_policy(policy)


def test_a_faulty_export_is_told_the_rule():
    def write(folder, rows):
        (folder / "rows.jsonl").write_text("{}\n")
        return {"rows.jsonl": 7}, ()

    faulty = replace(EXPORTS.get("dpr"), name="short", write=write)
    with pytest.raises(PluginFault, match="^export 'short': rows.jsonl has 1 lines; write reports 7$"):
        check_export(faulty)

"""Checks that a plug-in keeps the rules of its kind, for use in the tests of its author. Blindspot's own kinds pass the
same checks.

    from blindspot.testing import check_retriever
    from mysearch.kind import REVERSE

    def test_it_is_a_retriever():
        check_retriever(REVERSE)

Each check works on a small study in a temporary folder, unless the caller passes a study (for a retriever that needs an
index, for example). A failed check raises `PluginFault`, an AssertionError. Its one line names the plug-in and the
broken rule.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, get_args

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.data.formats.base import Format
from blindspot.backend.judges.judge import JUDGES, JudgeCard, JudgeKind
from blindspot.backend.retrieval.retriever import RESERVED, RETRIEVERS, Retriever, RetrieverKind
from blindspot.backend.training_sets.denoising import DenoisingPolicy, PassageEvidence, ScoreCeiling, Thresholds
from blindspot.backend.training_sets.exports.base import ExportFormat, ExportRows
from blindspot.db.errors import BadInput, BlindspotError
from blindspot.db.records import Hits, Passage, Question

__all__ = ["PluginFault", "check_export", "check_format", "check_judge", "check_policy", "check_retriever"]

_TOWNS = ("Oslo", "Bergen", "Molde", "Hamar", "Narvik", "Alta")
_RUN = "all-passages"


class PluginFault(AssertionError):
    """A plug-in breaks a rule of its kind. The message is one line: the plug-in, and the rule."""


class _Rules:
    """The rules of one plug-in; each is a sentence that must be true."""

    def __init__(self, what: str, name: object):
        self.plugin = f"{what} {name!r}"

    def require(self, condition: object, rule: str) -> None:
        if not condition:
            raise PluginFault(f"{self.plugin}: {rule}")

    def call(self, rule: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what a function of the plug-in returns; any error counts as a broken rule."""
        try:
            return function(*arguments, **named)
        except Exception as error:
            raise PluginFault(f"{self.plugin}: {rule}; it raised {type(error).__name__}: {error}") from error

    def check_name(self, entry: object, words: Sequence[str] = ("name", "title", "help")) -> None:
        for word in words:
            value = getattr(entry, word, None)
            self.require(isinstance(value, str) and value.strip(), f"the attribute {word} must be a text")
        name = entry.name  # type: ignore[attr-defined]
        self.require(
            re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name), "the name must be of small letters, digits, '-' and '_'"
        )


@contextmanager
def _small_study(study: Study | None) -> Iterator[Study]:
    """The given study, or a new one with 24 passages about people and towns, 16 questions with gold, and a run over
    them.
    """
    from blindspot.backend.core.runs import write_run
    from blindspot.db.corpus import CorpusWriter

    if study is not None:
        yield study
        return
    with tempfile.TemporaryDirectory(prefix="blindspot-check-") as folder:
        made = Study.create(Path(folder) / "study")
        towns = [_TOWNS[i % len(_TOWNS)] for i in range(24)]
        passages = [
            Passage(f"p{i}", f"Arve Furset {i}", f"Arve Furset {i} was born in {town}. He wrote {i} songs.")
            for i, town in enumerate(towns)
        ]
        with CorpusWriter(made.folder / "corpus.db") as writer:
            writer.add(passages)
            writer.finish("passages.tsv", "0" * 64)
        made.questions.add(
            Question(
                f"q{i}",
                f"Where was Arve Furset {i} born?",
                (towns[i],),
                "P19",
                f"Arve Furset {i}",
                dataset="births",
                split="train" if i < 8 else "dev",
                gold=(f"p{i}",),
            )
            for i in range(16)
        )
        rows = np.tile(np.arange(24, dtype=np.int32), (16, 1))
        scores = np.tile(np.arange(24, 0, -1, dtype=np.float32), (16, 1))
        write_run(made, _RUN, [f"q{i}" for i in range(16)], Hits(rows, scores), {"retriever": "every passage"})
        yield made


def check_retriever(kind: RetrieverKind, study: Study | None = None) -> None:
    """Check a kind of retriever: its declaration, its hits, and a whole run with it.

    Args:
        kind: what the entry point names.
        study: a study in which the kind has a retriever that can be opened, if it needs an index.

    Raises:
        PluginFault: the kind breaks a rule.
    """
    from blindspot.backend.core.declared import declared_settings

    rules = _Rules("retriever", getattr(kind, "name", kind))
    rules.require(isinstance(kind, RetrieverKind), "it must be an instance of a subclass of RetrieverKind")
    rules.check_name(kind)
    options = rules.call("options must be a class under @settings_class", declared_settings, kind.options)
    taken = [option for option in options if option in RESERVED]
    rules.require(not taken, f"the option {taken[:1]} is already an option of 'blindspot retrieve'")
    with _small_study(study) as opened:
        names = rules.call("available(study) must not raise", kind.available, opened)
        rules.require(
            isinstance(names, list) and all(isinstance(name, str) for name in names),
            "available(study) must return a list of names",
        )
        rules.require(names, "available(study) names no retriever of this study; give check_retriever one that has one")
        for name in names:
            rules.require(kind.owns(name), f"owns({name!r}) must be true, because available(study) names it")
            rule = f"options_of({name!r}) must be values of its options"
            chosen = rules.call(rule, kind.options, **kind.options_of(name))
            rules.require(kind.name_of(chosen) == name, f"name_of must be the inverse of options_of for {name!r}")
            retriever = rules.call("open(study, options) must open it", kind.open, opened, chosen, "cpu")
            _check_hits(rules, opened, retriever)
        _check_run(rules, opened, kind, names[0])


def _check_hits(rules: _Rules, study: Study, retriever: Retriever) -> None:
    rules.require(isinstance(getattr(retriever, "name", None), str), "an open retriever must have a name")
    rules.call("its settings must be JSON, for the manifests of runs", json.dumps, retriever.settings)
    passages = len(study.corpus)
    texts = [question.text for question in study.questions.all()][:5] + ["", "Ω? \U0001f600 'quoted\" \\ text"]
    k = min(10, passages)
    hits = rules.call("search(questions, k) must not raise, odd questions included", retriever.search, texts, k)
    rules.require(isinstance(hits, Hits), "search must return Hits")
    shape = (len(texts), k)
    for what, array, kind in (("ordinals", hits.ordinals, np.int32), ("scores", hits.scores, np.float32)):
        is_right = isinstance(array, np.ndarray) and array.shape == shape and array.dtype == kind
        rules.require(is_right, f"{what} must be an array {shape} of {np.dtype(kind).name}, one row for each question")
    rows, scores, padded = hits.ordinals, hits.scores, hits.ordinals < 0
    rules.require(
        (rows >= -1).all() and (rows < passages).all(), f"ordinals must be rows from 0 to {passages - 1}, or -1"
    )
    rules.require((padded[:, 1:] >= padded[:, :-1]).all(), "-1 pads a short list at its end only")
    rules.require(np.isneginf(scores[padded]).all(), "the score of padding must be -inf")
    rules.require(np.isfinite(scores[~padded]).all(), "the scores of hits must be finite")
    real = [row[row >= 0] for row in rows]
    rules.require(all(len(np.unique(row)) == len(row) for row in real), "a list must not hold a passage twice")
    falls = all((np.diff(line[row >= 0]) <= 0).all() for line, row in zip(scores, rows, strict=True))
    rules.require(falls, "the scores must not rise along a list: best first")
    none = rules.call("search([], k) must return no rows", retriever.search, [], k)
    rules.require(none.ordinals.shape == (0, k), f"search([], {k}) must return arrays of shape (0, {k})")
    for i, text in enumerate(texts):
        alone = retriever.search([text], k).scores[0]
        close = np.allclose(alone[~padded[i]], scores[i][~padded[i]], rtol=1e-3, atol=1e-4)
        rules.require(close, "a question asked alone must get the scores that it gets beside others")


def _check_run(rules: _Rules, study: Study, kind: RetrieverKind, retriever: str) -> None:
    """A whole run, made as the command makes it, under a name that is deleted afterwards."""
    import shutil

    from blindspot.backend.retrieval.retrieve import retrieve

    if kind.name not in RETRIEVERS:
        return  # the package is not installed beside Blindspot: what the command does cannot be tried
    name = "blindspot-check"
    settings = {"k": min(5, len(study.corpus)), "name": name, "replace": True, "device": "cpu"}
    rule = f"'blindspot retrieve --with {kind.name}' must make a run"
    run = rules.call(rule, retrieve, study, kind.name, **settings, **kind.options_of(retriever))
    try:
        manifest = run.manifest
        rules.require(kind.made(manifest), "made(manifest) must be true of a run that it made")
        text = rules.call("describe(manifest) must not raise", kind.describe, manifest)
        rules.require(isinstance(text, str) and text, "describe(manifest) must be a text")
    finally:
        shutil.rmtree(study.path("runs", name), ignore_errors=True)


def check_judge(kind: JudgeKind, study: Study | None = None, run: str = _RUN) -> None:
    """Check a kind of judge: its cards, its probabilities for the lists of a run, and the job that stores them.

    Args:
        study, run: a study with a judge of this kind and a run, if the kind must learn first; its stored scores change.

    Raises:
        PluginFault: the kind breaks a rule.
    """
    from blindspot.backend.judges.lists import lists_of

    rules = _Rules("judge", getattr(kind, "name", kind))
    rules.require(isinstance(kind, JudgeKind), "it must be an instance of a subclass of JudgeKind, such as PairJudge")
    rules.check_name(kind)
    with _small_study(study) as opened:
        cards = rules.call("cards(study) must not raise", kind.cards, opened)
        rules.require(cards and all(isinstance(card, JudgeCard) for card in cards), "cards(study) must list its judges")
        rules.require(all(card.kind == kind.name for card in cards), "each card must name this kind")
        name, stored = cards[0].name, opened.run(run)
        judge = rules.call("open(study, name) must open it", kind.open, opened, name)
        rules.require(judge.name == name, "an open judge must have the name of its card")
        rules.require(isinstance(judge.calibrated, bool), "calibrated must be True or False")
        lists = lists_of(stored, opened.questions.with_ids(stored.question_ids), 10)
        lists.rows[0, -2:] = -1
        given = rules.call("judge(lists) must not raise", judge.judge, lists)
        padded = lists.rows < 0
        is_array = isinstance(given, np.ndarray) and given.shape == lists.rows.shape
        rules.require(is_array, f"judge(lists) must return an array {lists.rows.shape}, as the lists are")
        rules.require(np.isnan(given[padded]).all(), "the probability of padding must be NaN")
        known = given[~padded & ~np.isnan(given)]
        rules.require(((known >= 0) & (known <= 1)).all(), "probabilities must be from 0 to 1")
        if kind.scores_any_pair:
            rules.require(
                len(known) == (~padded).sum(), "a judge that scores any pair must give every hit a probability"
            )
            again = judge.judge(lists)
            rules.require(np.allclose(again, given, equal_nan=True), "the same lists must get the same probabilities")
        job = kind.run_job
        if job is not None and kind.name in JUDGES:
            done = rules.call("run_job(study, name, run) must store scores", job, opened, name, run)
            rules.require(isinstance(done, dict), "run_job must return a dict with the number of pairs")
            rules.require(name in opened.parts("scores"), "run_job must store its scores under the judge's name")


def check_format(format: Format, sample: bytes, rows: int, name: str = "sample.dev") -> None:
    """Check a format: it recognises its own file and no other, reads records of its kind, and handles truncated files.

    Args:
        sample: the content of a good file. rows: how many records it holds. name: the file's name.

    Raises:
        PluginFault: the format breaks a rule.
    """
    from blindspot.backend.data.formats import base

    records = {
        "passages": base.PassageBatch,
        "questions": base.ImportedQuestion,
        "frequencies": tuple,
        "runs": base.RunEntry,
        "qrels": base.Qrel,
    }
    rules = _Rules("format", getattr(format, "name", format))
    rules.require(isinstance(format, base.Format), "it must be a Format")
    rules.check_name(format, ("name", "what"))
    rules.require(format.kind in records, f"kind must be one of {', '.join(records)}")
    if format.read is None:
        return
    with tempfile.TemporaryDirectory(prefix="blindspot-check-") as folder:
        path = Path(folder) / name

        def read_bytes(content: bytes) -> list[Any]:
            path.write_bytes(content)
            with format.opened(path) as opened:
                return list(opened)

        path.write_bytes(sample)
        rules.require(_recognises(rules, format, path), "recognise(head) must be true of the sample")
        for other in (b"\x00\xff\x00\xff", b'{"unheard": "of"}\n', b"<html></html>\n"):
            (Path(folder) / "other").write_bytes(other)
            recognised = _recognises(rules, format, Path(folder) / "other")
            rules.require(not recognised or format.name == "plain", f"recognise(head) must be false of {other!r}")
        found = rules.call("reading the sample must not raise", read_bytes, sample)
        wrong = [row for row in found if isinstance(row, BadInput)]
        rules.require(not wrong, f"the sample has no wrong row, and yet: {wrong[:1]}")
        kind = records[format.kind]
        rules.require(all(isinstance(row, kind) for row in found), f"the reader must yield {kind.__name__}")
        count = sum(len(row.rows) for row in found) if format.kind == "passages" else len(found)
        rules.require(count == rows, f"the sample holds {rows} records; the reader gave {count}")
        if format.kind == "questions":
            faults = [fault for row in found if (fault := base.question_fault(row.question))]
            rules.require(not faults, f"a question is not valid: {faults[:1]}")
        half = len(sample) // 2
        for torn in (sample[:half], sample[: half + 1] + b"\xff" + sample[half + 1 :], sample + b"\x00torn"):
            rules.call("a torn file must give BadInput, raised or yielded, or fewer rows", _try_read, read_bytes, torn)


def _recognises(rules: _Rules, format: Format, path: Path) -> bool:
    from blindspot.backend.data.formats import _file_head

    return bool(rules.call("recognise(head) must not raise", format.recognise, _file_head(path)))


def _try_read(read_bytes: Callable[[bytes], list[Any]], content: bytes) -> None:
    try:
        read_bytes(content)
    except BlindspotError:
        return


def check_policy(policy: DenoisingPolicy) -> None:
    """Check a denoising policy: it decides every case that mining can produce, and always in the same way.

    Raises:
        PluginFault: the policy breaks a rule.
    """
    from blindspot.backend.training_sets.training_set import Role

    rules = _Rules("denoising policy", getattr(policy, "name", policy))
    rules.require(isinstance(policy, DenoisingPolicy), "it must be a DenoisingPolicy")
    rules.check_name(policy)
    rules.require("+" not in policy.name, "the name must hold no '+', which adds people's labels")
    ceilings: list[ScoreCeiling | None] = [None]
    if policy.uses_ceiling:
        ceilings = [ScoreCeiling(value, from_run) for value, from_run in product((None, 0.5), (True, False))]
    numbers = (None, 0.0, 0.4, 1.0)
    thresholds = Thresholds().filled(policy.own)
    for answer, score, probability, easy, ceiling in product(
        (None, True, False), numbers, numbers, (True, False), ceilings
    ):
        evidence = PassageEvidence(answer, score, probability, easy)
        decision = rules.call(f"decide must decide {evidence}", policy.decide, evidence, thresholds, ceiling)
        is_pair = isinstance(decision, tuple) and len(decision) == 2
        rules.require(is_pair, f"decide must return (role, reason); for {evidence} it returned {decision!r}")
        role, reason = decision
        rules.require(role in get_args(Role), f"the role must be one of {', '.join(get_args(Role))}, not {role!r}")
        rules.require(isinstance(reason, str) and reason.strip(), f"the reason of {evidence} must be a text")
        rules.require(
            policy.decide(evidence, thresholds, ceiling) == decision, f"it must decide {evidence} the same way twice"
        )
        rules.require(
            role != "positive" or policy.proposes, "a policy that makes positives must name their source in `proposes`"
        )


def check_export(export: ExportFormat) -> None:
    """Check an export format: its files, the numbers of rows that it reports, and that two exports are identical.

    Raises:
        PluginFault: the export breaks a rule.
    """
    from blindspot.backend.training_sets.builder import build
    from blindspot.backend.training_sets.export_options import ExportOptions

    rules = _Rules("export", getattr(export, "name", export))
    rules.require(isinstance(export, ExportFormat), "it must be an ExportFormat")
    rules.check_name(export)
    with _small_study(None) as study:
        built = build(study, "check", [_RUN], policy="answer_match")
        options = ExportOptions(negatives=export.negatives)
        written: list[dict[str, bytes]] = []
        for number in range(2):
            folder = study.folder.parent / f"export-{number}"
            folder.mkdir()
            rows = ExportRows(study, built, options)
            result = rules.call("write(folder, rows) must not raise", export.write, folder, rows)
            is_pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], dict)
            rules.require(is_pair, "write must return ({file: number of rows}, notes)")
            counts, notes = result
            files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            rules.require(set(counts) == set(files), f"write reports {sorted(counts)} and wrote {sorted(files)}")
            rules.require(sum(counts.values()) > 0, "write must report more than 0 rows for a set with pairs")
            rules.require(all(isinstance(note, str) for note in notes), "notes must be texts")
            for file, content in files.items():
                is_lines = file.endswith(".jsonl")
                right = not is_lines or content.count(b"\n") == counts[file]
                rules.require(right, f"{file} has {content.count(bytes([10]))} lines; write reports {counts.get(file)}")
            written.append(files)
        rules.require(written[0] == written[1], "writing the same set twice must give the same bytes")

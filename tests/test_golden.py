"""What must not change: results that an earlier state of the code gave, stored in tests/golden.

tests/golden/README.md says what each file holds, how it was made, and how close a result must be. Each part has its
adapters, which call the product and return plain values, and below them its tests.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import forked
from tests.studies import make_study

GOLDEN = Path(__file__).parent / "golden"


def stored(name: str) -> Any:
    """Return what a file of tests/golden holds: JSON (may be packed), JSON lines or arrays."""
    path = GOLDEN / name
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = ".jsonl" in path.suffixes
    return [json.loads(line) for line in data.decode().split("\n") if line] if lines else json.loads(data)


# Label events, their fold, and an export


def labelled_study(folder: Path, world: dict, people: dict[str, str]):
    """Return a study with the stored passages, questions and people, and the batches that are stored with them."""
    from blindspot.db.people import People
    from blindspot.db.queue import Candidate, Item, Queue
    from blindspot.db.records import Passage, Question

    asked = [
        Question(**{**each, "answers": tuple(each["answers"]), "gold": tuple(each["gold"])})
        for each in world["questions"]
    ]
    study = make_study(folder, [Passage(*each) for each in world["passages"]], asked)
    for name, role in people.items():
        People(study.labels_path).add(name, role)
    for name, items in world.get("batches", {}).items():
        made = []
        for item in items:
            shown = [
                Candidate(passage, number, run, rank, score, inclusion_probability=probability)
                for number, (passage, run, rank, score, probability) in enumerate(item["shown"])
            ]
            is_audit = any(each.inclusion_probability is not None for each in shown)
            drawn = {"arm": "audit", "inclusion_probability": 0.5} if is_audit else {}
            made.append(Item(item["question"], tuple(shown), people_needed=item["needed"], **drawn))
        Queue(study.labels_path).add_batch(name, made, {"seed": 0})
    return study


def send(study, sent: list[dict], rows: list[dict]) -> None:
    """Store messages of browsers, each at its time, and the rows of machines' labels, which are imported. What is sent
    to the queue is only read."""
    from dataclasses import replace

    from blindspot.db.events import MACHINE, EventRow, LabelEvent, parse_event
    from blindspot.db.labels import Labels

    now = [0.0]
    labels = Labels(study.labels_path, passages=study.corpus.ordinals, clock=lambda: now[0])
    for each in sent:
        now[0] = each["at"]
        event = parse_event(each["message"], each["version"])
        assert event.id == each["message"]["id"]
        if each["version"] == MACHINE:
            labels.import_event_rows([EventRow(**row) for row in rows if row["gesture"] == event.id])
        elif isinstance(event, LabelEvent):
            given = {choice["passage"]: choice for choice in each["message"].get("choices", ())}
            choices = tuple(replace(choice, **given[choice.passage]) for choice in event.choices)
            labels.add(each["who"], replace(event, choices=choices, blind=each.get("blind", False)))


def import_label_file(study, path: Path, **more) -> None:
    from blindspot.backend.judging.labels_io import import_labels

    import_labels(study, path, **more)


def fold(study) -> dict:
    """Return all that follows from the label events of a study, as plain values."""
    from blindspot.db.labels import Labels
    from blindspot.db.people import People

    store, said = Labels(study.labels_path), {}
    judged = sorted(store.judgements(), key=lambda each: (each.question, each.passage, each.annotator))
    for each in judged:
        said.setdefault((each.question, each.passage), {})[each.annotator] = each.label
    return {
        "people": sorted([person.name, person.role, person.kind] for person in People(study.labels_path).all()),
        "labels": [
            [
                each.question,
                each.passage,
                each.annotator,
                each.label,
                each.batch,
                each.blind,
                each.inclusion_probability,
            ]
            for each in judged
        ],
        "consensus": [[each.question, each.passage, each.label, each.state, each.people] for each in store.consensus()],
        "disagreements": [
            [question, passage, by_person]
            for (question, passage), by_person in said.items()
            if len(set(by_person.values())) > 1
        ],
        "relevance": [
            [each.question, each.passage, each.relevance, each.trains] for each in store.corrected_relevance()
        ],
        "machines": {
            machine: sorted(
                [question, passage, label] for (question, passage), label in store.machine_labels(machine).items()
            )
            for machine in store.machine_label_counts()
        },
        "bad questions": store.bad_questions(),
        "notes": sorted(
            [row.question, row.passage, row.annotator, row.note]
            for question in study.questions.all()
            for row in store.notes(question.id)
        ),
    }


def event_rows(study) -> list[dict]:
    """Return the rows of all label events, as the label file has them."""
    from blindspot.db.events import COLUMNS
    from blindspot.db.labels import Labels

    return [{name: getattr(row, name) for name in COLUMNS} for row in Labels(study.labels_path).events()]


def test_the_rows_of_300_label_events_are_read_and_folded(tmp_path):
    """Rows as labels.db and label files hold them. An import knows the role of nobody but of those who settle."""
    world = stored("labels/events.json.gz")
    study = labelled_study(tmp_path / "s", world, world["people"])
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in world["rows"]))
    import_label_file(study, tmp_path / "labels.jsonl")
    assert event_rows(study) == world["rows"]
    assert fold(study) == world["fold"]


def test_300_label_events_of_browsers_are_stored_and_folded(tmp_path):
    world = stored("labels/events.json.gz")
    study = labelled_study(tmp_path / "s", world, world["people"])
    assert len(world["sent"]) == 300
    send(study, world["sent"], world["rows"])
    assert event_rows(study) == world["rows"]
    assert fold(study) == world["fold"]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_a_label_export_of_03_is_imported(tmp_path, format):
    """A study that has the same questions and passages gets the same labels, people and consensus."""
    world = stored("labels/export.json.gz")
    study = labelled_study(tmp_path / "s", world, {})
    path = tmp_path / f"labels.{format}"
    path.write_bytes(gzip.decompress((GOLDEN / "labels" / f"labels.{format}.gz").read_bytes()))
    import_label_file(study, path)
    assert fold(study) == world["fold"]
    assert {(name, kind) for name, _, kind in world["roles"]} == {
        (name, kind) for name, _, kind in fold(study)["people"]
    }


def test_exported_qrels_of_03_are_imported(tmp_path):
    world = stored("labels/export.json.gz")
    study = labelled_study(tmp_path / "s", world, {})
    path = tmp_path / "labels.qrels"
    path.write_bytes(gzip.decompress((GOLDEN / "labels" / "labels.qrels.gz").read_bytes()))
    import_label_file(study, path, annotator="reader", by_person=True)
    assert {key: fold(study)[key] for key in world["qrels"]} == world["qrels"]


# The rows of every denoising policy


def policy_study(folder: Path, world: dict):
    """Return a study with the stored passages, questions, runs, scores, thresholds of a judge and labels."""
    from blindspot.backend.core.manifest import write_json
    from blindspot.backend.core.runs import write_run
    from blindspot.backend.judges.scores import ScoreStore
    from blindspot.db.events import Choice, LabelEvent
    from blindspot.db.labels import Labels
    from blindspot.db.records import Hits

    study = labelled_study(folder, world, world["people"])
    rows = {id: row for row, (id, _, _) in enumerate(world["passages"])}
    for name, lists in world["runs"].items():
        found = [[(rows[passage], score) for passage, score in hits] for hits in lists.values()]
        ordinals, scores = np.array(found).transpose(2, 0, 1)
        hits = Hits(ordinals.astype(np.int32), scores.astype(np.float32))
        write_run(study, name, list(lists), hits, {"retriever": name})
    for model, scored in world["scores"].items():
        ScoreStore.create(study, model, world["calibrated"][model]).add(scored)
    study.path("models", "judge").mkdir(parents=True)
    thresholds = {key: {"value": value} for key, value in world["judge thresholds"].items()}
    about = {"kind": "feature-judge", "name": "judge", "corpus": study.corpus.digest, **thresholds}
    write_json(study.path("models", "judge", "training.json"), about)
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    for number, (who, question, passage, label, kind) in enumerate(world["labels"]):
        labels.add(who, LabelEvent(f"e{number}", kind, question, (Choice(passage, label),)))
    return study


def reason_codes() -> dict[str, str]:
    """Return the code of each reason that a pair, or a question that was left out, may have."""
    from blindspot.backend.data import leaks
    from blindspot.backend.training_sets import assemble, denoising, sources

    modules = [vars(module) for module in (denoising, assemble, leaks, sources)]
    return {text: code for names in modules for code, text in names.items() if code.isupper() and isinstance(text, str)}


def policy_rows(study, name: str, case: dict) -> dict:
    """Return the rows (question, passage, role, reason) of a training set, and why questions are left out."""
    from blindspot.backend.training_sets.builder import build

    settings = {key: tuple(value) if isinstance(value, list) else value for key, value in case.items()}
    made, codes = build(study, name, settings.pop("runs", ("lexical", "dense")), **settings), reason_codes()
    return {
        "rows": [
            [question, pair.passage, pair.role, codes[pair.reason]]
            for question, pairs in made.groups()
            for pair in pairs
        ],
        "left out": {question: codes[reason] for question, reason in made.left_out().items()},
    }


def test_the_rows_of_every_policy(tmp_path):
    """Each with and without people's labels."""
    world = stored("policies.json.gz")
    study = policy_study(tmp_path / "s", world)
    for number, (name, expected) in enumerate(world["sets"].items()):
        case = {key: value for key, value in expected.items() if key not in ("rows", "left out")}
        made = policy_rows(study, f"s{number}", case)
        rows, before = ([tuple(row) for row in each["rows"]] for each in (made, expected))
        assert set(rows) ^ set(before) == set(), name
        assert rows == before, name
        assert made["left out"] == expected["left out"], name


# Losses


def loss_and_gradient(
    batch: dict[str, np.ndarray], settings: dict, rows: slice = slice(None)
) -> tuple[float, np.ndarray]:
    """Return the loss of some rows of a batch in this process, and its gradient by the vectors of the questions and of
    their columns of passages, (1 + columns, rows, width)."""
    import torch

    from blindspot.backend.training.losses import InBatchLoss

    vectors = torch.from_numpy(batch["vectors"][:, rows].copy()).requires_grad_()
    columns = len(vectors) - 1
    labels = {
        "passages": torch.from_numpy(batch["passages"][:columns, rows].copy()).flatten(),
        "positives": torch.from_numpy(batch["positives"][rows].copy()),
    }
    if settings.get("distil_loss"):
        labels["teacher"] = torch.from_numpy(batch["teacher"][rows].copy())
    with_backward = settings.get("mini_batch") is not None
    loss = InBatchLoss(torch.nn.Identity(), **settings)
    value = loss.calculate_loss([[each] for each in vectors.unbind()], labels, with_backward=with_backward)
    if not with_backward:
        value.backward()
    return value.item(), vectors.grad.numpy()


def losses_of_a_process(rank: int, folder: str) -> None:
    """Store the losses and gradients of one of two processes, which hold half of each batch."""
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/met", rank=rank, world_size=2)
    batches, cases = stored_batches()
    found = {}
    for number, case in enumerate(cases):
        batch = batches[case["batch"]]
        half = batch["vectors"].shape[1] // 2
        rows = slice(rank * half, (rank + 1) * half)
        found[f"{number} loss"], found[f"{number} gradient"] = loss_and_gradient(batch, case["settings"], rows)
    np.savez(f"{folder}/{rank}.npz", **found)
    torch.distributed.destroy_process_group()


def losses_of_two_processes(folder: str) -> int:
    import multiprocessing

    forks = multiprocessing.get_context("fork")
    running = [forks.Process(target=losses_of_a_process, args=(rank, folder)) for rank in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
        process.kill()
        process.join()
    return int(any(process.exitcode for process in running))


def stored_batches() -> tuple[list[dict[str, np.ndarray]], list[dict]]:
    """Return the batches, and the cases: batch, settings, loss."""
    arrays, about = stored("losses.npz"), stored("losses.json")
    names = ("vectors", "passages", "positives", "teacher")
    return [{name: arrays[f"{i} {name}"] for name in names} for i in range(about["batches"])], about["cases"]


def test_losses_of_one_process():
    batches, cases = stored_batches()
    gradients = stored("losses.npz")
    for number, case in enumerate(cases):
        for cached in (None, 2):
            value, gradient = loss_and_gradient(batches[case["batch"]], {**case["settings"], "mini_batch": cached})
            assert value == pytest.approx(case["loss"], rel=1e-5, abs=1e-5), case
            np.testing.assert_allclose(
                gradient, gradients[f"{number} gradient"], rtol=1e-4, atol=1e-5, err_msg=str(case)
            )


def test_losses_of_two_processes(tmp_path):
    """Their mean is the loss of one process, and so is the sum of their gradients, halved. Of a repeated passage only the
    first copy gets one."""
    code = "import sys; from tests.test_golden import losses_of_two_processes; sys.exit(losses_of_two_processes(sys.argv[1]))"
    done = forked.python("-c", code, str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    parts = []
    for rank in range(2):
        with np.load(tmp_path / f"{rank}.npz") as arrays:
            parts.append(dict(arrays))
    _, cases = stored_batches()
    gradients = stored("losses.npz")
    for number, case in enumerate(cases):
        mean = sum(float(part[f"{number} loss"]) for part in parts) / 2
        assert mean == pytest.approx(case["loss of two"], rel=1e-5, abs=1e-5), case
        questions = np.concatenate([part[f"{number} gradient"][0] for part in parts]) / 2
        np.testing.assert_allclose(
            questions, gradients[f"{number} gradient"][0], rtol=1e-4, atol=1e-5, err_msg=str(case)
        )


# The features of the learned judge, and its prior


def judge_features(folder: Path, world: dict) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the names of the features and the matrix (pairs, features), with and without similarities of meaning."""
    from blindspot.backend.judges.features import NAMES, WordWeights, feature_matrix
    from blindspot.db.records import Passage

    study = make_study(folder, [Passage(*each) for each in world["passages"]])
    rows, scores, similarities = (
        np.array(world[name], kind)
        for name, kind in (("rows", np.int32), ("scores", np.float32), ("similarities", np.float32))
    )
    weights = WordWeights.of_study(study)
    made = [feature_matrix(study, world["questions"], rows, scores, weights, each) for each in (similarities, None)]
    return list(NAMES), *(each.reshape(-1, len(NAMES)) for each in made)


def prior_scores(features: np.ndarray) -> np.ndarray:
    """Return the log-odds (pairs,) that the judge gives before it has learned from a label."""
    from blindspot.backend.judges.feature_model import UNKNOWN, Examples, fit_ranker
    from blindspot.backend.judges.settings import FeatureJudgeSettings

    pairs = len(features)
    examples = Examples(features, np.full(pairs, UNKNOWN, np.int8), np.arange(pairs), np.zeros(pairs, bool))
    return fit_ranker(examples, FeatureJudgeSettings()).ranking_scores(features)


def prior_weights() -> dict[str, dict[str, float]]:
    from blindspot.backend.judges.feature_model import PRIOR

    return json.loads(PRIOR.read_text())["weights"]


def test_features_of_the_learned_judge(tmp_path):
    world, arrays = stored("features.json.gz"), stored("features.npz")
    names, features, without = judge_features(tmp_path / "s", world)
    assert names == world["names"] and len(features) == 200
    for found, expected in ((features, arrays["features"]), (without, arrays["without similarities"])):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_the_prior_of_the_learned_judge():
    world, arrays = stored("features.json.gz"), stored("features.npz")
    assert prior_weights() == world["prior"]
    for features, expected in (("features", "prior"), ("without similarities", "prior without similarities")):
        np.testing.assert_allclose(prior_scores(arrays[features]), arrays[expected], rtol=1e-5, atol=1e-5)


# Experiments


@pytest.fixture(scope="module")
def planned_studies(tmp_path_factory):
    """The studies of the experiments without indexes."""
    return experiment_studies(tmp_path_factory.mktemp("planned"))


@pytest.fixture(scope="module")
def experiment_study(tmp_path_factory):
    """The study of DPR's and RocketQA's experiments, with its indexes."""
    studies = experiment_studies(tmp_path_factory.mktemp("experiments"), ["papers"])
    build_indexes(studies["papers"])
    return studies["papers"]


def experiment_studies(folder: Path, names: Iterable[str] = ("papers", "entityquestions")) -> dict:
    """Return studies with the stored passages, questions and encoders; the second has EntityQuestions' sets besides."""
    from blindspot.backend.core.settings import add_encoder
    from blindspot.db.records import Passage, Question

    world, weights, made = stored("experiments/study.json.gz"), stored("experiments/encoders.npz"), {}
    for encoder in ("tiny", "other"):
        of_encoder = {key.removeprefix(f"{encoder}/"): each for key, each in weights.items() if key.startswith(encoder)}
        save_bert(folder / encoder, world["vocabulary"], of_encoder)
    for name in names:
        asked = [*world["questions"], *(world["entityquestions"] if name == "entityquestions" else ())]
        questions = [
            Question(**{key: tuple(each) if isinstance(each, list) else each for key, each in question.items()})
            for question in asked
        ]
        made[name] = make_study(folder / name, [Passage(*each) for each in world["passages"]], questions)
        for encoder in ("tiny", "other"):
            settings = {"model": str(folder / encoder), "pooling": "cls", "max_tokens": 64}
            add_encoder(made[name].settings_path, encoder, settings)
    return made


def save_bert(folder: Path, vocabulary: list[str], weights: dict[str, np.ndarray]) -> None:
    import torch
    import transformers

    numbers = {word: number for number, word in enumerate(vocabulary)}
    transformers.BertTokenizerFast(vocab=numbers).save_pretrained(folder)
    width = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=96, **width)
    model = transformers.BertModel(config)
    model.load_state_dict({name: torch.from_numpy(each.astype(np.float32)) for name, each in weights.items()})
    model.save_pretrained(folder)


def build_indexes(study) -> None:
    from blindspot.backend.retrieval import dense
    from tests.indexes import bm25_of

    bm25_of(study)
    dense.build_index(study, "tiny", device="cpu")


def claim_places(ahead, behind, within: float | None, by: float) -> list:
    """Return a claim as it is stored: the two cells, by how much they may differ, and by how much one must lead."""
    return [list(ahead), behind and list(behind), within, by]


def planned_experiment(study, name: str, given: dict) -> dict:
    """Return the cells, claims and plotted points of an experiment, from which nothing is made."""
    from blindspot.backend.experiments.running import experiment_named, hashable_options
    from blindspot.backend.experiments.workbench import Workbench

    chosen = experiment_named(name)
    plan = chosen.plan(chosen.setting(hashable_options(given)), Workbench(study))
    return {
        "cells": [[cell.row, cell.column, cell.published, cell.is_trained] for cell in plan.cells],
        "claims": [
            claim_places(claim.expected_better, claim.expected_worse, claim.tolerance, claim.minimum_gain)
            for claim in plan.claims
        ],
        "plot": plan.plot
        and {series: [list(point) for point in points] for series, points in plan.plot.series.items()},
    }


def ran_experiment(study, name: str, given: dict) -> dict:
    """Return the cells and claims of an experiment with their figures."""
    from blindspot.backend.experiments.running import run_experiment

    result = run_experiment(study, name, given, "cpu")
    figures = ("value", "low", "high", "n", "units")
    return {
        "cells": {
            f"{cell['row']} | {cell['column']}": {each: cell[each] for each in figures} for cell in result["cells"]
        },
        "claims": [
            {
                "claim": claim_places(claim["ahead"], claim["behind"], claim["within"], claim["by"]),
                **{each: claim[each] for each in ("difference", "low", "high", "n", "units", "word")},
            }
            for claim in result["claims"]
        ],
    }


EXPERIMENTS = stored("experiments/results.json.gz")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_plans(planned_studies, name):
    """Rows, columns, the papers' figures, claims and plots."""
    expected = EXPERIMENTS[name]
    assert planned_experiment(planned_studies[expected["study"]], name, expected["given"]) == expected["plan"]


def check_experiment(study, name: str) -> None:
    """Run an experiment with its first seed. A figure that needs no training is the stored one; another lies where three
    seeds say that a fourth does. A row whose training found nothing to add may be left out, or no longer."""
    expected = EXPERIMENTS[name]
    found = ran_experiment(study, name, {**expected["given"], "seeds": expected["given"]["seeds"][:1]})
    planned = [f"{row} | {column}" for row, column, _, _ in expected["plan"]["cells"]]
    assert list(found["cells"]) == [place for place in planned if place in found["cells"]]
    assert set(expected["cells"]) <= set(found["cells"])
    for place, was in expected["cells"].items():
        now = found["cells"][place]
        assert (now["n"], now["units"]) == (was["n"], was["units"]), place
        if "seeds" in was:
            assert was["from"] <= now["value"] <= was["to"], (place, now["value"], was)
        else:
            assert now == pytest.approx(was, abs=1e-9), place
    claims = {str(each["claim"]): each for each in found["claims"]}
    assert [each["claim"] for each in found["claims"]] == [
        claim for claim in expected["plan"]["claims"] if str(claim) in claims
    ]
    for was in expected["claims"]:
        now = claims[str(was["claim"])]
        figures = [each for each in was if each not in ("claim", "word")]
        assert [now[each] for each in figures] == pytest.approx([was[each] for each in figures], abs=1e-9), was["claim"]
        assert now["word"] == was.get("word", now["word"]), was["claim"]


@pytest.mark.parametrize("name", ["hybrid", "retrieval"])
def test_experiments_that_train_nothing(experiment_study, name):
    check_experiment(experiment_study, name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["papers", "entityquestions"])
def test_all_experiments(tmp_path, kind):
    study = experiment_studies(tmp_path, [kind])[kind]
    build_indexes(study)
    for name, expected in EXPERIMENTS.items():
        if expected["study"] == kind:
            check_experiment(study, name)


# Answer matches


def matches_of_a_pair(text: str, title: str, answers: list[str], rule: str) -> bool:
    from blindspot.backend.text.answers import has_answer

    return has_answer(text, answers, rule, title)


def matches_of_a_run(folder: Path, cases: list[dict], rule: str) -> list[bool]:
    """Match the answers of question i with passage i, as for the hits of a run."""
    from blindspot.backend.text.answers import match_run
    from blindspot.db.records import Passage, Question

    passages = [Passage(f"p{i}", case["title"], case["text"]) for i, case in enumerate(cases)]
    questions = [Question(f"q{i}", "?", tuple(case["answers"])) for i, case in enumerate(cases)]
    study = make_study(folder, passages)
    return match_run(study.corpus, questions, np.arange(len(cases))[:, None], rule)[:, 0].tolist()


@pytest.mark.parametrize("rule", ["dpr", "entityquestions", "regex", "rocketqa_mining"])
def test_answer_matches(tmp_path, rule):
    cases = stored("answers.json.gz")
    expected = [case["match"][rule] for case in cases]
    one = [matches_of_a_pair(case["text"], case["title"], case["answers"], rule) for case in cases]
    assert [case for case, held, was in zip(cases, one, expected, strict=True) if held != was] == []
    many = matches_of_a_run(tmp_path / "study", cases, rule)
    assert [case for case, held, was in zip(cases, many, expected, strict=True) if held != was] == []


# Measures of two runs, and their comparison

MEASURES = ("success", "mrr", "ndcg", "map", "recall", "r-precision")
KINDS = ("gold", "answers", "labels")
KS = (1, 3, 5, 10, 20)
COMPARED_AT = (5,)


def study_with_runs(folder: Path) -> Any:
    """Return a study with the files of golden/measures: the runs a and b, graded qrels, one person's labels."""
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages, import_questions
    from blindspot.backend.data.importing.qrels import import_qrels
    from blindspot.backend.data.importing.runs import import_run
    from blindspot.backend.judging.labels_io import import_labels

    study, files = Study.create(folder), GOLDEN / "measures"
    import_passages(study, files / "passages.tsv")
    import_questions(study, files / "questions.jsonl")
    import_qrels(study, files / "graded.qrels")
    for name in ("a", "b"):
        import_run(study, files / f"{name}.trec.gz", name)
    import_labels(study, files / "labels.qrels", format="qrels", annotator="ann", by_person=True)
    return study


def measured_values(study: Any, run: str, kind: str, cells: list[tuple[str, int]]) -> dict[str, dict[str, float]]:
    """Return the value of each measured question, for each measure and cut-off."""
    from blindspot.backend.evaluation.comparison import measure as measure_run
    from blindspot.backend.evaluation.measures import measure_named

    measured = measure_run(study, run, kind)
    ids = [question.id for question in measured.questions]
    return {
        f"{name} {k}": dict(zip(ids, map(float, measured.values(measure_named(name), k)), strict=True))
        for name, k in cells
    }


def compared_figures(study: Any, kind: str, cells: list[tuple[str, int]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for each measure and cut-off the figures of all questions, of the average over relations, and of each
    relation.
    """
    from blindspot.backend.evaluation.comparison import Comparison, by_group, measure_all, overall
    from blindspot.backend.evaluation.measures import measure_named

    both = Comparison.of_runs(*measure_all(study, ["a", "b"], kind).values())
    found = {}
    for name, k in cells:
        whole = overall(both, [k], measure=measure_named(name))
        groups = by_group(both, k, both.groups("relation"), measure_named(name))
        found[f"{name} {k}"] = {"all": whole.figures_at[k], "macro": whole.macro[k], **groups}
    return {
        cell: {
            group: {
                "n": each.n,
                "units": each.units,
                "a": each.a.value,
                "b": each.b.value,
                "oracle": each.oracle.value,
                "difference": each.difference.estimate.value,
                "only_a": each.difference.only_a,
                "only_b": each.difference.only_b,
                "p_mcnemar": each.difference.p_mcnemar,
                "p_sign_flip": each.difference.p,
                "p_adjusted": each.difference.p_adjusted,
                "interval": [each.difference.estimate.low, each.difference.estimate.high],
                "interval_a": [each.a.low, each.a.high],
                "interval_b": [each.b.low, each.b.high],
            }
            for group, each in groups.items()
        }
        for cell, groups in found.items()
    }


DRAWN = ("p_sign_flip", "p_adjusted")  # from 10,000 random signs: close, not equal


@pytest.fixture(scope="module")
def study_of_two_runs(tmp_path_factory):
    return study_with_runs(tmp_path_factory.mktemp("measures") / "study")


def cells(kind: str, ks: tuple[int, ...] = KS) -> list[tuple[str, int]]:
    """Return the measures that exist for a kind of relevance, each with its cut-offs."""
    known = MEASURES[:2] if kind == "answers" else MEASURES
    return [(measure, k) for measure in known for k in (ks if measure != "r-precision" else ks[:1])]


@pytest.mark.parametrize("run", ["a", "b"])
@pytest.mark.parametrize("kind", KINDS)
def test_measures_of_runs(study_of_two_runs, kind, run):
    expected = stored("measures/values.json.gz")[f"{run} {kind}"]
    found = measured_values(study_of_two_runs, run, kind, cells(kind))
    assert list(found) == list(expected)
    for cell, was in expected.items():
        now = found[cell]
        assert now.keys() == was.keys(), cell
        np.testing.assert_allclose([now[id] for id in was], [*was.values()], rtol=0, atol=1e-9, err_msg=cell)
        assert np.mean([*now.values()]) == pytest.approx(np.mean([*was.values()]), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_comparison_of_two_runs(study_of_two_runs, kind):
    expected = stored("measures/comparison.json.gz")[kind]
    found = compared_figures(study_of_two_runs, kind, cells(kind, COMPARED_AT))
    assert list(found) == list(expected)
    for cell, groups in expected.items():
        assert list(found[cell]) == list(groups)
        for group, figures in groups.items():
            for name, value in figures.items():
                tolerance = 0.02 if name in DRAWN else 1e-6
                assert found[cell][group][name] == pytest.approx(value, abs=tolerance), (cell, group, name)


# BM25


def study_of_passages(folder: Path, passages: list[dict], questions: list[dict] = ()) -> Any:
    """Return a study of passages {id, title, text} and questions {id, question}, all in the split dev."""
    from blindspot.db.records import Passage, Question

    return make_study(
        folder,
        [Passage(each["id"], each["title"], each["text"]) for each in passages],
        [Question(each["id"], each["question"], ("nothing",), split="dev") for each in questions],
    )


def bm25_hits(study: Any, texts: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Search live, a question at a time; return rows and scores, (q, k)."""
    from blindspot.backend.retrieval import live

    found = [live.search(study, "bm25", [text], k) for text in texts]
    return np.concatenate([each.ordinals for each in found]), np.concatenate([each.scores for each in found])


def bm25_run(study: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Make a run of the study's questions in the posting lists, as for many questions."""
    from blindspot.backend.retrieval import bm25
    from blindspot.backend.retrieval.retrieve import retrieve

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bm25, "WORTH_POSTINGS", 0)
        patched.setattr(bm25.LuceneSearch, "search", None)
        hits = retrieve(study, "bm25", split="dev", k=k, name="all").hits
    return np.asarray(hits.ordinals), np.asarray(hits.scores)


@pytest.fixture(scope="module")
def bm25_study(tmp_path_factory):
    from blindspot.backend.retrieval.bm25 import build_index

    folder = tmp_path_factory.mktemp("golden") / "bm25"
    study = study_of_passages(folder, stored("bm25/passages.jsonl.gz"), stored("bm25/questions.jsonl.gz"))
    build_index(study, threads=1)
    return study


@pytest.mark.parametrize("way", ["live", "run"])
def test_bm25(bm25_study, way):
    expected = stored("bm25/hits.npz")
    texts = [question["question"] for question in stored("bm25/questions.jsonl.gz")]
    rows, scores = bm25_hits(bm25_study, texts, 100) if way == "live" else bm25_run(bm25_study, 100)
    assert (rows == expected["rows"]).all()
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-6)


# Exact search and fusion


def exact_hits(vectors: np.ndarray, questions: np.ndarray, k: int, similarity: str) -> tuple[np.ndarray, np.ndarray]:
    from blindspot.backend.retrieval.search import ExactSearch

    hits = ExactSearch(vectors, similarity, "cpu").search(questions, k)
    return hits.ordinals, hits.scores


class Scored:
    """A retriever whose score of passage p for question i (given as its number) is scores[i, p], if that is above 0."""

    unit_length = False

    def __init__(self, scores: np.ndarray):
        self.scores = scores.astype(np.float32)

    def vectors_of(self, questions):
        return questions

    def search(self, questions, k):
        from blindspot.db.records import Hits

        scores = self.scores[questions]
        rows = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(scores, rows, axis=1)
        return Hits(np.where(found > 0, rows, -1).astype(np.int32), np.where(found > 0, found, -np.inf))

    def score(self, questions, rows):
        return np.take_along_axis(self.scores[questions], np.maximum(rows, 0), axis=1)

    search_vectors, score_vectors = search, score


def fused_hits(
    folder: Path, sparse: np.ndarray, dense: np.ndarray, depth: int, k: int, **settings: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Fuse the `depth` best of two retrievers, given by their scores (q, n)."""
    from blindspot.backend.retrieval.hybrid import Hybrid

    study = study_of_passages(folder, [{"id": f"{i}", "title": "", "text": "x"} for i in range(sparse.shape[1])])
    hybrid = Hybrid(study, "none", sparse=Scored(sparse), dense=Scored(dense), **settings)
    hybrid.depth = depth
    hits = hybrid.search(np.arange(len(sparse)), k)
    return hits.ordinals, hits.scores


def assert_same_hits(found, rows, scores, tolerance: float) -> None:
    """Check for equal scores at every rank and equal passages; those of equal scores may change places, also at the end
    of the list.
    """
    np.testing.assert_allclose(found[1], scores, rtol=0, atol=tolerance)
    for i in range(len(rows)):
        now, was = ({int(row): score for row, score in zip(*each, strict=True)} for each in ((found[0][i], found[1][i]), (rows[i], scores[i])))  # fmt: skip
        assert len(now) == len(was)
        for row in now.keys() | was.keys():
            assert now.get(row, scores[i, -1]) == pytest.approx(was.get(row, scores[i, -1]), abs=2 * tolerance), (
                i,
                row,
            )


@pytest.mark.parametrize("similarity", ["dot", "l2"])
def test_exact_search(similarity):
    arrays, expected = stored("search/vectors.npz"), stored("search/hits.npz")
    found = exact_hits(arrays["passages"], arrays["questions"].astype(np.float32), 20, similarity)
    assert_same_hits(found, expected[f"{similarity}_rows"], expected[f"{similarity}_scores"], 1e-4)


FUSIONS = {
    "weighted": {"method": "weighted", "weight": 1.1, "missing": "exact"},
    "minimum": {"method": "weighted", "weight": 0.5, "missing": "minimum"},
    "rrf": {"method": "rrf"},
}


@pytest.mark.parametrize("fusion", FUSIONS)
def test_hybrid(tmp_path, fusion):
    arrays, expected = stored("search/vectors.npz"), stored("search/hits.npz")
    sparse, dense = (
        arrays[f"questions{end}"].astype(np.float64) @ arrays[f"passages{end}"].astype(np.float64).T
        for end in ("_sparse", "")
    )
    found = fused_hits(tmp_path / "study", sparse, dense, 50, 20, **FUSIONS[fusion])
    tolerance = 1e-7 if fusion == "rrf" else 1e-4
    assert_same_hits(found, expected[f"{fusion}_rows"], expected[f"{fusion}_scores"], tolerance)


# Encoders


def encoded(
    folder: Path, settings: dict[str, Any], passages: list[dict], questions: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Encode passages for an index, and questions for a search of it."""
    from blindspot.backend.core.settings import add_encoder
    from blindspot.backend.retrieval.dense import Dense, build_index

    study = study_of_passages(folder, passages)
    add_encoder(study.settings_path, "golden", settings)
    build_index(study, "golden", device="cpu")
    index = Dense(study, "golden", "cpu")
    return np.asarray(index.vectors, np.float32), index.encode(questions)


def dpr_towers(folder: Path) -> tuple[str, str]:
    """Save two small towers as DPR's checkpoints; their weights are drawn by name, so that they are the same anywhere."""
    import torch
    import transformers

    from tests.studies import tiny_bert

    for number, kind in enumerate((transformers.DPRQuestionEncoder, transformers.DPRContextEncoder)):
        settings = tiny_bert(folder / kind.__name__).config.to_dict()
        names = "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings"
        tower = kind(transformers.DPRConfig(**{name: settings[name] for name in names.split()}))
        draw = np.random.RandomState(47 + number)
        with torch.no_grad():
            for name, weights in sorted(tower.named_parameters()):
                drawn = draw.standard_normal(tuple(weights.shape)) * (0.1 if "LayerNorm" in name else 0.3)
                weights.copy_(torch.from_numpy(drawn + name.endswith("LayerNorm.weight")))
        tower.eval().save_pretrained(folder / kind.__name__)
    return str(folder / "DPRQuestionEncoder"), str(folder / "DPRContextEncoder")


def encoder_texts() -> tuple[list[dict], list[str]]:
    """Return 30 passages, some long or awkward, and 10 questions."""
    cases = stored("encoder/texts.json")
    return cases["passages"], cases["questions"]


def least_cosine(found: np.ndarray, expected: np.ndarray) -> float:
    expected = expected.astype(np.float32)
    norms = np.linalg.norm(found, axis=1), np.linalg.norm(expected, axis=1)
    np.testing.assert_allclose(norms[0], norms[1], rtol=0.02)
    return float(((found * expected).sum(axis=1) / (norms[0] * norms[1])).min())


@pytest.mark.parametrize("encoder", ["minilm", "dpr"])
def test_encoder(tmp_path, encoder):
    if encoder == "minilm":
        settings = {"model": "minilm", "max_tokens": 128}
    else:
        towers = dpr_towers(tmp_path / "towers")
        settings = {"question_model": towers[0], "passage_model": towers[1], "max_tokens": 128}
    passages, questions = encoded(tmp_path / "study", settings, *encoder_texts())
    expected = stored("encoder/vectors.npz")
    assert least_cosine(passages, expected[f"{encoder}_passages"]) > 0.9995
    assert least_cosine(questions, expected[f"{encoder}_questions"]) > 0.9995


# Files that are imported


def study_to_import_into(folder: Path) -> Any:
    """Return a study of golden/formats/passages.jsonl and questions.jsonl."""
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages, import_questions

    study = Study.create(folder)
    import_passages(study, GOLDEN / "formats" / "passages.jsonl")
    import_questions(study, GOLDEN / "formats" / "questions.jsonl")
    return study


def imported_passages(folder: Path, path: Path) -> list[list[str]]:
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages

    study = Study.create(folder)
    import_passages(study, path)
    return [[each.id, each.title, each.text] for each in study.corpus.scan()]


def imported_questions(study: Any, path: Path, split: str | None) -> list[dict[str, Any]]:
    """Return the questions that the file adds, with the fields that are not empty."""
    from dataclasses import asdict

    from blindspot.backend.data.importing.importer import import_questions

    known = {question.id for question in study.questions.all()}
    import_questions(study, path, split=split)
    added = [asdict(question) for question in study.questions.all() if question.id not in known]
    return [
        {name: list(value) if isinstance(value, tuple) else value for name, value in each.items() if value not in (None, "", ())}
        for each in added
    ]  # fmt: skip


def imported_qrels(study: Any, path: Path) -> list[list[Any]]:
    from blindspot.backend.data.importing.qrels import import_qrels
    from blindspot.db.gold import GoldMatches

    import_qrels(study, path)
    return [[*pair, grade] for pair, grade in GoldMatches(study.labels_path).grades().items()]


def imported_run(study: Any, path: Path) -> dict[str, list[list[Any]]]:
    """Return the passages and scores of each question, and whether the passage holds an answer."""
    from blindspot.backend.core.runs import answer_matrix
    from blindspot.backend.data.importing.runs import import_run

    import_run(study, path, "imported")
    run, ids = study.run("imported"), [each.id for each in study.corpus.scan()]
    return {
        question: [[ids[row], float(score), bool(held)] for row, score, held in zip(*hits, strict=True) if row >= 0]
        for question, *hits in zip(
            run.question_ids, run.hits.ordinals, run.hits.scores, answer_matrix(study, run), strict=True
        )
    }


def imported_frequencies(study: Any, path: Path) -> dict[str, int | None]:
    from blindspot.backend.data.importing.importer import import_frequencies

    import_frequencies(study, path)
    return {question.id: question.frequency for question in study.questions.all()}


def study_of_results(folder: Path, path: Path) -> dict[str, Any]:
    """Make a study of a results file alone; return its passages, questions and run."""
    from blindspot.backend.data.importing.from_results import study_from_results

    made = study_from_results(folder, [path]).study
    [name] = made.runs()
    return {
        "passages": [[each.id, each.title, each.text] for each in made.corpus.scan()],
        "questions": [[each.id, each.text, list(each.answers), each.split] for each in made.questions.all()],
        "run": np.asarray(made.run(name).hits.ordinals).tolist(),
    }


IMPORTED = {
    "passages": [*"collection.tsv corpus.jsonl beir own.jsonl psgs.tsv table.csv table.parquet".split()],
    "questions": [
        *"asked.csv asked.parquet beir biencoder-nq-train.json entityquestions NQ-open.train.jsonl nq-dev.qa.csv".split(),
        *"own.jsonl plain.txt popQA.tsv queries.dev.tsv queries.jsonl".split(),
    ],
    "qrels": [*"beir.tsv judged.csv judged.parquet trec.qrels".split()],
    "runs": [*"dpr.json msmarco.tsv pyserini.json run.csv run.trec".split()],
    "frequencies": ["mentions.tsv"],
    "results": [*"dpr.json pyserini.json".split()],
}
SPLIT_OF = {"plain.txt": "unlabelled", "queries.dev.tsv": "dev", "queries.jsonl": "test", "nq-dev.qa.csv": "dev"}


def imported(folder: Path, kind: str, name: str) -> Any:
    place = {"results": "runs"}.get(kind, kind) if name != "beir" else "."
    path = GOLDEN / "formats" / place / name
    if kind == "passages":
        return imported_passages(folder, path)
    if kind == "results":
        return study_of_results(folder, path)
    study = study_to_import_into(folder)
    if kind == "questions":
        return imported_questions(study, path, SPLIT_OF.get(name))
    take = {"qrels": imported_qrels, "runs": imported_run, "frequencies": imported_frequencies}
    return take[kind](study, path)


@pytest.mark.parametrize("kind", IMPORTED)
def test_imported_files(tmp_path, kind):
    expected = stored("formats/imported.json")[kind]
    for name in IMPORTED[kind]:
        found = json.loads(json.dumps(imported(tmp_path / name, kind, name)))
        assert found == expected[name], name


# Files that are exported


EXPORTED = {
    "run": ("dpr", "msmarco", "pyserini", "trec"),
    "questions": ("beir", "dpr-csv", "msmarco", "question-jsonl"),
    "qrels": ("beir", "msmarco", "trec"),
    "passages": ("beir", "msmarco", "psgs"),
}


def study_to_export(folder: Path) -> Any:
    """Return a study with grades, and a run named exported."""
    from blindspot.backend.data.importing.qrels import import_qrels
    from blindspot.backend.data.importing.runs import import_run

    study = study_to_import_into(folder)
    import_qrels(study, GOLDEN / "formats" / "qrels" / "trec.qrels")
    import_run(study, GOLDEN / "formats" / "runs" / "run.trec", "exported")
    return study


def exported_text(study: Any, what: str, format: str, path: Path) -> str:
    from blindspot.backend.data import exporting

    if what == "run":
        exporting.export_run(study, "exported", format, path)
    else:
        getattr(exporting, f"export_{what}")(study, format, path=path)
    return path.read_text(encoding="utf-8")


def exported_training_set(folder: Path) -> dict[str, dict[str, str | list]]:
    """Build a training set with people's, gold, mined and drawn pairs; return the text of each file of each export, or
    the rows of a Parquet file.
    """
    import pyarrow.parquet as parquet

    from blindspot.backend.training_sets.exports import export
    from blindspot.backend.training_sets.exports.base import ExportOptions
    from tests.training_studies import build, say, score, training_study

    study = training_study(folder / "study")
    say(study, "ann", "q0", {"p1": "positive", "p2": "negative", "p3": "unsure"})
    score(study, {("q0", p): v for p, v in (("p0", 0.9), ("p1", 0.95), ("p2", 0.01), ("p4", 0.02), ("p8", 0.03))})
    build(study, "answer_match+labels", "made", model="judge", random=2)
    found: dict[str, dict[str, str | list]] = {}
    for form in TRAINING_FORMS:
        more = {"negatives": 3} if form == "sentence-transformers" else {}
        out = export(study, "made", form, folder / form, ExportOptions(**more)).path
        found[form] = {
            path.relative_to(out).as_posix(): parquet.read_table(path).to_pylist()
            if path.suffix == ".parquet"
            else path.read_text(encoding="utf-8")
            for path in sorted(out.rglob("*"))
            if path.is_file() and path.name not in ("README.md", "manifest.json")
        }
    return found


TRAINING_FORMS = ("beir", "dpr", "parquet", "rocketqa", "sentence-transformers", "tevatron")


def content(text: str | list) -> Any:
    """Return what an exported file says: the rows in any order, each JSON value as it is read."""

    def value(line: str) -> Any:
        try:
            return json.loads(line)
        except ValueError:
            return line

    if isinstance(text, list):
        rows = text
    elif isinstance(whole := value(text), dict):
        return whole
    else:
        rows = whole if isinstance(whole, list) else [value(line) for line in text.removesuffix("\n").split("\n")]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.mark.parametrize("what", EXPORTED)
def test_exported_files(tmp_path, what):
    study, expected = study_to_export(tmp_path / "study"), stored("formats/exported.json")[what]
    for format in EXPORTED[what]:
        found = exported_text(study, what, format, tmp_path / format)
        assert content(found) == content(expected[format]), format


def test_exported_training_sets(tmp_path):
    found, expected = exported_training_set(tmp_path), stored("formats/training_sets.json")
    for form, files in expected.items():
        assert found[form].keys() == files.keys(), form
        for name, text in files.items():
            assert content(json.loads(json.dumps(found[form][name]))) == content(text), (form, name)


# Training files that are checked


def checked(path: Path, folder: Path) -> dict[str, Any]:
    """Return what checking a training file finds at once: what it counts, and its pairs as they are in the file: the
    question, the passage, whether it is a positive, its score.
    """
    from blindspot.backend.checking.check import check

    found = check(path, folder)
    passages = [each.text for each in found.study.corpus.scan()]
    titles = [each.title for each in found.study.corpus.scan()]
    questions = {f"q{row + 1}": row for row in range(len(found.study.questions))}
    texts = {questions[each.id]: each.text for each in found.study.questions.all()}
    places = found.checked_study.occurrences
    counts = ("rows", "questions", "passages", "positives", "negatives")
    return {
        "counts": {name: getattr(found.facts, name) for name in counts},
        "pairs": [
            [int(places.row[i]), texts[places.question[i]], titles[places.passage[i]], passages[places.passage[i]],
             bool(places.positive[i]), None if np.isnan(places.score[i]) else round(float(places.score[i]), 6)]
            for i in range(len(places))
        ],
    }  # fmt: skip


def cleaned(path: Path, folder: Path) -> dict[str, Any]:
    """Return the files that are written after a person calls the sixth negative pair a positive: their text, or the
    rows of a table that is not text.
    """
    from datasets import Dataset
    from pyarrow import parquet

    from blindspot.backend.checking.check import check
    from blindspot.backend.checking.pairs import negative_pairs
    from blindspot.db.events import Choice, LabelEvent
    from blindspot.db.labels import Labels
    from blindspot.db.people import People

    found = check(path, folder / "study")
    pairs = negative_pairs(found.checked_study.occurrences)
    place = min(5, len(pairs) - 1)
    question, passage = f"q{pairs.question[place] + 1}", f"p{pairs.passage[place] + 1}"
    People(found.study.labels_path).add("ann")
    event = LabelEvent("e", "label", question, (Choice(passage, "positive"),))
    Labels(found.study.labels_path, passages=found.study.corpus.ordinals).add("ann", event)
    found.write(folder / path.name)

    def rows_or_text(file: Path) -> Any:
        if file.suffix == ".parquet":
            return parquet.read_table(file).to_pylist()
        return Dataset.from_file(str(file)).to_list() if file.suffix == ".arrow" else file.read_bytes().decode()

    written = sorted((folder / path.name).rglob("*")) if path.is_dir() else [folder / path.name]
    data = [
        file
        for file in written
        if file.is_file() and (not path.is_dir() or (path / file.relative_to(folder / path.name)).exists())
    ]
    return {
        file.relative_to(folder).as_posix(): rows_or_text(file)
        for file in data
        if file.name not in ("state.json", "dataset_info.json")
    }


CHECKED = [
    *"triplets.jsonl triplets-scored.jsonl triplets.csv triplets-quoted.csv triplets.tsv triplets-no-header.tsv".split(),
    *"triplets.parquet n-tuples.jsonl n-tuples-scored.parquet labelled-pairs.jsonl labelled-pairs-scored.csv".split(),
    *"labelled-pairs.tsv labelled-pairs.parquet labelled-lists.jsonl labelled-lists-scored.parquet".split(),
    *"dpr.json dpr.jsonl tevatron.jsonl flagembedding.jsonl rocketqa-dual.tsv rocketqa-cross.tsv".split(),
    *"msmarco/qidpidtriples.tsv beir saved mined.arrow".split(),
]


@pytest.mark.parametrize("name", CHECKED)
def test_checked_files(tmp_path, name):
    expected = stored("checked/checked.json.gz")[name]
    found = checked(GOLDEN / "checked" / name, tmp_path / "study")
    assert found["counts"] == expected["counts"]
    assert found["pairs"] == expected["pairs"]


@pytest.mark.parametrize("name", CHECKED)
def test_cleaned_files(tmp_path, name):
    found, expected = cleaned(GOLDEN / "checked" / name, tmp_path), stored("checked/cleaned.json.gz")[name]
    assert found == expected

"""How good a judge is: against scikit-learn, against known truth, by design, and beside other judges."""

from pathlib import Path

import numpy as np
import pytest

from blindspot.analysis.judge_quality import JudgedPairs, judge_figures, verdict, weighted_auc
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import learn_judge
from blindspot.backend.judges.imported import import_judgements
from blindspot.backend.judges.judge import judge_kind_of, judges_of, new_model_folder
from blindspot.backend.judges.measuring import measurable_judges, measure_judges
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.audits import audit, audited_pairs
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.labels_io import import_labels
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests.app_pages import Page
from tests.indexes import bm25_of
from tests.studies import births, copied, make_study, people
from tests.training_studies import say, score


def random_pairs(n=600, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.random(n) < 0.3
    scores = np.clip(rng.normal(np.where(truth, 0.65, 0.35), 0.2), 0, 1)
    labels = np.where(truth, "positive", np.where(rng.random(n) < 0.5, "related", "negative"))
    return JudgedPairs(scores, labels, np.array([f"q{i // 5}" for i in range(n)]), np.ones(n))


def test_the_figures_are_those_of_scikit_learn():
    from sklearn.metrics import cohen_kappa_score, precision_score, recall_score, roc_auc_score

    judged = random_pairs()
    found, said = judge_figures(judged), judged.scores >= 0.5
    assert found.auc == pytest.approx(roc_auc_score(judged.positive, judged.scores))
    assert found.at_decision_threshold.precision.value == pytest.approx(precision_score(judged.positive, said))
    assert found.at_decision_threshold.recall.value == pytest.approx(recall_score(judged.positive, said))
    assert found.kappa.value == pytest.approx(cohen_kappa_score(judged.positive, said))
    assert found.at_decision_threshold.missed.value == pytest.approx(judged.positive[~said].mean())
    assert found.auc_low < found.auc < found.auc_high
    assert sum(map(sum, found.confusion.values())) == 600 and (found.pairs, found.questions) == (600, 120)
    for each in found.calibration:
        inside = (judged.scores >= each.low) & ((judged.scores < each.high) | (each.high == 1))
        assert each.positive.value == pytest.approx(judged.positive[inside].mean())


def test_weights_undo_the_design():
    """Half of the pairs were drawn with a tenth of the probability: weighted, they count for the ten that they stand for."""
    judged = random_pairs(seed=1)
    rare = np.arange(600) % 2 == 0
    keep = ~rare | (np.random.default_rng(2).random(600) < 0.1)
    drawn = JudgedPairs(
        judged.scores[keep], judged.labels[keep], judged.questions[keep], np.where(rare, 0.1, 1.0)[keep]
    )
    whole = np.repeat(np.flatnonzero(keep), np.where(rare, 10, 1)[keep])
    expected = weighted_auc(judged.scores[whole], judged.positive[whole], np.ones(len(whole)))
    assert judge_figures(drawn).auc == pytest.approx(expected)


def test_ties_count_half_and_one_kind_gives_no_figure():
    assert weighted_auc(np.array([0.5, 0.5]), np.array([True, False]), np.ones(2)) == 0.5
    assert weighted_auc(np.array([0.5, 0.7]), np.array([True, True]), np.ones(2)) is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        judge_figures(JudgedPairs(np.array([1.5]), np.array(["positive"]), np.array(["q"]), np.ones(1)))


@pytest.mark.parametrize(
    ("low", "high", "questions", "at_least", "said"),
    [
        (0.91, 0.99, 50, True, "yes"), (0.8, 0.89, 50, True, "no"), (0.8, 0.95, 50, True, "inconclusive"),
        (0.91, 0.99, 9, True, "inconclusive"), (None, None, 50, True, "inconclusive"),
        (0.0, 0.9, 50, False, "yes"), (0.95, 0.99, 50, False, "no"),
    ],
)  # fmt: skip
def test_a_judge_is_trusted_as_far_as_the_whole_interval_says(low, high, questions, at_least, said):
    assert verdict(low, high, questions, 0.9, at_least) == said


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A run, an audit batch that ann judged by the truth, and scores of a good, an inverted and a lazy judge."""
    passages = people()
    study = make_study(tmp_path_factory.mktemp("quality") / "s", passages, births(passages, "train"))
    bm25_of(study)
    retrieve(study, "bm25", split="train", k=6, name="run")
    People(study.labels_path).add("ann", "lead")
    make_batch(study, "first", ["run"], size=30, mix=ArmShares(1.0, 0.0, 0.0), by="ann")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    truth = {}
    for item in Queue(study.labels_path).items("first"):
        (question,) = study.questions.with_ids([item.question])
        choices = []
        for candidate in item.candidates:
            number = int(candidate.passage.removeprefix("p"))
            truth[item.question, candidate.passage] = label = "positive" if number % 5 == 0 else "negative"
            choices.append(Choice(candidate.passage, label))
        labels.add("ann", LabelEvent(f"a-{question.id}", "label", question.id, tuple(choices), batch="first"))
    good = {pair: 0.9 if label == "positive" else 0.1 for pair, label in truth.items()}
    score(study, good, model="good")
    score(study, {pair: 1 - value for pair, value in good.items()}, model="inverted")
    score(study, dict.fromkeys(list(good)[:10], 0.7), model="lazy")
    return study, truth


@pytest.fixture
def study(original, tmp_path):
    copied(original[0], tmp_path / "copy")
    return Study.open(tmp_path / "copy")


def test_judges_are_measured_on_the_audit_beside_each_other(study, original):
    truth = original[1]
    assert set(measurable_judges(study)) == {"good", "inverted", "lazy"}
    found = measure_judges(study)
    assert (found.sample, found.pairs) == ("audit", len(truth)) and len(audited_pairs(study)) == len(truth)
    good, inverted, lazy = (next(j for j in found.judges if j.name == name) for name in ("good", "inverted", "lazy"))
    assert (good.figures.auc, good.figures.kappa.value, good.figures.at_decision_threshold.precision.value) == (1, 1, 1)
    assert inverted.figures.auc == 0 and inverted.figures.kappa.value < 0
    assert lazy.figures.pairs == 10 and lazy.unscored == len(truth) - 10
    assert {trust.group for trust in good.figures.trust["relation"]} == {"P19"}
    overall = good.figures.trust["all"][0]
    assert overall.missed.value == 0 and overall.missed.high > 0.05  # 30 questions cannot show that so few are missed
    assert overall.negatives == "inconclusive" and inverted.figures.trust["all"][0].negatives == "no"
    assert good.cost == 0 and good.tokens is None
    # The audit's own rate is the base rate that the judges are measured at.
    everything = audit(study).overall.positive
    assert everything.passages == len(truth)
    assert everything.value == pytest.approx(np.average([label == "positive" for label in truth.values()]), abs=0.1)


def test_settled_pairs_outside_the_audit_are_measured_on_request_alone(study):
    say(study, "ann", "P19.train.0", {"p59": "related"})
    assert measure_judges(study, ["good"]).pairs + 1 == measure_judges(study, ["good"], "settled").pairs
    with pytest.raises(Refused, match="--sample must be audit or settled"):
        measure_judges(study, sample="all")
    with pytest.raises(Missing, match="no judge 'absent' has scores here; judges with scores: good, inverted, lazy"):
        measure_judges(study, ["absent"])


def test_a_study_without_labels_has_no_figures(tmp_path):
    passages = people()
    empty = make_study(tmp_path / "s", passages, births(passages))
    with pytest.raises(Missing, match="people have settled no pair yet"):
        measure_judges(empty)


def test_a_machine_annotator_is_measured_like_any_judge(study, original, tmp_path):
    lines = [
        f"{question} 0 {passage} {int(label == 'positive')}\n" for (question, passage), label in original[1].items()
    ]
    (tmp_path / "q.qrels").write_text("".join(lines))
    import_labels(study, tmp_path / "q.qrels", annotator="tool")
    (found,) = measure_judges(study, ["tool"]).judges
    assert found.kind == "imported labels" and found.figures.kappa.value == 1


# Imported judgements


FORMS = {
    "qrels": ("qrels", "P19.train.0 0 p0 1\nP19.train.0 0 p1 0\n"),
    "umbrela qrels": ("umbrela", "P19.train.0 0 p0 3\nP19.train.0 0 p1 1\n"),
    "umbrela json": (
        "umbrela",
        '{"qid": "P19.train.0", "docid": "p0", "judgment": 3}\n{"qid": "P19.train.0", "docid": "p1", "judgment": 1}\n',
    ),
    "rlhn": (
        "rlhn",
        '{"query_id": "P19.train.0", "query": "x", "positive_passages": [{"docid": "p0"}], "negative_passages": [{"docid": "p1"}]}\n',
    ),
    "jsonl labels": (
        "jsonl",
        '{"question": "P19.train.0", "passage": "p0", "label": "positive"}\n'
        '{"question": "P19.train.0", "passage": "p1", "label": "related"}\n',
    ),
    "jsonl scores": (
        "jsonl",
        '{"question": "P19.train.0", "passage": "p0", "score": 0.8}\n{"question": "P19.train.0", "passage": "p1", "score": 0.1}\n',
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_judgements_of_other_tools_become_a_judge(study, tmp_path, form):
    format, content = FORMS[form]
    (tmp_path / "file").write_text(content)
    before = Labels(study.labels_path).last_event
    assert import_judgements(study, "tool", str(tmp_path / "file"), format)["pairs"] == 2
    scores = ScoreStore.open(study, "tool").scores_of(["P19.train.0"])["P19.train.0"]
    assert scores["p0"] > 0.5 > scores["p1"]
    assert Labels(study.labels_path).last_event == before
    (card,) = [card for card in judges_of(study) if card.name == "tool"]
    assert (card.kind, card.learned_from, card.scored) == ("imported", "file", True)
    with pytest.raises(Refused, match="there is already a judge named 'tool'; choose another name, or give --replace"):
        import_judgements(study, "tool", str(tmp_path / "file"), format)
    assert import_judgements(study, "tool", str(tmp_path / "file"), format, replace=True)["pairs"] == 2


def test_umbrelas_output_without_ids_is_matched_by_its_texts(study, tmp_path):
    import json

    (question,) = study.questions.with_ids(["P19.train.0"])
    passage = study.corpus.passage(0)
    row = {"query": question.text, "passage": f"{passage.title} {passage.text}", "judgment": 2}
    (tmp_path / "u.jsonl").write_text(json.dumps(row) + "\n")
    import_judgements(study, "tool", str(tmp_path / "u.jsonl"), "umbrela")
    assert ScoreStore.open(study, "tool").scores_of([question.id]) == {question.id: {passage.id: 0.75}}


@pytest.mark.parametrize(
    ("format", "content", "message"),
    [
        ("qrels", "P19.train.0 0 p0 x\n", r"file:1: the grade is 'x'; it must be a whole number"),
        ("qrels", "P19.train.0 0 p0 999\n", "file:1: the grade is 999; it must be at most 100"),
        ("qrels", "nobody 0 p0 1\n", "file:1: question 'nobody' is not in the study"),
        ("qrels", "P19.train.0 0 p0 1\nP19.train.0 0 nothing 1\n", "file:2: passage 'nothing' is not in the study"),
        ("umbrela", '{"qid": "P19.train.0", "docid": "p0", "judgment": 7}\n', "file:1: the judgment is 7; it must be from 0 to 3"),
        ("umbrela", '{"qid": "P19.train.0", "docid": "p0"}\n', "file:1: lacks 'judgment'"),
        ("rlhn", '{"query_id": "P19.train.0"}\n', "file:1: lacks 'positive_passages'"),
        ("jsonl", '{"question": "P19.train.0", "passage": "p0"}\n', "file:1: needs a label, a grade, or a score"),
        ("jsonl", '{"question": "P19.train.0", "passage": "p0", "label": "good"}\n', "file:1: the label is 'good'"),
        ("jsonl", "{nonsense\n", "file:1: "),
        ("jsonl", "", "file: .*holds no judgements|file"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_line_and_leaves_nothing(study, tmp_path, format, content, message):
    (tmp_path / "file").write_text(content)
    with pytest.raises(BadInput, match=message):
        import_judgements(study, "tool", str(tmp_path / "file"), format)
    assert "tool" not in study.parts("scores") and "tool" not in study.parts("judges")


def test_no_model_takes_the_name_of_a_judge_and_no_judge_that_of_a_model(study, tmp_path):
    (tmp_path / "file").write_text("P19.train.0 0 p0 1\n")
    import_judgements(study, "tool", str(tmp_path / "file"))
    with pytest.raises(Refused, match="there is already a judge named 'tool'"):
        learn_judge(study, "tool", "run")
    with pytest.raises(Refused, match="there is already a judge named 'tool'"):
        new_model_folder(study, "tool", False)
    assert not study.path("models", "tool").exists()
    with pytest.raises(Refused, match="there is already a model or judge named 'good'; choose another name"):
        import_judgements(study, "good", str(tmp_path / "file"))


def test_a_stale_judge_leaves_one_line_on_quality(study):
    manifest = study.path("scores", "lazy", "manifest.json")
    manifest.write_text(manifest.read_text().replace(study.corpus.digest, "0" * 64))
    shown = Page(study.folder, "quality", "ann")
    assert "The scores of 'lazy' are of other passages than this study holds; score again" in shown.text


def test_wrong_lines_can_be_left_out(study, tmp_path):
    (tmp_path / "file").write_text("P19.train.0 0 p0 1\nnobody 0 p0 1\n")
    done = import_judgements(study, "tool", str(tmp_path / "file"), skip_bad=True)
    assert (done["pairs"], done["left_out"]) == (1, 1) and "nobody" in Path(done["file"]).read_text()


def test_the_commands(study, tmp_path, blindspot):
    def run(*words):
        code, out, err = blindspot("judge", *words, "--study", study.folder)
        assert not code, err
        return out

    (tmp_path / "q.qrels").write_text(FORMS["qrels"][1])
    assert "Imported 2 judgements as tool" in run("import", "tool", str(tmp_path / "q.qrels"))
    table = run("measure")
    assert all(name in table for name in ("good", "inverted", "lazy", "tool")) and "random audits" in table
    assert "people say" in run("measure", "good")
    assert '"sample": "audit"' in run("measure", "good", "--json")
    assert judge_kind_of(study, "tool").run_job is None


def test_quality_shows_the_judges_and_one_in_detail(study):
    shown = Page(study.folder, "quality", "ann", judge="inverted", trust="source")
    assert "How good are the judges?" in shown.text and "pairs of the random audits" in shown.text
    assert "inverted in detail" in shown.text and "Confusion by score" in shown.text and "births" in shown.text
    assert "good in detail" not in shown.text and "✕ no" in shown.text


def test_who_may_allow_texts_to_leave_in_the_app(monkeypatch):
    from blindspot.app import who
    from blindspot.app.server import SIGN_IN

    for mode, setting, may in (
        ("local", None, True),
        ("local", "none", False),
        ("links", None, False),
        ("oidc", None, False),
    ):
        monkeypatch.setattr(who, "mode", lambda mode=mode: mode)
        monkeypatch.delenv(SIGN_IN, raising=False)
        if setting:
            monkeypatch.setenv(SIGN_IN, setting)
        assert who.on_this_machine() is may


def test_the_app_runs_language_models_and_adds_none(study, original, monkeypatch):
    from blindspot.app import who
    from blindspot.backend.core.consent import consents
    from blindspot.backend.judges.llm.judge import add_llm_judge

    assert "Add one on the command line" in Page(study.folder, "training", "ann", tab="judges").text
    add_llm_judge(study, "near", "http://127.0.0.1:9/v1", "m")
    shown = Page(study.folder, "training", "ann", tab="judges")
    assert "Texts go to 127.0.0.1:9 (this machine)" in shown.text
    assert shown.app.button(key="ask-start").disabled
    # Others may reach this app: only the command line allows it.
    assert "blindspot consent give http://127.0.0.1:9" in shown.text
    assert not [box for box in shown.app.checkbox if "may go to" in box.label]
    monkeypatch.setattr(who, "on_this_machine", lambda: True)
    shown = Page(study.folder, "training", "ann", tab="judges")
    shown.app.checkbox(key="consent-agreed-http://127.0.0.1:9").check()
    shown.app.text_input(key="consent-key-http://127.0.0.1:9").input("NEAR_KEY")
    monkeypatch.setenv("BLINDSPOT_STUDY", str(study.folder))
    monkeypatch.setenv("BLINDSPOT_SIGN_IN", "none")
    next(button for button in shown.app.button if button.label == "Allow").click().run()
    assert not shown.app.button(key="ask-start").disabled
    assert [(each.server, each.key_variable) for each in consents(study)] == [("http://127.0.0.1:9", "NEAR_KEY")]
    add_llm_judge(study, "near", "https://far.example/v1", "m", replace=True)
    shown = Page(study.folder, "training", "ann", tab="judges")
    assert shown.app.button(key="ask-start").disabled  # sending is not allowed yet
    assert [box.label for box in shown.app.checkbox if "far.example" in box.label] == [
        "Texts of questions and passages may go to https://far.example:443"
    ]

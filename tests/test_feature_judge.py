"""The feature judge: its features, its training data, its quality, and invalid requests."""

import dataclasses
import json
import shutil
import sys

import numpy as np
import pytest

from blindspot.app import cli
from blindspot.app.commands import judge as judge_commands
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.settings import check_name
from blindspot.backend.judges import feature_judge, feature_model, features, scorers, thresholds
from blindspot.backend.judges.feature_judge import FeatureJudge, judge_run, labelled_lists, learn_judge
from blindspot.backend.judges.feature_model import (
    NEGATIVE,
    POSITIVE,
    UNKNOWN,
    Examples,
    FeatureJudgeSettings,
    fit_model,
)
from blindspot.backend.judges.lists import lists_of
from blindspot.backend.judges.rerank import rerank
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Hits, Passage, Question
from tests.indexes import bm25_of
from tests.rounds import in_rounds, most
from tests.studies import births, make_study, people
from tests.ties import first as first_hits
from tests.ties import same_ranking

NAMES = features.NAMES


class Passages:
    """A study with passages only."""

    def __init__(self, *passages):
        self.made = [Passage(str(i), *each) for i, each in enumerate(passages)]

    @property
    def corpus(self):
        return self

    def __len__(self):
        return len(self.made)

    def passages(self, rows):
        return [self.made[row] for row in rows]


def test_features_by_hand():
    texts = [("Arve Furset", "Arve Furset was born in Molde."), ("Molde", "A town."), ("", "Furset, Arve is a name.")]
    study = Passages(*texts)
    weights = features.WordWeights({"was": 3, "born": 1, "in": 1, "a": 2}, 3)
    rows, scores = np.array([[2, 0, 1, -1]], np.int32), np.array([[4.0, 2.0, 1.0, -np.inf]], np.float32)
    dense = np.array([[0.2, 0.8, 0.5, -np.inf]], np.float32)
    found = features.feature_matrix(study, ["Where was Arve Furset born?"], rows, scores, weights, dense)[0]
    of = {name: found[:, i] for i, name in enumerate(NAMES)}
    assert np.isnan(found[3]).all()
    assert of["rank"][:3].tolist() == [1, 2, 3]
    assert of["score_ratio"][:3].tolist() == [1, 0.5, 0.25] and of["score_gap"][:3].tolist() == [0, -2, -3]
    assert np.allclose(of["dense_gap"][:3], [-0.6, 0, -0.3]) and of["dense_rank"][:3].tolist() == [3, 1, 2]
    idf = {"where": np.log(4), "was": np.log(4 / 4), "arve": np.log(4), "furset": np.log(4), "born": np.log(4 / 2)}
    whole = sum(idf.values())
    assert np.allclose(of["idf_text"][:3], [2 * np.log(4) / whole, (whole - idf["where"]) / whole, 0], atol=1e-6)
    assert np.allclose(of["idf_title"][:3], [0, 2 * np.log(4) / whole, 0], atol=1e-6)
    # The three rarest words weigh the same; the first two by alphabet count: arve, furset.
    assert of["rare_either"][:3].tolist() == [2, 2, 0] and of["rare_text"][:3].tolist() == [2, 2, 0]
    assert of["title_in_question"][:3].tolist() == [0, 1, 0] and of["title_share"][:3].tolist() == [0, 1, 0]
    assert of["bigrams_text"][:3].tolist() == [0, 1, 0]  # "arve furset"; "Furset, Arve" is the other way round
    assert of["text_length"][:3].tolist() == [5, 6, 2] and of["title_length"][:3].tolist() == [0, 2, 1]


def test_without_a_dense_index_its_features_are_unknown():
    study = Passages(("Molde", "A town."))
    found = features.feature_matrix(study, ["Molde?"], np.array([[0]]), np.array([[1.0]]), features.WordWeights({}, 1))
    assert np.isnan(found[0, 0, features.columns(["dense"])]).all()
    assert not np.isnan(found[0, 0, features.columns(["list", "words"])]).any()


def random_examples(questions=150, depth=10, seed=0, informative=True):
    rng = np.random.default_rng(seed)
    numbers = np.repeat(np.arange(questions), depth)
    found = rng.normal(size=(questions * depth, len(NAMES))).astype(np.float32)
    truth = np.zeros(len(found), np.int8)
    best = found[:, 0] if informative else rng.normal(size=len(found))
    truth[[begin + int(best[begin : begin + depth].argmax()) for begin in range(0, len(found), depth)]] = POSITIVE
    found[rng.random(found.shape) < 0.05] = np.nan
    return Examples(found, truth, numbers, truth == POSITIVE)


def test_the_trees_give_what_scikit_learn_gives():
    from sklearn.ensemble import HistGradientBoostingClassifier

    examples = random_examples()
    model = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=15, early_stopping=False, random_state=0)
    model.fit(examples.features, examples.truth)
    ours = scorers.Trees.from_model(model)
    fresh = random_examples(seed=1).features
    fresh[0] = np.nan
    assert np.allclose(ours(fresh), model.decision_function(fresh), atol=1e-9)
    again = scorers.from_arrays("boosting", scorers.to_arrays(ours))
    assert np.array_equal(again(fresh), ours(fresh))


@pytest.mark.parametrize("digits", [1, 6])
def test_trees_over_own_bins_are_those_of_scikit_learn(digits):
    """Equal for few distinct values, where scikit-learn has a bin for each; for many, its quantiles differ a little."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    examples, fresh = random_examples(), np.round(random_examples(seed=1).features, digits)
    features, truth = np.round(examples.features, digits).clip(-3, 3), examples.truth == POSITIVE
    weights = np.random.default_rng(0).choice([1.0, 4.0], len(truth))
    settings = {"max_iter": 150, "max_leaf_nodes": 16, "max_depth": 4, "learning_rate": 0.06, "l2_regularization": 5.0}
    settings |= {"max_bins": 63, "min_samples_leaf": 30, "early_stopping": False, "random_state": 0}
    peer = HistGradientBoostingClassifier(**settings).fit(features, truth, weights)
    ours, theirs = feature_model._tree_model(features, truth, weights, 0)(fresh), peer.decision_function(fresh)
    if digits == 1:
        assert np.allclose(ours, theirs, atol=1e-9)
    else:
        assert np.corrcoef(ours, theirs)[0, 1] > 0.97


def test_trees_use_one_openmp_thread_and_leave_the_others_theirs(monkeypatch):
    """Two threads of one fit wait for each other beside other work; torch and FAISS keep as many as they had."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_info, threadpool_limits

    def openmp_threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "openmp"}

    seen, fit = [], HistGradientBoostingClassifier.fit
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", lambda *a: seen.append(openmp_threads()) or fit(*a))
    with threadpool_limits(3, user_api="openmp"):
        fit_model(random_examples(), FeatureJudgeSettings(model="boosting"))
        assert openmp_threads() == {3}
    assert len(seen) > 2 and all(each == {1} for each in seen)


def test_the_linear_model_without_a_prior_gives_what_scikit_learn_gives():
    """Newton's method against scikit-learn's penalised logistic regression, with weights of the pairs."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(400, 6)), (rng.random(400) < 0.2).astype(float)
    weights = rng.choice([1.0, 4.0], 400)
    peer = LogisticRegression(C=0.5, tol=1e-10, max_iter=1000).fit(x, y, sample_weight=weights)
    penalties = np.array([2.0] * 6 + [0])
    ours = feature_model.newton_steps(np.column_stack([x, np.ones(400)]), y, weights, np.zeros(7), penalties)
    assert np.allclose(ours, [*peer.coef_[0], peer.intercept_[0]], atol=1e-6)


def test_the_prior_orders_without_labels_and_yields_to_many():
    """Without labels the prior decides. Labels that say the opposite of it overrule it when there are enough."""
    examples = random_examples(200)
    title = NAMES.index("title_core")
    features = np.nan_to_num(examples.features)
    truth = np.where(features[:, title] < -1, POSITIVE, NEGATIVE).astype(np.int8)
    opposite = dataclasses.replace(examples, features=features, truth=truth)
    none = dataclasses.replace(opposite, truth=np.full(len(truth), UNKNOWN, np.int8))
    pair = np.zeros((2, len(NAMES)), np.float32)
    pair[1, title] = 2
    settings = FeatureJudgeSettings()
    before = feature_model.fit_ranker(none, settings)
    assert before.kind == "prior" and np.diff(before.ranking_scores(pair))[0] > 0
    assert np.diff(feature_model.fit_ranker(opposite, settings).ranking_scores(pair))[0] < 0


def test_many_deep_negatives_teach_by_a_weighted_sample():
    examples = random_examples(100, depth=60)
    features = examples.features.copy()
    features[:, NAMES.index("rank")] = np.tile(np.arange(1, 61), 100)
    ranked = dataclasses.replace(examples, features=features)
    places, weights = feature_model._thin_negatives(ranked, np.ones(len(ranked), bool), 0)
    deep = features[places, NAMES.index("rank")] > feature_model.FULL_RANKS
    positive = ranked.truth[places] == POSITIVE
    assert (ranked.truth == POSITIVE).sum() == positive.sum()
    assert (weights[deep & ~positive] == feature_model.DEEP_SHARE).all() and (weights[~deep | positive] == 1).all()
    everything = (features[:, NAMES.index("rank")] > feature_model.FULL_RANKS) & (ranked.truth == NEGATIVE)
    assert weights[deep & ~positive].sum() == pytest.approx(everything.sum(), rel=0.1)


def test_an_ensemble_comes_back_from_its_arrays():
    model, _ = fit_model(random_examples(40), FeatureJudgeSettings())
    assert model.kind == "ensemble"
    again = scorers.from_arrays("ensemble", scorers.to_arrays(model.scorer))
    fresh = random_examples(5, seed=3).features[:, model.columns]
    assert np.array_equal(again(fresh), model.scorer(fresh))
    with pytest.raises(ValueError, match="no "):
        scorers.from_arrays("ensemble", {"linear.weights": np.zeros(3)})


def test_a_judge_never_judges_what_it_saw():
    """Labels that are independent of the features can be memorised. Out of fold, the judge must be at chance."""
    from sklearn.metrics import roc_auc_score

    examples = random_examples(300, informative=False)
    examples = dataclasses.replace(examples, features=np.nan_to_num(examples.features))
    model, out_of_fold = fit_model(examples, FeatureJudgeSettings())
    truth = examples.truth == POSITIVE
    assert np.nanmean(out_of_fold) == pytest.approx(truth.mean(), abs=0.01)
    assert roc_auc_score(truth, model.ranking_scores(examples.features)) > 0.85  # by heart
    assert 0.42 < roc_auc_score(truth, out_of_fold) < 0.58


def test_unknown_pairs_do_not_teach():
    """Flipping pairs with unknown truth does not change the learned judge."""
    examples = random_examples(60)
    truth = examples.truth.copy()
    truth[3::10] = UNKNOWN
    twisted = examples.features.copy()
    twisted[3::10] = 50
    settings = FeatureJudgeSettings(model="boosting")
    plain, _ = fit_model(dataclasses.replace(examples, truth=truth), settings)
    other, _ = fit_model(dataclasses.replace(examples, features=twisted, truth=truth), settings)
    fresh = random_examples(20, seed=2).features
    assert np.allclose(plain.ranking_scores(fresh), other.ranking_scores(fresh), atol=1e-9)


def test_unlabelled_passages_with_an_answer_are_no_negatives_anywhere():
    """Half of the positives lose their label. Counted as negatives they would pull probabilities and threshold down."""
    examples = random_examples(400)
    positives = np.flatnonzero(examples.truth == POSITIVE)
    truth = examples.truth.copy()
    truth[positives[::2]] = UNKNOWN
    fewer = dataclasses.replace(examples, truth=truth)
    settings = FeatureJudgeSettings()
    model, out_of_fold = fit_model(fewer, settings)
    known = truth != UNKNOWN
    assert model.base_rate == pytest.approx((truth[known] == POSITIVE).mean())
    assert np.nanmean(out_of_fold[known]) == pytest.approx(model.base_rate, abs=0.01)
    about = feature_model.report(fewer, model, out_of_fold, settings)
    assert about["unknown"] == 200
    value = about["drop"]["value"]
    assert about["drop"]["pairs"] == (known & (out_of_fold < value)).sum()
    assert about["drop"]["left_out"] == (~known & (out_of_fold < value)).sum()
    # All labelled passages with an answer are positives here: nothing shows that the judge tells them from others.
    assert about["drop_with_answer"]["value"] is None
    assert about["add_with_answer"]["value"] is None  # half of them count as wrong, as nobody labelled them


def test_the_feature_that_decides_speaks_loudest():
    examples = random_examples(300)
    model, _ = fit_model(examples, FeatureJudgeSettings())
    row = np.zeros((1, len(NAMES)), np.float32)
    row[0, 0] = 3.0
    said = feature_model.strongest_contributions(model.contributions(row)[0])
    assert said[0][0] == "retriever's score" and said[0][1] > 1


def test_too_few_labels_and_settings_out_of_bounds_are_refused():
    with pytest.raises(Refused, match="at least 2 training questions"):
        fit_model(random_examples(1), FeatureJudgeSettings())
    for values in ({"depth": 1}, {"folds": 1}, {"model": "forest"}):
        with pytest.raises(BadInput, match=next(iter(values))):
            FeatureJudgeSettings(**values)


# Thresholds


def test_the_interval_of_a_share_knows_that_pairs_of_a_question_are_alike():
    from statsmodels.stats.proportion import proportion_confint

    rng = np.random.default_rng(0)
    independent = rng.random(4000) < 0.2
    share, low, high = thresholds.clustered_share(independent, np.arange(4000))
    assert (low, high) == pytest.approx(proportion_confint(independent.sum(), 4000, method="wilson"), abs=0.002)
    alike = np.repeat(rng.random(200) < 0.2, 20)
    share, low, high = thresholds.clustered_share(alike, np.repeat(np.arange(200), 20))
    plain = proportion_confint(alike.sum(), 4000, method="wilson")
    assert high - low > 3.5 * (plain[1] - plain[0])  # 200 questions, not 4,000 pairs: wider by the root of 20
    truth, questions = np.zeros(100, bool), np.repeat(np.arange(10), 10)  # an aim out of reach gives no threshold
    assert thresholds.find_threshold(np.linspace(0, 1, 100), truth, questions, 0.95, "above").value is None


@in_rounds(200)
def test_thresholds_keep_their_aims_on_fresh_questions(rounds):
    """In studies with correct probabilities, at most a few miss the target on fresh questions."""
    rng = np.random.default_rng(0)
    fresh = np.sort(rng.beta(0.3, 2.5, size=1_000_000))
    sums, missed = np.concatenate(([0.0], fresh.cumsum())), {"drop": 0, "add": 0}
    for _ in range(rounds):
        probability = rng.beta(0.3, 2.5, size=8000)
        truth, questions = rng.random(8000) < probability, np.repeat(np.arange(400), 20)
        drop = thresholds.find_threshold(probability, truth, questions, 0.01, "below")
        add = thresholds.find_threshold(probability, truth, questions, 0.9, "above")
        assert drop.value is not None
        below = np.searchsorted(fresh, drop.value)
        missed["drop"] += sums[below] / below > 0.01
        if add.value is not None:
            below = np.searchsorted(fresh, add.value)
            missed["add"] += (sums[-1] - sums[below]) / (len(fresh) - below) < 0.9
    few = most(rounds, 15, 200, 0.025)  # the end of a 95% interval keeps the target
    assert missed["drop"] <= few and missed["add"] <= few


# In a study


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    passages = people(150)
    train, dev = births(passages, "train")[:60], births(passages, "dev")[60:]
    study = make_study(tmp_path_factory.mktemp("judge") / "s", passages, [*train, *dev])
    bm25_of(study)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=10)
    return study


@pytest.fixture(scope="module")
def judge(study):
    learned = learn_judge(study, "judge", "bm25-train", settings={"depth": 10})
    return FeatureJudge(study, learned.name)


def test_what_a_judge_learned_is_reported(study, judge):
    about = judge.about
    assert about["run"] == "bm25-train" and about["retriever"] == "bm25" and about["questions"] == 60
    assert about["model"] == "ensemble" and "dense_score" not in about["features"]
    assert 0.9 < about["auc"] <= 1 and about["pairs"] == 600
    assert about["measured_on"] == "training questions out of fold"


def test_a_judge_opens_again_as_it_was(study, judge):
    run = study.run("bm25-dev")
    lists = lists_of(run, study.questions.with_ids(run.question_ids[:5]), 10)
    again = FeatureJudge(study, "judge")
    assert np.array_equal(again.ranking_scores(again.features(lists)), judge.ranking_scores(judge.features(lists)))


def test_nothing_but_texts_is_looked_at(study, judge):
    """Answers, gold, relation and subject of a question are gone: its passages are judged as before."""
    run = study.run("bm25-dev")
    questions = study.questions.with_ids(run.question_ids[:8])
    bare = [Question(question.id, question.text) for question in questions]
    known, unknown = (judge.features(lists_of(run, each, 10)) for each in (questions, bare))
    assert np.array_equal(known, unknown, equal_nan=True)


def test_training_questions_are_judged_out_of_fold_and_others_by_the_judge(study, judge):
    store = ScoreStore.open(study, "judge")
    train = study.run("bm25-train").question_ids
    assert store.questions() == set(train)
    said = judge_run(study, "judge", "bm25-train")
    assert said["questions"] == 0  # already stored: the judge is not asked about pairs of its training
    made = judge_run(study, "judge", "bm25-dev")
    dev = study.run("bm25-dev").question_ids
    assert made["questions"] == len(dev) and made["pairs"] == 10 * len(dev)
    lists = lists_of(study.run("bm25-dev"), study.questions.with_ids(dev[:1]), 10)
    first = study.corpus.passage(int(lists.rows[0, 0])).id
    assert store([(dev[0], first)])[dev[0], first] == pytest.approx(judge.probabilities(judge.features(lists))[0, 0])


def test_people_count_before_gold_and_answers_without_a_label_teach_nothing(tmp_path):
    passages = [Passage(f"p{i}", f"Title {i}", f"text {i} with Oslo" if i < 4 else f"text {i}") for i in range(8)]
    question = Question("q", "Where?", ("Oslo",), split="train", gold=("p0", "p1"), dataset="d")
    other = Question("r", "Who?", (), split="train", dataset="d")
    study = make_study(tmp_path / "s", passages, [question, other])
    hits = Hits(np.array([list(range(8))] * 2, np.int32), np.array([list(range(8, 0, -1))] * 2, np.float32))
    write_run(study, "r", ["q", "r"], hits, {"retriever": "bm25"})
    People(study.labels_path).add("ann")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    said = {"q": {"p1": "negative", "p3": "positive", "p5": "related", "p6": "unsure"}, "r": {"p2": "positive"}}
    for id, choices in said.items():
        labels.add("ann", LabelEvent(id, "label", id, tuple(Choice(*each) for each in choices.items())))
    lists, truth, answers = labelled_lists(study, study.run("r"), FeatureJudgeSettings(depth=8))
    by_id = {q.id: row.tolist() for q, row in zip(lists.questions, truth, strict=True)}
    assert answers[[q.id for q in lists.questions].index("q")].tolist() == [True] * 4 + [False] * 4
    assert by_id["q"] == [POSITIVE, NEGATIVE, UNKNOWN, POSITIVE, NEGATIVE, NEGATIVE, UNKNOWN, NEGATIVE]
    # Nothing but one label is known of the other question: its other passages may answer as well.
    assert by_id["r"] == [UNKNOWN, UNKNOWN, POSITIVE, *[UNKNOWN] * 5]


def test_dev_never_teaches(study, judge):
    with pytest.raises(Refused, match="no training question"):
        learn_judge(study, "other", "bm25-dev")
    assert not study.path("models", "other").exists()


def test_lists_of_another_retriever_are_refused(study, judge):
    run = study.run("bm25-dev")
    write_run(study, "elsewhere", run.question_ids, run.hits, {"retriever": "imported"})
    with pytest.raises(Refused, match="learned from lists of 'bm25'"):
        judge_run(study, "judge", "elsewhere")


def test_a_second_judge_of_the_same_lists_computes_no_features(study, judge, monkeypatch):
    monkeypatch.setattr(feature_judge, "feature_matrix", lambda *_: pytest.fail("features are computed again"))
    again = learn_judge(study, "again", "bm25-train", settings={"depth": 10})
    figures = ("auc", "average_precision", "pairs", "positives", "drop", "add")
    assert {key: again.report[key] for key in figures} == {key: judge.about[key] for key in figures}


def test_a_name_is_taken_once(study, judge):
    with pytest.raises(Refused, match="already a model named 'judge'"):
        learn_judge(study, "judge", "bm25-train")
    with pytest.raises(Missing, match="unknown feature judge 'nobody'"):
        FeatureJudge(study, "nobody")


def test_a_damaged_judge_is_one_line(study, judge):
    folder = study.path("models", check_name("damaged", "model"))
    shutil.copytree(study.path("models", "judge"), folder)
    path, about = folder / "model.npz", folder / "training.json"
    whole, said = path.read_bytes(), json.loads(about.read_text())
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}

    def refused():
        with pytest.raises(BadInput, match="damaged.*learn the judge again"):
            FeatureJudge(study, "damaged")

    path.write_bytes(whole[:100])
    refused()
    np.savez(path, **{**arrays, "columns": np.array([{"a": 1}], dtype=object)})  # a pickle
    refused()
    np.savez(path, **{name: array for name, array in arrays.items() if name != "linear.weights"})
    refused()
    path.write_bytes(whole)
    about.write_text(json.dumps({**said, "model": "boosting"}))
    refused()


# Reranking


def test_reranking_orders_the_first_and_leaves_the_rest():
    scores = np.array([[4, 3, 2, 1], [2, 1, -np.inf, -np.inf]], np.float32)
    hits = Hits(np.array([[5, 6, 7, 8], [9, 3, -1, -1]], np.int32), scores)
    found = rerank(hits, np.array([[0.1, 0.9, 0.1], [0.2, 0.3, np.nan]]))
    assert found.ordinals.tolist() == [[6, 5, 7, 8], [3, 9, -1, -1]]
    assert (np.diff(found.scores[0]) <= 0).all() and found.scores[1, 2:].tolist() == [-np.inf, -np.inf]


def test_reranking_is_a_retriever_like_the_others(study, judge):
    from blindspot.backend.retrieval import live
    from blindspot.backend.retrieval.retriever import kind_of_run

    run = retrieve(study, "rerank", split="dev", k=10, judge="judge", name="reranked")
    base = study.run("bm25-dev")
    assert [sorted(row) for row in run.hits.ordinals.tolist()] == [sorted(row) for row in base.hits.ordinals.tolist()]
    before, after = (np.asarray(each.answers())[:, 0].mean() for each in (base, run))
    assert after >= before
    assert "bm25" in kind_of_run(run.manifest).describe(run.manifest)
    assert "rerank:judge" in live.answering_retrievers(study)
    question = study.questions.with_ids(run.question_ids[:1])[0].text
    same_ranking(live.search(study, "rerank:judge", [question], 10), first_hits(run.hits, 1))


@pytest.mark.slow
def test_on_real_data_the_judge_tells_gold_from_the_rest(real_data, tmp_path):
    """The figures in the docs: gold in BM25's top 20 on dev questions, none of which was used for learning."""
    from sklearn.metrics import roc_auc_score

    from blindspot.backend.core.gold import gold_matrix
    from blindspot.backend.core.study import Study
    from blindspot.backend.data.importing.importer import import_passages, import_questions

    study = Study.create(tmp_path / "real")
    import_passages(study, real_data / "passages_100k.tsv.xz")
    import_questions(study, real_data / "questions.jsonl.xz")
    bm25.build_index(study)
    for split in ("train", "dev"):
        retrieve(study, "bm25", split=split, k=20)
    learn_judge(study, "judge", "bm25-train")
    judge, run = FeatureJudge(study, "judge"), study.run("bm25-dev")
    lists = lists_of(run, study.questions.with_ids(run.question_ids), 20)
    found = judge.features(lists)
    scores, probabilities = judge.ranking_scores(found), judge.probabilities(found)
    given = lists.rows >= 0
    gold, _ = gold_matrix(study.corpus, lists.rows, lists.questions)
    assert roc_auc_score(gold[given], scores[given]) >= 0.93
    kept = given & (probabilities < judge.about["drop"]["value"])
    assert 1 - (gold & kept).sum() / gold.sum() >= 0.85
    assert (~gold & kept).sum() / (~gold & given).sum() >= 0.82
    order = np.argsort(-scores, axis=1, kind="stable")
    answers = np.take_along_axis(np.asarray(run.answers())[:, :20], order, 1)
    assert answers[:, 0].mean() >= 0.68


def test_the_summary_speaks_of_known_positives_where_gold_and_labels_are_all_it_measured():
    from blindspot.app.judge_texts import quality_lines

    reached = {"value": 0.1, "pairs": 952, "share": 0.003, "low": 0.001, "high": 0.009}
    missed = {"value": None, "pairs": 0, "share": None, "low": None, "high": None}
    about = {"settings": {"false_negatives": 0.01, "precision": 0.95}, "auc": 0.9, "average_precision": 0.3}
    about |= {"positives": 50, "base_rate": 0.045, "measured_on": "training questions out of fold"}
    about |= {"drop": reached, "add": missed, "add_with_answer": missed}
    line = quality_lines(about)[1]
    assert "up to 0.9% of them" in line and "0.3% of the kept are known positives [0.1%, 0.9%], n = 952" in line
    worst = (0.009 * 952 + 48) / 1000  # unlabelled answers below the threshold could all be false
    reached["left_out"] = 48
    assert f"up to {worst:.1%} of them could be false, with 48 pairs" in quality_lines(about)[1]


def test_the_command_uses_the_oldest_dense_index_unless_told_otherwise(study, monkeypatch):
    assert judge_commands._encoder_of_features(study, None) is None, "this study has no dense index"
    monkeypatch.setattr(dense, "dense_indexes", lambda opened: ["first", "second"])
    chosen = [judge_commands._encoder_of_features(study, given) for given in (None, "second", "none")]
    assert chosen == ["first", "second", None]


def test_the_command_prints_what_the_judge_learned(study, judge, capsys, monkeypatch):
    words = ["judge", "learn", "printed", "--run", "bm25-train", "--depth", "10", "--study", str(study.folder)]
    monkeypatch.setattr(sys, "argv", ["blindspot", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    printed = capsys.readouterr().out
    features = len(judge.about["features"])
    assert not end.value.code and printed.startswith("Learned printed from 60 labelled questions (600 pairs) in ")
    assert f"ensemble, {features} features." in printed and "Next: blindspot retrieve --with rerank" in printed

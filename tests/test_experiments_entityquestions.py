"""EntityQuestions' experiments on a tiny study: complete tables, figures equal to the runs', parts made once, refusals
in one line.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_ind
from sklearn.metrics.pairwise import cosine_similarity

from blindspot.analysis.accuracy import mean_difference
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import SECOND_DATASET
from blindspot.backend.experiments import running
from blindspot.backend.experiments.block_parts import BlockHits, BlockIndex, Blocks, SuccessOnEqualText, blocks
from blindspot.backend.experiments.bucket_measures import BucketDifference, bucket_numbers, difference_values
from blindspot.backend.experiments.hits import Bm25Hits, Index
from blindspot.backend.experiments.papers.buckets import BucketLine, _contrasts
from blindspot.backend.experiments.papers.embedding_spread import SpreadMeasure
from blindspot.backend.experiments.parts import QuestionSelection, StudyEncoder
from blindspot.backend.experiments.plan import Success, macro_values
from blindspot.backend.experiments.question_encoders import QuestionEncoders
from blindspot.backend.experiments.relation_training import SharedWordFilter, words_of
from blindspot.backend.experiments.running import experiment_named, run_experiment
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.records import Passage, Question
from tests.experiments import TINY, experiment_study
from tests.studies import copied, make_study

SETTING = {key: TINY[key] for key in ("start", "seeds", "ks", "depth", "training")}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study with EntityQuestions' special sets, made from the same facts."""
    made = experiment_study(tmp_path_factory.mktemp("studies") / "s")
    train, dev = made.questions.all(split="train"), made.questions.all(split="dev")

    def put(questions, dataset, **more):
        return [dataclasses.replace(each, id=f"{dataset}.{each.id}", dataset=dataset, **more) for each in questions]

    made.questions.add(
        [
            *put(train, "no-overlap"),
            *put(dev, "entityquestions", split="test"),
            *(
                dataclasses.replace(each, text=f"What is the birthplace of {each.subject}?")
                for each in put(train, "similar")
            ),
            *(
                dataclasses.replace(each, bucket=7 * (number // 2 % 2))
                for number, each in enumerate(put(dev, "common-random-buckets", split="test"))
            ),
            *(dataclasses.replace(each, bucket=7) for each in put(dev[:4], "nq-seen-buckets", split="test")),
            *(
                dataclasses.replace(each, text=f"In what town did {each.subject} begin?")
                for each in put(dev, SECOND_DATASET)
            ),
        ]
    )
    return made


def found(study, name, **more):
    return run_experiment(study, name, {**SETTING, "small": True, "ks": [5], **more}, "cpu")


def values(result):
    return {(cell["row"], cell["column"]): cell["value"] for cell in result["cells"]}


def rows(result):
    return list(dict.fromkeys(cell["row"] for cell in result["cells"]))


def test_relations_counted_by_hand(study):
    """BM25's figures come from the run's answers; an encoder without an index gets one."""
    result = found(study, "relations", ks=[2, 20], encoders=["tiny", "other"])
    bench = Workbench(study)
    hits = Bm25Hits(QuestionSelection("dev", limit=100), 20)
    answers, questions = np.asarray(hits.open(bench).answers()), hits.asked.questions_of(bench)
    by_hand = {
        relation: np.mean(
            [row[:2].any() for row, question in zip(answers, questions, strict=True) if question.relation == relation]
        )
        for relation in ("P19", "P20")
    }
    table = values(result)
    assert table["P19 place of birth", "BM25 @2"] == pytest.approx(by_hand["P19"])
    assert table["P20 place of death", "BM25 @2"] == pytest.approx(by_hand["P20"])
    assert table["Average (macro)", "BM25 @2"] == pytest.approx(np.mean(list(by_hand.values())))
    assert "other" in study.parts("indexes") and result["verdict"] == "no finding"


def test_a_mean_over_groups_has_the_variance_of_their_means():
    rng = np.random.default_rng(0)
    names = np.array(["a"] * 40 + ["b"] * 300)
    drawn = (rng.random(340) < np.where(names == "a", 0.95, 0.5)).astype(float)
    made = macro_values(drawn, names)
    parts = [drawn[names == name] for name in ("a", "b")]
    assert made.mean() == pytest.approx(np.mean([part.mean() for part in parts]))
    assert made.var() / len(made) == pytest.approx(sum(part.var() / len(part) for part in parts) / 4)
    sure = macro_values(np.ones(340), names)
    assert 0.95 < crossed_mean(sure[None]).low < 1 and crossed_mean(sure[None]).high == pytest.approx(1)


def test_the_difference_of_two_groups_has_welchs_interval():
    rng = np.random.default_rng(1)
    more, less = rng.normal(0.6, 1, 400), rng.normal(0.2, 2, 900)
    ours = crossed_mean(difference_values([(1, more), (-1, less)])[None])
    theirs = ttest_ind(more, less, equal_var=False).confidence_interval(0.95)
    assert ours.value == pytest.approx(more.mean() - less.mean())
    assert (ours.low, ours.high) == (pytest.approx(theirs.low, abs=0.02), pytest.approx(theirs.high, abs=0.02))


CUT = [
    Passage("1", "A", "a b c"),
    Passage("2", "A", "d e"),
    Passage("4", "A", "f g h i"),
    Passage("5", "B", "j"),
    Passage("6", "B", "longword k"),
]


def test_blocks_cut_by_hand():
    """Four tokens a block: passage 3 of A is missing, so none goes from e to f; a word that is longer than a block
    stands alone."""
    made = dict.fromkeys(("passages", "articles", "gaps", "blocks", "words"), 0)
    cut = list(blocks(CUT, 4, lambda word: len(word) if word == "longword" else 1, made))
    assert [(each.id, each.title, each.text) for each in cut] == [
        ("1.0", "A", "a b c d"),
        ("1.1", "A", "e"),
        ("4.0", "A", "f g h i"),
        ("5.0", "B", "j"),
        ("5.1", "B", "longword"),
        ("5.2", "B", "k"),
    ]
    assert made == {"passages": 5, "articles": 2, "gaps": 1, "blocks": 6, "words": 12}


def test_blocks_without_numbers_follow_one_another_by_title():
    made = dict.fromkeys(("passages", "articles", "gaps", "blocks", "words"), 0)
    named_so = [Passage(f"x{passage.id}", passage.title, passage.text) for passage in CUT[:3]]
    assert [each.text for each in blocks(named_so, 5, lambda word: 1, made)] == ["a b c d e", "f g h i"] and made[
        "gaps"
    ] == 0


def test_blocks_are_indexed_and_searched(study):
    """Blocks are relevant by their texts; the column of equal text uses as many passages as the blocks have words."""
    result = found(study, "blocks", encoders=["tiny"])
    bench = Workbench(study)
    part = Blocks(288, StudyEncoder("tiny"))
    hits = BlockHits(QuestionSelection("dev", limit=100), 5, BlockIndex(part))
    run, corpus = hits.open(bench), part.study(bench).corpus
    texts = [[corpus.passage(ordinal).text for ordinal in row] for row in np.asarray(run.hits.ordinals).tolist()]
    questions = bench.questions.with_ids(run.question_ids)
    by_hand = [
        any(question.answers[0] in text for text in some) for question, some in zip(questions, texts, strict=True)
    ]
    assert Success(hits, 5).values(bench).tolist() == [float(each) for each in by_hand]
    passages = Bm25Hits(QuestionSelection("dev", limit=100), 20)
    assert (
        SuccessOnEqualText(passages, part, 5).values(bench).tolist() == Success(passages, 5).values(bench).tolist()
    )  # a passage is a block here
    assert any("60 passages" in note for note in result["notes"])


def test_official_buckets_by_hand(study):
    result = found(study, "buckets", relations=["P19"])
    bench = Workbench(study)
    hits = Bm25Hits(QuestionSelection("common-random-buckets", ("P19",), 100), 5)
    answers, questions = np.asarray(hits.open(bench).answers()), hits.asked.questions_of(bench)
    rare = np.mean([row[:5].any() for row, question in zip(answers, questions, strict=True) if question.bucket == 7])
    table = values(result)
    frequent, rarest = (
        next(row for row in rows(result) if row.startswith(f"P19 place of birth, random entities, group {number}"))
        for number in (0, 7)
    )
    assert "mention" in frequent and table[rarest, "BM25"] == pytest.approx(rare)
    assert any(row.startswith("P19 place of birth, entities of training questions, group 7") for row in rows(result))
    ends = f"{frequent} less {rarest.removeprefix('P19 place of birth, random entities, ')}"
    assert table[ends, "tiny"] == pytest.approx(table[frequent, "tiny"] - table[rarest, "tiny"])
    assert [point[0] for point in result["plot"]["series"]["BM25, P19 place of birth, random entities"]] == [0, 7]


def test_buckets_by_frequency_where_a_split_is_named(study):
    """Frequencies 1, 10 and 19 of 2 questions each: cut at an eighth of 60, from the frequent end, by the middle of
    their mass."""
    questions = [Question(str(n), "q", frequency=1 + 9 * (n % 3), relation="P19") for n in range(6)]
    assert bucket_numbers(questions, False).tolist() == [7, 6, 2] * 2  # middles 59, 48 and 19 of 60, in eighths
    assert any("group 7 (about 1 mention)" in row for row in rows(found(study, "buckets", on="dev")))


def test_small_groups_are_compared_together():
    """17 + 14 questions on the frequent side have 30, the rarest group alone has; where both sides would share one, none."""
    sizes, mentions = {1: 17, 3: 14, 5: 25, 7: 109}, {1: [40, 44], 3: [16], 5: [8], 7: [1]}
    line = BucketLine("", "entities", QuestionSelection("dev"), False, False, sizes, mentions)
    ((row, more, less),) = _contrasts([line], 30)
    assert row == "entities, groups 1 to 3 (about 40 mentions) less group 7 (about 1 mention)"
    assert ([number for _, number in more], [number for _, number in less]) == ([1, 3], [7])
    assert not list(_contrasts([dataclasses.replace(line, n={1: 17, 7: 14}, frequencies=mentions)], 30))


def test_a_difference_of_groups_has_a_width_where_nothing_differs():
    """31 frequent and 109 rare questions: A finds all, B misses 12 rare ones. The interval of B's difference less A's is by
    hand that of the paired differences in each group."""
    bench = SimpleNamespace(settings=SimpleNamespace(unit="question"))

    def bucket(found: int, missed: int = 0) -> SimpleNamespace:
        questions = [Question(str(number), "q") for number in range(found + missed)]
        values = np.repeat([1.0, 0.0], [found, missed])
        return SimpleNamespace(success_values=lambda bench, k: values, questions=lambda bench: questions)

    a = BucketDifference((bucket(31),), (bucket(109),), 5)
    b = BucketDifference((bucket(31),), (bucket(97, 12),), 5)
    flat, more = a.estimate(bench, 0.95), b.estimate_against(a, bench, 0.95)
    assert flat.value == 0 and flat.low < 0 < flat.high
    same, less = mean_difference(np.zeros(31)), mean_difference(np.repeat([0.0, -1.0], [97, 12]))
    assert (more.value, more.n) == (pytest.approx(12 / 109), 140)
    assert more.low == pytest.approx(more.value - np.hypot(same.low, less.high - less.value))


BORN = (("Ann Lee", "Oslo"), ("Lee Ray", "Bodo"), ("Cid", "New Bodo"), ("Dag of the Hill", "Molde"), ("Eva", "Alta"))


def test_words_apart_by_hand():
    asked = [Question(str(n), f"Where was {name} born?", (town,), "P19", name) for n, (name, town) in enumerate(BORN)]
    assert words_of(asked[0], "subject and answers") == {"ann", "lee", "oslo"} and words_of(asked[3], "subject") == {
        "dag",
        "hill",
    }

    class Fixed(QuestionSelection):
        def questions_of(self, bench):
            return [Question("t", "Where was Bodo Lee of the Valley born?", ("Alta",), "P19", "Bodo Lee of the Valley")]

    for which, kept in (("subject", ["Cid", "Dag of the Hill", "Eva"]), ("subject and answers", ["Dag of the Hill"])):
        keeps = SharedWordFilter(Fixed("dev"), which).kept_question_ids(None)
        assert [question.subject for question in asked if keeps(question)] == kept


def test_finetune_on_the_official_sets(study):
    """The index before training serves where the question tower alone is trained."""
    bench = Workbench(study)
    plan = experiment_named("finetune").plan(experiment_named("finetune").setting({**given(), "small": True}), bench)
    hits = {cell.row: cell.measures[0].hits for cell in plan.cells}
    assert hits["FT OnlyQ"].index == hits["start"].index and hits["FT OnlyQ"].questions.settings.only == "question"
    assert hits["FT OnlyP"].index.encoder.settings.only == "passage" and hits["FT OnlyP"].questions is None
    data = hits["FT, similar wording"].index.encoder.data[0]
    bench.make(data.whole)
    similar = [example.question for example in data.examples(bench)]
    assert similar and all(question.startswith("What is the birthplace of") for question in similar)


def given(**more):
    return running.hashable_options({**SETTING, "ks": [5], **more})


def born(n: int, town: str, split: str) -> Question:
    return Question(
        f"q{n}", f"Where was Name{n} born?", (town,), "P19", f"Name{n}", dataset="s", split=split, gold=(str(n),)
    )


def test_finetune_keeps_words_apart_where_there_are_no_official_sets(tmp_path):
    """Every name and town is unique, except in two training questions; the wording is Blindspot's or the
    paper's.
    """
    towns = [f"Town{chr(97 + n % 26)}" for n in range(40)]
    passages = [Passage(str(n), f"Name{n}", f"Name{n} was born in {town}.") for n, town in enumerate(towns)]
    asked = [born(n, towns[n], "dev" if n < 6 else "train") for n in range(30)]
    study = Workbench(make_study(tmp_path / "s", passages, asked))
    plan = experiment_named("finetune").plan(experiment_named("finetune").setting(given(small=True)), study)
    assert "P19: of 24 training questions, 20 share no word of subject and answers" in plan.notes[1]
    tuned = next(
        cell.measures[0].hits.index.encoder.data[0] for cell in plan.cells if cell.row == "FT, similar wording"
    )
    study.make(tuned.whole)
    examples = tuned.examples(study)
    assert len(examples) == 20 and {example.question for example in examples} == {
        f"What is the birthplace of Name{n}?" for n in range(6, 26)
    }


def test_specialised_leaves_the_index_alone(study, tmp_path):
    study = copied(study, tmp_path / "s")
    held = set((Workbench(study).home / "indexes").glob("part-*"))
    found(study, "specialised", encoders=["tiny", "other"])
    bench = Workbench(study)
    assert set((bench.home / "indexes").glob("part-*")) == held and set(study.parts("indexes")) == {
        "bm25",
        "tiny",
        "other",
    }
    plan = experiment_named("specialised").plan(experiment_named("specialised").setting(given(small=True)), bench)
    part = next(cell.measures[0].hits.encoders for cell in plan.cells if cell.column.endswith("by relation"))
    assert isinstance(part, QuestionEncoders) and part.finished(bench)


def test_spread_is_the_mean_cosine_of_two_positives(study):
    """Against scikit-learn's cosines, without those of a passage with itself."""
    bench = Workbench(study)
    part = SpreadMeasure(Index(StudyEncoder("tiny")), QuestionSelection("dev", ("P19",)), "mean cosine")
    passages = sorted(
        bench.corpus.ordinals({id for question in part.selection.questions_of(bench) for id in question.gold}).values()
    )
    cosines = cosine_similarity(np.load(study.path("indexes", "tiny", "embeddings.npy"))[passages].astype(np.float64))
    n = len(passages)
    assert part.values(bench).mean() == pytest.approx((cosines.sum() - n) / (n * (n - 1)), abs=1e-6)
    nearest = dataclasses.replace(part, figure="nearest other").values(bench)
    assert nearest == pytest.approx((cosines - 2 * np.eye(n)).max(axis=1), abs=1e-6)


@pytest.mark.parametrize(("name", "more", "error", "says"), [
    ("relations", {"relations": ["P17"]}, Refused, "P17 country has 0 questions in dev, but at least 10 are needed"),
    ("relations", {"on": "births/dev"}, Refused, "no relation has 10 questions in births/dev; the largest, P19 place of birth, has 3"),
    ("relations", {"small": True, "encoders": ["none"]}, Missing, "no encoder 'none'"),
    ("finetune", {"train": ["train"], "on": "dev"}, Refused, "training questions without words of the measured questions"),
    ("finetune", {"small": True, "training": {"only": "question"}}, BadInput, "remove this setting"),
    ("interference", {"small": True, "sets": ["nowhere"]}, BadInput, "the set 'nowhere' needs training questions"),
    ("interference", {"small": True, "on": "test"}, BadInput, "no second question set"),
    ("interference", {"small": True, "sets": ["births", "deaths"]}, BadInput, "give one general set"),
    ("specialised", {"small": True, "training": {"layers": 1}}, BadInput, "layers cannot be chosen here"),
    ("buckets", {"small": True, "relations": ["P17"]}, Refused, "P17 country has 0 questions in common-random-buckets"),
    ("embedding-spread", {"relations": ["P20"], "on": "births/dev"}, Refused, "P20 place of death has 3 questions in train and births/dev"),
])  # fmt: skip
def test_bad_input_is_one_line(study, name, more, error, says):
    with pytest.raises(error) as caught:
        run_experiment(study, name, {**SETTING, **more}, "cpu")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_without_a_second_set_or_training_questions(tmp_path):
    passages = [Passage(str(n), f"Name{n}", f"Name{n} was born in Oslo.") for n in range(20)]
    study = make_study(tmp_path / "s", passages, [born(n, "Oslo", "dev") for n in range(12)])
    for name in ("finetune", "specialised", "embedding-spread"):
        with pytest.raises(Missing, match="no questions of train"):
            run_experiment(study, name, SETTING, "cpu")
    study.questions.add([born(15, "Oslo", "train")])
    with pytest.raises(BlindspotError, match="no second question set"):
        run_experiment(Study.open(study.folder), "interference", {**SETTING, "small": True}, "cpu")
    assert not (study.folder / "experiments").exists()

"""The slice language and its conditions, the finder compared with scipy and simulations, and saved slices."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import slice_finder
from blindspot.analysis.expressions import And, Condition, Not, NotAnExpression, Or, evaluate, parse
from blindspot.analysis.slices import find_departing_slices, null_rate, p_values, slice_tests, step_down
from blindspot.backend.evaluation import saved_slices
from blindspot.backend.evaluation.comparison import Comparison, measure_all
from blindspot.backend.evaluation.slice_finder import candidates, find_slices, join_expressions
from blindspot.backend.evaluation.slices import NUMBERS, TAGS, Facts, by_results
from blindspot.db.errors import BadInput, Missing, Refused
from tests.app_pages import hand_made_study
from tests.rounds import in_rounds, most

NAMES = st.sampled_from(["relation", "bucket", "first", "answer_in_title"])
VALUES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")) | st.just(" "),
    min_size=1,
    max_size=8,
)
CONDITIONS = (
    st.builds(lambda name, value: Condition(name, None, ":", value), NAMES, VALUES)
    | st.builds(lambda name, argument, operator, value: Condition(name, argument, operator, float(value)), NAMES, st.none() | VALUES,
                st.sampled_from(["<=", "<", ">=", ">", "=", "!="]), st.integers(-50, 200))
    | st.builds(Condition, NAMES)
)  # fmt: skip
EXPRESSIONS = st.recursive(
    CONDITIONS,
    lambda inner: (
        st.builds(Not, inner) | st.builds(And, st.tuples(inner, inner)) | st.builds(Or, st.tuples(inner, inner))
    ),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return hand_made_study(tmp_path_factory.mktemp("slices") / "toy")


@pytest.fixture(scope="module")
def facts(study) -> Facts:
    runs = measure_all(study, ("alpha", "beta"))
    return Facts(Comparison.of_runs(runs["alpha"], runs["beta"]), 5)


def shown(expression) -> str:
    """An expression with every pair of parentheses."""
    if isinstance(expression, Condition):
        return str(expression)
    if isinstance(expression, Not):
        return f"[not {shown(expression.operand)}]"
    return "[" + (" and " if isinstance(expression, And) else " or ").join(map(shown, expression.operands)) + "]"


@pytest.mark.parametrize(("text", "read"), [
    ("relation:P19 and not bucket:0 and first(bm25-dev)<=5", "[relation:P19 and [not bucket:0] and first(bm25-dev)<=5]"),
    ("word:who or word:what and length>3", "[word:who or [word:what and length>3]]"),
    ("(word:who or word:what) AND length > 3", "[[word:who or word:what] and length>3]"),
    ("not not answer_in_title", "[not [not answer_in_title]]"),
    ('group:"4-9 mentions"', 'group:"4-9 mentions"'),
    ('set:"a \\"b\\" \\\\"', 'set:"a \\"b\\" \\\\"'),
    ('relation:"and"', 'relation:"and"'),
    ("overlap<0.5", "overlap<0.5"),
    ("relation=P19", "relation:P19"),
    ('set = "a b" and frequency=3', '[set:"a b" and frequency=3]'),
])  # fmt: skip
def test_reading(text, read):
    assert shown(parse(text)) == read


@pytest.mark.parametrize(("text", "position"), [
    ("", 1), ("not", 4), ("relation:P19 word:who", 14), ("(relation:P19", 14), ("relation:", 10), ("first(a<=5", 8), ("length<=x", 9),
    ('set:"a', 5), ("a & b", 3), ("P19", 1), ("and", 1), ("relation:P19)", 13), ("length<=1_000", 9),
])  # fmt: skip
def test_what_cannot_be_read_says_where(text, position):
    with pytest.raises(NotAnExpression) as caught:
        parse(text)
    assert caught.value.position == position


def test_depth_and_length_are_bounded():
    for text in ("(" * 500 + "word:who" + ")" * 500, "not " * 450 + "word:who"):
        with pytest.raises(NotAnExpression, match="levels of parentheses"):
            parse(text)
    with pytest.raises(NotAnExpression, match="2000 characters"):
        parse("word:who or " * 500 + "word:who")


@given(EXPRESSIONS)
def test_what_is_written_reads_back_as_itself(expression):
    assert shown(parse(str(expression))) == shown(parse(str(parse(str(expression)))))
    values = {}

    def answer(condition):
        rng = np.random.default_rng(sum(map(ord, str(condition))))
        return values.setdefault(str(condition), rng.random(16) < 0.5)

    assert (evaluate(parse(str(expression)), answer) == evaluate(expression, answer)).all()


@given(st.text(max_size=40))
def test_any_text_reads_or_is_refused(text):
    try:
        parse(text)
    except NotAnExpression as error:
        assert 1 <= error.position <= len(text) + 1


@pytest.mark.parametrize(("expression", "ids"), [
    ("relation:P19", "012"), ("not relation:P19", "3456"), ("split:test", "6"), ("set:toy", "0123456"), ('set:"test · toy"', "6"),
    ("word:where", "012345"), ("word:other", "6"), ("frequency>=20", "2346"), ("frequency<1000", "012346"),          # 5's is unknown
    ('group:"10-29 mentions"', "12"), ('group:"frequency unknown"', "5"), ("bucket:0", ""), ("not bucket:0", "0123456"),
    ("first(alpha)=1", "016"), ("first(beta)>15", "145"), ("first(short)<=1", "01"), ("not first(short)<=1", "23456"),
    ("gold(alpha)=12", "4"), ("gold(beta)>15", "145"), ("answer_length=1", "0123456"), ("answer_in_title", ""),
    ("tag:only_a", "14"), ("tag:only_b", "3"), ("tag:both", "026"), ("tag:both_fail", "5"),
    ("tag:bm25_only", "14"), ("tag:dense_only", "3"),
    ("tag:gold_below_unlabelled", "13456"), ("tag:answer_in_unlabelled", ""), ("length=4", "012345"), ("", "0123456"),
])  # fmt: skip
def test_conditions_by_hand(facts, expression, ids):
    """Ranks of the answer passages: alpha 1 1 3 0 2 0 1, beta 1 0 1 2 0 0 2; 4's gold is at 12 of alpha and nowhere in beta."""
    assert "".join(str(row) for row in np.flatnonzero(facts.mask(expression))) == ids


def test_overlap_and_answer_in_title_by_hand(tmp_path):
    from blindspot.backend.evaluation.question_facts import QuestionFacts
    from blindspot.db.records import Passage, Question
    from tests.studies import make_study

    passages = [
        Passage("p", "Oslo (city)", "Arve was raised there."),
        Passage("q", "Arve Furset", "A skier from Norway."),
    ]
    asked = [
        Question("a", "Where was Arve Furset born?", ("Oslo",), gold=("p",)),
        Question("b", "Where was Arve Furset born?", ("Norway", "kingdom of Norway"), gold=("p", "q", "stranger")),
        Question("c", "Who?", (), gold=()),
    ]
    found = QuestionFacts(make_study(tmp_path / "s", passages, asked), asked)
    assert found.overlap[:2] == pytest.approx([1 / 3, 2 / 3]) and np.isnan(found.overlap[2])  # of arve, furset, born
    assert found.answer_in_title.tolist() == [True, False, False]
    assert found.answer_length[:2].tolist() == [1, 1] and np.isnan(found.answer_length[2])
    assert found.question_words.tolist() == ["where", "where", "who"]


@pytest.mark.parametrize(
    "expression",
    [
        "nothing:3",
        "bucket",
        "bucket:many",
        "first<=5",
        "tag:x",
        "answer_in_title<3",
        "relation>3",
        "bucket(a)<3",
        "__import__('os')",
    ],
)
def test_conditions_that_do_not_exist_are_refused_by_name(facts, expression):
    with pytest.raises(BadInput, match="the slice cannot be read"):
        facts.mask(expression)


def test_a_run_that_does_not_exist_and_a_tag_without_bm25(facts, study):
    with pytest.raises(Missing, match="nobody"):
        facts.mask("first(nobody)<=5")
    runs = measure_all(study, ("alpha", "short"))
    with pytest.raises(BadInput, match="only_a or tag:only_b"):
        Facts(Comparison.of_runs(runs["alpha"], runs["short"]), 5).mask("tag:bm25_only")


def test_every_name_has_an_example_that_reads(facts):
    for words in NUMBERS.values():
        facts.mask(words.partition(" (")[0].split(" or ")[0])
    assert all(len(facts.mask(f"tag:{name}")) == 7 for name in TAGS)


def enumerated_p(differences: np.ndarray, mask: np.ndarray) -> float:
    """Two-sided p value of a slice by enumeration: both sides trinomial, with the rates that are most likely if both means are equal.

    The rates come from a numerical maximisation of the likelihood, the distribution of each sum from scipy's convolution.
    """
    delta = differences.mean()
    sums = []
    for values in (differences[mask], differences[~mask]):
        plus, minus, n = (values > 0).sum(), (values < 0).sum(), len(values)

        def loss(rate, plus=plus, minus=minus, n=n):
            parts = ((plus, (rate + delta) / 2), (minus, (rate - delta) / 2), (n - plus - minus, 1 - rate))
            return -sum(count * np.log(max(p, 1e-300)) for count, p in parts if count)

        rate = scipy.optimize.minimize_scalar(
            loss, bounds=(abs(delta), 1), method="bounded", options={"xatol": 1e-10}
        ).x
        single = np.array([(rate - delta) / 2, 1 - rate, (rate + delta) / 2])
        pmf = np.ones(1)
        for _ in range(n):
            pmf = np.convolve(pmf, single)
        sums.append((np.arange(-n, n + 1) / n, pmf))
    (x, p), (y, q) = sums
    observed = abs(differences[mask].mean() - differences[~mask].mean())
    far = np.abs(x[:, None] - y[None, :]) >= observed - 1e-9
    return float((p[:, None] * q[None, :])[far].sum())


def test_the_p_value_of_a_slice_equals_an_enumeration():
    """The normal distribution of the corrected score against exact sums, for even and skewed differences and small slices."""
    rng = np.random.default_rng(0)
    for share_plus, share_minus in ((0.15, 0.15), (0.3, 0.02), (0.1, 0.0), (0.02, 0.02)):
        for size in (30, 60, 200):
            for shift in (0.0, 0.15, 0.3):
                differences = rng.choice([1.0, -1, 0], 400, p=[share_plus, share_minus, 1 - share_plus - share_minus])
                mask = np.arange(400) < size
                raised = mask & (differences < 1) & (rng.random(400) < shift)
                differences[raised] += 1
                plus, minus = (np.array([(differences[mask] == sign).sum()]) for sign in (1, -1))
                totals = 400, int((differences > 0).sum()), int((differences < 0).sum())
                ours = p_values(np.array([size]), plus, minus, *totals)[0]
                exact = enumerated_p(differences, mask)
                if exact > 1e-6:
                    assert 0.55 * exact <= ours <= 1.8 * exact + 0.02, (share_plus, share_minus, size, shift)
                else:
                    assert ours < 1e-5


def test_the_rate_under_the_null_hypothesis_maximises_the_likelihood():
    rng = np.random.default_rng(3)
    for _ in range(50):
        n = int(rng.integers(30, 200))
        plus, minus = rng.multinomial(n, [0.2, 0.1, 0.7])[:2]
        delta = rng.uniform(-0.4, 0.4)
        rates = np.linspace(abs(delta) + 1e-6, 1 - 1e-6, 20_001)
        likelihood = (
            plus * np.log(rates + delta) + minus * np.log(rates - delta) + (n - plus - minus) * np.log(1 - rates)
        )
        assert null_rate(n, plus, minus, np.float64(delta)) == pytest.approx(rates[likelihood.argmax()], abs=2e-4)


def test_step_down_equals_its_definition():
    """Westfall and Young's algorithm written as a loop: the maximum over a slice and all slices with smaller statistics."""
    rng = np.random.default_rng(4)
    observed, resampled = rng.random(7) * 3, np.abs(rng.normal(size=(7, 400)))
    order = sorted(range(7), key=lambda i: -observed[i])
    plain, before = np.zeros(7), 0.0
    for place, i in enumerate(order):
        largest = resampled[order[place:]].max(axis=0)
        share = (1 + (largest >= observed[i]).sum()) / 401
        share = min(1.0, share + 2 * np.sqrt(share * (1 - share) / 400))
        plain[i] = before = max(before, share)
    assert step_down(observed, iter([resampled[:, :150], resampled[:, 150:]])) == pytest.approx(plain)


def test_findings_carry_the_figures_of_their_slices():
    rng = np.random.default_rng(0)
    differences = rng.choice([-1.0, 0, 1], 600)
    predicates = rng.random((5, 600)) < 0.4
    differences[predicates[1] & predicates[3] & (rng.random(600) < 0.9)] = 1
    slices = {(i,): predicates[i] for i in range(5)} | {
        (i, j): predicates[i] & predicates[j] for i, j in itertools.combinations(range(5), 2)
    }
    slices = {key: mask for key, mask in slices.items() if mask.sum() >= 30}
    counts = np.array(
        [[mask.sum(), (differences[mask] > 0).sum(), (differences[mask] < 0).sum()] for mask in slices.values()]
    )
    p = dict(
        zip(slices, p_values(*counts.T, 600, int((differences > 0).sum()), int((differences < 0).sum())), strict=True)
    )
    found = find_departing_slices(differences, predicates, confidence=1.0, limit=100)
    assert found.tried == len(slices) and (1, 3) in [each.members for each in found.findings]
    for each in found.findings:
        mask = slices[each.members]
        assert each.p == pytest.approx(p[each.members])
        assert (each.n, each.inside, each.outside) == (
            mask.sum(),
            pytest.approx(differences[mask].mean()),
            pytest.approx(differences[~mask].mean()),
        )
        assert differences.mean() == pytest.approx(each.outside + each.explained)
    default = find_departing_slices(differences, predicates)
    assert (1, 3) in [each.members for each in default.findings]
    assert all(each.p_adjusted >= each.p for each in default.findings)
    assert default == find_departing_slices(differences, predicates), "the same data give the same findings"


def test_the_finder_leaves_out_small_slices_repetitions_and_pairs_of_one_family():
    rng = np.random.default_rng(1)
    strong = rng.random(400) < 0.3
    differences = np.where(strong, 1.0, 0.0)
    few = np.zeros(400, bool)
    few[np.flatnonzero(strong)[:29]] = True
    predicates = np.array([strong, strong, few, rng.random(400) < 0.5])
    found = find_departing_slices(differences, predicates, ["x", "x", "y", "z"])
    assert [each.members for each in found.findings] == [(0,)]  # the copy is the same finding, 29 questions are too few
    assert found.tried == 5  # 0, 1, 3, and 3 with either copy
    assert find_departing_slices(differences, np.zeros((0, 400), bool)).findings == []
    with pytest.raises(ValueError, match="-1, 0 or 1"):
        find_departing_slices(differences / 2, strong[None])


@in_rounds(120)
def test_without_any_difference_between_slices_few_are_found(rounds):
    """Without an effect about 5% of searches may report something."""
    rng = np.random.default_rng(2)
    for values in ([-1.0, 0, 0, 1], [0.0] * 19 + [1], [0.0] * 30 + [-1, 1, 1]):  # also where differences are rare
        reported = [
            bool(find_departing_slices(rng.choice(values, 500), rng.random((12, 500)) < 0.15).findings)
            for _ in range(rounds)
        ]
        assert sum(reported) <= most(rounds, 14, 120, 0.05)


@pytest.mark.parametrize(
    "null",
    [
        "discordance by relation",
        pytest.param("discordance by frequency", marks=pytest.mark.slow),
        pytest.param("10 points everywhere, discordance by relation", marks=pytest.mark.slow),
    ],
)
def test_a_slice_that_only_disagrees_more_often_is_not_a_finding(null):
    draw = (slice_finder.NULLS | slice_finder.EQUAL_DIFFERENCES)[null]
    assert slice_finder.false_findings(*draw, studies=60, seed=7) <= 8  # P(more than 8 of 60 at 5%) is 0.3%


@pytest.mark.slow
@pytest.mark.parametrize("null", slice_finder.NULLS)
def test_the_finder_holds_its_level_under_every_null(null):
    listed = slice_finder.false_findings(*slice_finder.NULLS[null], studies=1000, seed=77)
    assert listed <= 50 and slice_finder.upper_bound(listed, 1000) < 0.065


def test_a_small_slice_without_differences_proves_nothing():
    """37 questions with no difference where 8% have one: 0.92^37 is 5%, so nothing after correction."""
    differences = np.array([0.0] * 389 + [-1] * 32)
    inside = np.arange(421) < 37
    found = find_departing_slices(differences, np.array([inside, np.arange(421) % 2 == 0]), confidence=1.0)
    assert next(each.p for each in found.findings if each.members == (0,)) > 0.05


def test_found_slices_are_expressions_with_the_figures_of_the_page(tmp_path):
    from blindspot.backend.core.runs import write_run
    from blindspot.backend.evaluation.comparison import figures_at
    from blindspot.db.records import Hits, Passage, Question
    from tests.studies import make_study

    passages = [Passage(f"a{i}", f"T{i}", f"It is Ansver{i}.") for i in range(200)] + [
        Passage(f"f{i}", "F", "Nothing.") for i in range(30)
    ]
    asked = [
        Question(f"q{i}", f"Where is thing {i}?", (f"Ansver{i}",), "P19" if i < 100 else "P50", gold=(f"a{i}",))
        for i in range(200)
    ]
    study = make_study(tmp_path / "s", passages, asked)
    for name, ranks in (("x", [1] * 200), ("y", [0 if i < 60 else 1 for i in range(200)])):
        ordinals = np.tile(np.arange(200, 210, dtype=np.int32), (200, 1))
        ordinals[:, 0] = np.where(np.array(ranks) == 1, np.arange(200), 210)
        hits = Hits(ordinals, np.tile(np.linspace(9, 2, 10, dtype=np.float32), (200, 1)))
        write_run(study, name, [q.id for q in asked], hits, {"retriever": name})
    runs = measure_all(study, ("x", "y"))
    facts = Facts(Comparison.of_runs(runs["x"], runs["y"]), 5)
    found = find_slices(facts)
    assert found.slices[0].expression in ("relation:P19", "relation:P50") and found.mean == pytest.approx(0.3)
    for each in found.slices:
        assert each.figures == figures_at(facts.comparison, 5, facts.mask(each.expression))
    assert {family for family, _ in candidates(facts)} >= {"relation", "word", "length"}


def test_joined_expressions_stay_plain():
    assert (
        join_expressions(["relation:P19", "length>=6 and length<=7", ""]) == "relation:P19 and length>=6 and length<=7"
    )
    assert join_expressions(["a:b or c:d", "e:f"]) == "(a:b or c:d) and e:f" and join_expressions([]) == ""


def test_saved_slices(study):
    made = saved_slices.save(study, "  rare  births ", "relation:P19   AND frequency <= 9")
    assert made.name == "rare births" and made.expression == "relation:P19 and frequency<=9"
    assert saved_slices.saved_slices(study) == {"rare births": made}
    assert json.loads((study.folder / "slices.json").read_text())["slices"][0]["name"] == "rare births"
    with pytest.raises(Refused, match="already"):
        saved_slices.save(study, "rare births", "word:who")
    assert saved_slices.save(study, "rare births", "word:who", replace=True).expression == "word:who"
    with pytest.raises(BadInput, match="cannot be read"):
        saved_slices.save(study, "broken", "(")
    with pytest.raises(BadInput, match="needs a name"):
        saved_slices.save(study, " ", "word:who")
    saved_slices.delete(study, "rare births")
    assert saved_slices.saved_slices(study) == {}
    with pytest.raises(Missing, match="no slice named"):
        saved_slices.delete(study, "rare births")
    (study.folder / "slices.json").write_text('{"slices": [{"oops": 1}]}')
    with pytest.raises(BadInput, match="slices.json"):
        saved_slices.saved_slices(study)
    (study.folder / "slices.json").unlink()


def test_slices_by_results_are_told_from_the_others():
    assert all(by_results(each) for each in ("first(a)<=5", "word:who and not (length=3 or tag:both)", "gold(a)>1"))
    assert not any(by_results(each) for each in ("", "word:who", "overlap<0.5 and relation:P19", "((("))


def test_labels_of_people_count_in_the_tags(tmp_path):
    """Question 3 of beta: its gold (and answer) stands at 2, under an unlabelled filler."""
    from blindspot.db.events import Choice, LabelEvent
    from blindspot.db.labels import Labels
    from blindspot.db.people import People

    study = hand_made_study(tmp_path / "judged")
    runs = measure_all(study, ("alpha", "beta"))
    compared = Comparison.of_runs(runs["alpha"], runs["beta"])
    row = compared.rows["q3"]

    def carries(tag: str) -> bool:
        return bool(Facts(compared, 5).tag(tag)[row])

    assert carries("gold_below_unlabelled") and not carries("answer_in_unlabelled")
    People(study.labels_path).add("ann", "annotator")
    labels = Labels(study.labels_path, passages=study.corpus.ordinals)
    labels.add("ann", LabelEvent("key-1", "label", "q3", (Choice("filler0", "negative"),)))
    assert not carries("gold_below_unlabelled"), "the one above is judged"
    labels.add("ann", LabelEvent("key-2", "label", "q3", (Choice("answer3", "negative"),)))
    assert not carries("answer_in_unlabelled"), "it holds an answer, and somebody said no"
    assert carries("gold_below_unlabelled"), "no positive is left, and unlabelled ones stand there"


def swapped_by_fact(studies, facts=150, conditions=8):
    """Return in how many studies the finder lists a slice, by fact and by question, if lists are swapped by fact."""
    rng = np.random.default_rng(21)
    units, listed = np.repeat(np.arange(facts), 2), {"fact": 0, "question": 0}
    for _ in range(studies):
        differences = (rng.choice([-1, 1], facts) * (rng.random(facts) < 0.4))[units]
        predicates = (rng.random((conditions, facts)) < 0.35)[:, units]
        for name, each in (("fact", units), ("question", None)):
            listed[name] += bool(find_departing_slices(differences, predicates, units=each).findings)
    return listed


def test_the_finder_counts_a_fact_that_is_asked_twice_once():
    """By question the finder lists a slice of nothing in every third study."""
    listed = swapped_by_fact(120)
    assert listed["fact"] <= 11 and listed["question"] >= 2 * listed["fact"]


def test_a_slice_needs_thirty_facts_not_thirty_questions():
    differences = np.repeat(np.array([1, -1] * 40), 2)
    predicates = (np.arange(160) < 50)[None]  # 50 questions about 25 facts
    units = np.repeat(np.arange(80), 2)
    assert (
        find_departing_slices(differences, predicates).tried == 1
        and find_departing_slices(differences, predicates, units=units).tried == 0
    )
    whole = (np.arange(160) < 60)[None]
    assert find_departing_slices(differences, whole, units=units).tried == 1
    # One wording of each of 50 facts is half of each.
    assert find_departing_slices(differences, (np.arange(160) % 2 == 0)[None], units=units).tried == 1


def test_each_question_as_its_own_unit_changes_nothing():
    rng = np.random.default_rng(4)
    differences, predicates = rng.choice([-1, 0, 0, 1], 400), rng.random((6, 400)) < 0.3
    plain, own = (slice_tests(differences, predicates, units=units) for units in (None, np.arange(400)[::-1]))
    assert np.array_equal(plain.p, own.p) and np.allclose(plain.p_adjusted, own.p_adjusted, atol=0.08)
    reference = p_values(plain.n, *counts_of(differences, predicates, plain), 400, *totals_of(differences))
    assert plain.p == pytest.approx(reference)


def counts_of(differences, predicates, tests):
    inside = predicates[tests.first] & predicates[tests.second]
    return [(inside & (differences == sign)).sum(axis=1) for sign in (1, -1)]


def totals_of(differences):
    return [int((differences == sign).sum()) for sign in (1, -1)]

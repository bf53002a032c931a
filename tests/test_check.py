"""`blindspot check`: facts against brute force, the sample, the rate, the rules, the command."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from blindspot.analysis.weighted_draws import Cells
from blindspot.app.cli import app
from blindspot.backend.checking.check import check, open_check
from blindspot.backend.checking.cleaned_file import outcome, plan_changes
from blindspot.backend.checking.facts import FileFinding, in_batch_negatives
from blindspot.backend.checking.pairs import NegativePairs, PassageOccurrences, negative_pairs
from blindspot.backend.checking.rules import compare_rules, pairs_kept_by, parse_rule
from blindspot.backend.checking.sample import (
    JudgedDraws,
    SamplePlan,
    block_ends,
    draw_sample,
    estimate_rate,
    forecast_widths,
    judged_draws,
    planned_widths,
    read_sample,
    trace,
    unjudged_pairs,
)
from blindspot.backend.checking.suspicion import pair_similarity
from blindspot.backend.checking.words import bounds_words, forecast_words, planned_words, rule_words
from blindspot.backend.core.made_from import is_check
from blindspot.backend.core.study import Study
from blindspot.backend.judging.near_duplicates import near_duplicates
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.db.errors import BadInput, Refused
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.judgements import labels_by_pair
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue
from tests import training_files as made
from tests.studies import copied

WORDS = [f"w{number}" for number in range(400)]


def words(rng, count=30):
    return " ".join(rng.choice(WORDS, count))


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """120 triplets with every fault planted, and the texts."""
    rng = np.random.default_rng(3)
    texts = [words(rng) for _ in range(60)]
    near = [text.rsplit(" ", 2)[0] + " other end" for text in texts[:20]]
    rows = []
    for _ in range(120):
        question = f"what is {rng.choice(WORDS[:25])}"
        pick = [texts[place] for place in rng.integers(0, 60, 2)]
        rows.append({"anchor": str(question), "positive": pick[0], "negative": pick[1]})
    rows[4]["negative"] = rows[4]["positive"]
    for place in (7, 8, 9):
        copy = texts.index(rows[place]["positive"])
        rows[place]["positive"], rows[place]["negative"] = texts[copy % 20], near[copy % 20]
    rows[11]["negative"] = ""
    rows[30] = dict(rows[29])
    rows[31]["anchor"] = rows[29]["anchor"].upper() + "?"
    folder = tmp_path_factory.mktemp("messy")
    return check(write(folder / "messy.jsonl", rows), folder / "study"), rows


def count(found, name):
    return next((finding.count for finding in found.facts.findings if finding.name == name), 0)


def key(question):
    return question.lower().rstrip("?")


def test_facts_are_those_of_brute_force(messy):
    found, rows = messy
    positives = {(key(row["anchor"]), row["positive"]) for row in rows}
    negatives = {(key(row["anchor"]), row["negative"]) for row in rows}
    assert found.facts.rows == 120
    assert found.facts.questions == len({key(row["anchor"]) for row in rows})
    assert found.facts.passages == len({row[name] for row in rows for name in ("positive", "negative")})
    assert (found.facts.positives, found.facts.negatives) == (len(positives), len(negatives))
    assert count(found, "positive_among_negatives") == sum(row["positive"] == row["negative"] for row in rows)
    assert count(found, "positive_elsewhere") == sum(
        row["positive"] != row["negative"] and (key(row["anchor"]), row["negative"]) in positives for row in rows
    )
    assert count(found, "near_identical") == sum(
        row["positive"] != row["negative"]
        and (key(row["anchor"]), row["negative"]) not in positives
        and near_duplicates([row["positive"], row["negative"]])[1] == 0
        for row in rows
    ) >= 3  # fmt: skip
    assert (
        count(found, "doubled_rows") == 120 - len({(key(r["anchor"]), r["positive"], r["negative"]) for r in rows}) >= 1
    )
    assert count(found, "empty_texts") == 1 and count(found, "empty_questions") == 0


BLANK = (
    "",
    "  \u00a0",
)  # fmt: skip


def test_a_question_without_text_is_a_finding_with_its_line(tmp_path):
    for number, blank in enumerate(BLANK):
        rows = [{"anchor": f"q{n}", "positive": f"passage {n}", "negative": f"other {n}"} for n in range(5)]
        rows[3]["anchor"] = blank
        found = check(write(tmp_path / f"blank{number}.jsonl", rows)).facts
        (finding,) = [each for each in found.findings if each.name == "empty_questions"]
        assert (finding.count, finding.of, finding.lines) == (1, 5, (4,))


def test_findings_name_lines(messy):
    found, rows = messy
    [finding] = [each for each in found.facts.findings if each.name == "positive_among_negatives"]
    expected = [line for line, row in enumerate(rows, 1) if row["positive"] == row["negative"]]
    assert list(finding.lines) == expected[:5]


def test_false_negatives_in_the_batch_are_those_of_simulated_epochs(messy):
    """Shuffle the rows and count, for batches of 32."""
    found, rows = messy
    texts = sorted({row["positive"] for row in rows})
    same = {text: text for text in texts}
    for one, other in combinations(texts, 2):
        if near_duplicates([one, other], 0.9)[1] == 0:
            same[other] = same[one]
    owners = [key(row["anchor"]) for row in rows]
    positive = [same[row["positive"]] for row in rows]
    of_question = {owner: {positive[i] for i in range(120) if owners[i] == owner} for owner in owners}
    clash = np.array([[i != j and positive[j] in of_question[owners[i]] for j in range(120)] for i in range(120)])
    assert found.facts.doubled == int(clash.any(axis=1).sum())
    rng = np.random.default_rng(0)
    hit, pairs = [], []
    for _ in range(3000):
        batch = rng.permutation(120)[:32]
        inside = clash[np.ix_(batch, batch)]
        hit.append(inside.any(axis=1).mean())
        pairs.append(inside.sum() / 32 * 120)
    [size] = [each for each in found.facts.batches if each.size == 32]
    assert size.rows == pytest.approx(np.mean(hit), abs=4 * np.std(hit) / np.sqrt(3000))
    assert size.pairs == pytest.approx(np.mean(pairs), abs=4 * np.std(pairs) / np.sqrt(3000))
    assert [each.size for each in found.facts.batches] == [32, 64]


def test_without_doubled_texts_no_batch_has_a_false_negative():
    rows = 100
    arrays = dict.fromkeys(("score", "overlap", "shared", "similar"), np.zeros(rows, np.float32))
    numbers = np.arange(rows, dtype=np.int32)
    places = PassageOccurrences(
        row=numbers, slot=np.zeros(rows, np.int16), question=numbers, passage=numbers, positive=np.ones(rows, bool),
        empty=np.zeros(rows, bool), **arrays,
    )  # fmt: skip
    doubled, batches = in_batch_negatives(places, rows, np.arange(rows))
    assert doubled == 0 and all(batch.rows == 0 and batch.pairs == 0 for batch in batches)


def test_a_cut_text_is_seen(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {"anchor": f"q {i}", "positive": words(rng, 40)[:90], "negative": words(rng, int(rng.integers(3, 8)))}
        for i in range(30)
    ]
    found = check(write(tmp_path / "a.jsonl", rows))
    [cut] = [each for each in found.facts.findings if each.name == "cut_texts"]
    assert cut.count == 30 and "90 characters" in cut.words


# A file with known truth: what the sample proves, and what the rules do


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """1,500 n-tuples whose scores tell false from true negatives, but whose margins do not; with the truth."""
    rng = np.random.default_rng(7)
    rows, truth = [], {}
    for i in range(300):
        level = rng.normal(0, 1)
        false = rng.random(5) < 0.12
        scores = 0.5 + 0.1 * rng.normal(size=5) + 0.2 * false
        question = f"question {i} {words(rng, 4)}"
        negatives = [words(rng, 12) for _ in range(5)]
        truth |= {(question, text): bool(one) for text, one in zip(negatives, false, strict=True)}
        # The positive's score follows the negatives', so a margin says nothing.
        positive = float(scores.max() + abs(level))
        row = {"anchor": question, "positive": words(rng, 12)}
        row |= {f"negative_{n}": text for n, text in enumerate(negatives, 1)}
        rows.append({**row, "scores": [positive, *map(float, scores)]})
    folder = tmp_path_factory.mktemp("scored")
    found = check(write(folder / "scored.jsonl", rows), folder / "study")
    texts = {question.id: question.text for question in found.study.questions.all()}
    passages = {passage.id: passage.text for passage in found.study.corpus.scan()}
    false = {
        (f"q{q + 1}", f"p{p + 1}"): truth[texts[f"q{q + 1}"], passages[f"p{p + 1}"]]
        for pairs in [negative_pairs(found.checked_study.occurrences)]
        for q, p in zip(pairs.question.tolist(), pairs.passage.tolist(), strict=True)
    }
    return found, false


def labels_of(found, false, pairs=300):
    made_of = draw_sample(found.checked_study, pairs)
    drawn = unjudged_pairs(made_of, negative_pairs(found.checked_study.occurrences), {})
    return {pair: "positive" if false[pair] else "negative" for pair in drawn}


def test_the_rate_of_a_sample_covers_the_truth_and_stops_at_the_first_gap(scored):
    found, false = scored
    labels = labels_of(found, false)
    truth = np.mean(list(false.values()))
    rate = estimate_rate(found.checked_study, labels)
    assert rate.judged == 300 and rate.pairs == 1500
    assert rate.low <= truth <= rate.high and rate.half_width < 0.06
    assert rate.false == sum(label == "positive" for label in labels.values())
    gap = list(labels)[40]
    with_gap = {pair: label for pair, label in labels.items() if pair != gap}
    assert estimate_rate(found.checked_study, with_gap).judged == 40
    assert judged_draws(found.checked_study, with_gap).later == 259, "they count once the gap is judged"
    assert estimate_rate(found.checked_study, {}).low is None


def test_pairs_that_nobody_settles_widen_the_interval(scored):
    found, false = scored
    labels = labels_of(found, false)
    settled = estimate_rate(found.checked_study, labels)
    unsure = {pair: "open" if place % 10 == 0 else label for place, (pair, label) in enumerate(labels.items())}
    rate = estimate_rate(found.checked_study, unsure)
    assert rate.unsettled == 30
    assert rate.half_width > settled.half_width and rate.high >= settled.high - 0.02


def test_the_forecast_of_the_interval_holds_what_comes(scored):
    """After 60, 100 and 150 of 300 labels; what is forecast for 50 more is what 50 more labels leave."""
    found, false = scored
    every = list(labels_of(found, false).items())
    for known in (60, 100, 150):
        now = judged_draws(found.checked_study, dict(every[:known]))
        rate = estimate_rate(found.checked_study, dict(every[:known]))
        first, second = forecast_widths(now, rate)
        assert (first.labels, second.labels) == (50, 100)
        assert first.low <= first.half_width <= first.high < rate.half_width * 1.2
        assert second.half_width < first.half_width < rate.half_width
        came = estimate_rate(found.checked_study, dict(every[: known + 50])).half_width
        assert 0.9 * first.low <= came <= 1.1 * first.high
        said = forecast_words(rate, [first, second])
        assert f"is {100 * (rate.high - rate.low):.1f} points wide" in said
        assert f"100 to {200 * second.half_width:.1f}" in said


def test_the_outlook_before_the_first_label_spans_what_comes_at_a_rate_between(scored):
    found, false = scored
    labels = labels_of(found, false)
    assert 0.05 < np.mean(list(false.values())) < 0.4
    _, low, high = trace(judged_draws(found.checked_study, labels))
    widths = planned_widths(found.checked_study)
    assert [count for count, *_ in widths] == [50, 150] and widths[1][2] < widths[0][1]
    for count, least, most in widths:
        came = (high[count - 1] - low[count - 1]) / 2
        assert 0.8 * least <= came <= 1.2 * most
    assert f"about {200 * widths[0][1]:.0f} to {200 * widths[0][2]:.0f} points wide after 50, " in planned_words(widths)


def test_nothing_is_forecast_from_few_labels_or_where_all_are_judged(scored):
    found, false = scored
    every = list(labels_of(found, false).items())
    drawn = len(read_sample(found.checked_study).draws)
    for known in (0, 19, drawn):
        labels = dict(every[:known])
        rate = estimate_rate(found.checked_study, labels)
        assert forecast_widths(judged_draws(found.checked_study, labels), rate) == []
        assert forecast_words(rate, []) == ""


def test_the_draws_are_queued_in_growing_blocks_and_a_question_comes_back_with_its_other_passages(scored, tmp_path):
    """So at most the last block waits, and no draw is left out because its question was judged before."""
    assert block_ends(0, 300) == [25, 75, 175, 300] and block_ends(300, 500) == [375, 500] and block_ends(0, 9) == [9]
    found, false = scored
    labels_of(found, false)
    path = copied(found.study, tmp_path / "s").labels_path
    queue, labels = Queue(path), Labels(path)
    People(path).add("ann")
    items = {name: {item.question: item for item in queue.items(name)} for name in ("check", "check-2")}
    assert len(items["check"]) <= 25 and items["check"].keys() & items["check-2"].keys()
    served = set()
    while (lease := queue.claim("ann", 1)[0]).batch in items:
        served.add((lease.batch, lease.question))
        candidates = items[lease.batch][lease.question].candidates
        choices = tuple(Choice(each.passage, "negative") for each in candidates)
        labels.add("ann", LabelEvent(f"label-{len(served)}", "label", lease.question, choices, batch=lease.batch))
        queue.finish("ann", lease.batch, lease.question)
    assert served == {(name, question) for name, questions in items.items() for question in questions}
    counted = judged_draws(found.checked_study, dict.fromkeys(labels_by_pair(labels.consensus()), "negative"))
    assert len(counted) >= 75, "all of both blocks count"


def test_more_pairs_continue_the_sample(scored):
    found, false = scored
    labels_of(found, false)
    before = read_sample(found.checked_study)
    more = draw_sample(found.checked_study, 340)
    assert more.draws[:300].tolist() == before.draws[:300].tolist() and len(more.draws) >= 340
    assert len(np.unique(more.draws)) == len(more.draws)
    names = [batch.name for batch in Queue(found.study.labels_path).batches()]
    assert names == [f"check-{n}" if n > 1 else "check" for n in range(1, len(names) + 1)] and len(names) > 3
    assert draw_sample(found.checked_study, 100).draws.tolist() == more.draws.tolist()


RULES = (
    ("judge=0.037", "its chance of being false is at most 3.7% by a model of the labels"),
    ("max_score=0.7", "its score is at most 0.7"),
    ("relative_margin=0.08", "its score is at least 8% below the positive's"),
    ("relative_margin=-3.1", "its score is at most 310% above the positive's"),
    ("absolute_margin=0.25", "its score is at least 0.25 below the positive's"),
    ("absolute_margin=0", "its score is not above the positive's"),
    ("range_min=1", "it is not the first"),
    ("range_min=3", "it comes after the first 3"),
)  # fmt: skip


def test_a_rule_says_in_words_what_it_keeps():
    for argument, condition in RULES:
        assert parse_rule(argument).condition == condition
        assert parse_rule(argument).as_text() == argument


def test_a_margin_that_tells_nothing_is_not_chosen(scored):
    found, false = scored
    labels = labels_of(found, false)
    judged = judged_draws(found.checked_study, labels)
    curve = compare_rules(found.checked_study, judged)
    auc = {each.name: each for each in curve.qualities}
    assert auc["max_score"].low > 0.5 and auc["max_score"].auc > 0.8
    chosen = curve.rows[curve.chosen]
    assert chosen.rule.name in ("max_score", "judge")
    assert chosen.rule.argument is None or chosen.rule.argument.startswith("mine_hard_negatives(..., max_score=")
    truth = np.array(list(false.values()))
    assert curve.rows[curve.to_paste].rule.name == "max_score"
    plain = curve.as_json()
    assert plain["paste"] == curve.rows[curve.to_paste].rule.argument
    assert parse_rule(plain["chosen"]) == chosen.rule
    for row in plain["rows"]:
        if row["rule"] == "max_score":
            assert row["paste"] == f"mine_hard_negatives(..., max_score={row['value']:g})"
    assert plain["chosen_keeps_if"] == chosen.rule.condition in rule_words(curve)
    assert {(row["keeps_if"], row["argument"]) for row in plain["rows"]} == {
        (row.rule.condition, f"--rule {row.rule.as_text()}") for row in curve.rows
    }
    inside = []
    for row in curve.rows:
        if row.rule.name != "judge":
            keeps = pairs_kept_by(row.rule, judged.pairs, judged)
            assert row.kept == keeps.sum()
            inside.append(row.low <= truth[keeps].mean() <= row.high)
            inside.append(row.dropped_low <= truth[~keeps].mean() <= row.dropped_high)
        of_kept, of_dropped = row.kept * np.nan_to_num(row.false_share), row.dropped * np.nan_to_num(row.dropped_false)
        assert row.false_dropped == pytest.approx(of_dropped / (of_kept + of_dropped)), "the row's figures agree"
        true = row.kept + row.dropped - of_kept - of_dropped
        assert row.true_kept == pytest.approx((row.kept - of_kept) / true)
    dropped = truth[~pairs_kept_by(chosen.rule, judged.pairs, judged)].mean()
    assert 0 < curve.bounds(curve.best).drops_at_least <= min(dropped, chosen.dropped_low)
    assert plain["drops_at_least"] == curve.bounds(curve.best).drops_at_least
    assert curve.is_established(curve.best) and plain["established"]
    assert "The labels show" in bounds_words(curve)
    assert np.mean(inside) >= 0.9
    assert truth[pairs_kept_by(chosen.rule, judged.pairs, judged)].mean() <= curve.bounds(curve.best).most


def test_no_rule_is_established_by_labels_without_a_relation_to_the_passages(scored):
    found, false = scored
    labels = labels_of(found, false)
    for seed in range(5):
        mixed = np.random.default_rng(seed).permutation(list(labels.values())).tolist()
        judged = judged_draws(found.checked_study, dict(zip(labels, mixed, strict=True)))
        curve = compare_rules(found.checked_study, judged)
        assert curve.rows and not any(curve.is_established(row) for row in curve.rows)
        if curve.best is not None:
            assert "do not show yet" in bounds_words(curve)


def test_no_margin_below_0_is_offered(scored):
    found, false = scored
    judged = judged_draws(found.checked_study, labels_of(found, false))
    pairs = replace(judged.pairs, positive_score=judged.pairs.positive_score - 0.3)  # many negatives score higher
    assert (pairs.positive_score < pairs.score).mean() > 0.1
    rules = [row.rule for row in compare_rules(found.checked_study, replace(judged, pairs=pairs)).rows]
    assert all(rule.value >= 0 for rule in rules if rule.name.endswith("margin"))
    assert {rule.name for rule in rules} >= {"relative_margin", "absolute_margin"}
    conditions = [rule.condition for rule in rules]
    assert len(set(conditions)) == len(conditions), "no rule stands twice under two names"


def test_a_share_that_rounds_to_nothing_is_not_called_0():
    assert FileFinding("empty_texts", "", 1, 12_455, "place").share == "less than 0.1%"
    assert FileFinding("empty_texts", "", 1, 40, "place").share == "2.5%"


def test_a_rule_that_is_the_wrong_way_round_is_not_called_chance(scored):
    """The same file with every score negated: a true negative has the higher score."""
    found, false = scored
    judged = judged_draws(found.checked_study, labels_of(found, false))
    pairs = replace(judged.pairs, score=-judged.pairs.score)
    curve = compare_rules(found.checked_study, replace(judged, pairs=pairs))
    upper = next(each for each in curve.qualities if each.name == "max_score")
    assert upper.high < 0.5
    wrong_way, chance = curve.why.split("drops the true ones first: ")[1].split("no better than chance: ")
    assert "max_score (AUC" in wrong_way and "range_min (AUC" in chance
    assert curve.chosen is None or curve.rows[curve.chosen].rule.name != "max_score"


def test_rules_are_read_as_trainers_write_them(scored):
    found, _ = scored
    pairs = negative_pairs(found.checked_study.occurrences)
    assert (pairs_kept_by(parse_rule("max_score=0.6"), pairs, None) == (pairs.score <= 0.6)).all()
    margin = pairs_kept_by(parse_rule("relative_margin=0.1"), pairs, None)
    assert (margin == (pairs.score <= pairs.positive_score - 0.1 * np.abs(pairs.positive_score))).mean() > 0.999
    assert (pairs_kept_by(parse_rule("range_min=2"), pairs, None) == (pairs.rank > 2)).all()
    with pytest.raises(BadInput, match="no rule"):
        parse_rule("margin")
    with pytest.raises(BadInput, match="needs labels"):
        pairs_kept_by(parse_rule("judge=0.3"), pairs, None)


def test_a_rule_that_empties_questions_pays_for_it(tmp_path):
    """Nine of ten pairs belong to questions with nine negatives, most of which score low. Three of ten questions have one
    true negative each, with a score near those of the false ones: max_score=0.7 separates best and empties them all.
    """
    rng = np.random.default_rng(0)
    question = np.concatenate([np.repeat(np.arange(700), 9), np.arange(700, 1000)])
    count = len(question)
    false = (rng.random(count) < 0.1) & (question < 700)
    score = np.where(false, rng.uniform(0.7, 1, count), rng.uniform(0, 0.5, count))
    score[question >= 700] = rng.uniform(0.7, 0.75, 300)
    pairs = NegativePairs(
        question.astype(np.int64) << 32 | np.arange(count), np.arange(count), question, np.arange(count), np.ones(count, np.int16),
        score.astype(np.float32), np.full(count, np.nan, np.float32), np.zeros((count, 3), np.float32),
    )  # fmt: skip
    order = rng.permutation(count)[:600]
    plan = SamplePlan(Cells(np.array([count]), np.array([0.1]), np.ones(1)), order, np.zeros(600, np.int64), 0, [], [])
    np.save(tmp_path / "cells.npy", np.zeros(count, np.int16))
    curve = compare_rules(SimpleNamespace(folder=tmp_path), JudgedDraws(pairs, plan, false[order], np.zeros(600, bool)))
    row = curve.rows[curve.chosen]
    greedy = max(curve.rows, key=lambda each: each.false_dropped + each.true_kept)
    assert greedy.questions_emptied >= 250 and row.questions_emptied <= 100
    assert row.gain == max(each.gain for each in curve.rows) and row.false_dropped > 0.5


def test_few_labels_compare_nothing(scored):
    found, false = scored
    labels = dict(list(labels_of(found, false).items())[:8])
    curve = compare_rules(found.checked_study, judged_draws(found.checked_study, labels))
    assert curve.chosen is None and curve.rows == [] and "judge until" in curve.why


def test_a_rule_drops_and_keeps_the_rest(scored, tmp_path):
    found, _ = scored
    rows, [out, changes, card] = found.write(tmp_path / "out.jsonl", rule="max_score=0.7")
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(written) == rows
    assert all(max(row["scores"][1:]) <= 0.7 for row in written)
    reasons = {json.loads(line)["reason"] for line in changes.read_text().splitlines()}
    assert reasons == {"max_score=0.7 keeps a negative only if its score is at most 0.7; no label says otherwise"}
    assert "Not checked" in card.read_text()


def test_labels_overrule_a_rule_and_the_outcome_counts_what_is_left(scored, tmp_path):
    """No negative that people judged true goes, and the share of false ones left is near the truth."""
    found, false = scored
    labels = labels_of(found, false)
    rule = parse_rule("max_score=0.7")
    curve = compare_rules(found.checked_study, judged_draws(found.checked_study, labels))
    row = min(curve.rows, key=lambda each: abs(each.rule.value - rule.value) if each.rule.name == "max_score" else 9)
    changes = plan_changes(found.file, found.checked_study, labels, rule=row.rule)
    gone = {(each.question, each.passage) for each in changes.changes}
    judged_true = {pair for pair, label in labels.items() if label == "negative"}
    judged_false = labels.keys() - judged_true
    assert row.dropped and judged_true and not gone & judged_true and judged_false <= gone
    result = outcome(found.checked_study, labels, row.rule, (row.false_share, row.low, row.high))
    left = false.keys() - gone
    assert (result.judged_false, result.left) == (len(judged_false), len(left))
    assert result.by_rule == len(gone) - len(judged_false)
    strict = max(curve.rows, key=lambda each: each.questions_emptied)
    for each in (row, strict):
        made = plan_changes(found.file, found.checked_study, labels, rule=each.rule)
        dropped = {(one.question, one.passage) for one in made.changes}
        emptied = {question for question, _ in false} - {question for question, _ in false.keys() - dropped}
        made = outcome(found.checked_study, labels, each.rule, (each.false_share, each.low, each.high))
        assert made.questions_emptied == len(emptied)
    assert emptied, "the strictest row empties some"
    assert len(set(result.examples)) == 5 and set(result.examples) <= gone - judged_false
    truth = np.mean([false[pair] for pair in left])
    assert result.low <= truth <= result.high and result.low <= result.false_share <= result.high
    unruled = estimate_rate(found.checked_study, labels).of_drawable
    rest = outcome(found.checked_study, labels, None, unruled)
    assert rest.examples == ()
    assert (rest.by_rule, rest.left) == (0, len(false) - len(judged_false)) and rest.low < rest.false_share < rest.high


# The command, and the study underneath


def run(*arguments):
    from typer.testing import CliRunner

    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_command_prints_facts_and_json(tmp_path):
    path = made.flag_embedding(tmp_path / "train.jsonl")
    shown = run("check", path)
    assert shown.exit_code == 0, shown.output
    assert "FlagEmbedding, JSON lines" in shown.output and "48 negative pairs" in shown.output
    assert "blindspot open --study" in shown.output
    plain = json.loads(run("check", path, "--json").stdout)
    assert plain["facts"]["rows"] == 24 and plain["rate"]["drawn"] == 48 and plain["rules"]["chosen"] is None
    study = Study.open(tmp_path / "train.jsonl.check")
    assert is_check(study) and open_check(study).facts.rows == 24
    assert len(study.questions) == 24 and study.runs() == ["file"]


def test_a_check_of_a_file_named_from_its_folder_opens_from_any_folder(tmp_path, monkeypatch):
    made.flag_embedding(tmp_path / "train.jsonl")
    monkeypatch.chdir(tmp_path)
    assert run("check", "train.jsonl").exit_code == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert open_check(Study.open(tmp_path / "train.jsonl.check")).facts.rows == 24


def test_the_command_writes_and_refuses_to_write_over_the_file(tmp_path):
    path = made.tevatron(tmp_path / "train.jsonl")
    assert run("check", path, "--out", tmp_path / "clean.jsonl").exit_code == 0
    assert (tmp_path / "clean.jsonl").read_bytes() == path.read_bytes()
    with pytest.raises(Refused, match="choose another place"):
        check(path).write(path)


def test_vectors_of_an_encoder_make_pairs_suspicious(tmp_path):
    """The similarity is that of the encoder itself; what is drawn most often is most similar, other things being equal."""
    path = made.flag_embedding(tmp_path / "train.jsonl")
    assert run("check", path, "--vectors", "minilm", "--pairs", 10).exit_code == 0
    study = Study.open(tmp_path / "train.jsonl.check")
    checked = open_check(study).checked_study
    pairs, found = negative_pairs(checked.occurrences), pair_similarity(checked, "minilm")
    encoder = load_encoder(study.settings.encoders["minilm"])
    for place in (0, 17, 47):
        question = encoder.encode_questions([study.questions.get(f"q{pairs.question[place] + 1}").text])[0]
        passage = encoder.encode_passages(study.corpus.passages([int(pairs.passage[place])]))[0]
        cosine = question @ passage / np.linalg.norm(question) / np.linalg.norm(passage)
        assert found[place] == pytest.approx(float(cosine), abs=1e-4)
    assert read_sample(checked).suspicion[-1] == "vectors"
    assert "no encoder 'none'" in str(run("check", made.tevatron(tmp_path / "t.jsonl"), "--vectors", "none").exception)


def test_dev_questions_that_leak_are_found(tmp_path):
    path = made.tevatron(tmp_path / "train.jsonl")
    (tmp_path / "dev.jsonl").write_text(json.dumps({"query": made.pairs()[3][0].lower()}) + "\n")
    shown = run("check", path, "--dev", tmp_path / "dev.jsonl")
    assert "1 of 24 questions" in shown.output and "dev or test" in shown.output


def test_a_judge_judges_the_sample(tmp_path):
    """A ready cross-encoder; its labels are of a machine, and people's stay their own."""
    import torch
    import transformers

    from tests.studies import tiny_bert

    path = made.tevatron(tmp_path / "train.jsonl")
    model = tmp_path / "tiny-judge"
    tiny_bert(model)
    torch.manual_seed(1)
    config = transformers.BertConfig.from_pretrained(model, num_labels=1)
    transformers.BertForSequenceClassification(config).save_pretrained(model)
    shown = run("check", path, "--judge", model)
    assert shown.exit_code == 0, shown.output + str(shown.exception)
    assert "Judged by the judge tiny-judge: 48 pairs" in shown.output
    assert "none is judged yet" in run("check", path).output

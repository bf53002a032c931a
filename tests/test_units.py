"""The unit of observation: which questions are one, what the setting says, and what every n says of it."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import count_with_units, generalisation, n_cell, set_unit, units_by_id, units_of
from blindspot.backend.evaluation.comparison import Comparison, figures_at, measure
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.report import report
from blindspot.db.errors import BadInput
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

KNOWN = [
    Question("a", "Where was Ada born?", relation="P19", subject="Ada Lind", template="Where was [X] born?"),
    Question("b", "Birthplace of Ada?", relation="P19", subject=" ada  LIND", template="Birthplace of [X]?"),
    Question("c", "Where did Ada die?", relation="P20", subject="Ada Lind", template="Where did [X] die?"),
    Question("d", "Where was Ben born?", relation="P19", subject="Ben Oak", template="Where was [X] born?"),
]
UNKNOWN = [
    Question("e", "who wrote Emma", gold=("p1",)),
    Question("f", "Who  wrote EMMA", gold=("p2",)),
    Question("g", "author of Emma", gold=("p2",)),
    Question("h", "author of Persuasion", gold=("p2", "p3")),
    Question("i", "author of Evelina"),
    Question("j", "author of Cecilia", relation="P50"),
]


def together(questions, unit):
    """Return which questions are one observation, as sets of ids."""
    codes = units_of(questions, unit).codes
    return {frozenset(q.id for q, code in zip(questions, codes, strict=True) if code == each) for each in codes}


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("fact", ["ab", "c", "d", "efg", "h", "i", "j"]),  # by text, then by the very same gold
        ("question", list("abcdefghij")),
        ("subject", ["abc", "d", "efg", "h", "i", "j"]),
        ("template", ["ad", "b", "c", "efg", "h", "i", "j"]),
        ("relation", ["abd", "c", "efg", "h", "i", "j"]),
    ],
)
def test_which_questions_are_one_observation(unit, expected):
    assert together(KNOWN + UNKNOWN, unit) == set(map(frozenset, expected))
    assert units_of([], unit).count == 0


def test_a_table_has_the_units_of_its_records(tmp_path):
    study = make_study(tmp_path / "s", [Passage("p1", "t", "x")], KNOWN + UNKNOWN)
    ids = [q.id for q in (KNOWN + UNKNOWN)[::-1]]
    for unit in ("fact", "question", "subject", "template", "relation"):
        table, records = study.questions.table(ids), study.questions.with_ids(ids)
        same = [codes[:, None] == codes for codes in (units_of(each, unit).codes for each in (table, records))]
        assert np.array_equal(*same), unit
    assert units_by_id(study, ["a", "d", "b", "a"]).tolist() == [0, 1, 0, 0]


def test_every_n_is_written_by_one_function():
    assert count_with_units(452, 226, "fact") == "452 questions about 226 facts"
    assert (
        count_with_units(452, 24, "relation") == "452 questions of 24 relations"
        and count_with_units(9, 3) == "9 questions of 3 units"
    )
    assert (
        count_with_units(226, 226, "fact") == count_with_units(226, None) == "226 questions"
        and count_with_units(1, 1, "fact") == "1 question"
    )
    assert n_cell(1452, 226, "subject") == "1,452 (226 subjects)" and n_cell(1452, None, "fact") == "1,452"
    assert "other facts of these relations" in generalisation("fact") and "unit 'relation'" in generalisation("fact")
    assert generalisation("relation").endswith("to relations like these.")


@pytest.fixture
def twice(tmp_path):
    """60 facts of three relations, each asked in two wordings that come out alike; run a finds 12 more than run b."""
    questions = [
        Question(
            f"{n}-{wording}",
            f"wording {wording} of {n}",
            relation=f"P{n % 3}",
            subject=f"s{n}",
            gold=("p0",),
            split="dev",
        )
        for n in range(60)
        for wording in "xy"
    ]
    study = make_study(tmp_path / "s", [Passage(f"p{n}", "t", f"text {n}") for n in range(3)], questions)
    for name, found in (("a", 40), ("b", 28)):
        rows = np.array([[0, 1] if n < found else [1, 2] for n in range(60) for _ in "xy"], np.int32)
        scores = np.tile(np.array([2, 1], np.float32), (120, 1))
        write_run(study, name, [q.id for q in questions], Hits(rows, scores), {"retriever": name, "kind": "bm25"})
    return study


def test_a_comparison_counts_by_the_studys_unit(twice):
    def compared():
        return figures_at(Comparison.of_runs(*(measure(twice, name, "gold") for name in "ab")), 1)

    by_fact = compared()
    assert (by_fact.n, by_fact.units, by_fact.questions) == (120, 60, "120 questions about 60 facts")
    set_unit(twice, "question")
    by_question = compared()
    assert by_question.units == 120 and by_question.difference.p < by_fact.difference.p
    width = {name: each.difference.estimate.high - each.difference.estimate.low for name, each in
             (("fact", by_fact), ("question", by_question))}  # fmt: skip
    assert width["fact"] == pytest.approx(width["question"] * 2**0.5, rel=0.1)
    set_unit(twice, "relation")
    assert compared().units == 3 and compared().difference.p > 0.2


def test_reports_say_both_numbers(twice):
    made = compare_with(twice, "a", "b", ComparisonOptions(k=1, by="relation", relevance="gold"))
    assert "Over these 120 questions about 60 facts a finds" in made.conclusion
    assert "other facts of these relations" in made.method
    assert made.tables()[0].rows[0][1] == "120 (60 facts)" and made.as_dict()["at"]["1"]["units"] == 60
    assert "40 (20 facts)" in {row[1] for row in made.tables()[1].rows}
    whole = report(twice, ["a"], "relation", "gold", ks=(1,))
    assert whole.as_dict()["runs"]["a"]["units"] == 60 and "counts by the fact" in whole.convention
    assert ",units," in whole.as_csv().splitlines()[0] and ",120,60," in whole.as_csv()


def test_the_setting_is_declared_once(twice):
    command = CliRunner()
    shown = command.invoke(app, ["settings", "--study", str(twice.folder)])
    assert "Unit of observation: fact" in shown.output
    changed = command.invoke(app, ["settings", "--unit", "subject", "--study", str(twice.folder)])
    assert "Unit of observation: subject" in changed.output and Study.open(twice.folder).settings.unit == "subject"
    text = twice.settings_path.read_text()
    assert 'unit = "subject"' in text and "# " in text  # comments stay
    with pytest.raises(BadInput, match="unit"):
        set_unit(twice, "passage")
    twice.settings_path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("unit")))
    assert Study.open(twice.folder).settings.unit == "fact"  # of a study of an older version

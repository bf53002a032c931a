"""Question sets made from triples: the facts they keep, answers and counts by hand, bad rows in one line."""

import json

import pytest

from blindspot.app.cli import app
from blindspot.backend.data.formats.entityquestions import TEMPLATES
from blindspot.backend.data.importing.triples import (
    Fact,
    QuestionSampling,
    import_triples,
    questions_from_facts,
)
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Passage
from tests.studies import make_study

MIN_FACTS, MIN_ANSWERS = QuestionSampling().least, QuestionSampling().least_answers

PASSAGES = [
    Passage("1", "Ann Lee", "Ann Lee was born in Oslo and wrote books."),
    Passage("2", "Oslo", "Oslo is a town; the painter Ann Lee was born there, and Ben Ray went to Molde."),
    Passage("3", "Ben Ray", "He was born in Molde in 1900."),
    Passage("4", "Cid", "Cid sold fish in Bodo."),
    Passage("5", "Books", "Ann Lee wrote Tides and The Boat. Cidade is no name of a fisher."),
]
TRIPLES = """\
subject\trelation\tobject\tfrequency
Ann Lee\tP19\tOslo\t
Ann Lee\tP800\tTides\t7
Ben Ray\tP19\tMolde\t3
Ann Lee\tP800\tThe Boat\t9
Cid\tP19\tNarvik\t
Ann Lee\tP800\tTides\t
Cid\tP999\tfish\t
"""


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "s", PASSAGES)


def file_of(tmp_path, text=TRIPLES, name="facts.tsv"):
    (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path / name


def test_answers_gold_and_frequency_by_hand(study, tmp_path):
    """No passage states Cid's birth in Narvik; Ben's article mentions Molde, with his name only in the title; P999 has
    no question.
    """
    made = import_triples(study, file_of(tmp_path), split="test", least=1, least_answers=1)
    asked = {question.text: question for question in study.questions.all()}
    assert made.rows == len(asked) == 3
    works = asked["What is [X] famous for?".replace("[X]", "Ann Lee")]
    assert (works.answers, works.gold, works.frequency, works.relation, works.subject) == (
        ("Tides", "The Boat"),
        ("5",),
        9,
        "P800",
        "Ann Lee",
    )
    born = asked["Where was Ann Lee born?"]
    assert (born.answers, born.gold, born.frequency) == (("Oslo",), ("1", "2"), 3)  # passages 1, 2 and 5 mention her
    assert (asked["Where was Ben Ray born?"].gold, asked["Where was Ben Ray born?"].frequency) == (
        ("3", "2"),
        3,
    )  # own article first
    assert {question.split for question in asked.values()} == {"test"} and {
        question.dataset for question in asked.values()
    } == {"facts"}
    assert made.notes == (
        "P19: 3 facts, 2 covered by a passage, 2 different answers; questions: 2 test",
        "P800: 1 fact, 1 covered by a passage, 2 different answers; questions: 1 test",
        "without a question in the templates: P999 (1 triple)",
    )


def test_json_lines_hold_lists_of_objects(study, tmp_path):
    rows = [{"subject": "Ann Lee", "relation": "wrote", "object": ["Tides", "The Boat"], "frequency": 4}]
    templates = file_of(tmp_path, json.dumps({"wrote": "What did [X] write?"}), "templates.json")
    import_triples(
        study,
        file_of(tmp_path, "\n".join(map(json.dumps, rows)), "books.jsonl"),
        "books",
        templates,
        split="dev",
        least=1,
        least_answers=1,
        gold=False,
    )
    (question,) = study.questions.all()
    assert (question.id, question.text, question.answers, question.gold) == (
        "books.wrote.dev.0",
        "What did Ann Lee write?",
        ("Tides", "The Boat"),
        (),
    )
    assert (question.frequency, question.split, question.template) == (4, "dev", "What did [X] write?")


def facts(count, relation="P19", answers=50):
    return [
        Fact(f"Person {number}", relation, {f"Town {number % answers}": None}, 1, [str(number)])
        for number in range(count)
    ]


def counts(questions):
    return {split: sum(question.split == split for question in questions) for split in ("train", "dev", "test")}


def test_splits_are_the_papers():
    """80, 10 and 10%, of 12,000 facts at most 8,000, 1,000 and 1,000; nobody is asked about twice."""
    few, _ = questions_from_facts(facts(2500), TEMPLATES, "s")
    assert counts(few) == {"train": 2000, "dev": 250, "test": 250}
    many, notes = questions_from_facts(facts(12_000), TEMPLATES, "s")
    assert counts(many) == {"train": 8000, "dev": 1000, "test": 1000}
    assert len({question.subject for question in many}) == len({question.id for question in many}) == 10_000
    assert notes == [
        "P19: 12,000 facts, 12,000 covered by a passage, 50 different answers; questions: 8,000 train, 1,000 dev, 1,000 test"
    ]


def test_a_smaller_draw_is_part_of_a_larger_and_the_seed_decides():
    def drawn(most, seed=0):
        return {
            question.subject
            for question in questions_from_facts(
                facts(3000), TEMPLATES, "s", QuestionSampling(split="test", most=most, seed=seed)
            )[0]
        }

    assert len(drawn(100)) == 100 and drawn(100) < drawn(1000) and drawn(100) == drawn(100)
    assert drawn(100) != drawn(100, seed=1)


def test_relations_are_left_out_and_named():
    """A relation with too few facts, one with too few answers; a fact without a passage does not count."""
    untold = [Fact(f"Nobody {number}", "P20", {f"Town {number}": None}, 1) for number in range(100)]
    made = [
        *facts(MIN_FACTS),
        *facts(MIN_FACTS - 1, "P20"),
        *untold,
        *facts(MIN_FACTS, "P106", MIN_ANSWERS - 1),
    ]
    questions, notes = questions_from_facts(made, TEMPLATES, "s")
    assert {question.relation for question in questions} == {"P19"}
    assert (
        notes[1]
        == "P20: 2,099 facts, 1,999 covered by a passage, 50 different answers; left out, fewer than 2,000 facts"
    )
    assert notes[2].endswith("19 different answers; left out, fewer than 20 answers")


@pytest.mark.parametrize(("text", "says"), [
    ("", "the file is empty"), ("subject\tobject\na\tb\n", "facts.tsv:1: the header names no column 'relation'"),
    ("subject\trelation\tobject\na\tP19\n", "facts.tsv:2: 2 fields; the header names 3"),
    ("subject\trelation\tobject\tfrequency\na\tP19\tOslo\tmany\n", "facts.tsv:2: the frequency is 'many'"),
    ("subject\trelation\tobject\n\tP19\tOslo\n", "facts.tsv:2: the subject is empty"),
    ('{"subject": "a", "relation": "P19"}\n', "facts.tsv:1: there is no 'object'"),
    ('{"subject": "a", "relation": "P19", "object": 3}\n', "facts.tsv:1: 'object' is a number"),
    ("subject\trelation\tobject\nCid\tP999\tfish\n", "no triple's relation has a question; relations: P999"),
    (TRIPLES, "no relation is left: P19: 3 facts, 2 covered"),
])  # fmt: skip
def test_bad_files_are_one_line(study, tmp_path, text, says):
    with pytest.raises(BadInput) as caught:
        import_triples(study, file_of(tmp_path, text))
    assert says in str(caught.value) and "\n" not in str(caught.value)
    assert study.questions.all() == []


def test_bad_rows_can_be_left_out(study, tmp_path):
    made = import_triples(
        study, file_of(tmp_path, TRIPLES + "Ben Ray\tP19\n"), split="dev", least=1, least_answers=1, skip_bad=True
    )
    assert (made.rows, made.left_out) == (3, 1)
    assert made.left_out_file.read_text().endswith(
        "facts.tsv:9\t3 fields; the header names 4\n".replace("3 fields", "2 fields")
    )


@pytest.mark.parametrize("templates", ['{"P19": "Where?"}', '["P19"]', '{"P19": 3}', "{"])
def test_bad_templates_are_one_line(study, tmp_path, templates):
    with pytest.raises(BadInput) as caught:
        import_triples(study, file_of(tmp_path), templates=file_of(tmp_path, templates, "templates.json"))
    assert "templates.json" in str(caught.value) and "\n" not in str(caught.value)


def test_what_makes_no_sense_is_refused(study, tmp_path):
    for wrong, said in (({"least": 0}, BadInput), ({"split": "unlabelled"}, BadInput), ({"dataset": "a b"}, Refused)):
        with pytest.raises(said):
            import_triples(study, file_of(tmp_path), **wrong)
    import_triples(study, file_of(tmp_path), split="test", least=1, least_answers=1)
    with pytest.raises(Refused, match="in the study already"):
        import_triples(study, file_of(tmp_path), split="test", least=1, least_answers=1)
    from blindspot.backend.core.study import Study

    with pytest.raises(Missing, match="no passages"):
        import_triples(Study.create(tmp_path / "empty"), file_of(tmp_path))


def test_the_command(study, tmp_path):
    from typer.testing import CliRunner

    done = CliRunner().invoke(
        app,
        [
            "import",
            "triples",
            str(file_of(tmp_path)),
            "--study",
            str(study.folder),
            "--dataset",
            "mine",
            "--split",
            "dev",
            "--least",
            "1",
            "--least-answers",
            "1",
        ],
    )
    assert done.exit_code == 0, done.output
    assert "Imported 3 questions" in done.output and "P19: 3 facts, 2 covered by a passage" in done.output
    assert len(study.questions.all(dataset="mine")) == 3

"""Tables of results in every form. In a terminal every number stays whole at every width, and nothing is left out."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.core.result_table import (
    Column,
    FittingTable,
    ResultTable,
    difference_cell,
    signed_ends,
    signed_number,
    stated_interval,
)

TABLE = ResultTable(
    "A: bm25-dev, B: minilm-dev. Success@k, %",
    ["", "n", "A", "B", "A - B", "p (Holm)", "both", "only A", "only B", "neither"],
    [
        ["macro @100", "1,348", "97.8", "78.0", "+19.8 [+17.3,+22.3]", "<0.001", "1,029", "285", "11", "23"],
        ["100+ mentions", "70", "58.6", "68.6", "-10.0 [-21.5,+1.5]", "0.283", "36", "5", "12", "17"],
    ],
)


def shown(table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(table.as_rich())
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [30, 40, 60, 80, 100, 200])
def test_no_number_and_no_interval_is_broken(width):
    lines = shown(TABLE, width)
    words = [word for line in lines for word in line.split()]
    for row in TABLE.rows:
        for cell in row[1:]:
            assert all(part in words for part in cell.split(" ")), cell
    assert all(len(line) <= width for line in lines)


def test_it_fits_80_columns_in_one_part():
    lines = shown(TABLE, 80)
    assert sum("neither" in line for line in lines) == 1 and sum(line.startswith("───") for line in lines) == 1


def test_columns_that_do_not_fit_follow_below_with_the_names():
    lines = shown(TABLE, 60)
    assert sum(line.startswith("macro @100") for line in lines) == 2, "the first column stands in both parts"


cells = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=9)


@settings(deadline=None)
@given(st.lists(st.lists(cells, min_size=4, max_size=4), min_size=1, max_size=5), st.integers(25, 120))
def test_every_column_stands_in_one_part(rows, width):
    table = FittingTable(ResultTable("caption", ["name", "a", "b", "c"], rows))
    first, parts = table.columns_of_parts(width)
    assert [column for part in parts for column in part] == [1, 2, 3] and first >= 1
    assert all(part for part in parts)


def test_brackets_are_no_markup():
    assert any("[red]x" in line for line in shown(ResultTable("t", ["", "n"], [["[red]x", "1"]]), 80))


FIGURES = ResultTable(
    "Success@5 <of> runs",
    ["run", "n", Column("success", "%", "interval"), Column("A - B", format="difference"), Column("p", format="p")],
    [
        [
            "a|b",
            1348,
            Estimate(0.5, 1348, 0.471, 0.529, "Wilson"),
            Estimate(-0.02, 1348, -0.051, 0.011, "paired"),
            0.0004,
        ],
        ["<c>", 0, None, Estimate(None, 0, None, None, "paired"), None],
    ],
    ["95% intervals."],
)


def test_the_format_of_a_column_writes_its_values():
    assert FIGURES.headings == ["run", "n", "success, %", "A - B", "p"] and FIGURES.text_columns()[:2] == [True, False]
    assert FIGURES.texts() == [
        ["a|b", "1,348", "50.0 [47.1–52.9]", "-2.0 [-5.1,+1.1]", "<0.001"],
        ["<c>", "0", "–", "–", "–"],
    ]


def test_each_form_holds_the_same_values():
    import pandas as pd

    markdown = FIGURES.as_markdown().splitlines()
    assert markdown[2:4] == ["| run | n | success, % | A - B | p |", "| --- | ---: | ---: | ---: | ---: |"]
    assert markdown[4].startswith("| a\\|b | 1,348 |") and markdown[-1] == "95% intervals."
    html = FIGURES.as_html()
    assert "<caption>Success@5 &lt;of&gt; runs</caption>" in html and "<td>&lt;c&gt;</td><td>0</td>" in html
    frame = FIGURES.as_frame()
    assert frame["success low"].tolist()[0] == 0.471 and frame.attrs["notes"] == ["95% intervals."]
    read = pd.read_csv(io.StringIO(FIGURES.as_csv()))
    assert (
        read.columns.tolist() == frame.columns.tolist()
        and read["A - B high"][0] == 0.011
        and read["n"].tolist() == [1348, 0]
    )
    assert (
        "$<$" not in FIGURES.as_latex()
        and "\\caption{Success@5 \\textless{}of\\textgreater{} runs}" in FIGURES.as_latex()
    )


def test_sentences_have_a_real_minus_sign_and_tables_the_hyphen_that_programs_read():
    assert stated_interval(8.6, 21.1) == "(95%: 8.6 to 21.1)"
    assert stated_interval(-1.1, 7.1, "+", level=90) == "(90%: \N{MINUS SIGN}1.1 to +7.1)"
    assert stated_interval(0.301, 0.304, places=2) == "(95%: 0.301 to 0.304)", "no interval of one figure"
    assert signed_ends(-1.1, 7.1) == "\N{MINUS SIGN}1.1 to +7.1" and signed_number(-0.26) == "\N{MINUS SIGN}0.3"
    assert signed_number(-0.01) == "+0.0", "nothing is below zero that is shown as zero"
    assert difference_cell(Estimate(0.012, 90, -0.003, 0.027, "paired")) == "+1.2 [-0.3,+2.7]"


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="2 columns and 1 cells in table 't'"):
        ResultTable("t", ["a", "b"], [["x"]])

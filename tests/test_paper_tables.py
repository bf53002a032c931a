"""Tables saved for a paper: what the files hold, and that LaTeX accepts them."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess

import pytest
from plotly.graph_objects import Figure, Scatter

from blindspot.backend.core.result_table import ResultTable, latex_escaped, latex_tables
from blindspot.backend.evaluation.comparison import measure_all
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.panel import Panel, frequency_curves, relation_table
from blindspot.backend.evaluation.panel_report import frequency_figures, frequency_rows, relation_figures, relation_rows
from blindspot.backend.evaluation.report_plots import curve_plot, dumbbell
from tests.app_pages import HOSTILE, hand_made_study

ENGINES = [name for name in ("tectonic", "pdflatex", "xelatex", "lualatex") if shutil.which(name)]


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    study = hand_made_study(tmp_path_factory.mktemp("plots") / "s")
    return Panel.of_runs(measure_all(study, ["alpha", "beta"], "answers", "dpr"))


def test_the_groups_and_relations_of_plots_have_their_names(panel):
    """Their places on the axis are numbers, because the runs of a group stand beside each other."""
    runs = list(panel.runs)
    frequency = curve_plot(frequency_curves(panel, 5), runs)
    relations = dumbbell(relation_table(panel, 5), runs, ["P19", "P50"])
    assert frequency.to_dict()["layout"]["xaxis"]["ticktext"][0].startswith("≤1<br>")
    names = relations.to_json()
    assert "P19 place of birth" in names and "P50 author" in names
    first, second = (trace.y for trace in relations.data if trace.mode == "markers" and trace.showlegend is not False)
    assert all(a < b for a, b in zip(first, second, strict=True)), "one run below the other"


def test_csv_holds_every_figure_of_the_page(panel):
    table, curves = relation_table(panel, 5), frequency_curves(panel, 5)
    lines = list(csv.DictReader(io.StringIO(relation_figures(table, list(panel.runs)).as_csv())))
    found = {(line["relation"], line["run"], line["k"]): float(line["success"]) for line in lines}
    assert found["P19", "alpha", "5"] == pytest.approx(1.0) and found["all questions", "beta", "5"] == pytest.approx(
        4 / 7
    )
    assert len(lines) == len(table.ks) * 2 * (len(table.rows) + 2)
    points = list(csv.DictReader(io.StringIO(frequency_figures(curves, list(panel.runs)).as_csv())))
    assert sum(int(line["n"]) for line in points) == 2 * 6, "two runs, six questions with a frequency"


def test_latex_has_signs_captions_labels_and_escaped_text():
    table = ResultTable("A & B_1, 50%", ["", "A - B"], [["-3.2 [-4.0–1]", "p-value 4-9"], ["[x]", "−1.5"]])
    made = latex_tables([table, table], ["as\nis % now"])
    assert made.splitlines()[:2] == ["% needs \\usepackage{booktabs}", "% as is % now"]
    assert "$-$3.2 [$-$4.0--1] & p-value 4-9 \\\\" in made and "{}[x] & $-$1.5 \\\\" in made
    assert made.count("\\label{tab:a-b-1-50}") == 1 and made.count("\\label{tab:a-b-1-50-2}") == 1
    assert "\\caption{A \\& B\\_1, 50\\%}" in made
    assert latex_escaped("a\x1b[31mb") == "a [31mb"


@pytest.mark.parametrize(
    ("cut", "known"), [("mentions", ["mentions"]), ("mass", ["group", "mentions"]), ("official", ["mentions"])]
)
def test_a_table_by_frequency_says_once_which_questions_a_row_has(panel, cut, known):
    """The label of a group of mentions is its range: no second column repeats it, and one series needs no name."""
    table = frequency_rows(frequency_curves(panel, 5, "", cut), list(panel.runs))
    assert table.headings == [*known, "n", *panel.runs], "without official buckets the groups are those of mentions"
    assert len(set(zip(*(row[: len(known)] for row in table.rows), strict=True))) == len(known), "no column twice"


def test_every_row_of_an_exported_table_has_the_columns_of_its_head(panel):
    curves, table = frequency_curves(panel, 5), relation_table(panel, 5)
    runs = list(panel.runs)
    made = [latex_tables([relation_rows(table, runs), frequency_rows(curves, runs)], [])]
    made.append(compare_with(panel.study, "alpha", "beta", ComparisonOptions(k=5, by="relation")).as_latex())
    found = [
        (spec, [line for line in body.splitlines() if line.endswith("\\\\")])
        for spec, body in re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", "".join(made), re.DOTALL)
    ]
    assert len(found) == 4
    for spec, (head, *lines) in found:
        cells = head.removesuffix(" \\\\").split(" & ")
        assert len(cells) == len(set(cells)) == len(spec), "no heading twice"
        assert lines and {len(line.split(" & ")) for line in lines} == {len(spec)}


def lacks_booktabs() -> bool:
    """Whether the engine's packages are installed and booktabs is not among them; tectonic fetches packages itself."""
    finder = shutil.which("kpsewhich")
    found = finder and subprocess.run([finder, "booktabs.sty"], capture_output=True, text=True).stdout.strip()
    return ENGINES[:1] != ["tectonic"] and not found


@pytest.mark.skipif(not ENGINES, reason="no LaTeX engine is installed (tectonic, pdflatex, xelatex or lualatex)")
@pytest.mark.skipif(bool(ENGINES) and lacks_booktabs(), reason="LaTeX lacks booktabs (texlive-latex-recommended)")
def test_a_paper_with_exported_tables_compiles(panel, tmp_path):
    table, runs = relation_table(panel, 5), list(panel.runs)
    tables = [relation_rows(table, runs), frequency_rows(frequency_curves(panel, 5), runs)]
    paper = [
        "\\documentclass{article}\\usepackage{booktabs}\\begin{document}",
        latex_tables(tables, [HOSTILE]),
        compare_with(panel.study, "alpha", "beta", ComparisonOptions(k=5, by="relation")).as_latex(),
        "\\end{document}",
    ]
    (tmp_path / "paper.tex").write_text("\n".join(paper), encoding="utf-8")
    options = [] if ENGINES[0] == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([ENGINES[0], *options, "paper.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF-")


def test_a_dark_page_has_lighter_colours_and_the_figure_itself_stays():

    from blindspot.app.components.plots import IN_DARK, _in_dark
    from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION

    chart = Figure(Scatter(x=[1, 2], y=[3, 4], line={"color": BLUE}, error_y={"array": [1, 1], "color": VERMILION}))
    (drawn,) = _in_dark(chart).data
    assert (drawn.line.color, drawn.error_y.color) == (IN_DARK[BLUE], IN_DARK[VERMILION])
    assert list(drawn.x) == [1, 2] and chart.data[0].line.color == BLUE

"""Plots and tables saved for a paper: what the files hold, and that LaTeX accepts them."""

from __future__ import annotations

import csv
import io
import re
import shutil
import struct
import subprocess
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from plotly.graph_objects import Bar, Figure, Heatmap, Pie, Scatter, Scattergl
from plotly.subplots import make_subplots

from blindspot.backend.core.result_table import ResultTable, latex_escaped, latex_tables
from blindspot.backend.evaluation.comparison import measure_all
from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with
from blindspot.backend.evaluation.panel import Panel, frequency_curves, relation_table
from blindspot.backend.evaluation.panel_report import frequency_figures, frequency_rows, relation_figures, relation_rows
from blindspot.backend.evaluation.paper_plots import COLUMN, DPI, FORMS, STYLE, paper_plot
from blindspot.backend.evaluation.report_plots import curve_plot, dumbbell
from blindspot.db.errors import BadInput
from tests.app_pages import HOSTILE, hand_made_study

ENGINES = [name for name in ("tectonic", "pdflatex", "xelatex", "lualatex") if shutil.which(name)]


@pytest.fixture(scope="module")
def panel(tmp_path_factory):
    study = hand_made_study(tmp_path_factory.mktemp("plots") / "s")
    return Panel.of_runs(measure_all(study, ["alpha", "beta"], "answers", "dpr"))


@pytest.fixture(scope="module")
def plots(panel):
    table = relation_table(panel, 5)
    return [curve_plot(frequency_curves(panel, 5), list(panel.runs)), dumbbell(table, list(panel.runs), ["P19", "P50"])]


def test_a_pdf_embeds_its_fonts_as_outlines_that_editors_can_read(plots):
    for figure in plots:
        content = paper_plot(figure, "pdf")
        assert content.startswith(b"%PDF-")
        assert b"/FontFile2" in content and b"/Type3" not in content, "TrueType, embedded"


def test_a_png_is_one_column_wide_and_on_white(plots):
    content = paper_plot(plots[0], "png")
    width, _ = struct.unpack(">II", content[16:24])
    assert width == pytest.approx(COLUMN * DPI, abs=2)
    parts = re.findall(rb"IDAT", content)
    assert parts and zlib.decompress(_idat(content))[1:4] == b"\xff\xff\xff", "the first pixel is white"


def _idat(content: bytes) -> bytes:
    at, data = 8, b""
    while at < len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        data += content[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    return data


def test_an_svg_is_the_same_at_every_save_and_refers_to_nothing_outside(plots):
    first, second = (paper_plot(plots[0], "svg") for _ in range(2))
    assert first == second and b"<script" not in first
    ElementTree.fromstring(first.decode())
    assert not re.search(rb'(href|src)="(?!#)', first)


def test_the_groups_and_relations_have_their_names(plots, monkeypatch):
    """Their places on the axis are numbers, because the runs of a group stand beside each other."""
    monkeypatch.setitem(STYLE, "svg.fonttype", "none")
    frequency, relations = (paper_plot(figure, "svg").decode() for figure in plots)
    assert "≤1" in frequency and "P19 place of birth" in relations and "P50 author" in relations
    first, second = (trace.y for trace in plots[1].data if trace.mode == "markers" and trace.showlegend is not False)
    assert all(a < b for a, b in zip(first, second, strict=True)), "one run below the other"


def test_hostile_names_are_text(panel):
    figure = Figure(Scatter(x=["a", "b"], y=[1, 2], name=HOSTILE, mode="markers"), {"showlegend": True})
    content = paper_plot(figure, "svg")
    ElementTree.fromstring(content.decode())
    assert b"<script" not in content and b"onerror" not in content


@pytest.mark.parametrize(
    "figure",
    [
        Figure([Bar(x=[1, 2], y=[3, 4], name="kept"), Bar(x=[1, 2], y=[1, 1], name="dropped")], {"barmode": "stack"}),
        Figure(Scattergl(x=np.arange(2000.0), y=np.arange(2000.0), mode="markers", marker={"symbol": "diamond-open"})),
        Figure([Heatmap(x=[0, 1], y=[0, 1], z=[[1, None], [2, 3]]), Scatter(x=[0, 1], y=[None, 1])]),
        Figure(Scatter(x=[1, 10, 100], y=[1, 2, 3]), {"xaxis": {"type": "log"}}),
        Figure(),
    ],
)
def test_every_kind_of_trace_on_the_pages_can_be_saved(figure):
    assert all(len(paper_plot(figure, form)) > 500 for form in FORMS)


def test_plots_side_by_side_are_side_by_side():
    figure = make_subplots(1, 2, subplot_titles=("loss", "rank"))
    figure.add_trace(Scatter(x=[1, 2], y=[3, 4]), 1, 1)
    figure.add_trace(Scatter(x=[1, 2], y=[5, 6]), 1, 2)
    width, height = struct.unpack(">II", paper_plot(figure, "png")[16:24])
    assert width > 1.8 * COLUMN * DPI > height


def test_an_unknown_kind_of_trace_is_refused_with_advice():
    with pytest.raises(BadInput, match="A plot of kind 'pie' cannot be saved for a paper. Use the camera button"):
        paper_plot(Figure(Pie(values=[1, 2])), "pdf")


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
def test_a_paper_with_an_exported_table_and_figure_compiles(panel, plots, tmp_path):
    (tmp_path / "curve.pdf").write_bytes(paper_plot(plots[0], "pdf"))
    table, runs = relation_table(panel, 5), list(panel.runs)
    tables = [relation_rows(table, runs), frequency_rows(frequency_curves(panel, 5), runs)]
    paper = [
        "\\documentclass{article}\\usepackage{booktabs,graphicx}\\begin{document}",
        latex_tables(tables, [HOSTILE]),
        compare_with(panel.study, "alpha", "beta", ComparisonOptions(k=5, by="relation")).as_latex(),
        "\\begin{figure}\\includegraphics[width=\\columnwidth]{curve.pdf}\\end{figure}\\end{document}",
    ]
    (tmp_path / "paper.tex").write_text("\n".join(paper), encoding="utf-8")
    options = [] if ENGINES[0] == "tectonic" else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run([ENGINES[0], *options, "paper.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF-")


def test_a_dark_page_has_lighter_colours_and_the_figure_itself_stays():
    from plotly.graph_objects import Figure, Scatter

    from blindspot.app.components.plots import IN_DARK, _in_dark
    from blindspot.backend.evaluation.chart_colours import BLUE, VERMILION

    chart = Figure(Scatter(x=[1, 2], y=[3, 4], line={"color": BLUE}, error_y={"array": [1, 1], "color": VERMILION}))
    (drawn,) = _in_dark(chart).data
    assert (drawn.line.color, drawn.error_y.color) == (IN_DARK[BLUE], IN_DARK[VERMILION])
    assert list(drawn.x) == [1, 2] and chart.data[0].line.color == BLUE

"""The HTML of a report: the style for screen and print, tables, plots and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from blindspot.backend.evaluation import report_plots

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

STYLE = """
:root { color-scheme: light; --line: #d7dce2; --soft: #5c6672; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2026; max-width: 1200px; margin: 0 auto; padding: 1.5rem 2rem 4rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.4rem; border-bottom: 1px solid var(--line); } h3 { margin-top: 1.6rem; font-size: 1.05rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.88rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 0.8rem 0 0.3rem; }
th, td { text-align: right; padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--line); font-weight: 400; white-space: nowrap; }
th.left, td.left { text-align: left; } th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal; } thead th { color: var(--soft); }
.soft { color: var(--soft); font-size: 0.88rem; } .notice { border-left: 3px solid #b8860b; background: #fff6df; padding: 0.4rem 0.8rem; }
button { font: inherit; font-size: 0.85rem; margin-right: 0.4rem; } nav a { margin-right: 1rem; }
.conclusions { font-size: 1.08rem; } .conclusions li { margin: 0.35rem 0; } .conclusions a { color: inherit; text-decoration-color: #9aa4b0; }
.example { border-top: 1px solid var(--line); padding-top: 0.2rem; } .example h3 { margin: 0.8rem 0 0; } .example p { margin: 0.2rem 0; }
.lists { display: grid; grid-template-columns: 1fr 1fr; gap: 0 2rem; } .lists h4 { margin: 0.5rem 0 0; font-size: 0.92rem; }
.lists ol { list-style: none; margin: 0; padding: 0; font-size: 0.88rem; } .lists li { margin: 0.35rem 0; padding-left: 1.8rem; overflow-wrap: anywhere; }
.lists .rank { float: left; margin-left: -1.8rem; color: var(--soft); } mark { background: none; text-decoration: underline dotted; }
mark.answer { background: #d5f2e3; text-decoration: none; font-weight: 600; } .badge { border: 1px solid; border-radius: 3px; padding: 0 0.25rem; font-size: 0.78rem; }
@media (max-width: 700px) { body { padding: 1rem; } .lists { grid-template-columns: 1fr; } }
@page { margin: 16mm 14mm; }
@media print {
  button, nav, .plot p, .modebar { display: none !important; } .plot > div { zoom: 0.55; }
  body { font-size: 10pt; max-width: none; padding: 0; } h2 { margin-top: 1.4rem; } a { color: inherit; text-decoration: none; }
  .scroll { overflow: visible; } table { font-size: 7.2pt; max-width: 100%; } th, td { white-space: normal; padding: 0.12rem 0.3rem; }
  h1, h2, h3, h4, caption { break-after: avoid; } tr, .example, .plot, li { break-inside: avoid; } thead { display: table-header-group; }
  .lists ol { font-size: 8.5pt; }
}
"""
SCRIPT = """
function save(button, format) {
  const plot = button.parentElement.parentElement.querySelector(".js-plotly-plot");
  Plotly.downloadImage(plot, {format: format, filename: button.parentElement.dataset.name, scale: 2});
}
"""


def page(title: str, sections: Sequence[str]) -> str:
    """Return the complete HTML page, which loads no other files."""
    from plotly.offline import get_plotlyjs

    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    scripts = f"<style>{STYLE}</style><script>{get_plotlyjs()}</script><script>{SCRIPT}</script>"
    return f'<!doctype html><html lang="en"><head>{head}{scripts}</head><body>{"".join(sections)}</body></html>\n'


def heading(text: str, anchor: str) -> str:
    return f'<h2 id="{escape(anchor)}">{escape(text)}</h2>'


def navigation(markup: str) -> str:
    """Return links to the sections whose headings are in the markup."""
    found = re.findall(r'<h2 id="([^"]*)">([^<]*)</h2>', markup)
    return "<nav>" + "".join(f'<a href="#{anchor}">{words}</a>' for anchor, words in found) + "</nav>"


def remark(text: str) -> str:
    return f'<p class="soft">{escape(text)}</p>'


def as_plot(plot: Figure, name: str) -> str:
    """Return an interactive plot with buttons that save it."""
    from plotly.io import to_html

    interactive = to_html(plot, full_html=False, include_plotlyjs=False, config=report_plots.config(name))
    buttons = "".join(
        f'<button type="button" onclick="save(this, \'{form}\')">{form.upper()}</button>' for form in ("svg", "png")
    )
    return f'<div class="plot">{interactive}<p data-name="{escape(name)}">{buttons}</p></div>'

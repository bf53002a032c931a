"""The style sheets of pages and panels: CSS files next to the components that use them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from blindspot.app.markup import Html


@cache
def style_sheet(path: str) -> Html:
    """Return the style element of a file below app/components, such as "map/page.css"."""
    return Html(f"<style>{(Path(__file__).parent / path).read_text(encoding='utf-8')}</style>")

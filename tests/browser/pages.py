"""Pages in a browser: opened and read."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit


def visit(tab, address: str) -> None:
    tab.goto(address)
    ready(tab)


def ready(tab) -> None:
    """Wait for the page's script: keys work, and links work without a page load."""
    tab.wait_for_selector("html[data-blindspot=ready]", state="attached")


def parameters(tab) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(tab.url).query).items()}


COUNT_CLICKS = (
    "addEventListener('click', () => localStorage.setItem('clicks', 1 + +localStorage.getItem('clicks')), true)"
)

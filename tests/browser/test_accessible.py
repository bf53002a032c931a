"""axe-core finds no fault on any page, light or dark, wide or narrow, in our parts and in Streamlit's."""

from __future__ import annotations

import pytest

PAGES = ("", "compare", "relations", "relations?view=frequency", "slices?slice=relation%3AP19", "question?why=1", "judge",
         "quality", "map", "team", "training", "training?tab=models", "check")  # fmt: skip
DARK = ("", "compare", "judge", "map", "training")  # tables, marks, cards, a picture, forms: all colours of ours
WIDTHS = {"light": (1400, 1000, 400), "dark": (1400,)}
MAIN = """() => [...document.querySelectorAll('a.button.main, a.next, [data-testid^=stBaseButton-primary]')].filter(
    each => each.checkVisibility() && getComputedStyle(each).backgroundColor !== 'rgba(0, 0, 0, 0)').length"""
LOW = """() => [...document.querySelectorAll('.top nav a, a.next, a.button, .choices a, [data-testid=stMain] button[data-testid^=stBaseButton]')]
    .filter(each => each.checkVisibility() && each.getBoundingClientRect().height < 43.5).map(each => each.outerHTML.slice(0, 160))"""
FIRST = """() => { const title = document.querySelector('h1'), field = [...document.querySelectorAll(
    '[data-testid=stMain] :is([data-baseweb=select], [data-baseweb=input], .choices)')].find(each => each.checkVisibility());
    return title && (!field || title.compareDocumentPosition(field) & Node.DOCUMENT_POSITION_FOLLOWING); }"""
UNSEEN = """() => { const here = document.querySelector('.top nav .here')?.getBoundingClientRect();
    return Boolean(here && (here.left < 0 || here.right > innerWidth)); }"""
LOOKING = ("", "compare", "relations", "slices", "question", "map")
ELSEWHERE = {"presentation-role-conflict"}  # minor, of Streamlit's field for files


@pytest.mark.parametrize(
    ("scheme", "pages"),
    [("light", PAGES), ("dark", DARK), pytest.param("dark", PAGES, marks=pytest.mark.slow)],
    ids=["light", "dark", "all dark"],
)
def test_no_fault_on_any_page(browser, address, scheme, pages):
    """Each page is loaded once, and its window made narrower; a width changes no colour, so dark pages are tried at one.
    Each page has one button in the main style at most, and on a phone what the thumb needs is 44 pixels high.
    """
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(color_scheme=scheme)
    try:
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        found = []
        for page in pages:
            tab.set_viewport_size({"width": 1400, "height": 900})
            tab.goto(address + page)
            tab.wait_for_selector("header.top")
            tab.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
            for width in WIDTHS[scheme]:
                tab.set_viewport_size({"width": width, "height": 900})
                if (mains := tab.evaluate(MAIN)) > 1:
                    found.append((page, width, "buttons in the main style", mains))
                if page.partition("?")[0] in LOOKING and not tab.evaluate(FIRST):
                    found.append((page, width, "a field before the title"))
                if width == 400:
                    tab.wait_for_timeout(100)  # the menu scrolls in the next frame
                    if tab.evaluate(UNSEEN):
                        found.append((page, width, "the menu does not show the current page"))
                    found += [(page, width, "less than 44 pixels high", html) for html in tab.evaluate(LOW)]
                for fault in Axe().run(tab).response["violations"]:
                    if fault["id"] not in ELSEWHERE:
                        found += [(page, width, fault["id"], node["html"][:160]) for node in fault["nodes"]]
        assert not found
    finally:
        context.close()

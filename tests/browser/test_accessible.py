"""axe-core finds no serious fault on any page, light or dark, in our parts and in Streamlit's."""

from __future__ import annotations

import pytest

PAGES = ("", "compare", "relations", "relations?view=frequency", "slices?slice=relation%3AP19&find=holm", "question?why=1", "judge", "find?words=born",
         "quality", "map")  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_fault_on_any_page(browser, address, scheme):
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme=scheme)
    try:
        tab = context.new_page()
        grave = []
        for page in PAGES:
            tab.goto(address + page)
            tab.wait_for_selector("header.top")
            tab.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
            for fault in Axe().run(tab).response["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    grave += [(page, fault["id"], node["html"][:160]) for node in fault["nodes"]]
        assert not grave
    finally:
        context.close()

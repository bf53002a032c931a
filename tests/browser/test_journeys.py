"""A person's way through the app, from the first page to a live question."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.app_pages import HOSTILE
from tests.browser.pages import parameters, ready, visit


def open_compare(tab, address: str, query: str = "a=bm25-dev&b=tiny-dev") -> None:
    visit(tab, f"{address}compare?{query}")
    tab.wait_for_selector(".flips")


def test_the_servers_very_first_visitor_may_ask_for_any_page(tab, address):
    """Streamlit treats a folder named `pages` as its own until `main.py` has run once. This test must stay the first in
    this file.
    """
    visit(tab, f"{address}compare?a=bm25-dev&b=tiny-dev&cell=only_a")
    expect(tab.locator(".top .here")).to_have_text("Compare")
    expect(tab.locator(".list-head h2").first).to_contain_text("Only A finds in the top 5")
    expect(tab.get_by_test_id("stSidebar")).to_have_count(0)


def test_from_home_to_a_question_and_through_its_list(tab, address):
    visit(tab, address)
    tab.get_by_role("link", name="Compare the runs", exact=True).click()
    tab.wait_for_selector(".flips")
    assert parameters(tab) == {"a": "bm25-dev", "b": "tiny-dev", "k": "5"}

    cell = tab.locator(".flips .only_a a")
    total = int(cell.locator(".number").inner_text())
    assert total > 3, "a random encoder misses most of what BM25 finds"
    cell.click()
    expect(tab.locator(".pager")).to_contain_text(f"of {total} questions")
    assert parameters(tab)["cell"] == "only_a"

    title = tab.locator(".questions a.question").first.inner_text()
    tab.locator(".questions a.question").first.click()
    expect(tab.locator("h1")).to_have_text(title)
    expect(tab.locator(".position")).to_have_text(f"1 of {total}")
    expect(tab.locator(".hit[data-side=a] .badge.answer").first).to_be_visible()

    tab.keyboard.press("n")
    expect(tab.locator(".position")).to_have_text(f"2 of {total}")
    expect(tab.locator("h1")).not_to_have_text(title)
    second = tab.locator("h1").inner_text()
    tab.locator("a.step", has_text="next").click()
    expect(tab.locator(".position")).to_have_text(f"3 of {total}")
    tab.keyboard.press("p")
    expect(tab.locator(".position")).to_have_text(f"2 of {total}")
    expect(tab.locator("h1")).to_have_text(second)

    tab.reload()
    ready(tab)
    expect(tab.locator("h1")).to_have_text(second)
    expect(tab.locator(".position")).to_have_text(f"2 of {total}")
    tab.go_back()
    expect(tab.locator(".position")).to_have_text(f"3 of {total}")
    tab.locator(".trail .back").click()
    expect(tab.locator(".pager")).to_contain_text(f"of {total} questions")

    tab.locator("[data-focus=causes]").click()  # the causes of the misses, and the questions behind a count
    count = tab.locator("#causes a[data-focus=cause-b-rare_subject]")
    rare = int(count.inner_text())
    expect(tab.locator(".js-plotly-plot").first).to_be_visible()
    count.click()
    expect(tab.locator(".pager")).to_contain_text(f"of {rare} questions")
    assert parameters(tab)["slice"] == "cause(tiny-dev):rare_subject"
    expect(tab.locator("#questions h2")).to_be_in_viewport()


def test_quick_key_presses_each_count(tab, address):
    visit(tab, f"{address}question?a=bm25-dev&b=tiny-dev&sort=order")
    expect(tab.locator(".position")).to_have_text(re.compile("^1 of"))
    for _ in range(7):
        tab.keyboard.press("n")
    expect(tab.locator(".position")).to_have_text(re.compile("^8 of"))


def test_filters_are_in_the_address_and_back_undoes_them(tab, address):
    open_compare(tab, address)
    find = tab.get_by_label("Search", exact=True)
    tab.get_by_role("button", name="Runs, filters").click()
    find.fill("Aurset0")
    find.press("Enter")
    expect(tab.locator(".pager")).to_have_text(["1–1 of 1 question"])  # waits until the list before is gone
    assert parameters(tab)["text"] == "Aurset0"
    tab.locator('[data-focus="k1"]').click()
    expect(tab.locator(".flips thead")).to_contain_text("finds in top 1")
    tab.reload()
    ready(tab)
    expect(tab.locator(".pager")).to_contain_text("1–1 of 1 question")
    tab.get_by_role("button", name="More: search").click()
    expect(find).to_have_value("Aurset0")
    tab.go_back()
    expect(tab.locator(".flips thead")).to_contain_text("finds in top 5")
    tab.go_back()
    expect(tab.locator(".pager")).to_contain_text("1–25 of 40 questions")
    expect(find).to_have_value("")


def test_shared_passages_are_joined_and_a_badge_goes_to_the_twin(tab, address):
    visit(tab, f"{address}question?a=bm25-dev&b=tiny-dev&show=20")
    tab.wait_for_selector(".lists")
    left, right = (
        set(tab.locator(f".hit[data-side={side}]").evaluate_all("hits => hits.map(hit => hit.dataset.passage)"))
        for side in "ab"
    )
    assert left & right
    expect(tab.locator(".gutter path")).to_have_count(len(left & right))
    badge = tab.locator(".hit[data-side=a] a.badge.other").first
    target = badge.get_attribute("data-jump")
    badge.click()
    expect(tab.locator(f"#{target}")).to_be_focused()
    expect(tab.locator(".hit.paired")).to_have_count(2)


def test_own_question_is_answered_live_and_stays_in_the_address(tab, address):
    visit(tab, f"{address}question")
    tab.locator("summary", has_text="Details").click()
    ask = tab.get_by_label("Ask your own question")
    ask.fill("Where was Arve Aurset0 born?")
    ask.press("Enter")
    expect(tab.locator("#a-1 .title").first).to_have_text("Arve Aurset0")
    assert parameters(tab)["ask"] == "Where was Arve Aurset0 born?"
    expect(tab.locator("#b-1").first).to_be_visible()
    answers = tab.get_by_role("textbox", name="Known answers")
    answers.fill("Oslo")
    answers.press("Enter")
    expect(tab.locator("#a-1 .badge.answer").first).to_be_visible()
    tab.reload()
    ready(tab)
    expect(tab.locator("#a-1 .title").first).to_have_text("Arve Aurset0")
    expect(tab.get_by_label("Your question")).to_have_value("Where was Arve Aurset0 born?")


@pytest.mark.parametrize(
    "page",
    [
        "question?a=bm25-test&b=tiny-test&question=hostile&show=20",
        "compare?a=bm25-test&b=tiny-test",
        "question?ask=" + "%3Cimg%20src=x%20onerror=window.pwned=3%3E",
    ],
)
def test_hostile_text_stays_text(tab, address, page):
    visit(tab, address + page)
    tab.wait_for_selector(".lists, .flips")
    tab.wait_for_timeout(300)
    assert tab.evaluate("window.pwned") is None
    if "hostile" in page:
        expect(tab.locator("h1")).to_have_text(f"Where was {HOSTILE} born?")
        expect(tab.locator(".hit .title", has_text="<script>").first).to_have_text(HOSTILE)
    assert tab.locator(".stHtml script, .stHtml img, .stHtml .katex").count() == 0


def test_keys_typed_into_a_field_are_text(tab, address):
    visit(tab, f"{address}question?a=bm25-dev&b=tiny-dev")
    expect(tab.locator(".position")).to_have_text(re.compile("^1 of"))
    tab.locator("summary", has_text="Details").click()
    tab.get_by_label("Ask your own question").press_sequentially("napping")
    tab.wait_for_timeout(300)
    expect(tab.locator(".position")).to_have_text(re.compile("^1 of"))
    assert tab.get_by_label("Ask your own question").input_value() == "napping"


def test_tables_are_saved_by_buttons(tab, address, study, tmp_path):
    """Each button saves a file of its kind, with the figures of the page."""
    from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with

    visit(tab, f"{address}relations?runs=bm25-dev,tiny-dev&view=frequency&k=5")
    begins = {"LaTeX": b"% needs \\usepackage{booktabs}", "CSV": b"subjects,group"}
    for words, start in begins.items():
        assert saved_by(tab, words, tmp_path).startswith(start), words
    open_compare(tab, address)
    made = compare_with(study, "bm25-dev", "tiny-dev", ComparisonOptions(k=5, by="relation"))
    assert saved_by(tab, "CSV", tmp_path).decode() == made.as_csv()


def saved_by(tab, words: str, folder) -> bytes:
    with tab.expect_download() as download:
        tab.get_by_role("button", name=words, exact=True).first.click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path.read_bytes()


def test_a_question_mark_shows_the_keys_of_any_page(tab, address):
    for page, words in (
        ("question?a=bm25-dev&b=tiny-dev", "next question of the list"),
        ("compare", "show these keys"),
        ("", "show these keys"),
    ):
        visit(tab, f"{address}{page}")
        tab.wait_for_selector(".stHtml")
        tab.keyboard.press("?")
        expect(tab.locator("dialog.keys")).to_contain_text(words)
        tab.keyboard.press("Escape")
        expect(tab.locator("dialog.keys")).to_have_count(0)

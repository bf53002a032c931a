"""Make the screenshots of README and docs anew, from a finished demo study.

    python docs/screenshots.py demo                                    # writes docs/images/
    python docs/screenshots.py demo --out shots --widths 1400,1000,400 --schemes light,dark --all

Needs playwright and Chromium. The demo is copied first, because the Judge page signs a visitor in.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"]
HEIGHT = 900
VISITOR = "Kim"

# Name of the image: the page, its parameters, what must be on the page before the shot, and the element to show at the
# top.
Shot = tuple[str, dict[str, str], str, str | None]


def shots(study: Any) -> dict[str, Shot]:
    from blindspot.analysis.accuracy import success_from_ranks
    from blindspot.backend.demo.making import CLEAN, MODELS, NOISY, RUNS, SPLIT
    from blindspot.backend.evaluation.comparison import Comparison, measure
    from blindspot.backend.evaluation.settings import HEADLINE_K
    from blindspot.backend.training.dual_encoder import trial_run_name

    pair = {"a": RUNS["bm25"], "b": RUNS["dense"], "k": str(HEADLINE_K)}
    compared = Comparison.of_runs(*(measure(study, pair[side]) for side in "ab"))
    only_a = (compared.first_ranks_a == 1) & ~success_from_ranks(compared.first_ranks_b, HEADLINE_K)
    question = compared.questions[int(only_a.argmax())].id
    return {
        "home": ("", {}, ".findings", None),
        "frequency": ("relations", {"runs": f"{pair['a']},{pair['b']}", "k": str(HEADLINE_K), "view": "frequency"}, ".js-plotly-plot", None),
        "question": ("question", {**pair, "cell": "only_a", "question": question}, ".lists", None),
        "why": ("question", {**pair, "cell": "only_a", "question": question, "why": "1"}, ".why", None),
        "compare": ("compare", pair, ".flips", None),
        "trained": ("compare", {"a": RUNS["dense"], "b": trial_run_name(MODELS[CLEAN], SPLIT), "k": str(HEADLINE_K)}, ".flips", None),
        "judge": ("judge", {}, "iframe, .judge, [data-testid=stBidiComponent]", None),
        "training": ("training", {"set": CLEAN, "before": NOISY}, "#changes", "#changes"),
        "map": ("map", {}, ".js-plotly-plot", None),
        "quality": ("quality", {}, "table.agreement", None),
    }  # fmt: skip


DOCUMENTED = ("home", "question", "compare", "judge", "training")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="folder of a finished demo study")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder for the images")
    parser.add_argument("--widths", default="1400", help="widths of the browser in pixels")
    parser.add_argument("--schemes", default="light", help="light, dark or both")
    parser.add_argument("--all", action="store_true", help="also the pages that no document shows")
    options = parser.parse_args()
    widths, schemes = [int(width) for width in options.widths.split(",")], options.schemes.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(copied(options.study, Path(folder))) as (study, address):
        selected = {name: shot for name, shot in shots(study).items() if options.all or name in DOCUMENTED}
        for width in widths:
            for scheme in schemes:
                plain = len(widths) == len(schemes) == 1
                take(address, study, selected, width, scheme, lambda name, w=width, s=scheme, plain=plain: options.out / (
                    f"{name}.png" if plain else f"{name}-{w}-{s}.png"))  # fmt: skip


def copied(folder: Path, to: Path) -> Any:
    from blindspot.backend.core.study import Study
    from blindspot.db.people import People

    shutil.copytree(folder, to / "demo")
    study = Study.open(to / "demo")
    known = {person.name for person in People(study.labels_path).all()}
    if VISITOR not in known:
        People(study.labels_path).add(VISITOR, "lead")
    return study


@contextmanager
def served(study: Any) -> Iterator[tuple[Any, str]]:
    from blindspot.app import server

    with socket.socket() as probe:
        probe.bind((server.ADDRESS, 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(server.command(port), env=server.environment(study), stdout=subprocess.DEVNULL)
    try:
        server.wait_until_up(port, process)
        yield study, f"http://{server.ADDRESS}:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=20)


def take(
    address: str, study: Any, wanted: dict[str, Shot], width: int, scheme: str, path: Callable[[str], Path]
) -> None:
    """Take the shots at one width and in one colour scheme."""
    from playwright.sync_api import sync_playwright

    from blindspot.app.link_keys import cookie_name

    with sync_playwright() as playwright:
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        context = browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        context.add_cookies([{"name": cookie_name(study.labels_path), "value": f"name%3A{VISITOR}", "url": address}])
        tab = context.new_page()
        tab.set_default_timeout(90_000)
        for name, (page, parameters, ready, top) in wanted.items():
            tab.goto(f"{address}{page}?{urlencode(parameters)}")
            tab.wait_for_selector(ready)
            tab.wait_for_function("!document.querySelector('[data-testid=stStatusWidget]')")
            tab.wait_for_timeout(1500)
            if top:
                tab.eval_on_selector(top, "element => element.scrollIntoView()")
                tab.wait_for_timeout(500)
            tab.screenshot(path=path(name))
            print(path(name), flush=True)
        browser.close()


if __name__ == "__main__":
    main()

"""The page, looked at: `python -m tests.engine.explain.pictures FOLDER [SIZE...]` takes pictures in headless Chromium.

For each number of nodes, in light and in dark: as it opens, everything open, a node chosen, a search, a table filtered.
Prints when the page was interactive. `--readme FILE` takes the picture that the documentation has, of the demo's model.
"""

from __future__ import annotations

import argparse
import logging
import re
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from apportion import engine
from apportion.engine.cli.decompose import decomposed
from apportion.engine.cli.demo_model import SmallVision, example_inputs
from apportion.engine.explain.changes import relaxed
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.page import page
from tests.engine.explain.browser import Page, chromium
from tests.engine.explain.graphs import RULES, layers

SIZES = (200, 2000, 5000)


def main() -> int:
    """Take them; status 1 if something was asked for from outside of the page, or the browser complained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("."))
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--readme", type=Path, metavar="FILE", help="take this picture, and no others")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("apportion").setLevel(logging.ERROR)
    driver = chromium()
    try:
        with tempfile.TemporaryDirectory() as folder:
            if given.readme is not None:
                _readme(driver, Path(folder), given.readme)
                return 0
            given.folder.mkdir(parents=True, exist_ok=True)
            return max(_size(driver, Path(folder), size, given.folder) for size in given.sizes)
    finally:
        driver.quit()


def _size(driver: Any, folder: Path, size: int, pictures: Path) -> int:
    rules = engine.parse_rules(RULES, "acme.rules")
    file = folder / f"page{size}.html"
    changes = relaxed([rules], "acme.rules:10")
    file.write_text(page(Explainer.of(layers(size), rules), title=f"{size} nodes", changes=changes))
    shown = Page(driver, file)
    ready = shown.js("return apportion.ready")
    print(f"{size} nodes, {file.stat().st_size / 1e6:.1f} MB: interactive after {ready / 1000:.1f} s", flush=True)
    for theme in ("light", "dark"):
        _theme(shown, theme)
        for name, show in STEPS.items():
            show(shown)
            time.sleep(0.7)
            driver.save_screenshot(str(pictures / f"{size}-{theme}-{name}.png"))
    problems = [one for one in shown.errors() if "favicon" not in one] + shown.requests()
    print("\n".join(problems) or "  nothing left the page, no complaint of the browser", flush=True)
    return 1 if problems else 0


def _theme(shown: Page, theme: str) -> None:
    if shown.js("return document.documentElement.dataset.theme") != theme:
        shown.find("#theme").click()


def _at_first(shown: Page) -> None:
    shown.all("#runs button")[0].click()
    shown.find("#close").click()


def _everything_open(shown: Page) -> None:
    shown.js("apportion.views()[0].all(true)")


def _node(shown: Page) -> None:
    shown.find("#close").click()
    shown.click_node("tanh_default_1")


def _search(shown: Page) -> None:
    shown.find("#search").send_keys("erf")


def _filtered(shown: Page) -> None:
    shown.find("#search").clear()
    _escape(shown)
    shown.find("#tab-reasons").click()
    shown.all("#panel td button")[0].click()


def _two(shown: Page) -> None:
    _escape(shown)
    shown.all("#runs button")[2].click()
    shown.find("#tab-changes").click()


def _escape(shown: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    shown.find("body").send_keys(Keys.ESCAPE)


STEPS: dict[str, Callable[[Page], None]] = {
    "first": _at_first, "open": _everything_open, "node": _node, "search": _search, "filtered": _filtered, "two": _two,
}
"""What a user does, by the name of the picture that is taken then."""


def _readme(driver: Any, folder: Path, picture: Path) -> None:
    rules = (engine.load_rules("xnnpack"),)
    program = decomposed(torch.export.export(SmallVision().eval(), example_inputs()), rules)
    for node in program.graph.nodes:
        if isinstance(trace := node.meta.get("stack_trace"), str):
            node.meta["stack_trace"] = re.sub(r'File "[^"]*/', 'File "', trace)
    file = folder / "report.html"
    file.write_text(page(Explainer.of(program, rules), title="SmallVision"))
    driver.set_window_size(1500, 950)
    shown = Page(driver, file)
    _theme(shown, "light")
    shown.click_node("mean")
    shown.find("#fit").click()
    time.sleep(0.7)
    driver.save_screenshot(str(picture))


if __name__ == "__main__":
    raise SystemExit(main())

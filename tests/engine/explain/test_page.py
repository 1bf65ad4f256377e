"""The page, in a real browser: opened, searched, a node clicked, the panel read, a table filtered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apportion import engine
from apportion.engine.explain.changes import relaxed
from apportion.engine.explain.explaining import Explainer
from apportion.engine.explain.page import page
from tests.engine.explain.browser import Page, chromium
from tests.engine.explain.graphs import RULES, layers


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """One browser for all tests of this file."""
    found = chromium()
    try:
        yield found
    finally:
        found.quit()


def written(folder: Path, size: int, changed: bool = False) -> Path:
    rules = engine.parse_rules(RULES, "acme.rules")
    explainer = Explainer.of(layers(size), rules)
    file = folder / f"page{size}.html"
    changes = {"changes": relaxed([rules], "acme.rules:10")} if changed else {}
    file.write_text(page(explainer, title=f"{size} <nodes>", **changes))
    return file


def test_everything_is_in_the_file(tmp_path: Path) -> None:
    text = written(tmp_path, 60).read_text()
    assert "200 <nodes>" not in text and "60 &lt;nodes&gt;" in text
    for mark in ("{{", "sourceMappingURL", "<link rel=\"stylesheet\"", "src=\"http"):
        assert mark not in text.replace("{{}}", "") or mark == "{{"
    data = json.loads(text.split('id="data">')[1].split("</script>")[0].replace("<\\/", "</"))
    assert data["schema"] == "apportion.page/1"
    assert len(data["nodes"]) == 60
    left = [r for r, owner in zip(data["runs"][0]["reasons"], data["runs"][0]["owner"], strict=True) if owner is None]
    assert len(left) == 12 and all(r["message"] for r in left)
    assert "Permission is hereby granted" in text, "the licence of what is bundled goes along"


def test_use(driver: Any, tmp_path: Path) -> None:
    shown = Page(driver, written(tmp_path, 200, changed=True))
    assert not [e for e in shown.errors() if "favicon" not in e]
    assert "160 of 200 nodes claimed in 21 partitions" in shown.find("#summary").text

    shown.find("#search").send_keys("erf")
    assert shown.find("#found").text == "20 nodes: erf"
    assert len(shown.all("#panel li")) == 20
    assert shown.js("return apportion.views()[0].cy.nodes('.hit').length") > 0

    shown.click_node("tanh_default_1")
    panel = shown.find("#panel").text
    assert "tanh_default_1" in panel and "aten.tanh.default" in panel and "left" in panel
    assert "y.numel" in panel and "128" in panel and "the scratch memory holds 64 numbers" in panel
    assert shown.find("#panel pre .fail").text.strip().startswith("10")
    assert "model.py:" in panel and "float32[16, 8]" in panel

    from selenium.webdriver.common.keys import Keys

    shown.find("body").send_keys(Keys.ESCAPE)
    assert shown.js("return apportion.state.filter") is None
    shown.find("body").send_keys(Keys.ARROW_DOWN)
    assert shown.find("#panel h2").text == "tanh_default_3", "the user of the node that was chosen"

    shown.find("#tab-reasons").click()
    reason = next(b for b in shown.all("#panel td button") if "y.numel <= 64" in b.text)
    reason.click()
    assert shown.js("return apportion.state.filter.size") == 20

    shown.find("#tab-partitions").click()
    assert len(shown.all("#panel tbody tr")) == 21
    assert shown.all("#panel tbody td.n")[1].text.endswith("B")

    shown.all("#runs button")[2].click()
    assert len(shown.all(".view")) == 2
    shown.find("#tab-changes").click()
    assert "claimed only in changed" in shown.find("#panel").text
    assert not shown.requests(), "nothing leaves the page"


@pytest.mark.full
@pytest.mark.parametrize("size", [200, 2000, 5000])
def test_sizes(driver: Any, tmp_path: Path, size: int) -> None:
    shown = Page(driver, written(tmp_path, size))
    ready = shown.js("return apportion.ready")
    print(f"{size} nodes: interactive after {ready:.0f} ms, {shown.path.stat().st_size / 1e6:.1f} MB")
    assert ready < 30_000
    boxes = shown.js("return apportion.views()[0].cy.nodes().length")
    assert 1 < boxes <= 100, "what is shown at first can be read"
    for theme in ("light", "dark"):
        if shown.js("return document.documentElement.dataset.theme") != theme:
            shown.find("#theme").click()
        assert shown.js("return document.documentElement.dataset.theme") == theme
        image = shown.driver.get_screenshot_as_png()
        assert len(image) > 20_000
    before = boxes
    spent = shown.js("const from = performance.now(); apportion.views()[0].all(true); return performance.now() - from")
    print(f"all open after {spent:.0f} ms")
    assert spent < 30_000
    opened = shown.js("return apportion.views()[0].cy.nodes().length")
    assert before < opened <= 1500
    shown.find("#close").click()
    assert shown.js("return apportion.views()[0].cy.nodes('[leaf]').length") < opened
    assert not shown.requests()

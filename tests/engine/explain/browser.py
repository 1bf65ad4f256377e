"""A headless Chromium behind its real driver; tests are skipped where it is not installed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Page", "chromium"]


def chromium() -> Any:
    """A driver; the test is skipped, with what to install, where there is none."""
    selenium = pytest.importorskip("selenium", reason="pip install selenium drives the page in a browser")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("no chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    assert selenium is not None
    options = ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1500,950"):
        options.add_argument(argument)
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = Chrome(options=options, service=Service(driver))
    found.set_page_load_timeout(_PATIENCE)
    found.set_script_timeout(_PATIENCE)
    found.command_executor.client_config.timeout = 2 * _PATIENCE
    return found


_PATIENCE = 90
"""Seconds: what takes longer has hung."""


class Page:
    """The page in a browser: what a user does, and what is seen then."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        self.path = path
        driver.get(path.as_uri())
        end = time.monotonic() + 60
        while not self.js("return window.apportion && window.apportion.ready"):
            assert time.monotonic() < end, self.errors()
            time.sleep(0.1)

    def js(self, script: str, *arguments: Any) -> Any:
        """The result of a script in the page."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        """The first element."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """All elements."""
        return list(self.driver.find_elements("css selector", selector))

    def errors(self) -> list[str]:
        """What the browser complained about."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """The addresses that were asked for, the page's own left out."""
        import json

        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("data:", self.driver.current_url))]

    def click_node(self, name: str) -> None:
        """A real click on the canvas, in the middle of a node that is shown."""
        from selenium.webdriver import ActionChains

        x, y = self.js(
            "const v = apportion.views()[0], i = apportion.nodes.findIndex(n => n.name === arguments[0]);"
            "v.reveal(i); const p = v.cy.getElementById(v.shown.get(i)).renderedPosition(); return [p.x, p.y]", name)
        canvas = self.find(".view .cy")
        box = canvas.size
        time.sleep(0.3)
        ActionChains(self.driver).move_to_element_with_offset(
            canvas, x - box["width"] / 2, y - box["height"] / 2).click().perform()

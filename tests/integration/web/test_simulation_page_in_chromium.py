"""The page of a simulation in a headless Chromium: everybody can read it, and it asks the network for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from extender.lab.report.page import page_of
from tests.integration.web.test_page_for_everybody import violations, width
from tests.support.http.browser import ABSENT, CHROMIUM, Browser
from tests.unit.lab.report.test_page import EVIL, a_run, results

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)
__all__ = ["width"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = [
        a_run(),
        a_run("a-name-that-is-quite-long-for-a-column", evictions=3, lost_gpu_milli_seconds=1e9),
        a_run(EVIL),
    ]
    path: Path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(page_of(results(*runs), command="waggle simulate --trace x --algorithm y " * 9), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["light", "dark"])
def test_it_can_be_read_at_any_width(page: str, width: int, browser: Browser, dark: bool) -> None:
    asked = len(browser.requests)
    browser.open(page)
    browser.dark(dark)
    assert violations(browser) == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('figure').length") == 8
    # Each of the numbers below an axis ends before the next one begins.
    crowded = browser.run(
        "[...document.querySelectorAll('.across')].filter(axis => [...axis.children].some((each, at, all) =>"
        " at && each.getBoundingClientRect().left < all[at - 1].getBoundingClientRect().right)).length"
    )
    assert crowded == 0
    assert {url.partition("?")[0] for url in browser.requests[asked:]} <= {page, "about:blank"}
    browser.dark(False)

"""A headless Chromium for the tests of the page. Whatever it complains of fails the test that runs.

A test that has a page opened is a slow one: it needs a browser, and a tenth of the CPU time of all others together.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.http.browser import Browser


@pytest.hookimpl(tryfirst=True)  # before pytest selects tests by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One for all modules: its start and end take longer than most tests."""
    with Browser(width=1400, height=900) as browser:
        yield browser


@pytest.fixture(scope="module")
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.resize(1400, 900)
    chromium.dark(False)
    yield chromium
    chromium.open("about:blank")  # a page that stays open asks a server that is gone


@pytest.fixture(autouse=True)
def _nothing_is_complained_of(request: pytest.FixtureRequest) -> Iterator[None]:
    if "browser" not in request.fixturenames:
        yield
        return
    browser: Browser = request.getfixturevalue("browser")
    browser.complaints.clear()
    browser.requests.clear()
    yield
    if "may_complain" not in request.keywords:
        assert browser.complaints == []

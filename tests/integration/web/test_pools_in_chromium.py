"""The page's pools in a headless Chromium: a server that serves claims only, and one that serves both."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from tests.integration.web.test_page_for_everybody import CUT_OFF, OVERLAPS, violations, width
from tests.support.apiserver.api import eventually
from tests.support.cluster.claim_world import ClaimWorld, claim_world
from tests.support.http.browser import ABSENT, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)
__all__ = ["width"]


@pytest.fixture(scope="module")
def world() -> Iterator[ClaimWorld]:
    """Three of five pods are claimed by two tenants, and one request waits for three more."""
    with claim_world(pods=5) as w:
        claims = [w.claim(tenant=tenant).json()["id"] for tenant in ("batch", "web", "web")]
        assert w.claim(count=60, on_empty="fail").status_code == 429
        headers = {"Prefer": "respond-async"}
        waiting = w.claim(count=20, tenant="<b>batch</b>", wait_seconds=300, headers=headers).json()["id"]
        for _ in range(3):
            w.server.claims.past.sample()
        yield w
        for claim in (waiting, *claims):
            w.server.http.delete(f"/v1/claims/{claim}")
        eventually(lambda: not w.claimed())


def look(browser: Browser, world: ClaimWorld, query: str = "", *, dark: bool = False) -> None:
    browser.dark(dark)
    browser.open(f"{world.server.handle.url}/ui{query}")
    browser.wait("document.querySelectorAll('.pool').length > 0")


def test_a_server_of_claims_shows_its_pools_and_nothing_else(world: ClaimWorld, browser: Browser) -> None:
    look(browser, world)
    shown = browser.text("#view-pools")
    assert "default/warm" in shown
    assert "The oldest request waits: " in shown
    assert re.search(r"half within .* 3 claims in the last minute", shown)
    assert "NoIdlePod 1" in shown
    assert "5 = 3 claimed + 1 failed + 1 waiting" in shown
    assert "<b>batch</b>" in shown, "a name is text"
    assert browser.text("#views").split() == ["Pools", "1"]
    assert browser.run("document.getElementById('search').hidden")
    assert browser.run("document.querySelectorAll('.pool-past svg').length") == 3


def test_what_is_looked_for_stands_in_the_address(world: ClaimWorld, browser: Browser) -> None:
    look(browser, world)
    browser.run("document.getElementById('pools-find').focus()")
    for letter in "nothing":
        browser.key(letter)
    browser.wait("document.querySelectorAll('.pool').length === 0")
    assert browser.run("location.search") == "?find=nothing"
    look(browser, world, "?find=web")
    assert browser.run("document.getElementById('pools-find').value") == "web"


def test_axe_finds_nothing_with_pools(world: ClaimWorld, browser: Browser, width: int) -> None:
    for dark in (False, True):
        look(browser, world, dark=dark)
        assert violations(browser) == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []
    assert browser.run(OVERLAPS) == []


def test_beside_the_extender_pools_are_one_view_of_several(browser: Browser) -> None:
    with claim_world(pods=1, sections={"extender": {"enabled": True}}) as w:
        look(browser, w, "?view=pools")
        assert [name for name in browser.text("#views").split() if not name.isdecimal()] == [
            "Map",
            "Groups",
            "Pods",
            "Preemptions",
            "Pools",
        ]
        browser.run("document.querySelector('[data-view=map]').click()")
        browser.wait("document.getElementById('view-pools').hidden && !document.getElementById('view-map').hidden")
        browser.open("about:blank")

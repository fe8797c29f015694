"""The page's sets of vpods in a headless Chromium: a small set with moves under way, and 200 pods with 1,000 vpods."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from extender.vpods.records import VPodKey
from tests.integration.web.test_page_for_everybody import CUT_OFF, OVERLAPS, violations, width
from tests.support.cluster.vpod_crowd import CrowdedService, crowded, empty_set, settled
from tests.support.http.browser import ABSENT, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)
__all__ = ["width"]


def crowd(*, pods: int, vpods: int, steps: int = 14, **settings: Any) -> CrowdedService:
    """A set in which pod 3 was closed, and three vpods want more: some of what follows is under way."""
    simulation = settled(empty_set(pods=pods, vpods=vpods, **settings))
    simulation.close_pod(3)
    for number in range(3):
        simulation.want(VPodKey("shop", f"cart-{number:04}"), wanted=45)
    for _, _ in zip(simulation.run(horizon=0), range(steps), strict=False):
        pass
    return CrowdedService(simulation, later=75.0)


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    with crowded(crowd(pods=9, vpods=14, capacity=40)) as url:
        yield url


@pytest.fixture(scope="module")
def large() -> Iterator[str]:
    with crowded(crowd(pods=200, vpods=1000)) as url:
        yield url


def look(browser: Browser, url: str, query: str = "", *, dark: bool = False) -> None:
    browser.dark(dark)
    browser.open(f"{url}/ui{query}")
    browser.wait("document.querySelectorAll('.vpods-numbers b').length > 0")
    browser.wait("document.querySelector('.heat').height > 40")


def test_a_server_of_vpods_shows_its_sets_and_nothing_else(small: str, browser: Browser) -> None:
    look(browser, small)
    assert browser.text("#views").split() == ["VPods", "1"]
    assert browser.run("document.getElementById('search').hidden")
    shown = browser.text("#view-vpods")
    assert "vreplicas placed" in shown
    assert "8 of 9 pods usable" in shown
    assert "from carts-3 to carts-" in shown
    assert "carts-3 closed" in shown
    assert "an annotation closes the pod" in shown
    assert browser.text("#totals").startswith("vreplicas placed")


def test_what_is_looked_for_stands_in_the_address(small: str, browser: Browser) -> None:
    look(browser, small, "?find=cart-0001")
    assert "1 of 14 vpods match the filter." in browser.text("#view-vpods")
    browser.run("document.getElementById('vpods-find').focus()")
    browser.key("x")
    browser.wait("document.querySelector('#view-vpods .hint ~ *') || true")
    browser.wait("document.getElementById('view-vpods').innerText.includes('0 of 14 vpods match')")
    assert browser.run("location.search") == "?find=cart-0001x"


def test_the_keyboard_goes_over_the_map_and_is_told_what_is_there(small: str, browser: Browser) -> None:
    look(browser, small)
    browser.run("document.querySelector('.heat').focus()")
    said = "document.querySelector('#view-vpods [aria-live]').textContent"
    browser.key("ArrowUp")
    assert "pod carts-0, zone zone-a, node n0" in browser.run(said)
    browser.key("ArrowRight")
    browser.key("ArrowDown")
    assert browser.run(said).startswith("shop/cart-0000")
    assert "pod carts-3" in browser.run(said)
    browser.key("ArrowDown")
    browser.key("Enter")
    browser.wait("document.querySelector('.vpods-detail').innerText.includes('Rules, in order of precedence')")
    assert browser.run("new URLSearchParams(location.search).get('vpod')") == "shop/cart-0001"
    assert "Why it waits" in browser.text(".vpods-detail")
    browser.key("Escape")
    assert browser.run(said) == ""


def test_a_pointed_cell_says_what_it_is(small: str, browser: Browser) -> None:
    look(browser, small)
    box = browser.run("JSON.stringify(document.querySelector('.heat').getBoundingClientRect())")
    found = json.loads(box)
    browser.mouse("mouseMoved", found["x"] + found["width"] * 0.25, found["y"] + found["height"] * 0.7)
    browser.wait("!document.querySelector('.heat-tip').hidden")
    assert "vreplicas placed" in browser.text(".heat-tip")


def test_rows_have_names_at_every_width(small: str, browser: Browser, width: int) -> None:
    look(browser, small)
    browser.wait(f"document.documentElement.clientWidth <= {width}")
    inked = """(() => {
        const canvas = document.querySelector('.heat');
        const [wide, top] = [60 * devicePixelRatio, 60 * devicePixelRatio];
        const { data } = canvas.getContext('2d').getImageData(0, top, wide, canvas.height - top);
        const alpha = data.filter((_, index) => index % 4 === 3);
        const filled = alpha.filter((each) => each > 0).length / alpha.length;
        return filled > 0.02 && filled < 0.6;  // letters; cells would fill nearly all of it
    })()"""
    browser.wait(inked)  # it is drawn anew a moment after the width has changed


@pytest.mark.slow
def test_a_large_set_is_drawn_in_bands_and_says_so(large: str, browser: Browser, width: int) -> None:
    look(browser, large)
    note = browser.text("#view-vpods")
    assert "Each row is 6 vpods, by name" in note
    assert ("Each column is 2 pods." in note) == (width == 400)
    assert browser.run("document.querySelector('.heat').getBoundingClientRect().height") <= 640
    look(browser, large, "?find=cart-000")
    assert "Each row" not in browser.text("#view-vpods")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_with_vpods(small: str, large: str, browser: Browser, width: int, dark: bool) -> None:
    for url, query in ((small, "?vpod=cart-0001"), (large, "")):
        look(browser, url, query, dark=dark)
        if query:
            browser.wait("document.querySelectorAll('.vpods-detail h4').length > 0")
        assert violations(browser) == []
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert browser.run(CUT_OFF) == []
        assert browser.run(OVERLAPS) == []

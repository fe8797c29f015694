"""The page can be read and used by everybody: axe-core on every view, in light and dark, wide and narrow.

axe-core (https://github.com/dequelabs/axe-core) checks contrast, names, roles, and the order of headings. What it
cannot see is checked here: text on the canvas, and whether something is cut off or overlaps in a narrow window.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.support.hived.scene import Scene, served, small
from tests.support.http.browser import ABSENT, CHROMIUM, Browser
from tests.support.http.crowd import Crowd, crowded
from tests.support.http.page import show

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)

VIEWS = (
    "",
    "?colour=owner&tab=waiting&cell=gpu-0003",
    "?view=groups",
    "?view=pods&pod=team-1/pod-00004",
    "?view=preemptions",
)
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}}
WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    crowd = Crowd()
    crowd.preempt()
    crowd.ask(4)
    with crowded(crowd) as url:
        yield url


@pytest.fixture(params=WIDTHS, ids=["wide", "narrow"])
def width(request: pytest.FixtureRequest, browser: Browser) -> Iterator[int]:
    browser.resize(request.param, 800)
    yield request.param
    browser.open("about:blank")
    browser.resize(1400, 900)


def axe() -> str:
    """The script; WAGGLE_AXE may name a newer one."""
    path = os.environ.get("WAGGLE_AXE")
    script = Path(path) if path else files("axe_core_python") / "axe.min.js"
    return script.read_text(encoding="utf-8")


def violations(browser: Browser) -> list[str]:
    browser.run(f"{axe()}; 0")
    run = f"axe.run(document, {json.dumps(RULES)}).then(({{ violations }}) => violations)"
    found: list[dict[str, Any]] = browser.run(run)
    return [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]


def look(browser: Browser, url: str, query: str, *, dark: bool = False) -> None:
    show(browser, url, query)
    browser.dark(dark)
    if "view=pods" in query or "view=groups" in query:
        browser.wait("[...document.querySelectorAll('tbody tr')].length > 1")
    if "pod=" in query:
        browser.wait("document.querySelector('#detail').innerText.includes('Story')")


def test_axe_finds_nothing(server: str, browser: Browser) -> None:
    """The view that has most; the slow tests look at all of them."""
    look(browser, server, "?view=pods&pod=team-1/pod-00004")
    assert violations(browser) == []
    browser.open("about:blank")


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_with_nodes(server: str, browser: Browser, width: int, dark: bool) -> None:
    for query in VIEWS:
        look(browser, server, query, dark=dark)
        if "tab=waiting" in query:
            browser.run("document.querySelector('#waiting button').click()")
            browser.wait("document.querySelector('#waiting .more').innerText.includes('Story')")
        assert violations(browser) == [], query


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_with_cells(browser: Browser, width: int, dark: bool) -> None:
    scene = Scene(small())
    scene.place("ml/train", "vision", 5, devices=8, pods=2)
    scene.place("ml/huge", "speech", 1, devices=8, pods=5)
    with served(scene) as url:
        for query in ("", "?cell=rack-000/n000-00", "?tab=waiting", "?view=groups"):
            look(browser, url, query, dark=dark)
            if not query:
                browser.run("document.querySelector('#tenants button').click()")
            assert violations(browser) == [], query
        browser.open("about:blank")


@pytest.mark.slow
def test_axe_finds_nothing_while_searching(server: str, browser: Browser, width: int) -> None:
    look(browser, server, "")
    browser.run("document.getElementById('find').focus()")
    for letter in "pod-0001":
        browser.key(letter)
    browser.wait("document.querySelectorAll('#results [role=option]').length > 4")
    assert violations(browser) == []


#: The least contrast of text on the map with any colour that it may stand on.
INKS = """(async () => {
  const { Paint, inkOn } = await import(new URL("ui/paint.js", location.href));
  const paint = new Paint();
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.reduce((sum, c, i) => sum + linear(c / 255) * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (fill) => {
    const ink = light(inkOn(fill).match(/[0-9a-f]{2}/g).map((part) => parseInt(part, 16)));
    const [low, high] = [ink, light(fill)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  return Math.min(...[...paint.colours, ...paint.ramp, ...Object.values(paint.base)].map(contrast));
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_on_the_map_can_be_read(server: str, browser: Browser, dark: bool) -> None:
    look(browser, server, "", dark=dark)
    browser.wait(f"matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}")
    assert browser.run(INKS) >= 4.5


#: Elements that stick out of the window, or whose text does not fit into them.
CUT_OFF = """[...document.querySelectorAll('body *')].filter((each) => {
  const { left, right, width, height } = each.getBoundingClientRect();
  const hidden = (some) => some && getComputedStyle(some).clipPath !== 'none';
  if (!width || !height || each.closest('.hidden, svg, option')) return false;
  if (hidden(each) || hidden(each.closest('th'))) return false;
  const clips = getComputedStyle(each).overflowX !== 'visible' && each.scrollWidth > each.clientWidth + 1;
  return right > innerWidth + 0.5 || left < -0.5 || (clips && !each.matches('input, select, .row .name'));
}).map((each) => each.outerHTML.slice(0, 120))"""
#: Pairs of blocks of the page that cover each other.
OVERLAPS = """(() => {
  const names = 'h1 #connection #find #views #totals #toolbar #frame #legend #tabs #owners #tenants #waiting #selection'
    + ' #detail .filters .line .sheet .cards';
  const beside = (a, b) => a.left >= b.right - 1 || a.top >= b.bottom - 1;
  const apart = (a, b) => beside(a, b) || beside(b, a);
  const found = [...document.querySelectorAll(names.replaceAll(' ', ','))].filter((each) => each.offsetWidth);
  const box = new Map(found.map((each) => [each, each.getBoundingClientRect()]));
  return found.flatMap((one, i) => found.slice(i + 1).map((other) => [one, other]))
    .filter(([one, other]) => !one.contains(other) && !other.contains(one) && !apart(box.get(one), box.get(other)))
    .map((pair) => pair.map((each) => each.id || each.className));
})()"""
BOX = "(({{ bottom, height }}) => [bottom, height])(document.querySelector('{}').getBoundingClientRect())"


def test_nothing_is_cut_off_or_overlaps(server: str, browser: Browser, width: int) -> None:
    for query in VIEWS:
        look(browser, server, query)
        assert browser.run("document.documentElement.scrollWidth") <= width, query
        assert browser.run(CUT_OFF) == [], query
        assert browser.run(OVERLAPS) == [], query


def test_totals_and_legend_are_reachable_in_a_narrow_window(server: str, browser: Browser) -> None:
    browser.resize(400, 700)
    try:
        look(browser, server, "")
        for part in ("#totals", "#legend", "#selection"):
            browser.run(f"document.querySelector('{part}').scrollIntoView({{ block: 'end' }})")
            bottom, height = browser.run(BOX.format(part))
            assert (height > 20, bottom <= 701) == (True, True), part
    finally:
        browser.open("about:blank")
        browser.resize(1400, 900)

"""The web page in a headless Chromium, with HiveD or the default algorithm behind it.

What is drawn on the canvas is read back from its pixels.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm, PackingSettings
from extender.scheduling.events import NodeSeen, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.runtime import Runtime
from tests.support.hived.scene import Scene, racks, served, small
from tests.support.http.browser import ABSENT, CHROMIUM, Browser
from tests.support.http.page import on_port, show

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)

#: Forest, level and index of cells of small(): a device and a machine.
DEVICE, MACHINE = (0, 1, 0), (0, 3, 0)


@pytest.fixture
def scene() -> Scene:
    """vision runs guaranteed on two machines, speech without a guarantee on another; one machine is bad."""
    scene = Scene(small())
    assert scene.place("ml/train", "vision", 5, devices=8, pods=2) == ["n000-00", "n000-01"]
    assert scene.place("ml/borrow", "speech", -1, devices=8) == ["n000-02"]
    scene.health(["n002-01"], ready=False)
    assert scene.place("ml/huge", "speech", 1, devices=8, pods=5) == []
    return scene


@pytest.fixture
def url(scene: Scene, browser: Browser) -> Iterator[str]:
    """The scene on the page."""
    with served(scene) as url:
        show(browser, url)
        yield url
        browser.open("about:blank")


def spot(browser: Browser, cell: tuple[int, int, int]) -> tuple[float, float]:
    """Its middle in the window."""
    place = browser.run("waggle.place({}, {}, {})".format(*cell))
    box = browser.run("(({x, y}) => ({x, y}))(document.getElementById('map').getBoundingClientRect())")
    return box["x"] + place["x"] + place["w"] / 2, box["y"] + place["y"] + place["h"] / 2


PIXEL = """(({x, y, w, h}) => {
  const [r, g, b] = document.getElementById('map').getContext('2d').getImageData(x + w / 2, y + h / 2, 1, 1).data;
  return '#' + [r, g, b].map((part) => part.toString(16).padStart(2, '0')).join('');
})"""


def pixel(cell: tuple[int, int, int]) -> str:
    return f"{PIXEL}(waggle.place({cell[0]}, {cell[1]}, {cell[2]}))"


def value(name: str) -> str:
    return f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()"


def test_it_asks_nobody_but_its_server(url: str, browser: Browser) -> None:
    assert browser.run("waggle.stats().leafs") == 128
    assert browser.requests
    assert [asked for asked in browser.requests if not asked.startswith(url)] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_devices_have_the_colour_of_their_tenant(url: str, browser: Browser, dark: bool) -> None:
    browser.dark(dark)
    browser.wait(f"matchMedia('(prefers-color-scheme: dark)').matches === {str(dark).lower()}")

    browser.wait(f"{pixel(DEVICE)} === {value('t0')}")


def test_each_way_to_colour_is_drawn(url: str, browser: Browser) -> None:
    browser.run("document.querySelector('input[value=state]').click()")
    browser.wait(f"{pixel(DEVICE)} === {value('used')}")
    browser.run("document.querySelector('input[value=health]').click()")
    browser.wait(f"{pixel(DEVICE)} === {value('healthy')}")
    browser.run("document.querySelector('input[value=priority]').click()")
    browser.wait(f"document.querySelector('#legend').innerText.includes('5') && {pixel(DEVICE)} !== {value('healthy')}")


def test_what_happens_is_shown_without_being_asked_for(url: str, scene: Scene, browser: Browser) -> None:
    free = (0, 1, 127)
    before = browser.run(pixel(free))

    scene.place("ml/pinned", "search", 3, devices=8, pinnedCellId="searches-own")

    browser.wait(f"{pixel(free)} === {value('t2')}")
    assert before != browser.run(value("t2"))
    browser.wait("document.querySelector('#tenants').innerText.includes('8 of 24 used')")


def test_a_device_that_is_clicked_is_told_of(url: str, browser: Browser) -> None:
    browser.click(*spot(browser, DEVICE))

    browser.wait("document.querySelector('#selection').innerText.includes('rack-000/n000-00/0/0')")
    told = browser.text("#selection")
    assert "Used, priority 5" in told
    assert "ml/train" in told
    assert "vision/0/0/0" in told
    assert "ml/train of vision" in browser.text("#tip")


def test_a_group_shows_where_it_runs_and_what_the_server_knows_of_it(url: str, browser: Browser) -> None:
    browser.click(*spot(browser, DEVICE))
    group = "[...document.querySelectorAll('#selection .link')].find((each) => each.innerText === 'ml/train')"
    browser.wait(f"{group} !== undefined")
    browser.run(f"{group}.click()")

    browser.wait("document.querySelector('#selection').innerText.includes('Allocated')")
    assert "16 on 2 machines" in browser.text("#selection")


def test_the_keyboard_goes_everywhere_and_says_where_it_is(url: str, browser: Browser) -> None:
    browser.run("document.getElementById('map').focus()")
    said = []
    for key in ("Enter", "ArrowRight", "Enter", "Enter", "Enter", "Escape"):
        browser.key(key)
        said.append(browser.run("document.getElementById('cursor').textContent").partition(",")[0])

    assert said == [
        "rack-000",
        "rack-001",
        "rack-001/n001-00",
        "rack-001/n001-00/0",
        "rack-001/n001-00/0/0",
        "rack-001/n001-00/0",
    ]


@pytest.mark.slow
def test_the_layout_suits_the_window_however_late_its_size_is_told(scene: Scene, browser: Browser) -> None:
    """On a busy machine the server's answer comes before the first ResizeObserver calls back."""
    late = "class Late extends ResizeObserver { observe(each) { setTimeout(() => super.observe(each), 1e6) } }"
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=f"{late}; ResizeObserver = Late;")
    try:
        with served(scene) as url:
            show(browser, url)
            assert spot(browser, (0, 4, 1))[0] > spot(browser, (0, 4, 0))[0]
            browser.open("about:blank")
    finally:
        browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script["identifier"])


@pytest.mark.slow
def test_another_window_is_another_layout(url: str, browser: Browser) -> None:
    in_a_row = "(waggle.place(0, 4, 3).y === waggle.place(0, 4, 0).y)"
    assert not browser.run(in_a_row)
    try:
        browser.resize(2600, 420)
        browser.wait(in_a_row)
    finally:
        browser.resize(1400, 900)
        browser.wait(f"!{in_a_row}")


@pytest.mark.slow
def test_the_map_is_moved_and_zoomed_with_mouse_wheel_and_keys(url: str, browser: Browser) -> None:
    x, y = spot(browser, MACHINE)
    scale = browser.run("waggle.stats().scale")
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    browser.wait(f"waggle.stats().scale > {scale} * 1.3")
    assert spot(browser, MACHINE) == pytest.approx((x, y), abs=2)  # what is under the pointer stays there

    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x + 60, y + 30, button="left", buttons=1)
    browser.mouse("mouseReleased", x + 60, y + 30, button="left", clickCount=1)
    assert spot(browser, MACHINE) == pytest.approx((x + 60, y + 30), abs=2)

    browser.run("document.getElementById('map').focus()")
    browser.key("0")
    assert browser.run("waggle.stats().scale") == pytest.approx(scale)


@pytest.mark.slow
def test_the_virtual_clusters_are_summed_up(url: str, browser: Browser) -> None:
    told = browser.text("#tenants").replace("\n", " ")

    assert "vision 16 of 48 used" in told
    assert "speech 0 of 32 used" in told
    assert "idle 32 borrowed 8 bad 0 cells 4" in told


@pytest.mark.slow
def test_a_virtual_cell_leads_to_its_hardware(url: str, browser: Browser) -> None:
    browser.run("document.querySelectorAll('#tenants button')[2].click()")
    canvas = "document.querySelectorAll('#tenants canvas.cells')[2]"
    browser.wait(f"{canvas}.offsetHeight > 0")
    browser.run(f"{canvas}.focus()")
    browser.key("End")
    assert "pinned searches-own" in browser.text("#tip")
    browser.key("Enter")

    browser.wait("document.querySelector('#selection').innerText.includes('rack-003/n003-03')")
    assert "search/4" in browser.text("#selection")


def test_who_waits_is_explained(url: str, browser: Browser) -> None:
    assert browser.text("#waiting-count") == "1"
    browser.run("document.getElementById('tab-waiting').click()")
    browser.run("document.querySelector('#waiting button').click()")

    browser.wait("document.querySelector('#waiting .more').innerText.includes('Story')")
    told = browser.text("#waiting")
    assert "ml/huge" in told
    assert "insufficient capacity when scheduling in VC speech" in told
    assert "5 pods" in told
    assert "ml/huge can never run: it needs 40 gpu, and speech is promised 32 gpu in rack." in told


def test_whose_end_would_help_is_shown_where_it_runs(scene: Scene, browser: Browser) -> None:
    assert scene.place("ml/speak", "speech", 1, devices=8, pods=3) != []
    assert scene.place("ml/next", "speech", 1, devices=8, pods=2) == []
    with served(scene) as url:
        show(browser, url)
        browser.run("document.getElementById('find').focus()")
        for letter in "ml/next":
            browser.key(letter)
        browser.wait("document.querySelector('#results [role=option]')?.innerText.startsWith('ml/next')")
        browser.key("Enter")
        browser.wait(
            "document.querySelector('#waiting .open')?.innerText.includes('It would run if this ended: ml/speak (')"
        )
        browser.run("document.querySelector('#waiting .advice .link').click()")
        browser.wait("document.querySelector('#selection').innerText.includes('24 on 3 machines')")
        browser.open("about:blank")


@pytest.mark.slow
def test_an_explanation_is_asked_for_only_by_who_opens_it(url: str, scene: Scene, browser: Browser) -> None:
    scene.place("ml/later", "vision", 1, devices=8, pods=5)

    browser.wait("waggle.stats().looks > 1")

    assert [asked for asked in browser.requests if "/v1/explain/" in asked] == []


def test_what_is_looked_for_is_found(url: str, browser: Browser) -> None:
    browser.run("document.getElementById('map').focus()")
    browser.key("/")
    for letter in "n002-01":
        browser.key(letter)
    browser.wait("document.querySelector('#results [role=option]')?.innerText.startsWith('n002-01')")
    browser.key("Enter")

    browser.wait("document.querySelector('#selection').innerText.includes('8 bad')")


def test_names_are_text_whatever_they_look_like(browser: Browser) -> None:
    evil = "<img src=x onerror=document.title='owned'>"
    scene = Scene(racks(1, 1, {evil: [{"cellType": "rack.host.socket", "cellNumber": 1}]}))
    scene.place(f"ml/{evil}", evil, 1, devices=4)
    scene.place(f"ml/waits{evil}", evil, 1, devices=4)
    with served(scene) as url:
        show(browser, url)
        browser.click(*spot(browser, DEVICE))
        browser.run("document.querySelectorAll('#tenants button, #waiting button').forEach((each) => each.click())")
        browser.wait("document.querySelector('#waiting .more').innerText.includes('Story')")

        assert evil in browser.text("#tenants")
        assert evil in browser.text("#selection")
        assert browser.run("document.querySelectorAll('img').length") == 1  # the one beside the title
        assert browser.run("document.title") == "Waggle"
        browser.open("about:blank")


@pytest.mark.slow
@pytest.mark.may_complain
def test_a_server_that_is_gone_is_missed_and_found_again(scene: Scene, browser: Browser) -> None:
    with on_port(scene.runtime, "hived") as url:
        show(browser, url)
    browser.run("waggle.now()")
    browser.wait("document.getElementById('connection').dataset.state === 'lost'")
    assert "no connection, as of" in browser.text("#connection")
    assert browser.run("waggle.stats().leafs") == 128  # what was known stays to be seen

    with on_port(scene.runtime, "hived", int(url.rpartition(":")[2])):
        browser.run("waggle.now()")
        browser.wait("document.getElementById('connection').dataset.state === 'live'")
        browser.open("about:blank")
    scene.runtime.stop()


# -- any other algorithm --------------------------------------------------------------------------------------


@pytest.fixture
def packing() -> Iterator[Runtime]:
    runtime = Runtime(SchedulerStateMachine(PackingAlgorithm(PackingSettings())), lambda command: None)
    runtime.start()
    yield runtime
    runtime.stop()


def test_nothing_is_shown_as_nothing(packing: Runtime, browser: Browser) -> None:
    with on_port(packing, "packing") as url:
        browser.open(f"{url}/ui")
        browser.wait("!document.getElementById('empty').hidden && waggle.stats().looks > 0")
        assert "No hardware" in browser.text("#empty")
        assert browser.run("document.getElementById('connection').dataset.state") == "unready"
        browser.open("about:blank")


def test_nodes_are_shown_with_what_is_taken(packing: Runtime, browser: Browser) -> None:
    room = (("cpu", 8000), ("example.com/gpu", 4), ("memory", 64 << 30))
    zone = (("topology.kubernetes.io/zone", "z-1"),)
    nodes = [Node(name=name, uid=name, labels=zone, allocatable=room) for name in ("a", "b")]
    pod = Pod(namespace="ns", name="p", uid="u", node_name="a", requests=(("cpu", 500), ("example.com/gpu", 3)))
    packing.handle(*map(NodeSeen, nodes), PodSeen(pod), Synced())
    with on_port(packing, "packing") as url:
        show(browser, url)
        browser.click(*spot(browser, (0, 1, 0)))
        browser.wait("document.querySelector('#selection').innerText.includes('ns/p')")

        assert "3 of 4" in browser.text("#selection")
        assert "0.5 of 8 cores" in browser.text("#selection")
        assert browser.text("#modes").split() == ["Colour", "by", "Use", "Namespace", "Health"]
        assert browser.text("#resource").split() == ["example.com/gpu", "cpu", "memory"]
        assert browser.run("document.getElementById('tab-tenants').hidden")
        browser.open("about:blank")


# -- large ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_five_thousand_machines_are_drawn_at_every_zoom(browser: Browser) -> None:
    scene = Scene(
        racks(
            125,
            40,
            {"a": [{"cellType": "rack", "cellNumber": 60}], "b": [{"cellType": "rack.host", "cellNumber": 900}]},
        )
    )
    for number in range(40):
        scene.place(f"ml/{number}", "ab"[number % 2], 1, devices=8, pods=16)
    with served(scene) as url:
        show(browser, url)
        assert browser.run("waggle.stats().leafs") == 40_000
        scale = browser.run("waggle.stats().scale")
        for _ in range(12):
            frames = browser.run("waggle.stats().frames")
            browser.run("document.querySelector('[data-zoom=in]').click()")
            browser.wait(f"waggle.stats().frames > {frames}")
        assert browser.run("waggle.stats().scale") > scale * 20
        browser.open("about:blank")

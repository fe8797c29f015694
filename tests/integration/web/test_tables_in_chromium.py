"""The page's tables, totals, search and address in a headless Chromium."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from extender.server.views import Readiness
from tests.support.hived.scene import Scene, served, small
from tests.support.http.browser import ABSENT, CHROMIUM, Browser
from tests.support.http.crowd import EVIL, Crowd, crowded
from tests.support.http.fixed_runtime import FixedRuntime
from tests.support.http.page import on_port, show

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)


@pytest.fixture(scope="module")
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    crowd.preempt()
    crowd.ask(4)
    yield crowd
    crowd.runtime.stop()


@pytest.fixture(scope="module")
def server(crowd: Crowd) -> Iterator[str]:
    with crowded(crowd) as url:
        yield url


@pytest.fixture
def url(server: str, browser: Browser) -> Iterator[str]:
    yield server
    browser.open("about:blank")


def rows(browser: Browser, view: str) -> list[list[str]]:
    cells = "[...row.cells].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim())"
    found: list[list[str]] = browser.run(
        f"[...document.querySelectorAll('#view-{view} tbody tr')].map((row) => {cells})"
    )
    return found


def follow(browser: Browser, view: str, *parts: str, last: bool = False) -> None:
    """Clicks the first link, or the last one, of the row with all these parts."""
    found = f"[...document.querySelectorAll('#view-{view} tbody tr')]"
    has = f"{json.dumps(parts)}.every((part) => row.innerText.includes(part))"
    browser.run(f"[...{found}.find((row) => {has}).querySelectorAll('a')].at({-1 if last else 0}).click()")


def names(browser: Browser, view: str) -> list[str]:
    return [row[0] for row in rows(browser, view)]


def shown(browser: Browser, view: str, first: str) -> None:
    """Waits until this is the table's first row."""
    browser.wait(f"document.querySelector('#view-{view} tbody td').innerText.startsWith({json.dumps(first)})")


def write(browser: Browser, selector: str, text: str) -> None:
    browser.run(f"document.querySelector({json.dumps(selector)}).focus()")
    for letter in text:
        browser.key(letter)


def choose(browser: Browser, selector: str, value: str) -> None:
    found = f"document.querySelector({json.dumps(selector)})"
    browser.run(f"{found}.value = {json.dumps(value)}, {found}.dispatchEvent(new Event('change'))")


def where(browser: Browser) -> str:
    return str(browser.run("location.search"))


# -- pods -------------------------------------------------------------------------------------------------------


def test_pods_have_their_names_ages_namespaces_and_an_explanation(url: str, browser: Browser) -> None:
    show(browser, url, "?view=pods")
    shown(browser, "pods", "pod-00000")

    [row] = [row for row in rows(browser, "pods") if row[0] == "pod-00003"]
    assert row[1:5] == ["team-0", "Bound", "gpu-0003", "gang-0"]
    assert row[-2].endswith("d")
    follow(browser, "pods", "pod-00003", last=True)
    browser.wait("document.querySelector('#detail').innerText.includes('Story')")
    assert "team-0/pod-00003" in browser.text("#detail h2")
    assert where(browser) == "?view=pods&pod=team-0%2Fpod-00003"
    link = browser.run("document.querySelector('#detail a[target]').href")
    assert link == f"{url}/v1/explain/team-0/pod-00003"

    browser.run("document.querySelector('#detail .link').click()")
    assert (where(browser), browser.run("document.activeElement.className")) == ("?view=pods", "sheet")


def test_a_page_has_fifty_rows_and_leads_to_the_next_one(url: str, browser: Browser) -> None:
    show(browser, url, "?view=pods&order=age&desc=1")
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 50")
    first = names(browser, "pods")
    assert browser.text("#view-pods .count-line") == "1–50 of 121"
    browser.run("[...document.querySelectorAll('#view-pods .pages button')][1].click()")
    browser.wait("document.querySelector('#view-pods .count-line').innerText.startsWith('51–100')")
    assert not set(first) & set(names(browser, "pods"))

    browser.run("history.back()")
    browser.wait("document.querySelector('#view-pods .count-line').innerText.startsWith('1–50')")
    assert names(browser, "pods") == first


@pytest.mark.slow
def test_a_page_that_is_past_the_end_is_the_last_one(url: str, browser: Browser) -> None:
    show(browser, url, "?view=pods&page=99")
    browser.wait("document.querySelector('#view-pods .count-line').innerText.startsWith('101–121')")


def test_pods_are_filtered_and_the_address_says_so(url: str, browser: Browser) -> None:
    show(browser, url, "?view=pods")
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 50")
    choose(browser, "#pods-namespace", "team-1")
    choose(browser, "#pods-state", "Waiting")
    write(browser, "#pods-find", "00004")
    shown(browser, "pods", "pod-00004")
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 1")
    assert where(browser) == "?view=pods&ns=team-1&state=Waiting&find=00004"

    show(browser, url, where(browser))  # somebody else opens it
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 1")
    values = "['find', 'namespace', 'state'].map((name) => document.getElementById('pods-' + name).value)"
    assert browser.run(values) == ["00004", "team-1", "Waiting"]


@pytest.mark.slow
def test_a_column_sorts(url: str, browser: Browser) -> None:
    show(browser, url, "?view=pods")
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 50")
    heading = "[...document.querySelectorAll('#view-pods th')].find((each) => each.innerText.startsWith('Priority'))"
    browser.run(f"{heading}.querySelector('button').click()")
    shown(browser, "pods", "winner")
    assert browser.run(f"{heading}.getAttribute('aria-sort')") == "descending"
    browser.run(f"{heading}.querySelector('button').click()")
    browser.wait(f"{heading}.getAttribute('aria-sort') === 'ascending'")
    browser.wait("document.querySelector('#view-pods tbody td').innerText !== 'winner'")
    assert {row[-3] for row in rows(browser, "pods")} == {"0", "1"} or {row[-3] for row in rows(browser, "pods")} == {
        "0"
    }


@pytest.mark.slow
def test_an_address_with_nonsense_shows_the_page_all_the_same(url: str, browser: Browser) -> None:
    query = "?view=pods&order=uid&state=Gone&page=-7&desc=maybe&colour=red&resource=none&tab=x&cell=no/such&pod=x"
    show(browser, url, query)
    browser.wait("document.querySelectorAll('#view-pods tbody tr').length === 50")
    browser.wait("document.querySelector('#detail').innerText.includes('no')")
    browser.complaints.clear()  # the browser logs that there is no such pod
    show(browser, url, "?view=nothing")
    assert browser.run("!document.getElementById('view-map').hidden")


# -- groups -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_groups_are_sorted_by_devices_and_lead_to_their_pods(url: str, browser: Browser) -> None:
    show(browser, url, "?view=groups")
    shown(browser, "groups", "winner")
    found = rows(browser, "groups")
    assert found[0][2:5] == ["Binding", "0 of 1", "8"]
    assert [int(row[4]) for row in found] == sorted((int(row[4]) for row in found), reverse=True)
    [gang] = [row for row in found if row[:2] == ["gang-0", "team-1"]]
    assert gang[2:5] == ["Running", "2 of 2", "2"]
    follow(browser, "groups", "gang-0", "team-1")
    shown(browser, "pods", "pod-00001")
    assert where(browser) == "?view=pods&find=gang-0&ns=team-1"


@pytest.mark.slow
def test_virtual_clusters_are_a_column_and_a_filter(browser: Browser) -> None:
    scene = Scene(small())
    scene.place("ml/train", "vision", 5, devices=8, pods=2)
    scene.place("ml/borrow", "speech", -1, devices=8)
    with served(scene) as url:
        show(browser, url, "?view=groups")
        shown(browser, "groups", "ml/train")
        browser.wait("document.querySelectorAll('#view-groups td:last-child a').length === 4")
        assert rows(browser, "groups") == [
            ["ml/train", "ml", "vision", "Running", "2 of 2", "16", "2", "5", "", "map explain"],
            ["ml/borrow", "ml", "speech", "Running", "1 of 1", "8", "1", "no guarantee", "", "map explain"],
        ]
        choose(browser, "#groups-tenant", "speech")
        shown(browser, "groups", "ml/borrow")
        browser.run("document.querySelector('#view-groups tbody td:last-child a').click()")
        browser.wait("document.querySelector('#selection').innerText.includes('ml/borrow')")
        assert "group=ml%2Fborrow" in where(browser)
        browser.open("about:blank")


# -- preemptions, totals, the last hour -------------------------------------------------------------------------


@pytest.mark.slow
def test_who_preempted_whom(url: str, browser: Browser) -> None:
    show(browser, url, "?view=preemptions")
    browser.wait("document.querySelectorAll('#view-preemptions .card').length === 1")
    told = browser.text("#view-preemptions .card")
    assert "high/winner priority 9" in told
    assert "placed" in told
    assert "low/victim on last, priority 1, gone" in told
    assert browser.text("#preemptions-count") == "1"


def test_totals_and_the_last_hour(url: str, browser: Browser) -> None:
    show(browser, url)
    told = " ".join(browser.text("#totals").split())
    assert "example.com/gpu used 104 of 104 · 100 %" in told
    assert "13 1 not ready" in told
    labels = browser.run("[...document.querySelectorAll('#totals svg')].map((each) => each.getAttribute('aria-label'))")
    assert [label.partition(":")[0] for label in labels] == [
        "example.com/gpu used over the last hour",
        "pods running over the last hour",
        "pods waiting over the last hour",
    ]
    assert "least 0, most 120, now 96" in labels[1]


def test_the_map_is_coloured_by_namespace(url: str, browser: Browser) -> None:
    show(browser, url, "?colour=owner&tab=owners")
    legend = browser.text("#legend").split("\n")
    assert legend[:3] == ["team-0", "team-1", "team-2"] or set(legend[:4]) == {"high", "team-0", "team-1", "team-2"}
    first = browser.text("#owners .item .name")
    browser.run("document.querySelector('#owners button').click()")
    browser.wait("document.querySelector('#owners button').getAttribute('aria-pressed') === 'true'")
    assert f"only={first}" in where(browser)
    choose(browser, "#resource", "cpu")
    browser.wait("document.querySelector('#owners').innerText.includes('cores')")
    assert "resource=cpu" in where(browser)


# -- finding ----------------------------------------------------------------------------------------------------


def test_a_pod_is_found_from_anywhere(url: str, browser: Browser) -> None:
    show(browser, url)
    write(browser, "#find", "pod-00117")
    browser.wait("document.querySelectorAll('#results [role=option]').length === 1")
    browser.wait("document.querySelector('#results').innerText.includes('team-0/pod-00117')")
    browser.key("Enter")
    browser.wait("document.querySelector('#detail h2')?.innerText === 'team-0/pod-00117'")
    assert names(browser, "pods") in ([], ["pod-00117"])
    shown(browser, "pods", "pod-00117")


@pytest.mark.slow
def test_what_is_found_is_chosen_with_arrows(url: str, browser: Browser) -> None:
    show(browser, url)
    write(browser, "#find", "gpu-000")
    browser.wait("document.querySelectorAll('#results [role=option]').length >= 9")
    browser.key("ArrowDown")
    active = "document.getElementById(document.getElementById('find').getAttribute('aria-activedescendant'))"
    assert "gpu-0001" in browser.run(f"{active}.innerText")
    browser.key("Enter")
    browser.wait("document.querySelector('#selection h2')?.innerText === 'gpu-0001'")
    assert "cell=gpu-0001" in where(browser)


def test_a_chosen_node_is_in_the_address(url: str, browser: Browser) -> None:
    show(browser, url, "?cell=gpu-0005")
    browser.wait("document.querySelector('#selection h2')?.innerText === 'gpu-0005'")


# -- what the server knows of itself ----------------------------------------------------------------------------


def test_a_silent_api_server_is_told_in_amber(browser: Browser) -> None:
    runtime = FixedRuntime()
    runtime.silent = 150.2
    with on_port(runtime, "packing") as url:  # type: ignore[arg-type]
        show(browser, url, "?view=groups")
        browser.wait("document.getElementById('connection').dataset.state === 'silent'")
        assert browser.text("#connection") == "API server silent for 150 s"
        amber = browser.run("getComputedStyle(document.querySelector('#connection .dot')).backgroundColor")
        assert amber == "rgb(138, 90, 0)"
        browser.open("about:blank")


@pytest.mark.slow
def test_a_long_reason_is_not_cut_off_in_a_narrow_window(browser: Browser) -> None:
    runtime = FixedRuntime()
    runtime.ready = Readiness(False, "pods have not been listed yet: " + "the API server answers 500, " * 12)
    browser.resize(400, 800)
    try:
        with on_port(runtime, "packing") as url:  # type: ignore[arg-type]
            show(browser, url, "?view=groups")
            browser.wait("document.getElementById('connection').dataset.state === 'unready'")
            fits = "(({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight + 1)"
            assert browser.run(f"{fits}(document.getElementById('connection'))")
            assert browser.run("document.documentElement.scrollWidth") <= 400
            browser.open("about:blank")
    finally:
        browser.resize(1400, 900)


def test_a_warning_to_operators_is_shown(browser: Browser) -> None:
    runtime = FixedRuntime()
    runtime.ready = Readiness(True, "settings were not taken into use")
    with on_port(runtime, "packing") as url:  # type: ignore[arg-type]
        show(browser, url, "?view=groups")
        browser.wait("document.getElementById('connection').dataset.state === 'warned'")
        assert browser.text("#connection") == "settings were not taken into use"
        browser.open("about:blank")


# -- strangers, and many ----------------------------------------------------------------------------------------


def test_names_are_text_in_every_view(browser: Browser) -> None:
    crowd = Crowd(pods=12, evil=EVIL)
    with crowded(crowd) as url:
        for query in (
            "?view=pods",
            "?view=groups",
            "?view=preemptions",
            "?colour=owner&tab=owners",
            f"?view=pods&find={EVIL}",
        ):
            show(browser, url, query)
            browser.wait("document.body.innerText.includes('onerror') || document.body.innerText.includes('No pod')")
        show(browser, url, "?view=pods")
        browser.wait("document.querySelector('#view-pods td a') !== null")
        browser.run("document.querySelector('#view-pods td a').click()")
        browser.wait("document.querySelector('#detail').innerText.includes('Story')")
        write(browser, "#find", "onerror")
        browser.wait("document.querySelectorAll('#results [role=option]').length > 3")

        assert browser.run("document.querySelectorAll('img').length") == 1
        assert browser.run("document.title") == "Waggle"
        browser.open("about:blank")


@pytest.mark.slow
def test_many_nodes_and_pods_are_a_bounded_page(browser: Browser) -> None:
    """5,000 nodes and 20,000 pods: the document has no more elements than with a fifth of them."""
    sizes = []
    for nodes, pods, namespaces in ((1000, 4000, 40), (5000, 20_000, 40)):
        crowd = Crowd(nodes=nodes, pods=pods, namespaces=namespaces)
        with crowded(crowd) as url:
            found = 0
            for view in ("", "?view=pods", "?view=groups"):
                show(browser, url, view)
                if view:
                    browser.wait("document.querySelectorAll('tbody tr').length === 50")
                found += browser.run("document.querySelectorAll('*').length")
            sizes.append(found)
            browser.open("about:blank")
    assert sizes[1] < 1.05 * sizes[0]

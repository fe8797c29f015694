"""The page's plans in a headless Chromium: a manifest goes in, a table and a graph come out, and nothing is run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from extender.embedded.apiserver.server import serve_in_thread
from extender.plan.showing.difference import NO_DIFFERENCE
from tests.integration.web.test_page_for_everybody import CUT_OFF, violations, width
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.cluster.plans import serving
from tests.support.http.browser import ABSENT, CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason=ABSENT)
__all__ = ["width"]

#: Two of these find room. The names of labels and gangs are those of somebody who means no good.
MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  completions: 3
  template:
    metadata: {annotations: {waggle.dev/expected-seconds: "60"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {requests: {cpu: "6"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: evil, annotations: {waggle.dev/gang: "<script>alert(1)</script><img src=x onerror=alert(2)>"}}
spec:
  containers: [{name: main, image: x, resources: {requests: {cpu: "1"}}}]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serve_in_thread() as cluster:
        for number in range(2):
            cluster.create(node(f"n{number}"))
        cluster.create(pod("old", requests={"cpu": "1"}, nodeName="n0"))
        cluster.create(pod("large", requests={"cpu": "999"}))
        with serving(cluster.url) as served:
            yield served.url


def look(browser: Browser, url: str) -> None:
    browser.open(f"{url}/ui?view=plan")
    browser.wait("waggle.stats().looks > 0 && !document.getElementById('view-plan').hidden")


def ask(browser: Browser, text: str, **fields: str) -> None:
    browser.run(f"document.getElementById('plan-text').value = {json.dumps(text)}")
    for name, value in fields.items():
        browser.run(f"document.getElementById('plan-{name}').value = {json.dumps(value)}")
    browser.run("document.querySelector('.plan-form').requestSubmit()")
    browser.wait("document.querySelector('.plan-buttons [role=status]').innerText.match(/planned|no plan/)")


def test_a_manifest_becomes_a_table_and_a_graph(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, MANIFEST)
    shown = browser.text(".plan-result")
    assert "2 will run, 3 will wait" in shown
    assert "Pod default/train-x1" in shown
    assert "Insufficient cpu" in shown or "cpu" in shown
    assert browser.run("document.querySelectorAll('.plan-graph svg rect').length") > 1
    assert browser.run("location.search") == "?view=plan", "what was typed does not stand in the address"


@pytest.mark.slow
def test_new_objects_come_before_others_that_wait(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, MANIFEST)
    objects = browser.run(
        "[...document.querySelectorAll('.plan-result tbody tr')].map((row) => row.cells[1].innerText)"
    )
    made = [("train" in each or "evil" in each) for each in objects]
    assert made == sorted(made, reverse=True)


def test_names_of_strangers_are_text(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, MANIFEST)
    assert browser.run("document.querySelectorAll('.plan-result script, .plan-result img, .plan-result a').length") == 0
    assert "<script>" in browser.text(".plan-result")
    hostile = (
        '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(2)</script><style>*{}</style>'
        '<a href="javascript:alert(3)"><text>x</text></a><rect fill="url(http://example.com/x)" width="3"/>'
        "<foreignObject><body/></foreignObject><text>kept</text></svg>"
    )
    drawn = browser.run(f"import('./ui/picture.js').then(({{ picture }}) => picture({json.dumps(hostile)}).outerHTML)")
    browser.complaints.clear()  # Chromium notes that the policy keeps an inline handler from being run
    assert drawn == '<svg><rect width="3"></rect><text>kept</text></svg>'


@pytest.mark.slow
def test_a_what_if_is_compared(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, MANIFEST, add_nodes="2", node_shape="cpu=8,memory=32Gi")
    shown = browser.text(".plan-result")
    assert "Against the same without these changes: 1 pod more would run, 0 fewer" in shown
    assert "new-node-0" in shown


def test_a_fault_is_said_where_it_is(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, "kind: Pod\n")
    assert "manifests, document 1" in browser.text(".plan-fault")
    browser.complaints.clear()  # Chromium notes that the answer was a 400


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_with_a_plan(server: str, browser: Browser, width: int, dark: bool) -> None:
    browser.dark(dark)
    look(browser, server)
    ask(browser, MANIFEST)
    browser.run("document.querySelector('.plan-form details').open = true")
    assert violations(browser) == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []


@pytest.mark.slow
def test_a_what_if_that_changes_nothing_is_told_in_the_words_of_the_command(server: str, browser: Browser) -> None:
    look(browser, server)
    ask(browser, MANIFEST, algorithm="packing")
    assert NO_DIFFERENCE in browser.text(".plan-result")

"""Plans over HTTP: what is answered, and what is refused."""

from __future__ import annotations

import re
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from extender.client import BadRequestError, SyncWaggle
from extender.server.plans.requests import LARGEST_BODY
from tests.support.apiserver.api import eventually
from tests.support.cluster.plans import PlanServer


def test_an_empty_request_says_what_waits_now(server: PlanServer) -> None:
    answer = server.ask({})
    assert answer.status_code == 200, answer.text
    plan = answer.json()["plan"]
    assert [(row["sign"], row["name"]) for row in plan["rows"]] == [("?", "giant")]
    assert plan["rows"][0]["code"] == "Unschedulable"
    assert plan["fingerprint"]
    assert plan["algorithm"] == "packing"


def test_manifests_are_planned(server: PlanServer) -> None:
    answer = server.ask(
        """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {requests: {cpu: "6"}}}]
"""
    )
    assert answer.status_code == 200, answer.text
    plan = answer.json()["plan"]
    found = {row["name"]: (row["sign"], row.get("node", "")) for row in plan["rows"]}
    assert found == {
        "train-x1": ("+", "n1"),
        "train-x2": ("+", "n2"),
        "train-x3": ("?", ""),
        "giant": ("?", ""),
    }


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 1
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: x, resources: {requests: {cpu: "6"}}}]}}
"""


@pytest.mark.parametrize(
    ("body", "field", "said"),
    [
        pytest.param(
            {"manifest": "x"},
            "manifest",
            "there is no such field; there are: manifests",
            marks=pytest.mark.slow,
        ),
        ({"manifests": "kind: Pod"}, "manifests", "manifests, document 1"),
        ({"settings": "algorithm: {settings_file: /etc/passwd}"}, None, "a plan reads no files"),
    ],
)
def test_a_wrong_request_is_refused_by_field(
    server: PlanServer, body: dict[str, Any], field: str | None, said: str
) -> None:
    answer = server.ask(body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field
    assert said in answer.json()["error"]
    assert "root:" not in answer.text


@pytest.mark.slow
def test_bodies_that_are_none(server: PlanServer) -> None:
    url = f"{server.url}/v1/plan"
    assert httpx.post(url, content=b"[", timeout=60).status_code == 400
    assert httpx.post(url, content=b" " * (LARGEST_BODY + 1)).status_code == 413
    assert httpx.post(f"{url}?fromat=svg", content=b"{}").status_code == 400
    assert httpx.get(url).status_code == 405


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "media", "begins"),
    [
        ("text", "text/plain", "+"),
        ("svg", "image/svg+xml", "<svg"),
        pytest.param("markdown", "text/markdown", "", marks=pytest.mark.slow),
        pytest.param("dot", "", "", marks=pytest.mark.slow),
    ],
)
def test_other_formats(server: PlanServer, form: str, media: str, begins: str) -> None:
    answer = server.ask(JOB, form=form)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(media)
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.startswith(begins)
    assert "train" in answer.text


@pytest.mark.slow
def test_pods_of_a_drained_node_are_known_in_full_and_made_again(server: PlanServer) -> None:
    answer = server.ask({"drain": ["n0"], "compare": True})
    assert answer.status_code == 200, answer.text
    rows = {row["name"]: row for row in answer.json()["plan"]["rows"]}
    assert rows["old"]["sign"] == "-", "nothing made it, so nothing makes it again"
    assert answer.json()["difference"]["pods_fewer"] == 1


@pytest.mark.slow
def test_settings_of_another_kind_are_tried(server: PlanServer) -> None:
    hived = server.ask({"algorithm": "hived"})
    assert hived.status_code in (200, 400), hived.text
    spread = server.ask({"settings": "algorithm: {name: packing, settings: {strategy: spread}}", "manifests": JOB})
    assert spread.status_code == 200, spread.text


def test_what_plans_did_is_counted(server: PlanServer) -> None:
    shown = httpx.get(f"{server.url}/metrics").text
    assert 'waggle_plans_total{outcome="waits"}' in shown
    assert "waggle_plan_seconds_total" in shown
    hold = re.search(r"^waggle_plan_longest_hold_seconds (\S+)", shown, re.MULTILINE)
    assert hold is not None
    assert float(hold[1]) < 0.5


def test_a_caller_that_disconnects_ends_its_plan(server: PlanServer) -> None:
    server.plan()  # from here on its turn comes soon
    before = server.plans._counts.outcomes["cancelled"]
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as caller:
        caller.sendall(b"POST /v1/plan HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        eventually(lambda: any(child._process for child in server.plans._running))
    eventually(lambda: server.plans._counts.outcomes["cancelled"] == before + 1)
    assert not server.plans._running


@pytest.mark.slow
def test_the_client_library(server: PlanServer) -> None:
    with SyncWaggle(server.url) as waggle:
        plan = waggle.plan(JOB, changes={"cordon": ["n1"]})
        assert {row.name: (row.sign, row.node) for row in plan.rows}["train-x1"] == ("+", "n2")
        assert not plan.is_clean
        with pytest.raises(BadRequestError) as caught:
            waggle.plan("kind: Pod")
    assert caught.value.field == "manifests"

"""Every request that a real kube-scheduler 1.36 was captured with, against the whole server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world
from tests.support.http.fixed_runtime import CAPTURES, capture

ALL = sorted(path.stem for path in CAPTURES.glob("*.raw"))
FILTERS = [name for name in ALL if name.startswith("filter")]
#: What the API server fills in by itself, or does not take from a client.
_SERVER_SIDE = ("priority", "priorityClassName", "preemptionPolicy", "nodeName", "serviceAccountName", "serviceAccount")


def offered(sent: Any) -> list[str]:
    names = sent["NodeNames"]
    return names if names is not None else [item["metadata"]["name"] for item in sent["Nodes"]["items"]]


def create(w: LocalCluster, pod: Any) -> None:
    """Creates the captured pod in our cluster; it gets the UID and the version that it has there."""
    kept = ("name", "namespace", "labels", "annotations")
    metadata = {key: value for key, value in pod["metadata"].items() if key in kept}
    spec = {key: value for key, value in pod["spec"].items() if key not in _SERVER_SIDE}
    made = w.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    pod["metadata"] |= {key: made["metadata"][key] for key in ("uid", "resourceVersion")}


@pytest.mark.parametrize("captured", FILTERS)
def test_a_captured_pod_is_placed_and_bound(captured: str):
    sent = json.loads(capture(captured))
    with world() as w:
        for name in offered(sent):
            w.node(name)
        pod = sent["Pod"]["metadata"]
        create(w, sent["Pod"])

        answer = w.post("filter", sent)

        passed = answer["NodeNames"] or [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        assert len(passed) == 1, answer
        assert w.bind(pod["name"], passed[0]) == ""
        assert w.node_of(pod["name"]) == passed[0]


@pytest.mark.parametrize("captured", FILTERS)
def test_a_captured_pod_that_our_cluster_does_not_have_is_never_bound(captured: str):
    sent = json.loads(capture(captured))
    with world(holds={"lease_seconds": 0.3}) as w:
        for name in offered(sent):
            w.node(name)
        pod = sent["Pod"]["metadata"]
        answer = w.post("filter", capture(captured))
        passed = answer["NodeNames"] or [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        revision = w.cluster.revision

        assert "deleted" in w.bind(pod["name"], passed[0], PodUID=pod["uid"])
        assert w.cluster.revision == revision
        w.until(lambda: not w.waggle.pod_infos())


@pytest.mark.parametrize("captured", ALL)
def test_a_captured_request_is_answered_in_an_empty_cluster(captured: str):
    with world(holds={"lease_seconds": 0.3}) as w:
        answer = w.post(captured.partition("-")[0], capture(captured))

        assert answer is not None
        w.until(lambda: not w.waggle.pod_infos())
        assert w.books.bindings == []


def test_the_captured_second_attempt_gets_the_text_of_the_first():
    second = json.loads(capture("filter-second-attempt-with-condition"))
    with world() as w:
        for name in offered(second):
            w.node(name, cpu="50m")
        create(w, second["Pod"])
        first = second | {"Pod": second["Pod"] | {"status": {"phase": "Pending"}}}

        answers = [w.post("filter", body) for body in (first, second)]

        assert answers[0] == answers[1]
        assert not answers[0]["NodeNames"]


@pytest.mark.parametrize("captured", ["preempt-meta-victims", "preempt-victims"])
def test_a_captured_preemption_names_victims_that_run_here(captured: str):
    sent = json.loads(capture(captured))
    key = "NodeNameToMetaVictims" if sent["NodeNameToMetaVictims"] is not None else "NodeNameToVictims"
    with world() as w:
        for node in sent[key]:
            w.node(node, cpu="2")
            w.pod(f"low-{node}", cpu="2", nodeName=node)
        w.until(lambda: len(w.waggle.pod_infos()) == len(sent[key]))
        hi = sent["Pod"]
        w.pod(hi["metadata"]["name"], cpu="1500m", priority=hi["spec"]["priority"])
        sent["Pod"] = w.get(hi["metadata"]["name"])
        uids = {node: w.uid(f"low-{node}") for node in sent[key]}
        meta = {node: {"Pods": [{"UID": uid}], "NumPDBViolations": 0} for node, uid in uids.items()}

        answer = w.post("preempt", sent | {"NodeNameToVictims": None, "NodeNameToMetaVictims": meta})

        [(node, victims)] = answer["NodeNameToMetaVictims"].items()
        assert [victim["UID"] for victim in victims["Pods"]] == [uids[node]]
        w.cluster.delete("pods", f"low-{node}", grace_period_seconds=0)
        w.place(hi["metadata"]["name"])

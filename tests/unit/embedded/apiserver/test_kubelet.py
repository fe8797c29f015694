from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import Api, eventually
from tests.support.apiserver.cluster_objects import node, pod


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(stop_delay=0.05) as cluster:
        cluster.apply(node("n1"))
        yield cluster


def phase(cluster: EmbeddedCluster, name: str) -> str:
    found = cluster.get("pods", name)
    return found["status"]["phase"] if found else "Gone"


def test_a_node_becomes_ready_unless_it_says_otherwise(cluster: EmbeddedCluster) -> None:
    sick = node("sick")
    sick["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    cluster.apply(sick)
    eventually(lambda: "conditions" in cluster.get("nodes", "n1")["status"])
    cluster.apply(node("well"))
    eventually(lambda: cluster.get("nodes", "well")["status"].get("conditions"))
    states = {each["metadata"]["name"]: each["status"]["conditions"][0]["status"] for each in cluster.objects("nodes")}
    assert states == {"n1": "True", "sick": "False", "well": "True"}


def test_a_bound_pod_runs_with_an_address_of_its_own(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("runs", nodeName="n1"))
    cluster.apply(pod("runs-too", nodeName="n1"))
    eventually(lambda: phase(cluster, "runs") == phase(cluster, "runs-too") == "Running")
    first, second = (cluster.get("pods", name)["status"] for name in ("runs", "runs-too"))
    assert first["podIP"] != second["podIP"]
    assert {each["type"]: each["status"] for each in first["conditions"]}["Ready"] == "True"
    assert first["containerStatuses"][0]["ready"] is True


def test_an_unbound_pod_does_not_run(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("unbound"))
    cluster.apply(pod("bound", nodeName="n1"))
    eventually(lambda: phase(cluster, "bound") == "Running")
    assert phase(cluster, "unbound") == "Pending"


def test_a_pod_waits_for_its_node_to_exist(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("early", nodeName="late-node"))
    cluster.apply(pod("other", nodeName="n1"))
    eventually(lambda: phase(cluster, "other") == "Running")
    assert phase(cluster, "early") == "Pending"
    cluster.apply(node("late-node"))
    eventually(lambda: phase(cluster, "early") == "Running")


def test_a_pod_may_run_for_a_time_and_succeed(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("job", nodeName="n1", annotations={"waggle.dev/run-seconds": "0.05"}))
    eventually(lambda: phase(cluster, "job") == "Succeeded")
    conditions = {each["type"]: each["status"] for each in cluster.get("pods", "job")["status"]["conditions"]}
    assert conditions["Ready"] == "False"


def test_a_run_time_that_is_no_number_means_for_ever(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("odd", nodeName="n1", annotations={"waggle.dev/run-seconds": "soon"}))
    eventually(lambda: phase(cluster, "odd") == "Running")


def test_a_graceful_deletion_finishes(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("leaves", nodeName="n1"))
    eventually(lambda: phase(cluster, "leaves") == "Running")
    api = Api(cluster.url)
    try:
        assert "deletionTimestamp" in api.delete("pods/leaves").json()["metadata"]
    finally:
        api.close()
    eventually(lambda: phase(cluster, "leaves") == "Gone")


def test_a_deletion_finishes_on_a_node_that_does_not_exist(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("lost", nodeName="nowhere"))
    cluster.delete("pods", "lost")
    eventually(lambda: phase(cluster, "lost") == "Gone")


def test_a_stopped_pod_with_finalizers_stays_until_they_are_gone(cluster: EmbeddedCluster) -> None:
    cluster.apply(pod("held", nodeName="n1", finalizers=["waggle.dev/test"]))
    cluster.delete("pods", "held")
    eventually(lambda: cluster.get("pods", "held")["metadata"]["deletionGracePeriodSeconds"] == 0)
    cluster.patch("pods", "held", {"metadata": {"finalizers": None}})
    assert phase(cluster, "held") == "Gone"

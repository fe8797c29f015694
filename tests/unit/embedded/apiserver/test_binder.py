"""Pods get nodes where no kube-scheduler runs."""

from __future__ import annotations

from collections import Counter

from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod


def nodes_of(cluster: EmbeddedCluster) -> list[str]:
    return [each["spec"].get("nodeName", "") for each in cluster.objects("pods")]


def test_pods_of_one_owner_are_spread_over_nodes_that_serve() -> None:
    with serve_in_thread(binds=True) as cluster:
        for name in ("n1", "n2", "n3"):
            cluster.apply(node(name))
        cluster.patch("nodes", "n3", {"spec": {"unschedulable": True}})
        cluster.create(pod("alone", nodeName="n1"))
        labels = {"app": "a"}
        template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
        spec = {"replicas": 4, "selector": {"matchLabels": labels}, "template": template}
        spec["podManagementPolicy"] = "Parallel"
        cluster.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec})
        eventually(lambda: Counter(nodes_of(cluster)) == {"n1": 3, "n2": 2})


def test_a_pod_waits_for_a_node() -> None:
    with serve_in_thread(binds=True) as cluster:
        cluster.create(pod("early"))
        assert nodes_of(cluster) == [""]
        cluster.apply(node("n1"))
        eventually(lambda: nodes_of(cluster) == ["n1"])


def test_a_pod_with_a_gate_waits_until_that_is_gone() -> None:
    with serve_in_thread(binds=True) as cluster:
        cluster.apply(node("n1"))
        cluster.create(pod("gated", schedulingGates=[{"name": "test/gate"}]))
        cluster.create(pod("plain"))
        eventually(lambda: sorted(nodes_of(cluster)) == ["", "n1"])
        cluster.patch("pods", "gated", {"spec": {"schedulingGates": None}})
        eventually(lambda: nodes_of(cluster) == ["n1", "n1"])

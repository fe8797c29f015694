"""The label that a Service selects: on the pod that leads, on no other, whatever fails in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.kube.client.kubeconfig import connect
from extender.server.leader_label import LABEL, LeaderLabeler
from extender.server.service import Service
from extender.settings import ClusterSettings, LeaderElectionSettings, Settings, SettingsError
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import pod


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as cluster:
        yield cluster


@pytest.fixture
def cluster(server: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """Three pods: a and b run replicas, c is somebody else's."""
    for name in "abc":
        server.create(pod(name))
    yield server
    for name in "abc":
        server.delete("pods", name)
    eventually(lambda: not server.objects("pods"))


def labelled(cluster: EmbeddedCluster) -> dict[str, str]:
    """The value of the label by pod."""
    pods = [item["metadata"] for item in cluster.objects("pods")]
    return {meta["name"]: meta["labels"][LABEL] for meta in pods if LABEL in meta.get("labels", {})}


class Replica:
    def __init__(self, cluster: EmbeddedCluster, name: str, value: str = "waggle") -> None:
        self.leads = False
        self._api = connect(ClusterSettings(server=cluster.url))
        self._leader_labeler = LeaderLabeler(
            self._api, namespace="default", pod=name, value=value, leads=lambda: self.leads
        )
        self._leader_labeler.start()

    def lead(self, leads: bool) -> None:
        self.leads = leads
        self._leader_labeler.look()

    def stop(self) -> None:
        self._leader_labeler.stop()
        self._api.close()


@pytest.fixture
def start(cluster: EmbeddedCluster) -> Iterator[Callable[..., Replica]]:
    made: list[Replica] = []

    def one(name: str, value: str = "waggle") -> Replica:
        made.append(Replica(cluster, name, value))
        return made[-1]

    yield one
    for replica in made:
        replica.stop()


def test_the_leader_has_the_label_and_who_follows_it_takes_it_over(cluster: EmbeddedCluster, start) -> None:
    a, b = start("a"), start("b")
    a.lead(True)
    eventually(lambda: labelled(cluster) == {"a": "waggle"})
    a.lead(False)
    eventually(lambda: labelled(cluster) == {})
    b.lead(True)
    eventually(lambda: labelled(cluster) == {"b": "waggle"})


def test_a_leader_that_died_with_its_node_loses_the_label_to_the_next(cluster: EmbeddedCluster, start) -> None:
    dead = start("a")
    dead.lead(True)
    eventually(lambda: labelled(cluster) == {"a": "waggle"})
    dead.stop()
    start("b").lead(True)
    eventually(lambda: labelled(cluster) == {"b": "waggle"})


def test_a_container_that_is_restarted_takes_the_label_of_its_former_life_away(cluster: EmbeddedCluster, start) -> None:
    cluster.patch("pods", "a", {"metadata": {"labels": {LABEL: "waggle"}}})
    start("a")
    eventually(lambda: labelled(cluster) == {})


def test_what_fails_is_tried_again(cluster: EmbeddedCluster, start) -> None:
    fault = cluster.faults.inject("status", status=500, method="PATCH", path="/pods/a$", times=1)
    a = start("a")
    eventually(lambda: cluster.faults.fired(fault))
    a.lead(True)
    eventually(lambda: labelled(cluster) == {"a": "waggle"})


def test_a_label_that_a_former_leader_wrote_too_late_is_taken_away(cluster: EmbeddedCluster, start) -> None:
    b = start("b")
    b.lead(True)
    eventually(lambda: labelled(cluster) == {"b": "waggle"})
    cluster.patch("pods", "a", {"metadata": {"labels": {LABEL: "waggle"}}})
    b.lead(True)
    eventually(lambda: labelled(cluster) == {"b": "waggle"})


def test_servers_for_different_pods_leave_each_other_alone(cluster: EmbeddedCluster, start) -> None:
    start("a").lead(True)
    start("b", "other").lead(True)
    eventually(lambda: labelled(cluster) == {"a": "waggle", "b": "other"})


def test_the_replica_that_serves_is_the_one_with_the_label(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", "a")
    election = LeaderElectionSettings(
        enabled=True, label_pod=True, lease_seconds=2, renew_deadline_seconds=1.5, retry_seconds=0.3
    )
    service = Service(Settings(cluster=ClusterSettings(server=cluster.url), leader_election=election))
    try:
        service.start()
        eventually(lambda: service.runtime.informed().ready)
        eventually(lambda: labelled(cluster) == {"a": "waggle"})
        assert service.runtime.readiness().ready
    finally:
        service.stop()


def test_a_replica_that_does_not_know_its_pod_says_so(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POD_NAME", raising=False)
    election = LeaderElectionSettings(enabled=True, label_pod=True)
    with pytest.raises(SettingsError, match=r"leader_election\.label_pod: .* POD_NAME"):
        Service(Settings(cluster=ClusterSettings(server=cluster.url), leader_election=election))

"""The servers that claims are shared among, by a Lease each at an API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extender.claims.events import MembersSeen
from extender.embedded.apiserver import EmbeddedCluster, serve_in_thread
from extender.kube.client.kubeconfig import connect
from extender.server.claims.members import Membership
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Replica:
    """One server, with what it was told."""

    def __init__(self, cluster: EmbeddedCluster, me: str, group: str = "waggle") -> None:
        self.api = connect(ClusterSettings(server=cluster.url))
        self.clock = Clock()
        self.told: list[MembersSeen] = []
        self.membership = Membership(
            self.api, namespace="default", group=group, me=me, tell=self.told.append, clock=self.clock, renew=3600
        )
        self.membership.start()
        eventually(lambda: self.told)

    def sees(self, *names: str) -> None:
        """It is told of these servers at its next look."""

        def seen() -> bool:
            self.membership.look()
            return self.told[-1].names == names

        eventually(seen)

    def stop(self) -> None:
        self.membership.stop()
        self.api.close()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with serve_in_thread() as made:
        yield made


def test_servers_of_one_group_see_each_other_until_one_leaves(cluster: EmbeddedCluster) -> None:
    one, two, other = Replica(cluster, "a"), Replica(cluster, "b"), Replica(cluster, "c", group="another")
    one.sees("a", "b")
    two.sees("a", "b")
    other.sees("c")
    assert one.told[-1].me == "a"
    two.stop()
    one.sees("a")
    one.stop()
    other.stop()
    assert cluster.objects("leases") == []


def test_a_server_that_stops_renewing_counts_no_more_by_the_clock_of_the_others(cluster: EmbeddedCluster) -> None:
    one, two = Replica(cluster, "a"), Replica(cluster, "b")
    one.sees("a", "b")
    one.clock.now += 14.9
    one.sees("a", "b")
    one.clock.now += 0.2
    one.sees("a")
    two.membership.look()
    one.sees("a", "b")
    one.clock.now += 601
    one.sees("a")
    eventually(lambda: [each["metadata"]["name"] for each in cluster.objects("leases")] == ["a"])
    one.stop()
    two.stop()


def test_a_server_that_may_not_write_leases_is_alone_after_a_while(cluster: EmbeddedCluster) -> None:
    one, two = Replica(cluster, "a"), Replica(cluster, "b")
    one.sees("a", "b")
    cluster.faults.inject("status", status=403, path="/leases", times=None)
    one.membership.look()
    eventually(lambda: one.membership.trouble)
    assert "403" in one.membership.trouble
    assert one.told[-1].names == ("a", "b")
    one.clock.now += 15
    one.sees()
    cluster.faults.clear()
    two.membership.look()
    one.sees("a", "b")
    assert one.membership.trouble == ""
    one.stop()
    two.stop()

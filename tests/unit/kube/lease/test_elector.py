"""The elector's thread against the embedded API server: one leads, another takes over, and every fault is survived."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extender.embedded.apiserver.server import EmbeddedCluster, serve_in_thread
from extender.kube.client.kubeconfig import connect
from extender.kube.lease.election import LeaseTiming
from extender.kube.lease.elector import Elector, LeaderStatus, no_fence, record_of, unique_identity
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually

TIMING = LeaseTiming(lease=1.0, renew_deadline=0.8, retry=0.1)
PATH = "/leases"


#: So that nobody waits for a whole lease at the start.
RELEASED = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "waggle", "namespace": "default"},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "2026-01-01T00:00:00.000000Z"},
}


class Replica:
    def __init__(self, url: str, name: str, timing: LeaseTiming = TIMING) -> None:
        self.api = connect(ClusterSettings(server=url))
        self.told: list[LeaderStatus] = []
        self.elector = Elector(
            self.api, namespace="default", name="waggle", identity=name, changed=self.told.append, timing=timing
        )
        self.elector.start()

    @property
    def term(self) -> int:
        term = self.elector.status.term
        return term if term and self.elector.remaining(term) > 0 else 0

    def stop(self) -> None:
        self.elector.stop()
        self.api.close()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedCluster]:
    with serve_in_thread(kubelet=False) as cluster:
        yield cluster


@pytest.fixture
def replica(server: EmbeddedCluster) -> Iterator[Callable[..., Replica]]:
    made: list[Replica] = []
    server.create(RELEASED)

    def make(name: str, **more: Any) -> Replica:
        made.append(Replica(server.url, name, **more))
        return made[-1]

    yield make
    server.faults.clear()
    for one in made:
        one.stop()
    if server.get("leases", "waggle") is not None:
        server.delete("leases", "waggle")


def spec(server: EmbeddedCluster) -> dict[str, Any]:
    return server.get("leases", "waggle")["spec"]


def test_one_replica_makes_the_lease_waits_and_leads(server: EmbeddedCluster, replica: Any) -> None:
    server.delete("leases", "waggle")
    a = replica("a")
    eventually(lambda: a.term)
    said = spec(server)
    assert (said["holderIdentity"], said["leaseTransitions"], said["leaseDurationSeconds"]) == ("a", 1, 1)
    eventually(lambda: [s.term for s in a.told if s.term] == [1])


def test_a_second_replica_waits_and_knows_who_leads(replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    b = replica("b")
    eventually(lambda: b.elector.status.holder == "a")
    assert b.elector.status == LeaderStatus(0, "a", "")
    assert b.elector.remaining(1) == 0


def test_a_stop_releases_and_the_next_term_begins_elsewhere(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    b = replica("b")
    eventually(lambda: b.elector.status.holder == "a")
    a.stop()
    assert a.elector.remaining(1) == 0
    eventually(lambda: b.term == 2)
    assert spec(server)["holderIdentity"] == "b"


def test_a_note_reaches_the_next_leader_and_nobody_later(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    a.elector.stop(note="all is well")
    b = replica("b")
    eventually(lambda: b.term)
    assert b.elector.status.note == "all is well"
    assert not server.get("leases", "waggle")["metadata"].get("annotations")
    b.stop()
    c = replica("c")
    eventually(lambda: c.term)
    assert c.elector.status.note == ""


def test_without_a_follower_the_released_lease_is_empty(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    a.stop()
    assert record_of(spec(server)).released


def test_a_leader_whose_renewals_fail_ends_and_comes_back_in_a_new_term(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    server.faults.inject("status", path=PATH, status=500, times=None)
    eventually(lambda: not a.term)
    assert a.elector.remaining(1) == 0
    assert "500" in eventually(lambda: a.elector.status.trouble)
    server.faults.clear()
    eventually(lambda: a.term == 2)


def test_a_renewal_that_was_done_but_not_answered_is_read_back(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    fault = server.faults.inject("drop-after", method="PUT", path=PATH, times=2)
    eventually(lambda: server.faults.fired(fault) == 2)
    eventually(lambda: a.elector.remaining(1) > 0.6)
    assert a.term == 1


def test_calls_that_hang_do_not_outlast_the_deadline(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    server.faults.inject("delay", path=PATH, seconds=20, times=None)
    eventually(lambda: a.told[-1].term == 0)


def test_a_lease_deleted_by_hand_is_made_again_within_the_same_term(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    server.delete("leases", "waggle")
    eventually(lambda: any(lease["spec"].get("holderIdentity") == "a" for lease in server.objects("leases")))
    assert a.term == 1


def test_labels_that_others_put_on_it_stay(server: EmbeddedCluster, replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    server.apply({**lease, "metadata": {"name": "waggle", "namespace": "default", "labels": {"team": "x"}}})
    before = spec(server)["renewTime"]
    eventually(lambda: spec(server)["renewTime"] > before)
    assert server.get("leases", "waggle")["metadata"]["labels"] == {"team": "x"}


def test_a_listener_that_fails_does_not_end_the_election(server: EmbeddedCluster) -> None:
    def fail(_standing: LeaderStatus) -> None:
        raise RuntimeError("listener")

    api = connect(ClusterSettings(server=server.url))
    elector = Elector(api, namespace="default", name="other", identity="a", changed=fail, timing=TIMING)
    elector.start()
    eventually(lambda: elector.status.term)
    elector.stop()
    api.close()


def test_many_threads_may_ask_for_the_fence_and_over_stays_over(replica: Any) -> None:
    a = replica("a")
    eventually(lambda: a.term)
    ended = threading.Event()
    wrong: list[float] = []

    def ask() -> None:
        while not ended.is_set():
            if a.elector.remaining(1) == 0:
                wrong.append(a.elector.remaining(1))
                return
            ended.wait(0.001)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    a.stop()
    for thread in threads:
        thread.join()
    assert wrong == [0, 0, 0]


@pytest.mark.parametrize(
    ("spoilt", "holder", "term", "duration"),
    [
        (None, "", 0, 0),
        ("text", "", 0, 0),
        ({}, "", 0, 0),
        ({"holderIdentity": 5, "leaseTransitions": -3, "leaseDurationSeconds": "x"}, "", 0, 0),
        ({"holderIdentity": "a", "leaseTransitions": True, "leaseDurationSeconds": 1.5}, "a", 0, 0),
        ({"holderIdentity": "a", "leaseTransitions": 7, "leaseDurationSeconds": 15}, "a", 7, 15),
    ],
)
def test_what_is_wrong_in_a_lease_counts_as_not_said(spoilt: Any, holder: str, term: int, duration: float) -> None:
    record = record_of(spoilt)
    assert (record.holder, record.term, record.duration, record.released) == (holder, term, duration, False)


def test_an_empty_holder_alone_is_no_release() -> None:
    assert not record_of({"holderIdentity": "", "leaseDurationSeconds": 10, "renewTime": "x"}).released
    assert record_of({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": "x"}).released


def test_no_two_processes_have_the_same_identity() -> None:
    assert unique_identity("me") != unique_identity("me")
    assert unique_identity("me").startswith("me_")


def test_without_an_election_a_term_never_ends() -> None:
    assert no_fence(0) == float("inf")


@pytest.mark.parametrize("number", [2**31 - 1, 2**62, 2**30 + 1])
def test_a_term_that_leaves_no_room_for_later_ones_is_not_believed(number: int) -> None:
    """The API server's number has 32 bits: one answer with the last of them, and no term could ever follow."""
    record = record_of({"holderIdentity": "a", "leaseTransitions": number, "leaseDurationSeconds": 15})
    assert (record.term, record.duration) == (0, 15.0)

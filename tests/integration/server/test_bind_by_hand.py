"""POST /bind by somebody who is not kube-scheduler: only what was proposed is bound, anything else changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world


@pytest.fixture
def w() -> Iterator[LocalCluster]:
    with world(nodes=2) as made:
        yield made


def test_what_was_never_proposed_is_refused(w: LocalCluster):
    w.pod("p")
    w.until(w.waggle.pod_infos)
    revision = w.cluster.revision

    assert "never proposed for n0" in w.bind("p", "n0")
    assert w.cluster.revision == revision


def test_another_node_than_the_proposed_one_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")
    other = {"n0": "n1", "n1": "n0"}[node]
    revision = w.cluster.revision

    assert f"proposed for {node}, not for {other}" in w.bind("p", other)
    assert w.cluster.revision == revision
    assert w.bind("p", node) == ""


def test_another_uid_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")
    revision = w.cluster.revision

    assert "UID" in w.bind("p", node, PodUID="somebody-else")
    assert w.cluster.revision == revision
    assert w.bind("p", node) == ""


def test_a_missing_uid_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")
    revision = w.cluster.revision

    answer = w.post("bind", {"PodName": "p", "PodNamespace": "default", "PodUID": "", "Node": node})

    assert "PodUID" in answer["Error"]
    assert w.cluster.revision == revision
    assert w.bind("p", node) == ""


def test_another_name_under_the_right_uid_is_refused(w: LocalCluster):
    w.pod("p")
    w.pod("q")
    node = w.propose("p")
    revision = w.cluster.revision

    assert "belongs to default/p" in w.bind("q", node, PodUID=w.uid("p"))
    assert w.cluster.revision == revision
    assert w.bind("p", node) == ""


def test_a_pod_that_does_not_exist_is_refused(w: LocalCluster):
    revision = w.cluster.revision

    assert "never proposed" in w.bind("nobody", "n0", PodUID="no-such-uid")
    assert w.cluster.revision == revision


def test_a_node_that_does_not_exist_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")

    assert "not for nowhere" in w.bind("p", "nowhere")
    assert w.bind("p", node) == ""


def test_a_second_bind_to_the_same_node_is_fine_and_writes_nothing(w: LocalCluster):
    w.pod("p")
    node = w.propose("p")
    assert w.bind("p", node) == ""
    w.until(lambda: [e.state for e in w.waggle.pod_infos()] == ["Bound"])

    assert w.bind("p", node) == ""
    # The informer may have seen it bound, and answered, before the write's own answer was heard.
    w.until(lambda: w.waggle.counted("binds") == {"done": 1})


def test_a_second_bind_to_another_node_is_refused(w: LocalCluster):
    w.pod("p")
    node = w.place("p")
    w.until(lambda: [e.state for e in w.waggle.pod_infos()] == ["Bound"])

    assert f"already bound to {node}" in w.bind("p", {"n0": "n1", "n1": "n0"}[node])


def test_a_pod_deleted_after_the_proposal_is_refused(w: LocalCluster):
    w.pod("p")
    node, uid = w.propose("p"), w.uid("p")
    w.cluster.delete("pods", "p", grace_period_seconds=0)

    assert "deleted" in w.bind("p", node, PodUID=uid) or "never proposed" in w.bind("p", node, PodUID=uid)
    w.until(lambda: not w.waggle.pod_infos())


def test_a_namesake_of_a_proposed_pod_is_not_bound_in_its_place(w: LocalCluster):
    w.pod("p")
    node, old = w.propose("p"), w.uid("p")
    w.cluster.delete("pods", "p", grace_period_seconds=0)
    new = w.pod("p")
    w.until(lambda: [e.uid for e in w.waggle.pod_infos()] == [new])

    assert w.bind("p", node, PodUID=old)
    assert w.bind("p", node, PodUID=new)
    assert not w.node_of("p")

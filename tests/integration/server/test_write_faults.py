"""The API server fails while bindings are written: whatever it does, every pod ends bound exactly once, or waits.

The test plays kube-scheduler, so that every answer can be looked at; `world` checks the rest at its end.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.local_cluster import LocalCluster, world

BINDING = {"method": "POST", "path": "/binding$"}


@pytest.fixture
def w() -> Iterator[LocalCluster]:
    with world(nodes=2, cluster={"request_timeout_seconds": 5}) as made:
        made.pod("p")
        yield made


def test_a_binding_whose_answer_is_lost_is_found_and_confirmed(w: LocalCluster):
    w.faults.inject("drop-after", **BINDING)
    node = w.propose("p")

    assert w.bind("p", node) == ""
    assert w.node_of("p") == node


def test_a_binding_that_never_arrived_is_written_by_the_next_try(w: LocalCluster):
    w.faults.inject("drop-before", **BINDING)
    node = w.propose("p")

    assert "not known yet" in w.bind("p", node)
    assert w.propose("p") == node, "the place is kept: the write may yet arrive"
    assert w.bind("p", node) == ""


def test_a_bind_while_the_outcome_of_the_first_is_unknown_gets_that_outcome(w: LocalCluster):
    stop_hearing_of_pods(w)
    w.faults.inject("drop-after", **BINDING)
    w.faults.inject("status", method="GET", path="/pods/p$", status=500)
    node = w.propose("p")

    assert "not known yet" in w.bind("p", node), "neither the write nor the read was answered"
    assert w.bind("p", node) == ""
    assert w.waggle.counted("binds") == {"unknown": 1}, "nothing was written a second time"


def test_a_binding_that_a_lagging_replica_does_not_show_is_not_written_off():
    with world(nodes=2, apiserver={"start_delay": 60.0}) as w:
        w.pod("p")
        stop_hearing_of_pods(w)
        w.faults.inject("drop-after", **BINDING)
        w.faults.inject("stale", behind=1, method="GET", path="/pods/p$")
        node = w.propose("p")

        assert "not known yet" in w.bind("p", node)
        assert w.bind("p", node) == ""


def test_a_conflict_with_a_binding_to_the_same_node_is_success(w: LocalCluster):
    """As after a restart: our own earlier write arrived, and nobody has told us yet."""
    stop_hearing_of_pods(w)
    node = w.propose("p")
    _bind_directly(w, "p", node)

    assert w.bind("p", node) == ""
    assert w.waggle.counted("binds") == {"lost": 1}


def test_a_conflict_with_somebody_else_is_told_to_kube_scheduler(w: LocalCluster):
    node = w.propose("p")
    other = {"n0": "n1", "n1": "n0"}[node]
    w.bound_by_others.add("p")
    stop_hearing_of_pods(w)
    _bind_directly(w, "p", other)

    assert f"bound to {other} by somebody else" in w.bind("p", node)
    w.until(lambda: [(e.state, e.node) for e in w.waggle.pod_infos()] == [("Bound", other)])


def test_429_is_waited_for_as_long_as_the_api_server_says(w: LocalCluster):
    w.faults.inject("status", status=429, headers={"Retry-After": "1"}, **BINDING)
    node = w.propose("p")

    assert w.bind("p", node) == ""


def test_429_without_end_is_told_and_the_place_is_kept(w: LocalCluster):
    w.faults.inject("status", status=429, headers={"Retry-After": "3"}, times=None, **BINDING)
    node = w.propose("p")

    assert "cannot take the bind now" in w.bind("p", node)
    assert w.propose("p") == node
    w.faults.clear()
    w.until(lambda: w.bind("p", node) == "")


def test_while_the_api_server_wants_patience_no_binding_is_sent(w: LocalCluster):
    w.pod("q")
    refuses = w.faults.inject("status", status=429, headers={"Retry-After": "3"}, times=None, **BINDING)
    nodes = {name: w.propose(name) for name in "pq"}
    w.bind("p", nodes["p"])

    assert "cannot take the bind now" in w.bind("q", nodes["q"])
    assert w.faults.fired(refuses) == 1
    w.faults.clear()
    for name, node in nodes.items():
        w.until(lambda name=name, node=node: w.bind(name, node) == "")


def test_500_before_the_write_is_read_back_and_tried_again(w: LocalCluster):
    w.faults.inject("status", status=500, **BINDING)
    node = w.propose("p")

    assert "not known yet" in w.bind("p", node)
    assert w.place("p") == node


def test_403_frees_the_place_and_says_why(w: LocalCluster):
    w.faults.inject("status", status=403, message="no binding for you", **BINDING)
    node = w.propose("p")

    assert "no binding for you" in w.bind("p", node)
    assert w.waggle.holds() == {}
    w.until(lambda: [e for e in w.cluster.objects("events") if e["reason"] == "BindRejected"])
    explained = w.waggle.client.get("/v1/explain/default/p").json
    assert (explained["pod"]["state"], explained["reason"]["code"]) == ("Waiting", "BindRejected")
    w.place("p")


def test_a_refused_binding_makes_room_for_others():
    with world(nodes=1) as w:
        w.pod("p", cpu="4")
        w.pod("q", cpu="4")
        w.faults.inject("status", status=403, **BINDING)
        node = w.propose("p")
        assert not w.filter("q")["NodeNames"]
        w.bind("p", node)

        w.until(lambda: "q" in w.books.nudged)
        assert w.place("q") == node


def test_an_api_server_slower_than_the_request_timeout_binds_once():
    with world(nodes=2, cluster={"request_timeout_seconds": 0.3}) as w:
        w.pod("p")
        w.faults.inject("delay", seconds=1.0, **BINDING)
        node = w.propose("p")

        w.bind("p", node)

        w.place("p")
        w.until(lambda: [e.state for e in w.waggle.pod_infos()] == ["Bound"])
        w.until(lambda: w.faults.fired() == 1)
        assert w.books.binding_of("p") == [node]


def test_a_binding_that_arrives_after_its_timeout_is_not_doubled():
    with world(nodes=2, cluster={"request_timeout_seconds": 0.3}) as w:
        w.pod("p")
        w.faults.inject("delay", seconds=1.0, **BINDING)
        node = w.propose("p")
        assert "not known yet" in w.bind("p", node)

        assert w.filter("p", [{"n0": "n1", "n1": "n0"}[node]])["NodeNames"] in ([], [{"n0": "n1", "n1": "n0"}[node]])
        w.until(lambda: w.node_of("p"))


def test_room_that_a_late_binding_may_still_take_is_not_given_away():
    with world(nodes=2, cluster={"request_timeout_seconds": 0.2}) as w:
        w.pod("p", cpu="4")
        w.pod("q", cpu="4")
        late = w.faults.inject("delay", seconds=1.5, **BINDING)
        node = w.propose("p")
        assert "not known yet" in w.bind("p", node)

        w.filter("p", [{"n0": "n1", "n1": "n0"}[node]])
        passed = w.filter("q", [node])["NodeNames"]
        if passed:
            w.bind("q", passed[0])
        w.until(lambda: w.faults.fired(late) and w.node_of("p"))


@pytest.mark.slow
def test_many_pods_through_a_storm_of_faults():
    with world(nodes=4, scheduler=True) as w:
        w.faults.inject("drop-after", times=3, **BINDING)
        w.faults.inject("drop-before", times=2, skip=3, **BINDING)
        w.faults.inject("status", status=500, times=3, skip=5, **BINDING)
        w.faults.inject("status", status=429, headers={"Retry-After": "1"}, times=3, skip=8, **BINDING)
        w.faults.inject("status", status=500, times=3, method="GET", path="/pods/p[0-9]+$")
        names = [f"p{i}" for i in range(16)]
        for name in names:
            w.pod(name)

        w.until(lambda: w.all_bound(names))


def test_a_gang_through_a_storm_of_faults():
    with world(nodes=4, scheduler=True) as w:
        w.faults.inject("drop-after", times=2, **BINDING)
        w.faults.inject("drop-before", times=2, skip=2, **BINDING)
        w.faults.inject("status", status=403, times=1, skip=4, **BINDING)
        names = w.gang("g", 8, cpu="2")

        w.until(lambda: w.all_bound(names))


def test_an_api_server_that_is_down_is_waited_for(w: LocalCluster):
    w.faults.inject("drop-before", times=None)
    body = {"Pod": w.get("p"), "NodeNames": ["n0", "n1"]}
    [node] = w.post("filter", body)["NodeNames"]
    assert w.bind("p", node)
    w.faults.clear()

    assert w.place("p") == node


def stop_hearing_of_pods(w: LocalCluster) -> None:
    """The pod informer is cut off until the faults are cleared."""
    w.until(w.waggle.pod_infos)
    w.faults.inject("status", status=503, times=None, method="WATCH", path="/api/v1/pods")
    w.waggle.service._pods._exchange.interrupt()
    w.until(lambda: w.waggle.service._pods.last_error.endswith("503 injected fault"))


def _bind_directly(w: LocalCluster, name: str, node: str) -> None:
    from tests.support.apiserver.api import Api

    api = Api(w.cluster.url)
    try:
        assert api.bind(name, node).status_code == 201
    finally:
        api.close()

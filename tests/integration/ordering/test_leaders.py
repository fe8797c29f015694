"""Several servers: one removes gates, the others follow, and one of them takes over."""

from __future__ import annotations

from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import ordering_world

ELECTION = {
    "leader_election": {
        "enabled": True,
        "namespace": "default",
        "lease_seconds": 2,
        "renew_deadline_seconds": 1.5,
        "retry_seconds": 0.3,
    }
}


def test_another_server_takes_over() -> None:
    with ordering_world(sections=ELECTION, serve=False) as w:
        for _ in range(2):
            w.serve()
        first = w.leader()
        w.pod("b", "[{kind: Pod, name: a}]")
        w.waits("b")
        follower = next(each for each in w.servers if each is not first)
        eventually(lambda: [each.name for each in follower.ordering.views.held()] == ["b"])
        w.end(first)
        w.pod("a")
        w.running("a", "b")
        assert w.leader() is follower
        assert follower.metric("waggle_ordering_released_total") == 1

"""The API server restarts, expires what it has shown, asks for patience, goes silent: vpods are placed all the same."""

from __future__ import annotations

from dataclasses import replace

from tests.support.apiserver.api import eventually
from tests.support.apiserver.proxy import Proxy
from tests.support.cluster.claim_world import QUICK
from tests.support.cluster.vpod_world import VPodWorld, vpod_world


def test_an_api_server_that_is_away_for_a_while() -> None:
    with vpod_world(serve=False, min_replicas=3) as w, Proxy(w.cluster.url) as proxy:
        w.url = proxy.url
        w.serve()
        w.add_vpod("a", 3)
        w.placed("a", 3)
        proxy.cut()
        w.add_vpod("b", 3)
        w.want("a", 6)
        proxy.resume()
        w.placed("a", 6)
        w.placed("b", 3)
        w.end(w.server)


def test_versions_that_have_expired() -> None:
    with vpod_world(min_replicas=3) as w:
        w.add_vpod("a", 3)
        w.placed("a", 3)
        w.cluster.faults.inject("watch-expire", after=1, method="WATCH", agent="^waggle$", times=4)
        w.cluster.end_watches("waggle")
        w.cluster.compact()
        for number in range(5):
            w.add_vpod(f"v{number}", 2)
        for number in range(5):
            w.placed(f"v{number}", 2)


def test_an_api_server_that_asks_for_patience() -> None:
    with vpod_world(min_replicas=3) as w:
        patience = {"status": 429, "headers": {"Retry-After": "1"}, "method": "PATCH", "agent": "^waggle$"}
        rule = w.cluster.faults.inject("status", times=3, **patience)
        w.add_vpod("a", 3)
        w.placed("a", 3)
        assert w.cluster.faults.fired(rule) == 3


def test_a_watch_that_goes_silent() -> None:
    with vpod_world(serve=False, min_replicas=3) as w:
        w.timing = replace(QUICK, watch_silence=1.0)
        w.serve()
        w.cluster.faults.inject("watch-stall", after=0, method="WATCH", path="/vpods", agent="^waggle$", times=1)
        w.cluster.end_watches("waggle")
        w.add_vpod("a", 3)
        w.placed("a", 3)


def test_a_write_whose_answer_is_lost_is_read_back() -> None:
    with vpod_world(min_replicas=3, is_witnessed=True) as w:
        w.cluster.faults.inject("drop-after", method="PATCH", path="/vpods/", agent="^waggle$", times=3)
        for number in range(4):
            w.add_vpod(f"v{number}", 3)
        for number in range(4):
            w.placed(f"v{number}", 3)
        assert no_moves(w)


def no_moves(w: VPodWorld) -> bool:
    assert w.witness is not None
    return not w.witness.moves.total()


def test_a_namespace_that_may_not_be_read_keeps_no_other_one_waiting() -> None:
    def forbid(w: VPodWorld) -> None:
        path = "/namespaces/secret/"
        w.cluster.faults.inject("status", status=403, path=path, agent="^waggle$", times=None)

    sets = [{"name": "hidden", "namespace": "secret", "stateful_set": "x", "capacity": 3}]
    fleet = {"name": "fleet", "stateful_set": "fleet", "capacity": 10, "min_replicas": 3}
    with vpod_world(prepare=forbid, vpods={"sets": [fleet, *sets]}) as w:
        w.add_vpod("a", 3)
        w.placed("a", 3)
        detail = w.server.vpods.readiness().detail
        assert "secret" in detail
        assert "403" in detail
        w.add_vpod("b", 1, set="secret/hidden")
        eventually(lambda: w.reason("b") == "SetNotServed")
        w.cluster.faults.clear()
        eventually(lambda: w.reason("b") == "NotAllowed")


def test_without_the_definitions_sets_of_the_configuration_are_served() -> None:
    def undefine(w: VPodWorld) -> None:
        w.cluster.delete("customresourcedefinitions", "vpodsets.waggle.dev")

    with vpod_world(prepare=undefine, min_replicas=3) as w:
        w.add_vpod("a", 3)
        w.placed("a", 3)
        assert "kubectl apply -k manifests/crds" in w.server.vpods.readiness().detail


def test_nothing_is_decided_while_vpods_cannot_be_listed() -> None:
    def forbid(w: VPodWorld) -> None:
        w.add_vpod("a", 3)
        path = "^/apis/waggle.dev/v1alpha1/vpods\\?"
        w.cluster.faults.inject("status", status=403, path=path, agent="^waggle$", times=None)

    with vpod_world(prepare=forbid, serve=False, min_replicas=4) as w:
        server = w.serve(wait=False)
        eventually(lambda: "403" in server.vpods.readiness().detail)
        assert not server.vpods.readiness().ready
        assert w.replicas() == 3
        w.cluster.faults.clear()
        w.placed("a", 3)
        assert w.replicas() == 4

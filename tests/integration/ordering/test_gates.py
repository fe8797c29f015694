"""Pods with a gate: held until what they wait for is there, released at once, and told why not."""

from __future__ import annotations

from tests.support.apiserver.api import eventually
from tests.support.cluster.ordering_world import KEPT_GATE, ordering_world

AFTER_A = "[{kind: Pod, name: a}]"


def test_a_pod_starts_when_another_one_is_ready() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        w.pod("a")
        w.running("a", "b")
        assert w.gates("b") == []
        assert w.reasons() == {}
        assert w.server.metric("waggle_ordering_released_total") == 1
        eventually(lambda: w.server.metric("waggle_ordering_gate_seconds") > 0)


def test_a_chain_starts_link_by_link() -> None:
    with ordering_world() as w:
        names = [f"p{number}" for number in range(6)]
        for name, before in zip(names[1:], names, strict=False):
            w.pod(name, f"[{{kind: Pod, name: {before}}}]")
        w.pod(names[0])
        w.running(*names)


def test_gates_of_others_stay() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A, gates=[KEPT_GATE])
        w.pod("a")
        eventually(lambda: w.gates("b") == [KEPT_GATE])
        assert not w.node_of("b")


def test_a_job_that_completes_lets_its_dependants_go() -> None:
    with ordering_world() as w:
        w.pod("b", "[{kind: Job, name: prepare, state: Complete}]")
        w.job("prepare")
        w.waits("b")
        w.finish("prepare")
        w.running("b")


def test_a_job_that_fails_is_told_as_the_root() -> None:
    with ordering_world() as w:
        w.pod("b", "[{kind: Job, name: prepare, state: Complete}]")
        w.job("prepare")
        w.finish("prepare", "Failed")
        w.waits("b", "DependencyFailed")
        (held,) = w.server.ordering.views.held()
        assert held.root == "Job/default/prepare"


def test_a_missing_target_is_told_after_its_grace_and_may_still_come() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b", "DependencyNotFound")
        eventually(lambda: "DependencyNotFound" in w.events("b"), why=lambda: str(w.events("b")))
        w.pod("a")
        w.running("b")


def test_an_optional_target_that_does_not_come_is_waived() -> None:
    with ordering_world() as w:
        w.pod("b", "[{kind: Pod, name: a, optional: true}]")
        w.running("b")


def test_a_failed_target_is_told_with_its_root() -> None:
    with ordering_world() as w:
        w.pod("a", gates=["test/gate"])
        w.pod("b", AFTER_A)
        w.pod("c", "[{kind: Pod, name: b}]")
        w.waits("c")
        w.remove_gate("a")
        w.running("b", "c")
        w.pod("x", gates=["test/gate"])
        w.pod("y", "[{kind: Pod, name: x}]")
        w.fail("x")
        w.waits("y", "DependencyFailed")
        eventually(lambda: "Pod/default/x failed" in w.events("y").get("DependencyFailed", ""))


def test_a_cycle_is_told_with_its_path() -> None:
    with ordering_world() as w:
        w.pod("a", "[{kind: Pod, name: b}]")
        w.pod("b", AFTER_A)
        w.waits("a", "DependencyCycle")
        w.waits("b", "DependencyCycle")
        text = w.server.ordering.views.held()[0].reason.text
        assert "Pod/default/a" in text
        assert "Pod/default/b" in text


def test_a_wrong_declaration_is_told() -> None:
    with ordering_world() as w:
        w.pod("b", "[{kind: Pot, name: a}]")
        w.waits("b", "DependencyInvalid")
        eventually(lambda: "DependencyInvalid" in w.events("b"))


def test_pods_inherit_what_their_job_declares() -> None:
    with ordering_world() as w:
        uid = w.job("train", annotations={"waggle.dev/after": AFTER_A})
        w.pod_of("train", uid, "train-0", gate=True)
        w.waits("train-0")
        w.pod("a")
        w.running("a", "train-0")


def test_a_whole_gang_waits_and_starts() -> None:
    with ordering_world() as w:
        gang = {"annotations": {"waggle.dev/gang": "db", "waggle.dev/gang-min": "3"}}
        for number in range(4):
            w.pod(f"web-{number}", "[{group: db}]")
        for number in range(2):
            w.pod(f"db-{number}", metadata=gang)
        w.running("db-0", "db-1")
        w.waits("web-0")
        w.pod("db-2", metadata=gang)
        w.running(*(f"web-{number}" for number in range(4)))


def test_a_restart_loses_nothing() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.pod("c", "[{kind: Job, name: prepare, state: Complete}, {kind: Pod, name: a}]")
        w.job("prepare")
        w.finish("prepare")
        w.waits("c")
        eventually(lambda: "waggle.dev/after-met" in w.get("c")["metadata"]["annotations"])
        w.end(w.server)
        w.cluster.delete("jobs", "prepare")
        w.pod("a")
        w.serve()
        w.running("b", "c")


def test_pages_explain_pods_that_are_held_back() -> None:
    with ordering_world() as w:
        w.pod("b", AFTER_A)
        w.waits("b")
        listed = w.server.http.get("/v1/inspect/ordering").json()
        assert (listed["total"], listed["items"][0]["name"], listed["items"][0]["gated"]) == (1, "b", True)
        found = w.server.http.get("/v1/explain/default/b").json()
        assert found["reason"]["code"] == "WaitsForDependency"
        assert "Pod/default/a" in found["summary"]
        assert w.server.http.get("/v1/explain/default/nobody").status_code == 404
        assert w.server.http.get("/v1/inspect/ordering?limit=x").status_code == 400

"""What is wrong with one vpod or one set is said where it is, with its field; all others are placed."""

from __future__ import annotations

from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.cluster.vpod_world import HEAD, VPODS, VPodWorld, add_set, condition, set_status, vpod_world


def loosen(w: VPodWorld, plural: str) -> None:
    """An older definition, which does not check the objects, not even what `kubectl scale` writes."""
    name = f"{plural}.waggle.dev"
    found = w.cluster.get("customresourcedefinitions", name)
    assert found is not None
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = found["spec"]["versions"]
    versions[0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}
    versions[0]["subresources"] = {"status": {}}
    w.cluster.patch("customresourcedefinitions", name, {"spec": {"versions": versions}})


def loosen_both(w: VPodWorld) -> None:
    loosen(w, "vpods")
    loosen(w, "vpodsets")


def put_status(w: VPodWorld, name: str, placements: list[Any]) -> None:
    done = w.api.patch(f"{VPODS}/{name}/status", {"status": {"placements": placements}})
    assert done.status_code == 200, done.text


def message(w: VPodWorld, name: str) -> str:
    return str(w.vpod(name).get("status", {}).get("message", ""))


def others_are_placed(w: VPodWorld, name: str = "fine") -> None:
    w.add_vpod(name, 3)
    w.placed(name, 3)


def test_numbers_that_are_none() -> None:
    with vpod_world(prepare=loosen_both, min_replicas=3) as w:
        for name, wanted in (("negative", -1), ("large", 2**31), ("text", "three"), ("null", None), ("half", 1.5)):
            w.add_vpod(name, wanted)
        others_are_placed(w)
        for name in ("negative", "large", "text", "half"):
            eventually(lambda name=name: w.reason(name) == "BadNumber", why=lambda name=name: str(w.vpod(name)))
            assert message(w, name).startswith("spec.vreplicas: expected a number from 0 to 2147483647")
            assert condition(w.vpod(name)["status"], "Scheduled")[0] == "False"


def test_the_definitions_refuse_them_before() -> None:
    with vpod_world() as w:
        for wanted in (-1, 2**31, "three"):
            body = {**HEAD, "kind": "VPod", "metadata": {"name": "x"}, "spec": {"set": "fleet", "vreplicas": wanted}}
            assert w.api.post(VPODS, body).status_code == 422


def test_placements_that_cannot_be() -> None:
    foreign = {"podName": "other-0", "vreplicas": 2}
    malformed = {"podName": "fleet-01", "vreplicas": 1}
    overflowing = {"podName": "fleet-99999999999", "vreplicas": 1}
    doubled = [{"podName": "fleet-0", "vreplicas": 1}, {"podName": "fleet-0", "vreplicas": 2}]

    def prepare(w: VPodWorld) -> None:
        loosen_both(w)
        for name, entries in {
            "foreign": [foreign],
            "malformed": [malformed],
            "overflowing": [overflowing],
            "doubled": doubled,
            "texts": [{"podName": "fleet-0", "vreplicas": "x"}, "nonsense", None],
        }.items():
            w.add_vpod(name, 3)
            put_status(w, name, entries)

    with vpod_world(prepare=prepare, min_replicas=3) as w:
        others_are_placed(w)
        for name in ("foreign", "malformed", "overflowing", "doubled", "texts"):
            w.placed(name, 3)
            assert all(each in ("fleet-0", "fleet-1", "fleet-2") for each in w.placements(name)), w.vpod(name)


def test_a_set_with_capacity_zero_has_one_condition_that_names_the_field() -> None:
    with vpod_world(prepare=loosen_both, min_replicas=3) as w:
        w.deploy("bad", 2)
        add_set(w, "bad", capacity=0)
        eventually(lambda: condition(set_status(w, "bad"), "Misconfigured")[:2] == ("True", "InvalidSpec"))
        assert (
            condition(set_status(w, "bad"), "Ready")[2] == "spec.capacity: Input should be greater than or equal to 1"
        )
        w.add_vpod("a", 2, set="bad")
        eventually(lambda: w.reason("a") == "SetNotServed")
        assert message(w, "a").startswith("spec.set: default/bad is not served: spec.capacity: ")
        assert w.replicas("bad") == 2
        others_are_placed(w)
        w.api.patch("/apis/waggle.dev/v1alpha1/namespaces/default/vpodsets/bad", {"spec": {"capacity": 5}})
        w.placed("a", 2)


def test_a_policy_that_there_is_not() -> None:
    with vpod_world(min_replicas=3) as w:
        w.deploy("bad", 1)
        add_set(w, "bad", policy="balancd")
        eventually(lambda: condition(set_status(w, "bad"), "Misconfigured")[:2] == ("True", "BadPolicy"))
        assert "balanced" in condition(set_status(w, "bad"), "Misconfigured")[2]
        others_are_placed(w)


def test_sets_that_may_not_be_used_and_that_there_are_not() -> None:
    with vpod_world(min_replicas=3) as w:
        w.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        w.add_vpod("a", 1, namespace="team", set="default/fleet")
        w.add_vpod("b", 1, set="ghost")
        eventually(lambda: w.reason("a", "team") == "NotAllowed")
        text = w.vpod("a", "team")["status"]["message"]
        assert text == "spec.set: default/fleet does not admit namespace team"
        eventually(lambda: w.reason("b") == "UnknownSet")
        assert message(w, "b") == "spec.set: there is no VPodSet default/ghost"
        others_are_placed(w)


def test_a_vpod_that_is_no_object_at_all_is_left_out_and_counted() -> None:
    with vpod_world(prepare=loosen_both, min_replicas=3) as w:
        body = {**HEAD, "kind": "VPod", "metadata": {"name": "x", "annotations": {"a": "b" * 1000}}, "spec": [1, 2]}
        w.api.post(VPODS, body)
        others_are_placed(w)

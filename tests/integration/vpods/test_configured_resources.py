"""Resources of somebody else, placed by two paths: Knative's consumer groups, with the fields of its scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.apiserver.api import eventually
from tests.support.apiserver.custom import definition, version
from tests.support.cluster.vpod_world import VPodWorld, vpod_world

GROUP = "internal.kafka.eventing.knative.dev"
GROUPS = f"/apis/{GROUP}/v1alpha1/namespaces/default/consumergroups"
OWNER = ".spec.topLevelUserFacingResourceRef.kind"
COMMON = {"group": GROUP, "version": "v1alpha1", "resource": "consumergroups"}
RESOURCES = [
    {**COMMON, "name": "sources", "set": "default/fleet", "where": {OWNER: "KafkaSource"}},
    {**COMMON, "name": "triggers", "set": "default/other", "where": {OWNER: "Trigger"}},
]


def define(w: VPodWorld) -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    given = version("v1alpha1", subresources={"status": {}, "scale": scale})
    w.cluster.create(definition(GROUP, given, kind="ConsumerGroup"))
    w.deploy("other", 2)


@contextmanager
def knative(**more: Any) -> Iterator[VPodWorld]:
    other = {"name": "other", "stateful_set": "other", "capacity": 20, "min_replicas": 2}
    fleet = {"name": "fleet", "stateful_set": "fleet", "capacity": 10, "min_replicas": 3}
    section = {"custom_resources": False, "resources": RESOURCES, "sets": [fleet, other]}
    with vpod_world(prepare=define, vpods=section, **more) as w:
        yield w


def add(w: VPodWorld, name: str, kind: str = "KafkaSource", **spec: Any) -> None:
    given = {"topLevelUserFacingResourceRef": {"kind": kind, "name": "x"}, **spec}
    body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ConsumerGroup", "metadata": {"name": name}, "spec": given}
    made = w.api.post(GROUPS, body)
    assert made.status_code == 201, made.text


def status(w: VPodWorld, name: str) -> dict[str, Any]:
    found: dict[str, Any] = w.api.get(f"{GROUPS}/{name}").json().get("status", {})
    return found


def placements(w: VPodWorld, name: str) -> dict[str, int]:
    return {each["podName"]: each["vreplicas"] for each in status(w, name).get("placements", ())}


def test_consumer_groups_go_to_the_set_of_their_kind_and_only_placements_are_written() -> None:
    with knative() as w:
        add(w, "a", replicas=6)
        add(w, "b", "Trigger", replicas=3)
        eventually(lambda: placements(w, "a") == {"fleet-0": 2, "fleet-1": 2, "fleet-2": 2})
        eventually(lambda: sum(placements(w, "b").values()) == 3)
        assert all(name.startswith("other-") for name in placements(w, "b"))
        assert set(status(w, "a")) == {"placements"}


def test_what_a_path_does_not_hit_is_the_default_and_scaling_is_followed() -> None:
    with knative() as w:
        add(w, "a")
        eventually(lambda: sum(placements(w, "a").values()) == 1)
        w.api.patch(f"{GROUPS}/a", {"spec": {"replicas": 4}})
        eventually(lambda: sum(placements(w, "a").values()) == 4)
        w.api.patch(f"{GROUPS}/a", {"spec": {"replicas": "many"}})
        w.resting()
        assert sum(placements(w, "a").values()) == 4  # a text is no number: it stays as it is


def test_another_kind_of_object_is_left_alone_until_it_becomes_one() -> None:
    with knative() as w:
        add(w, "a", "KafkaChannel", replicas=4)
        add(w, "b", replicas=1)
        eventually(lambda: placements(w, "b"))
        assert not status(w, "a")
        w.api.patch(f"{GROUPS}/a", {"spec": {"topLevelUserFacingResourceRef": {"kind": "Trigger"}}})
        eventually(lambda: sum(placements(w, "a").values()) == 4)
        assert all(name.startswith("other-") for name in placements(w, "a"))


def test_a_resource_that_does_not_exist_stops_no_other_one() -> None:
    missing = {"name": "ghosts", "group": "nowhere.test", "version": "v1", "resource": "ghosts", "set": "default/fleet"}
    with vpod_world(vpods={"resources": [missing]}, min_replicas=3) as w:
        w.add_vpod("a", 3)
        w.placed("a", 3)
        assert "ghosts.nowhere.test: there is no such resource" in w.server.vpods.readiness().detail


def test_an_event_names_the_kind_of_the_object() -> None:
    with knative() as w:
        add(w, "a", replicas=6)
        eventually(lambda: sum(placements(w, "a").values()) == 6)
        add(w, "b", replicas=2**30)
        objects = lambda: {  # noqa: E731
            (each["involvedObject"]["kind"], each["involvedObject"]["name"], each["reason"])
            for each in w.api.get("events").json()["items"]
        }
        eventually(lambda: ("ConsumerGroup", "b", "NotEnoughRoom") in objects())


def pruning(w: VPodWorld) -> None:
    """A definition whose status has no field for placements: the API server takes them away."""
    given = version("v1alpha1", subresources={"status": {}})
    given["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "object", "properties": {}}
    w.cluster.create(definition(GROUP, given, kind="ConsumerGroup"))


def test_placements_that_the_api_server_does_not_keep_are_not_written_all_the_time() -> None:
    resource = {**COMMON, "name": "groups", "set": "default/fleet"}
    fleet = {"name": "fleet", "stateful_set": "fleet", "capacity": 10, "min_replicas": 3}
    section = {"custom_resources": False, "resources": [resource], "sets": [fleet]}
    with vpod_world(prepare=pruning, vpods=section) as w:
        rule = w.cluster.faults.inject("delay", seconds=0, method="PATCH", path="/consumergroups/", times=None)
        add(w, "a", replicas=6)
        eventually(lambda: w.cluster.faults.fired(rule) >= 1)
        time.sleep(3)
        assert w.cluster.faults.fired(rule) <= 5


def test_a_path_that_hits_nothing_is_said_with_its_field() -> None:
    resource = {**COMMON, "name": "groups", "set": "default/fleet", "wanted": ".spec.consumers", "default_wanted": 2}
    fleet = {"name": "fleet", "stateful_set": "fleet", "capacity": 10, "min_replicas": 3}
    section = {"custom_resources": False, "resources": [resource], "sets": [fleet]}
    with vpod_world(prepare=define, vpods=section) as w:
        assert not w.server.vpods.readiness().detail
        add(w, "a", replicas=6)
        eventually(lambda: sum(placements(w, "a").values()) == 2)
        text = "vpods.resources.groups.wanted: no object has .spec.consumers"
        eventually(lambda: text in w.server.vpods.readiness().detail)
        add(w, "b", consumers=3)
        eventually(lambda: sum(placements(w, "b").values()) == 3)
        assert text not in w.server.vpods.readiness().detail

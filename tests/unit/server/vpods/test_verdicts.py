"""Which VPodSet objects are served, and what is said of the others."""

from __future__ import annotations

import json
from typing import Any

from extender.server.vpods.set_objects import SetObject, decode_set
from extender.server.vpods.verdicts import MOST_SETS, Verdict, judge
from extender.vpods.records import ObjectKey, SetSettings


def obj(name: str = "fleet", created: int = 1, namespace: str = "ns", **spec: Any) -> SetObject:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": f"2026-11-02T10:00:{created:02}Z",
    }
    return decode_set(
        json.dumps({"metadata": metadata, "spec": {"statefulSet": name, "capacity": 10, **spec}}).encode()
    )


def fine(_: SetSettings) -> str:
    return ""


def verdict(*objects: SetObject, configured: tuple[SetSettings, ...] = ()) -> Verdict:
    """Of the last object."""
    return judge(configured, objects, policy_fault=fine)[objects[-1].uid]


def test_a_valid_object_is_served_with_its_settings() -> None:
    found = verdict(obj(minReplicas=2, scaleDownSeconds=7, namespaces=["a"])).settings
    assert found is not None
    assert found.key == ObjectKey("ns", "fleet")
    assert (found.workload, found.capacity, found.min_replicas) == ("fleet", 10, 2)
    assert (found.scale_down_seconds, found.namespaces) == (7.0, ("a",))


def test_an_invalid_spec_names_the_field_and_what_was_expected() -> None:
    found = verdict(obj(capacity=0))
    assert found.settings is None
    assert found.reason == "InvalidSpec"
    assert found.message == "spec.capacity: Input should be greater than or equal to 1"
    assert (
        "spec.maxReplicas: expected at least minReplicas (9), got 3"
        in verdict(obj(minReplicas=9, maxReplicas=3)).message
    )
    assert "spec.statefulSet" in verdict(obj(statefulSet=None)).message
    assert "spec.capcity" in verdict(obj(capcity=3)).message


def test_the_older_object_has_the_stateful_set() -> None:
    young, old = obj("a", created=2, statefulSet="ss"), obj("b", created=1, statefulSet="ss")
    found = judge((), [young, old], policy_fault=fine)
    assert found[old.uid].settings is not None
    assert found[young.uid].reason == "StatefulSetTaken"
    assert "ns/b" in found[young.uid].message


def test_the_same_stateful_set_name_in_another_namespace_is_another_one() -> None:
    assert verdict(obj("a"), obj("b", namespace="other", statefulSet="a")).settings is not None


def test_the_configuration_goes_first() -> None:
    configured = SetSettings(key=ObjectKey("ns", "mine"), workload="fleet", capacity=1)
    assert verdict(obj("mine", statefulSet="x"), configured=(configured,)).reason == "InConfiguration"
    assert verdict(obj("fleet"), configured=(configured,)).reason == "StatefulSetTaken"


def test_a_policy_that_cannot_be_used_is_said_with_its_field() -> None:
    found = judge((), [obj()], policy_fault=lambda _: "policy: there is no policy 'x'")["uid-fleet"]
    assert (found.settings, found.reason, found.message) == (None, "BadPolicy", "spec.policy: there is no policy 'x'")


def test_the_settings_of_a_policy_are_spelt_as_in_the_object() -> None:
    found = judge((), [obj()], policy_fault=lambda _: "policy_settings: a: there is no such field")["uid-fleet"]
    assert found.message == "spec.policySettings: a: there is no such field"


def test_a_refused_object_leaves_its_stateful_set_to_others() -> None:
    assert verdict(obj("a", created=1, capacity=0, statefulSet="ss"), obj("b", created=2, statefulSet="ss")).settings


def test_the_number_of_sets_is_bounded() -> None:
    many = [obj(f"s{number}", created=1) for number in range(MOST_SETS)]
    found = verdict(*many, obj("last", created=2))
    assert (found.settings, found.reason) == (None, "TooManySets")

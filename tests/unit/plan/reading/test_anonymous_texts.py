"""No text of a user is left in an anonymous snapshot: every text field has one, which is looked for."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from extender.claims.records import Before, ClaimMark
from extender.claims.writes.names import CLAIM_ANNOTATION, mark_text
from extender.plan.reading.anonymous import anonymous
from extender.plan.reading.worlds import WorldReader
from tests.unit.plan.reading.manifests import Object, pod

CANARY = "canary"
_FOUND = re.compile(rf"{CANARY}-[a-z0-9-]+")


def left(version: str, body: Object) -> list[str]:
    """The canaries that are in an anonymous snapshot of an object, after which it is certain that all were read."""
    reader = WorldReader("", "")
    reader.add(version, body["kind"], msgspec.json.encode({"apiVersion": version, **body}))
    world = reader.world(source=f"https://{CANARY}-source")
    assert not reader.faults, reader.faults
    assert _FOUND.search(msgspec.json.encode(world).decode())
    hidden = msgspec.json.encode(anonymous(world).world).decode()
    return sorted({*_FOUND.findall(hidden)})


def test_a_claims_mark_on_a_pod() -> None:
    mark = ClaimMark(
        claim="canary-claim",
        pool="canary-pool",
        tenant="canary-tenant",
        key="canary-key",
        digest="canary-digest",
        labels=(("session", "canary-before"), ("user", None)),
        annotations=("note",),
        images=(("canary-container", "canary-image"),),
        idle_images=(("canary-container", "canary-idle"),),
        before=(Before("canary-container", "canary-id", "canary-image-id"),),
        running=(("canary-container", "canary-running"),),
    )
    body = pod("canary-pod", annotations={CLAIM_ANNOTATION: mark_text(mark)})
    assert left("v1", body) == []


def test_a_mark_can_still_be_read() -> None:
    mark = ClaimMark(claim="c", pool="p", key="canary-key", size=2, expires=7.5, labels=(("user", "canary-user"),))
    reader = WorldReader("", "")
    reader.add("v1", "Pod", msgspec.json.encode(pod("p", annotations={CLAIM_ANNOTATION: mark_text(mark)})))
    (found,) = anonymous(reader.world(source="")).world.pods
    text = dict(found.pod.pod.annotations)[CLAIM_ANNOTATION]
    read = msgspec.json.decode(text, type=ClaimMark)
    assert (read.size, read.expires) == (2, 7.5)
    assert read.labels[0][0] not in ("", "user")
    assert CANARY not in text


_META = {"name": "canary-name", "namespace": "canary-namespace", "uid": "canary-uid", "labels": {"a": "canary-label"}}
_SELECTOR = {
    "matchLabels": {"app": "canary-app"},
    "matchExpressions": [{"key": "k", "operator": "In", "values": ["canary-value"]}],
}
_OBJECTS: dict[str, tuple[str, Any, Any]] = {
    "Claim": (
        "waggle.dev/v1alpha1",
        {
            "poolRef": {"name": "canary-pool"},
            "tenant": "canary-tenant",
            "requires": {"size": "canary-size"},
            "labels": {"session": "canary-session"},
            "annotations": {"note": "canary-note"},
        },
        {
            "claim": "canary-claim",
            "message": "canary-message",
            "pods": [
                {"name": "canary-pod", "uid": "canary-pod-uid", "node": "canary-node", "addresses": ["canary-address"]}
            ],
        },
    ),
    "Pool": (
        "waggle.dev/v1alpha1",
        {"selector": _SELECTOR, "workload": {"kind": "ReplicaSet", "name": "canary-workload"}},
        {"selector": "app=canary-app", "conditions": [{"type": "Ready", "message": "canary-message"}]},
    ),
    "VPod": (
        "waggle.dev/v1alpha1",
        {"setRef": {"name": "canary-set"}, "vreplicas": 2},
        {
            "selector": "canary-selector",
            "message": "canary-message",
            "placements": [{"podName": "canary-pod-0", "vreplicas": 2}],
        },
    ),
    "VPodSet": (
        "waggle.dev/v1alpha1",
        {"statefulSet": {"name": "canary-statefulset"}, "capacity": 5},
        {"nodes": ["canary-node"], "selector": "canary-selector"},
    ),
}


@pytest.mark.parametrize("kind", _OBJECTS)
def test_an_object(kind: str) -> None:
    version, spec, status = _OBJECTS[kind]
    assert left(version, {"kind": kind, "metadata": _META, "spec": spec, "status": status}) == []

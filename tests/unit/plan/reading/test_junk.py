"""Whatever a manifest holds, reading it ends with objects or with faults, never with an exception."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.plan.reading.documents import Source, read_documents
from extender.plan.reading.expanding import expand
from extender.plan.reading.worlds import WorldReader
from extender.plan.records import World
from tests.unit.plan.reading.manifests import Object, job, job_spec, pod, pod_spec, workload

_MARKS = {
    "labels": {"scheduling.x-k8s.io/pod-group": "g"},
    "annotations": {"waggle.dev/after": '["job/a"]', "waggle.dev/gang": "g", "waggle.dev/expected-seconds": "1-2"},
}
_FULL = {
    "nodeSelector": {"a": "b"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
    },
    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": 1}}],
    "topologySpreadConstraints": [{"maxSkew": 1}],
    "schedulingGates": [{"name": "g"}],
    "initContainers": [{"name": "i", "image": "x", "ports": [{"containerPort": 1, "hostPort": 2}]}],
    "activeDeadlineSeconds": 3,
    "priorityClassName": "system-node-critical",
}
_PART = {"name": "w", "replicas": 2, "template": {"spec": job_spec()}, "dependsOn": [{"name": "w", "status": "Ready"}]}
_TASK = {"name": "w", "replicas": 2, "template": {"spec": pod_spec()}, "dependsOn": {"name": ["w"]}}
_HEAD = {"metadata": {"name": "x", **_MARKS}}
_WHOLE: list[Object] = [
    pod("p", spec=_FULL, **_MARKS),
    job(
        "j",
        2,
        completionMode="Indexed",
        template={"metadata": _MARKS, "spec": pod_spec(restartPolicy="Never", **_FULL)},
    ),
    workload("Deployment", "d", 2),
    workload("StatefulSet", "s", 2, ordinals={"start": 1}),
    {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **_HEAD, "spec": {"replicatedJobs": [_PART]}},
    {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", **_HEAD, "spec": {"tasks": [_TASK]}},
    {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", **_HEAD, "spec": {"minMember": 2}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **_HEAD, "value": 1},
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        **_HEAD,
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": "10%"},
    },
    {
        "apiVersion": "v1",
        "kind": "Node",
        **_HEAD,
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": 1}, "conditions": [{"type": "Ready", "status": "True"}]},
    },
    {"apiVersion": "waggle.dev/v1alpha1", "kind": "Claim", **_HEAD, "spec": {"poolRef": {"name": "p"}}},
    {"apiVersion": "v1", "kind": "List", "items": [pod("q")]},
]
_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*path, key)
        yield from _paths(each, (*path, key))


_places = st.sampled_from([(number, path) for number, obj in enumerate(_WHOLE) for path in _paths(obj)])


def _with(obj: Object, path: tuple[str | int, ...], junk: Any) -> Object:
    found: Any = copy.deepcopy(obj)
    at = found
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = junk
    return found  # type: ignore[no-any-return]


def _read(obj: Object) -> None:
    text = json.dumps(obj)
    found = read_documents([Source("a", text)])
    expand(found.objects, World())
    reader = WorldReader()
    for each in obj["items"] if isinstance(obj.get("items"), list) else [obj]:
        raw = json.dumps(each).encode()
        reader.add(str(obj.get("apiVersion")), str(obj.get("kind")), raw)
    expand(found.objects, reader.world())


def test_without_junk_all_of_it_is_planned() -> None:
    text = "\n---\n".join(
        json.dumps(each) for each in _WHOLE if each["kind"] not in ("JobSet",) and "tasks" not in each.get("spec", {})
    )
    found = read_documents([Source("a", text)]).require()
    assert not expand(found.objects, World()).errors


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_places, _junk)
def test_junk_anywhere(place: tuple[int, tuple[str | int, ...]], junk: Any) -> None:
    _read(_with(_WHOLE[place[0]], place[1], junk))


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_places, _junk, _places, _junk)
def test_junk_in_two_places(
    place: tuple[int, tuple[str | int, ...]], junk: Any, other: tuple[int, tuple[str | int, ...]], more: Any
) -> None:
    obj = _with(_WHOLE[place[0]], place[1], junk)
    if other[0] == place[0] and other[1][: len(place[1])] != place[1] and place[1][: len(other[1])] != other[1]:
        obj = _with(obj, other[1], more)
    _read(obj)

"""What the real API server is asked, and then the stand-in: scenarios of steps, as data.

A scenario has a namespace of its own (its name) and names cluster-wide objects after it. `$name` in a path, query or
body is what an earlier step saved. Two minutes suffice to record all of it (`record.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One request. A `path` without a leading slash is in the scenario's namespace: `pods/a`, or, in another group,
    `policy/v1:poddisruptionbudgets/a`. `save` is {variable: dotted path in the answer}.
    """

    method: str
    path: str
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    save: Mapping[str, str] = field(default_factory=dict)
    #: A watch: read so many events, then hang up.
    events: int = 0
    #: Ask again until the answer has this text: what a controller of the real server does takes it a moment.
    until: str = ""
    #: The Warning headers belong to the answer.
    warns: bool = False
    accept: str = "application/json"


def get(path: str, save: Mapping[str, str] | None = None, **query: str) -> Step:
    return Step(method="GET", path=path, query=query, save=save or {})


def post(path: str, body: Any, **save: str) -> Step:
    return Step(method="POST", path=path, body=body, save=save)


def put(path: str, body: Any, **save: str) -> Step:
    return Step(method="PUT", path=path, body=body, save=save)


def patch(path: str, body: Any, media_type: str = MERGE, **query: str) -> Step:
    return Step(method="PATCH", path=path, body=body, media_type=media_type, query=query)


def delete(path: str, body: Any = None, **query: str) -> Step:
    return Step(method="DELETE", path=path, body=body, query=query)


def watch(path: str, events: int, **query: str) -> Step:
    return Step(method="GET", path=path, query={"watch": "true", **query}, events=events)


def pod(name: str, *, labels: Object | None = None, resources: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "registry.test/app:1", "resources": resources or {}}
    metadata: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def node(name: str, **spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **({"spec": spec} if spec else {})}


def config_map(name: str, labels: Object | None = None, **data: str) -> Object:
    metadata: Object = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **({"data": data} if data else {})}


def binding(name: str, target: str, **metadata: Any) -> Object:
    place = {"apiVersion": "v1", "kind": "Node", "name": target}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": place}


def stateful_set(name: str, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod(name)["spec"]}
    whole = {"serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": whole}


def workload(kind: str, name: str, **spec: Any) -> Object:
    made = stateful_set(name)["spec"]
    del made["serviceName"]
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": {**made, **spec}}


def job(name: str) -> Object:
    template = {"spec": pod(name, restartPolicy="Never")["spec"]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
EVENT = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Why", "message": "m"}
BUDGET = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
ALLOWS_NONE = {
    "disruptionsAllowed": 0,
    "currentHealthy": 1,
    "desiredHealthy": 1,
    "expectedPods": 1,
    "observedGeneration": 1,
}

_ADDRESSES = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "strategic-a"}]
_PDB = "policy/v1:poddisruptionbudgets"
_STS = "apps/v1:statefulsets"
_LEASES = "coordination.k8s.io/v1:leases"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "pod-create": (
        post("pods", pod("a", resources={"requests": {"cpu": 1, "memory": "1024Mi"}, "limits": {"memory": "2Gi"}})),
        post("pods", pod("a")),
        get("pods/a"),
        get("pods/missing"),
        post("pods", pod("guaranteed", resources={"limits": {"cpu": "0.5", "memory": "1e3"}})),
        post("pods", pod("gpu", resources={"limits": {"example.com/gpu": 2}})),
        post("pods", {**pod("x"), "metadata": {"generateName": "made-"}}),
        post("pods", pod("gated", schedulingGates=[{"name": "example.com/wait"}])),
        post("pods", pod("named", schedulerName="mine", nodeSelector={"a": "b"}, terminationGracePeriodSeconds=5)),
    ),
    "pod-invalid": (
        post("pods", {**pod("x"), "spec": {"containers": []}}),
        post("pods", pod("Upper_Case")),
        post("pods", {**pod("x"), "metadata": {}}),
        post("pods", pod("x", resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        post("pods", pod("x", resources={"requests": {"example.com/gpu": "1"}})),
        post("pods", pod("x", resources={"limits": {"example.com/gpu": "500m"}})),
        post("pods", pod("x", resources={"requests": {"cpu": "-1"}})),
        post("pods", pod("x", restartPolicy="Sometimes")),
        post("pods", pod("x", labels={"a": "not a value"})),
        post("pods", pod("x", priorityClassName="absent")),
        post("pods", {**pod("x"), "metadata": {"name": "x", "resourceVersion": "7"}}),
        post("pods", {**pod("x"), "metadata": {"name": "x", "namespace": "other"}}),
        post("pods", {**pod("x"), "kind": "Node"}),
        post("pods", pod("x", schedulingGates=[{"name": "a"}, {"name": "a"}])),
        post("pods", pod("x", nodeName="n", schedulingGates=[{"name": "a"}])),
        Step(method="POST", path="pods", body=[1, 2]),
        Step(method="PUT", path="pods", body=pod("x")),
        get("/api/v1/unknowns"),
        get("/apis/apps/v1/namespaces/pod-invalid/unknowns/x"),
    ),
    "update": (
        post("configmaps", config_map("c", a="1"), old="metadata.resourceVersion", uid="metadata.uid"),
        put("configmaps/c", config_map("c", a="2")),
        put("configmaps/c", {**config_map("c", a="3"), "metadata": {"name": "c", "resourceVersion": "$old"}}),
        put("configmaps/c", {**config_map("c", a="3"), "metadata": {"name": "c", "uid": "not-this-one"}}),
        put("configmaps/other", config_map("c")),
        put("configmaps/missing", config_map("missing")),
        get("configmaps/c"),
        post("pods", pod("p")),
        put("pods/p", pod("p", resources={"requests": {"cpu": "1"}})),
        put("pods/p", pod("p", schedulingGates=[{"name": "late"}])),
        put("pods/p", pod("p", nodeName="n")),
    ),
    "patch": (
        post("pods", pod("p", labels={"a": "1"}), rv="metadata.resourceVersion"),
        patch("pods/p", {"metadata": {"labels": {"b": "2", "a": None}}}),
        patch("pods/p", {"metadata": {"annotations": {"x": "y"}}}, STRATEGIC),
        patch("pods/p", {"spec": {"containers": [{"name": "main", "image": "registry.test/app:2"}]}}, STRATEGIC),
        patch("pods/p", [{"op": "add", "path": "/metadata/labels/c", "value": "3"}], JSON_PATCH),
        patch("pods/p", [{"op": "test", "path": "/metadata/labels/c", "value": "4"}], JSON_PATCH),
        patch("pods/p", [{"op": "remove", "path": "/metadata/labels/missing"}], JSON_PATCH),
        patch("pods/p", {"metadata": {"resourceVersion": "$rv", "labels": {"d": "4"}}}),
        patch("pods/p", {"spec": {"nodeName": "n"}}),
        patch("pods/missing", {}),
        patch("pods/p", {}, "application/unknown"),
        patch("pods/p", "not a patch"),
        get("pods/p"),
    ),
    "status": (
        post("pods", pod("p")),
        patch("pods/p/status", {"status": {"phase": "Running", "nominatedNodeName": "n"}}),
        patch(
            "pods/p/status",
            {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
            STRATEGIC,
        ),
        patch("pods/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, STRATEGIC),
        patch("pods/p", {"status": {"phase": "Failed"}}),
        patch("pods/p/status", {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}),
        get("pods/p/status"),
    ),
    "binding": (
        post("pods", pod("p"), uid="metadata.uid"),
        post("pods/p/binding", binding("p", "n", uid="00000000-0000-0000-0000-000000000000")),
        post("pods/p/binding", binding("other", "n")),
        post("pods/p/binding", binding("p", "")),
        post("pods/p/binding", {**binding("p", "n"), "target": {"kind": "Pod", "name": "n"}}),
        post("pods/p/binding", binding("p", "n", uid="$uid", annotations={"who": "me"}, labels={"l": "v"})),
        get("pods/p"),
        post("pods/p/binding", binding("p", "n")),
        post("pods/p/binding", binding("p", "m")),
        post("pods/missing/binding", binding("missing", "n")),
        post("pods", pod("gated", schedulingGates=[{"name": "g"}])),
        post("pods/gated/binding", binding("gated", "n")),
        post("pods", pod("going", nodeName="n")),
        delete("pods/going"),
        post("pods/going/binding", binding("going", "n")),
    ),
    "eviction": (
        post("pods", pod("p", labels={"app": "a"}, nodeName="n", terminationGracePeriodSeconds=0)),
        patch("pods/p/status", {"status": READY}),
        post(_PDB, {**BUDGET, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}}),
        patch(f"{_PDB}/b/status", {"status": ALLOWS_NONE}),
        post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}}),
        post("pods/missing/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "missing"}}),
        delete(f"{_PDB}/b"),
        post("pods/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}),
        post("pods", pod("waits")),
        post("pods/waits/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "waits"}}),
        get("pods/waits"),
    ),
    "delete": (
        post("pods", pod("bound", nodeName="n"), uid="metadata.uid"),
        delete("pods/bound", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        delete("pods/bound", {"preconditions": {"resourceVersion": "1"}}),
        delete("pods/bound"),
        delete("pods/bound"),
        get("pods/bound"),
        delete("pods/bound", {"gracePeriodSeconds": 0, "preconditions": {"uid": "$uid"}}),
        get("pods/bound"),
        post("pods", pod("unbound")),
        delete("pods/unbound"),
        delete("pods/unbound"),
        post("pods", {**pod("held"), "metadata": {"name": "held", "finalizers": ["example.com/hold"]}}),
        delete("pods/held"),
        get("pods/held"),
        patch("pods/held", {"metadata": {"finalizers": None}}),
        get("pods/held"),
        post("configmaps", config_map("c")),
        delete("configmaps/c"),
        delete("configmaps/c"),
        post("configmaps", config_map("one", {"a": "b"})),
        post("configmaps", config_map("two")),
        delete("configmaps", labelSelector="a=b"),
        get("configmaps/two"),
        delete("pods/x", {"gracePeriodSeconds": "soon"}),
    ),
    "list": (
        post("configmaps", config_map("a", {"n": "1", "x": "y"})),
        post("configmaps", config_map("b", {"n": "2"})),
        post("configmaps", config_map("c", {"n": "3"})),
        get("configmaps", {"token": "metadata.continue"}, limit="2"),
        get("configmaps", limit="2", **{"continue": "$token"}),
        get("configmaps", labelSelector="n in (1,2),x"),
        get("configmaps", labelSelector="n notin (1),!x"),
        get("configmaps", labelSelector="n!=2"),
        get("configmaps", labelSelector="n>1"),
        get("configmaps", labelSelector="n in 1"),
        get("configmaps", fieldSelector="metadata.name=b"),
        get("configmaps", fieldSelector="metadata.name!=b"),
        get("configmaps", fieldSelector="data.a=1"),
        get("configmaps", limit="-1"),
        get("configmaps", limit="many"),
        get("configmaps", **{"continue": "nonsense"}),
        get("configmaps", resourceVersion="0"),
        get("configmaps", resourceVersion="99999999"),
        get("configmaps", resourceVersion="abc"),
        get("configmaps", resourceVersionMatch="Exact"),
        get("configmaps", resourceVersion="1", resourceVersionMatch="Sometimes"),
        post("pods", pod("on", nodeName="n")),
        post("pods", pod("off", schedulerName="mine")),
        get("pods", fieldSelector="spec.nodeName=n"),
        get("pods", fieldSelector="spec.nodeName=,spec.schedulerName=mine"),
        get("pods", fieldSelector="status.phase!=Pending"),
        get("pods", fieldSelector="spec.hostname=x"),
    ),
    "watch": (
        get("configmaps", {"rv": "metadata.resourceVersion"}),
        post("configmaps", config_map("a", {"in": "no"})),
        patch("configmaps/a", {"metadata": {"labels": {"in": "yes"}}}),
        patch("configmaps/a", {"data": {"k": "v"}}),
        patch("configmaps/a", {"metadata": {"labels": {"in": "no"}}}),
        delete("configmaps/a"),
        watch("configmaps", 5, resourceVersion="$rv"),
        watch("configmaps", 3, resourceVersion="$rv", labelSelector="in=yes"),
        watch("configmaps", 5, resourceVersion="$rv", fieldSelector="metadata.name=a"),
        post("configmaps", config_map("b")),
        watch("configmaps", 1),
        watch("configmaps", 1, resourceVersion="0"),
        watch(
            "configmaps",
            2,
            sendInitialEvents="true",
            allowWatchBookmarks="true",
            resourceVersionMatch="NotOlderThan",
        ),
        watch("configmaps", 1, resourceVersion="nonsense"),
    ),
    "pod-watch": (
        get("pods", {"rv": "metadata.resourceVersion"}),
        post("pods", pod("p", terminationGracePeriodSeconds=7)),
        post("pods/p/binding", binding("p", "n")),
        delete("pods/p"),
        delete("pods/p", gracePeriodSeconds="0"),
        post("pods", pod("unbound")),
        delete("pods/unbound"),
        watch("pods", 6, resourceVersion="$rv"),
        watch("pods", 4, resourceVersion="$rv", fieldSelector="spec.nodeName="),
        watch("pods", 3, resourceVersion="$rv", fieldSelector="spec.nodeName=n"),
        get("pods", resourceVersion="$rv", resourceVersionMatch="Exact"),
    ),
    "events-v1": (
        post(
            "events.k8s.io/v1:events",
            {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "e"},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "reportingController": "example.com/me",
                "reportingInstance": "me-1",
                "action": "Binding",
                "reason": "Scheduled",
                "type": "Normal",
                "note": "said",
                "regarding": {"kind": "Pod", "namespace": "events-v1", "name": "p"},
            },
        ),
        get("events/e"),
        get("events", fieldSelector="involvedObject.name=p,reason=Scheduled"),
        get("events.k8s.io/v1:events", fieldSelector="regarding.name=p"),
        patch("events.k8s.io/v1:events/e", {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}),
    ),
    "strategic": (
        post("/api/v1/nodes", node("strategic-a")),
        patch(
            "/api/v1/nodes/strategic-a/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True"}], "addresses": _ADDRESSES}},
            STRATEGIC,
        ),
        patch(
            "/api/v1/nodes/strategic-a/status",
            {"status": {"conditions": [{"type": "MemoryPressure", "status": "False"}]}},
            STRATEGIC,
        ),
        patch("/api/v1/nodes/strategic-a", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}, STRATEGIC),
        patch("/api/v1/nodes/strategic-a", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC),
        patch("/api/v1/nodes/strategic-a", {"metadata": {"labels": {"$patch": "replace", "x": "y"}}}, STRATEGIC),
        post("pods", {**pod("p"), "metadata": {"name": "p", "finalizers": ["example.com/a", "example.com/b"]}}),
        patch("pods/p", {"metadata": {"finalizers": ["example.com/c"]}}, STRATEGIC),
        patch("pods/p", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC),
        patch("pods/p", {"spec": {"containers": [{"image": "nameless:1"}]}}, STRATEGIC),
        patch("pods/p", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}, STRATEGIC),
    ),
    "nodes": (
        post("/api/v1/nodes", node("nodes-a")),
        patch("/api/v1/nodes/nodes-a/status", {"status": {"capacity": {"cpu": 4, "memory": "1024Ki", "pods": "1e2"}}}),
        patch("/api/v1/nodes/nodes-a", {"spec": {"unschedulable": True}}),
        get("/api/v1/nodes", fieldSelector="spec.unschedulable=true"),
        patch("/api/v1/nodes/nodes-a", {"spec": {"taints": [{"key": "k", "effect": "Never"}]}}),
        patch(
            "/api/v1/nodes/nodes-a",
            {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoSchedule"}]}},
        ),
        patch("/api/v1/nodes/nodes-a", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        get("/api/v1/namespaces/nodes/nodes/nodes-a"),
        delete("/api/v1/nodes/nodes-a"),
    ),
    "quantities": (
        post("pods", pod("a", resources={"requests": {"cpu": "0.1", "memory": "1.5Gi"}})),
        post("pods", pod("b", resources={"requests": {"cpu": "1000m", "memory": "128974848"}})),
        post("pods", pod("c", resources={"requests": {"cpu": 1.5, "memory": "1000Ki"}})),
        post("pods", pod("d", resources={"requests": {"cpu": "100u", "memory": "1E"}})),
        post("pods", pod("e", resources={"requests": {"memory": "1 Gi"}})),
        post("pods", pod("f", resources={"requests": {"cpu": "1e-3", "memory": "12e6"}})),
        post("pods", pod("g", resources={"requests": {"cpu": "+1", "memory": "0Mi"}})),
    ),
    "leases": (
        post(
            _LEASES,
            {**LEASE, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}},
            rv="metadata.resourceVersion",
        ),
        put(f"{_LEASES}/l", {**LEASE, "spec": {"holderIdentity": "b"}}),
        put(
            f"{_LEASES}/l",
            {**LEASE, "metadata": {"name": "l", "resourceVersion": "$rv"}, "spec": {"holderIdentity": "b"}},
        ),
        put(
            f"{_LEASES}/l",
            {**LEASE, "metadata": {"name": "l", "resourceVersion": "$rv"}, "spec": {"holderIdentity": "c"}},
        ),
        get(f"{_LEASES}/l"),
    ),
    "events": (
        post("events", {**EVENT, "involvedObject": {"kind": "Pod", "namespace": "events", "name": "p"}}),
        get("events", fieldSelector="involvedObject.name=p"),
        get("events", fieldSelector="involvedObject.name=q"),
        get("events.k8s.io/v1:events/e"),
        patch("events/e", {"count": 2}),
    ),
    "priority": (
        post(_CLASSES, {**CLASS, "metadata": {"name": "priority-a"}, "value": 100}),
        post(_CLASSES, {**CLASS, "metadata": {"name": "priority-b"}, "value": 2000000000}),
        patch(f"{_CLASSES}/priority-a", {"value": 200}),
        post("pods", pod("p", priorityClassName="priority-a")),
        post("pods", pod("q", priorityClassName="priority-a", priority=7)),
        post("pods", pod("r", priority=7)),
    ),
    "budgets": (
        post(_PDB, {**BUDGET, "spec": {"maxUnavailable": "10%", "selector": {"matchLabels": {"a": "b"}}}}),
        post(_PDB, {**BUDGET, "metadata": {"name": "c"}, "spec": {"maxUnavailable": 1, "minAvailable": 1}}),
        post(_PDB, {**BUDGET, "metadata": {"name": "d"}, "spec": {"minAvailable": "many"}}),
        post(_PDB, {**BUDGET, "metadata": {"name": "e"}, "spec": {}}),
        patch(f"{_PDB}/b", {"spec": {"maxUnavailable": 2}}),
    ),
    "scale": (
        post(_STS, stateful_set("s", replicas=2)),
        get(f"{_STS}/s/scale"),
        put(
            f"{_STS}/s/scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "s", "namespace": "scale"},
                "spec": {"replicas": 3},
            },
        ),
        patch(f"{_STS}/s/scale", {"spec": {"replicas": 0}}),
        patch(f"{_STS}/s/scale", {"spec": {"replicas": -1}}),
        get(f"{_STS}/missing/scale"),
        get(f"{_STS}/s"),
        post(_STS, stateful_set("bad", selector={"matchLabels": {"app": "else"}})),
        patch(f"{_STS}/s", {"spec": {"selector": {"matchLabels": {"app": "t"}}}}),
    ),
    "workloads": (
        post("apps/v1:replicasets", workload("ReplicaSet", "r")),
        post("apps/v1:deployments", workload("Deployment", "d")),
        post("apps/v1:daemonsets", workload("DaemonSet", "ds")),
        post("batch/v1:jobs", job("j")),
        post("apps/v1:deployments", workload("Deployment", "bad", template={"spec": pod("x")["spec"]})),
    ),
    "apply": (
        patch("configmaps/c", config_map("c", a="1"), APPLY, fieldManager="m"),
        patch("configmaps/c", config_map("c", a="2"), APPLY, fieldManager="m"),
        patch("configmaps/c", config_map("c", a="2"), APPLY),
        get("configmaps/c"),
    ),
    "reviews": (
        post(
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}},
            },
        ),
    ),
    "small-kinds": (
        post("services", {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}}),
        post("endpoints", {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}}),
        post("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}),
        post("secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}),
        post(
            "/apis/storage.k8s.io/v1/storageclasses",
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "sc"}, "provisioner": "x"},
        ),
        post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "small-kinds-2"}}),
    ),
}

"""Every call that Waggle makes to the API server, everything that may go wrong with one, and which pairs make sense.

This table is the one that all fault suites go by: the simulation (`tests.soak`), where a seed is a run byte for byte,
and the servers on real sockets (`tests.faults`). `sites.py` holds it against the code, so that a new call without its
faults fails a test; what the suites see on the wire is held against it as well (`operation_of`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

Kind = Literal["list", "watch", "read", "write"]
POD = r"/namespaces/[^/]+/pods/[^/?]+"
POOL = "/api/v1/namespaces/[^/]+/pods"
WORKLOAD = "/apis/apps/v1/namespaces/[^/]+/deployments"
CUSTOM = "/apis/waggle.dev/v1alpha1"
HOSTS = r"/api/v1/namespaces/[^/]+/pods\?.*labelSelector=statefulset.*"
STATEFUL = "/apis/apps/v1/namespaces/[^/]+/statefulsets"
#: A resource of somebody else that is placed as vpods are.
PLACED = "/apis/placed[.]test/v1"
#: Objects that pods may wait for.
TARGETS = (
    "/apis/(batch/v1/jobs|apps/v1/(deployments|replicasets|statefulsets)"
    "|jobset[.]x-k8s[.]io/v1alpha2/jobsets|batch[.]volcano[.]sh/v1alpha1/jobs"
    "|scheduling[.](k8s[.]io/v1alpha2|x-k8s[.]io/v1alpha1|volcano[.]sh/v1beta1)/podgroups)"
)
#: Objects that a plan reads besides pods.
PLANNED = (
    "/apis/(batch/v1/jobs|apps/v1/(deployments|replicasets|statefulsets)"
    "|scheduling[.]k8s[.]io/v1/priorityclasses|policy/v1/poddisruptionbudgets"
    "|jobset[.]x-k8s[.]io/v1alpha2/jobsets|batch[.]volcano[.]sh/v1alpha1/jobs"
    "|scheduling[.](k8s[.]io|x-k8s[.]io)/v1alpha1/podgroups)"
)
LEASES = "/apis/coordination.k8s.io/v1/namespaces/[^/]+/leases"


@dataclass(frozen=True, slots=True)
class Operation:
    """A call that Waggle makes. `path` is a regular expression for all of path and query.

    `by` says which part of Waggle makes it: two parts may send the same request.
    """

    name: str
    kind: Kind
    method: str
    path: str
    by: str

    def is_it(self, methods: Sequence[str], path: str) -> bool:
        # The API server does not know that a list of what it does not serve is one.
        asked = (*methods, "LIST") if "GET" in methods and "limit=" in path else methods
        return self.method in asked and re.fullmatch(self.path, path) is not None


OPERATIONS: tuple[Operation, ...] = (
    Operation("list nodes", "list", "LIST", r"/api/v1/nodes(\?limit=500.*|\?continue=.*)?", "informer"),
    Operation("list pods", "list", "LIST", r"/api/v1/pods(\?limit=500.*|\?continue=.*)?", "informer"),
    Operation("watch nodes", "watch", "WATCH", r"/api/v1/nodes\?watch=true&.*", "informer"),
    Operation("watch pods", "watch", "WATCH", r"/api/v1/pods\?watch=true&.*", "informer"),
    Operation("bind", "write", "POST", f"/api/v1{POD}/binding", "committer"),
    Operation("read pod", "read", "GET", f"/api/v1{POD}", "committer"),
    Operation("evict", "write", "POST", f"/api/v1{POD}/eviction", "committer"),
    Operation("move label", "write", "PATCH", "/api/v1/namespaces/[^/]+/pods/waggle-[^/?]+", "labeler"),
    Operation("mark preemption", "write", "PATCH", f"/api/v1{POD}", "committer"),
    Operation("nudge", "write", "PATCH", f"/api/v1{POD}", "hints"),
    Operation("event", "write", "POST", "/api/v1/namespaces/[^/]+/events", "hints"),
    Operation("count event", "write", "PATCH", "/api/v1/namespaces/[^/]+/events/[^/?]+", "hints"),
    Operation("read lease", "read", "GET", f"{LEASES}/[^/?]+", "elector"),
    Operation("make lease", "write", "POST", LEASES, "elector"),
    Operation("renew lease", "write", "PUT", f"{LEASES}/[^/?]+", "elector"),
    Operation("version of nodes", "read", "LIST", r"/api/v1/nodes\?limit=1", "leadership"),
    Operation("version of pods", "read", "LIST", r"/api/v1/pods\?limit=1", "leadership"),
    Operation("find label", "read", "LIST", r"/api/v1/namespaces/[^/]+/pods\?labelSelector=.*", "labeler"),
    Operation("ask who", "read", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", "reviewer"),
    Operation("ask rights", "read", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "reviewer"),
    Operation("compare nodes", "list", "LIST", r"/api/v1/nodes(\?limit=500.*|\?continue=.*)?", "comparer"),
    Operation("compare pods", "list", "LIST", r"/api/v1/pods(\?limit=500.*|\?continue=.*)?", "comparer"),
    Operation("heal node", "read", "GET", "/api/v1/nodes/[^/?]+", "comparer"),
    Operation("heal pod", "read", "GET", f"/api/v1{POD}", "comparer"),
    Operation("list pool pods", "list", "LIST", rf"{POOL}(\?limit=500.*|\?continue=.*)?", "claims"),
    Operation("watch pool pods", "watch", "WATCH", rf"{POOL}\?watch=true&.*", "claims"),
    Operation("take pod", "write", "PATCH", f"/api/v1{POD}", "claims"),
    Operation("look at pod", "read", "GET", f"/api/v1{POD}", "claims"),
    Operation("delete pod", "write", "DELETE", f"/api/v1{POD}", "claims"),
    Operation("return pod", "write", "PATCH", f"/api/v1{POD}", "claims"),
    Operation("renew pod", "write", "PATCH", f"/api/v1{POD}", "claims"),
    Operation("advance pod", "write", "PATCH", f"/api/v1{POD}", "claims"),
    Operation("create pod", "write", "POST", POOL, "claims"),
    Operation("list workload", "list", "LIST", rf"{WORKLOAD}\?(limit=500|continue=|fieldSelector=).*", "claims"),
    Operation("watch workload", "watch", "WATCH", rf"{WORKLOAD}\?watch=true&.*", "claims"),
    Operation("scale workload", "write", "PATCH", f"{WORKLOAD}/[^/?]+/scale", "claims"),
    Operation("mark surplus", "write", "PATCH", f"/api/v1{POD}", "claims"),
    Operation("renew member", "write", "PATCH", f"{LEASES}/[^/?]+", "claims"),
    Operation("list members", "read", "LIST", rf"{LEASES}\?labelSelector=.*", "claims"),
    Operation("make member", "write", "POST", LEASES, "claims"),
    Operation("forget member", "write", "DELETE", f"{LEASES}/[^/?]+", "claims"),
    Operation("list pools", "list", "LIST", rf"{CUSTOM}/pools(\?limit=500.*|\?continue=.*)?", "claims"),
    Operation("watch pools", "watch", "WATCH", rf"{CUSTOM}/pools\?watch=true&.*", "claims"),
    Operation("list claims", "list", "LIST", rf"{CUSTOM}/claims(\?limit=500.*|\?continue=.*)?", "claims"),
    Operation("watch claims", "watch", "WATCH", rf"{CUSTOM}/claims\?watch=true&.*", "claims"),
    Operation("pool status", "write", "PATCH", f"{CUSTOM}/namespaces/[^/]+/pools/[^/?]+/status", "claims"),
    Operation("claim status", "write", "PATCH", f"{CUSTOM}/namespaces/[^/]+/claims/[^/?]+/status", "claims"),
    Operation("claim finalizer", "write", "PATCH", f"{CUSTOM}/namespaces/[^/]+/claims/[^/?]+", "claims"),
    Operation("read claim", "read", "GET", f"{CUSTOM}/namespaces/[^/]+/claims/[^/?]+", "claims"),
    Operation("list vpods", "list", "LIST", rf"{CUSTOM}/vpods(\?limit=500.*|\?continue=.*)?", "vpods"),
    Operation("watch vpods", "watch", "WATCH", rf"{CUSTOM}/vpods\?watch=true&.*", "vpods"),
    Operation("list vpodsets", "list", "LIST", rf"{CUSTOM}/vpodsets(\?limit=500.*|\?continue=.*)?", "vpods"),
    Operation("watch vpodsets", "watch", "WATCH", rf"{CUSTOM}/vpodsets\?watch=true&.*", "vpods"),
    Operation("list host pods", "list", "LIST", HOSTS, "vpods"),
    Operation("watch host pods", "watch", "WATCH", HOSTS, "vpods"),
    Operation("list stateful sets", "list", "LIST", rf"{STATEFUL}(\?limit=500.*|\?continue=.*)?", "vpods"),
    Operation("watch stateful sets", "watch", "WATCH", rf"{STATEFUL}\?watch=true&.*", "vpods"),
    Operation("list placed", "list", "LIST", rf"{PLACED}/[a-z]+(\?limit=500.*|\?continue=.*)?", "vpods"),
    Operation("watch placed", "watch", "WATCH", rf"{PLACED}/[a-z]+\?watch=true&.*", "vpods"),
    Operation("write placements", "write", "PATCH", f"{CUSTOM}/namespaces/[^/]+/vpods/[^/?]+/status", "vpods"),
    Operation("write placed", "write", "PATCH", f"{PLACED}/namespaces/[^/]+/[a-z]+/[^/?]+/status", "vpods"),
    Operation("read vpod", "read", "GET", f"{CUSTOM}/namespaces/[^/]+/vpods/[^/?]+", "vpods"),
    Operation("read placed", "read", "GET", f"{PLACED}/namespaces/[^/]+/[a-z]+/[^/?]+", "vpods"),
    Operation("scale set", "write", "PATCH", f"{STATEFUL}/[^/?]+/scale", "vpods"),
    Operation("vpodset status", "write", "PATCH", f"{CUSTOM}/namespaces/[^/]+/vpodsets/[^/?]+/status", "vpods"),
    Operation("list ordered pods", "list", "LIST", r"/api/v1/pods(\?limit=500.*|\?continue=.*)?", "ordering"),
    Operation("watch ordered pods", "watch", "WATCH", r"/api/v1/pods\?watch=true&.*", "ordering"),
    Operation("list targets", "list", "LIST", rf"{TARGETS}(\?limit=500.*|\?continue=.*)?", "ordering"),
    Operation("watch targets", "watch", "WATCH", rf"{TARGETS}\?watch=true&.*", "ordering"),
    Operation("ask if served", "read", "LIST", rf"{TARGETS}\?limit=1", "ordering"),
    Operation("remove gate", "write", "PATCH", f"/api/v1{POD}", "ordering"),
    Operation("mark met", "write", "PATCH", f"/api/v1{POD}", "ordering"),
    Operation("read released pod", "read", "GET", f"/api/v1{POD}", "ordering"),
    Operation("plan waiting pods", "list", "LIST", r"/api/v1/pods\?.*Pending.*limit=100.*", "plans"),
    Operation(
        "plan running pods", "list", "LIST", r"/api/v1(/namespaces/[^/]+)?/pods\?(?!.*Pending).*limit=100", "plans"
    ),
    Operation("plan other objects", "list", "LIST", rf"{PLANNED}\?.*limit=100", "plans"),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, as a rule of `extender.embedded.apiserver.faults`.

    `unless` are reasons why it makes no sense, by the kind or the name of an operation.
    """

    name: str
    rule: Mapping[str, Any]
    unless: Mapping[str, str] = field(default_factory=dict)


#: Seconds of `slow`, which every patience outlasts, and of `late`, which none does.
SLOW, LATE = 0.1, 1.2
_SAME = "nothing was to be done: it is the same as 'dropped before'"
_READS = dict.fromkeys(("list", "read", "watch"), _SAME)
_LIE = "an object that is there is never 'not found'; pods that are deleted meanwhile are in the mixtures"
_NO_CONFLICT = dict.fromkeys(("list", "read", "watch"), "what changes nothing is in conflict with nothing")
_NO_VERSION = dict.fromkeys(("read", "write"), "it names no resourceVersion that could have expired")
_NO_LIST = dict.fromkeys(("read", "write", "watch"), "it has no pages") | {
    "list workload": "it is one object, on one page"
}
_NO_WATCH = dict.fromkeys(("read", "write", "list"), "it is not a watch")
_NO_PAST = dict.fromkeys(("ask who", "ask rights"), "it reads nothing that has a past")
_QUORUM = "a term stands on this one read being from the quorum, as a read without resourceVersion is"
_PODS = dict.fromkeys(
    (
        *("bind", "read pod", "evict", "mark preemption", "nudge", "move label", "heal pod", "heal node"),
        *(
            "take pod",
            "look at pod",
            "delete pod",
            "return pod",
            "renew pod",
            "advance pod",
            "create pod",
            "scale workload",
            "mark surplus",
        ),
        *("write placements", "write placed", "read vpod", "read placed", "scale set"),
        *("remove gate", "mark met", "read released pod"),
    ),
    _LIE,
)


def _status(code: int, **more: Any) -> dict[str, Any]:
    return {"action": "status", "status": code, **more}


def _watch(action: str, **more: Any) -> dict[str, Any]:
    return {"action": f"watch-{action}", **more}


FAULTS: tuple[Fault, ...] = (
    Fault("slow", {"action": "delay", "seconds": SLOW}),
    Fault("applied after its time-out", {"action": "delay", "seconds": LATE}, _READS),
    Fault("403 Forbidden", _status(403)),
    Fault("404 Not Found", _status(404), _PODS),
    Fault("409 Conflict", _status(409), _NO_CONFLICT),
    Fault("410 Expired", _status(410), _NO_VERSION),
    Fault("429 and Retry-After", _status(429, headers={"Retry-After": "1"})),
    Fault("500 Internal Error", _status(500)),
    Fault("503 and Retry-After", _status(503, headers={"Retry-After": "1"})),
    Fault("504 Timeout", _status(504)),
    Fault("dropped before", {"action": "drop-before"}),
    Fault("dropped after", {"action": "drop-after"}, _READS),
    Fault("applied, never answered", {"action": "silence"}),
    Fault("answer cut off", {"action": "cut"}, {"watch": "that is 'watch dropped'"}),
    Fault("interim answers first", {"action": "interim"}),
    Fault("garbage", {"action": "garbage"}),
    Fault(
        "stale",
        {"action": "stale", "behind": 1},
        {
            "write": "a write is not answered from the past",
            "watch": "a watch that lags is 'watch stalled' and 'event late'",
            "version of nodes": _QUORUM,
            "version of pods": _QUORUM,
            "find label": "it is from the quorum, and looked at again 15 s later",
            **_NO_PAST,
        },
    ),
    Fault("page token expired", _status(410, path="[?&]continue="), _NO_LIST),
    Fault("watch closed", _watch("close", after=1), _NO_WATCH),
    Fault("watch dropped", _watch("drop", after=1), _NO_WATCH),
    Fault("watch stalled", _watch("stall", after=1), _NO_WATCH),
    Fault("watch expired", _watch("expire", after=1), _NO_WATCH),
    Fault("event repeated", _watch("duplicate", after=1), _NO_WATCH),
    Fault("event swallowed", _watch("swallow", after=1), _NO_WATCH),
    Fault("event late", _watch("late", after=1), _NO_WATCH),
    Fault("half a line", _watch("garbage", after=1), _NO_WATCH),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One operation with one fault."""

    operation: Operation
    fault: Fault

    def __str__(self) -> str:
        return f"{self.operation.name}: {self.fault.name}"


def why_not(operation: Operation, fault: Fault) -> str:
    """Why this fault makes no sense with this operation, "" if it does."""
    return fault.unless.get(operation.name, "") or fault.unless.get(operation.kind, "")


@cache
def pairs() -> tuple[Pair, ...]:
    """Every pair that makes sense, operation by operation."""
    return tuple(Pair(op, fault) for op in OPERATIONS for fault in FAULTS if not why_not(op, fault))


@cache
def simulated() -> tuple[Pair, ...]:
    """The pairs that the simulation of pods tries (`tests.soak`). Claims, vpods and start-up ordering have random
    machines of their own, in tests/unit; plans decide nothing."""
    others = ("claims", "vpods", "ordering", "plans")
    return tuple(pair for pair in pairs() if pair.operation.by not in others)


@cache
def senseless() -> tuple[tuple[Pair, str], ...]:
    """Every other pair, with the reason."""
    return tuple((Pair(op, fault), why) for op in OPERATIONS for fault in FAULTS if (why := why_not(op, fault)))


def pair_named(text: str) -> Pair:
    """The pair that prints as `text`. Raises ValueError."""
    for pair in pairs():
        if str(pair) == text:
            return pair
    raise ValueError(f"{text!r} is no pair of operation and fault; --list shows them")


def operation_of(methods: Sequence[str], path: str, by: str = "") -> Operation:
    """The operation that a request is, made `by` this part of Waggle ("": whichever may make it).

    Raises AssertionError for a request that the table does not know: add it, with its faults.
    """
    for operation in OPERATIONS:
        if operation.is_it(methods, path) and by in ("", operation.by):
            return operation
    raise AssertionError(f"{methods[-1]} {path} of {by or 'Waggle'} is not in tests/faults/table.py")

"""Where in the code calls to the API server are made, found by reading it; `SITES` says which operation each is.

A call that is added to Waggle is a site that `SITES` does not know, and a test fails until the table of operations and
faults has it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "extender"
#: Not the server: what it is tried with, and commands, which tell a person what failed. Not the API server: who calls
#: us. And the client itself, whose calls of its own methods are no further ones.
OTHERS = (
    "embedded/",
    "demo/",
    "operate/",
    "web/",
    "kube/client/api.py",
    "kube/client/session.py",
    "kube/client/exchange.py",
)
#: The names under which a client is kept, and its methods that make requests.
_CALLS = {
    "_api": ("request", "exchange", "stream", "encoded"),
    "api": ("request", "exchange", "stream"),
    "_multiplexer": ("send",),
}

#: What makes a request of the parts of one.
_MAKERS = ("Request", "post_request", "patch_request", "annotation_request")

#: What is written to Pool and Claim objects, and the read that follows a write that did not end well.
OBJECTS = ("pool status", "claim status", "claim finalizer", "read claim")

#: What is written for vpods, and the read that follows a write that no watch has shown.
VPODS = ("write placements", "write placed", "read vpod", "read placed", "scale set", "vpodset status")

#: What is written to release pods, and the read that follows a write that did not end well.
ORDERING = ("remove gate", "mark met", "read released pod")

#: What committers send.
COMMITTED = (
    *("bind", "read pod", "evict", "mark preemption"),
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
    *OBJECTS,
    *VPODS,
    *ORDERING,
)

SITES: dict[str, tuple[str, ...]] = {
    "kube/informers/reflector.py Reflector._get": (
        *("list nodes", "list pods", "list pool pods", "list workload"),
        *("list pools", "list claims"),
        *("list vpods", "list vpodsets", "list host pods", "list stateful sets", "list placed"),
        *("list ordered pods", "list targets"),
    ),
    "kube/informers/reflector.py Reflector._watch": (
        *("watch nodes", "watch pods", "watch pool pods", "watch workload"),
        *("watch pools", "watch claims"),
        *("watch vpods", "watch vpodsets", "watch host pods", "watch stateful sets", "watch placed"),
        *("watch ordered pods", "watch targets"),
    ),
    "kube/writes/fenced.py FencedApi.exchange": (
        *COMMITTED,
        *("nudge", "event", "count event"),
    ),
    "kube/writes/committer.py Committer._sent": COMMITTED,
    "kube/writes/committer.py Committer._carry_out": COMMITTED,
    "kube/writes/multiplexer.py HttpMultiplexer.send": COMMITTED,
    "kube/writes/best_effort.py BestEffortWriter._request": ("nudge", "event", "count event"),
    "core/requests.py post_request": ("bind", "evict", "event"),
    "core/requests.py patch_request": (
        *("mark preemption", "nudge", "count event", "scale workload", "mark met"),
        *OBJECTS[:3],
        *(each for each in VPODS if not each.startswith("read ")),
    ),
    "core/requests.py annotation_request": ("mark preemption", "nudge", "mark met"),
    "scheduling/writes/binding.py request": ("bind",),
    "scheduling/writes/pod_read.py request": ("read pod",),
    "scheduling/writes/eviction.py request": ("evict",),
    "scheduling/writes/preemption_mark.py request": ("mark preemption",),
    "scheduling/writes/requeue.py request": ("nudge",),
    "core/kube_events.py new_event": ("event",),
    "core/kube_events.py count_event": ("count event",),
    "claims/writes/names.py patch_request": ("take pod", "return pod", "renew pod", "advance pod", "mark surplus"),
    "claims/writes/create.py request": ("create pod",),
    "core/scale.py request": ("scale workload", "scale set"),
    "claims/writes/look.py request": ("look at pod",),
    "claims/writes/give.py request": ("delete pod", "return pod"),
    "vpods/writes/placements.py request": ("write placements", "write placed"),
    "vpods/writes/read.py request": ("read vpod", "read placed"),
    "ordering/writes/gate.py request": ("remove gate",),
    "ordering/writes/met.py request": ("mark met",),
    "ordering/writes/read.py request": ("read released pod",),
    "server/ordering/sources.py Sources._is_served": ("ask if served",),
    "server/plans/live.py LiveReader._get": ("plan waiting pods", "plan running pods", "plan other objects"),
    "server/vpods/set_objects.py _request": ("vpodset status",),
    "server/claims/objects/writes.py _pool_status": ("pool status",),
    "server/claims/objects/writes.py _claim_status": ("claim status",),
    "server/claims/objects/writes.py _finalizer": ("claim finalizer",),
    "server/claims/objects/writes.py _read": ("read claim",),
    "server/claims/members.py Membership._call": ("renew member", "make member", "forget member"),
    "server/claims/members.py Membership._list": ("list members",),
    "kube/lease/elector.py Elector._request": ("read lease", "make lease", "renew lease"),
    "server/terms.py EngineTerms._read_version": ("version of nodes", "version of pods"),
    "server/leader_label.py LeaderLabeler._found": ("find label",),
    "server/leader_label.py LeaderLabeler._patch": ("move label",),
    "kube/client/access_review.py Reviewer._review": ("ask who", "ask rights"),
    "server/cache_comparer.py CacheComparer._page": ("compare nodes", "compare pods"),
    "server/cache_comparer.py CacheComparer._gone": ("heal node", "heal pod"),
}


def found() -> set[str]:
    """Every function that calls the API server or makes a request for it, as `file function`."""
    sites = set()
    for file in sorted(ROOT.rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith(OTHERS):
            sites |= {f"{name} {function}" for function in _functions(ast.parse(file.read_text(encoding="utf-8")), "")}
    return sites


def _functions(tree: ast.AST, prefix: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(map(_is_call, ast.walk(node))):
            yield f"{prefix}{node.name}"


def _is_call(node: ast.AST) -> bool:
    """`self._api.request(...)` and its like, or the making of a `Request`."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Name):
        return called.id in _MAKERS
    if not isinstance(called, ast.Attribute):
        return False
    owner = called.value
    kept = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return called.attr in _CALLS.get(kept, ())

"""Fingerprints: a digest for each object whose state matters to scheduling, and one digest of them all.

Two worlds with the same fingerprint give the same plan. What changes without meaning (versions of objects, heartbeats,
who manages a field) is not part of it. The digests of the single objects are kept, so that a change can be named:

    "Node/gpu-3 changed", "Pod/default/train-7 on gpu-3 is gone", "the settings changed"
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from extender.embedded.kubescheduler.model import SchedNode
from extender.plan.records import PlanPod, RawObject, World

#: Digests of single objects that are kept at most; a change beyond them is noticed, but not named.
MOST_PARTS = 250_000
_SETTINGS, _SCHEDULER, _ORDER = "the settings", "kube-scheduler's configuration", "the order of waiting pods"

_encode = msgspec.json.Encoder(order="deterministic").encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_metadata = msgspec.json.Decoder(dict[str, Any])


class Fingerprint(msgspec.Struct, frozen=True):
    """`text` is the digest of everything. `parts` is the digest of each object by its name, followed by "@" and the
    node if it is a pod on one."""

    text: str
    parts: dict[str, str]


def fingerprint(world: World) -> Fingerprint:
    """Return the fingerprint of a world. It takes some 10 us for each object."""
    parts = dict(sorted(_parts(world)))
    whole = hashlib.blake2b(_encode(parts), digest_size=16).hexdigest()
    return Fingerprint(whole, parts if len(parts) <= MOST_PARTS else dict(list(parts.items())[:MOST_PARTS]))


def _parts(world: World) -> Iterator[tuple[str, str]]:
    yield _SETTINGS, _digest(world.settings)
    yield _SCHEDULER, _digest(world.scheduler)
    yield _ORDER, _digest([each.pod.key for each in world.pods if not each.pod.pod.node_name])
    for node in world.nodes:
        yield f"Node/{node.name}", _digest(_node(node))
    for pod in world.pods:
        on = pod.pod.pod.node_name
        yield f"Pod/{pod.pod.key.namespace}/{pod.pod.key.name}", _digest(_pod(pod)) + (f"@{on}" if on else "")
    for budget in world.budgets:
        yield f"PodDisruptionBudget/{budget.key}", _digest(msgspec.structs.replace(budget, resource_version=""))
    for each in world.objects:
        yield str(each.target), _digest(_object(each))


def _node(node: SchedNode) -> object:
    return msgspec.structs.replace(node.node, resource_version=""), node.conditions


def _pod(planned: PlanPod) -> object:
    """Return what matters of a pod: what scheduling reads, and what others that wait for it read."""
    pod = planned.pod
    return (
        msgspec.structs.replace(pod.pod, resource_version=""),
        (pod.node_selector, pod.affinity, pod.tolerations, pod.host_ports, pod.resource_names, pod.disrupted),
        (planned.owner, planned.above, planned.group, planned.ready, planned.runs_to_end, planned.seconds),
        (planned.after, planned.behind),
    )


def _object(found: RawObject) -> object:
    """Return the object without versions and managers; its bytes if they cannot be read."""
    try:
        members = _members.decode(found.json)
        metadata = _metadata.decode(members.pop("metadata", msgspec.Raw(b"{}")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return found.json
    for noise in ("managedFields", "resourceVersion"):
        metadata.pop(noise, None)
    return members, metadata


def _digest(value: object) -> str:
    return hashlib.blake2b(_encode(value), digest_size=8).hexdigest()


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Yield what differs between the parts of two fingerprints, as sentences, in the order of names.

    That pods wait in another order is said only if nothing else explains it.
    """
    names = sorted(before.keys() | after.keys())
    differing = [name for name in names if before.get(name) != after.get(name)]
    if differing != [_ORDER]:
        differing = [name for name in differing if name != _ORDER]
    for name in differing:
        yield _told(name, before.get(name), after.get(name))


def _told(name: str, before: str | None, after: str | None) -> str:
    was, now = _place(before), _place(after)
    if before is None:
        return f"{name}{now} is new"
    if after is None:
        return f"{name}{was} is gone"
    return f"{name}{was} is now{now or ' on no node'}" if was != now else f"{name}{now} changed"


def _place(part: str | None) -> str:
    _, at, node = (part or "").partition("@")
    return f" on {node}" if at else ""

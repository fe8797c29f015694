"""Decides which claims, annotations that keep room for other pods, are trusted.

    the pod was                                         trusted is
    bound by us                                         the claim that our binding wrote
    found bound, before we decide (a restart, standby)  the claim on the pod
    found bound, while we decide                        nothing: no other client binds with a claim
    changed afterwards                                  the claim from before

A gang's plan is written on its members, and keeps seats for those that still wait. After a restart it has to be
trusted, although any client that may change a pod can write one. While this server decides, it needs no such text: it
has bound the gang itself. The claims that it takes over when it begins to decide last for a limited time
(`reservations.py`).
"""

from __future__ import annotations

import msgspec

from algorithm.model import Pairs, Pod, lookup
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState


def believed(state: SchedulingState, pod_info: PodInfo, pod: Pod) -> Pod:
    """Return the record of a pod that was reported bound, with only its trusted claims.

    Need not be called for a pod on the node that we chose, with the very annotations that we know: nothing was claimed.
    """
    claims = state.policy.claims
    if not claims:
        return pod
    placed = pod_info.placed
    if placed is not None and placed.node_name == pod.node_name and pod_info.state in (State.BINDING, State.BOUND):
        return _with(pod, tuple(pair for pair in placed.annotations if pair[0] in claims), claims)
    return _with(pod, (), claims) if state.deciding else pod


def _with(pod: Pod, said: Pairs, claims: frozenset[str]) -> Pod:
    others = [pair for pair in pod.annotations if pair[0] not in claims]
    annotations = tuple(sorted([*others, *said])) if said else tuple(others)
    return pod if annotations == pod.annotations else msgspec.structs.replace(pod, annotations=annotations)


def written(pod: Pod, annotations: Pairs, claims: frozenset[str]) -> Pairs:
    """Return the annotations that the pod's binding writes. A claim that is already on the pod is its author's: it is
    emptied. Need not be called for a pod without annotations."""
    decided = {name for name, _ in annotations}
    emptied = ((name, "") for name in sorted(claims - decided) if lookup(pod.annotations, name) is not None)
    return (*annotations, *emptied)

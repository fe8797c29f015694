"""Evicts a pod, or asks whether the API server would allow it."""

from __future__ import annotations

from typing import Any

import msgspec

from algorithm.model import PodKey
from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, pod_path, post_request


class Evict(msgspec.Struct, frozen=True):
    """POST an Eviction with UID precondition, if the `term` still lasts; not after `valid_for` seconds.

    `dry_run`: only ask whether the API server would allow the eviction. Reported by EvictFinished.
    """

    token: int
    namespace: str
    name: str
    uid: str
    preemptor: PodKey
    dry_run: bool = False
    term: int = 0
    valid_for: float = 20.0


class EvictFinished(msgspec.Struct, frozen=True):
    """The report of an Evict of the pod `uid`. REJECTED: eviction is not allowed (PodDisruptionBudget, RBAC)."""

    token: int
    outcome: Outcome
    uid: str = ""
    dry_run: bool = False


def request(eviction: Evict) -> Request:
    """Build the Eviction, which PodDisruptionBudgets may refuse. Only the pod with this UID is evicted."""
    body: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": eviction.name, "namespace": eviction.namespace},
    }
    options: dict[str, Any] = {"preconditions": {"uid": eviction.uid}} if eviction.uid else {}
    if eviction.dry_run:
        options["dryRun"] = ["All"]
    if options:
        body["deleteOptions"] = options
    return post_request(pod_path(eviction.namespace, eviction.name, "eviction"), body)


def report(eviction: Evict, outcome: Outcome, _: None) -> EvictFinished:
    return EvictFinished(eviction.token, outcome, eviction.uid, eviction.dry_run)


KIND = CommandKind(command=Evict, request=request, report=report, reported_as=EvictFinished, delays_handover=True)

"""Records on a pod which of its dependencies are met while it still waits for others, or that it was released.

A Job that has completed may be deleted soon afterwards. A server that starts later could not see that it ever was.
Removing a gate records the release by itself; a pod without a gate is marked by this command.
"""

from __future__ import annotations

import msgspec

from extender.core.commands import CommandKind
from extender.core.outcomes import Outcome
from extender.core.requests import Request, annotation_request, pod_path
from extender.ordering.after import met_text
from extender.ordering.records import MET, PodKey


class MarkMet(msgspec.Struct, frozen=True, kw_only=True):
    """PATCH a pod's annotation. Reported by MetMarked."""

    token: int
    key: PodKey
    uid: str
    #: All that are met, as `Dependency.key`; or `RELEASED` alone.
    met: tuple[str, ...]
    term: int = 0
    valid_for: float = 20.0


class MetMarked(msgspec.Struct, frozen=True, gc=False):
    """The report of a MarkMet."""

    token: int
    key: PodKey
    uid: str
    outcome: Outcome


def request(write: MarkMet) -> Request:
    return annotation_request(pod_path(write.key.namespace, write.key.name), write.uid, MET, met_text(write.met))


def report(write: MarkMet, outcome: Outcome, _: None) -> MetMarked:
    return MetMarked(write.token, write.key, write.uid, outcome)


KIND = CommandKind(command=MarkMet, request=request, report=report, reported_as=MetMarked, delays_handover=True)

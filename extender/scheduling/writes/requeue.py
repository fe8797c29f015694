"""Changes an annotation on a waiting pod, so that kube-scheduler takes it out of its back-off and tries it now."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator

import msgspec

from extender.core.commands import Moment
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request, annotation_request, pod_path

#: A change of this annotation makes kube-scheduler retry the pod now.
ANNOTATION = "waggle.dev/nudge"


class RequeuePod(msgspec.Struct, frozen=True):
    """PATCH an annotation on a waiting pod, so that kube-scheduler requeues it now. Not reported: it may be lost."""

    namespace: str
    name: str
    uid: str
    term: int = 0


class Requeues:
    """One PATCH for each pod, with a new value each time."""

    command = RequeuePod

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._serial = itertools.count()

    def topic(self, requeue: RequeuePod) -> tuple[str, ...]:
        return requeue.uid, requeue.namespace, requeue.name

    def requests(self, requeue: RequeuePod, _times: int, moment: Moment) -> Generator[Request, OutcomeKind, None]:
        """One request, however often the pod was to be requeued."""
        yield request(requeue, value=f"{moment.time}-{next(self._serial)}")


def request(requeue: RequeuePod, *, value: str) -> Request:
    return annotation_request(pod_path(requeue.namespace, requeue.name), requeue.uid, ANNOTATION, value)

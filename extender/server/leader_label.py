"""Labels the leader's pod, and no other, with `waggle.dev/leads`, so that a Service routes to the replica that decides.

    begins to decide -> label the own pod, remove the label from others -> check again from time to time
    decides no more  -> remove the label from the own pod

Readiness cannot do this: if only the leader were ready, no roll-out would ever complete, and no PodDisruptionBudget
would let the leader's node be drained. So every replica that is synced is ready, and the label selects among them. The
label only routes: a replica that does not lead refuses requests, labelled or not. If a leader's node dies, the next
leader removes the label from its pod at once, long before the node is found to be gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.kube.client.api import ApiError, ApiServer
from extender.server.repeating import RepeatingThread

log = structlog.get_logger(__name__)

LABEL = "waggle.dev/leads"
#: Seconds until a leader checks again whether another pod has the label: a write of the previous leader may come late.
_LOOK_AGAIN = 15.0
#: Seconds until a failed write is retried.
_RETRY = 1.0
#: From how many other pods the label is removed in one check; normally there is one at most.
_MOST_OTHERS = 16
_TIMEOUT = 5.0


class _Meta(msgspec.Struct, gc=False):
    name: str


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta


class _Pods(msgspec.Struct, gc=False):
    items: list[_Pod] | None = None


class _FailedError(Exception):
    pass


class LeaderLabeler:
    """Keeps the label on the leader's pod.

    `value` is the label's value, the same for all replicas; `leads` returns whether this replica decides now.
    """

    def __init__(self, api: ApiServer, *, namespace: str, pod: str, value: str, leads: Callable[[], bool]) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        self._pod = pod
        self._value = value
        self._leads = leads
        self._is_labelled = True  # perhaps from before a restart: a restarted container keeps its pod
        self._thread = RepeatingThread("waggle-leader-label", self._check, pause=_RETRY)
        self.start = self._thread.start

    def look(self) -> None:
        """Check at once: this replica may have begun or ceased to lead."""
        self._thread.wake()

    def stop(self) -> None:
        """Stop writing. The label may stay: the next leader removes it. Works also without a start."""
        self._thread.stop()

    def _check(self) -> float | None:
        """Write the label if it is not as it should be. Returns the seconds until the next check."""
        try:
            if self._leads():
                self._is_labelled = True
                self._point_here()
                return _LOOK_AGAIN
            if self._is_labelled:
                self._patch(self._pod, None)
                self._is_labelled = False
        except (ApiError, _FailedError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("the leader's label cannot be written", pod=self._pod, error=str(error))
            return _RETRY
        return None

    def _point_here(self) -> None:
        found = self._found()
        if self._pod not in found:
            self._patch(self._pod, self._value)
            log.info("the leader's label is on this pod", pod=self._pod)
        for other in sorted(found - {self._pod})[:_MOST_OTHERS]:
            if self._leads() and not self._thread.stopped:
                self._patch(other, None)

    def _found(self) -> set[str]:
        """The pods that have the label."""
        query = {"labelSelector": f"{LABEL}={self._value}"}
        response = self._api.request("GET", self._pods, query=query, timeout=_TIMEOUT)
        if not response.ok:
            raise _FailedError(response.message)
        return {pod.metadata.name for pod in msgspec.json.decode(response.body, type=_Pods).items or []}

    def _patch(self, pod: str, value: str | None) -> None:
        """Set the label; None removes it. A pod that is gone (404) is no error."""
        body: dict[str, Any] = {"metadata": {"labels": {LABEL: value}}}
        response = self._api.request(
            "PATCH",
            f"{self._pods}/{quote(pod, safe='')}",
            body=msgspec.json.encode(body),
            content_type="application/merge-patch+json",
            timeout=_TIMEOUT,
        )
        if not response.ok and response.status != 404:
            raise _FailedError(response.message)

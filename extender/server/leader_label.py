"""Makes a Service lead to the replica that decides: its pod, and no other, has the label `waggle.dev/leads`.

    begins to decide -> label the own pod, take the label from others -> look again from time to time
    decides no more  -> take the label from the own pod

Readiness cannot do it: were only the leader ready, no roll-out would ever be complete and no PodDisruptionBudget would
let the leader's node be drained. So every replica that is informed is ready, and the label chooses among them. It only
shows the way: who does not lead refuses, labelled or not. A pod that died with its node loses the label to its follower
at once, long before its node is noticed to be gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.kube.client.api import ApiError, ApiServer

log = structlog.get_logger(__name__)

LABEL = "waggle.dev/leads"
#: Seconds until a leader looks again whether another pod has the label: a write of the leader before may come late.
_LOOK_AGAIN = 15.0
#: Seconds until what failed is tried again.
_RETRY = 1.0
#: Other pods that the label is taken from in one look; normally there is one at most.
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
    """`value` is the label's, the same for all replicas; `leads` says whether this one decides at this moment."""

    def __init__(self, api: ApiServer, *, namespace: str, pod: str, value: str, leads: Callable[[], bool]) -> None:
        self._api = api
        self._pods = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
        self._pod = pod
        self._value = value
        self._leads = leads
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="waggle-signpost", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def look(self) -> None:
        """Whether this replica leads may have changed."""
        self._wake.set()

    def stop(self) -> None:
        """Writes nothing more. The label may stay: the next leader takes it away. Also without a start."""
        self._stopped = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_TIMEOUT)

    def _run(self) -> None:
        labelled = True  # by this pod's former life, perhaps: a container that is restarted keeps its pod
        while not self._stopped:
            leads = self._leads()
            pause: float | None = None
            try:
                if leads:
                    labelled = True
                    self._point_here()
                    pause = _LOOK_AGAIN
                elif labelled:
                    self._patch(self._pod, None)
                    labelled = False
            except (ApiError, _FailedError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                log.warning("the leader's label cannot be written", pod=self._pod, error=str(error))
                pause = _RETRY
            self._wake.wait(pause)
            self._wake.clear()

    def _point_here(self) -> None:
        found = self._found()
        if self._pod not in found:
            self._patch(self._pod, self._value)
            log.info("the leader's label is on this pod", pod=self._pod)
        for other in sorted(found - {self._pod})[:_MOST_OTHERS]:
            if self._leads() and not self._stopped:
                self._patch(other, None)

    def _found(self) -> set[str]:
        """The pods that have the label."""
        query = {"labelSelector": f"{LABEL}={self._value}"}
        response = self._api.request("GET", self._pods, query=query, timeout=_TIMEOUT)
        if not response.ok:
            raise _FailedError(response.message)
        return {pod.metadata.name for pod in msgspec.json.decode(response.body, type=_Pods).items or []}

    def _patch(self, pod: str, value: str | None) -> None:
        """None takes the label away. A pod that is gone has none."""
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

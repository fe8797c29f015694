"""What the stand-in writes to the API server: conditions, nominations, bindings, evictions, Events.

A write that fails is reported to the log and not repeated, as in the real one; only `bind` tells its caller.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.embedded.kubescheduler.core import EmitEvent, PatchStatus
from extender.embedded.kubescheduler.model import PREEMPTION_BY_SCHEDULER, SchedPod
from extender.kube.client.api import ApiError, ApiServer, Response

log = structlog.get_logger(__name__)

REPORTER = "default-scheduler"
#: Characters of an Event's note; longer ones are cut.
NOTE_LENGTH = 1024
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"
_REMEMBERED_EVENTS = 4096

_encode = msgspec.json.Encoder().encode


class ApiWriter:
    """Blocking writes, from any thread."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def patch_status(self, write: PatchStatus) -> None:
        """The PodScheduled condition and the nominated node."""
        status: dict[str, Any] = {}
        if write.condition is not None:
            status["conditions"] = [_pod_scheduled(write)]
        if write.nominated_node is not None:
            status["nominatedNodeName"] = write.nominated_node or None
        self._patch_status(write.pod, status)

    def bind(self, pod: SchedPod, node: str) -> str | None:
        """The default binder. None if the pod is bound now, else why it may not be."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        try:
            response = self._api.request("POST", f"{_path(pod)}/binding", body=_encode(binding))
        except ApiError as error:
            return str(error)
        return None if response.ok else response.message

    def delete_victims(self, preemptor: SchedPod, victims: Iterable[SchedPod]) -> list[str]:
        """Mark and delete each. The UIDs of those that are gone or on their way."""
        return [victim.uid for victim in victims if self._delete_victim(preemptor, victim)]

    def _delete_victim(self, preemptor: SchedPod, victim: SchedPod) -> bool:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTION_BY_SCHEDULER,
            "message": f"{preemptor.pod.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": _seconds(),
            **_observed(victim),
        }
        self._patch_status(victim, {"conditions": [condition]})
        response = self._request("DELETE", _path(victim))
        return response is not None and (response.ok or response.status == 404)

    def _patch_status(self, pod: SchedPod, status: dict[str, Any]) -> None:
        patch = _encode({"metadata": {"uid": pod.uid}, "status": status})
        self._request("PATCH", f"{_path(pod)}/status", patch, _STRATEGIC)

    def event(self, write: EmitEvent) -> str | None:
        """The name of the new Event object, None if it could not be written."""
        pod = write.pod
        name = f"{pod.key.name}.{secrets.token_hex(8)}"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": pod.key.namespace},
            "eventTime": _micros(),
            "reportingController": REPORTER,
            "reportingInstance": f"{REPORTER}-stand-in",
            "action": write.action,
            "reason": write.reason,
            "regarding": {
                "kind": "Pod",
                "namespace": pod.key.namespace,
                "name": pod.key.name,
                "uid": pod.uid,
                "apiVersion": "v1",
                "resourceVersion": pod.resource_version,
            },
            "note": note(write.note),
            "type": "Warning" if write.warning else "Normal",
        }
        response = self._request("POST", _events_path(pod), _encode(body))
        return name if response is not None and response.ok else None

    def event_again(self, write: EmitEvent, name: str, count: int) -> None:
        """The Event of this name has happened `count` times by now."""
        series = {"series": {"count": count, "lastObservedTime": _micros()}}
        self._request("PATCH", f"{_events_path(write.pod)}/{quote(name)}", _encode(series), _MERGE)

    def _request(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> Response | None:
        try:
            response = self._api.request(method, path, body=body, content_type=content_type)
        except ApiError as error:
            log.warning("write failed", method=method, path=path, error=str(error))
            return None
        if not response.ok:
            log.info("write refused", method=method, path=path, status=response.status, error=response.message)
        return response


def note(text: str) -> str:
    """As the real one cuts it."""
    return text if len(text) <= NOTE_LENGTH else text[: NOTE_LENGTH - 4] + " ..."


def _pod_scheduled(write: PatchStatus) -> dict[str, Any]:
    assert write.condition is not None
    condition: dict[str, Any] = {
        "type": "PodScheduled",
        "status": write.condition.status,
        "reason": write.condition.reason,
        "message": write.condition.message,
        "lastProbeTime": None,
        **_observed(write.pod),
    }
    before = write.pod.scheduled_condition
    if before is None or before.status != write.condition.status:
        condition["lastTransitionTime"] = _seconds()
    return condition


def _observed(pod: SchedPod) -> dict[str, int]:
    """The generation that a condition speaks of; API servers before 1.33 know none."""
    return {"observedGeneration": pod.generation} if pod.generation else {}


def _path(pod: SchedPod) -> str:
    return f"/api/v1/namespaces/{quote(pod.key.namespace)}/pods/{quote(pod.key.name)}"


def _events_path(pod: SchedPod) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(pod.key.namespace)}/events"


def _seconds() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micros() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class _Series:
    name: str
    count: int = 1


class EventRecorder:
    """Writes Events on a thread of its own; what repeats becomes a count on the first one.

    As in client-go's recorder, an Event repeats another one if it has the same reason and is about the same version of
    the pod, whatever its note says.
    """

    def __init__(self, writer: ApiWriter) -> None:
        self._writer = writer
        self._queue: queue.SimpleQueue[EmitEvent | None] = queue.SimpleQueue()
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._thread = threading.Thread(target=self._run, name="scheduler-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """What is queued is still written, as far as time allows."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def record(self, write: EmitEvent) -> None:
        self._queue.put(write)

    def _run(self) -> None:
        while (write := self._queue.get()) is not None:
            self._write(write)

    def _write(self, write: EmitEvent) -> None:
        key = (write.pod.uid, write.pod.resource_version, write.reason, write.action)
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            self._writer.event_again(write, series.name, series.count)
            return
        name = self._writer.event(write)
        if name is not None:
            self._series[key] = _Series(name)
            if len(self._series) > _REMEMBERED_EVENTS:
                self._series.popitem(last=False)

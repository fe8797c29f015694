"""Turns each command into a request to the API server: path, body, content type. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from extender.kube.client import bounds
from extender.kube.client.api import Request
from extender.kube.writes.correlator import Series
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.state.preemption_record import ANNOTATION

#: Our name in Events.
COMPONENT = "waggle"
#: A change of this annotation makes kube-scheduler retry the pod now.
NUDGE_ANNOTATION = "waggle.dev/nudge"

_MERGE_PATCH = "application/merge-patch+json"
_LONGEST_NOTE = 1024


def bind(write: WriteBinding) -> Request:
    """Build the Binding. Its annotations are merged into the pod in the same write; its UID must be the pod's."""
    metadata: dict[str, Any] = {"name": write.name, "namespace": write.namespace}
    if write.uid:
        metadata["uid"] = write.uid
    if write.annotations:
        metadata["annotations"] = dict(write.annotations)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": write.node},
    }
    path = _pod_path(write.namespace, write.name) + "/binding"
    return Request("POST", path, body=_encode(body), most=bounds.SMALL_OBJECT)


def read(read_pod: ReadPod) -> Request:
    return Request("GET", _pod_path(read_pod.namespace, read_pod.name))


def evict(eviction: Evict) -> Request:
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
    path = _pod_path(eviction.namespace, eviction.name) + "/eviction"
    return Request("POST", path, body=_encode(body), most=bounds.SMALL_OBJECT)


def nudge(hint: RequeuePod, *, value: str) -> Request:
    """Set a new value of the annotation that makes kube-scheduler retry the pod."""
    body = _annotation(hint.uid, NUDGE_ANNOTATION, value)
    return Request("PATCH", _pod_path(hint.namespace, hint.name), body=body, content_type=_MERGE_PATCH)


def mark(intention: RecordPreemption) -> Request:
    """Set the annotation that records a preemption, or remove it."""
    body = _annotation(intention.uid, ANNOTATION, intention.value or None)
    return Request("PATCH", _pod_path(intention.namespace, intention.name), body=body, content_type=_MERGE_PATCH)


def _annotation(uid: str, name: str, value: str | None) -> bytes:
    """A merge patch of one annotation. The UID in it is a precondition (409 if another pod has the name)."""
    metadata: dict[str, Any] = {"annotations": {name: value}}
    if uid:
        metadata["uid"] = uid
    return _encode({"metadata": metadata})


def new_event(series: Series, *, instance: str) -> Request:
    """A core/v1 Event on the pod.

    core/v1 and not events.k8s.io/v1: both end in the same store and in `kubectl describe`; this one needs no
    further API group in RBAC and has the plain `count` that describe shows.
    """
    event = series.event
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": event.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": event.namespace,
            "name": event.name,
            "uid": event.uid,
        },
        "reason": str(event.reason.code),
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": instance,
        "firstTimestamp": timestamp(series.first),
        **_lately(series),
    }
    return Request("POST", _events_path(event), body=_encode(body), most=bounds.SMALL_OBJECT)


def count_event(series: Series) -> Request:
    """Update the Event: how often it happened so far, and the time and text of the last occurrence."""
    path = f"{_events_path(series.event)}/{quote(series.name, safe='')}"
    return Request("PATCH", path, body=_encode(_lately(series)), content_type=_MERGE_PATCH)


def _lately(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastTimestamp": timestamp(series.last), "message": shorten(series.text)}


def timestamp(now: datetime) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def shorten(text: str) -> str:
    """Cut a text to 1,024 characters, the limit of the API server."""
    return text if len(text) <= _LONGEST_NOTE else text[: _LONGEST_NOTE - 4] + " ..."


def _events_path(event: RecordEvent) -> str:
    return f"/api/v1/namespaces/{quote(event.namespace, safe='')}/events"


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"


def _encode(body: dict[str, Any]) -> bytes:
    return msgspec.json.encode(body)

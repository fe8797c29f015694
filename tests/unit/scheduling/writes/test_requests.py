"""What each command is on the wire."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from algorithm.model import PodKey
from algorithm.reasons import Code, Reason
from extender.core import kube_events
from extender.core.commands import Moment
from extender.core.event_series import Series
from extender.core.requests import Request
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.writes import binding, eviction, pod_read, preemption_mark, requeue

NOW = datetime(2026, 11, 2, 10, 0, 0, 123456, tzinfo=UTC)


def moment(at: datetime) -> Moment:
    return Moment(0.0, at.timestamp(), at.isoformat(), "waggle-host")


def body_of(request: Request) -> dict:
    assert request.body is not None
    return msgspec.json.decode(request.body)


def series(text: str = "no room", *, warning: bool = True, count: int = 3) -> Series[RecordEvent]:
    happened = RecordEvent("ns", "p", "u1", Reason(Code.OTHER, (("detail", text),)), warning)
    return Series(happened, text, "p.17", moment(NOW), moment(NOW + timedelta(minutes=2)), count)


def test_a_binding_names_pod_uid_annotations_and_node() -> None:
    request = binding.request(WriteBinding(1, "ns", "p", "u1", "n1", (("a", "b"),)))
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods/p/binding")
    assert body_of(request) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "ns", "uid": "u1", "annotations": {"a": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_what_is_not_known_is_not_sent() -> None:
    assert body_of(binding.request(WriteBinding(1, "ns", "p", "", "n1")))["metadata"] == {
        "name": "p",
        "namespace": "ns",
    }
    assert "deleteOptions" not in body_of(eviction.request(Evict(1, "ns", "p", "", PodKey("ns", "q"))))


def test_a_read_is_a_live_get() -> None:
    assert pod_read.request(ReadPod(1, "ns", "p", "u1")) == Request("GET", "/api/v1/namespaces/ns/pods/p")


def test_an_eviction_has_the_uid_as_precondition() -> None:
    request = eviction.request(Evict(1, "ns", "p", "u1", PodKey("ns", "q")))
    assert request.path == "/api/v1/namespaces/ns/pods/p/eviction"
    assert body_of(request) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {"preconditions": {"uid": "u1"}},
    }


def test_a_nudge_is_a_merge_patch_of_one_annotation_with_the_uid_as_precondition() -> None:
    request = requeue.request(RequeuePod("ns", "p", "u1"), value="v1")
    assert (request.method, request.content_type) == ("PATCH", "application/merge-patch+json")
    assert body_of(request) == {"metadata": {"uid": "u1", "annotations": {"waggle.dev/nudge": "v1"}}}


def test_an_event_has_the_code_as_reason_and_the_text_as_message() -> None:
    request = kube_events.new_event(series(), instance="waggle-host")
    body = body_of(request)
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/events")
    assert body["metadata"] == {"name": "p.17", "namespace": "ns"}
    assert (body["reason"], body["message"], body["type"]) == ("Other", "no room", "Warning")
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u1"}
    assert (body["source"], body["reportingInstance"]) == ({"component": "waggle"}, "waggle-host")
    assert body["firstTimestamp"] == "2026-11-02T10:00:00Z"
    assert (body["lastTimestamp"], body["count"]) == ("2026-11-02T10:02:00Z", 3)
    assert body_of(kube_events.new_event(series(warning=False), instance="x"))["type"] == "Normal"


def test_an_event_that_happens_again_is_a_patch_of_its_count_time_and_text() -> None:
    request = kube_events.count_event(series())
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/events/p.17")
    assert request.content_type == "application/merge-patch+json"
    assert body_of(request) == {"count": 3, "lastTimestamp": "2026-11-02T10:02:00Z", "message": "no room"}


def test_a_long_text_is_cut_to_what_the_api_server_takes() -> None:
    message = body_of(kube_events.count_event(series(text="x" * 2000)))["message"]
    assert len(message) == 1024
    assert message.endswith("x ...")


def test_a_name_cannot_break_out_of_the_path() -> None:
    assert pod_read.request(ReadPod(1, "a/b", "../x?y", "")).path == "/api/v1/namespaces/a%2Fb/pods/..%2Fx%3Fy"


def test_a_dry_run_of_an_eviction_says_so():
    request = eviction.request(Evict(1, "ns", "p", "u1", PodKey("ns", "q"), dry_run=True))
    assert body_of(request)["deleteOptions"] == {"preconditions": {"uid": "u1"}, "dryRun": ["All"]}


@pytest.mark.parametrize(("value", "written"), [("{}", "{}"), ("", None)])
def test_the_mark_of_a_preemption_is_written_and_taken_off(value: str, written: str | None):
    request = preemption_mark.request(RecordPreemption(1, "ns", "p", "u1", value))
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/pods/p")
    assert body_of(request) == {"metadata": {"uid": "u1", "annotations": {"waggle.dev/preemption": written}}}

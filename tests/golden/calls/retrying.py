"""Workloads: who is tried again after what, and how refusals and errors differ."""

from __future__ import annotations

from tests.golden.calls.play import (
    RESTED,
    Answer,
    Await,
    Create,
    Delete,
    Drop,
    Keep,
    Never,
    Object,
    Open,
    Patch,
    Pause,
    Phase,
    Raw,
    Workload,
    annotated,
    create,
    extender,
    node,
    nodes,
    pod,
)

_PODS = "namespaces/default/pods"
_NOBODY = {"filter": Keep((), {"a": "busy"}, {"b": "dead"})}
_REFUSED = (nodes("a", "b"), Phase((Create((pod("p"),)),), _NOBODY))
#: So that no retry comes before the workload has ended.
_LATE = {"podInitialBackoffSeconds": 10}


def _status(path: str, body: Object) -> Patch:
    return Patch(f"{path}/status", {"status": body})


def _heartbeat(time: str, status: str = "True") -> Patch:
    return _status("nodes/b", {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": time}]})


def _error(answer: Answer, **config: object) -> Workload:
    """One filter call that comes to nothing; a change of a node does not hasten the next one."""
    return Workload(
        extenders=(extender(**config),),
        config=_LATE,
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("p"),)), Await("p", "SchedulerError")), {"filter": answer}),
            Phase((annotated("nodes/a", "1"),)),
        ),
    )


WORKLOADS = {
    "refused-and-retried-by-node-events": Workload(
        extenders=(extender(),),
        phases=(
            *_REFUSED,
            Phase((annotated("nodes/a", "1"),)),
            Phase((Patch("nodes/a", {"metadata": {"labels": {"new": "1"}}}),)),
            Phase((_heartbeat("2026-01-01T00:00:01Z"),)),
            Phase((_heartbeat("2026-01-01T00:00:02Z", "False"),)),
            Phase((_status("nodes/a", {"images": [{"names": ["big"], "sizeBytes": 5}]}),)),
            Phase((_status("nodes/a", {"allocatable": {"cpu": "3"}}),)),
            Phase((Patch("nodes/a", {"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),)),
            Phase((Patch("nodes/a", {"spec": {"unschedulable": True}}),)),
            Phase((Patch("nodes/a", {"spec": {"unschedulable": False}}),)),
            Phase((Create((node("c"),)),)),
            Phase((Delete("nodes/c"),)),
        ),
    ),
    "refused-and-retried-by-pod-events": Workload(
        extenders=(extender(),),
        phases=(
            *_REFUSED,
            create(pod("other", schedulerName="somebody-else")),
            Phase((annotated(f"{_PODS}/other", "1"),)),
            Phase((Delete(f"{_PODS}/other"),)),
            create(pod("placed", nodeName="a")),
            Phase((annotated(f"{_PODS}/placed", "1"),)),
            Phase((_status(f"{_PODS}/placed", {"phase": "Running"}),)),
            Phase((_status(f"{_PODS}/placed", {"phase": "Succeeded"}),)),
            Phase((Delete(f"{_PODS}/placed"),)),
            Phase((Patch(f"{_PODS}/p", {"metadata": {"labels": {"own": "1"}}}),)),
            Phase((annotated(f"{_PODS}/p", "1"),)),
            Phase((_status(f"{_PODS}/p", {"message": "hello"}),)),
            Phase((annotated(f"{_PODS}/p", "2"), Await("p", "bound")), {"filter": Keep(("a",))}),
        ),
    ),
    "refused-without-a-reason": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("empty"),)),), {"filter": Keep()}),
            Phase((Create((pod("nothing"),)),), {"filter": Raw("{}")}),
            Phase((Create((pod("null"),)),), {"filter": Raw("null")}),
        ),
    ),
    "refused-with-odd-reasons": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", "c"),
            Phase((Create((pod("stranger"),)),), {"filter": Keep((), {"pod-7": "waits for its gang"})}),
            Phase((Create((pod("both"),)),), {"filter": Keep((), {"a": "one"}, {"a": "two"})}),
            Phase((Create((pod("equal"),)),), {"filter": Keep((), {"a": "busy", "b": "dead"}, {"c": "busy"})}),
            Phase((Create((pod("kept-and-failed"),)),), {"filter": Keep(("a",), {"a": "busy"})}),
        ),
    ),
    "a-reason-that-changes": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            Phase(
                (Create((pod("p"),)),),
                {"filter": tuple(Keep((), {"a": text}) for text in ("1 try", "2 tries", "3 tries", "enough"))},
            ),
        ),
    ),
    "in-tree-refusals-are-retried": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            create(pod("first", cpu="2")),
            create(pod("full", cpu="2")),
            Phase((annotated("nodes/a", "1"),)),
            Phase((Delete(f"{_PODS}/first"), Await("full", "bound"))),
            create(pod("labelled", cpu="0", nodeSelector={"zone": "x"})),
            Phase((Patch("nodes/a", {"metadata": {"labels": {"zone": "x"}}}), Await("labelled", "bound"))),
            Phase((Patch("nodes/a", {"spec": {"unschedulable": True}}),)),
            create(pod("cordoned", cpu="0")),
            Phase((Patch("nodes/a", {"spec": {"unschedulable": False}}), Await("cordoned", "bound"))),
            Phase((Patch("nodes/a", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),)),
            create(pod("tainted", cpu="0")),
            Phase((Patch("nodes/a", {"spec": {"taints": None}}), Await("tainted", "bound"))),
            create(pod("grown", cpu="1")),
            Phase((_status("nodes/a", {"allocatable": {"cpu": "3"}}), Await("grown", "bound"))),
        ),
    ),
    "an-event-while-filter-is-asked": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            Phase(
                (Create((pod("p"),)), Await("p", "filter"), Create((node("b"),)), Pause(), Open(), Await("p", "bound")),
                {"filter": (Keep((), {"a": "busy"}, held=True), Keep(("b",)))},
            ),
        ),
    ),
    "deleted-while-filter-is-asked": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            Phase(
                (Create((pod("p"),)), Await("p", "filter"), Delete(f"{_PODS}/p"), Pause(), Open()),
                {"filter": Keep(("a",), held=True)},
            ),
            Phase(
                (Create((pod("q"),)), Await("q", "filter"), Delete(f"{_PODS}/q"), Pause(), Open()),
                {"filter": Keep((), {"a": "busy"}, held=True)},
            ),
        ),
    ),
    "node-deleted-while-filter-is-asked": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b"),
            Phase(
                (Create((pod("p"),)), Await("p", "filter"), Delete("nodes/a"), Pause(), Open(), Await("p", "bound")),
                {"filter": (Keep((), {"a": "busy", "b": "busy"}, held=True), Keep(("b",)))},
            ),
        ),
    ),
    "a-second-pod-of-the-same-name": Workload(
        extenders=(extender(),),
        phases=(
            *_REFUSED,
            Phase((Delete(f"{_PODS}/p"), Create((pod("p"),)), Await("p#2", "bound")), {"filter": Keep(("a",))}),
        ),
    ),
    "several-refused-pods": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a", "b"),
            *(Phase((Create((pod(f"p-{each}", priority=each),)),), _NOBODY) for each in ("low", "high", "mid")),
            Phase((annotated("nodes/a", "1"),)),
        ),
    ),
    "terminating-and-not-gone": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("p", finalizers=["example.com/wait"]),)),), _NOBODY),
            Phase((Delete(f"{_PODS}/p"), Await("p", "terminating"))),
            Phase((annotated("nodes/a", "1"),)),
            Phase((annotated(f"{_PODS}/p", "1"),)),
            Phase((Patch(f"{_PODS}/p", {"metadata": {"finalizers": None}}), Await("p", "gone"))),
        ),
    ),
    "terminating-and-rejected-in-tree": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            create(pod("p", cpu="3", finalizers=["example.com/wait"])),
            Phase((Delete(f"{_PODS}/p"), Await("p", "terminating"))),
            Phase((Patch("nodes/a/status", {"status": {"allocatable": {"cpu": "4"}}}),)),
            Phase((Patch(f"{_PODS}/p", {"metadata": {"finalizers": None}}), Await("p", "gone"))),
        ),
    ),
    "error-500": _error(Raw("a text that nobody reads", 500)),
    "error-404": _error(Raw(status=404)),
    "error-201": _error(Raw("{}", 201)),
    "error-in-the-answer": _error(Raw('{"NodeNames": ["a"], "Error": "not ready"}')),
    "error-no-body": _error(Raw()),
    "error-no-json": _error(Raw("nonsense")),
    "error-half-json": _error(Raw('{"NodeNames": ["a"')),
    "error-wrong-type": _error(Raw('{"NodeNames": "a"}')),
    "error-wrong-type-of-text": _error(Raw('{"FailedNodes": {"a": 1}}')),
    "error-dropped": _error(Drop()),
    "error-timeout": _error(Never(), httpTimeout="300ms"),
    "ignorable-errors-pass": Workload(
        extenders=(extender(ignorable=True),),
        anywhere=("code", "told", "half"),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("code"),)),), {"filter": Raw(status=500)}),
            Phase((Create((pod("told"),)),), {"filter": Raw('{"Error": "not ready"}')}),
            Phase((Create((pod("half"),)),), {"filter": Raw("[")}),
            Phase((Create((pod("refused"),)),), _NOBODY),
        ),
    ),
    "error-backoff-ends": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a"),
            Phase((Create((pod("p"),)), Await("p", "bound")), {"filter": (Raw(status=500), Keep(("a",)))}),
        ),
    ),
}

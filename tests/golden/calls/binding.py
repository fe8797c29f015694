"""Workloads: who binds, and what becomes of a pod whose bind fails, lies or is overtaken."""

from __future__ import annotations

from tests.golden.calls.play import (
    RESTED,
    Await,
    Bind,
    Create,
    Delete,
    Keep,
    Open,
    Patch,
    Pause,
    Phase,
    Raw,
    Workload,
    annotated,
    create,
    extender,
    nodes,
    pod,
)

_PODS = "namespaces/default/pods"
_LATE = {"podInitialBackoffSeconds": 10}
_KEEP_A = {"filter": Keep(("a",))}

WORKLOADS = {
    "bind-refused": Workload(
        extenders=(extender(),),
        config=_LATE,
        phases=(
            nodes("a"),
            Phase((Create((pod("p"),)), Await("p", "SchedulerError")), {"bind": Bind(error="for cause", binds=False)}),
            Phase((annotated("nodes/a", "1"),)),
        ),
    ),
    "bind-refused-then-not": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a", "b"),
            Phase(
                (Create((pod("p"),)), Await("p", "bound")),
                {"filter": (Keep(("a",)), Keep(("b",))), "bind": (Bind(error="not now", binds=False), Bind())},
            ),
        ),
    ),
    "bind-fails": Workload(
        extenders=(extender(),),
        config=_LATE,
        phases=(
            nodes("a"),
            Phase((Create((pod("code"),)), Await("code", "SchedulerError")), {"bind": Raw("text", 500)}),
            Phase((Create((pod("empty"),)), Await("empty", "SchedulerError")), {"bind": Raw()}),
            Phase((Create((pod("number"),)), Await("number", "SchedulerError")), {"bind": Raw('{"Error": 5}')}),
        ),
    ),
    "bind-fails-although-it-was-written": Workload(
        extenders=(extender(),),
        config=_LATE,
        phases=(
            nodes("a"),
            Phase((Create((pod("p"),)), Await("p", "bound")), {"bind": Bind(error="said no, did it")}),
            create(pod("q")),
        ),
    ),
    "bind-says-yes-and-does-nothing": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            Phase((Create((pod("p", cpu="2"),)), Await("p", "bind")), {"bind": Raw("{}")}),
            Phase((annotated("nodes/a", "1"), annotated(f"{_PODS}/p", "1"))),
            create(pod("q", cpu="2")),
            Phase((Delete(f"{_PODS}/p"), Await("q", "bound")), {"bind": Bind()}),
        ),
    ),
    "bind-elsewhere": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", cpu="2"),
            Phase((Create((pod("p", cpu="2"),)), Await("p", "bound")), {**_KEEP_A, "bind": Bind(node="b")}),
            Phase((Create((pod("q", cpu="2"),)),), {"filter": Keep(("*",)), "bind": Bind()}),
        ),
    ),
    "bind-ignorable-refused": Workload(
        extenders=(extender(ignorable=True),),
        phases=(
            nodes("a"),
            Phase((Create((pod("p"),)), Await("p", "bound")), {"bind": Bind(error="for cause", binds=False)}),
            Phase((Create((pod("q"),)), Await("q", "bound")), {"bind": Raw(status=500)}),
        ),
    ),
    "bind-of-a-deleted-pod": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            Phase(
                (Create((pod("p", cpu="2"),)), Await("p", "bind"), Delete(f"{_PODS}/p"), Pause(), Open()),
                {"bind": Bind(held=True)},
            ),
            Phase((Create((pod("q", cpu="2"),)), Await("q", "bound")), {"bind": Bind()}),
        ),
    ),
    "bind-of-a-terminating-pod": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            Phase(
                (
                    Create((pod("p", cpu="2", finalizers=["example.com/wait"]),)),
                    Await("p", "bind"),
                    Create((pod("q", cpu="2"),)),
                    Await("q", "Unschedulable"),
                    Delete(f"{_PODS}/p"),
                    Await("q", "bound"),
                    Open(),
                    Await("p", "SchedulerError"),
                ),
                {"bind p": Bind(held=True)},
            ),
            Phase((Patch(f"{_PODS}/p", {"metadata": {"finalizers": None}}), Await("p", "gone"))),
        ),
    ),
    "room-is-taken-while-bind-is-under-way": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", cpu="2"),
            Phase(
                (
                    Create((pod("p", cpu="2"),)),
                    Await("p", "bind"),
                    Create((pod("q", cpu="2"),)),
                    Await("q", "bound"),
                    Create((pod("r", cpu="2"),)),
                    Await("r", "Unschedulable"),
                    Open(),
                ),
                {"filter p": Keep(("a",)), "bind p": Bind(held=True)},
            ),
        ),
    ),
    "a-failed-bind-wakes-others": Workload(
        extenders=(extender(),),
        config=_LATE,
        phases=(
            nodes("a", cpu="2"),
            Phase(
                (
                    Create((pod("p", cpu="2"),)),
                    Await("p", "bind"),
                    Create((pod("q", cpu="2"),)),
                    Await("q", "Unschedulable"),
                    Pause(),
                    Open(),
                    Await("q", "bound"),
                ),
                {"bind p": Bind(error="for cause", binds=False, held=True)},
            ),
        ),
    ),
    "no-bind-verb": Workload(
        extenders=(extender(bindVerb=None),),
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)), Await("p", "bound")), {"filter": Keep(("b",))})),
    ),
    "binds-beside-filters": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            Phase(
                (
                    Create((pod("p0", cpu="100m"),)),
                    Await("p0", "bind"),
                    Create((pod("p1", cpu="100m"),)),
                    Await("p1", "bind"),
                    Create((pod("p2", cpu="100m"),)),
                    Await("p2", "bind"),
                    Open(),
                ),
                {"bind": Bind(held=True)},
            ),
        ),
    ),
}

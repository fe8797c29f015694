"""Workloads: who is evicted for whom, what extenders may say to it, and what a nomination means."""

from __future__ import annotations

from tests.golden.calls.play import (
    RESTED,
    Answer,
    Await,
    Create,
    Delete,
    Keep,
    Object,
    Patch,
    Phase,
    Raw,
    Victims,
    Workload,
    annotated,
    budget,
    create,
    extender,
    node,
    nodes,
    pod,
)

_PODS = "namespaces/default/pods"


def _full(*more: Object, **spec: object) -> tuple[Phase, ...]:
    """Two nodes, each filled by one pod of low priority, `low-a` and `low-b`."""
    return (
        nodes("a", "b", cpu="2"),
        create(*(pod(f"low-{name}", cpu="2", priority="low", nodeName=name, **spec) for name in ("a", "b")), *more),
    )


def _allocatable(name: str, **amounts: str) -> Patch:
    return Patch(f"nodes/{name}/status", {"status": {"allocatable": amounts}})


def _answered(answer: Answer, **config: object) -> Workload:
    """What becomes of an answer to preempt: nobody can be placed, so filter is not asked."""
    return Workload(
        extenders=(extender(**config),),
        phases=(*_full(), Phase((Create((pod("hi", cpu="2", priority="high"),)),), {"preempt": answer})),
    )


_CHOSEN = Victims({"b": ("low-b",)})

WORKLOADS = {
    "preempt": Workload(
        extenders=(extender(),),
        bodies=True,
        phases=(
            *_full(),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")), {"preempt": _CHOSEN}),
        ),
    ),
    "preempt-whole-victims": Workload(
        extenders=(extender(nodeCacheCapable=False),),
        bodies=True,
        phases=(
            *_full(),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")), {"preempt": _CHOSEN}),
        ),
    ),
    "preempt-slow-victims": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            *_full(terminationGracePeriodSeconds=30),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "nominated")), {"preempt": _CHOSEN}),
            Phase((annotated("nodes/a", "1"),)),
            create(pod("mid", cpu="2", priority="mid")),
            Phase((Delete(f"{_PODS}/low-b", grace=0), Await("hi", "bound"))),
        ),
    ),
    "preempt-nominated-node-refused": Workload(
        extenders=(extender(),),
        phases=(
            *_full(),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)),),
                {"preempt": (_CHOSEN, Victims({})), "filter": Keep((), {"b": "not this one"})},
            ),
        ),
    ),
    "preempt-without-the-verb": Workload(
        extenders=(extender(preemptVerb=None),),
        phases=(
            nodes("a", cpu="2"),
            create(pod("low", cpu="2", priority="low", nodeName="a")),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound"))),
        ),
    ),
    "preempt-as-few-as-possible": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="4"),
            create(
                pod("small-low", cpu="1", priority="low", nodeName="a"),
                pod("small-mid", cpu="1", priority="mid", nodeName="a"),
                pod("big-low", cpu="2", priority="low", nodeName="a"),
            ),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound"))),
        ),
    ),
    "preempt-the-best-node": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", "c", cpu="2"),
            create(
                pod("mid-a", cpu="2", priority="mid", nodeName="a"),
                pod("low-b1", cpu="1", priority="low", nodeName="b"),
                pod("low-b2", cpu="1", priority="low", nodeName="b"),
                pod("low-c", cpu="2", priority="low", nodeName="c"),
            ),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound"))),
        ),
    ),
    "preempt-violations-count": Workload(
        extenders=(extender(),),
        phases=(
            *_full(),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")),
                {"preempt": Victims({"a": ("low-a",), "b": ("low-b",)}, {"a": 1})},
            ),
        ),
    ),
    "preempt-under-a-budget": Workload(
        extenders=(extender(),),
        phases=(
            Phase((Create((budget("all-of-a", on="a"),)),)),
            nodes("a", "b", cpu="2"),
            create(
                pod("low-a", cpu="2", priority="low", nodeName="a", labels={"on": "a"}),
                pod("mid-b", cpu="2", priority="mid", nodeName="b", labels={"on": "b"}),
            ),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound"))),
        ),
    ),
    "preempt-never": Workload(
        extenders=(extender(),),
        phases=(*_full(), create(pod("meek", cpu="2", priority="meek"))),
    ),
    "preempt-nobody-is-less": Workload(
        extenders=(extender(),),
        phases=(
            *_full(),
            create(pod("equal", cpu="2", priority="low")),
            create(pod("giant", cpu="3", priority="high")),
        ),
    ),
    "preempt-for-an-extenders-refusal": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", cpu="2"),
            create(pod("low", cpu="1", priority="low", nodeName="a")),
            Phase((Create((pod("busy", priority="high"),)),), {"filter": Keep((), {"a": "busy", "b": "busy"})}),
            Phase((Create((pod("dead", priority="high"),)),), {"filter": Keep((), {}, {"a": "dead", "b": "dead"})}),
        ),
    ),
    "preempt-some-full-some-refused": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b", cpu="2"),
            create(pod("low", cpu="2", priority="low", nodeName="a")),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")),
                {"filter": (Keep((), {}, {"b": "dead"}), Keep(("a",)))},
            ),
        ),
    ),
    "preempt-asked-again": Workload(
        extenders=(extender(),),
        phases=(
            *_full(),
            create(pod("tiny-a", cpu="0", nodeName="a")),
            Phase((Create((pod("hi", cpu="2", priority="high"),)),), {"preempt": Victims({})}),
            Phase((annotated("nodes/a", "1"),)),
            Phase((annotated(f"{_PODS}/hi", "1"),)),
            Phase((Patch(f"{_PODS}/hi", {"metadata": {"labels": {"new": "1"}}}),)),
            Phase((annotated(f"{_PODS}/low-a", "1"),)),
            Phase((Delete(f"{_PODS}/tiny-a"),)),
            Phase((_allocatable("a", memory="9Gi"),)),
            Phase((_allocatable("a", cpu="1900m"),)),
            Phase((_allocatable("a", cpu="2"),)),
            Phase((Create((node("small", cpu="1"),)),)),
            Phase((Patch("nodes/small", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),)),
            Phase((Patch("nodes/small", {"spec": {"taints": None}}),)),
            Phase((Delete("nodes/small"),)),
            Phase((Delete(f"{_PODS}/low-a"), Await("hi", "bound"))),
        ),
    ),
    "preempt-two-extenders": Workload(
        extenders=(extender(bindVerb=None), extender()),
        phases=(
            *_full(),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")),
                {"0/preempt": Victims({"b": ("low-b",)})},
            ),
        ),
    ),
    "preempt-ignorable-fails": Workload(
        extenders=(extender(bindVerb=None), extender(bindVerb=None, ignorable=True)),
        phases=(
            *_full(),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")),
                {"0/preempt": _CHOSEN, "1/preempt": Raw(status=500)},
            ),
        ),
    ),
    "preempt-answer-none": _answered(Victims({})),
    "preempt-answer-empty": _answered(Raw("{}")),
    "preempt-answer-500": _answered(Raw(status=500)),
    "preempt-answer-no-json": _answered(Raw("nonsense")),
    "preempt-answer-no-victims": _answered(Victims({"a": ()})),
    "preempt-answer-unknown-node": _answered(Victims({"zzz": ("low-a",)})),
    "preempt-answer-unknown-pod": _answered(Victims({"a": ("nobody",)})),
    "preempt-answer-pod-of-another-node": _answered(Victims({"a": ("low-b",)})),
    "preempt-answer-null": _answered(Raw('{"NodeNameToMetaVictims": {"a": null}}')),
    "preempt-answer-higher-priority": Workload(
        extenders=(extender(),),
        phases=(
            *_full(),
            Phase((Create((node("c", cpu="2"), pod("higher", cpu="2", priority="high", nodeName="c"))),)),
            Phase(
                (Create((pod("hi", cpu="2", priority="mid"),)), Await("hi", "bound")),
                {"preempt": Victims({"c": ("higher",)})},
            ),
        ),
    ),
    "preempt-too-few": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", cpu="2"),
            create(*(pod(name, cpu="1", priority="low", nodeName="a") for name in ("low-1", "low-2"))),
            Phase(
                (Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "bound")),
                {"preempt": (Victims({"a": ("low-1",)}), Victims({"a": ("low-2",)}))},
            ),
        ),
    ),
    "nominated-by-hand": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("p"),)),), {"filter": Keep()}),
            Phase((Patch(f"{_PODS}/p/status", {"status": {"nominatedNodeName": "b"}}),)),
            Phase((annotated("nodes/a", "1"),)),
            Phase(
                (Patch(f"{_PODS}/p/status", {"status": {"nominatedNodeName": "b"}}), Await("p", "bound")),
                {"filter": (Keep(), Keep(("a",)))},
            ),
        ),
    ),
    "nominated-node-that-fails": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("p"),)),), {"filter": Keep()}),
            Phase(
                (Patch(f"{_PODS}/p/status", {"status": {"nominatedNodeName": "b"}}), Await("p", "bound")),
                {"filter": (Raw(status=500), Keep(("a",)))},
            ),
        ),
    ),
    "room-is-kept-for-the-nominated": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a", cpu="2"),
            Phase((Create((pod("waits", cpu="2", priority="mid"),)),), {"filter waits": Keep()}),
            Phase((Patch(f"{_PODS}/waits/status", {"status": {"nominatedNodeName": "a"}}),)),
            create(pod("lesser", cpu="2", priority="low")),
            Phase((Create((pod("greater", cpu="2", priority="high"),)), Await("greater", "bound"))),
        ),
    ),
    "room-of-the-nominated-is-given-back": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a", cpu="2"),
            create(pod("low", cpu="2", priority="low", nodeName="a", terminationGracePeriodSeconds=30)),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "nominated"))),
            Phase((Delete(f"{_PODS}/low", grace=0), Await("hi", "filter", 2)), {"filter hi": Keep((), {"a": "busy"})}),
            create(pod("mid", cpu="2", priority="mid")),
        ),
    ),
    "nomination-taken-away": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            nodes("a", cpu="2"),
            create(pod("low", cpu="2", priority="low", nodeName="a", terminationGracePeriodSeconds=30)),
            Phase((Create((pod("hi", cpu="2", priority="high"),)), Await("hi", "nominated"))),
            create(pod("small", cpu="0", priority="low", ports=[{"containerPort": 80, "hostPort": 80}])),
            create(pod("mid", cpu="2", priority="mid")),
            Phase((Patch(f"{_PODS}/hi/status", {"status": {"nominatedNodeName": None}}),)),
        ),
    ),
}

"""Workloads: who is filtered and scored, by whom, with which nodes, and in which order."""

from __future__ import annotations

from tests.golden.calls.play import (
    RESTED,
    Await,
    Create,
    Keep,
    Open,
    Patch,
    Pause,
    Phase,
    Raw,
    Scores,
    Workload,
    annotated,
    create,
    extender,
    node,
    nodes,
    pod,
)

_GPU = "example.com/gpu"
_FILTER_ONLY = extender(preemptVerb=None, bindVerb=None)
_BY_NODE = extender(nodeCacheCapable=False)
_SCORING = extender(prioritizeVerb="prioritize", weight=100)
_HELD = Keep(("a",), held=True)


def _affinity(*expressions: tuple[str, str, list[str]], fields: bool = False) -> dict[str, object]:
    terms = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, values in expressions
    ]
    required = {"nodeSelectorTerms": [{"matchFields" if fields else "matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


WORKLOADS = {
    "single-pod": Workload(
        extenders=(extender(),),
        bodies=True,
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)), Await("p", "bound")), {"filter": Keep(("b",))})),
    ),
    "single-pod-whole-nodes": Workload(
        extenders=(_BY_NODE,),
        bodies=True,
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)), Await("p", "bound")), {"filter": Keep(("b",))})),
    ),
    "several-pods": Workload(
        extenders=(extender(),),
        anywhere=("p0", "p1", "p2"),
        phases=(nodes("a", "b", "c"), *(create(pod(f"p{i}")) for i in range(3))),
    ),
    "priorities-in-the-queue": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            Phase(
                (
                    Create((pod("first", cpu="100m"),)),
                    Await("first", "filter"),
                    Create(tuple(pod(name, cpu="100m", priority=name) for name in ("low", "mid", "high"))),
                    Create((pod("none", cpu="100m"), pod("mid-2", cpu="100m", priority="mid"))),
                    Pause(),
                    Open(),
                ),
                {"filter first": _HELD, "filter": Keep(("a",))},
            ),
        ),
    ),
    "filter-verb-only": Workload(
        extenders=(_FILTER_ONLY,),
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)),), {"filter": Keep(("a",))})),
    ),
    "filter-verb-only-whole-nodes": Workload(
        extenders=(extender(preemptVerb=None, bindVerb=None, nodeCacheCapable=False),),
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)),), {"filter": Keep(("a",))})),
    ),
    "bind-verb-only": Workload(
        extenders=(extender(filterVerb=None, preemptVerb=None),),
        anywhere=("p",),
        phases=(nodes("a", "b"), create(pod("p"))),
    ),
    "prioritize-verb-only": Workload(
        extenders=({"prioritizeVerb": "prioritize", "weight": 100, "nodeCacheCapable": True},),
        bodies=True,
        phases=(nodes("a", "b", "c"), Phase((Create((pod("p"),)),), {"prioritize": Scores({"b": 10, "c": 9})})),
    ),
    "scores-after-filter": Workload(
        extenders=(_SCORING,),
        phases=(
            nodes("a", "b", "c"),
            Phase((Create((pod("p"),)),), {"filter": Keep(("a", "b")), "prioritize": Scores({"b": 10, "c": 1000})}),
            Phase((Create((pod("one-left"),)),), {"filter": Keep(("c",))}),
            Phase(
                (Create((pod("less-than-nothing"),)),), {"filter": Keep(("a", "b")), "prioritize": Scores({"a": -10})}
            ),
        ),
    ),
    "scores-of-whole-nodes": Workload(
        extenders=(extender(nodeCacheCapable=False, prioritizeVerb="prioritize", weight=100),),
        phases=(nodes("a", "b", "c"), Phase((Create((pod("p"),)),), {"prioritize": Scores({"c": 10})})),
    ),
    "wrong-scores-vanish": Workload(
        extenders=(_SCORING,),
        anywhere=("fraction", "fails", "object", "null"),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("fraction"),)),), {"prioritize": Raw('[{"Host": "a", "Score": 3.0}]')}),
            Phase((Create((pod("fails"),)),), {"prioritize": Raw(status=500)}),
            Phase((Create((pod("object"),)),), {"prioritize": Raw('{"Host": "a", "Score": 3}')}),
            Phase((Create((pod("null"),)),), {"prioritize": Raw("null")}),
            Phase(
                (Create((pod("twice"),)),),
                {"prioritize": Raw('[{"host": "a", "score": 1}, {"Host": "a", "Score": 1}]')},
            ),
        ),
    ),
    "two-extenders": Workload(
        extenders=(
            extender(bindVerb=None, prioritizeVerb="prioritize", weight=10),
            extender(preemptVerb=None, prioritizeVerb="prioritize", weight=20),
        ),
        phases=(
            nodes("a", "b", "c"),
            Phase(
                (Create((pod("p"),)),),
                {
                    "0/filter": Keep(("a", "b")),
                    "0/prioritize": Scores({"a": 10}),
                    "1/prioritize": Scores({"b": 10}),
                },
            ),
            Phase((Create((pod("nothing-left"),)),), {"0/filter": Keep((), {"a": "busy"}, {"b": "dead"})}),
            Phase(
                (Create((pod("merged"),)),),
                {"0/filter": Keep(("a", "c"), {"b": "busy"}), "1/filter": Keep((), {"a": "later", "b": "again"})},
            ),
        ),
    ),
    "ignorable-extenders-come-last": Workload(
        extenders=(
            extender(bindVerb=None, ignorable=True),
            extender(bindVerb=None),
            extender(ignorable=True, bindVerb=None),
        ),
        anywhere=("fails",),
        phases=(
            nodes("a", "b"),
            Phase((Create((pod("p"),)),), {"2/filter": Keep(("a",))}),
            Phase((Create((pod("fails"),)),), {"0/filter": Raw(status=500), "2/filter": Raw("nonsense")}),
        ),
    ),
    "whole-nodes-then-names": Workload(
        extenders=(extender(bindVerb=None, nodeCacheCapable=False), extender()),
        phases=(
            nodes("a", "b", "c"),
            Phase((Create((pod("p"),)),), {"0/filter": Keep(("a", "b")), "1/filter": Keep(("a",))}),
        ),
    ),
    "managed-resource-ignored-by-scheduler": Workload(
        extenders=(extender(managedResources=[{"name": _GPU, "ignoredByScheduler": True}]),),
        anywhere=("no-gpu",),
        phases=(
            nodes("a", "b"),
            create(pod("no-gpu")),
            Phase((Create((pod("gpu", limits={_GPU: "3"}),)),), {"filter": Keep(("b",))}),
            create(pod("zero-gpu", limits={_GPU: "0"})),
        ),
    ),
    "managed-resource-counted-by-scheduler": Workload(
        extenders=(extender(managedResources=[{"name": _GPU, "ignoredByScheduler": False}]),),
        phases=(
            Phase((Create((node("a"), node("b", resources={_GPU: "4"}), node("c", resources={_GPU: "1"}))),)),
            create(pod("gpu", limits={_GPU: "3"})),
            create(pod("too-many", limits={_GPU: "2"})),
        ),
    ),
    "in-tree-plugins-go-first": Workload(
        extenders=(extender(),),
        phases=(
            Phase(
                (
                    Create(
                        (
                            node("a", labels={"zone": "x", "size": "3"}),
                            node("b", labels={"zone": "y", "size": "5"}),
                            node("c", taints=[{"key": "team", "value": "red", "effect": "NoSchedule"}]),
                            node("d", unschedulable=True),
                            node("e", cpu="500m"),
                        )
                    ),
                )
            ),
            create(pod("selector", nodeSelector={"zone": "y"})),
            create(pod("in", affinity=_affinity(("zone", "In", ["x", "z"])))),
            create(pod("greater", affinity=_affinity(("size", "Gt", ["4"])))),
            create(pod("absent", affinity=_affinity(("zone", "DoesNotExist", [])))),
            create(pod("by-name", affinity=_affinity(("metadata.name", "In", ["b"]), fields=True))),
            create(
                pod(
                    "tolerates",
                    nodeSelector={"kubernetes.io/hostname": "c"},
                    tolerations=[{"key": "team", "operator": "Exists"}],
                )
            ),
            create(pod("cordoned", nodeSelector={"kubernetes.io/hostname": "d"})),
            create(pod("too-big", nodeSelector={"kubernetes.io/hostname": "e"})),
            create(pod("nowhere", nodeSelector={"zone": "nowhere"})),
            create(pod("no-such-node", affinity=_affinity(("metadata.name", "In", ["zzz"]), fields=True))),
        ),
    ),
    "host-ports-and-pod-count": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a", resources={"pods": "2"}),
            create(pod("web", ports=[{"containerPort": 80, "hostPort": 8080}])),
            create(pod("web-2", ports=[{"containerPort": 80, "hostPort": 8080}])),
            create(pod("second")),
            create(pod("third")),
        ),
    ),
    "who-is-never-sent": Workload(
        extenders=(extender(),),
        phases=(
            nodes("a"),
            create(pod("gated", schedulingGates=[{"name": "example.com/wait"}])),
            create(pod("others", schedulerName="somebody-else")),
            create(pod("placed", nodeName="a")),
            Phase((Patch("namespaces/default/pods/gated", {"spec": {"schedulingGates": []}}),)),
        ),
    ),
    "two-profiles": Workload(
        extenders=(extender(),),
        config={"profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "second-scheduler"}]},
        phases=(
            nodes("a"),
            create(pod("first")),
            create(pod("second", schedulerName="second-scheduler")),
            Phase((Create((pod("refused", schedulerName="second-scheduler"),)),), {"filter": Keep((), {"a": "busy"})}),
        ),
    ),
    "a-sample-of-many-nodes": Workload(
        extenders=(extender(),),
        phases=(
            nodes(*(f"n{i:03}" for i in range(150))),
            Phase((Create((pod("refused"),)),), {"filter": Keep()}),
        ),
    ),
    "all-of-many-nodes": Workload(
        extenders=(extender(),),
        config={"percentageOfNodesToScore": 100},
        phases=(
            nodes(*(f"n{i:03}" for i in range(150))),
            Phase((Create((pod("p"),)),), {"filter": Keep(("n007",))}),
        ),
    ),
    "no-nodes": Workload(
        extenders=(extender(),),
        config=RESTED,
        phases=(
            create(pod("p")),
            Phase((Create((node("a"),)), Await("p", "bound"))),
        ),
    ),
    "nodes-that-nobody-offered": Workload(
        extenders=(extender(),),
        config={"podInitialBackoffSeconds": 10},
        phases=(
            nodes("a"),
            Phase((Create((pod("p"),)), Await("p", "SchedulerError")), {"filter": Keep(("a", "zzz"))}),
            Phase((annotated("nodes/a", "1"),)),
        ),
    ),
    "whole-nodes-that-nobody-offered": Workload(
        extenders=(_BY_NODE,),
        phases=(nodes("a"), Phase((Create((pod("p"),)), Await("p", "bound")), {"filter": Keep(("zzz",))})),
    ),
    "answers-in-the-other-form": Workload(
        extenders=(extender(),),
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)),), {"filter": Keep(("b",), form="nodes")})),
    ),
    "answers-in-the-other-form-whole-nodes": Workload(
        extenders=(_BY_NODE,),
        phases=(nodes("a", "b"), Phase((Create((pod("p"),)),), {"filter": Keep(("b",), form="names")})),
    ),
}

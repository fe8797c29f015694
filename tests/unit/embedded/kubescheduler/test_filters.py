"""The in-tree filter plugins: verdicts and texts."""

from typing import Any

import pytest

from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.filters import in_tree_refusal, named_nodes
from tests.support.kubescheduler.objects import a_node, a_pod

CORDON = {"unschedulable": True}
TAINTED = ("TaintToleration", "node(s) had untolerated taint(s)", False)
TAINT = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
AFFINITY_TEXT = "node(s) didn't match Pod's node affinity/selector"


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def tolerating(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


def refusal(pod: dict[str, Any], node: dict[str, Any], *there: dict[str, Any], **more: Any) -> tuple[Any, ...] | None:
    info = NodeInfo(a_node("n", **node), [a_pod(f"there-{i}", node="n", **p) for i, p in enumerate(there)])
    found = in_tree_refusal(a_pod("p", **pod), info, **more)
    return None if found is None else (found.plugin, *found.reasons, found.resolvable)


@pytest.mark.parametrize(
    ("pod", "node", "expected"),
    [
        ({}, {}, None),
        ({}, {"spec": CORDON}, ("NodeUnschedulable", "node(s) were unschedulable", False)),
        ({"spec": tolerating(key="node.kubernetes.io/unschedulable", operator="Exists")}, {"spec": CORDON}, None),
        ({}, {"spec": TAINT}, TAINTED),
        ({"spec": tolerating(key="k", value="v")}, {"spec": TAINT}, None),
        ({"spec": tolerating(key="k", value="w")}, {"spec": TAINT}, TAINTED),
        ({"spec": tolerating(key="k", operator="Exists", effect="NoExecute")}, {"spec": TAINT}, TAINTED),
        ({"spec": tolerating(operator="Exists")}, {"spec": TAINT}, None),
        ({}, {"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}, None),
        ({"spec": {"nodeSelector": {"a": "b"}}}, {}, ("NodeAffinity", AFFINITY_TEXT, False)),
        ({"spec": {"nodeSelector": {"a": "b"}}}, {"labels": {"a": "b"}}, None),
        ({"cpu": "5"}, {"cpu": "4"}, ("NodeResourcesFit", "Insufficient cpu", False)),
        ({}, {"pods": "0"}, ("NodeResourcesFit", "Too many pods", True)),
        ({"requests": {"example.com/gpu": "1"}}, {}, ("NodeResourcesFit", "Insufficient example.com/gpu", False)),
        ({"requests": {"example.com/gpu": "0"}}, {}, None),
        (
            {"cpu": "5", "requests": {"a.b/c": "1", "memory": "9Gi"}},
            {"pods": "0"},
            (
                "NodeResourcesFit",
                "Too many pods",
                "Insufficient cpu",
                "Insufficient memory",
                "Insufficient a.b/c",
                False,
            ),
        ),
    ],
)
def test_one_empty_node(pod: dict[str, Any], node: dict[str, Any], expected: object):
    assert refusal(pod, node) == expected


@pytest.mark.parametrize(
    ("term", "labels", "matches"),
    [
        (expression("zone", "In", "a", "b"), {"zone": "b"}, True),
        (expression("zone", "In", "a"), {"zone": "b"}, False),
        (expression("zone", "In", "a"), {}, False),
        (expression("zone", "NotIn", "a"), {"zone": "b"}, True),
        (expression("zone", "NotIn", "a"), {}, True),
        (expression("zone", "NotIn", "a"), {"zone": "a"}, False),
        (expression("zone", "Exists"), {"zone": "a"}, True),
        (expression("zone", "Exists"), {}, False),
        (expression("zone", "DoesNotExist"), {}, True),
        (expression("zone", "DoesNotExist"), {"zone": "a"}, False),
        (expression("gpus", "Gt", "3"), {"gpus": "4"}, True),
        (expression("gpus", "Gt", "3"), {"gpus": "3"}, False),
        (expression("gpus", "Lt", "3"), {"gpus": "2"}, True),
        (expression("gpus", "Lt", "3"), {"gpus": "many"}, False),
        (expression("gpus", "Lt", "3"), {}, False),
        (expression("gpus", "Near", "3"), {"gpus": "3"}, False),
        ({}, {}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, {}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]}, {}, False),
    ],
)
def test_one_required_affinity_term(term: dict[str, Any], labels: dict[str, str], matches: bool):
    found = refusal({"spec": affinity(term)}, {"labels": labels})
    assert found == (None if matches else ("NodeAffinity", AFFINITY_TEXT, False))


def test_any_of_several_terms_is_enough_and_none_of_no_terms():
    terms = affinity(expression("a", "Exists"), expression("b", "Exists"))
    assert refusal({"spec": terms}, {"labels": {"b": ""}}) is None
    assert refusal({"spec": affinity()}, {}) == ("NodeAffinity", AFFINITY_TEXT, False)


def test_pods_that_are_there_make_the_shortage_resolvable():
    assert refusal({"cpu": "2"}, {"cpu": "4"}, {"cpu": "3"}) == ("NodeResourcesFit", "Insufficient cpu", True)
    assert refusal({"cpu": "1"}, {"cpu": "4"}, {"cpu": "3"}) is None


def test_a_resource_ignored_by_the_scheduler_is_not_looked_at():
    pod = {"requests": {"example.com/gpu": "8"}}
    assert refusal(pod, {}, ignored_resources=frozenset({"example.com/gpu"})) is None


@pytest.mark.parametrize(("priority", "refused"), [(0, False), (5, True), (9, True)])
def test_nominated_pods_of_the_same_or_higher_priority_take_room(priority: int, refused: bool):
    nominated = [a_pod("nominated", cpu="3", priority=priority)]
    found = refusal({"cpu": "2", "priority": 5}, {"cpu": "4"}, nominated=nominated)
    assert (found is not None) is refused


def test_a_pod_does_not_stand_in_its_own_way_by_its_nomination():
    assert refusal({"cpu": "3"}, {"cpu": "4"}, nominated=[a_pod("p", cpu="3")]) is None


@pytest.mark.parametrize(
    ("used", "wanted", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
    ],
)
def test_host_ports(used: dict[str, Any], wanted: dict[str, Any], free: bool):
    def spec(port: dict[str, Any]) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": "c", "ports": [port]}]}}

    text = "node(s) didn't have free ports for the requested pod ports"
    assert refusal(spec(wanted), {}, spec(used)) == (None if free else ("NodePorts", text, True))


def test_a_pod_that_names_its_node_by_affinity_narrows_the_list():
    def field(name: str) -> dict[str, Any]:
        return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}

    assert named_nodes(a_pod("p", spec=affinity(field("n2")))) == {"n2"}
    assert named_nodes(a_pod("p", spec=affinity(field("n2"), field("n3")))) == {"n2", "n3"}
    assert named_nodes(a_pod("p", spec=affinity(field("n2"), expression("a", "Exists")))) is None
    assert named_nodes(a_pod("p")) is None

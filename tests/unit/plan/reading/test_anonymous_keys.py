"""Keys of labels, annotations and taints are names, too: a plan without them is the same plan."""

from __future__ import annotations

import msgspec
import pytest
import yaml

from algorithm.model import Taint, pairs
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import NodeSelectorTerm, Requirement, Toleration
from extender.plan.reading.anonymous import anonymous
from extender.plan.reading.documents import InputError
from extender.plan.reading.shapes import shaped_nodes
from extender.plan.records import Changes, Options, PlanPod, RawObject, World
from extender.plan.run.making import make_plan
from tests.unit.plan.reading.manifests import expanded, pod

_RACK, _TIER, _BROKEN, _MANAGED = "acme.example/rack", "acme-tier", "acme.example/broken", "acme.example/managed"
_SETTINGS = {
    "pods": {"annotation": _MANAGED},
    "ordering": {"enabled": True},
    "algorithm": {"name": "packing", "settings": {}},
}


def _pod(name: str, *, rack: str = "", tier: str = "", tolerates: bool = False, after: str = "") -> PlanPod:
    notes = {_MANAGED: "true"} | ({"waggle.dev/after": f"[pod/{after}]"} if after else {})
    (found,) = expanded(pod(name, annotations=notes, labels={_TIER: tier or "none"})).pods
    term = NodeSelectorTerm((Requirement(_TIER, "In", (tier,)), Requirement("kubernetes.io/hostname", "Exists")))
    return msgspec.structs.replace(
        found,
        pod=msgspec.structs.replace(
            found.pod,
            node_selector=pairs({_RACK: rack}) if rack else (),
            affinity=(term,) if tier else None,
            tolerations=(Toleration(_BROKEN, "Exists"), Toleration("", "Exists", "", "NoExecute")) if tolerates else (),
        ),
    )


def _world() -> World:
    nodes = shaped_nodes(4, f"cpu=2,label:{_RACK}=rack-%d/2,label:kubernetes.io/hostname=h", prefix="host-")
    tiers = ("gold", "gold", "iron", "iron")
    nodes = tuple(
        msgspec.structs.replace(
            each,
            node=msgspec.structs.replace(
                each.node,
                labels=tuple(sorted([*each.node.labels, (_TIER, tier)])),
                taints=(Taint(_BROKEN, "NoSchedule"),) if each.name == "host-3" else (),
            ),
        )
        for each, tier in zip(nodes, tiers, strict=True)
    )
    pods = (
        _pod("a", rack="rack-1"),
        _pod("b", rack="rack-1", tier="iron", tolerates=True),
        _pod("c", tier="gold", after="a"),
        _pod("d", rack="rack-0", tier="iron"),
        _pod("e", rack="rack-7"),
        _pod("f", after="e"),
    )
    budget = Budget(namespace="default", name="web", selector=(Requirement(_TIER, "In", ("gold",)),))
    raw = {
        "metadata": {"name": "web", "labels": {_TIER: "gold"}, "annotations": {"acme.example/owner": "acme"}},
        "spec": {
            "selector": {"matchExpressions": [{"key": _TIER, "operator": "In", "values": ["gold"]}]},
            "template": {"spec": {"nodeSelector": {_RACK: "rack-1"}}},
        },
    }
    web = RawObject(
        kind="Deployment", api_version="apps/v1", namespace="default", name="web", json=msgspec.json.encode(raw)
    )
    scheduler = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": {"key": _RACK}}}],
            }
        ],
    }
    return World(
        nodes=nodes,
        pods=pods,
        budgets=(budget,),
        objects=(web,),
        settings=yaml.safe_dump(_SETTINGS),
        scheduler=yaml.safe_dump(scheduler),
    )


def _shape(world: World) -> list[tuple[int, str, str, int | None]]:
    """What happens to each pod, with the places of names in place of names."""
    nodes = {each.name: index for index, each in enumerate(world.nodes)}
    places = {each.pod.key: index for index, each in enumerate(world.pods)}
    plan = make_plan(world, Changes(), Options())
    return sorted((places[each.namespace, each.name], each.sign, each.code, nodes.get(each.node)) for each in plan.rows)


def test_keys_of_a_company_are_gone_and_the_plan_is_the_same() -> None:
    world = _world()
    made = anonymous(world)

    text = msgspec.json.encode(made.world).decode()
    assert "acme" not in text
    assert "kubernetes.io/hostname" in text
    assert "waggle.dev/after" in text
    assert made.left == ()
    shape = _shape(world)
    assert [(sign, node) for _, sign, _, node in shape] == [
        ("+", 2),
        ("+", 3),
        ("+", shape[2][3]),
        ("?", None),
        ("?", None),
        ("?", None),
    ], "each of selectors, affinity, tolerations and dependencies decides something"
    assert _shape(made.world) == shape


def test_a_key_is_the_same_wherever_something_refers_to_it() -> None:
    made = anonymous(_world()).world
    (web,) = made.objects
    found = msgspec.json.decode(web.json)
    tier = made.budgets[0].selector[0].key
    assert list(found["metadata"]["labels"]) == [tier]
    assert found["spec"]["selector"]["matchExpressions"][0]["key"] == tier
    assert tier in dict(made.nodes[0].node.labels)
    assert list(found["spec"]["template"]["spec"]["nodeSelector"]) == [made.pods[0].pod.node_selector[0][0]]
    assert yaml.safe_load(made.settings)["pods"]["annotation"] in dict(made.pods[0].pod.pod.annotations)
    for each in made.nodes:
        assert each.node.labels == tuple(sorted(each.node.labels))


def test_a_named_key_stays_and_one_that_is_not_there_is_refused() -> None:
    made = anonymous(_world(), keep_keys=[_RACK])
    assert _RACK in dict(made.world.nodes[0].node.labels)
    assert "acme-tier" not in msgspec.json.encode(made.world).decode()
    assert _shape(made.world) == _shape(_world())
    with pytest.raises(InputError, match="of the cluster has the key acme.example/rak"):
        anonymous(_world(), keep_keys=["acme.example/rak"])


def test_a_replaced_key_that_still_stands_somewhere_is_told() -> None:
    (node,) = shaped_nodes(1, "acme.example/fpga=2,label:acme.example/rack=1")
    assert anonymous(World(nodes=(node,))).left == ("acme.example",)

"""Claims in plans: who gets which pods, what replaces them, what pools add, and why a claim waits."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

from extender.claims.records import ClaimMark
from extender.plan.reading.documents import Source, read_documents
from extender.plan.reading.shapes import shaped_nodes
from extender.plan.records import Changes, Plan, RawObject, Sign, World
from extender.plan.run.making import make_plan
from tests.support.plan.worlds import a_node, running

POOL = {
    "apiVersion": "waggle.dev/v1alpha1",
    "kind": "Pool",
    "metadata": {"name": "p"},
    "spec": {"selector": {"matchLabels": {"pool": "p"}}, "mode": "detach"},
}
WARM = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "warm"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"pool": "p"}},
        "template": {
            "metadata": {"labels": {"pool": "p"}},
            "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]},
        },
    },
}

#: The labels of pods in mode recycle.
RECYCLED = {"pool": "p", "waggle.dev/phase": "idle"}


def claim(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"poolRef": {"name": "p"}} | spec
    return {"apiVersion": "waggle.dev/v1alpha1", "kind": "Claim", "metadata": {"name": name}, "spec": spec}


def with_spec(obj: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return obj | {"spec": obj["spec"] | spec}


def plan(*objects: dict[str, Any], cores: int = 10) -> Plan:
    text = yaml.safe_dump_all(objects)
    read = read_documents([Source("f.yaml", text)])
    assert not read.errors
    nodes = shaped_nodes(1, f"cpu={cores},memory=8Gi")
    return make_plan(World(nodes=nodes), Changes(create=read.objects))


def claims(made: Plan) -> dict[str, tuple[Sign, str, str]]:
    return {row.name: (row.sign, row.node, row.code) for row in made.rows if row.kind == "Claim"}


def test_a_claim_gets_idle_pods_and_the_replica_set_replaces_them() -> None:
    made = plan(WARM, POOL, claim("a", count=2))
    assert claims(made) == {"a": (Sign.RUNS, "warm-x1, warm-x2", "")}
    pods = {row.name: row.workload for row in made.rows if row.kind == "Pod"}
    assert pods["warm-x1"] == pods["warm-x2"] == ""
    assert {name for name, owner in pods.items() if owner} == {"warm-x1-r1", "warm-x2-r2"}


def test_in_mode_recycle_a_pod_stays_with_its_workload() -> None:
    made = plan(WARM, with_spec(POOL, mode="recycle"), claim("a"))
    assert claims(made) == {"a": (Sign.RUNS, "warm-x1", "")}
    assert len([row for row in made.rows if row.kind == "Pod"]) == 2


def test_claims_of_higher_priority_come_first_and_all_pods_or_none() -> None:
    recycled = with_spec(POOL, mode="recycle")
    made = plan(WARM, recycled, claim("three", count=3), claim("low"), claim("high", priority=5))
    assert claims(made)["three"] == (Sign.WAITS, "", "NoIdlePod")
    assert {name for name, (sign, _, _) in claims(made).items() if sign is Sign.RUNS} <= {"low", "high"}
    [row] = [row for row in made.rows if row.name == "three"]
    assert row.text.startswith("it needs 3 pods of pool default/p, which has ")
    assert row.fix == "would be served if pool default/p had 2 idle pods more"
    [behind] = [row for row in made.rows if row.name == "low"]
    assert behind.text.endswith("which has 1 idle, 1 claimed, 0 not ready; 1 claim comes before it")
    assert behind.fix == "would be served if pool default/p had 3 idle pods more"


def test_a_claim_says_how_many_pods_it_lacks_beside_those_that_wait_for_a_node() -> None:
    made = plan(WARM, with_spec(POOL, mode="recycle"), claim("a", count=4), cores=1)
    [row] = [row for row in made.rows if row.kind == "Claim"]
    assert row.fix == "would be served if 1 of the pool's pods that wait had a node, and 2 more were idle"


def test_a_claim_that_does_not_wait_is_answered() -> None:
    made = plan(POOL, claim("a", waitSeconds=0), claim("b", onEmpty="fail"))
    assert claims(made) == {"a": (Sign.WAITS, "", "NoIdlePod"), "b": (Sign.WAITS, "", "NoIdlePod")}


def test_a_claim_needs_its_pool_and_pods_with_its_labels() -> None:
    made = plan(WARM, POOL, claim("odd", requires={"gpu": "yes"}), claim("lost", poolRef={"name": "q"}))
    assert claims(made)["lost"] == (Sign.WAITS, "", "UnknownPool")
    assert claims(made)["odd"][0] is Sign.WAITS


def test_more_pods_than_a_claim_may_have_are_refused() -> None:
    made = plan(WARM, with_spec(POOL, limits={"maxPodsPerClaim": 1}), claim("a", count=2))
    assert claims(made)["a"] == (Sign.WAITS, "", "TooManyPods")
    [row] = [row for row in made.rows if row.kind == "Claim"]
    assert row.text == "count: expected 1 to 1, got 2"


def test_an_autoscaler_adds_the_pods_that_claims_lack() -> None:
    scaled = with_spec(
        POOL, workload={"kind": "ReplicaSet", "name": "warm"}, autoscaler={"maxReplicas": 6}, mode="recycle"
    )
    made = plan(WARM, scaled, claim("a", count=5))
    assert claims(made)["a"][0] is Sign.RUNS
    assert any("its autoscaler would scale ReplicaSet/default/warm from 2 to" in said for said in made.warnings)


def test_an_autoscaler_stops_at_its_maximum_and_where_the_cluster_is_full() -> None:
    scaled = with_spec(
        POOL, workload={"kind": "ReplicaSet", "name": "warm"}, autoscaler={"maxReplicas": 3}, mode="recycle"
    )
    made = plan(WARM, scaled, claim("a", count=5))
    assert claims(made)["a"] == (Sign.WAITS, "", "NoIdlePod")
    [row] = [row for row in made.rows if row.kind == "Claim"]
    assert row.fix == "would be served if pool default/p might have 2 pods more than 3"
    full = plan(WARM, with_spec(scaled, autoscaler={"maxReplicas": 50}), claim("a", count=20), cores=3)
    assert claims(full)["a"] == (Sign.WAITS, "", "NoIdlePod")
    assert len([row for row in full.rows if row.kind == "Pod"]) < 50


def test_an_invalid_pool_is_said() -> None:
    strange = with_spec(POOL, mode="strange")
    raw = RawObject(
        kind="Pool", api_version="waggle.dev/v1alpha1", namespace="default", name="p", json=json.dumps(strange).encode()
    )
    created = read_documents([Source("f.yaml", yaml.safe_dump(claim("a")))]).objects
    made = make_plan(World(objects=(raw,)), Changes(create=created))
    assert claims(made)["a"] == (Sign.WAITS, "", "UnknownPool")
    assert any("Pool default/p is not served: spec.mode" in said for said in made.warnings)


@pytest.mark.parametrize("mode", ["detach", "recycle"])
def test_the_same_input_gives_the_same_plan(mode: str) -> None:
    objects = (WARM, with_spec(POOL, mode=mode), claim("a"), claim("b", count=2), claim("c"))
    assert plan(*objects) == plan(*objects)


def test_what_the_server_refuses_a_plan_refuses() -> None:
    world = World(nodes=shaped_nodes(1, "cpu=9,memory=8Gi"), settings="claims: {authorization: kubernetes}")
    objects = (WARM, POOL, claim("long", waitSeconds=601), claim("other", tenant="t"), claim("right", tenant="default"))
    read = read_documents([Source("f.yaml", yaml.safe_dump_all(objects))]).require()
    made = make_plan(world, Changes(create=read.objects))
    assert {name: code for name, (_, _, code) in claims(made).items()} == {
        "long": "NotPossible",
        "other": "NotYours",
        "right": "",
    }
    [row] = [row for row in made.rows if row.name == "long"]
    assert row.text == "spec.waitSeconds: expected at most 600, got 601"


def test_the_pool_says_how_long_a_claim_waits_that_does_not_say_it() -> None:
    made = plan(with_spec(POOL, defaults={"waitSeconds": 0}), claim("a"), claim("b", waitSeconds=5))
    fixes = {row.name: row.fix for row in made.rows}
    assert fixes == {"a": "", "b": "would be served if pool default/p had 1 idle pod more"}


def test_all_claims_are_asked_for_before_a_pod_that_replaces_a_claimed_one_is_idle() -> None:
    """Pods take seconds to start, and claims milliseconds."""
    newest = with_spec(POOL, order="newest")
    made = plan(WARM, newest, claim("a"), claim("b"), claim("c", waitSeconds=0))
    assert sorted(node for _, node, _ in claims(made).values()) == ["", "warm-x1", "warm-x2"]
    assert claims(made)["c"] == (Sign.WAITS, "", "NoIdlePod")


def test_pods_that_a_pool_adds_are_idle_although_all_others_are_claimed() -> None:
    warm = with_spec(WARM, template={**WARM["spec"]["template"], "metadata": {"labels": RECYCLED}})
    pool = with_spec(
        POOL, workload={"kind": "ReplicaSet", "name": "warm"}, autoscaler={"maxReplicas": 6}, mode="recycle"
    )
    made = plan(warm, pool, claim("a", count=2), claim("b", count=2), claim("never", requires={"size": "big"}))
    assert {name: sign for name, (sign, _, _) in claims(made).items()} == {
        "a": Sign.RUNS,
        "b": Sign.RUNS,
        "never": Sign.WAITS,
    }


def test_claims_of_the_cluster_count_for_the_order_of_a_pool_and_for_limits() -> None:
    """`pack` claims where claimed pods are already, although in mode detach these have left the pool."""
    mark = msgspec.json.encode(ClaimMark(claim="c-old", pool="p", tenant="default", expires=1.0)).decode()
    old = {"waggle.dev/claim": "c-old"}
    pods = (
        running("gone", "n1", metadata={"labels": old, "annotations": {"waggle.dev/claim": mark}}),
        running("idle-0", "n0", metadata={"labels": {"pool": "p"}}),
        running("idle-1", "n1", metadata={"labels": {"pool": "p"}}),
    )
    for spec, expected in (
        ({"order": "pack"}, (Sign.RUNS, "idle-1", "")),
        ({"order": "spread"}, (Sign.RUNS, "idle-0", "")),
        ({"limits": {"maxPodsPerTenant": 1}}, (Sign.WAITS, "", "NoIdlePod")),
    ):
        read = read_documents([Source("f.yaml", yaml.safe_dump_all([with_spec(POOL, **spec), claim("a")]))]).require()
        made = make_plan(World(nodes=(a_node("n0"), a_node("n1")), pods=pods), Changes(create=read.objects))
        assert claims(made) == {"a": expected}, spec

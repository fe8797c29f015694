"""Marks that somebody has written: without the policy `waggle-claim-marks`, any author of pods can."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec

from extender.claims import podreader
from extender.claims.codes import ClaimCode
from extender.claims.events import PodSeen
from extender.claims.records import Mode, PoolKey
from extender.claims.writes import names
from extender.claims.writes.give import GivePodBack
from extender.server.claims.pods import weigh
from tests.unit.claims.test_claims import code, world
from tests.unit.claims.world import POOL, World

OTHER = PoolKey("other", "warm")


def marked(cluster: World, uid: str, label: str, **mark: Any) -> None:
    def change(pod: dict[str, Any]) -> None:
        pod["metadata"]["labels"][names.CLAIM_LABEL] = label
        pod["metadata"].setdefault("annotations", {})[names.CLAIM_ANNOTATION] = json.dumps(mark)

    cluster.change(uid, change)
    cluster.observe()


def two_namespaces() -> World:
    """A claim `c-r` in one namespace, and a pod of another that bears its name and never ends."""
    cluster = world("a", mode=Mode.RECYCLE)
    cluster.ask("r", tenant="mine", lease_seconds=60.0)
    cluster.settle()
    [real] = cluster.pods.values()
    forged = copy.deepcopy(real)
    forged["metadata"].update(name="forged", namespace="other", uid="u-forged")
    mark = {"claim": "c-r", "pool": "warm", "tenant": "evil", "expires": 1e300}
    forged["metadata"]["annotations"][names.CLAIM_ANNOTATION] = json.dumps(mark)
    cluster.tell(PodSeen(podreader.convert(forged)))
    return cluster


def test_a_pod_of_another_namespace_is_not_taken_into_a_claim() -> None:
    cluster = two_namespaces()
    view = cluster.engine.claim("c-r", 0.0)
    assert view is not None
    assert ([pod.name for pod in view.pods], view.tenant, view.expires) == (["a"], "mine", 1060.0)
    assert cluster.engine.claims(POOL) == ["c-r"]
    assert cluster.engine.claims(OTHER) == ["c-r/other"]


def test_it_keeps_the_claim_from_ending_no_more_than_it_ends_with_it() -> None:
    cluster = two_namespaces()
    cluster.release("x", "c-r")
    assert [each.command.command.namespace for each in cluster.sent] == ["default"]  # type: ignore[attr-defined]
    cluster.settle()
    assert (code(cluster, "x"), cluster.claimed()) == (ClaimCode.RELEASED, {})
    assert "u-forged" in cluster.engine.state.pods


def test_it_can_be_ended_by_its_own_name_and_is_written_with_the_one_on_the_pod() -> None:
    cluster = two_namespaces()
    cluster.release("x", "c-r/other")
    [give] = [each.command.command for each in cluster.sent]
    assert isinstance(give, GivePodBack)
    assert (give.namespace, give.claim) == ("other", "c-r")
    assert give.mark is not None
    assert give.mark.claim == "c-r"


def test_a_mark_of_another_claim_than_the_label_says_is_not_read() -> None:
    cluster = world("a", "b")
    cluster.ask("r")
    cluster.settle()
    claimed, idle = sorted(cluster.pods, key=cluster.claim_of, reverse=True)
    marked(cluster, idle, "c-mine", claim="c-r", pool="warm", expires=1e300)
    view = cluster.engine.claim("c-r", 0.0)
    assert view is not None
    assert [pod.uid for pod in view.pods] == [claimed]
    assert cluster.engine.state.pods[idle].is_orphan
    cluster.pass_time(3601.0)
    cluster.settle()
    assert "deletionTimestamp" in cluster.pods[idle]["metadata"]


def test_a_gigantic_mark_is_not_read() -> None:
    cluster = world("a")
    [uid] = cluster.pods
    marked(cluster, uid, "c-x", claim="c-x", pool="warm", tenant="x" * 200_000)
    assert cluster.engine.state.claims == {}
    assert cluster.engine.state.pods[uid].is_orphan


def test_what_a_mark_and_containers_take_is_counted() -> None:
    cluster = world("a", mode=Mode.RECYCLE)
    [uid] = cluster.pods
    plain = weigh(cluster.engine.state.pods[uid])
    marked(cluster, uid, "c-x", claim="c-x", pool="warm", tenant="x" * 100_000)
    assert weigh(cluster.engine.state.pods[uid]) > plain + 200_000
    pod = copy.deepcopy(cluster.pods[uid])
    pod["spec"]["containers"] = [{"name": f"c{number}", "image": "i" * 1000} for number in range(100)]
    assert weigh(podreader.convert(pod)) > plain + 100_000


def test_numbers_that_no_claim_has_harm_nobody() -> None:
    cluster = world("a", "b", "c", mode=Mode.RECYCLE)
    for uid, mark in zip(
        sorted(cluster.pods),
        (
            {"expires": 1e300, "size": -1, "starts_by": -1e300},
            {"expires": -1e300, "size": 10**9, "starts_by": 1e300},
            {
                "expires": 5000.0,
                "idle_images": [["none", ""]],
                "before": [["none", "", ""]],
                "running": [["main", "x"]],
            },
        ),
        strict=True,
    ):
        marked(cluster, uid, f"c-{uid}", claim=f"c-{uid}", pool="\u202e" * 50, **mark)
    cluster.add("d")
    cluster.ask("r")
    cluster.settle()
    cluster.pass_time(100.0)
    cluster.settle()
    assert code(cluster, "r") is ClaimCode.CLAIMED
    assert msgspec.json.encode(cluster.engine.snapshot(POOL, 0.0))

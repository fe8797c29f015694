"""What the HTTP API says of sets and vpods, against a server that runs the engine over an API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.cluster.vpod_world import VPodWorld, vpod_world

SET = "/v1/vpods/default/fleet"


@pytest.fixture(scope="module")
def world() -> Iterator[VPodWorld]:
    """Two pods of four vreplicas: `a` has five, and `b` three of six."""
    with vpod_world(replicas=2, capacity=4, autoscale=False, zones=2) as w:
        w.add_vpod("a", 5)
        w.placed("a", 5)
        w.add_vpod("b", 6)
        w.placed("b", 3)
        w.resting()
        yield w


def get(world: VPodWorld, path: str = SET, **query: Any) -> Any:
    answer = world.server.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(world: VPodWorld, call: str, body: Any) -> httpx.Response:
    return world.server.http.post(f"{SET}/{call}", json=body)


def planned(world: VPodWorld, **body: Any) -> Any:
    answer = post(world, "plan", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_sets_are_listed_in_numbers(world: VPodWorld) -> None:
    (item,) = get(world, "/v1/vpods")["items"]
    assert (item["namespace"], item["name"], item["capacity"], item["policy"]) == ("default", "fleet", 4, "balanced")
    assert item["decides"]
    sums = item["sums"]
    assert (sums["expected"], sums["placed"], sums["pending"], sums["free"], sums["waiting"]) == (11, 8, 3, 0, 1)
    assert get(world, "/v1/vpods", namespace="other")["items"] == []


def test_a_set_has_its_pods_and_its_vpods(world: VPodWorld) -> None:
    found = get(world)
    assert [(pod["name"], pod["held"], pod["state"]) for pod in found["pods"]] == [
        ("fleet-0", 4, "usable"),
        ("fleet-1", 4, "usable"),
    ]
    a, b = found["vpods"]
    assert (a["name"], a["scheduled"], a["reason"], a["waits_seconds"]) == ("a", 5, "Placed", None)
    assert (b["scheduled"], b["pending"], b["reason"]) == (3, 3, "NotEnoughRoom")
    assert b["waits_seconds"] >= 0
    assert sum(b["placements"].values()) == 3


def test_vpods_and_pods_come_by_the_page(world: VPodWorld) -> None:
    first = get(world, limit=1, pod_limit=1)
    assert ([each["name"] for each in first["vpods"]], first["next"], first["next_pod"]) == (["a"], "default/a", 1)
    second = get(world, limit=1, after=first["next"], from_pod=1)
    assert [each["name"] for each in second["vpods"]] == ["b"]
    assert [each["ordinal"] for each in second["pods"]] == [1]
    assert [each["name"] for each in get(world, waiting=True)["vpods"]] == ["b"]
    assert get(world, limit=0)["vpods"] == []


def test_a_plan_changes_nothing(world: VPodWorld) -> None:
    before = get(world), world.cluster.revision
    plan = planned(world, replicas=3)
    assert (plan["after"]["pending"], plan["waiting"], plan["complete"]) == (0, [], True)
    assert plan["steps"][0]["kind"] == "scale"
    assert plan["steps"][0]["pods"] == ["fleet-2"]
    assert {step["target"] for step in plan["steps"][1:]} <= {"fleet-0", "fleet-1", "fleet-2", None}
    assert plan["held_before"] == {"fleet-0": 4, "fleet-1": 4}
    after = get(world)
    for each in (*before[0]["vpods"], *after["vpods"]):
        each.pop("waits_seconds")
    assert (after, world.cluster.revision) == before


def test_a_plan_with_everything(world: VPodWorld) -> None:
    plan = planned(
        world,
        vpods=[{"vpod": "a", "vreplicas": 2}, {"vpod": "default/b", "deleted": True}, {"vpod": "c", "vreplicas": 1}],
        capacity=5,
        policy="head",
        min_replicas=1,
        max_replicas=3,
        autoscale=True,
        lost_pods=["1"],
        cordoned_nodes=["n2"],
    )
    assert plan["after"]["expected"] == plan["after"]["placed"] == 3


def test_an_empty_plan_says_what_is_due(world: VPodWorld) -> None:
    answer = world.server.http.post(f"{SET}/plan")
    assert answer.status_code == 200
    assert answer.json()["steps"] == []


def test_an_explanation_says_what_would_help(world: VPodWorld) -> None:
    for found in (get(world, f"{SET}/explain", vpod="b"), post(world, "explain", {"vpod": "default/b"}).json()):
        assert found["waits"][0].startswith("3 of 6 vreplicas have no pod: 2 of 2 pods can be used")
        assert [(each["change"], each["value"]) for each in found["helps"]] == [("replicas", 3), ("capacity", 6)]
        assert len(found["rules"]) == 6
        assert all(pod["why"] for pod in found["pods"])


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        ({"vpods": [{"vpod": "a", "vreplicas": -1}]}, "vpods.0.vreplicas", "greater than or equal to 0"),
        ({"vpods": [{"vpod": "a", "vreplicas": "5"}]}, "vpods.0.vreplicas", "valid integer"),
        ({"vpods": [{"vpod": "a", "vreplica": 5}]}, "vpods.0.vreplica", "did you mean vreplicas?"),
        ({"vpods": [{"vpod": "x"}]}, "vpods.0.vpod", "default/x is not a vpod of default/fleet"),
        ({"replica": 5}, "replica", "did you mean replicas?"),
        ({"capacity": 0}, "capacity", "greater than or equal to 1"),
        ({"policy": "even"}, "policy", "even"),
        ({"lost_pods": ["fleet-9"]}, "lost_pods.0", "fleet-0 to fleet-1"),
        ({"cordoned_nodes": ["n0", "m1"]}, "cordoned_nodes.1", "there is no node m1"),
        ({"vpods": [{"vpod": "a", "vreplicas": 1}] * 1001}, "vpods", "at most 1000 items"),
        ([], "body", "should be an object"),
    ],
)
def test_a_plan_that_cannot_be_made_names_the_field(world: VPodWorld, body: Any, field: str, text: str) -> None:
    answer = post(world, "plan", body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["field"] == field
    assert text in answer.json()["error"]


def test_a_body_that_is_too_large_is_not_read(world: VPodWorld) -> None:
    assert post(world, "plan", {"policy": "x" * 600_000}).status_code == 413


def test_what_is_not_there_is_answered_with_what_is(world: VPodWorld) -> None:
    for call, asked in (("", {}), ("/explain", {"vpod": "a"})):
        answer = world.server.http.get(f"/v1/vpods/default/flet{call}", params=asked)
        assert (answer.status_code, answer.json()["code"]) == (404, "UnknownSet")
        assert "the namespace default has: fleet; did you mean fleet?" in answer.json()["error"]
    answer = world.server.http.get(f"{SET}/explain", params={"vpod": "aa"})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (404, "UnknownVPod", "vpod")
    assert "it has: a, b" in answer.json()["error"]
    assert world.server.http.get("/v1/vpods/default/fleet", params={"limits": 3}).status_code == 400

"""`waggle vpods show`, `plan` and `explain` against a server on a socket."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from extender.cli import app
from tests.support.cluster.vpod_world import VPodWorld, vpod_world

SET = "default/fleet"


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


def run(world: VPodWorld, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["vpods", *arguments], env={"WAGGLE_SERVER": world.server.handle.url})


def line(result: Result, start: str) -> list[str]:
    """The words of the line of a table that begins with this."""
    return next(each.split() for each in result.output.splitlines() if each.startswith(start))


def test_sets_are_shown_one_a_line(world: VPodWorld) -> None:
    found = run(world, "show")
    assert found.exit_code == 0, found.output
    assert line(found, SET) == [SET, "balanced", "2/2", "2", "8/11", "0", "0", "1", "at", "rest"]
    assert run(world, "show", "-n", "other").output.strip() == "There are no sets."


def test_a_set_is_shown_with_its_pods_and_vpods(world: VPodWorld) -> None:
    found = run(world, "show", SET)
    assert "8 of 11 vreplicas placed, 3 pending, 0 free, spread 0; at rest" in found.output
    assert line(found, "fleet-0")[-3:] == ["4", "0", "usable"]
    assert line(found, "default/b")[:3] == ["default/b", "3/6", "2"]
    assert "default/a " not in run(world, "show", SET, "--waiting").output
    paged = run(world, "show", SET, "--limit", "1")
    assert "For more: --after default/a" in paged.output
    assert "default/b" in run(world, "show", SET, "--after", "default/a").output


def test_a_plan_tells_the_moves_and_changes_nothing(world: VPodWorld) -> None:
    revision = world.cluster.revision
    found = run(world, "plan", SET, "--replicas", "3")
    assert found.exit_code == 0, found.output
    assert line(found, "0s  replicas")[2:] == ["2", "3", "+", "fleet-2"]
    assert line(found, "pending")[1:] == ["3", "0", "changes"]
    assert found.output.rstrip().endswith("Nothing was changed.")
    assert world.cluster.revision == revision


def test_a_plan_counts_a_vpod_that_is_new(world: VPodWorld) -> None:
    found = run(world, "plan", SET, "--vreplicas", "typing-error=0")
    assert found.exit_code in (0, 3)
    assert ["vpods", "2", "3", "changes"] in [each.split() for each in found.output.splitlines()]


def test_a_plan_after_which_somebody_waits_has_a_status_of_its_own(world: VPodWorld) -> None:
    found = run(world, "plan", SET, "--vreplicas", "c=4", "--delete", "b", "--close-pod", "1", "--cordon", "n2")
    assert found.exit_code == 3
    assert "WOULD WAIT" in found.output
    assert "closed pod" in found.output


def test_an_explanation_has_rules_pods_and_what_would_help(world: VPodWorld) -> None:
    found = run(world, "explain", SET, "b")
    assert found.exit_code == 0
    assert "default/b in default/fleet: 3 of 6 vreplicas placed, waits for" in found.output
    assert "3 replicas instead of 2" in found.output
    assert "a capacity of 6 for each pod instead of 4" in found.output
    assert "as many of the wanted vreplicas as possible are placed" in found.output
    assert line(found, "fleet-0")[2] in ("1", "2")


@pytest.mark.parametrize("flags", [("--json",), ("-o", "json")])
def test_json_is_the_answer_of_the_server(world: VPodWorld, flags: tuple[str, ...]) -> None:
    assert json.loads(run(world, "show", *flags).output)["items"][0]["name"] == "fleet"
    assert json.loads(run(world, "show", SET, *flags).output)["pods"][0]["name"] == "fleet-0"
    assert json.loads(run(world, "plan", SET, *flags).output)["complete"]
    assert json.loads(run(world, "explain", SET, "a", *flags).output)["placed"] == 5


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("show", "default/flet"), 1, "did you mean fleet?"),
        (("plan", "default/nothing"), 1, "the namespace default has: fleet"),
        (("explain", SET, "aa"), 1, "it has: a, b; did you mean a?"),
        (("show", "fleet"), 2, "expected NAMESPACE/SET, got 'fleet'"),
        (
            ("plan", SET, "--vreplicas", "a"),
            2,
            "--vreplicas: expected VPOD=NUMBER with a number from 0 to 2147483647, got 'a'",
        ),
        (("plan", SET, "--vreplicas", "a=-1"), 2, "a number from 0 to 2147483647, got 'a=-1'"),
        (("plan", SET, "--vreplicas", "a=2147483648"), 2, "a number from 0 to 2147483647, got 'a=2147483648'"),
        (("plan", SET, "--policy", "balance"), 2, "did you mean balanced?"),
        (("plan", SET, "--lose-pod", "fleet-7"), 2, "fleet-0 to fleet-1"),
        (("plan", SET, "--capacity", "0"), 2, "capacity: Input should be greater than or equal to 1"),
        (("show", "--server", "http://127.0.0.1:1"), 2, "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_said(world: VPodWorld, arguments: tuple[str, ...], status: int, text: str) -> None:
    found = run(world, *arguments)
    assert found.exit_code == status, found.output
    assert text in " ".join(found.output.split())

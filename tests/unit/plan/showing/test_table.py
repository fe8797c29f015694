"""The table: alike rows on one line, one reason, the nearest fix below, the sums at the end."""

from __future__ import annotations

from functools import partial

from extender.logs.printable import printable
from extender.plan.records import Estimate, Sign
from extender.plan.showing.table import table
from tests.unit.plan.showing.plans import HOSTILE, gang, mixed, plan, row

clean = partial(printable, keep="\n")


def test_a_plan_is_shown_with_its_reasons_fixes_and_sums() -> None:
    assert (
        table(mixed())
        == """\
At once:
+ Job/default/train   3 pods  gpu-0 (2), gpu-1
Wave 1, which depends on wave 0:
+ Pod/default/late            cpu-1
Moves:
~ Pod/default/web             gpu-1 -> cpu-1
Is evicted:
- Pod/default/filler          gpu-1; Preempted: evicted for default/train-0
Waits:
? Job/default/big     4 pods  GangDoesNotFit: gang default/big does not fit as a whole: needs 4 nodes
      would fit if 2 GPUs on rack r3 ended: train-7

GROUP  RUN  MOVE  EVICTED  WAIT  STAY
big      0     0        0     4     0
train    3     0        0     0     0

Waves: 2. Critical path: Job/default/train -> Pod/default/late
Not planned, of kinds that a plan does not know:
  ConfigMap/default/settings (a.yaml, document 2)
Note: a CronJob is suspended

Plan: 4 will run, 1 will move, 1 will be evicted, 4 will wait.
It holds for the state with fingerprint f00d. Nothing was changed."""
    )


def test_every_object_has_a_line_if_that_is_wanted() -> None:
    shown = table(plan(gang("train", 3)), every=True)
    assert shown.splitlines()[:3] == [f"+ Pod/default/train-{n}  gpu-{n % 2}" for n in range(3)]


def test_a_workload_with_one_pod_is_that_workload_but_not_if_others_of_it_fare_otherwise() -> None:
    assert table(plan(gang("one", 1))).startswith("+ Job/default/one  1 pod  gpu-0")
    shown = table(plan([*gang("two", 2), row("two-2", Sign.WAITS, workload="Job/default/two", code="NoNodeFits")]))
    assert "? Pod/default/two-2          NoNodeFits" in shown


def test_nodes_beyond_three_are_counted() -> None:
    rows = [row(f"p{n}", workload="Job/default/j", node=f"n{n}") for n in range(5)]
    assert "n0, n1, n2 and 2 more nodes" in table(plan(rows))
    assert "n2 and 1 more node\n" in table(plan(rows[:4]))


def test_long_plans_are_cut_and_say_so() -> None:
    found = plan([row(f"p{n}", Sign.WAITS, code="Other", text=f"for reason {n}") for n in range(600)])
    assert "and 100 more lines (--all shows all)" in table(found)
    assert "more lines" not in table(found, every=True)


def test_many_lone_objects_that_are_alike_have_one_line() -> None:
    """Nobody reads 50 times that there is no CPU. `every` and the other formats keep each of them."""
    fields = {"code": "Unschedulable", "text": "no CPU", "fix": "one more node would do"}
    found = plan([row(f"p{n}", Sign.WAITS, **fields) for n in range(47)])
    assert table(found).splitlines()[:3] == [
        "? Pod/default/p0  and 46 more like it  Unschedulable: no CPU",
        "      one more node would do",
        "(--all shows a line for each object)",
    ]
    assert sum("Unschedulable" in line for line in table(found, every=True).splitlines()) == 47


def test_a_few_lone_objects_and_those_that_differ_have_their_own_lines() -> None:
    waits = [row(f"w{n}", Sign.WAITS, code="Other", text="x") for n in range(3)]
    differs = [row(f"d{n}", Sign.WAITS, code="Other", text=f"{n}") for n in range(9)]
    runs = [row(f"r{n}", node=f"n{n}") for n in range(20)]
    assert "like it" not in table(plan([*waits, *differs, *runs]))
    shown = table(plan([*runs, row("r20", node="n0")]))
    assert shown.startswith("+ Pod/default/r0  and 20 more like it  n0 (2), n1, n2 and 17 more nodes")


def test_the_sums_are_right_for_one_and_for_many() -> None:
    rows = [row("a"), row("b", Sign.WAITS, code="Other"), row("c", Sign.MOVES), row("d", Sign.EVICTED)]
    one = "1 will run, 1 will move, 1 will be evicted, 1 will wait"
    assert f"Plan: {one}." in table(plan(rows))
    assert f"Plan: {one.replace('1', '2')}." in table(plan(rows * 2))


def test_a_start_is_estimated_as_a_range() -> None:
    rows = [row("a", start=Estimate(600.0, 900.0)), row("b", start=Estimate(0.0, 0.0))]
    shown = table(plan(rows))
    assert "starts in 10m to 15m" in shown
    assert shown.count("starts") == 1


def test_a_plan_that_was_stopped_says_so() -> None:
    assert "stopped before its end: more than 10 pods" in table(plan([row("a")], stopped="more than 10 pods"))


def test_nothing_is_a_plan_too() -> None:
    assert table(plan([])).startswith("Plan: nothing happens.")


def test_only_signs_are_painted_and_nothing_of_a_stranger_reaches_the_terminal() -> None:
    rows = [row(HOSTILE, Sign.WAITS, code="Other", text=HOSTILE, fix=HOSTILE, node=HOSTILE)]
    shown = table(plan(rows, warnings=(HOSTILE,)), paint=lambda sign: f"\x1b[35m{sign}\x1b[0m", clean=clean)
    assert shown.count("\x1b") == 2
    assert "\u202e" not in shown

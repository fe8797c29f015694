"""The ancestor's mode does what its description says, with the counts of one worker, and with its weak points."""

from __future__ import annotations

import pytest

from extender.fixpoint.levels import BlockedOn, Level, LevelEngine
from tests.support.fixpoint import Shuffled
from tests.support.fixpoint.ancestor import Ancestor


def test_a_chain_ends_without_a_drain() -> None:
    world = Ancestor({"a": ["b"], "b": ["c"], "c": []})
    report = world.run()
    assert world.status == {"a": "", "b": "", "c": ""}
    assert (report.level, report.dispatches) == (Level.NONE, 5)


def test_a_diamond_runs_its_join_three_times_at_most() -> None:
    world = Ancestor({"d": ["b", "c"], "b": ["a"], "c": ["a"], "a": []})
    report = world.run()
    assert set(world.status.values()) == {""}
    assert dict(report.runs)["d"] <= 3


@pytest.mark.parametrize(("consumer", "middle", "runs"), [("a", "b", 3), ("b", "a", 2)])
def test_a_dangling_chain_fails_leaf_first_within_one_level(consumer: str, middle: str, runs: int) -> None:
    world = Ancestor({consumer: [middle], middle: ["missing"]})
    report = world.run()
    assert world.status == {middle: "missing not found", consumer: f"{middle}: missing not found"}
    assert report.level is Level.CASCADE
    assert dict(report.runs) == {consumer: runs, middle: 2}


def test_a_dangling_chain_of_five_costs_fourteen_runs() -> None:
    world = Ancestor({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["e"], "e": ["missing"]})
    report = world.run()
    assert [runs for _, runs in report.runs] == [3, 3, 3, 3, 2]
    assert report.dispatches == 14


def test_a_cycle_is_forced_and_what_is_downstream_loses_the_reason() -> None:
    world = Ancestor({"a": ["b"], "b": ["a"], "z": ["a"], "y": ["z"]})
    report = world.run()
    assert report.level is Level.FORCE
    assert all(world.status.values())
    assert world.status["y"] == "z not ready"


def test_the_level_never_falls_so_that_later_news_is_judged_too_early() -> None:
    """W1: k1 needs what k2 is just about to report."""
    world = Ancestor({"p": ["?absent"], "k1": ["x"]}, emits={"p": ["k1", "k2"], "k2": ["x"]})
    world.run(["p"])
    assert world.status == {"p": "", "k1": "x not found", "k2": "", "x": ""}


def test_data_that_arrives_between_look_and_end_is_missed_until_the_drain() -> None:
    """W4: the body has looked, the data arrives, the body parks."""
    seen: list[Level] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        seen.append(level)
        if len(seen) == 1:
            engine.on_arrival("data", schedulable=False)
            return BlockedOn(("data",))
        return None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed(["a"])
    assert engine.run().runs == (("a", 2),)
    assert seen == [Level.NONE, Level.CASCADE]


def test_a_blocker_that_ended_meanwhile_is_found() -> None:
    """The lost wake-up of a node: b ends before a's body says that it is blocked on b."""
    ended: list[str] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        blocked = key == "a" and "b" not in ended
        if key == "a":
            executor.interrupt()
        ended.append(key)
        return BlockedOn(("b",)) if blocked else None

    executor = Shuffled(2, seed=1, eagerness=1.0)
    engine: LevelEngine[str] = LevelEngine(body, executor=executor)
    engine.seed(["a", "b"])
    report = engine.run()
    assert (report.level, dict(report.runs)["b"]) == (Level.NONE, 1)


def test_a_body_that_names_an_ended_blocker_runs_until_it_is_cancelled() -> None:
    """W5."""
    runs: list[str] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        runs.append(key)
        if len(runs) == 100:
            engine.cancel()
        return BlockedOn(("b",)) if key == "a" else None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed(["a", "b"])
    assert engine.run().cancelled
    assert len(runs) == 100


def test_a_pending_status_wakes_nobody_and_data_is_no_node() -> None:
    def body(key: str, level: Level) -> BlockedOn[str] | None:
        if key == "b":
            engine.on_status_wake("data", ready=False)
            engine.on_arrival("other", schedulable=False)
        return BlockedOn(("data",)) if key == "a" and level is Level.NONE else None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed(["a", "b"])
    assert engine.run().runs == (("a", 2), ("b", 1))


def test_what_selects_its_inputs_runs_again_at_the_drain_if_anything_arrived() -> None:
    arrived: list[bool] = []
    runs: list[str] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        runs.append(key)
        if key == "z" and not arrived:
            arrived.append(True)
            engine.on_arrival("data", schedulable=False)
        return None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.set_rerun_at_drain(lambda key: key == "selector")
    engine.seed(["selector", "z"])
    engine.run()
    assert runs == ["selector", "z", "selector"]


@pytest.mark.parametrize("depth", [8, 32, 40])
def test_a_chain_of_selectors_takes_one_sweep_more_than_it_is_deep(depth: int) -> None:
    """F21: its own arrivals count as news, which costs one run that finds nothing."""
    names = [f"s{depth - stage:02d}" for stage in range(depth)]
    stages: set[int] = set()

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        stage = names.index(key)
        if stage not in stages and (stage == 0 or stage - 1 in stages):
            stages.add(stage)
            engine.on_arrival(f"data-{stage}", schedulable=False)
        return None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.set_rerun_at_drain(lambda _: True)
    engine.seed(names)
    report = engine.run()
    assert len(stages) == depth
    assert {runs for _, runs in report.runs} == {depth + 1}
    assert report.level is Level.NONE


def test_no_rule_of_what_selects_its_inputs_means_that_nothing_does() -> None:
    engine: LevelEngine[str] = LevelEngine(lambda key, level: engine.on_arrival("data", schedulable=False))
    engine.set_rerun_at_drain(lambda _: True)
    engine.set_rerun_at_drain(None)
    engine.seed(["a"])
    assert engine.run().runs == (("a", 1),)


def test_an_arrival_of_a_running_node_runs_it_once_more_whatever_it_says() -> None:
    """And a waiter does not see the end that does not count."""
    ran: list[str] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        ran.append(key)
        if key == "b" and ran.count("b") == 1:
            engine.on_arrival("b", schedulable=True)
            return None
        return BlockedOn(("b",)) if key == "a" and ran.count("b") < 2 else None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed("ab")
    assert engine.run().level is Level.NONE
    assert ran == ["a", "b", "a", "b", "a"], "the arrival wakes a as well, in vain"


def test_nodes_that_wait_for_nothing_named_are_forced_in_the_end() -> None:
    """W10: blocked with no ids."""
    engine: LevelEngine[str] = LevelEngine(lambda key, level: BlockedOn(()))
    engine.seed(["a"])
    report = engine.run()
    assert (report.forced, report.runs, report.level) == (("a",), (("a", 3),), Level.FORCE)


def test_what_a_body_raises_is_raised_by_the_run() -> None:
    def body(key: str, level: Level) -> BlockedOn[str] | None:
        raise ValueError(key)

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed(["a"])
    with pytest.raises(ValueError, match="a"):
        engine.run()


def test_content_of_a_parked_node_is_ignored() -> None:
    """W11: it stays on its old blockers until the drain."""
    levels: list[Level] = []

    def body(key: str, level: Level) -> BlockedOn[str] | None:
        if key == "z":
            engine.on_arrival("a", schedulable=True)
            return None
        levels.append(level)
        return BlockedOn(("missing",)) if level is Level.NONE else None

    engine: LevelEngine[str] = LevelEngine(body)
    engine.seed(["a", "z"])
    engine.run()
    assert levels == [Level.NONE, Level.CASCADE]

"""Recordings in segments: a replay begins at the checkpoint before the moment, also if what was before it is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from extender.recording.files import CHECKPOINT, LOG, name_of
from extender.recording.records import RecordingError
from extender.replay.counterfactual import Other, counterfactual
from extender.replay.frozen import freeze
from extender.replay.history import recorded_history
from extender.replay.logs import Log, open_log
from extender.replay.moments import MomentError, parse
from extender.replay.stepping import Stepper
from tests.support.engine.scripted_log import two_nodes

#: Events of a segment: checkpoints after events 6 and 12.
EVERY = 6


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return two_nodes().write_folder(tmp_path / "log", EVERY)


@pytest.fixture
def rest(folder: Path) -> Log:
    """What rotation has left: the second segment and the third one."""
    (folder / name_of(1, LOG)).unlink()
    return open_log(folder)


def shown(log: Log, moment: str) -> list[tuple[str, str, str, float]]:
    frozen = freeze(log, parse(moment))
    frozen.machine.validate()
    return [(view.name, view.state, view.node, view.since_seconds) for view in frozen.runtime.model.pods()]


@pytest.mark.parametrize("number", range(1, 17))
def test_every_moment_is_the_same_with_and_without_checkpoints(number: int, folder: Path, log: Log) -> None:
    assert shown(open_log(folder), str(number)) == shown(log, str(number))


def test_only_what_comes_after_the_checkpoint_is_read(folder: Path) -> None:
    damaged = folder / name_of(1, LOG)
    damaged.write_bytes(damaged.read_bytes()[: -(damaged.stat().st_size // 10)])
    log = open_log(folder)

    assert freeze(log, parse("14")).number == 14
    with pytest.raises(RecordingError, match=f"{name_of(1, LOG)}.*and others follow"):
        freeze(log, parse("5"))


def test_a_moment_before_what_is_left_is_refused(rest: Log) -> None:
    with pytest.raises(RecordingError, match="only what follows event 6 can still be replayed"):
        freeze(rest, parse("3"))
    assert freeze(rest, parse("16")).number == 16
    with pytest.raises(MomentError, match="after the end"):
        freeze(rest, parse("17"))


def test_steps_back_go_over_checkpoints(folder: Path, log: Log) -> None:
    def decisions(stepper: Stepper) -> list[int]:
        found = []
        while (seen := stepper.back()) is not None:
            found.append(seen.number)
        return found

    for at in (16, 13, 12, 11):
        assert decisions(Stepper(open_log(folder), at)) == decisions(Stepper(log, at))
    assert decisions(Stepper(open_log(folder), 16)) == [15, 10, 5]


def test_steps_begin_where_the_rest_begins(rest: Log) -> None:
    stepper = Stepper(rest)
    assert stepper.next().number == 7  # type: ignore[union-attr]
    assert stepper.next_decision().number == 10  # type: ignore[union-attr]
    assert stepper.back() is None
    assert stepper.number == 6


def test_pods_of_the_checkpoint_ran_before(rest: Log) -> None:
    recorded = recorded_history(rest)
    names = {job.name: job for job in recorded.workload.jobs}

    assert [name for name, job in names.items() if job.begins_placed] == ["default/a"]
    assert names["default/a"].templates[0].node_name == "n1"
    assert [node.name for node in recorded.workload.nodes] == ["n1", "n2"]
    made = counterfactual(rest, Other("fgd"))
    assert (made.baseline.jobs[0].name, made.baseline.jobs[0].start) == ("default/a", 0.0)


def test_of_several_runs_of_a_server_the_time_of_day_chooses(tmp_path: Path) -> None:
    for number, epoch in ((1, 1_700_000_000.0), (2, 1_700_100_000.0)):
        made = two_nodes()
        made.header = {"recording": f"run-{number}", "epoch": epoch}
        made.write_folder(tmp_path / f"run-{number}", 100)
    folder = tmp_path / "log"
    folder.mkdir()
    for number in (1, 2):
        (tmp_path / f"run-{number}" / name_of(1, LOG)).rename(folder / name_of(number, LOG))

    def run_at(text: str) -> str:
        moment = parse(text)
        log = open_log(folder, wall=moment.wall)
        freeze(log, moment)
        return log.header.recording

    assert run_at("2023-11-14T22:16:00Z") == "run-1"
    assert run_at("2023-11-16T02:02:00Z") == run_at("end") == "run-2"
    with pytest.raises(MomentError, match="after the end of the log"):
        run_at("2023-11-15T12:00:00Z")
    with pytest.raises(MomentError, match="before the log, which begins at 2023-11-14T22:15:00"):
        run_at("2023-11-14T12:00:00Z")


def test_a_checkpoint_that_is_missing_is_said(rest: Log, folder: Path) -> None:
    (folder / name_of(2, CHECKPOINT)).unlink()
    with pytest.raises(RecordingError, match="has no checkpoint|only what follows|cannot be replayed|are missing"):
        freeze(open_log(folder), parse("7"))

"""An engine that fails in a replay: by what it raises, and by nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from algorithm.interface import SchedulerAlgorithm
from extender.recording.encoding import LineWriter, header_of
from extender.recording.log import open_log
from extender.recording.replaying import Create, Replay
from extender.scheduling.events import ReconfigureRequested
from tests.support.engine.scripted_log import two_nodes

#: Longer than what a recording keeps of it.
LONG = "x" * 5000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Its last event, the 17th, asks for other settings: the replay makes an algorithm with them."""
    made = two_nodes()
    made.at(401.0, ReconfigureRequested(1, "packing", {"strategy": "spread"}))
    return made.write(tmp_path / "log")


def raising(error: BaseException) -> Create:
    def create(_name: str, _settings: Mapping[str, Any]) -> SchedulerAlgorithm:
        raise error

    return create


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit("over"), ValueError("no")], ids=repr)
def test_a_plug_in_that_ends_the_process_is_a_divergence(log: Path, error: BaseException) -> None:
    *others, last = Replay(open_log(log).recordings[0], create=raising(error))

    assert len(others) == 16
    assert not [each for each in others if each.divergence]
    assert last.divergence is not None
    assert last.divergence.failed_now == last.failed == f"{type(error).__name__}: {error}"


def test_ctrl_c_ends_the_replay(log: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(Replay(open_log(log).recordings[0], create=raising(KeyboardInterrupt())))


@pytest.mark.parametrize("error", [SystemExit(3), RuntimeError(LONG)], ids=["SystemExit", "long"])
def test_a_failure_that_was_recorded_is_the_same_in_the_replay(tmp_path: Path, error: BaseException) -> None:
    made = two_nodes()
    writer = LineWriter()
    asked = ReconfigureRequested(1, "packing", {"strategy": "spread"})
    said = f"{type(error).__name__}: {error}"[:2000]  # as the server's loop says it
    lines = [writer.header(header_of("packing", {}, made.policy, recording="r"))]
    lines += [writer.event(number, at, event, out) for number, (event, at, out) in enumerate(made.steps, start=1)]
    (tmp_path / "log").write_bytes(b"".join([*lines, writer.event(17, 401.0, asked, said)]))

    *_, last = Replay(open_log(tmp_path / "log").recordings[0], create=raising(error))
    assert last.failed == said
    assert last.divergence is None

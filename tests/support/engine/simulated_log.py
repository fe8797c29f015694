"""A recording of a simulated cluster: what a server would have recorded, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from extender.lab.results import Run
from extender.lab.run.simulation import RunOptions, Simulation
from extender.lab.workload import Workload
from extender.recording.encoding import LineWriter, header_of
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine

#: When it began, as the records of its pods say.
EPOCH = 946_684_800.0


def simulated_log(path: Path, workload: Workload, options: RunOptions) -> Run:
    """Simulate the workload and write the recording of its engine. Returns the result."""
    steps: list[tuple[float, Event, list[Instruction]]] = []
    handle = SchedulerStateMachine.handle

    def recording_handle(machine: SchedulerStateMachine, event: Event, now: float) -> list[Instruction]:
        out = handle(machine, event, now)
        steps.append((now, event, out))
        return out

    with patch.object(SchedulerStateMachine, "handle", recording_handle):
        simulation = Simulation(workload, options)
        run = simulation.run()
    settings: dict[str, Any] = (yaml.safe_load(options.settings) or {}) if options.settings else {}
    own = settings.get("algorithm", {}).get("settings", {})
    writer = LineWriter()
    policy = simulation.scheduling.machine.policy
    lines = [writer.header(header_of(options.algorithm, own, policy, recording="simulated", epoch=EPOCH))]
    lines += [writer.event(number, now, event, out) for number, (now, event, out) in enumerate(steps, start=1)]
    path.write_bytes(b"".join(lines))
    return run

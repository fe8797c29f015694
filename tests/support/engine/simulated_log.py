"""A recording of a simulated cluster: what a server would have recorded, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from extender.lab.results import Run
from extender.lab.run.simulation import RunOptions, Simulation
from extender.lab.workload import Workload
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import recording
from extender.server.recording import Step


def simulated_log(path: Path, workload: Workload, options: RunOptions) -> Run:
    """Simulate the workload and write the recording of its engine. Returns the result."""
    steps: list[Step] = []
    handle = SchedulerStateMachine.handle

    def recording_handle(machine: SchedulerStateMachine, event: Event, now: float) -> list[Instruction]:
        steps.append(Step(now, event, machine.sequence + 1))
        return handle(machine, event, now)

    with patch.object(SchedulerStateMachine, "handle", recording_handle):
        simulation = Simulation(workload, options)
        run = simulation.run()
    settings: dict[str, Any] = (yaml.safe_load(options.settings) or {}) if options.settings else {}
    own = settings.get("algorithm", {}).get("settings", {})
    head = recording.encode_header(options.algorithm, own, simulation.scheduling.machine.policy)
    path.write_bytes(head + b"".join(recording.encode_step(step) + b"\n" for step in steps))
    return run

"""Where we differ from what the original did, step by step, and why. `deviations.json` lists it; tests hold it exact.

`python -m tests.conformance.hived_deviations` plays everything and writes the list anew: read the difference before
you commit it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

from tests.conformance.hived_recordings import HERE, Judge, Player, recordings, states
from tests.conformance.hived_states import Recorded, differences, group_differences
from tests.support.hived.audit import audit

LIST = HERE / "deviations.json"

#: Of REASONS, those that these recordings have no step for; others of the original have.
NOT_HERE = {
    "groups": "BUG-10, BUG-12: a group ends while a pod of it runs, or goes on without any; a preempting group ends "
    "here with the last pod whose preemption was taken, in the original with the last one that asked",
    "group physical": "tie-break: after a preemption came to nothing, the original plans another of equal cells, "
    "and what a preemptor reserves is seen in its group before any answer names it",
    "group lazyPreemptedBy": "BUG-10, BUG-21: whether a recovered group finds its quota taken follows here from all "
    "pods, there from which is found first; and the original preempts lazily for plans that nobody takes as well",
}

#: The ways in which a step may differ, and why it is meant to.
REASONS = {
    "answer": "BUG-10: a recovered pod is filed in the place of another pod of its group, which ends too early then, "
    "and its devices are given twice; or it never ends, and a pod that is gone is named as a victim",
    "state": "BUG-23: the recorded state of a cell above devices is stale; ours follows from the devices' states",
    "tenant": "BUG-23: the recorded tenant of a device that is or was used opportunistically is stale",
    "names": "lots: the original iterates over a map, and which of a tenant's equal virtual cells it names is chance",
    "cells": "BUG-11, BUG-21: which bad cells are doomed; the original dooms some without need, or forgets to undoom",
    "group state": "BUG-8: the original calls a victim BeingPreempted for ever after the preemption is cancelled",
    "group allocated": "BUG-10: the place of a recovered pod within its group",
    "group preempting": "deciding leaves no trace here: a pod counts as preempting when its preemption is taken",
    **NOT_HERE,
}


@cache
def deviations() -> dict[str, dict[str, str]]:
    """By recording and kind: the steps, as ranges."""
    return json.loads(LIST.read_text())


def play(name: str) -> dict[str, str]:
    """Plays a recording. How it differs from what was recorded, by kind; our own rules are audited all the while."""
    recording = recordings()[name]
    player, judge = Player(recording), Judge(recording)
    recorded = Recorded(recording) if name in states()["scenarios"] else None
    found: dict[str, list[int]] = {}
    for step, answer in player.steps():
        hive, kinds = player.adapter.hive, set()
        if not judge.take(step, answer):
            kinds.add("answer")
        if step < judge.until and judge.canonical and recorded is not None:
            cells, groups = recorded.advance(step)
            kinds |= differences(hive, cells) | group_differences(hive, groups)
        else:
            audit(hive)
        for kind in kinds:
            found.setdefault(kind, []).append(step)
    audit(player.adapter.hive)
    return {kind: _ranges(steps) for kind, steps in sorted(found.items())}


def _ranges(steps: Iterable[int]) -> str:
    found: list[list[int]] = []
    for step in steps:
        if found and found[-1][-1] == step - 1:
            found[-1][1:] = [step]
        else:
            found.append([step])
    return ",".join("-".join(map(str, each)) for each in found)


def main() -> None:
    found = {name: play(name) for name in recordings()}
    LIST.write_text(json.dumps({name: kinds for name, kinds in found.items() if kinds}, indent=1) + "\n")


if __name__ == "__main__":
    main()

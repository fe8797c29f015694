"""What another configuration of HiveD would change, as a report for people and machines.

What runs is compared by really recovering it twice, with the algorithm that serves and in the order in which a server
tells it its pods; nothing is simulated. Both sides know what stands on the pods and no more, as after a restart.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.hived.cells.fit import Room
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.insight.diff import Change, compare, room
from algorithm.hived.insight.outcomes import Outcome, QuotaStatus, outcomes
from algorithm.registry import AlgorithmError, create
from extender.logs.printable import printable
from extender.operate.inventory import Inventory
from extender.scheduling.bootstrap import bootstrap
from extender.scheduling.driver import AlgorithmDriver
from extender.settings import Settings, SettingsError, algorithm_settings, parse, read_text

_NAME = "hived"
#: So many things of one kind are named; machines come in thousands.
_SHOWN = 12


@dataclass
class Report:
    """`refused` is why the new configuration cannot be used, "" if it can. `groups` is None without a cluster."""

    changes: list[Change]
    refused: str = ""
    room: list[Room] = field(default_factory=list)
    groups: list[Outcome] | None = None
    #: Pods that are passed over with the new configuration, and were not with the old one: name and why.
    unrecoverable_pods: list[tuple[str, str]] = field(default_factory=list)
    #: Machines of the new configuration that are no nodes of the cluster, and how many machines it has.
    absent: list[str] = field(default_factory=list)
    machines: int = 0

    @property
    def changes_something(self) -> bool:
        return bool(self.changes or self.unrecoverable_pods or any(each.changed for each in self.groups or ()))


def read(path: Path) -> dict[str, Any]:
    """The algorithm's settings in a file: Waggle's configuration, or the original's. Raises SettingsError."""
    text = read_text(path, str(path))
    try:
        loaded = load(text)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from error
    if isinstance(loaded, dict) and "algorithm" in loaded:
        return _of_waggle(parse(text, path), path)
    if not isinstance(loaded, dict) or not loaded.keys() & {"physicalCluster", "virtualClusters"}:
        raise SettingsError(f"{path}: expected Waggle's configuration (algorithm: ...), or HiveD's (physicalCluster)")
    return loaded


def _of_waggle(settings: Settings, path: Path) -> dict[str, Any]:
    configured = settings.algorithm
    if configured.name != _NAME:
        raise SettingsError(f"{path}: algorithm.name: expected {_NAME}, got {configured.name}")
    return algorithm_settings(configured)


def report(old: Mapping[str, Any], new: Mapping[str, Any], found: Inventory | None) -> Report:
    """Raises HivedConfigError, or SettingsError if the old configuration cannot be used.

    A new one that cannot be used is a finding.
    """
    changes = compare(old, new)
    try:
        before = _algorithm(old)
    except AlgorithmError as error:
        raise SettingsError(f"the old configuration cannot be used: {error}") from error
    try:
        after = _algorithm(new)
    except AlgorithmError as error:
        return Report(changes, refused=str(error))
    made = Report(changes, room=list(room(after.hive.layout)))
    if found is not None:
        for algorithm in (before, after):
            bootstrap(AlgorithmDriver(algorithm), found.truth())
        made.groups = outcomes(before.hive, after.hive)
        machines = after.hive.layout.machines
        made.machines, made.absent = len(machines), _absent(machines, found)
        made.unrecoverable_pods = sorted(
            each for uid, each in after.unrecoverable_pods.items() if uid not in before.unrecoverable_pods
        )
    return made


def _absent(machines: Iterable[str], found: Inventory) -> list[str]:
    """None if no nodes were given: a file may hold pods only."""
    return sorted(set(machines) - {node.name for node in found.nodes}) if found.nodes else []


def _algorithm(settings: Mapping[str, Any]) -> HivedAlgorithm:
    made = create(_NAME, settings)
    assert isinstance(made, HivedAlgorithm)
    assert isinstance(made.settings, HivedSettings)
    return made


# -- for machines -----------------------------------------------------------------------------------------------------


def as_json(report: Report) -> str:
    """`groups` has those that change; how many there are of each kind is in `summary`."""
    body: dict[str, Any] = {
        "changes": report.changes_something,
        "refused": report.refused,
        "configuration": [{"kind": each.kind, **asdict(each)} for each in report.changes],
        "room": [
            {"chain": each.chain, "cellType": each.cell_type, "promised": each.promised, "left": each.left}
            for each in report.room
        ],
    }
    if report.groups is not None:
        body["groups"] = [{**asdict(each), "text": each.text} for each in report.groups if each.changed]
        body["strangers"] = [{"pod": pod, "why": why} for pod, why in report.unrecoverable_pods]
        body["absentMachines"] = report.absent
        body["summary"] = _summary(report.groups)
    return json.dumps(body, indent=2)


def _summary(groups: Iterable[Outcome]) -> dict[str, int]:
    found = Counter("unchanged" if not each.changed else _effect(each) for each in groups)
    return {key: found[key] for key in ("unchanged", "losesGuarantee", "getsGuarantee", "losesDevices", "other")}


def _effect(outcome: Outcome) -> str:
    if outcome.before is not outcome.after and outcome.after is QuotaStatus.UNCOVERED:
        return "losesGuarantee"
    if outcome.before is not outcome.after and outcome.after is QuotaStatus.GUARANTEED:
        return "getsGuarantee"
    return "losesDevices" if outcome.lost else "other"


# -- for people -------------------------------------------------------------------------------------------------------


def as_text(report: Report) -> str:
    return "\n".join(map(printable, _lines(report)))


def _lines(report: Report) -> Iterator[str]:
    if not report.changes:
        yield "The configurations mean the same."
    kinds = dict.fromkeys(each.what for each in report.changes)
    for what in kinds:
        same = [each for each in report.changes if each.what == what]
        yield f"{_HEADINGS[what]}:"
        yield from (f"  {_line(each)}" for each in same[:_SHOWN])
        if len(same) > _SHOWN:
            yield f"  and {len(same) - _SHOWN} more ({_counted(same)}); --json has them all"
    if report.refused:
        yield from f"The new configuration is REFUSED: {report.refused}".split("\n")
        return
    yield "The promises fit:"
    for chain in dict.fromkeys(each.chain for each in report.room):
        levels = [each for each in report.room if each.chain == chain and (each.promised or each.cell_type == chain)]
        shown = (f"{each.promised} of {each.promised + each.left} {each.cell_type}" for each in levels)
        yield f"  of {chain}: {', '.join(shown)}"
    if report.groups is not None:
        yield from _about_groups(report, report.groups)


_HEADINGS = {
    "cellType": "Cell types",
    "cells": "Top cells",
    "machine": "Machines",
    "virtualCluster": "Virtual clusters",
    "pinnedCell": "Pinned cells",
    "setting": "Settings",
}


def _line(change: Change) -> str:
    if not change.before:
        return f"+ {change.name}: {change.after}"
    return (
        f"~ {change.name}: {change.before} -> {change.after}" if change.after else f"- {change.name}: {change.before}"
    )


def _counted(changes: Iterable[Change]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in Counter(each.kind.value for each in changes).items())


def _about_groups(report: Report, groups: list[Outcome]) -> Iterator[str]:
    changed = [each for each in groups if each.changed]
    yield f"Of {len(groups)} groups that run, {len(groups) - len(changed)} keep what they have; nobody is evicted."
    yield from (f"  {each.text}" for each in changed)
    yield from (f"  pod {pod} is passed over: {why}" for pod, why in report.unrecoverable_pods)
    if report.absent:
        named = ", ".join(report.absent[:_SHOWN]) + (" ..." if len(report.absent) > _SHOWN else "")
        share = f"{len(report.absent)} of {report.machines} machines"
        yield f"{share} are no nodes of this cluster, and count as bad: {named}"

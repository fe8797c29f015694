"""The options of `waggle simulate` for workloads, and what their values mean."""

from __future__ import annotations

import math
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from extender.lab.comparing import limited
from extender.lab.importers import load
from extender.lab.run.simulation import RunOptions
from extender.lab.tables import open_file
from extender.lab.translate import GPUS, MODEL_LABEL, lacks_settings
from extender.lab.workload import CPU, GPU, MEMORY, MachineNode, Workload
from extender.operate.settings_files import configuration_text
from extender.plan.reading.shapes import DEFAULT, shaped_nodes

_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(s|m|min|h|d)?", re.ASCII)
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


class OptionError(ValueError):
    """An option cannot be used. The message names it, and says what was expected."""


class Given(NamedTuple):
    """What was given on the command line, for a workload."""

    trace: Sequence[Path]
    format: str | None
    nodes: str | None
    node_shape: str | None
    algorithms: Sequence[str]
    settings: Sequence[str]
    seed: int
    limit: int | None
    horizon: str | None
    saves_every: str | None
    #: Whether broken lines of the trace are left out.
    skip_broken: bool = False


def duration(text: str | None, option: str) -> float | None:
    """Return the seconds of a text such as 90, 15m, 12h or 7d, more than 0. Raises OptionError."""
    if text is None:
        return None
    found = _DURATION.fullmatch(text)
    if found is None or not math.isfinite(float(found[1])):
        raise OptionError(f"{option}: expected a time such as 90s, 15m, 12h or 7d, got {text[:50]!r}")
    if not float(found[1]):
        raise OptionError(f"{option}: expected more than 0 seconds, got {text[:50]!r}")
    return float(found[1]) * _SECONDS[found[2] or ""]


def inputs_of(given: Given) -> list[Path]:
    """Return the files and folders that are read: the trace, the nodes and the settings."""
    settings = [Path(text.partition("=")[2]) for text in given.settings if text.partition("=")[2]]
    return [*given.trace, *_node_files(given), *settings]


def _is_number(nodes: str | None) -> bool:
    return nodes is not None and nodes.isascii() and nodes.isdigit()


def _node_files(given: Given) -> list[Path]:
    return [] if given.nodes is None or _is_number(given.nodes) else [Path(given.nodes)]


def workload_of(given: Given) -> Workload:
    """Read the trace and the nodes. Raises OSError, and ValueError that says what is wrong where."""

    by_number, others = _is_number(given.nodes), _node_files(given)
    own = [path for path in others if _is_own(path)]
    workload = load(
        [*given.trace, *(path for path in others if path not in own)], given.format, skip_broken=given.skip_broken
    )
    if by_number:
        workload = replace(workload, nodes=shaped(int(given.nodes or 0), given.node_shape))
        _check_failing(workload, f"--nodes {given.nodes}")
    elif given.node_shape is not None:
        raise OptionError("--node-shape: expected --nodes with a number of nodes")
    for path in own:
        workload = replace(workload, nodes=load(path).nodes, failures=workload.failures or load(path).failures)
        _check_failing(workload, f"--nodes {path}")
    if not workload.nodes:
        raise OptionError("--nodes: expected a number of nodes or a file with nodes, since the trace has none")
    if not workload.jobs:
        raise OptionError("--trace: expected at least one job, got none; waggle trace show says what was left out")
    return limited(workload, given.limit)


def _check_failing(workload: Workload, option: str) -> None:
    """Refuse nodes that replace others of which the trace says when they fail."""
    names = {node.name for node in workload.nodes}
    lost = next((each.node for each in workload.failures if each.node not in names), None)
    if lost is not None:
        raise OptionError(f"{option}: there is no node {lost[:100]!r}, of which the trace says when it fails")


def _is_own(path: Path) -> bool:
    """Whether a file of nodes is in Waggle's own format: it has jobs or failures of its own, or none."""
    with open_file(path) as file:
        return file.read(len(BOM_UTF8) + 1).removeprefix(BOM_UTF8)[:1] == b"{"


def shaped(number: int, shape: str | None) -> tuple[MachineNode, ...]:
    """Return so many nodes of this shape. Raises ShapeError."""

    made = []
    for node in shaped_nodes(number, shape or DEFAULT):
        amounts = dict(node.node.allocatable)
        capacity = {CPU: amounts.pop(CPU, 0), MEMORY: amounts.pop(MEMORY, 0), GPU: amounts.pop(GPUS, 0) * 1000}
        labels = dict(node.node.labels)
        made.append(MachineNode(node.name, capacity | amounts, labels.get(MODEL_LABEL, ""), labels, record=node.node))
    return tuple(made)


def runs_of(given: Given) -> list[RunOptions]:
    """Return what each algorithm runs with. Raises OptionError, SettingsError, AlgorithmError and OSError."""

    files = dict(_settings_file(text) for text in given.settings)
    found: list[RunOptions] = []
    for text in given.algorithms:
        name, _, algorithm = text.rpartition("=")
        name = name or algorithm
        if not _NAME.fullmatch(name):
            raise OptionError(f"--algorithm: expected ALGORITHM or RUN=ALGORITHM, got {text[:100]!r}")
        if any(run.name == name for run in found):
            raise OptionError(f"--algorithm: there are two runs of the name {name}; expected RUN=ALGORITHM for one")
        file = files.pop(name, None)
        if file is None and (lacking := lacks_settings(algorithm)):
            raise OptionError(f"--algorithm {name}: {lacking} {name}=FILE")
        settings = "" if file is None else configuration_text(file, algorithm)
        found.append(
            RunOptions(
                algorithm=algorithm,
                name=name,
                settings=settings,
                seed=given.seed,
                horizon=duration(given.horizon, "--horizon"),
                saves_every=duration(given.saves_every, "--saves-every") or 0.0,
            )
        )
    if files:
        known = ", ".join(run.name for run in found)
        raise OptionError(f"--settings: {next(iter(files))}: expected the name of a run ({known})")
    return found


def _settings_file(text: str) -> tuple[str, Path]:
    name, equals, file = text.partition("=")
    if not (name and equals and file):
        raise OptionError(f"--settings: expected RUN=FILE, got {text[:100]!r}")
    return name, Path(file)

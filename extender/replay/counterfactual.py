"""What would have been different: a recording beside two simulations of its workload.

    log --> workload and what really happened
              |--> simulated with the recorded settings: how good is the simulation?
              +--> simulated with others, or with another algorithm: what would have been different?

Both simulations are cut where the recording ends. With the recorded algorithm, pods are as they were. Another one does
not know their annotations: gangs, priorities, tenants and devices are then translated (`lab/translate.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import yaml
from msgspec.structs import replace

from algorithm.model import Pod
from algorithm.registry import AlgorithmError, available
from algorithm.suggest import near
from extender.lab.as_recorded import as_recorded
from extender.lab.from_log import Recorded
from extender.lab.results import Run
from extender.lab.run.simulation import RunOptions, Simulation
from extender.lab.translate import TranslationError, Translator, lacks_settings
from extender.lab.workload import Job, Workload
from extender.lab.workload_file import WorkloadError
from extender.plan.errors import PlanError
from extender.replay.history import recorded_history, settings_text, with_algorithm
from extender.replay.logs import Log

#: Hears what is done, and how much of it, 0 to 1.
Progress = Callable[[str, float], None]


class CounterfactualError(ValueError):
    """The comparison cannot be made; the message names the option, and what was expected."""


class Other(NamedTuple):
    """What decides instead: an algorithm, the text of a waggle.yaml, or both. "" is as recorded."""

    algorithm: str = ""
    settings: str = ""
    #: The file of the settings, for messages.
    file: str = "--settings"


class Counterfactual(NamedTuple):
    """`recorded` is what happened, `baseline` the simulation of it, `other` that with other settings. `changes` are the
    remarks of the translation."""

    recorded: Run
    baseline: Run
    other: Run
    workload: Workload
    horizon: float
    changes: tuple[str, ...]


def counterfactual(
    log: Log, other: Other, *, seed: int = 0, progress: Progress = lambda _what, _share: None
) -> Counterfactual:
    """Return the three runs. Raises CounterfactualError, RecordingError, AlgorithmError."""
    own = settings_text(log)
    text, algorithm = _other_settings(other, own, log)
    recorded = recorded_history(log, lambda events: progress(f"replayed {events} events", 0.0))
    baseline = _simulated(recorded, "recorded settings", own, log.header.algorithm, seed, recorded.workload, progress)
    workload = recorded.workload
    changes: tuple[str, ...] = ()
    if algorithm != log.header.algorithm:
        workload, changes = translated(recorded.workload, log.header.algorithm, algorithm)
    name = algorithm if algorithm != log.header.algorithm else other.file
    return Counterfactual(
        as_recorded(recorded, name="as recorded", algorithm=log.header.algorithm),
        baseline,
        _simulated(recorded, name, text, algorithm, seed, workload, progress),
        recorded.workload,
        recorded.horizon,
        changes,
    )


def _other_settings(other: Other, own: str, log: Log) -> tuple[str, str]:
    """The text of the other settings, and the algorithm that decides by them."""
    if other.algorithm and other.algorithm not in available():
        names = sorted(available())
        raise CounterfactualError(
            f"--algorithm: there is no algorithm {other.algorithm[:100]!r}; there are: {', '.join(names)}"
            f"{near(other.algorithm, names)}"
        )
    if not other.settings:
        return _with_defaults(other.algorithm, own, log), other.algorithm
    try:
        named = (yaml.safe_load(other.settings) or {}).get("algorithm") or {}
    except (yaml.YAMLError, AttributeError) as error:
        raise CounterfactualError(f"{other.file}: expected the configuration of a Waggle: {error}") from error
    name = str(named.get("name", "packing")) if isinstance(named, dict) else "packing"
    if other.algorithm and other.algorithm != name:
        raise CounterfactualError(f"--algorithm {other.algorithm}: {other.file} has the settings of {name}")
    return other.settings, name


def _with_defaults(algorithm: str, own: str, log: Log) -> str:
    if not algorithm:
        raise CounterfactualError("expected --algorithm, --settings, or both")
    if algorithm == log.header.algorithm:
        raise CounterfactualError(f"--algorithm: {algorithm} was recorded; name other settings of it by --settings")
    if lacking := lacks_settings(algorithm):
        raise CounterfactualError(f"--algorithm {algorithm}: {lacking}")
    try:
        return with_algorithm(own, algorithm)
    except AlgorithmError as error:
        hint = f"{algorithm} needs settings of its own: name a waggle.yaml by --settings"
        raise CounterfactualError(f"--algorithm {algorithm}: {error}; {hint}") from error


def _simulated(
    recorded: Recorded, name: str, settings: str, algorithm: str, seed: int, workload: Workload, progress: Progress
) -> Run:
    options = RunOptions(
        algorithm=algorithm, name=name, settings=settings, seed=seed, horizon=recorded.horizon, whole=True, stays=True
    )
    try:
        simulation = Simulation(workload, options)
        while simulation.advance():
            progress(f"simulating {name}", simulation.fraction)
    except (PlanError, WorkloadError, TranslationError) as error:
        raise CounterfactualError(f"{name}: {error}") from error
    return simulation.result()


def translated(workload: Workload, recorded: str, algorithm: str) -> tuple[Workload, tuple[str, ...]]:
    """Return the workload in the words of another algorithm, and what that changes, a sentence each."""
    translator = Translator(algorithm)
    left_out: Counter[str] = Counter()
    jobs = []
    for job in workload.jobs:
        plain = _plain(job)
        try:
            pods = translator.pods(plain)
            if job.begins_placed and algorithm != "hived" and all(pod.node_name for pod in job.templates):
                plain = replace(plain, templates=_where_they_are(job, pods[0].pod))
        except TranslationError as error:
            left_out[str(error).partition(": ")[2]] += 1
            plain = job
        jobs.append(plain)
    placed_again = sum(job.begins_placed for job in jobs) < sum(job.begins_placed for job in workload.jobs)
    changes = [
        f"pods of {recorded} were translated for {algorithm}: requests, gangs, priorities and tenants; "
        "other annotations and labels were left out"
    ]
    if placed_again:
        changes.append(f"pods that ran when the recording began are placed again by {algorithm}, at the beginning")
    changes += [
        f"{number} {'job' if number == 1 else 'jobs'} could not be translated, and have their recorded pods: {text}"
        for text, number in left_out.items()
    ]
    return replace(workload, jobs=tuple(jobs)), tuple(changes)


def _where_they_are(job: Job, pod: Pod) -> tuple[Pod, ...]:
    """Pods that run when the recording begins, in the words of the other algorithm. HiveD would need their cells."""
    return tuple(replace(pod, name=each.name, node_name=each.node_name) for each in job.templates)


def _plain(job: Job) -> Job:
    """The job without its records. A pod alone is no gang, whatever its algorithm calls it."""
    return replace(job, templates=(), gang=job.gang and job.pods > 1)

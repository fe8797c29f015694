"""What holds of every simulation, whatever the algorithm decides, from the formulas of docs/glossary.md alone."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

Data = dict[str, Any]

#: A job of the results has only those fields that differ from these.
DEFAULTS: Data = {
    "tenant": "",
    "priority": 0,
    "pods": 1,
    "gang": False,
    "gpu_milli": 0,
    "cpu_milli": 0,
    "seconds": None,
    "state": "waiting",
    "first_start": None,
    "start": None,
    "end": None,
    "evictions": 0,
    "failures": 0,
}


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-3)


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(part, f"{path}.{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _numbers(part, f"{path}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _distribution(found: Data, values: Sequence[float], name: str) -> Iterator[str]:
    ordered = sorted(values)
    if found["jobs"] != len(ordered):
        yield f"{name}: {found['jobs']} jobs, the list has {len(ordered)}"
    if not ordered:
        if any(found[key] is not None for key in ("mean", "p50", "p90", "p99", "most")):
            yield f"{name}: figures of no jobs: {found}"
        return
    wanted = {f"p{part}": ordered[math.ceil(len(ordered) * part / 100) - 1] for part in (50, 90, 99)}
    wanted |= {"mean": sum(ordered) / len(ordered), "most": ordered[-1]}
    for key, value in wanted.items():
        if not _close(found[key], value):
            yield f"{name}.{key}: {found[key]}, the list of jobs gives {value}"


def _slowdown(job: Data) -> float:
    return max(1.0, (job["end"] - job["arrival"]) / max(job["seconds"], 10))


def _group(found: Data, jobs: Sequence[Data]) -> Iterator[str]:
    name = found["name"]
    done = [job for job in jobs if job["state"] == "done"]
    counts = {"jobs": len(jobs), "done": len(done), "never_started": sum(job["start"] is None for job in jobs)}
    for key, value in counts.items():
        if found[key] != value:
            yield f"{name}.{key}: {found[key]}, the list of jobs gives {value}"
    delays = [job["start"] - job["arrival"] for job in jobs if job["start"] is not None]
    yield from _distribution(found["delay"], delays, f"{name}.delay")
    yield from _distribution(found["completion"], [job["end"] - job["arrival"] for job in done], f"{name}.completion")
    if done and not _close(found["slowdown"], sum(map(_slowdown, done)) / len(done)):
        yield f"{name}.slowdown: {found['slowdown']}"
    if not done and found["slowdown"] is not None:
        yield f"{name}.slowdown: {found['slowdown']} of no jobs"


def _capacity(workload: Data, resource: str, until: float) -> float:
    gone: dict[str, float] = defaultdict(float)
    for failure in workload.get("failures", []):
        end = min(until, failure.get("until", until))
        gone[failure["node"]] += max(0.0, end - failure["at"])
    return sum((until - gone[node["name"]]) * node["capacity"].get(resource, 0) for node in workload["nodes"])


def _jobs(workload: Data, run: Data) -> Iterator[str]:
    asked = {job["name"]: job for job in workload["jobs"]}
    until = run["measures"]["until"]
    arrived = [job["name"] for job in workload["jobs"] if job["arrival"] <= until]
    if [job["name"] for job in run["jobs"]] != arrived:
        yield f"the jobs are not those of the trace that arrived until {until}"
    for job in run["jobs"]:
        wanted = asked[job["name"]]
        if job["gpu_milli"] != wanted.get("pods", 1) * wanted["requests"].get("gpu", 0):
            yield f"{job['name']}: {job['gpu_milli']} gpu_milli"
        start, first, end, seconds = job["start"], job["first_start"], job["end"], wanted.get("seconds")
        if first is not None and first < job["arrival"]:
            yield f"{job['name']} starts at {first}, before it arrives"
        if start is not None and (first is None or start < first):
            yield f"{job['name']}: first start {first}, last start {start}"
        if (job["state"] == "done") != (end is not None):
            yield f"{job['name']} is {job['state']} and ends at {end}"
        if end is None:
            continue
        undisturbed = not job["evictions"] and not job["failures"]
        if seconds is None or end - start < seconds - 1e-6 or (undisturbed and not _close(end - start, seconds)):
            yield f"{job['name']} runs from {start} to {end}, not for {seconds} s"


def _sums(workload: Data, run: Data) -> Iterator[str]:
    measures, jobs = run["measures"], run["jobs"]
    until = measures["until"]
    for kind in ("gpu", "cpu"):
        total = _capacity(workload, kind, until)
        for name in ("allocation", "utilisation", "fragmentation", "fragmentation_of_idle"):
            value = measures.get(f"{kind}_{name}")
            if value is not None and not -1e-9 <= value <= 1 + 1e-9:
                yield f"{kind}_{name} is {value}"
        lost = sum(job[f"lost_{kind}_milli_seconds"] for job in jobs)
        if kind == "cpu":
            continue
        if not _close(measures["gpu_milli_seconds"], total):
            yield f"gpu_milli_seconds: {measures['gpu_milli_seconds']}, the nodes had {total}"
        if not _close(measures["lost_gpu_milli_seconds"], lost):
            yield f"lost_gpu_milli_seconds: {measures['lost_gpu_milli_seconds']}, the jobs lost {lost}"
        parts = sum(measures[f"{name}_gpu_milli_seconds"] for name in ("done", "lost", "held"))
        if not _close(measures["allocated_gpu_milli_seconds"], parts):
            yield f"allocated is not done + lost + held: {measures}"
        if total and not _close(measures["gpu_allocation"] * total, measures["allocated_gpu_milli_seconds"]):
            yield f"gpu_allocation: {measures['gpu_allocation']}"
        if total and not _close(measures["gpu_utilisation"] * total, measures["done_gpu_milli_seconds"]):
            yield f"gpu_utilisation: {measures['gpu_utilisation']}"
    least = sum(job["gpu_milli"] * job["seconds"] for job in jobs if job["state"] == "done")
    if measures["done_gpu_milli_seconds"] < least - 1e-3 - 1e-9 * least:
        yield f"done_gpu_milli_seconds: {measures['done_gpu_milli_seconds']}, jobs that were done took {least}"
    finished = all(job["state"] in ("done", "waiting") for job in jobs)
    if (
        finished
        and not measures["failures"]
        and not measures["evictions"]
        and not _close(measures["done_gpu_milli_seconds"], least)
    ):
        yield f"done_gpu_milli_seconds: {measures['done_gpu_milli_seconds']}, but only jobs that were done ran: {least}"
    if not measures["failures"] and not measures["evictions"] and lost:
        yield f"{lost} is lost without failures and evictions"


def _series(run: Data) -> Iterator[str]:
    for point in run["series"]["points"]:
        for kind in ("gpu", "cpu"):
            if point[f"{kind}_allocated_milli"] > point[f"{kind}_milli"] * (1 + 1e-9):
                yield f"more {kind} allocated than there is: {point}"
            if point[f"{kind}_running_milli"] > point[f"{kind}_allocated_milli"] * (1 + 1e-9):
                yield f"more {kind} runs than is allocated: {point}"
    points = run["series"]["points"]
    for name, total in (("arrivals", run["measures"]["all"]["jobs"]), ("evictions", run["measures"]["evictions"])):
        if sum(point[name] for point in points) != total:
            yield f"series: {sum(point[name] for point in points)} {name}, not {total}"


def broken(workload: Data, run: Data) -> list[str]:
    """Return what does not hold of this run of the results, as sentences."""
    run = run | {"jobs": [DEFAULTS | job for job in run["jobs"]]}
    measures, jobs = run["measures"], run["jobs"]
    found = [f"{path} is {value}" for path, value in _numbers(run, "run") if not math.isfinite(value)]
    signed = (".priority",)
    found += [f"{path} is {value}" for path, value in _numbers(run, "run") if value < 0 and not path.endswith(signed)]
    found += [*_jobs(workload, run), *_group(measures["all"], jobs), *_sums(workload, run), *_series(run)]
    for key in ("evictions", "failures"):
        if measures[key] != sum(job[key] for job in jobs):
            found.append(f"{measures[key]} {key}, the jobs have {sum(job[key] for job in jobs)}")
    for group in measures["tenants"]:
        found += _group(group, [job for job in jobs if job["tenant"] == group["name"]])
    for groups in ("tenants", "sizes"):
        for key in ("jobs", "done", "never_started", "evictions", "failures", "gpu_milli_seconds"):
            total = sum(group[key] for group in measures[groups])
            if not _close(total, measures["all"][key]):
                found.append(f"{groups}.{key}: {total} in sum, all: {measures['all'][key]}")
    slowdowns = [group["slowdown"] for group in measures["tenants"] if group["slowdown"] is not None]
    if len(slowdowns) < 2:
        if measures["fairness"] is not None:
            found.append(f"fairness {measures['fairness']} of {len(slowdowns)} tenants")
    else:
        fairness = sum(slowdowns) ** 2 / (len(slowdowns) * sum(value**2 for value in slowdowns))
        if not _close(measures["fairness"], fairness) or not 1 / len(slowdowns) - 1e-9 <= fairness <= 1 + 1e-9:
            found.append(f"fairness: {measures['fairness']}, the tenants give {fairness}")
    ends = [job["end"] for job in jobs if job["end"] is not None]
    if ends and not _close(measures["makespan"], max(ends) - min(job["arrival"] for job in jobs)):
        found.append(f"makespan: {measures['makespan']}")
    return found

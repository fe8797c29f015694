"""Recordings of Knative's vpod scheduler: how they are read, played to ours, and judged.

`recordings.json.gz` holds cases: a configuration, a cluster, vpods, steps, and what the original reported for each.
Where it draws lots, `expect_any` lists what was seen, or `expect_sample` some of it and `invariants` its bounds.
`better` is advice where an implementation should differ; a step in which the original crashed is a `panic`.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from tests.conformance.vpods_adapter import factory

HERE = Path(__file__).parent / "vpods"

Case = dict[str, Any]


@cache
def document() -> dict[str, Any]:
    with gzip.open(HERE / "recordings.json.gz") as file:
        found: dict[str, Any] = json.load(file)
        return found


def cases(engine: str) -> list[Case]:
    lists = {"v0.43.0": "plugin_cases", "scale-cache": "scale_cache_cases"}
    found: list[Case] = document()[lists.get(engine, "cases")]
    return found


def differences(engine: str) -> dict[str, str]:
    """By case: the first step that is reported in another way than any recorded one."""
    found = {case["id"]: _difference(case, engine) for case in cases(engine)}
    return {name: text for name, text in found.items() if text}


def may_differ(case: Case, engine: str) -> bool:
    crashed = any("panic" in report for each in _recorded(case, engine) for report in each)
    return crashed or case.get("better", "as recorded") != "as recorded"


def _recorded(case: Case, engine: str) -> list[Any]:
    own = case.get(f"expect_{engine}") or case.get("expect")
    return [own] if own else case.get("expect_any") or case["expect_sample"]


def _difference(case: Case, engine: str) -> str:
    world = factory(case, engine)
    reports = [world.step(step) for step in case["steps"]]
    found = [_first_difference(recorded, reports) for recorded in _recorded(case, engine)]
    if "" in found or ("expect_sample" in case and not _out_of_bounds(case, reports)):
        return ""
    return found[0]


def _first_difference(recorded: list[Any], reports: list[Any]) -> str:
    for number, (want, got) in enumerate(zip(recorded, reports, strict=True)):
        if "panic" in want:
            continue
        for field, value in want.items():
            if got.get(field) != value or field not in got:
                return f"step {number}, {field}: {got.get(field)!r} instead of {value!r}"
    return ""


def _out_of_bounds(case: Case, reports: list[Any]) -> bool:
    scheduled = [report for step, report in zip(case["steps"], reports, strict=True) if step["op"] == "schedule"]
    bounds = [each for each in case["invariants"] if each]
    for limits, report in zip(bounds, scheduled, strict=True):
        numbers = [number for _, number in report["placements"]]
        found = {
            "placed": sum(numbers),
            "maxPerPod": max(numbers, default=0),
            "podsUsed": len(numbers),
            "spread": max(numbers, default=0) - min(numbers, default=0),
            "left": report.get("left", 0),
        }
        if any(not limits[field][0] <= number <= limits[field][1] for field, number in found.items()):
            return True
    return False

"""What several runs with a real kube-scheduler have in common, and whether another run is like them.

Calls of the scheduling loop (filter, prioritize, preempt) come one after the other; binds come from goroutines of their
own. So a phase's calls are kept as `loop`, in order, and `binds`, sorted. Where the runs differ in the loop:

    [call, ...]                          every run made these calls in this order
    {"any order": [call, ...]}           the runs made these calls, but not in one order
    {"one of": [[call, ...], ...]}       the runs did not even make the same calls

An object {"one of": [...]} also stands for any other part of a result in which runs differ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

ANY_ORDER, ONE_OF = "any order", "one of"


def arranged(result: dict[str, Any]) -> dict[str, Any]:
    """The result of one run with its calls as `loop` and `binds`."""
    phases = [
        {
            "loop": [call for call in calls if call["verb"] != "bind"],
            "binds": sorted((call for call in calls if call["verb"] == "bind"), key=_text),
        }
        for calls in result["phases"]
    ]
    return {**result, "phases": [{name: part for name, part in phase.items() if part} for phase in phases]}


def binds_follow(result: dict[str, Any]) -> bool:
    """Whether each bind came after other calls about its pod, and not right after another bind of it.

    For a result that is not arranged yet; without a filterVerb a bind may also come first.
    """
    calls = [call for phase in result["phases"] for call in phase]
    for index, call in enumerate(calls):
        before = [each for each in calls[:index] if each["pod"] == call["pod"]]
        if call["verb"] == "bind" and before and before[-1]["verb"] == "bind":
            return False
    return True


def merge(runs: Sequence[Any]) -> Any:
    """What the arranged results of several runs have in common."""
    return _merge(runs, "")


def _merge(runs: Sequence[Any], key: str) -> Any:
    first = runs[0]
    if all(run == first for run in runs):
        return first
    if all(isinstance(run, dict) for run in runs):
        keys = {name: None for run in runs for name in run}
        return {name: _merge([run.get(name) for run in runs], name) for name in keys}
    if key == "loop" and all(isinstance(run, list) for run in runs):
        if all(sorted(run, key=_text) == sorted(first, key=_text) for run in runs):
            return _stretches(runs)
    elif all(isinstance(run, list) and len(run) == len(first) for run in runs):
        return [_merge(each, key) for each in zip(*runs, strict=True)]
    return {ONE_OF: sorted({_text(run): run for run in runs}.values(), key=_text)}


def _stretches(runs: Sequence[list[Any]]) -> list[Any]:
    """Fixed positions as they are; as few others as possible together, so that each stretch has the same calls."""
    merged: list[Any] = []
    start = 0
    for end in range(1, len(runs[0]) + 1):
        parts = [run[start:end] for run in runs]
        if any(sorted(part, key=_text) != sorted(parts[0], key=_text) for part in parts):
            continue
        merged.append(parts[0][0] if end - start == 1 else {ANY_ORDER: sorted(parts[0], key=_text)})
        start = end
    return merged


def differences(real: Any, ours: Any, path: str = "") -> list[str]:
    """Each place where a run is unlike the merged ones, as `path: real ... ours ...`."""
    if isinstance(real, dict) and ONE_OF in real:
        return [] if any(not differences(each, ours) for each in real[ONE_OF]) else [_difference(path, real, ours)]
    if isinstance(real, dict) and isinstance(ours, dict):
        keys = sorted(real.keys() | ours.keys())
        return [each for key in keys for each in differences(real.get(key), ours.get(key), f"{path}.{key}".strip("."))]
    if isinstance(real, list) and isinstance(ours, list):
        expanded = _like(real, ours)
        if len(expanded) == len(ours):
            pairs = enumerate(zip(expanded, ours, strict=True))
            return [each for index, (one, other) in pairs for each in differences(one, other, f"{path}[{index}]")]
    return [] if real == ours else [_difference(path, real, ours)]


def _like(real: list[Any], ours: list[Any]) -> list[Any]:
    """`real` with what may come in any order in the order of `ours`, as far as that has it."""
    expanded: list[Any] = []
    for item in real:
        if not (isinstance(item, dict) and ANY_ORDER in item):
            expanded.append(item)
            continue
        left = list(item[ANY_ORDER])
        here = ours[len(expanded) : len(expanded) + len(left)]
        order = {_text(call): index for index, call in enumerate(here)}
        expanded += sorted(left, key=lambda call: order.get(_text(call), len(order)))
    return expanded


def _difference(path: str, real: Any, ours: Any) -> str:
    return f"{path}: real {_text(real)}, ours {_text(ours)}"


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)

"""The texts of `waggle explain` and `waggle top`: plain lines, the most important first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from algorithm.model import CPU, EPHEMERAL_STORAGE, MEMORY
from extender.logs.printable import printable

#: Reasons that are listed, and lines of a pod's history.
_REASONS, _STORY = 15, 8
_GI = 1 << 30


def explanation(found: Any) -> str:
    """The text about one pod, from `/v1/explain`."""
    pod = found["pod"]
    return "\n".join([_headline(pod), *_why(found), *_history(found["story"])])


def _headline(pod: Any) -> str:
    where = f" on {pod['node']}" if pod["node"] else ""
    gang = f", gang {pod['gang']}" if pod["gang"] else ""
    return f"{pod['namespace']}/{pod['name']}: {pod['state']}{where} for {age(pod['sinceSeconds'])}{gang}"


def _why(found: Any) -> Iterator[str]:
    reason, sentences = found["reason"], found["advice"]
    if found["summary"] and found["summary"] not in sentences:
        yield f"  {found['summary']}"
    yield from (f"  {sentence}" for sentence in sentences)
    if found["nearest"]:
        yield f"  Nearest: {'; '.join(found['nearest'])}."
    if reason is not None and not found["pod"]["kubeScheduler"]:
        yield f"Reason: {reason['code']}" + ("" if reason["text"] == found["summary"] else f": {reason['text']}")
    elif reason is not None:
        yield f"Reason: {reason['code']}. kube-scheduler wrote: {found['pod']['kubeScheduler']}"


def _history(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield "History:"
        yield from (f"  {line}" for line in lines[-_STORY:])


def top(pods: Sequence[Any], nodes: Sequence[Any]) -> str:
    """The cluster in a screenful: how much is in use, how many pods wait, and why."""
    usable = sum(node["ready"] and not node["unschedulable"] for node in nodes if node["known"])
    known = sum(node["known"] for node in nodes)
    states = Counter(pod["state"] for pod in pods)
    counts = [f"{number} {state}" for state, number in sorted(states.items())]
    there, taken = _amounts(nodes)
    devices = sum(node["devices"] for node in nodes)
    counted = devices > sum(amount for name, amount in taken.items() if _is_device(name))
    counts += [f"{devices} devices in use, as the algorithm counts them"] if counted else []
    head = f"Nodes: {usable} of {known} can be used. Pods: {', '.join(counts) or 'none'}."
    return "\n\n".join(filter(None, (head, table(_resources(there, taken, counted=counted)), table(_reasons(pods)))))


def _amounts(nodes: Sequence[Any]) -> tuple[Counter[str], Counter[str]]:
    """What the nodes have, and what pods request of that."""
    there: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for node in nodes:
        there.update(node["allocatable"])
        taken.update({name: amount for name, amount in node["requested"].items() if name in node["allocatable"]})
    return there, taken


def _is_device(name: str) -> bool:
    return "/" in name


def _resources(there: Counter[str], taken: Counter[str], *, counted: bool) -> list[tuple[str, ...]]:
    """What pods request. `counted`: the algorithm counts devices that no pod requests; their rows would all say 0%."""
    shown = (name for name in there if there[name] and (taken[name] or not (counted and _is_device(name))))
    names = sorted(shown, key=lambda name: (not _is_device(name), name))
    rows = [
        (name, *(number(name, value) for value in (taken[name], there[name])), f"{100 * taken[name] // there[name]}%")
        for name in names
    ]
    return [("RESOURCE", "TAKEN", "OF", "USE"), *rows] if rows else []


def _reasons(pods: Sequence[Any]) -> list[tuple[str, ...]]:
    waiting = [pod for pod in pods if pod["state"] in ("Waiting", "Preempting")]
    groups: dict[str, list[Any]] = {}
    for pod in waiting:
        groups.setdefault(pod["summary"] or (pod["reason"] or {"text": ""})["text"], []).append(pod)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [(str(len(some)), age(max(pod["sinceSeconds"] for pod in some)), _first(some), why) for why, some in ordered]
    more = len(rows) - _REASONS
    rows = rows[:_REASONS] + ([("", "", "", f"and {more} more reasons")] if more > 0 else [])
    return [("WAIT", "AGE", "SUCH AS", "WHY"), *rows] if rows else []


def _first(pods: Sequence[Any]) -> str:
    return min(f"{pod['namespace']}/{pod['name']}" for pod in pods)


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as they need, the last one as it is."""
    if not rows:
        return ""
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    padded = ([f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)] for row in rows)
    return "\n".join("  ".join([*cells, row[-1]]).rstrip() for cells, row in zip(padded, rows, strict=True))


def age(seconds: float) -> str:
    """As kubectl has ages: 12s, 5m, 3h, 2d."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def number(name: str, value: int) -> str:
    """An amount for people: cores, GiB, or as it is counted."""
    if name == CPU:
        return f"{value / 1000:g}"
    return f"{value / _GI:.1f}Gi" if name in (MEMORY, EPHEMERAL_STORAGE) else str(value)

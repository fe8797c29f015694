"""The pods that wait: pods of one gang that wait for the same reason are one line, however many they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Any

import msgspec

from algorithm.reasons import Code, Reason, reason
from extender.server.views import PodView

#: Groups that are shown at most, those that wait longest.
SHOWN = 1000
#: Groups of a piece.
PIECE = 50
#: Steps in seconds, to which a waiting time is rounded down. A text that changed all the time would be sent again all
#: the time.
AGES = (0, 60, 600, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600)
PENDING = ("Waiting", "Preempting")


def waiting_pieces(pods: Iterable[PodView]) -> list[bytes]:
    """The pieces. The first holds the number of all groups; then come the shown groups, by name."""
    groups: dict[tuple[str, str], list[PodView]] = {}
    for pod in pods:
        if pod.state in PENDING:
            groups.setdefault((pod.namespace, _name(pod)), []).append(pod)
    longest = nlargest(SHOWN, groups.items(), key=lambda item: (_age(item[1]), item[0]))
    shown = [_group(namespace, name, members) for (namespace, name), members in sorted(longest)]
    head = {"waitingGroups": len(groups), "waitingPods": sum(map(len, groups.values()))}
    return [msgspec.json.encode(head), *(msgspec.json.encode({"waiting": some}) for some in _slices(shown))]


def _name(pod: PodView) -> str:
    """The name of the group as the reason gives it (only an algorithm knows its groups), else the pod's gang, else the
    pod."""
    params = {} if pod.reason is None else dict(pod.reason.params)
    return params.get("group") or params.get("gang") or pod.gang or pod.name


def _group(namespace: str, name: str, members: Sequence[PodView]) -> dict[str, Any]:
    """One group, with the reason of most of its pods; `example` is one of those, for /v1/explain."""
    reasons = Counter(pod.reason or reason(Code.NOT_ASKED) for pod in members)
    why = max(reasons, key=lambda each: (reasons[each], each.code is not Code.NOT_ASKED, each.text))
    example = min((pod for pod in members if _same(pod, why)), key=lambda pod: pod.name)
    return {
        "namespace": namespace,
        "name": name,
        "pods": len(members),
        "preempting": sum(pod.state == "Preempting" for pod in members),
        "priority": max(pod.priority for pod in members),
        "code": why.code.value,
        "text": example.summary or why.text,
        "age": _age(members),
        "example": example.name,
    }


def _same(pod: PodView, why: Reason) -> bool:
    return (pod.reason or reason(Code.NOT_ASKED)) == why


def _age(members: Sequence[PodView]) -> int:
    seconds = max(pod.since_seconds for pod in members)
    return max(age for age in AGES if age <= seconds)


def _slices(groups: Sequence[dict[str, Any]]) -> Iterator[Sequence[dict[str, Any]]]:
    return (groups[start : start + PIECE] for start in range(0, len(groups), PIECE))

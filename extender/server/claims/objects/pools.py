"""Decides which Pool objects are served, and builds their status. Pure.

Pools of the configuration come first, then objects by age. A Pool is Misconfigured and not served if it is not valid,
has the name of a configured pool, or selects pods of an earlier pool. All other pools are served.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from extender import resources
from extender.claims.records import Mode, Order, Pool, PoolKey
from extender.claims.views import PoolSnapshot
from extender.conversions.pools import custom_pool
from extender.resources import PoolStatus
from extender.server import status_writes
from extender.server.claims.objects.records import PoolObject
from extender.server.conditions import conditions

#: Pools that are served at once, those of the configuration included.
MOST_POOLS = 1000
#: The minimum of seconds between two writes of one status, and the seconds after which exact numbers are written.
PAUSE, SETTLED = 3.0, 60.0
#: The share by which a number must have changed to be worth a write.
_SHARE = 0.2
_NUMBERS = ("idle", "claimed", "starting", "pending", "replicas")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one Pool object. `pool`: None if it is not served, because of `reason`."""

    pool: Pool | None
    reason: str = ""
    message: str = ""


def judge(configured: Iterable[Pool], objects: Iterable[PoolObject], *, has_score: bool = True) -> dict[str, Verdict]:
    """Return the verdict on each object, by UID. `has_score`: whether the configuration names a score."""
    served: dict[PoolKey, Pool] = {pool.key: pool for pool in configured}
    in_configuration = frozenset(served)
    by_namespace: defaultdict[str, _Selectors] = defaultdict(_Selectors)
    for pool in served.values():
        by_namespace[pool.key.namespace].add(pool)
    verdicts: dict[str, Verdict] = {}
    for obj in sorted(objects, key=lambda each: (each.created, each.key)):
        verdict = _verdict(obj, in_configuration, by_namespace[obj.key.namespace], len(served))
        if verdict.pool is not None and verdict.pool.order is Order.SCORE and not has_score:
            verdict = Verdict(None, "NoScore", "spec.order: score needs a plug-in, and claims.score names none")
        verdicts[obj.uid] = verdict
        if verdict.pool is not None:
            served[obj.key] = verdict.pool
            by_namespace[obj.key.namespace].add(verdict.pool)
    return verdicts


class _Selectors:
    """The pools of one namespace, to be compared with further ones."""

    def __init__(self) -> None:
        self._pools: list[Pool] = []
        #: How many of them have a label of this name in their selector, and those that have it with this value.
        self._names: Counter[str] = Counter()
        self._by_label: dict[tuple[str, str], list[Pool]] = {}

    def add(self, pool: Pool) -> None:
        self._pools.append(pool)
        for pair in pool.selector.items():
            self._names[pair[0]] += 1
            self._by_label.setdefault(pair, []).append(pool)

    def overlapping(self, selector: Mapping[str, str]) -> Pool | None:
        """Return the first pool that can have a pod in common with this selector; None if there is none.

        If all pools have a label of the same name, as they should, only those with the same value are compared.
        """
        found = self._pools
        for name, value in selector.items():
            if self._names[name] == len(self._pools):
                found = min(found, self._by_label.get((name, value), []), key=len)
        return next((each for each in found if _overlap(selector, each.selector)), None)


def _verdict(obj: PoolObject, configured: frozenset[PoolKey], others: _Selectors, served: int) -> Verdict:
    if obj.spec is None:
        return Verdict(None, "Unreadable", obj.fault)
    if obj.key in configured:
        return Verdict(None, "InConfiguration", "the configuration file has a pool of this name, which is served")
    if served >= MOST_POOLS:  # before what costs their number
        return Verdict(None, "TooManyPools", f"expected at most {MOST_POOLS} pools")
    if (other := others.overlapping(obj.spec.selector.match_labels)) is not None:
        message = f"a pod can have the labels of this selector and of pool {other.key.name}, which came first"
        return Verdict(None, "SelectorsOverlap", f"{message}; expected a label with different values")
    return Verdict(custom_pool(resources.Pool.model_construct(metadata=_metadata(obj), spec=obj.spec)))


def _metadata(obj: PoolObject) -> resources.Metadata:
    return resources.Metadata(name=obj.key.name, namespace=obj.key.namespace)


def _overlap(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())


def pool_status(obj: PoolObject, verdict: Verdict, found: PoolSnapshot | None, *, now: str) -> dict[str, Any]:
    """Return the status to write. `found`: None if the pool is not served, or not yet; `now`: RFC 3339."""
    status: dict[str, Any] = {"observedGeneration": obj.generation, **dict.fromkeys(_NUMBERS, 0), "selector": ""}
    if obj.spec is not None:
        status["selector"] = ",".join(f"{name}={value}" for name, value in sorted(_selector(obj).items()))
    if found is not None and verdict.pool is not None:
        status |= _numbers(found)
    if verdict.pool is None:
        ready = ("False", "Misconfigured", verdict.message)
    elif found is None:
        ready = ("False", "NotReady", "the pods of its namespace are not known yet")
    else:
        ready = ("True", "Served", "claims are served")
    wrong = ("False", "AsExpected", "") if verdict.pool is not None else ("True", verdict.reason, verdict.message)
    said = {"Ready": ready, "Misconfigured": wrong}
    status["conditions"] = conditions(said, obj.status.conditions, generation=obj.generation, now=now)
    return status


def _selector(obj: PoolObject) -> Mapping[str, str]:
    assert obj.spec is not None
    return obj.spec.selector.match_labels


def _numbers(found: PoolSnapshot) -> dict[str, int]:
    selected = found.idle + found.in_flight + found.unready + found.surplus
    if found.mode is Mode.RECYCLE:  # claimed pods keep their labels
        selected += found.claimed + found.starting + found.stopping
    return {
        "idle": found.idle,
        "claimed": found.claimed,
        "starting": found.starting + found.unready,
        "pending": found.pending,
        "replicas": selected,
    }


def is_news(shown: PoolStatus, status: Mapping[str, Any], *, is_settled: bool) -> bool:
    """Whether the status is worth a write. `is_settled`: exact numbers are due."""
    if shown.selector != status["selector"]:
        return True
    return status_writes.is_news(shown, status, _NUMBERS, share=_SHARE, is_settled=is_settled)


def is_worth_writing(before: int, after: int) -> bool:
    """Whether the change of a number is worth a write. `before` -1: it was never written."""
    return status_writes.is_worth_writing(before, after, share=_SHARE)

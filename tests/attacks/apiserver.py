"""An API server that lies, or something in its place: endless, dripping and huge answers to every kind of call."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.attacks.arena import Arena, eventually
from tests.attacks.registry import attack
from tests.attacks.requests import filter_body, pod

SERVER = "tests.attacks.lying_apiserver"
_BINDING = "/binding$"
_PODS_LIST = r"^/api/v1/pods\?(limit|continue)"
_PODS_WATCH = r"^/api/v1/pods\?watch"
_numbers = itertools.count()

lying = partial(attack, api_server=SERVER)
#: With a server of its own: after a failed list or watch informers wait longer and longer.
own = partial(lying, settings={"cluster": {"compare_seconds": 0}}, alone=True)


class Lies:
    """What the API server is told to say, and what it has said."""

    def __init__(self, arena: Arena) -> None:
        self._api = arena.api
        self._before = self._now()

    def tell(self, lie: str, method: str, path: str, times: int = 1_000_000) -> None:
        self._api.post("/lies", json={"lie": lie, "method": method, "path": path, "times": times}).raise_for_status()

    def hang_up(self) -> None:
        self._api.post("/hangup").raise_for_status()

    def told(self) -> int:
        return self._now()["told"] - self._before["told"]

    @property
    def mib(self) -> float:
        return (self._now()["bytes"] - self._before["bytes"]) / (1 << 20)

    def _now(self) -> dict[str, int]:
        found: dict[str, int] = self._api.get("/lies").json()
        return found


@contextmanager
def lies(arena: Arena, *, listed: bool = False) -> Iterator[Lies]:
    """A context in which the API server lies; afterwards the server must be in step with the truth again.

    `listed`: lies that were believed, so that it has to list anew. (The comparer would find out within five minutes.)
    """
    told = Lies(arena)
    try:
        yield told
    finally:
        for _ in range(3):  # so that the truth is newer than what was told
            arena.api.post("/api/v1/namespaces/default/pods", json=pod(name := f"new-{next(_numbers)}"))
            arena.api.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        arena.api.delete("/lies").raise_for_status()
        if listed:
            told.tell("410", "GET", _PODS_WATCH, 1)
            told.hang_up()
    assert eventually(lambda: _is_in_step(arena), seconds=20, every=0.5), "not in step"


def _is_in_step(arena: Arena) -> bool:
    """The API server was heard a moment ago, and what it had invented is gone. One look: they cost, too."""
    text = arena.call("GET", "/metrics", health=True).body.decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    stale = float(samples['waggle_watch_staleness_seconds{resource="pods"}'])
    return stale < 3 and float(samples['waggle_cache_bytes{resource="pods"}']) < 1e6


def refused(arena: Arena) -> Callable[[str], float]:
    """How many answers were refused since now, by bound."""
    before = {bound: _refused(arena, bound) for bound in ("head", "framing", "size", "time", "list", "cache")}
    return lambda bound: _refused(arena, bound) - before[bound]


def _refused(arena: Arena, bound: str) -> float:
    return arena.metric(f'waggle_api_answers_refused_total{{bound="{bound}"}}')


def bind(arena: Arena) -> dict[str, Any]:
    """A new pod, filtered and bound as kube-scheduler does it: the answer to the bind call."""
    name = f"bound-{next(_numbers)}"
    made = arena.api.post("/api/v1/namespaces/default/pods", json=pod(name)).raise_for_status().json()
    asking = pod(name, uid=made["metadata"]["uid"])
    found: list[str] = []

    def placed() -> bool:
        answer = json.loads(arena.call("POST", "/filter", filter_body(asking)).body)
        found[:] = answer["NodeNames"] or []
        return bool(found)

    assert eventually(placed), "no node"
    identity = {"PodName": name, "PodNamespace": "default", "PodUID": made["metadata"]["uid"], "Node": found[0]}
    answer: dict[str, Any] = json.loads(arena.call("POST", "/bind", json.dumps(identity).encode()).body)
    node = arena.api.get(f"/api/v1/namespaces/default/pods/{name}").json()["spec"].get("nodeName")
    arena.api.delete(f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    return {**answer, "node": node}


def binds(arena: Arena, lie: str, bound: str, seconds: float = 2.0, at_once: int = 8) -> str:
    """Binds for some seconds, each with a lie as its answer: each ends as unknown, and the pod is read back."""
    count, answers = refused(arena), list[dict[str, Any]]()
    end = time.monotonic() + seconds

    def again_and_again() -> None:
        while time.monotonic() < end or not answers:
            answers.append(bind(arena))

    with lies(arena) as told:
        assert not bind(arena)["Error"]
        told.tell(lie, "POST", _BINDING)
        threads = [threading.Thread(target=again_and_again) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(answer["Error"] and not answer["node"] for answer in answers), answers
        assert count(bound) >= len(answers)
        told_times, sent = told.told(), told.mib
    assert not bind(arena)["Error"]
    return f"{told_times} answers, {sent:.0f} MiB sent; each refused ({bound}), the pod read back"


@lying("endless 100 Continue to every bind", limit="64 KiB of head, interim answers among it", quick=True)
def endless_interim(arena: Arena) -> str:
    return binds(arena, "endless 100", "head")


@lying("endless headers to every bind", limit="64 KiB of head")
def endless_head(arena: Arena) -> str:
    return binds(arena, "endless head", "head")


@lying("endless bodies to every bind", limit="4 MiB an answer")
def endless_bind_answer(arena: Arena) -> str:
    return binds(arena, "endless body", "size")


@lying("1.7 GiB promised to every bind", limit="4 MiB an answer")
def promised_bind_answer(arena: Arena) -> str:
    return binds(arena, "promise", "size")


@lying(
    "binds are answered a byte at a time",
    limit="cluster.request_timeout_seconds for the whole answer",
    settings={"cluster": {"request_timeout_seconds": 1}},
    alone=True,  # tried again, its binds would be held back for what happened before
)
def dripping_bind_answer(arena: Arena) -> str:
    return binds(arena, "drip", "time")


def lists(arena: Arena, lie: str, bound: str, seconds: float) -> str:
    """Makes informers list pods, and lies to them for some seconds."""
    count = refused(arena)
    with lies(arena) as told:
        told.tell("410", "GET", _PODS_WATCH, 1)
        told.tell(lie, "GET", _PODS_LIST)
        told.hang_up()
        assert eventually(lambda: count(bound) > 0, seconds=40, every=0.5), "nothing was refused"
        time.sleep(seconds)
        times, sent = told.told() - 1, told.mib
        shown = arena.call("GET", "/readyz", health=True)
        assert shown.status == 200
        assert b"was refused" in shown.body
    return f"{times} pages, {sent:.0f} MiB sent; refused ({bound}), told in /readyz, in step again"


@own("a list of pods whose page does not end", limit="16 MiB a page, then fewer objects")
def endless_list(arena: Arena) -> str:
    return lists(arena, "endless list", "size", seconds=1.0)


@lying(
    "a list of pods that always has one more page",
    limit="cluster.cache_mib (160 here); by default 192 MiB and 512 KiB a node",
    settings={"cluster": {"cache_mib": 160}},
    only_by_name=True,
)
def endless_pages(arena: Arena) -> str:
    return lists(arena, "endless pages", "cache", seconds=0.0)


def watches(arena: Arena, lie: str, bound: str, seconds: float) -> str:
    """Watches of pods are lied to for some seconds. `bound`: the bound that this breaks, if any."""
    count = refused(arena)
    with lies(arena, listed=True) as told:
        told.tell(lie, "GET", _PODS_WATCH)
        told.hang_up()
        assert eventually(lambda: told.told() > 0), "no watch came"
        time.sleep(seconds)
        assert not bound or eventually(lambda: count(bound) > 0, every=0.5), "nothing was refused"
        times, sent = told.told(), told.mib
    return f"{times} watches, {sent:.0f} MiB sent; in step again"


@own("a watch of line ends only, and then of one line that does not end", limit="4 MiB a line")
def endless_line(arena: Arena) -> str:
    return watches(arena, "endless line", "size", seconds=2.0)


# Pods are what the server is there to know: after thousands of them Python keeps half-empty arenas (2.6 times what was
# sent), although none of their records is left, and fills them again.
@own(
    "a watch with new pods as fast as they are taken",
    limit="cluster.cache_mib: 192 MiB and 512 KiB a node",
    left_mib=160,
)
def flood_of_pods(arena: Arena) -> str:
    return watches(arena, "flood of pods", "", seconds=1.0)


@own(
    "pods of 300,000 labels, then one nested deeply with a string that does not end",
    limit="200,000 commas and colons an object; each byte is looked at once",
)
def hostile_objects(arena: Arena) -> str:
    return watches(arena, "hostile objects", "", seconds=2.0)

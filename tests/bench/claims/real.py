"""Claims on a real control plane: Waggle over HTTP, and clients that list and patch by themselves, in turns.

    callers --HTTP--> waggle serve --HTTPS--> kube-apiserver <--HTTPS-- naive clients

etcd, kube-apiserver, kube-controller-manager and KWOK are those of `make e2e`; they share the cores with the server and
with this process, which is the callers. Both have the same account, as many callers, and a pool that is full when their
turn begins. Waggle is stopped while the naive clients have theirs, since it would read each of their changes.

    recycle   each claim is released at once, by a write of the same caller: so the callers themselves refill the pool,
              and it lacks no more pods than there are callers
    detach    a claim takes its pod out of the ReplicaSet, which makes another one at its own pace. A turn has fewer
              claims than the pool has pods, so nobody waits for that; the claimed pods are deleted after it

What the naive client reads for each claim is all idle pods: the ratio grows with the pool.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from itertools import count
from statistics import median
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import msgspec
from rich.console import Console
from rich.table import Table

from extender.claims.writes.names import CLAIM_LABEL, PHASE_LABEL
from tests.bench.client import Connection
from tests.bench.report import Aim, p99
from tests.e2e.build import find
from tests.e2e.claims import ClaimCluster, claim_cluster
from tests.e2e.cluster import ControlPlane
from tests.e2e.hands import eventually
from tests.e2e.runs import run_folder

#: Claims a second over the naive client's, at least.
LEAST_RATIO = 5.0
_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")
_ACCOUNT = "waggle-claims"
_CALLERS = 16
_SERVER = "a"
#: Seconds that a pool may take to be full: its ReplicaSet makes 20 pods a second.
_DEADLINE = 300.0
_WRITES = ("PATCH", "POST", "PUT", "DELETE")
#: A request about pods themselves. KWOK writes their status only, and the ReplicaSet controller creates them.
_COUNTED = re.compile(
    r'^apiserver_request_total\{.*resource="pods",.*subresource="",verb="(GET|LIST|PATCH|PUT|DELETE)",.*\} (\S+)$',
    re.MULTILINE,
)


@dataclass(frozen=True)
class Scale:
    """Pools by their mode and number of pods; how many turns each, and how many seconds a turn takes (recycle)."""

    pools: tuple[tuple[str, int], ...]
    seconds: float
    turns: int


FULL = Scale(pools=(("recycle", 300), ("detach", 300), ("recycle", 1000)), seconds=10.0, turns=3)
QUICK = Scale(pools=(("recycle", 24), ("detach", 24)), seconds=1.0, turns=1)
#: The share of a pool that a turn claims (detach).
_CLAIMED = 2 / 3


@dataclass
class Turn:
    """`times`: how long each claim took its caller, ms, its release not included. `requests`: what the API server was
    asked about pods meanwhile, releases included, by verb."""

    seconds: float
    times: list[float] = field(default_factory=list)
    conflicts: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def a_claim(self, *verbs: str) -> float:
        """Requests a claim with these verbs; with all if none is given."""
        return sum(n for verb, n in self.requests.items() if not verbs or verb in verbs) / len(self.times)


@dataclass
class Real:
    """The turns with one pool; the n-th of both followed one another."""

    mode: str
    pods: int
    waggle: list[Turn] = field(default_factory=list)
    naive: list[Turn] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Waggle's claims a second over the naive client's, turn by turn."""
        return sorted(ours.rate / theirs.rate for ours, theirs in zip(self.waggle, self.naive, strict=True))


class Client(Protocol):
    """A caller: one connection."""

    def claim(self) -> tuple[str, int]:
        """Claim a pod. Returns what `release` needs, and how often the pod was another's meanwhile."""

    def release(self, claim: str) -> None: ...

    def close(self) -> None: ...


class Caller:
    """A caller of Waggle's HTTP API."""

    def __init__(self, url: str, namespace: str) -> None:
        self._connection = Connection(url)
        self._path = f"/v1/pools/{namespace}/warm/claims"

    def claim(self) -> tuple[str, int]:
        answer = json.loads(self._connection.call("POST", self._path, b'{"wait_seconds": 10}'))
        return answer["id"], 0

    def release(self, claim: str) -> None:
        self._connection.call("DELETE", f"/v1/claims/{claim}")

    def close(self) -> None:
        self._connection.close()


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    resource_version: str
    deletion_timestamp: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    status: _Status


class _Pods(msgspec.Struct):
    items: list[_Pod]


_PODS = msgspec.json.Decoder(_Pods)


class Naive:
    """Lists the idle pods, patches any of them in the version that was listed, and lists again on a conflict.

    What it reads of a pod is little, and decoded fast: it is to be slow for what it asks, not for its language.
    """

    def __init__(self, plane: ControlPlane, namespace: str, mode: str) -> None:
        at = urlsplit(plane.url)
        self._connection = HTTPSConnection(at.hostname or "", at.port, context=plane.trust(_ACCOUNT), timeout=60)
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        wanted = "pool=warm" if mode == "detach" else f"pool=warm,{PHASE_LABEL}=idle"
        self._list = f"{self._pods}?labelSelector={quote(wanted)}"
        self._change: dict[str, Any] = {"labels": {PHASE_LABEL: "running"}}
        if mode == "detach":
            self._change = {"labels": {"pool": None, CLAIM_LABEL: "naive"}, "ownerReferences": None}

    def claim(self) -> tuple[str, int]:
        for conflicts in count():
            status, body = self._ask("GET", self._list)
            assert status == 200, body
            found = [each.metadata for each in _PODS.decode(body).items if each.status.phase == "Running"]
            idle = [each for each in found if not each.deletion_timestamp]
            pod = random.choice(idle)
            if self._patch(pod.name, {**self._change, "resourceVersion": pod.resource_version}):
                return pod.name, conflicts
        raise AssertionError

    def release(self, claim: str) -> None:
        assert self._patch(claim, {"labels": {PHASE_LABEL: "idle"}})

    def _patch(self, name: str, metadata: dict[str, Any]) -> bool:
        """Whether the pod still was in that version."""
        body = msgspec.json.encode({"metadata": metadata})
        status, answer = self._ask("PATCH", f"{self._pods}/{name}", body)
        assert status in (200, 409), answer
        return status == 200

    def _ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        self._connection.request(method, path, body, {"Content-Type": "application/merge-patch+json"})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        self._connection.close()


# -- the run --------------------------------------------------------------------------------------------------------


def missing() -> list[str]:
    """The programs that are not built yet."""
    return [name for name in _PROGRAMS if find(name) is None]


def measure(scale: Scale, say: Callable[[str], None]) -> list[Real]:
    """All pools, on a control plane of their own. Raises ProcessError if it does not start."""
    programs = {name: path for name in _PROGRAMS if (path := find(name)) is not None}
    say("starting the control plane")
    with run_folder() as folder, ControlPlane(programs, folder, audited=False) as plane:
        return [_measured(plane, Real(mode, pods), scale, say) for mode, pods in scale.pools]


def _measured(plane: ControlPlane, found: Real, scale: Scale, say: Callable[[str], None]) -> Real:
    mode, pods = found.mode, found.pods
    with claim_cluster(plane, mode) as c:
        say(f"{mode}: a Deployment of {pods:,} pods")
        c.deploy(pods, seconds=_DEADLINE)
        for number in range(scale.turns):
            turn = f"{mode}, {pods:,} pods, turn {number + 1} of {scale.turns}"
            say(f"{turn}: the naive clients")
            found.naive.append(_turn(c, found, scale, lambda: Naive(plane, c.namespace, mode)))
            say(f"{turn}: claims over HTTP")
            with _serving(c, pods):
                found.waggle.append(_turn(c, found, scale, lambda: Caller(c.urls[_SERVER], c.namespace)))
            say(f"{turn}: the pool becomes full")
            _refill(c, pods)
    return found


@contextmanager
def _serving(c: ClaimCluster, pods: int) -> Iterator[None]:
    _refill(c, pods)
    c.serve(_SERVER)
    try:
        c.idle(pods)
        yield
    finally:
        c.servers[_SERVER].stop()


def _refill(c: ClaimCluster, pods: int) -> None:
    """Delete what was claimed, and wait until the Deployment has made as many."""
    path = f"/api/v1/namespaces/{c.namespace}/pods"
    query = {"labelSelector": CLAIM_LABEL}
    c.http.delete(path, params={**query, "gracePeriodSeconds": "0"}).raise_for_status()
    eventually(lambda: not c.http.get(path, params=query).json()["items"], "claimed pods are deleted")
    eventually(lambda: c.ready() == pods, lambda: f"{c.ready()} of {pods}", seconds=_DEADLINE)


def _turn(c: ClaimCluster, of: Real, scale: Scale, connect: Callable[[], Client]) -> Turn:
    """All callers at once, until the time is over, or the claims of a turn are made."""
    numbers = iter(range(int(of.pods * _CLAIMED)))
    before = _requests(c)
    begun = time.monotonic()
    end = begun + scale.seconds

    def goes_on() -> bool:
        return time.monotonic() < end if c.mode == "recycle" else next(numbers, None) is not None

    with ThreadPoolExecutor(_CALLERS) as callers:
        parts = [callers.submit(_call, connect, goes_on, c.mode == "recycle") for _ in range(_CALLERS)]
        calls = [call for part in parts for call in part.result()]
    turn = Turn(time.monotonic() - begun, [taken for taken, _ in calls], sum(conflicts for _, conflicts in calls))
    turn.requests = _requests(c) - before
    return turn


def _call(connect: Callable[[], Client], goes_on: Callable[[], bool], gives_back: bool) -> list[tuple[float, int]]:
    """One caller: for each of its claims the milliseconds, and the conflicts."""
    calls = []
    with closing(connect()) as client:
        while goes_on():
            begun = time.monotonic()
            claim, conflicts = client.claim()
            calls.append(((time.monotonic() - begun) * 1e3, conflicts))
            if gives_back:
                client.release(claim)
    return calls


def _requests(c: ClaimCluster) -> Counter[str]:
    """Of pods, by verb, as the API server has counted them so far."""
    found: Counter[str] = Counter()
    for verb, value in _COUNTED.findall(c.http.get("/metrics").raise_for_status().text):
        found[verb] += int(float(value))
    return found


# -- the figures ----------------------------------------------------------------------------------------------------


def aims(found: list[Real]) -> list[Aim]:
    """The median of the ratios."""
    wanted = f"at least {LEAST_RATIO:g}"
    return [
        Aim(f"claims/s over the naive client's, {each.mode}, {each.pods:,} pods", value, wanted, value >= LEAST_RATIO)
        for each in found
        for value in [median(each.ratios)]
    ]


def show(console: Console, found: list[Real]) -> None:
    """The table."""
    caption = f"medians of the turns; ms of a claim; requests to the API server, releases included; {_CALLERS} callers"
    table = Table(title="a real control plane", title_justify="left", caption=caption)
    table.add_column("pool, pods", no_wrap=True)
    table.add_column("client", no_wrap=True)
    for column in ("claims/s", "p50", "p99", "requests a claim", "writes", "conflicts", "ratio", "range"):
        table.add_column(column, justify="right")
    for each in found:
        ratios = each.ratios
        for name, turns in (("waggle", each.waggle), ("naive", each.naive)):
            values = [
                f"{median(turn.rate for turn in turns):,.0f}",
                f"{median(median(turn.times) for turn in turns):.1f}",
                f"{median(p99(turn.times) for turn in turns):.1f}",
                f"{median(turn.a_claim() for turn in turns):.2f}",
                f"{median(turn.a_claim(*_WRITES) for turn in turns):.2f}",
                f"{sum(turn.conflicts for turn in turns):,}",
            ]
            if name == "waggle":
                values += [f"{median(ratios):.1f}", f"{ratios[0]:.1f}-{ratios[-1]:.1f}"]
            table.add_row(f"{each.mode}, {each.pods:,}", name, *values)
    console.print(table)


def as_json(found: list[Real]) -> list[dict[str, Any]]:
    """Every turn."""
    return [
        {
            "mode": each.mode,
            "pods": each.pods,
            "client": name,
            "turns": [
                {"seconds": turn.seconds, "ms": turn.times, "conflicts": turn.conflicts, "requests": turn.requests}
                for turn in turns
            ],
        }
        for each in found
        for name, turns in (("waggle", each.waggle), ("naive", each.naive))
    ]

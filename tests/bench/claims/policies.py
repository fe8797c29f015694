"""Policies that hand out the simulated cluster's pods: Waggle's, the source's, that of a client that lists and patches.

Waggle's is the real engine with its real requests: each is encoded, carried out by the embedded API server's JSON Patch
and answered with bytes that are decoded again. One server handles one thing at a time: what it takes of CPU (measured)
passes on the virtual clock, too.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from extender.claims import podreader
from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import (
    Answered,
    ClaimAsked,
    ClaimEvent,
    MembersSeen,
    NodeSeen,
    PodSeen,
    PoolsConfigured,
    ReleaseAsked,
    Synced,
    Ticked,
)
from extender.claims.records import Mode, Phase, Pool, PoolKey
from extender.claims.writes import names
from extender.claims.writes.kinds import kinds
from extender.claims.writes.take import TakePod
from extender.core.commands import ApiCommand, CommandSet
from extender.core.outcomes import Outcome, OutcomeKind
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import json_patch
from tests.bench.claims.simulation import Clock, Cluster, Result, is_idle

POOL = PoolKey("default", "warm")
_COMMANDS: CommandSet[ClaimEvent] = CommandSet(kinds(podreader.decode))
Answer = Callable[[str | None], None]


class Server:
    """One replica of Waggle."""

    def __init__(self, clock: Clock, cluster: Cluster, result: Result, name: str, members: tuple[str, ...]) -> None:
        self._clock, self._cluster, self._result = clock, cluster, result
        self._name, self._free_at, self._next_tick = name, 0.0, float("inf")
        self._asked = 0
        self._answers: dict[str, Answer] = {}
        self.engine = ClaimEngine(window=64.0)
        pods = cluster.pods.values()
        start: list[ClaimEvent] = [
            PoolsConfigured((Pool(key=POOL, selector={"pool": "warm"}, mode=Mode.RECYCLE, lease_seconds=1e6),)),
            *(NodeSeen(node, serves=True) for node in sorted({pod["spec"]["nodeName"] for pod in pods})),
            *(PodSeen(podreader.decode(msgspec.json.encode(pod))) for pod in pods),
            MembersSeen(members, name),
            Synced(),
        ]
        for event in start:
            self.engine.handle(event, 0.0)
        cluster.watch(lambda _, body: self._do(lambda: [PodSeen(podreader.decode(body))]))

    def ask(self, answer: Answer) -> None:
        self._asked += 1
        request = f"{self._name}-{self._asked}"
        self._answers[request] = answer
        wait = self._cluster.setting.wait
        asked = ClaimAsked(request=request, claim=request, pool=POOL, tenant="t", wait_seconds=wait)
        self._do(lambda: [asked])

    def release(self, pod: str) -> None:
        mark = self.engine.state.pods[f"uid-{pod}"].mark
        if mark is not None:
            self._do(lambda: [ReleaseAsked(f"release-{mark.claim}", mark.claim)])

    def finish(self) -> None:
        self.engine.validate()
        assert not self.engine.requests.pending, f"{len(self.engine.requests.pending)} were never answered"

    def _do(self, events: Callable[[], list[ClaimEvent]]) -> None:
        """Make and handle events as soon as the server is free; what it then wants is sent when it is done."""
        self._clock.at(self._free_at, lambda: self._now(events))

    def _now(self, events: Callable[[], list[ClaimEvent]]) -> None:
        clock = self._clock
        if clock.now < self._free_at:
            clock.at(self._free_at, lambda: self._now(events))
            return
        began = time.thread_time()
        said: list[Any] = []
        for event in events():
            said += self.engine.handle(event, clock.now)
        commands = [(each, _COMMANDS.find(each)) for each in said]
        sent = [(command, command.request()) for _, command in commands if command is not None]
        took = time.thread_time() - began
        self._result.cpu += took
        self._free_at = clock.now + took
        for each in said:
            if type(each) is Answered:
                self._answered(each)
        for command, request in sent:
            clock.at(self._free_at, lambda command=command, request=request: self._send(command, request))
        due = self.engine.next_due()
        if due is not None and (due < self._next_tick or self._next_tick <= clock.now):
            self._next_tick = due
            clock.at(due, self._tick)

    def _tick(self) -> None:
        if self._clock.now >= self._next_tick:
            self._next_tick = float("inf")
            self._do(lambda: [Ticked()])

    def _answered(self, answer: Answered) -> None:
        callback = self._answers.pop(answer.request, None)
        if callback is not None:
            pod = answer.pods[0].name if answer.code is ClaimCode.CLAIMED else None
            self._clock.at(self._free_at, lambda: callback(pod))

    def _send(self, command: ApiCommand[ClaimEvent], request: Any) -> None:
        half = self._cluster.round_trip() / 2
        self._clock.after(half, lambda: self._arrive(command, request, half))

    def _arrive(self, command: ApiCommand[ClaimEvent], request: Any, half: float) -> None:
        """The API server carries it out."""
        name = request.path.rsplit("/", 1)[1]
        outcome, body = Outcome(OutcomeKind.DONE), b""
        if request.method == "GET":
            self._result.reads += 1
            body = msgspec.json.encode(self._cluster.pods[name])
        else:
            self._result.writes += 1
            try:
                patched = json_patch(_copy(self._cluster.pods[name]), msgspec.json.decode(request.body))
                body = self._cluster.put(name, patched)
            except ApiError as error:
                self._result.conflicts += type(command.command) is TakePod
                outcome = Outcome(OutcomeKind.REJECTED, str(error))

        def report() -> list[ClaimEvent]:
            found, obj = command.decoded(outcome, body)
            return [command.report(found, obj)]

        self._clock.after(half, lambda: self._do(report))


def _copy(pod: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(pod["metadata"])
    metadata["labels"] = dict(metadata["labels"])
    metadata["annotations"] = dict(metadata.get("annotations") or {})
    return {**pod, "metadata": metadata}


class Waggle:
    """One or more replicas; each client asks any of them, and releases where it asked."""

    def __init__(self, clock: Clock, cluster: Cluster, result: Result) -> None:
        members = tuple(f"waggle-{number}" for number in range(cluster.setting.replicas))
        self._servers = [Server(clock, cluster, result, name, members) for name in members]
        self._random = random.Random(5)
        self._of: dict[str, Server] = {}

    def ask(self, answer: Answer) -> None:
        server = self._random.choice(self._servers)

        def answered(pod: str | None) -> None:
            if pod is not None:
                self._of[pod] = server
            answer(pod)

        server.ask(answered)

    def release(self, pod: str) -> None:
        self._of.pop(pod).release(pod)

    def finish(self) -> None:
        for server in self._servers:
            server.finish()


# -- the source -----------------------------------------------------------------------------------------------------

_RESERVED, _REFRESH, _NOTIFY, _POLL, _TICK, _LOW_WATER, _MOST_WRITES = 2.0, 0.05, 0.2, 10.0, 0.3, 4, 128


@dataclass
class _Request:
    answer: Answer
    deadline: float


@dataclass
class Source:
    """The policy of Agent-Sandbox's second generation, as the specification has it (sections 2 to 4, 8 and 9), one
    replica. Its own CPU time is not counted."""

    clock: Clock
    cluster: Cluster
    result: Result
    #: The watch cache: version, and whether the pod is idle.
    cache: dict[str, tuple[str, bool]] = field(default_factory=dict)
    ready: deque[str] = field(default_factory=deque)
    queued: set[str] = field(default_factory=set)
    reserved: dict[str, float] = field(default_factory=dict)
    waiting: deque[_Request] = field(default_factory=deque)
    writing: int = 0
    slots: deque[tuple[_Request, str, str]] = field(default_factory=deque)
    refreshed: float = -1.0
    notified: bool = False

    def __post_init__(self) -> None:
        for name, pod in self.cluster.pods.items():
            self.cache[name] = (pod["metadata"]["resourceVersion"], True)
        self.cluster.watch(self._seen)
        self._refresh()
        self.clock.after(_TICK, self._tick)
        self.clock.after(_POLL, self._poll)

    def _seen(self, name: str, body: bytes) -> None:
        pod = msgspec.json.decode(body)
        self.cache[name] = (pod["metadata"]["resourceVersion"], is_idle(pod))

    def ask(self, answer: Answer) -> None:
        self._handle(_Request(answer, self.clock.now + self.cluster.setting.wait))

    def _handle(self, request: _Request) -> None:
        if self.clock.now >= request.deadline:
            request.answer(None)
        elif (found := self._pop()) is not None:
            self._start(request, *found)
        else:
            self.waiting.append(request)
            if len(self.ready) < _LOW_WATER:
                self._refresh()
                self._pair()

    def _refresh(self) -> None:
        now = self.clock.now
        if 0.0 <= now - self.refreshed < _REFRESH:
            return
        self.refreshed = now
        self.reserved = {name: until for name, until in self.reserved.items() if now < until}
        for name, (_, idle) in self.cache.items():
            if idle and name not in self.queued and name not in self.reserved:
                self.ready.append(name)
                self.queued.add(name)

    def _pop(self) -> tuple[str, str] | None:
        now = self.clock.now
        while self.ready:
            name = self.ready.popleft()
            self.queued.discard(name)
            version, idle = self.cache[name]
            if now < self.reserved.get(name, 0.0) or not idle:
                continue
            self.reserved[name] = now + _RESERVED
            return name, version
        return None

    def _pair(self) -> None:
        while self.waiting:
            if self.clock.now >= self.waiting[0].deadline:
                self.waiting.popleft().answer(None)
                continue
            found = self._pop()
            if found is None:
                return
            self._start(self.waiting.popleft(), *found)

    def _start(self, request: _Request, name: str, version: str) -> None:
        if self.writing >= _MOST_WRITES:
            self.slots.append((request, name, version))
            return
        self.writing += 1
        if self.clock.now >= request.deadline:
            self.reserved.pop(name, None)
            self._finished()
            request.answer(None)
            return
        half = self.cluster.round_trip() / 2

        def arrive() -> None:
            self.result.writes += 1
            pod = self.cluster.pods[name]
            done = pod["metadata"]["resourceVersion"] == version and is_idle(pod)
            if done:
                _set_phase(self.cluster, name, Phase.RUNNING.value)
            self.clock.after(half, lambda: answered(done))

        def answered(done: bool) -> None:
            self._finished()
            if done:
                request.answer(name)
                return
            self.result.conflicts += 1
            self._handle(request)  # the tail of the channel, which is empty here; then the trigger
            self._pair()

        self.clock.after(half, arrive)

    def _finished(self) -> None:
        self.writing -= 1
        if self.slots:
            self._start(*self.slots.popleft())

    def release(self, pod: str) -> None:
        _released(self.clock, self.cluster, self.result, pod, self._notify)

    def _notify(self) -> None:
        if not self.notified:
            self.notified = True
            self.clock.after(_NOTIFY, self._woken)

    def _woken(self) -> None:
        self.notified = False
        self._refresh()
        self._pair()

    def _tick(self) -> None:
        self.waiting = deque(each for each in self.waiting if self.clock.now < each.deadline or each.answer(None))
        if self.waiting:
            self._refresh()
            self._pair()
        self.clock.after(_TICK, self._tick)

    def _poll(self) -> None:
        self._refresh()
        self._pair()
        self.clock.after(_POLL, self._poll)

    def finish(self) -> None:
        """Nothing is proved of it."""


# -- naive ----------------------------------------------------------------------------------------------------------

_LIST_SECONDS, _FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.05, 1.0


@dataclass
class Naive:
    """Each client lists the idle pods, takes any of them, patches it with its resourceVersion, and begins anew after a
    conflict. With no idle pod it pauses, longer each time."""

    clock: Clock
    cluster: Cluster
    result: Result

    def ask(self, answer: Answer) -> None:
        self._list(answer, self.clock.now + self.cluster.setting.wait, _FIRST_PAUSE)

    def _list(self, answer: Answer, deadline: float, pause: float) -> None:
        self.result.reads += 1
        half = self.cluster.round_trip() / 2

        def arrive() -> None:
            pods = self.cluster.pods
            idle = [(name, pod["metadata"]["resourceVersion"]) for name, pod in pods.items() if is_idle(pod)]
            self.clock.after(half + _LIST_SECONDS, lambda: listed(idle))

        def listed(idle: list[tuple[str, str]]) -> None:
            if self.clock.now >= deadline:
                answer(None)
            elif idle:
                self._patch(*self.cluster.random.choice(idle), answer, deadline)
            else:
                following = min(_LONGEST_PAUSE, 2 * pause)
                self.clock.after(pause, lambda: self._list(answer, deadline, following))

        self.clock.after(half, arrive)

    def _patch(self, name: str, version: str, answer: Answer, deadline: float) -> None:
        half = self.cluster.round_trip() / 2

        def arrive() -> None:
            self.result.writes += 1
            pod = self.cluster.pods[name]
            done = pod["metadata"]["resourceVersion"] == version and is_idle(pod)
            if done:
                _set_phase(self.cluster, name, Phase.RUNNING.value)
            self.clock.after(half, lambda: answered(done))

        def answered(done: bool) -> None:
            if done:
                answer(name)
            else:
                self.result.conflicts += 1
                self._list(answer, deadline, _FIRST_PAUSE)

        self.clock.after(half, arrive)

    def release(self, pod: str) -> None:
        _released(self.clock, self.cluster, self.result, pod, lambda: None)

    def finish(self) -> None:
        """Nothing is proved of it."""


def _set_phase(cluster: Cluster, name: str, phase: str) -> None:
    pod = _copy(cluster.pods[name])
    pod["metadata"]["labels"][names.PHASE_LABEL] = phase
    cluster.put(name, pod)


def _released(clock: Clock, cluster: Cluster, result: Result, name: str, then: Callable[[], None]) -> None:
    half = cluster.round_trip() / 2

    def arrive() -> None:
        result.writes += 1
        _set_phase(cluster, name, Phase.IDLE.value)
        clock.after(half, then)

    clock.after(half, arrive)

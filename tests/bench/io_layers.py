"""What the I/O layers cost: start-up, watch events, /filter beside a relist and beside binds; and the stand-in.

Start-up and events are those of a large cluster (50,000 pods of 7 KB), the rest of one with 10,000. As in `measures`,
quiet and disturbed calls take turns, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from statistics import median

import msgspec

from extender.embedded.apiserver.sidecar import spawn_sidecar
from tests.bench import world
from tests.bench.client import Binders, Connection, Process, proposed
from tests.bench.measures import BINDS_PER_SECOND, Bench
from tests.bench.report import Figure, p99
from tests.bench.world import IoScale

#: Seconds for the extender to finish what it has read.
_SETTLE = 0.3
#: Events a second where they do not come all at once.
_EVENT_RATE = 500
#: As many binds as kube-scheduler may have under way; the committer takes more only from a slower API server.
_CONNECTIONS = 8


def measure(scale: IoScale, say: Callable[[str], None]) -> list[Figure]:
    """All figures. Takes about a minute, on a busy machine two."""
    return [*_large(scale, say), *_disturbed(scale, say), *_stand_in(scale, say)]


# -- a large cluster ----------------------------------------------------------------------------------------------


@dataclass
class _Usage:
    """Of the extender's process so far."""

    cpu_seconds: float
    peak_mib: float
    events: float


def _usage(extender: Connection) -> _Usage:
    return msgspec.json.decode(extender.call("GET", "/usage"), type=_Usage)


def _large(scale: IoScale, say: Callable[[str], None]) -> Iterator[Figure]:
    size = f"{scale.cluster.nodes:,} nodes, {scale.pods:,} pods"
    aimed = scale.aimed
    say(f"start-up, {size}")
    with Process("tests.bench.cluster", str(scale.cluster.nodes), str(scale.pods)) as api_server:
        began = time.monotonic()
        with Process("tests.bench.server", api_server.url) as process:
            seconds = time.monotonic() - began
            with closing(Connection(process.url)) as extender, closing(Connection(api_server.url)) as control:
                usage = _usage(extender)
                yield Figure(f"start-up to ready, {size}, s", [seconds], most=10.0 if aimed else None)
                yield Figure("its CPU time, s", [usage.cpu_seconds])
                yield Figure("largest resident set until then, MiB", [usage.peak_mib], most=1024.0 if aimed else None)
                for rate, label in itertools.product((0, _EVENT_RATE), (False, True)):
                    what = f"{'labels' if label else 'statuses'}, {f'{rate} a second' if rate else 'all at once'}"
                    say(f"watch events: {what}")
                    costs = [_cost(extender, control, scale.events, rate, label=label) for _ in range(scale.rounds)]
                    yield Figure(f"CPU per watch event, {what}, us", costs, most=60.0 if aimed else None)


def _cost(extender: Connection, control: Connection, number: int, rate: int, *, label: bool) -> float:
    """Microseconds of the extender's CPU per event of a 7 KB pod, from the socket on: as far as where it is seen that
    a new status changes nothing for scheduling, or, for a new label, as far as the algorithm."""
    before = _usage(extender)
    control.call("POST", "/bench/burst", msgspec.json.encode([number, rate, label]))
    while _usage(extender).events < before.events + number:
        time.sleep(0.1)
    time.sleep(_SETTLE)
    return (_usage(extender).cpu_seconds - before.cpu_seconds) / number * 1e6


# -- what disturbs /filter ----------------------------------------------------------------------------------------


def _disturbed(scale: IoScale, say: Callable[[str], None]) -> Iterator[Figure]:
    with (
        Process("tests.bench.cluster", str(scale.cluster.nodes), str(scale.relisted)) as api_server,
        Process("tests.bench.server", api_server.url) as extender,
        closing(_Disturbed(extender.url, api_server.url, scale, say)) as bench,
    ):
        yield from bench.relists()
        yield from bench.binds()


class _Disturbed(Bench):
    """/filter of 500 names in a quiet server, in one that lists anew, and in one that binds."""

    def __init__(self, extender: str, api_server: str, scale: IoScale, say: Callable[[str], None]) -> None:
        super().__init__(extender, api_server, scale.cluster, say)
        self._scale_of_io = scale
        self._many_binders = Binders(extender, _CONNECTIONS)
        self._control = Connection(api_server)

    def close(self) -> None:
        self._many_binders.close()
        self._control.close()
        super().close()

    def relists(self) -> Iterator[Figure]:
        """A tenth of the pods is different in each new list."""
        self._say("/filter beside a relist")
        self._round(self._sample)  # warms up
        rounds = [(self._filters(), self._beside_relist()) for _ in range(self._scale_of_io.relists)]
        quiet = [each for calls, _ in rounds for each in calls]
        beside = [each for _, calls in rounds for each in calls]
        what = f"a relist of {self._scale_of_io.relisted:,} pods"
        yield Figure("/filter p99, quiet, ms", [p99(calls) for calls, _ in rounds], value=p99(quiet))
        yield Figure(f"/filter p99 beside {what}, ms", [p99(calls) for _, calls in rounds], value=p99(beside))
        ratios = [p99(disturbed) / p99(calm) for calm, disturbed in rounds]
        most = 3.0 if self._scale_of_io.aimed else None
        yield Figure(f"p99 beside {what} over quiet", ratios, value=p99(beside) / p99(quiet), most=most)

    def _beside_relist(self) -> list[float]:
        self._control.call("POST", "/bench/age", b"%d" % (self._scale_of_io.relisted // 10))
        begun, done = threading.Event(), threading.Event()

        def relist() -> None:
            self._control.call("POST", "/bench/expire")
            begun.set()
            self._control.call("POST", "/bench/settle")
            done.set()

        thread = threading.Thread(target=relist, daemon=True)
        thread.start()
        begun.wait()
        taken = self._filters(done)
        thread.join()
        return taken

    def _filters(self, until: threading.Event | None = None) -> list[float]:
        """Milliseconds of some calls of /filter; of at least two. Leaves nothing behind."""
        names = self._names("placed", self._scale_of_io.filters)
        self._cluster.make(names)
        taken: dict[str, list[float]] = {}
        nodes = {}
        for name in names:
            nodes[name] = self._time(taken, "placed", "/filter", self._sample.body(name))
            if until is not None and until.is_set() and len(nodes) > 1:
                break
        self._finish(nodes)
        return taken["placed"]

    def _finish(self, answers: dict[str, bytes]) -> float:
        """Binds all that was proposed, as quickly as can be. Returns binds a second."""
        places = {name: proposed(answer) for name, answer in answers.items()}
        began = time.monotonic()
        for each in places.items():
            self._many_binders.bind(*each)
        self._many_binders.wait()
        rate = len(places) / (time.monotonic() - began)
        self._cluster.clear()
        return rate

    def binds(self) -> Iterator[Figure]:
        """Alone, as many as can be; and beside /filter, as many as part one's load has."""
        self._say("binds")
        rates = []
        for _ in range(self._scale_of_io.rounds):
            names = self._names("placed", self._scale_of_io.binds)
            self._cluster.make(names)
            rates.append(self._finish({name: self._propose(name) for name in names}))
        yield Figure(f"binds per second, {_CONNECTIONS} at a time", rates)
        self._say("/filter beside binds")
        rounds = [
            (self._round(self._sample)["placed"], self._round(self._sample, load=True)["placed"])
            for _ in range(self._scale_of_io.relists)
        ]
        for name, of in (("p50", median), ("p99", p99)):
            ratios = [of(beside) / of(quiet) for quiet, beside in rounds]
            yield Figure(f"/filter {name} beside {BINDS_PER_SECOND} binds a second over quiet", ratios)

    def _propose(self, name: str) -> bytes:
        return self._caller.call("POST", "/filter", self._sample.body(name))


# -- the API server stand-in --------------------------------------------------------------------------------------


def _stand_in(scale: IoScale, say: Callable[[str], None]) -> Iterator[Figure]:
    say("the embedded API server")
    creates, binds, lists = [], [], []
    for turn in range(scale.rounds):
        with spawn_sidecar("--no-kubelet") as sidecar, closing(Connection(sidecar.url)) as client:
            client.call("POST", "/api/v1/nodes", msgspec.json.encode(_new(world.node(0, 0))))
            names = [f"made-{turn}-{number}" for number in range(scale.created)]
            bodies = [msgspec.json.encode(_new(world.waiting(name))) for name in names]
            path = f"/api/v1/namespaces/{world.NAMESPACE}/pods"
            creates.append(_per_second([(path, body) for body in bodies], client))
            target = {"kind": "Node", "name": world.node_name(0)}
            bindings = [(f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target}) for name in names]
            binds.append(_per_second([(each, msgspec.json.encode(body)) for each, body in bindings], client))
            began = time.monotonic()
            answer = client.call("GET", f"{path}?limit={scale.created}")
            lists.append(len(msgspec.json.decode(answer)["items"]) / (time.monotonic() - began))
    yield Figure("embedded API server: pods created per second", creates)
    yield Figure("embedded API server: pods bound per second", binds)
    yield Figure("embedded API server: pods listed per second", lists)


def _new(obj: dict[str, object]) -> dict[str, object]:
    """As a client sends it: without what the API server decides."""
    metadata = obj["metadata"]
    assert isinstance(metadata, dict)
    return {**obj, "metadata": {key: metadata[key] for key in ("name", "namespace", "labels") if key in metadata}}


def _per_second(requests: list[tuple[str, bytes]], client: Connection) -> float:
    """One after the other on one connection."""
    began = time.monotonic()
    for path, body in requests:
        client.call("POST", path, body)
    return len(requests) / (time.monotonic() - began)

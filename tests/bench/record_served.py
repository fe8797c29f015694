"""What a caller feels of a recording: /filter of two servers over HTTP, one of which records.

Both servers are processes as `waggle serve` is one, of the same cluster of 5,000 nodes. They get the same requests in
turns (A B B A), one after the other, as a kube-scheduler sends them, with pauses. The CPU time of each thread is the
kernel's, until the recorder has written what it heard.

Figures are those of the best round, as neighbours on the machine only add to them; the 99th percentile is of all calls.
*More* is the median of the ratios of each round, as the two halves of a round have the same neighbours. `aa=True`
compares two servers that do not record: how far *more* is from 0 then is what this measurement cannot tell.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec

from tests.bench.client import Connection, Process, expect_no_error
from tests.bench.report import p99
from tests.bench.threads import cpu_by_thread
from tests.bench.world import FULL, node_name, waiting

_US, _MS = 1e6, 1e3
#: Seconds between two calls: kube-scheduler has work of its own for each pod. Until servers have seen new pods, and
#: until a recorder has written what it heard.
_THINK, _UNTIL_SEEN, _PAUSE = 0.003, 0.6, 0.4
_WARM_UP = 30


class Offer(NamedTuple):
    """A kind of request. `order`: same, rotated or mixed."""

    title: str
    names: int
    order: str
    is_refused: bool = False


OFFERS = (
    Offer("100 names, same", 100, "same"),
    Offer("5,000 names, same", 5000, "same"),
    Offer("5,000 names, rotated", 5000, "rotated"),
    Offer("500 of 5,000, mixed", 500, "mixed"),
    Offer("5,000 names, mixed", 5000, "mixed"),
    Offer("5,000 names, refused", 5000, "same", is_refused=True),
)


def names_of(offer: Offer, nodes: Sequence[str], draws: random.Random) -> list[str]:
    """Return the names of one request."""
    if offer.order == "mixed":
        return draws.sample(list(nodes), offer.names)
    first = draws.randrange(len(nodes)) if offer.order == "rotated" else 0
    return [*nodes[first:], *nodes[:first]][: offer.names]


class Round(NamedTuple):
    """Of a call, on the mean: CPU seconds of the event loop's thread and of the process. `calls`: seconds of each."""

    loop: float
    process: float
    calls: list[float]


class Served:
    """A server that is measured."""

    def __init__(self, process: Process) -> None:
        self._pid = process.pid
        self._caller = Connection(process.url)
        self.rounds: list[Round] = []

    def round(self, bodies: Sequence[bytes]) -> Round:
        before, took = self._used(), []
        for body in bodies:
            time.sleep(_THINK)
            began = time.perf_counter()
            answer = self._caller.call("POST", "/filter", body)
            took.append(time.perf_counter() - began)
            expect_no_error(answer)
        time.sleep(_PAUSE)
        loop, process = (now - then for now, then in zip(self._used(), before, strict=True))
        return Round(loop / len(bodies), process / len(bodies), took)

    def _used(self) -> tuple[float, float]:
        threads = cpu_by_thread(self._pid)
        return threads[self._pid], sum(threads.values())

    def has_proposals(self) -> bool:
        return self.metric('waggle_cache_size{type="assumed_pods"}') > 0

    def metric(self, name: str) -> float:
        lines = self._caller.call("GET", "/metrics").decode().splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(f"{name} "))

    def close(self) -> None:
        self._caller.close()


def compare(offers: Sequence[Offer], calls: int, rounds: int, nodes: int = FULL.nodes, *, aa: bool = False) -> None:
    """Print a row for each offer."""
    print(
        f"\n{'over HTTP':<22} {'loop thread, a call':>25} {'p50':>25} {'p99':>25} {'process, a call':>25}\n"
        f"{'':<22}" + f" {'without':>8} {'recorded':>8} {'more':>7}" * 4
    )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        api_server = stack.enter_context(Process("tests.bench.cluster", str(nodes)))
        records = [], [] if aa else [str(Path(folder) / "log")]
        processes = [stack.enter_context(Process("tests.bench.server", api_server.url, *each)) for each in records]
        # Both have started: a server ends a connection on which nothing comes.
        pair = [stack.enter_context(closing(Served(each))) for each in processes]
        cluster = stack.enter_context(closing(Connection(api_server.url)))
        serial = count()
        for offer in offers:
            for number in range(-1, rounds):
                _turn(
                    pair[:: 1 if number % 2 else -1], cluster, offer, calls if number >= 0 else _WARM_UP, serial, nodes
                )
                if number < 0:
                    for each in pair:
                        each.rounds.clear()
            _show(offer, *(each.rounds for each in pair))
        if lost := pair[1].metric("waggle_recording_lost_events_total"):
            print(f"{lost:.0f} events are not in the recording")


def _turn(
    pair: Sequence[Served], cluster: Connection, offer: Offer, calls: int, serial: count[int], nodes: int
) -> None:
    """The same requests to each server; then the pods are deleted."""
    with requests(offer, calls, serial, nodes, cluster, pair) as bodies:
        for each in pair:
            each.rounds.append(each.round(bodies))


@contextmanager
def requests(
    offer: Offer, calls: int, serial: count[int], nodes: int, cluster: Connection, servers: Sequence[Served]
) -> Iterator[list[bytes]]:
    """Requests of /filter for so many new pods, which the servers have seen; at the end the pods are deleted."""
    kind = "refused" if offer.is_refused else "placed"
    pods = [f"{kind}-{next(serial)}" for _ in range(calls)]
    bodies = _bodies(offer, pods, nodes)
    cluster.call("POST", "/bench/pods", msgspec.json.encode(pods))
    time.sleep(_UNTIL_SEEN)
    yield bodies
    cluster.call("DELETE", "/bench/pods")
    while any(each.has_proposals() for each in servers):
        time.sleep(0.05)


def _bodies(offer: Offer, pods: Sequence[str], nodes: int) -> list[bytes]:
    draws, all_names = random.Random(pods[0]), [node_name(number) for number in range(nodes)]
    return [
        b'{"Pod":%s,"Nodes":null,"NodeNames":%s}'
        % (msgspec.json.encode(waiting(pod)), msgspec.json.encode(names_of(offer, all_names, draws)))
        for pod in pods
    ]


def _show(offer: Offer, plain: list[Round], recorded: list[Round]) -> None:
    cells = (
        _cell([each.loop for each in plain], [each.loop for each in recorded]),
        _cell([median(each.calls) for each in plain], [median(each.calls) for each in recorded]),
        _tails(plain, recorded),
        _cell([each.process for each in plain], [each.process for each in recorded]),
    )
    print(f"{offer.title:<22}" + "".join(cells), flush=True)
    plain.clear()
    recorded.clear()


def _cell(plain: list[float], recorded: list[float]) -> str:
    more = median(other / one for one, other in zip(plain, recorded, strict=True)) - 1
    return f" {min(plain) * _US:5.0f} µs {min(recorded) * _US:5.0f} µs {100 * more:+5.1f} %"


def _tails(plain: list[Round], recorded: list[Round]) -> str:
    one, other = (p99([took for each in rounds for took in each.calls]) for rounds in (plain, recorded))
    return f" {one * _MS:5.2f} ms {other * _MS:5.2f} ms {100 * (other / one - 1):+5.0f} %"

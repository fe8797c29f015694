"""How the committer treats an API server that is slow, or wants less: against a fixed pool of workers.

    python -m tests.bench.bench_committer

The fixed pool has eight workers, each of which waits for itself when it meets a 429. Both are given the same bindings,
64 of which wait at any time; what comes back throttled is given again a second later, as kube-scheduler does. The
slow and the refusing server are the embedded API server with injected faults, the narrow one a stub that answers 429
when more requests are under way than it takes. All run in a process of their own.
"""

from __future__ import annotations

import asyncio
import heapq
import multiprocessing
import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from extender.core.outcomes import OutcomeKind
from extender.embedded.apiserver.sidecar import spawn_sidecar
from extender.kube.client.api import ApiError, ApiServer
from extender.kube.client.transport import Endpoint
from extender.kube.writes.committer import Committer
from extender.kube.writes.outcome import outcome_of, outcome_of_error
from extender.scheduling.commands import BindFinished, WriteBinding
from extender.scheduling.events import Event
from extender.scheduling.writes import binding
from tests.support.engine.commands import commands

BINDS, WAITING, LATENCY = 3000, 64, 0.02
POOL = 8
#: Seconds after which kube-scheduler tries a refused pod again.
BACKOFF = 1.0
BIND = {"method": "POST", "path": "/binding$", "times": None}
SLOW = {"action": "delay", "seconds": LATENCY, **BIND}
REFUSES = {"action": "status", "status": 429, "headers": {"Retry-After": "1"}, **BIND}
#: Seconds after which the embedded API server begins to refuse everything, and for which it does.
OUTAGE = 2.0, 3.0


class Carrier(Protocol):
    def submit(self, instruction: WriteBinding) -> None: ...
    def stop(self) -> None: ...


class FixedPool:
    """Eight workers that know nothing of each other."""

    def __init__(self, api: ApiServer, report: Callable[[Event], None]) -> None:
        self._api, self._report = api, report
        self._queue: queue.SimpleQueue[WriteBinding | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(POOL)]
        for thread in self._threads:
            thread.start()

    def submit(self, instruction: WriteBinding) -> None:
        self._queue.put(instruction)

    def stop(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (write := self._queue.get()) is not None:
            end = time.monotonic() + 2.0
            while True:
                try:
                    with self._api.exchange(binding.request(write)) as exchange:
                        outcome = outcome_of(exchange.response())
                except ApiError as error:
                    outcome = outcome_of_error(error)
                if outcome.kind is not OutcomeKind.THROTTLED or time.monotonic() + outcome.retry_after > end:
                    break
                time.sleep(outcome.retry_after)
            self._report(BindFinished(write.token, outcome))


# -- API servers --------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """Where it is, and how many 429 it has answered so far."""

    port: int
    refused: Callable[[], int]


@contextmanager
def embedded(*, outage: bool = False) -> Iterator[Server]:
    with spawn_sidecar("--no-kubelet") as sidecar:
        port = int(sidecar.url.rsplit(":", 1)[1])
        with closing(ApiServer(Endpoint("127.0.0.1", port))) as api:
            for number in range(BINDS):
                pod = {"metadata": {"name": f"p{number}"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                api.request("POST", "/api/v1/namespaces/default/pods", body=msgspec.json.encode(pod))
            refused = 0

            def inject(*faults: dict[str, Any]) -> None:
                """Replaces those before, and counts what they have refused."""
                nonlocal refused
                rules = msgspec.json.decode(api.request("GET", "/debug/faults").body)
                refused += sum(rule["fired"] for rule in rules if rule["action"] == "status")
                api.request("POST", "/debug/faults", body=msgspec.json.encode(faults))

            def count() -> int:
                inject(SLOW)
                return refused

            inject(SLOW)
            timers = [threading.Timer(OUTAGE[0], inject, [REFUSES]), threading.Timer(sum(OUTAGE), inject, [SLOW])]
            for timer in timers if outage else []:
                timer.start()
            yield Server(port, count)
            for timer in timers if outage else []:
                timer.join()


@contextmanager
def narrow(capacity: int) -> Iterator[Server]:
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    refused = multiprocessing.Value("i", 0)
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(sock, capacity, refused), daemon=True)
    process.start()
    yield Server(sock.getsockname()[1], lambda: refused.value)
    process.kill()
    process.join()
    sock.close()


def _serve(sock: socket.socket, capacity: int, refused: Any) -> None:
    busy = 0

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal busy
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                if busy >= capacity:
                    refused.value += 1
                    writer.write(_answer("429 Too Many Requests", "Retry-After: 1\r\n"))
                    continue
                busy += 1
                await asyncio.sleep(LATENCY)
                busy -= 1
                writer.write(_answer("201 Created"))
        writer.close()

    async def run() -> None:
        await (await asyncio.start_server(converse, sock=sock)).serve_forever()

    asyncio.run(run())


def _answer(status: str, headers: str = "") -> bytes:
    return f'HTTP/1.1 {status}\r\n{headers}Content-Length: 17\r\n\r\n{{"kind":"Status"}}'.encode()


# -- one run ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    seconds: float
    refused: int
    #: Bindings that kube-scheduler was told to try again later.
    came_back: int


def run(server: Server, make: Callable[[ApiServer, Callable[[Event], None]], Carrier]) -> Run:
    api = ApiServer(Endpoint("127.0.0.1", server.port))
    reports: queue.SimpleQueue[Event] = queue.SimpleQueue()
    carrier = make(api, reports.put)
    began = time.monotonic()
    waiting = [(0.0, number) for number in range(BINDS)]
    under_way = done = came_back = 0
    while done < BINDS:
        while waiting and under_way < WAITING and waiting[0][0] <= time.monotonic():
            _, number = heapq.heappop(waiting)
            carrier.submit(WriteBinding(number, "default", f"p{number}", "", "n1"))
            under_way += 1
        with suppress(queue.Empty):
            event = reports.get(timeout=0.05)
            assert isinstance(event, BindFinished)
            under_way -= 1
            if event.outcome.kind is OutcomeKind.THROTTLED:
                came_back += 1
                heapq.heappush(waiting, (time.monotonic() + BACKOFF, event.token))
            else:
                assert event.outcome.kind is OutcomeKind.DONE, event
                done += 1
    seconds = time.monotonic() - began
    carrier.stop()
    api.close()
    return Run(seconds, server.refused(), came_back)


SERVERS: dict[str, Callable[[], Any]] = {
    "20 ms": embedded,
    "20 ms, refuses everything for 3 s": lambda: embedded(outage=True),
    "20 ms, takes 24 at once": lambda: narrow(24),
    "20 ms, takes 12 at once": lambda: narrow(12),
    "20 ms, takes 4 at once": lambda: narrow(4),
}
CARRIERS: dict[str, Callable[[ApiServer, Callable[[Event], None]], Carrier]] = {
    "fixed": FixedPool,
    "adaptive": lambda api, report: Committer(api, commands(), report=report),
}


def main() -> None:
    sys.setswitchinterval(0.0005)
    print(f"{BINDS} bindings, API server: {'':<26} who        binds/s   429 answered   told to come back")
    for name, serve in SERVERS.items():
        for who, make in CARRIERS.items():
            with serve() as server:
                found = run(server, make)
            rate = BINDS / found.seconds
            print(f"{name:<50} {who:<10} {rate:>7.0f} {found.refused:>14} {found.came_back:>20}", flush=True)


if __name__ == "__main__":
    main()

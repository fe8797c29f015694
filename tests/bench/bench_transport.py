"""What a bind costs, and what it does to a filter that runs beside it: our transport against urllib3.

Beside both, each with a thread for every bind that is under way, the way of the committer's pilot: one thread for all.

    python -m tests.bench.bench_transport

A stub API server in its own process answers every POST with 201. Rounds of all candidates are interleaved; minimum and
median are printed, since the machine may be busy.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import statistics
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress

import urllib3

from extender.kube.client.api import ApiServer, Interrupted, Response
from extender.kube.client.transport import Endpoint
from extender.kube.writes.multiplexer import HttpMultiplexer
from extender.scheduling.commands import WriteBinding
from extender.scheduling.writes import binding

ROUNDS, BINDS, BINDS_PER_SECOND = 4, 1200, 200
TOKEN = "Bearer " + "x" * 900
BIND = binding.request(
    WriteBinding(1, "default", "p", "8a9c1ff0-1111-2222-3333-444444444444", "n1", (("a", "b" * 200),))
)
STATUS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 8a9c1ff0-1111-2222-3333-444444444444\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 8a9c1ff0-1111-2222-3333-444444444444\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 8a9c1ff0-1111-2222-3333-444444444444\r\n"
    b"Date: Mon, 02 Nov 2026 10:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s" % (len(STATUS), STATUS)
)

Call = Callable[[], None]


async def _stub(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            writer.write(ANSWER)
    writer.close()


def _serve(sock: socket.socket) -> None:
    async def run() -> None:
        server = await asyncio.start_server(_stub, sock=sock)
        await server.serve_forever()

    asyncio.run(run())


def ours(port: int) -> Call:
    api = ApiServer(Endpoint("127.0.0.1", port, authorization=lambda: TOKEN))

    def call() -> None:
        assert api.request("POST", BIND.path, body=BIND.body).status == 201

    return call


def with_urllib3(port: int) -> Call:
    pool = urllib3.PoolManager(maxsize=8, retries=False)
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Authorization": TOKEN}
    url = f"http://127.0.0.1:{port}{BIND.path}"

    def call() -> None:
        assert pool.request("POST", url, body=BIND.body, headers=headers, timeout=10).status == 201

    return call


def cpu_per_bind(call: Call, threads: int) -> float:
    """Microseconds of this process's CPU."""

    def work() -> None:
        for _ in range(BINDS // threads):
            call()

    workers = [threading.Thread(target=work) for _ in range(threads)]
    began = time.process_time()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.process_time() - began) / BINDS * 1e6


def cpu_per_bind_of_pilot(port: int, at_once: int) -> float:
    """The same over connections that stand, all from one thread."""
    api = ApiServer(Endpoint("127.0.0.1", port, authorization=lambda: TOKEN))
    with ExitStack() as opened:
        for _ in range(at_once):
            opened.enter_context(api.exchange(BIND)).read()
    wires = HttpMultiplexer(api)
    left = [BINDS]

    def send() -> None:
        if left[0]:
            left[0] -= 1
            connection = api.idle_connection()
            assert connection is not None
            wires.send(connection, BIND, 10.0, ended, may_send=lambda: True)

    def ended(result: Response | Interrupted) -> None:
        assert isinstance(result, Response)
        assert result.status == 201
        send()

    began = time.process_time()
    for _ in range(at_once):
        send()
    while wires.busy:
        wires.poll(None)
    used = time.process_time() - began
    wires.close()
    api.close()
    return used / BINDS * 1e6


def filter_beside(call: Call | None) -> tuple[float, float]:
    """p50 and p99 in ms of about a millisecond of Python work, while binds go on in eight threads."""
    stop = threading.Event()

    def work(number: int) -> None:
        due = time.monotonic() + number / BINDS_PER_SECOND
        while not stop.wait(max(0.0, due - time.monotonic())):
            due += 8 / BINDS_PER_SECOND
            if call is not None:
                call()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for worker in workers:
        worker.start()
    times = []
    end = time.monotonic() + 2
    while time.monotonic() < end:
        began = time.perf_counter()
        sum(number * number for number in range(12_000))
        times.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.001)
    stop.set()
    for worker in workers:
        worker.join()
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def main() -> None:
    sys.setswitchinterval(0.0005)
    sock = socket.create_server(("127.0.0.1", 0), backlog=128)
    server = multiprocessing.get_context("fork").Process(target=_serve, args=(sock,), daemon=True)
    server.start()
    calls = {"ours": ours(sock.getsockname()[1]), "urllib3": with_urllib3(sock.getsockname()[1])}
    results: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for threads in (1, 8):
                results[f"CPU per bind, {threads} at once, {name} (us)"].append(cpu_per_bind(call, threads))
        for at_once in (1, 8):
            used = cpu_per_bind_of_pilot(sock.getsockname()[1], at_once)
            results[f"CPU per bind, {at_once} at once, pilot (us)"].append(used)
        for name, beside in (("nothing", None), *calls.items()):
            p50, p99 = filter_beside(beside)
            results[f"filter p50 beside {BINDS_PER_SECOND} binds/s, {name} (ms)"].append(p50)
            results[f"filter p99 beside {BINDS_PER_SECOND} binds/s, {name} (ms)"].append(p99)
    for name, values in sorted(results.items()):
        print(f"{name:<50} min {min(values):8.2f}   median {statistics.median(values):8.2f}")
    server.kill()


if __name__ == "__main__":
    main()

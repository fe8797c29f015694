"""The innocent caller, in a process of its own: a valid `/filter` a hundred times a second on one standing connection.

    python -m tests.attacks.probe URL PID UIDS [FOLDER]        (FOLDER: ca.crt, tls.crt, tls.key for mutual TLS)

UIDS are those of the pods that it asks for, separated by commas. Reads `begin` and `end` from standard input; at `end`
it prints one line of JSON with all latencies. A call is late from when it was due, not from when it could be sent: a
server that stands still for a second is seen as a hundred late calls. It samples the memory of process PID meanwhile.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.attacks.requests import PROBES, probe_request

#: Seconds between two calls, and between two looks at the server's memory.
_EVERY = 0.01
_SAMPLE = 0.02
#: Seconds until a call counts as failed.
_PATIENCE = 20.0


class Caller:
    """One connection, opened again after a failure (which is counted)."""

    def __init__(self, url: str, uids: list[str], folder: Path | None) -> None:
        split = urlsplit(url)
        self._address = (split.hostname or "", split.port or 0)
        self._context = None if folder is None else client_context(folder)
        self._requests = [probe_request(number, uid) for number, uid in enumerate(uids)]
        self._connection: socket.socket | None = None
        self._number = 0

    def call(self) -> None:
        """Raises OSError or ValueError if there is no valid answer."""
        if self._connection is None:
            self._connection = self._connect()
        self._number += 1
        try:
            self._connection.sendall(self._requests[self._number % len(self._requests)])
            status, body, closes = read_whole(self._connection)
            _check(status, body)
        except (OSError, ValueError):
            self._connection.close()
            self._connection = None
            raise
        if closes:
            self._connection.close()
            self._connection = None

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, timeout=_PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_hostname="localhost")


def _check(status: int, body: bytes) -> None:
    """Raises ValueError if this is no answer with exactly one node."""
    found = json.loads(body)
    if status != 200 or found["Error"] or len(found["NodeNames"] or ()) != 1:
        raise ValueError(f"answered {status} {body[:200]!r}")


def client_context(folder: Path, alpn: tuple[str, ...] = ("http/1.1",), client: str = "tls") -> ssl.SSLContext:
    """Mutual TLS with the certificate `client` in `folder`; "" shows none."""
    context = ssl.create_default_context(cafile=folder / "ca.crt")
    if client:
        context.load_cert_chain(folder / f"{client}.crt", folder / f"{client}.key")
    context.set_alpn_protocols(list(alpn))
    return context


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Status and body of the next answer. Raises OSError, ValueError if there is none with a Content-Length."""
    status, body, _ = read_whole(connection)
    return status, body


def read_whole(connection: socket.socket) -> tuple[int, bytes, bool]:
    """The same, and whether the connection ends with it."""
    received = bytearray()
    while (end := received.find(b"\r\n\r\n")) < 0:
        received += _more(connection)
    first, *lines = bytes(received[:end]).split(b"\r\n")
    length = next(int(line[15:]) for line in lines if line[:15].lower() == b"content-length:")
    while len(received) < end + 4 + length:
        received += _more(connection)
    closes = any(line.lower().replace(b" ", b"") == b"connection:close" for line in lines)
    return int(first[9:12]), bytes(received[end + 4 :]), closes


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 18)
    if not data:
        raise ConnectionResetError("the server closed the connection")
    return data


class Round:
    """What is measured between `begin` and `end`."""

    def __init__(self, caller: Caller, pid: int) -> None:
        self._caller = caller
        self._statm = Path(f"/proc/{pid}/statm")
        self.latencies: list[float] = []
        self.errors: list[str] = []
        self.peak_mib = 0.0

    def run(self) -> None:
        """Until something is on standard input."""
        due = sampled = time.monotonic()
        while True:
            if (now := time.monotonic()) >= sampled:
                self._sample()
                sampled = now + _SAMPLE
            if select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
                break
            if time.monotonic() >= due:
                self._call(due)
                due += _EVERY
        self._add_those_not_made(due)
        self._sample()

    def _call(self, due: float) -> None:
        try:
            self._caller.call()
        except (OSError, ValueError) as error:
            self.errors.append(f"{type(error).__name__}: {error}")
        self.latencies.append(time.monotonic() - due)

    def _add_those_not_made(self, due: float) -> None:
        """Calls that were due and could not be made any more: late by as much at least."""
        now = time.monotonic()
        while due < now:
            self.latencies.append(now - due)
            due += _EVERY

    def _sample(self) -> None:
        try:
            pages = int(self._statm.read_text().split()[1])
        except (OSError, IndexError):
            return
        self.peak_mib = max(self.peak_mib, pages * 4096 / (1 << 20))

    def report(self) -> dict[str, Any]:
        return {"latencies": self.latencies, "errors": self.errors, "peak_mib": self.peak_mib}


def main(url: str, pid: str, uids: str, folder: str = "") -> None:
    caller = Caller(url, uids.split(","), Path(folder) if folder else None)
    for _ in range(PROBES):
        caller.call()
    print("ready", flush=True)
    while sys.stdin.readline().strip() == "begin":
        measured = Round(caller, int(pid))
        measured.run()
        sys.stdin.readline()
        print(json.dumps(measured.report()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

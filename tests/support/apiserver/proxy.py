"""A TCP connection between one client and the API server, which a test may hold up or cut: partitions and pauses.

with Proxy(server.url) as proxy:
    proxy.url                   # for the client
    proxy.hold()                # nothing arrives any more, in either direction; nobody is told
    proxy.resume()              # all that was held arrives now
    proxy.cut()                 # connections end, new ones are refused with a close
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit


class Proxy:
    """Everything on 127.0.0.1; two threads a connection."""

    def __init__(self, url: str) -> None:
        self.redirect(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = threading.Event()
        self._open.set()
        self._cut = False
        self._stopped = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def redirect(self, url: str) -> None:
        """Where connections go from now on."""
        self._target = (urlsplit(url).hostname or "", urlsplit(url).port or 0)

    def hold(self) -> None:
        self._open.clear()

    def resume(self) -> None:
        self._cut = False
        self._open.set()

    def cut(self) -> None:
        self._cut = True
        self._end_all()

    def stop(self) -> None:
        self._stopped = self._cut = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._open.set()
        self._end_all()
        for thread in list(self._threads):
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, run: object, *args: object) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _end_all(self) -> None:
        with self._lock:
            sockets = list(self._sockets)
        for sock in sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._cut:
                client.close()
                continue
            self._start(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        with self._lock:
            self._sockets |= {client, server}
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            self._sockets -= {client, server}
        client.close()
        server.close()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self._open.wait()
                target.sendall(data)
        except OSError:
            pass
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

"""An API server that costs next to nothing: lists, two watches, bindings, and a cluster in which things happen.

    python -m tests.bench.cluster NODES [PODS]     (prints "ready URL"; ends when its standard input does)

Four small pods run on each node; or, where PODS is given, that many in all, of 7 KB each.

The embedded API server checks and stores like a real one, and would take from the second core what the client needs.
This one knows only what the bench asks of it, and is told what to do under /bench/:

    POST   /bench/pods   [name, ...]   these pods wait        (an ADDED event each)
    DELETE /bench/pods                 they are all gone      (a DELETED event each)
    POST   /bench/heartbeat n          node number n reports that it lives   (a MODIFIED event)
    POST   /bench/late   seconds       a bind is answered so long before its event
    POST   /bench/churn  rate          that many events a second from now on; answers how many there were so far
    POST   /bench/burst  [n, rate, label]
                                       n large pods report their status, or have another label (true), at that rate a
                                       second or (0) all at once; answers when all is sent
    POST   /bench/age    n             n large pods change, and nobody is told: the next list will show it
    POST   /bench/expire               the pods' watch ends with 410; answers when the list that follows is begun
    POST   /bench/settle               answers when the pods are watched (again)
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvloop

from tests.bench import world
from tests.bench.bulk import PAGE, Bulk

_encode = msgspec.json.Encoder().encode
_TICK = 0.01
#: Further apart than any two nodes that are looked at together: changes are spread over the whole cluster.
_STRIDE = 617


class Resource:
    """One resource: what there is, who watches, and what happened lately."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.watchers: set[asyncio.Transport] = set()
        self._history: deque[tuple[int, bytes]] = deque(maxlen=20_000)
        self._waiting: dict[bool, Callable[[], None]] = {}

    def tell(self, kind: str, obj: dict[str, Any]) -> None:
        chunk = _event(kind, _encode(obj))
        self._history.append((int(obj["metadata"]["resourceVersion"]), chunk))
        self.send(chunk)

    def send(self, chunk: bytes) -> None:
        for transport in self.watchers:
            transport.write(chunk)

    def expire(self) -> None:
        """Every watch is too old to go on, and ends."""
        status = {"kind": "Status", "status": "Failure", "code": 410, "message": "too old resource version"}
        self.send(_event("ERROR", _encode(status)) + b"0\r\n\r\n")
        self.watchers.clear()

    def when(self, *, watched: bool, tell: Callable[[], None]) -> None:
        """Calls back once: when somebody watches, or else when somebody lists."""
        if watched and self.watchers:
            tell()
        else:
            self._waiting[watched] = tell

    def happened(self, *, watched: bool) -> None:
        if watched in self._waiting:
            self._waiting.pop(watched)()

    def since(self, version: int) -> bytes:
        return b"".join(chunk for at, chunk in self._history if at > version)


def _event(kind: str, obj: bytes) -> bytes:
    line = b'{"type":"%s","object":%s}\n' % (kind.encode(), obj)
    return b"%x\r\n%s\r\n" % (len(line), line)


class Cluster:
    """Nodes and pods, and the writes that change them. With `pods`, those that run are large, and so many in all."""

    def __init__(self, nodes: int, pods: int = 0) -> None:
        self.version = 1
        self.nodes, self.pods = Resource(), Resource()
        self.events = 0
        self._made: set[str] = set()
        self._churned: deque[str] = deque()
        self._serial = itertools.count()
        self._rate = 0
        self.late = 0.0
        self._size = nodes
        for number in range(nodes):
            self.nodes.objects[world.node_name(number)] = world.node(number, self.version)
            for each in () if pods else world.running(number, self.version):
                self.pods.objects[each["metadata"]["name"]] = each
        self.bulk = Bulk(nodes, pods, self.version)

    # -- writes ---------------------------------------------------------------------------------------------------

    def _put(self, resource: Resource, kind: str, obj: dict[str, Any], *, late: float = 0.0) -> None:
        self.version += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.version)}
        resource.objects[obj["metadata"]["name"]] = obj
        if late:
            asyncio.get_running_loop().call_later(late, resource.tell, kind, obj)
        else:
            resource.tell(kind, obj)

    def _delete(self, name: str) -> None:
        obj = self.pods.objects.pop(name)
        self.version += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.version)}
        self.pods.tell("DELETED", obj)

    def make(self, names: list[str]) -> None:
        for name in names:
            self._made.add(name)
            self._put(self.pods, "ADDED", world.waiting(name))

    def clear(self) -> None:
        for name in self._made:
            self._delete(name)
        self._made.clear()

    def bind(self, name: str, node: str) -> bool:
        found = self.pods.objects.get(name)
        if found is None or found["spec"].get("nodeName"):
            return False
        self._put(self.pods, "MODIFIED", {**found, "spec": {**found["spec"], "nodeName": node}}, late=self.late)
        return True

    def heartbeat(self, number: int) -> None:
        found = self.nodes.objects[world.node_name(number)]
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{self.version}"}
        self._put(self.nodes, "MODIFIED", {**found, "status": {**found["status"], "conditions": [beat]}})

    # -- large pods -----------------------------------------------------------------------------------------------

    def _change(self, number: int, *, label: bool = False) -> list[bytes]:
        before, self.version = self.version, self.version + number
        return self.bulk.change(number, before + 1, label=label)

    def age(self, number: int) -> None:
        self._change(number, label=True)
        self.bulk.render()

    async def burst(self, number: int, rate: float, label: bool) -> None:
        """Everything is made before the first is sent."""
        events = [_event("MODIFIED", obj) for obj in self._change(number, label=label)]
        loop = asyncio.get_running_loop()
        began, done = loop.time(), 0
        while done < number:
            due = min(number, int((loop.time() - began) * rate) + 1) if rate else done + PAGE
            for chunk in events[done:due]:
                self.pods.send(chunk)
            done = due
            await asyncio.sleep(1 / rate if rate else 0)

    # -- what happens by itself -----------------------------------------------------------------------------------

    def churn(self, rate: int) -> int:
        """From now on `rate` events a second. Returns how many there were so far."""
        running, self._rate = self._rate > 0, rate
        if rate and not running:
            loop = asyncio.get_running_loop()
            loop.call_soon(self._tick, loop.time(), 0)
        return self.events

    def _tick(self, began: float, done: int) -> None:
        loop = asyncio.get_running_loop()
        if not self._rate:
            return
        due = int((loop.time() - began) * self._rate)
        for _ in range(due - done):
            self._happen(next(self._serial))
        loop.call_later(_TICK, self._tick, began, due)

    def _happen(self, serial: int) -> None:
        """Of five events: two pods report their status, a node reports, a pod is started elsewhere, one ends."""
        self.events += 1
        number = serial * _STRIDE % self._size
        turn = serial % 5
        if turn in (0, 1):
            found = self.pods.objects[f"running-{number}-{turn}"]
            status = {**found["status"], "message": f"report {serial}"}
            self._put(self.pods, "MODIFIED", {**found, "status": status})
        elif turn == 2:
            found = self.nodes.objects[world.node_name(number)]
            self._put(self.nodes, "MODIFIED", {**found, "status": {**found["status"], "phase": f"{serial}"}})
        elif turn == 3 or len(self._churned) < 20:
            self._churned.append(f"other-{serial}")
            node = world.node_name(number)
            self._put(self.pods, "ADDED", world.pod(f"other-{serial}", 0, cpu=1, gpus=0, on=node))
        else:
            self._delete(self._churned.popleft())


class Server(asyncio.Protocol):
    """One connection: HTTP as far as the extender and the bench speak it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for resource in (self._cluster.nodes, self._cluster.pods):
            resource.watchers.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._buffer[:end].split(b"\r\n")
            length = sum(int(line[15:]) for line in lines if line[:15].lower() == b"content-length:")
            if len(self._buffer) < end + 4 + length:
                return
            body = self._buffer[end + 4 : end + 4 + length]
            self._buffer = self._buffer[end + 4 + length :]
            method, target, _ = first.decode().split(" ")
            url = urlsplit(target)
            self._serve(method, url.path, {key: values[0] for key, values in parse_qs(url.query).items()}, body)

    def _serve(self, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        *_, last = path.split("/")
        if last == "burst":
            number, rate, label = msgspec.json.decode(body)
            self._later = asyncio.ensure_future(self._cluster.burst(number, rate, label))
            return self._later.add_done_callback(lambda _: self._answer(200, None))
        if last == "expire":
            self._cluster.pods.expire()
        if last in ("expire", "settle"):
            return self._cluster.pods.when(watched=last == "settle", tell=lambda: self._answer(200, None))
        if path.startswith("/bench/"):
            return self._answer(200, self._obey(method, last, body))
        if method == "GET" and last in ("nodes", "pods"):
            resource = getattr(self._cluster, last)
            return self._watch(resource, query) if "watch" in query else self._list(resource, query)
        if last == "binding":
            done = self._cluster.bind(path.split("/")[-2], msgspec.json.decode(body)["target"]["name"])
            status = {"kind": "Status", "status": "Success" if done else "Failure", "code": 201 if done else 409}
            return self._answer(status["code"], status)
        found = self._cluster.pods.objects.get(last)
        if method in ("GET", "PATCH"):
            return self._answer(200, found) if found else self._answer(404, {"kind": "Status", "code": 404})
        return self._answer(201, {"kind": "Status", "code": 201})

    def _obey(self, method: str, what: str, body: bytes) -> Any:
        if what == "churn":
            return self._cluster.churn(msgspec.json.decode(body))
        if what == "late":
            self._cluster.late = msgspec.json.decode(body)
            return None
        if what == "heartbeat":
            return self._cluster.heartbeat(msgspec.json.decode(body))
        if what == "age":
            return self._cluster.age(msgspec.json.decode(body))
        if method == "DELETE":
            return self._cluster.clear()
        return self._cluster.make(msgspec.json.decode(body))

    def _list(self, resource: Resource, query: dict[str, str]) -> None:
        """The small objects, in pages as asked for; then the pages of large pods as they are."""
        if "fieldSelector" in query or "labelSelector" in query:  # of a plan: the pods that wait, and those of its jobs
            is_asked = "fieldSelector" in query
            waiting = [each for each in resource.objects.values() if is_asked and not each["spec"].get("nodeName")]
            self._answer(200, {"metadata": {"resourceVersion": str(self._cluster.version)}, "items": waiting})
            return
        resource.happened(watched=False)
        start, size = int(query.get("continue", 0)), int(query.get("limit", sys.maxsize))
        bulk = self._cluster.bulk.pages if resource is self._cluster.pods else []
        if start >= 0:
            items = _encode(list(itertools.islice(resource.objects.values(), start, start + size)))[1:-1]
            following = start + size if start + size < len(resource.objects) else -1
        else:
            items, following = bulk[-start - 1], start - 1
        more = following > 0 or -following <= len(bulk)
        metadata = {"resourceVersion": str(self._cluster.version), **({"continue": str(following)} if more else {})}
        self._send(200, b'{"metadata":%s,"items":[' % _encode(metadata), items, b"]}")

    def _watch(self, resource: Resource, query: dict[str, str]) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head + resource.since(int(query["resourceVersion"])))
        resource.watchers.add(self._transport)
        resource.happened(watched=True)

    def _answer(self, status: int, obj: Any) -> None:
        self._send(status, _encode(obj))

    def _send(self, status: int, *body: bytes) -> None:
        head = b"HTTP/1.1 %d Bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.writelines([head % (status, sum(map(len, body))), *body])


def end_with_input(end: Callable[[], Any]) -> None:
    """Calls `end` when standard input is closed: when the bench stops this process, or is itself gone."""

    def wait() -> None:
        sys.stdin.buffer.read()
        end()

    threading.Thread(target=wait, daemon=True).start()


async def _main(nodes: int, pods: int = 0) -> None:
    cluster = Cluster(nodes, pods)
    server = await asyncio.get_running_loop().create_server(lambda: Server(cluster), "127.0.0.1", 0, backlog=128)
    print(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    end_with_input(lambda: os._exit(0))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(*map(int, sys.argv[1:])))

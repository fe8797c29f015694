"""The API server as a plain ASGI application: requests in, verbs called, bytes out.

One event loop owns everything. Verbs are synchronous and take microseconds to milliseconds; only reading a body,
sending an answer, waiting for watch events and injected delays give the loop away.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass, field, replace

from extender.embedded.apiserver import errors
from extender.embedded.apiserver.cluster import Cluster
from extender.embedded.apiserver.connection import Connection, Message, Receive, Send
from extender.embedded.apiserver.discovery import discover
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.faults import GARBAGE, Faults, Plan, WatchFaults
from extender.embedded.apiserver.objects import encode
from extender.embedded.apiserver.openapi import openapi
from extender.embedded.apiserver.requests import Answer, Request, answer
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.tabular import TableWriter, wants_table
from extender.embedded.apiserver.watch import Watcher, WatchOptions, error_line

_LOG = logging.getLogger(__name__)


#: Seconds before a watch ends by its time-out that it gets its last regular bookmark.
_LAST_BOOKMARK = 2.0


@dataclass(eq=False)
class App:
    """`cluster` behind HTTP. `bookmark_seconds` is how often a watch that allows bookmarks gets one."""

    cluster: Cluster
    faults: Faults = field(default_factory=Faults)
    bookmark_seconds: float = 10.0
    #: Every open watch, and the User-Agent of its client.
    _watchers: dict[Watcher, str] = field(default_factory=dict)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.cluster.store.listeners.append(self._notice)

    def _notice(self, change: Change) -> None:
        for watcher in tuple(self._watchers):
            if watcher.options.resource.collection == change.resource.id:
                watcher.live(change)
            elif change.is_end_of(watcher.options.resource):
                watcher.close()

    def end_watches(self, agent: str = "") -> None:
        """Properly, once what is pending was sent, as when an API server is rolled over: clients open new ones.

        `agent` is a regular expression for the User-Agent of the clients that are meant.
        """
        for watcher, client in tuple(self._watchers.items()):
            if re.search(agent, client):
                watcher.close()

    def close(self) -> None:
        """End all watches and delays, so that the server can stop."""
        self._closing.set()
        for watcher in tuple(self._watchers):
            watcher.close()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"this application serves http only, not {scope['type']}")
        connection = Connection(scope, receive, send)
        try:
            await self._serve(connection)
        except ApiError as error:
            await connection.reply(Answer(encode(error.body), error.code))
        except Exception:
            _LOG.exception("request failed: %s %s", scope["method"], scope["path"])
            failure = ApiError(500, "InternalError", "Internal error occurred: see the log of the embedded API server")
            await connection.reply(Answer(encode(failure.body), 500))

    async def _serve(self, connection: Connection) -> None:
        request = await connection.read()
        if request.path.startswith("/debug/"):
            await connection.reply(self._debug(request))
            return
        document = discover(self.cluster.table, request.path) if request.method == "GET" else None
        if document is not None:
            await connection.reply(Answer(encode(document)))
            return
        schemas = openapi(self.cluster.table, request.path, request.accept) if request.method == "GET" else None
        if schemas is not None:
            await connection.reply(Answer(schemas[0], media_type=schemas[1].encode()))
            return
        if request.path in ("/healthz", "/livez", "/readyz"):
            await connection.reply(Answer(b"ok", media_type=b"text/plain"))
            return
        await self._serve_resource(connection, request)

    async def _serve_resource(self, connection: Connection, request: Request) -> None:
        plan = self.faults.plan(request.methods(self.cluster.table), request.full_path, request.agent)
        if plan.delay:
            await self._sleep(plan.delay)
        if plan.has("drop-before"):
            await connection.abort()
            return
        refusal = plan.refusal()
        if refusal is not None:
            error, headers = refusal
            await connection.reply(Answer(encode(error.body), error.code, headers=headers))
            return
        if plan.has("interim"):
            connection.hint_early()
        result, table = self._answer(request, plan), self._table(request)
        if plan.has("drop-after"):
            await connection.abort()
        elif plan.has("silence"):
            await self._say_nothing(connection)
        elif plan.has("garbage"):
            await connection.reply(Answer(GARBAGE, media_type=b"text/html"))
        elif plan.has("cut") and isinstance(result, Answer):
            await connection.reply_in_part(result)
        elif isinstance(result, WatchOptions):
            await self._watch(connection, request, result, plan, table)
        elif table is not None and result.status == 200:
            await connection.reply(replace(result, body=table.body(result.body)))
        else:
            await connection.reply(result)

    def _table(self, request: Request) -> TableWriter | None:
        """What turns the answer into a table, if the client asked for one."""
        if request.method != "GET" or not wants_table(request.accept):
            return None
        target = self.cluster.table.resolve(request.path)
        if target is None or target.subresource == "scale":
            return None
        return TableWriter(target.resource, self.cluster.clock, request.query.get("includeObject", "Metadata"))

    def _answer(self, request: Request, plan: Plan) -> Answer | WatchOptions:
        target = self.cluster.table.resolve(request.path)
        if target is None:
            raise errors.unknown_resource()
        try:
            return answer(self.cluster, target, request, behind=plan.behind, page=plan.page)
        except ApiError as error:
            # Not raised further: the write may be the one whose answer a fault drops.
            return Answer(encode(error.body), error.code)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._closing.wait(), seconds)
        except TimeoutError:
            return

    async def _say_nothing(self, connection: Connection) -> None:
        """Until the client gives up, or the server stops."""
        gone = asyncio.create_task(connection.when_gone(lambda: None))
        closing = asyncio.create_task(self._closing.wait())
        await asyncio.wait({gone, closing}, return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        gone.cancel()
        await connection.abort()

    def _debug(self, request: Request) -> Answer:
        if request.path == "/debug/faults":
            if request.method == "POST":
                self.faults.load(request.body)
            elif request.method == "DELETE":
                self.faults.clear()
            return Answer(encode(self.faults.as_list()))
        if request.path == "/debug/compact" and request.method == "POST":
            for collection in self.cluster.store:
                collection.forget_history()
            return Answer(b"{}")
        raise errors.unknown_resource()

    async def _watch(
        self, connection: Connection, request: Request, options: WatchOptions, plan: Plan, table: TableWriter | None
    ) -> None:
        watcher, store = Watcher(options), self.cluster.store
        await connection.start_stream()
        try:
            watcher.start(store.collection(options.resource), store.revision)
        except ApiError as error:
            await connection.end_stream([error_line(error)])
            return
        self._watchers[watcher] = request.agent
        if self._closing.is_set():
            watcher.close()
        gone = asyncio.create_task(connection.when_gone(watcher.abandon))
        try:
            await self._pump(connection, watcher, plan.on_watch(), table)
        finally:
            self._watchers.pop(watcher, None)
            gone.cancel()

    def _next_bookmark(self, now: float, deadline: float) -> float:
        """Every so often, and as kube-apiserver does it two seconds before the end."""
        regular, last = now + self.bookmark_seconds, deadline - _LAST_BOOKMARK
        return last if now < last < regular else regular

    async def _pump(
        self, connection: Connection, watcher: Watcher, faults: WatchFaults, table: TableWriter | None
    ) -> None:
        clock = asyncio.get_running_loop().time
        deadline = clock() + watcher.options.timeout
        bookmark_at = self._next_bookmark(clock(), deadline) if watcher.options.bookmarks else deadline
        while not watcher.finished and not faults.ending:
            lines = faults.spoil(await watcher.take(max(0.0, min(deadline, bookmark_at) - clock())))
            if lines:
                await connection.send_lines(table.lines(lines) if table else lines)
            if watcher.options.bookmarks and clock() >= min(bookmark_at, deadline):
                watcher.bookmark(self.cluster.store.revision)
                bookmark_at = self._next_bookmark(clock(), deadline)
            if clock() >= deadline:
                watcher.close()
        if faults.ending == "stall":
            while not watcher.finished:
                await watcher.take(60.0)
        if faults.ending == "drop":
            await connection.abort()
        else:
            await connection.end_stream(faults.farewell())

"""kube-scheduler's verbs: filter, prioritize, preempt, bind.

    bytes --http/protocol.py--> body --extender_args.py--> request --runtime--> answer --encode.py--> bytes

This is the hot path: kube-scheduler's scheduling loop stands still while filter is answered. Hence no pydantic, no
thread pool, no task, and nothing that blocks, except for bind, which kube-scheduler calls beside its loop.

A replica that is not ready closes the connection with its answer. Otherwise kube-scheduler, which keeps a connection as
long as it is used, would go on asking a replica that no longer leads, whatever the Service says.

How a verb fails depends on what kube-scheduler reads. filter and bind always answer 200 with their Error field, as
kube-scheduler discards the body of anything else. prioritize and preempt have no such field and answer 4xx or 5xx.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import NamedTuple

import structlog

from algorithm.reasons import Code
from extender.scheduling.events import BindAnswer
from extender.server.runtime import Runtime
from extender.web.errors import BadRequest, error_body
from extender.web.limits.budget import Budget
from extender.web.pages.metrics import Metrics
from extender.web.verbs.encode import (
    encode_bind,
    encode_bind_error,
    encode_filter,
    encode_filter_error,
    encode_preempt,
    encode_prioritize,
)
from extender.web.verbs.extender_args import decode_bind, decode_filter, decode_preempt

#: Path prefixes of the verbs; users of HiveD have configured the second one.
PREFIXES = ("", "/v1/extender")

_log = structlog.get_logger(__name__)


class Unavailable(Exception):  # noqa: N818
    """The verb cannot be served now, and its answer has no field to say so: 503, with the text for logs."""


class Reply(NamedTuple):
    """An answer, in JSON. `close`: the connection is closed after it."""

    status: int
    body: bytes
    close: bool


class Verb(NamedTuple):
    """One verb: `serve` returns the answer or a future of it; `encode_error` makes a 200 of an error (None: not
    possible).

    Decoding a body blocks the event loop, so a verb accepts no larger body than it needs: `part` of
    server.max_body_mib, or 1 MiB if that is more.
    """

    name: str
    serve: Callable[[Runtime, bytes], bytes | Future[BindAnswer]]
    encode_error: Callable[[str], bytes] | None
    part: float = 1.0

    def largest(self, max_body: int) -> int:
        """Bytes that a body of this verb may have if `max_body` is the limit for any verb."""
        return min(max_body, max(int(max_body * self.part), 1 << 20))


def _filter(runtime: Runtime, body: bytes) -> bytes:
    """Answer filter: decode pod and nodes, ask the engine which nodes take the pod, encode the nodes and the
    refusals."""
    offer = decode_filter(body, runtime.reader)
    return encode_filter(runtime.filter(offer.pod, offer.nodes), offer)


def _prioritize(runtime: Runtime, body: bytes) -> bytes:
    """Answer prioritize: decode pod and nodes, encode the score of each node."""
    offer = decode_filter(body, runtime.reader)
    return encode_prioritize(runtime.prioritize(offer.pod, offer.nodes), offer.nodes)


def _preempt(runtime: Runtime, body: bytes) -> bytes:
    """Answer preempt: decode pod and candidates, encode the victims to evict on each node.

    Raises Unavailable if the engine cannot decide, since the answer has no field for an error; BadRequest if the UID
    is that of a pod of another name.
    """
    request = decode_preempt(body, runtime.reader)
    answer = runtime.preempt(request.pod, request.candidates)
    if answer.error and answer.reason is not None and answer.reason.code is Code.BAD_REQUEST:
        raise BadRequest(answer.reason.text, "Pod.metadata.uid")
    if answer.error:
        raise Unavailable(answer.reason.text if answer.reason else "extender cannot tell whom to evict")
    return encode_preempt(answer, request)


def _bind(runtime: Runtime, body: bytes) -> Future[BindAnswer]:
    """Start bind. The future completes when the outcome of the binding is known."""
    return runtime.bind(*decode_bind(body))


VERBS = (
    Verb("filter", _filter, encode_filter_error),
    Verb("prioritize", _prioritize, None),
    # Victims by UID, as many as are accepted, are 5 MB; full victims come only for the few nodes that were tried.
    Verb("preempt", _preempt, None, part=1 / 4),
    Verb("bind", _bind, encode_bind_error, part=0),
)


class VerbHandler:
    """Serves one verb with `runtime`. It never raises, and always answers; a body may have `max_body` bytes."""

    def __init__(self, verb: Verb, runtime: Runtime, metrics: Metrics, max_body: int, bodies: Budget) -> None:
        self.max_body = max_body
        self.bodies = bodies
        self._verb = verb
        self._runtime = runtime
        self._observe = metrics.observe

    def takes(self, length: bytes) -> bool:
        """Whether to wait for a body with this Content-Length, given as it was sent."""
        return length.isdigit() and int(length) <= self.max_body

    def answer(self, body: bytes, done: Callable[[Reply], None], later: Callable[..., object]) -> None:
        """Serve the verb, and call `done` with the answer.

        It is called before this returns, or, if the answer comes later, by `later(done, answer)` from the thread that
        has it.
        """
        started = perf_counter()
        try:
            served = self._verb.serve(self._runtime, body)
        except Exception as error:
            done(self._reply(*self._refusal(error), started))
            return
        if isinstance(served, bytes):
            done(self._reply(200, served, started))
        else:
            served.add_done_callback(partial(self._answer_later, started, done, later))

    def _answer_later(
        self,
        started: float,
        done: Callable[[Reply], None],
        later: Callable[..., object],
        outcome: Future[BindAnswer],
    ) -> None:
        reply = self._bound(outcome, started)
        with suppress(RuntimeError):  # the event loop has ended, and its connections with it
            later(done, reply)

    def refuse(self, error: BadRequest, started: float | None = None) -> Reply:
        """The answer to a request whose body is given up. If the body came too slowly, the connection is closed,
        too."""
        reply = self._reply(*self._refusal(error), perf_counter() if started is None else started)
        return reply._replace(close=reply.close or error.status == 408)

    def refuse_disconnected(self, started: float) -> Reply:
        """The answer to a request whose client disconnected before the end of the body: it counts, nobody reads it."""
        error = self._error(400, "body: connection closed before its end", "body")
        return self._reply(*error, started)

    def _bound(self, outcome: Future[BindAnswer], started: float) -> Reply:
        try:
            return self._reply(200, encode_bind(outcome.result()), started)
        except Exception as error:
            return self._reply(*self._refusal(error), started)

    def _reply(self, status: int, body: bytes, started: float) -> Reply:
        self._observe(self._verb.name, status, perf_counter() - started)
        return Reply(status, body, close=not self._runtime.serves)

    def _refusal(self, error: Exception) -> tuple[int, bytes]:
        """Status and body of the answer to an error."""
        name = self._verb.name
        match error:
            case BadRequest():
                _log.warning("bad_request", verb=name, field=error.field, error=error.text)
                return self._error(error.status, error.text, error.field)
            case Unavailable():
                return 503, error_body(503, str(error), None)
        _log.error("verb_failed", verb=name, exc_info=error)
        return self._error(500, f"extender failed to serve {name}: {type(error).__name__}; its log says more", None)

    def _error(self, status: int, text: str, field: str | None) -> tuple[int, bytes]:
        if self._verb.encode_error is None:
            return status, error_body(status, text, field)
        return 200, self._verb.encode_error(text)


class Verbs:
    """All verbs under all prefixes; a body may have `max_body` bytes. `endpoints` maps each path to its handler.

    `bodies` is the budget of all incomplete bodies. There are none without a `runtime`.
    """

    def __init__(self, runtime: Runtime | None, metrics: Metrics, *, max_body: int, bodies: Budget) -> None:
        self.endpoints: dict[str, VerbHandler] = {}
        if runtime is None:
            return
        served = {verb.name: VerbHandler(verb, runtime, metrics, verb.largest(max_body), bodies) for verb in VERBS}
        self.endpoints = {f"{prefix}/{name}": served[name] for prefix in PREFIXES for name in served}

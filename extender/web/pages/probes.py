"""Probes of the kubelet and of load balancers, without FastAPI: they are asked before anything else is.

Alive means that the process is worth keeping. Ready means that its answers are right: every informer has delivered,
every bound pod is known again, and this replica leads. Informed is a standby that knows everything and could lead at
once. The roll-out of a Deployment and a PodDisruptionBudget count the informed replicas; calls go to the ready one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from extender.server.views import Readiness, Served
from extender.server.watchdog import where
from extender.web.errors import JSON, error_body
from extender.web.limits.budget import Budget, Budgets
from extender.web.limits.turnstile import Turnstile
from extender.web.pages.metrics import Metrics, encoder

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


log = structlog.get_logger(__name__)

#: Seconds more that an event loop may stand still than a decision: a loop that waits for one is no cause of its own.
_SLACK: Final = 5.0
#: Bytes that wait for all clients of the health port together: probes have no bodies, and metrics are some 100 KB.
_BODIES: Final = 4 << 20
_ANSWERS: Final = 16 << 20


class Pulse:
    """The heartbeat of an event loop, for another thread to see that it moves. `clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at: float | None = None
        self.thread = 0

    def beat(self) -> None:
        """Call it in the loop, once a second."""
        self._at, self.thread = self._clock(), threading.get_ident()

    def age(self) -> float:
        """Seconds since the last beat; 0.0 before the first one."""
        return 0.0 if self._at is None else self._clock() - self._at


class Probes:
    """The three probes. Each returns whether all is well, and a text: why not, or what an operator should look at.

    `readiness_warning` returns what an operator should look at although the server is ready. `hang`: seconds for which
    the event loop of `pulse` may stand still; 0: for ever. No probe waits for a lock of the engine.
    """

    def __init__(
        self,
        served: Served,
        readiness_warning: Callable[[], str] = str,
        *,
        others: Mapping[str, Served] | None = None,
        hang: float = 0.0,
        pulse: Pulse | None = None,
    ) -> None:
        self._served = served
        self._readiness_warning = readiness_warning
        self._hang = hang
        self._hangs = False
        self.pulse = pulse or Pulse()
        self._others = dict(others or {})
        self.by_path = {"/livez": self.alive, "/readyz": self.ready, "/readyz/informed": self.informed}
        for name in self._others:
            self.by_path[f"/readyz/{name}"] = partial(self._other_ready, name)

    def alive(self) -> Readiness:
        found = self._served.liveness()
        for other in self._others.values():
            found = other.liveness() if found.ready else found
        return _explained("alive", found if not found.ready else self._moving())

    def _moving(self) -> Readiness:
        """Whether the event loop moves. The log says once where it hangs."""
        seconds = self.pulse.age()
        hangs = 0 < self._hang <= seconds - _SLACK
        if hangs and not self._hangs:
            log.error("the event loop hangs, /livez fails", seconds=round(seconds, 1), **where(self.pulse.thread))
        self._hangs = hangs
        return Readiness(not hangs, f"the event loop of HTTP has stood still for {seconds:.0f} s" if hangs else "")

    def ready(self) -> Readiness:
        found = _explained("ready", self._served.readiness())
        if not found.ready:
            return found
        texts = (found.detail, self._readiness_warning(), *self._warnings())
        return Readiness(True, "; ".join(text for text in texts if text))

    def _warnings(self) -> Iterator[str]:
        """What is wrong with all that is served beside what makes this server ready."""
        for name, other in self._others.items():
            if other is not self._served and (detail := other.readiness().detail):
                yield f"{name}: {detail}"

    def _other_ready(self, name: str) -> Readiness:
        """Whether claims, or vpods, are served: by every replica, whether it leads or not."""
        return _explained("ready", self._others[name].readiness(), f"{name} are")

    def informed(self) -> Readiness:
        return _explained("informed", self._served.informed())


def _explained(what: str, found: Readiness, who: str = "extender is") -> Readiness:
    return found if found.ready else Readiness(False, f"{who} not {what}: {found.detail}")


async def send_probe(send: Send, found: Readiness) -> None:
    """Send the answer to a probe, as FastAPI would."""
    if found.ready:
        await send_answer(send, 200, msgspec.json.encode({"status": "ok", "detail": found.detail}), JSON.encode())
    else:
        await send_answer(send, 503, error_body(503, found.detail, None), JSON.encode())


async def send_answer(send: Send, status: int, body: bytes, content_type: bytes) -> None:
    """Send a complete answer."""
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", content_type)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ProbesOnly:
    """The app of the health port: what any caller may see, probes and metrics, read-only.

    It shares no event loop with the app of the verbs, so that it answers while that one hangs.
    """

    PATHS = frozenset({"/livez", "/readyz", "/readyz/informed", "/metrics"})
    #: And those that only servers of claims or vpods have.
    OPEN_PATHS = PATHS | {"/readyz/claims", "/readyz/vpods"}

    def __init__(self, probes: Probes, metrics: Metrics) -> None:
        self._probes = probes.by_path
        self._metrics = metrics
        self.budgets = Budgets(Budget(_BODIES), Budget(_ANSWERS))
        self._turnstile = Turnstile()
        self._one_at_a_time = asyncio.Lock()
        #: Scrapes that wait to begin, by content type: those who ask for the same meanwhile share one.
        self._waiting: dict[str, asyncio.Task[bytes]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - no body is read
        path, method = scope["path"], scope["method"]
        if (path != "/metrics" and path not in self._probes) or method not in ("GET", "HEAD"):
            paths = ", ".join(sorted((*self._probes, "/metrics")))
            text = f"this port has GET {paths}\n".encode()
            await send_answer(send, 404, text, b"text/plain; charset=utf-8")
            return
        if method == "HEAD":
            await send_answer(send, 405, b"", b"text/plain; charset=utf-8")
            return
        who = ((scope.get("client") or ("",))[0], path)
        await self._turnstile.enter(who)
        if path == "/metrics":
            body, content_type = await self._scrape(dict(scope["headers"]).get(b"accept", b"").decode("latin-1"))
            await send_answer(send, 200, body, content_type.encode())
            return
        found = self._probes[path]()
        await self._turnstile.enter(who)  # answers take turns, too
        await send_probe(send, found)

    async def _scrape(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = encoder(accept)
        task = self._waiting.get(content_type)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._encode(content_type, partial(encode, self._metrics.registry))
            )
            self._waiting[content_type] = task
        return await asyncio.shield(task), content_type

    async def _encode(self, content_type: str, encode: Callable[[], bytes]) -> bytes:
        async with self._one_at_a_time:
            del self._waiting[content_type]
            return await asyncio.get_running_loop().run_in_executor(None, encode)

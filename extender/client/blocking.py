"""The same client for programs without asyncio: all calls run in an event loop in one background thread.

So there is one implementation, and Ctrl-C in a call cancels its request as a cancellation does. The thread starts with
the first call. It ends when no call runs and no claim is held, or with the process.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from extender.client.claimed import ClaimedPods
from extender.client.errors import ClaimLostError
from extender.client.holding import Claim
from extender.client.records import ClaimRecord, Plan, PoolStatus
from extender.client.transport import Tls
from extender.client.waggle import LEASE, Pool, Waggle

_T = TypeVar("_T")


class _Loop:
    """An event loop in a thread, which runs while it has users. `finish` is awaited in it before it ends."""

    def __init__(self, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._finish = finish
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(self._loop,), name="waggle-client", daemon=True).start()

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users or self._loop is None:
                return
            try:
                self.do(self._finish())
            finally:
                loop, self._loop = self._loop, None
                loop.call_soon_threadsafe(loop.stop)

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the coroutine in the loop, and return its result. An exception here, such as Ctrl-C, cancels it."""
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class SyncWaggle:
    """`Waggle` for threads, with the same arguments. Any thread may use it."""

    def __init__(
        self, url: str, *, token: str | Callable[[], str] = "", tls: Tls | None = None, http: Any = None
    ) -> None:
        self._waggle = Waggle(url, token=token, tls=tls, http=http)
        self._loop = _Loop(self._waggle.finish)

    def __enter__(self) -> Self:
        self._loop.enter()
        self._loop.do(self._waggle.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.do(self._waggle.__aexit__(None, None, None))
        finally:
            self._loop.leave()

    def pool(self, namespace: str, name: str) -> SyncPool:
        """Return a pool. Nothing is sent: only the first request shows whether the pool exists."""
        return SyncPool(self, self._waggle.pool(namespace, name))

    def pools(self, namespace: str = "") -> tuple[PoolStatus, ...]:
        """Return the status of all pools, or of those in a namespace. Raises WaggleError."""
        return self.do(self._waggle.pools(namespace))

    def get(self, claim: str) -> ClaimRecord:
        """Return a claim by its id. Raises WaggleError: NotFoundError if there is none."""
        return self.do(self._waggle.get(claim))

    def renew(self, claim: str, lease: float = 0.0) -> ClaimRecord:
        """Renew a claim for `lease` seconds from now; 0: the pool's `lease_seconds`. Raises WaggleError."""
        return self.do(self._waggle.renew(claim, lease))

    def release(self, claim: str) -> None:
        """Release a claim. It is no error if the claim has already ended. Raises WaggleError."""
        self.do(self._waggle.release(claim))

    def plan(
        self,
        manifests: str = "",
        *,
        objects: Sequence[Mapping[str, object]] = (),
        changes: Mapping[str, object] | None = None,
        timeout: float = 90.0,
    ) -> Plan:
        """Return what would happen if these objects were created; see `Waggle.plan`. Raises WaggleError."""
        return self.do(self._waggle.plan(manifests, objects=objects, changes=changes, timeout=timeout))

    def do(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine of the client, and return its result."""
        self.enter()
        try:
            return self._loop.do(work)
        finally:
            self.leave()

    def enter(self) -> None:
        """Keep the thread running until `leave`."""
        self._loop.enter()

    def leave(self) -> None:
        """Undo `enter`. The last user waits for running cancellations and releases."""
        self._loop.leave()


class SyncPool:
    """`Pool` for threads."""

    def __init__(self, waggle: SyncWaggle, pool: Pool) -> None:
        self._waggle = waggle
        self._pool = pool

    def status(self) -> PoolStatus:
        """Return the pool's present status. Raises WaggleError: NotFoundError if there is no such pool."""
        return self._waggle.do(self._pool.status())

    def claim(
        self,
        *,
        timeout: float = 30.0,
        count: int = 1,
        key: str = "",
        requires: Mapping[str, str] | None = None,
        images: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        tenant: str | None = None,
        priority: int = 0,
        lease: float = LEASE,
        on_empty: Literal["wait", "fail", "cold"] = "wait",
        on_lost: Callable[[ClaimLostError], object] | None = None,
    ) -> SyncClaim:
        """Return a claim to use as `with ... as pod`; see `Pool.claim`. `on_lost` is called in the client's thread."""
        was_lost = threading.Event()

        def tell(lost: ClaimLostError) -> None:
            was_lost.set()
            if on_lost is not None:
                on_lost(lost)

        found = self._pool.claim(
            timeout=timeout,
            count=count,
            key=key,
            requires=requires,
            images=images,
            labels=labels,
            annotations=annotations,
            tenant=tenant,
            priority=priority,
            lease=lease,
            on_empty=on_empty,
            on_lost=tell,
        )
        return SyncClaim(self._waggle, found, was_lost)


class SyncClaim(ClaimedPods):
    """`Claim` for threads: a context manager, for one use."""

    def __init__(self, waggle: SyncWaggle, claim: Claim, was_lost: threading.Event) -> None:
        self._waggle = waggle
        self._claim = claim
        self._was_lost = was_lost

    def __enter__(self) -> Self:
        self._waggle.enter()
        try:
            self._waggle.do(self._claim.__aenter__())
        except BaseException:
            self._waggle.leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._waggle.do(self._claim.__aexit__(kind, error, trace))
        finally:
            self._waggle.leave()

    @property
    def record(self) -> ClaimRecord:
        """The server's last answer about the claim. Raises RuntimeError outside of the block."""
        return self._claim.record

    @property
    def lost(self) -> ClaimLostError | None:
        """Why the claim was lost; None while it is held."""
        return self._claim.lost

    def wait_lost(self, seconds: float) -> ClaimLostError | None:
        """Wait until the claim is lost, for `seconds` at most. Return why; None if it is not lost."""
        if self._was_lost.wait(seconds):
            return self.lost
        return None

    def check(self) -> None:
        """Raise ClaimLostError if the claim is lost."""
        self._claim.check()

    def keep(self) -> None:
        """Do not release the claim at the end of the block."""
        self._claim.keep()

"""Leader election by a Lease (coordination.k8s.io/v1): the thread that carries out the decisions of `election.py`.

    Elector thread: look, take, renew, release --> changed(status)     on that thread, must be quick
    any thread:     remaining(term) -----------> seconds for which this term surely lasts

`remaining` is the fence. It reads a clock when it is called, so it is right even if the thread hangs in a call, or if
the whole process was suspended and no thread has noticed. Once it has returned 0 for a term, it always does. Every call
to the API server is bounded in time. On `stop` the Lease is released, so that another replica need not wait.
"""

from __future__ import annotations

import math
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from extender.kube.client import bounds
from extender.kube.client.api import ApiError, ApiServer, Exchange, Request, Response
from extender.kube.lease.election import Action, Election, LeaseTiming, Record, Seen, Wait, Write

log = structlog.get_logger(__name__)

#: Returns the seconds for which a term certainly lasts; 0 if it has expired or was never ours.
Fence = Callable[[int], float]

#: leaseDurationSeconds of a released Lease: what client-go's elector writes, with an empty holder, when it leaves.
_RELEASED_SECONDS = 1
#: The Lease's numbers are of 32 bits; a term must leave room for many after it.
_HIGHEST = 2**30
_GROUP = "/apis/coordination.k8s.io/v1"
#: The annotation that holds a releasing leader's note.
_NOTE = "waggle.dev/handover"


def no_fence(_term: int) -> float:
    """The fence of a server that runs without leader election."""
    return math.inf


def awake_or_not() -> float:
    """Seconds of a clock that never goes back and, where there is one, also runs while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def unique_identity(prefix: str = "") -> str:
    """An identity that no other process has, including earlier runs of this one. Without a prefix it begins with the
    host's name."""
    return f"{prefix or socket.gethostname()}_{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class LeaderStatus:
    """The leadership as this replica sees it: the term that it leads in (0: it does not lead), the holder of the Lease
    when last seen ("": none), and why the Lease cannot be read or written ("": it can). `note` is what the previous
    leader left for this one."""

    term: int = 0
    holder: str = ""
    trouble: str = ""
    note: str = ""


# -- the Lease as the API server has it ----------------------------------------------------------------------------


class _RefusedError(Exception):
    """409 or 404: nothing was written, look again."""


class _FailedError(Exception):
    """The request had no usable result."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class LeaseObject:
    """Reads and writes one Lease. Keeps what others put on it (labels, owners). Raises the two errors above."""

    def __init__(
        self,
        call: Callable[[str, str, bytes | None], Response],
        *,
        namespace: str,
        name: str,
        identity: str,
        seconds: float,
        wall_clock: Callable[[], datetime],
    ) -> None:
        self._call = call
        self._collection = f"{_GROUP}/namespaces/{quote(namespace, safe='')}/leases"
        self._path = f"{self._collection}/{quote(name, safe='')}"
        self._metadata = {"namespace": namespace, "name": name}
        self._identity = identity
        self._seconds = math.ceil(seconds)
        self._wall_clock = wall_clock
        self._last_stamp = datetime.fromtimestamp(0, UTC)
        self._found: dict[str, Any] = {}
        #: The note for the next leader, written with a release.
        self.note = ""

    def read(self) -> Seen:
        """Read the Lease; a Seen without a record if there is none."""
        response = self._asked("GET", self._path, None)
        if response.status == 404:
            return Seen()
        if response.status != 200:
            raise _failure(response)
        return self._seen(response)

    def write(self, write: Write) -> Seen:
        """Create or update the Lease. Raises _RefusedError if it has changed since `write.base`."""
        body = msgspec.json.encode(self._written(write))
        if write.creates:
            response = self._asked("POST", self._collection, body)
        else:
            response = self._asked("PUT", self._path, body)
        if response.status in (404, 409):
            raise _RefusedError(response.message)
        if not response.ok:
            raise _failure(response)
        return self._seen(response)

    def _asked(self, method: str, path: str, body: bytes | None) -> Response:
        try:
            return self._call(method, path, body)
        except ApiError as error:
            raise _FailedError(str(error)) from error

    def _seen(self, response: Response) -> Seen:
        try:
            found = msgspec.json.decode(response.body, type=dict[str, Any])
            metadata = found["metadata"]
            version, uid = metadata["resourceVersion"], metadata["uid"]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as error:
            raise _FailedError(f"the answer is no Lease: {bounds.cut(repr(error))}") from error
        if not (isinstance(version, str) and version):
            raise _FailedError("the Lease has no resourceVersion")
        self._found = found
        note = _mapping(_mapping(metadata).get("annotations")).get(_NOTE)
        return Seen(record_of(found.get("spec"), note), version, str(uid))

    def _written(self, write: Write) -> dict[str, Any]:
        # The UID also keeps the API server from recreating the Lease: an update creates Leases that do not exist.
        spec: dict[str, Any] = {"leaseDurationSeconds": self._seconds, "leaseTransitions": write.term}
        if write.creates:
            return _lease(self._metadata, spec)
        spec |= {"holderIdentity": self._identity, "renewTime": self._stamp()}
        if write.release:
            spec |= {"holderIdentity": "", "leaseDurationSeconds": _RELEASED_SECONDS}
        if write.base.record and write.base.record.term != write.term:
            spec["acquireTime"] = spec["renewTime"]
        metadata = _mapping(self._found.get("metadata"))
        annotations = {name: text for name, text in _mapping(metadata.get("annotations")).items() if name != _NOTE}
        if write.release and self.note:
            annotations[_NOTE] = self.note
        known = {"resourceVersion": write.base.version, "uid": write.base.uid, "annotations": annotations}
        return _lease(metadata | known, _mapping(self._found.get("spec")) | spec)

    def _stamp(self) -> str:
        """A timestamp that never repeats: other replicas recognize a renewal by its change, even if our wall clock
        stands still."""
        self._last_stamp = max(self._wall_clock(), self._last_stamp + timedelta(microseconds=1))
        return self._last_stamp.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def record_of(spec: Any, note: Any = "") -> Record:
    """Read a Lease's spec; an invalid field counts as absent. Only a released Lease has a note."""
    said = _mapping(spec)
    holder, term, seconds = said.get("holderIdentity"), said.get("leaseTransitions"), said.get("leaseDurationSeconds")
    released = holder in ("", None) and _count(seconds) == _RELEASED_SECONDS and bool(said.get("renewTime"))
    return Record(
        holder=holder if isinstance(holder, str) else "",
        term=_count(term),
        duration=float(_count(seconds)),
        beat=f"{said.get('renewTime')} {said.get('acquireTime')}",
        released=released,
        note=note if released and isinstance(note, str) else "",
    )


def _count(value: Any) -> int:
    """The value as a number. A number so high that the API server would accept none after it counts as absent."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _HIGHEST else 0


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _lease(metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def _failure(response: Response) -> _FailedError:
    return _FailedError(f"{response.status} {response.message}", response.retry_after or 0.0)


# -- the fence -----------------------------------------------------------------------------------------------------


class LeaderTerm:
    """The present term and its deadline. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._term = 0
        self._deadline = -math.inf

    def remaining(self, term: int) -> float:
        """Seconds for which the term certainly lasts; 0 if it has expired or is not the present one."""
        with self._lock:
            if term != self._term:
                return 0.0
            return max(0.0, self._left())

    def hold(self, term: int, deadline: float) -> bool:
        """Begin a term, or extend the present one. Returns False if the term has expired already: other threads may
        know that."""
        with self._lock:
            if term == self._term and self._left() <= 0:
                return False
            self._term, self._deadline = term, deadline
            return True

    def end(self) -> None:
        """End the term now."""
        with self._lock:
            self._deadline = -math.inf

    def _left(self) -> float:
        left = self._deadline - self._clock()
        if left <= 0:
            self._deadline = -math.inf  # for good, even if a response that extends it is on its way
        return left


# -- the thread ----------------------------------------------------------------------------------------------------


class Elector:
    """Takes part in the election from `start` to `stop`."""

    def __init__(
        self,
        api: ApiServer,
        *,
        namespace: str,
        name: str,
        identity: str,
        changed: Callable[[LeaderStatus], None],
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = awake_or_not,
        wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: random.Random | None = None,
    ) -> None:
        self._api = api
        self._changed = changed
        self._timing = timing or LeaseTiming()
        self._clock = clock
        self._election = Election(identity, self._timing, rng or random.Random())  # noqa: S311  spreads load only
        self._lease = LeaseObject(
            self._request,
            namespace=namespace,
            name=name,
            identity=identity,
            seconds=self._timing.lease,
            wall_clock=wall_clock,
        )
        self._term = LeaderTerm(clock)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._exchange: Exchange | None = None
        self._leaving = False
        self._trouble = ""
        self.status = LeaderStatus()
        self._thread = threading.Thread(target=self._run, name="waggle-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 5.0, *, note: str = "") -> None:
        """End the leadership, release the Lease if it is ours, end the thread. Waits at most `timeout` seconds.

        Writes of the term must have ended before this is called. `note` is for the next leader.
        """
        self._lease.note = note
        self._stop.set()
        self._term.end()
        with self._lock:
            if self._exchange is not None and not self._leaving:
                self._exchange.interrupt()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def remaining(self, term: int) -> float:
        """Seconds for which this term certainly lasts; 0 if it has expired. Once 0, always 0."""
        return self._term.remaining(term)

    def _run(self) -> None:
        """Carry out the actions of the election until `stop`, and then leave."""
        while not self._stop.is_set():
            action = self._election.step(self._clock())
            self._publish()
            if isinstance(action, Wait):
                self._stop.wait(max(0.0, action.until - self._clock()))
            else:
                self._carry_out(action)
                self._publish()
        self._leave()

    def _leave(self) -> None:
        self._leaving = True
        for _ in range(3):  # a look, a release, and both again if the first look came too early
            action = self._election.resign()
            if action is None or isinstance(action, Wait):
                break
            self._carry_out(action)
        self._publish()

    def _carry_out(self, action: Action) -> None:
        """Read or write the Lease, and pass the result to the election."""
        started = self._clock()
        try:
            if isinstance(action, Write):
                seen = self._lease.write(action)
                self._election.wrote(action, seen, started=started, now=self._clock())
            else:
                self._election.saw(self._lease.read(), self._clock())
            self._trouble = ""
        except _RefusedError:
            self._election.refused(self._clock())
        except _FailedError as error:
            self._failed(error, error.retry_after)
        except Exception as error:
            log.exception("lease: internal error")
            self._failed(error, 0.0)

    def _failed(self, error: Exception, retry_after: float) -> None:
        self._election.failed(self._clock(), retry_after=retry_after)
        if self._trouble != str(error):
            log.warning("the lease cannot be read or written", error=str(error), term=self._election.term)
        self._trouble = str(error)

    def _publish(self) -> None:
        """Update the fence and the status from the election, and report a change of status."""
        election = self._election
        if not election.term:
            self._term.end()
        elif not self._term.hold(election.term, election.deadline):
            election.lapse()
        note = election.note if election.term else ""
        status = LeaderStatus(election.term, bounds.cut(election.holder), self._trouble, note)
        before, self.status = self.status, status
        if status != before:
            self._notify(before, status)

    def _notify(self, before: LeaderStatus, status: LeaderStatus) -> None:
        if status.term != before.term:
            log.info("leads" if status.term else "leads no more", term=status.term or before.term)
        try:
            self._changed(status)
        except Exception:
            log.exception("lease: a listener failed")

    # -- calls, bounded in time -----------------------------------------------------------------------------------

    def _request(self, method: str, path: str, body: bytes | None) -> Response:
        request = Request(method, path, body=body, most=bounds.SMALL_OBJECT)
        exchange = self._api.exchange(request, timeout=self._patience())
        with self._lock:
            if self._stop.is_set() and not self._leaving:
                exchange.interrupt()
            self._exchange = exchange
        try:
            with exchange:
                return exchange.response()
        finally:
            with self._lock:
                self._exchange = None

    def _patience(self) -> float:
        """Time-out of one call: short enough for three attempts before a deadline, and never beyond it."""
        patience = self._timing.renew_deadline / 3
        left = self._election.deadline - self._clock()
        return max(0.05, min(patience, left)) if self._election.term else patience

"""Tracks the connections of one listener, and chooses those to evict to make room for others.

    accepted --> beginning: first message, TLS handshake --> open, no request completed --> completed one --> closed
                          |10 s                            |                              |
                          +--------------------------------+------------------------------+--> evicted, to make room

Promises: there are never more connections than `most`, and never more than `most_unfinished` that have not finished
their TLS handshake (without TLS: that have sent nothing). A new connection is accepted as long as any can be evicted.
The evicted one belongs to the peer address that has the most connections of the least use. So a client that floods a
port loses its own connections before any other client loses one.

An attacker may have the very address of kube-scheduler: hostNetwork, or a NAT between. So connections of one address
are ranked, too. They are evicted in this order, those of the same kind by age:

1. sent nothing, or half a first message; sent a whole one; in the handshake; open, never completed a request;
2. has requests waiting behind the one that is being answered, which Go's client never has;
3. completed its last request longest ago;
4. the same three for a peer whose certificate lets it call verbs: it goes after all that have none.

A connection with an answer in progress is not evicted, unless it is of the second kind, or one address has more than
half of all places and all of them have an answer in progress: answers that the peer does not take would keep the port
closed.

Everything runs in the event loop's thread. IPv6 addresses count by their /64, which is what one host has.
"""

from __future__ import annotations

import ipaddress
import math
import resource
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from extender.server.views import Metric
from extender.web.limits.rounds import Rounds

_log = structlog.get_logger(__name__)

#: Connections of one listener that have not begun. One takes some 50 KB once its handshake is under way.
MOST_UNFINISHED: Final = 256
#: Connections of the health port: kubelet, and some Prometheus servers.
MOST_OF_HEALTH: Final = 200
#: File descriptors that no listener gets: API server, configuration and certificate files, recordings, log.
RESERVED_DESCRIPTORS: Final = 200
#: The most file descriptors that are asked for: some systems offer a billion.
_MOST_DESCRIPTORS: Final = 65_536
#: A search for a victim looks at all connections, so it finds this share of `most` at once, if one address is at fault.
_BATCH: Final = 1 / 32
#: If useless connections are more than this share of `most`, they are why room is lacking, and the address that has the
#: most of them is at fault.
_USELESS: Final = 1 / 16


#: What an evicted connection had been used for: it had not begun, or had completed no request, or some.
USES: Final = ("beginning", "no_request", "idle")


#: Seconds before a new connection counts as useless, unless there are many.
_GRACE_SECONDS: Final = 1.0


class Served(Protocol):
    """What an HTTP connection reports about itself: protocol.py and http2.py."""

    @property
    def last_completed(self) -> float:
        """Loop time of its last complete answer; minus infinity before the first."""

    @property
    def busy(self) -> bool:
        """Whether a complete request was received and its answer is not complete."""

    @property
    def has_backlog(self) -> bool:
        """Whether further requests wait behind the one that is being answered, though it is HTTP/1.1."""

    @property
    def trusted(self) -> bool:
        """Whether the peer's certificate lets it call verbs."""

    def renew(self) -> None:
        """Make the peer reconnect for its next request."""

    def abort(self) -> None:
        """End at once, whatever is in progress."""


@dataclass(eq=False, slots=True)
class Connection:
    """One connection, from when it was accepted."""

    address: str
    #: Loop time at which it was accepted.
    since: float
    #: Ends the connection before a protocol serves it. If there is nothing yet that could be ended, `given_up` is set
    #: instead.
    give_up: Callable[[], object] | None = None
    given_up: bool = False
    #: Its first message is complete; its handshake is under way.
    has_begun: bool = False
    started: bool = False
    served: Served | None = None
    #: The peer's certificate in DER, if one was requested.
    certificate: bytes = b""

    def abort(self) -> None:
        if self.served is not None:
            self.served.abort()
            return
        self.given_up = True
        if self.give_up is not None:
            self.give_up()


class Connections:
    """The connections of one listener; `most` and `most_unfinished` are numbers of connections."""

    def __init__(self, name: str, most: int, most_unfinished: int = MOST_UNFINISHED) -> None:
        self.name = name
        self.most = most
        self.most_unfinished = min(most_unfinished, most)
        #: Evictions by what the connection had been used for, one of USES.
        self.evicted: Counter[str] = Counter()
        #: Both in the order of arrival.
        self._unfinished: dict[Connection, None] = {}
        self._open: dict[Connection, None] = {}
        self._unfinished_by_address: Counter[str] = Counter()
        #: Unfinished connections by address: those whose first message is not complete, and those whose handshake has
        #: not begun.
        self._silent: Rounds[str, Connection] = Rounds()
        self._queued: Rounds[str, Connection] = Rounds()

    def __len__(self) -> int:
        return len(self._unfinished) + len(self._open)

    @property
    def unfinished(self) -> int:
        """How many have sent nothing, or have not finished their TLS handshake."""
        return len(self._unfinished)

    def open(self) -> list[Connection]:
        """Connections that are served."""
        return list(self._open)

    # -- adding and removing ------------------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """Whether a new connection is accepted only if another one is evicted."""
        return len(self) >= self.most

    def evictable(self, now: float) -> list[Connection]:
        """Connections of the least use, which may be evicted; empty if every one has an answer in progress."""
        idle = [connection for connection in (*self._unfinished, *self._open) if not _is_busy(connection)]
        at_fault = [connection for connection in idle if _is_unused(connection) and not _is_trusted(connection)]
        if len(at_fault) <= self.most * _USELESS:
            # These are few: they may be new connections, which need a moment.
            at_fault = self._of_who_has_most(now, [connection for connection in idle if _is_due(connection, now)])
        at_fault = [connection for connection in at_fault if not _is_trusted(connection)] or at_fault
        if not at_fault:
            return []
        [(heaviest, number)] = Counter(connection.address for connection in at_fault).most_common(1)
        candidates = sorted((connection for connection in at_fault if connection.address == heaviest), key=_usefulness)
        of_no_use = [connection for connection in candidates if _is_unused(connection)]
        batch = max(1, int(self.most * _BATCH))
        return of_no_use[:batch] or candidates[: batch if number > self.most // 2 else 1]

    def _of_who_has_most(self, now: float, at_fault: list[Connection]) -> list[Connection]:
        """Connections of the address that has more than half of all places, if there is one; answering ones as a last
        resort."""
        everyone = (*self._unfinished, *self._open)
        [(address, number)] = Counter(connection.address for connection in everyone).most_common(1)
        if number <= self.most // 2:
            return at_fault
        theirs = [connection for connection in everyone if connection.address == address and _is_due(connection, now)]
        least = min(map(_protection, theirs), default=None)
        return [connection for connection in theirs if _protection(connection) == least]

    def evict(self, connections: Iterable[Connection]) -> None:
        """End these connections to make room."""
        for connection in list(connections):
            self.evicted[_use(connection)] += 1
            self.abort_all([connection])

    def add(self, connection: Connection) -> None:
        """Add a connection that was accepted."""
        if len(self._unfinished) >= self.most_unfinished:
            self.evict([self._oldest_unfinished()])
        self._unfinished[connection] = None
        self._unfinished_by_address[connection.address] += 1
        self._silent.add(connection.address, connection)

    def began(self, connection: Connection) -> None:
        """Record that the first message is complete."""
        connection.has_begun = True
        self._silent.discard(connection.address, connection)
        self._queued.add(connection.address, connection)

    def start(self, connection: Connection) -> None:
        """Record that the handshake begins."""
        connection.started = True
        self._queued.discard(connection.address, connection)

    def finish(self, connection: Connection) -> None:
        """Record that the connection has begun: it is served from now on."""
        self._drop_unfinished(connection)
        self._open[connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection that has ended. May be called again."""
        self._drop_unfinished(connection)
        self._open.pop(connection, None)

    def overdue(self, before: float) -> list[Connection]:
        """Unfinished handshakes of connections that were accepted earlier than `before`."""
        found = []
        for connection in self._unfinished:
            if connection.since >= before:
                break
            found.append(connection)
        return found

    def abort_all(self, connections: Iterable[Connection]) -> None:
        for connection in list(connections):
            self.remove(connection)
            connection.abort()

    def abort_unfinished(self) -> None:
        """End all unfinished connections: the listener closes."""
        self.abort_all(self._unfinished)

    def _drop_unfinished(self, connection: Connection) -> None:
        if connection in self._unfinished:
            del self._unfinished[connection]
            self._unfinished_by_address[connection.address] -= 1
            if not self._unfinished_by_address[connection.address]:
                del self._unfinished_by_address[connection.address]
            self._silent.discard(connection.address, connection)
            self._queued.discard(connection.address, connection)

    # -- choosing victims ----------------------------------------------------------------------------------------------

    def _oldest_unfinished(self) -> Connection:
        """The oldest connection that waits for its first message, or that waits for its handshake to begin, whichever
        are more.

        A valid client waits for neither, unless others do in great number, and then it is not the oldest.
        """
        [(heaviest, _)] = self._unfinished_by_address.most_common(1)
        waiting = max((each.of(heaviest) for each in (self._silent, self._queued)), key=len)
        return next(iter(waiting)) if waiting else next(each for each in self._unfinished if each.address == heaviest)


def _is_unused(connection: Connection) -> bool:
    return _completed(connection) == -math.inf


def _is_due(connection: Connection, now: float) -> bool:
    """Whether it has had the time to be of use."""
    return not _is_unused(connection) or connection.since < now - _GRACE_SECONDS


def _is_busy(connection: Connection) -> bool:
    return connection.served is not None and connection.served.busy and not connection.served.has_backlog


def _is_trusted(connection: Connection) -> bool:
    return connection.served is not None and connection.served.trusted


def _protection(connection: Connection) -> tuple[bool, bool]:
    return _is_trusted(connection), _is_busy(connection)


def _completed(connection: Connection) -> float:
    return connection.served.last_completed if connection.served else -math.inf


def _usefulness(connection: Connection) -> tuple[object, ...]:
    """Sort key: the least useful connection comes first."""
    served = connection.served
    has_backlog = served is not None and served.has_backlog
    kind = (_is_trusted(connection), served is not None, not _is_unused(connection), not has_backlog)
    return *kind, _completed(connection), connection.has_begun, connection.started, connection.since


def _use(connection: Connection) -> str:
    if connection.served is None:
        return "beginning"
    return "no_request" if _is_unused(connection) else "idle"


def address_of(name: tuple[object, ...]) -> str:
    """The address by which a peer counts: its IP address, of IPv6 the first 64 bits."""
    text = str(name[0]).partition("%")[0]
    if ":" not in text:
        return text
    address = ipaddress.IPv6Address(text)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def connection_metrics(ports: Iterable[Connections]) -> list[Metric]:
    """Metrics of the connections of these ports. May be called from any thread."""
    now, evicted = [], []
    for port in ports:
        unfinished = port.unfinished
        now.append(({"port": port.name, "state": "beginning"}, float(unfinished)))
        now.append(({"port": port.name, "state": "open"}, float(len(port) - unfinished)))
        evicted += [({"port": port.name, "use": use}, float(port.evicted[use])) for use in USES]
    return [
        Metric(
            "waggle_connections",
            "gauge",
            "Connections, by whether they have begun: something was sent, and the TLS handshake is finished.",
            now,
        ),
        Metric(
            "waggle_connections_evicted_total",
            "counter",
            "Connections that were closed to make room for others, by what they had been used for.",
            evicted,
        ),
    ]


# -- file descriptors -------------------------------------------------------------------------------------------------


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one (at most 65,536); return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("the limit of open files cannot be raised", limit=soft, error=str(error))
        return soft
    return wanted


def shares(descriptors: int, wanted: int) -> tuple[int, int]:
    """How many connections port and health port may have if a process may have so many file descriptors.

    `wanted` is server.max_connections. The health port has a share of its own.
    """
    usable = max(descriptors - RESERVED_DESCRIPTORS, descriptors // 2)
    health = min(MOST_OF_HEALTH, usable // 4)
    most = min(wanted, usable - health)
    if most < wanted:
        _log.warning(
            "fewer connections than server.max_connections: too few open files are allowed",
            open_files=descriptors,
            connections=most,
            wanted=wanted,
        )
    return most, health

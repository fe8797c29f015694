"""Deterministic fault injection: rules that say which requests go wrong, and how. For tests and rehearsals.

A rule matches by method, path and client, lets its first `skip` matches pass, and then fires `times` times. Rules are
tried in order and several may fire on one request. Requests are counted in the order in which the server receives them,
so the same requests with the same rules fail in the same way.

    status            answer `status` (with `headers`, `message`); nothing is done
    delay             wait `seconds` first; it is done then, also if the client has hung up
    drop-before       close the connection without an answer; nothing is done
    drop-after        do it, then close the connection without an answer
    silence           do it, then never answer, and keep the connection open
    cut               do it, then close the connection in the midst of the answer
    interim           send two 103 Early Hints first, then do it and answer as always
    garbage           do it, then answer 200 with something that is not JSON, as a proxy's error page
    stale             get and list answer from `behind` revisions ago, as a lagging replica
    page              a list gives at most `after` objects at once, and a token for the rest
    watch-close       end the watch properly after `after` events
    watch-drop        cut the watch's connection after `after` events
    watch-stall       send nothing more after `after` events, and keep the connection open (half-open)
    watch-expire      after `after` events send 410 Expired and end the watch
    watch-duplicate   send event number `after` twice
    watch-swallow     never send event number `after`
    watch-late        send event number `after` only after the one that follows it
    watch-garbage     send half a line instead of event number `after`

Events are counted from 1 in each watch; bookmarks do not count.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import msgspec

from extender.embedded.apiserver.errors import ApiError, bad_request, expired
from extender.embedded.apiserver.watch import error_line

WatchAction = Literal[
    "watch-close",
    "watch-drop",
    "watch-stall",
    "watch-expire",
    "watch-duplicate",
    "watch-swallow",
    "watch-late",
    "watch-garbage",
]
Action = Literal[
    "status", "delay", "drop-before", "drop-after", "silence", "cut", "interim", "garbage", "stale", "page", WatchAction
]
#: What `garbage` answers.
GARBAGE = b"<html><body>Bad gateway</body></html>"
_BOOKMARK = b'{"type":"BOOKMARK"'
_ENDINGS: dict[str, str] = {
    "watch-close": "close",
    "watch-drop": "drop",
    "watch-stall": "stall",
    "watch-expire": "close",
}
_REASONS = {429: "TooManyRequests", 409: "Conflict", 410: "Expired", 404: "NotFound", 403: "Forbidden"}


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule; see the module for the actions."""

    action: Action
    #: GET, POST, ...; LIST or WATCH for a collection's GET; "" for any.
    method: str = ""
    #: Regular expression, searched in the path with its query.
    path: str = ""
    #: Regular expression, searched in the client's User-Agent.
    agent: str = ""
    skip: int = 0
    #: None: for ever.
    times: int | None = 1
    status: int = 500
    headers: dict[str, str] = {}
    message: str = "injected fault"
    seconds: float = 0.0
    after: int = 0
    behind: int = 1


@dataclass
class _Rule:
    fault: Fault
    seen: int = 0
    fired: int = 0

    def fires(self, methods: Sequence[str], path: str, agent: str) -> bool:
        fault = self.fault
        if fault.method and fault.method not in methods:
            return False
        if not (re.search(fault.path, path) and re.search(fault.agent, agent)):
            return False
        self.seen += 1
        if self.seen <= fault.skip or (fault.times is not None and self.fired >= fault.times):
            return False
        self.fired += 1
        return True


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes wrong with one request."""

    faults: tuple[Fault, ...] = ()

    @property
    def delay(self) -> float:
        return sum(fault.seconds for fault in self.faults if fault.action == "delay")

    @property
    def behind(self) -> int:
        return max((fault.behind for fault in self.faults if fault.action == "stale"), default=0)

    @property
    def page(self) -> int:
        """Most objects on one page of a list; 0: as many as the client asked for."""
        return min((fault.after for fault in self.faults if fault.action == "page"), default=0)

    def has(self, action: Action) -> bool:
        return any(fault.action == action for fault in self.faults)

    def refusal(self) -> tuple[ApiError, dict[str, str]] | None:
        """The answer that replaces the real one, with its headers."""
        for fault in self.faults:
            if fault.action == "status":
                reason = _REASONS.get(fault.status, "InternalError" if fault.status >= 500 else "BadRequest")
                return ApiError(fault.status, reason, fault.message), fault.headers
        return None

    def on_watch(self) -> WatchFaults:
        return WatchFaults([fault for fault in self.faults if fault.action in get_args(WatchAction)])


@dataclass
class WatchFaults:
    """Spoils the lines of one watch. `ending` becomes close, drop or stall when the watch has to end so."""

    faults: list[Fault]
    ending: str = ""
    _events: int = 0
    _late: bytes = b""

    def __post_init__(self) -> None:
        self._check_ending()

    def spoil(self, lines: list[bytes]) -> list[bytes]:
        """The lines that are sent instead of `lines`."""
        if not self.faults:
            return lines
        sent: list[bytes] = []
        for line in lines:
            if not self.ending:
                self._spoil_one(line, sent)
        return sent

    def farewell(self) -> list[bytes]:
        """What is sent before the end: the 410 of watch-expire."""
        if any(fault.action == "watch-expire" for fault in self.faults):
            return [error_line(expired("too old resource version: injected fault"))]
        return []

    def _spoil_one(self, line: bytes, sent: list[bytes]) -> None:
        if line.startswith(_BOOKMARK):
            sent.append(line)
            return
        self._events += 1
        actions = {fault.action for fault in self.faults if fault.after == self._events}
        if "watch-garbage" in actions:
            line = line[: len(line) // 2] + b"\n"
        if "watch-late" in actions:
            self._late = line
        elif "watch-swallow" not in actions:
            sent += [line, line] if "watch-duplicate" in actions else [line]
            if self._late:
                sent.append(self._late)
                self._late = b""
        self._check_ending()

    def _check_ending(self) -> None:
        for fault in self.faults:
            if fault.action in _ENDINGS and self._events >= fault.after:
                self.ending = _ENDINGS[fault.action]


class Faults:
    """The rules in force. May be changed from any thread."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()

    def add(self, *faults: Fault) -> None:
        with self._lock:
            self._rules.extend(_Rule(fault) for fault in faults)

    def inject(self, action: Action, **settings: Any) -> Fault:
        """Add one rule given by its fields."""
        fault = Fault(action=action, **settings)
        self.add(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def fired(self, fault: Fault | None = None) -> int:
        """How often one rule, or all of them together, made something go wrong."""
        with self._lock:
            return sum(rule.fired for rule in self._rules if fault is None or rule.fault is fault)

    def plan(self, methods: Sequence[str], path: str, agent: str = "") -> Plan:
        """What goes wrong with the request that is known under all of `methods` (GET and WATCH, say)."""
        if not self._rules:
            return Plan()
        with self._lock:
            return Plan(tuple(rule.fault for rule in self._rules if rule.fires(methods, path, agent)))

    def load(self, body: bytes) -> None:
        """Replace all rules by a JSON list of them. Raises 400 naming the field at fault; then nothing is changed."""
        try:
            faults = msgspec.json.decode(body, type=list[Fault])
            for fault in faults:
                re.compile(fault.path)
                re.compile(fault.agent)
        except (msgspec.DecodeError, UnicodeDecodeError, re.error) as error:
            raise bad_request(f"faults: {error}") from None
        self.clear()
        self.add(*faults)

    def as_list(self) -> list[dict[str, Any]]:
        with self._lock:
            return [{**msgspec.to_builtins(rule.fault), "fired": rule.fired} for rule in self._rules]

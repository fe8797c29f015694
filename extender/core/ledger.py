"""Holds with tokens: who may use what, and until when.

              acquire          commit                committed                confirm
    (free) ------------> HELD ---------> COMMITTING ------------> COMMITTED ------------> CONFIRMED
                         ^  |   abort        |      (written)         |
                         |  | <--------------+                        |
                   renew +--+ (not written)                           |
                            |                                         |
                            +----- expire (after verification) -------+------------> EXPIRED

    HELD, COMMITTING, COMMITTED -> RELEASED      release: it came to nothing
    COMMITTED                   -> COMMITTED     renew: it is being verified
    HELD, COMMITTING            -> CONFIRMED     confirm: its effect was seen before the write's own answer

Every decision of this server takes a hold, a committer writes it, an informer's event confirms it. The rules:

* a key has at most one active hold (HELD, COMMITTING, COMMITTED); the others end it and leave the ledger;
* tokens grow and are never used again: whoever comes late with an old token is told False and changes nothing, so a
  late release never frees what somebody else holds by now;
* **time frees nothing**: `due` only tells whose deadline has come. The caller verifies against the API server and
  then says `expire` (or `renew`, or `confirm`). An overdue hold is still a hold;
* while a write is in flight there is no deadline at all, and `expire` is refused;
* a group is acquired all or nothing, and those of it that are HELD share one deadline.

Beside the holds stands a gate per object: after a write the cache is *behind* until it has seen the resourceVersion
that the write returned, so that nobody decides on what was true before it.

All times are seconds of one monotonic clock, given by the caller.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from extender.core.freshness import older


class HoldState(StrEnum):
    """See the module's diagram. The last three are ends: such a hold is no longer in the ledger."""

    HELD = "held"
    COMMITTING = "committing"
    COMMITTED = "committed"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


_TIMED = (HoldState.HELD, HoldState.COMMITTED)


@dataclass(frozen=True, slots=True)
class Hold:
    """What `owner` holds: `key`, until `deadline` (infinite while committing). `since` is when this state began.

    `group` is common to those that were acquired together, 0 for a hold of its own.
    """

    token: int
    key: str
    owner: str
    state: HoldState
    deadline: float
    group: int
    since: float


class Taken(Exception):  # noqa: N818 - an answer, not an error of the program
    """Somebody has the key: `hold` says who."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(f"{hold.key} is {hold.state} by {hold.owner} (token {hold.token})")
        self.hold = hold


class Ledger:
    """See the module's text. All methods that change a hold return False for a token that is not active."""

    def __init__(self) -> None:
        self._last_token = 0
        #: All and only the active holds.
        self._holds: dict[int, Hold] = {}
        self._tokens: dict[str, int] = {}
        #: Active tokens of each group, in the order of acquisition; no empty ones.
        self._groups: dict[int, list[int]] = {}
        #: (deadline, token) of every timed hold, and leftovers of what has changed since.
        self._heap: list[tuple[float, int]] = []
        self._counts: Counter[HoldState] = Counter()
        self._required: dict[str, str] = {}
        self._seen: dict[str, str] = {}

    # -- taking -----------------------------------------------------------------------------------------------

    def acquire(self, key: str, owner: str, *, now: float, lease: float) -> Hold:
        """A hold on `key` for `lease` seconds. Raises Taken if anybody, also the same owner, has it."""
        deadline = _deadline(now, lease)
        self._check_free([key])
        return self._enter(key, owner, deadline=deadline, group=0, now=now)

    def acquire_group(self, wanted: Mapping[str, str], *, now: float, lease: float) -> tuple[Hold, ...]:
        """Holds on all keys of `wanted` (key -> owner), in its order, with one deadline.

        Raises Taken with the first one that somebody has, and then takes none. Raises ValueError if nothing is wanted.
        """
        if not wanted:
            raise ValueError("wanted: expected at least one key")
        deadline = _deadline(now, lease)
        self._check_free(wanted)
        group = self._last_token + 1
        return tuple(self._enter(key, owner, deadline=deadline, group=group, now=now) for key, owner in wanted.items())

    def _check_free(self, keys: Iterable[str]) -> None:
        for key in keys:
            if (hold := self.holder(key)) is not None:
                raise Taken(hold)

    def _enter(self, key: str, owner: str, *, deadline: float, group: int, now: float) -> Hold:
        self._last_token += 1
        hold = Hold(self._last_token, key, owner, HoldState.HELD, deadline, group, now)
        self._tokens[key] = hold.token
        if group:
            self._groups.setdefault(group, []).append(hold.token)
        self._set(hold)
        return hold

    # -- while it is held -------------------------------------------------------------------------------------

    def renew(self, token: int, *, now: float, lease: float) -> bool:
        """HELD for another `lease` seconds from now, and with it all of its group that are HELD.

        COMMITTED: the time until it must be confirmed begins anew, for this hold alone.
        """
        hold = self._in_state(token, *_TIMED)
        if hold is None:
            return False
        if hold.state is HoldState.COMMITTED:
            self._set(replace(hold, deadline=_deadline(now, lease)))
        else:
            self._extend(hold, _deadline(now, lease))
        return True

    def commit(self, token: int, *, now: float) -> bool:
        """HELD -> COMMITTING: the write begins. It has no deadline until its outcome is known."""
        return self._move(token, HoldState.HELD, HoldState.COMMITTING, deadline=math.inf, now=now)

    def committed(self, token: int, *, now: float, lease: float) -> bool:
        """COMMITTING -> COMMITTED: it is written. If it is not confirmed within `lease` seconds it is due."""
        deadline = _deadline(now, lease)
        return self._move(token, HoldState.COMMITTING, HoldState.COMMITTED, deadline=deadline, now=now)

    def abort(self, token: int, *, now: float, lease: float) -> bool:
        """COMMITTING -> HELD: the write is known not to have happened. Renews, also the group, by `lease` seconds."""
        deadline = _deadline(now, lease)
        if not self._move(token, HoldState.COMMITTING, HoldState.HELD, deadline=deadline, now=now):
            return False
        self._extend(self._holds[token], deadline)
        return True

    def _extend(self, hold: Hold, deadline: float) -> None:
        for member in self.group(hold.group) or (hold,):
            if member.state is HoldState.HELD:
                self._set(replace(member, deadline=deadline))

    def _move(self, token: int, start: HoldState, finish: HoldState, *, deadline: float, now: float) -> bool:
        hold = self._in_state(token, start)
        if hold is None:
            return False
        self._set(replace(hold, state=finish, deadline=deadline, since=now))
        return True

    def _in_state(self, token: int, *states: HoldState) -> Hold | None:
        hold = self._holds.get(token)
        return hold if hold is not None and hold.state in states else None

    def _set(self, hold: Hold) -> None:
        """The one place where an active hold changes."""
        before = self._holds.get(hold.token)
        if before is not None:
            self._counts[before.state] -= 1
        self._counts[hold.state] += 1
        self._holds[hold.token] = hold
        if hold.state in _TIMED:
            heapq.heappush(self._heap, (hold.deadline, hold.token))
            self._compact()

    # -- ends -------------------------------------------------------------------------------------------------

    def confirm(self, token: int) -> bool:
        """Active -> CONFIRMED: an informer has shown it, the truth needs no hold any more."""
        return self._end(self._holds.get(token), HoldState.CONFIRMED)

    def release(self, token: int) -> bool:
        """Active -> RELEASED. While COMMITTING only the one who knows the write's outcome may say so."""
        return self._end(self._holds.get(token), HoldState.RELEASED)

    def expire(self, token: int) -> bool:
        """HELD or COMMITTED -> EXPIRED, after the caller has verified it. False also while COMMITTING."""
        return self._end(self._in_state(token, *_TIMED), HoldState.EXPIRED)

    def _end(self, hold: Hold | None, end: HoldState) -> bool:
        if hold is None:
            return False
        del self._holds[hold.token]
        del self._tokens[hold.key]
        if hold.group:
            self._groups[hold.group].remove(hold.token)
            if not self._groups[hold.group]:
                del self._groups[hold.group]
        self._counts[hold.state] -= 1
        self._counts[end] += 1
        return True

    # -- deadlines --------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Hold]:
        """Timed holds whose deadline has come, by deadline and token. They stay due until something is done."""
        found: list[tuple[float, int]] = []
        while self._heap and self._heap[0][0] <= now:
            entry = heapq.heappop(self._heap)
            if self._current(entry) and (not found or found[-1] != entry):
                found.append(entry)
        for entry in found:
            heapq.heappush(self._heap, entry)
        return [self._holds[token] for _, token in found]

    def next_deadline(self) -> float | None:
        """When `due` next has something to tell; None if no hold is timed."""
        while self._heap and not self._current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _current(self, entry: tuple[float, int]) -> bool:
        deadline, token = entry
        hold = self._in_state(token, *_TIMED)
        return hold is not None and hold.deadline == deadline

    def _compact(self) -> None:
        """Leftovers never outnumber the holds by much, however often these are renewed."""
        if len(self._heap) > 2 * len(self._holds) + 64:
            self._heap = sorted({entry for entry in self._heap if self._current(entry)})

    # -- reading ----------------------------------------------------------------------------------------------

    def get(self, token: int) -> Hold | None:
        """The active hold with this token."""
        return self._holds.get(token)

    def holder(self, key: str) -> Hold | None:
        """The active hold on this key."""
        token = self._tokens.get(key)
        return None if token is None else self._holds[token]

    def group(self, group: int) -> tuple[Hold, ...]:
        """The active holds of this group, in the order of acquisition."""
        return tuple(self._holds[token] for token in self._groups.get(group, ()))

    def active(self) -> list[Hold]:
        """All active holds, oldest token first."""
        return list(self._holds.values())

    def counts(self) -> dict[HoldState, int]:
        """How many holds are in each active state now, and how many have ever come to each end."""
        return {state: self._counts[state] for state in HoldState}

    # -- the gate of resourceVersions -------------------------------------------------------------------------

    def require(self, key: str, resource_version: str) -> None:
        """The cache must have seen `key` at `resource_version` or later. Of several requirements the latest counts."""
        if key in self._seen and not older(self._seen[key], resource_version):
            return
        if key not in self._required or older(self._required[key], resource_version):
            self._required[key] = resource_version

    def seen(self, key: str, resource_version: str) -> bool:
        """The cache has `key` at `resource_version` now. True if that lifts what was required."""
        if not older(resource_version, self._seen.get(key, "")):
            self._seen[key] = resource_version
        if not self.behind(key) or older(resource_version, self._required[key]):
            return False
        del self._required[key]
        return True

    def behind(self, key: str) -> bool:
        """Whether the cache has yet to see what was required for `key`."""
        return key in self._required

    def drop_gate(self, key: str) -> None:
        """The object was deleted: nothing is required of it, nothing remembered."""
        self._required.pop(key, None)
        self._seen.pop(key, None)

    # -- proof ------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Re-derives every index. Raises AssertionError with what differs."""
        holds = self._holds.values()
        assert self._tokens == {hold.key: hold.token for hold in holds}, f"keys: {self._tokens}, holds: {self._holds}"
        assert len(self._tokens) == len(self._holds), f"a key is held twice: {self._holds}"
        assert list(self._holds) == sorted(self._holds), f"tokens out of order: {list(self._holds)}"
        assert all(0 < token <= self._last_token for token in self._holds), f"unknown token: {list(self._holds)}"
        self._validate_states()
        self._validate_groups()
        for key, version in self._required.items():
            seen = self._seen.get(key)
            assert seen is None or older(seen, version), f"{key}: {version} is required, {seen} was seen"

    def _validate_states(self) -> None:
        heap = set(self._heap)
        active = Counter(hold.state for hold in self._holds.values())
        for state in (HoldState.HELD, HoldState.COMMITTING, HoldState.COMMITTED):
            assert self._counts[state] == active[state], f"{state}: counted {self._counts[state]}, are {active[state]}"
        for token, hold in self._holds.items():
            assert token == hold.token, f"{hold} under token {token}"
            if hold.state in _TIMED:
                assert (hold.deadline, token) in heap, f"{hold} will never be due"
            else:
                assert hold.state is HoldState.COMMITTING, f"{hold} has ended"
                assert hold.deadline == math.inf, f"{hold} has a deadline while committing"

    def _validate_groups(self) -> None:
        groups: dict[int, list[int]] = {}
        for hold in self._holds.values():
            if hold.group:
                groups.setdefault(hold.group, []).append(hold.token)
        assert groups == self._groups, f"groups: {self._groups}, holds: {groups}"
        for group in groups:
            deadlines = {hold.deadline for hold in self.group(group) if hold.state is HoldState.HELD}
            assert len(deadlines) <= 1, f"group {group} has several deadlines: {sorted(deadlines)}"


def _deadline(now: float, lease: float) -> float:
    if not lease >= 0:
        raise ValueError(f"lease: expected seconds, at least 0, got {lease}")
    if not math.isfinite(now):
        raise ValueError(f"now: expected seconds of a monotonic clock, got {now}")
    return now + lease

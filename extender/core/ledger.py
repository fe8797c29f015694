"""Holds with tokens: the right of an owner to use a key, until a deadline.

              acquire          commit                committed                confirm
    (free) ------------> HELD ---------> COMMITTING ------------> COMMITTED ------------> CONFIRMED
                         ^  |   abort        |      (written)         |
                         |  | <--------------+                        |
                   renew +--+ (not written)                           |
                            |                                         |
                            +----- expire (after verification) -------+------------> EXPIRED

    HELD, COMMITTING, COMMITTED -> RELEASED      release: it is not needed any more
    COMMITTED                   -> COMMITTED     renew: it is being verified
    HELD, COMMITTING            -> CONFIRMED     confirm: its effect was seen before the write's own answer

Every decision of this server takes a hold, a committer writes it, an informer's event confirms it. The rules:

* A key has at most one active hold (HELD, COMMITTING, COMMITTED). The other states are final: the hold leaves the
  ledger.
* Tokens grow and are never reused. A call with an old token returns False and changes nothing, so a late release never
  frees a key that has a new hold by now.
* **Time frees nothing.** `due` only returns the holds whose deadline has passed. The caller verifies them against the
  API server and then calls `expire` (or `renew`, or `confirm`). An overdue hold is still a hold.
* While a write is in flight there is no deadline at all, and `expire` is refused.
* A group is acquired all or nothing. Its holds in state HELD share one deadline.

A hold carries a payload: what was decided, for the engine that took it. The engine of claims acquires groups, for
claims of several pods. What confirms a hold is the engine's to say: the pod that is shown bound, a claim's mark on the
pod, or the resourceVersion that a write returned (`vpods/writing.py`).

All times are seconds of one monotonic clock; the caller passes them in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from algorithm.tables import Table
from extender.core.deadlines import Deadlines

P = TypeVar("P")


class HoldState(StrEnum):
    """See the module's diagram. The last three are final: such a hold is no longer in the ledger."""

    HELD = "held"
    COMMITTING = "committing"
    COMMITTED = "committed"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


#: Every decision needs these, and Python 3.11 takes as long for an attribute of an enum as for a call.
_HELD, _COMMITTING, _COMMITTED = HoldState.HELD, HoldState.COMMITTING, HoldState.COMMITTED
_RELEASED = HoldState.RELEASED
_TIMED = (_HELD, _COMMITTED)


class Hold(msgspec.Struct, Generic[P], frozen=True, gc=False):
    """A hold of `owner` on `key` until `deadline` (infinite while committing). `since` is when this state began.

    Holds that were acquired together have the same `group`; 0 for a single hold.
    """

    token: int
    key: str
    owner: str
    state: HoldState
    deadline: float
    group: int
    since: float
    #: What was decided; None if the engine needs nothing here.
    payload: P | None = None


class Taken(Exception):  # noqa: N818 - an answer, not an error of the program
    """The key is taken, by `hold`."""

    def __init__(self, hold: Hold[Any]) -> None:
        super().__init__(f"{hold.key} is {hold.state} by {hold.owner} (token {hold.token})")
        self.hold = hold


class Ledger(Generic[P]):
    """See the module docstring. All methods that change a hold return False for a token that is not active."""

    def __init__(self) -> None:
        self._last_token = 0
        #: The active holds, by token.
        self._holds: Table[int, Hold[P]] = Table()
        self._tokens: Table[str, int] = Table()
        #: Active tokens of each group, in the order of acquisition; no empty ones.
        self._groups: dict[int, list[int]] = {}
        #: When each timed hold is due, by token.
        self.deadlines: Deadlines[int] = Deadlines()
        #: How many holds have reached each final state.
        self._ends: Counter[HoldState] = Counter()

    # -- taking -----------------------------------------------------------------------------------------------

    def acquire(self, key: str, owner: str, *, now: float, lease: float, payload: P | None = None) -> Hold[P]:
        """Return a new hold on `key` for `lease` seconds. Raises Taken if the key is held, even by the same owner.

        A hold with an infinite lease is never due.
        """
        deadline = _deadline(now, lease)
        if key in self._tokens:
            self._check_free([key])
        return self._enter(key, owner, deadline=deadline, group=0, now=now, payload=payload)

    def acquire_group(
        self, wanted: Mapping[str, str], *, now: float, lease: float, payload: P | None = None
    ) -> tuple[Hold[P], ...]:
        """Return new holds on all keys of `wanted` (key -> owner), in its order, with one deadline and one payload.

        Raises Taken with the hold on the first key that is taken, and then acquires none. Raises ValueError if `wanted`
        is empty.
        """
        if not wanted:
            raise ValueError("wanted: expected at least one key")
        deadline = _deadline(now, lease)
        self._check_free(wanted)
        group = self._last_token + 1
        return tuple(
            self._enter(key, owner, deadline=deadline, group=group, now=now, payload=payload)
            for key, owner in wanted.items()
        )

    def _check_free(self, keys: Iterable[str]) -> None:
        for key in keys:
            if (hold := self.holder(key)) is not None:
                raise Taken(hold)

    def _enter(self, key: str, owner: str, *, deadline: float, group: int, now: float, payload: P | None) -> Hold[P]:
        token = self._last_token = self._last_token + 1
        hold = self._holds[token] = Hold(token, key, owner, _HELD, deadline, group, now, payload)
        self._tokens[key] = token
        if group:
            self._groups.setdefault(group, []).append(token)
        if deadline != math.inf:
            self.deadlines.set(token, deadline)
        return hold

    # -- while it is held -------------------------------------------------------------------------------------

    def renew(self, token: int, *, now: float, lease: float) -> bool:
        """Extend a HELD hold to `lease` seconds from now, together with all HELD members of its group.

        COMMITTED: the time in which it must be confirmed begins again, for this hold alone.
        """
        hold = self._in_state(token, *_TIMED)
        if hold is None:
            return False
        if hold.state is _COMMITTED:
            self._replace(hold, replace(hold, deadline=_deadline(now, lease)))
        else:
            self._extend(hold, _deadline(now, lease))
        return True

    def commit(self, token: int, *, now: float) -> bool:
        """HELD -> COMMITTING: the write begins. It has no deadline until its outcome is known."""
        return self._move(token, _HELD, _COMMITTING, deadline=math.inf, now=now)

    def committed(self, token: int, *, now: float, lease: float) -> bool:
        """COMMITTING -> COMMITTED: the write happened. If it is not confirmed within `lease` seconds, it is due."""
        deadline = _deadline(now, lease)
        return self._move(token, _COMMITTING, _COMMITTED, deadline=deadline, now=now)

    def abort(self, token: int, *, now: float, lease: float) -> bool:
        """COMMITTING -> HELD: the write certainly did not happen. Renews the hold and its group by `lease` seconds."""
        deadline = _deadline(now, lease)
        if not self._move(token, _COMMITTING, _HELD, deadline=deadline, now=now):
            return False
        self._extend(self._holds[token], deadline)
        return True

    def _extend(self, hold: Hold[P], deadline: float) -> None:
        for member in self.group(hold.group) or (hold,):
            if member.state is _HELD:
                self._replace(member, replace(member, deadline=deadline))

    def _move(self, token: int, start: HoldState, finish: HoldState, *, deadline: float, now: float) -> bool:
        hold = self._holds.get(token)
        if hold is None or hold.state is not start:
            return False
        self._replace(hold, Hold(token, hold.key, hold.owner, finish, deadline, hold.group, now, hold.payload))
        return True

    def _in_state(self, token: int, *states: HoldState) -> Hold[P] | None:
        hold = self._holds.get(token)
        return hold if hold is not None and hold.state in states else None

    def _replace(self, before: Hold[P], hold: Hold[P]) -> None:
        """Store an active hold in place of the one before. Every change of an active hold goes through here."""
        self._holds[hold.token] = hold
        if hold.deadline != before.deadline:
            self.deadlines.set(hold.token, hold.deadline)

    # -- ends -------------------------------------------------------------------------------------------------

    def confirm(self, token: int) -> bool:
        """Active -> CONFIRMED: an informer has shown the effect, so no hold is needed any more."""
        return self._end(self._holds.get(token), HoldState.CONFIRMED)

    def release(self, token: int) -> bool:
        """Active -> RELEASED. While COMMITTING, only a caller that knows the write's outcome may release the hold."""
        return self._end(self._holds.get(token), _RELEASED)

    def expire(self, token: int) -> bool:
        """HELD or COMMITTED -> EXPIRED, after the caller has verified it. False while COMMITTING, too."""
        return self._end(self._in_state(token, *_TIMED), HoldState.EXPIRED)

    def _end(self, hold: Hold[P] | None, end: HoldState) -> bool:
        if hold is None:
            return False
        del self._holds[hold.token]
        del self._tokens[hold.key]
        if hold.deadline != math.inf:
            self.deadlines.discard(hold.token)
        if hold.group:
            self._groups[hold.group].remove(hold.token)
            if not self._groups[hold.group]:
                del self._groups[hold.group]
        self._ends[end] += 1
        return True

    # -- deadlines --------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Hold[P]]:
        """Timed holds whose deadline has passed, by deadline and token. They stay due until they change."""
        found = [self._holds[token] for token in self.deadlines.due(now)]
        return sorted(found, key=lambda hold: (hold.deadline, hold.token))

    def restore_groups(self) -> None:
        """Make the index of groups from the holds, in a copy. Tokens grow, so their order is that of acquisition."""
        self._groups = {}
        for token, hold in sorted(self._holds.items()):
            if hold.group:
                self._groups.setdefault(hold.group, []).append(token)

    # -- reading ----------------------------------------------------------------------------------------------

    def get(self, token: int) -> Hold[P] | None:
        """The active hold with this token."""
        return self._holds.get(token)

    def holder(self, key: str) -> Hold[P] | None:
        """The active hold on this key."""
        token = self._tokens.get(key)
        return None if token is None else self._holds[token]

    def group(self, group: int) -> tuple[Hold[P], ...]:
        """The active holds of this group, in the order of acquisition."""
        return tuple(self._holds[token] for token in self._groups.get(group, ()))

    def active(self) -> list[Hold[P]]:
        """All active holds, oldest token first."""
        return list(self._holds.values())

    def counts(self) -> dict[HoldState, int]:
        """How many holds are in each active state now, and how many have ever reached each final state."""
        found = self._ends + Counter(hold.state for hold in self._holds.values())
        return {state: found[state] for state in HoldState}

    # -- proof ------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Derive every index again. Raises AssertionError that names the difference."""
        holds = self._holds.values()
        assert self._tokens == {hold.key: hold.token for hold in holds}, f"keys: {self._tokens}, holds: {self._holds}"
        assert len(self._tokens) == len(self._holds), f"a key is held twice: {self._holds}"
        assert list(self._holds) == sorted(self._holds), f"tokens out of order: {list(self._holds)}"
        assert all(0 < token <= self._last_token for token in self._holds), f"unknown token: {list(self._holds)}"
        self._validate_states()
        self._validate_groups()

    def _validate_states(self) -> None:
        self.deadlines.validate()
        for token, hold in self._holds.items():
            assert token == hold.token, f"{hold} under token {token}"
            if hold.state in _TIMED:
                due = self.deadlines.get(token)
                assert (math.inf if due is None else due) == hold.deadline, f"{hold} will never be due"
            else:
                assert hold.state is _COMMITTING, f"{hold} has ended"
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
    if not -math.inf < now < math.inf:
        raise ValueError(f"now: expected seconds of a monotonic clock, got {now}")
    return now + lease

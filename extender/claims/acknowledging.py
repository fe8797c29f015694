"""Makes a claim of another server this server's as well, so that it can answer from it.

    (a claim) -- acknowledge --> the mark on each pod is changed: see `marking` --> (known)

The server that began the claim may not have answered yet, and gives the pods back if its caller goes away, or if the
key is another claim's. It gives back only pods whose mark does not say that the claim is known, and an acknowledgement
tests the mark that it replaces: one of the two wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from extender.claims.marking import Command, End, Marking
from extender.claims.records import ClaimMark
from extender.claims.state import Claim, ClaimState
from extender.claims.writes.look import PodLooked
from extender.claims.writes.renew import PodRenewed


@dataclass(slots=True)
class _Acknowledgement:
    claim: Claim
    #: The tokens of the changes of marks.
    changes: set[int] = field(default_factory=set)


class AcknowledgingClaims:
    """See the module. When an acknowledgement ends, its claim's key is looked at again."""

    def __init__(self, state: ClaimState) -> None:
        self._state = state
        self._acknowledgements: dict[str, _Acknowledgement] = {}
        self._marking = Marking(
            state, "acknowledge", emit=self._emit, changed=_acknowledged, is_done=_is_known, ended=self._ended
        )
        self._out: list[Command] = []
        #: Why the API server refuses to acknowledge a claim, by its name.
        self.refusals: dict[str, str] = {}

    def acknowledge(self, claim: Claim, now: float) -> list[Command]:
        """Begin to acknowledge a claim, unless that has begun."""
        if claim.name in self._acknowledgements:
            return []
        acknowledgement = self._acknowledgements[claim.name] = _Acknowledgement(claim)
        for uid in sorted(claim.uids):
            if (token := self._marking.begin(claim.name, uid, now)) is not None:
                acknowledgement.changes.add(token)
        self._end_if_over(acknowledgement)
        return self._said()

    # -- events ---------------------------------------------------------------------------------------------------

    def written(self, report: PodRenewed, now: float) -> list[Command]:
        """Handle the report of a write."""
        self._marking.written(report, now)
        return self._said()

    def looked(self, report: PodLooked, now: float) -> list[Command]:
        """Handle the report of a read."""
        self._marking.looked(report, now)
        return self._said()

    def seen(self, uid: str, now: float) -> None:
        """Handle a new version of a pod, or its deletion."""
        self._marking.seen(uid, now)

    def again(self, now: float) -> list[Command]:
        """Return the commands that are due."""
        self._marking.again(now)
        return self._said()

    # -- ends -----------------------------------------------------------------------------------------------------

    def _ended(self, token: int, claim: str, end: End, why: str, _now: float) -> None:
        acknowledgement = self._acknowledgements[claim]
        acknowledgement.changes.discard(token)
        if end is End.REFUSED:
            self.refusals[claim] = why
        self._end_if_over(acknowledgement)

    def _end_if_over(self, acknowledgement: _Acknowledgement) -> None:
        if acknowledgement.changes:
            return
        claim = acknowledgement.claim
        del self._acknowledgements[claim.name]
        self._state.keys_changed[claim.key_of_tenant] = None

    def _emit(self, command: Command) -> None:
        self._out.append(command)

    def _said(self) -> list[Command]:
        said, self._out = self._out, []
        return said

    def validate(self) -> None:
        """Raise AssertionError if an acknowledgement would never end."""
        self._marking.validate()
        for name, acknowledgement in self._acknowledgements.items():
            assert acknowledgement.changes, f"the acknowledgement of {name} has nothing to do"
        changes = {token for each in self._acknowledgements.values() for token in each.changes}
        assert changes == self._marking.tokens()


def _acknowledged(_claim: str, mark: ClaimMark) -> ClaimMark:
    return msgspec.structs.replace(mark, is_known=True)


def _is_known(_claim: str, mark: ClaimMark) -> bool:
    return mark.is_known

"""A judge watches the life of a cluster for one check, and raises ContractBroken when the promise is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

from algorithm.conformance.harness import ContractBroken

if TYPE_CHECKING:
    from algorithm.conformance.calls import Call
    from algorithm.conformance.life import Life


class Judge:
    """The base of all judges. `name` is that of the check.

    A costly judge looks as the life's `look` says: at every call, at one of `every`, or only at the end.
    """

    name: ClassVar[str]
    every: int = 1
    #: Whether changes are to be made to raise.
    wants_faults: ClassVar[bool] = False

    def __init__(self, life: Life) -> None:
        self.life = life

    def before(self, call: Call) -> None:
        """A call is about to be carried out."""

    def after(self, call: Call, answer: Any) -> None:
        """A call was carried out. `answer` is that of a question: a decision or an exception."""

    def raised(self, call: Call, error: Exception) -> None:
        """A change raised. If it was made to (`Faulty`), it will be reported once more."""

    def swallowed(self, call: Call) -> None:
        """A change was made to raise (`Faulty`), and the algorithm did not let this through. `after` follows."""

    def cut(self, method: str, what: str) -> None:
        """A call of this method was cut off, because of what it did. The life is over."""

    def cause(self) -> None:
        """Another judge found something. A judge that knows the cause (a socket could not be opened) raises first."""

    def end(self) -> None:
        """The life is over."""

    def is_due(self) -> bool:
        """Whether a costly look is due at this call."""
        if self.life.look == "sometimes":
            return crc32(f"{self.name} {len(self.life.calls)}".encode()) % self.every == 0
        return self.life.look == "always"


class PeriodicJudge(Judge):
    """A costly judge that looks now and then, as often as it is due, and once more when the life is over."""

    #: Calls after which it does not look.
    not_after: ClassVar[tuple[type[Any], ...]] = ()

    def after(self, call: Call, answer: Any) -> None:
        if self.is_due_after(call):
            self.look()

    def end(self) -> None:
        self.look()

    def is_due_after(self, call: Call) -> bool:
        """Whether it looks after this call."""
        return self.is_due() and not isinstance(call, self.not_after)

    def look(self) -> None:
        """Look at the algorithm. Raises ContractBroken if its promise is broken."""
        raise NotImplementedError


def promise(kept: bool, broken: str) -> None:
    """Raise ContractBroken with this sentence if a promise is not kept."""
    if not kept:
        raise ContractBroken(broken)

"""The events of a cluster as plain data: each call of `Life` (and so of AlgorithmHarness) is one record.

A list of them is a program: it can be carried out again, made shorter, printed as a test, written as JSON, and turned
into a recording that `waggle replay` opens.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from algorithm.interface import Phase
from algorithm.model import Node, Pod


class AddNode(msgspec.Struct, frozen=True, tag=True):
    node: Node


class UpdateNode(msgspec.Struct, frozen=True, tag=True):
    node: Node


class DeleteNode(msgspec.Struct, frozen=True, tag=True):
    name: str


class Submit(msgspec.Struct, frozen=True, tag=True):
    pods: tuple[Pod, ...]


class FoundBound(msgspec.Struct, frozen=True, tag=True):
    pod: Pod


class Ask(msgspec.Struct, frozen=True, tag=True):
    """`schedule` is asked about a waiting pod. The answer takes no effect, unless `Allocate` or `StartPreempting`
    follows at once."""

    uid: str
    nodes: tuple[str, ...]
    phase: Phase


class Allocate(msgspec.Struct, frozen=True, tag=True):
    """The Bind that was answered last is accepted."""

    uid: str


class StartPreempting(msgspec.Struct, frozen=True, tag=True):
    """The Preempt that was answered last is accepted, for the pod and for the members of its gang that it names."""

    uid: str


class StopPreempting(msgspec.Struct, frozen=True, tag=True):
    uid: str


class Expire(msgspec.Struct, frozen=True, tag=True):
    """A hold expires without a binding, and the pod waits again."""

    uid: str


class Update(msgspec.Struct, frozen=True, tag=True):
    """An allocated pod changes."""

    pod: Pod


class Replace(msgspec.Struct, frozen=True, tag=True):
    """A waiting pod changes."""

    pod: Pod


class Delete(msgspec.Struct, frozen=True, tag=True):
    uid: str


class Protect(msgspec.Struct, frozen=True, tag=True):
    uids: tuple[str, ...]


class Linger(msgspec.Struct, frozen=True, tag=True):
    uids: tuple[str, ...]


class Lapse(msgspec.Struct, frozen=True, tag=True):
    uids: tuple[str, ...]


class SetTime(msgspec.Struct, frozen=True, tag=True):
    now: float


class Restart(msgspec.Struct, frozen=True, tag=True):
    """A new algorithm is told what there is, in the order of this seed, and takes over."""

    seed: int


class UseFork(msgspec.Struct, frozen=True, tag=True):
    """A fork takes over from its original."""


class NewLife(msgspec.Struct, frozen=True, tag=True):
    """The life of this cluster is over, and another one begins in the same process, with another algorithm."""


Change = (
    AddNode
    | UpdateNode
    | DeleteNode
    | Submit
    | FoundBound
    | Allocate
    | StartPreempting
    | StopPreempting
    | Expire
    | Update
    | Replace
    | Delete
    | Protect
    | Linger
    | Lapse
    | SetTime
    | Restart
    | UseFork
)


class Faulty(msgspec.Struct, frozen=True, tag=True):
    """The change is reported with a record of which `field` raises InjectedFault when it is read for the time `after`.
    `unreadable_records.ANY` stands for each field. With 0, each of the first readings raises in turn.

    If the algorithm raises, the change is reported once more with the record as it is. The record of `Allocate` is that
    of the pod with its place, and that of `Restart` one of the allocated pods, which its seed chooses.
    """

    change: AddNode | UpdateNode | FoundBound | Submit | Update | Allocate | Restart
    field: str
    after: int


Call = Change | Ask | Faulty | NewLife


def last_life(calls: Sequence[Call]) -> Sequence[Call]:
    """The calls since the last life has begun."""
    begins = [number + 1 for number, call in enumerate(calls) if isinstance(call, NewLife)]
    return calls[begins[-1] :] if begins else calls


def encode(calls: Sequence[Call]) -> bytes:
    """A program as JSON."""
    return msgspec.json.encode(calls)


def decode(text: bytes) -> list[Call]:
    """The program that `encode` wrote. Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=list[Call])


def encode_one(call: Call) -> bytes:
    """One call as a line of JSON."""
    return msgspec.json.encode(call)


def decode_lines(text: bytes) -> list[Call]:
    """The calls that were written one a line; the last line may be cut off."""
    found: list[Call] = []
    for line in text.splitlines():
        try:
            found.append(msgspec.json.decode(line, type=Call))
        except msgspec.DecodeError:
            break
    return found

"""The parts of a log, as plain data: the header, steps, answers, gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, NamedTuple

import msgspec

from extender.recording.constants import Constant
from extender.scheduling.events import Event
from extender.scheduling.policy import Limits, Policy

#: The format that is written, and all that are read.
FORMAT = 2
FORMATS = (1, 2)
#: A time of a log, or its epoch. The sum of two is a year between 1 and 9999, so that it can be shown.
Seconds = Annotated[float, msgspec.Meta(ge=-3e10, le=3e10)]
#: Fields of the policy by their names in older recordings.
_RENAMED = {"protection": "eviction_backoff"}
#: Limits that older releases did not have, with the values that stand for what they did.
_LATER_LIMITS = {"unasked": 0.0}


class RecordingError(ValueError):
    """The log cannot be used; the message names the file, the line and the cause."""


class Header(msgspec.Struct, frozen=True):
    """The first line of a log: its format, the algorithm with its settings, the policy, and the program's constants.

    `recording` is the same in all segments of one run of a server, `segment` counts them, and `first` is the number of
    the first event in this one. `epoch` plus a time is seconds since 1970, None: unknown. `fields` has the fields of
    each kind of record, and `masked` names what stands as MASK in the log. `gap`: why events may be missing before this
    segment; "" if none are.
    """

    waggle: int
    algorithm: str
    settings: dict[str, Any]
    policy: dict[str, Any]
    constants: dict[str, Constant] = {}
    release: str = ""
    recording: str = ""
    segment: int = 1
    first: int = 1
    epoch: Seconds | None = None
    fields: dict[str, list[str]] = {}
    masked: tuple[str, ...] = ()
    gap: str = ""


class Said(msgspec.Struct, frozen=True):
    """The recorded answer of the engine to an event: the instructions, or the digest of long ones.

    `text` are the instructions as `encoding.encode_instructions` writes them; of long ones only what decides is left,
    and `digest` is that of the whole. `failed`: the engine raised this.
    """

    text: bytes
    digest: str = ""
    failed: str = ""


class Step(NamedTuple):
    """One event, the time when it was handled, in seconds of the server's clock, and its number.

    The first event has number 1, and is also called by it in the log and in the histories of pods. 0: not recorded.
    `said` None: the answer is not known (format 1, or the server ended before it answered). `size`: the bytes of
    its line.
    """

    at: float
    event: Event
    number: int = 0
    said: Said | None = None
    size: int = 0


class Gap(NamedTuple):
    """These events are not in the log. A replay continues from the next checkpoint."""

    first: int
    last: int
    why: str


def policy_of(header: Header) -> Policy:
    """Return the recorded policy. A missing field has its default; a limit that came later, what turns it off.

    Raises RecordingError if it has a value that this Waggle does not know, or cannot read.
    """
    policy = {_RENAMED.get(name, name): value for name, value in header.policy.items()}
    unknown = _unknown(policy, Policy)
    if isinstance(limits := policy.get("limits", {}), dict):
        policy["limits"] = _LATER_LIMITS | limits
        unknown += _unknown(limits, Limits)
    if unknown:
        raise RecordingError(f"log:1: the policy has what this Waggle does not know: {', '.join(unknown)}")
    try:
        return msgspec.convert(policy, type=Policy)
    except msgspec.ValidationError as error:
        raise RecordingError(f"log:1: the policy cannot be read: {error}") from error


def _unknown(recorded: Mapping[str, Any], kind: type[Any]) -> list[str]:
    return sorted(recorded.keys() - {field.name for field in fields(kind)})

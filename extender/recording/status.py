"""What a recorder shows of itself."""

from __future__ import annotations

from typing import NamedTuple


class Status(NamedTuple):
    """For metrics and probes. `bytes` are those of the folder, `cpu` the seconds of the recorder's thread."""

    events: int
    lost: int
    queued: int
    bytes: int
    segments: int
    checkpoints: int
    cpu: float
    longest_hold: float
    warning: str

"""The disk of a recording when it fails: what is wrong, when it is tried again, and what is deleted if it is full.

    ENOSPC, EDQUOT --> the oldest groups are deleted --> tried again at once --> fails again --> after 30 s
    other errors, or nothing may be deleted ---------------------------------------------------> after 30 s

A disk may be full before the folder has as many bytes as it may have. Then old segments would lie there while no event
could be recorded. What the last checkpoint needs is kept (`retention.py`).
"""

from __future__ import annotations

import errno
import time

import structlog

from extender.recording.retention import Retention

log = structlog.get_logger(__name__)

#: After a fault of the disk it is tried again, seconds.
_RETRY = 30.0
#: For so long it is told that segments were deleted early, seconds.
_TOLD = 86_400.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Disk:
    """Used by one thread; `fault` and `warning` may be read by others."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        #: What is wrong; "": events are recorded.
        self.fault = ""
        self._retry_at = 0.0
        #: Bytes of the folder when the disk was full and segments were deleted, and until when that is told.
        self._full_at, self._told_until = 0, 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether it is too early to try again."""
        return bool(self.fault) and time.monotonic() < self._retry_at

    @property
    def warning(self) -> str:
        """That the folder has lost segments early; "" after a day without that."""
        if not self._full_at or time.monotonic() > self._told_until:
            return ""
        size = f"{self._full_at / (1 << 20):.1f} MiB"
        return f"the disk was full when the recording had {size}: its oldest segments were deleted"

    def fail(self, error: OSError, *, has_room: bool) -> None:
        """Note that events cannot be written. `has_room`: something was deleted, so it is tried again at once, but not
        twice: somebody else may fill the disk."""
        if not self.fault:
            log.error("recording is interrupted, and is tried again", why=str(error))
        self._retry_at = 0.0 if has_room and not self.fault else time.monotonic() + _RETRY
        self.fault = str(error)

    def make_room(self, error: OSError, room: int, writing: int) -> bool:
        """If the disk is full, delete the oldest segments until `room` bytes are free; whether something was deleted.

        `writing`: the number of the segment that is written.
        """
        if error.errno not in _FULL:
            return False
        before, freed = self._retention.bytes, 0
        while freed < room and (more := self._retention.delete_oldest(writing)):
            freed += more
        if not freed:
            return False
        if not self.warning:
            log.warning("the disk is full: the oldest segments of the recording are deleted", bytes=freed)
        self._full_at, self._told_until = before, time.monotonic() + _TOLD
        return True

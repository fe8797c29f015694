"""The resourceVersion at which a reflector resumes. It never goes back, unless the server insists."""

from __future__ import annotations

from extender.core.freshness import older
from extender.kube.informers.reflection import ReflectorStats, RelistError

#: How often a list is refused that is older than what was known. After that it is believed (a restored backup).
_STALE_LISTS_REFUSED = 2


class ResumeVersion:
    """`version` is where the watch resumes, "" if a list is due. Up to `delivered`, every change was delivered."""

    def __init__(self, path: str, stats: ReflectorStats) -> None:
        self._path = path
        self._stats = stats
        self.version = ""
        self.delivered = ""
        self._highest = ""
        self._refused = 0

    def restart(self) -> None:
        """Make a list due."""
        self.version = ""

    def advance(self, version: str) -> None:
        """The watch has reached this version. A late event does not move it back."""
        if version and not older(version, than=self.version):
            self.version = self._highest = version

    def accept_list(self, version: str) -> str:
        """Accept a complete list at `version`. Returns the reason if time went back, "" normally.

        Raises RelistError if the list is older than what was seen before, but not the third time in a row.
        """
        if not version:
            raise RelistError(f"list {self._path}: metadata.resourceVersion must not be empty")
        why = f"is at {version}, but {self._highest} was seen before" if older(version, than=self._highest) else ""
        if why and self._refused < _STALE_LISTS_REFUSED:
            self._refused += 1
            self._stats.stale_lists += 1
            raise RelistError(f"list {self._path}: {why}")
        self._refused = 0
        self._highest = version
        return why

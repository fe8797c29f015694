"""Ranks the servers that serve claims side by side for each pod, by rendezvous hashing.

For each pod, the server with the highest hash of its name and the pod's UID has rank 0; no message is needed. A server
that joins or leaves changes rank 0 only for the pods that it gets or had (Thaler, Ravishankar 1996).
"""

from __future__ import annotations

from hashlib import blake2b


class Members:
    """The servers, this one included. A server that is alone, or that knows of no others, has rank 0 for every pod."""

    def __init__(self) -> None:
        self._others: tuple[str, ...] = ()
        self._me = ""
        self._ranks: dict[str, int] = {}

    def set(self, names: tuple[str, ...], me: str) -> bool:
        """Set the members. Return False if nothing has changed."""
        others = tuple(sorted(set(names) - {me}))
        if (others, me) == (self._others, self._me):
            return False
        self._others, self._me = others, me
        self._ranks.clear()
        return True

    def are_several(self) -> bool:
        return bool(self._others)

    @property
    def others(self) -> tuple[str, ...]:
        """The other servers, sorted by name."""
        return self._others

    def rank(self, uid: str) -> int:
        """Return this server's rank for the pod: how many servers come before it."""
        if not self._others:
            return 0
        rank = self._ranks.get(uid)
        if rank is None:
            mine = _weight(self._me, uid)
            rank = self._ranks[uid] = sum(_weight(each, uid) > mine for each in self._others)
        return rank

    def forget(self, uid: str) -> None:
        """Forget the rank for a pod that was deleted."""
        self._ranks.pop(uid, None)


def _weight(name: str, uid: str) -> bytes:
    return blake2b(f"{name}/{uid}".encode(), digest_size=8).digest()

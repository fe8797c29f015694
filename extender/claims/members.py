"""Which of the servers that serve claims side by side comes first for a pod: rendezvous hashing.

Each server gives each pod to the server with the highest hash of both names, without asking anybody. A server that
comes or goes changes the order only for the pods that it gets or had (Thaler, Ravishankar 1996).
"""

from __future__ import annotations

from hashlib import blake2b


class Members:
    """The servers, and this one among them. Alone, or unknown, it comes first for every pod."""

    def __init__(self) -> None:
        self._others: tuple[str, ...] = ()
        self._me = ""
        self._ranks: dict[str, int] = {}

    def set(self, names: tuple[str, ...], me: str) -> bool:
        """Set who they are. False if that is no news."""
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
        """The other servers, by name."""
        return self._others

    def rank(self, uid: str) -> int:
        """Return how many servers come before this one for the pod."""
        if not self._others:
            return 0
        rank = self._ranks.get(uid)
        if rank is None:
            mine = _weight(self._me, uid)
            rank = self._ranks[uid] = sum(_weight(each, uid) > mine for each in self._others)
        return rank

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._ranks.pop(uid, None)


def _weight(name: str, uid: str) -> bytes:
    return blake2b(f"{name}/{uid}".encode(), digest_size=8).digest()

"""Which records of the API server are late: older than what it has shown, or of an object that is gone.

Since 1.35 (KEP-5504) Kubernetes promises that the resourceVersions of one resource type are decimal numbers that grow;
etcd has always produced such numbers. Any other text cannot be compared. Then neither version counts as older, because
handling a record twice is harmless and dropping one is not.

Records are filtered in two places, both by this module: the store of a reflector drops what a watch repeats
(`kube/informers/store.py`), and the state of an engine what is older than all that it has learnt, from watches and live
reads (`ShownVersions`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from algorithm.tables import Table

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
NameT = TypeVar("NameT", bound=Hashable)

#: The highest known resourceVersion of each resource, by its name ("pods", "claims.waggle.dev"); "0" where there is no
#: object. These are versions of objects, not of lists: a replica that watches has reached them as soon as it has
#: received the last of these objects. A leader leaves them to the next one.
HandoverVersions = Mapping[str, str]


def older(version: str, than: str) -> bool:
    """Whether `version` is certainly older than `than`; False if they cannot be compared."""
    both = version + than
    if not (version and than and both.isdigit() and both.isascii()):
        return False
    if len(version) == len(than):
        return version < than
    width = max(len(version), len(than))
    return version.zfill(width) < than.zfill(width)


def latest(versions: Iterable[str]) -> str | None:
    """The newest of these versions; "0" if there are none, None if one of them cannot be compared."""
    numbers = set(versions)
    if not all(version.isascii() and version.isdigit() for version in numbers):
        return None
    return max(numbers, key=lambda version: (len(version.lstrip("0")), version.lstrip("0")), default="0")


def remember(known: dict[K, V], key: K, value: V, *, most: int) -> None:
    """Set a key that was used last, and forget the one that was not used for longest if there are more than `most`."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


class ShownVersions(Generic[NameT]):
    """The versions that the API server has shown of the objects of one resource, and the UIDs that are gone.

        (never shown) --- show ---> followed --- drop ---> (never shown)
              |                        |  ^
              +------- ignore ---+     |  | show: it is followed from now on
                                 v     v  |
                                  ignored         the last `ignored` of them are remembered

        any --- add_tombstone ---> gone           the last `gone` of them are remembered

    A record is late if its UID is gone, or if a later version was shown: of the same object, or of a younger one that
    is followed under its name. A UID never comes back, and the versions of a resource grow.
    """

    def __init__(self, *, gone: int, ignored: int) -> None:
        self._most_gone = gone
        self._most_ignored = ignored
        #: UID and version by name.
        self._followed: Table[NameT, tuple[str, str]] = Table()
        #: Version by UID.
        self._ignored: Table[str, str] = Table()
        #: The UIDs that are gone, as keys. For reading.
        self.gone: Table[str, None] = Table()

    def is_late(self, name: NameT, uid: str, version: str) -> bool:
        """Whether a record is late. It is not if it is the one that was shown last."""
        if uid in self.gone:
            return True
        shown = self._followed.get(name)
        if shown is not None and shown[1] != version and older(version, than=shown[1]):
            return True
        return uid in self._ignored and older(version, than=self._ignored[uid])

    def show(self, name: NameT, uid: str, version: str) -> None:
        """The API server shows this version of an object that is followed from now on."""
        self._followed[name] = uid, version
        self._ignored.pop(uid, None)

    def ignore(self, name: NameT, uid: str, version: str) -> None:
        """The API server shows this version of an object that is not followed. It may be followed later."""
        self.drop(name, uid)
        remember(self._ignored, uid, version, most=self._most_ignored)

    def of(self, name: NameT, uid: str) -> str:
        """The version of a followed object that was shown last; "" if none was."""
        shown = self._followed.get(name)
        return shown[1] if shown is not None and shown[0] == uid else ""

    def drop(self, name: NameT, uid: str) -> None:
        """Forget what was shown of an object that was followed: it may come again, in any version."""
        shown = self._followed.get(name)
        if shown is not None and shown[0] == uid:
            del self._followed[name]

    def add_tombstone(self, uid: str) -> None:
        """The object is gone for good: every record of it is late from now on."""
        self._ignored.pop(uid, None)
        remember(self.gone, uid, None, most=self._most_gone)

    def validate(self) -> None:
        """Raise AssertionError if too much is remembered, or an object is followed that is ignored or gone."""
        assert len(self.gone) <= self._most_gone, f"{len(self.gone)} removed UIDs are remembered"
        assert len(self._ignored) <= self._most_ignored, f"{len(self._ignored)} ignored objects are remembered"
        for name, (uid, _) in self._followed.items():
            assert uid not in self._ignored, f"{name} (uid {uid!r}) is followed and ignored"
            assert uid not in self.gone, f"{name} (uid {uid!r}) is followed and gone"

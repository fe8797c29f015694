"""Owner references: who owns an object, read without decoding the rest of it."""

from __future__ import annotations

import msgspec

from extender.embedded.apiserver.store import Stored


class Owner(msgspec.Struct, frozen=True, rename="camel"):
    """One owner reference, as far as controllers act upon it."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, rename="camel"):
    owner_references: tuple[Owner, ...] = ()


class _Object(msgspec.Struct):
    metadata: _Metadata


_decoder = msgspec.json.Decoder(_Object)


def owners_of(stored: Stored) -> tuple[Owner, ...]:
    """The owners of an object; none if they cannot be read."""
    if b'"ownerReferences"' not in stored.raw:
        return ()
    try:
        return _decoder.decode(stored.raw).metadata.owner_references
    except msgspec.ValidationError:
        return ()


def controller_of(stored: Stored) -> Owner | None:
    """The owner that controls an object, None if nobody does."""
    return next((each for each in owners_of(stored) if each.controller), None)

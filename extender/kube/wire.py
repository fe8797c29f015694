"""The envelopes of list and watch, decoded as far as the reflector needs them; the objects inside stay raw."""

from __future__ import annotations

import msgspec

from extender.core.version import older


class ListMeta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class ListPage(msgspec.Struct, gc=False):
    metadata: ListMeta | None = None
    items: list[msgspec.Raw] | None = None

    @property
    def resource_version(self) -> str:
        return (self.metadata.resource_version or "") if self.metadata else ""

    @property
    def next(self) -> str:
        """The token of the next page, "" on the last one."""
        return (self.metadata.continue_ or "") if self.metadata else ""


class WatchEvent(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta | None = None
    code: int | None = None
    message: str | None = None


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What can still be told of an object that cannot be decoded; "" where it cannot."""

    uid: str = ""
    resource_version: str = ""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """The Status object of an ERROR event."""

    code: int = 0
    message: str = ""


_pages = msgspec.json.Decoder(ListPage)
_events = msgspec.json.Decoder(WatchEvent)
_objects = msgspec.json.Decoder(_Object)


def decode_page(body: bytes) -> ListPage:
    """Raises msgspec.DecodeError or UnicodeDecodeError."""
    return _pages.decode(body)


def decode_event(line: bytes) -> WatchEvent:
    """Raises msgspec.DecodeError or UnicodeDecodeError."""
    return _events.decode(line)


def identify(raw: msgspec.Raw) -> Identity:
    """Never raises."""
    meta = _object(raw).metadata
    return Identity(meta.uid or "", meta.resource_version or "") if meta else Identity()


def failure(raw: msgspec.Raw) -> Failure:
    """Never raises."""
    status = _object(raw)
    return Failure(status.code or 0, status.message or "")


def _object(raw: msgspec.Raw) -> _Object:
    try:
        return _objects.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _Object()


def newer(left: str, right: str) -> bool:
    """Whether resourceVersion `left` is certainly newer than `right`.

    They are opaque by old rule; all API servers make them decimal numbers, and since Kubernetes 1.35 that is promised
    (KEP-5504). Anything else compares as "not certainly".
    """
    return older(right, left)

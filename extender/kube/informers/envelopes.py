"""Decodes the envelopes of lists and watches as far as the reflector needs them; the objects inside stay raw.

An object that is nested too deeply for the decoder does not make its envelope unreadable (see `deep`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from algorithm.decoding import DecodeError, node_from_wire, pod_from_wire
from algorithm.kubernetes_types import NodeWire, PodWire
from algorithm.model import Node, Pod
from extender.kube.client import bounds, deep
from extender.kube.client.bounds import Bound


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
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta | None = None
    code: int | None = None
    message: str | None = None


class Identity(msgspec.Struct, frozen=True, gc=False):
    """What can still be read of an object that cannot be decoded; "" where nothing can. `name` includes the
    namespace."""

    uid: str = ""
    resource_version: str = ""
    name: str = ""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """The Status object of an ERROR event."""

    code: int = 0
    message: str = ""


_W = TypeVar("_W")


class _TypedEvent(msgspec.Struct, Generic[_W], gc=False):
    type: str
    object: _W


_FAILURES = (msgspec.DecodeError, UnicodeDecodeError)
_pages = msgspec.json.Decoder(ListPage)
_list_metas = msgspec.json.Decoder(ListMeta)
_events = msgspec.json.Decoder(WatchEvent)
_pod_events = msgspec.json.Decoder(_TypedEvent[PodWire])
_node_events = msgspec.json.Decoder(_TypedEvent[NodeWire])
_objects = msgspec.json.Decoder(_Object)
_metas = msgspec.json.Decoder(_Meta)
#: Characters of a name or UID; Kubernetes allows 253.
_LONGEST_NAME = 300
_IDENTITY = ("name", "namespace", "uid", "resourceVersion")


def decode_page(body: bytes) -> ListPage:
    """Decode a page of a list.

    Raises msgspec.DecodeError or UnicodeDecodeError; BoundError if the page can be read only with fewer items.
    """
    try:
        return _pages.decode(body)
    except RecursionError:
        if len(body) > bounds.OBJECT:
            raise bounds.BoundError("a large page has an object that is nested too deeply", Bound.SIZE) from None
        return _deep_page(body)


def _deep_page(body: bytes) -> ListPage:
    parts = deep.members(body)
    items = deep.elements(bytes(parts["items"])) if "items" in parts else None
    try:
        return ListPage(_list_metas.decode(parts["metadata"]) if "metadata" in parts else None, items)
    except RecursionError as error:
        raise msgspec.DecodeError(f"metadata: {error}") from error


def decode_event(line: bytes) -> WatchEvent:
    """Decode a line of a watch; its object stays raw. Raises msgspec.DecodeError or UnicodeDecodeError."""
    try:
        return _events.decode(line)
    except RecursionError:
        if len(line) > bounds.OBJECT:
            raise msgspec.DecodeError("too large to be nested so deeply") from None
        parts = deep.members(line)
        if "type" not in parts or "object" not in parts:
            raise msgspec.DecodeError("expected an object with `type` and `object`") from None
        return WatchEvent(msgspec.json.decode(parts["type"], type=str), parts["object"])


def decode_pod_event(line: bytes, make: Callable[[PodWire], Pod] = pod_from_wire) -> tuple[str, Pod]:
    """Type and object of a watch event of a pod, decoded in one pass. Raises DecodeError for every error."""
    event = _typed(_pod_events, line)
    return event.type, make(event.object)


def decode_node_event(line: bytes, make: Callable[[NodeWire], Node] = node_from_wire) -> tuple[str, Node]:
    """The same for a watch event of a node."""
    event = _typed(_node_events, line)
    return event.type, make(event.object)


def _typed(decoder: msgspec.json.Decoder[_TypedEvent[_W]], line: bytes) -> _TypedEvent[_W]:
    try:
        return decoder.decode(line)
    except (*_FAILURES, RecursionError) as error:
        raise DecodeError(str(error)) from error


def identify(raw: msgspec.Raw) -> Identity:
    """The identity of an object, as far as it can be read. Never raises."""
    meta = _object(raw).metadata
    if meta is None:
        return Identity()
    name = f"{(meta.namespace or '')[:_LONGEST_NAME]}/{(meta.name or '')[:_LONGEST_NAME]}".strip("/")
    return Identity((meta.uid or "")[:_LONGEST_NAME], (meta.resource_version or "")[:_LONGEST_NAME], name)


def failure(raw: msgspec.Raw) -> Failure:
    """Decode the Status of an ERROR event, as far as it can be read. Never raises."""
    status = _object(raw)
    return Failure(status.code or 0, bounds.cut(status.message or ""))


def _object(raw: msgspec.Raw) -> _Object:
    try:
        return _objects.decode(raw)
    except RecursionError:
        return _Object(_deep_meta(bytes(raw)) if memoryview(raw).nbytes <= bounds.OBJECT else None)
    except _FAILURES:
        return _Object()


def _deep_meta(obj: bytes) -> _Meta | None:
    try:
        known = deep.members(bytes(deep.members(obj)["metadata"]))
        members = (b'"%s":%s' % (name.encode(), known[name]) for name in _IDENTITY if name in known)
        return _metas.decode(b"{%s}" % b",".join(members))
    except (*_FAILURES, RecursionError, KeyError):
        return None

"""Responses as plain data, and what they say: a Kubernetes Status, or the kind and version of an object."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extender.kube.client import bounds


class Cause(msgspec.Struct, gc=False):
    """One of `details.causes` of a Status."""

    reason: str | None = None
    message: str | None = None


class _Details(msgspec.Struct, gc=False):
    causes: list[Cause] | None = None


class _Kind(msgspec.Struct, gc=False):
    kind: str | None = None


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str | None = None


class _Object(msgspec.Struct, gc=False):
    metadata: _Meta | None = None


class _Status(msgspec.Struct, gc=False):
    kind: str | None = None
    message: str | None = None
    reason: str | None = None
    details: _Details | None = None


class Response(msgspec.Struct, frozen=True):
    """A response of the API server. Header names are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def retry_after(self) -> float | None:
        """Seconds of the Retry-After header; None if there is none, or if it is not a number of seconds."""
        try:
            return max(0.0, float(int(self.headers["retry-after"])))
        except (KeyError, ValueError, OverflowError):
            return None

    @property
    def message(self) -> str:
        """The `message` of the Status object in the body, else the beginning of the body, else the HTTP status.

        It is cut to what people need.
        """
        status = self._status()
        if status is None:
            return self.body[:200].decode(errors="replace").strip() or f"HTTP {self.status}"
        return bounds.cut(status.message or status.reason or f"HTTP {self.status}")

    @property
    def genuine(self) -> bool:
        """Whether the body is a Kubernetes object, so that the response is not from a proxy on the way."""
        try:
            return bool(_kind_decoder.decode(self.body).kind)
        except _UNDECODABLE:
            return False

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the object in the body; "" if there is none, as in a Status."""
        try:
            meta = _object_decoder.decode(self.body).metadata
        except _UNDECODABLE:
            return ""
        return bounds.cut((meta.resource_version if meta is not None else None) or "")

    @property
    def causes(self) -> list[Cause]:
        """The causes in the Status object in the body; empty if there is no such object."""
        status = self._status()
        return (status.details.causes if status is not None and status.details is not None else None) or []

    def _status(self) -> _Status | None:
        """The Status in the body. A body larger than any Status has none."""
        if len(self.body) > bounds.SMALL_OBJECT:
            return None
        try:
            return _status_decoder.decode(self.body)
        except _UNDECODABLE:
            return None


_UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_status_decoder = msgspec.json.Decoder(_Status)
_kind_decoder = msgspec.json.Decoder(_Kind)
_object_decoder = msgspec.json.Decoder(_Object)

"""The same stored objects under other field names: events of events.k8s.io/v1 are events of v1, renamed."""

from __future__ import annotations

from collections.abc import Mapping

from extender.embedded.apiserver.objects import Object, decode, encode_stored
from extender.embedded.apiserver.resources import Resource


def shown(resource: Resource, raw: bytes) -> bytes:
    """The bytes of a stored object as `resource` shows it."""
    return encode_stored(_rename(decode(raw), resource.renamed)) if resource.renamed else raw


def as_shown(resource: Resource, obj: Object) -> Object:
    return _rename(obj, resource.renamed) if resource.renamed else obj


def as_stored(resource: Resource, obj: Object) -> Object:
    """The inverse of `as_shown`."""
    return _rename(obj, {name: stored for stored, name in resource.renamed.items()}) if resource.renamed else obj


def _rename(obj: Object, names: Mapping[str, str]) -> Object:
    return {names.get(key, key): value for key, value in obj.items()}

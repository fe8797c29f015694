"""LIST: a consistent snapshot, whole or page by page.

A continue token names the revision at which the list began and the last key that was sent. The following page is cut
from the state at that same revision, rebuilt from the history; when the history no longer reaches back, the answer is
410 Expired with a token that goes on, knowingly inconsistent, from the state now.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Mapping

import msgspec

from extender.embedded.apiserver.errors import (
    ApiError,
    bad_request,
    expired,
    forbidden_field,
    options_invalid,
    unsupported_value,
)
from extender.embedded.apiserver.objects import encode, type_prefix
from extender.embedded.apiserver.resources import Target
from extender.embedded.apiserver.selectors import Selector, parse_fields, parse_labels
from extender.embedded.apiserver.store import Collection, Store, Stored
from extender.embedded.apiserver.views import shown

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_TOO_OLD = "The resourceVersion for the provided list is too old."
_NOW = -1


class _Token(msgspec.Struct, array_like=True):
    """Where the next page begins: after `namespace`/`name`, in the state at `revision` (_NOW: whatever it is then)."""

    revision: int
    namespace: str
    name: str

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def list_page(store: Store, target: Target, query: Mapping[str, str], *, behind: int = 0, most: int = 0) -> bytes:
    """The encoded list object. `behind` answers from that many revisions ago, as a lagging replica would; `most` is a
    limit of ours beside the client's (0: none), which a server may have.

    Raises 400 for malformed parameters, 410 Expired, 504 for a revision in the future.
    """
    collection, selector = store.collection(target.resource), selector_of(target, query)
    limit = min(filter(None, (number(query, "limit"), most)), default=0)
    token = _read_token(query["continue"]) if query.get("continue") else None
    revision = _revision(store, collection, query, token, behind)
    chosen = _select(collection.at(revision), selector, token)
    page = chosen[:limit] if limit else chosen
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if len(page) < len(chosen):
        metadata["continue"] = str(_Token(revision, *page[-1].key))
        if not selector.labels and not selector.fields:
            metadata["remainingItemCount"] = len(chosen) - len(page)
    return _encode(target, metadata, page)


def selector_of(target: Target, query: Mapping[str, str]) -> Selector:
    """What the path and the query select. Raises 400."""
    labels = parse_labels(query.get("labelSelector", ""))
    fields = parse_fields(query.get("fieldSelector", ""), target.resource)
    return Selector(labels, fields, target.namespace)


def number(query: Mapping[str, str], name: str) -> int:
    """A non-negative integer of the query, 0 if absent. Raises 400."""
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdigit()):
        raise bad_request(f"Invalid value: {text!r}: {name} must be a non-negative integer")
    return int(text or 0)


def _revision(store: Store, collection: Collection, query: Mapping[str, str], token: _Token | None, behind: int) -> int:
    if token is not None:
        if token.revision == _NOW:
            return store.revision
        if token.revision < collection.floor:
            raise _expired(token)
        store.require(token.revision)
        return token.revision
    if behind:
        return max(store.revision - behind, collection.floor)
    asked = number(query, "resourceVersion")
    store.require(asked)
    match = query.get("resourceVersionMatch", "")
    if match not in ("", "Exact", "NotOlderThan"):
        fault = unsupported_value("resourceVersionMatch", match, ("Exact", "NotOlderThan", ""))
        raise options_invalid("ListOptions", fault)
    if match and "resourceVersion" not in query:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise options_invalid("ListOptions", forbidden_field("resourceVersionMatch", why))
    if match != "Exact":
        return store.revision
    if asked < collection.floor:
        raise expired(_TOO_OLD)
    return asked


def _expired(token: _Token) -> ApiError:
    error = expired(_EXPIRED)
    error.body["metadata"] = {"continue": str(_Token(_NOW, token.namespace, token.name))}
    return error


def _read_token(text: str) -> _Token:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.DecodeError):
        raise bad_request("continue key is not valid: it must come from the metadata of a list") from None


def _select(items: list[Stored], selector: Selector, token: _Token | None) -> list[Stored]:
    if token is not None:
        items = items[bisect_right(items, (token.namespace, token.name), key=lambda stored: stored.key) :]
    if selector == Selector():
        return items
    return [stored for stored in items if selector.matches(stored.key[0], stored.labels, stored.fields)]


def _encode(target: Target, metadata: dict[str, object], page: list[Stored]) -> bytes:
    resource = target.resource
    if resource.custom:
        # The real server decodes custom objects without Go types, and what such a list looks like is this.
        metadata.setdefault("continue", "")
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
    items = [shown(resource, stored.raw) for stored in page]
    if resource.custom:
        prefix = type_prefix(resource)
        items = [prefix + raw[1:] for raw in items]
    return b'%s,"items":[%s]}' % (encode(head)[:-1], b",".join(items))

"""Manifests as objects: `read_documents` takes texts with their names and returns objects, and what is wrong with
which.

Each fault names the file, the document, the object and the field, and what was expected. Nothing raises: a caller that
must not go on with faults calls `Documents.require`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from extender.embedded.apiserver.objects import without_nulls
from extender.plan.reading.checking import Place, check
from extender.plan.reading.kinds import Role, is_namespaced, role_of
from extender.plan.reading.values import ValueFault, read_values
from extender.plan.records import RawObject

#: Bytes of all texts together, and objects in them.
MOST_BYTES = 64 << 20
MOST_OBJECTS = 100_000
#: Faults and warnings that are named; the others are counted.
MOST_NAMED = 20
#: Faults after which nothing more is read.
_MOST_FAULTS = 1000
#: Lists in lists.
_MOST_LISTS = 5
_LONGEST = 253
#: What the API server writes, and a manifest that was read from a cluster still has.
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")

_encode = msgspec.json.Encoder().encode


class Source(NamedTuple):
    """A text with the name by which people know it: a file, or "-" for standard input."""

    name: str
    text: str | bytes


class InputError(ValueError):
    """What was given cannot be planned. The message names each file, document and field, one on a line."""


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    """The objects of some texts, in their order; what a plan does not know; and what is wrong."""

    objects: tuple[RawObject, ...] = ()
    #: Objects of kinds that a plan does not know, with their origin. They are among `objects`, too.
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    #: At most MOST_NAMED of them, and a line that counts the others.
    errors: tuple[str, ...] = ()

    def require(self) -> Documents:
        """Return these documents if nothing is wrong. Raises InputError."""
        if self.errors:
            raise InputError("\n".join(self.errors))
        return self


def read_documents(sources: Iterable[Source], *, namespace: str = "default") -> Documents:
    """Return the objects of YAML or JSON texts, with many documents or Lists.

    `namespace`: of objects that name none, as kubectl's `--namespace`.
    """
    reader = _Reader(namespace)
    for source in sources:
        reader.read(source)
    return reader.result()


class _Item(NamedTuple):
    """An object as it was written, and where it stands."""

    value: Any
    origin: str


class _Reader:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._bytes = 0
        self._objects: dict[tuple[str, str, str, str], RawObject] = {}
        self._nameless: dict[str, int] = {}
        self._unknown: list[str] = []
        self._warnings: list[str] = []
        self._errors: list[str] = []

    def read(self, source: Source) -> None:
        """Read one text."""
        text = self._text(source)
        if text is None or len(self._errors) >= _MOST_FAULTS:
            return
        before = len(self._objects) + len(self._errors)
        try:
            for document in read_values(text):
                for item in _items(document.value, f"{source.name}, document {document.number}", 0):
                    if len(self._objects) >= MOST_OBJECTS:
                        self._errors.append(f"{item.origin}: more than {MOST_OBJECTS} objects")
                        return
                    if len(self._errors) >= _MOST_FAULTS:
                        return
                    self._take(item)
        except ValueFault as error:
            self._errors.append(f"{source.name}: {error}")
        if len(self._objects) + len(self._errors) == before:
            self._warnings.append(f"{source.name}: there is no object in it")

    def _text(self, source: Source) -> str | None:
        self._bytes += len(source.text)
        if self._bytes > MOST_BYTES:
            self._errors.append(f"{source.name}: all files together have more than {MOST_BYTES >> 20} MiB")
            return None
        try:
            return source.text if isinstance(source.text, str) else source.text.decode()
        except UnicodeDecodeError as error:
            self._errors.append(f"{source.name}: not UTF-8 text: byte {error.start + 1}")
            return None

    def _take(self, item: _Item) -> None:
        if fault := _no_object(item.value):
            self._errors.append(f"{item.origin}: {fault}")
            return
        obj = without_nulls(item.value)
        place = self._placed(obj, item.origin)
        if place is None:
            return
        faults = check(obj, place)
        if faults:
            self._errors += [f"{place}: {fault}" for fault in faults]
            return
        self._keep(obj, place)

    def _placed(self, obj: dict[str, Any], origin: str) -> Place | None:
        """Give the object its name and namespace, and return them; None if it has none that can be used."""
        metadata, kind, api_version = obj["metadata"], obj["kind"], obj["apiVersion"]
        for field in _SERVERS_OWN:
            metadata.pop(field, None)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._made_name(metadata)
        if is_namespaced(api_version, kind):
            metadata["namespace"] = metadata.get("namespace") or self._namespace
        elif role_of(api_version, kind) is not Role.UNKNOWN:
            metadata.pop("namespace", None)
        name = metadata.get("name", "")
        place = Place(origin, api_version, kind, metadata.get("namespace", ""), name if isinstance(name, str) else "")
        faults = [*_name_faults(metadata)]
        self._errors += [f"{place}: {fault}" for fault in faults]
        return None if faults else place

    def _made_name(self, metadata: dict[str, Any]) -> str:
        """Return the name in place of the random one of the API server: the first is NAMEx1."""
        prefix = str(metadata["generateName"])[: _LONGEST - 10]
        number = self._nameless[prefix] = self._nameless.get(prefix, 0) + 1
        return f"{prefix}x{number}"

    def _keep(self, obj: dict[str, Any], place: Place) -> None:
        role = role_of(place.api_version, place.kind)
        key = (place.api_version.rpartition("/")[0], place.kind, place.namespace, place.name)
        if (known := self._objects.get(key)) is not None:
            self._errors.append(f"{place}: also appears in {known.origin}")
            return
        if role is Role.UNKNOWN:
            self._unknown.append(str(place))
        if role is Role.SECRET:
            self._warnings.append(f"{place}: a plan keeps no secrets; it is neither planned nor created")
            obj = {"apiVersion": place.api_version, "kind": place.kind, "metadata": {"name": place.name}}
        elif role is not Role.NODE:
            obj.pop("status", None)
        self._objects[key] = RawObject(
            kind=place.kind,
            api_version=place.api_version,
            namespace=place.namespace,
            name=place.name,
            json=_encode(obj),
            origin=place.origin,
        )

    def result(self) -> Documents:
        kept = tuple(each for each in self._objects.values() if not _is_secret(each))
        return Documents(
            objects=kept,
            unknown=_named(self._unknown),
            warnings=_named(self._warnings),
            errors=_named(self._errors),
        )


def _is_secret(obj: RawObject) -> bool:
    return role_of(obj.api_version, obj.kind) is Role.SECRET


def _items(value: Any, origin: str, depth: int) -> Iterator[_Item]:
    """Yield the objects of a document: itself, or those of a List."""
    if value is None:
        return
    kind = value.get("kind") if isinstance(value, dict) else None
    inside = value.get("items") if isinstance(value, dict) else None
    if not (isinstance(kind, str) and kind.endswith("List") and isinstance(inside, list)) or depth > _MOST_LISTS:
        yield _Item(value, origin)
        return
    each_kind = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    for number, each in enumerate(inside, 1):
        item = {**each_kind, **each} if isinstance(each, dict) else each
        yield from _items(item, f"{origin}, item {number}", depth + 1)


def _no_object(value: Any) -> str:
    """Say why the value is no Kubernetes object; "" if it is one."""
    if not isinstance(value, dict):
        return f"expected an object with apiVersion, kind and metadata, got {_kind_of(value)}"
    for field in ("apiVersion", "kind"):
        text = value.get(field)
        if not isinstance(text, str) or not text or len(text) > _LONGEST:
            what = "it is missing" if text is None else f"got {_kind_of(text)}"
            return f"{field}: expected a text of 1 to {_LONGEST} characters; {what}"
    if not isinstance(value.get("metadata"), dict):
        return f"metadata: expected an object with a name, got {_kind_of(value.get('metadata'))}"
    return ""


def _name_faults(metadata: dict[str, Any]) -> Iterator[str]:
    for field in ("name", "namespace"):
        text = metadata.get(field, "")
        if not isinstance(text, str) or len(text) > _LONGEST:
            yield f"metadata.{field}: expected a text of at most {_LONGEST} characters, got {_kind_of(text)}"
        elif field == "name" and not text:
            yield "metadata.name: expected a name, or generateName"


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "a number",
        float: "a number",
    }
    return names.get(type(value), type(value).__name__)


def _named(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - MOST_NAMED
    return (*texts[:MOST_NAMED], f"and {more} more") if more > 0 else tuple(texts)

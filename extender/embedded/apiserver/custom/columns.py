"""The columns that `kubectl get` shows of a custom resource, from `additionalPrinterColumns`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from extender.embedded.apiserver.ages import age
from extender.embedded.apiserver.cells import Column
from extender.embedded.apiserver.custom.paths import JsonPath
from extender.embedded.apiserver.objects import Object, encode

TYPES = ("boolean", "date", "integer", "number", "string")
_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a "
    "client to request the generation of an appropriate name automatically. Name is primarily intended for creation "
    "idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed "
    "to be set in happens-before order across separate operations. Clients may not set this value. It is represented "
    "in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_AGE: Object = {"name": "Age", "type": "date", "description": _AGE_TEXT, "jsonPath": ".metadata.creationTimestamp"}


def columns(definitions: Sequence[Object]) -> tuple[Column, ...]:
    """The name, then what the definition says, or the age if it says nothing."""
    name = Column("Name", lambda obj, _now: obj["metadata"]["name"], description=_NAME_TEXT, format="name")
    return (name, *map(_column, definitions or (_AGE,)))


def _column(definition: Object) -> Column:
    path, kind = JsonPath(definition["jsonPath"]), definition["type"]
    text = f"Custom resource definition column (in JSONPath format): {definition['jsonPath']}"
    return Column(
        definition["name"],
        lambda obj, now: _cell(path.find(obj), kind, now),
        wide=definition.get("priority", 0) > 0,
        type=kind,
        description=definition.get("description") or text,
        format=definition.get("format", ""),
    )


def _cell(found: list[Any], kind: str, now: float) -> Any:
    """None is an empty cell: nothing is there, or something of another type."""
    if not found or found[0] is None:
        return None
    return _CELLS[kind](found[0], now)


def _text(value: Any, _now: float) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def _number(value: Any, _now: float) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _integer(value: Any, now: float) -> int | None:
    number = _number(value, now)
    return None if number is None else int(number)


def _boolean(value: Any, _now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _age(value: Any, now: float) -> str:
    return age(value, now) if isinstance(value, str) else "<unknown>"


_CELLS: dict[str, Callable[[Any, float], Any]] = {
    "string": _text,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "date": _age,
}

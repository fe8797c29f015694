"""Answers as tables: what kubectl asks for with `Accept: application/json;as=Table`, rows with ready-made cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from extender.embedded.apiserver.cells import Column
from extender.embedded.apiserver.objects import Object, decode, encode
from extender.embedded.apiserver.printers import columns
from extender.embedded.apiserver.resources import Resource

_HEAD = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
_SHOWN_OF_LIST = ("resourceVersion", "continue", "remainingItemCount")


def wants_table(accept: str) -> bool:
    """The first thing that the client would take is a table."""
    first = accept.partition(",")[0].replace(" ", "").split(";")
    return {"as=Table", "g=meta.k8s.io"} <= set(first)


@dataclass(eq=False)
class TableWriter:
    """Turns encoded objects, lists and watch events of one resource into tables.

    `include` says what goes with each row: Metadata (kubectl's default), Object or None.
    """

    resource: Resource
    clock: Callable[[], float]
    include: str = "Metadata"
    _has_columns: bool = False

    def body(self, raw: bytes) -> bytes:
        """An object or a list; a Status stays as it is."""
        value = decode(raw)
        if value["kind"] == "Status" and self.resource.kind != "Status":
            return raw
        return encode(self._table(value))

    def lines(self, lines: list[bytes]) -> list[bytes]:
        """Watch events. Only the first one says what the columns are called."""
        return [self._line(line) for line in lines]

    def _line(self, line: bytes) -> bytes:
        event = decode(line)
        if event["type"] == "ERROR":
            return line
        table = self._table(event["object"], is_bookmark=event["type"] == "BOOKMARK")
        return encode({"type": event["type"], "object": table}) + b"\n"

    def _table(self, value: Object, *, is_bookmark: bool = False) -> Object:
        items = [] if is_bookmark else value.get("items", [value]) if self._is_list(value) else [value]
        custom = self.resource.custom
        shown = custom.columns if custom else columns(self.resource.kind)
        definitions: list[Object] = []
        if not self._has_columns:
            definitions = [_definition(each) for each in shown]
            self._has_columns = True
        metadata = {key: value["metadata"][key] for key in _SHOWN_OF_LIST if value["metadata"].get(key)}
        rows = [{"cells": [self._cell(each, item) for each in shown], **self._object(item)} for item in items]
        return {**_HEAD, "metadata": metadata, "columnDefinitions": definitions, "rows": rows}

    def _is_list(self, value: Object) -> bool:
        return value.get("kind", "") == self.resource.list_kind and "items" in value

    def _cell(self, column: Column, item: Object) -> Any:
        try:
            return column.cell(item, self.clock())
        except (AttributeError, KeyError, TypeError):
            # Objects are not checked to the last field; a strange one must not hide the others.
            return "<unknown>"

    def _object(self, item: Object) -> Object:
        if self.include == "None":
            return {}
        typed = {"kind": self.resource.kind, "apiVersion": self.resource.api_version}
        if self.include == "Object":
            return {"object": {**typed, **item}}
        partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}
        return {"object": partial}


def _definition(column: Column) -> dict[str, Any]:
    is_name = "name" if column.name == "Name" and not column.wide else ""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format or is_name,
        "description": column.description or column.name,
        "priority": int(column.wide),
    }

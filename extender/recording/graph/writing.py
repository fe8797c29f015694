"""Writes a graph: see the package."""

from __future__ import annotations

import base64
import math
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterator
from enum import Enum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import msgspec
from pydantic import SecretBytes, SecretStr

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod
from extender.recording.graph.kinds import (
    BUILTIN,
    MOST_OBJECTS,
    OBJECTS_OF_LINE,
    GraphError,
    Kinds,
    Line,
    hidden_method,
    slots_of,
)
from extender.recording.masks import MASK

_INT64 = 1 << 63
_SAFE_INT = range(-_INT64, _INT64)
_NO_SECRETS: frozenset[str] = frozenset()


class Encoded(NamedTuple):
    """One line, and how many objects are in it."""

    text: bytes
    objects: int


def encode(root: object, kinds: Kinds, *, secrets: Container[str] = _NO_SECRETS) -> Iterator[Encoded]:
    """Yield the lines of the graph, each as JSON without a line break. Raises GraphError for what cannot be written.

    Nobody may change the graph until the last line. Each line takes a millisecond or so.
    """
    return _Encoder(kinds, secrets).lines(root)


class _Encoder:
    """A value is itself if it is a text, a small number, true, false or null; else [number of the object]."""

    def __init__(self, kinds: Kinds, secrets: Container[str]) -> None:
        self._kinds, self._secrets = kinds, secrets
        #: All objects in the order of their numbers: kept, so that no `id` is used twice.
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}
        #: How each object was reached: the object that refers to it, for messages.
        self._from: list[int] = []
        self._at = 0
        self._shapes: dict[tuple[Any, ...], int] = {}
        self._new_kinds: list[list[Any]] = []
        self._writers: dict[type, Callable[[Any], list[Any]]] = {
            list: lambda it: ["list", *map(self._value, it)],
            tuple: lambda it: ["tuple", *map(self._value, it)],
            set: lambda it: ["set", *map(self._value, it)],
            frozenset: lambda it: ["frozenset", *map(self._value, it)],
            deque: lambda it: ["deque", it.maxlen, *map(self._value, it)],
            dict: lambda it: ["dict", *self._items(it)],
            Counter: lambda it: ["Counter", *self._items(it)],
            OrderedDict: lambda it: ["OrderedDict", *self._items(it)],
            defaultdict: lambda it: ["defaultdict", self._value(it.default_factory), *self._items(it)],
            MappingProxyType: lambda it: ["mappingproxy", *self._items(it)],
            bytes: lambda it: ["bytes", base64.b64encode(it).decode()],
            int: lambda it: ["int", str(it)],
            float: lambda it: ["float", repr(it)],
            complex: lambda it: ["complex", it.real, it.imag],
            range: lambda it: ["range", it.start, it.stop, it.step],
            SuggestedNodes: lambda it: ["nodes", *map(self._text, it)],
            types.MethodType: lambda it: ["method", self._value(it.__self__), it.__func__.__name__],
            types.FunctionType: lambda it: ["function", self._kind("function", it, ())],
            type: self._class,
            partial: lambda it: ["partial", *map(self._value, (it.func, it.args, it.keywords))],
            SecretStr: lambda _: ["secret", ""],  # its text is never written
            SecretBytes: lambda _: ["secret", "bytes"],
            Random: lambda it: ["random", self._value(it.getstate())],
            Pod: lambda it: ["record", "Pod", self._record(it)],
            Node: lambda it: ["record", "Node", self._record(it)],
        }

    def lines(self, root: object) -> Iterator[Encoded]:
        self._reference(root)
        while self._at < len(self._objects):
            made: list[list[Any]] = []
            while self._at < len(self._objects) and len(made) < OBJECTS_OF_LINE:
                made.append(self._write(self._objects[self._at]))
                self._at += 1
            kinds, self._new_kinds = self._new_kinds, []
            yield Encoded(msgspec.json.encode(Line(made, kinds)), len(made))

    def _write(self, it: Any) -> list[Any]:
        kind = type(it)
        writer = self._writers.get(kind)
        if writer is None:
            writer = self._writers[kind] = self._writer(kind)
        return writer(it)

    def _writer(self, kind: type) -> Callable[[Any], list[Any]]:
        if isinstance(kind, type) and issubclass(kind, type):
            return self._class
        if not self._kinds.has(kind.__module__):
            self._refuse(f"a {kind.__module__}.{kind.__qualname__} cannot be written")
        if issubclass(kind, Enum):
            return lambda it: ["enum", self._kind("class", kind, ()), it.name]
        if issubclass(kind, msgspec.Struct):
            if hasattr(kind, "__post_init__"):
                self._refuse(f"{kind.__module__}.{kind.__qualname__} has a __post_init__, so it cannot be made again")
            names = kind.__struct_fields__
            return lambda it: [
                "struct", self._kind("class", kind, names), *(self._value(getattr(it, name)) for name in names)
            ]  # fmt: skip
        if issubclass(kind, tuple):
            return lambda it: ["named", self._kind("class", kind, ()), *map(self._value, it)]
        if issubclass(kind, str | int | float):
            plain = next(each for each in (str, int, float) if issubclass(kind, each))
            return lambda it: ["plain", self._kind("class", kind, ()), self._value(plain(it))]
        if issubclass(kind, dict | list | set | deque):
            return partial(self._own_container, kind, slots_of(kind))
        if issubclass(kind, frozenset | bytes | bytearray):
            self._refuse(f"a {kind.__module__}.{kind.__qualname__} cannot be written")
        return partial(self._instance, kind, slots_of(kind))

    def _instance(self, kind: type, slots: tuple[str, ...], it: Any) -> list[Any]:
        names, values = _attributes(it, slots)
        return ["object", self._kind("class", kind, names), *map(self._value, values)]

    def _own_container(self, kind: type, slots: tuple[str, ...], it: Any) -> list[Any]:
        """A subclass of a container: its attributes, and then its contents."""
        names, values = _attributes(it, slots)
        contents = self._items(it) if isinstance(it, dict) else map(self._value, it)
        return ["container", self._kind("class", kind, names), *map(self._value, values), *contents]

    def _class(self, it: type) -> list[Any]:
        if it.__module__ == "builtins" and it.__name__ in BUILTIN:
            return ["builtin", it.__name__]
        return ["class", self._kind("class", it, ())]

    def _record(self, it: Pod | Node) -> Any:
        text = msgspec.json.encode(it)
        if self._secrets is not _NO_SECRETS:
            it = _masked_record(it, self._secrets)
            text = msgspec.json.encode(it)
        return msgspec.Raw(text)

    def _items(self, it: Any) -> Iterator[Any]:
        for key, value in it.items():
            yield self._value(key)
            yield self._value(value)

    def _text(self, it: str) -> str:
        return MASK if it in self._secrets else it

    def _value(self, it: Any) -> Any:
        kind = type(it)
        if kind is str:
            return MASK if it in self._secrets else it
        if it is None or kind is bool or (kind is int and it in _SAFE_INT) or (kind is float and math.isfinite(it)):
            return it
        return [self._reference(it)]

    def _reference(self, it: Any) -> int:
        number = self._numbers.get(id(it))
        if number is None:
            number = self._numbers[id(it)] = len(self._objects)
            if number >= MOST_OBJECTS:
                raise GraphError(f"more than {MOST_OBJECTS} objects")
            self._objects.append(it)
            self._from.append(self._at)
        return number

    def _kind(self, noun: str, it: Any, names: tuple[str, ...]) -> int:
        key = (it, names)
        number = self._shapes.get(key)
        if number is None:
            module, name = it.__module__, it.__qualname__
            if not self._kinds.has(module) or "<" in name or self._kinds.find(module, name) is not it:
                self._refuse(f"the {noun} {module}:{name} cannot be found again by its name")
            if isinstance(it, type) and not issubclass(it, msgspec.Struct) and (hidden := hidden_method(it, names)):
                self._refuse(f"a {module}.{name} has an attribute in place of its method {hidden}")
            number = self._shapes[key] = len(self._shapes)
            self._new_kinds.append([module, name, *names])
        return number

    def _refuse(self, why: str) -> NoReturn:
        at = self._at
        path: list[str] = []
        while len(path) < 8:
            path.append(type(self._objects[at]).__name__)
            if at == 0:
                break
            at = self._from[at]
        raise GraphError(f"{why} (in {' of '.join(path)})")


def _attributes(it: Any, slots: tuple[str, ...]) -> tuple[tuple[str, ...], list[Any]]:
    own = getattr(it, "__dict__", None) or {}
    if not slots:
        return tuple(own), list(own.values())
    there = [(name, getattr(it, name)) for name in slots if hasattr(it, name)]
    return (*own, *(name for name, _ in there)), [*own.values(), *(value for _, value in there)]


def _masked_record(it: Pod | Node, secrets: Container[str]) -> Pod | Node:
    changed = {}
    for field in ("labels", "annotations"):
        pairs = getattr(it, field)
        if any(value in secrets for _, value in pairs):
            changed[field] = tuple((key, MASK if value in secrets else value) for key, value in pairs)
    return msgspec.structs.replace(it, **changed) if changed else it

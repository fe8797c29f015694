"""Reads a graph: see the package."""

from __future__ import annotations

import base64
import types
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec
from pydantic import SecretBytes, SecretStr

from algorithm.interface import SuggestedNodes
from extender.recording.graph.kinds import (
    BUILTIN,
    MOST_OBJECTS,
    PYDANTIC,
    RECORDS,
    GraphError,
    Kinds,
    Line,
    TooLargeError,
    hidden_method,
    slots_of,
)
from extender.recording.masks import MASK

_MOST_KINDS = 10_000
#: Texts of all lines, bytes, and values in all objects: some 8 GB of memory, however small the file is.
_MOST_TEXT, _MOST_VALUES = 2 << 30, 60_000_000
#: Bytes of memory for each byte of text and for each value while a graph is read, rounded up: a state of 20,000 pods in
#: 1,000 nodes took 172 MB, and is estimated at 234.
_BYTES_OF_BYTE, _BYTES_OF_VALUE = 4, 80
#: Parts of one tuple, frozen set or frozen record, each counted as often as it is referred to; and of all keys, which
#: are hashed: so many and so many for each object. A few dozen tuples of two could have more parts than atoms exist.
_MOST_PARTS, _MOST_KEYS, _KEYS_OF_OBJECT = 100_000_000, 10_000_000, 100
#: Keys of one dictionary or set with one hash.
_MOST_ALIKE = 64
_CONTAINERS: dict[str, Callable[[], Any]] = {
    "list": list,
    "set": set,
    "dict": dict,
    "Counter": Counter,
    "OrderedDict": OrderedDict,
}
_RANDOM_VERSION = 3
_line = msgspec.json.Decoder(Line)
#: Those of a named kind.
_OF_KIND = frozenset({"enum", "struct", "named", "plain", "object", "container", "function", "class"})


def decode(lines: Iterable[bytes], kinds: Kinds, *, most_mib: int | None = None) -> Any:
    """Return the root of an equal graph. Raises GraphError if the lines are no graph, or one of another program, or if
    they would take more memory than `most_mib` MiB, as it is estimated."""
    decoder = _Decoder(kinds, most_mib)
    for line in lines:
        decoder.take(line)
    return decoder.root()


class _Decoder:
    """First all lines are taken; then objects are made: those that can change at once and empty, all others after what
    they refer to; then those that can change are filled, and dictionaries and sets last, since keys are hashed."""

    def __init__(self, kinds: Kinds, most_mib: int | None) -> None:
        self._kinds, self._most_mib = kinds, most_mib
        self._found: list[tuple[Any, tuple[str, ...]]] = []
        self._rows: list[list[Any]] = []
        self._made: list[Any] = []
        self._is_made: bytearray = bytearray()
        #: Parts of each object that cannot change; 1 of others.
        self._parts = array("d")
        self._text = self._values_taken = 0
        self._keys = 0.0
        self._partials: list[int] = []

    def take(self, line: bytes) -> None:
        self._text += len(line)
        if self._text > _MOST_TEXT:
            raise GraphError(f"more than {_MOST_TEXT} bytes: no checkpoint")
        try:
            taken = _line.decode(line)
            rows: list[list[Any]] = taken.objects
            for row in rows:
                self._values_taken += len(row)
                if row and row[0] == "record":  # now, since anything could be in it
                    row[2:] = [_record(row)]
                elif dict in map(type, row):
                    raise GraphError("only a record may have something in it")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise GraphError(f"no part of a checkpoint: {error}") from error
        for kind in taken.kinds:
            if len(kind) < 2 or not all(isinstance(each, str) for each in kind):
                raise GraphError("a kind is not named by texts")
            found = self._kinds.find(kind[0], kind[1])
            names = tuple(kind[2:])
            self._check_names(found, names)
            self._found.append((found, names))
        total = len(self._rows) + len(rows)
        if len(self._found) > _MOST_KINDS or total > MOST_OBJECTS or self._values_taken > _MOST_VALUES:
            raise GraphError("more kinds or objects than any checkpoint has")
        estimated = self._text * _BYTES_OF_BYTE + self._values_taken * _BYTES_OF_VALUE
        if self._most_mib is not None and estimated > self._most_mib << 20:
            raise TooLargeError(f"it would take more than {self._most_mib} MiB")
        self._rows += rows

    def _check_names(self, found: Any, names: tuple[str, ...]) -> None:
        """The attributes that were written must be those that this program's class has, as far as it says so."""
        for name in names:
            if name.startswith("__") and name.endswith("__") and name not in PYDANTIC:
                raise GraphError(f"attribute {name} of {found.__qualname__} may not be set")
        if not isinstance(found, type) or not names:
            return
        if not issubclass(found, msgspec.Struct) and (hidden := hidden_method(found, names)) is not None:
            raise GraphError(f"attribute {hidden} of {found.__qualname__} may not be set: it is a method or a property")
        if issubclass(found, msgspec.Struct):
            expected = found.__struct_fields__
            if names != expected:
                raise GraphError(_differ(found, names, expected))
        elif not hasattr(found, "__dict__") or not _has_dict(found):
            expected = slots_of(found)
            if not set(names) <= set(expected):
                raise GraphError(_differ(found, names, expected))

    def root(self) -> Any:
        if not self._rows:
            raise GraphError("there is no object in it")
        self._made = [None] * len(self._rows)
        self._is_made = bytearray(len(self._rows))
        self._parts = array("d", [1.0]) * len(self._rows)
        self._keys = float(_MOST_KEYS + _KEYS_OF_OBJECT * len(self._rows))
        try:
            for number, row in enumerate(self._rows):
                self._shell(number, row)
            for number in reversed(range(len(self._rows))):  # what is referred to has mostly a higher number
                self._build(number)
            for number, row in enumerate(self._rows):
                self._fill(self._made[number], row)
            for number, row in enumerate(self._rows):
                self._fill_hashed(self._made[number], row)
            for number in self._partials:
                self._fill_partial(self._made[number], self._rows[number])
        except GraphError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError) as error:
            raise GraphError(f"object {number} cannot be made: {type(error).__name__}: {error}") from error
        return self._made[0]

    def _kind(self, row: list[Any]) -> tuple[Any, tuple[str, ...]]:
        number = row[1]
        if not isinstance(number, int) or not 0 <= number < len(self._found):
            raise GraphError(f"there is no kind {number!r}")
        return self._found[number]

    def _class(self, row: list[Any]) -> tuple[type, tuple[str, ...]]:
        found, names = self._kind(row)
        if not isinstance(found, type):
            raise GraphError(f"{found.__qualname__} is no class")
        return found, names

    def _shell(self, number: int, row: list[Any]) -> None:
        """Make what can change, still empty."""
        noun = row[0]
        if noun in _CONTAINERS:
            made: Any = _CONTAINERS[noun]()
        elif noun == "deque":
            made = deque(maxlen=row[1])
        elif noun in ("object", "container"):
            kind, _ = self._class(row)
            _check_plain(kind, is_container=noun == "container")
            if _is_frozen(kind):
                return
            made = _empty(kind)
        elif noun == "struct":
            kind, names = self._class(row)
            if not issubclass(kind, msgspec.Struct) or hasattr(kind, "__post_init__"):
                raise GraphError(f"{kind.__qualname__} is no struct")
            if kind.__struct_config__.frozen:
                return
            made = kind(**dict.fromkeys(names))
        else:
            return
        self._set(number, made)

    def _set(self, number: int, made: Any) -> None:
        self._made[number] = made
        self._is_made[number] = 1

    def _build(self, number: int) -> None:
        """Make what cannot change, after all that it refers to and that cannot change either."""
        if self._is_made[number]:
            return
        path, rest = {number}, [(number, self._children(self._rows[number]))]
        while rest:
            at, children = rest[-1]
            child = next((each for each in children if not self._is_made[each]), None)
            if child is None:
                self._weigh(at)
                self._set(at, self._immutable(at, self._rows[at]))
                path.discard(at)
                rest.pop()
            elif child in path:
                raise GraphError(f"object {child} cannot change, and refers to itself")
            else:
                path.add(child)
                rest.append((child, self._children(self._rows[child])))

    def _weigh(self, number: int) -> None:
        """Count the parts of what cannot change."""
        parts = 1.0 + sum(self._parts[child] for child in self._children(self._rows[number]))
        if parts > _MOST_PARTS:
            raise GraphError(f"object {number} has more than {_MOST_PARTS} parts")
        self._parts[number] = parts

    def _check_keys(self, values: list[Any]) -> None:
        """To be called with what is going to be hashed: the keys of one dictionary or set."""
        for value in values:
            if isinstance(value, tuple):
                self._keys -= self._parts[self._number(value)]
        if self._keys < 0:
            raise GraphError("its keys have more parts than those of any checkpoint")
        if len(values) > _MOST_ALIKE:
            self._check_hashes(values)

    def _check_hashes(self, values: list[Any]) -> None:
        """Refuse keys that were chosen to have one hash: each would be compared with all others. Texts cannot be."""
        hashes = Counter(hash(key) for each in values if not isinstance(key := self._value(each), str))
        if hashes and max(hashes.values()) > _MOST_ALIKE:
            raise GraphError(f"more than {_MOST_ALIKE} keys of a dictionary or a set have the same hash")

    def _children(self, row: list[Any]) -> Iterator[int]:
        for value in row[1:]:
            if isinstance(value, tuple):
                yield self._number(value)

    def _number(self, value: tuple[int]) -> int:
        if not 0 <= value[0] < len(self._rows):
            raise GraphError(f"there is no object {value[0]}")
        return value[0]

    def _value(self, value: Any) -> Any:
        return self._made[self._number(value)] if isinstance(value, tuple) else value

    def _values(self, row: list[Any], start: int) -> list[Any]:
        return [self._value(each) for each in row[start:]]

    def _immutable(self, number: int, row: list[Any]) -> Any:
        match row:
            case ["tuple", *_]:
                return tuple(self._values(row, 1))
            case ["frozenset", *_]:
                self._check_keys(row[1:])
                return frozenset(self._values(row, 1))
            case ["record", str(name), made] if isinstance(made, RECORDS.get(name, ())):
                return made
            case ["nodes", *names] if all(isinstance(each, str) for each in names):
                return SuggestedNodes(names)
            case ["bytes", str(text)]:
                return base64.b64decode(text, validate=True)
            case ["int", str(text)] if len(text) < 4000:
                return int(text)
            case ["float", str(text)]:
                return float(text)
            case ["complex", float(real), float(imaginary)]:
                return complex(real, imaginary)
            case ["range", int(start), int(stop), int(step)]:
                return range(start, stop, step)
            case ["builtin", str(name)] if name in BUILTIN:
                return BUILTIN[name]
            case ["defaultdict", factory, *_]:
                return self._defaultdict(self._value(factory))
            case ["mappingproxy", *_]:
                self._check_keys(row[1::2])
                values = self._values(row, 1)
                return MappingProxyType(dict(zip(values[::2], values[1::2], strict=True)))
            case ["secret", str(noun)]:
                return SecretBytes(MASK.encode()) if noun else SecretStr(MASK)
            case ["random", state]:
                made = Random()  # noqa: S311 - a plug-in's own
                made.setstate(_random_state(self._value(state)))
                return made
            case ["partial", func, _, _]:
                self._partials.append(number)
                return partial(self._callable(self._value(func)))  # its arguments may still be empty
            case ["method", owner, str(name)]:
                return self._method(self._value(owner), name)
            case [str(noun), *_] if noun in _OF_KIND:
                return self._of_kind(noun, row)
        raise GraphError(f"an object is a {str(row[0])[:40]!r}, which this program does not know")

    def _of_kind(self, noun: str, row: list[Any]) -> Any:
        kind, names = self._kind(row)
        if noun == "function":
            return self._callable(kind)
        if not isinstance(kind, type):
            raise GraphError(f"{kind.__qualname__} is no class")
        values = self._values(row, 2)
        if noun == "class":
            return kind
        if noun == "object":
            made = _empty(kind)
            _set_attributes(made, names, values)
            return made
        if noun == "enum" and issubclass(kind, Enum) and isinstance(values[0], str):
            return kind[values[0]]
        if noun == "named" and issubclass(kind, tuple):
            return tuple.__new__(kind, values)
        if noun == "plain" and issubclass(kind, str | int | float):
            plain: Any = next(each for each in (str, int, float) if issubclass(kind, each))
            maker: Any = plain.__new__
            if type(values[0]) is plain:  # of anything else, its own conversion would be called
                return maker(kind, values[0])
        if noun == "struct" and issubclass(kind, msgspec.Struct):
            return kind(**dict(zip(names, values, strict=True)))
        raise GraphError(f"{kind.__qualname__} is not of the kind {noun!r}")

    def _callable(self, found: Any) -> Any:
        if isinstance(found, types.FunctionType | types.MethodType | partial) or (
            isinstance(found, type) and (self._kinds.has(found.__module__) or found in BUILTIN.values())
        ):
            return found
        raise GraphError(f"a {type(found).__name__} is no function of these packages")

    def _defaultdict(self, factory: Any) -> Any:
        return defaultdict(None if factory is None else self._callable(factory))

    def _method(self, owner: Any, name: str) -> Any:
        kind = owner if isinstance(owner, type) else type(owner)
        if name.startswith("__") or not self._kinds.has(kind.__module__):
            raise GraphError(f"method {name} of {kind.__qualname__} may not be named")
        function: Any = getattr(kind, name, None)
        plain = function.__func__ if isinstance(function, types.MethodType) else function
        if not isinstance(plain, types.FunctionType):
            raise GraphError(f"{kind.__qualname__} has no method {name}")
        if not self._kinds.has(plain.__module__):  # pydantic's models can read files, for example
            raise GraphError(f"method {name} of {kind.__qualname__} is that of a class of {plain.__module__}")
        return function if plain is not function else types.MethodType(plain, owner)

    def _fill(self, made: Any, row: list[Any]) -> None:
        noun = row[0]
        if noun == "list":
            made += self._values(row, 1)
        elif noun == "deque":
            made.extend(self._values(row, 2))
        elif noun in ("object", "container"):
            _, names = self._found[row[1]]
            if not _is_frozen(type(made)):
                _set_attributes(made, names, self._values(row[: 2 + len(names)], 2))
        elif noun == "struct" and not type(made).__struct_config__.frozen:
            for name, value in zip(type(made).__struct_fields__, self._values(row, 2), strict=True):
                setattr(made, name, value)

    def _fill_partial(self, made: Any, row: list[Any]) -> None:
        func, args, keywords = self._values(row, 1)
        if type(args) is not tuple or type(keywords) is not dict or not all(isinstance(each, str) for each in keywords):
            raise GraphError("the arguments of a partial are no tuple and no dictionary")
        made.__setstate__((func, args, dict(keywords), None))

    def _fill_hashed(self, made: Any, row: list[Any]) -> None:
        noun = row[0]
        if noun in ("dict", "Counter", "OrderedDict", "defaultdict"):
            self._fill_items(made, row, 1 if noun != "defaultdict" else 2)
        elif noun == "set":
            self._check_keys(row[1:])
            made.update(self._values(row, 1))
        elif noun == "container":
            start = 2 + len(self._found[row[1]][1])
            contents = self._values(row, start)
            if isinstance(made, dict):
                self._fill_items(made, row, start)
            elif isinstance(made, set):
                self._check_keys(row[start:])
                set.update(made, contents)
            else:
                (deque.extend if isinstance(made, deque) else list.extend)(made, contents)

    def _fill_items(self, made: Any, row: list[Any], start: int) -> None:
        self._check_keys(row[start::2])
        values = self._values(row, start)
        if len(values) % 2:
            raise GraphError("a dictionary has a key without a value")
        put = OrderedDict.__setitem__ if isinstance(made, OrderedDict) else dict.__setitem__
        for at in range(0, len(values), 2):
            put(made, values[at], values[at + 1])


def _record(row: list[Any]) -> Any:
    """The pod or node. Raises GraphError, or ValidationError."""
    if len(row) != 3 or not isinstance(row[1], str) or row[1] not in RECORDS:
        raise GraphError("a record is no pod and no node")
    return msgspec.convert(row[2], type=RECORDS[row[1]])


def _random_state(state: Any) -> Any:
    """The state, if it is plain numbers: what else there is to iterate over may have no end."""
    if type(state) is tuple and len(state) == 3 and type(state[1]) is tuple and state[0] == _RANDOM_VERSION:
        return state
    raise GraphError("the state of a generator of random numbers is none")


def _empty(kind: Any) -> Any:
    """An instance without attributes: its constructor is not called."""
    return kind.__new__(kind)


def _check_plain(kind: type, *, is_container: bool) -> None:
    """Raise GraphError unless instances are made by `object.__new__`, or that of a container."""
    of: Any = next((each for each in (OrderedDict, dict, list, set, deque) if issubclass(kind, each)), None)
    constructor: Any = (of or object).__new__
    if (of is not None) is not is_container or kind.__new__ is not constructor or issubclass(kind, Enum):
        raise GraphError(f"{kind.__module__}:{kind.__qualname__} cannot be made without its constructor")


def _set_attributes(made: object, names: tuple[str, ...], values: list[Any]) -> None:
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)


def _is_frozen(kind: type) -> bool:
    """Whether it is a frozen dataclass: it may be hashed by its fields, so it is made complete."""
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and parameters.frozen


def _has_dict(kind: type) -> bool:
    return getattr(kind, "__dictoffset__", 0) != 0


def _differ(kind: type, was: tuple[str, ...], now: tuple[str, ...]) -> str:
    gone, new = sorted(set(was) - set(now)), sorted(set(now) - set(was))
    parts = [f"had {', '.join(gone)}" if gone else "", f"has {', '.join(new)} now" if new else ""]
    text = " and ".join(part for part in parts if part) or "had its fields in another order"
    return f"{kind.__module__}:{kind.__qualname__} {text}: it is the checkpoint of another release"

"""Graphs of objects come back equal, with what they share; and nothing in a line makes the reader do anything else."""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from algorithm.interface import SuggestedNodes
from algorithm.tables import Table
from extender.recording.graph import reading
from extender.recording.graph.kinds import GraphError, Kinds
from extender.recording.graph.reading import decode
from extender.recording.graph.writing import encode
from extender.recording.masks import MASK
from tests.support.engine.objects import node, pod

KINDS = Kinds((__name__, "algorithm"), without=("algorithm.conformance",))


class Colour(Enum):
    RED = 1


class Word(StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: int


class Text(str):
    __slots__ = ()


class Bag(dict[str, int]):
    colour = "red"


class Slotted:
    __slots__ = ("__hidden", "other", "unset")

    def __init__(self) -> None:
        self.__hidden, self.other = 1, 2

    def hidden(self) -> int:
        return self.__hidden


class Struct(msgspec.Struct):
    name: str
    other: Any = None


class Frozen(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    many: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    parts: tuple[str, ...] = ()


@dataclass
class Thing:
    name: str
    others: list[Any] = field(default_factory=list)
    call: Any = None

    def __post_init__(self) -> None:
        self.made = "by its constructor"

    def greet(self) -> str:
        return f"I am {self.name}"


class Model(BaseModel, frozen=True):
    names: tuple[str, ...] = ()
    inner: dict[str, int] = {}


class Ends(msgspec.Struct):
    name: str

    def __post_init__(self) -> None:
        raise AssertionError("a constructor was called")


class Guarded:
    @property
    def name(self) -> str:
        return ""

    @name.setter
    def name(self, value: str) -> None:
        raise AssertionError("a setter was called")


def plain_function(text: str) -> str:
    return text


def again(root: Any) -> Any:
    return decode([line.text for line in encode(root, KINDS)], KINDS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(1 << 63),
        1 << 80,
        0.1,
        math.inf,
        -0.0,
        "é\n\0",
        b"\xff",
        1j,
        range(2, 9, 3),
        [],
        (),
        (1, "a", (2, (3,))),
        [1, [2, [3]]],
        {"a": {"b": None}},
        {1: "one", (2, "b"): 2, None: 3, 1.5: 4},
        {1, 2, "a"},
        frozenset({Key("a", ("b",)), Key("c")}),
        deque([1, 2], maxlen=3),
        Counter("abca"),
        OrderedDict(b=1, a=2),
        MappingProxyType({"b": 1, "a": [2]}),
        Colour.RED,
        Word.YES,
        Point(1, 2),
        Struct("a", ["b"]),
        Frozen(name="a", many=(1, 2)),
        {Key("k"): Frozen(name="v")},
        Model(names=("a",), inner={"b": 1}),
        pod("p", cpu=7, labels=(("a", "b"),), annotations=(("c", "d"),)),
        node("n"),
        SuggestedNodes(["b", "a"]),
        Key,
        str,
        plain_function,
    ],
)
def test_values_come_back(value: Any) -> None:
    found = again([value, value])
    assert found == [value, value]
    if not isinstance(value, set | frozenset):  # which have no order
        assert repr(found[0]) == repr(value)
    assert type(found[0]) is type(value)


def test_kinds_that_compare_otherwise() -> None:
    made = defaultdict(list, a=[1])
    found = again(made)
    assert (dict(found), found.default_factory) == (dict(made), list)
    slotted = again(Slotted())
    assert (slotted.hidden(), slotted.other, hasattr(slotted, "unset")) == (1, 2, False)
    bag = Bag(b=1, a=2)
    bag.colour = "blue"
    assert (list(again(bag).items()), again(bag).colour) == ([("b", 1), ("a", 2)], "blue")
    assert type(again(Text("x"))) is Text
    assert math.isnan(again([math.nan])[0])
    dice = Random(7)
    dice.random()
    assert again(dice).random() == dice.random()
    table = Table({"b": 1, "a": 2})
    assert (list(again(table)), again(table).is_followed) == (["b", "a"], False)


def test_what_is_shared_is_shared_and_cycles_close() -> None:
    thing = Thing("a")
    thing.others = [thing, {"self": thing}, (thing, [thing])]
    thing.call = thing.greet
    found = again({"one": thing, "two": [thing.others, partial(thing.greet), plain_function]})
    one = found["one"]
    assert one is one.others[0] is one.others[1]["self"] is one.others[2][0] is one.others[2][1][0]
    assert found["two"][0] is one.others
    assert one.call() == found["two"][1]() == "I am a"
    assert one.call.__self__ is one
    assert one.made == "by its constructor"
    one.name = "b"
    assert one.call() == "I am b"
    assert thing.name == "a"


def test_a_deep_graph_needs_no_recursion() -> None:
    root: Any = ()
    for _ in range(50_000):
        root = (root,)
    found, depth = again(root), 0
    while found:
        found, depth = found[0], depth + 1
    assert depth == 50_000


def test_secrets_are_masked_wherever_they_stand() -> None:
    root = {"a": ["hunter2", ("hunter2",)], "hunter2": pod("p", annotations=(("x", "hunter2"),))}
    lines = b"".join(line.text for line in encode(root, KINDS, secrets={"hunter2"}))
    assert b"hunter2" not in lines
    assert lines.count(MASK.encode()) == 4


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (threading.Lock(), "a _thread.lock cannot be written"),
        (lambda: None, "cannot be found again by its name"),
        (object(), "a builtins.object cannot be written"),
        (open, "a builtins.builtin_function_or_method cannot be written"),
        (threading.Thread(), "a threading.Thread cannot be written"),
        ((x for x in ()), "a builtins.generator cannot be written"),
    ],
)
def test_what_cannot_be_written_is_named_with_where_it_hangs(value: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said) as raised:
        list(encode([Thing("a", [{"b": value}])], KINDS))
    assert "of dict of list of Thing of list)" in str(raised.value)


# -- lines of others --------------------------------------------------------------------------------------------------

HERE = __name__


@pytest.mark.parametrize(
    ("objects", "kinds", "said"),
    [
        ([], [], "no object"),
        ([["tuple", [1]]], [], "there is no object 1"),
        ([["tuple", [0]]], [], "refers to itself"),
        ([["tuple", [1]], ["tuple", [0]]], [], "refers to itself"),
        ([["list", [-1]]], [], "there is no object"),
        ([["list", [0, 0]]], [], "no part of a checkpoint"),
        ([["nonsense"]], [], "'nonsense', which this program does not know"),
        ([[]], [], "cannot be made: IndexError"),
        ([[["list"]]], [], "no part of a checkpoint"),
        ([["list", {"a": [[]]}]], [], "only a record may have something in it"),
        ([["dict", 1]], [], "a key without a value"),
        ([["dict", [1], 2], ["list"]], [], "unhashable"),
        ([["int", "x"]], [], "cannot be made: ValueError"),
        ([["bytes", "%"]], [], "cannot be made"),
        ([["record", "Pod", {"name": 1}]], [], "Expected `str`, got `int`"),
        ([["record", "Gone", {}]], [], "a record is no pod and no node"),
        ([["object", 0]], [["os", "system"]], "os:system is in none of the packages"),
        ([["function", 0]], [["subprocess", "Popen"]], "is in none of the packages"),
        ([["object", 0]], [[HERE, "Gone"]], "there is no .*:Gone"),
        ([["object", 0]], [[HERE, "Thing.__init__.__globals__"]], "there is no"),
        ([["object", 0]], [[HERE, "math.sqrt"]], "is no class and no function of its module"),
        ([["object", 0, 1]], [[HERE, "Thing", "__class__"]], "attribute __class__ of Thing may not be set"),
        ([["object", 0, 1]], [[HERE, "Slotted", "more"]], "had more.*another release"),
        ([["struct", 0, "a"]], [[HERE, "Struct", "name"]], "has other now: it is the checkpoint of another release"),
        ([["struct", 0, "a"]], [[HERE, "Ends", "name"]], "Ends is no struct"),
        ([["object", 0]], [[HERE, "Colour"]], "cannot be made without its constructor"),
        ([["object", 0]], [[HERE, "plain_function"]], "plain_function is no class"),
        ([["object", 1]], [[HERE, "Thing"]], "there is no kind 1"),
        ([["enum", 0, "BLUE"]], [[HERE, "Colour"]], "cannot be made: KeyError"),
        ([["enum", 0, "RED"]], [[HERE, "Thing"]], "Thing is not of the kind 'enum'"),
        ([["method", [1], "__init__"], ["object", 0]], [[HERE, "Thing"]], "method __init__ of Thing may not be named"),
        ([["method", [1], "append"], ["list"]], [], "method append of list may not be named"),
        ([["partial", [1], [2], [3]], ["list"], ["tuple"], ["dict"]], [], "a list is no function"),
        ([["partial", [1], [2], [3]], ["builtin", "eval"], ["tuple"], ["dict"]], [], "does not know"),
        ([["deque", -1]], [], "cannot be made: ValueError"),
        # What would be called while it is read, or in place of a method afterwards:
        ([["object", 0, 1]], [[HERE, "Thing", "greet"]], "attribute greet of Thing may not be set: it is a method"),
        ([["object", 0, 1]], [[HERE, "Guarded", "name"]], "attribute name of Guarded may not be set"),
        ([["method", [1], "parse_raw"], ["class", 0]], [[HERE, "Model"]], "is that of a class of pydantic.main"),
        ([["method", [1], "model_dump"], ["object", 0]], [[HERE, "Model"]], "is that of a class of pydantic.main"),
        ([["function", 0]], [["algorithm.conformance.child", "main"]], "is in none of the packages .* or in algorithm"),
        ([["function", 0]], [[f"{HERE}.__main__", "main"]], "is in none of the packages"),
        ([["plain", 0, [1]], ["list"]], [[HERE, "Word"]], "Word is not of the kind 'plain'"),
        ([["enum", 0, 1]], [[HERE, "Colour"]], "Colour is not of the kind 'enum'"),
        # What has no end:
        ([["partial", [1], [2], [3]], ["class", 0], ["range", 0, 1 << 60, 1], ["dict"]], [[HERE, "Key"]], "no tuple"),
        ([["random", [1]], ["tuple", 3, [2], None], ["range", 0, 1 << 60, 1]], [], "generator of random numbers"),
    ],
)
def test_lines_that_are_no_graph_are_refused(objects: list[Any], kinds: list[Any], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        decode([msgspec.json.encode({"objects": objects, "kinds": kinds})], KINDS)


DOUBLED = [["tuple", [number + 1], [number + 1]] for number in range(1, 90)] + [["tuple"]]


@pytest.mark.parametrize(
    "first",
    [["dict", [1], 0], ["set", [1]], ["frozenset", [1]], ["mappingproxy", [1], 0], ["Counter", [1], 1], ["list", [1]]],
)
def test_what_is_doubled_ninety_times_is_refused_before_it_is_hashed(first: list[Any]) -> None:
    with pytest.raises(GraphError, match="more than 100000000 parts"):
        decode([msgspec.json.encode({"objects": [first, *DOUBLED]})], KINDS)


def test_many_keys_that_are_doubled_a_little_are_refused() -> None:
    doubled = [["tuple", [number + 1], [number + 1]] for number in range(1, 20)] + [["tuple"]]
    keys = [["dict", [1], number] for number in range(30)]
    with pytest.raises(GraphError, match="keys have more parts"):
        decode([msgspec.json.encode({"objects": [["list"], *doubled, *keys]})], KINDS)


@pytest.mark.parametrize("noun", ["dict", "set", "frozenset"])
def test_keys_that_were_chosen_to_have_one_hash_are_refused(noun: str) -> None:
    """Each would be compared with all others: 100,000 of them would take minutes."""
    keys = [["int", str(number * ((1 << 61) - 1) + (7 << 70))] for number in range(100)]
    refers: list[Any] = [[at] for at in range(1, 101)]
    content = [each for key in refers for each in ((key, None) if noun == "dict" else (key,))]
    with pytest.raises(GraphError, match="more than 64 keys of a dictionary or a set have the same hash"):
        decode([msgspec.json.encode({"objects": [[noun, *content], *keys]})], KINDS)
    few = content[: 60 if noun != "dict" else 120]
    assert len(decode([msgspec.json.encode({"objects": [[noun, *few], *keys]})], KINDS)) == 60


def test_bounds_of_all_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    line = msgspec.json.encode({"objects": [["list", *range(100)]]})
    monkeypatch.setattr(reading, "_MOST_VALUES", 150)
    with pytest.raises(GraphError, match="more kinds or objects"):
        decode([line, line], KINDS)
    monkeypatch.setattr(reading, "_MOST_TEXT", len(line))
    with pytest.raises(GraphError, match="bytes: no checkpoint"):
        decode([line, line], KINDS)


def test_a_method_that_an_attribute_hides_cannot_be_written() -> None:
    thing = Thing("a")
    thing.greet = plain_function  # type: ignore[method-assign,assignment]
    with pytest.raises(GraphError, match="an attribute in place of its method greet"):
        list(encode(thing, KINDS))


def test_a_partial_keeps_its_arguments() -> None:
    found = again({"call": partial(plain_function, text="a"), "other": partial(plain_function, "b")})
    assert (found["call"](), found["other"]()) == ("a", "b")


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b"\xff", b'{"objects":[1]}', b'{"objects":' + b"[" * 9999])
def test_lines_that_are_no_lines_are_refused(line: bytes) -> None:
    with pytest.raises(GraphError):
        decode([line], KINDS)


def everything() -> list[Any]:
    thing = Thing("a", call=plain_function)
    thing.others = [thing.greet, {Key("k"): Frozen(name="v")}, Colour.RED, deque([1]), Point(1, 2), {2, 3}, Slotted()]
    return [thing, Struct("s"), Counter("ab"), MappingProxyType({"a": 1}), pod("p"), frozenset({1})]


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_graph_with_anything_in_it_is_read_or_refused(data: st.DataObject) -> None:
    (line,) = [msgspec.json.decode(each.text) for each in encode(everything(), KINDS)]
    values = st.integers(-2, 30) | st.text(max_size=3) | st.none() | st.lists(st.integers(-1, 30), max_size=2)
    for _ in range(data.draw(st.integers(1, 5))):
        rows = line[data.draw(st.sampled_from(["objects", "kinds"]))]
        row = rows[data.draw(st.integers(0, len(rows) - 1))]
        at = data.draw(st.integers(0, max(len(row) - 1, 0)))
        what = data.draw(st.sampled_from(["set", "insert", "remove"]))
        if what == "insert" or not row:
            row.insert(at, data.draw(values | st.sampled_from(["list", "method", "partial", "object", "class"])))
        elif what == "remove":
            del row[at]
        else:
            row[at] = data.draw(values | st.sampled_from(["list", "method", "partial", "object", "struct", "set"]))
    try:
        decode([msgspec.json.encode(line)], KINDS)
    except GraphError as error:
        assert str(error)

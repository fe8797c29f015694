"""A table's copy follows each change; a watched record notices its first one."""

from __future__ import annotations

from operator import setitem

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.tables import Followers, Table, watched_kind

keys = st.sampled_from("abcde")
changes = st.one_of(
    st.tuples(st.sampled_from(["set", "pop", "setdefault"]), keys, st.integers(0, 3)),
    st.tuples(st.sampled_from(["delete", "popitem", "clear", "update", "join"]), keys, st.integers(0, 3)),
)


def change(table: Table[str, int], kind: str, key: str, value: int) -> None:
    match kind:
        case "set":
            setitem(table, key, value)
        case "pop":
            table.pop(key, None)
        case "setdefault":
            table.setdefault(key, value)
        case "delete" if key in table:
            del table[key]
        case "popitem" if table:
            table.popitem()
        case "clear":
            table.clear()
        case "update":
            table.update({key: value}, e=value)
        case "join":
            table |= {key: value}


@given(before=st.lists(changes), during=st.lists(changes), after=st.lists(changes))
def test_a_copy_follows_each_change_until_it_does_not(
    before: list[tuple[str, str, int]], during: list[tuple[str, str, int]], after: list[tuple[str, str, int]]
) -> None:
    table: Table[str, int] = Table()
    for each in before:
        change(table, *each)
    copy = table.follow()
    for each in during:
        change(table, *each)
        assert list(copy.items()) == list(table.items())
    expected = list(table.items())
    table.unfollow()
    for each in after:
        change(table, *each)
    assert list(copy.items()) == expected
    assert type(table) is type(copy) is Table


def test_an_error_changes_neither() -> None:
    table = Table(a=1)
    copy = table.follow()
    with pytest.raises(KeyError):
        del table["b"]
    with pytest.raises(KeyError):
        table.pop("b")
    assert copy == table == {"a": 1}


def test_new_values_are_heard_of() -> None:
    table, heard = Table(a=1), []
    table.follow(heard.append)
    table["a"] = 2
    table.setdefault("a", 3)
    table.setdefault("b", 4)
    table.update(c=5)
    table.unfollow()
    table["d"] = 6
    assert heard == [2, 4, 5]


def test_one_copy_follows_a_table_at_a_time() -> None:
    table = Table(a=1)
    followers = Followers()
    followers.follow(table)
    followers.follow(table)
    with pytest.raises(RuntimeError, match="another copy"):
        Followers().follow(table)
    table["b"] = 2
    followers.unfollow()
    table["c"] = 3
    assert followers.taken(table) == {"a": 1, "b": 2}
    assert Followers().taken(table) == table is not Followers().taken(table)


class Record:
    __slots__ = ("inner", "name")

    def __init__(self) -> None:
        self.name, self.inner = "", [0]

    def grow(self, number: int) -> int:
        self.inner.append(number)
        return number


def test_a_watched_record_notices_its_first_change_and_no_other() -> None:
    changed: set[Record] = set()
    kind = watched_kind(Record, changed, methods=("grow",), contents=("inner",))
    records = [Record() for _ in range(4)]
    for each in records:
        each.__class__ = kind
    one, two, three, four = records
    assert one.name == ""
    assert changed == set()
    one.name = "x"
    assert two.grow(7) == 7
    assert three.inner == [0]
    assert changed == {one, two, three}
    assert [type(each) for each in records] == [Record, Record, Record, kind]
    assert (one.name, two.inner) == ("x", [0, 7])
    changed.clear()
    one.name = "y"
    assert changed == set()
    assert isinstance(four, Record)

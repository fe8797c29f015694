"""The store against a naive oracle: whatever is heard, whoever applies the changes has what the API server has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from extender.kube.informers.store import Change, ChangeKind, Store, weigh


@dataclass(frozen=True)
class Thing:
    name: str
    uid: str
    resource_version: str


def store() -> Store[Thing]:
    return Store(lambda thing: thing.name)


A1 = Thing("a", "u1", "1")
A2 = replace(A1, resource_version="2")
OTHER = Thing("a", "u2", "3")


def seen(*things: Thing) -> list[Change[Thing]]:
    return [Change(ChangeKind.SEEN, thing) for thing in things]


def listed(*things: Thing) -> list[Change[Thing]]:
    """Seen in a list, which says nothing of their order."""
    return [Change(ChangeKind.SEEN, thing, is_listed=True) for thing in things]


def gone(*things: Thing) -> list[Change[Thing]]:
    return [Change(ChangeKind.GONE, thing) for thing in things]


def test_an_object_is_seen_once_a_version() -> None:
    known = store()
    assert list(known.seen(A1)) == seen(A1)
    assert list(known.seen(A1)) == []
    assert list(known.seen(A2)) == seen(A2)
    assert list(known.seen(A1)) == []


def test_another_uid_under_the_name_is_gone_and_seen() -> None:
    known = store()
    list(known.seen(A1))
    assert list(known.seen(OTHER)) == gone(A1) + seen(OTHER)


def test_a_late_delete_of_the_former_uid_hurts_nobody() -> None:
    known = store()
    list(known.seen(OTHER))
    assert list(known.gone(A2)) == []
    assert known.records() == [OTHER]


def test_a_delete_that_overtook_its_add_wins() -> None:
    known = store()
    assert list(known.gone(A2)) == []
    assert list(known.seen(A1)) == []


def test_what_is_as_old_as_the_last_list_is_known_already() -> None:
    known = store()
    assert list(known.replace({"a": A2}, version="9", unreadable=())) == listed(A2)
    assert list(known.seen(Thing("b", "u3", "8"))) == []
    assert list(known.seen(Thing("b", "u3", "9"))) == []
    assert list(known.seen(Thing("b", "u3", "10"))) == seen(Thing("b", "u3", "10"))


def test_what_a_list_brings_back_from_the_dead_lives() -> None:
    known = store()
    list(known.seen(A1))
    list(known.gone(A2))
    assert list(known.replace({"a": A1}, version="1", unreadable=())) == listed(A1)
    assert list(known.seen(A2)) == seen(A2)


def test_versions_that_are_no_numbers_are_taken_as_they_come() -> None:
    known = store()
    list(known.seen(replace(A1, resource_version="x")))
    assert list(known.seen(replace(A1, resource_version="b"))) == seen(replace(A1, resource_version="b"))


def same_name(known: Thing, thing: Thing) -> bool:
    return known.name == thing.name


def test_what_is_no_news_is_known_and_not_told() -> None:
    known = Store[Thing](lambda thing: thing.name, same_name)
    assert list(known.seen(A1)) == seen(A1)
    assert list(known.seen(A2)) == []
    assert known.records() == [A2]
    assert list(known.seen(OTHER)) == gone(A2) + seen(OTHER)


def test_a_list_tells_every_version_that_was_not_known() -> None:
    """Something may have come and gone since the version before, and the receiver may have heard of it elsewhere."""
    known = Store[Thing](lambda thing: thing.name, same_name)
    list(known.seen(A1))
    assert list(known.replace({"a": A2}, version="9", unreadable=())) == listed(A2)
    assert list(known.replace({"a": A2}, version="10", unreadable=())) == []


def test_undo_takes_back_what_was_no_news_too() -> None:
    known = Store[Thing](lambda thing: thing.name, same_name)
    list(known.seen(A1))
    known.settle()
    list(known.seen(A2))
    known.undo()
    assert known.records() == [A1]


def test_undo_takes_back_what_was_told_since_settle() -> None:
    known = store()
    b = Thing("b", "u3", "1")
    list(known.seen(A1))
    known.settle()
    list(known.seen(OTHER))
    list(known.seen(b))
    known.undo()
    assert known.records() == [A1]
    assert list(known.replace({"a": OTHER, "b": b}, version="9", unreadable=())) == gone(A1) + listed(OTHER, b)


class Informed(RuleBasedStateMachine):
    """An API server (`truth`) whose events reach the store duplicated, late, lost or by lists, and whose receiver
    fails at times. Events that were lost are made up for by a list, as after a 410."""

    history = Bundle("history")
    names = st.sampled_from("abc")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.truth: dict[str, Thing] = {}
        self.store = store()
        self.mirror: dict[str, Thing] = {}
        self.missed = False

    def _hear(self, changes: object, *, fails: bool = False) -> None:
        told = list(changes)  # type: ignore[call-overload]
        if fails and told:
            self.store.undo()
            self.missed = True
            return
        for change in told:
            if change.kind is ChangeKind.SEEN:
                assert self.mirror.get(change.obj.name) is None or self.mirror[change.obj.name].uid == change.obj.uid
                self.mirror[change.obj.name] = change.obj
            else:
                assert self.mirror.pop(change.obj.name).uid == change.obj.uid
        self.store.settle()

    @rule(target=history, name=names, arrives=st.booleans(), fails=st.booleans(), recreate=st.booleans())
    def write(self, name: str, arrives: bool, fails: bool, recreate: bool) -> tuple[str, Thing]:
        self.version += 1
        known = self.truth.get(name)
        uid = known.uid if known and not recreate else f"u{self.version}"
        self.truth[name] = Thing(name, uid, str(self.version))
        return self._event("seen", self.truth[name], arrives, fails)

    @rule(target=history, name=names, arrives=st.booleans(), fails=st.booleans())
    def delete(self, name: str, arrives: bool, fails: bool) -> tuple[str, Thing]:
        self.version += 1
        known = self.truth.pop(name, Thing(name, f"never-{self.version}", "0"))
        return self._event("gone", replace(known, resource_version=str(self.version)), arrives, fails)

    def _event(self, kind: str, thing: Thing, arrives: bool, fails: bool) -> tuple[str, Thing]:
        if arrives:
            self._hear(self.store.seen(thing) if kind == "seen" else self.store.gone(thing), fails=fails)
        else:
            self.missed = True
        return kind, thing

    @rule(event=history)
    def repeat(self, event: tuple[str, Thing]) -> None:
        kind, thing = event
        if not self.missed:  # repeating what was missed would be hearing it
            self._hear(self.store.seen(thing) if kind == "seen" else self.store.gone(thing))

    @rule(fails=st.booleans())
    def list_anew(self, fails: bool) -> None:
        self.missed = False
        self._hear(self.store.replace(dict(self.truth), version=str(self.version), unreadable=()), fails=fails)

    @invariant()
    def receiver_has_what_the_store_has(self) -> None:
        assert {thing.name: thing for thing in self.store.records()} == self.mirror

    @invariant()
    def it_weighs_what_its_records_weigh(self) -> None:
        assert self.store.weight == sum(map(weigh, self.store.records()))

    @invariant()
    def nothing_is_missing_unless_it_was_missed(self) -> None:
        if not self.missed:
            assert self.mirror == self.truth


Informed.TestCase.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True, deadline=None)
TestInformed = Informed.TestCase

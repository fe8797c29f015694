"""Records of one resource in any order: which of them are late, by an oracle that keeps all that was ever told."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from extender.core.freshness import ShownVersions, remember
from tests.support.examples import few

NAMES = ["a", "b"]
UIDS = ["u1", "u2", "u3", "u4"]
GONE, IGNORED = 3, 2

names, uids = st.sampled_from(NAMES), st.sampled_from(UIDS)
versions = st.one_of(st.integers(1, 9).map(str), st.just("opaque"))


class Oracle:
    """Each object's last word, in the order in which it was told: "followed" with its name, "ignored" or "gone".

    Of those that are ignored, and of those that are gone, it knows as many of the last ones as may be remembered.
    """

    def __init__(self):
        self.words = {}

    def tell(self, uid, word, name="", version=""):
        self.words.pop(uid, None)
        self.words[uid] = (word, name, version)
        for said, most in (("ignored", IGNORED), ("gone", GONE)):
            for forgotten in self.all(said)[:-most]:  # for good, also if one of the others goes
                del self.words[forgotten]

    def all(self, word):
        return [uid for uid, (said, *_) in self.words.items() if said == word]

    def holder(self, name):
        return next((uid for uid in reversed(self.words) if self.words[uid][:2] == ("followed", name)), None)

    def is_late(self, name, uid, version):
        word, _, of_it = self.words.get(uid, ("", "", ""))
        ignored = word == "ignored" and self.before(version, of_it)
        holder = self.holder(name)
        followed = holder is not None and self.before(version, self.words[holder][2])
        return word == "gone" or ignored or followed

    @staticmethod
    def before(version, other):
        return "opaque" not in (version, other) and int(version) < int(other)


class ShownMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.shown = ShownVersions(gone=GONE, ignored=IGNORED)
        self.oracle = Oracle()

    def let_go(self, name, uid, but=None):
        """A name is followed for one object at a time, and an object under one name: the caller sees to that."""
        for other in UIDS:
            word, under, _ = self.oracle.words.get(other, ("", "", ""))
            if word == "followed" and (other == uid or under == name) and (other, under) != but:
                self.shown.drop(under, other)
                del self.oracle.words[other]

    @rule(name=names, uid=uids, version=versions)
    def show(self, name, uid, version):
        if uid in self.shown.gone:
            return
        self.let_go(name, uid, but=(uid, name))
        self.shown.show(name, uid, version)
        self.oracle.tell(uid, "followed", name, version)

    @rule(name=names, uid=uids, version=versions)
    def ignore(self, name, uid, version):
        if uid in self.shown.gone:
            return
        self.let_go("", uid, but=(uid, name))
        self.shown.ignore(name, uid, version)
        self.oracle.tell(uid, "ignored", version=version)

    @rule(uid=uids)
    def add_tombstone(self, uid):
        self.let_go("", uid)
        self.shown.add_tombstone(uid)
        self.oracle.tell(uid, "gone")

    @rule(name=names, uid=uids)
    def drop(self, name, uid):
        self.shown.drop(name, uid)
        if self.oracle.words.get(uid, ())[:2] == ("followed", name):
            del self.oracle.words[uid]

    @invariant()
    def each_record_is_as_late_as_the_oracle_says(self):
        self.shown.validate()
        for uid in UIDS:
            assert (uid in self.shown.gone) == (uid in self.oracle.all("gone"))
            for name in NAMES:
                word, under, version = self.oracle.words.get(uid, ("", "", ""))
                assert self.shown.of(name, uid) == (version if (word, under) == ("followed", name) else "")
                for each in ("1", "5", "9", "opaque"):
                    assert self.shown.is_late(name, uid, each) == self.oracle.is_late(name, uid, each)


TestShownMachine = ShownMachine.TestCase
TestShownMachine.settings = few(80, 30)


def test_the_keys_used_last_are_remembered():
    known = {}
    for key in ("a", "b", "a", "c"):
        remember(known, key, key.upper(), most=2)
    assert known == {"a": "A", "c": "C"}


@pytest.mark.parametrize("flaw", ["ignored", "gone"])
def test_validate_finds_an_object_that_is_followed_and_not(flaw):
    shown = ShownVersions(gone=1, ignored=1)
    shown.show("a", "u1", "1")
    shown._ignored["u1"] = "1"
    if flaw == "gone":
        shown.add_tombstone("u1")
    with pytest.raises(AssertionError, match=f"a .*is followed and {flaw}"):
        shown.validate()

"""`head` on the workload with which the original was measured: the same placements, vpod by vpod, by their digests."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithm.placements import head
from algorithm.placements.model import SetState

DIGESTS = {
    (10, 10, 200, 200): "a97ff0f2897c725b",
    (10, 50, 20, 4): "e0fbdb9c58061ee9",
    (1000, 10, 1, 100): "aac144f7abd94c5e",
}
#: 50 pods and more, or more than 1,000 vpods: a second of CPU each, and more.
SLOW = {
    (100, 50, 200, 400): "7b6b634b75455eb5",
    (10, 200, 200, 10): "52cd609b9132ace2",
    (100, 200, 200, 100): "ddeb46413f439457",
    (1000, 50, 200, 4000): "dafe9f276f42106d",
    (1000, 200, 200, 1000): "dbef0d2cb32f8c7b",
}


class Workload:
    """Vpods that each want 1 to `most` vreplicas, and change their minds. All numbers come from one generator."""

    def __init__(self, vpods, pods, most, capacity):
        self.most = most
        self.seed = vpods * 1000003 + pods * 1009 + most
        self.state = SetState(capacity=capacity, replicas=pods, seeded=False)
        for ordinal in range(pods):
            self.state.set_usable(ordinal, True)
        self.keys = [f"ns/vp-{number:04d}" for number in range(vpods)]
        for key in self.keys:
            self.state.put(key, self.draw(most), {})

    def draw(self, most):
        self.seed = (1103515245 * self.seed + 12345) % 2**31
        return 1 + (self.seed >> 8) % most

    def schedule(self, key):
        vpod = self.state.vpods[key]
        placement = head.place(vpod, self.state)
        assert placement.left == 0
        self.state.reserve(key, placement.counts)
        self.state.put(key, vpod.wanted, placement.counts)

    def run(self):
        rounds = 2000 if len(self.keys) <= 100 else 300
        for key in self.keys:
            self.schedule(key)
        for _ in range(rounds):
            self.schedule(self.keys[self.draw(len(self.keys)) - 1])
        for _ in range(rounds):
            key = self.keys[self.draw(len(self.keys)) - 1]
            self.state.put(key, self.draw(self.most), self.state.vpods[key].committed)
            self.schedule(key)

    def digest(self):
        digest = hashlib.sha256()
        for key, vpod in sorted(self.state.vpods.items()):
            text = "".join(f"|ss-{ordinal}={number}" for ordinal, number in sorted(vpod.committed.items()))
            digest.update(f"{key}{text}\n".encode())
        return digest.hexdigest()[:16]


@pytest.mark.parametrize(
    ("workload", "digest"),
    [*DIGESTS.items(), *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW.items())],
    ids=str,
)
def test_places_as_the_original(workload, digest):
    world = Workload(*workload)
    world.run()
    world.state.validate()

    assert world.digest() == digest


def one_by_one(kept, number, rooms):
    """The original's way: one vreplica for each candidate with room, round after round."""
    candidates, room = [ordinal for ordinal, _ in rooms], dict(rooms)
    while number and (candidates := [ordinal for ordinal in candidates if room[ordinal] > 0]):
        for ordinal in candidates:
            if number and room[ordinal] > 0:
                room[ordinal] -= 1
                kept[ordinal] = kept.get(ordinal, 0) + 1
                number -= 1
    return number


@given(
    st.dictionaries(st.integers(0, 9), st.integers(-3, 12), min_size=1),
    st.lists(st.integers(0, 9), min_size=1, max_size=15),
    st.integers(1, 80),
)
def test_whole_rounds_at_once_give_what_single_vreplicas_do(room, candidates, number):
    rooms = [(ordinal, room.get(ordinal, 0)) for ordinal in candidates]
    fast, slow = {}, {}
    assert head._add(fast, number, rooms) == one_by_one(slow, number, rooms)
    assert fast == slow

"""Gangs behind a real kube-scheduler: all or nobody, without a member that loops, and at once when there is room."""

from __future__ import annotations

import time

from tests.e2e.matrix import Entry, every_entry
from tests.e2e.world import RealCluster, eventually

pytestmark = every_entry


def test_nobody_starts_until_the_last_member_exists(w: RealCluster, entry: Entry, record_property) -> None:
    """kube-scheduler 1.30 does not try the first three again by itself when the fourth is bound; Waggle makes it."""
    w.nodes(4)
    names = [f"g-{i}" for i in range(4)]
    for name in names[:3]:
        w.pod(name, gpus=8, gang=("g", 4))
    for name in names[:3]:
        w.refused(name, f"gang {w.namespace}/g waits")
    assert w.places(names) == [""] * 4

    w.quiet()
    begun = time.monotonic()
    w.pod(names[3], gpus=8, gang=("g", 4))
    assert len(set(w.all_placed(names))) == 4
    seconds = time.monotonic() - begun
    record_property("measured", f"{entry.name}: gang of 4 bound {seconds:.2f} s after its last member came")


def test_a_gang_that_does_not_fit_takes_nothing_from_others(w: RealCluster) -> None:
    w.nodes(3)
    huge = w.gang("huge", 4, gpus=8)
    for name in huge:  # also those who were told before that they wait for more
        w.refused(name, "does not fit as a whole")
    small = w.gang("small", 3, gpus=8)
    w.all_placed(small)
    assert w.places(huge) == [""] * 4


def test_of_two_gangs_with_room_for_one_exactly_one_starts(w: RealCluster) -> None:
    w.nodes(4)
    members = {name: [f"{name}-{i}" for i in range(3)] for name in ("a", "b")}
    for i in range(3):  # the members arrive interleaved
        for name in members:
            w.pod(members[name][i], gpus=8, gang=(name, 3))

    def settled() -> bool:
        placed = sorted(sum(map(bool, w.places(names))) for names in members.values())
        return placed == [0, 3]

    eventually(settled, lambda: f"one gang runs, one waits: {members}")
    w.quiet()
    assert settled()


def test_a_gang_starts_when_room_appears_without_anybody_asking(w: RealCluster, entry: Entry, record_property) -> None:
    w.nodes(3)
    w.pod("big", gpus=8)
    w.place("big")
    names = w.gang("g", 3, gpus=8)
    for name in names:
        w.refused(name)
    w.quiet()

    freed = time.monotonic()
    w.delete("big", grace=0)
    w.all_placed(names)
    seconds = time.monotonic() - freed
    record_property("measured", f"{entry.name}: gang of 3 bound {seconds:.2f} s after room was freed")


def test_a_member_that_was_refused_alone_takes_the_seat_that_its_gang_keeps_for_it(w: RealCluster) -> None:
    """It may use two of three nodes: not enough for the gang. Its mates may use all. kube-scheduler 1.30 does not try
    it again because of a bind, so Waggle does, ten seconds after it has kept a seat for it."""
    w.nodes(3)
    for name in ("n1", "n2"):
        w.patch(name, {"metadata": {"labels": {"pool": "a"}}}, "Node")
    mates = ["b", "c"]
    for name in mates:
        w.pod(name, gpus=8, gang=("g", 3))
        w.refused(name, f"gang {w.namespace}/g waits")
    w.pod("a", gpus=8, gang=("g", 3), nodeSelector={"pool": "a"})
    w.refused("a", "does not fit as a whole")
    assert len(set(w.all_placed(["a", *mates]))) == 3


def test_a_waiting_gang_lets_kube_scheduler_rest(w: RealCluster) -> None:
    w.nodes(2)
    names = w.gang("g", 3, gpus=8)
    for name in names:
        w.refused(name)
    w.quiet(seconds=1.5)
    # Each member once when it comes and once for its own new condition; the last one completes the gang, and the others
    # are tried again for that: with a new text, so twice.
    assert max(w.filters(name) for name in names) <= 4


def test_a_member_that_is_replaced_joins_its_gang_again(w: RealCluster) -> None:
    w.nodes(3)
    names = w.gang("g", 3, gpus=8)
    before = dict(zip(names, w.all_placed(names), strict=True))
    w.delete("g-1", grace=0)
    w.pod("g-1", gpus=8, gang=("g", 3))
    assert w.place("g-1") == before["g-1"]
    assert w.places(["g-0", "g-2"]) == [before["g-0"], before["g-2"]]

"""The queue of simulations: one of many that are alike is tried."""

from __future__ import annotations

from collections.abc import Hashable

from algorithm.model import Pod
from extender.embedded.kubescheduler.events import EXTENDER, ClusterEvent
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.queue import Place
from extender.lab.run.queue import KindQueue

EXTENDERS = frozenset({EXTENDER})


def pod(name: str, *, priority: int = 0) -> SchedPod:
    return SchedPod(pod=Pod(namespace="x", name=name, uid=name, priority=priority), raw=b"")


def kind_of(each: SchedPod) -> Hashable | None:
    """Its first letter; pods of kind z are like no others."""
    return None if each.uid[0] == "z" else each.uid[0]


def queue(*names: str) -> KindQueue:
    made = KindQueue(kind_of, now=0.0, initial_backoff=1.0, max_backoff=10.0, retries_in_time=False)
    for name in names:
        made.add(pod(name), 0.0)
    return made


def tried(made: KindQueue, *, refused: bool = True) -> list[str]:
    """The pods that are tried until nothing is to be tried, all of them in vain, or all with success."""
    found = []
    while (queued := made.pop()) is not None:
        found.append(queued.pod.uid)
        if refused:
            made.rejected(queued.pod.uid, EXTENDERS, 0.0)
        else:
            made.delete(queued.pod.uid)
    return found


def test_of_pods_that_are_alike_one_is_tried_in_vain() -> None:
    made = queue("a1", "a2", "b1", "a3", "z1", "z2")
    assert tried(made) == ["a1", "b1", "z1", "z2"]
    assert [made.representative_of(uid) for uid in ("a1", "a2", "a3", "b1")] == ["a1", "a1", "a1", "b1"]
    assert made.count(Place.PARKED) == 2


def test_an_event_wakes_the_one_and_all_others_follow_if_it_gets_a_place() -> None:
    made = queue("a1", "a2", "b1", "a3")
    tried(made)
    made.happened(ClusterEvent.ASSIGNED_POD_DELETE, 1.0)
    assert tried(made, refused=False) == ["a1", "a2", "b1", "a3"]
    assert len(made) == 0


def test_the_next_one_speaks_for_the_others_once_the_first_has_gone() -> None:
    made = queue("a1", "a2", "a3")
    tried(made)
    made.delete("a1")
    assert tried(made) == ["a2"]
    assert made.representative_of("a3") == "a2"


def test_one_that_comes_later_is_parked_without_an_attempt() -> None:
    made = queue("a1")
    tried(made)
    made.add(pod("a2"), 5.0)
    assert tried(made) == []
    assert made.representative_of("a2") == "a1"


def test_while_one_preempts_the_next_is_tried() -> None:
    made = queue("a1", "a2")
    assert made.pop() is not None
    made.hold("a1")
    made.rejected("a1", EXTENDERS, 0.0)
    assert tried(made) == ["a2"]


def test_an_error_of_one_keeps_no_other_back() -> None:
    made = queue("a1", "a2")
    assert made.pop() is not None
    made.failed("a1", 0.0)
    assert tried(made) == ["a2"]


def test_a_parked_pod_that_changes_is_tried_itself_and_parked_again() -> None:
    made = queue("a1", "a2", "a3")
    tried(made)
    made.update(pod("a3"), [ClusterEvent.POD_OTHER], 1.0)
    assert tried(made) == ["a3"]
    made.activate("a2")
    assert tried(made) == ["a2"]
    assert made.representative_of("a3") == made.representative_of("a2") == "a1"


def test_a_parked_pod_that_is_of_another_kind_now_is_tried() -> None:
    kinds: dict[str, str | None] = {"a1": "a", "a2": "a"}
    made = KindQueue(
        lambda each: kinds[each.uid], now=0.0, initial_backoff=1.0, max_backoff=10.0, retries_in_time=False
    )
    made.add(pod("a1"), 0.0)
    made.add(pod("a2"), 0.0)
    assert tried(made) == ["a1"]
    kinds["a2"] = None
    made.reconsider(["a1", "a2", "nobody"])
    assert tried(made) == ["a2"]


def test_priorities_come_first_then_the_order_of_arrival() -> None:
    made = queue("a1", "b1")
    made.add(pod("c1", priority=5), 1.0)
    assert tried(made) == ["c1", "a1", "b1"]
    made.happened(ClusterEvent.NODE_ADD, 2.0)
    assert tried(made) == ["c1", "a1", "b1"]

"""Whose word is believed that room is kept for others, and for how long: gangs' plans, true and forged."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from algorithm.interface import SuggestedNodes
from algorithm.model import Node, Pod, pairs
from algorithm.packing import PackingAlgorithm
from extender.core.outcomes import Outcome, OutcomeKind
from extender.scheduling.commands import BindFinished, WriteBinding
from extender.scheduling.events import (
    AlgorithmPrepared,
    BindRequested,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeSeen,
    PodGone,
    PodSeen,
    PrepareAlgorithm,
    ReconfigureRequested,
    Synced,
    TermBegan,
    TermEnded,
    Ticked,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.effort import effort

PLAN = "waggle.dev/gang-plan"
NODES = ("n0", "n1", "n2", "n3")


class Server:
    """packing behind the engine, with four nodes of 8 GPUs."""

    def __init__(self, *bound: Pod, elected: bool = False, synced: bool = True) -> None:
        self.algorithm = PackingAlgorithm()
        self.machine = SchedulerStateMachine(
            self.algorithm, Policy(claims=frozenset({PLAN}), reservation_timeout=300.0, elected=elected)
        )
        self.now = 1000.0
        self.version = 100
        for name in NODES:
            room = (("cpu", 8000), ("nvidia.com/gpu", 8), ("pods", 10))
            self.handle(NodeSeen(Node(name=name, uid=name, allocatable=room)))
        self.see(*bound)
        if synced:
            self.handle(Synced())

    def handle(self, event: Any) -> list[Instruction]:
        out = self.machine.handle(event, self.now)
        self.machine.validate()
        self.algorithm.validate()
        return out

    def see(self, *pods: Pod) -> None:
        for pod in pods:
            self.version += 1
            self.handle(PodSeen(msgspec.structs.replace(pod, resource_version=str(self.version))))

    def filter(self, pod: Pod, *nodes: str) -> FilterAnswer:
        out = self.handle(FilterRequested(pod, SuggestedNodes(nodes or NODES)))
        return next(each for each in out if isinstance(each, FilterAnswer))

    def run(self, pod: Pod, *nodes: str) -> Pod:
        """Filter, bind, and what the API server has then."""
        node = self.filter(pod, *nodes).node
        assert node is not None
        out = self.handle(BindRequested(1, pod.namespace, pod.name, pod.uid, node))
        write = next(each for each in out if isinstance(each, WriteBinding))
        self.handle(BindFinished(write.token, Outcome(OutcomeKind.DONE)))
        placed = pod.placed(node, write.annotations)
        self.see(placed)
        return placed

    def wait(self, seconds: float) -> None:
        """Time passes; the timer runs when it is due."""
        end = self.now + seconds
        while (due := self.machine.next_due()) is not None and due <= end:
            self.now = max(self.now + 0.05, due)
            self.handle(Ticked())
        self.now = end

    def seats(self) -> dict[str, str]:
        return {uid: hold.node for uid, hold in self.algorithm._state.holds.items()}


def member(name: str, gpu: int = 8, minimum: int = 3, **annotations: str) -> Pod:
    declared = {"waggle.dev/gang": "g", "waggle.dev/gang-min": str(minimum), **annotations}
    requests = (("cpu", 1), ("nvidia.com/gpu", gpu)) if gpu else (("cpu", 1),)
    return Pod(namespace="ns", name=name, uid=f"u-{name}", requests=requests, annotations=pairs(declared))


def plan(generation: int = 1, **seats: str) -> dict[str, str]:
    return {PLAN: json.dumps({"generation": generation, "seats": seats})}


def forged(on: str, *, generation: int = 7) -> Pod:
    """A small pod that runs, and says that the GPUs of three nodes are for three pods that wait."""
    seats = {f"u-w{index}": name for index, name in enumerate(NODES[1:])}
    return msgspec.structs.replace(member("tiny", gpu=0, **plan(generation, **seats)), node_name=on)


WAITING = [member(f"w{index}") for index in range(3)]


# -- whose word it is ---------------------------------------------------------------------------------------------


def test_the_plan_of_a_gang_that_this_server_places_keeps_its_seats() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    assert set(server.seats()) == {"u-w1", "u-w2"}


def test_after_a_restart_a_gang_that_is_half_bound_has_its_seats_again() -> None:
    before = Server()
    before.see(*WAITING)
    placed = before.run(WAITING[0])
    after = Server(placed)
    after.see(*WAITING[1:])
    assert after.seats() == before.seats()
    assert len(after.seats()) == 2


def test_a_pod_that_somebody_else_binds_keeps_no_room_for_others() -> None:
    server = Server()
    server.see(*WAITING, forged("n0"))
    assert server.seats() == {}
    assert dict(server.algorithm._state.allocated["u-tiny"].annotations).get(PLAN) is None


def test_a_plan_that_is_written_on_a_bound_pod_later_changes_nothing() -> None:
    server = Server()
    tiny = server.run(member("tiny", gpu=0, minimum=1))
    server.see(*WAITING)
    server.see(msgspec.structs.replace(forged("n0"), uid=tiny.uid, node_name=tiny.node_name))
    assert server.seats() == {}


def test_a_true_plan_that_is_changed_later_stays_what_it_was() -> None:
    server = Server()
    server.see(*WAITING)
    placed = server.run(WAITING[0])
    seats = server.seats()
    server.see(
        msgspec.structs.replace(placed, annotations=pairs(dict(placed.annotations) | plan(99, **{"u-w1": "n0"})))
    )
    assert server.seats() == seats


def test_a_plan_that_its_author_wrote_on_a_waiting_pod_is_emptied_by_the_binding() -> None:
    server = Server()
    placed = server.run(member("tiny", gpu=0, minimum=1, **plan(**{"u-w1": "n1"})))
    assert dict(placed.annotations)[PLAN] == ""


def test_what_a_leader_bound_is_believed_by_who_takes_over() -> None:
    leader = Server()
    leader.see(*WAITING)
    placed = leader.run(WAITING[0])
    standby = Server(elected=True)
    standby.see(*WAITING)
    standby.see(placed)
    standby.handle(TermBegan(1))
    assert standby.seats() == leader.seats()
    standby.see(forged("n0"))
    assert standby.seats() == leader.seats()


# -- for how long -------------------------------------------------------------------------------------------------


def held_after(server: Server, seconds: float) -> int:
    server.wait(seconds)
    return len(server.seats())


def test_seats_that_nobody_comes_for_are_given_back() -> None:
    server = Server(forged("n0"))
    server.see(*WAITING)
    assert len(server.seats()) == 3
    assert held_after(server, 299) == 3
    assert held_after(server, 2) == 0
    assert server.machine.counts["holds", "seat_lapsed"] == 3
    assert "given back" in server.machine.history("u-w0")[-1]


def test_others_may_have_that_room_then() -> None:
    server = Server(forged("n0"))
    server.see(*WAITING)
    other = Pod(namespace="other", name="o", uid="u-o", requests=(("nvidia.com/gpu", 8),))
    server.see(other)
    assert server.filter(other, *NODES[1:]).node is None
    server.wait(301)
    assert server.filter(other, *NODES[1:]).node in NODES[1:]


def test_asking_elsewhere_again_and_again_does_not_keep_a_seat() -> None:
    server = Server(forged("n0"))
    server.see(*WAITING)
    for _ in range(4):
        server.wait(100)
        for pod in WAITING:
            server.filter(pod, "n0")
    assert server.seats() == {} or set(server.seats().values()) == {"n0"}


def test_new_members_with_places_do_not_keep_old_seats() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    for index in range(4):
        server.wait(100)
        server.run(member(f"late{index}", gpu=0))
    assert server.seats() == {}


def test_a_member_that_lost_its_seat_is_placed_when_it_comes() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    server.wait(301)
    assert server.filter(WAITING[1]).node is not None


def test_a_member_that_was_replaced_gets_a_seat_of_its_own_time() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    server.wait(301)
    server.handle(PodGone("ns", "w1", "u-w1"))
    server.see(WAITING[2])
    assert server.seats() == {}


def test_the_time_begins_anew_with_a_term() -> None:
    server = Server(forged("n0"), elected=True)
    server.see(*WAITING)
    server.wait(200)
    server.handle(TermBegan(1))
    assert held_after(server, 200) == 3
    server.handle(TermEnded(1))
    assert held_after(server, 101) == 0


def test_seats_on_nodes_that_could_never_take_the_pods_are_not_held() -> None:
    server = Server(forged("n0"))
    server.see(member("w0", gpu=9), member("w1", gpu=8))
    assert set(server.seats()) == {"u-w1"}


def _declare(server: Server, minimum: int) -> None:
    """The author changes the minimum on each of the gang's pods."""
    for name in ("w0", "w1", "w2"):
        pod_info = server.machine.find("ns", name)
        assert pod_info is not None
        annotations = pairs({**dict(pod_info.pod.annotations), "waggle.dev/gang-min": str(minimum)})
        server.see(msgspec.structs.replace(pod_info.pod, node_name=pod_info.node, annotations=annotations))


def test_seats_that_end_and_come_back_are_not_kept_for_longer() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    for _ in range(2):
        server.wait(140)
        _declare(server, 1)
        assert server.seats() == {}
        _declare(server, 3)
        assert len(server.seats()) == 2
    assert held_after(server, 21) == 0


def test_seats_that_were_without_for_as_long_as_they_were_kept_have_their_whole_time_again() -> None:
    server = Server()
    server.see(*WAITING)
    server.run(WAITING[0])
    server.wait(100)
    _declare(server, 1)
    server.wait(101)
    _declare(server, 3)
    assert held_after(server, 290) == 2
    assert held_after(server, 11) == 0


def test_an_algorithm_that_takes_over_is_told_whose_seats_have_lapsed() -> None:
    server = Server(forged("n0"))
    server.see(*WAITING)
    server.wait(301)
    (prepare,) = server.handle(ReconfigureRequested(1, "packing", {}))
    assert isinstance(prepare, PrepareAlgorithm)
    server.algorithm = new = PackingAlgorithm()  # type: ignore[assignment]
    server.machine.preparations.carry_out(prepare, lambda name, settings: new)
    server.machine.handle(AlgorithmPrepared(1), server.now)
    server.wait(1)
    assert server.seats() == {}


def test_events_cost_no_more_while_many_seats_are_kept() -> None:
    seen = PodSeen(Pod(namespace="other", name="o", uid="u-o", requests=(("cpu", 1),), resource_version="1"))

    def cost(members: int) -> int:
        pods = [msgspec.structs.replace(WAITING[0], name=f"x{i}", uid=f"u-x{i}", requests=()) for i in range(members)]
        server = Server(msgspec.structs.replace(forged("n0"), annotations=member("a", **_plan_for(pods)).annotations))
        server.see(*pods)
        assert len(server.seats()) == members
        server.machine.handle(seen, server.now)
        return effort(lambda: server.machine.handle(seen, server.now))

    assert cost(100) == cost(50)


def _plan_for(pods: list[Pod]) -> dict[str, str]:
    return plan(**dict.fromkeys((pod.uid for pod in pods), "n1"))

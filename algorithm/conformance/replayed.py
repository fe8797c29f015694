"""The life of a cluster for a test that was printed for a failure: each call is a method, and one judge watches.

life = life_of("my_package:PLUGIN", {"slots": 2}, check="only-offered-nodes")
life.add_node(Node(name="n1"))
life.submit(Pod(namespace="ns", name="p", uid="u"))
life.ask("u", ["n1"])
life.end()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from algorithm.conformance.calls import (
    AddNode,
    Allocate,
    Ask,
    Call,
    Delete,
    DeleteNode,
    Expire,
    Faulty,
    FoundBound,
    Lapse,
    Linger,
    NewLife,
    Protect,
    Replace,
    Restart,
    SetTime,
    StartPreempting,
    StopPreempting,
    Submit,
    Update,
    UpdateNode,
    UseFork,
)
from algorithm.conformance.guard import Guard
from algorithm.conformance.hashseeds import SeedsJudge
from algorithm.conformance.independence import LivesJudge
from algorithm.conformance.judges import JUDGES
from algorithm.conformance.life import Life, Look, Watcher
from algorithm.conformance.reference import plugin_of, settings_of, worlds_of
from algorithm.conformance.results import Request
from algorithm.conformance.suspects import suspects
from algorithm.interface import Phase
from algorithm.model import Node, Pod
from algorithm.registry import reads_of

#: The judges that compare processes.
_OF_PROCESSES = {each.name: each for each in (SeedsJudge, LivesJudge)}


class ReplayedLife(Life):
    """`Life` with a method for each call."""

    def add_node(self, node: Node) -> None:
        self.perform(AddNode(node))

    def update_node(self, node: Node) -> None:
        self.perform(UpdateNode(node))

    def delete_node(self, name: str) -> None:
        self.perform(DeleteNode(name))

    def submit(self, *pods: Pod) -> None:
        self.perform(Submit(pods))

    def found_bound(self, pod: Pod) -> None:
        self.perform(FoundBound(pod))

    def ask(self, uid: str, nodes: Iterable[str], phase: Phase = Phase.FILTERING) -> Any:
        """The answer; None if it raised."""
        self.perform(Ask(uid, tuple(nodes), phase))
        return self.answers.get(uid)

    def allocate(self, uid: str) -> None:
        self.perform(Allocate(uid))

    def start_preempting(self, uid: str) -> None:
        self.perform(StartPreempting(uid))

    def stop_preempting(self, uid: str) -> None:
        self.perform(StopPreempting(uid))

    def expire(self, uid: str) -> None:
        self.perform(Expire(uid))

    def update(self, pod: Pod) -> None:
        self.perform(Update(pod))

    def replace(self, pod: Pod) -> None:
        self.perform(Replace(pod))

    def delete(self, uid: str) -> None:
        self.perform(Delete(uid))

    def protect(self, *uids: str) -> None:
        self.perform(Protect(uids))

    def linger(self, *uids: str) -> None:
        self.perform(Linger(uids))

    def lapse(self, *uids: str) -> None:
        self.perform(Lapse(uids))

    def set_time(self, now: float) -> None:
        self.perform(SetTime(now))

    def restart(self, seed: int = 0) -> None:
        self.perform(Restart(seed))

    def use_fork(self) -> None:
        self.perform(UseFork())

    def new_life(self) -> None:
        self.perform(NewLife())

    def faulty(self, change: Any, field: str, after: int = 1) -> None:
        self.perform(Faulty(change, field, after))


def life_of(
    reference: str,
    settings: Mapping[str, Any] | None = None,
    *,
    check: str,
    world: str = "",
    look: Look = "always",
    limit: float = 10.0,
) -> ReplayedLife:
    """A new life of this plug-in, watched for one check. Raises UnusableError; calls raise ContractBroken."""
    plugin = plugin_of(reference)
    worlds = worlds_of(plugin, world)
    given = worlds.settings if settings is None else settings
    checked, request = settings_of(plugin, given), Request(plugin=reference, settings=dict(given), limit=limit)
    made = worlds.make(checked)
    judge: Callable[[Life], Watcher] = JUDGES[check] if check in JUDGES else partial(_OF_PROCESSES[check], request)
    return ReplayedLife(
        lambda: plugin.create(checked),
        judges=[judge],
        reads=reads_of(plugin),
        guard=Guard(limit),
        history=made.history,
        node_names=made.node_names,
        pages=made.pages,
        suspects=suspects(plugin),
        look=look,
    )


def carry_out(life: Life, calls: Iterable[Call]) -> None:
    """Carry out the calls that are possible, to the end."""
    for call in calls:
        life.perform(call)
    life.end()

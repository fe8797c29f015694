"""Finds cycles among pods that wait for each other, and the root of troubles that are passed on.

    nothing to do --- what waits for what has changed ---> due in 1 s, later if many wait
          ^                                                       |
          +--- all was searched, nothing has changed since <--- searching, a slice after each event

A pod waits for targets; a target waits for its pods that wait. Strongly connected components of this graph come in
reverse topological order (`graph.components`), so the troubles of all that a pod waits for are known when its own is
derived. A component is a deadlock only if no pod of it can get out: a gang that needs two of three pods does not wait
for the third.

Nothing but explanations depends on this. A pod is released by what it waits for, whether or not this has run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from algorithm.reasons import Code
from extender.ordering.graph import circle, components
from extender.ordering.judging import Judge, rank
from extender.ordering.records import POD, Dependency, PodKey, Target
from extender.ordering.shares import PODS
from extender.ordering.state import EngineState, Phase, Trouble, Waiting
from extender.ordering.tree import NodeKey

#: A pod by its UID, or a target.
Vertex: TypeAlias = str | NodeKey
#: Seconds between a change and the search, and one more for so many pods that wait.
DELAY, PODS_A_SECOND = 1.0, 10_000
#: Edges that are followed after one event.
EDGES = 500
#: Targets of a cycle that are named.
MOST_NAMED = 12
#: Rounds in which those are found that can go on. If there are more, the others are taken for a cycle.
MOST_ROUNDS = 20
#: Vertices of a component that is searched for a way out and for a path. In a larger one all are taken for a cycle.
MOST_VERTICES = 2_000
#: The same for dependencies of its pods that are not met. The search takes some 2 us for each, in one piece.
MOST_LINKS = 20_000


_NOBODY = Target("", "", "")
_END: Final = object()


class CauseFinder:
    """See the module."""

    def __init__(self, state: EngineState, judge: Judge) -> None:
        self._state = state
        self._judge_of = judge
        self._due: float | None = None
        self._search: Iterator[None] | None = None
        #: Pods and targets that cannot go on, in this search.
        self._troubles: dict[Vertex, Trouble] = {}
        #: How many searches have ended.
        self.searches = 0

    def on_time(self) -> None:
        """Search for a while, if there is something to find."""
        state = self._state
        if not state.is_synced:
            return
        if (state.graph_changed or state.tree.reshaped) and self._due is None:
            state.graph_changed = state.tree.reshaped = False
            self._due = state.now + DELAY + len(state.waiting) / PODS_A_SECOND
        if self._search is None and self._due is not None and self._due <= state.now:
            self._due, self._troubles = None, {}
            self._search = self._run()
        if self._search is not None and next(self._search, _END) is _END:
            self._search = None
            self.searches += 1

    def next_due(self) -> float | None:
        """When there is something to do, seconds of the engine's clock; None: nothing."""
        state = self._state
        if not state.is_synced:
            return None
        is_at_work = self._search is not None or ((state.graph_changed or state.tree.reshaped) and self._due is None)
        return state.now if is_at_work else self._due

    def _run(self) -> Iterator[None]:
        """Search, with a pause after every slice."""
        vertices: list[Vertex] = list(self._state.waiting)
        for found in components(vertices, self._successors, pause=EDGES):
            if found is None:
                yield
            elif self._is_large(found):
                yield from self._tell_large_cycle(found)
            else:
                self._judge(found)

    # -- the graph

    def _successors(self, vertex: Vertex) -> list[Vertex]:
        state = self._state
        if isinstance(vertex, str):
            waiting = state.waiting.get(vertex)
            if waiting is None or waiting.phase is not Phase.WAITING:
                return []
            found = (self._vertex(each.target) for clause in waiting.unmet for each in clause)
            return list(dict.fromkeys(each for each in found if each is not None))
        node = state.tree.nodes.get(vertex)
        return [*node.waiting, *node.children] if node else []

    def _vertex(self, target: Target) -> Vertex | None:
        """The vertex of a target; None if there is nothing that could wait."""
        tree = self._state.tree
        if target.kind == POD:
            return tree.uids.get(PodKey(target.namespace, target.name))
        key = (target, tree.current.get(target, ""))
        return key if key in tree.nodes else None

    # -- troubles

    def _judge(self, members: list[Vertex]) -> None:
        """Derive the troubles of a component. Those of all that it waits for are known."""
        if len(members) == 1 and members[0] not in self._successors(members[0]):
            self._set(members[0], self._derive(members[0]))
            return
        stuck = self._without_way_out(members)
        for vertex in members:
            if vertex not in stuck:
                self._set(vertex, None)

        def within(vertex: Vertex) -> list[Vertex]:
            return [other for other in self._successors(vertex) if other in stuck]

        for found in components([each for each in members if each in stuck], within):
            assert found is not None
            if len(found) == 1 and found[0] not in within(found[0]):
                self._set(found[0], self._derive(found[0]))
            else:
                self._tell_cycle(found)

    def _tell_cycle(self, members: list[Vertex]) -> None:
        names = self._names(members)
        if not names:  # an edge went while it was searched for
            self._state.graph_changed = True
        trouble = Trouble(Code.DEPENDENCY_CYCLE, names[0], _path(names)) if names else None
        for vertex in members:
            direct = self._direct(vertex)
            self._set(vertex, direct or trouble)

    def _is_large(self, members: list[Vertex]) -> bool:
        """Whether looking for a way out would take too long. It ends as soon as that is known."""
        if len(members) > MOST_VERTICES:
            return True
        waiting = (self._state.waiting.get(each) for each in members if isinstance(each, str))
        links = accumulate(sum(map(len, each.unmet)) for each in waiting if each is not None)
        return len(members) > 1 and any(number > MOST_LINKS for number in links)

    def _tell_large_cycle(self, members: list[Vertex]) -> Iterator[None]:
        """Take all members for a cycle, whose path is not searched: nobody reads one of this length."""
        pods = [each for each in members if isinstance(each, str)]
        first = min(map(self._name, pods))
        many = f"more than {MOST_VERTICES:,} objects"
        if len(members) <= MOST_VERTICES:
            many = f"{len(members) - 1:,} more objects with more than {MOST_LINKS:,} dependencies"
        trouble = Trouble(Code.DEPENDENCY_CYCLE, first, f"{first} -> ({many}) -> {first}")
        for number, vertex in enumerate(members, start=1):
            self._set(vertex, self._direct(vertex) or trouble)
            if number % EDGES == 0:
                yield

    def _names(self, members: list[Vertex]) -> list[Target]:
        """The targets on a shortest way round a cycle, the first one in order first; [] if there is no way any more."""
        start = min((each for each in members if isinstance(each, str)), key=self._name, default=None)
        if start is None:
            return []
        way = circle(members, self._successors, start)
        # A vertex after a pod is what the pod declares; one after a target is only a part of that.
        names = [
            self._name(vertex) if isinstance(vertex, str) else vertex[0]
            for before, vertex in zip([*way[-1:], *way], way, strict=False)
            if isinstance(before, str)
        ]
        if not names:
            return []
        first = names.index(min(names))
        return names[first:] + names[:first]

    def _name(self, uid: str) -> Target:
        return self._state.waiting[uid].record.key.target if uid in self._state.waiting else _NOBODY

    def _without_way_out(self, members: list[Vertex]) -> set[Vertex]:
        """The members that wait for each other for ever: all but those that can go on without the others."""
        stuck = set(members)
        for _ in range(MOST_ROUNDS):
            free = [each for each in members if each in stuck and self._can_go_on(each, stuck)]
            if not free:
                break
            stuck.difference_update(free)
        return stuck

    def _can_go_on(self, vertex: Vertex, stuck: set[Vertex]) -> bool:
        if not isinstance(vertex, str):
            return not self._blocks(vertex, self._stuck_pods(vertex, stuck))
        waiting = self._state.waiting.get(vertex)
        if waiting is None:
            return True
        return not waiting.direct and all(
            any(not self._is_stuck(each, waiting, stuck) for each in clause) for clause in waiting.unmet
        )

    def _is_stuck(self, dependency: Dependency, waiting: Waiting, stuck: set[Vertex]) -> bool:
        vertex = self._vertex(dependency.target)
        is_stuck = vertex is not None and (vertex in stuck or vertex in self._troubles)
        return is_stuck or self._judge_of.trouble_of(dependency, waiting) is not None

    def _stuck_pods(self, key: NodeKey, stuck: set[Vertex]) -> int:
        """How many pods of a target cannot go on."""
        node = self._state.tree.nodes.get(key)
        if node is None:
            return 0
        number = sum(uid in stuck or uid in self._troubles for uid in node.waiting)
        return number + sum(self._stuck_pods(child, stuck) for child in node.children)

    def _blocks(self, key: NodeKey, stuck_pods: int) -> bool:
        """Whether a target cannot be reached without so many of its pods."""
        node = self._state.tree.nodes.get(key)
        if node is None or not stuck_pods:
            return False
        needed = self._state.tree.expected(node)
        return max(needed, node.counts[PODS]) - stuck_pods < needed

    def _derive(self, vertex: Vertex) -> Trouble | None:
        """The trouble of a pod or a target that is in no cycle."""
        if not isinstance(vertex, str):
            return self._of_node(vertex)
        waiting = self._state.waiting.get(vertex)
        if waiting is None:
            return None
        found = [self._of_clause(clause, waiting) for clause in waiting.unmet]
        return min(filter(None, [waiting.direct, *found]), key=rank, default=None)

    def _of_node(self, key: NodeKey) -> Trouble | None:
        if not self._blocks(key, self._stuck_pods(key, set())):
            return None
        node = self._state.tree.nodes[key]
        found = [self._troubles[each] for each in (*node.waiting, *node.children) if each in self._troubles]
        return min(found, key=rank, default=None)

    def _of_clause(self, clause: tuple[Dependency, ...], waiting: Waiting) -> Trouble | None:
        found = [self._judge_of.trouble_of(each, waiting) or self._passed_on(each) for each in clause]
        return None if None in found else min(filter(None, found), key=rank)

    def _passed_on(self, dependency: Dependency) -> Trouble | None:
        """The trouble of a pod because of the trouble of what it waits for."""
        vertex = self._vertex(dependency.target)
        trouble = self._troubles.get(vertex) if vertex is not None else None
        if trouble is None:
            return None
        code, detail = trouble.code, trouble.detail
        if code is Code.DEPENDENCY_INVALID:
            code, detail = Code.DEPENDENCY_FAILED, f"{trouble.root} declares its dependencies wrongly"
        elif code is Code.DEPENDENCY_CYCLE:
            code, detail = Code.DEPENDENCY_FAILED, f"there is a cycle, {detail}"
        return Trouble(code, trouble.root, detail, dependency.target)

    def _direct(self, vertex: Vertex) -> Trouble | None:
        waiting = self._state.waiting.get(vertex) if isinstance(vertex, str) else None
        return waiting.direct if waiting else None

    def _set(self, vertex: Vertex, trouble: Trouble | None) -> None:
        if trouble is not None:
            self._troubles[vertex] = trouble
        waiting = self._state.waiting.get(vertex) if isinstance(vertex, str) else None
        if waiting is None or waiting.phase is not Phase.WAITING:
            return
        assert isinstance(vertex, str)
        indirect = None if trouble == waiting.direct else trouble
        if waiting.indirect != indirect:
            waiting.indirect = indirect
            self._state.looks[vertex] = None


def _path(names: Sequence[Target]) -> str:
    """The cycle as a text. Of a long one the middle is left out."""
    shown = [str(each) for each in (*names, names[0])]
    if len(shown) > MOST_NAMED:
        left = len(shown) - MOST_NAMED
        shown[MOST_NAMED // 2 : -(MOST_NAMED // 2)] = [f"({left} more)"]
    return " -> ".join(shown)

"""Makes a plan: loads the world, makes the changes, and lets everything happen until nothing happens any more.

    load the world --> rest --> what-if changes --> rest --> create the new objects --> rest --> rows

At *rest* nobody has anything to do: no change is unreported, no pod is to be tried, and time alone changes nothing.
What waits in the world is therefore tried before the new objects exist. These are created all at once; pods are tried
in kube-scheduler's order: by priority, then by their order of creation.

Timers (a hold that lapses, a back-off) are followed only as long as something comes of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from extender.plan.records import Changes, Options, Plan, World
from extender.plan.run.changing import apply_changes, check_priorities
from extender.plan.run.creation import create_objects
from extender.plan.run.dependencies import Dependencies
from extender.plan.run.estimates import Duration, RunTimes, longest, shortest, with_starts
from extender.plan.run.judging import judge
from extender.plan.run.listeners import Listener
from extender.plan.run.rows import result
from extender.plan.run.state import PlanState

#: A pod that is made again more often would be for ever.
MOST_TIMES = 100
#: Seconds until what a timer wants to be written has come back to kube-scheduler. Other timers that are due by then
#: fire before it asks again.
ROUND_TRIP = 0.02


def make_plan(world: World, changes: Changes, options: Options | None = None) -> Plan:
    """Return what would happen in this world after these changes. Raises PlanError for a wrong input."""
    run = planning(world, changes, options)
    while True:
        try:
            next(run)
        except StopIteration as end:
            plan: Plan = end.value
            return plan


def planning(world: World, changes: Changes, options: Options | None = None) -> Generator[None, None, Plan]:
    """The same in bounded pieces of work: yields after each, and returns the plan. May be abandoned at any time.

    Raises PlanError for a wrong input.
    """
    options = options or Options()
    state = PlanState(world, changes, options)
    yield from PlanRun(state).run()
    plan = yield from result(state)
    if not options.estimate or plan.stopped:
        return plan
    first = yield from starting(world, changes, options, shortest)
    return with_starts(plan, first, (yield from starting(world, changes, options, longest)))


def starting(
    world: World, changes: Changes, options: Options, duration: Duration
) -> Generator[None, None, Mapping[tuple[str, str], float]]:
    """Let time pass, and return when each pod started: seconds by namespace and name. Yields as `planning` does."""
    state = PlanState(world, changes, options)
    times = RunTimes(state.cluster, duration, world.taken)
    yield from PlanRun(state, times).run()
    return times.starts


class PlanRun:
    """One plan in the making: the listeners, and the phases between which they come to rest."""

    def __init__(self, state: PlanState, times: RunTimes | None = None) -> None:
        self.state = state
        self._times = times
        self.dependencies = Dependencies(state.cluster, self._at_rest)
        self._listeners: list[Listener] = [self.dependencies, state.scheduling, *state.engines]
        self._phases = self._make_changes()
        policy = state.configuration.policy
        #: Seconds for which timers are followed without a result: each timer can then fire once.
        self._patience = max(policy.lease, policy.reservation_timeout, policy.eviction_backoff, policy.patience) + 60.0
        self._progress = -1
        self._until = 0.0

    def run(self) -> Generator[None, None, None]:
        """Let everything happen."""
        yield from self._load()
        yield from self.dependencies.run()
        state = self.state
        pods = {story.first: story.latest for story in state.cluster.stories.values() if story.exists}
        old = frozenset(story.first for story in state.cluster.stories.values() if story.stayed)
        held = [story.first for uid in self.dependencies.held if (story := state.cluster.story(uid)) is not None]
        state.judgement = judge(self.dependencies.milestones, pods, old, sorted(held))

    def _load(self) -> Generator[None, None, None]:
        state = self.state
        state.cluster.begin(state.world, state.obeyed)
        self._check_sizes()
        if state.stopped:
            return
        self.dependencies.milestones.add_objects(state.world.objects)
        for listener in self._listeners:
            yield from listener.load()
        for engine in state.engines:
            engine.add_objects(state.world.objects)
        state.cluster.listeners = self._listeners

    def _check_sizes(self) -> None:
        options, cluster = self.state.options, self.state.cluster
        for what, number, most in (
            ("pods", len(cluster.pods), options.most_pods),
            ("nodes", len(cluster.nodes), options.most_nodes),
        ):
            if number > most:
                self.state.stopped = self.state.stopped or f"{number} {what}, of which a plan takes at most {most}"

    # -- phases ---------------------------------------------------------------------------------------------------

    def _at_rest(self) -> bool:
        """Go on by one piece; False if nothing more happens."""
        return not self.state.stopped and (self._work() or self._next_phase())

    def _next_phase(self) -> bool:
        return next(self._phases, False) or self._end_pods()

    def _make_changes(self) -> Iterator[bool]:
        """Yield True wherever everything has to come to rest."""
        state = self.state
        if state.cluster.remove_terminating():
            yield True
        for _ in apply_changes(state):
            yield True
        create_objects(state)
        check_priorities(state)
        self._check_sizes()
        self.dependencies.milestones.add_objects(state.created)
        for engine in state.engines:
            engine.add_objects(state.created)
        self.dependencies.objects_changed()
        yield True

    def _end_pods(self) -> bool:
        """End the pods for whose ends others wait, or whose time is over; False if there are none."""
        if self._times is not None:
            passed = self._times.end_next()
            self.state.clock.jump(self.state.clock.time + (passed or 0.0))
            return passed is not None
        ending = self.dependencies.to_end()
        for uid in ending:
            self.state.cluster.end(uid)
        return bool(ending)

    # -- work -----------------------------------------------------------------------------------------------------

    def _work(self) -> bool:
        """Let one thing happen; False at rest."""
        if self.state.cluster.deliver():
            return True
        if self.state.scheduling.attempts >= self.state.options.most_attempts:
            self.state.stopped = f"{self.state.options.most_attempts} attempts to place pods were made"
            return False
        often = self.state.cluster.most_often
        if often is not None and often.times > MOST_TIMES:
            # Live, too: a pod that is made again takes the room before the one for which it had to go is tried again.
            self.state.stopped = f"pod {often.pod.key} is evicted and made again without end"
            return False
        return any(listener.step() for listener in self._listeners) or self._advance()

    def _advance(self) -> bool:
        """Let time pass until the next timer; False if none is due, or nothing has come of the last ones."""
        due = min((time for each in self._listeners if (time := each.next_due()) is not None), default=None)
        if due is None:
            return False
        if self.state.cluster.progress != self._progress:
            patience = max(self._patience, *(engine.patience for engine in self.state.engines))
            self._progress, self._until = self.state.cluster.progress, self.state.clock.time + patience
        if due > self._until:
            return False
        self.state.clock.jump(due + ROUND_TRIP)
        return True

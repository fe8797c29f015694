"""What the algorithm would answer about pods that wait, asked of a copy: also about pods that kube-scheduler never asks
about.

    ask(pods) --> is the copy as old as the last change? --no--> copy again, in pieces under the lock of the loop
                    |                                             (not more often than the shares below allow)
                    +--> answers that are known for this copy, and new ones, until the time for this call is over

The running algorithm is never asked, so its state does not change and no verb waits for a long answer. A question
assumes that kube-scheduler offers every node that is ready and not cordoned.

Bounds, however often pages are read: copies take at most 1/COPY_SHARE of the time of one core, and hold the loop's
lock for at most 1/LOCK_SHARE of the time; one call makes new answers for at most `seconds`; equal pods of a gang, or of
a namespace, are one question; at most MOST_ANSWERS are remembered. So an answer may be older than the last change. A
copy that nobody has used for a while is dropped, as it takes as much memory as the algorithm. An explanation has
EXPLAINING seconds between its sentences. An algorithm that does not even return from one step takes one thread with it;
all others go on without answers after PATIENCE seconds, since a plug-in's fault must not take every page away.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from algorithm.interface import Bind, Phase, PodRefused, SchedulerAlgorithm, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Reason
from extender.core.said import plain
from extender.scheduling.driver import AlgorithmFault, made, wrong_with
from extender.scheduling.events import Event, Instruction
from extender.scheduling.machine import SchedulerStateMachine
from extender.server.guard import AlgorithmGuard
from extender.server.loop import EngineLoop

#: One core's time, and the time of the loop's lock, divided by what copies may take of each.
COPY_SHARE, LOCK_SHARE = 10, 100
#: Seconds of new answers in one call.
SECONDS = 0.05
MOST_ANSWERS = 5000
#: Seconds that somebody who asks about one pod may have to wait for the next copy; that anybody waits for his turn.
PATIENCE = 2.0
#: Seconds after which an explanation ends with the sentence, or the step without one, that comes next.
EXPLAINING = 5.0
#: Sentences of one explanation, and characters of each.
MOST_SENTENCES, LONGEST_SENTENCE = 50, 2000
#: Seconds after which an unused copy may be dropped.
UNUSED = 10.0
#: Labels that differ between the equal pods of one controller.
_ORDINALS = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
    }
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the algorithm would do with a pod: place it on `node`, or let it wait for `reason`. `sentences` is what it
    explains. `fault`: it failed, and how."""

    node: str = ""
    reason: Reason | None = None
    sentences: tuple[str, ...] = ()
    fault: str = ""


class _Copy:
    """A copy of the algorithm, with what was true when it was made, and its answers. `older` are those of the copies
    before it, by UID."""

    def __init__(
        self,
        algorithm: SchedulerAlgorithm,
        guard: AlgorithmGuard,
        generation: tuple[int, int],
        waiting: Mapping[str, Pod],
        own: Iterable[str],
        nodes: Iterable[Node],
    ) -> None:
        self.generation = generation
        self.waiting = waiting
        self.older: dict[str, Verdict] = {}
        self._algorithm, self._guard = algorithm, guard
        #: UIDs of the pods for which the algorithm keeps room: their answers are their own.
        self._own = frozenset(own)
        self._nodes = nodes
        self._answers: dict[object, Verdict] = {}
        self._of: dict[str, Verdict] = {}

    def take_answers(self, before: _Copy) -> None:
        """Use the answers of this copy as long as there are no newer ones."""
        both = before.older | before._of
        self.older = {uid: verdict for uid, verdict in both.items() if uid in self.waiting}

    def known(self, uid: str) -> Verdict | None:
        if uid not in self._of:
            verdict = self._answers.get(self._question(self.waiting[uid]))
            if verdict is None:
                return None
            self._of[uid] = verdict
        return self._of[uid]

    def ask(self, uid: str) -> Verdict:
        """Raises AlgorithmFault."""
        if len(self._answers) >= MOST_ANSWERS:
            self._answers.clear()
        pod = self.waiting[uid]
        found = self._answers[self._question(pod)] = self._of[uid] = self._ask(pod)
        return found

    def fails(self, uid: str, fault: str) -> Verdict:
        """The algorithm failed to answer: do not ask it about this pod again."""
        found = self._of[uid] = Verdict(fault=fault)
        return found

    def _question(self, pod: Pod) -> object:
        """Equal for pods to which the answer is the same."""
        if pod.uid in self._own:
            return pod.uid
        gang = self._gang(pod)
        labels = () if gang else tuple(pair for pair in pod.labels if pair[0] not in _ORDINALS)
        asked = (pod.requests, pod.limits, pod.priority, pod.may_preempt, pod.annotations, pod.group)
        return pod.namespace, gang, labels, asked

    @cached_property
    def _offered(self) -> SuggestedNodes:
        return SuggestedNodes(sorted(node.name for node in self._nodes if node.takes_pods))

    def _gang(self, pod: Pod) -> str:
        try:
            return self._guard.free("gang", lambda: self._name_of_gang(pod), pod)
        except AlgorithmFault:
            return ""

    def _name_of_gang(self, pod: Pod) -> str:
        gang = self._algorithm.gang(pod)
        return "" if gang is None else str(gang.name)

    def _ask(self, pod: Pod) -> Verdict:
        result = self._guard.free("schedule", lambda: self._schedule(pod), pod)
        node, why = (result.node, None) if isinstance(result, Bind) else ("", result.reason)
        return Verdict(node, why, self._guard.free("explain", lambda: tuple(self._sentences(pod)), pod))

    def _schedule(self, pod: Pod) -> ScheduleResult:
        try:
            result = self._algorithm.schedule(pod, self._offered, Phase.FILTERING)
        except PodRefused as refused:
            result = Wait(refused.reason)
        if wrong := wrong_with(result):
            raise TypeError(f"it returned {wrong}")
        return result

    def _sentences(self, pod: Pod) -> Iterator[str]:
        return (sentence for sentence in bounded(self._algorithm.explain(pod)) if sentence)


def bounded(explained: Iterable[str], clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """What an algorithm explains, steps without a sentence ("") included, as far as the bounds allow."""
    end, number = clock() + EXPLAINING, 0
    for sentence in explained:
        yield plain(str(sentence), LONGEST_SENTENCE) if sentence else ""
        number += bool(sentence)
        if number == MOST_SENTENCES or clock() > end:
            return


def _maker(
    algorithm: Callable[[], SchedulerAlgorithm],
    guard: AlgorithmGuard,
    generation: tuple[int, int],
    waiting: Mapping[str, Pod],
    own: Iterable[str],
    nodes: Iterable[Node],
) -> Callable[[], _Copy]:
    return lambda: _Copy(guard.free("forks", lambda: made(algorithm)), guard, generation, waiting, own, nodes)


class WhatIf:
    """Thread-safe: one caller at a time makes answers."""

    def __init__(
        self,
        machine: SchedulerStateMachine,
        loop: EngineLoop[Event, Instruction],
        guard: AlgorithmGuard | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._machine = machine
        self._guard = guard or AlgorithmGuard(machine.driver, loop)
        self._loop = loop
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._copy: _Copy | None = None
        self._next_copy = float("-inf")
        self._used = float("-inf")
        #: Whether the algorithm can be copied at all.
        self.possible = True
        #: How many copies were made, and the longest time that one held the loop's lock, seconds.
        self.copies = 0
        self.longest_hold = 0.0

    def ask(self, uids: Iterable[str], seconds: float = SECONDS) -> dict[str, Verdict]:
        """Return answers by UID. New ones are made for `seconds`, at least one; the others may be older, or missing.

        A pod that does not wait any more has no answer; no pod has one if the algorithm cannot be copied, or is busy
        with another question for longer than PATIENCE.
        """
        if not self._lock.acquire(timeout=PATIENCE):
            return {}
        try:
            copy = self._current()
            if copy is None:
                return {}
            found: dict[str, Verdict] = {}
            missing: list[str] = []
            for uid in uids:
                if uid in copy.waiting:
                    verdict = copy.known(uid)
                    missing += [uid] if verdict is None else []
                    found |= {uid: verdict} if verdict is not None else {}
            end = None
            for uid in sorted(missing, key=lambda uid: uid in copy.older):
                verdict = copy.known(uid)
                if verdict is None and (end is None or self._clock() < end):
                    end = self._clock() + seconds if end is None else end
                    verdict = self._answer(copy, uid)
                verdict = verdict or copy.older.get(uid)
                found |= {uid: verdict} if verdict is not None else {}
            return found
        finally:
            self._lock.release()

    def ask_one(self, uid: str) -> Verdict | None:
        """Return the answer about one pod, for somebody who waits for it: for a pod that is newer than the copy, wait
        for the next copy, if that is soon."""
        found = self.ask([uid]).get(uid)
        if found is None and self.possible and 0 < (wait := self._next_copy - self._clock()) <= PATIENCE:
            self._sleep(wait)
            found = self.ask([uid]).get(uid)
        return found

    def drop_unused(self) -> None:
        """Drop the copy if nobody has asked for a while. To be called now and then."""
        if not self._lock.acquire(blocking=False):
            return  # it is in use
        try:
            if self._clock() - self._used >= UNUSED:
                self._copy = None
        finally:
            self._lock.release()

    def _answer(self, copy: _Copy, uid: str) -> Verdict:
        try:
            return copy.ask(uid)
        except AlgorithmFault as fault:
            return copy.fails(uid, str(fault))

    # -- the copy -------------------------------------------------------------------------------------------------

    def _current(self) -> _Copy | None:
        """The copy to ask: of now, if it may be made again."""
        self._used = now = self._clock()
        if self._copy is not None and self._copy.generation == self._generation():
            return self._copy
        if self.possible and now >= self._next_copy:
            self._copy_again()
        return self._copy

    def _generation(self) -> tuple[int, int]:
        driver = self._machine.driver
        return id(driver.algorithm), driver.calls

    def _copy_again(self) -> None:
        if not self._loop.copying.acquire(blocking=False):
            return  # for a recording; the older copy answers meanwhile
        try:
            self._make_copy()
        finally:
            self._loop.copying.release()

    def _make_copy(self) -> None:
        cpu, before = time.thread_time(), self._copy
        was_enabled = gc.isenabled()
        gc.disable()  # none of the new objects is garbage, and each collection would look at all of them
        held = 0.0
        try:
            taken = None
            for piece, found in self._loop.in_turns(self._pieces()):
                held += piece
                taken = found or taken
            if taken is not None:
                self._copy = taken()
                self.copies += 1
            if before is not None and self._copy is not None:
                self._copy.take_answers(before)
        except NotImplementedError:
            self.possible = False
        except AlgorithmFault:
            pass  # it is noted, and the older copy answers meanwhile
        finally:
            if was_enabled:
                gc.enable()
        self._next_copy = self._clock() + max((time.thread_time() - cpu) * COPY_SHARE, held * LOCK_SHARE)

    def _pieces(self) -> Iterator[tuple[float, Callable[[], _Copy] | None]]:
        """Runs under the lock of the loop. Yields how long each piece took, and once a function that makes the copy,
        which needs no lock.
        """
        driver = self._machine.driver
        began = time.perf_counter()
        for algorithm in self._guard.steps("forks", driver.algorithm.forks, passes=(NotImplementedError,)):
            taken = None
            if algorithm is not None:
                own = (*driver.preempting, *driver.reserved)
                nodes = list(driver.nodes.values())
                taken = _maker(algorithm, self._guard, self._generation(), dict(driver.unallocated), own, nodes)
            took = time.perf_counter() - began
            self.longest_hold = max(self.longest_hold, took)
            yield took, taken
            began = time.perf_counter()

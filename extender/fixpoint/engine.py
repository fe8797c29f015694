"""The loop: runs bodies until nothing runs and nothing can run, gives verdicts then, and ends when no node waits.

    run:      dispatch what is queued --> nothing queued, nothing running --> sweep --> at_rest --> verdicts --> end
                        ^                                                       |          |           |
                        +----------------- something is queued again -----------+----------+-----------+

Termination is structural: there is no time-out and no idle signal. Whatever a body reports is in the engine before the
body ends, so that nothing can appear any more when no body runs.

Promises:

* The outcome is a function of the graph: no number of workers and no timing changes it, as long as what bodies report
  depends on nothing but their needs.
* It ends if each body, `at_rest` and `order` return. There are at most `Limits.nodes` nodes at once, and each id is
  dispatched at most `Limits.dispatches` times. Needs cost one dispatch for each change; all else is charged to its
  node, at most `Limits.redispatches` times. What exceeds a bound ends the run as DIVERGED, with an error that names it.
* A body that raises an exception fails only its node. KeyboardInterrupt and the like end the run, and `run` raises
  them. The same goes for faults in the middle of a change, such as ids that cannot be compared.
* It returns when no body runs any more. There is one exception, for bodies that never end: a run that ends early
  (cancelled, diverged, or by an exception) waits for bodies only as long as one of them ends within the executor's
  grace, in seconds. Then it raises `Interrupted` in the rest, where they run Python code, as Ctrl-C does. What then
  still runs is abandoned: the run returns, its report names the node (`Code.ABANDONED`), and nothing that its thread
  reports or returns later counts. `Inline` runs bodies in the thread that called `run`. It can interrupt a loop, but it
  cannot leave a call that sleeps in C code; with `Threads` or `Pool` the run can. Only the daemon threads of `Threads`
  let the process exit all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Generic

from extender.fixpoint.executor import Executor, Inline
from extender.fixpoint.graph import Graph
from extender.fixpoint.interrupts import Call, Interrupted
from extender.fixpoint.reasons import Reasons
from extender.fixpoint.records import LONGEST_TEXT, Blocked, Code, Done, Id, Limits, Need, Outcome, Reason, Status
from extender.fixpoint.report import Report, RunEnd, make_report
from extender.fixpoint.shared import SHARED, Shared
from extender.fixpoint.things import Node
from extender.fixpoint.verdicts import Verdicts
from extender.fixpoint.visit import Body, Unmet, Visit

#: How long a run waits for bodies that it has interrupted, seconds.
_LAST_GRACE = 0.5


class Engine(Generic[Id]):
    """Run `body` for each node until all have ended.

    `executor`: where bodies run (`Inline`: one after the other). `order`: what queued ids are compared by (first come,
    first served). `at_rest`: called when nothing runs and nothing is queued, before any verdict; it may report news
    with `arrive`, `status` and `gone`, and returns whether it is to be called again before verdicts are given.
    """

    def __init__(
        self,
        body: Body[Id],
        *,
        executor: Executor | None = None,
        order: Callable[[Id], Any] | None = None,
        limits: Limits | None = None,
        at_rest: Callable[[], bool] | None = None,
    ) -> None:
        self._body = body
        self._executor = executor or Inline()
        self._graph: Graph[Id] = Graph(limits or Limits(), order)
        self._shared = Shared(self._graph, self._executor)
        self._verdicts = Verdicts(self._graph)
        self._at_rest = at_rest
        self._rests = 0
        self._in_flight = 0
        #: The bodies that run, by their nodes.
        self._calls: dict[Id, Call] = {}
        self._running = False
        self._undo_interrupt: Callable[[], None] = _nothing
        self._warnings: list[str] = []

    # -- news: from bodies, from `at_rest`, before the run, from other threads -----------------------------------

    def seed(self, ids: Iterable[Id]) -> None:
        """Register nodes, in order of ids. Known ones are left alone."""
        self._shared.seed(ids)

    def arrive(self, key: Id, digest: Any = None, *, runnable: bool = True) -> bool:
        """The id has arrived, or its content has changed. `runnable`: it is a node; else data, which has no body.

        `digest`: of its content; equal ones are no news. None is always news. Of mappings an error names the fields
        that differ. False if it is no news.
        """
        return self._shared.report_arrival(key, digest, runnable, None)

    def status(self, key: Id, status: Status) -> bool:
        """The id has this status now. PENDING wakes no node. False if that is no news."""
        return self._shared.status(key, status)

    def gone(self, key: Id) -> bool:
        """The id does not exist any more. Nodes that relied on it run again. False if it did not exist."""
        return self._shared.gone(key)

    def cancel(self) -> None:
        """End the run as soon as the bodies that run have ended, or the grace is over. From any thread."""
        self._shared.cancel()
        if self._running:
            self._undo_interrupt = self._executor.after_grace(self._interrupt)

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self, seeds: Iterable[Id] = (), *, cancelled: Callable[[], bool] = lambda: False) -> Report[Id]:
        """Run to the end. `cancelled` is asked between two dispatches; with threads, use `cancel` as well."""
        steps = self.steps(seeds)
        while True:
            if cancelled():
                self._shared.cancel()
            try:
                next(steps)
            except StopIteration as end:
                report: Report[Id] = end.value
                return report

    def steps(self, seeds: Iterable[Id] = ()) -> Generator[None, None, Report[Id]]:
        """Run to the end in bounded pieces: one dispatch, one call of `at_rest`, or one step of verdicts each.

        A generator that is closed early cancels the run.
        """
        if self._running:
            raise RuntimeError("the engine runs already")
        self._running = True
        self.seed(seeds)
        try:
            while self._advance():
                yield
        except GeneratorExit:
            self._shared.cancel()
            raise
        finally:
            self._finish()
        return self.report()

    def report(self) -> Report[Id]:
        """Return what has happened so far. Call it when no body runs."""
        return make_report(
            self._graph.things,
            Reasons(self._graph.things, self._graph.limits.roots),
            end=self._shared.ended or RunEnd.CONVERGED,
            error=self._graph.diverged,
            dispatches=self._graph.dispatches,
            steps=self._verdicts.steps,
            warnings=self._warnings,
        )

    def _advance(self) -> bool:
        """Do one piece of work. False at the end."""
        with self._executor:
            if self._stops():
                return False
            node = self._graph.queue.pop() if self._in_flight < self._executor.workers else None
            if node is None and self._in_flight:
                self._executor.wait()
                return True
            if node is None:
                if self._graph.sweep():
                    return True
            elif not self._graph.start(node):
                return True
            else:
                self._in_flight += 1
        if node is None:
            return self._rest()
        self._close_abandoned()
        self._submit(node)
        return True

    def _stops(self) -> bool:
        self._shared.note_divergence()
        return self._shared.cancelled

    def _rest(self) -> bool:
        """Nothing runs and nothing is queued. False if that is the end."""
        before = self._graph.things.generation
        again = (self._at_rest is not None and self._at_rest()) or self._graph.things.generation != before
        with self._executor:
            if not again:
                return self._verdicts.step()
            self._rests += 1
            if self._rests > self._graph.limits.rests and not self._graph.diverged:
                self._graph.diverged = f"at_rest reported news {self._rests} times"
            return True

    def _finish(self) -> None:
        try:
            self._let_bodies_end()
        finally:
            with self._executor:
                self._abandon_bodies()
        self._undo_interrupt()
        self._close_abandoned()
        self._running = False
        if self._shared.fatal is not None:
            fatal, self._shared.fatal = self._shared.fatal, None
            raise fatal

    def _let_bodies_end(self) -> None:
        with self._executor:
            if self._in_flight and not self._shared.cancelled:  # an exception, such as Ctrl-C while it waited
                self._shared.cancel()
            if self._ended_within(self._executor.grace):
                return
        self._interrupt()
        with self._executor:
            self._ended_within(min(self._executor.grace, _LAST_GRACE))

    def _ended_within(self, seconds: float) -> bool:
        while self._in_flight and self._executor.wait(seconds):
            pass
        return not self._in_flight

    def _interrupt(self) -> None:
        """Interrupt the bodies that run, without the lock: a body in the middle of a change is to leave it first."""
        self._shared.closed = True
        for call in list(self._calls.values()):
            call.interrupt(SHARED)

    def _abandon_bodies(self) -> None:
        for node in self._graph.things.nodes():
            if node.id not in self._calls:
                self._graph.abandon(node)
            elif self._in_flight:
                node.reason = Reason(Code.ABANDONED, "did not end when the run did: its thread is still running")
        if self._in_flight:
            self._shared.closed = True
            self._shared.cancel()
        self._in_flight = 0

    def _close_abandoned(self) -> None:
        """Close coroutines that no longer count: without the lock, since they may clean up and report."""
        abandoned = self._graph.abandoned
        while abandoned:
            coroutine = abandoned.pop()
            try:
                coroutine.close()
            except Exception as error:
                self._warnings.append(f"while it was closed: {_text(error)}")

    # -- one body ------------------------------------------------------------------------------------------------

    def _submit(self, node: Node[Id]) -> None:
        try:
            self._executor.submit(partial(self._task, node), partial(self._lost, node))
        except BaseException as error:
            self._ended(node, Done.failed(_text(error)), error)

    def _lost(self, node: Node[Id]) -> None:
        self._ended(node, Done.failed("its worker was lost"), RuntimeError(f"the worker of {node.id} was lost"))

    def _task(self, node: Node[Id]) -> None:
        fatal: BaseException | None = None
        outcome: Outcome[Id] | None
        call = self._calls[node.id] = Call()
        try:
            outcome = call(self._visit, node)
        except Unmet as unmet:
            outcome = Done(Status.FAILED, unmet.reason)
        except Interrupted:
            outcome = None
        except BaseException as error:
            outcome = Done(Status.FAILED, Reason(Code.RAISED, _text(error)))
            fatal = None if isinstance(error, Exception) else error
        self._ended(node, outcome, fatal)

    def _visit(self, node: Node[Id]) -> Outcome[Id]:
        if node.coroutine is None:
            node.runs += 1
            result = self._body(Visit(self._shared, node))
            if not isinstance(result, Coroutine):
                return _checked(result)
            node.coroutine = result
        return _checked(_go_on(node, node.coroutine))

    def _ended(self, node: Node[Id], outcome: Outcome[Id] | None, fatal: BaseException | None = None) -> None:
        """None: it was interrupted."""
        with self._executor:
            self._calls.pop(node.id, None)
            if not self._in_flight:
                return  # the run is over, and has abandoned it
            self._in_flight -= 1
            if fatal is not None:
                self._shared.fail(fatal)
            if outcome is None:
                node.reason = Reason(Code.INTERRUPTED, "did not end when the run was to end, and was interrupted")
            else:
                self._complete(node, outcome)
            self._executor.notify()

    def _complete(self, node: Node[Id], outcome: Outcome[Id]) -> None:
        try:
            self._graph.complete(node, outcome)
        except BaseException as error:  # ids that cannot be compared, or an `order` that raises
            self._shared.fail(error)

    def validate(self) -> None:
        """Derive the indexes again, between two pieces of work. Raises AssertionError that names the difference."""
        with self._executor:
            self._graph.validate()


def _go_on(node: Node[Id], coroutine: Coroutine[Any, Any, Any]) -> Any:
    try:
        awaited = coroutine.send(None)
    except StopIteration as end:
        node.coroutine = None
        return end.value
    except BaseException:
        node.coroutine = None
        raise
    if isinstance(awaited, Blocked):
        return awaited
    node.coroutine = None
    coroutine.close()
    raise TypeError("a body awaits nothing but visit.need(...)")


def _checked(outcome: Any) -> Outcome[Any]:
    """Return the outcome of a body. Raises TypeError if it is none, before it can do harm."""
    if outcome is None:
        return Done()
    if isinstance(outcome, Blocked):
        needs = tuple(outcome.needs)
        for need in needs:
            if not isinstance(need, Need):
                raise TypeError(f"Blocked: expected needs, got {type(need).__name__}")
            hash(need.id)
        return Blocked(needs)
    if not isinstance(outcome, Done):
        raise TypeError(f"a body returns Done, Blocked or None, not {type(outcome).__name__}")
    return outcome


def _nothing() -> None:
    return None


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:LONGEST_TEXT]

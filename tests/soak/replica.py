"""One Waggle of the simulation: its engine, and around it the real informers, comparer and elector, without threads.

    world --step--> informers (Reflector), commands (as the committer), election (Elector), comparer (Comparer)
                                           |
                                         SimApi

The world does by its steps what threads, sockets and clocks do in the real I/O layers. A replica may be paused (nothing
of it moves, the time goes on), cut off from the API server, or killed (`world` then makes another one).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any

import msgspec

from algorithm.interface import SchedulerAlgorithm
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm, PackingSettings
from algorithm.reads import EVERYTHING, Reads
from algorithm.registry import create
from extender.core.commands import ApiCommand, CommandSet
from extender.core.freshness import older
from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client.access_review import Reviewer, Verdict
from extender.kube.client.api import ApiError, Response
from extender.kube.informers import envelopes as wire
from extender.kube.informers.podreader import PodReader
from extender.kube.informers.reflection import nodes_read_by, pods_read_by
from extender.kube.informers.reflector import Change, ChangeKind, Reflector
from extender.kube.lease.election import LeaseTiming, Wait
from extender.kube.lease.elector import Elector, LeaderStatus
from extender.kube.writes.best_effort import BestEffortWriter, _Waiting
from extender.kube.writes.fenced import FencedApi
from extender.kube.writes.outcome import outcome_of, outcome_of_error
from extender.scheduling.commands import Command, Report, pod_commands
from extender.scheduling.comparison import CachedState, cached_state_of
from extender.scheduling.events import (
    BindAnswer,
    BindRequested,
    Event,
    FilterAnswer,
    FilterRequested,
    Instruction,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    PreemptAnswer,
    PreemptRequested,
    PrepareAlgorithm,
    PrioritizeAnswer,
    PrioritizeRequested,
    Reconfigured,
    Synced,
    TermBegan,
    TermEnded,
)
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.scheduling.state.consistency import complaint
from extender.server.cache_comparer import CacheComparer, CompareError
from extender.server.leader_label import LeaderLabeler, _FailedError
from extender.server.service import _UntilSynced
from tests.soak.wire import SimApi

TIMING = LeaseTiming()


def packing() -> SchedulerAlgorithm:
    return PackingAlgorithm(PackingSettings())


@dataclass
class Work:
    """An instruction that waits for its turn with the committer, or the report that it ends with."""

    instruction: Command
    given: float
    report: Event | None = None


class Replica:
    """`clock` and `wall_clock` are the world's; `answered` hears of bind answers; `api` makes a line for a part of it.

    `heard` is told every event with what it caused, for the log.
    """

    def __init__(
        self,
        name: str,
        policy: Policy,
        *,
        rng: Random,
        clock: Callable[[], float],
        wall_clock: Callable[[], datetime],
        api: Callable[[Replica, str], SimApi],
        answered: Callable[[Replica, BindAnswer], None],
        heard: Callable[[str, Event, list[Instruction]], None],
        make: Callable[[], SchedulerAlgorithm] = packing,
        reads: Reads = EVERYTHING,
    ) -> None:
        self.name, self.policy = name, policy
        self.reader = PodReader(reads)
        self.rng, self.clock, self._wall_clock = rng, clock, wall_clock
        self._answered, self._heard = answered, heard
        self.machine = SchedulerStateMachine(make(), policy)
        self.work: list[Work] = []
        self.paused_until = self.cut_until = float("-inf")
        #: What was known is not true any more: it asks to be restarted.
        self.broken = False
        self._committer = FencedApi(api(self, "committer"), self.fence)
        self._commands = pod_commands(self.reader.live)
        self._hints = _hints(FencedApi(api(self, "hints"), self.fence), self._commands, clock, wall_clock)
        self._leadership = api(self, "leadership")
        informer: dict[str, Any] = {"clock": clock, "rng": rng, "went_back": self._went_back}
        self.nodes: Reflector[Node] = Reflector(
            api(self, "informer"), nodes_read_by(self.reader), self._nodes_changed, **informer
        )
        self._pods_buffer = _UntilSynced(self._handle_all)
        self.pods: Reflector[Pod] = Reflector(
            api(self, "informer"), pods_read_by(self.reader), self._pods_changed, **informer
        )
        self.comparer = CacheComparer(api(self, "comparer"), _Guarded(self), policy, every=0, grace=0)
        self.elector = self._make_elector(api(self, "elector")) if policy.elected else None
        self._reviewer = api(self, "reviewer")
        self._leader_labeler = LeaderLabeler(
            api(self, "labeler"), namespace="default", pod=name, value="waggle", leads=lambda: self.ready
        )
        #: The term that is caught up for, and the versions that are to be reached, nodes first.
        self._catching: tuple[int, list[str]] | None = None

    def _make_elector(self, api: SimApi) -> Elector:
        return Elector(
            api,
            namespace="default",
            name="waggle",
            identity=self.name,
            changed=self._standing_changed,
            timing=TIMING,
            clock=self.clock,
            wall_clock=self._wall_clock,
            rng=self.rng,
        )

    @property
    def algorithm(self) -> Any:
        """The one that decides: another one after a change of the configuration."""
        return self.machine.driver.algorithm

    # -- the engine, as extender.server.runtime guards it -------------------------------------------------------------

    def handle(self, event: Event) -> list[Instruction]:
        out: list[Instruction] = []
        if isinstance(event, FilterRequested | PrioritizeRequested | PreemptRequested | BindRequested) and (
            term := self._overdue()
        ):
            out += self._apply(TermEnded(term))
        return out + self._apply(event)

    def _apply(self, event: Event) -> list[Instruction]:
        out = self.machine.handle(event, self.clock())
        self._heard(self.name, event, out)
        for instruction in out:
            if isinstance(instruction, BindAnswer):
                self._answered(self, instruction)
            elif isinstance(instruction, PrepareAlgorithm):
                self.machine.preparations.carry_out(instruction, create)
            elif not isinstance(instruction, FilterAnswer | PrioritizeAnswer | PreemptAnswer | Reconfigured):
                self.work.append(Work(instruction, self.clock()))
        return out

    def _handle_all(self, *events: Event) -> None:
        for event in events:
            self.handle(event)

    def _overdue(self) -> int:
        term = self.machine.term
        return term if term and self.fence(term) <= 0 else 0

    def fence(self, term: int) -> float:
        """Seconds for which the term surely lasts."""
        return self.elector.remaining(term) if self.elector else float("inf")

    @property
    def ready(self) -> bool:
        return not (self.machine.missing() or self._overdue())

    @property
    def runs(self) -> bool:
        return self.clock() >= self.paused_until

    # -- informers ------------------------------------------------------------------------------------------------

    def step_informer(self, informer: Reflector[Any]) -> None:
        """One round: a list if one is due, and what the watch brings. Nodes come before pods, at the start."""
        if informer is self.pods and not self.nodes.synced.is_set():
            informer = self.nodes
        informer._round()
        if not self.machine.synced and self.pods.synced.is_set():
            self._pods_buffer.release()
            self.handle(Synced())

    def _nodes_changed(self, changes: list[Change[Node]]) -> None:
        self._handle_all(*(NodeSeen(c.obj) if c.kind is ChangeKind.SEEN else NodeGone(c.obj.name) for c in changes))

    def _pods_changed(self, changes: list[Change[Pod]]) -> None:
        self._pods_buffer(
            *(
                PodSeen(c.obj) if c.kind is ChangeKind.SEEN else PodGone(c.obj.namespace, c.obj.name, c.obj.uid)
                for c in changes
            )
        )

    def _went_back(self, _why: str) -> None:
        self.broken = True

    def compare(self) -> int:
        """How many differences were found and healed."""
        if not self.machine.synced:
            return 0
        try:
            return len(self.comparer.run())
        except CompareError:
            return 0

    # -- the rest of the I/O layers -------------------------------------------------------------------------------

    def point_here(self) -> None:
        """What the labeler's thread does."""
        with suppress(ApiError, _FailedError, msgspec.DecodeError):
            if self.ready:
                self._leader_labeler._point_here()
            else:
                self._leader_labeler._patch(self.name, None)

    def ask_rights(self) -> None:
        """Somebody wants to look; whoever cannot be asked about has said no."""
        draws, disturbed = self._reviewer.draws, self._reviewer.cut()
        before = draws.counts.total()
        verdict = Reviewer(self._reviewer, clock=self.clock).may_get("token", "/v1/inspect/pods").verdict
        disturbed |= draws.counts.total() > before
        assert verdict is Verdict.ALLOWED or (disturbed and verdict is Verdict.UNKNOWN), verdict

    # -- the committer --------------------------------------------------------------------------------------------

    def carry_out(self, work: Work) -> None:
        """What a thread of the committer does with it. No answer comes later than any answer."""
        if work.report is not None:
            self.handle(work.report)
            return
        command = self._commands.find(work.instruction)
        if command is None:
            self._hints._give(_Waiting(work.instruction, work.given))
            return
        outcome, response = self._written(command, work.given)
        report = command.report(*command.decoded(outcome, response.body if response is not None else b""))
        if outcome.kind is OutcomeKind.UNKNOWN:
            work.report = report
            self.work.append(work)
        else:
            self.handle(report)

    def _written(self, command: ApiCommand[Report], given: float) -> tuple[Outcome, Response | None]:
        if self.clock() > given + command.valid_for:
            return Outcome(OutcomeKind.THROTTLED, "waited too long", 1.0), None
        if not self._committer.permits(command.term):
            return Outcome(OutcomeKind.THROTTLED, "the term is over", 1.0), None
        try:
            with self._committer.exchange(command.request(), command.term) as exchange:
                response = exchange.response()
        except ApiError as error:
            return outcome_of_error(error), None
        return outcome_of(response), response

    # -- the election ---------------------------------------------------------------------------------------------

    def step_election(self) -> None:
        """What is due of it: the lease, and what a new term has to know before it begins."""
        elector = self.elector
        if elector is None:
            return
        action = elector._election.step(self.clock())
        elector._publish()
        if not isinstance(action, Wait):
            elector._carry_out(action)
            elector._publish()
        if self._catching is not None and self.machine.synced:
            self._catch_up(*self._catching)

    def _standing_changed(self, standing: LeaderStatus) -> None:
        if self.machine.term and self.machine.term != standing.term:
            self.handle(TermEnded(self.machine.term))
        if standing.term and standing.term != (self._catching or (0,))[0] and standing.term != self.machine.term:
            self._catching = (standing.term, [])
        elif not standing.term:
            self._catching = None

    def _catch_up(self, term: int, versions: list[str]) -> None:
        """As `extender.server.leadership`: each informer as new as a read from now, nodes before pods."""
        for index, informer in enumerate((self.nodes, self.pods)):
            if index == len(versions):
                version = self._version_now(informer)
                if not version:
                    return
                versions.append(version)
            if not informer.version or older(informer.version, than=versions[index]):
                self.rng.choice((informer.relist, informer.ask_for_bookmark))()
                return
        self._catching = None
        if self.fence(term) > 0:
            self.handle(TermBegan(term))

    def _version_now(self, informer: Reflector[Any]) -> str:
        try:
            response = self._leadership.request("GET", informer.path, query={"limit": "1"})
            return wire.decode_page(response.body).resource_version if response.ok else ""
        except (ApiError, ValueError):
            return ""


class _Guarded:
    """The replica as the comparer sees it: `extender.server.runtime`."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.reader = replica.reader

    @property
    def model(self) -> _Guarded:
        return self

    def cached_state(self) -> CachedState:
        return cached_state_of(self._replica.machine)

    def disagreements(self) -> list[str]:
        engine = self._replica.machine
        return [text for pod_info in engine.pod_infos() if (text := complaint(engine.state, pod_info))]

    def handle(self, *events: Event) -> None:
        self._replica._handle_all(*events)

    def give_up(self, _why: str) -> None:
        self._replica.broken = True


def _hints(
    api: FencedApi, commands: CommandSet[Report], clock: Callable[[], float], wall_clock: Callable[[], datetime]
) -> BestEffortWriter:
    """Without its thread: the world gives it its turns."""
    hints = BestEffortWriter(
        *(api, commands.best_effort),
        wait_calm=lambda: False,
        pause=lambda _seconds: None,
        clock=clock,
        wall_clock=wall_clock,
    )
    hints.stop()
    hints.thread.join()
    return hints


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

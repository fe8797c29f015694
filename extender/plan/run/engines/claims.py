"""Claims in a plan: which idle pods the Claim objects get, and what pools' autoscalers would add for them.

    PlanCluster -- pods, nodes --> Claims --> ClaimEngine, the one that serves claims live
         ^                           |
         +-- labels, replacements, --+     its writes succeed at once
             pods that pools add

Claims are asked for when the pods have come to rest, in the order of their creation: pods that can become ready have.
Time does not pass for them: a claim that finds no pod waits to the end of the plan.

All are asked for at once: a pod that replaces a claimed one takes seconds to start, longer than claims do.

What a plan leaves out, since a world does not have it: containers and images, and pods that are created for one claim
(`onEmpty: cold`), which waits for an idle pod instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from algorithm.model import pairs
from extender.claims import events
from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import Answered, ClaimAsked, ClaimInstruction
from extender.claims.records import WarmPod
from extender.claims.writes import names
from extender.claims.writes.advance import AdvancePod, PodAdvanced
from extender.claims.writes.create import CreatePod, PodCreated
from extender.claims.writes.give import GivePodBack, PodGivenBack
from extender.claims.writes.look import LookAtPod, PodLooked
from extender.claims.writes.renew import PodRenewed, RenewPod
from extender.claims.writes.take import PodTaken, TakePod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import SchedNode
from extender.plan.records import PlanPod, RawObject, Row, Sign
from extender.plan.run.clock import PlanClock
from extender.plan.run.engines.pools import Pools, Refused, asked
from extender.plan.run.engines.scaling import PoolScaling
from extender.plan.run.engines.warm_pods import warm_pod
from extender.plan.run.store import PlanCluster
from extender.settings import Settings

_DONE, _GONE = Outcome(OutcomeKind.DONE), Outcome(OutcomeKind.GONE)


class Claims:
    """A `Listener`. It costs nothing in a plan without pools."""

    def __init__(self, cluster: PlanCluster, settings: Settings, clock: PlanClock) -> None:
        self._cluster, self._clock = cluster, clock
        self._settings = settings.claims
        self.engine = ClaimEngine()
        self.pools = Pools(settings)
        self._scaling = PoolScaling(cluster, self.engine, self.pools)
        self._is_used = False
        self._pods: dict[str, WarmPod] = {}
        #: The marks of pods that were claimed in this plan.
        self._taken: dict[str, WarmPod] = {}
        self._events: deque[Any] = deque()
        #: Claims that are still to be asked for, and all that were, in this order.
        self._waiting: deque[ClaimAsked] = deque()
        self._asked: dict[str, tuple[ClaimAsked, RawObject]] = {}
        self._answers: dict[str, Answered] = {}
        self._invalid: list[tuple[RawObject, str]] = []
        self._refused: list[tuple[RawObject, Refused]] = []
        self._replaced = 0

    # -- what there is --------------------------------------------------------------------------------------------

    def add_objects(self, objects: Iterable[RawObject]) -> None:
        """Take in the Pool and Claim objects among these."""
        found = list(objects)
        if self.pools.add(found) and self._is_used:
            self._configure()
        for raw in found:
            if raw.kind == "Claim":
                self._ask_for(raw)
        if not self._is_used and (self.pools.served or self._waiting):
            self._begin()

    def _ask_for(self, raw: RawObject) -> None:
        try:
            one = asked(raw, self._settings, self.pools.served)
        except (ValueError, msgspec.MsgspecError) as error:
            self._invalid.append((raw, str(error)))
            return
        if isinstance(one, Refused):
            self._refused.append((raw, one))
        elif one is not None:
            self._waiting.append(one)
            self._asked[one.claim] = one, raw

    def load(self) -> Iterator[None]:
        return iter(())

    def _begin(self) -> None:
        self._is_used = True
        for node in self._cluster.nodes.values():
            self.node_seen(node)
        self._configure()
        for pod in self._cluster.pods.values():
            self.pod_seen(pod)
        for namespace in sorted({key.namespace for key in self.pools.served}):
            self._events.append(events.PodsListed(namespace))
        self._events.append(events.Synced())

    def _configure(self) -> None:
        self._events.append(events.PoolsConfigured(tuple(self.pools.served.values())))
        self._events += [events.PodsListed(namespace) for namespace in sorted({k.namespace for k in self.pools.served})]

    def node_seen(self, node: SchedNode, /) -> None:
        if self._is_used:
            self._events.append(events.NodeSeen(node.name, node.node.takes_pods))

    def node_gone(self, name: str, /) -> None:
        if self._is_used:
            self._events.append(events.NodeGone(name))

    def budget_seen(self, budget: Budget, /) -> None:
        """Budgets do not concern claims."""

    def pod_seen(self, pod: PlanPod, /) -> None:
        if not self._is_used:
            return
        uid = pod.pod.uid
        made = warm_pod(pod, order=len(self._pods))
        if (taken := self._taken.get(uid)) is not None:
            made = msgspec.structs.replace(taken, node=made.node, is_ready=made.is_ready)
        made = msgspec.structs.replace(made, created=known.created if (known := self._pods.get(uid)) else made.created)
        made = msgspec.structs.replace(made, resource_version=pod.pod.resource_version)
        self._pods[uid] = made
        self._events.append(events.PodSeen(made))

    def pod_gone(self, pod: PlanPod, /) -> None:
        if self._is_used and self._pods.pop(pod.pod.uid, None) is not None:
            self._taken.pop(pod.pod.uid, None)
            self._events.append(events.PodGone(pod.pod.uid))

    # -- what happens ---------------------------------------------------------------------------------------------

    def step(self) -> bool:
        if not self._is_used:
            return False
        if self._events:
            self._tell(self._events.popleft())
            return True
        if self._waiting:
            self._ask_for_all()
            return True
        return self._scaling.step(self._clock.time)

    def _ask_for_all(self) -> None:
        """Ask for all claims before a pod that replaces a claimed one can be idle: it takes longer to start."""
        while self._waiting or self._events:
            self._tell(self._events.popleft() if self._events else self._waiting.popleft())

    def next_due(self) -> float | None:
        """Claims wait for pods, and nothing of them is followed in time."""
        return None

    @property
    def patience(self) -> float:
        return 0.0

    def _tell(self, event: Any) -> None:
        for instruction in self.engine.handle(event, self._clock.read()):
            self._carry_out(instruction)

    def _carry_out(self, instruction: ClaimInstruction) -> None:
        match instruction:
            case Answered():
                self._answers[instruction.request] = instruction
            case TakePod():
                self._events.append(self._take(instruction))
            case LookAtPod():
                pod = self._cluster.named(instruction.namespace, instruction.name)
                known = self._pods.get(pod.pod.uid) if pod is not None else None
                self._events.append(PodLooked(instruction.token, _DONE if known else _GONE, known))
            case _:
                self._events.append(_REPORTS[type(instruction)](instruction.token))

    def _take(self, take: TakePod) -> PodTaken:
        pod, known = self._cluster.pods.get(take.uid), self._pods.get(take.uid)
        if pod is None or known is None or not known.can_be_claimed:
            return PodTaken(take.token, Outcome(OutcomeKind.LOST))
        detached = {name for name, _ in take.detach}
        labels = {name: text for name, text in known.labels.items() if name not in detached}
        labels |= {names.CLAIM_LABEL: take.mark.claim, **dict(take.labels)}
        labels |= {names.PHASE_LABEL: take.phase} if take.phase else {}
        taken = msgspec.structs.replace(
            known,
            labels=labels,
            owner="" if take.owner else known.owner,
            is_idle=False,
            mark=take.mark,
            mark_text=names.mark_text(take.mark),
            claim_label=take.mark.claim,
            phase=take.phase,
        )
        self._taken[take.uid] = taken
        self._cluster.relabel(take.uid, pairs(labels), leaves_owner=bool(take.owner))
        if take.owner:
            self._replace(pod)
        now = self._cluster.pods[take.uid].pod.resource_version
        self._pods[take.uid] = taken = msgspec.structs.replace(taken, resource_version=now)
        return PodTaken(take.token, _DONE, taken)

    def _replace(self, pod: PlanPod) -> None:
        """The ReplicaSet of a pod that has left it makes another one."""
        self._replaced += 1
        self._cluster.create_like(pod, f"{pod.pod.key.name[:240]}-r{self._replaced}")

    # -- what is said ---------------------------------------------------------------------------------------------

    def warnings(self) -> list[str]:
        return [*self.pools.faults, *self._scaling.said]

    def rows(self) -> Iterator[Row]:
        """One for each claim that was asked for. `Row.node` has the names of the pods that it gets."""
        for one, raw in self._asked.values():
            answer = self._answers.get(one.request)
            if answer is not None and answer.code is ClaimCode.CLAIMED:
                yield _row(raw, one, Sign.RUNS, node=", ".join(pod.name for pod in answer.pods))
            elif answer is not None:
                yield _row(raw, one, Sign.WAITS, code=answer.code.value, text=answer.detail or self._state_of(one))
            else:
                code, fix = ClaimCode.NO_IDLE_POD.value, self._scaling.fix(one)
                yield _row(raw, one, Sign.WAITS, code=code, text=self._state_of(one), fix=fix)
        for raw, refused in self._refused:
            yield _row(raw, refused.asked, Sign.WAITS, code=refused.code.value, text=refused.text)
        for raw, fault in self._invalid:
            yield Row(
                sign=Sign.WAITS,
                kind="Claim",
                namespace=raw.namespace,
                name=raw.name,
                code="BadRequest",
                text=fault,
                origin=raw.origin,
            )

    def _state_of(self, one: ClaimAsked) -> str:
        found = self.engine.snapshot(one.pool, self._clock.time)
        if found is None:
            return f"there is no pool {one.pool}"
        numbers = {"idle": found.idle, "claimed": found.claimed, "not ready": found.unready}
        said = ", ".join(f"{number} {name}" for name, number in numbers.items())
        text = f"it needs {one.count} pod{'s' * (one.count != 1)} of pool {one.pool}, which has {said}"
        waiting = self.engine.claim(one.claim, self._clock.time)
        before = max(0, waiting.position - 1) if waiting is not None else 0
        return f"{text}; {before} claim{'s come' if before != 1 else ' comes'} before it" if before else text


def _row(
    raw: RawObject, one: ClaimAsked, sign: Sign, *, node: str = "", code: str = "", text: str = "", fix: str = ""
) -> Row:
    return Row(
        sign=sign,
        kind="Claim",
        namespace=raw.namespace,
        name=raw.name,
        workload=f"Pool/{one.pool.namespace}/{one.pool.name}",
        tenant=one.tenant,
        priority=one.priority,
        node=node,
        code=code,
        text=text,
        fix=fix,
        origin=raw.origin,
    )


#: Commands that no plan causes but after a refused write, which there is not: their pods are gone.
_REPORTS: dict[type, Callable[[int], object]] = {
    GivePodBack: lambda token: PodGivenBack(token, _GONE),
    RenewPod: lambda token: PodRenewed(token, _GONE),
    AdvancePod: lambda token: PodAdvanced(token, _GONE),
    CreatePod: lambda token: PodCreated(token, _GONE),
}

"""What the autoscalers of pools would add in a plan, by the rules that scale them live.

A plan follows no time, so it only scales up, and only for claims: idle pods are deleted after minutes.
"""

from __future__ import annotations

from extender.claims.autoscaler import ScaleMemory, ScaleSnapshot, decide
from extender.claims.engine import ClaimEngine
from extender.claims.events import ClaimAsked
from extender.claims.records import Mode, PoolKey
from extender.plan.records import PlanPod
from extender.plan.run.engines.pools import Pools
from extender.plan.run.store import PlanCluster

#: Pods that one plan adds to pools.
MOST_ADDED = 10_000
#: Seconds between two decisions: more than any pause that a pool can have.
_APART = 100_000.0


class PoolScaling:
    """The pools of one plan that scale a workload."""

    def __init__(self, cluster: PlanCluster, engine: ClaimEngine, pools: Pools) -> None:
        self._cluster, self._engine, self._pools = cluster, engine, pools
        self._added = 0
        self._turns = 0
        #: What was scaled, for people.
        self.said: list[str] = []

    def step(self, now: float) -> bool:
        """Add pods to the first pool that needs some; False if none does."""
        return any(self._scale(key, now) for key in sorted(self._pools.policies))

    def _scale(self, key: PoolKey, now: float) -> bool:
        policy, lacking = self._pools.policies[key], self._lacking(key)
        found = self._engine.snapshot(key, now)
        members = self._members(key)
        if found is None or not lacking or not members or any(not each.pod.pod.node_name for each in members):
            return False  # pods that no node has room for: more of them help nobody
        self._turns += 1
        decision = decide(
            policy,
            ScaleSnapshot(
                detaches=found.mode is Mode.DETACH,
                version=str(self._turns),
                desired=len(members),
                claimed=found.claimed,
                queued=lacking,
                idle=found.idle,
                last_asked=self._turns * _APART,
            ),
            ScaleMemory(),
            self._turns * _APART,
        )
        more = min(decision.replicas - len(members), MOST_ADDED - self._added)
        if more <= 0:
            return False
        self.said.append(
            f"pool {key}: its autoscaler would scale {self._pools.workloads.get(key, 'its workload')} "
            f"from {len(members)} to {len(members) + more} pods ({decision.reason.value})"
        )
        for _ in range(more):
            self._added += 1
            self._cluster.create_like(members[0], f"{members[0].pod.key.name[:240]}-s{self._added}")
        return True

    def _lacking(self, key: PoolKey) -> int:
        return sum(each.missing for each in self._engine.requests.pending.values() if each.asked.pool == key)

    def _members(self, key: PoolKey) -> list[PlanPod]:
        """The pods of the pool's workload."""
        pool = self._pools.served[key]
        return [
            pod
            for pod in self._cluster.pods.values()
            if pod.pod.key.namespace == key.namespace
            and pod.owner is not None
            and not pod.pod.pod.terminating
            and not pod.pod.pod.finished
            and pool.selector.items() <= dict(pod.pod.pod.labels).items()
        ]

    def fix(self, one: ClaimAsked) -> str:
        """The nearest change that would serve the claim; "" if none is known."""
        pool = self._pools.served.get(one.pool)
        if pool is None:
            return f"would wait for pods if there were a pool {one.pool}"
        pending = self._engine.requests.pending.get(one.claim)
        found = self._engine.snapshot(one.pool, 0.0)
        idle = found.idle if found is not None else 0
        _, ahead = self._engine.state.pools[one.pool].queue.place(one.claim, 0.0) if pending is not None else (0, 0)
        missing = max(1, ahead + (pending.missing if pending is not None else one.count) - idle)
        pods = "1 pod" if missing == 1 else f"{missing} pods"
        members = self._members(one.pool)
        homeless = sum(not each.pod.pod.node_name for each in members)
        if homeless:
            more = f", and {missing - homeless} more were idle" if missing > homeless else ""
            return f"would be served if {min(missing, homeless)} of the pool's pods that wait had a node{more}"
        policy = self._pools.policies.get(one.pool)
        if policy is not None and len(members) >= policy.most:
            return f"would be served if pool {one.pool} might have {pods} more than {policy.most}"
        return f"would be served if pool {one.pool} had {missing} idle pod{'s'[: missing != 1]} more"

"""The state of the engine of claims: pods by UID, the claims that stand on them, pools with their lines, holds.

Every index here is derived from the pods and the requests, and `validate` derives it again. A pod is *idle in its pool*
exactly if it can be claimed, its node serves, nobody holds it, and the pool's selector selects it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from extender.claims.line import Line
from extender.claims.records import ClaimMark, Pool, PoolKey, WarmPod
from extender.claims.supply import Supply
from extender.core.freshness import older
from extender.core.ledger import Ledger

#: How many deleted pods, and claims that ended, are remembered: a late answer to a write must not bring them back.
_REMEMBERED = 10_000


@dataclass(slots=True)
class Claim:
    """A claim that stands on pods. `uids`: those of its pods that exist."""

    name: str
    pool: PoolKey
    tenant: str
    key: str
    digest: str
    expires: float
    uids: set[str] = field(default_factory=set)
    #: It was released, or its lease is over: its pods are being given back.
    is_ending: bool = False


@dataclass(slots=True)
class PoolState:
    """One pool, with its waiting requests and its pods."""

    pool: Pool
    line: Line
    supply: Supply
    #: How many pods each tenant has, or is being given.
    pods_of_tenant: Counter[str]


class Recent:
    """The latest names that were added, up to a number of them."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._names: OrderedDict[str, None] = OrderedDict()

    def add(self, name: str) -> None:
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > self._most:
            self._names.popitem(last=False)

    def __contains__(self, name: str) -> bool:
        return name in self._names


class ClaimState:
    """See the module. `dirty` are the pools in which something may be possible now that was not before."""

    def __init__(self) -> None:
        self.ledger: Ledger[None] = Ledger()
        self.pods: dict[str, WarmPod] = {}
        self.claims: dict[str, Claim] = {}
        self.pools: dict[PoolKey, PoolState] = {}
        self.dirty: dict[PoolKey, None] = {}
        #: Claims that ended, as far as they are remembered.
        self.ended = Recent()
        #: Claims whose pods have changed and which must be looked at: new, grown, or expired.
        self.changed: dict[str, None] = {}
        #: The latest claim with each key of a tenant.
        self.keys: dict[tuple[PoolKey, str, str], str] = {}
        self._gone = Recent()
        self._in_namespace: dict[str, list[PoolState]] = {}
        self._serving: dict[str, bool] = {}
        self._on_node: dict[str, set[str]] = {}
        #: The claimed pods by node and pool are counted once for each pod: where, by UID.
        self._counted: dict[str, tuple[PoolKey, str, str]] = {}
        #: The pool and tenant that a pod is being given to, by the token of its hold.
        self._held: dict[int, tuple[PoolKey, str]] = {}

    # -- pools ----------------------------------------------------------------------------------------------------

    def configure(self, pools: Iterable[Pool]) -> list[PoolState]:
        """Set the pools. Return the states of those that are there no more; their lines may have requests."""
        wanted = {pool.key: pool for pool in pools}
        left = [state for key, state in self.pools.items() if key not in wanted]
        before, self.pools, self._in_namespace = self.pools, {}, {}
        for key, pool in sorted(wanted.items(), key=lambda item: str(item[0])):
            state = before.get(key)
            if state is None or state.pool != pool:
                state = self._remade(pool, state)
            self.pools[key] = state
            self._in_namespace.setdefault(key.namespace, []).append(state)
            self.dirty[key] = None
        for uid in sorted(self.pods):
            self.offer(uid)
        return left

    def _remade(self, pool: Pool, before: PoolState | None) -> PoolState:
        held = Counter(tenant for key, tenant, _ in self._counted.values() if key == pool.key)
        held.update(tenant for key, tenant in self._held.values() if key == pool.key)

        def may_have(tenant: str, pods: int) -> bool:
            return not pool.most_pods_of_tenant or held[tenant] + pods <= pool.most_pods_of_tenant

        made = PoolState(pool, Line(pool.weights, may_have), Supply(pool.order), held)
        for key, _, node in self._counted.values():
            if key == pool.key:
                made.supply.claimed(node, 1)
        if before is not None:
            for waiter in before.line.waiters():
                made.line.add(waiter)
            for demand in before.supply.tracked():
                made.supply.track(demand)
        return made

    def pool_of(self, pod: WarmPod) -> PoolState | None:
        """The pool that selects this pod: the first by name, if several do."""
        for state in self._in_namespace.get(pod.namespace, ()):
            if all(pod.labels.get(name) == value for name, value in state.pool.selector.items()):
                return state
        return None

    # -- pods and nodes -------------------------------------------------------------------------------------------

    def see(self, pod: WarmPod) -> bool:
        """Take in a pod as the API server showed it. False if it is deleted, or a newer version is known."""
        before = self.pods.get(pod.uid)
        if pod.uid in self._gone or (before is not None and older(pod.resource_version, before.resource_version)):
            return False
        self.pods[pod.uid] = pod
        if before is None or before.node != pod.node:
            self._move(pod.uid, before.node if before is not None else "", pod.node)
        self._index(pod.uid, before.mark if before is not None else None, pod.mark)
        self.offer(pod.uid)
        return True

    def lose(self, uid: str) -> WarmPod | None:
        """The pod is deleted."""
        self._gone.add(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._move(uid, pod.node, "")
            self._index(uid, pod.mark, None)
            self.offer(uid, pod)
        return pod

    def _move(self, uid: str, before: str, after: str) -> None:
        if before:
            uids = self._on_node[before]
            uids.discard(uid)
            if not uids:
                del self._on_node[before]
        if after:
            self._on_node.setdefault(after, set()).add(uid)

    def serve(self, node: str, serves: bool | None) -> None:
        """The node serves, does not, or is deleted (None)."""
        if serves is None:
            self._serving.pop(node, None)
        else:
            self._serving[node] = serves
        for uid in sorted(self._on_node.get(node, ())):
            self.offer(uid)

    def is_idle(self, pod: WarmPod) -> bool:
        """Whether the pod may be given to a claim now."""
        return pod.can_be_claimed and self._serving.get(pod.node, False) and self.ledger.holder(pod.uid) is None

    def offer(self, uid: str, lost: WarmPod | None = None) -> None:
        """Put the pod into its pool's supply, or take it out, as it is now. To be called after every hold's change."""
        pod = self.pods.get(uid)
        state = None if pod is None else self.pool_of(pod)
        namespace = pod.namespace if pod is not None else lost.namespace if lost is not None else ""
        for each in self._in_namespace.get(namespace, ()):
            if each is not state:
                each.supply.drop(uid)
        if pod is None or state is None:
            return
        if self.is_idle(pod):
            state.supply.put(pod)
            self.dirty[state.pool.key] = None
        else:
            state.supply.drop(uid)

    # -- claims ---------------------------------------------------------------------------------------------------

    def _index(self, uid: str, before: ClaimMark | None, after: ClaimMark | None) -> None:
        if before is not None and (after is None or before.claim != after.claim):
            self._leave(uid, before.claim)
        if after is not None:
            self._join(uid, after)

    def _join(self, uid: str, mark: ClaimMark) -> None:
        claim = self.claims.get(mark.claim)
        if claim is None:
            pool = PoolKey(self.pods[uid].namespace, mark.pool)
            claim = Claim(mark.claim, pool, mark.tenant, mark.key, mark.digest, mark.expires)
            self.claims[mark.claim] = claim
            if mark.key:
                self.keys[pool, mark.tenant, mark.key] = mark.claim
        claim.uids.add(uid)
        claim.expires = max(claim.expires, mark.expires)
        self.changed[mark.claim] = None
        if uid not in self._counted:
            self._count(claim.pool, claim.tenant, 1)
            self._counted[uid] = (claim.pool, claim.tenant, self.pods[uid].node)
            if claim.pool in self.pools:
                self.pools[claim.pool].supply.claimed(self.pods[uid].node, 1)

    def _leave(self, uid: str, name: str) -> None:
        claim = self.claims[name]
        claim.uids.discard(uid)
        self.changed[name] = None
        if not claim.uids:
            del self.claims[name]
            self.ended.add(name)
            if self.keys.get((claim.pool, claim.tenant, claim.key)) == name:
                del self.keys[claim.pool, claim.tenant, claim.key]
        pool, tenant, node = self._counted.pop(uid)
        self._count(pool, tenant, -1)
        if pool in self.pools:
            self.pools[pool].supply.claimed(node, -1)

    def hold(self, token: int, pool: PoolKey, tenant: str) -> None:
        """A pod is being given to the tenant: it counts as one of its pods."""
        self._held[token] = (pool, tenant)
        self._count(pool, tenant, 1)

    def let_go(self, token: int) -> None:
        """The hold has ended, however it did. If the pod was claimed, its mark counts."""
        pool, tenant = self._held.pop(token)
        self._count(pool, tenant, -1)

    def _count(self, pool: PoolKey, tenant: str, change: int) -> None:
        state = self.pools.get(pool)
        if state is None:
            return
        state.pods_of_tenant[tenant] += change
        if not state.pods_of_tenant[tenant]:
            del state.pods_of_tenant[tenant]
        if change < 0:
            state.line.reopen(tenant)
        # More pods matter, too: a gang that its tenant may no longer have keeps no pods from those behind it.
        if change < 0 or state.line.of_tenant(tenant):
            self.dirty[pool] = None

    def validate(self) -> None:
        """Derive every index again. Raises AssertionError that names the difference."""
        self.ledger.validate()
        for state in self.pools.values():
            state.line.validate()
            state.supply.validate()
        for uid, pod in self.pods.items():
            home = self.pool_of(pod)
            for state in self.pools.values():
                expected = state is home and self.is_idle(pod)
                assert (uid in state.supply) == expected, f"{pod.name}: in {state.pool.key} expected {expected}"
        for name, claim in self.claims.items():
            uids = {uid for uid, pod in self.pods.items() if pod.mark is not None and pod.mark.claim == name}
            assert claim.uids == uids, f"{name}: {claim.uids}, marked {uids}"
        for key, state in self.pools.items():
            have = Counter(tenant for pool, tenant, _ in self._counted.values() if pool == key)
            have.update(tenant for pool, tenant in self._held.values() if pool == key)
            assert have == state.pods_of_tenant, f"{key}: counted {state.pods_of_tenant}, have {have}"
        marked = {pod.mark.claim for pod in self.pods.values() if pod.mark is not None}
        assert marked == set(self.claims), f"claims {set(self.claims)}, marked {marked}"

"""The state of the engine of claims: pods by UID, the claims that stand on them, pools with their lines, holds.

Every index here is derived from the pods and the requests, and `validate` derives it again. A pod is *idle in its pool*
exactly if it can be claimed, its node serves, nobody holds it, and the pool's selector selects it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from extender.claims.line import Line
from extender.claims.members import Members
from extender.claims.rate import Rate
from extender.claims.records import ClaimMark, Phase, Pool, PoolKey, WarmPod
from extender.claims.supply import Supply
from extender.core.deadlines import Deadlines
from extender.core.freshness import older
from extender.core.ledger import Ledger

#: The phases in which a pod's images change.
_BETWEEN = (Phase.STARTING, Phase.STOPPING)
#: Seconds for which an idle pod is only taken by the server that comes first for it; for twice as long by that and the
#: second; and so on. It is what a server needs to take a pod and to be seen to: with three servers, 300 pods of which
#: 95 % are busy and a watch that lags by 70 ms, 5 % of the claims met a conflict with 0.1 s, 2 % with 0.2 s. A claim
#: waits for this only if its server has no pods of its own and those of the others became idle just now.
RESERVED = 0.25
#: How many names of containers are remembered of a pool.
_MOST_CONTAINERS = 256
#: How many deleted pods, and claims that ended, are remembered: a late answer to a write must not bring them back.
_REMEMBERED = 10_000


class Presence(StrEnum):
    """How a pod counts in its pool, by what stands on the pod alone: the first of these that fits."""

    TERMINATING = "terminating"
    STARTING = "starting"
    CLAIMED = "claimed"
    STOPPING = "stopping"
    SURPLUS = "surplus"
    #: It could be claimed, if its node serves and nobody holds it.
    FREE = "free"
    UNREADY = "unready"


def presence(pod: WarmPod) -> Presence:
    if pod.is_terminating:
        return Presence.TERMINATING
    if pod.mark is not None:
        is_starting = pod.phase == Phase.STARTING or (pod.mark.is_cold and pod.is_coming)
        return Presence.STARTING if is_starting else Presence.CLAIMED
    if pod.leaving is not None:
        return Presence.STOPPING
    if pod.is_surplus:
        return Presence.SURPLUS
    return Presence.FREE if pod.can_be_claimed else Presence.UNREADY


class Claim(msgspec.Struct):
    """A claim that stands on pods. `uids`: those of its pods that exist."""

    name: str
    pool: PoolKey
    tenant: str
    key: str
    digest: str
    expires: float
    #: How many pods it was asked for with.
    size: int = 1
    uids: set[str] = msgspec.field(default_factory=set)
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
    selector: tuple[tuple[str, str], ...] = ()
    #: The names of containers that its pods were seen to have.
    containers: set[str] = field(default_factory=set)
    #: The pods that became idle lately.
    becoming_idle: Rate = field(default_factory=Rate)
    #: When pods were last chosen for a request, seconds of the engine's clock.
    last_dispatch: float | None = None

    def __post_init__(self) -> None:
        self.selector = tuple(self.pool.selector.items())


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
        self.members = Members()
        #: When an idle pod that is another server's own may be taken, by UID.
        self.ripening: Deadlines[str] = Deadlines()
        #: Since when such a pod is idle.
        self._idle_since: dict[str, float] = {}
        self.pods: dict[str, WarmPod] = {}
        self.claims: dict[str, Claim] = {}
        self.pools: dict[PoolKey, PoolState] = {}
        self.dirty: dict[PoolKey, None] = {}
        #: Claims that ended, as far as they are remembered.
        self.ended = Recent()
        #: Claims whose pods have changed and which must be looked at: new, grown, or expired.
        self.changed: dict[str, None] = {}
        #: Pods that are in, or came out of, a phase between two others, and have changed.
        self.between: dict[str, None] = {}
        #: Pods that bear a claim's label and no mark that can be read, as far as they have changed.
        self.orphans: dict[str, None] = {}
        #: The latest claim with each key of a tenant.
        self.keys: dict[tuple[PoolKey, str, str], str] = {}
        #: In whose supply each idle pod is.
        self._offered: dict[str, PoolState] = {}
        self._gone = Recent()
        self._in_namespace: dict[str, list[PoolState]] = {}
        self._serving: dict[str, bool] = {}
        self._on_node: dict[str, set[str]] = {}
        #: The claimed pods by node and pool are counted once for each pod: where, by UID.
        self._counted: dict[str, tuple[PoolKey, str, str]] = {}
        #: The pool and tenant that a pod is being given to, by the token of its hold.
        self._held: dict[int, tuple[PoolKey, str]] = {}
        #: How each pod counts in its pool, and the counts; the pool of a claimed pod is that of its claim.
        self._presence: dict[str, tuple[PoolKey, Presence]] = {}
        self._present: dict[PoolKey, Counter[Presence]] = {}
        #: The time of the event that is handled, seconds of the engine's clock.
        self.now = 0.0

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
        kept = {id(state) for state in self.pools.values()}
        self._offered = {uid: state for uid, state in self._offered.items() if id(state) in kept}
        for uid in sorted(self.pods):
            self.offer(uid)
            self._appear(uid, self.pods[uid])
        return left

    def _remade(self, pool: Pool, before: PoolState | None) -> PoolState:
        held = Counter(tenant for key, tenant, _ in self._counted.values() if key == pool.key)
        held.update(tenant for key, tenant in self._held.values() if key == pool.key)

        def may_have(tenant: str, pods: int) -> bool:
            return not pool.most_pods_of_tenant or held[tenant] + pods <= pool.most_pods_of_tenant

        supply = Supply(pool.order, self.members.rank, self.members.are_several)
        made = PoolState(pool, Line(pool.weights, may_have), supply, held)
        for key, _, node in self._counted.values():
            if key == pool.key:
                made.supply.claimed(node, 1)
        if before is not None:
            made.becoming_idle, made.last_dispatch = before.becoming_idle, before.last_dispatch
            made.containers = before.containers
            for waiter in before.line.waiters():
                made.line.add(waiter)
            for demand in before.supply.tracked():
                made.supply.track(demand)
        return made

    def pool_of(self, pod: WarmPod) -> PoolState | None:
        """The pool that selects this pod: the first by name, if several do."""
        labels = pod.labels
        for state in self._in_namespace.get(pod.namespace, ()):
            for name, value in state.selector:
                if labels.get(name) != value:
                    break
            else:
                return state
        return None

    # -- pods and nodes -------------------------------------------------------------------------------------------

    def see(self, pod: WarmPod) -> bool:
        """Take in a pod as the API server showed it. False if it is deleted, or this version or a newer one is known:
        the watch repeats what the answer to a write has shown."""
        uid = pod.uid
        before = self.pods.get(uid)
        if before is None:
            if uid in self._gone:
                return False
            self.pods[uid] = pod
            self._move(uid, "", pod.node)
            self._index(uid, None, pod.mark)
        else:
            known, shown = before.resource_version, pod.resource_version
            if known == shown or older(shown, known):
                return False
            self.pods[uid] = pod
            if before.node != pod.node:
                self._move(uid, before.node, pod.node)
            self._index(uid, before.mark, pod.mark)
            if before.phase in _BETWEEN:
                self.between[uid] = None
        if pod.phase in _BETWEEN:
            self.between[uid] = None
        if (pod.claim_label and pod.is_orphan) or (before is not None and before.claim_label and before.is_orphan):
            self.orphans[uid] = None
        self._appear(uid, pod)
        if pod.mark is None or uid in self._offered:
            self.offer(uid)
        return True

    def lose(self, uid: str) -> WarmPod | None:
        """The pod is deleted."""
        self._gone.add(uid)
        self.members.forget(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._move(uid, pod.node, "")
            self._index(uid, pod.mark, None)
            self._appear(uid, None)
            if pod.phase in _BETWEEN:
                self.between[uid] = None
            if pod.is_orphan:
                self.orphans[uid] = None
                self.changed[pod.claim_label] = None
            self.offer(uid)
        return pod

    def _appear(self, uid: str, pod: WarmPod | None) -> None:
        """Count the pod in its pool as it is now."""
        before = self._presence.pop(uid, None)
        if before is not None:
            self._present[before[0]][before[1]] -= 1
        after = None if pod is None else self._counts_as(pod)
        if after is None:
            return
        self._presence[uid] = after
        counts = self._present.get(after[0])
        if counts is None:
            counts = self._present[after[0]] = Counter()
        counts[after[1]] += 1
        state = self.pools.get(after[0])
        if state is None:
            return
        if pod is not None and pod.containers and len(state.containers) < _MOST_CONTAINERS:
            state.containers.update(each.name for each in pod.containers)
        if after[1] is Presence.FREE and after != before:
            state.becoming_idle.add(self.now)

    def _counts_as(self, pod: WarmPod) -> tuple[PoolKey, Presence] | None:
        if pod.mark is not None:
            return self.claims[pod.mark.claim].pool, presence(pod)
        if pod.leaving is not None:
            return PoolKey(pod.namespace, pod.leaving.pool), presence(pod)
        home = self.pool_of(pod)
        return None if home is None else (home.pool.key, presence(pod))

    def present(self, pool: PoolKey) -> Counter[Presence]:
        """How many pods of the pool count as what."""
        return self._present.get(pool, Counter())

    def held(self, pool: PoolKey) -> int:
        """How many pods of the pool are being given to a claim."""
        return sum(key == pool for key, _ in self._held.values())

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

    def offer(self, uid: str) -> None:
        """Put the pod into its pool's supply, or take it out, as it is now. To be called after every hold's change."""
        pod = self.pods.get(uid)
        home = None if pod is None or not self.is_idle(pod) else self.pool_of(pod)
        if home is not None and not self._is_ripe(uid):
            home = None
        elif home is None and self._idle_since:
            self._unripe(uid)
        before = self._offered.get(uid)
        if before is not None and before is not home:
            self._offered.pop(uid).supply.drop(uid)
        if pod is not None and home is not None:
            home.supply.put(pod)
            self._offered[uid] = home
            if len(home.line):
                self.dirty[home.pool.key] = None

    def _is_ripe(self, uid: str) -> bool:
        """Whether the servers that come first for this idle pod had the time to take it, and to be seen to."""
        rank = self.members.rank(uid)
        if not rank:
            self.ripening.discard(uid)
            return True
        at = self._idle_since.setdefault(uid, self.now) + rank * RESERVED
        if at <= self.now:
            self.ripening.discard(uid)
            return True
        self.ripening.set(uid, at)
        return False

    def _unripe(self, uid: str) -> None:
        self._idle_since.pop(uid, None)
        self.ripening.discard(uid)

    def rank_again(self) -> None:
        """Other servers come first for the pods."""
        for state in self.pools.values():
            state.supply.rank_again()
        for uid in sorted(self.pods):
            self.offer(uid)

    def ripen(self) -> None:
        """Offer the pods whose time has come."""
        while (uid := self.ripening.pop(self.now)) is not None:
            self.offer(uid)

    def is_orphan(self, uid: str) -> bool:
        pod = self.pods.get(uid)
        return pod is not None and pod.is_orphan

    def missed(self, state: PoolState) -> list[str]:
        """The pods that could be given away and are not in the pool's supply, though somebody waits: there are none."""
        return [
            uid
            for uid, pod in self.pods.items()
            if pod.namespace == state.pool.key.namespace
            and uid not in self._offered
            and uid not in self.ripening
            and self.is_idle(pod)
            and self.pool_of(pod) is state
        ]

    def withdraw(self, uid: str) -> None:
        """The pod, which was idle, is held from now on."""
        if self._idle_since:
            self._unripe(uid)
        self._offered.pop(uid).supply.drop(uid)

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
            claim = Claim(mark.claim, pool, mark.tenant, mark.key, mark.digest, mark.expires, mark.size)
            self.claims[mark.claim] = claim
            if mark.key:
                self.keys[pool, mark.tenant, mark.key] = mark.claim
        claim.uids.add(uid)
        if len(claim.uids) == 1:
            claim.expires = mark.expires
        else:
            marks = (self.pods[each].mark for each in claim.uids)
            claim.expires = max((each.expires for each in marks if each is not None), default=mark.expires)
        self.changed[mark.claim] = None
        if uid not in self._counted:
            node = self.pods[uid].node
            self._count(claim.pool, claim.tenant, 1)
            self._counted[uid] = (claim.pool, claim.tenant, node)
            if claim.pool in self.pools:
                self.pools[claim.pool].supply.claimed(node, 1)

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
        held = state.pods_of_tenant
        held[tenant] += change
        if not held[tenant]:
            del held[tenant]
        if not state.pool.most_pods_of_tenant:
            return  # nobody asks for the number
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
                expected = state is home and self.is_idle(pod) and uid not in self.ripening
                assert (uid in state.supply) == expected, f"{pod.name}: in {state.pool.key} expected {expected}"
        for name, claim in self.claims.items():
            uids = {uid for uid, pod in self.pods.items() if pod.mark is not None and pod.mark.claim == name}
            assert claim.uids == uids, f"{name}: {claim.uids}, marked {uids}"
        for key, state in self.pools.items():
            have = Counter(tenant for pool, tenant, _ in self._counted.values() if pool == key)
            have.update(tenant for pool, tenant in self._held.values() if pool == key)
            assert have == state.pods_of_tenant, f"{key}: counted {state.pods_of_tenant}, have {have}"
        for uid, pod in self.pods.items():
            assert self._presence.get(uid) == self._counts_as(pod), f"{pod.name} counts as {self._presence.get(uid)}"
        counted = Counter(self._presence.values())
        present = Counter({(key, each): n for key, found in self._present.items() for each, n in found.items() if n})
        assert counted == present, f"present {present}, counted {counted}"
        marked = {pod.mark.claim for pod in self.pods.values() if pod.mark is not None}
        assert marked == set(self.claims), f"claims {set(self.claims)}, marked {marked}"

"""The state of the engine of claims: pods by UID, the claims recorded on them, pools with their queues, holds.

Every index here is derived from the pods and the requests, and `validate` derives it again. A pod is *idle in its pool*
exactly if it can be claimed, its node is ready and not cordoned, there is no hold on it, and the pool selects it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from operator import itemgetter

import msgspec

from extender.claims.claim_queue import ClaimQueue
from extender.claims.keys import Key
from extender.claims.members import Members
from extender.claims.rate import Rate
from extender.claims.records import ClaimMark, Phase, Pool, PoolKey, WarmPod
from extender.claims.supply import Supply
from extender.core.deadlines import Alarm, Deadlines
from extender.core.freshness import older
from extender.core.ledger import Ledger

#: The phases in which a pod's images change.
_BETWEEN = frozenset((Phase.STARTING, Phase.STOPPING))
#: Seconds for which an idle pod is reserved for the server with rank 0 for it (see `Members`). The server with rank n
#: may claim it after n times as long. That is what a server needs to claim a pod, and the watches of the others to show
#: it: with three servers, 300 pods of which 95 % are busy, and a watch that lags by 70 ms, 5 % of the claims had a
#: conflict with 0.1 s, and 2 % with 0.2 s. A claim waits for this only if its server has no idle pods of its own, and
#: the pods of the others became idle less than this time ago.
RESERVED = 0.25
#: How many names of containers are remembered for each pool.
_MOST_CONTAINERS = 256
#: How many deleted pods, and ended claims, are remembered: a late answer to a write must not restore them.
_REMEMBERED = 10_000
#: Stands for the version of a pod before it was seen, and after it was deleted.
_NO_POD = WarmPod(uid="", namespace="", name="", resource_version="")


class Presence(StrEnum):
    """How a pod counts in its pool, as a function of the pod alone: the first value that applies."""

    TERMINATING = "terminating"
    STARTING = "starting"
    CLAIMED = "claimed"
    STOPPING = "stopping"
    SURPLUS = "surplus"
    #: It can be claimed if its node is ready and not cordoned, and there is no hold on it.
    FREE = "free"
    UNREADY = "unready"


#: Every claim needs these, and Python 3.11 takes as long for an attribute of an enum as for a call.
_CLAIMED, _FREE, _STARTING = Presence.CLAIMED, Presence.FREE, Phase.STARTING


def presence(pod: WarmPod) -> Presence:
    if pod.is_terminating:
        return Presence.TERMINATING
    if pod.mark is not None:
        is_starting = pod.phase == _STARTING or (pod.mark.is_cold and pod.is_coming)
        return Presence.STARTING if is_starting else _CLAIMED
    if pod.leaving is not None:
        return Presence.STOPPING
    if pod.is_surplus:
        return Presence.SURPLUS
    return _FREE if pod.can_be_claimed else Presence.UNREADY


class Claim(msgspec.Struct, gc=False):
    """A claim that is recorded on pods. `uids`: the pods that exist."""

    name: str
    pool: PoolKey
    tenant: str
    key: str
    digest: str
    expires: float
    #: How many pods its request asked for.
    size: int = 1
    uids: set[str] = msgspec.field(default_factory=set)
    #: It has had all its pods. A claim that loses one later is not unfinished.
    was_whole: bool = False
    #: It was released, or its lease has expired: its pods are being given back.
    is_ending: bool = False

    @property
    def key_of_tenant(self) -> Key:
        return self.pool, self.tenant, self.key


@dataclass(slots=True)
class PoolState:
    """One pool, with its waiting requests and its pods."""

    pool: Pool
    queue: ClaimQueue
    supply: Supply
    #: How many pods each tenant has claimed, or has holds on.
    pods_of_tenant: dict[str, int]
    #: How many pods are held for requests.
    holds: int = 0
    #: The labels of its pods, sorted by name.
    selector: tuple[tuple[str, str], ...] = ()
    #: The names of its pods' containers.
    containers: set[str] = field(default_factory=set)
    #: How often pods became idle recently.
    becoming_idle: Rate = field(default_factory=Rate)
    #: When pods were last chosen for a request, seconds of the engine's clock.
    last_dispatch: float | None = None

    def __post_init__(self) -> None:
        self.selector = tuple(sorted(self.pool.selector.items()))


#: The pools of a namespace with their places by name, each by one label that its pods must have.
_ByLabel = dict[tuple[str, str], list[tuple[int, PoolState]]]
_PLACE = itemgetter(0)
#: So many pools of a namespace are compared with a pod one by one.
_FEW = 8


def _by_label(states: Iterable[PoolState]) -> _ByLabel:
    """Return these pools by label: of the labels in its selector, each by the one that the fewest pools have."""
    known = list(enumerate(states))
    number = Counter(pair for _, state in known for pair in state.selector)
    found: _ByLabel = {}
    for place, state in known:
        rarest = min(state.selector, key=lambda pair: (number[pair], len(found.get(pair, ()))))
        found.setdefault(rarest, []).append((place, state))
    return found


class Recent:
    """A set of the `most` names that were added last."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        self._most = most
        self._names: OrderedDict[str, None] = OrderedDict()

    def add(self, name: str) -> None:
        self._names[name] = None
        self._names.move_to_end(name)
        if len(self._names) > self._most:
            self._names.popitem(last=False)

    def discard(self, name: str) -> None:
        self._names.pop(name, None)

    def __contains__(self, name: str) -> bool:
        return name in self._names


class ClaimState:
    """See the module. `dirty`: the pools in which a waiting request may now be served."""

    def __init__(self) -> None:
        self.ledger: Ledger[None] = Ledger()
        self.members = Members()
        #: When the next timer of any part of the engine is due, or earlier.
        self.alarm = Alarm()
        #: When this server may claim an idle pod that is reserved for others, by UID.
        self.ripening: Deadlines[str] = Deadlines(self.alarm)
        #: When such a pod became idle.
        self._idle_since: dict[str, float] = {}
        self.pods: dict[str, WarmPod] = {}
        self.claims: dict[str, Claim] = {}
        self.pools: dict[PoolKey, PoolState] = {}
        self.dirty: dict[PoolKey, None] = {}
        #: Claims that ended recently.
        self.ended = Recent()
        #: Claims that the engine must check, because their pods have changed.
        self.changed: dict[str, None] = {}
        #: Changed pods that are in, or have just left, the phase `starting` or `stopping`.
        self.between: dict[str, None] = {}
        #: Changed pods that have a claim's label but no mark that can be decoded, or had one before.
        self.orphans: dict[str, None] = {}
        #: The claims with each key of a tenant, in the order in which this server has learnt of them.
        self.keys: dict[Key, dict[str, None]] = {}
        #: Keys of which something has changed.
        self.keys_changed: dict[Key, None] = {}
        #: In whose supply each idle pod is.
        self._offered: dict[str, PoolState] = {}
        self._gone = Recent()
        self._in_namespace: dict[str, list[PoolState]] = {}
        #: The same by label, for namespaces with many pools.
        self._selecting: dict[str, _ByLabel] = {}
        self._serving: dict[str, bool] = {}
        self._on_node: dict[str, set[str]] = {}
        #: Pool and tenant of each hold, by its token.
        self._held: dict[int, tuple[PoolKey, str]] = {}
        #: How each pod counts in its pool, and the counts. The pool of a claimed pod is that of its claim, and a mark
        #: can name any pool, so there are no counts of 0.
        self._presence: dict[str, tuple[PoolKey, Presence]] = {}
        self._present: dict[tuple[PoolKey, Presence], int] = {}
        #: The time of the event that is being handled, seconds of the engine's clock.
        self.now = 0.0

    # -- pools ----------------------------------------------------------------------------------------------------

    def configure(self, pools: Iterable[Pool]) -> list[PoolState]:
        """Set the pools. Return the states of removed pools; requests may still be in their queues."""
        wanted = {pool.key: pool for pool in pools}
        left = [state for key, state in self.pools.items() if key not in wanted]
        before, self.pools, self._in_namespace = self.pools, {}, {}
        changed = {state.pool.key.namespace for state in left}
        for key, pool in sorted(wanted.items(), key=lambda item: str(item[0])):
            state = before.get(key)
            if state is None or state.pool != pool:
                state = self._remade(pool, state)
                changed.add(key.namespace)
            self.pools[key] = state
            self._in_namespace.setdefault(key.namespace, []).append(state)
            self.dirty[key] = None
        self._selecting = {
            namespace: _by_label(states) for namespace, states in self._in_namespace.items() if len(states) > _FEW
        }
        kept = {id(state) for state in self.pools.values()}
        self._offered = {uid: state for uid, state in self._offered.items() if id(state) in kept}
        # A Pool object of one namespace must not cost the pods of all others.
        for uid in sorted(uid for uid, pod in self.pods.items() if pod.namespace in changed):
            self._appear(uid, self.pods[uid])
            self.offer(uid)
        return left

    def _remade(self, pool: Pool, before: PoolState | None) -> PoolState:
        held = self._pods_of_tenants(pool.key)

        def may_have(tenant: str, pods: int) -> bool:
            return not pool.max_pods_per_tenant or held.get(tenant, 0) + pods <= pool.max_pods_per_tenant

        supply = Supply(pool.order, self.members.rank, self.members.are_several)
        holds = sum(key == pool.key for key, _ in self._held.values())
        made = PoolState(pool, ClaimQueue(pool.weights, may_have), supply, held, holds)
        for claim in self.claims.values():
            if claim.pool == pool.key:
                for uid in sorted(claim.uids):
                    made.supply.claimed(self.pods[uid].node, 1)
        if before is not None:
            made.becoming_idle, made.last_dispatch = before.becoming_idle, before.last_dispatch
            made.containers = before.containers
            for waiter in before.queue.waiters():
                made.queue.add(waiter)
            for demand in before.supply.tracked():
                made.supply.track(demand)
        return made

    def _pods_of_tenants(self, pool: PoolKey) -> dict[str, int]:
        """Return how many pods of the pool each tenant has claimed, or has holds on."""
        held = Counter(tenant for key, tenant in self._held.values() if key == pool)
        for claim in self.claims.values():
            if claim.pool == pool:
                held[claim.tenant] += len(claim.uids)
        return dict(held)

    def pool_of(self, pod: WarmPod) -> PoolState | None:
        """Return the pool that selects this pod: the first by name, if several do."""
        labels = pod.labels
        states: Iterable[PoolState] = self._in_namespace.get(pod.namespace, ())
        if pod.namespace in self._selecting:
            states = self._candidates(self._selecting[pod.namespace], labels)
        for state in states:
            for name, value in state.selector:
                if labels.get(name) != value:
                    break
            else:
                return state
        return None

    @staticmethod
    def _candidates(selecting: _ByLabel, labels: Mapping[str, str]) -> list[PoolState]:
        """Return the pools that may select a pod with these labels, by name."""
        if len(labels) <= len(selecting):
            found = [each for pair in labels.items() for each in selecting.get(pair, ())]
        else:
            found = [each for (name, value), pools in selecting.items() if labels.get(name) == value for each in pools]
        found.sort(key=_PLACE)
        return [state for _, state in found]

    # -- pods and nodes -------------------------------------------------------------------------------------------

    def see(self, pod: WarmPod) -> bool:
        """Store a version of a pod that the API server showed. Return False if the pod is deleted, or if this version
        or a newer one is known: the watch repeats the versions that answers to writes have shown."""
        uid = pod.uid
        before = self.pods.get(uid, _NO_POD)
        if before is _NO_POD:
            if uid in self._gone:
                return False
        else:
            known, shown = before.resource_version, pod.resource_version
            if known == shown or older(shown, known):
                return False
        if pod.mark is not None:
            pod = self._in_its_namespace(pod, pod.mark)
        self.pods[uid] = pod
        self._update(uid, before, pod)
        if pod.mark is None or uid in self._offered:
            self.offer(uid)
        return True

    def _update(self, uid: str, before: WarmPod, after: WarmPod) -> None:
        """Update every index from one version of a pod to the next; _NO_POD: there was none, or it is deleted."""
        if before.node != after.node:
            self._move(uid, before.node, after.node)
        self._index(uid, before, after)
        if after.phase in _BETWEEN or before.phase in _BETWEEN:
            self.between[uid] = None
        if (after.claim_label and after.is_orphan) or (before.claim_label and before.is_orphan):
            self.orphans[uid] = None
        self._appear(uid, after)

    def _in_its_namespace(self, pod: WarmPod, mark: ClaimMark) -> WarmPod:
        """A claim has pods of one namespace. A mark with the name of a claim of another one is somebody's forgery: the
        pod is in a claim of its own, which nobody has asked for and everybody may see."""
        known = self.claims.get(mark.claim)
        if known is None or known.pool.namespace == pod.namespace:
            return pod
        return msgspec.structs.replace(pod, mark=msgspec.structs.replace(mark, claim=f"{mark.claim}/{pod.namespace}"))

    def lose(self, uid: str) -> WarmPod | None:
        """Remove a pod that was deleted."""
        self._gone.add(uid)
        self.members.forget(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self._update(uid, pod, _NO_POD)
            if pod.is_orphan:
                self.changed[pod.claim_label] = None
            self.offer(uid)
        return pod

    def _appear(self, uid: str, pod: WarmPod) -> None:
        """Update the counts of pools for this version of the pod; _NO_POD: it is deleted."""
        before = self._presence.get(uid)
        after = None if pod is _NO_POD else self._counts_as(pod)
        if pod.containers and after is not None:
            self._know_containers(after[0], pod)
        if after == before:
            return
        present = self._present
        if before is not None:
            present[before] -= 1
            if not present[before]:
                del present[before]
        if after is None:
            del self._presence[uid]
            return
        self._presence[uid] = after
        present[after] = present.get(after, 0) + 1
        if after[1] is _FREE:
            self.pools[after[0]].becoming_idle.add(self.now)

    def _know_containers(self, pool: PoolKey, pod: WarmPod) -> None:
        state = self.pools.get(pool)
        if state is not None and len(state.containers) < _MOST_CONTAINERS:
            state.containers.update(each.name for each in pod.containers)

    def _counts_as(self, pod: WarmPod) -> tuple[PoolKey, Presence] | None:
        if pod.mark is not None:
            return self.claims[pod.mark.claim].pool, presence(pod)
        if pod.leaving is not None:
            return PoolKey(pod.namespace, pod.leaving.pool), presence(pod)
        home = self.pool_of(pod)
        return None if home is None else (home.pool.key, presence(pod))

    def present(self, pool: PoolKey) -> Counter[Presence]:
        """Return how many pods of the pool there are by `Presence`."""
        return Counter({each: self._present.get((pool, each), 0) for each in Presence})

    def _move(self, uid: str, before: str, after: str) -> None:
        """Update the pods by node."""
        if before:
            uids = self._on_node[before]
            uids.discard(uid)
            if not uids:
                del self._on_node[before]
        if after:
            self._on_node.setdefault(after, set()).add(uid)

    def serve(self, node: str, serves: bool | None) -> None:
        """Set whether the pods of a node can be claimed; None: the node is deleted."""
        if serves is None:
            self._serving.pop(node, None)
        else:
            self._serving[node] = serves
        for uid in sorted(self._on_node.get(node, ())):
            self.offer(uid)

    def is_idle(self, pod: WarmPod) -> bool:
        """Whether the pod can be claimed now."""
        return pod.can_be_claimed and self._serving.get(pod.node, False) and self.ledger.holder(pod.uid) is None

    def _idle_in(self, pod: WarmPod) -> PoolState | None:
        """Return the pool in which the pod is idle, by how it is counted; None if there is none."""
        counted = self._presence.get(pod.uid)
        if counted is None or counted[1] is not _FREE or not self._serving.get(pod.node, False):
            return None
        return self.pools[counted[0]] if self.ledger.holder(pod.uid) is None else None

    def offer(self, uid: str) -> None:
        """Add the pod to its pool's supply if it is idle, else remove it. Call this after each change of a hold."""
        pod = self.pods.get(uid)
        home = None if pod is None else self._idle_in(pod)
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
            if len(home.queue):
                self.dirty[home.pool.key] = None

    def _is_ripe(self, uid: str) -> bool:
        """Whether this server may claim this idle pod: whether its reservation for servers of lower rank is over."""
        rank = self.members.rank(uid)
        if rank:
            at = self._idle_since.setdefault(uid, self.now) + rank * RESERVED
            if at > self.now:
                self.ripening.set(uid, at)
                return False
        if self._idle_since:
            self.ripening.discard(uid)
        return True

    def _unripe(self, uid: str) -> None:
        self._idle_since.pop(uid, None)
        self.ripening.discard(uid)

    def rank_again(self) -> None:
        """Update all pods after a change of the members."""
        for state in self.pools.values():
            state.supply.rank_again()
        for uid in sorted(self.pods):
            self.offer(uid)

    def ripen(self) -> None:
        """Offer the pods whose reservation for other servers is over."""
        while (uid := self.ripening.pop(self.now)) is not None:
            self.offer(uid)

    def is_orphan(self, uid: str) -> bool:
        pod = self.pods.get(uid)
        return pod is not None and pod.is_orphan

    def missed(self, state: PoolState) -> list[str]:
        """Return the idle pods that are not in the pool's supply. There are none unless the engine has a bug."""
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
        """Remove an idle pod from its supply, because it is held now."""
        if self._idle_since:
            self._unripe(uid)
        self._offered.pop(uid).supply.drop(uid)

    # -- claims ---------------------------------------------------------------------------------------------------

    def _index(self, uid: str, before: WarmPod, after: WarmPod) -> None:
        """Update the claims."""
        left, mark = before.mark, after.mark
        if left is not None:
            if mark is None or mark.claim != left.claim:
                self._leave(uid, left.claim, before.node)
            elif before.node != after.node and (state := self.pools.get(self.claims[left.claim].pool)) is not None:
                state.supply.claimed(before.node, -1)
                state.supply.claimed(after.node, 1)
        if mark is not None:
            self._join(after, mark)

    def _join(self, pod: WarmPod, mark: ClaimMark) -> None:
        name = mark.claim
        claim = self.claims.get(name)
        if claim is None:
            pool = PoolKey(pod.namespace, mark.pool)
            claim = Claim(name, pool, mark.tenant, mark.key, mark.digest, mark.expires, mark.size)
            self.claims[name] = claim
            if mark.key:
                self.keys.setdefault(claim.key_of_tenant, {})[name] = None
        if pod.uid not in claim.uids:
            claim.uids.add(pod.uid)
            claim.was_whole = claim.was_whole or len(claim.uids) >= claim.size
            self._count_claimed(claim, pod.node, 1)
        self._changed(claim)

    def _leave(self, uid: str, name: str, node: str) -> None:
        claim = self.claims[name]
        claim.uids.discard(uid)
        self._count_claimed(claim, node, -1)
        self._changed(claim)
        if not claim.uids:
            del self.claims[name]
            self.ended.add(name)
            if claim.key:
                self._forget_key(claim)

    def _count_claimed(self, claim: Claim, node: str, change: int) -> None:
        """Count a pod that has joined the claim, or left it."""
        state = self.pools.get(claim.pool)
        if state is not None:
            self._count(state, claim.tenant, change)
            state.supply.claimed(node, change)

    def _changed(self, claim: Claim) -> None:
        """A pod of the claim, or the number of its pods, has changed."""
        self._date(claim)
        self.changed[claim.name] = None
        if claim.key:
            self.keys_changed[claim.key_of_tenant] = None

    def _date(self, claim: Claim) -> None:
        """Set the end of the lease: the latest one that a mark on its pods names."""
        latest: float | None = None
        for uid in claim.uids:
            mark = self.pods[uid].mark
            if mark is not None and (latest is None or mark.expires > latest):
                latest = mark.expires
        if latest is not None:
            claim.expires = latest

    def _forget_key(self, claim: Claim) -> None:
        key = claim.key_of_tenant
        names = self.keys[key]
        del names[claim.name]
        if not names:
            del self.keys[key]

    def hold(self, token: int, state: PoolState, tenant: str) -> None:
        """Count the pod of a new hold as one of the tenant's pods."""
        self._held[token] = (state.pool.key, tenant)
        state.holds += 1
        self._count(state, tenant, 1)

    def let_go(self, token: int) -> None:
        """Stop counting a hold that has ended. If the pod was claimed, it is counted by its mark."""
        pool, tenant = self._held.pop(token)
        state = self.pools.get(pool)
        if state is not None:
            state.holds -= 1
            self._count(state, tenant, -1)

    def _count(self, state: PoolState, tenant: str, change: int) -> None:
        held = state.pods_of_tenant
        number = held.get(tenant, 0) + change
        if number:
            held[tenant] = number
        else:
            del held[tenant]
        if not state.pool.max_pods_per_tenant:
            return  # the queue does not depend on it
        if change < 0:
            state.queue.reopen(tenant)
        # An increase matters, too: a gang that now exceeds its tenant's limit no longer reserves pods.
        if change < 0 or state.queue.of_tenant(tenant):
            self.dirty[state.pool.key] = None

    def validate(self) -> None:
        """Derive every index again. Raise AssertionError, which names the difference."""
        self.ledger.validate()
        for state in self.pools.values():
            state.queue.validate()
            claims = [claim for claim in self.claims.values() if claim.pool == state.pool.key]
            state.supply.validate(Counter(self.pods[uid].node for claim in claims for uid in claim.uids))
        for uid, pod in self.pods.items():
            home = self.pool_of(pod)
            for state in self.pools.values():
                expected = state is home and self.is_idle(pod) and uid not in self.ripening
                assert (uid in state.supply) == expected, f"{pod.name}: in {state.pool.key} expected {expected}"
        for name, claim in self.claims.items():
            uids = {uid for uid, pod in self.pods.items() if pod.mark is not None and pod.mark.claim == name}
            assert claim.uids == uids, f"{name}: {claim.uids}, marked {uids}"
        for key, state in self.pools.items():
            have = self._pods_of_tenants(key)
            assert have == state.pods_of_tenant, f"{key}: counted {state.pods_of_tenant}, have {have}"
            holds = sum(pool == key for pool, _ in self._held.values())
            assert holds == state.holds, f"{key}: counted {state.holds} holds, are {holds}"
        for uid, pod in self.pods.items():
            assert self._presence.get(uid) == self._counts_as(pod), f"{pod.name} counts as {self._presence.get(uid)}"
        counted = Counter(self._presence.values())
        assert counted == self._present, f"present {self._present}, counted {counted}"
        keyed = {name: claim.key_of_tenant for name, claim in self.claims.items() if claim.key}
        assert keyed == {name: key for key, names in self.keys.items() for name in names}
        marked = {pod.mark.claim for pod in self.pods.values() if pod.mark is not None}
        assert marked == set(self.claims), f"claims {set(self.claims)}, marked {marked}"

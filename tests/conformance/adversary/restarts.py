"""The same pods told to other instances: after a restart, as a fork, and when all promises are called in."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from algorithm.interface import Bind, Phase, Preempt, SchedulerAlgorithm
from algorithm.model import Pod
from tests.conformance.adversary import judge
from tests.conformance.adversary.cluster import Promise
from tests.conformance.adversary.instance import (
    Answer,
    Instance,
    Status,
    devices_of,
    difference,
    gang_of,
    groups,
    is_guaranteed,
    short_record,
    snapshot,
)

if TYPE_CHECKING:
    from tests.conformance.adversary.run import Run

#: Promises that are called in at once, at most, and questions until a pod's victims have gone.
_MOST_CALLED, _MOST_ASKED = 200, 8


def restarted(run: Run, rng: Random, *, asked: bool = False, late: bool = False) -> Instance:
    """A new instance that is told what is written, in any order.

    `asked`: in between, pods ask for places. `late`: some bound pods are found only after the start.
    """
    instance = Instance(run.cluster)
    for node in run.nodes.values():
        instance.algorithm.add_node(node)
    bound = sorted(run.written & set(run.instance.allocated))
    rng.shuffle(bound)
    first = rng.randint(0, len(bound)) if late else len(bound)
    others = [*run.instance.waiting.values(), *run.instance.allocated.values()]
    waiting = sorted((run.unbound(pod) for pod in others if pod.uid not in run.written), key=lambda pod: pod.created)
    for uid in bound[:first]:
        instance.found(run.instance.allocated[uid])
        if asked and waiting and rng.random() < 0.4:
            _ask_any(run, instance, waiting, rng)
    for pod in waiting:
        instance.wants(pod)
    for uid in bound[first:]:
        _ask_any(run, instance, list(instance.waiting.values()), rng)
        instance.found(run.instance.allocated[uid])
    instance.algorithm.set_protected_pods(run.protected)
    return instance


def _ask_any(run: Run, instance: Instance, pods: list[Pod], rng: Random) -> None:
    if pods and run.healthy():
        instance.ask(rng.choice(pods), run.healthy(), rng.choice(list(Phase)))


def compare_restarts(run: Run, rng: Random, *, changed: bool) -> None:
    """What runs goes on as before, and the order in which pods are told does not count.

    `changed`: the configuration has just been changed, and quota may be lost to that.
    """
    one, other = restarted(run, rng), restarted(run, rng, asked=True)
    late = restarted(run, rng, asked=True, late=True)
    _check_recovered(run, one, changed=changed)
    call_in(run, one, rng)
    differing = difference(snapshot(one.algorithm), snapshot(other.algorithm))
    assert not differing, f"restart in another order: {differing}"
    if not run.cluster.changes:
        assert _outcome(run, one) == _outcome(run, late), "pods that are found late"
    call_in(run, late, rng)
    _ask_both(run, one, other, rng)


def check_shortened(run: Run, rng: Random) -> None:
    """Pods whose records say nothing about the rest of their gangs keep their own devices, in any order."""
    share = rng.choice((0.3, 0.7, 1.0))
    bound = [run.instance.allocated[uid] for uid in sorted(run.written & set(run.instance.allocated))]
    records = [short_record(pod) if rng.random() < share else pod for pod in bound]
    one, other = (_told(run, rng.sample(records, len(records))) for _ in range(2))
    differing = difference(snapshot(one.algorithm), snapshot(other.algorithm))
    assert not differing, f"shortened, in another order: {differing}"
    unknown = one.algorithm.inspect()["strangers"]
    assert not unknown, unknown
    shown = groups(one.algorithm)
    for pod in bound:
        held = shown[gang_of(pod.uid)]["physicalPlacement"]
        assert {index for _, index in devices_of(pod)} <= set(held.get(pod.node_name, ())), f"{pod.uid}: {held}"
    one.allocated = {pod.uid: pod for pod in bound}
    for pod in sorted((run.unbound(pod) for pod in run.instance.waiting.values()), key=lambda pod: pod.created):
        one.wants(pod)
        answer = one.ask(pod, run.healthy(), Phase.FILTERING)
        if isinstance(answer, Bind):
            taken = {device for each in bound for device in devices_of(each)}
            again = taken.intersection(devices_of(pod.placed(answer.node, answer.annotations)))
            assert not again, f"{pod.uid} gets {again}, which pods have that run"


def _told(run: Run, bound: list[Pod]) -> Instance:
    instance = Instance(run.cluster)
    for node in run.nodes.values():
        instance.algorithm.add_node(node)
    for pod in bound:
        instance.found(pod)
    return instance


def _check_recovered(run: Run, instance: Instance, *, changed: bool) -> None:
    before, after = groups(run.instance.algorithm), groups(instance.algorithm)
    running = {gang_of(uid) for uid in run.written & set(run.instance.allocated)}
    assert set(after) == running, f"recovered {sorted(after)} of {sorted(running)}"
    unknown = instance.algorithm.inspect()["strangers"]
    assert not unknown, unknown
    open_chains = _undecided(run, before, after)
    for name in sorted(running):
        if is_guaranteed(before[name]) and not changed and not open_chains & _chains(run, before[name]):
            assert is_guaranteed(after[name]), f"{name} lost its quota: {before[name]} -> {after[name]}"
        if not run.cluster.has("obeyGangRelease"):
            same = before[name]["physicalPlacement"] == after[name]["physicalPlacement"]
            assert same, f"{name} has other devices: {before[name]} -> {after[name]}"


def _undecided(run: Run, before: dict[str, Status], after: dict[str, Status]) -> set[str]:
    """Chains in which this restart decided anew who pays for the changed promises.

    A gang that had paid has its quota back. It may have it at another one's cost until one more guaranteed pod of the
    chain is bound, because only that pod says who had paid (docs/algorithm-hived.md, "What always holds").
    """
    since = {gang_of(uid) for uid in run.written & set(run.instance.allocated) - run.bound_before}
    decided = {chain for name in since if is_guaranteed(before[name]) for chain in _chains(run, before[name])}
    back = [name for name, status in after.items() if is_guaranteed(status) and not is_guaranteed(before[name])]
    return {chain for name in back for chain in _chains(run, after[name])} - decided if run.cluster.changes else set()


def _chains(run: Run, status: Status) -> set[str]:
    return {run.cluster.machines[node] for node in status["physicalPlacement"]}


def _outcome(run: Run, instance: Instance) -> dict[str, Any]:
    """Who has quota and which devices. With gang release, the devices that are held depend on which pods wait."""
    releases = run.cluster.has("obeyGangRelease")
    shown = groups(instance.algorithm)
    return {name: (is_guaranteed(group), releases or group["physicalPlacement"]) for name, group in shown.items()}


def _ask_both(run: Run, one: Instance, other: Instance, rng: Random) -> None:
    """Two instances that show the same answer the same, also after they have taken the answers."""
    for _ in range(4):
        if not one.waiting or not run.healthy():
            return
        uid, phase = rng.choice(sorted(one.waiting)), rng.choice(list(Phase))
        _ask_same(one, other, uid, run.healthy(), phase)
        answer = _ask_same(one, other, uid, run.healthy(), Phase.FILTERING)
        if isinstance(answer, Bind):
            one.take(one.waiting[uid], answer)
            other.take(other.waiting[uid], answer)


def _ask_same(one: Instance, other: Instance, uid: str, offered: list[str], phase: Phase) -> Answer:
    answers = [each.ask(each.waiting[uid], offered, phase) for each in (one, other)]
    assert str(answers[0]) == str(answers[1]), f"{phase} {uid}: {answers}"
    return answers[0]


def compare_forks(run: Run, rng: Random) -> None:
    """Two forks go the same way, and the original does not go with them."""
    before, one, other = snapshot(run.instance.algorithm), run.instance.fork(), run.instance.fork()
    assert snapshot(one.algorithm) == before, "a fork shows something else"
    for _ in range(6):
        everybody = sorted([*one.allocated, *one.waiting])
        if everybody and rng.random() < 0.5:
            uid = rng.choice(everybody)
            one.drop(uid)
            other.drop(uid)
        elif one.waiting and run.healthy():
            _go_on(run, one, other, rng)
    assert snapshot(one.algorithm) == snapshot(other.algorithm), "forks came apart"
    assert snapshot(run.instance.algorithm) == before, "what happened to a fork changed the original"


class Copying:
    """A copy of an instance in pieces; events come in between."""

    def __init__(self, of: Instance) -> None:
        self.of, self.pieces = of, of.algorithm.forks()
        self.complete: Callable[[], SchedulerAlgorithm] | None = None
        self.expected: dict[str, Any] = {}

    def step(self) -> bool:
        """Make one piece. False if there is none left."""
        for complete in self.pieces:
            if complete is not None:
                self.complete, self.expected = complete, snapshot(self.of.algorithm)
            return True
        return False


def go_on_copying(run: Run, rng: Random) -> bool:
    """Make some pieces. Whether a copy was completed: it shows what the original showed at that moment."""
    if run.copying is None or run.copying.of is not run.instance:
        run.copying = Copying(run.instance)
    copying = run.copying
    if all(copying.step() for _ in range(rng.choice((0, 2, 5, 20)))):
        return False
    run.copying = None
    assert copying.complete is not None, "there was no copy"
    found = difference(snapshot(copying.complete()), copying.expected)
    assert not found, f"a copy in pieces shows something else: {found[:3]}"
    return True


def _go_on(run: Run, one: Instance, other: Instance, rng: Random) -> None:
    uid, phase = rng.choice(sorted(one.waiting)), rng.choice(list(Phase))
    answer = _ask_same(one, other, uid, run.healthy(), phase)
    for each in (one, other):
        if isinstance(answer, Bind):
            each.take(each.waiting[uid], answer)
        elif isinstance(answer, Preempt) and phase is Phase.EVICTING:
            each.claim(each.waiting[uid], answer)


# -- what is owed -----------------------------------------------------------------------------------------------------


def call_in(run: Run, instance: Instance, rng: Random) -> None:
    """On a fork, each tenant gets every promised cell that no gang of it as important has, in any order.

    Bad machines, and gangs that give devices back pod by pod, are exceptions that the documentation has.
    """
    if run.healthy() != sorted(run.cluster.machines) or run.cluster.has("obeyGangRelease"):
        return
    instance = instance.fork()
    instance.algorithm.set_protected_pods(frozenset())
    for number in range(_MOST_CALLED):
        priority = rng.choice((0, 1, 5, 9, 1000))
        shown = groups(instance.algorithm).values()
        left = [
            (tenant, address)
            for tenant, address in run.cluster.promised
            if not any(
                status["vc"] == tenant
                and status["priority"] >= priority
                and address in status.get("virtualPlacement", ())
                for status in shown
            )
        ]
        if left:
            tenant, address = rng.choice(left)
            pods = _claimants(run, tenant, run.cluster.promised[tenant, address], f"owed{number}", priority)
            _call_in_one(run, instance, pods, f"{tenant} is owed {address} at {priority}", rng)
        elif priority == 1000:
            return


def _claimants(run: Run, tenant: str, promise: Promise, name: str, priority: int) -> list[Pod]:
    """A gang that fills the promised cell."""
    width = min(promise.devices, run.cluster.width[promise.chain])
    number = promise.devices // width
    where = {"pinnedCellId": promise.pin} if promise.pin else {"leafCellType": run.cluster.leaf[promise.chain]}
    members = [{"podNumber": number, "leafCellNumber": width}]
    wish = {"virtualCluster": tenant, "priority": priority, "affinityGroup": {"name": name, "members": members}}
    return [run.new_pod(name, {**wish, **where}, width) for _ in range(number)]


def _call_in_one(run: Run, instance: Instance, pods: list[Pod], what: str, rng: Random) -> None:
    claims = run.cluster.has("promoteLazilyPreempted") or rng.random() < 0.7
    for pod in pods:
        instance.wants(pod)
    for pod in pods:
        bind = _place_by_force(run, instance, pod, what, rng, claims=claims)
        judge.check_bind(instance, pod, bind, run.healthy(), run.healthy())
        instance.take(pod, bind)


def _place_by_force(run: Run, instance: Instance, pod: Pod, what: str, rng: Random, *, claims: bool) -> Bind:
    """All victims go at once. `claims`: the preemption is taken before that."""
    offered = run.healthy()
    for _ in range(_MOST_ASKED):
        answer = instance.ask(pod, offered, Phase.FILTERING, is_looked_at=rng.random() < 0.1)
        if isinstance(answer, Bind):
            return answer
        assert isinstance(answer, Preempt), f"{what}: {answer!s}; groups {groups(instance.algorithm)}"
        judge.check_preemption(instance, pod, answer)
        if claims:
            answer = instance.ask(pod, offered, rng.choice((Phase.EVICTING, Phase.PREEMPTING)), is_looked_at=False)
            assert isinstance(answer, Preempt), f"{what}: a preemption, and then {answer!s}"
            judge.check_preemption(instance, pod, answer)
            instance.claim(pod, answer)
        for uid in sorted({victim.uid for victim in answer.victims}):
            instance.drop(uid)
    raise AssertionError(f"{what}: its victims went, and {pod.uid} is still not placed")

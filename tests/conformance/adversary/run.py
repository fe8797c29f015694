"""One random run: gangs come, their pods are placed, preempt and end, nodes fail, servers start anew.

a pod:  waits --- asked for: a place ---> allocated --- written with the binding ---> survives a restart
          ^                                  |
          +--- the binding comes to nothing -+
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import Any

from algorithm.interface import Bind, Phase, Preempt, Wait
from algorithm.model import Node, Pod, pairs
from tests.conformance.adversary import judge, restarts
from tests.conformance.adversary.cluster import Cluster, Promise
from tests.conformance.adversary.instance import SPEC, Instance, Status, gang_of, groups, wish_of

#: What a step may be, and how often compared with others.
_STEPS = {
    "new_gang": 9,
    "new_member": 4,
    "place": 14,
    "evict": 6,
    "end_victims": 8,
    "write": 6,
    "abandon": 2,
    "end": 3,
    "end_gang": 2,
    "change_health": 2,
    "heal": 2,
    "protect": 1,
    "call_in": 2,
    "compare_restarts": 1,
    "compare_forks": 1,
    "shorten_plans": 1,
    "restart": 1,
    "reconfigure": 1,
}
_KINDS, _WEIGHTS = list(_STEPS), list(_STEPS.values())


class Run:
    """`step(seed)` does one thing and judges all. `trace` says what was done, `did` how often.

    `written` has the UIDs of pods whose binding reached the API server: only these survive a restart.
    """

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.cluster = Cluster(rng)
        self.instance = Instance(self.cluster)
        #: The copy of the instance that is being made in pieces.
        self.copying: restarts.Copying | None = None
        self.nodes: dict[str, Node] = {}
        self.written: set[str] = set()
        #: Pods that were bound when the promises were changed last.
        self.bound_before: frozenset[str] = frozenset()
        self.protected: frozenset[str] = frozenset()
        #: What each gang wants, and the sizes of its pods that have not come yet.
        self.wishes: dict[str, dict[str, Any]] = {}
        self.to_come: dict[str, list[int]] = {}
        self.trace: list[str] = []
        self.did: Counter[str] = Counter()
        self._pods = 0
        self._shown: dict[str, Status] = {}
        for name in rng.sample(list(self.cluster.machines), len(self.cluster.machines)):
            if rng.random() < 0.97:
                self._tell_node(name, ready=True)

    def step(self, seed: int) -> None:
        """Raises AssertionError if something does not hold."""
        rng = Random(seed)
        [kind] = rng.choices(_KINDS, _WEIGHTS)
        instance = self.instance
        getattr(self, kind)(rng)
        before = self._shown if instance is self.instance else {}
        if restarts.go_on_copying(self, rng):
            self.did["copied in pieces"] += 1
        self.did["lost quota"] += judge.check_pages(self.instance, self.wishes, before)
        self._shown = groups(self.instance.algorithm)

    def note(self, text: str) -> None:
        self.trace.append(text)
        self.did[text.split(maxsplit=1)[0]] += 1

    # -- nodes ----------------------------------------------------------------------------------------------------

    def healthy(self) -> list[str]:
        return sorted(node.name for node in self.nodes.values() if node.ready)

    def _tell_node(self, name: str, *, ready: bool) -> None:
        new = Node(name=name, uid=f"u{name}", ready=ready)
        if name in self.nodes:
            self.instance.algorithm.update_node(self.nodes[name], new)
        else:
            self.instance.algorithm.add_node(new)
        self.nodes[name] = new

    def change_health(self, rng: Random) -> None:
        name = rng.choice(list(self.cluster.machines))
        if name in self.nodes and rng.random() < 0.3:
            self.note(f"gone {name}")
            self.instance.algorithm.delete_node(self.nodes.pop(name))
        else:
            ready = name not in self.healthy()
            self.note(f"{'ready' if ready else 'bad'} {name}")
            self._tell_node(name, ready=ready)

    def heal(self, _rng: Random) -> None:
        for name in self.cluster.machines:
            if name not in self.healthy():
                self.note(f"ready {name}")
                self._tell_node(name, ready=True)

    # -- gangs ----------------------------------------------------------------------------------------------------

    def new_pod(self, name: str, wish: dict[str, Any], devices: int) -> Pod:
        self._pods += 1
        uid = f"{name}-{self._pods}"
        hours, minutes, seconds = self._pods // 3600, self._pods // 60 % 60, self._pods % 60
        annotations = pairs({SPEC: json.dumps({**wish, "leafCellNumber": devices})})
        created = f"2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z"
        return Pod(namespace="ns", name=uid, uid=uid, created=created, annotations=annotations)

    @staticmethod
    def unbound(pod: Pod) -> Pod:
        """The pod as its author made it."""
        return Pod(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            created=pod.created,
            annotations=tuple(pair for pair in pod.annotations if pair[0] == SPEC),
        )

    def new_gang(self, rng: Random) -> None:
        tenants = self.cluster.tenants
        tenant = rng.choice([*tenants, tenants[0], tenants[0]])
        mine = [promise for (owner, _), promise in self.cluster.promised.items() if owner == tenant]
        target = rng.choice(mine) if mine else Promise(rng.choice(list(self.cluster.width)), 4, "")
        priority = rng.choice((-1, -1, 0, 1, 1, 5, 9, 9, 50))
        members = self._draw_members(rng, target, priority)
        name = f"g{len(self.wishes)}"
        wish: dict[str, Any] = {
            "virtualCluster": tenant,
            "priority": priority,
            "lazyPreemptionEnable": rng.random() < 0.6,
            "gangReleaseEnable": rng.random() < 0.5,
            "ignoreK8sSuggestedNodes": rng.random() < 0.7,
            "affinityGroup": {
                "name": name,
                "members": [{"podNumber": number, "leafCellNumber": devices} for number, devices in members],
            },
        }
        if target.pin and priority >= 0:
            wish["pinnedCellId"] = target.pin
        elif rng.random() < 0.7:
            wish["leafCellType"] = self.cluster.leaf[target.chain]
        sizes = [devices for number, devices in members for _ in range(number)]
        rng.shuffle(sizes)
        self.wishes[name], self.to_come[name] = wish, sizes
        self.note(f"gang {name}: {json.dumps(wish)}")
        for _ in range(rng.randint(1, len(sizes))):
            self.instance.wants(self.new_pod(name, wish, sizes.pop()))
        if rng.random() < 0.7:
            self.place(rng)

    def _draw_members(self, rng: Random, target: Promise, priority: int) -> list[tuple[int, int]]:
        """Numbers of pods, each with how many devices its pods want."""
        machine = self.cluster.width[target.chain]
        width = min(machine, target.devices) if priority >= 0 else machine
        if rng.random() < 0.15 and width > 1:
            return [(1, 1), (rng.randint(1, 2), width)]
        if rng.random() < 0.6:
            return [(rng.randint(1, 3), rng.randint(1, width))]
        return [(max(1, target.devices // width), width)]

    def new_member(self, rng: Random) -> None:
        unfinished = [name for name, sizes in self.to_come.items() if sizes]
        if unfinished:
            name = rng.choice(unfinished[-6:])
            pod = self.new_pod(name, self.wishes[name], self.to_come[name].pop())
            self.note(f"member {pod.uid}")
            self.instance.wants(pod)

    # -- decisions ------------------------------------------------------------------------------------------------

    def _draw_offer(self, rng: Random) -> list[str]:
        offered = self.healthy()
        return [name for name in offered if rng.random() < 0.6] if rng.random() < 0.15 else offered

    def _draw_waiting(self, rng: Random) -> Pod | None:
        return rng.choice(list(self.instance.waiting.values())[-8:]) if self.instance.waiting else None

    def place(self, rng: Random) -> None:
        """Up to three pods of one gang."""
        pod = self._draw_waiting(rng)
        for _ in range(rng.randint(1, 3)):
            offered = self._draw_offer(rng)
            if pod is None or not offered:
                return
            answer = self.instance.ask(pod, offered, Phase.FILTERING)
            self.note(f"ask {pod.uid} of {offered}: {str(answer)[:150]}")
            if isinstance(answer, Bind) and rng.random() < 0.9:
                self._take(rng, pod, answer, offered)
            elif isinstance(answer, Wait):
                self.instance.give_up(pod.uid)
            elif isinstance(answer, Preempt):
                judge.check_preemption(self.instance, pod, answer)
                if rng.random() < 0.7:
                    self._evict_for(rng, pod)
                    return
            name = gang_of(pod.uid)
            pod = next((each for each in self.instance.waiting.values() if gang_of(each.uid) == name), None)

    def _take(self, rng: Random, pod: Pod, bind: Bind, offered: list[str]) -> None:
        judge.check_bind(self.instance, pod, bind, offered, self.healthy())
        self.instance.take(pod, bind)
        self.did["bind"] += 1
        if rng.random() < 0.85:
            self.written.add(pod.uid)
            self.note(f"write {pod.uid}")

    def evict(self, rng: Random) -> None:
        pod = self._draw_waiting(rng)
        if pod is not None:
            self._evict_for(rng, pod)

    def _evict_for(self, rng: Random, pod: Pod) -> None:
        offered = self._draw_offer(rng)
        if not offered:
            return
        phase = rng.choice((Phase.EVICTING, Phase.EVICTING, Phase.PREEMPTING))
        answer = self.instance.ask(pod, offered, phase)
        self.note(f"{phase} {pod.uid} of {offered}: {str(answer)[:150]}")
        if isinstance(answer, Wait):
            self.instance.give_up(pod.uid)
        if not isinstance(answer, Preempt):
            return
        judge.check_preemption(self.instance, pod, answer)
        if phase is Phase.EVICTING:
            assert not self.protected & {victim.uid for victim in answer.victims}, "a protected victim"
        # The extender evicts only pods whose binding it knows to be written, on machines that were offered.
        can_go = all(victim.uid in self.written and victim.node in offered for victim in answer.victims)
        if can_go and rng.random() < 0.9:
            self.instance.claim(pod, answer)
            self.note(f"claim {pod.uid}")

    def protect(self, rng: Random) -> None:
        uids = [uid for uid in sorted(self.instance.allocated) if rng.random() < 0.2]
        self.protected = frozenset(uids if rng.random() < 0.5 else ())
        self.instance.algorithm.set_protected_pods(self.protected)

    # -- what becomes of pods -------------------------------------------------------------------------------------

    def write(self, rng: Random) -> None:
        """The API server confirms a binding."""
        left = sorted(set(self.instance.allocated) - self.written)
        if left:
            self.written.add(uid := rng.choice(left))
            self.note(f"write {uid}")

    def abandon(self, rng: Random) -> None:
        """A binding comes to nothing: the pod waits again."""
        left = sorted(set(self.instance.allocated) - self.written)
        if left:
            pod = self.instance.allocated[rng.choice(left)]
            self.note(f"abandon {pod.uid}")
            self.instance.drop(pod.uid)
            self.instance.wants(self.unbound(pod))

    def _everybody(self) -> list[str]:
        return sorted([*self.instance.allocated, *self.instance.waiting])

    def end(self, rng: Random) -> None:
        if everybody := self._everybody():
            self._end(rng, rng.choice(everybody))

    def end_gang(self, rng: Random) -> None:
        if self.instance.allocated:
            name = gang_of(rng.choice(sorted(self.instance.allocated)))
            for uid in self._everybody():
                if gang_of(uid) == name:
                    self._end(rng, uid)

    def end_victims(self, rng: Random) -> None:
        victims = {victim.uid for plan in self.instance.claims.values() for victim in plan.victims}
        running = sorted(victims & set(self.instance.allocated))
        for uid in rng.sample(running, rng.randint(1, len(running))) if running else ():
            self._end(rng, uid)

    def _end(self, rng: Random, uid: str) -> None:
        self.note(f"end {uid}")
        pod = self.instance.allocated.get(uid) or self.instance.waiting[uid]
        self.instance.drop(uid)
        self.written.discard(uid)
        if rng.random() < 0.4:
            self.to_come[gang_of(uid)].append(wish_of(pod)["leafCellNumber"])

    # -- other instances ------------------------------------------------------------------------------------------

    def call_in(self, rng: Random) -> None:
        """Every tenant asks for all that it is promised."""
        self.did["promises called in"] += 1
        restarts.call_in(self, self.instance, rng)

    def compare_restarts(self, rng: Random) -> None:
        self.did["restarts compared"] += 1
        restarts.compare_restarts(self, rng, changed=False)

    def shorten_plans(self, rng: Random) -> None:
        """What a server does whose namespaces have too much on their pods."""
        self.did["plans shortened"] += 1
        restarts.check_shortened(self, rng)

    def compare_forks(self, rng: Random) -> None:
        restarts.compare_forks(self, rng)

    def restart(self, rng: Random) -> None:
        self.compare_restarts(rng)
        self.note("restart")
        self._go_on_with(restarts.restarted(self, rng))

    def reconfigure(self, rng: Random) -> None:
        """Other promises for the same hardware: what runs goes on, and what is promised now can be had."""
        self.cluster = self.cluster.changed(rng)
        self.note(f"reconfigure: {json.dumps(self.cluster.settings['virtualClusters'])}")
        restarts.compare_restarts(self, rng, changed=True)
        self.bound_before = frozenset(self.instance.allocated)
        self._go_on_with(restarts.restarted(self, rng))

    def _go_on_with(self, instance: Instance) -> None:
        self.instance = instance
        self.written &= set(instance.allocated)

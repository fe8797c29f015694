"""Drives a HiveD algorithm through the contract, as the extender does, and remembers what it told it.

After every call the hive is audited: everything it keeps is computed anew, naively, and must agree.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any

from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.hived.formats.plainyaml import load
from algorithm.hived.formats.podspec import SPEC
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from algorithm.interface import Bind, Phase, Preempt, ScheduleResult, SuggestedNodes
from algorithm.model import Node, Pod, pairs
from tests.support.hived.audit import audit, virtual_cells

FILTERING, PREEMPTING = Phase.FILTERING, Phase.PREEMPTING

_HARDWARE = """
physicalCluster:
  cellTypes:
    socket: {childCellType: gpu, childCellNumber: 2}
    host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 2}
  physicalCells:
  - cellType: rack
    cellChildren: [{cellAddress: m1}, {cellAddress: m2}]
  - cellType: rack
    cellChildren: [{cellAddress: m3}, {cellAddress: m4}]
virtualClusters:
"""


def racks(**quotas: str) -> str:
    """Two racks of two machines with two sockets of two devices each; tenants as `b="rack.host 1, rack 2"`."""
    lines = []
    for tenant, quota in quotas.items():
        lines += [f"  {tenant}:", "    virtualCells:"]
        for path, number in (each.split() for each in quota.split(",")):
            lines.append(f"    - {{cellType: {path}, cellNumber: {number}}}")
    return _HARDWARE + "\n".join(lines) + "\n"


#: There is room that nobody owns.
RACKS = racks(a="rack.host 2", b="rack.host 1, rack.host.socket 1")


def settings_of(text: str) -> HivedSettings:
    return HivedSettings.model_validate(load(text))


def node(name: str, *, healthy: bool = True, bad: str | None = None) -> Node:
    """`bad` is what is written on it about bad devices."""
    written = {} if bad is None else {"waggle.dev/bad-devices": bad}
    return Node(name=name, uid=f"uid-{name}", ready=healthy, annotations=pairs(written))


def gang(
    name: str,
    *,
    tenant: str = "a",
    pods: int = 1,
    leafs: int = 1,
    priority: int = 0,
    members: Mapping[int, int] | None = None,
    **more: Any,
) -> list[Pod]:
    """The pods of a group; `members` is devices per pod to number of pods. More fields of the annotation by name."""
    members = members or {leafs: pods}
    spec = {"virtualCluster": tenant, "priority": priority, **more}
    spec["affinityGroup"] = {
        "name": name,
        "members": [{"podNumber": number, "leafCellNumber": devices} for devices, number in members.items()],
    }
    wishes = [devices for devices, number in members.items() for _ in range(number)]
    return [
        pod(f"{name}-{index}", json.dumps({**spec, "leafCellNumber": devices})) for index, devices in enumerate(wishes)
    ]


def pod(name: str, spec: str, **annotations: str) -> Pod:
    return Pod(namespace="ns", name=name, uid=f"u-{name}", annotations=pairs({SPEC: spec, **annotations}))


def one(name: str, **wish: Any) -> Pod:
    """A group of one pod."""
    return gang(name, **wish)[0]


# -- what a hive knows ------------------------------------------------------------------------------------------------


def snapshot(hive: HivedCluster) -> dict[str, Any]:
    """Everything that counts, and every order that decides later, but for that of equal machines."""
    chains, tenants = hive.layout.chains.values(), hive.layout.tenants.values()
    return {
        "physical": [
            (
                (cell.priority, cell.state, cell.healthy, cell.split, cell.tenant, dict(cell.used), _name(cell.group)),
                (_name(cell.reserver), cell.virtual and cell.virtual.address),
            )
            for chain in chains
            for cells in chain.full.values()
            for cell in cells
        ],
        "virtual": [
            (cell.address, cell.priority, dict(cell.used), cell.physical and (cell.chain, cell.physical.address))
            for tenant in tenants
            for cell in virtual_cells(tenant)
        ],
        "allocators": {name: _allocator(allocator) for name, allocator in hive.allocators.items()},
        "groups": {name: _group(group) for name, group in hive.groups.items()},
    }


def state(algorithm: HivedAlgorithm) -> dict[str, Any]:
    """Everything that a restart has to know: the same whatever the order in which pods were told."""
    hive = algorithm.hive
    groups = {
        name: (group.tenant, group.priority, group.lazy, group.written, group.given_up, group.ended_by)
        for name, group in hive.groups.items()
    }
    known = {
        "strangers": dict(algorithm.unrecoverable_pods),
        "lost": [each.name for each in hive.lazily_preempted],
        "written": groups,
    }
    return snapshot(hive) | known


def _name(group: Group | None) -> str:
    return "" if group is None else group.name


def _allocator(allocator: Any) -> dict[str, Any]:
    def addresses(lists: Mapping[int, Iterable[Any]]) -> dict[int, list[str]]:
        return {level: [cell.address for cell in cells] for level, cells in lists.items()}

    return {
        "free": addresses(allocator.free),
        "bad": addresses(allocator.bad_free),
        "left": dict(allocator.total_left),
        "owed": {name: dict(levels) for name, levels in allocator.vc_free_cells.items()},
        "doomed": {name: addresses(levels) for name, levels in allocator.doomed.items()},
    }


def _group(group: Group) -> dict[str, Any]:
    leafs = [(device.chain, device.address, cell and cell.address) for device, cell in group.leafs()]
    return {
        "leafs": leafs,
        "state": group.state,
        "slots": {devices: list(members) for devices, members in group.slots.items()},
        "preempting": list(group.preempting),
        "lazily": group.lazily_preempted_by,
    }


def in_any_order(shot: dict[str, Any]) -> dict[str, Any]:
    """A snapshot whose lists of cells are compared as sets."""
    allocators = {
        name: {**each, **{key: _sets(each[key]) for key in ("free", "bad")}}
        for name, each in shot["allocators"].items()
    }
    return {**shot, "allocators": allocators}


def _sets(lists: dict[int, list[str]]) -> dict[int, set[str]]:
    return {level: set(addresses) for level, addresses in lists.items()}


def allocations(hive: HivedCluster) -> dict[str, tuple[Any, ...]]:
    """Whether it is with quota, and who has which devices for whom, of the groups that have pods."""
    return {
        group.name: (
            group.virtual is not None,
            group.tenant,
            group.priority,
            {devices: [member and member.uid for member in slots] for devices, slots in group.slots.items()},
            sorted((device.chain, device.address) for device, _ in group.leafs()),
        )
        for group in hive.groups.values()
        if any(group.members())
    }


def explained(world: HivedHarness, each: Pod) -> list[str]:
    """What people are told who ask why the pod waits."""
    return [sentence for sentence in world.algorithm.explain(each) if sentence]


# -- the world --------------------------------------------------------------------------------------------------------


class HivedHarness:
    """An algorithm, and all that it was told."""

    def __init__(self, config: str = RACKS, *, nodes: bool = True) -> None:
        self.settings = settings_of(config)
        self.algorithm = HivedAlgorithm(self.settings)
        self.nodes: dict[str, bool] = {}
        #: What is written on nodes about bad devices.
        self.bad: dict[str, str] = {}
        self.waiting: dict[str, Pod] = {}
        self.allocated: dict[str, Pod] = {}
        self.preempting: dict[str, Pod] = {}
        self.audited = True
        for name in list(self.hive.layout.machines) if nodes else ():
            self.nodes[name] = True
            self.algorithm.add_node(node(name))
        self.audit()

    @property
    def hive(self) -> HivedCluster:
        return self.algorithm.hive

    def audit(self) -> None:
        if self.audited:
            audit(self.hive)

    # -- nodes ------------------------------------------------------------------------------------------------

    def turn(self, *names: str, healthy: bool) -> None:
        """Machines that exist change their health, others appear."""
        for name in names:
            before = self.node(name) if name in self.nodes else None
            self.nodes[name] = healthy
            self._tell(before, self.node(name))

    def mark(self, name: str, bad: str) -> None:
        """Somebody writes on a node which of its devices are bad."""
        before = self.node(name)
        self.bad[name] = bad
        self._tell(before, self.node(name))

    def node(self, name: str) -> Node:
        return node(name, healthy=self.nodes[name], bad=self.bad.get(name))

    def _tell(self, before: Node | None, now: Node) -> None:
        if before is None:
            self.algorithm.add_node(now)
        else:
            self.algorithm.update_node(before, now)
        self.audit()

    def remove_node(self, name: str) -> None:
        gone = self.node(name)
        del self.nodes[name]
        self.bad.pop(name, None)
        self.algorithm.delete_node(gone)
        self.audit()

    # -- pods -------------------------------------------------------------------------------------------------

    def submit(self, *pods: Pod) -> None:
        for each in pods:
            self.waiting[each.uid] = each
            self.algorithm.add_unallocated_pod(each)

    def ask(self, each: Pod, *, offered: Iterable[str] | None = None, phase: Phase = FILTERING) -> ScheduleResult:
        """The answer; asserts that asking leaves no trace."""
        if each.uid not in self.waiting:
            self.submit(each)
        before = snapshot(self.hive) if self.audited else None
        names = SuggestedNodes(self.nodes if offered is None else offered)
        try:
            return self.algorithm.schedule(each, names, phase)
        finally:
            assert before is None or snapshot(self.hive) == before

    def bind(self, *pods: Pod, offered: Iterable[str] | None = None) -> list[tuple[str, str]]:
        """Asks for each and takes the answer, which must be a place: node and devices of each."""
        return [self.take(each, self.ask(each, offered=offered)) for each in pods]

    def take(self, each: Pod, answer: ScheduleResult) -> tuple[str, str]:
        assert isinstance(answer, Bind), answer
        del self.waiting[each.uid]
        self.preempting.pop(each.uid, None)
        placed = each.placed(answer.node, answer.annotations)
        self.allocated[each.uid] = placed
        self.algorithm.add_allocated_pod(placed)
        self.audit()
        return place_of(placed)

    def found(self, each: Pod) -> None:
        """A pod that is found bound."""
        self.allocated[each.uid] = each
        self.algorithm.add_allocated_pod(each)
        self.audit()

    def preempt(self, each: Pod, *, offered: Iterable[str] | None = None) -> set[str]:
        """Asks whom to evict and takes the answer, which must name victims: their UIDs."""
        answer = self.ask(each, offered=offered, phase=PREEMPTING)
        return self.take_preemption(each, answer)

    def take_preemption(self, each: Pod, answer: ScheduleResult) -> set[str]:
        assert isinstance(answer, Preempt), answer
        self.preempting[each.uid] = each
        self.algorithm.add_preempting_pod(each, answer.victims, answer.node)
        self.audit()
        return {victim.uid for victim in answer.victims}

    def stop_preempting(self, each: Pod) -> None:
        self.algorithm.delete_preempting_pod(self.preempting.pop(each.uid))
        self.audit()

    def delete(self, *pods: Pod) -> None:
        for each in pods:
            if each.uid in self.preempting:
                self.stop_preempting(each)
            if each.uid in self.waiting:
                self.algorithm.delete_unallocated_pod(self.waiting.pop(each.uid))
            else:
                self.algorithm.delete_allocated_pod(self.allocated.pop(each.uid))
            self.audit()

    def expire(self, each: Pod) -> None:
        """A proposal comes to nothing: the pod waits again."""
        self.algorithm.delete_allocated_pod(self.allocated.pop(each.uid))
        self.audit()
        self.submit(each)

    # -- copies and restarts ----------------------------------------------------------------------------------

    def fork(self) -> HivedHarness:
        """The same world again: what happens in one is not seen in the other. It is audited only on demand."""
        twin = copy(self)
        twin.audited = False
        twin.algorithm = self.algorithm.fork()
        twin.nodes, twin.waiting = dict(self.nodes), dict(self.waiting)
        twin.allocated, twin.preempting = dict(self.allocated), dict(self.preempting)
        return twin

    def restart(
        self,
        order: Iterable[str] | random.Random = (),
        *,
        config: str | None = None,
        late: Collection[str] = (),
        asked: Collection[int] = (),
    ) -> None:
        """A new process: nodes, then bound pods in the given order of UIDs (the rest follows), then the others.

        `late` ones are found bound only then. `asked`: after so many pods somebody asks, which changes nothing.
        """
        if config is not None:
            self.settings = settings_of(config)
        self.algorithm = HivedAlgorithm(self.settings)
        self.preempting.clear()
        for name in self.nodes:
            self.algorithm.add_node(self.node(name))
        self.audit()
        uids = [uid for uid in self._order(order) if uid not in late]
        for number, uid in enumerate(uids):
            if number in asked:
                self.audit()
            self.algorithm.add_allocated_pod(self.allocated[uid])
        self.audit()
        for each in self.waiting.values():
            self.algorithm.add_unallocated_pod(each)
        if late and not self.waiting:
            self._waits_for_a_moment()
        for uid in late:
            self.algorithm.add_allocated_pod(self.allocated[uid])
            self.audit()

    def _waits_for_a_moment(self) -> None:
        """Start-up is over."""
        each = one("visitor", tenant="nobody")
        self.algorithm.add_unallocated_pod(each)
        self.algorithm.delete_unallocated_pod(each)

    def restarted(self, order: Iterable[str], *, asked: Collection[int] = ()) -> HivedHarness:
        """Another world that is told the same, in this order."""
        twin = copy(self)
        twin.preempting = {}
        twin.restart(order, asked=asked)
        return twin

    def take_over(self, config: str) -> None:
        """Another algorithm in the same process: it is told all, also which preemptions are under way."""
        preempting = dict(self.preempting)
        self.restart(config=config)
        for uid, each in preempting.items():
            self.preempting[uid] = each
            self.algorithm.add_preempting_pod(each, (), "")
            self.audit()

    def _order(self, order: Iterable[str] | random.Random) -> list[str]:
        if isinstance(order, random.Random):
            return order.sample(sorted(self.allocated), len(self.allocated))
        first = list(order)
        return first + [uid for uid in self.allocated if uid not in first]

    def group(self, name: str) -> Group:
        return self.hive.groups[name]


def place_of(placed: Pod) -> tuple[str, str]:
    """The node, and the devices as a container reads them."""
    return placed.node_name, placed.annotation("hivedscheduler.microsoft.com/pod-leaf-cell-isolation") or ""

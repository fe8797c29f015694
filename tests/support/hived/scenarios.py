"""What HiveD is for, as users see it: each item of its feature list is one scenario, told in pods and annotations.

A scenario is played on a `Stage`: a cluster with kube-scheduler and Waggle at work on it. The integration tests have
one of stand-ins, the e2e tests the real thing; what has to come out is the same.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import yaml

Object = dict[str, Any]
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
BIND_INFO = "hivedscheduler.microsoft.com/pod-bind-info"
MARKER = "hivedscheduler.microsoft.com/pod-scheduling-enable"
NODES = [f"n{i}" for i in range(6)]
RACKS = ({"n0", "n1"}, {"n2", "n3"}, {"n4", "n5"})
#: Three racks of two machines with two sockets of two devices, all of them promised.
CONFIGURATION: Object = yaml.safe_load("""
physicalCluster:
  cellTypes:
    socket: {childCellType: gpu, childCellNumber: 2}
    host: {childCellType: socket, childCellNumber: 2, isNodeLevel: true}
    rack: {childCellType: host, childCellNumber: 2}
  physicalCells:
  - cellType: rack
    cellChildren: [{cellAddress: n0}, {cellAddress: n1}]
  - cellType: rack
    cellChildren: [{cellAddress: n2}, {cellAddress: n3}]
  - cellType: rack
    cellChildren: [{cellAddress: n4}, {cellAddress: n5, pinnedCellId: corner}]
virtualClusters:
  blue: {virtualCells: [{cellType: rack, cellNumber: 1}]}
  red: {virtualCells: [{cellType: rack.host, cellNumber: 2}, {cellType: rack.host.socket, cellNumber: 2}]}
  green: {pinnedCells: [{pinnedCellId: corner}]}
""")
#: Of Waggle's configuration, and of kube-scheduler's entry for it: pods are told by the marker, as with the original.
WAGGLE: Object = {"algorithm": {"name": "hived", "settings": CONFIGURATION}, "pods": {"resource": MARKER}}
EXTENDER: Object = {"managedResources": [{"name": MARKER, "ignoredByScheduler": True}]}


class Stage(ABC):
    """A cluster with the nodes `NODES`, on which Waggle runs with `WAGGLE` and kube-scheduler with `EXTENDER`."""

    # -- what each kind does in its own way -----------------------------------------------------------------------

    @abstractmethod
    def create(self, name: str, *, annotations: dict[str, str], containers: list[Object]) -> None:
        """A pod."""

    @abstractmethod
    def get(self, name: str) -> Object | None:
        """The pod as the API server has it; None if it is gone, or going."""

    @abstractmethod
    def delete(self, name: str) -> None: ...

    @abstractmethod
    def set_unschedulable(self, node: str, *, unschedulable: bool) -> None:
        """What `kubectl cordon` does."""

    @abstractmethod
    def page(self, path: str) -> Any:
        """One of Waggle's pages, decoded."""

    @abstractmethod
    def explain(self, name: str) -> Any:
        """Waggle's page about one pod."""

    @abstractmethod
    def restart(self, configuration: Object) -> None:
        """Waggle ends, and starts again with this configuration of HiveD."""

    @abstractmethod
    def until(self, condition: Callable[[], Any]) -> None:
        """Waits, or fails after a long time."""

    # -- what users do --------------------------------------------------------------------------------------------

    def gang(
        self, name: str, tenant: str, *, pods: int = 1, devices: int = 4, priority: int = 0, **more: Any
    ) -> list[str]:
        """Creates the pods of a group; their names."""
        members = [{"podNumber": pods, "leafCellNumber": devices}]
        group = {"name": name, "members": members}
        wish = {"virtualCluster": tenant, "priority": priority, "leafCellType": "gpu", "leafCellNumber": devices}
        names = [f"{name}-{i}" for i in range(pods)]
        for each in names:
            self.create(
                each,
                annotations={SPEC: yaml.safe_dump(wish | {"affinityGroup": group} | more)},
                containers=[{"name": "main", "image": "registry.test/app:1", "resources": {"limits": {MARKER: "1"}}}],
            )
        return names

    def runs(self, name: str, tenant: str, **wish: Any) -> list[str]:
        """A group as `gang` makes it; returns when it runs."""
        names = self.gang(name, tenant, **wish)
        self.until(lambda: all(self.nodes_of(names)))
        return names

    def end(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)
        self.until(lambda: not any(map(self.get, names)))

    def cordon(self, node: str, *, bad: bool = True) -> None:
        """Returns when Waggle has seen it."""
        self.set_unschedulable(node, unschedulable=bad)
        self.until(lambda: self.health(node) == ("Bad" if bad else "Healthy"))

    def health(self, node: str) -> str:
        machines = [cell for rack in self.page("clusterstatus/physicalcluster") for cell in rack["cellChildren"]]
        return next(cell["cellHealthiness"] for cell in machines if cell["cellAddress"].endswith(f"/{node}"))

    # -- what is to be seen ---------------------------------------------------------------------------------------

    def nodes_of(self, names: Sequence[str]) -> list[str]:
        found = map(self.get, names)
        return [pod["spec"].get("nodeName", "") if pod else "" for pod in found]

    def devices(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Machine and number of every device that these pods have, read where their containers read it."""
        found = [pod for pod in map(self.get, names) if pod is not None]
        given = [(pod["spec"].get("nodeName", ""), pod["metadata"]["annotations"].get(ISOLATION, "")) for pod in found]
        return [(node, device) for node, devices in given if node for device in devices.split(",")]

    def group(self, name: str) -> Object:
        status: Object = self.page(f"affinitygroups/{name}")["status"]
        return status

    def waits(self, names: Sequence[str], code: str) -> None:
        """Returns when Waggle says that all of them wait for this reason."""
        for name in names:
            self.until(lambda name=name: (self.explain(name).get("reason") or {}).get("code") == code)
        assert not any(self.nodes_of(names))

    def nobody_shares(self, names: Sequence[str]) -> None:
        """No device has two users, and groups are shown where their pods are."""
        given = self.devices(names)
        assert len(given) == len(set(given)), given
        groups = self.page("affinitygroups/")["items"] or []
        placements = [each["status"]["physicalPlacement"] for each in groups if each["status"].get("allocatedPods")]
        shown = [(node, str(device)) for places in placements for node in places for device in places[node]]
        assert sorted(shown) == sorted(given)


# -- the scenarios ----------------------------------------------------------------------------------------------------


def gang_is_placed_as_a_whole_or_not_at_all(stage: Stage) -> None:
    huge = stage.gang("huge", "blue", pods=3)
    stage.waits(huge, "CellsExhausted")
    pair = stage.runs("pair", "blue", pods=2)

    assert set(stage.nodes_of(pair)) in RACKS
    assert stage.nodes_of(huge) == [""] * 3
    stage.nobody_shares(pair)


def buddy_allocation_keeps_larger_cells_whole(stage: Stage) -> None:
    small = [*stage.runs("one", "red", devices=2), *stage.runs("two", "red", devices=2)]
    assert len(set(stage.nodes_of(small))) == 1

    large = stage.runs("large", "blue", pods=2)
    assert set(stage.nodes_of(large)) in RACKS
    stage.nobody_shares([*small, *large])


def bad_nodes_are_avoided_and_what_runs_there_is_left_alone(stage: Stage) -> None:
    stage.cordon("n0")
    first = stage.runs("first", "blue", pods=2)
    assert set(stage.nodes_of(first)) == {"n2", "n3"}

    stage.cordon("n2")
    assert set(stage.nodes_of(first)) == {"n2", "n3"}
    stage.end(first)
    second = stage.gang("second", "blue", pods=2)
    stage.waits(second, "CellsBad")

    stage.cordon("n0", bad=False)
    stage.until(lambda: set(stage.nodes_of(second)) == {"n0", "n1"})
    stage.nobody_shares(second)


def pinned_cells_are_their_owners(stage: Stage) -> None:
    """Others may borrow them, and have to go."""
    borrowed = stage.runs("borrowed", "red", pods=6, priority=-1)
    assert "n5" in stage.nodes_of(borrowed)

    own = stage.runs("own", "green", pinnedCellId="corner")
    assert stage.nodes_of(own) == ["n5"]
    assert not any(map(stage.get, borrowed)), "a gang goes as a whole"
    stage.nobody_shares(own)


def lazy_preemption_takes_the_quota_and_not_the_devices(stage: Stage) -> None:
    low = [*stage.runs("low0", "red", lazyPreemptionEnable=True), *stage.runs("low1", "red", lazyPreemptionEnable=True)]
    before = stage.devices(low)
    high = stage.runs("high", "red", priority=5)

    assert stage.devices(low) == before
    [loser] = [name for name in ("low0", "low1") if "lazyPreemptionStatus" in stage.group(name)]
    assert stage.group(loser)["lazyPreemptionStatus"]["preemptor"] == "high"
    assert "virtualPlacement" not in stage.group(loser)
    stage.nobody_shares([*low, *high])

    stage.restart(CONFIGURATION)
    without = [name for name in ("low0", "low1", "high") if "virtualPlacement" not in stage.group(name)]
    assert without == [loser]


def reconfiguration_preserves_work(stage: Stage) -> None:
    """A tenant less, another one more: whoever runs goes on."""
    blue, red = stage.runs("b", "blue", pods=2), stage.runs("r", "red")
    before = stage.devices([*blue, *red])
    other = copy.deepcopy(CONFIGURATION)
    del other["virtualClusters"]["blue"]
    other["virtualClusters"]["gray"] = {"virtualCells": [{"cellType": "rack.host", "cellNumber": 1}]}
    stage.restart(other)

    assert "virtualPlacement" not in stage.group("b")
    assert "virtualPlacement" in stage.group("r")
    gray = stage.runs("g", "gray")
    assert stage.devices([*blue, *red]) == before
    stage.nobody_shares([*blue, *red, *gray])


def opportunistic_pods_use_what_is_idle(stage: Stage) -> None:
    """More than their tenant was promised."""
    names = stage.runs("opp", "red", pods=5, priority=-1)

    assert len(set(stage.devices(names))) == 20
    assert "virtualPlacement" not in stage.group("opp")
    shown = [cell["cellAddress"] for cell in stage.page("clusterstatus/virtualclusters/red")]
    assert sum(address.endswith("-opp") for address in shown) == 20
    stage.nobody_shares(names)


def preemption_within_a_tenant_goes_by_priority(stage: Stage) -> None:
    low, other = stage.runs("low", "red", pods=2), stage.runs("other", "blue", pods=2)
    equal = stage.gang("equal", "red")
    stage.waits(equal, "CellsExhausted")
    high = stage.runs("high", "red", priority=5)

    assert not any(map(stage.get, low)), "a gang goes as a whole"
    assert all(stage.nodes_of(other))
    stage.until(lambda: all(stage.nodes_of(equal)))
    stage.nobody_shares([*high, *equal, *other])


def preemption_between_tenants_ends_only_what_was_borrowed(stage: Stage) -> None:
    """And not more of it than is in the way."""
    groups = [stage.runs(f"opp{i}", "red", priority=-1) for i in range(6)]
    owed = stage.runs("owed", "blue", pods=2)

    assert set(stage.nodes_of(owed)) in RACKS
    left = [name for names in groups for name in names if stage.get(name)]
    assert len(left) == 4
    stage.nobody_shares([*owed, *left])


def safety_is_that_everybody_gets_what_is_owed_whatever_others_do(stage: Stage) -> None:
    greedy = [name for i in range(4) for name in stage.gang(f"greedy{i}", "red", priority=1000)]
    stage.until(lambda: len(stage.devices(greedy)) == 8)
    stage.runs("opp", "red", pods=4, priority=-1)
    halves = [*stage.runs("half0", "red", devices=2), *stage.runs("half1", "red", devices=2)]
    blue = stage.runs("b", "blue", pods=2)
    green = stage.runs("g", "green", pinnedCellId="corner")

    assert len(stage.devices([*greedy, *halves, *blue, *green])) == 24
    stage.nobody_shares([*greedy, *halves, *blue, *green])


def restart_changes_nothing(stage: Stage) -> None:
    names = [*stage.runs("b", "blue", pods=2), *stage.runs("r", "red"), *stage.runs("o", "red", priority=-1)]
    before = _groups(stage)
    stage.restart(CONFIGURATION)

    assert _groups(stage) == before
    names += stage.runs("g", "green", pinnedCellId="corner")
    stage.nobody_shares(names)


def _groups(stage: Stage) -> dict[str, Any]:
    shown = {each["metadata"]["name"]: each["status"] for each in stage.page("affinitygroups/")["items"]}
    # Which of a tenant's equal virtual cells stands for what is nobody's business.
    return {name: {**status, "virtualPlacement": "virtualPlacement" in status} for name, status in shown.items()}


SCENARIOS: tuple[Callable[[Stage], None], ...] = (
    gang_is_placed_as_a_whole_or_not_at_all,
    buddy_allocation_keeps_larger_cells_whole,
    bad_nodes_are_avoided_and_what_runs_there_is_left_alone,
    pinned_cells_are_their_owners,
    lazy_preemption_takes_the_quota_and_not_the_devices,
    reconfiguration_preserves_work,
    opportunistic_pods_use_what_is_idle,
    preemption_within_a_tenant_goes_by_priority,
    preemption_between_tenants_ends_only_what_was_borrowed,
    safety_is_that_everybody_gets_what_is_owed_whatever_others_do,
    restart_changes_nothing,
)

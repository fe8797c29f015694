"""Dry runs: what would happen to a set if something changed. Nothing is changed but a copy.

plan = Planning(copy, changes)      raises ChangeError, which names the field
for _ in plan.run(): ...            one event of the simulation a step; the caller may stop
plan.result(limit=1000)             the moves, the pods, who would wait, before and after
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from algorithm.placements import registry
from algorithm.placements.policy import PolicyError
from algorithm.suggest import near
from extender.vpods import views
from extender.vpods.copies import SetCopy, VPodCopy, copy_set
from extender.vpods.names import MOST, split
from extender.vpods.records import ObjectKey, SetSettings, VPodKey
from extender.vpods.simulation import Simulation
from extender.vpods.steps import Moved, Scaled
from extender.vpods.views import Sums

#: How many names are compared with a misspelt one.
COMPARED = 1000
#: How many vreplicas the vpods of a plan may want in all, with a policy that places them one by one.
MOST_ONE_BY_ONE = 10_000


class ChangeError(ValueError):
    """A change that cannot be made. `field` is its path in the request."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field


class VPodChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a vpod wants in a plan. None: as it is. A vpod that is not known is a new one, which wants `vreplicas`."""

    vpod: str
    vreplicas: int | None = None
    spread: int | None = None
    max_per_pod: int | None = None
    deleted: bool = False


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What changes in a plan; all of it at once. Without any: what is due as things are.

    Pods are named by name or ordinal.
    """

    vpods: Sequence[VPodChange] = ()
    #: Settings of the set, by the names of `SetSettings`.
    settings: Mapping[str, Any] = {}
    #: Somebody sets the replicas of the StatefulSet; the autoscaler, if it is on, continues from there.
    replicas: int | None = None
    lost_pods: Sequence[str] = ()
    closed_pods: Sequence[str] = ()
    lost_nodes: Sequence[str] = ()
    cordoned_nodes: Sequence[str] = ()


class Lacking(msgspec.Struct, frozen=True, kw_only=True):
    """A vpod that would lack room."""

    vpod: str
    vreplicas: int
    pending: int
    reason: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would happen. Pods are ordinals; seconds count from now."""

    before: Sums
    after: Sums
    #: What would happen, in order: the first `limit` steps, of so many.
    steps: Sequence[Moved | Scaled]
    steps_total: int
    #: How many of the steps are due without any change.
    steps_due: int
    #: Vreplicas that would move from pod to pod, by reason; that would be new; that would be given up.
    moves: Mapping[str, int]
    grown: int
    given_up: int
    #: Ordinals of pods that would be added and taken away, in order.
    added: Sequence[int]
    removed: Sequence[int]
    waiting: Sequence[Lacking]
    waiting_total: int
    #: Vreplicas by ordinal, before and after.
    held_before: Mapping[int, int]
    held_after: Mapping[int, int]
    seconds: float
    events: int
    #: False: it was stopped before the set came to rest, so more would happen.
    is_at_rest: bool


class Planning:
    """One dry run."""

    def __init__(self, copy: SetCopy, changes: Changes) -> None:
        self._copy = copy
        self._changes = _Checked(copy, changes)
        self._simulation = Simulation(copy)
        self._due = 0

    def run(self) -> Iterator[None]:
        """Run the simulation, and yield after each of its events."""
        simulation = self._simulation
        yield from simulation.run(horizon=0.0)
        self._due = simulation.steps.total
        self._changes.make(simulation)
        yield from simulation.run()

    def result(self, *, limit: int = 1000) -> Plan:
        """Return what has happened so far in the simulation."""
        simulation = self._simulation
        after = copy_set(simulation.engine, simulation.key, simulation.now)
        assert after is not None
        waiting = [vpod for vpod in after.vpods if vpod.pending]
        scaled = simulation.steps.scaled
        return Plan(
            before=views.sums(self._copy),
            after=views.sums(after),
            steps=simulation.steps.kept[:limit],
            steps_total=simulation.steps.total,
            steps_due=self._due,
            moves={why.value: number for why, number in sorted(simulation.steps.moved.items())},
            grown=simulation.steps.grown,
            given_up=simulation.steps.given_up,
            added=[ordinal for step in scaled for ordinal in range(step.before, step.after)],
            removed=[ordinal for step in scaled for ordinal in range(step.before - 1, step.after - 1, -1)],
            waiting=[_lacking(vpod) for vpod in sorted(waiting, key=_longest)[:limit]],
            waiting_total=len(waiting),
            held_before=dict(sorted(self._copy.held.items())),
            held_after=dict(sorted(after.held.items())),
            seconds=round(simulation.seconds, 3),
            events=simulation.events,
            is_at_rest=simulation.is_at_rest,
        )


def _lacking(vpod: VPodCopy) -> Lacking:
    return Lacking(
        vpod=vpod.name,
        vreplicas=vpod.wanted,
        pending=vpod.pending,
        reason=vpod.reason.value,
        message=vpod.message,
    )


def _longest(vpod: VPodCopy) -> tuple[float, str]:
    return vpod.waits_since if vpod.waits_since is not None else float("inf"), vpod.name


class _Checked:
    """Changes that are possible. Raises ChangeError for those that are not."""

    def __init__(self, copy: SetCopy, changes: Changes) -> None:
        self._changes = changes
        self._copy = copy
        self._vpods = list(self._checked_vpods())
        if changes.replicas is not None:
            _within("replicas", changes.replicas, 0, MOST)
            if copy.workload is None:
                name = f"{copy.key.namespace}/{copy.settings.workload}"
                raise ChangeError("replicas", f"the StatefulSet {name} does not exist")
        settings = msgspec.structs.replace(copy.settings, **changes.settings)
        if settings.max_replicas < settings.min_replicas:
            text = f"expected at least min_replicas ({settings.min_replicas}), not {settings.max_replicas}"
            raise ChangeError("max_replicas", text)
        if changes.settings.keys() & {"policy", "policy_settings"}:
            _check_policy(settings)
        _check_cost(settings.policy, changes.vpods)
        self._lost = self._ordinals("lost_pods", changes.lost_pods)
        self._closed = self._ordinals("closed_pods", changes.closed_pods)
        self._check_nodes("lost_nodes", changes.lost_nodes)
        self._check_nodes("cordoned_nodes", changes.cordoned_nodes)

    def make(self, simulation: Simulation) -> None:
        """Make the changes in a simulation."""
        changes = self._changes
        if changes.settings:
            simulation.configure(**changes.settings)
        for name in changes.cordoned_nodes:
            simulation.cordon_node(name)
        for name in changes.lost_nodes:
            simulation.lose_node(name)
        for ordinal in self._closed:
            simulation.close_pod(ordinal)
        for ordinal in self._lost:
            simulation.lose_pod(ordinal)
        if changes.replicas is not None:
            simulation.scale(changes.replicas)
        for key, change in self._vpods:
            if change.deleted:
                simulation.delete(key)
            else:
                simulation.want(key, **_given(change))

    def _checked_vpods(self) -> Iterator[tuple[VPodKey, VPodChange]]:
        known = {vpod.name: vpod for vpod in self._copy.vpods}
        seen: set[str] = set()
        for index, change in enumerate(self._changes.vpods):
            field = f"vpods.{index}"
            name = _full_name(change.vpod, self._copy.key)
            if name in seen:
                raise ChangeError(f"{field}.vpod", f"{name} is listed twice")
            seen.add(name)
            vpod = known.get(name)
            if vpod is None and (change.deleted or change.vreplicas is None):
                names = [*known][:COMPARED]
                short = [each.removeprefix(f"{self._copy.key.namespace}/") for each in names]
                meant = near(change.vpod, [*names, *short])
                raise ChangeError(
                    f"{field}.vpod", f"{name} is not a vpod of {self._copy.key}; a new one needs `vreplicas`{meant}"
                )
            for part, number in (("vreplicas", change.vreplicas), ("spread", change.spread)):
                if number is not None:
                    _within(f"{field}.{part}", number, 0, MOST)
            if change.max_per_pod is not None:
                _within(f"{field}.max_per_pod", change.max_per_pod, 0, MOST)
            yield (vpod.record.key if vpod else _new_key(f"{field}.vpod", name)), change

    def _ordinals(self, field: str, names: Sequence[str]) -> list[int]:
        return [self._ordinal(f"{field}.{index}", name) for index, name in enumerate(names)]

    def _ordinal(self, field: str, name: str) -> int:
        workload, pods = self._copy.settings.workload, self._copy.pods
        found = (workload, int(name)) if name.isdecimal() and name.isascii() and len(name) < 11 else split(name)
        if found is None or found[0] != workload or found[1] not in pods:
            there = f"{workload}-0 to {workload}-{max(pods)}" if pods else "none is there"
            text = f"{name} is not a pod of {self._copy.key}; expected a name or an ordinal of {there}"
            raise ChangeError(field, text)
        return found[1]

    def _check_nodes(self, field: str, names: Sequence[str]) -> None:
        for index, name in enumerate(names):
            if name not in self._copy.nodes:
                meant = near(name, [*self._copy.nodes][:COMPARED])
                raise ChangeError(f"{field}.{index}", f"there is no node {name}{meant}")


def _check_policy(settings: SetSettings) -> None:
    try:
        registry.create(settings.policy, settings.policy_settings)
    except PolicyError as error:
        field, _, text = str(error).partition(": ")
        raise ChangeError(field if text else "policy", text or field) from error


def _check_cost(policy: str, vpods: Sequence[VPodChange]) -> None:
    """Other policies than `balanced` take as long as there are vreplicas, and cannot be interrupted meanwhile."""
    wanted = sum(change.vreplicas or 0 for change in vpods)
    if policy != registry.BALANCED and wanted > MOST_ONE_BY_ONE:
        text = f"expected at most {MOST_ONE_BY_ONE} vreplicas in all with policy {policy}, not {wanted}"
        raise ChangeError("vpods", text)


def _given(change: VPodChange) -> dict[str, int]:
    """What the record of the vpod gets."""
    given = {"wanted": change.vreplicas, "spread": change.spread, "max_per_pod": change.max_per_pod}
    return {name: number for name, number in given.items() if number is not None}


def _within(field: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise ChangeError(field, f"expected a number from {least} to {most}, not {number}")


def _full_name(name: str, of: ObjectKey) -> str:
    """The name with its namespace: that of the set if it has none."""
    source, colon, rest = name.rpartition(":")
    return f"{source}{colon}{rest if '/' in rest else f'{of.namespace}/{rest}'}"


def _new_key(field: str, name: str) -> VPodKey:
    source, _, rest = name.rpartition(":")
    namespace, _, short = rest.partition("/")
    if not namespace or not short or "/" in short:
        raise ChangeError(field, f"expected NAME or NAMESPACE/NAME, not {name!r}")
    return VPodKey(namespace, short, source)

"""A World without names: what people and machines are called becomes a number, everywhere the same one.

    train-0 in team-a on gpu-17   -->   x000412 in x000398 on x000131

The numbers follow the order of the names, and references stay references: what is placed by order of names, by label
or by gang is placed as before, so that a plan of the anonymous world has the same shape. Nothing can be computed back,
since a number says only where a name stood among the others. If names come or go, a later snapshot has other numbers.

`renaming.py` says what is replaced, and `keys.py` which keys of labels, annotations and taints stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
import yaml

from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import (
    HostPort,
    NodeSelectorTerm,
    Requirement,
    SchedNode,
    SchedPod,
    Toleration,
)
from extender.ordering.records import Dependency, Target
from extender.plan.reading.documents import InputError
from extender.plan.reading.keys import Keys
from extender.plan.reading.numbering import numbers_between
from extender.plan.reading.renaming import Renaming, collecting, structured
from extender.plan.records import PlanPod, RawObject, World

#: Sections of Waggle's configuration that concern scheduling, beside those of the pods, of the algorithm and of
#: start-up ordering.
_SECTIONS = ("holds", "force_bind", "preemption")


class Anonymous(NamedTuple):
    """A world without names. `left`: replaced keys, and domains of such keys, that still stand in it."""

    world: World
    left: tuple[str, ...]


def anonymous(world: World, *, keep_keys: Iterable[str] = ()) -> Anonymous:
    """Return the world with numbers in place of names. `keep_keys`: keys of labels, annotations and taints that stay.

    Raises InputError if the world does not have one of them.
    """
    keys, found = Keys(keep_keys), set[str]()
    _Worlds(collecting(found, keys)).world(world)
    if unused := keys.unused():
        raise InputError(f"--keep-key: no label, annotation or taint of the cluster has the key {', '.join(unused)}")
    try:
        numbers = numbers_between(found, keys.stayed)  # pairs are sorted by key
    except ValueError as error:
        raise InputError(f"the names cannot be replaced in their order: {error}") from error
    made = _Worlds(Renaming(numbers.__getitem__, numbers.__contains__, keys)).world(world)
    text = msgspec.json.encode(made).decode()
    return Anonymous(made, tuple(sorted(each for each in keys.telling() if each in text)))


class _Worlds:
    """Puts other names into all parts of a world."""

    def __init__(self, names: Renaming) -> None:
        self._names = names

    def world(self, world: World) -> World:
        return msgspec.structs.replace(
            world,
            source="",
            nodes=tuple(map(self._sched_node, world.nodes)),
            pods=tuple(map(self._plan_pod, world.pods)),
            budgets=tuple(map(self._budget, world.budgets)),
            objects=tuple(map(self._object, world.objects)),
            settings=self._configuration(world.settings),
            scheduler=_scheduler(world.scheduler),
        )

    def _sched_node(self, node: SchedNode) -> SchedNode:
        return msgspec.structs.replace(node, node=self._names.node(node.node), raw=b"")

    def _plan_pod(self, pod: PlanPod) -> PlanPod:
        return msgspec.structs.replace(
            pod,
            pod=self._sched_pod(pod.pod),
            owner=self._target(pod.owner) if pod.owner else None,
            above=tuple(map(self._target, pod.above)),
            group=self._target(pod.group) if pod.group else None,
            after=tuple(map(self._dependency, pod.after)),
            behind=self._names.identity(pod.behind),
            origin="",
        )

    def _sched_pod(self, pod: SchedPod) -> SchedPod:
        return msgspec.structs.replace(
            pod,
            pod=self._names.pod(pod.pod),
            raw=b"",
            node_selector=self._names.labels(pod.node_selector),
            affinity=None if pod.affinity is None else tuple(map(self._term, pod.affinity)),
            tolerations=tuple(map(self._toleration, pod.tolerations)),
            host_ports=tuple(map(self._port, pod.host_ports)),
        )

    def _port(self, port: HostPort) -> HostPort:
        anyone = port.ip in ("0.0.0.0", "::")  # noqa: S104 - it is compared, not bound
        return port if anyone else msgspec.structs.replace(port, ip=self._names.identity(port.ip))

    def _toleration(self, each: Toleration) -> Toleration:
        key = self._names.key(each.key) if each.key else ""  # it tolerates all keys
        return msgspec.structs.replace(each, key=key, value=self._names.name(each.value))

    def _term(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            tuple(map(self._requirement, term.expressions)), tuple(map(self._of_field, term.fields))
        )

    def _requirement(self, each: Requirement) -> Requirement:
        return msgspec.structs.replace(self._of_field(each), key=self._names.key(each.key))

    def _of_field(self, each: Requirement) -> Requirement:
        """A requirement of a field, such as metadata.name."""
        is_number = each.operator in ("Gt", "Lt")
        return each if is_number else msgspec.structs.replace(each, values=tuple(map(self._names.name, each.values)))

    def _budget(self, budget: Budget) -> Budget:
        return msgspec.structs.replace(
            budget,
            namespace=self._names.identity(budget.namespace),
            name=self._names.identity(budget.name),
            uid=self._names.identity(budget.uid),
            selector=tuple(map(self._requirement, budget.selector)),
            disrupted=frozenset(map(self._names.identity, budget.disrupted)),
        )

    def _target(self, target: Target) -> Target:
        name = "/".join(self._names.identity(part) for part in target.name.split("/"))
        return Target(target.kind, self._names.identity(target.namespace), name)

    def _dependency(self, dependency: Dependency) -> Dependency:
        return msgspec.structs.replace(dependency, target=self._target(dependency.target))

    def _object(self, obj: RawObject) -> RawObject:
        found = msgspec.json.decode(obj.json)
        kind = found.pop("kind", obj.kind)
        api_version = found.pop("apiVersion", obj.api_version)
        renamed = {"apiVersion": api_version, "kind": kind, **self._names.values(found)}
        return msgspec.structs.replace(
            obj,
            namespace=self._names.identity(obj.namespace),
            name=self._names.identity(obj.name),
            json=msgspec.json.encode(renamed),
            origin="",
        )

    def _configuration(self, text: str) -> str:
        """Waggle's configuration: the algorithm's part has names of nodes and tenants, and keys."""
        found = structured(text)
        if not isinstance(found, dict):
            return ""
        kept: dict[str, Any] = {key: found[key] for key in _SECTIONS if key in found}
        if isinstance(pods := found.get("pods"), dict):
            kept["pods"] = dict(pods)
            if isinstance(annotation := pods.get("annotation"), str) and annotation:
                kept["pods"]["annotation"] = self._names.key(annotation)
        if isinstance(ordering := found.get("ordering"), dict):
            kept["ordering"] = {key: value for key, value in ordering.items() if key == "enabled"}
        if isinstance(algorithm := found.get("algorithm"), dict):
            inside = {key: value for key, value in algorithm.items() if key in ("name", "settings")}
            if "settings" in inside:
                inside["settings"] = self._names.values(inside["settings"])
            kept["algorithm"] = inside
        return yaml.safe_dump(kept, sort_keys=False)


def _scheduler(text: str) -> str:
    """kube-scheduler's configuration, with no other address than this machine's, and without what a plan ignores."""
    found = structured(text)
    if not isinstance(found, dict):
        return ""
    found.pop("clientConnection", None)
    for each in found.get("profiles") or ():
        if isinstance(each, dict):
            each.pop("pluginConfig", None)
    for each in found.get("extenders") or ():
        if isinstance(each, dict):
            each.pop("tlsConfig", None)
            if isinstance(each.get("urlPrefix"), str):
                each["urlPrefix"] = "http://127.0.0.1:9096" + re.sub(r"^[a-z]+://[^/]*", "", each["urlPrefix"])
    return yaml.safe_dump(found, sort_keys=False)

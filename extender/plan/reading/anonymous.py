"""A World without names: what people and machines are called becomes a number, everywhere the same one.

    train-0 in team-a on gpu-17   -->   x000412 in x000398 on x000131

The numbers follow the order of the names, and references stay references: what is placed by order of names, by label
or by gang is placed as before, so that a plan of the anonymous world has the same shape. Nothing can be computed back,
since a number says only where a name stood among the others. If names come or go, a later snapshot has other numbers.

Replaced: names, namespaces, UIDs, values of labels and taints, and the texts in annotations and in the configuration
that name something. Kept: amounts, times, priorities, keys of labels and annotations, names of resources, of schedulers
and of types of cells, and the values true, false and small numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import yaml

from algorithm.model import Node, Pairs, Pod
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import HostPort, NodeSelectorTerm, Requirement, SchedNode, SchedPod
from extender.ordering.records import Dependency, Target
from extender.plan.reading.values import ValueFault, read_values
from extender.plan.records import PlanPod, RawObject, World

_KEPT = frozenset({"", "default", "kube-system", "true", "false", "system-cluster-critical", "system-node-critical"})
_NUMBER = re.compile(r"[0-9,.\-]{1,12}", re.ASCII)
#: What a text has that is a list or a mapping.
_STRUCTURE = re.compile(r"[\[{:\n]|^- ")
#: Fields of objects, annotations and configurations whose texts, or lists of texts, name something.
_NAMING = frozenset(
    {
        "cellAddress",
        "claim",
        "claimRef",
        "generateName",
        "group",
        "groupName",
        "host",
        "hostname",
        "name",
        "namespace",
        "node",
        "nodeName",
        "nodes",
        "physicalNode",
        "pinnedCellId",
        "podGroupName",
        "podName",
        "pool",
        "queue",
        "set",
        "source",
        "statefulSet",
        "tenant",
        "uid",
        "virtualCluster",
        "workload",
    }
)
#: Fields of which every value names something, and fields of which every key does.
_VALUES = frozenset({"labels", "matchLabels", "nodeSelector", "requires", "values"})
_KEYS = frozenset({"seats", "tenants", "virtualClusters", "virtual_clusters"})
#: Annotations whose whole text is no name.
_PLAIN = frozenset({"waggle.dev/gang-min", "waggle.dev/expected-seconds"})
_PATHS = frozenset({"waggle.dev/after", "waggle.dev/after-met"})
#: Sections of Waggle's configuration that concern scheduling, beside the algorithm's.
_SECTIONS = ("pods", "holds", "force_bind", "preemption", "ordering")

Rename = Callable[[str], str]


def anonymous(world: World) -> World:
    """Return the world with numbers in place of names."""
    found: set[str] = set()
    collecting(found).world(world)
    return numbering(found)[0].world(world)


def collecting(found: set[str]) -> Renaming:
    """Return what changes nothing, and adds the names that it meets to `found`."""

    def collect(text: str) -> str:
        found.add(text)
        return text

    return Renaming(collect, found.__contains__)


def numbering(found: Iterable[str]) -> tuple[Renaming, Mapping[str, str]]:
    """Return what puts a number in place of each of these names, in their order; and the numbers by name."""
    names = sorted(found)
    width = max(6, len(str(len(names))))
    numbers = {text: f"x{number:0{width}}" for number, text in enumerate(names)}
    return Renaming(numbers.__getitem__, numbers.__contains__), numbers


class Renaming:
    """Puts other names into records. `knows`: whether a text has been met as a name so far."""

    def __init__(self, rename: Rename, knows: Callable[[str], bool]) -> None:
        self._rename = rename
        self._knows = knows
        #: Annotations by key and text: the pods of a gang have the same.
        self._done: dict[tuple[str, str], str] = {}

    def world(self, world: World) -> World:
        return msgspec.structs.replace(
            world,
            source="",
            nodes=tuple(map(self._sched_node, world.nodes)),
            pods=tuple(map(self._plan_pod, world.pods)),
            budgets=tuple(map(self._budget, world.budgets)),
            objects=tuple(map(self._object, world.objects)),
            settings=self._configuration(world.settings),
            scheduler=self._scheduler(world.scheduler),
        )

    def name(self, text: str) -> str:
        """The other name; the same if it names nothing of anybody."""
        return text if text in _KEPT or _NUMBER.fullmatch(text) else self._rename(text)

    def _names(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.name, texts))

    # -- records --------------------------------------------------------------------------------------------------

    def _sched_node(self, node: SchedNode) -> SchedNode:
        return msgspec.structs.replace(node, node=self.node(node.node), raw=b"")

    def node(self, node: Node) -> Node:
        """The record with other names."""
        return msgspec.structs.replace(
            node,
            name=self.name(node.name),
            uid=self.name(node.uid),
            labels=self._labels(node.labels),
            annotations=self._annotations(node.annotations),
            taints=tuple(msgspec.structs.replace(each, value=self.name(each.value)) for each in node.taints),
        )

    def _plan_pod(self, pod: PlanPod) -> PlanPod:
        return msgspec.structs.replace(
            pod,
            pod=self._sched_pod(pod.pod),
            owner=self._target(pod.owner) if pod.owner else None,
            above=tuple(map(self._target, pod.above)),
            group=self._target(pod.group) if pod.group else None,
            after=tuple(map(self._dependency, pod.after)),
            behind=self.name(pod.behind),
            origin="",
        )

    def _sched_pod(self, pod: SchedPod) -> SchedPod:
        return msgspec.structs.replace(
            pod,
            pod=self.pod(pod.pod),
            raw=b"",
            node_selector=self._labels(pod.node_selector),
            affinity=None if pod.affinity is None else tuple(map(self._term, pod.affinity)),
            tolerations=tuple(msgspec.structs.replace(each, value=self.name(each.value)) for each in pod.tolerations),
            host_ports=tuple(map(self._port, pod.host_ports)),
        )

    def pod(self, pod: Pod) -> Pod:
        """The record with other names."""
        return msgspec.structs.replace(
            pod,
            namespace=self.name(pod.namespace),
            name=self.name(pod.name),
            uid=self.name(pod.uid),
            labels=self._labels(pod.labels),
            node_name=self.name(pod.node_name),
            nominated_node_name=self.name(pod.nominated_node_name),
            group=self.name(pod.group),
            annotations=self._annotations(pod.annotations),
        )

    def _port(self, port: HostPort) -> HostPort:
        anyone = port.ip in ("0.0.0.0", "::")  # noqa: S104 - it is compared, not bound
        return port if anyone else msgspec.structs.replace(port, ip=self._rename(port.ip))

    def _term(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return NodeSelectorTerm(
            tuple(map(self._requirement, term.expressions)), tuple(map(self._requirement, term.fields))
        )

    def _requirement(self, each: Requirement) -> Requirement:
        is_number = each.operator in ("Gt", "Lt")
        return each if is_number else msgspec.structs.replace(each, values=self._names(each.values))

    def _budget(self, budget: Budget) -> Budget:
        return msgspec.structs.replace(
            budget,
            namespace=self.name(budget.namespace),
            name=self.name(budget.name),
            uid=self.name(budget.uid),
            selector=tuple(map(self._requirement, budget.selector)),
            disrupted=frozenset(map(self.name, budget.disrupted)),
        )

    def _target(self, target: Target) -> Target:
        name = "/".join(self.name(part) for part in target.name.split("/"))
        return Target(target.kind, self.name(target.namespace), name)

    def _dependency(self, dependency: Dependency) -> Dependency:
        return msgspec.structs.replace(dependency, target=self._target(dependency.target))

    def _labels(self, pairs: Pairs) -> Pairs:
        return tuple((key, self.name(value)) for key, value in pairs)

    def _annotations(self, pairs: Pairs) -> Pairs:
        return tuple((key, self._annotation(key, value)) for key, value in pairs)

    # -- texts ----------------------------------------------------------------------------------------------------

    def _annotation(self, key: str, text: str) -> str:
        known = self._done.get((key, text))
        if known is None:
            known = self._done[key, text] = self._renamed(key, text)
        return known

    def _renamed(self, key: str, text: str) -> str:
        if key in _PLAIN or _NUMBER.fullmatch(text):
            return text
        value = _value(text) if _STRUCTURE.search(text) else None
        if isinstance(value, dict | list):
            return _text(self.values(value, is_path=key in _PATHS), like=text)
        return self.name(text)

    def values(self, value: Any, *, key: str = "", is_path: bool = False) -> Any:
        """A configuration, or another value as JSON has it, with other names."""
        if isinstance(value, dict):
            return {
                self._key(each, key): self._field(each, inside, key, is_path=is_path) for each, inside in value.items()
            }
        if isinstance(value, list):
            return [self.values(each, key=key, is_path=is_path) for each in value]
        if not isinstance(value, str):
            return value
        if key in _NAMING:
            return self._parts(value, everything=True)
        if is_path and "/" in value and not key:
            kind, _, name = value.partition("/")
            return f"{kind}/{self.name(name)}"
        return self._parts(value, everything=False)

    def _field(self, field: str, inside: Any, above: str, *, is_path: bool) -> Any:
        if field == "annotations" and isinstance(inside, dict):
            return {key: self._annotation(key, text) for key, text in inside.items() if isinstance(text, str)}
        if above in _VALUES and isinstance(inside, str):
            return self.name(inside)
        if field in _VALUES and isinstance(inside, list):
            return [self.name(each) if isinstance(each, str) else each for each in inside]
        return self.values(inside, key=field, is_path=is_path)

    def _key(self, field: str, above: str) -> str:
        return self.name(field) if above in _KEYS or self._is_name(field) else field

    def _parts(self, text: str, *, everything: bool) -> str:
        """A text that may be a path of names. `everything`: each part names something."""
        parts = text.split("/")
        return "/".join(self.name(part) if everything or self._is_name(part) else part for part in parts)

    def _is_name(self, text: str) -> bool:
        """Whether a text is certainly a name: it has been met as one, and is no ordinary word of a configuration."""
        return ("-" in text or "." in text or len(text) > _WORD) and self._knows(text)

    def _object(self, obj: RawObject) -> RawObject:
        found = msgspec.json.decode(obj.json)
        kind = found.pop("kind", obj.kind)
        api_version = found.pop("apiVersion", obj.api_version)
        renamed = {"apiVersion": api_version, "kind": kind, **self.values(found)}
        return msgspec.structs.replace(
            obj,
            namespace=self.name(obj.namespace),
            name=self.name(obj.name),
            json=msgspec.json.encode(renamed),
            origin="",
        )

    def _configuration(self, text: str) -> str:
        """Waggle's configuration: the algorithm's part has names of nodes and tenants."""
        found = _value(text)
        if not isinstance(found, dict):
            return ""
        algorithm = found.get("algorithm")
        kept: dict[str, Any] = {
            key: found[key] for key in ("pods", "holds", "force_bind", "preemption") if key in found
        }
        if isinstance(algorithm, dict):
            inside = {key: value for key, value in algorithm.items() if key in ("name", "settings")}
            if "settings" in inside:
                inside["settings"] = self.values(inside["settings"])
            kept["algorithm"] = inside
        return yaml.safe_dump(kept, sort_keys=False)

    def _scheduler(self, text: str) -> str:
        """kube-scheduler's configuration, with no other address than this machine's."""
        found = _value(text)
        if not isinstance(found, dict):
            return ""
        found.pop("clientConnection", None)
        for each in found.get("extenders") or ():
            if isinstance(each, dict):
                each.pop("tlsConfig", None)
                if isinstance(each.get("urlPrefix"), str):
                    each["urlPrefix"] = "http://127.0.0.1:9096" + re.sub(r"^[a-z]+://[^/]*", "", each["urlPrefix"])
        return yaml.safe_dump(found, sort_keys=False)


#: Names that are shorter could be words of a configuration.
_WORD = 12


def _value(text: str) -> Any:
    """The value of a YAML or JSON text; None if it is none."""
    try:
        found = next(iter(read_values(text)), None)
    except ValueFault:
        return None
    return None if found is None else found.value


def _text(value: Mapping[str, Any] | list[Any], *, like: str) -> str:
    """The value as JSON if that is what it was, else as YAML."""
    if like.lstrip()[:1] in ("{", "["):
        return msgspec.json.encode(value).decode()
    return yaml.safe_dump(value, sort_keys=False)

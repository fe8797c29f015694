"""A World without names: what people and machines are called becomes a number, everywhere the same one.

    train-0 in team-a on gpu-17   -->   x000412 in x000398 on x000131

The numbers follow the order of the names, and references stay references: what is placed by order of names, by label
or by gang is placed as before, so that a plan of the anonymous world has the same shape. Nothing can be computed back,
since a number says only where a name stood among the others. If names come or go, a later snapshot has other numbers.

Replaced: names, namespaces, UIDs, values of labels and taints, and the texts in annotations and in the configuration
that name something. Kept: amounts, times, priorities, names of resources, of schedulers and of types of cells, and the
values true, false and small numbers where they are not certainly names; also keys of labels, annotations and taints, of
a recording only those that `Keys` keeps.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from string import ascii_lowercase
from typing import Any

import msgspec
import yaml

from algorithm.model import Node, Pairs, Pod
from extender.embedded.kubescheduler.budgets import Budget
from extender.embedded.kubescheduler.model import HostPort, NodeSelectorTerm, Requirement, SchedNode, SchedPod
from extender.ordering.records import Dependency, Target
from extender.plan.reading.keys import Keys, has_keys, holds_key
from extender.plan.reading.values import ValueFault, read_values
from extender.plan.records import PlanPod, RawObject, World

_KEPT = frozenset({"", "default", "kube-system", "true", "false", "system-cluster-critical", "system-node-critical"})
_NUMBER = re.compile(r"[0-9,.\-]{1,12}", re.ASCII)
#: Of these, what is an amount wherever a name is not certain. An address such as 10.0.0.17 is none.
_AMOUNT = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
#: Where a path names a device by numbers.
_DEVICE = "cellAddress"
#: A preemption, by the UID of its preemptor and a number.
_PREEMPTION = "plan"
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
#: Annotations whose whole text is one.
_WHOLE = frozenset({"waggle.dev/gang"})
#: The one that says which claim has a pod: `extender.claims.records.ClaimMark`.
_MARK = "waggle.dev/claim"
_PATHS = frozenset({"waggle.dev/after", "waggle.dev/after-met"})
#: Sections of Waggle's configuration that concern scheduling, beside the algorithm's.
_SECTIONS = ("pods", "holds", "force_bind", "preemption", "ordering")

Rename = Callable[[str], str]


def anonymous(world: World) -> World:
    """Return the world with numbers in place of names."""
    found: set[str] = set()
    collecting(found).world(world)
    return numbering(found)[0].world(world)


def collecting(
    found: set[str], kept: Container[str] = _KEPT, words: Container[str] | None = None, keys: Keys | None = None
) -> Renaming:
    """Return what changes nothing, and adds the names that it meets to `found`. The others: see Renaming."""

    def collect(text: str) -> str:
        found.add(text)
        return text

    return Renaming(collect, found.__contains__, kept, words, keys)


def numbering(found: Iterable[str], kept: Container[str] = _KEPT) -> tuple[Renaming, Mapping[str, str]]:
    """Return what puts a number in place of each of these names, in their order; and the numbers by name."""
    numbers = numbers_between(found, ())
    return Renaming(numbers.__getitem__, numbers.__contains__, kept), numbers


def numbers_between(found: Iterable[str], fixed: Collection[str]) -> dict[str, str]:
    """Return a number for each of these names, such as x000012, so that they have the order of the names, also among
    the words in `fixed`, which are themselves. Raises ValueError if nothing fits between two of those."""
    names, words = sorted({*found} - {*fixed}), sorted({*fixed})
    width = max(6, len(str(len(names))))
    numbers: dict[str, str] = {}
    at, begins = -1, ""
    for number, text in enumerate(names):
        after = bisect_left(words, text)
        if after != at:
            at = after
            begins = _begin_between(words[at - 1] if at else "", words[at] if at < len(words) else None, width)
        numbers[text] = f"{begins}{number:0{width}}"
    return numbers | {word: word for word in words}


def _begin_between(low: str, high: str | None, width: int) -> str:
    """With which numbers of this width are after `low` and before `high`."""
    for begins in ("x", *reversed(ascii_lowercase), "0", "-", "!", f"{low}-x", f"{low}!x"):
        if begins + "0" * width > low and (high is None or begins + "9" * width < high):
            return begins
    raise ValueError(f"no number fits between {low!r} and {high!r}")


class Renaming:
    """Puts other names into records. `knows`: whether a text has been met as a name so far; `kept`: words that name
    nothing of anybody; `words`: those that annotations may have, all others in them are taken for names; `keys`: which
    keys of labels, annotations and taints stay, None: all."""

    def __init__(
        self,
        rename: Rename,
        knows: Callable[[str], bool],
        kept: Container[str] = _KEPT,
        words: Container[str] | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._keys = keys
        self._rename = rename
        self._knows = knows
        self._kept = kept
        self._words = words
        #: Whether a text is being renamed in which each word that is not one of `words` is a name.
        self._is_closed = False
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
        """The other name; the same if it names nothing of anybody: numbers, but not if they are known as names."""
        if _NUMBER.fullmatch(text) and (_AMOUNT.fullmatch(text) or not self._knows(text)):
            return text
        return self.identity(text)

    def identity(self, text: str) -> str:
        """The other name of a text that certainly is one, even if it looks like a number, such as 8.0 or 10.0.0.17."""
        return text if text in self._kept else self._rename(text)

    def key(self, text: str) -> str:
        """The other key of a label, an annotation or a taint; the same if it stays."""
        return text if self._keys is None or self._keys.stays(text) else self.identity(text)

    def _names(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(self.name, texts))

    # -- records --------------------------------------------------------------------------------------------------

    def _sched_node(self, node: SchedNode) -> SchedNode:
        return msgspec.structs.replace(node, node=self.node(node.node), raw=b"")

    def node(self, node: Node) -> Node:
        """The record with other names."""
        return msgspec.structs.replace(
            node,
            name=self.identity(node.name),
            uid=self.identity(node.uid),
            labels=self._labels(node.labels),
            annotations=self._annotations(node.annotations),
            taints=tuple(
                msgspec.structs.replace(each, key=self.key(each.key), value=self.name(each.value))
                for each in node.taints
            ),
        )

    def _plan_pod(self, pod: PlanPod) -> PlanPod:
        return msgspec.structs.replace(
            pod,
            pod=self._sched_pod(pod.pod),
            owner=self._target(pod.owner) if pod.owner else None,
            above=tuple(map(self._target, pod.above)),
            group=self._target(pod.group) if pod.group else None,
            after=tuple(map(self._dependency, pod.after)),
            behind=self.identity(pod.behind),
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
            namespace=self.identity(pod.namespace),
            name=self.identity(pod.name),
            uid=self.identity(pod.uid),
            labels=self._labels(pod.labels),
            node_name=self.identity(pod.node_name),
            nominated_node_name=self.identity(pod.nominated_node_name),
            group=self.identity(pod.group),
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
            namespace=self.identity(budget.namespace),
            name=self.identity(budget.name),
            uid=self.identity(budget.uid),
            selector=tuple(map(self._requirement, budget.selector)),
            disrupted=frozenset(map(self.identity, budget.disrupted)),
        )

    def _target(self, target: Target) -> Target:
        name = "/".join(self.identity(part) for part in target.name.split("/"))
        return Target(target.kind, self.identity(target.namespace), name)

    def _dependency(self, dependency: Dependency) -> Dependency:
        return msgspec.structs.replace(dependency, target=self._target(dependency.target))

    def _labels(self, pairs: Pairs) -> Pairs:
        return tuple((self.key(key), self.name(value)) for key, value in pairs)

    def _annotations(self, pairs: Pairs) -> Pairs:
        return tuple((self.key(key), self._annotation(key, value)) for key, value in pairs)

    # -- texts ----------------------------------------------------------------------------------------------------

    def _annotation(self, key: str, text: str) -> str:
        known = self._done.get((key, text))
        if known is None:
            known = self._done[key, text] = self._renamed(key, text)
        return known

    def _renamed(self, key: str, text: str) -> str:
        if key in _WHOLE:
            return self.identity(text)
        if key in _PLAIN or _AMOUNT.fullmatch(text):
            return text
        value = _value(text) if _STRUCTURE.search(text) else None
        if isinstance(value, dict | list):
            if key == _MARK:
                return _text(self._mark(value), like=text)
            self._is_closed = self._words is not None
            try:
                return _text(self.values(value, is_path=key in _PATHS), like=text)
            finally:
                self._is_closed = False
        return self.name(text)

    def _mark(self, value: Any, field: str = "") -> Any:
        """A claim's mark: every text in it names something, or is the caller's own, such as the idempotency key. The
        names of annotations and of labels are keys."""
        if isinstance(value, dict):
            return {key: self._mark(inside, key) for key, inside in value.items()}
        if isinstance(value, list):
            if field == "labels" and len(value) == 2 and isinstance(value[0], str):
                return [self.key(value[0]), self._mark(value[1])]
            return [self._mark(each, field) for each in value]
        if not isinstance(value, str):
            return value
        return self.key(value) if field == "annotations" else self.identity(value)

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
        if self._keys is not None and (holds_key(key) or self._keys.is_certain(value)):
            return self.key(value)
        if key == _PREEMPTION:
            name, slash, number = value.rpartition("/")
            return f"{self.identity(name)}{slash}{number}"
        if key in _NAMING:
            return self._parts(value, everything=True, devices=key == _DEVICE)
        if is_path and "/" in value and not key:
            kind, _, name = value.partition("/")
            return f"{kind}/{self.identity(name)}"
        return self._parts(value, everything=False)

    def _field(self, field: str, inside: Any, above: str, *, is_path: bool) -> Any:
        if field == "annotations" and isinstance(inside, dict):
            return {self.key(key): self._annotation(key, text) for key, text in inside.items() if isinstance(text, str)}
        if above in _VALUES and isinstance(inside, str):
            return self.name(inside)
        if field in _VALUES and isinstance(inside, list):
            return [self.name(each) if isinstance(each, str) else each for each in inside]
        return self.values(inside, key=field, is_path=is_path)

    def _key(self, field: str, above: str) -> str:
        if self._keys is not None and has_keys(above):
            return self.key(field)
        return self.identity(field) if above in _KEYS or self._is_name(field) else field

    def _parts(self, text: str, *, everything: bool, devices: bool = False) -> str:
        """A text that may be a path of names. `everything`: each part names something; `devices`: or is a number."""
        rename = self.name if devices else self.identity
        parts = text.split("/")
        if everything:
            return "/".join(map(rename, parts))
        return "/".join(
            self.identity(part) if self._is_name(part) or self._is_foreign(part) else part for part in parts
        )

    def _is_foreign(self, text: str) -> bool:
        """Whether it is none of the words that may stand here, and no amount."""
        return self._is_closed and text not in (self._words or ()) and not _NUMBER.fullmatch(text)

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
            namespace=self.identity(obj.namespace),
            name=self.identity(obj.name),
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

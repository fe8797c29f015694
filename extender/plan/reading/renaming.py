"""Puts other names into records of nodes and pods, into annotations, and into configurations.

Replaced: names, namespaces, UIDs, values of labels and taints, and the texts in annotations and in configurations that
name something; also keys of labels, annotations and taints, but those that `Keys` keeps. Kept: amounts, times,
priorities, names of resources, of schedulers and of types of cells, and the values true, false and small numbers where
they are not certainly names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from typing import Any

import msgspec
import yaml

from algorithm.model import Node, Pairs, Pod
from extender.plan.reading.keys import Keys, has_keys, holds_key
from extender.plan.reading.values import ValueFault, read_values

KEPT = frozenset({"", "default", "kube-system", "true", "false", "system-cluster-critical", "system-node-critical"})
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
Rename = Callable[[str], str]


def collecting(
    found: set[str], keys: Keys, kept: Container[str] = KEPT, words: Container[str] | None = None
) -> Renaming:
    """Return what changes nothing, and adds the names that it meets to `found`. The others: see Renaming."""

    def collect(text: str) -> str:
        found.add(text)
        return text

    return Renaming(collect, found.__contains__, keys, kept, words)


class Renaming:
    """Puts other names into records. `knows`: whether a text has been met as a name so far; `keys`: which keys of
    labels, annotations and taints stay; `kept`: words that name nothing of anybody; `words`: those that annotations may
    have, all others in them are taken for names."""

    def __init__(
        self,
        rename: Rename,
        knows: Callable[[str], bool],
        keys: Keys,
        kept: Container[str] = KEPT,
        words: Container[str] | None = None,
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
        return text if self._keys.stays(text) else self.identity(text)

    # -- records --------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> Node:
        """The record with other names."""
        return msgspec.structs.replace(
            node,
            name=self.identity(node.name),
            uid=self.identity(node.uid),
            labels=self.labels(node.labels),
            annotations=self._annotations(node.annotations),
            taints=tuple(
                msgspec.structs.replace(each, key=self.key(each.key), value=self.name(each.value))
                for each in node.taints
            ),
        )

    def pod(self, pod: Pod) -> Pod:
        """The record with other names."""
        return msgspec.structs.replace(
            pod,
            namespace=self.identity(pod.namespace),
            name=self.identity(pod.name),
            uid=self.identity(pod.uid),
            labels=self.labels(pod.labels),
            node_name=self.identity(pod.node_name),
            nominated_node_name=self.identity(pod.nominated_node_name),
            group=self.identity(pod.group),
            annotations=self._annotations(pod.annotations),
        )

    def labels(self, pairs: Pairs) -> Pairs:
        """Labels with other keys and values."""
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
        value = structured(text) if _STRUCTURE.search(text) else None
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
        if holds_key(key) or self._keys.is_certain(value):
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
        if has_keys(above):
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


#: Names that are shorter could be words of a configuration.
_WORD = 12


def structured(text: str) -> Any:
    """Return the value of a YAML or JSON text; None if it is none."""
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

"""What of a cluster's objects a plan keeps: the fields that scheduling reads, and no others.

Never kept: environment variables, commands, images, volumes, the data of secrets and config maps, and annotations that
nothing here reads (`kubectl.kubernetes.io/last-applied-configuration` has all of the former).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algorithm import registry
from algorithm.registry import AlgorithmError
from extender.embedded.apiserver.objects import decode, encode
from extender.plan.reading.gangs import GROUP_ANNOTATIONS

Object = dict[str, Any]

_OWN = "waggle.dev/"
_NEVER = frozenset({"kubectl.kubernetes.io/last-applied-configuration"})
#: Fields that are dropped at any depth.
_DROPPED = frozenset(
    {
        "args",
        "binaryData",
        "command",
        "data",
        "description",
        "env",
        "envFrom",
        "ephemeralContainers",
        "image",
        "imagePullSecrets",
        "images",
        "managedFields",
        "message",
        "stringData",
        "volumeClaimTemplates",
        "volumes",
    }
)
#: Of the containers of a pod template these fields are kept: a workload without pods may be scaled up in a plan.
_CONTAINERS = frozenset({"containers", "initContainers"})
_OF_CONTAINERS = frozenset({"name", "ports", "resources", "restartPolicy"})
#: Levels of an object that are kept.
_DEEPEST = 30
_METADATA = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")


class Keeper:
    """Decides which annotations are kept, by the configured algorithm and those that are installed.

    `settings`: the text of Waggle's configuration; an annotation that it names is kept, too.
    """

    def __init__(self, settings: str = "", algorithm: str = "packing") -> None:
        self._settings = settings
        names = {algorithm, *registry.available()}
        reads = {name: found for name in sorted(names) if (found := _reads(name)) is not None}
        chosen = reads.get(algorithm)
        self._all = chosen is not None and chosen.wishes is None
        self._all_of_nodes = chosen is not None and chosen.of_nodes is None
        self._names = frozenset(GROUP_ANNOTATIONS).union(
            *(each.wishes or () for each in reads.values()), *(each.decisions for each in reads.values())
        )
        self._of_nodes = frozenset[str]().union(*(each.of_nodes or () for each in reads.values()))

    def annotations(self, given: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the annotations of a pod, or of an object that makes pods, that are kept."""
        return self._kept(given, self._names, everything=self._all)

    def of_node(self, given: Mapping[str, Any] | None) -> dict[str, str]:
        """Return the annotations of a node that are kept."""
        return self._kept(given, self._of_nodes, everything=self._all_of_nodes)

    def _kept(self, given: Mapping[str, Any] | None, names: frozenset[str], *, everything: bool) -> dict[str, str]:
        return {
            name: text
            for name, text in (given or {}).items()
            if isinstance(text, str) and name not in _NEVER and (everything or self._is_read(name, names))
        }

    def _is_read(self, name: str, names: frozenset[str]) -> bool:
        return name.startswith(_OWN) or name in names or name in self._settings

    def lean(self, raw: bytes, api_version: str, kind: str) -> bytes:
        """Return the JSON of an object without what is never kept. Raises msgspec.DecodeError."""
        found = decode(raw)
        metadata = found.get("metadata", {})
        kept: Object = {key: metadata[key] for key in _METADATA if key in metadata}
        kept["annotations"] = self.annotations(metadata.get("annotations"))
        for key in ("labels", "ownerReferences"):
            if metadata.get(key):
                kept[key] = metadata[key]
        rest = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")}
        return encode({"apiVersion": api_version, "kind": kind, "metadata": kept, **self._without(rest, 0)})

    def _without(self, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            return None
        if isinstance(value, dict):
            return {
                key: self._special(key, each, depth)
                if key in _CONTAINERS or key == "annotations"
                else self._without(each, depth + 1)
                for key, each in value.items()
                if key not in _DROPPED and (key != "annotations" or isinstance(each, dict))
            }
        return [self._without(each, depth + 1) for each in value] if isinstance(value, list) else value

    def _special(self, key: str, value: Any, depth: int) -> Any:
        if key == "annotations":
            return self.annotations(value)
        each_kept = (
            {name: inside for name, inside in each.items() if name in _OF_CONTAINERS}
            for each in (value if isinstance(value, list) else ())
            if isinstance(each, dict)
        )
        return [self._without(each, depth + 2) for each in each_kept]


def _reads(name: str) -> Any:
    try:
        return registry.reads(name)
    except AlgorithmError:
        return None

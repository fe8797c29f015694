"""The request of a pod, from the original's annotation, and the error texts for its author.

Old clients wrote `gpuType` and so on; both spellings of a key are read (the original replaced the words anywhere in
the text, in names too). Texts that are the same for a whole gang are read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from algorithm.hived.formats.plainyaml import Plain, load, whole_number

#: Priorities of pods: opportunistic ones have -1, guaranteed ones 0..1000.
OPPORTUNISTIC, MAX_PRIORITY = -1, 1000

PREFIX = "hivedscheduler.microsoft.com/"
SPEC = PREFIX + "pod-scheduling-spec"
#: Characters of the annotation; fifty times what a real one has.
LONGEST = 16_384
#: Lines and commas of it. Each value has one or the other, and values are what is slow to read.
MOST_PARTS = 512
#: Characters of a group's name. While a group is without its quota, its name is written on every pod that is bound in
#: its chain, and a pod takes 256 KiB of annotations.
LONGEST_GROUP_NAME = 253
#: Different numbers of devices per pod, in one group.
MOST_SIZES = 64

_OLD_KEYS = {"gpuType": "leafCellType", "gpuNumber": "leafCellNumber"}
_TRUE = frozenset({"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})
_MAX_INT32 = 2**31 - 1


class UserError(Exception):
    """What the pod's author did wrong. `kind` is a short name of it, for programs."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class PodSpec:
    """`pods` maps devices per pod to the number of pods of the whole group, smallest first.

    An empty `leaf_type` is any. `group` is unique: with `scope` in front of the name that the author gave, see
    `tenancy.py`. A gang that `releases` gives devices back pod by pod.
    """

    tenant: str
    priority: int
    pinned_id: str
    leaf_type: str
    leafs: int
    lazy: bool
    ignores_offer: bool
    group: str
    pods: tuple[tuple[int, int], ...]
    gang_release: bool = False
    scope: str = ""
    releases: bool = False

    @property
    def devices(self) -> int:
        """Of the whole group."""
        return sum(devices * number for devices, number in self.pods)


def parse_spec(text: str, *, namespace: str, name: str) -> PodSpec:
    """The pod's wish. Raises UserError."""
    if not text:
        raise _wrong("missing", "Annotation does not exist or is empty")
    spec = _parse(text)
    return spec if spec.group else replace(spec, group=f"{namespace}/{name}", pods=((spec.leafs, 1),))


def _wrong(kind: str, text: str) -> UserError:
    return UserError(f"spec-{kind}", f"Pod annotation {SPEC}: {text}")


@lru_cache(maxsize=1024)
def _parse(text: str) -> PodSpec:
    """The wish, with an empty group name if the pod is alone. Rules are checked in the original's order."""
    fields = _Fields(_loaded(text), "")
    tenant = fields.text("virtualCluster")
    priority = fields.number("priority")
    leafs = fields.number("leafCellNumber")
    group = fields.section("affinityGroup")
    members = [] if group is None else list(group.sections("members"))
    counts = [(member.number("leafCellNumber"), member.number("podNumber")) for member in members]
    group_name = "" if group is None else group.text("name")
    if not tenant:
        raise _wrong("vc-empty", "VirtualCluster is empty")
    if priority < OPPORTUNISTIC:
        raise _wrong("priority-low", f"Priority is less than {OPPORTUNISTIC}")
    if priority > MAX_PRIORITY:
        raise _wrong("priority-high", f"Priority is greater than {MAX_PRIORITY}")
    if leafs <= 0:
        raise _wrong("leafnumber", "LeafCellNumber is non-positive")
    if group is not None:
        _check_group(group_name, counts, leafs)
    pods: dict[int, int] = {}
    for devices, number in sorted(counts):
        pods[devices] = pods.get(devices, 0) + number
    return PodSpec(
        tenant,
        priority,
        fields.text("pinnedCellId"),
        fields.text("leafCellType"),
        leafs,
        fields.flag("lazyPreemptionEnable", default=False),
        fields.flag("ignoreK8sSuggestedNodes", default=True),
        group_name,
        tuple(pods.items()),
        fields.flag("gangReleaseEnable", default=False),
    )


def _check_group(name: str, counts: list[tuple[int, int]], leafs: int) -> None:
    if not name:
        raise _wrong("group-name-empty", "AffinityGroup.Name is empty")
    if len(name) > LONGEST_GROUP_NAME:
        raise _wrong("group-name-long", f"AffinityGroup.Name is longer than {LONGEST_GROUP_NAME} characters")
    for devices, number in counts:
        if number <= 0:
            raise _wrong("member-podnumber", "AffinityGroup.Members has non-positive PodNumber")
        if devices <= 0:
            raise _wrong("member-leafnumber", "AffinityGroup.Members has non-positive LeafCellNumber")
    sizes = {devices for devices, _ in counts}
    if len(sizes) > MOST_SIZES:
        raise _wrong("member-sizes", f"AffinityGroup.Members has more than {MOST_SIZES} different LeafCellNumbers")
    if leafs not in sizes:
        raise _wrong("pod-not-in-group", "AffinityGroup.Members does not contains current Pod")


def _loaded(text: str) -> Mapping[str, Any]:
    try:
        loaded = load(text, longest=LONGEST, most_parts=MOST_PARTS)
    except ValueError as error:
        raise _wrong("yaml", str(error)) from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise _wrong("yaml", "expected a mapping with virtualCluster, leafCellNumber and so on")
    return loaded


class _Fields:
    """A mapping of texts, read by kind. `where` is its path, for messages."""

    def __init__(self, fields: Mapping[str, Any], where: str) -> None:
        self._fields = {_OLD_KEYS.get(key, key): value for key, value in fields.items()}
        self._where = where

    def text(self, key: str) -> str:
        value = self._fields.get(key)
        if value is not None and not isinstance(value, str):
            raise _wrong("yaml", f"{self._where}{key}: expected a text")
        return "" if value is None else str(value)

    def number(self, key: str) -> int:
        value = self._fields.get(key)
        if value is None:
            return 0
        number = whole_number(value) if isinstance(value, Plain) else None
        if number is None:
            raise _wrong("yaml", f"{self._where}{key}: expected a whole number, not {str(value)[:40]!r}")
        if abs(number) > _MAX_INT32:
            raise _wrong("yaml", f"{self._where}{key}: {value[:40]} is too large")
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._fields.get(key)
        if value is None:
            return default
        if isinstance(value, Plain) and value in _TRUE | _FALSE:
            return value in _TRUE
        raise _wrong("yaml", f"{self._where}{key}: expected true or false, not {str(value)[:40]!r}")

    def section(self, key: str) -> _Fields | None:
        value = self._fields.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong("yaml", f"{self._where}{key}: expected a mapping")
        return _Fields(value, f"{self._where}{key}.")

    def sections(self, key: str) -> list[_Fields]:
        value = self._fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise _wrong("yaml", f"{self._where}{key}: expected a list of mappings")
        return [_Fields(each, f"{self._where}{key}[{index}].") for index, each in enumerate(value)]

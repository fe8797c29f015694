"""The annotations that are written with a binding, in the original's format, and read back after a restart.

    .../pod-leaf-cell-isolation   0,1,2,3     the pod's devices; containers use it as NVIDIA_VISIBLE_DEVICES
    .../pod-bind-info             YAML        the same again, and the places of the whole group

Either scheduler reads what the other wrote. A text that neither wrote may be malformed in any way. It raises a
UserError, never another exception.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from algorithm.decisions import GangText
from algorithm.hived.formats import bindlines
from algorithm.hived.formats.allocation import Allocation, Place, own_place_of
from algorithm.hived.formats.plainyaml import Plain, load
from algorithm.hived.formats.podspec import PREFIX, UserError

BIND_INFO = PREFIX + "pod-bind-info"
ISOLATION = PREFIX + "pod-leaf-cell-isolation"

#: Texts that YAML reads as the text they are.
_SAFE = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*", re.ASCII)
_NOT_TEXT = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE | re.ASCII)
_OLD_KEYS = {"gpuIsolation": "leafCellIsolation", "physicalGpuIndices": "physicalLeafCellIndices"}
_INDEX = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
#: Characters; the API server takes no more for all annotations of an object.
LONGEST = 262_144
#: What is not in the form in which it is written: characters, and lines and commas.
_LONGEST_ODD, _MOST_ODD_PARTS = 32_768, 1024
_GROUP_KEY = "affinityGroupBindInfo:"
#: Characters of a text with no place but the pod's own: 500 devices on one machine.
_LONGEST_OWN = 16_384
_NEXT_PLACE = re.compile(r"^(?:  )?- ", re.MULTILINE)
_TOP_LEVEL = re.compile(r"^[^\s-]", re.MULTILINE)
#: What was written last, by its text: mostly it is read right back, when the pod is added, and YAML is slow to read.
_written: OrderedDict[str, Allocation] = OrderedDict()
_MOST_WRITTEN = 64
_Places = tuple[tuple[int, tuple[Place, ...]], ...]


def write(allocation: Allocation) -> tuple[tuple[str, str], ...]:
    """The annotations, sorted by name."""
    info = _info(allocation)
    _written[info] = allocation
    if len(_written) > _MOST_WRITTEN:
        _written.popitem(last=False)
    return ((BIND_INFO, info), (ISOLATION, ",".join(map(str, allocation.indices))))


def _info(allocation: Allocation) -> str:
    devices = "".join(f"- {index}\n" for index in allocation.indices)
    return (
        f"node: {_scalar(allocation.node)}\nleafCellIsolation:\n{devices}"
        f"cellChain: {_scalar(allocation.chain)}\n{_group_text(allocation.places)}"
    )


@lru_cache(maxsize=64)
def _group_text(places: _Places) -> str:
    """The same for every pod of a group."""
    lines = [_GROUP_KEY]
    for _, pods in places:
        lines.append("- podPlacements:")
        for place in pods:
            lines += [f"  - physicalNode: {_scalar(place.node)}", "    physicalLeafCellIndices:"]
            lines += [f"    - {index}" for index in place.indices]
            lines.append("    preassignedCellTypes:")
            lines += [f"    - {_scalar(type_)}" for type_ in place.types]
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    """As the original writes it where it needs no quotes."""
    if _SAFE.fullmatch(text) and not _NOT_TEXT.fullmatch(text):
        return text
    return f'"{"".join(map(_character, text))}"'


def _character(character: str) -> str:
    if character.isascii() and character.isprintable() and character not in '"\\':
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def read(text: str) -> Allocation:
    """What was written. Raises UserError for what is not in that form."""
    if len(text) > LONGEST:
        raise _wrong(f"longer than {LONGEST} characters")
    return _written.get(text) or _read(text)


def _read(text: str) -> Allocation:
    head, key, group = text.partition(_GROUP_KEY)
    if key and head.endswith("\n") and not _TOP_LEVEL.search(group):
        # All pods of a group repeat this part, and it comes last.
        places = _read_group(key + group)
        fields = _mapping(_load(head), "")
    else:
        fields = _mapping(_load(text), "")
        places = _places(fields.get("affinityGroupBindInfo"))
    node, indices = _text(fields, "node"), _indices(fields, "leafCellIsolation")
    own = next((pods for devices, pods in places if devices == len(indices)), ())
    if not any(place.node == node and place.indices == indices for place in own):
        raise _wrong(f"its group has no place on {node} with devices {','.join(map(str, indices))}")
    return Allocation(node, indices, _text(fields, "cellChain"), places)


@lru_cache(maxsize=64)
def _read_group(text: str) -> _Places:
    """Equal texts are read once: all pods of a group have this one."""
    lines = bindlines.read(text)
    if lines is not None:
        return _places(bindlines.as_loaded(lines, Plain))
    return _places(_mapping(_load(text), "").get("affinityGroupBindInfo"))


def own_place(text: str) -> str:
    """The same with no place but the pod's own; "" if it has none, or one of more characters than any pod's has.

    A text as either scheduler writes it is searched, and not read: that takes under a millisecond for the longest.
    """
    head, key, group = text.partition(_GROUP_KEY)
    if len(head) > _LONGEST_OWN or len(text) > LONGEST:
        return ""
    try:
        found = _find_place(_mapping(_load(head), ""), group) if key and head.endswith("\n") else ""
        own = _only_place(read(f"{head}{key}\n- podPlacements:\n{found}")) if found else _only_place(_read_odd(text))
    except UserError:
        return ""
    return own if len(own) <= _LONGEST_OWN else ""


def _read_odd(text: str) -> Allocation:
    """A text that is not in the form in which it is written. Raises UserError, also if it is long."""
    if len(text) > _LONGEST_ODD:
        raise _wrong(f"longer than {_LONGEST_ODD} characters, in a form that no scheduler writes")
    return _read(text)


def _only_place(allocation: Allocation) -> str:
    places = ((len(allocation.indices), (own_place_of(allocation),)),)
    return _info(replace(allocation, places=places))


def _find_place(fields: Mapping[str, Any], group: str) -> str:
    """The lines of the pod's own place; "" if they are not there in the form in which they are written."""
    node = _text(fields, "node")
    devices = "".join(f"    - {index}\n" for index in _indices(fields, "leafCellIsolation"))
    for key in ("physicalLeafCellIndices", "physicalGpuIndices"):
        for scalar in (node, f'"{node}"', f"'{node}'"):
            lines = f"\n  - physicalNode: {scalar}\n    {key}:\n{devices}"
            at = group.find(lines)
            while at >= 0:
                end = at + len(lines)
                if not group.startswith("    - ", end):  # else it has more devices
                    following = _NEXT_PLACE.search(group, end)
                    return group[at + 1 : following.start() if following else len(group)]
                at = group.find(lines, end)
    return ""


def _places(loaded: Any) -> _Places:
    found: dict[int, tuple[Place, ...]] = {}
    for member in _list(loaded, "affinityGroupBindInfo"):
        pods = _mapping(member, "affinityGroupBindInfo").get("podPlacements")
        places = tuple(_place(_mapping(pod, "podPlacements")) for pod in _list(pods, "podPlacements"))
        sizes = {len(place.indices) for place in places}
        if len(sizes) != 1 or sizes <= found.keys():
            raise _wrong("podPlacements: expected pods with the same number of devices, once for each number")
        found[sizes.pop()] = places
    return tuple(sorted(found.items()))


def _place(fields: Mapping[str, Any]) -> Place:
    indices = _indices(fields, "physicalLeafCellIndices")
    types = fields.get("preassignedCellTypes")
    # Very old ones have no types: it is not known whose quota they took.
    names = tuple(str(each or "") for each in _list(types, "preassignedCellTypes")) if types else ("",) * len(indices)
    if len(names) != len(indices):
        raise _wrong("preassignedCellTypes: expected one for each of physicalLeafCellIndices")
    return Place(_text(fields, "physicalNode"), indices, names)


def _load(text: str) -> Any:
    try:
        return load(text, longest=_LONGEST_ODD, most_parts=_MOST_ODD_PARTS)
    except ValueError as error:
        raise _wrong(str(error)) from error


def _mapping(loaded: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(loaded, dict):
        raise _wrong(f"{where}: expected a mapping" if where else "expected a mapping with node and leafCellIsolation")
    return {_OLD_KEYS.get(str(key), str(key)): value for key, value in loaded.items()}


def _list(loaded: Any, where: str) -> list[Any]:
    if not isinstance(loaded, list) or not loaded:
        raise _wrong(f"{where}: expected a list")
    return loaded


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value:
        raise _wrong(f"{key}: expected a text")
    return str(value)


def _indices(fields: Mapping[str, Any], key: str) -> tuple[int, ...]:
    found = _list(fields.get(key), key)
    if not all(isinstance(each, Plain) and _INDEX.fullmatch(each) for each in found):
        raise _wrong(f"{key}: expected device numbers")
    indices = tuple(int(each) for each in found)
    if len(set(indices)) != len(indices):
        raise _wrong(f"{key}: a device stands there twice")
    return indices


def _wrong(text: str) -> UserError:
    return UserError("bind-info", f"Pod annotation {BIND_INFO}: {text}")


#: The places of the whole group, which stand on each of its pods.
SHARED = GangText(begins=_GROUP_KEY, own=own_place)

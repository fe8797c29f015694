"""Nodes by number and shape: `--nodes 100 --node-shape cpu=64,memory=256Gi,nvidia.com/gpu=8,label:rack=r%d/8`.

A shape is a list of `RESOURCE=QUANTITY`, `label:NAME=VALUE` and `taint:KEY[=VALUE]:EFFECT`. In the value of a label, %d
is the number of the node, from 0, and `%d/8` the number of its group of eight. `pods` is 110 unless it is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from algorithm.decoding import DecodeError
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.objects import encode
from extender.embedded.apiserver.table import NODES
from extender.embedded.apiserver.validation import validate
from extender.embedded.kubescheduler.model import SchedNode, decode_node
from extender.plan.reading.checking import texts_of
from extender.plan.reading.making import known_node

#: The shape without `--node-shape`.
DEFAULT = "cpu=64,memory=256Gi"
MOST_NODES = 20_000
_MOST_PARTS = 100
_LONGEST = 10_000
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NUMBER = re.compile(r"%d(?:/([1-9][0-9]{0,5}))?", re.ASCII)


class ShapeError(ValueError):
    """The number or the shape cannot be used. The message says which part, and what was expected."""


@dataclass
class _Shape:
    amounts: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)


def shaped_nodes(number: int, shape: str = DEFAULT, *, prefix: str = "node-") -> tuple[SchedNode, ...]:
    """Return so many ready nodes of this shape, named node-0, node-1 and so on. Raises ShapeError."""
    if not 1 <= number <= MOST_NODES:
        raise ShapeError(f"nodes: expected 1 to {MOST_NODES}, got {number}")
    read = _read(shape)
    try:
        return tuple(_node(read, index, f"{prefix}{index}") for index in range(number))
    except DecodeError as error:
        raise ShapeError(f"node shape: {str(error).removeprefix('status.allocatable')}") from error
    except ApiError as error:
        raise ShapeError(f"node shape: {'; '.join(texts_of(error))}") from error


def _read(shape: str) -> _Shape:
    if len(shape) > _LONGEST or shape.count(",") >= _MOST_PARTS:
        raise ShapeError(f"node shape: expected at most {_MOST_PARTS} parts and {_LONGEST} characters")
    found, seen = _Shape({"pods": "110"}), set[str]()
    for part in filter(None, (each.strip() for each in shape.split(","))):
        if part.startswith("taint:"):
            taint = _taint(part)
            _once(seen, f"taint:{taint['key']}:{taint['effect']}")
            found.taints.append(taint)
            continue
        is_label = part.startswith("label:")
        name, equals, value = part.removeprefix("label:").partition("=")
        if not equals or not name:
            raise ShapeError(
                f"node shape: {part[:100]!r}: expected RESOURCE=QUANTITY, label:NAME=VALUE or taint:KEY=VALUE:EFFECT"
            )
        _once(seen, f"label:{name.strip()}" if is_label else name.strip())
        (found.labels if is_label else found.amounts)[name.strip()] = value.strip()
    return found


def _once(seen: set[str], what: str) -> None:
    """Refuse a part that stands there twice: no order of the two is the right one."""
    if what in seen:
        raise ShapeError(f"node shape: {what[:100]} appears twice")
    seen.add(what)


def _taint(part: str) -> dict[str, str]:
    pair, colon, effect = part.removeprefix("taint:").rpartition(":")
    key, _, value = pair.partition("=")
    if not colon or not key or effect not in _EFFECTS:
        raise ShapeError(f"node shape: {part[:100]!r}: expected taint:KEY[=VALUE]:EFFECT, of {', '.join(_EFFECTS)}")
    return {"key": key, "value": value, "effect": effect}


def _node(shape: _Shape, index: int, name: str) -> SchedNode:
    labels = {key: _numbered(value, index) for key, value in shape.labels.items()}
    obj = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
        "spec": {"taints": shape.taints},
        "status": {"allocatable": shape.amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    if index == 0:
        decode_node(encode(obj))  # the quantities, which the rules expect to be right
        validate(NODES, obj)
    return known_node(decode_node(encode(obj)))


def _numbered(value: str, index: int) -> str:
    return _NUMBER.sub(lambda found: str(index // int(found[1] or 1)), value)

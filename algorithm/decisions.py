"""How records keep long decisions: annotations that only a binding writes, see `algorithm.reads`.

The pods of a gang carry the same plan, a quarter of a megabyte of it in the largest gangs. An algorithm that writes
such an annotation says where its common part begins (`GangText`). A record then has two texts, and the common one is
in memory once for all pods of the gang. If a namespace has more of them than there is room for, the record of a pod has
only the part of the text that is about this pod.

    name        name#shared    name#own    meaning
    text                                   the whole text
    beginning   the rest                   the whole text, in two parts
    own part                   ""          only what is about this pod: `is_shortened`

No annotation of Kubernetes can have such a name, so nobody writes one on a pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from algorithm.model import Pod

_SHARED, _OWN = "#shared", "#own"


@dataclass(frozen=True, slots=True)
class GangText:
    """`begins` is the line with which the part begins that all pods of a gang have in common.

    `own` takes a whole text and returns the same without what is about other pods; "" if it is about no pod. It is fast
    for whatever anybody may have written, and never loses what the pod itself holds.
    """

    begins: str
    own: Callable[[str], str]

    def split(self, text: str) -> tuple[str, str]:
        """The pod's own beginning, and the rest: "" if nothing is in common."""
        at = text.find(f"\n{self.begins}") + 1
        return (text[:at], text[at:]) if at else (text, "")


def decision(pod: Pod, name: str) -> str:
    """The text of this decision as far as it is known; "" if there is none."""
    text = pod.annotation(name) or ""
    return text + (pod.annotation(name + _SHARED) or "") if text else ""


def is_shortened(pod: Pod, name: str) -> bool:
    """Whether the text says nothing about other pods because there was no room for that."""
    return pod.annotation(name + _OWN) is not None


def whole_name(name: str) -> str:
    """The annotation that an entry of a record is part of."""
    return name.removesuffix(_SHARED)


def in_parts(name: str, beginning: str, rest: str) -> dict[str, str]:
    """The annotations of a record, where the text is kept in two parts."""
    return {name: beginning, name + _SHARED: rest}


def shortened(name: str, text: str) -> dict[str, str]:
    """The annotations of a record, where only the pod's own part is kept."""
    return {name: text, name + _OWN: ""}

"""How records keep long decisions: annotations that only a binding writes, see `algorithm.reads`.

The pods of a gang carry the same plan, which takes a quarter of a megabyte in the largest gangs. An algorithm that
writes such an annotation declares where its common part begins (`GangText`). A record then has two texts, and the
common one is in memory once for all pods of the gang. If the texts of a namespace exceed their memory limit, the record
of a pod has only the part of the text that is about this pod.

    name        name#shared    name#own    meaning
    text                                   the whole text
    beginning   the rest                   the whole text, in two parts
    own part                   ""          only what is about this pod: `is_shortened`

Kubernetes allows no annotation with such a name, so none can be written on a pod.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from algorithm.model import Pod

_SHARED, _OWN = "#shared", "#own"


@dataclass(frozen=True, slots=True)
class GangText:
    """How to split a decision of a gang. `begins` is the first line of the part that all pods of the gang share.

    `own` takes a whole text and returns it without the parts about other pods; "" if it is about no pod. It must be
    fast for any text, however malicious, and must never lose what the pod itself holds.
    """

    begins: str
    own: Callable[[str], str]

    def split(self, text: str) -> tuple[str, str]:
        """The pod's own beginning, and the common rest: "" if nothing is common."""
        at = text.find(f"\n{self.begins}") + 1
        return (text[:at], text[at:]) if at else (text, "")


def decision(pod: Pod, name: str) -> str:
    """The text of this decision as far as it is known; "" if there is none."""
    text = pod.annotation(name) or ""
    return text + (pod.annotation(name + _SHARED) or "") if text else ""


def is_shortened(pod: Pod, name: str) -> bool:
    """Whether the parts about other pods are missing from the text, because they exceeded the memory limit."""
    return pod.annotation(name + _OWN) is not None


def whole_name(name: str) -> str:
    """The name of the annotation that this entry of a record belongs to."""
    return name.removesuffix(_SHARED)


def in_parts(name: str, beginning: str, rest: str) -> dict[str, str]:
    """The annotations of a record that keeps the text in two parts."""
    return {name: beginning, name + _SHARED: rest}


def shortened(name: str, text: str) -> dict[str, str]:
    """The annotations of a record that keeps only the pod's own part."""
    return {name: text, name + _OWN: ""}

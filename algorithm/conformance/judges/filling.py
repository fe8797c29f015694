"""Fills nodes of two instances with pods, and compares when they are full: a wrong count shows then, if not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from algorithm.conformance.guard import Guarded
from algorithm.conformance.observation import Observation, answers, asked, difference
from algorithm.interface import Bind, Phase
from algorithm.model import Pod

if TYPE_CHECKING:
    from algorithm.conformance.life import Life

#: Pods that are placed on a node to see when it is full.
_MOST_TO_FILL = 6
#: Pods that are placed on all nodes together.
_MOST_PLACES = 40


def filled(life: Life, one: Guarded, other: Guarded, like: Pod, node: str) -> str:
    """What differs while both are told of pods like this one, one after the other, until the node is full."""
    for number in range(_MOST_TO_FILL):
        name = f"{like.name}-{node}-{number}"
        pod = life.kept(msgspec.structs.replace(like, name=name, uid=f"u-{name}", node_name="", group=""))
        seen = [_asked(each, pod, node) for each in (one, other)]
        if differs := difference(*seen):
            return differs
        answer = seen[0][next(iter(seen[0]))]
        if not isinstance(answer, Bind):
            break
        for each in (one, other):
            each.add_allocated_pod(pod.placed(answer.node, answer.annotations))
    return ""


def places(life: Life, algorithm: Guarded, like: Pod) -> int:
    """How many pods that ask for the same as this one, and are in no gang, get a place one after the other."""
    nodes = tuple(sorted(life.nodes))
    for number in range(_MOST_PLACES):
        name = f"{like.name}-more-{number}"
        annotations = like.annotations if algorithm.gang(like) is None else ()
        pod = msgspec.structs.replace(like, name=name, uid=f"u-{name}", group="", annotations=annotations)
        algorithm.add_unallocated_pod(pod)
        answer = asked(algorithm, pod, nodes, Phase.FILTERING)
        if not isinstance(answer, Bind):
            return number
        algorithm.add_allocated_pod(life.kept(pod.placed(answer.node, answer.annotations)))
    return _MOST_PLACES


def _asked(algorithm: Guarded, pod: Pod, node: str) -> Observation:
    algorithm.add_unallocated_pod(pod)
    return answers(algorithm, {pod.uid: pod}, (node,))

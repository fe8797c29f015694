"""The judge of declarations: annotations that are not declared decide nothing."""

from __future__ import annotations

from functools import partial
from typing import Any
from zlib import crc32

import msgspec

from algorithm.conformance.calls import AddNode, Ask, Call, FoundBound, Submit, UpdateNode
from algorithm.conformance.judge import PeriodicJudge, promise
from algorithm.conformance.observation import answers, difference
from algorithm.model import Node, Pairs, Pod, pairs

#: What such an annotation may say.
_VALUES = ("1", "true", "0", "n0", "2", "100", "{}", "a")


class AnnotationsDeclared(PeriodicJudge):
    """Compares with a twin whose records also have annotations that the server would not keep.

    These are the annotations that the world gives to pods and nodes, and names like those of annotations in the code.
    """

    name = "annotations-declared"
    every = 6
    not_after = (Ask,)

    def __init__(self, life: Any) -> None:
        super().__init__(life)
        self._of_pods, self._of_nodes = map(set, life.suspects)
        self._values: dict[tuple[str, str], str] = {}

    def before(self, call: Call) -> None:
        match call:
            case AddNode(node=node) | UpdateNode(node=node) if self.life.reads.of_nodes is not None:
                self._learn(node.name, node.annotations, self.life.reads.of_nodes, self._of_nodes)
            case Submit(pods=pods) if self.life.reads.wishes is not None:
                for pod in pods:
                    self._learn(pod.uid, pod.annotations, self._kept_of_pods, self._of_pods)
            case FoundBound(pod=pod) if self.life.reads.wishes is not None:
                self._learn(pod.uid, pod.annotations, self._kept_of_pods, self._of_pods)

    @property
    def _kept_of_pods(self) -> frozenset[str]:
        return (self.life.reads.wishes or frozenset()) | self.life.reads.decisions

    def _learn(self, whose: str, annotations: Pairs, kept: frozenset[str], names: set[str]) -> None:
        for name, value in annotations:
            if name not in kept:
                names.add(name)
                self._values[whose, name] = value

    def look(self) -> None:
        if not self._of_pods and not self._of_nodes:
            return
        nodes = tuple(sorted(self.life.nodes))
        without = answers(self.life.algorithm.twin(), self.life.waiting, nodes)
        for seed in range(2):
            waiting = {uid: self._with_more(pod, seed) for uid, pod in self.life.waiting.items()}
            twin = self.life.algorithm.twin(partial(self._told, seed))
            differs = difference(without, answers(twin, waiting, nodes))
            names = ", ".join(sorted(self._of_pods | self._of_nodes))
            promise(not differs, f"annotations that are not declared decide (of {names}): with them, {differs}")

    def _told(self, seed: int, name: str, args: tuple[Any, ...]) -> list[tuple[str, tuple[Any, ...]]]:
        return [(name, self._args(args, seed))]

    def _args(self, args: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
        return tuple(self._with_more(each, seed) if isinstance(each, Pod | Node) else each for each in args)

    def _with_more(self, record: Any, seed: int) -> Any:
        is_pod = isinstance(record, Pod)
        whose = record.uid if is_pod else record.name
        more = {name: self._value(whose, name, seed) for name in (self._of_pods if is_pod else self._of_nodes)}
        return msgspec.structs.replace(record, annotations=pairs({**more, **dict(record.annotations)}))

    def _value(self, whose: str, name: str, seed: int) -> str:
        drawn = _VALUES[crc32(f"{seed} {whose} {name}".encode()) % len(_VALUES)]
        return self._values.get((whose, name), drawn) if seed == 0 else drawn

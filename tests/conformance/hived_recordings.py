"""Recordings of the original HiveD: how they are read, played to an implementation, and judged.

Each of the recordings is a configuration, a sequence of events, and what the original answered to each. Where it
draws lots (it iterates over maps), several *trajectories* were seen: whole sequences of answers, of which an
implementation has to follow one. `binding_until_step` is where the original left its own rules or crashed; what it
says from there on is nobody's model, but an implementation has to live through it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from algorithm.hived.formats.podspec import UserError
from tests.conformance.hived_adapter import Adapter, factory

HERE = Path(__file__).parent / "hived"

Answer = dict[str, Any]
Recording = dict[str, Any]


@cache
def document() -> dict[str, Any]:
    """Configurations and recordings; the member `format` describes them."""
    return _read("recordings.json.gz")


@cache
def states() -> dict[str, Any]:
    """The cells that changed in each step of each recording."""
    return _read("states.json.gz")


def _read(name: str) -> Any:
    with gzip.open(HERE / name) as file:
        return json.load(file)


def recordings() -> dict[str, Recording]:
    """By id. Those in which the original crashed have answers until then, and events after."""
    found = document()
    return {each["id"]: each for each in found["scenarios"] + found["upstream_panics"]}


# -- playing ----------------------------------------------------------------------------------------------------------


@dataclass
class Player:
    """Plays the events of one recording; `steps` gives each answer."""

    recording: Recording
    adapter: Adapter = field(init=False)

    def __post_init__(self) -> None:
        self._nodes: dict[str, bool] = {}
        #: What was answered for the pods that are allocated, in the order in which they were.
        self._allocated: dict[str, Answer] = {}
        self._strangers: set[str] = set()
        self._start(self.recording["config"])
        if self.recording.get("initial_nodes") != "none":
            for name in self._config["nodes"]:
                self._set_node(name, True)

    def _start(self, config: str) -> None:
        self._config = document()["configs"][config]
        self.adapter = factory(self._config["yaml"], self._config["chain_search_order"])

    def _set_node(self, name: str, healthy: bool) -> None:
        self._nodes[name] = healthy
        self.adapter.add_node(name, healthy)

    def steps(self) -> Iterator[tuple[int, Answer]]:
        kinds: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "node": self._node,
            "schedule": self._schedule,
            "delete": self._delete,
            "restart": self._restart,
        }
        for number, event in enumerate(self.recording["events"]):
            yield number, kinds[event["op"]](event)

    def _node(self, event: dict[str, Any]) -> Answer:
        name, healthy = event["node"], event.get("healthy", False)
        if event["action"] == "add":
            self._set_node(name, healthy)
        elif event["action"] == "update":
            self._nodes[name] = healthy
            self.adapter.update_node(name, event.get("was_healthy", False), healthy)
        else:
            self._nodes.pop(name, None)
            self.adapter.delete_node(name)
        return {"kind": "ok"}

    def _schedule(self, event: dict[str, Any]) -> Answer:
        name = event["pod"]
        if name in self._allocated:
            return {"kind": "already-allocated"}
        pod = self.recording["pods"][name]
        answer = self.adapter.schedule(pod, self._suggested(event), event["phase"])
        if answer["kind"] == "bind" and event.get("commit"):
            self._allocated[name] = answer
            self.adapter.add_allocated(pod, answer)
        return answer

    def _suggested(self, event: dict[str, Any]) -> list[str]:
        suggested = event.get("suggested") or {"mode": "all"}
        named = suggested.get("nodes") or []
        every = self._config["nodes"]
        return {"all": every, "only": named, "except": [node for node in every if node not in named]}[suggested["mode"]]

    def _delete(self, event: dict[str, Any]) -> Answer:
        name = event["pod"]
        pod = self.recording["pods"][name]
        answer = self._allocated.pop(name, None)
        if answer is None:
            return self.adapter.delete_unallocated(pod) or {"kind": "ok"}
        if name not in self._strangers:
            self.adapter.delete_allocated(pod, answer)
        self._strangers.discard(name)
        return {"kind": "ok"}

    def _restart(self, event: dict[str, Any]) -> Answer:
        """A new process: nodes, then pods. `pods-first` was one of the original's races."""
        if event.get("config"):
            self._start(event["config"])
            for name in self._config["nodes"]:
                self._nodes.setdefault(name, True)
        else:
            self.adapter = factory(self._config["yaml"], self._config["chain_search_order"])
        first = [name for name in event.get("pod_order") or [] if name in self._allocated]
        order = first + [name for name in self._allocated if name not in first]
        moves = [self._announce, lambda: self._recover(order)]
        for move in reversed(moves) if event.get("order") == "pods-first" else moves:
            move()
        return {"kind": "ok"}

    def _announce(self) -> None:
        for name in self._config["nodes"]:
            if name in self._nodes:
                self.adapter.add_node(name, self._nodes[name])

    def _recover(self, order: list[str]) -> None:
        self._strangers.clear()
        for name in order:
            try:
                self.adapter.add_allocated(self.recording["pods"][name], self._allocated[name])
            except UserError:
                self._strangers.add(name)


# -- judging ----------------------------------------------------------------------------------------------------------


class Judge:
    """Which of the recorded trajectories the answers follow so far."""

    def __init__(self, recording: Recording) -> None:
        self.until = recording["binding_until_step"]
        canon = [step["result"] for step in recording["steps"]]
        others = recording.get("other_trajectories", [])
        self._trajectories = [canon] + [canon[: each.get("diverges_at", 0)] + each["results"] for each in others]
        self._live = list(range(len(self._trajectories)))
        self._luck_begins = recording.get("first_nondeterministic_step", self.until)
        self._hidden_luck = not recording["hidden_state_deterministic"]

    @property
    def canonical(self) -> bool:
        """Whether the answers are those of the run whose cells were recorded."""
        return 0 in self._live

    def take(self, step: int, answer: Answer) -> bool:
        """False: no trajectory is like that, and the original's lots are no excuse.

        Where they are one, nothing can be held against the answers from here on.
        """
        if step >= self.until or not self._live:
            return True
        self._live = [each for each in self._live if agrees(self._trajectories[each][step], answer)]
        return bool(self._live) or (step >= self._luck_begins and self._hidden_luck)


def agrees(recorded: Answer, answer: Answer) -> bool:
    """The same decision. Texts may differ; of a preemption's victims one machine's are enough, as the original did."""
    if recorded["kind"] != answer["kind"]:
        return False
    if recorded["kind"] == "bind":
        return _place(recorded) == _place(answer)
    if recorded["kind"] == "preempt":
        named = {node: sorted(uids) for node, uids in answer["victims"].items()}
        return bool(named) and named.items() <= {n: sorted(uids) for n, uids in recorded["victims"].items()}.items()
    return all(recorded.get(key) == answer.get(key) for key in ("class", "code"))


def _place(answer: Answer) -> tuple[Any, ...]:
    group = {
        member["leaf_number"]: [(pod["node"], pod["leaf"], pod.get("types") or []) for pod in member["placements"]]
        for member in answer["group"] or []
    }
    return answer["node"], list(answer["leaf"] or []), answer["chain"], group

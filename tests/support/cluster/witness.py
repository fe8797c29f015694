"""Two witnesses of what a scheduling server does, neither of which believes what the server says of itself.

`Witness` stands in front of the server and notes what it proposed; `Books` stands behind the API server and notes every
binding and every pod that takes room, at the moment it is written. Together they tell what must never be: a pod bound
twice or where it was never proposed, a node that ever had more on it than it can bear.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from algorithm.decoding import decode_node, decode_pod
from algorithm.model import PODS as POD_COUNT
from algorithm.model import Pod
from extender.embedded.apiserver.server import EmbeddedCluster
from extender.embedded.apiserver.store import Change
from extender.embedded.apiserver.table import NODES, PODS

Scope = dict[str, Any]


class Filtered(NamedTuple):
    """One filter call and its answer. `offered` and `passed` are node names."""

    pod: str
    uid: str
    offered: tuple[str, ...]
    passed: tuple[str, ...]
    answer: Mapping[str, Any]


class Witness:
    """ASGI middleware. One witness may stand in front of several servers, one after the other."""

    def __init__(self) -> None:
        self.filtered: list[Filtered] = []
        self._lock = threading.Lock()

    def of(self, app: Any) -> Any:
        """The app, watched."""

        async def watched(scope: Scope, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or not scope["path"].endswith("/filter"):
                await app(scope, receive, send)
                return
            heard, said = [], []

            async def hear() -> Any:
                message = await receive()
                heard.append(message.get("body", b""))
                return message

            async def say(message: Any) -> None:
                said.append(message.get("body", b""))
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    self._note(b"".join(heard), b"".join(said))
                await send(message)

            await app(scope, hear, say)

        return watched

    def _note(self, request: bytes, response: bytes) -> None:
        try:
            asked, answer = json.loads(request), json.loads(response)
            metadata = asked["Pod"]["metadata"]
        except (ValueError, KeyError, TypeError):
            return  # a bad request proposes nothing
        filtered = Filtered(metadata["name"], metadata.get("uid", ""), _names(asked), _names(answer), answer)
        with self._lock:
            self.filtered.append(filtered)

    def proposed(self, uid: str) -> set[str]:
        """Every node that a filter answer ever passed for this pod."""
        return {node for each in self.filtered if each.uid == uid for node in each.passed}

    def calls(self, pod: str) -> int:
        """How often a pod of this name was filtered."""
        return sum(each.pod == pod for each in self.filtered)


def _names(message: Mapping[str, Any]) -> tuple[str, ...]:
    if message.get("NodeNames") is not None:
        return tuple(message["NodeNames"])
    return tuple(item["metadata"]["name"] for item in (message.get("Nodes") or {}).get("items") or ())


class Bound(NamedTuple):
    """One binding as the API server wrote it."""

    pod: str
    uid: str
    node: str


class Books:
    """Listens to the API server's store from the beginning, on its event loop: nothing is missed in between."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.bindings: list[Bound] = []
        #: What was ever wrong: a node with more on it than it can bear, a pod that moved.
        self.faults: list[str] = []
        #: Names of pods that were patched with the nudge annotation, in order.
        self.nudged: list[str] = []
        #: Resources that no node has: they only tell whose a pod is.
        self.uncounted: set[str] = set()
        self._allocatable: dict[str, dict[str, int]] = {}
        self._placed: dict[str, Pod] = {}
        cluster._run(lambda served: served.store.listeners.append(self._notice))

    def _notice(self, change: Change) -> None:
        if change.resource is NODES:
            if change.type == "DELETED":
                self._allocatable.pop(change.new.key[1], None)
            else:
                self._allocatable[change.new.key[1]] = dict(decode_node(change.new.raw).allocatable)
        elif change.resource is PODS:
            self._notice_pod(change)

    def _notice_pod(self, change: Change) -> None:
        pod, before = decode_pod(change.new.raw), decode_pod(change.old.raw) if change.old else None
        if before is not None and before.node_name != pod.node_name:
            if before.node_name:
                self.faults.append(f"{pod.key} moved from {before.node_name} to {pod.node_name}")
            self.bindings.append(Bound(pod.name, pod.uid, pod.node_name))
        nudge = "waggle.dev/nudge"
        if before is not None and before.annotation(nudge) != pod.annotation(nudge):
            self.nudged.append(pod.name)
        if change.type == "DELETED" or pod.finished or not pod.node_name:
            self._placed.pop(pod.uid, None)
        else:
            self._placed[pod.uid] = pod
            self._check(pod.node_name)

    def _check(self, node: str) -> None:
        allocatable = self._allocatable.get(node)
        here = [pod for pod in self._placed.values() if pod.node_name == node]
        used = {name: amount for name, amount in requested(here).items() if name not in self.uncounted}
        over = [name for name, amount in used.items() if allocatable and amount > allocatable.get(name, 0)]
        if over:
            pods = ", ".join(sorted(str(pod.key) for pod in here))
            self.faults.append(f"node {node} is over-committed in {over} by {pods}")

    def binding_of(self, name: str) -> list[str]:
        """The nodes that pods of this name were bound to."""
        return [each.node for each in self.bindings if each.pod == name]


def requested(pods: Iterable[Pod]) -> dict[str, int]:
    """What these pods ask for together, themselves included; nothing that is 0."""
    total: Counter[str] = Counter()
    for pod in pods:
        total.update(dict(pod.requests))
        total[POD_COUNT] += 1
    return {name: amount for name, amount in total.items() if amount}

"""A cluster of warm pods at the seam of the API server: it carries out the engine's requests byte by byte.

Each command passes three stations, and a test may let anything happen between them: it is *sent*, it *arrives* (the
pod changes), it is *answered*. What watchers are told lags behind as long as the test likes.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from extender.claims import podreader
from extender.claims.codes import ClaimCode
from extender.claims.engine import ClaimEngine
from extender.claims.events import (
    Answered,
    CallerGone,
    ClaimAsked,
    ClaimEvent,
    NodeSeen,
    PodGone,
    PodSeen,
    PoolsConfigured,
    ReleaseAsked,
    Synced,
    Ticked,
)
from extender.claims.records import Mode, Pool, PoolKey, demand
from extender.claims.writes import give, look, names, take
from extender.core.commands import ApiCommand, CommandSet
from extender.core.outcomes import Outcome, OutcomeKind
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import json_patch

COMMANDS: CommandSet[ClaimEvent] = CommandSet(
    [take.kind(podreader.decode), look.kind(podreader.decode), give.KIND],  # type: ignore[list-item]
)
POOL = PoolKey("default", "warm")


@dataclass
class Sent:
    """A command on its way. `outcome` once it has arrived."""

    command: ApiCommand[ClaimEvent]
    outcome: Outcome | None = None
    body: bytes = b""


@dataclass
class World:
    """One engine and the cluster that it sees. Pools are all in the namespace `default`."""

    mode: Mode = Mode.DETACH
    epoch: float = 1000.0
    now: float = 0.0
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    #: Writes that were given up on (their answer was lost) and have not arrived yet.
    late: list[Sent] = field(default_factory=list)
    watch: deque[ClaimEvent] = field(default_factory=deque)
    answers: dict[str, Answered] = field(default_factory=dict)
    writes: int = 0
    _version: int = 100
    _number: int = 0

    def start(self, *pools: Pool, window: float = 64.0) -> World:
        self.engine = ClaimEngine(epoch=self.epoch, window=window)
        self.tell(PoolsConfigured(pools or (self.pool(),)))
        for node in ("n1", "n2", "n3"):
            self.tell(NodeSeen(node, serves=True))
        for uid in sorted(self.pods):
            self.tell(PodSeen(podreader.convert(copy.deepcopy(self.pods[uid]))))
        self.watch.clear()
        self.tell(Synced())
        return self

    def pool(self, **changes: Any) -> Pool:
        return Pool(
            key=changes.pop("key", POOL), selector=changes.pop("selector", {"pool": "warm"}), mode=self.mode, **changes
        )

    # -- the engine -----------------------------------------------------------------------------------------------

    def tell(self, event: ClaimEvent) -> list[Answered]:
        """Hand the engine an event, and send what it wants to be sent."""
        answered = []
        for instruction in self.engine.handle(event, self.now):
            if isinstance(instruction, Answered):
                assert instruction.request not in self.answers, f"answered twice: {instruction}"
                self.answers[instruction.request] = instruction
                answered.append(instruction)
                self._check(instruction)
            else:
                command = COMMANDS.find(instruction)
                assert command is not None
                self.sent.append(Sent(command))
        self.engine.validate()
        return answered

    def _check(self, answer: Answered) -> None:
        """A pod that is handed out is the claim's at the API server, or somebody has just deleted it. A claim that was
        released has none."""
        if answer.code is ClaimCode.RELEASED:
            given = {pod.uid for each in self.answers.values() if each.claim == answer.claim for pod in each.pods}
            left = given & self.claimed().get(answer.claim, set())
            assert not left, f"{answer.claim} still has {left}"
        if answer.code is not ClaimCode.CLAIMED:
            return
        for pod in answer.pods:
            obj = self.pods.get(pod.uid)
            if obj is not None:
                assert obj["metadata"]["labels"].get(names.CLAIM_LABEL) == answer.claim, f"{answer.claim}: {obj}"

    def ask(self, request: str, **changes: Any) -> Answered | None:
        """Ask for pods. Returns the answer if it came at once."""
        labels = changes.pop("labels", {})
        changes.setdefault("wait_seconds", 30.0)
        changes.setdefault("pool", POOL)
        changes.setdefault("claim", f"c-{request}")
        self.tell(ClaimAsked(request=request, demand=demand(labels), **changes))
        return self.answers.get(request)

    def leave(self, request: str) -> None:
        self.tell(CallerGone(request))

    def release(self, request: str, claim: str, tenant: str | None = None) -> None:
        self.tell(ReleaseAsked(request, claim, tenant))

    # -- the API server -------------------------------------------------------------------------------------------

    def arrive(self, sent: Sent) -> None:
        """The API server carries out a command."""
        request = sent.command.request()
        self.writes += request.method != "GET"
        uid = next((u for u, pod in self.pods.items() if request.path.endswith(f"/{pod['metadata']['name']}")), None)
        if uid is None:
            sent.outcome = Outcome(OutcomeKind.GONE, "not found")
            return
        body = json.loads(request.body) if request.body else None
        match request.method:
            case "GET":
                sent.body = json.dumps(self.pods[uid]).encode()
                sent.outcome = Outcome(OutcomeKind.DONE, resource_version=self.pods[uid]["metadata"]["resourceVersion"])
            case "DELETE":
                if body["preconditions"]["uid"] != uid:
                    sent.outcome = Outcome(OutcomeKind.STALE, "precondition failed: uid")
                    return
                self.change(uid, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
                sent.outcome = Outcome(OutcomeKind.DONE)
            case _:
                self._patch(uid, body, sent)

    def _patch(self, uid: str, operations: list[dict[str, Any]], sent: Sent) -> None:
        try:
            patched = json_patch(copy.deepcopy(self.pods[uid]), operations)
        except ApiError as error:
            sent.outcome = Outcome(OutcomeKind.REJECTED, str(error))
            return
        self.change(uid, lambda pod: (pod.clear(), pod.update(patched)))
        sent.body = json.dumps(self.pods[uid]).encode()
        sent.outcome = Outcome(OutcomeKind.DONE, resource_version=self.pods[uid]["metadata"]["resourceVersion"])

    def answer(self, sent: Sent, outcome: Outcome | None = None) -> None:
        """Report a command's outcome: what happened, or as given."""
        self.sent.remove(sent)
        found = outcome or sent.outcome
        assert found is not None, "it has not arrived"
        found, obj = sent.command.decoded(found, sent.body)
        self.tell(sent.command.report(found, obj))

    def settle(self) -> None:
        """Let everything arrive and be answered, and watchers be told, until nothing is on its way."""
        while self.sent or self.watch:
            for sent in list(self.sent):
                if sent.outcome is None:
                    self.arrive(sent)
                self.answer(sent)
            self.observe()

    def observe(self, number: int | None = None) -> None:
        """Tell the engine the next changes, all of them unless a number is given."""
        for _ in range(len(self.watch) if number is None else min(number, len(self.watch))):
            self.tell(self.watch.popleft())

    def pass_time(self, seconds: float) -> None:
        """Let time pass; the engine is told whenever something is due."""
        end = self.now + seconds
        while (due := self.engine.next_due()) is not None and due <= end:
            self.now = max(due, self.now)
            self.tell(Ticked())
        self.now = end

    # -- pods -----------------------------------------------------------------------------------------------------

    def add(self, name: str = "", *, node: str = "n1", labels: dict[str, str] | None = None, seen: bool = True) -> str:
        """Create an idle pod that runs. Returns its UID."""
        self._number += 1
        name = name or f"p{self._number}"
        uid = f"u{self._number}-{name}"
        phase = {names.PHASE_LABEL: names.IDLE} if self.mode is Mode.RECYCLE else {}
        self.pods[uid] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "labels": {"pool": "warm", **phase, **(labels or {})},
                "creationTimestamp": f"2026-11-22T00:{self._number // 60 % 60:02}:{self._number % 60:02}Z",
                "ownerReferences": [{"uid": "rs", "controller": True}],
            },
            "spec": {"nodeName": node},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.change(uid, lambda _: None)
        if seen and hasattr(self, "engine"):
            self.observe()
        return uid

    def change(self, uid: str, change: Any) -> None:
        """Change a pod as anybody may; watchers will be told."""
        pod = self.pods[uid]
        change(pod)
        self._version += 1
        pod["metadata"]["resourceVersion"] = str(self._version)
        self.watch.append(PodSeen(podreader.convert(copy.deepcopy(pod))))

    def delete(self, uid: str) -> None:
        """The pod is gone."""
        del self.pods[uid]
        self.watch.append(PodGone(uid))

    def claim_of(self, uid: str) -> str:
        """The claim that the pod is in, at the API server; "" for none."""
        label: str = self.pods[uid]["metadata"]["labels"].get(names.CLAIM_LABEL, "")
        return label

    def claimed(self) -> dict[str, set[str]]:
        """The claims at the API server, with their pods that are not terminating."""
        found: dict[str, set[str]] = {}
        for uid, pod in self.pods.items():
            if (claim := self.claim_of(uid)) and "deletionTimestamp" not in pod["metadata"]:
                found.setdefault(claim, set()).add(uid)
        return found

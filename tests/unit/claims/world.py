"""A cluster of warm pods at the seam of the API server: it carries out the engine's requests byte by byte.

Each command passes three stations, and a test may let anything happen between them: it is *sent*, it *arrives* (the
pod changes), it is *answered*. What watchers are told lags behind as long as the test likes.
"""

from __future__ import annotations

import copy
import json
from collections import Counter, deque
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
    PodsListed,
    PoolsConfigured,
    ReleaseAsked,
    RenewAsked,
    Synced,
    Ticked,
)
from extender.claims.records import Mode, Phase, Pool, PoolKey, demand
from extender.claims.scores import Score
from extender.claims.writes import kinds, names
from extender.claims.writes.give import GivePodBack
from extender.core.commands import ApiCommand, CommandSet
from extender.core.outcomes import Outcome, OutcomeKind
from extender.embedded.apiserver.errors import ApiError
from extender.embedded.apiserver.patches import json_patch

COMMANDS: CommandSet[ClaimEvent] = CommandSet(kinds.kinds(podreader.decode))
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
    score: Score | None = None
    orphan_seconds: float = 3600.0
    #: Whether other servers may serve the same pools.
    shares: bool = False
    #: Whether the engine derives all it knows again after every event.
    validates: bool = True
    #: Of all servers of the cluster: the last version, pod and container; and those who watch.
    numbers: Counter[str] = field(default_factory=lambda: Counter(version=100))
    watchers: list[deque[ClaimEvent]] = field(default_factory=list)
    #: Claims whose lease a server was asked to shorten: another one may not have heard of it.
    shortened: set[str] = field(default_factory=set)
    #: The servers that were asked to release each claim: the one that grants it may hear of that only afterwards.
    released: dict[str, list[World]] = field(default_factory=dict)
    #: With `shares`: the tenant and key of each request, and the claims that were answered to requests with them.
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)
    granted: dict[tuple[str, str], set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watchers.append(self.watch)

    def another(self) -> World:
        """Another server of the same cluster."""
        shared: dict[str, Any] = {"pods": self.pods, "numbers": self.numbers, "watchers": self.watchers}
        shared.update(shortened=self.shortened, released=self.released, orphan_seconds=self.orphan_seconds)
        shared.update(shares=self.shares, validates=self.validates, keys=self.keys, granted=self.granted)
        return World(self.mode, self.epoch, self.now, score=self.score, **shared)

    def start(self, *pools: Pool, window: float = 64.0) -> World:
        settings: dict[str, Any] = {"orphan_seconds": self.orphan_seconds, "shares": self.shares}
        self.engine = ClaimEngine(epoch=self.epoch, window=window, score=self.score, **settings)
        self.tell(PoolsConfigured(pools or (self.pool(),)))
        for node in ("n1", "n2", "n3"):
            self.tell(NodeSeen(node, serves=True))
        self.relist()
        self.tell(Synced())
        return self

    def relist(self) -> None:
        """The watch broke: what it would have shown is not shown, and the pods are listed."""
        known = sorted(self.engine.state.pods)
        self.watch.clear()
        for uid in known:
            if uid not in self.pods:
                self.tell(PodGone(uid))
        for uid in sorted(self.pods):
            self.tell(PodSeen(podreader.convert(copy.deepcopy(self.pods[uid])), is_listed=True))
        self.tell(PodsListed("default"))

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
        if self.validates:
            self.engine.validate()
        return answered

    def _check(self, answer: Answered) -> None:
        """A pod that is handed out is the claim's at the API server, or somebody has just deleted it, or released the
        claim elsewhere. A claim that was released has none."""
        if answer.code is ClaimCode.RELEASED:
            given = {pod.uid for each in self.answers.values() if each.claim == answer.claim for pod in each.pods}
            left = given & self.claimed().get(answer.claim, set())
            assert not left, f"{answer.claim} still has {left}"
        if answer.code is ClaimCode.RENEWED and answer.claim not in self.shortened:
            marks = [
                names.mark_of(self.pods[uid]["metadata"]["annotations"]) for uid in self.claimed().get(answer.claim, ())
            ]
            ends = [mark.expires for mark in marks if mark is not None]  # somebody may have broken one
            assert not ends or max(ends) >= answer.expires
        if answer.code is ClaimCode.CLAIMED and answer.request in self.keys:
            self._check_key(answer)
        is_released_elsewhere = any(each is not self for each in self.released.get(answer.claim, ()))
        if answer.code is not ClaimCode.CLAIMED or is_released_elsewhere:
            return
        for pod in answer.pods:
            obj = self.pods.get(pod.uid)
            if obj is not None:
                assert obj["metadata"]["labels"].get(names.CLAIM_LABEL) == answer.claim, f"{answer.claim}: {obj}"
                assert self.phase(pod.uid) in ("", Phase.RUNNING), f"{answer.claim}: {obj}"

    def _check_key(self, answer: Answered) -> None:
        """While a claim that was answered to a request with this key stands, no other one is."""
        standing = self.standing()
        granted = self.granted.setdefault(self.keys[answer.request], set())
        granted.add(answer.claim)
        both = granted & standing
        assert both <= {answer.claim} or answer.claim not in standing, f"{answer}: {both} have its key"

    def standing(self) -> set[str]:
        """The claims that have pods at the API server which are not on their way back."""
        found = set()
        for uids in self.claimed().values():
            for uid in uids:
                mark = names.mark_of(self.pods[uid]["metadata"].get("annotations", {}))
                found |= {mark.claim} if mark is not None else set()
        return found

    def ask(self, request: str, **changes: Any) -> Answered | None:
        """Ask for pods that have `labels`, and `put` labels on them. Returns the answer if it came at once."""
        labels = changes.pop("labels", {})
        changes.setdefault("wait_seconds", 30.0)
        changes.setdefault("pool", POOL)
        changes.setdefault("claim", f"c-{request}")
        changes["labels"] = changes.pop("put", ())
        if self.shares and changes.get("key"):
            self.keys[request] = changes.get("tenant", ""), changes["key"]
        self.tell(ClaimAsked(request=request, demand=demand(labels), **changes))
        return self.answers.get(request)

    def leave(self, request: str) -> None:
        self.tell(CallerGone(request))

    def release(self, request: str, claim: str, tenant: str | None = None) -> None:
        self.released.setdefault(claim, []).append(self)
        self.tell(ReleaseAsked(request, claim, tenant))

    def renew(self, request: str, claim: str, seconds: float, tenant: str | None = None, shorten: bool = False) -> None:
        if shorten:
            self.shortened.add(claim)
        self.tell(RenewAsked(request, claim, tenant, seconds, shorten))

    # -- the API server -------------------------------------------------------------------------------------------

    def arrive(self, sent: Sent) -> None:
        """The API server carries out a command."""
        request = sent.command.request()
        self.writes += request.method != "GET"
        if request.method == "POST":
            self._create(json.loads(request.body or b""), sent)
            return
        uid = next((u for u, pod in self.pods.items() if request.path.endswith(f"/{pod['metadata']['name']}")), None)
        if uid is None:
            sent.outcome = Outcome(OutcomeKind.GONE, "not found")
            return
        body = json.loads(request.body) if request.body else None
        before = copy.deepcopy(self.pods[uid])
        self._carry_out(uid, request.method, body, sent)
        command = sent.command.command
        if isinstance(command, GivePodBack) and command.before and sent.outcome is not None:
            mark = names.mark_of(before["metadata"].get("annotations", {}))
            now = self.epoch + self.now
            is_over = mark is None or mark.expires <= now or (0 < mark.starts_by <= now)
            is_over = is_over or (self.shares and bool(mark.key) and not mark.is_known)
            assert is_over or sent.outcome.kind is not OutcomeKind.DONE, f"it was renewed, and given back: {before}"

    def _carry_out(self, uid: str, method: str, body: Any, sent: Sent) -> None:
        match method:
            case "GET":
                sent.body = json.dumps(self.pods[uid]).encode()
                sent.outcome = Outcome(OutcomeKind.DONE, resource_version=self.pods[uid]["metadata"]["resourceVersion"])
            case "DELETE":
                if body["preconditions"]["uid"] != uid:
                    sent.outcome = Outcome(OutcomeKind.STALE, "precondition failed: uid")
                    return
                version = body["preconditions"].get("resourceVersion", "")
                if version not in ("", self.pods[uid]["metadata"]["resourceVersion"]):
                    sent.outcome = Outcome(OutcomeKind.LOST, "precondition failed: resourceVersion")
                    return
                self.change(uid, lambda pod: pod["metadata"].update(deletionTimestamp="2026-11-22T00:00:00Z"))
                sent.outcome = Outcome(OutcomeKind.DONE)
            case _:
                self._patch(uid, body, sent)

    def _create(self, pod: dict[str, Any], sent: Sent) -> None:
        if any(each["metadata"]["name"] == pod["metadata"]["name"] for each in self.pods.values()):
            sent.outcome = Outcome(OutcomeKind.LOST, "already exists")
            return
        self.numbers["pod"] += 1
        uid = f"u{self.numbers['pod']}-{pod['metadata']['name']}"
        pod["metadata"].update(uid=uid, generation=1, creationTimestamp="2026-11-22T01:00:00Z")
        self.pods[uid] = {**pod, "status": {"phase": "Pending"}}
        self.change(uid, lambda _: None)
        sent.body = json.dumps(self.pods[uid]).encode()
        sent.outcome = Outcome(OutcomeKind.DONE, resource_version=self.pods[uid]["metadata"]["resourceVersion"])

    def become_ready(self, uid: str) -> None:
        """A pod that was created is scheduled and runs."""

        def run(pod: dict[str, Any]) -> None:
            pod["spec"]["nodeName"] = "n1"
            pod["status"]["phase"] = "Running"
            self._start_containers(pod)

        self.change(uid, run)

    def _patch(self, uid: str, operations: list[dict[str, Any]], sent: Sent) -> None:
        try:
            patched = json_patch(copy.deepcopy(self.pods[uid]), operations)
        except ApiError as error:
            sent.outcome = Outcome(OutcomeKind.REJECTED, str(error))
            return
        if patched["spec"] != self.pods[uid]["spec"] and "generation" in patched["metadata"]:
            patched["metadata"]["generation"] += 1
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
        self.numbers["pod"] += 1
        name = name or f"p{self.numbers['pod']}"
        uid, number = f"u{self.numbers['pod']}-{name}", self.numbers["pod"]
        phase = {names.PHASE_LABEL: Phase.IDLE} if self.mode is Mode.RECYCLE else {}
        self.pods[uid] = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": uid,
                "generation": 1,
                "labels": {"pool": "warm", **phase, **(labels or {})},
                "creationTimestamp": f"2026-11-22T00:{number // 60 % 60:02}:{number % 60:02}Z",
                "ownerReferences": [{"uid": "rs", "controller": True}],
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "base:1"}, {"name": "side", "image": "side:1"}],
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self._start_containers(self.pods[uid])
        self.change(uid, lambda _: None)
        if seen and hasattr(self, "engine"):
            self.observe()
        return uid

    def _start_containers(self, pod: dict[str, Any], *, ready: bool = True, restart: str = "") -> None:
        """The kubelet runs what the specification says, and reports it."""
        before = {each["name"]: each for each in pod["status"].get("containerStatuses", ())}
        after = []
        for each in pod["spec"]["containers"]:
            status = dict(before.get(each["name"], {}))
            image = f"docker.io/library/{each['image']}"
            if status.get("image") != image or restart == each["name"]:
                self.numbers["container"] += 1
                digest = f"sha256:{each['image'].encode().hex()}"
                status = {
                    "name": each["name"],
                    "image": image,
                    "imageID": digest,
                    "containerID": f"k8s://{self.numbers['container']}",
                }
            after.append({**status, "ready": ready})
        pod["status"]["containerStatuses"] = after
        if "generation" in pod["metadata"]:
            pod["status"]["observedGeneration"] = pod["metadata"]["generation"]
        pod["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]

    def kubelet(self, uid: str, *, ready: bool = True, restart: str = "") -> None:
        """The kubelet has seen the pod: its containers run the images that they should, as watchers will be told."""
        self.change(uid, lambda pod: self._start_containers(pod, ready=ready, restart=restart))

    def change(self, uid: str, change: Any) -> None:
        """Change a pod as anybody may; watchers will be told."""
        pod = self.pods[uid]
        change(pod)
        self.numbers["version"] += 1
        pod["metadata"]["resourceVersion"] = str(self.numbers["version"])
        self._show(PodSeen(podreader.convert(copy.deepcopy(pod))))

    def renew_elsewhere(self, uid: str, until: int, before: int = 1060) -> None:
        """Another server renews the pod's lease, which ended at `before`, in seconds since 1970."""

        def renewed(pod: dict[str, Any]) -> None:
            annotations = pod["metadata"]["annotations"]
            annotations[names.CLAIM_ANNOTATION] = annotations[names.CLAIM_ANNOTATION].replace(str(before), str(until))

        self.change(uid, renewed)

    def delete(self, uid: str) -> None:
        """The pod is gone."""
        del self.pods[uid]
        self._show(PodGone(uid))

    def _show(self, event: ClaimEvent) -> None:
        for watch in self.watchers:
            watch.append(event)

    def claim_of(self, uid: str) -> str:
        """The claim that the pod is in, at the API server; "" for none."""
        label: str = self.pods[uid]["metadata"]["labels"].get(names.CLAIM_LABEL, "")
        return label

    def phase(self, uid: str) -> str:
        """What the pod's phase label says, at the API server."""
        label: str = self.pods[uid]["metadata"]["labels"].get(names.PHASE_LABEL, "")
        return label

    def claimed(self) -> dict[str, set[str]]:
        """The claims at the API server, with their pods that are not terminating or on their way back to the pool."""
        found: dict[str, set[str]] = {}
        for uid, pod in self.pods.items():
            is_left = "deletionTimestamp" in pod["metadata"] or self.phase(uid) == Phase.STOPPING
            if (claim := self.claim_of(uid)) and not is_left:
                found.setdefault(claim, set()).add(uid)
        return found

"""A Claim object that is deleted in the moment in which its request is answered."""

from __future__ import annotations

import itertools
import json
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from extender.claim_settings import ClaimSettings
from extender.claims.engine import ClaimEngine
from extender.claims.events import NodeSeen, PodSeen, PoolsConfigured, Synced
from extender.claims.records import Mode, Pool, PoolKey, WarmPod
from extender.claims.writes.give import GivePodBack
from extender.claims.writes.take import PodTaken, TakePod
from extender.core.outcomes import Outcome, OutcomeKind
from extender.server.claims.objects.claim_objects import ClaimObjects
from extender.server.claims.objects.records import FINALIZER, ClaimObject, decode_claim
from extender.server.claims.objects.tracked import StandingClaims
from extender.server.claims.objects.writes import ObjectWritten
from extender.server.claims.runtime import ClaimRuntime

UID = "6b64ae74-08b8-4cf1-a2b4-6f2a7f70a7a1"


class Around:
    """The pools and pods of the namespace are known."""

    def is_known(self, _namespace: str, *, may_have_pods: bool) -> bool:
        return True

    def version(self, _namespace: str) -> str:
        return "9"

    def catch_up(self, _namespace: str) -> None:
        raise AssertionError

    def wait_seconds(self, _pool: PoolKey) -> float | None:
        return 30.0


def version(number: int, *, is_held: bool = True, deleting: bool = False) -> ClaimObject:
    more = {"deletionTimestamp": "2026-11-23T00:00:00Z"} if deleting else {}
    metadata = {"name": "n", "namespace": "team", "uid": UID, "finalizers": [FINALIZER] * is_held, **more}
    obj = {"metadata": {**metadata, "resourceVersion": str(number)}, "spec": {"poolRef": {"name": "p"}}}
    return decode_claim(json.dumps(obj).encode())


def test_its_pods_are_given_back_though_the_answer_is_on_its_way() -> None:
    sent: deque[Any] = deque()
    later: list[Callable[[float], None]] = []
    runtime = ClaimRuntime(ClaimEngine(), sent.append, clock=lambda: 0.0)
    pool = Pool(key=PoolKey("team", "p"), selector={"pool": "p"}, mode=Mode.DETACH)
    pod = WarmPod(uid="u", namespace="team", name="p1", resource_version="1", node="n", labels={"pool": "p"})
    runtime.handle(PoolsConfigured((pool,)), NodeSeen("n", serves=True), PodSeen(pod), Synced())
    more: dict[str, Any] = {"server": "aaaa", "epoch": 0.0, "tokens": itertools.count(1)}
    objects = ClaimObjects(
        runtime, ClaimSettings(), Around(), StandingClaims(), send=sent.append, later=later.append, **more
    )
    objects.seen(version(1, is_held=False), 0.0)
    write = sent.pop()
    done = Outcome(OutcomeKind.DONE, resource_version="2")
    objects.written(ObjectWritten(write.token, type(write).__name__, done, version(2)), 0.0)
    take = next(each for each in sent if isinstance(each, TakePod))
    taken = msgspec.structs.replace(pod, mark=take.mark, labels={}, is_idle=False, resource_version="2")
    runtime.handle(PodTaken(take.token, done, taken))
    (answered,) = later
    objects.seen(version(3, deleting=True), 0.0)
    answered(0.0)
    assert [each.claim for each in sent if isinstance(each, GivePodBack)] == [take.mark.claim]

"""What is to be done about one Claim object, for what is known of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from extender.claim_settings import ClaimSettings
from extender.claims.codes import ClaimCode
from extender.claims.events import Answered
from extender.claims.records import PoolKey, WarmPod
from extender.claims.views import ClaimStage, ClaimView
from extender.server.claims.objects.claims import (
    Ask,
    Cancel,
    CatchUp,
    Facts,
    LookAgain,
    Own,
    Release,
    Renew,
    SetFinalizers,
    SetStatus,
    decide,
)
from extender.server.claims.objects.records import FINALIZER, ClaimObject, claim_name, decode_claim, object_of

UID = "6b64ae74-08b8-4cf1-a2b4-6f2a7f70a7a1"
MINE, OTHER = claim_name(UID, "aaaa", 1), claim_name(UID, "bbbb", 1)
SETTINGS = ClaimSettings()
FACTS = Facts(now=100.0, epoch=1_790_000_000.0, is_first=True, has_pool=True, since=100.0, put_finalizer=True)


def claim_object(
    *, status: Any = None, finalizers: tuple[str, ...] = (FINALIZER,), deleting: bool = False, **spec: Any
) -> ClaimObject:
    metadata = {"name": "n", "namespace": "team", "uid": UID, "resourceVersion": "7", "generation": 1}
    more = {"deletionTimestamp": "2026-11-23T00:00:00Z"} if deleting else {}
    given = {"poolRef": {"name": "p"}, **spec}
    obj = {"metadata": {**metadata, "finalizers": list(finalizers), **more}, "spec": given, "status": status or {}}
    return decode_claim(json.dumps(obj).encode())


def view(name: str = MINE, stage: ClaimStage = ClaimStage.CLAIMED, **more: Any) -> ClaimView:
    pod = WarmPod(uid="u1", namespace="team", name="p1", resource_version="1", node="n1", addresses=("10.0.0.1",))
    fields = {"pool": PoolKey("team", "p"), "tenant": "team", "count": 1, "pods": (pod,), "expires": 1_790_003_600.0}
    return ClaimView(name=name, stage=stage, **{**fields, **more})


def claimed(name: str = MINE) -> ClaimObject:
    """An object whose status says what `view(name)` is."""
    (step,) = decide(claim_object(), replace(FACTS, standing=(view(name),)), SETTINGS)
    assert isinstance(step, SetStatus)
    return claim_object(status=step.status)


def test_names_lead_back_to_their_object() -> None:
    assert object_of(MINE) == UID
    assert len(MINE) <= 63
    assert object_of("c-0190b5b2c11-9f86d081884c7d65") == ""


def test_first_the_finalizer_then_the_request() -> None:
    assert decide(claim_object(finalizers=("x",)), FACTS, SETTINGS) == [SetFinalizers(("x", FINALIZER))]
    assert decide(claim_object(), FACTS, SETTINGS) == [Ask("team", 30.0)]
    assert decide(claim_object(tenant="t", onEmpty="fail"), FACTS, SETTINGS) == [Ask("t", 0.0)]


def test_a_server_that_has_begun_gets_a_head_start() -> None:
    others = replace(FACTS, put_finalizer=False)
    assert decide(claim_object(), others, SETTINGS) == [LookAgain(102.0)]
    assert decide(claim_object(), replace(others, now=102.0), SETTINGS) == [Ask("team", 28.0)]


def test_only_the_first_server_acts() -> None:
    assert decide(claim_object(), replace(FACTS, is_first=False), SETTINGS) == []


def test_pods_that_stand_in_its_name_become_its_own_whoever_asked() -> None:
    (step,) = decide(claim_object(), replace(FACTS, standing=(view(OTHER),)), SETTINGS)
    assert isinstance(step, SetStatus)
    assert (step.status["claim"], step.status["phase"]) == (OTHER, "Claimed")
    asked = replace(FACTS, own=Own(MINE, 99.0), standing=(view(OTHER), view(MINE)))
    (step,) = decide(claim_object(), asked, SETTINGS)
    assert isinstance(step, SetStatus)
    assert step.status["claim"] == MINE


def test_what_the_status_does_not_name_is_given_back() -> None:
    assert decide(claimed(), replace(FACTS, own=Own(OTHER, 99.0)), SETTINGS) == [Cancel()]
    both = replace(FACTS, standing=(view(MINE), view(OTHER)))
    assert decide(claimed(), both, SETTINGS) == [Release(OTHER)]
    assert decide(claimed(), replace(both, leaving=frozenset({OTHER})), SETTINGS) == []


def test_a_status_that_is_right_is_not_written() -> None:
    assert decide(claimed(), replace(FACTS, standing=(view(),)), SETTINGS) == []


def test_pods_that_are_gone_make_it_not_ready() -> None:
    lost = view(stage=ClaimStage.CLAIMING, count=2)
    (step,) = decide(claimed(), replace(FACTS, standing=(lost,)), SETTINGS)
    assert isinstance(step, SetStatus)
    (ready,) = step.status["conditions"]
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "PodsGone", "1 of its 2 pods are gone")


def test_a_claim_is_over_only_if_its_pods_are_known_to_be_gone() -> None:
    assert decide(claimed(), replace(FACTS, is_current=False), SETTINGS) == [CatchUp(100.5)]
    (step,) = decide(claimed(), FACTS, SETTINGS)
    assert isinstance(step, SetStatus)
    assert (step.status["phase"], step.status["reason"]) == ("Released", "Released")
    (step,) = decide(claimed(), replace(FACTS, now=3600.0), SETTINGS)
    assert isinstance(step, SetStatus)
    assert (step.status["phase"], step.status["reason"]) == ("Ended", "ClaimEnded")


def test_a_change_renews_once() -> None:
    obj = replace(claimed(), generation=2)
    assert obj.spec is not None
    standing = replace(FACTS, standing=(view(),))
    assert decide(obj, standing, SETTINGS) == [Renew(MINE, 0.0, shorten=True, done=(2, ""))]
    (step,) = decide(obj, replace(standing, renewed=(2, "")), SETTINGS)
    assert isinstance(step, SetStatus)
    assert step.status["observedGeneration"] == 2
    noted = replace(claimed(), renewal="x")
    assert decide(noted, standing, SETTINGS) == [Renew(MINE, 0.0, shorten=False, done=(1, "x"))]


def test_a_deleted_claim_loses_its_finalizer_after_its_pods() -> None:
    deleted = replace(claimed(), is_deleting=True)
    assert decide(deleted, replace(FACTS, standing=(view(),)), SETTINGS) == [Release(MINE)]
    assert decide(deleted, replace(FACTS, standing=(view(stage=ClaimStage.ENDING),)), SETTINGS) == []
    assert decide(deleted, replace(FACTS, is_current=False), SETTINGS) == [CatchUp(100.5)]
    assert decide(deleted, FACTS, SETTINGS) == [SetFinalizers(())]
    assert decide(claim_object(deleting=True), replace(FACTS, own=Own(MINE, 99.0)), SETTINGS) == [Cancel()]


def test_a_refusal_is_final_and_a_full_line_is_not() -> None:
    def answered(code: ClaimCode, now: float = 110.0) -> Any:
        answer = Answered(request="r", code=code)
        return decide(claim_object(), replace(FACTS, now=now, own=Own(MINE, 100.0, answer)), SETTINGS)

    assert answered(ClaimCode.QUEUE_FULL) == [Cancel(), LookAgain(111.0)]
    for code, now in ((ClaimCode.QUEUE_FULL, 130.0), (ClaimCode.WRITE_REFUSED, 110.0)):
        (step,) = answered(code, now)
        assert (step.status["phase"], step.status["reason"]) == ("Failed", code.value)
    assert answered(ClaimCode.SHUTTING_DOWN) == []


def test_what_a_dead_server_has_left_unfinished_is_given_back() -> None:
    partial = view(OTHER, ClaimStage.CLAIMING, count=2)
    asked = replace(FACTS, own=Own(MINE, 100.0), standing=(partial,))
    assert Release(OTHER) not in decide(claim_object(), asked, SETTINGS)
    assert Release(OTHER) in decide(claim_object(), replace(asked, now=110.0), SETTINGS)


def test_a_tenant_of_ones_own_choice_needs_a_server_that_asks_nobody() -> None:
    asks = ClaimSettings(authorization="kubernetes")
    (step,) = decide(claim_object(tenant="other"), FACTS, asks)
    assert isinstance(step, SetStatus)
    assert step.status["reason"] == "NotYours"
    assert decide(claim_object(tenant="team"), FACTS, asks) == [Ask("team", 30.0)]

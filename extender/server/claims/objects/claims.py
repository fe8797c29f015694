"""Decides the next steps for one Claim object. Pure functions of the object and of `Facts`.

    undecided --finalizer--> asked --pods--> decided: status.claim names the claim --> Released, Ended
        |                      |
        +------ impossible ----+--> Failed

An object is decided by a write of its status, with its resourceVersion as the precondition. Until then any server may
ask for pods. Pods of claims that the status does not name are given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from extender.claim_settings import ClaimSettings
from extender.claims.codes import ClaimCode
from extender.claims.events import Answered
from extender.claims.records import PoolKey
from extender.claims.views import ClaimStage, ClaimView
from extender.conversions.claim_requests import refusal
from extender.resources import ClaimSpec
from extender.server.claims.objects.pools import is_worth_writing
from extender.server.claims.objects.records import FINALIZER, ClaimObject
from extender.server.conditions import conditions, moment

#: The final phases.
FINAL = frozenset({"Ended", "Released", "Failed"})
#: Seconds that a claim without `waitSeconds` waits while its pool is not served; else the pool's default counts.
DEFAULT_WAIT = 30.0
#: Seconds after which the status says that a claim waits, and between two updates of its position in the queue.
_QUICK, _POSITION = 1.0, 10.0
#: Seconds that another server that may have asked gets to finish, and after which its incomplete claims are given back.
HEAD_START, _UNFINISHED = 2.0, 10.0
#: Seconds between two tries of a request that was not accepted, and between two checks whether the pods are up to date.
_RETRY, _LAG = 1.0, 0.5
#: Codes after which the same request may succeed a moment later.
_TRANSIENT = frozenset(
    {
        ClaimCode.NOT_READY,
        ClaimCode.UNKNOWN_POOL,
        ClaimCode.QUEUE_FULL,
        ClaimCode.TENANT_QUEUE_FULL,
        ClaimCode.TOO_MANY_DEMANDS,
        ClaimCode.KEY_REUSED,
        ClaimCode.CANCELLED,
    }
)
_TEXTS = {
    ClaimCode.DEADLINE_EXCEEDED: "no pod became idle in time",
    ClaimCode.NO_IDLE_POD: "no pod of the pool is idle, and the claim does not wait",
    ClaimCode.QUEUE_FULL: "the pool's queue is full",
    ClaimCode.TENANT_QUEUE_FULL: "this tenant's share of the pool's queue is full",
    ClaimCode.WRITE_UNKNOWN: "the API server did not say whether a pod was claimed; if it was, it is released",
}


@dataclass(frozen=True, slots=True)
class Own:
    """This server's request for the object."""

    claim: str
    asked_at: float
    answer: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The other inputs. Times are seconds of the engine's clock; `epoch`: seconds since 1970 when that was 0."""

    now: float
    epoch: float
    #: Whether this server has rank 0 for the object (see `Members`).
    is_first: bool
    #: Whether the pool is served, and how many seconds this claim may wait.
    has_pool: bool
    wait_seconds: float = DEFAULT_WAIT
    #: The object's claims that have pods or wait, and which of them are already being given back.
    standing: tuple[ClaimView, ...] = ()
    leaving: frozenset[str] = frozenset()
    own: Own | None = None
    #: When this server first handled the object, and when it last wrote the status.
    since: float = 0.0
    written_at: float = 0.0
    #: Whether this server has added the finalizer.
    put_finalizer: bool = False
    #: Whether the known pods are at least as new as the object.
    is_current: bool = True
    #: The generation and the renewal that have been carried out, which the status may not show yet.
    renewed: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for pods, and wait `wait_seconds`."""

    tenant: str
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel this server's request, and release its claim."""


@dataclass(frozen=True, slots=True)
class Release:
    claim: str


@dataclass(frozen=True, slots=True)
class Renew:
    """`done`: the generation and the renewal that this carries out."""

    claim: str
    lease_seconds: float
    shorten: bool
    done: tuple[int, str]


@dataclass(frozen=True, slots=True)
class SetFinalizers:
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetStatus:
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CatchUp:
    """The known pods may be older than the object: have the informer catch up, and decide again at this time."""

    at: float


@dataclass(frozen=True, slots=True)
class LookAgain:
    at: float


Step = Ask | Cancel | Release | Renew | SetFinalizers | SetStatus | CatchUp | LookAgain


def decide(obj: ClaimObject, facts: Facts, settings: ClaimSettings) -> list[Step]:
    """Return the next steps; none if the object needs none, or another server handles it."""
    chosen = obj.status.claim
    if chosen and facts.own is not None and facts.own.claim != chosen:
        return [Cancel()]
    if not facts.is_first and facts.own is None:
        return []
    if obj.is_deleting or obj.status.phase in FINAL:
        return _ended(obj, facts)
    if chosen:
        return _decided(obj, facts)
    return _undecided(obj, facts, settings)


def orphaned(facts: Facts) -> list[Step]:
    """Return the next steps for the claims of an object that was deleted."""
    if not facts.is_first and facts.own is None:
        return []
    return [Cancel()] if facts.own is not None else _give_back(facts)


def _ended(obj: ClaimObject, facts: Facts) -> list[Step]:
    if facts.own is not None:
        return [Cancel()]
    releases = _give_back(facts)
    if releases or not obj.has_finalizer:
        return releases
    if facts.standing:
        return []  # they are being given back; the end of each triggers another decision
    if obj.status.claim and not facts.is_current:
        return [CatchUp(facts.now + _LAG)]
    return [SetFinalizers(tuple(each for each in obj.finalizers if each != FINALIZER))]


def _give_back(facts: Facts, *, but: str = "") -> list[Step]:
    return [
        Release(each.name)
        for each in facts.standing
        if each.name != but
        and each.name not in facts.leaving
        and each.stage in (ClaimStage.CLAIMED, ClaimStage.CLAIMING)
    ]


# -- a claim that has its pods ------------------------------------------------------------------------------------


def _decided(obj: ClaimObject, facts: Facts) -> list[Step]:
    steps = _give_back(facts, but=obj.status.claim)
    view = next((each for each in facts.standing if each.name == obj.status.claim), None)
    if view is None and not facts.is_current:
        return [*steps, CatchUp(facts.now + _LAG)]
    if view is None or view.stage is ClaimStage.ENDING:
        return [*steps, SetStatus(_over(obj, facts))]
    done = facts.renewed or (obj.status.observed_generation, obj.status.renewal)
    if done != (obj.generation, obj.renewal) and obj.spec is not None:
        lease = float(obj.spec.lease_seconds or 0)
        is_changed = done[0] != obj.generation
        return [*steps, Renew(view.name, lease, shorten=is_changed, done=(obj.generation, obj.renewal))]
    return [*steps, *_say(obj, _claimed(obj, view, facts, done))]


def _claimed(obj: ClaimObject, view: ClaimView, facts: Facts, done: tuple[int, str]) -> dict[str, Any]:
    pods = [
        {"name": pod.name, "uid": pod.uid, "node": pod.node, "addresses": list(pod.addresses)}
        for pod in sorted(view.pods, key=lambda each: each.name)
    ]
    if len(pods) >= view.count:
        ready, message = ("True", ClaimCode.CLAIMED.value, ""), ""
    else:
        message = f"{view.count - len(pods)} of its {view.count} pods are gone"
        ready = ("False", "PodsGone", message)
    return _status(
        *(obj, facts, "Claimed", ready),
        reason=ClaimCode.CLAIMED.value,
        message=message,
        claim=view.name,
        pods=pods,
        expires=moment(view.expires),
        done=done,
    )


def _over(obj: ClaimObject, facts: Facts) -> dict[str, Any]:
    """Return the status of a claim whose pods are gone."""
    expires = obj.status.lease_expires
    if expires is not None and expires <= moment(facts.now + facts.epoch + 1):
        phase, reason, message = "Ended", ClaimCode.CLAIM_ENDED, "its lease has expired"
    else:
        phase, reason, message = "Released", ClaimCode.RELEASED, "it was released, or its pods were deleted"
    ready = ("False", reason.value, message)
    status = _status(obj, facts, phase, ready, reason=reason.value, message=message, claim=obj.status.claim)
    return {**status, "leaseExpires": expires}


# -- a claim that has no pods yet ---------------------------------------------------------------------------------


def _undecided(obj: ClaimObject, facts: Facts, settings: ClaimSettings) -> list[Step]:
    complete = [each for each in facts.standing if each.stage is ClaimStage.CLAIMED and each.name not in facts.leaving]
    if complete:
        own = facts.own.claim if facts.own is not None else ""
        chosen = min(complete, key=lambda each: (each.name != own, each.name))
        return _say(obj, _claimed(obj, chosen, facts, (obj.generation, obj.renewal)))
    if facts.own is not None:
        return _asked(obj, facts, facts.own)
    refused = _refusal(obj, settings)
    if refused is not None:
        return [SetStatus(_failed(obj, facts, *refused))]
    assert obj.spec is not None
    if not facts.has_pool:
        return _without_pool(obj, facts)
    if not obj.has_finalizer:
        return [SetFinalizers((*obj.finalizers, FINALIZER))]
    begun_by_others = not facts.put_finalizer
    if begun_by_others and facts.now < facts.since + HEAD_START:
        return [LookAgain(facts.since + HEAD_START)]
    left = _deadline(facts) - facts.now
    return [Ask(obj.spec.tenant or obj.namespace, max(0.0, left) if obj.spec.on_empty != "fail" else 0.0)]


def _asked(obj: ClaimObject, facts: Facts, own: Own) -> list[Step]:
    strays: list[Step] = []
    if facts.now >= own.asked_at + _UNFINISHED:  # claims of a server that died before it had all pods
        strays = _give_back(facts, but=own.claim)
    if own.answer is None:
        return [*strays, *_waiting(obj, facts, own)]
    code = own.answer.code
    if code is ClaimCode.SHUTTING_DOWN:
        return []  # another server continues
    if code is ClaimCode.CLAIMED or code is ClaimCode.NOT_READY:  # its pods are gone again, or it was not tried
        return [Cancel(), LookAgain(facts.now + _RETRY)]
    if code in _TRANSIENT and facts.now < _deadline(facts):
        return [Cancel(), LookAgain(facts.now + _RETRY)]
    return [SetStatus(_failed(obj, facts, code, own.answer.detail or _TEXTS.get(code, "")))]


def _waiting(obj: ClaimObject, facts: Facts, own: Own) -> list[Step]:
    if facts.now < own.asked_at + _QUICK:
        return [LookAgain(own.asked_at + _QUICK)]
    view = next((each for each in facts.standing if each.name == own.claim), None)
    position = 0 if view is None else view.position
    phase = "Waiting" if position else "Claiming"
    shown = obj.status
    is_shown = shown.observed_generation == obj.generation and shown.phase == phase
    if is_shown and not (position and is_worth_writing(shown.position, position)):
        return [LookAgain(facts.now + _POSITION)]
    if is_shown and facts.now < facts.written_at + _POSITION:
        return [LookAgain(facts.written_at + _POSITION)]
    message = "no idle pod is available for it" if position else "its pods are being written, or are starting"
    return _say(obj, _pending(obj, facts, phase, message, position=position))


def _without_pool(obj: ClaimObject, facts: Facts) -> list[Step]:
    assert obj.spec is not None
    missing = f"there is no pool {obj.spec.pool_ref.name} in {obj.namespace}, or it is not served"
    if facts.now >= _deadline(facts) + HEAD_START:
        return [SetStatus(_failed(obj, facts, ClaimCode.UNKNOWN_POOL, missing))]
    later = LookAgain(_deadline(facts) + HEAD_START)
    return [*_say(obj, _pending(obj, facts, "Waiting", missing, reason=ClaimCode.UNKNOWN_POOL.value)), later]


def _deadline(facts: Facts) -> float:
    return facts.since + facts.wait_seconds


def _refusal(obj: ClaimObject, settings: ClaimSettings) -> tuple[ClaimCode, str] | None:
    if obj.spec is None:
        return ClaimCode.NOT_POSSIBLE, obj.fault
    return refusal(obj.spec, obj.namespace, settings)


# -- the status ---------------------------------------------------------------------------------------------------


def _failed(obj: ClaimObject, facts: Facts, code: ClaimCode, message: str) -> dict[str, Any]:
    ready = ("False", code.value, message)
    return _status(obj, facts, "Failed", ready, reason=code.value, message=message)


def _pending(
    obj: ClaimObject, facts: Facts, phase: str, message: str, *, reason: str = "", position: int = 0
) -> dict[str, Any]:
    ready = ("False", reason or phase, message)
    return _status(obj, facts, phase, ready, reason=reason, message=message, position=position)


def _status(
    obj: ClaimObject,
    facts: Facts,
    phase: str,
    ready: tuple[str, str, str],
    *,
    reason: str,
    message: str,
    claim: str = "",
    pods: list[dict[str, Any]] | None = None,
    expires: str | None = None,
    position: int = 0,
    done: tuple[int, str] | None = None,
) -> dict[str, Any]:
    generation, renewal = done or (obj.generation, obj.renewal)
    now = moment(facts.now + facts.epoch)
    return {
        "observedGeneration": generation,
        "phase": phase,
        "reason": reason,
        "message": message[:32_000],
        "claim": claim,
        "pods": pods or [],
        "leaseExpires": expires,
        "position": position,
        "renewal": renewal,
        "conditions": conditions({"Ready": ready}, obj.status.conditions, generation=generation, now=now),
    }


def _say(obj: ClaimObject, status: dict[str, Any]) -> list[Step]:
    """Write the status unless the object has it already."""
    return [] if obj.status.model_dump(by_alias=True) == status else [SetStatus(status)]


def pool_of(spec: ClaimSpec, namespace: str) -> PoolKey:
    return PoolKey(namespace, spec.pool_ref.name)

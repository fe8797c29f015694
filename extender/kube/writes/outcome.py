"""How a write to the API server ended, in the engine's terms (law 5). Pure: a response or an error in, an Outcome out.

2xx                  done         it happened; with the resourceVersion of the object in the response
404                  gone         the object does not exist
409 on the UID       stale        another object has the name now
409 otherwise        lost         another client was first, or an earlier attempt of our own
429 of a budget      rejected     a PodDisruptionBudget forbids this eviction
429                  throttled    after Retry-After, 1 s if it does not say
503 + Retry-After    throttled
other 4xx, 3xx       rejected     never as it is
408, other 5xx       unknown      it may have happened
Unreachable          throttled    nothing was sent
Interrupted          unknown      it may have happened

2xx and 404 count only with a Kubernetes object in the body. A proxy on the way may send these statuses for reasons of
its own. Such a response proves nothing about a write or about the existence of a pod: the outcome is unknown.
"""

from __future__ import annotations

import http
import re

from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client import bounds
from extender.kube.client.api import ApiError, Response, Unreachable
from extender.kube.writes.throttle import Signal

#: Seconds to wait if the API server does not send Retry-After.
_RETRY_AFTER = 1.0
#: Upper bound of Retry-After; the engine's own timers are shorter.
_LONGEST_RETRY_AFTER = 60.0

#: The two texts with which API servers refuse a UID precondition. Pod names hold no blanks, so none can look like it.
_WRONG_UID = re.compile(r"precondition failed|uid in (the )?precondition", re.IGNORECASE)

_BUDGET = "DisruptionBudget"
_MANY_BUDGETS = "more than one PodDisruptionBudget"


def outcome_of(response: Response) -> Outcome:
    """The outcome of a write that got a response."""
    kind = _kind(response)
    if kind is OutcomeKind.DONE:
        return Outcome(kind, resource_version=response.resource_version)
    if kind is OutcomeKind.THROTTLED:
        wait = _RETRY_AFTER if response.retry_after is None else response.retry_after
        return Outcome(kind, response.message, min(wait, _LONGEST_RETRY_AFTER))
    return Outcome(kind, _detail(response))


def outcome_of_error(error: ApiError) -> Outcome:
    """The outcome of a write that got no response."""
    if isinstance(error, Unreachable):
        return Outcome(OutcomeKind.THROTTLED, str(error), _RETRY_AFTER)
    return Outcome(OutcomeKind.UNKNOWN, str(error))


def signal_of(outcome: Outcome) -> Signal:
    """What the end of a write says about the API server."""
    match outcome.kind:
        case OutcomeKind.DONE:
            return Signal.DONE
        case OutcomeKind.THROTTLED:
            return Signal.THROTTLED
        case OutcomeKind.UNKNOWN:
            return Signal.FAILED
        case _:
            return Signal.REFUSED


def is_budget(response: Response) -> bool:
    """Whether a PodDisruptionBudget refuses this one eviction. This is a 429 that asks for no pause; or, for a pod that
    several budgets select and that is therefore never evicted, what the API server calls an error of its own (500)."""
    if response.status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return _BUDGET in [cause.reason for cause in response.causes]
    return response.status == http.HTTPStatus.INTERNAL_SERVER_ERROR and _MANY_BUDGETS in response.message


def _detail(response: Response) -> str:
    """The text of a refusal. Only the causes say which budget refused, and what it needs."""
    causes = [cause.message for cause in response.causes if cause.message] if is_budget(response) else []
    return bounds.cut(" ".join([response.message, *causes]))


def _kind(response: Response) -> OutcomeKind:
    match response.status:
        case status if 200 <= status < 300:
            return OutcomeKind.DONE if response.genuine else OutcomeKind.UNKNOWN
        case 404:
            return OutcomeKind.GONE if response.genuine else OutcomeKind.UNKNOWN
        case 409:
            return OutcomeKind.STALE if _WRONG_UID.search(response.message) else OutcomeKind.LOST
        case 429 | 500 if is_budget(response):
            return OutcomeKind.REJECTED
        case 429:
            return OutcomeKind.THROTTLED
        case 503 if response.retry_after is not None:
            return OutcomeKind.THROTTLED
        case 408:
            return OutcomeKind.UNKNOWN
        case status if status < 500:
            return OutcomeKind.REJECTED
        case _:
            return OutcomeKind.UNKNOWN

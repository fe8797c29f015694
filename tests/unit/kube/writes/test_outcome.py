"""The table of outcomes: every kind of answer, and every way to get none."""

from __future__ import annotations

import json

import pytest

from extender.core.outcomes import Outcome, OutcomeKind
from extender.kube.client.api import Interrupted, Response, Unreachable
from extender.kube.writes.outcome import outcome_of, outcome_of_error, signal_of
from extender.kube.writes.throttle import Signal


def status(code: int, message: str = "", **headers: str) -> Response:
    body = json.dumps({"kind": "Status", "message": message, "code": code}).encode()
    return Response(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


ASSIGNED = 'Operation cannot be fulfilled on pods/binding "x1": pod x1 is already assigned to node "n1"'
WRONG_UID = (
    'Operation cannot be fulfilled on pods/binding "x1": Precondition failed: '
    "UID in precondition: 8a9c1ff0, UID in object meta: 77777777"
)
RECREATED = (
    "the UID in the precondition (8a9c1ff0) does not match the UID in record (77777777). "
    "The object might have been deleted and then recreated"
)


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (status(200), OutcomeKind.DONE),
        (status(201), OutcomeKind.DONE),
        (status(202), OutcomeKind.DONE),
        (status(404, 'pods "x1" not found'), OutcomeKind.GONE),
        (status(409, ASSIGNED), OutcomeKind.LOST),
        (status(409, ASSIGNED.replace("x1", "fluid-uid-precondition")), OutcomeKind.LOST),
        (status(409), OutcomeKind.LOST),
        (status(409, WRONG_UID), OutcomeKind.STALE),
        (status(409, RECREATED), OutcomeKind.STALE),
        (status(429), OutcomeKind.THROTTLED),
        (status(503, retry_after="3"), OutcomeKind.THROTTLED),
        (status(503), OutcomeKind.UNKNOWN),
        (status(503, retry_after="soon"), OutcomeKind.UNKNOWN),
        (status(500), OutcomeKind.UNKNOWN),
        (status(502), OutcomeKind.UNKNOWN),
        (status(504), OutcomeKind.UNKNOWN),
        (status(408), OutcomeKind.UNKNOWN),
        (status(307), OutcomeKind.REJECTED),
        (Response(200, b"<html>please log in</html>"), OutcomeKind.UNKNOWN),
        (Response(201), OutcomeKind.UNKNOWN),
        (Response(404, b"default backend - 404"), OutcomeKind.UNKNOWN),
        (Response(404, b"{}"), OutcomeKind.UNKNOWN),
        *((status(code), OutcomeKind.REJECTED) for code in (400, 401, 403, 405, 413, 415, 422)),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Response) else str(value),
)
def test_every_answer_has_its_outcome(response: Response, kind: OutcomeKind) -> None:
    assert outcome_of(response).kind is kind


def test_a_refusal_carries_the_api_servers_words() -> None:
    assert outcome_of(status(422, "spec.x: Invalid value")).detail == "spec.x: Invalid value"


def test_a_refusal_that_is_no_status_object_carries_its_beginning() -> None:
    assert outcome_of(Response(403, b"<html>proxy says no</html>")).detail == "<html>proxy says no</html>"
    assert outcome_of(Response(403, b"\xff\xfe")).detail
    assert outcome_of(Response(403)).detail == "HTTP 403"


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0", 0.0), ("-5", 0.0), ("9999999", 60.0), ("x", 1.0)])
def test_throttled_says_for_how_long(header: str, seconds: float) -> None:
    assert outcome_of(status(429, "slow down", retry_after=header)) == Outcome(
        OutcomeKind.THROTTLED, "slow down", seconds
    )


def test_throttled_without_a_word_is_one_second() -> None:
    assert outcome_of(status(429)).retry_after == 1.0


BUDGET = Response(429, b'{"kind": "Status", "details": {"causes": [{"reason": "DisruptionBudget"}]}}')


@pytest.mark.parametrize(
    ("response", "signal"),
    [
        (status(201), Signal.DONE),
        (status(404), Signal.REFUSED),
        (status(409), Signal.REFUSED),
        (status(422), Signal.REFUSED),
        (status(429), Signal.THROTTLED),
        (status(503, retry_after="1"), Signal.THROTTLED),
        (BUDGET, Signal.REFUSED),
        (status(500), Signal.FAILED),
        (status(503), Signal.FAILED),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Response) else value.name,
)
def test_every_answer_tells_something_of_the_server(response: Response, signal: Signal) -> None:
    assert signal_of(outcome_of(response)) is signal


def test_no_answer_tells_something_of_the_server_too() -> None:
    assert signal_of(outcome_of_error(Unreachable("refused"))) is Signal.THROTTLED
    assert signal_of(outcome_of_error(Interrupted("eof"))) is Signal.FAILED


def test_nothing_sent_may_be_tried_again() -> None:
    assert outcome_of_error(Unreachable("refused")) == Outcome(OutcomeKind.THROTTLED, "refused", 1.0)


def test_sent_without_an_answer_may_have_happened() -> None:
    assert outcome_of_error(Interrupted("eof")) == Outcome(OutcomeKind.UNKNOWN, "eof")


@pytest.mark.parametrize(
    ("body", "version"),
    [
        ({"kind": "Pod", "metadata": {"resourceVersion": "17"}}, "17"),
        ({"kind": "Status", "metadata": {}}, ""),
        ({"kind": "Status"}, ""),
        ({"kind": "Odd", "metadata": ["resourceVersion"]}, ""),
    ],
    ids=["an object", "a Status", "no metadata", "metadata that is none"],
)
def test_what_was_written_has_the_version_of_the_object_in_the_response(body: dict, version: str) -> None:
    assert outcome_of(Response(200, json.dumps(body).encode())) == Outcome(OutcomeKind.DONE, resource_version=version)

"""A kind of write that the package does not know: all of it is in this file, and the committer carries it out.

`LabelBinding` sets a label on a custom resource, as an engine beside that of pods would; `Beat` is a write of the same
engine that may be lost.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import msgspec
import pytest

from algorithm.decoding import DecodeError
from extender.core.commands import BestEffortKind, CommandKind, CommandSet, Moment
from extender.core.outcomes import Outcome, OutcomeKind
from extender.core.requests import Request, collection_path, object_path, patch_request
from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.kube.writes.committer import Committer
from extender.settings import ClusterSettings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.scripted_server import Answer, ScriptedServer, drop, hang, reply, status
from tests.support.apiserver.warm_connections import warm


@dataclass(frozen=True, slots=True)
class LabelBinding:
    """PATCH the label of a warm pod's claim. Reported by Labelled."""

    token: int
    namespace: str
    name: str
    label: str
    term: int = 0
    valid_for: float = 20.0


@dataclass(frozen=True, slots=True)
class Labelled:
    """The report, with all labels that the claim has now."""

    token: int
    outcome: Outcome
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Beat:
    """PATCH the time of the last sign of life. Not reported."""

    name: str
    term: int = 0


def claims(namespace: str) -> str:
    return collection_path("claims", group="waggle.dev", version="v1alpha1", namespace=namespace)


def label(write: LabelBinding) -> Request:
    path = object_path(claims(write.namespace), write.name)
    return patch_request(path, {"metadata": {"labels": {"waggle.dev/bound": write.label}}})


class _Meta(msgspec.Struct):
    labels: dict[str, str]


class _Claim(msgspec.Struct):
    metadata: _Meta


def labels_of(body: bytes) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(msgspec.json.decode(body, type=_Claim).metadata.labels.items())
    except msgspec.DecodeError as error:
        raise DecodeError(str(error)) from error


def labelled(write: LabelBinding, outcome: Outcome, labels: tuple[tuple[str, str], ...] | None) -> Labelled:
    return Labelled(write.token, outcome, labels or ())


class Beats:
    """Two requests for each: the claim itself, and then its status."""

    command = Beat

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._serial = itertools.count(1)

    def topic(self, beat: Beat) -> str:
        return beat.name

    def requests(self, beat: Beat, times: int, moment: Moment) -> Generator[Request, OutcomeKind, None]:
        path = object_path(claims("ns"), beat.name)
        ended = yield patch_request(path, {"beat": next(self._serial)})
        if ended is OutcomeKind.DONE:
            ended = yield patch_request(f"{path}/status", {"at": moment.time})
        self.counts[f"beats {ended}"] += 1


KIND = CommandKind(command=LabelBinding, request=label, report=labelled, reported_as=Labelled, decode=labels_of)
PATH = "/apis/waggle.dev/v1alpha1/namespaces/ns/claims/c1"
CLAIM = reply(200, {"kind": "Claim", "metadata": {"resourceVersion": "812", "labels": {"waggle.dev/bound": "n1"}}})
WRITE = LabelBinding(7, "ns", "c1", "n1", term=5)


class Rig:
    """The committer of the other engine: its reports, and the seconds that its term still lasts."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] | None = None) -> None:
        self.reports: list[Labelled] = []
        self.left = 60.0
        more = {"clock": clock} if clock else {}
        self.committer: Committer[Labelled] = Committer(
            *(api, CommandSet([KIND], best_effort=[Beats()])),
            report=self.reports.append,
            most=1,
            fence=lambda term: self.left if term == 5 else 0.0,
            **more,
        )

    def report(self) -> Labelled:
        return eventually(lambda: self.reports)[0]


@pytest.fixture(params=["workers", "pilot"])
def api(request: pytest.FixtureRequest, server: ScriptedServer) -> Iterator[ApiServer]:
    """The first request of each connection is a worker's, the others are the pilot's: everything holds for both."""
    api = connect(ClusterSettings(server=server.url, request_timeout_seconds=0.5))
    if request.param == "pilot":
        warm(server, api, 1)
    yield api
    api.close()


@pytest.fixture
def rig(api: ApiServer) -> Iterator[Rig]:
    made = Rig(api)
    yield made
    made.committer.stop()


def test_it_is_sent_as_its_kind_says_and_reported_with_the_version_and_the_object(
    server: ScriptedServer, rig: Rig
) -> None:
    server.on("PATCH", PATH, CLAIM)
    rig.committer.submit(WRITE)
    outcome = Outcome(OutcomeKind.DONE, resource_version="812")
    assert rig.report() == Labelled(7, outcome, (("waggle.dev/bound", "n1"),))
    (sent,) = server.requests
    assert sent.json == {"metadata": {"labels": {"waggle.dev/bound": "n1"}}}
    assert sent.headers["content-type"] == "application/merge-patch+json"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (status(404, "not found", "NotFound"), OutcomeKind.GONE),
        (status(409, "the object has been modified", "Conflict"), OutcomeKind.LOST),
        (status(409, "Precondition failed: UID in precondition: a"), OutcomeKind.STALE),
        (status(410, "gone", "Gone"), OutcomeKind.REJECTED),
        (status(422, "invalid"), OutcomeKind.REJECTED),
        (status(500, "etcd"), OutcomeKind.UNKNOWN),
        (drop(), OutcomeKind.UNKNOWN),
        (hang(), OutcomeKind.UNKNOWN),
        (status(429, "busy", Retry_After="9"), OutcomeKind.THROTTLED),
        (reply(200, {"kind": "Claim", "metadata": {"labels": 3}}), OutcomeKind.UNKNOWN),
    ],
    ids=["404", "409", "409 UID", "410", "422", "500", "closed", "time-out", "429", "an object that cannot be read"],
)
def test_it_is_sent_once_and_ends_in_its_outcome(
    server: ScriptedServer, rig: Rig, answer: Answer, kind: OutcomeKind
) -> None:
    server.on("PATCH", PATH, answer)
    rig.committer.submit(WRITE)
    report = rig.report()
    assert (report.token, report.outcome.kind, report.labels) == (7, kind, ())
    assert len(server.requests) == 1
    assert rig.committer.stats.outcomes == {f"LabelBinding {kind}": 1}


def test_throttled_for_a_moment_it_is_tried_again(server: ScriptedServer, rig: Rig) -> None:
    server.on("PATCH", PATH, status(429, "busy", Retry_After="0"), CLAIM)
    rig.committer.submit(WRITE)
    assert rig.report().outcome.kind is OutcomeKind.DONE
    assert rig.committer.stats.retries == 1


@pytest.mark.parametrize("term", [4, 5], ids=["an earlier term", "a term that has ended"])
def test_outside_its_term_it_is_not_sent(server: ScriptedServer, rig: Rig, term: int) -> None:
    rig.left = 0.0
    rig.committer.submit(LabelBinding(7, "ns", "c1", "n1", term=term))
    assert rig.report().outcome.kind is OutcomeKind.THROTTLED
    assert server.requests == []


def test_after_its_time_it_is_not_sent(server: ScriptedServer, api: ApiServer) -> None:
    times = iter([0.0])  # when it is submitted; from then on it is too late
    rig = Rig(api, clock=lambda: next(times, 20.1))
    rig.committer.submit(WRITE)
    assert rig.report().outcome.kind is OutcomeKind.THROTTLED
    assert server.requests == []
    rig.committer.stop()


def test_one_that_may_be_lost_sends_what_its_kind_asks_for_and_is_not_reported(
    server: ScriptedServer, rig: Rig
) -> None:
    server.on("PATCH", PATH, CLAIM)
    server.on("PATCH", f"{PATH}/status", status(429, "busy", Retry_After="0"), CLAIM)
    rig.committer.submit(Beat("c1", term=5))
    eventually(lambda: rig.committer.stats.hints.done)
    paths = [request.path.removeprefix(PATH) for request in server.requests]
    assert paths == ["", "/status", "", "/status"]
    assert rig.committer.stats.hints.counts == {"beats throttled": 1, "beats done": 1}
    assert rig.reports == []


def test_a_command_that_no_kind_is_registered_for_is_refused_and_not_dropped(rig: Rig) -> None:
    with pytest.raises(TypeError, match="str: expected a command of a registered kind"):
        rig.committer.submit("bind it")


@pytest.mark.parametrize("best_effort", [[], [Beats(), Beats()]], ids=["reported", "best effort"])
def test_a_command_has_one_kind(best_effort: list[BestEffortKind[Beat]]) -> None:
    kinds = [KIND] if best_effort else [KIND, KIND]
    with pytest.raises(ValueError, match="one kind for each command"):
        CommandSet(kinds, best_effort)

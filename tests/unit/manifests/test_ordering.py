"""Start-up ordering as it is shipped: the rights are those that are used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithm.reasons import Code, reason
from extender.core.commands import Moment
from extender.core.ordering_names import GATE
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.api import ApiServer, Exchange
from extender.kube.client.kubeconfig import connect
from extender.ordering.records import PodKey
from extender.ordering.writes import gate, kinds, met, read
from extender.scheduling.writes.event import RecordEvent
from extender.server.ordering.pods import events
from extender.server.ordering.resources import APIS
from extender.server.ordering.service import OrderingService
from extender.settings import ClusterSettings, Settings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.rbac import Access, access, grants, rules_for
from tests.support.cluster.ordering_world import definition
from tests.support.manifests import MANIFESTS, chart, documents, helm, kubectl, kustomized

BASE = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "base" / "rbac.yaml")}
OWN = {
    (item["kind"], item["metadata"]["name"]): item
    for item in documents(MANIFESTS / "components" / "ordering" / "rbac.yaml")
}
ORDERING = OWN["ClusterRole", "waggle-ordering"]["rules"]
EXTENDER = BASE["ClusterRole", "waggle"]["rules"]
POD = PodKey("ns", "p")


class RecordingApi(ApiServer):
    """An API server that keeps what it was asked."""

    def __init__(self, url: str, asked: set[Access]) -> None:
        super().__init__(connect(ClusterSettings(server=url)).endpoint)
        self._asked = asked

    def exchange(self, request: Request, **more: Any) -> Exchange:
        self._asked.add(access(request.method, request.path, request.query))
        return super().exchange(request, **more)


def every_request() -> Iterator[Request]:
    """One of each kind of the engine's writes and reads."""
    known = {kind.command.__name__ for kind in kinds.KINDS}
    assert known == {"RemoveGate", "MarkMet", "ReadPod"}, "a new kind of write: add it here, and its right"
    yield gate.request(gate.RemoveGate(token=1, key=POD, uid="u", place=0))
    yield met.request(met.MarkMet(token=1, key=POD, uid="u", met=()))
    yield read.request(read.ReadPod(token=1, key=POD, uid="u"))
    told = RecordEvent("ns", "p", "u", reason(Code.WAITS_FOR_DEPENDENCY, dependencies="Job/ns/a"))
    requests = events().requests(told, 1, Moment(0.0, 0.0, "1970-01-01T00:00:00+00:00", "waggle-host"))
    yield next(requests)
    yield requests.send(OutcomeKind.LOST)


@pytest.fixture(scope="module")
def asked() -> set[Access]:
    """Everything that a server of start-up ordering asks of the API server, if all kinds are served there."""
    found = {access(each.method, each.path) for each in every_request()}
    with serve_in_thread() as cluster:
        for apis in APIS.values():
            for each in apis:
                if each.group not in ("batch", "apps", "scheduling.k8s.io"):
                    cluster.create(definition(*each))
        api = RecordingApi(cluster.url, found)
        settings = Settings.model_validate({"cluster": {"server": cluster.url}, "ordering": {"enabled": True}})
        service = OrderingService(settings, api)
        try:
            service.start()
            eventually(lambda: service.readiness().ready, why=lambda: service.readiness().detail)
            wanted = {(each.group, each.plural) for apis in APIS.values() for each in apis}
            watched = lambda: {(call.group, call.resource) for call in found if call.verb == "watch"}  # noqa: E731
            eventually(lambda: wanted <= watched(), why=lambda: f"{wanted - watched()}")
        finally:
            service.stop()
            api.close()
    return found


def test_everything_that_is_asked_is_allowed(asked: set[Access]) -> None:
    assert [call for call in sorted(asked) if not rules_for(call, [*ORDERING, *EXTENDER])] == []


def test_nothing_is_allowed_that_is_never_asked(asked: set[Access]) -> None:
    assert grants(ORDERING) <= {(call.verb, call.group, call.resource) for call in asked}


def test_it_only_reads_what_pods_wait_for() -> None:
    assert {verb for verb, _, _ in grants(ORDERING)} == {"list", "watch"}


def test_the_guard_of_pods_lets_waggle_remove_its_own_gate_and_no_other() -> None:
    policy = documents(MANIFESTS / "components" / "pod-guard" / "policy.yaml")[0]
    (expression,) = (each["expression"] for each in policy["spec"]["validations"] if "spec" in each["message"])
    assert f'gate.name != "{GATE}"' in expression


@pytest.mark.skipif(not kubectl(), reason="needs kubectl 1.21 or newer (or its path in WAGGLE_KUBECTL)")
@pytest.mark.skipif(not helm(), reason="needs helm (or its path in WAGGLE_HELM); `make e2e` builds it")
def test_the_chart_makes_what_the_component_makes(tmp_path: Path) -> None:
    def named(items: list[dict[str, Any]]) -> dict[tuple[str, str], Any]:
        return {(each["kind"], each["metadata"]["name"]): each for each in items}

    ours = named(chart("--set=ordering.enabled=true"))
    theirs = named(kustomized(tmp_path, ("second-scheduler", "cert-manager", "pod-guard", "image", "ordering")))
    for name in OWN:
        assert ours[name]["metadata"]["name"] == theirs[name]["metadata"]["name"]
        for part in ("rules", "roleRef", "subjects"):
            assert ours[name].get(part) == theirs[name].get(part)
    assert "ordering:\n  enabled: true" in ours["ConfigMap", "waggle-config"]["data"]["waggle.yaml"]

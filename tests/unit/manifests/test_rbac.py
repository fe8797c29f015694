"""The rights that are shipped are those that are used: every call is allowed, and nothing is that is never called.

The calls are those of a whole server with all that an operator can switch on, recorded on their way to the embedded API
server, and every request that the committer can make.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from algorithm.model import Node, Pod, PodKey
from algorithm.reasons import Code, reason
from extender.core.commands import Moment
from extender.core.outcomes import OutcomeKind
from extender.core.requests import Request
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.api import ApiServer, Exchange
from extender.kube.client.kubeconfig import connect
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.events import NodeSeen, PodSeen
from extender.scheduling.policy import Policy
from extender.server.cache_comparer import CacheComparer
from extender.server.service import Service
from extender.settings import ClusterSettings, LeaderElectionSettings, Settings
from tests.support.apiserver.api import eventually
from tests.support.apiserver.cluster_objects import node, pod
from tests.support.apiserver.rbac import Access, access, grants, rules_for
from tests.support.engine.commands import commands
from tests.support.manifests import MANIFESTS, documents

RBAC = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "base" / "rbac.yaml")}
EVERYWHERE = RBAC["ClusterRole", "waggle"]["rules"]
IN_ITS_NAMESPACE = RBAC["Role", "waggle"]["rules"]
#: In the tests nothing runs in a pod, so this stands for waggle-system.
OWN = "default"
GHOST = Pod(namespace="default", name="ghost", uid="u-2", node_name="ghost")


#: One command of each kind; an Event that is there already is made, and then counted.
EVERY_COMMAND = {
    type(each): each
    for each in (
        WriteBinding(1, "ns", "p", "u", "n"),
        ReadPod(1, "ns", "p", "u"),
        Evict(1, "ns", "p", "u", PodKey("ns", "q")),
        RecordPreemption(1, "ns", "p", "u", "{}"),
        RequeuePod("ns", "p", "u"),
        RecordEvent("ns", "p", "u", reason(Code.NOTHING_OFFERED)),
    )
}
NOW = Moment(0.0, 0.0, "1970-01-01T00:00:00+00:00", "waggle-host")


class RecordingApi(ApiServer):
    """An API server that keeps what it was asked."""

    def __init__(self, url: str, asked: set[Access]) -> None:
        super().__init__(connect(ClusterSettings(server=url)).endpoint)
        self._asked = asked

    def exchange(self, request: Request, **more: Any) -> Exchange:
        self._asked.add(access(request.method, request.path, request.query))
        return super().exchange(request, **more)


def every_write() -> Iterator[Access]:
    """All that the committer sends for the engine's commands."""
    known = commands()
    kinds = {each.command for each in (*known.kinds, *known.best_effort)}
    assert EVERY_COMMAND.keys() == kinds, "a new kind of write: add it here, and its right to manifests/base/rbac.yaml"
    for command in EVERY_COMMAND.values():
        if (found := known.find(command)) is not None:
            yield access(found.request().method, found.request().path)
    for kind in known.best_effort:
        requests = kind.requests(EVERY_COMMAND[kind.command], 1, NOW)
        request = next(requests, None)
        while request is not None:
            yield access(request.method, request.path)
            request = _next(requests)


def _next(requests: Generator[Request, OutcomeKind, None]) -> Request | None:
    try:
        return requests.send(OutcomeKind.LOST)
    except StopIteration:
        return None


@pytest.fixture(scope="module")
def asked() -> set[Access]:
    """Everything that a server asked of the API server from its start to its end."""
    found: set[Access] = set()
    with serve_in_thread() as cluster, pytest.MonkeyPatch.context() as environment:
        environment.setenv("POD_NAME", "waggle-0")
        cluster.create(node("n1"))
        cluster.create(pod("waggle-0"))
        election = LeaderElectionSettings(
            enabled=True, label_pod=True, lease_seconds=2, renew_deadline_seconds=1.5, retry_seconds=0.3
        )
        settings = Settings(cluster=ClusterSettings(server=cluster.url), leader_election=election)
        service = Service(settings, api=RecordingApi(cluster.url, found))
        try:
            service.start()
            eventually(lambda: service.runtime.readiness().ready)
            _differ_from_the_cluster(service)
            eventually(lambda: {"patch", "update"} <= {call.verb for call in found})
        finally:
            service.stop()
    return found | set(every_write())


def _differ_from_the_cluster(service: Service) -> None:
    """What is believed and does not exist is read live, by the comparer."""
    service.runtime.handle(NodeSeen(Node(name="ghost", uid="u-1")), PodSeen(GHOST))
    CacheComparer(service.api, service.runtime, Policy(), every=0, grace=0).run()


def test_everything_that_is_asked_is_allowed(asked: set[Access]) -> None:
    refused = [
        call
        for call in sorted(asked)
        if not rules_for(call, EVERYWHERE) and not (call.namespace == OWN and rules_for(call, IN_ITS_NAMESPACE))
    ]
    assert refused == []


def test_nothing_is_allowed_that_is_never_asked(asked: set[Access]) -> None:
    used = {(call.verb, call.group, call.resource) for call in asked}
    assert grants(EVERYWHERE) | grants(IN_ITS_NAMESPACE) == used


def test_the_list_of_rights() -> None:
    """Once more in full, so that nobody extends it by the way."""
    assert sorted(grants(EVERYWHERE)) == [
        ("create", "", "events"),
        ("create", "", "pods/binding"),
        ("create", "", "pods/eviction"),
        ("get", "", "nodes"),
        ("get", "", "pods"),
        ("list", "", "nodes"),
        ("list", "", "pods"),
        ("patch", "", "events"),
        ("patch", "", "pods"),
        ("watch", "", "nodes"),
        ("watch", "", "pods"),
    ]
    assert sorted(grants(IN_ITS_NAMESPACE)) == [
        (verb, "coordination.k8s.io", "leases") for verb in ("create", "get", "update")
    ]


def test_no_right_is_a_wildcard() -> None:
    for path in (path for path in MANIFESTS.rglob("rbac.yaml") if "templates" not in path.parts):  # test_chart.py
        for item in documents(path):
            for rule in item.get("rules", []):
                named = (rule.get(field, []) for field in ("verbs", "apiGroups", "resources", "nonResourceURLs"))
                assert "*" not in [each for names in named for each in names], item["metadata"]["name"]
            assert item.get("roleRef", {}).get("name") != "cluster-admin"


def test_a_lease_is_only_created_where_no_name_can_be_given() -> None:
    created, named = IN_ITS_NAMESPACE
    assert created["verbs"] == ["create"]
    assert named["resourceNames"] == ["waggle"]


def test_the_quick_start_names_the_rights() -> None:
    page = (Path(__file__).parents[3] / "docs" / "quickstart.md").read_text(encoding="utf-8")
    assert "manifests/base/rbac.yaml" in page

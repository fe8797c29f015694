"""The rights that are shipped are those that are used: every call is allowed, and nothing is that is never called.

The calls are those of a whole server with all that an operator can switch on, recorded on their way to the embedded API
server, and every request that the committer can make.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from extender.embedded.apiserver.server import serve_in_thread
from extender.kube.client.api import ApiServer, Exchange, Request
from extender.kube.client.kubeconfig import connect
from extender.kube.writes import requests as writes
from extender.kube.writes.correlator import Series
from extender.scheduling.commands import Evict, ReadPod, RecordEvent, RecordPreemption, RequeuePod, WriteBinding
from extender.scheduling.events import NodeSeen, PodSeen
from extender.scheduling.policy import Policy
from extender.server.cache_comparer import CacheComparer
from extender.server.service import Service
from extender.settings import ClusterSettings, LeaderElectionSettings, Settings
from tests.support.api import eventually
from tests.support.cluster_objects import node, pod
from tests.support.manifests import MANIFESTS, documents
from tests.support.rbac import Access, access, grants, rules_for

RBAC = {(item["kind"], item["metadata"]["name"]): item for item in documents(MANIFESTS / "base" / "rbac.yaml")}
EVERYWHERE = RBAC["ClusterRole", "waggle"]["rules"]
IN_ITS_NAMESPACE = RBAC["Role", "waggle"]["rules"]
#: In the tests nothing runs in a pod, so this stands for waggle-system.
OWN = "default"
GHOST = Pod(namespace="default", name="ghost", uid="u-2", node_name="ghost")


SERIES = Series(
    RecordEvent("ns", "p", "u", reason(Code.NOTHING_OFFERED)),
    name="p.1",
    text="t",
    first=datetime.now(UTC),
    last=datetime.now(UTC),
)


class RecordingApi(ApiServer):
    """An API server that keeps what it was asked."""

    def __init__(self, url: str, asked: set[Access]) -> None:
        super().__init__(connect(ClusterSettings(server=url)).endpoint)
        self._asked = asked

    def exchange(self, request: Request, **more: Any) -> Exchange:
        self._asked.add(access(request.method, request.path, request.query))
        return super().exchange(request, **more)


def every_write() -> Iterator[Access]:
    """All that extender.kube.writes.requests can make, which is all that the committer sends."""
    makers = {
        "bind": writes.bind(WriteBinding(1, "ns", "p", "u", "n")),
        "read": writes.read(ReadPod(1, "ns", "p", "u")),
        "evict": writes.evict(Evict(1, "ns", "p", "u", ("ns", "q"))),
        "mark": writes.mark(RecordPreemption(1, "ns", "p", "u", "{}")),
        "nudge": writes.nudge(RequeuePod("ns", "p", "u"), value="1"),
        "new_event": writes.new_event(SERIES, instance="i"),
        "count_event": writes.count_event(SERIES),
    }
    known = {name for name, maker in inspect.getmembers(writes, inspect.isfunction) if _makes_a_request(maker)}
    assert makers.keys() == known, "a new kind of write: add it here, and its right to manifests/base/rbac.yaml"
    for request in makers.values():
        yield access(request.method, request.path)


def _makes_a_request(maker: Any) -> bool:
    return maker.__module__ == writes.__name__ and maker.__annotations__.get("return") in ("Request", writes.Request)


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
    for path in MANIFESTS.rglob("rbac.yaml"):
        for item in documents(path):
            for rule in item.get("rules", []):
                assert "*" not in [*rule["verbs"], *rule["apiGroups"], *rule["resources"]], item["metadata"]["name"]
            assert item.get("roleRef", {}).get("name") != "cluster-admin"


def test_a_lease_is_only_created_where_no_name_can_be_given() -> None:
    created, named = IN_ITS_NAMESPACE
    assert created["verbs"] == ["create"]
    assert named["resourceNames"] == ["waggle"]


def test_the_quick_start_names_the_rights() -> None:
    page = (Path(__file__).parents[3] / "docs" / "quickstart.md").read_text(encoding="utf-8")
    assert "manifests/base/rbac.yaml" in page

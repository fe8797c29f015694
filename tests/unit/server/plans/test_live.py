"""What is read from the API server for a plan, and what becomes of a plan if it cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from extender.kube.client.api import ApiServer
from extender.kube.client.kubeconfig import connect
from extender.server.plans import live
from extender.server.plans.frames import Needs
from extender.server.plans.live import KINDS, LiveError, LiveReader
from extender.settings import ClusterSettings
from tests.support.apiserver.scripted_server import Peer, Request, ScriptedServer, reply

PODS = "/api/v1/pods"


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def api(scripted: ScriptedServer) -> Iterator[ApiServer]:
    with closing(connect(ClusterSettings(server=scripted.url))) as api:
        yield api


def page(*names: str, following: str = "") -> dict[str, object]:
    return {"metadata": {"continue": following}, "items": [{"metadata": {"name": name}} for name in names]}


def names(pages: list[bytes]) -> list[str]:
    return [item["metadata"]["name"] for body in pages for item in json.loads(body)["items"]]


def test_waiting_pods_are_read_page_by_page(scripted: ScriptedServer, api: ApiServer) -> None:
    asked: list[dict[str, str]] = []

    def answer(peer: Peer, request: Request) -> None:
        asked.append(request.query)
        reply(200, page("b") if "continue" in request.query else page("a", following="next"))(peer, request)

    scripted.on("GET", PODS, answer)
    assert names([each.page for each in LiveReader(api).waiting()]) == ["a", "b"]
    assert asked[0]["fieldSelector"] == "spec.nodeName=,status.phase=Pending"
    assert asked[1]["continue"] == "next"


def test_a_list_that_expires_is_begun_again(scripted: ScriptedServer, api: ApiServer) -> None:
    left = [True]

    def answer(peer: Peer, request: Request) -> None:
        if "continue" not in request.query:
            reply(200, page("a", following="next"))(peer, request)
        elif left.pop() if left else False:
            reply(410, {"kind": "Status", "code": 410})(peer, request)
        else:
            reply(200, page("b"))(peer, request)

    scripted.on("GET", PODS, answer)
    assert names([each.page for each in LiveReader(api).waiting()]) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "body"), [(500, {"message": "broken"}), (403, {}), (200, []), (410, {}), (200, {"items": 3})]
)
def test_without_waiting_pods_there_is_no_plan(
    scripted: ScriptedServer, api: ApiServer, status: int, body: object
) -> None:
    scripted.on("GET", PODS, reply(status, body))
    with pytest.raises(LiveError):
        list(LiveReader(api).waiting())


def test_a_list_that_is_too_large_is_given_up(
    scripted: ScriptedServer, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_BYTES", 200)
    scripted.on("GET", PODS, reply(200, page("a" * 100, following="next")))
    with pytest.raises(LiveError, match="more than"):
        list(LiveReader(api).waiting())


def test_a_token_that_leads_nowhere_ends_the_list(scripted: ScriptedServer, api: ApiServer) -> None:
    scripted.on("GET", PODS, reply(200, page("a", following="same")))
    assert len(list(LiveReader(api).waiting())) == 2


def test_kinds_that_may_not_be_listed_or_do_not_exist_are_no_fault(scripted: ScriptedServer, api: ApiServer) -> None:
    for kind in KINDS:
        status = {"jobs": 403, "jobsets": 404, "deployments": 500}.get(kind.plural, 200)
        scripted.on("GET", f"/apis/{kind.api_version}/{kind.plural}", reply(status, page(kind.plural)))
    reader = LiveReader(api)
    found = {each.kind for each in reader.objects() if json.loads(each.page)["items"]}
    assert found == {"PriorityClass", "PodDisruptionBudget", "PodGroup", "ReplicaSet", "StatefulSet"}
    assert any(note.startswith("deployments are not considered") for note in reader.notes)
    assert "not considered, since the server has no right to list them: jobs, jobs" in reader.notes


def test_pods_that_cannot_be_read_in_full_are_noted(scripted: ScriptedServer, api: ApiServer) -> None:
    asked: list[tuple[str, dict[str, str]]] = []

    def answer(peer: Peer, request: Request) -> None:
        asked.append((request.path, request.query))
        reply(200 if "labelSelector" in request.query else 500, page("a"))(peer, request)

    for path in (PODS, "/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"):
        scripted.on("GET", path, answer)
    reader = LiveReader(api)
    needs = Needs(nodes=("n1",), namespaces=("a",), selected=(("b", "x=y"),))
    assert names([each.page for each in reader.pods(needs)]) == ["a"]
    assert [query.get("fieldSelector") for _, query in asked] == ["spec.nodeName=n1", None, None]
    assert len(reader.notes) == 2


def test_pods_that_are_said_not_to_exist_are_no_empty_list(scripted: ScriptedServer, api: ApiServer) -> None:
    scripted.on("GET", PODS, reply(404, {"message": "not here"}))
    with pytest.raises(LiveError, match="404"):
        list(LiveReader(api).waiting())
